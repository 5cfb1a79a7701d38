package rollout

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// sample is a Spec with every field set to something a test can tell apart.
func sample() *Spec {
	return &Spec{
		Robot: "r", Joints: []string{"left", "right"}, Home: []float32{0.1, -0.1},
		Action: Action{Scale: []float32{0.5, 0.25}, Clip: &[2]float32{-1, 1}},
		Kp:     []float32{20, 30}, Kd: []float32{0.5, 0.6},
		PolicyPeriodNs: 20e6, ControlPeriodNs: 2e6,
		Command: Command{Vx: [2]float32{-1, 1}, Vy: [2]float32{-0.5, 0.5}, Wz: [2]float32{-2, 2}},
		Clock:   Clock{Hz: 2, Start: 0.25, MinCommand: 0.1},
		Groups: []Group{
			{Name: "policy", Layout: ByTerm, Terms: []Term{
				{Name: "gyro", Size: 3, Scale: 0.25, History: 2, Order: NewestFirst, Fill: FillZero, Sensed: true},
				{Name: "joints", Size: 2, Scale: 1, Clip: &[2]float32{-5, 5}, History: 1, Sensed: true},
			}},
			{Name: "critic", Layout: ByFrame, Terms: []Term{
				{Name: "height", Size: 1, Scale: 1, History: 3},
				{Name: "friction", Size: 1, Scale: 1, History: 3},
			}},
		},
		Rows: 4, Metrics: []string{"vx", "vy"},
	}
}

func TestSizes(t *testing.T) {
	s := sample()
	if s.ActDim() != 2 || s.Groups[0].Size() != 8 || s.Groups[1].Size() != 6 {
		t.Errorf("ActDim %d, groups %d and %d", s.ActDim(), s.Groups[0].Size(), s.Groups[1].Size())
	}
	if s.GroupIndex("critic") != 1 || s.GroupIndex("teacher") != -1 || s.Group("teacher") != nil || s.Group("critic") != &s.Groups[1] {
		t.Error("groups are not found by name")
	}
	st := NewStep(*s)
	if len(st.Obs[0]) != 32 || len(st.Obs[1]) != 24 || len(st.Final[0]) != 32 || len(st.Final[1]) != 24 || len(st.Reward) != 4 ||
		len(st.Terminated) != 4 || len(st.TimedOut) != 4 || len(st.Executed) != 8 || len(st.Metrics) != 8 {
		t.Errorf("NewStep's shapes: %+v", st)
	}
	d := NewDecision(*s)
	if len(d.Action) != 8 || len(d.Label) != 8 || len(d.LogProb) != 4 || len(d.Acted) != 4 {
		t.Errorf("NewDecision's shapes: %+v", d)
	}
	st.TimedOut[2] = true
	st.Terminated[3] = true
	if st.Ended(0) || !st.Ended(2) || !st.Ended(3) {
		t.Error("Ended")
	}
}

// spoiled is one way to change a Spec and what must be said about it.
type spoiled struct {
	says  string
	spoil func(s *Spec)
}

