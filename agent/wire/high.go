package wire

import "encoding/binary"

// Modes of the robot's own sport controller, from the maker's headers. Modes 3, 4 and 9 are reserved there.
const (
	HighModeIdle         = 0
	HighModeForceStand   = 1
	HighModeVelocityWalk = 2
	HighModePositionWalk = 3
	HighModePath         = 4
	HighModeStandDown    = 5
	HighModeStandUp      = 6
	HighModeDamping      = 7
	HighModeRecovery     = 8
	HighModeBackflip     = 9
	HighModeJumpYaw      = 10
	HighModeStraightHand = 11
)

// HighCmd is a command to the robot's own sport controller. Ranges given by the maker's headers, which neither the SDK
// nor this package enforces: body height -0.13..0.03 m, foot raise height -0.06..0.03 m, roll and pitch ±0.75 rad, yaw
// ±0.6 rad, trot vx -1.1..1.5 m/s, vy ±1 m/s, yaw speed ±4 rad/s.
type HighCmd struct {
	Header
	Mode            uint8 // HighModeIdle and so on
	GaitType        uint8 // 0 idle, 1 trot, 2 trot running, 3 stairs, 4 trot over obstacles
	SpeedLevel      uint8
	FootRaiseHeight float32    // m
	BodyHeight      float32    // m
	Position        [2]float32 // m
	Euler           [3]float32 // roll pitch yaw, rad
	Velocity        [2]float32 // forward, left, m/s
	YawSpeed        float32    // rad/s
	BMSOff          uint8      // 0xA5 turns the robot's battery off; nothing of ours sets it
	BMSReserve      [3]uint8
	LED             [4][3]uint8 // r g b
	Remote          [RemoteSize]byte
	Reserve         uint32 // its top byte lies outside the CRC
}

// Init makes c an empty command to sport mode: head FE EF, level flag EE, all else zero.
func (c *HighCmd) Init() {
	*c = HighCmd{Header: Header{Head: [2]byte{HeadLow0, HeadLow1}, LevelFlag: LevelHigh}}
}

// Layout of HighCmd, bytes.
const (
	highCmdFootRaise  = offBody + 3
	highCmdBodyHeight = highCmdFootRaise + 4
	highCmdPosition   = highCmdBodyHeight + 4
	highCmdEuler      = highCmdPosition + 8
	highCmdVelocity   = highCmdEuler + 12
	highCmdYawSpeed   = highCmdVelocity + 8
	highCmdBMS        = highCmdYawSpeed + 4
	highCmdLED        = highCmdBMS + 4
	highCmdRemote     = highCmdLED + 12
	highCmdReserve    = highCmdRemote + RemoteSize
	highCmdSizeByPart = highCmdReserve + 8
)

var _ = [1]struct{}{}[highCmdSizeByPart-HighCmdSize] // does not compile unless the parts add up

// AppendHighCmd appends c as 129 bytes with its CRC in form. It refuses, with dst unchanged, any non-finite float.
func AppendHighCmd(dst []byte, c *HighCmd, form CRCForm) ([]byte, error) {
	if badForm(form) {
		return dst, rangeError(MessageHighCmd, FieldCRCForm, 0)
	}
	if err := c.check(); err != nil {
		return dst, err
	}
	all, b := grow(dst, HighCmdSize)
	c.Header.put((*[offBody]byte)(b))
	b[offBody], b[offBody+1], b[offBody+2] = c.Mode, c.GaitType, c.SpeedLevel
	putF32(b[highCmdFootRaise:], c.FootRaiseHeight)
	putF32(b[highCmdBodyHeight:], c.BodyHeight)
	putF32s(b[highCmdPosition:], c.Position[:])
	putF32s(b[highCmdEuler:], c.Euler[:])
	putF32s(b[highCmdVelocity:], c.Velocity[:])
	putF32(b[highCmdYawSpeed:], c.YawSpeed)
	b[highCmdBMS] = c.BMSOff
	copy(b[highCmdBMS+1:], c.BMSReserve[:])
	for i := range c.LED {
		copy(b[highCmdLED+3*i:], c.LED[i][:])
	}
	copy(b[highCmdRemote:], c.Remote[:])
	binary.LittleEndian.PutUint32(b[highCmdReserve:], c.Reserve)
	seal(b, form)
	return all, nil
}

func (c *HighCmd) check() error {
	switch {
	case !finite(c.FootRaiseHeight):
		return nonFiniteError(MessageHighCmd, FieldFootRaiseHeight, 0)
	case !finite(c.BodyHeight):
		return nonFiniteError(MessageHighCmd, FieldBodyHeight, 0)
	case !finite(c.YawSpeed):
		return nonFiniteError(MessageHighCmd, FieldYawSpeed, 0)
	}
	for i, v := range c.Position {
		if !finite(v) {
			return nonFiniteError(MessageHighCmd, FieldPosition, i)
		}
	}
	for i, v := range c.Euler {
		if !finite(v) {
			return nonFiniteError(MessageHighCmd, FieldEuler, i)
		}
	}
	for i, v := range c.Velocity {
		if !finite(v) {
			return nonFiniteError(MessageHighCmd, FieldVelocity, i)
		}
	}
	return nil
}

