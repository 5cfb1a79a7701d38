//go:build torch

package algo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
)

// cartConfig learns carts: no trot, no mirror.
func cartConfig() Config {
	c := Default()
	c.Steps = 8
	c.Net.Actor, c.Net.Critic = []int{16, 16}, []int{16}
	c.PPO.Mirror = false
	c.PPO.Minibatches = 2
	c.Warm.Rollouts, c.Warm.Scripted = 0, 0
	return c
}

const cartRows, cartEpisode = 12, 11

func newTrainer(t testing.TB, cfg Config, env rollout.Env, opts Options) *Trainer {
	t.Helper()
	opts.Seed, opts.Workers = max(opts.Seed, 1), max(opts.Workers, 2)
	tr, err := New(cfg, env, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

// train runs iterations more, and calls each, if there is one, after every one of them.
func train(t testing.TB, tr *Trainer, iterations int64, each func(*Report)) {
	t.Helper()
	end := tr.iteration + iterations
	tr.opts.Each = func(r *Report) error {
		if each != nil {
			each(r)
		}
		if r.Iteration >= end {
			return rollout.ErrStop
		}
		return nil
	}
	if err := tr.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// The first minibatch sees the policy that collected: every ratio is 1, with observations and
// actions in fp16, with and without a normaliser, also once that has moved.
func TestFirstRatioIsOne(t *testing.T) {
	for _, normaliser := range []bool{false, true} {
		cfg := cartConfig()
		cfg.Net.Normaliser = normaliser
		worst := 0.0
		train(t, newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{}), 20, func(r *Report) {
			worst = max(worst, r.FirstRatioError)
			if r.KL == 0 {
				t.Error("nothing was learnt")
			}
		})
		t.Logf("normaliser %v: largest |ratio - 1| of 20 first minibatches is %.2g", normaliser, worst)
		if worst > 1e-4 {
			t.Errorf("normaliser %v: largest |ratio - 1| is %v", normaliser, worst)
		}
	}
}

// A run is a function of its seed.
func TestRepeatable(t *testing.T) {
	hash := func(seed uint64) string {
		tr := newTrainer(t, cartConfig(), newCarts(cartRows, cartEpisode, 1), Options{Seed: seed})
		train(t, tr, 5, nil)
		return tr.Nets().Hash()
	}
	if a, b := hash(1), hash(1); a != b {
		t.Errorf("one seed, two results: %s, %s", a, b)
	}
	if hash(1) == hash(2) {
		t.Error("two seeds, one result")
	}
}

// It learns: with most seeds carts soon stay in the middle. So small a task is not learnt with
// every seed, and which ones those are hangs on the last bits.
func TestLearnsCarts(t *testing.T) { learnsCarts(t, cartConfig(), 120) }

// learnsCarts fails unless carts fall a quarter as often in the last forty iterations as in the first, with most seeds.
func learnsCarts(t *testing.T, cfg Config, iterations int64) {
	t.Helper()
	learnt := 0
	for seed := range uint64(8) {
		var first, last int
		train(t, newTrainer(t, cfg, newCarts(64, 60, seed), Options{Seed: seed + 1}), iterations, func(r *Report) {
			if r.Iteration <= 40 {
				first += r.Falls
			}
			if r.Iteration > iterations-40 {
				last += r.Falls
			}
		})
		t.Logf("seed %d: %d falls in the first forty iterations, %d in the last", seed, first, last)
		if last < first/4 {
			learnt++
		}
	}
	if learnt < 5 {
		t.Errorf("learnt with %d seeds of 8", learnt)
	}
}

// What is not finite, seen or earned or made of it, is not learnt from; three times in a row end
// the run (row 31 of the cases).
func TestNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, test := range []struct {
		name  string
		spoil func(step int, out *rollout.Step)
	}{
		{"reward NaN", func(_ int, out *rollout.Step) { out.Reward[3] = nan }},
		{"reward infinite", func(_ int, out *rollout.Step) { out.Reward[3] = inf }},
		{"reward beyond any gradient", func(_ int, out *rollout.Step) { out.Reward[3] = -1e30 }},
		{"observation NaN", func(_ int, out *rollout.Step) { out.Obs[0][5] = nan }},
		{"critic's observation NaN", func(_ int, out *rollout.Step) { out.Obs[1][5] = nan }},
		{"last observation NaN", func(_ int, out *rollout.Step) {
			for row, timedOut := range out.TimedOut {
				if timedOut {
					out.Final[1][5*row] = nan
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := cartConfig()
			cfg.PPO.Epochs, cfg.PPO.Minibatches = 1, 1
			env := newCarts(cartRows, 8, 1)
			// Once: skipped, counted, and the next iteration learns.
			env.spoil = func(step int, out *rollout.Step) {
				if step == 8 {
					test.spoil(step, out)
				}
			}
			skipped := 0
			tr := newTrainer(t, cfg, env, Options{})
			train(t, tr, 4, func(r *Report) {
				skipped += r.Skipped
				if r.Skipped == 0 && r.GradNorm == 0 {
					t.Errorf("iteration %d: nothing was learnt", r.Iteration)
				}
			})
			if skipped < 1 || skipped > 2 || tr.diverged != 0 { // an observation after the last step is seen twice
				t.Errorf("%d skipped, %d in a row at the end", skipped, tr.diverged)
			}
			// Always: three times in a row is enough, and nothing was learnt from them.
			hash := tr.Nets().Hash()
			env.spoil = test.spoil
			calls := 0
			tr.opts.Each = func(*Report) error {
				if calls++; calls > 5 {
					return rollout.ErrStop
				}
				return nil
			}
			err := tr.Run(context.Background())
			if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "algo: iteration 7: ") {
				t.Fatalf("got %v, want ErrDiverged", err)
			}
			t.Log(err)
			if calls != 2 || tr.Nets().Hash() != hash {
				t.Errorf("Each called %d times, parameters changed: %v", calls, tr.Nets().Hash() != hash)
			}
		})
	}
}

// One spike is a bad iteration, not the end, and nothing breaks later (row 31 of the cases).
func TestRewardSpike(t *testing.T) {
	for _, spike := range []float32{-1e6, 1e6} {
		cfg := cartConfig()
		env := newCarts(cartRows, cartEpisode, 1)
		env.spoil = func(step int, out *rollout.Step) {
			if step == 30 {
				out.Reward[0] = spike
			}
		}
		tr := newTrainer(t, cfg, env, Options{})
		train(t, tr, 30, func(r *Report) {
			if r.Skipped > 0 || !(r.Std >= 0.1-1e-6 && r.Std <= 1.65+1e-6) || r.Value-r.Value != 0 {
				t.Errorf("spike %v, iteration %d: %+v", spike, r.Iteration, r)
			}
		})
	}
}

// The deviation stays in its range however it is pushed (row 31 of the cases).
func TestStdStaysInRange(t *testing.T) {
	for _, entropy := range []float32{1000, 0} {
		cfg := cartConfig()
		cfg.PPO.EntropyWeight, cfg.PPO.EntropyEnd = entropy, entropy
		cfg.PPO.Rate, cfg.PPO.MaxRate = 0.1, 0.1
		train(t, newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{}), 20, func(r *Report) {
			if !(r.Std >= 0.1-1e-6 && r.Std <= 1.65+1e-6) {
				t.Errorf("entropy weight %v, iteration %d: deviation %v", entropy, r.Iteration, r.Std)
			}
		})
	}
}

// After ErrDiverged the networks of a checkpoint come back and training goes on, with other
// random numbers and with what it cost counted.
func TestRecover(t *testing.T) {
	env := newCarts(cartRows, cartEpisode, 1)
	tr := newTrainer(t, cartConfig(), env, Options{})
	var good []Section
	var hash string
	train(t, tr, 3, func(r *Report) {
		if r.Iteration == 2 {
			good, hash = must(tr.State())(t), tr.Nets().Hash()
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
	if tr.Nets().Hash() != hash || tr.iteration != 6 || tr.samples != 6*8*cartRows {
		t.Errorf("iteration %d, %d samples, parameters come back: %v", tr.iteration, tr.samples, tr.Nets().Hash() == hash)
	}
	// It counts to three anew.
	bad := env.steps + 2
	env.spoil = func(step int, out *rollout.Step) {
		if step == bad {
			out.Reward[0] = float32(math.NaN())
		}
	}
	train(t, tr, 1, func(r *Report) {
		if r.Skipped != 1 {
			t.Errorf("%+v", r)
		}
	})
	train(t, tr, 2, func(r *Report) {
		if r.Skipped != 0 || r.Reward-r.Reward != 0 || r.EpisodeReward-r.EpisodeReward != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A time-out bootstraps from the value of the observation it reached, a fall from nothing, and
// neither from the next episode (row 33 of the cases).
func TestEndsOfEpisodes(t *testing.T) {
	cfg := cartConfig()
	cfg.PPO.Lambda = 0
	env := newCarts(cartRows, 3, 1)
	finals := make(map[int]float32) // of transitions: V of the last observation
	tr := newTrainer(t, cfg, env, Options{})
	obs, value := make([]uint16, 5), make([]float32, 1)
	env.spoil = func(step int, out *rollout.Step) {
		out.Terminated[2] = step == 4 // a fall that the cart's own state knows nothing of
		out.TimedOut[2] = out.TimedOut[2] && step != 4
		for row := range cartRows {
			if out.TimedOut[row] {
				buffer.Encode(obs, out.Final[1][5*row:5*row+5])
				if err := tr.nets.Values(obs, 1, value); err != nil {
					t.Fatal(err)
				}
				finals[(step-1)*cartRows+row] = value[0]
			}
		}
	}
	tr.cfg.PPO.Minibatches = 1
	checked := 0
	train(t, tr, 1, func(*Report) {
		b := tr.buf
		for i, final := range finals {
			want := b.Reward[i] + 0.98*final
			if math.Abs(float64(b.Target[i]-want)) > 1e-5 || !b.TimedOut[i] {
				t.Errorf("transition %d: target %v, want %v", i, b.Target[i], want)
			}
			checked++
		}
		if i := 3*cartRows + 2; b.Target[i] != b.Reward[i] {
			t.Errorf("a fall's target is %v, want its reward %v", b.Target[i], b.Reward[i])
		}
	})
	if checked < 2*cartRows-2 {
		t.Errorf("%d time-outs in %d steps of %d rows", checked, cfg.Steps, cartRows)
	}
}

// What physics broke in is not learnt from, is no fall, and is counted.
func TestBadPhysics(t *testing.T) {
	env := newCarts(cartRows, cartEpisode, 1)
	env.spoil = func(step int, out *rollout.Step) {
		if step == 5 {
			out.Metrics[2*4+1], out.Terminated[4], out.TimedOut[4] = 1, true, false
		}
	}
	tr := newTrainer(t, cartConfig(), env, Options{})
	train(t, tr, 1, func(r *Report) {
		if r.BadRows != 1 || r.Falls != 0 || r.Metrics[1] != 0 || tr.buf.Valid[4*cartRows+4] {
			t.Errorf("%+v", r)
		}
	})
}

// Between the learning steps of iterations nothing is allocated, and at them next to nothing: libtorch is not asked for tensors.
func TestAllocations(t *testing.T) {
	cfg := cartConfig()
	cfg.OPD.Teacher, cfg.OPD.Mix.Start, cfg.OPD.Mix.End = "ema", 0.3, 0.3
	env := newCarts(cartRows, cartEpisode, 1)
	tr := newTrainer(t, cfg, env, Options{})
	step, after, d := rollout.NewStep(env.spec), rollout.NewStep(env.spec), rollout.NewDecision(env.spec)
	ctx := context.Background()
	if err := env.Reset(ctx, nil, step); err != nil {
		t.Fatal(err)
	}
	tr.begin()
	one := func() {
		if err := errors.Join(tr.Act(step, d), env.Step(ctx, d.Action, after), tr.Record(0, step, d, after)); err != nil {
			t.Fatal(err)
		}
		step, after = after, step
	}
	for range 10 * cfg.Steps {
		one()
	}
	whole := testing.AllocsPerRun(20, func() {
		for range cfg.Steps {
			one()
		}
	})
	if tr.step != 0 {
		t.Fatalf("at step %d", tr.step)
	}
	steps := testing.AllocsPerRun(1, func() {
		for range (cfg.Steps - 1) / 2 {
			one()
		}
	})
	t.Logf("%v allocations in the steps of an iteration, %v with learning", steps, whole)
	if steps != 0 {
		t.Errorf("%d steps allocate %v times", (cfg.Steps-1)/2, steps)
	}
	if whole > 2 {
		t.Errorf("an iteration allocates %v times", whole)
	}
}

// Memory stays flat over 10 000 iterations (row 39 of the cases).
func TestMemoryIsFlat(t *testing.T) {
	cfg := cartConfig()
	cfg.Steps, cfg.PPO.Epochs, cfg.PPO.Minibatches = 4, 1, 1
	cfg.OPD.Teacher = "snapshot"
	cfg.OPD.RefreshIterations = 2
	tr := newTrainer(t, cfg, newCarts(4, cartEpisode, 1), Options{})
	train(t, tr, 1000, nil)
	debug.FreeOSMemory()
	before := resident(t)
	train(t, tr, 10_000, nil)
	debug.FreeOSMemory()
	after := resident(t)
	t.Logf("%.1f MB after 1000 iterations, %.1f MB after 11000", before/1e6, after/1e6)
	if after > 1.02*before {
		t.Errorf("memory grew from %.1f to %.1f MB", before/1e6, after/1e6)
	}
}

// resident is this process's memory, bytes.
func resident(t testing.TB) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * float64(os.Getpagesize())
}
