package go1

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

func TestActionMapScalesClipsAndPermutes(t *testing.T) {
	s := spec(isaac(), rollout.ByTerm, term("command", 1, 1))
	for i := range s.Joints {
		s.Action.Scale[i] = 0.1 * float32(i+1)
		s.Kp[i], s.Kd[i] = 20+float32(i), 1+float32(i)/16
	}
	s.Action.Clip = &[2]float32{-1, 2}
	m, err := NewActionMap(s)
	if err != nil {
		t.Fatal(err)
	}
	action := make([]float32, Joints)
	for i := range action {
		action[i] = float32(i) - 3
	}
	var target [Joints]float32
	if err := m.Targets(action, &target); err != nil {
		t.Fatal(err)
	}
	for i, motor := range []int{3, 0, 9, 6, 4, 1, 10, 7, 5, 2, 11, 8} {
		a := min(max(float32(i)-3, -1), 2)
		if action[i] != a {
			t.Errorf("action[%d] became %v, want it clipped to %v", i, action[i], a)
		}
		if want := Home[motor] + 0.1*float32(i+1)*a; math.Abs(float64(target[motor]-want)) > 1e-6 {
			t.Errorf("target of motor %d is %v, want %v", motor, target[motor], want)
		}
		if m.Kp[motor] != 20+float32(i) || m.Kd[motor] != 1+float32(i)/16 || m.Home[motor] != Home[motor] {
			t.Errorf("motor %d has kp %v, kd %v, home %v", motor, m.Kp[motor], m.Kd[motor], m.Home[motor])
		}
	}
	back := make([]float32, Joints)
	m.Action(&target, back)
	if !near(back, action, 1e-5) {
		t.Errorf("Action of Targets of %v is %v", action, back)
	}
	if n := testing.AllocsPerRun(100, func() { _ = m.Targets(action, &target) }); n != 0 {
		t.Errorf("Targets allocates %v times", n)
	}
}

func TestTargetsRefusesBeforeItWrites(t *testing.T) {
	m, err := NewActionMap(spec(JointNames[:], rollout.ByTerm, term("command", 1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		action []float32
		says   string
	}{
		{make([]float32, 11), "11 numbers"},
		{slices.Concat(make([]float32, 11), []float32{float32(math.NaN())}), "RL_calf_joint is NaN"},
		{slices.Concat([]float32{float32(math.Inf(1))}, make([]float32, 11)), "FR_hip_joint is +Inf"},
	} {
		target := [Joints]float32{1, 2, 3}
		was := target
		if err := m.Targets(c.action, &target); !errors.Is(err, rollout.ErrAction) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want %q", err, c.says)
		}
		if target != was {
			t.Error("targets were written")
		}
	}
}

func TestActionOfAJointThatDoesNotAct(t *testing.T) {
	s := spec(JointNames[:], rollout.ByTerm, term("command", 1, 1))
	s.Action.Scale[2] = 0
	m, err := NewActionMap(s)
	if err != nil {
		t.Fatal(err)
	}
	target, action := [Joints]float32{2: -1}, make([]float32, Joints)
	m.Action(&target, action)
	if action[2] != 0 {
		t.Errorf("action %v", action[2])
	}
}

func TestNewActionMapRefuses(t *testing.T) {
	s := spec(JointNames[:], rollout.ByTerm, term("command", 1, 1))
	s.Kd = nil
	if _, err := NewActionMap(s); err == nil || !strings.Contains(err.Error(), "kd") {
		t.Errorf("without kd: %v", err)
	}
	s = spec(JointNames[:], rollout.ByTerm, term("command", 1, 1))
	s.Joints = slices.Concat(s.Joints[:11], []string{"tail"})
	if _, err := NewActionMap(s); err == nil || !strings.Contains(err.Error(), "tail") {
		t.Errorf("another joint: %v", err)
	}
}

// Row 29 of the cases: policy rate, loop rate and decimation are part of the
// contract. A policy of 50 Hz that was trained over a loop of 200 Hz fits, because
// the robot's own loop of 500 Hz repeats each target ten times; a period that is
// not whole in either loop is refused with both numbers.
func TestCase29RatesOfTheContract(t *testing.T) {
	for _, c := range []struct {
		name            string
		policy, control int64 // ns
		says            string
	}{
		{"50 Hz over 200 Hz", 20e6, 5e6, ""},
		{"50 Hz over 500 Hz", 20e6, 2e6, ""},
		{"50 Hz over 333 Hz", 20e6, 3e6, "policy_period_ns: 20000000 is not a whole number of control periods of 3000000"},
		{"40 Hz over 200 Hz, odd in 2 ms", 25e6, 5e6, "policy_period_ns: 25000000 is not a whole number of 2 ms ticks"},
		{"200 Hz over 200 Hz", 5e6, 5e6, "policy_period_ns: 5000000 is not a whole number of 2 ms ticks"},
		{"slower loop than policy", 20e6, 40e6, "policy_period_ns: 20000000 is not a whole number of control periods of 40000000"},
	} {
		s := spec(slices.Clone(JointNames[:]), rollout.ByTerm, term("base_ang_vel", 1, 1))
		s.PolicyPeriodNs, s.ControlPeriodNs = c.policy, c.control
		err := Fit(s, Sensing{})
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.says)
		}
	}
}