func TestCheckNamesWhatContradictsItself(t *testing.T) {
	if err := sample().Check(); err != nil {
		t.Fatalf("the sample: %v", err)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	term := func(s *Spec) *Term { return &s.Groups[0].Terms[0] }
	for _, c := range []spoiled{
		{"joints: none", func(s *Spec) { s.Joints = nil }},
		{"joints: left named twice", func(s *Spec) { s.Joints[1] = "left" }},
		{"home: 1 numbers for 2 joints", func(s *Spec) { s.Home = s.Home[:1] }},
		{"home: right is NaN", func(s *Spec) { s.Home[1] = nan }},
		{"action.scale: 3 numbers", func(s *Spec) { s.Action.Scale = append(s.Action.Scale, 1) }},
		{"action.scale: left is +Inf", func(s *Spec) { s.Action.Scale[0] = inf }},
		{"kp: 0 numbers", func(s *Spec) { s.Kp = nil }},
		{"kp: left is NaN", func(s *Spec) { s.Kp[0] = nan }},
		{"kd: 1 numbers", func(s *Spec) { s.Kd = s.Kd[:1] }},
		{"kd: right is -Inf", func(s *Spec) { s.Kd[1] = -inf }},
		{"action.clip", func(s *Spec) { s.Action.Clip = &[2]float32{1, -1} }},
		{"action.clip", func(s *Spec) { s.Action.Clip = &[2]float32{nan, 1} }},
		{"control_period_ns: 0", func(s *Spec) { s.ControlPeriodNs = 0 }},
		{"policy_period_ns: 0", func(s *Spec) { s.PolicyPeriodNs = 0 }},
		{"policy_period_ns: -20", func(s *Spec) { s.PolicyPeriodNs = -20e6 }},
		{"policy_period_ns: 21000000 is not a whole number of control periods", func(s *Spec) { s.PolicyPeriodNs = 21e6 }},
		{"command.vx: [1 -1]", func(s *Spec) { s.Command.Vx = [2]float32{1, -1} }},
		{"command.vy", func(s *Spec) { s.Command.Vy[0] = nan }},
		{"command.wz", func(s *Spec) { s.Command.Wz[1] = inf }},
		{"command.vx: [0.5 1] does not hold 0", func(s *Spec) { s.Command.Vx = [2]float32{0.5, 1} }},
		{"command.wz: [-2 -1] does not hold 0", func(s *Spec) { s.Command.Wz = [2]float32{-2, -1} }},
		{"clock: hz NaN", func(s *Spec) { s.Clock.Hz = nan }},
		{"clock: hz -1", func(s *Spec) { s.Clock.Hz = -1 }},
		{"clock: hz 11", func(s *Spec) { s.Clock.Hz = 11 }},
		{"start 1 ", func(s *Spec) { s.Clock.Start = 1 }},
		{"start NaN", func(s *Spec) { s.Clock.Start = nan }},
		{"min_command -1", func(s *Spec) { s.Clock.MinCommand = -1 }},
		{"min_command +Inf", func(s *Spec) { s.Clock.MinCommand = inf }},
		{"groups: none is named \"policy\"", func(s *Spec) { s.Groups = s.Groups[1:] }},
		{"groups: \"policy\" named twice", func(s *Spec) { s.Groups[1].Name = "policy" }},
		{"group critic: no terms", func(s *Spec) { s.Groups[1].Terms = nil }},
		{"group policy: layout \"\"", func(s *Spec) { s.Groups[0].Layout = "" }},
		{"term gyro: named twice", func(s *Spec) { s.Groups[0].Terms[1].Name = "gyro" }},
		{"term gyro: size 0", func(s *Spec) { term(s).Size = 0 }},
		{"term gyro: size 5000", func(s *Spec) { term(s).Size = 5000 }},
		{"term gyro: history 0", func(s *Spec) { term(s).History = 0 }},
		{"term gyro: history 257", func(s *Spec) { term(s).History = 257 }},
		{"term gyro: scale is NaN", func(s *Spec) { term(s).Scale = nan }},
		{"term gyro: order \"random\"", func(s *Spec) { term(s).Order = "random" }},
		{"term gyro: fill \"ones\"", func(s *Spec) { term(s).Fill = "ones" }},
		{"term gyro: clip", func(s *Spec) { term(s).Clip = &[2]float32{0, nan} }},
		{"term friction: history 2, but a group laid out by frame", func(s *Spec) { s.Groups[1].Terms[1].History = 2 }},
		{"term friction: order \"newest\", but a group laid out by frame", func(s *Spec) { s.Groups[1].Terms[1].Order = NewestFirst }},
	} {
		s := sample()
		c.spoil(s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "rollout: ") {
			t.Errorf("error %v, want one that says %q", err, c.says)
		}
	}
}

func TestFitsNamesTheFirstDifference(t *testing.T) {
	term := func(s *Spec) *Term { return &s.Groups[0].Terms[0] }
	for _, c := range []spoiled{
		{`robot: this is "r", the policy was trained on "s"`, func(s *Spec) { s.Robot = "s" }},
		{"joints: 2 here, 1 in the policy", func(s *Spec) { s.Joints = s.Joints[:1] }},
		{"joint 0: left here, right in the policy", func(s *Spec) { s.Joints[0], s.Joints[1] = "right", "left" }},
		{"home of right: -0.1 here, 0.2 in the policy", func(s *Spec) { s.Home[1] = 0.2 }},
		{"home: 2 numbers here, 3 in the policy", func(s *Spec) { s.Home = append(s.Home, 0) }},
		{"action.scale of left: 0.5 here, 0.3 in the policy", func(s *Spec) { s.Action.Scale[0] = 0.3 }},
		{"kp of right: 30 here, 31 in the policy", func(s *Spec) { s.Kp[1] = 31 }},
		{"kd of left: 0.5 here, 1 in the policy", func(s *Spec) { s.Kd[0] = 1 }},
		{"action.clip: [-1 1] here, none in the policy", func(s *Spec) { s.Action.Clip = nil }},
		{"action.clip: [-1 1] here, [-2 2] in the policy", func(s *Spec) { s.Action.Clip = &[2]float32{-2, 2} }},
		{"policy_period_ns: 20000000 here, 10000000 in the policy", func(s *Spec) { s.PolicyPeriodNs = 10e6 }},
		{"clock: ", func(s *Spec) { s.Clock.Hz = 3 }},
		{"clock: ", func(s *Spec) { s.Clock.Start = 0 }},
		{"clock: ", func(s *Spec) { s.Clock.MinCommand = 0 }},
		{"group teacher: not offered here", func(s *Spec) { s.Groups[1].Name = "teacher" }},
		{`group policy: layout "term" here, "frame" in the policy`, func(s *Spec) { s.Groups[0].Layout = ByFrame }},
		{"group policy, term 0: gyro here, gravity in the policy", func(s *Spec) { term(s).Name = "gravity" }},
		{"group policy, term 0: gyro here, joints in the policy", func(s *Spec) {
			s.Groups[0].Terms[0], s.Groups[0].Terms[1] = s.Groups[0].Terms[1], s.Groups[0].Terms[0]
		}},
		{"group policy, term 0 (gyro): size 3 here, 4 in the policy", func(s *Spec) { term(s).Size = 4 }},
		{"group policy, term 0 (gyro): scale 0.25 here, 1 in the policy", func(s *Spec) { term(s).Scale = 1 }},
		{"group policy, term 0 (gyro): clip none here, [-1 1] in the policy", func(s *Spec) { term(s).Clip = &[2]float32{-1, 1} }},
		{"group policy, term 0 (gyro): history 2 here, 5 in the policy", func(s *Spec) { term(s).History = 5 }},
		{`group policy, term 0 (gyro): order "newest" here, "oldest" in the policy`, func(s *Spec) { term(s).Order = "" }},
		{`group policy, term 0 (gyro): fill "zero" here, "first" in the policy`, func(s *Spec) { term(s).Fill = "" }},
		{"group policy: term clock is not offered here", func(s *Spec) {
			s.Groups[0].Terms = append(s.Groups[0].Terms, Term{Name: "clock", Size: 2, Scale: 1, History: 1})
		}},
		{"group policy: term joints is not in the policy", func(s *Spec) { s.Groups[0].Terms = s.Groups[0].Terms[:1] }},
	} {
		need := sample()
		c.spoil(need)
		if err := sample().Fits(need); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want one that says %q", err, c.says)
		}
	}
}

