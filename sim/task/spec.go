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

// WalkSpec is the contract of the policies that we train from scratch: what a Go1
// senses by itself (47 numbers, no velocity), 0.3 rad per unit of action (hips 0.15)
// clipped to -5..5, kp 35 and kd 0.5, 50 Hz, a gait clock of 2.2 Hz. The group "critic"
// (63 numbers) has the same and what only a simulator knows.
func WalkSpec() *rollout.Spec {
	s := DefaultSpec()
	s.Action.Clip = &[2]float32{-5, 5}
	for i := range s.Joints {
		s.Action.Scale[i] = 0.3
		if i%go1.JointsInLeg == go1.Hip {
			s.Action.Scale[i] = 0.15
		}
	}
	s.Command = rollout.Command{Vx: [2]float32{-1, 1}, Vy: [2]float32{-0.5, 0.5}, Wz: [2]float32{-1, 1}}
	s.Clock = rollout.Clock{Hz: 2.2, MinCommand: 0.05}
	type scaled struct {
		name  string
		scale float32
	}
	terms := func(list ...scaled) (out []rollout.Term) {
		for _, t := range list {
			term := rollout.Term{Name: t.name, Scale: t.scale, History: 1}
			if known := go1.TermByName(t.name); known != nil {
				term.Size, term.Sensed = known.Size, known.Sensed
			} else {
				_, term.Size, _ = ExtraTerm(t.name)
			}
			out = append(out, term)
		}
		return out
	}
	policy := []scaled{{"base_ang_vel", 0.25}, {"projected_gravity", 1}, {"joint_pos", 1}, {"joint_vel", 0.05},
		{"actions", 1}, {"command", 1}, {"clock", 1}}
	critic := append(slices.Clone(policy), scaled{"base_lin_vel", 1}, scaled{"base_height", 10}, scaled{"foot_contact", 1},
		scaled{"foot_height", 10}, scaled{"friction", 1}, scaled{"trunk_mass", 1}, scaled{"motor_gain", 10}, scaled{"latency", 50})
	s.Groups = []rollout.Group{
		{Name: "policy", Layout: rollout.ByTerm, Terms: terms(policy...)},
		{Name: "critic", Layout: rollout.ByTerm, Terms: terms(critic...)},
	}
	return s
}

// WalkHistorySpec is WalkSpec whose group "policy" shows the newest frames frames, the newest
// last, each as its sensors showed it then; an episode's first stands for those before it.
// Of one frame it is WalkSpec. The critic sees the present alone.
func WalkHistorySpec(frames int) *rollout.Spec {
	s := WalkSpec()
	if frames > 1 {
		g := s.Group("policy")
		g.Layout = rollout.ByFrame
		for i := range g.Terms {
			g.Terms[i].History = frames
		}
	}
	return s
}