func TestFitNamesWhatDoesNotFit(t *testing.T) {
	good := func() *rollout.Spec {
		return spec(slices.Clone(JointNames[:]), rollout.ByTerm, term("base_lin_vel", 1, 1), term("base_ang_vel", 1, 1), term("clock", 1, 1))
	}
	with := func(f func(*rollout.Spec)) *rollout.Spec {
		s := good()
		s.Clock.Hz = 2
		f(s)
		return s
	}
	all := func(v []float32, x float32) {
		for i := range v {
			v[i] = x
		}
	}
	if err := Fit(with(func(*rollout.Spec) {}), Sensing{LinVel: true}); err != nil {
		t.Fatalf("a contract that fits: %v", err)
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		name, says string
		has        Sensing
		spoil      func(*rollout.Spec)
	}{
		// cases.md row 4: an exporter wrote kp 1 and kd -0 for every joint.
		{"kp 1, kd -0 everywhere", "kp of FR_hip_joint is 1: gains not plausible for this robot (expected 10..120)", Sensing{true},
			func(s *rollout.Spec) { all(s.Kp, 1); all(s.Kd, float32(math.Copysign(0, -1))) }},
		{"kd -0 everywhere", "kd of FR_hip_joint is -0: gains not plausible for this robot", Sensing{true},
			func(s *rollout.Spec) { all(s.Kd, float32(math.Copysign(0, -1))) }},
		{"kp 121 on one", "kp of RR_calf_joint is 121", Sensing{true}, func(s *rollout.Spec) { s.Kp[8] = 121 }},
		{"kp just below", "kp of FL_thigh_joint", Sensing{true}, func(s *rollout.Spec) { s.Kp[4] = 9.99 }},
		{"kd 11 on one", "kd of FL_hip_joint is 11", Sensing{true}, func(s *rollout.Spec) { s.Kd[3] = 11 }},
		{"kp NaN", "kp", Sensing{true}, func(s *rollout.Spec) { s.Kp[0] = nan }},
		{"another robot", `"unitree-g1"`, Sensing{true}, func(s *rollout.Spec) { s.Robot = "unitree-g1" }},
		{"no robot", `robot: the contract is for ""`, Sensing{true}, func(s *rollout.Spec) { s.Robot = "" }},
		{"a joint missing", "joints: 11 named", Sensing{true}, func(s *rollout.Spec) {
			s.Joints, s.Home, s.Kp, s.Kd, s.Action.Scale = s.Joints[:11], s.Home[:11], s.Kp[:11], s.Kd[:11], s.Action.Scale[:11]
		}},
		{"a joint of another robot", `"FR_ankle"`, Sensing{true}, func(s *rollout.Spec) { s.Joints[2] = "FR_ankle" }},
		{"home out of reach", "home of FR_calf_joint is 0 rad, outside", Sensing{true}, func(s *rollout.Spec) { s.Home[2] = 0 }},
		{"home too far inward", "home of RL_hip_joint is -0.9", Sensing{true}, func(s *rollout.Spec) { s.Home[9] = -0.9 }},
		{"no action scale", "action.scale of FR_hip_joint is 0", Sensing{true}, func(s *rollout.Spec) { s.Action.Scale[0] = 0 }},
		{"negative action scale", "action.scale of FL_calf_joint is -0.5", Sensing{true}, func(s *rollout.Spec) { s.Action.Scale[5] = -0.5 }},
		{"action scale 3", "action.scale of RL_calf_joint is 3", Sensing{true}, func(s *rollout.Spec) { s.Action.Scale[11] = 3 }},
		{"policy every 1 ms", "policy_period_ns: 1000000", Sensing{true}, func(s *rollout.Spec) { s.PolicyPeriodNs, s.ControlPeriodNs = 1e6, 1e6 }},
		{"policy every 102 ms", "policy_period_ns: 102000000", Sensing{true}, func(s *rollout.Spec) { s.PolicyPeriodNs = 102e6 }},
		{"policy every 5 ms", "not a whole number of 2 ms ticks", Sensing{true}, func(s *rollout.Spec) { s.PolicyPeriodNs, s.ControlPeriodNs = 5e6, 5e6 }},
		{"a term of another robot", "term arm_pos: this robot cannot give it", Sensing{true}, func(s *rollout.Spec) { s.Groups[0].Terms[1].Name = "arm_pos" }},
		{"a term of another size", "term base_ang_vel: size 4, this robot gives 3", Sensing{true}, func(s *rollout.Spec) { s.Groups[0].Terms[1].Size = 4 }},
		{"velocity without an estimator", "term base_lin_vel: a Go1 does not sense it", Sensing{}, func(*rollout.Spec) {}},
		{"a clock term without a clock", "term clock: the contract has no clock", Sensing{true}, func(s *rollout.Spec) { s.Clock.Hz = 0 }},
		{"contradicts itself", "home: 11 numbers", Sensing{true}, func(s *rollout.Spec) { s.Home = s.Home[:11] }},
	} {
		if err := Fit(with(c.spoil), c.has); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.says)
		}
	}
	// At the edges of what is plausible.
	for _, f := range []func(*rollout.Spec){
		func(s *rollout.Spec) { all(s.Kp, MinKp); all(s.Kd, MinKd) },
		func(s *rollout.Spec) { all(s.Kp, MaxKp); all(s.Kd, MaxKd) },
		func(s *rollout.Spec) { s.PolicyPeriodNs = 100e6 },
		func(s *rollout.Spec) { s.PolicyPeriodNs = 2e6 },
	} {
		if err := Fit(with(f), Sensing{LinVel: true}); err != nil {
			t.Error(err)
		}
	}
}
