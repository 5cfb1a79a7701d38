package wire

import "encoding/binary"

// Buttons of the hand remote, bits of Remote.Buttons.
const (
	ButtonR1 uint16 = 1 << iota
	ButtonL1
	ButtonStart
	ButtonSelect
	ButtonR2
	ButtonL2
	ButtonF1
	ButtonF2
	ButtonA
	ButtonB
	ButtonX
	ButtonY
	ButtonUp
	ButtonRight
	ButtonDown
	ButtonLeft
)

// The two bytes in front of a remote that is there. They are our own choice, not a constant of the SDK: its header
// only says that there are two head bytes, and nothing public shows what a real Go1 puts there with the remote off.
const (
	RemoteHead0 = 0x55
	RemoteHead1 = 0x51
)

// Remote is the hand remote, from the 40 bytes that every message carries. The SDK hands them on unchecked and so does
// DecodeRemote: a stick may read NaN or beyond ±1, and who drives with it must look. The SDK's header gives the sticks
// no unit and no sign; the recorded cases use -1..1.
//
//	0 head u8 x 2, 2 buttons u16, 4 lx, 8 rx, 12 ry, 16 L2, 20 ly (f32 each), 24 idle 16 bytes
type Remote struct {
	Head    [2]byte
	Buttons uint16  // ButtonR1 and so on
	Lx, Rx  float32 // sideways, left and right stick
	Ry      float32 // lengthways, right stick
	L2      float32 // how far the trigger is pulled
	Ly      float32 // lengthways, left stick
}

// DecodeRemote reads the 40 bytes into r, all of it. The 16 idle bytes are not kept. There is nothing to refuse.
func DecodeRemote(b *[RemoteSize]byte, r *Remote) {
	r.Head = [2]byte{b[0], b[1]}
	r.Buttons = binary.LittleEndian.Uint16(b[2:])
	r.Lx, r.Rx, r.Ry = f32(b[4:]), f32(b[8:]), f32(b[12:])
	r.L2, r.Ly = f32(b[16:]), f32(b[20:])
}

// AppendRemote appends r as 40 bytes, the idle ones zero.
func AppendRemote(dst []byte, r *Remote) []byte {
	all, b := grow(dst, RemoteSize)
	b[0], b[1] = r.Head[0], r.Head[1]
	binary.LittleEndian.PutUint16(b[2:], r.Buttons)
	putF32(b[4:], r.Lx)
	putF32(b[8:], r.Rx)
	putF32(b[12:], r.Ry)
	putF32(b[16:], r.L2)
	putF32(b[20:], r.Ly)
	clear(b[24:])
	return all
}

// Present says that a remote is there: its head bytes are ours, 55 51. All 40 bytes zero, or any other head, is absent.
func (r *Remote) Present() bool { return r.Head == [2]byte{RemoteHead0, RemoteHead1} }

// Pressed says that every button of mask is down, such as ButtonL2|ButtonB for the emergency stop. It does not ask whether
// the remote is present.
func (r *Remote) Pressed(mask uint16) bool { return r.Buttons&mask == mask }