// DecodeHighCmd reads a command of exactly 129 bytes into c and returns the form its CRC came in; it takes either form with
// any level flag. When it refuses, c is untouched. Values are not judged, NaN passes through.
func DecodeHighCmd(b []byte, c *HighCmd) (CRCForm, error) {
	form, err := open(MessageHighCmd, HighCmdSize, b)
	if err != nil {
		return 0, err
	}
	c.Header.get((*[offBody]byte)(b))
	c.Mode, c.GaitType, c.SpeedLevel = b[offBody], b[offBody+1], b[offBody+2]
	c.FootRaiseHeight = f32(b[highCmdFootRaise:])
	c.BodyHeight = f32(b[highCmdBodyHeight:])
	getF32s(c.Position[:], b[highCmdPosition:])
	getF32s(c.Euler[:], b[highCmdEuler:])
	getF32s(c.Velocity[:], b[highCmdVelocity:])
	c.YawSpeed = f32(b[highCmdYawSpeed:])
	c.BMSOff = b[highCmdBMS]
	copy(c.BMSReserve[:], b[highCmdBMS+1:])
	for i := range c.LED {
		copy(c.LED[i][:], b[highCmdLED+3*i:])
	}
	copy(c.Remote[:], b[highCmdRemote:])
	c.Reserve = binary.LittleEndian.Uint32(b[highCmdReserve:])
	return form, nil
}

// HighMotorState is one motor as sport mode reports it: MotorState with nothing scaled or cut.
type HighMotorState struct {
	Mode        uint8
	Q           float32 // rad
	Dq          float32 // rad/s
	Ddq         float32 // rad/s2
	TauEst      float32 // N.m
	QRaw        float32 // rad
	DqRaw       float32 // rad/s
	DdqRaw      float32 // rad/s2
	Temperature int8    // C
	Reserve     [2]uint32
}

// HighState is the report of the robot's own sport controller. One that arrives says that sport mode is running.
type HighState struct {
	Header
	IMU               IMU
	Motor             [Motors]HighMotorState
	BMS               BMS
	FootForce         [4]int16 // raw sensor counts, legs FR FL RR RL
	FootForceEst      [4]int16
	Mode              uint8 // HighModeIdle and so on
	Progress          float32
	GaitType          uint8      // as in HighCmd
	FootRaiseHeight   float32    // m
	Position          [3]float32 // m, the robot's own odometry
	BodyHeight        float32    // m
	Velocity          [3]float32 // m/s
	YawSpeed          float32    // rad/s
	RangeObstacle     [4]float32 // m
	FootPosition2Body [4][3]float32
	FootSpeed2Body    [4][3]float32
	Remote            [RemoteSize]byte
	Reserve           uint32 // all but its lowest byte lies outside the CRC
}

// Init makes s an empty report of sport mode: head FE EF, level flag EE, all else zero.
func (s *HighState) Init() {
	*s = HighState{Header: Header{Head: [2]byte{HeadLow0, HeadLow1}, LevelFlag: LevelHigh}}
}

// Layout of HighState, bytes.
const (
	highMotorSize       = 38
	highStateMotor      = offBody + imuSize
	highStateBMS        = highStateMotor + Motors*highMotorSize
	highStateCells      = highStateBMS + bmsHeadSize
	highStateFootForce  = highStateCells + 20
	highStateFootEst    = highStateFootForce + 8
	highStateMode       = highStateFootEst + 8
	highStateProgress   = highStateMode + 1
	highStateGait       = highStateProgress + 4
	highStateFootRaise  = highStateGait + 1
	highStatePosition   = highStateFootRaise + 4
	highStateBodyHeight = highStatePosition + 12
	highStateVelocity   = highStateBodyHeight + 4
	highStateYawSpeed   = highStateVelocity + 12
	highStateRange      = highStateYawSpeed + 4
	highStateFootPos    = highStateRange + 16
	highStateFootSpeed  = highStateFootPos + 48
	highStateRemote     = highStateFootSpeed + 48
	highStateReserve    = highStateRemote + RemoteSize
	highStateSizeByPart = highStateReserve + 8
)

var _ = [1]struct{}{}[highStateSizeByPart-HighStateSize] // does not compile unless the parts add up

