package task

import (
	"slices"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// DefaultSpec is the contract of a Go1 that nobody has trained yet, and what
// zero and random actions mean: home pose, 0.5 rad per unit of action clipped to
// -1..1, kp 35 and kd 0.5, 50 Hz, the observation of Playground's joystick task
// (48 numbers, no scaling).
func DefaultSpec() *rollout.Spec {
	s := &rollout.Spec{
		Robot:           go1.Robot,
		Joints:          slices.Clone(go1.JointNames[:]),
		Home:            slices.Clone(go1.Home[:]),
		Action:          rollout.Action{Clip: &[2]float32{-1, 1}},
		PolicyPeriodNs:  20e6,
		ControlPeriodNs: 2e6,
		Command:         rollout.Command{Vx: [2]float32{-1.5, 1.5}, Vy: [2]float32{-0.8, 0.8}, Wz: [2]float32{-1.2, 1.2}},
		Groups:          []rollout.Group{{Name: "policy", Layout: rollout.ByTerm}},
	}
	for range go1.Joints {
		s.Action.Scale = append(s.Action.Scale, 0.5)
		s.Kp, s.Kd = append(s.Kp, 35), append(s.Kd, 0.5)
	}
	for _, name := range []string{"base_lin_vel", "base_ang_vel", "projected_gravity", "joint_pos", "joint_vel", "actions", "command"} {
		t := go1.TermByName(name)
		s.Groups[0].Terms = append(s.Groups[0].Terms, rollout.Term{Name: name, Size: t.Size, Scale: 1, History: 1, Sensed: t.Sensed})
	}
	return s
}
