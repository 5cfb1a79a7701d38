package firstcontact

import (
	"math/bits"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// askedButtons are those that every Go1's remote has; F1 and F2 it may lack.
const askedButtons = 14

var asked = [askedButtons]uint16{
	wire.ButtonA, wire.ButtonB, wire.ButtonX, wire.ButtonY,
	wire.ButtonL1, wire.ButtonL2, wire.ButtonR1, wire.ButtonR2,
	wire.ButtonUp, wire.ButtonDown, wire.ButtonLeft, wire.ButtonRight,
	wire.ButtonSelect, wire.ButtonStart,
}

var buttonNames = [16]string{"R1", "L1", "START", "SELECT", "R2", "L2", "F1", "F2", "A", "B", "X", "Y", "up", "right", "down", "left"}

// stopButtons together are the stop in a person's hand.
const stopButtons = wire.ButtonL2 | wire.ButtonB

// buttonName names the buttons of a mask: L2+B.
func buttonName(mask uint16) string {
	var names []string
	for i, n := range buttonNames {
		if mask>>i&1 != 0 {
			names = append(names, n)
		}
	}
	if names == nil {
		return "no button"
	}
	return strings.Join(names, "+")
}

// sticks that drive, and how control reads them: forward, left and left turn positive as ly, -lx, -rx.
var sticks = [3]struct {
	text string
	axis int // of lx, ly, rx, ry
	sign float64
}{
	{"left stick forward", 1, 1},
	{"left stick to the left", 0, -1},
	{"right stick to the left", 2, -1},
}

// Travel of a stick that counts as pushed, and as let go.
const (
	stickPushed = 0.7
	stickRests  = 0.2
)

// remoteStep follows the remote's three steps; part counts what was asked for.
type remoteStep struct {
	part    int
	run     int // states in a row with the same buttons down, or stick pushed
	mask    uint16
	axis    int
	resting bool // all was let go since the part began
}

const pressedStates = 3 // in a row

// press is the buttons that have been down together for a few states and nothing but them: fingers do not land at once.
func (p *remoteStep) press(down uint16) (mask uint16, ok bool) {
	if down == 0 {
		p.resting = true
	}
	if !p.resting || down == 0 || down != p.mask {
		p.mask, p.run = down, 0
		return 0, false
	}
	p.run++
	return p.mask, p.run >= pressedStates
}

// stop waits for L2 and B together; what else was down meanwhile is kept.
func (p *remoteStep) stop(r *wire.Remote, f *RemoteFigures) (done bool) {
	p.resting = p.resting || r.Buttons == 0
	if p.resting && bits.OnesCount16(r.Buttons) >= bits.OnesCount16(f.StopSeen) && r.Buttons != 0 {
		f.StopSeen = r.Buttons
	}
	if !p.resting || !r.Pressed(stopButtons) {
		p.run = 0
		return false
	}
	f.StopSeen = r.Buttons
	p.run++
	return p.run >= pressedStates
}

// buttons waits for one button after the other.
func (p *remoteStep) buttons(r *wire.Remote, f *RemoteFigures) (next, done, right bool) {
	mask, ok := p.press(r.Buttons)
	if !ok {
		return false, false, true
	}
	f.Buttons[p.part] = mask
	right = mask == asked[p.part]
	return true, p.part == askedButtons-1, right
}

// stick waits for one stick after the other.
func (p *remoteStep) stick(r *wire.Remote, f *RemoteFigures) (next, done, right bool) {
	at := [4]float64{finite(r.Lx), finite(r.Ly), finite(r.Rx), finite(r.Ry)}
	most, axis := 0.0, 0
	for i, v := range at {
		if max(v, -v) > most {
			most, axis = max(v, -v), i
		}
	}
	if most < stickRests {
		p.resting = true
	}
	if !p.resting || most < stickPushed || axis != p.axis {
		p.run, p.axis = 0, axis
		return false, false, true
	}
	if p.run++; p.run < pressedStates {
		return false, false, true
	}
	f.Sticks[p.part] = at
	return true, p.part == len(sticks)-1, stickRight(p.part, &at)
}

// stickRight says whether the stick that was asked for moved most, and its way.
func stickRight(part int, at *[4]float64) bool {
	want := &sticks[part]
	if at[want.axis]*want.sign < stickPushed {
		return false
	}
	for i, v := range at {
		if i != want.axis && max(v, -v) >= stickPushed {
			return false
		}
	}
	return true
}

// finite is v, or 0 where v is no number.
func finite(v float32) float64 {
	if v-v != 0 {
		return 0
	}
	return float64(v)
}