// What an Env adds, how fast its motors run, and more groups than asked for make
// no difference; nor does an empty order or fill against the one it stands for.
func TestFitsWhatDoesNotMatter(t *testing.T) {
	need := sample()
	need.Rows, need.Metrics, need.Deterministic, need.AutoReset = 1, nil, true, true
	need.ControlPeriodNs = 4e6
	need.Command.Vx = [2]float32{-9, 9}
	need.Groups = need.Groups[:1]
	need.Groups[0].Terms[1].Order, need.Groups[0].Terms[1].Fill = OldestFirst, FillFirst
	need.Groups[0].Terms[1].Sensed = false
	if err := sample().Fits(need); err != nil {
		t.Error(err)
	}
}

// Every field that JSON carries survives it, so that a contract in a file is the
// whole Spec.
func TestSpecSurvivesJSON(t *testing.T) {
	s := sample()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Spec
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	back.Rows, back.Metrics = s.Rows, s.Metrics
	if !reflect.DeepEqual(*s, back) {
		t.Errorf("%+v\nbecame %+v", *s, back)
	}
}

func TestCheckActionNamesRowAndJoint(t *testing.T) {
	joints := []string{"left", "right"}
	nan := float32(math.NaN())
	for _, c := range []struct {
		action []float32
		says   string // "": accepted
	}{
		{[]float32{1, 2, 3, math.MaxFloat32}, ""},
		{[]float32{1, 2, 3}, "3 numbers, want 2 rows x 2 joints"},
		{nil, "0 numbers"},
		{[]float32{1, 2, nan, 4}, "row 1, joint left is NaN"},
		{[]float32{1, float32(math.Inf(-1)), 3, 4}, "row 0, joint right is -Inf"},
	} {
		err := CheckAction(c.action, 2, joints)
		if c.says == "" {
			if err != nil {
				t.Errorf("%v: %v", c.action, err)
			}
		} else if !errors.Is(err, ErrAction) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: error %v, want %q", c.action, err, c.says)
		}
	}
}
