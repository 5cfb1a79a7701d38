package virtual

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// allJoints is the value of a joint parameter that says all.
const allJoints = mujoco.Joints

// ownAddress is the value of an address parameter that says the robot's.
const ownAddress = "robot"

// buttonNames are the hand remote's, bit 0 first.
var buttonNames = []string{"R1", "L1", "start", "select", "R2", "L2", "F1", "F2", "A", "B", "X", "Y", "up", "right", "down", "left"}

// stickNames are the directions of the hand remote's sticks.
var stickNames = []string{"lx", "ly", "rx", "ry"}

// parse reads one parameter.
func (p *param) parse(text string) (float64, error) {
	if len(text) > maxParamText {
		return 0, fmt.Errorf("has %d bytes, at most %d", len(text), maxParamText)
	}
	switch p.typ {
	case joint:
		if i := slices.Index(p.words, text); i >= 0 {
			return allJoints + float64(i), nil
		}
		if i := slices.Index(mujoco.JointNames[:], text); i >= 0 {
			return float64(i), nil
		}
		if i, err := strconv.Atoi(text); err == nil && i >= 0 && i < mujoco.Joints {
			return float64(i), nil
		}
		return 0, fmt.Errorf("%q is not %s", text, p.meaning)
	case foot:
		if i := slices.Index(go1.LegNames[:], text); i >= 0 {
			return float64(i), nil
		}
		return 0, fmt.Errorf("%q is not %s", text, p.meaning)
	case word:
		if i := slices.Index(p.words, text); i >= 0 {
			return float64(i), nil
		}
		return 0, fmt.Errorf("is %q, want %s", text, strings.Join(p.words, " or "))
	case buttons:
		if v, err := strconv.ParseUint(text, 0, 16); err == nil {
			return float64(v), nil
		}
		mask := 0
		for _, name := range strings.Split(text, "+") {
			i := slices.Index(buttonNames, name)
			if i < 0 {
				return 0, fmt.Errorf("%q is not a button (%s)", name, strings.Join(buttonNames, " "))
			}
			mask |= 1 << i
		}
		return float64(mask), nil
	case address:
		if text == ownAddress {
			return 0, nil
		}
		a, err := netip.ParseAddr(text)
		if err != nil || !a.Is4() || a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return 0, fmt.Errorf("is %q, want %s", text, p.meaning)
		}
		b := a.As4()
		return float64(binary.BigEndian.Uint32(b[:])), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if digits := strings.TrimLeft(text, "+-"); strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X") { // a mode byte
		var u uint64
		u, err = strconv.ParseUint(text, 0, 32)
		v = float64(u)
	}
	if err != nil || math.IsNaN(v) || v < p.lo || v > p.hi {
		return 0, fmt.Errorf("is %q, want %v..%v", text, p.lo, p.hi)
	}
	if p.typ == integer && v != math.Trunc(v) {
		return 0, fmt.Errorf("is %q, want a whole number, %v..%v", text, p.lo, p.hi)
	}
	return v, nil
}

// otherAddress is what the value of an address parameter says, where it is not the robot's own.
func otherAddress(v float64) (a netip.Addr, ok bool) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(v))
	return netip.AddrFrom4(b), v != 0
}

// layOut gives the hand remote another layout.
func (e *effect) layOut(b *[wire.RemoteSize]byte) {
	var r wire.Remote
	if wire.DecodeRemote(b, &r); !r.Present() {
		return
	}
	sticks := [...]*float32{&r.Lx, &r.Ly, &r.Rx, &r.Ry}
	x, y := int(e.p["a"]), int(e.p["b"])
	switch e.k.name {
	case "buttons_swapped":
		if a, b := r.Buttons>>x&1, r.Buttons>>y&1; a != b {
			r.Buttons ^= 1<<x | 1<<y
		}
	case "sticks_swapped":
		*sticks[x], *sticks[y] = *sticks[y], *sticks[x]
	case "stick_reversed":
		*sticks[int(e.p["stick"])] *= -1
	}
	putRemote(b, r)
}

// putRemote writes the 40 bytes of a hand remote that is there.
func putRemote(b *[wire.RemoteSize]byte, r wire.Remote) {
	r.Head = [2]byte{wire.RemoteHead0, wire.RemoteHead1}
	wire.AppendRemote(b[:0], &r)
}
