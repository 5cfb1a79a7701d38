package virtual

import (
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// The gantry that a robot with boot hung hangs from: a spring and a damper on the trunk, soft enough that a hand turns it, and a
// lift by the robot's weight at the trunk's origin. The feet clear the floor however the legs hang.
const (
	hangHeight  = 0.8  // m
	hangK       = 2000 // N/m
	hangC       = 250  // N·s/m
	hangTurnK   = 100  // N·m/rad
	hangTurnC   = 6    // N·m·s/rad
	settleHung  = 2000 // steps until the legs have come to rest
	handK       = 120  // N·m/rad, of a hand that moves a joint
	handC       = 2    // N·m·s/rad
	pressSlope  = 0.25 // share of a press in which it grows, and in which it ends
	trunkCoMX   = 0.0208722
	trunkCoMY   = 0.0018719
	trunkCoMZ   = -0.000468
	hangingHip  = 0
	hangingCalf = -1
)

// hangingPose is near where the legs of a hung robot without power come to rest.
func hangingPose() mujoco.Pose {
	p := mujoco.Pose{Position: [3]float64{0, 0, hangHeight}, Quat: [4]float64{1, 0, 0, 0}}
	for leg := range mujoco.Legs {
		p.Q[3*leg], p.Q[3*leg+1], p.Q[3*leg+2] = hangingHip, -hangingCalf/2., hangingCalf
	}
	return p
}

// admits says whether a robot of this configuration, on this machine, can suffer a fault.
func (c *Config) admits(f *Fault) error {
	values, err := f.values()
	if err != nil {
		return err
	}
	if from, other := otherAddress(values["from"]); other {
		s, err := listen(netip.AddrPortFrom(from, 0))
		if err != nil {
			return fmt.Errorf("virtual: %s: from %v is no address of this machine: %w", f.Kind, from, errors.Unwrap(err))
		}
		s.close()
	}
	if f.Kind == "turn" && c.Boot != BootHung {
		return fmt.Errorf("virtual: turn: nobody can lift the robot: it hangs with boot hung, not %s", c.Boot)
	}
	return nil
}

// way says whether the fault is a person's movement there, and back.
func (k *kind) way() bool { return k.name == "turn" || k.name == "hand" }

// along is how far a person's movement has come at t, 0 to 1, and its rate, 1/s: minimum jerk there, a stay, and back.
func (e *effect) along(t float64) (s, rate float64) {
	t -= e.start
	way, stay := e.p["ms"]/1e3, e.p["stay"]/1e3
	sign := 1.
	switch back := e.p["how"] == 0; {
	case back && t > way+stay:
		t, sign = 2*way+stay-t, -1
	case t > way:
		return 1, 0
	}
	x := min(max(t/way, 0), 1)
	return x * x * x * (10 + x*(6*x-15)), sign * 30 * x * x * (1 - x) * (1 - x) / way
}

// pressing is the force of a press at t, N: it grows, stays and ends, or stays where the end is not known.
func (e *effect) pressing(t float64) float64 {
	whole := e.end - e.start
	if math.IsInf(whole, 1) {
		whole = e.p["ms"] / 1e3 / pressSlope * 2
		t = min(t, e.start+whole/2)
	}
	x := (t - e.start) / whole
	return e.p["n"] * min(max(min(x, 1-x)/pressSlope, 0), 1)
}

// hands is what gantry, pushes and people do to the robot in the next step; it sets what the foot sensors feel of it.
func (r *Robot) hands() (h mujoco.Hands) {
	t := r.time()
	r.sense.pressed = [mujoco.Legs]float64{}
	goal, rate := [4]float64{1, 0, 0, 0}, [3]float64{} // the trunk's attitude, and its speed, trunk frame
	for _, e := range r.effects {
		if !e.on {
			continue
		}
		switch e.k.name {
		case "push":
			for i := range h.Force {
				h.Force[i] += e.force[i]
			}
		case "turn":
			s, v := e.along(t)
			axis := int(e.p["axis"])
			by := turn(axis, e.p["rad"]*s)
			rate = unturned(by, rate)
			rate[axis] += e.p["rad"] * v
			goal = mulQuat(goal, by)
		case "hand":
			s, v := e.along(t)
			j := int(e.p["joint"])
			tau := handK*(e.from+e.p["rad"]*s-r.st.Q[j]) + handC*(e.p["rad"]*v-r.st.Dq[j])
			h.Joint[j] += min(max(tau, -e.p["nm"]), e.p["nm"])
		case "press":
			n, leg := e.pressing(t), int(e.p["foot"])
			r.sense.pressed[leg] += n
			h.Foot[leg][2] += e.p["net"] * n
		}
	}
	if r.cfg.Boot == BootHung {
		r.hang(&h, goal, rate)
	}
	return h
}

// unturned takes a vector to the frame that by turned.
func unturned(by [4]float64, v [3]float64) (out [3]float64) {
	m := rotation(by)
	for i := range 3 {
		out[i] = m[0][i]*v[0] + m[1][i]*v[1] + m[2][i]*v[2]
	}
	return out
}

// hang adds the gantry, which draws the trunk to goal.
func (r *Robot) hang(h *mujoco.Hands, goal [4]float64, rate [3]float64) {
	st := &r.st
	weight := (go1.Mass + r.cfg.Body.Payload) * 9.81
	m := rotation(st.Quat)
	var lift [3]float64
	for i, at := range [3]float64{0, 0, hangHeight} {
		lift[i] = hangK*(at-st.Pos[i]) - hangC*st.LinVelWorld[i]
	}
	lift[2] += weight
	// What turns the trunk from where it is to goal, trunk frame.
	inverse := [4]float64{st.Quat[0], -st.Quat[1], -st.Quat[2], -st.Quat[3]}
	left := mulQuat(inverse, goal)
	sign := math.Copysign(2, left[0])
	var body [3]float64
	for i := range 3 {
		body[i] = hangTurnK*sign*left[1+i] + hangTurnC*(rate[i]-st.AngVelBody[i])
	}
	// The lift is at the origin, Hands.Force at the centre of mass.
	var arm, torque [3]float64
	for i := range 3 {
		arm[i] = -(m[i][0]*trunkCoMX + m[i][1]*trunkCoMY + m[i][2]*trunkCoMZ)
		torque[i] = m[i][0]*body[0] + m[i][1]*body[1] + m[i][2]*body[2]
	}
	for i := range 3 {
		j, k := (i+1)%3, (i+2)%3
		h.Force[i] += lift[i]
		h.Torque[i] += torque[i] + arm[j]*lift[k] - arm[k]*lift[j]
	}
}

// applyHands gives physics what acts on the robot from outside.
func (r *Robot) applyHands() {
	if h := r.hands(); h != r.pushed {
		r.pushed = h
		r.check(r.sim.SetHands(&h))
	}
}
