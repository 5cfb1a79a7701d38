package virtual

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// Class is what a command asks of the motors; see the package comment.
type Class string

// Classes.
const (
	ClassNone    Class = "none" // no command yet
	ClassDamping Class = "damping"
	ClassTorque  Class = "torque"
	ClassZero    Class = "zero"
	ClassOther   Class = "other"
)

// classes in the order of the summary's counts.
var classes = [...]Class{ClassDamping, ClassTorque, ClassZero, ClassOther}

// Classify says what a command asks of motors 0..11.
func Classify(c *wire.LowCmd) Class {
	damping, zero := true, true
	for i := range mujoco.Joints {
		m := &c.Motor[i]
		switch m.Mode {
		case wire.ModeServo:
			if m.Kp > 0 || m.Tau != 0 || m.Kd > 0 && m.Dq != 0 {
				return ClassTorque
			}
			damping = damping && m.Kd > 0 && m.Kp == 0
			zero = zero && m.Kp == 0 && m.Kd == 0
		case wire.ModeDamping:
			zero = false
		default: // a motor in no known mode makes no torque
			damping = false
		}
	}
	switch {
	case damping:
		return ClassDamping
	case zero:
		return ClassZero
	}
	return ClassOther
}

// motorCmd is the command as sim/mujoco takes it.
func motorCmd(c *wire.LowCmd) (m mujoco.MotorCmd) {
	for i := range mujoco.Joints {
		w := &c.Motor[i]
		m.Mode[i] = w.Mode
		m.Q[i], m.Dq[i], m.Tau[i], m.Kp[i], m.Kd[i] = float64(w.Q), float64(w.Dq), float64(w.Tau), float64(w.Kp), float64(w.Kd)
	}
	return m
}

// finiteCmd says whether a motor could execute the command.
func finiteCmd(c *wire.LowCmd) bool {
	for i := range mujoco.Joints {
		if m := &c.Motor[i]; m.Q-m.Q != 0 || m.Dq-m.Dq != 0 {
			return false
		}
	}
	return true
}

// predicted is the torque of each joint that the command asks for at the true angles and speeds, N·m, and its largest gains.
func predicted(c *mujoco.MotorCmd, st *mujoco.State) (torques [mujoco.Joints]float64, kp, kd float64) {
	for i := range mujoco.Joints {
		if c.Mode[i] != mujoco.ModeServo {
			continue
		}
		kp, kd = max(kp, c.Kp[i]), max(kd, c.Kd[i])
		tau := c.Tau[i]
		if c.Q[i] != mujoco.PosStop {
			tau += c.Kp[i] * (c.Q[i] - st.Q[i])
		}
		if c.Dq[i] != mujoco.VelStop {
			tau += c.Kd[i] * (c.Dq[i] - st.Dq[i])
		}
		torques[i] = tau
	}
	return torques, kp, kd
}

// largest is the largest of their sizes.
func largest(v *[mujoco.Joints]float64) (m float64) {
	for _, x := range v {
		m = max(m, math.Abs(x))
	}
	return m
}

// legLength is the mean distance from hip to foot that a servo command asks for, m; 0 where no leg is asked for anything.
func legLength(c *mujoco.MotorCmd) float64 {
	const link = 0.213 // m, thigh and calf
	sum, legs := 0., 0.
	for leg := range mujoco.Legs {
		if k := 3*leg + 2; c.Mode[k] == mujoco.ModeServo && c.Kp[k] > 0 && math.Abs(c.Q[k]) < math.Pi {
			sum += 2 * link * math.Abs(math.Cos(c.Q[k]/2))
			legs++
		}
	}
	if legs == 0 {
		return 0
	}
	return sum / legs
}
