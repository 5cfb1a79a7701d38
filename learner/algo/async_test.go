//go:build torch

package algo

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/nets"
)

// asyncConfig is cartConfig, with the collecting one update behind.
func asyncConfig() Config {
	c := cartConfig()
	c.Async = true
	return c
}

// What is learnt does not depend on how long collecting and learning take: the first iteration is
// collected by the policy that then learns from it, each other by the one of exactly one update
// before.
func TestAsyncIsRepeatable(t *testing.T) {
	run := func(cfg Config, delay func()) (hash string, rho []float64) {
		env := newCarts(cartRows, cartEpisode, 1)
		env.spoil = func(int, *rollout.Step) { delay() }
		tr := newTrainer(t, cfg, env, Options{})
		train(t, tr, 6, func(r *Report) {
			rho = append(rho, r.Rho)
			if r.FirstRatioError > 1e-4 || r.KL == 0 || r.Skipped != 0 {
				t.Errorf("%+v", r)
			}
		})
		return tr.Nets().Hash(), rho
	}
	fast, rho := run(asyncConfig(), func() {})
	slow, _ := run(asyncConfig(), func() { time.Sleep(rand.N(2 * time.Millisecond)) })
	if fast != slow {
		t.Errorf("collecting fast gave %s, collecting slowly %s", fast, slow)
	}
	present, ones := run(cartConfig(), func() {})
	if present == fast {
		t.Error("it is the policy of the same iteration that collects")
	}
	for i := range rho {
		if first := math.Abs(rho[i]-1) < 1e-5; first != (i == 0) || rho[i] > 1 || rho[i] < 0.3 || ones[i] != 1 {
			t.Errorf("iteration %d: rho %v, of a policy that does not change %v", i+1, rho[i], ones[i])
		}
	}
}

// One update between collecting and learning: ratios and divergence are taken against the policy at
// the update's start, whose density over that of the policy that collected weighs returns and
// surrogate, 1 at most, where the student drove.
func TestDecoupled(t *testing.T) {
	cfg := taught(teacherSnapshot)
	cfg.OPD.Mix = Schedule{0.3, 0.3, 0}
	cfg.Async, cfg.PPO.Epochs, cfg.PPO.Minibatches = true, 1, 1
	tr := newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{})
	checked, below := 0, 0
	var before []float32 // log-probability when collected
	means := make([]float32, len(tr.buf.Mean))
	student, err := nets.New(tr.shape) // the policy at the update's start
	if err != nil {
		t.Fatal(err)
	}
	defer student.Close()
	train(t, tr, 5, func(r *Report) {
		if before != nil {
			b := tr.spare.buf // what this iteration was learnt from
			a, std := b.Act, make([]float32, b.Act)
			if err := student.Forward(b.PolicyObs, b.Steps*b.Rows, means); err != nil {
				t.Fatal(err)
			}
			student.Std(std)
			action := make([]float32, a)
			for i := range b.LogProb {
				buffer.Decode(action, b.Action[i*a:(i+1)*a])
				start := nets.LogProb(action, means[i*a:(i+1)*a], std)
				rho := min(1, math.Exp(float64(start)-float64(before[i])))
				if b.Teacher[i] {
					rho = 0
				}
				if b.LogProb[i] != start || math.Abs(float64(b.Rho[i])-rho) > 1e-6 || b.Mean[i*a] != means[i*a] || tr.spare.std[0] != std[0] {
					t.Fatalf("iteration %d, transition %d: log-probability %v, rho %v; want %v, %v", r.Iteration, i, b.LogProb[i], b.Rho[i], start, rho)
				}
				checked++
				if rho > 0 && rho < 0.99 {
					below++
				}
			}
			// The advantages are those of Returns and Normalise times rho.
			learnt := append([]float32(nil), b.Advantage...)
			if err := b.Returns(cfg.PPO.Gamma, cfg.PPO.Lambda); err != nil {
				t.Fatal(err)
			}
			b.Normalise()
			for i, x := range learnt {
				want := b.Advantage[i] * b.Rho[i]
				if b.Teacher[i] {
					want = 0
				}
				if x != want {
					t.Fatalf("iteration %d, transition %d: advantage %v, want %v", r.Iteration, i, x, want)
				}
			}
		}
		if err := student.Blend(tr.nets, 0); err != nil {
			t.Fatal(err)
		}
		before = append(before[:0], tr.pending.buf.LogProb...)
	})
	if checked < 4*cfg.Steps*cartRows || below == 0 {
		t.Errorf("%d transitions, %d with a rho below 0.99", checked, below)
	}
}

