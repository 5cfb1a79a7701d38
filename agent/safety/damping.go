package safety

import (
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// DampingKd (N*m*s/rad) is the whole of the damping frame.
const DampingKd = 3

// Damping makes c the damping frame: no spring, no torque, only friction; q as s measures it, where that is a number. It never passes
// the judge, so nothing that is wrong elsewhere can stop it. Everything in it is finite and small: it can always be encoded.
func Damping(c *wire.LowCmd, s *wire.LowState) {
	for i := range go1.Joints {
		c.Motor[i] = wire.MotorCmd{Mode: ModeServo, Kd: DampingKd}
		if q := s.Motor[i].Q; q-q == 0 {
			c.Motor[i].Q = q
		}
	}
}
