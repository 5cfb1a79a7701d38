package mujoco_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// stands is a policy that does nothing.
type stands struct{}

func (stands) Reset([]int) {}

func (stands) Act(_ *rollout.Step, d *rollout.Decision) error {
	clear(d.Action)
	return nil
}

func evaluate(t *testing.T, physics string, spec *rollout.Spec, p rollout.Policy) *task.Result {
	t.Helper()
	ev, _ := task.EvalV1()
	r, err := mujoco.Evaluate(context.Background(), ev, physics, 2, spec, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *r)
	return r
}

// The frozen world scores a policy that others trained, and one that does nothing, as design.md
// section 6 says: otherwise it is another world.
func TestEvalV1Calibration(t *testing.T) {
	p := playground(t)
	spec := p.Spec()
	near := func(what string, got, want, by float64) {
		if !(math.Abs(got-want) <= by) {
			t.Errorf("%s: %.4f, want %v +- %v", what, got, want, by)
		}
	}
	r := evaluate(t, "", &spec, p)
	near("go1_policy's velocity error", r.VelErr, 0.081, 0.015)
	near("go1_policy's yaw rate error", r.YawErr, 0.114, 0.03)
	if r.FallRate > 0.03 {
		t.Errorf("go1_policy falls in %.1f %% of rows, want at most 3", 100*r.FallRate)
	}
	r = evaluate(t, "", task.WalkSpec(), stands{})
	near("standing's velocity error", r.VelErr, 0.59, 0.03)
	near("standing's yaw rate error", r.YawErr, 0.53, 0.03)
	// With kp 35 the legs sag by 2.5 cm, and a quarter of the robots that start or are pushed backwards sit down until a knee
	// is below 0.02 m, in the full model too (24 %). Whoever measured the figures above saw none fall.
	near("share of standing rows that fall", r.FallRate, 0.29, 0.08)
	blind := &alters{Policy: p, obs: scale(0, 0, 3)}
	if r = evaluate(t, "", &spec, blind); r.FallRate <= 0.9 {
		t.Errorf("without velocity it falls in %.1f %% of rows, want more than 90", 100*r.FallRate)
	}
}

// A policy walks in the lean model as in the full one.
func TestLeanAndFullAgree(t *testing.T) {
	p := playground(t)
	for _, c := range [][3]float32{{1, 0, 0}, {-1, 0, 0}, {0, 0.5, 0}, {0, 0, 1}, {0.8, -0.3, 0.5}, {}} {
		var means [2][3]float64
		for i, physics := range []string{"full", "lean"} {
			cfg := mujoco.DefaultEnvConfig(nil)
			name, _, err := mujoco.ByPhysics(physics)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Model, err = mujoco.Load(name); err != nil {
				t.Fatal(err)
			}
			defer cfg.Model.Close()
			cfg.Rows, cfg.Threads, cfg.Seed = 16, 2, 1
			cfg.World.Start = task.Start{Joint: 0.03, Velocity: 0.1}
			cfg.World.Commands = task.Fixed(c[0], c[1], c[2])
			w := walk(t, p, p.Spec(), cfg, 8)
			if len(w.falls) > 0 {
				t.Errorf("%s, command %v: %v", physics, c, w)
			}
			means[i] = [3]float64{w.vx, w.vy, w.wz}
		}
		t.Logf("command %v: full %.3f, lean %.3f", c, means[0], means[1])
		for i, unit := range []string{"m/s", "m/s", "rad/s"} {
			if math.Abs(means[0][i]-means[1][i]) > 0.05 {
				t.Errorf("command %v: full and lean differ by more than 0.05 %s: %.3f, %.3f", c, unit, means[0][i], means[1][i])
			}
		}
	}
}