// Cloning does not run ahead, and after it the first iteration has nothing to be behind.
func TestAsyncAfterCloning(t *testing.T) {
	cfg := Default()
	cfg.Async, cfg.PPO.Mirror = true, false
	cfg.Net.Actor, cfg.Net.Critic = []int{32}, []int{32}
	cfg.Warm.Rollouts, cfg.Warm.Scripted, cfg.Warm.Batch = 2, 1, 128
	var warm []bool
	train(t, newTrainer(t, cfg, newGo1s(t), Options{}), 5, func(r *Report) {
		warm = append(warm, r.Warm)
		if r.Iteration == 3 && math.Abs(r.Rho-1) > 1e-5 || r.Iteration > 3 && !(r.Rho > 0.1 && r.Rho < 0.999) || r.FirstRatioError > 1e-4 {
			t.Errorf("%+v", r)
		}
	})
	if len(warm) != 5 || !warm[1] || warm[2] {
		t.Errorf("cloned: %v", warm)
	}
}

// A Run that ends within an iteration leaves nothing learning behind, counts what was learnt, and
// the next begins anew.
func TestAsyncEnds(t *testing.T) {
	env := newCarts(cartRows, cartEpisode, 1)
	tr := newTrainer(t, asyncConfig(), env, Options{})
	routines := runtime.NumGoroutine()
	broken := errors.New("the rows broke")
	for i, test := range []struct {
		at   int // step
		want error
	}{{3 * 8, nil}, {4*8 + 5, nil}, {2*8 + 3, broken}} {
		ctx, end := context.WithCancel(context.Background())
		iteration, from := tr.iteration, env.steps
		told := int64(0)
		tr.opts.Each = func(*Report) error { told++; return nil }
		env.spoil = func(step int, _ *rollout.Step) {
			if step-from == test.at {
				if test.want == nil {
					end()
				} else {
					env.broken = broken
				}
			}
		}
		err := tr.Run(ctx)
		env.broken = nil
		end()
		if !errors.Is(err, test.want) || tr.learner != nil || tr.pending != nil {
			t.Errorf("%d: error %v, learner %v", i, err, tr.learner)
		}
		// Of the iterations that were collected whole each was learnt from; of the last nobody was told.
		if n := tr.iteration - iteration; n != int64(test.at/8) || told != n-1 || tr.samples != tr.iteration*8*cartRows {
			t.Errorf("%d: %d iterations in %d steps, told of %d; %d samples", i, n, test.at, told, tr.samples)
		}
	}
	for wait := 0; runtime.NumGoroutine() > routines; wait++ { // the last may be about to end
		if wait == 1000 {
			t.Fatalf("%d goroutines, were %d", runtime.NumGoroutine(), routines)
		}
		time.Sleep(10 * time.Millisecond)
	}
	env.spoil = nil
	train(t, tr, 2, func(r *Report) {
		if r.Skipped > 0 || r.EpisodeLength > 8*3 {
			t.Errorf("%+v", r)
		}
	})
}

// What is not finite is not learnt from one update behind either; three times in a row end the run,
// and what a checkpoint knew is taken back.
func TestAsyncDiverges(t *testing.T) {
	env := newCarts(cartRows, cartEpisode, 1)
	tr := newTrainer(t, asyncConfig(), env, Options{})
	var good []Section
	var hash string
	train(t, tr, 3, func(r *Report) {
		if r.Iteration == 2 {
			good, hash = cloneState(must(tr.State())(t)), tr.Nets().Hash()
		}
	})
	env.spoil = func(_ int, out *rollout.Step) { out.Reward[0] = float32(math.NaN()) }
	tr.opts.Each = nil
	if err := tr.Run(context.Background()); !errors.Is(err, ErrDiverged) {
		t.Fatal(err)
	}
	env.spoil = nil
	if err := tr.Recover(good); err != nil {
		t.Fatal(err)
	}
	if tr.Nets().Hash() != hash || tr.pending != nil || tr.iteration != 6 {
		t.Errorf("at iteration %d, parameters come back: %v", tr.iteration, tr.Nets().Hash() == hash)
	}
	train(t, tr, 3, func(r *Report) {
		if r.Skipped != 0 {
			t.Errorf("%+v", r)
		}
	})
	// Densities that are none: the iteration is skipped like one with a number that is none.
	s := tr.storage
	clear(s.buf.LogProb)
	s.buf.LogProb[5] = float32(math.NaN())
	if err := tr.decouple(s); !errors.Is(err, nets.ErrNonFinite) {
		t.Error(err)
	}
}

// It learns one update behind too, later: with the toy's few samples an update goes far.
func TestAsyncLearnsCarts(t *testing.T) { learnsCarts(t, asyncConfig(), 240) }
