package algo

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// cartsSpec is the contract of carts_test.go's Env.
func cartsSpec() rollout.Spec {
	term := func(name string, size int) rollout.Term {
		return rollout.Term{Name: name, Size: size, Scale: 1, History: 1, Sensed: true}
	}
	own := []rollout.Term{term("x", 1), term("v", 1), term("actions", 2)}
	return rollout.Spec{
		Robot: "carts", Joints: []string{"push", "nudge"}, Home: []float32{0, 0},
		Action: rollout.Action{Scale: []float32{0.1, 0.1}}, Kp: []float32{1, 1}, Kd: []float32{1, 1},
		PolicyPeriodNs: 20e6, ControlPeriodNs: 2e6,
		Groups: []rollout.Group{
			{Name: "policy", Layout: rollout.ByTerm, Terms: own},
			{Name: "critic", Layout: rollout.ByTerm, Terms: append(own[:len(own):len(own)], term("strength", 1))},
			{Name: "late", Layout: rollout.ByTerm, Terms: own},
		},
		Metrics: []string{"x", "physics_bad"}, Deterministic: true, AutoReset: true,
	}
}

// echo is a policy with a contract that answers with what it sees of the term "actions" plus 1.
type echo struct {
	spec rollout.Spec
	seen []float32
}

func (e *echo) Spec() rollout.Spec { return e.spec }
func (e *echo) Reset([]int)        {}
func (e *echo) Act(step *rollout.Step, out *rollout.Decision) error {
	e.seen = slices.Clone(step.Obs[0])
	for row := range len(out.Action) / 2 {
		for i := range 2 {
			out.Action[2*row+i] = step.Obs[0][4*row+2+i] + 1
		}
	}
	return nil
}

func newEcho() *echo {
	e := &echo{spec: cartsSpec()}
	e.spec.Groups = e.spec.Groups[:1]
	return e
}

// A teacher trained on other observations, or whose actions mean something else, is refused
// by the group, term or member that differs (row 37 of the cases).
func TestForeignRefuses(t *testing.T) {
	env := cartsSpec()
	env.Rows = 2
	for says, spoil := range map[string]func(*echo){
		"group late: term x is not in the policy":                           func(e *echo) { e.spec.Groups[0].Terms = nil },
		"group late, term 2 (actions): size 2 here, 60 in the policy":       func(e *echo) { e.spec.Groups[0].Terms[2].Size = 60 },
		"group late, term 1: v here, height in the policy":                  func(e *echo) { e.spec.Groups[0].Terms[1].Name = "height" },
		"group late, term 0 (x): scale 1 here, 0.25 in the policy":          func(e *echo) { e.spec.Groups[0].Terms[0].Scale = 0.25 },
		"group late, term 0 (x): history 1 here, 3 in the policy":           func(e *echo) { e.spec.Groups[0].Terms[0].History = 3 },
		"kp of push: 1 here, 2 in the policy":                               func(e *echo) { e.spec.Kp[0] = 2 },
		"home of nudge: 0 here, 0.5 in the policy":                          func(e *echo) { e.spec.Home[1] = 0.5 },
		"joint 0: push here, pull in the policy":                            func(e *echo) { e.spec.Joints[0] = "pull" },
		"policy_period_ns: 20000000 here, 10000000 in the policy":           func(e *echo) { e.spec.PolicyPeriodNs = 10e6 },
		"action.scale of push is 0.1 here, 0 in the policy: want neither 0": func(e *echo) { e.spec.Action.Scale[0] = 0 },
		"its contract has no group policy":                                  func(e *echo) { e.spec.Groups[0].Name = "critic" },
	} {
		e := newEcho()
		e.spec.Groups[0].Terms = slices.Clone(e.spec.Groups[0].Terms)
		spoil(e)
		if _, err := newForeign(&env, "late", e); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
	if _, err := newForeign(&env, "lidar", newEcho()); err == nil || !strings.Contains(err.Error(), `opd.group is "lidar", this Env offers policy, critic, late`) {
		t.Errorf("another group: %v", err)
	}
	if _, err := newForeign(&env, "late", &Gait{}); err == nil || !strings.Contains(err.Error(), "no contract") {
		t.Errorf("a policy without a contract: %v", err)
	}
	if _, err := newForeign(&env, "critic", newEcho()); err == nil || !strings.Contains(err.Error(), "group critic: term strength is not in the policy") {
		t.Errorf("a wider group: %v", err)
	}
}

// The clock matters to those who see it.
func TestForeignClock(t *testing.T) {
	env := cartsSpec()
	env.Clock = rollout.Clock{Hz: 2}
	if _, err := newForeign(&env, "late", newEcho()); err != nil {
		t.Error(err)
	}
	env.Groups[2].Terms = append(slices.Clone(env.Groups[2].Terms), rollout.Term{Name: "clock", Size: 2, Scale: 1, History: 1})
	e := newEcho()
	e.spec.Groups = []rollout.Group{env.Groups[2]}
	e.spec.Groups[0].Name = "policy"
	if _, err := newForeign(&env, "late", e); err == nil || !strings.Contains(err.Error(), "clock: ") {
		t.Errorf("clocks of 2 and 0 Hz: %v", err)
	}
}

// It reads the group it was given, and where a unit of action is another angle, it sees and says
// angles of its own.
func TestForeignTranslates(t *testing.T) {
	env := cartsSpec()
	env.Rows = 2
	env.Action = rollout.Action{Scale: []float32{0.2, 0.4}, Clip: &[2]float32{-5, 5}}
	step := rollout.NewStep(env)
	copy(step.Obs[2], []float32{7, 8, 0.5, 1, 7, 8, -1, 9})
	for _, test := range []struct {
		name      string
		action    rollout.Action
		seen, out []float32
	}{
		{"same", env.Action, []float32{7, 8, 0.5, 1, 7, 8, -1, 9}, []float32{1.5, 2, 0, 10}},
		// Half the angle a unit: it sees twice the numbers, and 9 was executed as 5.
		{"half", rollout.Action{Scale: []float32{0.1, 0.2}}, []float32{7, 8, 1, 2, 7, 8, -2, 10}, []float32{1, 1.5, -0.5, 5}},
		{"clip", rollout.Action{Scale: []float32{0.1, 0.2}, Clip: &[2]float32{-1, 2.5}}, []float32{7, 8, 1, 2, 7, 8, -1, 2.5}, []float32{1, 1.25, 0, 1.25}},
	} {
		e := newEcho()
		e.spec.Action = test.action
		f, err := newForeign(&env, "late", e)
		if err != nil {
			t.Fatal(err)
		}
		action := make([]float32, 4)
		if err := f.label(step, action); err != nil {
			t.Fatal(err)
		}
		near := func(a, b []float32) bool {
			return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-6 })
		}
		if !near(e.seen, test.seen) || !near(action, test.out) {
			t.Errorf("%s: saw %v and said %v, want %v and %v", test.name, e.seen, action, test.seen, test.out)
		}
		if n := testing.AllocsPerRun(20, func() { _ = f.label(step, action) }); n > 1 { // echo's own
			t.Errorf("%s: label allocates %v times", test.name, n)
		}
	}
	if step.Obs[2][6] != -1 {
		t.Errorf("the Env's own observation was changed: %v", step.Obs[2])
	}
}
