package wire

import "encoding/binary"

// MotorCmd is one motor's command. The motor's own law is torque = Kp*(Q-q) + Kd*(Dq-dq) + Tau, in mode ModeServo.
type MotorCmd struct {
	Mode    uint8   // ModeServo, ModeDamping
	Q       float32 // rad
	Dq      float32 // rad/s
	Tau     float32 // N.m, within -128..128, both excluded; steps of 1/256
	Kp      float32 // N.m/rad, 0 to below 1024; steps of 1/32
	Kd      float32 // N.m.s/rad, 0 to below 2048; steps of 1/16
	Reserve [3]uint32
}

// LowCmd is a command to the motors.
type LowCmd struct {
	Header
	Motor      [Motors]MotorCmd
	BMSOff     uint8 // 0xA5 turns the robot's battery off; nothing of ours sets it
	BMSReserve [3]uint8
	Remote     [RemoteSize]byte
	Reserve    uint32 // its top half lies outside the CRC
}

// Init makes c an empty command at low level: head FE EF, level flag FF, all else zero.
//
// The maker's InitCmdData would also write mode 0x0A with the stop values PosStopF (2.146e9 rad) and VelStopF
// (16000 rad/s). They mean nothing only while Kp and Kd are 0: any gain added later turns them into full torque, and the
// maker's own position limit turns PosStopF into the joint's upper limit. So they are never sent; zeros with mode 0 command
// no torque whatever is added later by mistake of order.
func (c *LowCmd) Init() {
	*c = LowCmd{Header: Header{Head: [2]byte{HeadLow0, HeadLow1}, LevelFlag: LevelLow}}
}

// Layout of LowCmd, bytes.
const (
	motorCmdSize     = 27
	lowCmdMotor      = offBody
	lowCmdBMS        = lowCmdMotor + Motors*motorCmdSize
	lowCmdRemote     = lowCmdBMS + 4
	lowCmdReserve    = lowCmdRemote + RemoteSize
	lowCmdSizeByPart = lowCmdReserve + 8
)

var _ = [1]struct{}{}[lowCmdSizeByPart-LowCmdSize] // does not compile unless the parts add up

// Scales of the 16-bit fields, steps per unit.
const (
	tauScale = 256
	kpScale  = 32
	kdScale  = 16
)

// AppendLowCmd appends c as 614 bytes with its CRC in form. It refuses, with dst unchanged and an error naming motor and
// field, any non-finite Q, Dq, Tau, Kp, Kd (RejectNonFinite) and Tau, Kp, Kd out of the range above (RejectRange),
// where the maker's code would wrap or send what the platform's conversion happens to give. All 20 motors are checked.
func AppendLowCmd(dst []byte, c *LowCmd, form CRCForm) ([]byte, error) {
	if badForm(form) {
		return dst, rangeError(MessageLowCmd, FieldCRCForm, 0)
	}
	for i := range c.Motor {
		if err := c.Motor[i].check(i); err != nil {
			return dst, err
		}
	}
	all, b := grow(dst, LowCmdSize)
	c.Header.put((*[offBody]byte)(b))
	for i := range c.Motor {
		c.Motor[i].put((*[motorCmdSize]byte)(b[lowCmdMotor+i*motorCmdSize:]))
	}
	b[lowCmdBMS] = c.BMSOff
	copy(b[lowCmdBMS+1:], c.BMSReserve[:])
	copy(b[lowCmdRemote:], c.Remote[:])
	binary.LittleEndian.PutUint32(b[lowCmdReserve:], c.Reserve)
	seal(b, form)
	return all, nil
}

func (m *MotorCmd) check(i int) error {
	switch {
	case !finite(m.Q):
		return nonFiniteError(MessageLowCmd, FieldQ, i)
	case !finite(m.Dq):
		return nonFiniteError(MessageLowCmd, FieldDq, i)
	}
	if m.Tau > -128 && m.Tau < 128 && m.Kp >= 0 && m.Kp < 1024 && m.Kd >= 0 && m.Kd < 2048 {
		return nil
	}
	switch {
	case !finite(m.Tau):
		return nonFiniteError(MessageLowCmd, FieldTau, i)
	case m.Tau <= -128 || m.Tau >= 128:
		return rangeError(MessageLowCmd, FieldTau, i)
	case !finite(m.Kp):
		return nonFiniteError(MessageLowCmd, FieldKp, i)
	case m.Kp < 0 || m.Kp >= 1024:
		return rangeError(MessageLowCmd, FieldKp, i)
	case !finite(m.Kd):
		return nonFiniteError(MessageLowCmd, FieldKd, i)
	}
	return rangeError(MessageLowCmd, FieldKd, i)
}

func (m *MotorCmd) put(b *[motorCmdSize]byte) {
	b[0] = m.Mode
	putF32(b[1:], m.Q)
	putF32(b[5:], m.Dq)
	// Go truncates toward zero, as the maker's code does; check has kept the products inside int16.
	putI16(b[9:], int16(m.Tau*tauScale))
	putI16(b[11:], int16(m.Kp*kpScale))
	putI16(b[13:], int16(m.Kd*kdScale))
	putU32s(b[15:27], m.Reserve[:])
}

// OnWire is Tau, Kp and Kd as the motor reads them, on the steps above; m must be one that AppendLowCmd takes. A step of Kd, 1/16,
// is 1.7 N.m at a joint's highest speed: whoever reckons with the motor's torque reckons with these.
func (m *MotorCmd) OnWire() (tau, kp, kd float32) {
	return float32(int16(m.Tau*tauScale)) / tauScale, float32(int16(m.Kp*kpScale)) / kpScale, float32(int16(m.Kd*kdScale)) / kdScale
}

func (m *MotorCmd) get(b *[motorCmdSize]byte) {
	m.Mode = b[0]
	m.Q = f32(b[1:])
	m.Dq = f32(b[5:])
	m.Tau = float32(i16(b[9:])) / tauScale
	m.Kp = float32(i16(b[11:])) / kpScale
	m.Kd = float32(i16(b[13:])) / kdScale
	getU32s(m.Reserve[:], b[15:27])
}

// DecodeLowCmd reads a command of exactly 614 bytes into c and returns the form its CRC came in; it takes either form with
// any level flag. When it refuses, c is untouched. Values are not judged: Q and Dq may be NaN or infinite, Kp and
// Kd negative (they are read as signed, which is likely but not certain), Tau -128.
func DecodeLowCmd(b []byte, c *LowCmd) (CRCForm, error) {
	form, err := open(MessageLowCmd, LowCmdSize, b)
	if err != nil {
		return 0, err
	}
	c.Header.get((*[offBody]byte)(b))
	for i := range c.Motor {
		c.Motor[i].get((*[motorCmdSize]byte)(b[lowCmdMotor+i*motorCmdSize:]))
	}
	c.BMSOff = b[lowCmdBMS]
	copy(c.BMSReserve[:], b[lowCmdBMS+1:])
	copy(c.Remote[:], b[lowCmdRemote:])
	c.Reserve = binary.LittleEndian.Uint32(b[lowCmdReserve:])
	return form, nil
}