// AppendHighState appends s as 1087 bytes with its CRC in form; a receiver wants FormFor(s.LevelFlag). Only an unknown
// form is refused: the message carries every value of the struct, NaN and infinities too.
func AppendHighState(dst []byte, s *HighState, form CRCForm) ([]byte, error) {
	if badForm(form) {
		return dst, rangeError(MessageHighState, FieldCRCForm, 0)
	}
	all, b := grow(dst, HighStateSize)
	s.Header.put((*[offBody]byte)(b))
	s.IMU.put((*[imuSize]byte)(b[offBody:]))
	for i := range s.Motor {
		s.Motor[i].put((*[highMotorSize]byte)(b[highStateMotor+i*highMotorSize:]))
	}
	s.BMS.putHead((*[bmsHeadSize]byte)(b[highStateBMS:]))
	for i, mV := range s.BMS.CellVoltage {
		binary.LittleEndian.PutUint16(b[highStateCells+2*i:], mV)
	}
	putI16s(b[highStateFootForce:], s.FootForce[:])
	putI16s(b[highStateFootEst:], s.FootForceEst[:])
	b[highStateMode] = s.Mode
	putF32(b[highStateProgress:], s.Progress)
	b[highStateGait] = s.GaitType
	putF32(b[highStateFootRaise:], s.FootRaiseHeight)
	putF32s(b[highStatePosition:], s.Position[:])
	putF32(b[highStateBodyHeight:], s.BodyHeight)
	putF32s(b[highStateVelocity:], s.Velocity[:])
	putF32(b[highStateYawSpeed:], s.YawSpeed)
	putF32s(b[highStateRange:], s.RangeObstacle[:])
	for leg := range s.FootPosition2Body {
		putF32s(b[highStateFootPos+12*leg:], s.FootPosition2Body[leg][:])
		putF32s(b[highStateFootSpeed+12*leg:], s.FootSpeed2Body[leg][:])
	}
	copy(b[highStateRemote:], s.Remote[:])
	binary.LittleEndian.PutUint32(b[highStateReserve:], s.Reserve)
	seal(b, form)
	return all, nil
}

func (m *HighMotorState) put(b *[highMotorSize]byte) {
	b[0] = m.Mode
	putF32s(b[1:29], []float32{m.Q, m.Dq, m.Ddq, m.TauEst, m.QRaw, m.DqRaw, m.DdqRaw})
	b[29] = uint8(m.Temperature)
	putU32s(b[30:38], m.Reserve[:])
}

func (m *HighMotorState) get(b *[highMotorSize]byte) {
	m.Mode = b[0]
	m.Q, m.Dq, m.Ddq = f32(b[1:]), f32(b[5:]), f32(b[9:])
	m.TauEst = f32(b[13:])
	m.QRaw, m.DqRaw, m.DdqRaw = f32(b[17:]), f32(b[21:]), f32(b[25:])
	m.Temperature = int8(b[29])
	getU32s(m.Reserve[:], b[30:38])
}

// DecodeHighState reads a report of exactly 1087 bytes into s. The CRC must be in the form the level flag asks for
// (FormFor). When it refuses, s is untouched. Values are not judged, NaN passes through.
func DecodeHighState(b []byte, s *HighState) error {
	if err := openState(MessageHighState, HighStateSize, b); err != nil {
		return err
	}
	s.Header.get((*[offBody]byte)(b))
	s.IMU.get((*[imuSize]byte)(b[offBody:]))
	for i := range s.Motor {
		s.Motor[i].get((*[highMotorSize]byte)(b[highStateMotor+i*highMotorSize:]))
	}
	s.BMS.getHead((*[bmsHeadSize]byte)(b[highStateBMS:]))
	for i := range s.BMS.CellVoltage {
		s.BMS.CellVoltage[i] = binary.LittleEndian.Uint16(b[highStateCells+2*i:])
	}
	getI16s(s.FootForce[:], b[highStateFootForce:])
	getI16s(s.FootForceEst[:], b[highStateFootEst:])
	s.Mode = b[highStateMode]
	s.Progress = f32(b[highStateProgress:])
	s.GaitType = b[highStateGait]
	s.FootRaiseHeight = f32(b[highStateFootRaise:])
	getF32s(s.Position[:], b[highStatePosition:])
	s.BodyHeight = f32(b[highStateBodyHeight:])
	getF32s(s.Velocity[:], b[highStateVelocity:])
	s.YawSpeed = f32(b[highStateYawSpeed:])
	getF32s(s.RangeObstacle[:], b[highStateRange:])
	for leg := range s.FootPosition2Body {
		getF32s(s.FootPosition2Body[leg][:], b[highStateFootPos+12*leg:])
		getF32s(s.FootSpeed2Body[leg][:], b[highStateFootSpeed+12*leg:])
	}
	copy(s.Remote[:], b[highStateRemote:])
	s.Reserve = binary.LittleEndian.Uint32(b[highStateReserve:])
	return nil
}
