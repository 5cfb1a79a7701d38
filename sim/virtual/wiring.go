package virtual

import (
	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// wiring is what the wires make of the motors: in place i a sender finds, and commands, motor[i], which turns the other way where
// reversed[i].
type wiring struct {
	motor    [mujoco.Joints]int
	reversed [mujoco.Joints]bool
}

// jointOrders are those of others, by the values of joint_order: the motor, in the SDK's order, that is in each place.
var jointOrders = [...][mujoco.Joints]int{
	{3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8}, // FL FR RL RR, leg by leg
	{3, 0, 9, 6, 4, 1, 10, 7, 5, 2, 11, 8}, // all hips, all thighs, all calves, of FL FR RL RR
	{1, 5, 9, 0, 4, 8, 3, 7, 11, 2, 6, 10}, // the same map taken the wrong way
}

// wiring is that of a fault of wires.
func (e *effect) wiring() (w wiring, ok bool) {
	for i := range w.motor {
		w.motor[i] = i
	}
	swap := func(a, b int) { w.motor[a], w.motor[b] = b, a }
	switch e.k.name {
	case "legs_swapped":
		for j := range 3 {
			swap(3*int(e.p["a"])+j, 3*int(e.p["b"])+j)
		}
	case "joints_swapped":
		leg := 3 * int(e.p["leg"])
		swap(leg+int(e.p["a"]), leg+int(e.p["b"]))
	case "motors_swapped":
		swap(int(e.p["a"]), int(e.p["b"]))
	case "joint_order":
		w.motor = jointOrders[int(e.p["order"])]
	case "joint_reversed":
		w.reversed[int(e.p["joint"])] = true
	default:
		return w, false
	}
	return w, true
}

// wireStates puts the motors' reports where the wires lead them.
func (e *effect) wireStates(s *wire.LowState) {
	w, _ := e.wiring()
	sound := s.Motor
	for i, from := range w.motor {
		m := &s.Motor[i]
		*m = sound[from]
		if w.reversed[i] {
			m.Q, m.QRaw, m.Dq, m.DqRaw, m.TauEst = -m.Q, -m.QRaw, -m.Dq, -m.DqRaw, -m.TauEst
			m.Ddq, m.DdqRaw = toI16(-float64(m.Ddq)), toI16(-float64(m.DdqRaw))
		}
	}
}

// wireCommand takes each motor's command to the motor that the wires lead it to. The faults of wires act on states in the order in
// which they were given; here it is the other way round, so that each sender finds in a motor's place the motor that it commands there.
func (r *Robot) wireCommand(c mujoco.MotorCmd) mujoco.MotorCmd {
	for k := len(r.effects) - 1; k >= 0; k-- {
		e := r.effects[k]
		w, ok := e.wiring()
		if !ok || !e.on {
			continue
		}
		told := c
		for i, to := range w.motor {
			c.Mode[to], c.Kp[to], c.Kd[to] = told.Mode[i], told.Kp[i], told.Kd[i]
			c.Q[to], c.Dq[to], c.Tau[to] = told.Q[i], told.Dq[i], told.Tau[i]
			if !w.reversed[i] {
				continue
			}
			if c.Q[to] != mujoco.PosStop {
				c.Q[to] *= -1
			}
			if c.Dq[to] != mujoco.VelStop {
				c.Dq[to] *= -1
			}
			c.Tau[to] *= -1
		}
	}
	return c
}
