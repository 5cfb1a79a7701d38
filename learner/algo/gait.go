package algo

import (
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// Gait is a scripted trot: a teacher that knows how to step, but not how to balance; on its
// own it falls. What it does depends on command and gait clock alone, both read from the
// group "policy", so that it needs no state. Legs FR and RL stand while the clock is in its
// first half and swing in the second, FL and RR the other way round. A standing foot sweeps
// back under its hip as fast as the command moves the trunk over it; a swinging one returns
// along a cosine, thigh and knee bent.
type Gait struct {
	group          int // of Obs
	dim            int
	command, clock int // where their newest frame begins in a row
	scale          struct{ command, clock float32 }
	motor          [go1.Joints]int
	actionScale    [go1.Joints]float32
	clip           *[2]float32
	stance         float64 // s, half a cycle
}

// Figures of the trot: bends of thigh and calf at the middle of a swing, rad, and how far
// below its hip a foot stands, m, which turns its way into angles.
const (
	gaitThighBend = 0.25
	gaitCalfBend  = -0.5
	gaitLeg       = 0.265
	gaitFootX     = 0.188 // m, feet from the trunk's origin
	gaitFootY     = 0.127
)

// NewGait reads from spec where command and clock stand in the group "policy". A contract
// without a running clock or without the command is refused.
func NewGait(spec *rollout.Spec) (*Gait, error) {
	g := &Gait{group: spec.GroupIndex("policy"), command: -1, clock: -1, clip: spec.Action.Clip}
	if g.group < 0 {
		return nil, fmt.Errorf("algo: gait teacher: the contract has no group policy")
	}
	if !(spec.Clock.Hz > 0) {
		return nil, fmt.Errorf("algo: gait teacher: the contract has no gait clock (clock.hz is %v)", spec.Clock.Hz)
	}
	g.stance = 0.5 / float64(spec.Clock.Hz)
	motor, err := go1.MotorOrder(spec.Joints)
	if err != nil {
		return nil, err
	}
	g.motor = motor
	copy(g.actionScale[:], spec.Action.Scale)
	group := &spec.Groups[g.group]
	g.dim = group.Size()
	for i, t := range group.Terms {
		switch t.Name {
		case "command":
			g.command, g.scale.command = newestStart(group, i), t.Scale
		case "clock":
			g.clock, g.scale.clock = newestStart(group, i), t.Scale
		}
	}
	for name, t := range map[string]struct {
		at    int
		scale float32
	}{"command": {g.command, g.scale.command}, "clock": {g.clock, g.scale.clock}} {
		if t.at < 0 || t.scale == 0 {
			return nil, fmt.Errorf("algo: gait teacher: the group policy does not show the term %s", name)
		}
	}
	return g, nil
}

// Reset forgets nothing: a Gait has no state.
func (g *Gait) Reset([]int) {}

// Act writes the trot's action of every row of step into out.Action.
func (g *Gait) Act(step *rollout.Step, out *rollout.Decision) error {
	obs := step.Obs[g.group]
	for row := range len(obs) / g.dim {
		g.action(obs[row*g.dim:(row+1)*g.dim], out.Action[row*go1.Joints:(row+1)*go1.Joints])
	}
	return nil
}

// action is the trot's answer to one observation, in policy order.
func (g *Gait) action(obs, action []float32) {
	sin, cos := float64(obs[g.clock]/g.scale.clock), float64(obs[g.clock+1]/g.scale.clock)
	if sin == 0 && cos == 0 { // the clock stands: so do the legs
		clear(action)
		return
	}
	var v [3]float64
	for i := range v {
		v[i] = float64(obs[g.command+i] / g.scale.command)
	}
	phase := math.Atan2(sin, cos) / (2 * math.Pi)
	var delta [go1.Joints]float64 // rad from home, SDK order
	for leg := range go1.Legs {
		x, y, p := gaitFootX, gaitFootY, phase
		if leg >= go1.RR {
			x = -x
		}
		if leg == go1.FR || leg == go1.RR {
			y = -y
		}
		if leg == go1.FL || leg == go1.RR {
			p += 0.5
		}
		p -= math.Floor(p)
		// The way of the trunk over a standing foot, of which the foot goes half to each side.
		wayX, wayY := (v[0]-v[2]*y)*g.stance, (v[1]+v[2]*x)*g.stance
		side := 0.5 - 2*p // from ahead to behind
		if p >= 0.5 {
			s := 2*p - 1
			side = -0.5 * math.Cos(math.Pi*s)
			delta[3*leg+go1.Thigh] = gaitThighBend * math.Sin(math.Pi*s)
			delta[3*leg+go1.Calf] = gaitCalfBend * math.Sin(math.Pi*s)
		}
		delta[3*leg+go1.Thigh] -= wayX * side / gaitLeg
		delta[3*leg+go1.Hip] += wayY * side / gaitLeg
	}
	for i, m := range g.motor {
		a := float32(delta[m]) / g.actionScale[i]
		if g.clip != nil {
			a = min(max(a, g.clip[0]), g.clip[1])
		}
		action[i] = a
	}
}
