package virtual

import (
	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// wires says which motors a wiring fault exchanges; a pair of one motor with itself reverses it.
func (e *effect) wires() (pairs [][2]int) {
	switch e.k.name {
	case "legs_swapped":
		for j := range 3 {
			pairs = append(pairs, [2]int{3*int(e.p["a"]) + j, 3*int(e.p["b"]) + j})
		}
	case "joints_swapped":
		leg := 3 * int(e.p["leg"])
		pairs = [][2]int{{leg + int(e.p["a"]), leg + int(e.p["b"])}}
	case "joint_reversed":
		j := int(e.p["joint"])
		pairs = [][2]int{{j, j}}
	}
	return pairs
}

// wireStates puts the motors' reports where the wires lead them.
func (e *effect) wireStates(s *wire.LowState) {
	for _, w := range e.wires() {
		a, b := &s.Motor[w[0]], &s.Motor[w[1]]
		if a != b {
			*a, *b = *b, *a
			continue
		}
		a.Q, a.QRaw, a.Dq, a.DqRaw, a.TauEst = -a.Q, -a.QRaw, -a.Dq, -a.DqRaw, -a.TauEst
		a.Ddq, a.DdqRaw = toI16(-float64(a.Ddq)), toI16(-float64(a.DdqRaw))
	}
}

// wireCommand takes each motor's command to the motor that the wires lead it to. The faults of wires act on states in the order in
// which they began; here it is the other way round, so that each sender finds in a motor's place the motor that it commands there.
func (r *Robot) wireCommand(c mujoco.MotorCmd) mujoco.MotorCmd {
	for i := len(r.effects) - 1; i >= 0; i-- {
		e := r.effects[i]
		if !e.on {
			continue
		}
		for _, w := range e.wires() {
			a, b := w[0], w[1]
			if a != b {
				c.Mode[a], c.Mode[b] = c.Mode[b], c.Mode[a]
				for _, v := range [...]*[mujoco.Joints]float64{&c.Q, &c.Dq, &c.Tau, &c.Kp, &c.Kd} {
					v[a], v[b] = v[b], v[a]
				}
				continue
			}
			if c.Q[a] != mujoco.PosStop {
				c.Q[a] *= -1
			}
			if c.Dq[a] != mujoco.VelStop {
				c.Dq[a] *= -1
			}
			c.Tau[a] *= -1
		}
	}
	return c
}
