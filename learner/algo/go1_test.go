//go:build torch

package algo

import (
	"errors"
	"slices"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// newGo1s are 32 simulated Go1s in the world that training uses, which also show more.
func newGo1s(t testing.TB, more ...rollout.Group) rollout.Env {
	t.Helper()
	spec := task.WalkSpec()
	spec.Groups = append(spec.Groups, more...)
	return newGo1sOf(t, spec)
}

// newGo1sOf are such Go1s that show what spec says.
func newGo1sOf(t testing.TB, spec *rollout.Spec) rollout.Env {
	t.Helper()
	name, params, err := mujoco.ByPhysics("lean")
	if err != nil {
		t.Fatal(err)
	}
	c := mujoco.DefaultEnvConfig(spec)
	if c.World, err = task.WorldByName("walk"); err != nil {
		t.Fatal(err)
	}
	c.Rows, c.Threads, c.Seed, c.Params = 32, 2, 1, params
	if c.Model, err = mujoco.Load(name); err != nil {
		t.Fatal(err)
	}
	defer c.Model.Close()
	env, err := mujoco.NewEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { env.Close() })
	return env
}

// The whole loop on Go1s: two iterations of cloning, three of PPO beside the lasting gait
// teacher. Ratios begin at 1, and a run that is saved within and taken up
// elsewhere ends the same, mirrored samples and all.
func TestGo1s(t *testing.T) {
	for _, test := range []struct {
		name       string
		mirror     bool
		normaliser bool
		group      string
		encoder    string
	}{{"plain", false, false, "policy", encoderNone}, {"normaliser", false, true, "policy", encoderNone}, {"mirror", true, false, "policy", encoderNone},
		{"privileged", true, true, "critic", encoderNone}, {"history", false, true, "policy", encoderConv}, {"history, mirror", true, false, "policy", encoderConv}} {
		t.Run(test.name, func(t *testing.T) {
			cfg := Default()
			cfg.PPO.Mirror, cfg.Net.Normaliser, cfg.Net.Group = test.mirror, test.normaliser, test.group
			cfg.Net.Actor, cfg.Net.Critic, cfg.Net.Encoder = []int{64, 64}, []int{64, 64}, test.encoder
			spec := task.WalkHistorySpec(cfg.Net.History())
			cfg.Warm.Rollouts, cfg.Warm.Scripted, cfg.Warm.Batch = 2, 1, 128
			cfg.OPD.Teacher, cfg.OPD.Mix = teacherGait, Schedule{0.5, 0, 3}
			opts := Options{Mirror: task.ExtraMirror}
			var reports []Report
			var saved []Section
			tr := newTrainer(t, cfg, newGo1sOf(t, spec), opts)
			train(t, tr, 5, func(r *Report) {
				reports = append(reports, *r)
				if r.Iteration == 3 {
					saved = cloneState(must(tr.State())(t))
				}
			})
			if reports[0].TeacherShare != 1 || reports[1].TeacherShare != 0 || !reports[1].Warm || reports[2].Warm {
				t.Errorf("shares %v and %v, cloning %v and %v", reports[0].TeacherShare, reports[1].TeacherShare, reports[1].Warm, reports[2].Warm)
			}
			for i, r := range reports {
				t.Logf("%d: reward %.3f, label %.3f, teacher %.2f, |ratio - 1| %.2g, KL %.3f", i+1, r.Reward, r.LabelRMSE, r.TeacherShare, r.FirstRatioError, r.KL)
				if r.LabelRMSE == 0 || r.Skipped != 0 {
					t.Errorf("%+v", r)
				}
				if !test.mirror && r.FirstRatioError > 1e-4 {
					t.Errorf("iteration %d: |ratio - 1| is %v", i+1, r.FirstRatioError)
				}
			}
			again := newTrainer(t, cfg, newGo1sOf(t, spec), opts)
			if err := again.Restore(saved); err != nil {
				t.Fatal(err)
			}
			train(t, again, 2, nil)
			if again.Nets().Hash() != tr.Nets().Hash() {
				t.Error("taken up at iteration 3 it ends elsewhere")
			}
		})
	}
}

// A policy of somebody else's, in ONNX, with other radians per unit of action and another clip,
// that wants to see the velocity: shown what it was trained on, it drives our Go1s, in our units.
func TestForeignPolicyDrivesGo1s(t *testing.T) {
	file, err := contract.Load(contracttest.Policy(t, "go1_policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := session.Open(file, session.Options{Rows: 32})
	if errors.Is(err, session.ErrNoLibrary) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer policy.Close()
	wants := *file.Contract.Spec.Group("policy")
	wants.Name = "go1_policy"
	env := newGo1s(t, wants)
	spec := env.Spec()
	cfg := Default()
	cfg.Warm.Rollouts, cfg.Warm.Scripted = 0, 0
	cfg.PPO.Epochs, cfg.PPO.Mirror = 1, false
	cfg.OPD.Teacher, cfg.OPD.File, cfg.OPD.Group, cfg.OPD.Mix = teacherFile, "go1_policy.onnx", "go1_policy", Schedule{1, 1, 0}
	tr := newTrainer(t, cfg, env, Options{Teacher: policy})
	falls, errs := 0, 0.0
	train(t, tr, 12, func(r *Report) {
		falls += r.Falls
		if r.Iteration > 6 {
			errs += r.Metrics[slices.Index(spec.Metrics, "vel_err")] / 6
		}
	})
	t.Logf("%d falls of 32 rows in 5.8 s, velocity error %.3f m/s", falls, errs)
	if falls > 2 || errs > 0.2 {
		t.Errorf("%d falls, velocity error %.3f m/s", falls, errs)
	}
}
