package wire

import (
	"encoding/binary"
	"math"
)

// Sizes of the messages on the wire, bytes.
const (
	LowCmdSize    = 614
	LowStateSize  = 807
	HighCmdSize   = 129
	HighStateSize = 1087
)

const (
	// Motors is the number of motor records in a message.
	Motors = 20
	// Joints is the number of them a Go1 has: index leg*3 + joint, legs FR FL RR RL, joints hip thigh calf.
	Joints = 12
	// RemoteSize is the hand remote's share of a message, bytes.
	RemoteSize = 40
)

// The two bytes every message begins with, at both levels.
const (
	HeadLow0 = 0xFE
	HeadLow1 = 0xEF
)

// Level flags the maker's SDK writes.
const (
	LevelLow  = 0xFF
	LevelHigh = 0xEE
)

// Motor modes, from the maker's headers.
const (
	// ModeDamping: the motor is off its servo.
	ModeDamping = 0x00
	// ModeOverheat is only reported, never commanded.
	ModeOverheat = 0x08
	// ModeServo: the motor follows q, dq, tau with Kp and Kd.
	ModeServo = 0x0A
)

// Header is the 22 bytes in front of every message. The maker's SDK leaves all but Head and LevelFlag at 0. There
// is no sequence number and no time in it.
type Header struct {
	Head         [2]byte // FE EF
	LevelFlag    uint8   // LevelLow, LevelHigh; a receiver takes any, see FormFor
	FrameReserve uint8
	SN           [2]uint32
	Version      [2]uint32
	BandWidth    uint16
}

// Layout of the parts that messages share, bytes.
const (
	offBody     = 22
	imuSize     = 53
	bmsHeadSize = 14 // the battery's record without its cells
)

func (h *Header) put(b *[offBody]byte) {
	b[0], b[1] = h.Head[0], h.Head[1]
	b[2], b[3] = h.LevelFlag, h.FrameReserve
	putU32s(b[4:12], h.SN[:])
	putU32s(b[12:20], h.Version[:])
	binary.LittleEndian.PutUint16(b[20:], h.BandWidth)
}

func (h *Header) get(b *[offBody]byte) {
	h.Head = [2]byte{b[0], b[1]}
	h.LevelFlag, h.FrameReserve = b[2], b[3]
	getU32s(h.SN[:], b[4:12])
	getU32s(h.Version[:], b[12:20])
	h.BandWidth = binary.LittleEndian.Uint16(b[20:])
}

// IMU is the body's inertial unit as the robot reports it.
type IMU struct {
	Quaternion    [4]float32 // w x y z
	Gyroscope     [3]float32 // rad/s, body frame
	Accelerometer [3]float32 // m/s2, body frame
	RPY           [3]float32 // roll pitch yaw, rad
	Temperature   int8       // C
}

func (m *IMU) put(b *[imuSize]byte) {
	putF32s(b[0:16], m.Quaternion[:])
	putF32s(b[16:28], m.Gyroscope[:])
	putF32s(b[28:40], m.Accelerometer[:])
	putF32s(b[40:52], m.RPY[:])
	b[52] = uint8(m.Temperature)
}

func (m *IMU) get(b *[imuSize]byte) {
	getF32s(m.Quaternion[:], b[0:16])
	getF32s(m.Gyroscope[:], b[16:28])
	getF32s(m.Accelerometer[:], b[28:40])
	getF32s(m.RPY[:], b[40:52])
	m.Temperature = int8(b[52])
}

// BMS is the battery as the robot reports it.
type BMS struct {
	VersionH, VersionL uint8
	Status             uint8
	SOC                uint8      // state of charge, %
	Current            int32      // mA
	Cycle              uint16     // charge cycles
	BQNTC              [2]int8    // C, at the cells
	MCUNTC             [2]int8    // C, at the board
	CellVoltage        [10]uint16 // mV; LowState carries steps of 32 mV, see AppendLowState
}

