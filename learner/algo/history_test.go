//go:build torch

package algo

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/nets"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// historyConfig is a small student of ten frames.
func historyConfig() Config {
	c := Default()
	c.Net.Encoder, c.Net.Frames, c.Net.Actor, c.Net.Critic = encoderConv, 10, []int{64, 64}, []int{64, 64}
	c.Warm.Rollouts, c.Warm.Scripted, c.Warm.Batch = 4, 1, 128
	return c
}

// correlation of what the student estimates with what the critic was shown, over the last
// iteration's transitions, by component.
func correlation(t *testing.T, tr *Trainer) (r [nets.VelocityDim]float64) {
	t.Helper()
	b, at := tr.buf, tr.shape.Encoder.Velocity
	all := b.Steps * b.Rows
	estimated, truth := make([]float32, all*nets.VelocityDim), make([]float32, b.Critic)
	if err := tr.Nets().Estimate(b.PolicyObs, all, estimated); err != nil {
		t.Fatal(err)
	}
	var x, y, xx, yy, xy [nets.VelocityDim]float64
	for i := range all {
		buffer.Decode(truth, b.CriticObs[i*b.Critic:(i+1)*b.Critic])
		for j := range r {
			e, v := float64(estimated[i*nets.VelocityDim+j]), float64(truth[at+j])
			x[j], y[j], xx[j], yy[j], xy[j] = x[j]+e, y[j]+v, xx[j]+e*e, yy[j]+v*v, xy[j]+e*v
		}
	}
	n := float64(all)
	for j := range r {
		r[j] = (n*xy[j] - x[j]*y[j]) / math.Sqrt((n*xx[j]-x[j]*x[j])*(n*yy[j]-y[j]*y[j]))
	}
	return r
}

// A student that senses no velocity learns to tell it from ten frames, while it clones and
// while it learns from reward, mirrored samples and all.
func TestStudentOfAHistoryLearnsTheVelocity(t *testing.T) {
	tr := newTrainer(t, historyConfig(), newGo1sOf(t, task.WalkHistorySpec(10)), Options{Mirror: task.ExtraMirror})
	var rmse []float64
	train(t, tr, 40, func(r *Report) {
		rmse = append(rmse, r.VelocityRMSE)
		if r.Skipped != 0 {
			t.Errorf("%+v", r)
		}
	})
	after := correlation(t, tr)
	mean := func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		return sum / float64(len(x))
	}
	t.Logf("off by %.3f m/s in the first iterations, %.3f in the last; correlation %.2f", mean(rmse[:4]), mean(rmse[36:]), after)
	if !(mean(rmse[36:]) < 0.85*mean(rmse[:4])) || !(after[0] > 0.3 && after[1] > 0.3 && after[2] > 0.3) {
		t.Errorf("off by %v; correlation %.2f", rmse, after)
	}
}

// What an encoder cannot read is refused by name.
func TestEncoderRefusesOtherGroups(t *testing.T) {
	for want, change := range map[string]func(*rollout.Spec){
		"the group policy shows 1 frames of base_ang_vel (layout term": func(s *rollout.Spec) { *s = *task.WalkSpec() },
		"shows 12 frames of base_ang_vel (layout frame":                func(s *rollout.Spec) { *s = *task.WalkHistorySpec(12) },
		"shows 10 frames of base_ang_vel (layout term":                 func(s *rollout.Spec) { s.Group("policy").Layout = rollout.ByTerm },
		`order "newest"): want 10, frame by frame, the newest last`: func(s *rollout.Spec) {
			for i := range s.Group("policy").Terms {
				s.Group("policy").Terms[i].Order = rollout.NewestFirst
			}
		},
		"the group critic does not show the term base_lin_vel": func(s *rollout.Spec) {
			g := s.Group("critic")
			g.Terms = slices.DeleteFunc(slices.Clone(g.Terms), func(t rollout.Term) bool { return t.Name == "base_lin_vel" })
		},
	} {
		spec := task.WalkHistorySpec(10)
		change(spec)
		cfg := historyConfig()
		cfg.Warm.Rollouts, cfg.Warm.Scripted = 0, 0
		tr, err := New(cfg, newGo1sOf(t, spec), Options{Mirror: task.ExtraMirror})
		if err == nil {
			tr.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "algo: net.encoder") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// A student of a history may teach another.
func TestStudentOfAHistoryTeaches(t *testing.T) {
	cfg := historyConfig()
	var state []Section
	first := newTrainer(t, cfg, newGo1sOf(t, task.WalkHistorySpec(10)), Options{Mirror: task.ExtraMirror})
	train(t, first, 5, func(*Report) { state = cloneState(must(first.State())(t)) })
	cfg.Warm.Rollouts, cfg.Warm.Scripted = 0, 0
	cfg.OPD.Teacher, cfg.OPD.File, cfg.OPD.Group = teacherPrivileged, "first", "policy"
	second := newTrainer(t, cfg, newGo1sOf(t, task.WalkHistorySpec(10)), Options{Mirror: task.ExtraMirror, TeacherState: state})
	if got := second.opd.(*netTeacher).nets.Hash(); got != first.Nets().Hash() {
		t.Error("the teacher is another")
	}
	train(t, second, 1, func(r *Report) {
		if r.LabelRMSE == 0 {
			t.Errorf("%+v", r)
		}
	})
	for want, spoil := range map[string]func(*nets.Encoder){
		"net.encoder has a layer of 1000000":  func(e *nets.Encoder) { e.Latent = 1000000 },
		"net.encoder has a layer of 0":        func(e *nets.Encoder) { e.Convs[1].Channels = 0 },
		"nets: Encoder.Frames is 7, of which": func(e *nets.Encoder) { e.Frames = 7 },
		"section nets has":                    func(e *nets.Encoder) { e.Latent = 60000 },
		"nets: Load: Encoder of the state is": func(e *nets.Encoder) { e.Latent-- },
	} {
		bad := cloneState(state)
		for i := range bad {
			if bad[i].Name != "actor" {
				continue
			}
			var a savedActor
			if err := json.Unmarshal(bad[i].Data, &a); err != nil {
				t.Fatal(err)
			}
			spoil(a.Net.Encoder)
			bad[i].Data = must(json.Marshal(a))(t)
		}
		tr, err := New(cfg, newGo1sOf(t, task.WalkHistorySpec(10)), Options{Mirror: task.ExtraMirror, TeacherState: bad})
		if err == nil {
			tr.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