// An evaluation that somebody ends is no score.
func TestEvaluateStops(t *testing.T) {
	ev, _ := task.EvalV1()
	ctx, cancel := context.WithCancel(context.Background())
	_, err := mujoco.Evaluate(ctx, ev, "", 1, task.WalkSpec(), stands{}, func(share float64) {
		if share > 0.01 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	if _, err := mujoco.Evaluate(context.Background(), ev, "jelly", 1, task.WalkSpec(), stands{}, nil); err == nil || !strings.Contains(err.Error(), `physics "jelly": want one of full, lean`) {
		t.Errorf("error %v", err)
	}
}

// At the command zero without pushes a robot that does nothing keeps its feet where they are, one that walks does not. The score beside it is
// Evaluate's.
func TestEvaluateStanding(t *testing.T) {
	ev, _ := task.EvalV1()
	ev.Rows, ev.Seconds = 16, 6
	for _, c := range task.Suite(ev) {
		if c.Kind != task.Standing {
			continue
		}
		spec := task.WalkSpec()
		score, still, err := mujoco.EvaluateStanding(context.Background(), &c.Evaluation, 2, spec, stands{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("stands: %+v, %+v", *score, *still)
		if still.Lifts != 0 || still.LiftShare != 0 || !(still.JointSpeed < 0.1) || !(still.DriftMax < 0.2) || !(still.Drift > 0) {
			t.Errorf("a robot that does nothing: %+v", *still)
		}
		again, err := mujoco.Evaluate(context.Background(), &c.Evaluation, "", 1, spec, stands{}, nil)
		if err != nil || *again != *score {
			t.Errorf("Evaluate says %+v (%v), beside standing %+v", again, err, *score)
		}
		p := playground(t)
		own := p.Spec()
		walking := c.Evaluation
		walking.World.Commands = task.Fixed(0.5, 0, 0)
		score, still, err = mujoco.EvaluateStanding(context.Background(), &walking, 2, &own, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("walks: %+v, %+v", *score, *still)
		// Some two steps a second of each of 4 feet of 16 robots.
		if still.Lifts < 16*4*5 || still.LiftShare != 1 || !(still.JointSpeed > 1) || math.Abs(still.Drift-0.5*ev.Seconds) > 0.4 || still.DriftMax < still.Drift {
			t.Errorf("a robot that walks at 0.5 m/s: %+v", *still)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, _, err := mujoco.EvaluateStanding(ctx, &c.Evaluation, 1, spec, stands{}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want canceled", err)
		}
	}
}

// sees keeps what it was shown first.
type sees struct{ first []float32 }

func (*sees) Reset([]int) {}

func (p *sees) Act(s *rollout.Step, d *rollout.Decision) error {
	if p.first == nil {
		p.first = slices.Clone(s.Obs[0])
	}
	clear(d.Action)
	return nil
}

// A teacher, which reads what only a simulator knows, is shown the truth where a student is shown what sensors show.
func TestTeachersSeeTheTruth(t *testing.T) {
	ev, _ := task.EvalV1()
	ev.Rows, ev.Seconds = 1, 1.02
	look := func(noise bool, terms ...rollout.Term) []float32 {
		spec := task.DefaultSpec()
		spec.Groups = []rollout.Group{{Name: "policy", Layout: rollout.ByTerm, Terms: terms}}
		own := *ev
		if !noise {
			own.World.Noise = task.Noise{}
			own.World.Vary.JointZero = 0
		}
		var p sees
		if _, err := mujoco.Evaluate(context.Background(), &own, "", 1, spec, &p, nil); err != nil {
			t.Fatal(err)
		}
		return p.first
	}
	gravity := rollout.Term{Name: "projected_gravity", Size: 3, Scale: 1, History: 1, Sensed: true}
	height := rollout.Term{Name: "base_height", Size: 1, Scale: 1, History: 1}
	truth := look(false, gravity)
	if seen := look(true, gravity); slices.Equal(seen, truth) {
		t.Errorf("a student is shown the truth: %v", seen)
	}
	if seen := look(true, gravity, height); !slices.Equal(seen[:3], truth) {
		t.Errorf("a teacher is shown %v of %v", seen, truth)
	}
}
