package wire

import "encoding/binary"

// MotorState is one motor as the robot reports it at low level.
type MotorState struct {
	Mode        uint8   // ModeServo, ModeDamping, ModeOverheat
	Q           float32 // rad
	Dq          float32 // rad/s
	Ddq         int16   // rad/s2, whole numbers
	TauEst      float32 // N.m, -128 to below 128; steps of 1/256
	QRaw        float32 // rad
	DqRaw       float32 // rad/s
	DdqRaw      int16   // rad/s2, whole numbers
	Temperature int8    // C
	Reserve     [2]uint32
}

// LowState is the robot's report at low level.
type LowState struct {
	Header
	IMU          IMU
	Motor        [Motors]MotorState
	BMS          BMS
	FootForce    [4]int16 // raw sensor counts, legs FR FL RR RL
	FootForceEst [4]int16
	Tick         uint32 // ms of the robot's clock; the maker's receiver does not look at it
	Remote       [RemoteSize]byte
	Reserve      uint32 // all but its lowest byte lies outside the CRC
}

// Init makes s an empty state at low level: head FE EF, level flag FF, all else zero (so no valid pose: q = 0 is out
// of a calf's reach, and the quaternion is 0).
func (s *LowState) Init() {
	*s = LowState{Header: Header{Head: [2]byte{HeadLow0, HeadLow1}, LevelFlag: LevelLow}}
}

// Layout of LowState, bytes.
const (
	motorStateSize     = 32
	lowStateMotor      = offBody + imuSize
	lowStateBMS        = lowStateMotor + Motors*motorStateSize
	lowStateCells      = lowStateBMS + bmsHeadSize
	lowStateFootForce  = lowStateCells + 10
	lowStateFootEst    = lowStateFootForce + 8
	lowStateTick       = lowStateFootEst + 8
	lowStateRemote     = lowStateTick + 4
	lowStateReserve    = lowStateRemote + RemoteSize
	lowStateSizeByPart = lowStateReserve + 8
)

var _ = [1]struct{}{}[lowStateSizeByPart-LowStateSize] // does not compile unless the parts add up

// cellStep is what one count of a LowState's cell voltage stands for, mV.
const cellStep = 32

// AppendLowState appends s as 807 bytes with its CRC in form; a receiver wants FormFor(s.LevelFlag). It refuses, with dst
// unchanged, a TauEst or a cell voltage its field cannot carry; both are cut down to their step (1/256 N.m toward
// zero, 32 mV). NaN and infinities in the other floats go out as they are, as the SDK lets them.
func AppendLowState(dst []byte, s *LowState, form CRCForm) ([]byte, error) {
	if badForm(form) {
		return dst, rangeError(MessageLowState, FieldCRCForm, 0)
	}
	for i := range s.Motor {
		if tau := s.Motor[i].TauEst; !(tau >= -128 && tau < 128) {
			if !finite(tau) {
				return dst, nonFiniteError(MessageLowState, FieldTauEst, i)
			}
			return dst, rangeError(MessageLowState, FieldTauEst, i)
		}
	}
	for i, mV := range s.BMS.CellVoltage {
		if mV >= 256*cellStep {
			return dst, rangeError(MessageLowState, FieldCellVoltage, i)
		}
	}
	all, b := grow(dst, LowStateSize)
	s.Header.put((*[offBody]byte)(b))
	s.IMU.put((*[imuSize]byte)(b[offBody:]))
	for i := range s.Motor {
		s.Motor[i].put((*[motorStateSize]byte)(b[lowStateMotor+i*motorStateSize:]))
	}
	s.BMS.putHead((*[bmsHeadSize]byte)(b[lowStateBMS:]))
	for i, mV := range s.BMS.CellVoltage {
		b[lowStateCells+i] = uint8(mV / cellStep)
	}
	putI16s(b[lowStateFootForce:], s.FootForce[:])
	putI16s(b[lowStateFootEst:], s.FootForceEst[:])
	binary.LittleEndian.PutUint32(b[lowStateTick:], s.Tick)
	copy(b[lowStateRemote:], s.Remote[:])
	binary.LittleEndian.PutUint32(b[lowStateReserve:], s.Reserve)
	seal(b, form)
	return all, nil
}

func (m *MotorState) put(b *[motorStateSize]byte) {
	b[0] = m.Mode
	putF32(b[1:], m.Q)
	putF32(b[5:], m.Dq)
	putI16(b[9:], m.Ddq)
	putI16(b[11:], int16(m.TauEst*tauScale))
	putF32(b[13:], m.QRaw)
	putF32(b[17:], m.DqRaw)
	putI16(b[21:], m.DdqRaw)
	b[23] = uint8(m.Temperature)
	putU32s(b[24:32], m.Reserve[:])
}

func (m *MotorState) get(b *[motorStateSize]byte) {
	m.Mode = b[0]
	m.Q = f32(b[1:])
	m.Dq = f32(b[5:])
	m.Ddq = i16(b[9:])
	m.TauEst = float32(i16(b[11:])) / tauScale
	m.QRaw = f32(b[13:])
	m.DqRaw = f32(b[17:])
	m.DdqRaw = i16(b[21:])
	m.Temperature = int8(b[23])
	getU32s(m.Reserve[:], b[24:32])
}

// DecodeLowState reads a state of exactly 807 bytes into s. The CRC must be in the form the level flag asks for
// (FormFor); the flag itself may be anything, as with the maker's receiver. When it refuses, s is untouched. Values are
// not judged: NaN and infinities pass through for agent/safety to find.
func DecodeLowState(b []byte, s *LowState) error {
	if err := openState(MessageLowState, LowStateSize, b); err != nil {
		return err
	}
	s.Header.get((*[offBody]byte)(b))
	s.IMU.get((*[imuSize]byte)(b[offBody:]))
	for i := range s.Motor {
		s.Motor[i].get((*[motorStateSize]byte)(b[lowStateMotor+i*motorStateSize:]))
	}
	s.BMS.getHead((*[bmsHeadSize]byte)(b[lowStateBMS:]))
	for i := range s.BMS.CellVoltage {
		s.BMS.CellVoltage[i] = uint16(b[lowStateCells+i]) * cellStep
	}
	getI16s(s.FootForce[:], b[lowStateFootForce:])
	getI16s(s.FootForceEst[:], b[lowStateFootEst:])
	s.Tick = binary.LittleEndian.Uint32(b[lowStateTick:])
	copy(s.Remote[:], b[lowStateRemote:])
	s.Reserve = binary.LittleEndian.Uint32(b[lowStateReserve:])
	return nil
}