func (m *BMS) putHead(b *[bmsHeadSize]byte) {
	b[0], b[1], b[2], b[3] = m.VersionH, m.VersionL, m.Status, m.SOC
	binary.LittleEndian.PutUint32(b[4:], uint32(m.Current))
	binary.LittleEndian.PutUint16(b[8:], m.Cycle)
	b[10], b[11] = uint8(m.BQNTC[0]), uint8(m.BQNTC[1])
	b[12], b[13] = uint8(m.MCUNTC[0]), uint8(m.MCUNTC[1])
}

func (m *BMS) getHead(b *[bmsHeadSize]byte) {
	m.VersionH, m.VersionL, m.Status, m.SOC = b[0], b[1], b[2], b[3]
	m.Current = int32(binary.LittleEndian.Uint32(b[4:]))
	m.Cycle = binary.LittleEndian.Uint16(b[8:])
	m.BQNTC = [2]int8{int8(b[10]), int8(b[11])}
	m.MCUNTC = [2]int8{int8(b[12]), int8(b[13])}
}

// grow appends n bytes to dst and returns the longer slice and the new bytes, whose content the caller writes whole.
func grow(dst []byte, n int) (all, frame []byte) {
	at := len(dst)
	if cap(dst)-at >= n {
		all = dst[:at+n]
	} else {
		all = append(dst, make([]byte, n)...)
	}
	return all, all[at:]
}

func f32(b []byte) float32       { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
func putF32(b []byte, v float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(v)) }

func i16(b []byte) int16       { return int16(binary.LittleEndian.Uint16(b)) }
func putI16(b []byte, v int16) { binary.LittleEndian.PutUint16(b, uint16(v)) }

func putF32s(b []byte, v []float32) {
	for i := range v {
		putF32(b[4*i:], v[i])
	}
}

func getF32s(v []float32, b []byte) {
	for i := range v {
		v[i] = f32(b[4*i:])
	}
}

func putU32s(b []byte, v []uint32) {
	for i := range v {
		binary.LittleEndian.PutUint32(b[4*i:], v[i])
	}
}

func getU32s(v []uint32, b []byte) {
	for i := range v {
		v[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
}

func putI16s(b []byte, v []int16) {
	for i := range v {
		putI16(b[2*i:], v[i])
	}
}

func getI16s(v []int16, b []byte) {
	for i := range v {
		v[i] = i16(b[2*i:])
	}
}

// finite says that v is neither NaN nor an infinity.
func finite(v float32) bool { return v-v == 0 }

// badForm says that form is none of the two.
func badForm(form CRCForm) bool { return form > EncryptedCRC }

// covered is the number of bytes under the CRC in a frame of n bytes: the maker takes n/4 rounded down, less one, words.
func covered(n int) int { return (n/4 - 1) * 4 }

// seal writes the CRC of the frame b, all of it, into its last four bytes.
func seal(b []byte, form CRCForm) {
	crc := CRC32(b[:covered(len(b))])
	if form == EncryptedCRC {
		crc = EncryptCRC(crc)
	}
	binary.LittleEndian.PutUint32(b[len(b)-4:], crc)
}

// open checks length, head and CRC of a frame of message m, in this order, and returns the form its CRC came in.
func open(m Message, size int, b []byte) (CRCForm, error) {
	if len(b) != size {
		return 0, lengthError(m, len(b))
	}
	if b[0] != HeadLow0 || b[1] != HeadLow1 {
		return 0, frameError(m, RejectHead)
	}
	crc := CRC32(b[:covered(size)])
	switch binary.LittleEndian.Uint32(b[size-4:]) {
	case crc:
		return PlainCRC, nil
	case EncryptCRC(crc):
		return EncryptedCRC, nil
	}
	return 0, frameError(m, RejectCRC)
}

// openState is open for frames whose level flag says which form the CRC must have.
func openState(m Message, size int, b []byte) error {
	form, err := open(m, size, b)
	if err != nil {
		return err
	}
	if form != FormFor(b[2]) {
		return frameError(m, RejectLevel)
	}
	return nil
}
