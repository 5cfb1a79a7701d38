package mujoco_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/export"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// TestPromise14Replay is the second half of promise 14: the observations that a rollout recorded, put through its exported policy again,
// give the recorded actions bit for bit, by one worker and by two with a half each, and so does the rollout itself on another number
// of threads. OPENCLAW_SOAK=14 runs all 100.
func TestPromise14Replay(t *testing.T) {
	soak := promise.New(t, 14, 8, 100)
	models := map[string]*mujoco.Model{}
	for _, physics := range []string{"lean", "full"} {
		name, _, err := mujoco.ByPhysics(physics)
		must(t, err)
		models[physics], err = mujoco.Load(name)
		must(t, err)
		defer models[physics].Close()
	}
	for seed := range soak.Seeds() {
		random := rand.New(rand.NewPCG(seed, 1414))
		physics, world := []string{"lean", "full"}[seed%2], []string{"walk", "ship"}[seed/2%2]
		hidden := [][]int{{128, 128}, {64}, {256, 128, 64}}[seed%3]
		rows, batch := 1+random.IntN(5), 1 // as a robot runs it, row by row
		if seed%4 > 1 {                    // or as a simulator does
			batch = 1 + random.IntN(rows)
		}
		path := randomPolicy(t, random, seed%5 == 0, hidden)
		roll := func(threads int) []byte {
			cfg := mujoco.DefaultEnvConfig(task.WalkSpec())
			cfg.Model, cfg.Rows, cfg.Threads, cfg.Seed = models[physics], rows, threads, seed
			var err error
			cfg.World, err = task.WorldByName(world)
			must(t, err)
			cfg.World.EpisodeSeconds, cfg.World.Pushes.EverySeconds = 1.5, [2]float64{0.5, 1}
			return record(t, cfg, path, batch, 100)
		}
		kept := filepath.Join(t.TempDir(), "rollout")
		must(t, os.WriteFile(kept, roll(1), 0o644))
		recorded, err := os.ReadFile(kept)
		must(t, err)
		ok := true
		for _, workers := range []int{1, 2} {
			if !bytes.Equal(recorded, rerun(t, recorded, path, rows, batch, workers)) {
				t.Errorf("seed %d, %s, %s, network %v, %d of %d rows at once: %d workers give other actions", seed, physics, world, hidden, batch, rows, workers)
				ok = false
			}
		}
		if !bytes.Equal(recorded, roll(2)) {
			t.Errorf("seed %d, %s, %s, network %v, %d of %d rows at once: two threads roll out otherwise", seed, physics, world, hidden, batch, rows)
			ok = false
		}
		soak.Done(seed, ok, map[string]any{"physics": physics, "world": world, "hidden": hidden, "rows": rows, "batch": batch})
	}
}

// record lets the policy act for steps and gives what it saw and did: of each step its observations, then its actions, little endian.
func record(t *testing.T, cfg mujoco.EnvConfig, path string, batch, steps int) (kept []byte) {
	t.Helper()
	e, err := mujoco.NewEnv(cfg)
	must(t, err)
	defer e.Close()
	spec := e.Spec()
	p := openRows(t, path, &spec, batch)
	defer p.Close()
	step, ends, moved := 0, 0, false
	must(t, rollout.Run(t.Context(), []rollout.Env{e}, p, rollout.SinkFunc(func(_ int, before *rollout.Step, d *rollout.Decision, after *rollout.Step) error {
		for _, part := range [][]float32{before.Obs[spec.GroupIndex("policy")], d.Action} {
			kept, err = binary.Append(kept, binary.LittleEndian, part)
			must(t, err)
		}
		for row := range spec.Rows {
			if after.Ended(row) {
				ends++
			}
		}
		moved = moved || d.Action[0] != d.Action[1]
		if step++; step == steps {
			return rollout.ErrStop
		}
		return nil
	})))
	if ends == 0 || !moved {
		t.Fatalf("%d episodes ended, joints asked for different angles: %v: nothing to replay", ends, moved)
	}
	return kept
}

// rerun puts the recorded observations through the policy's file, each worker a share of the steps with a session of its own, and gives
// the record that this makes.
func rerun(t *testing.T, recorded []byte, path string, rows, batch, workers int) []byte {
	t.Helper()
	spec := *task.WalkSpec()
	spec.Rows = rows
	group := spec.GroupIndex("policy")
	one := 4 * rows * (spec.Groups[group].Size() + spec.ActDim()) // bytes of a step
	steps := len(recorded) / one
	again := make([]byte, len(recorded))
	errs := make(chan error, workers)
	for w := range workers {
		p := openRows(t, path, &spec, batch)
		go func() {
			defer p.Close()
			step, d := rollout.NewStep(spec), rollout.NewDecision(spec)
			for n := w * steps / workers; n < (w+1)*steps/workers; n++ {
				from := recorded[n*one:]
				if _, err := binary.Decode(from, binary.LittleEndian, step.Obs[group]); err != nil {
					errs <- err
					return
				}
				if err := p.Act(step, d); err != nil {
					errs <- err
					return
				}
				at := n * one
				for _, part := range [][]float32{step.Obs[group], d.Action} {
					for _, x := range part {
						binary.LittleEndian.PutUint32(again[at:], math.Float32bits(x))
						at += 4
					}
				}
			}
			errs <- nil
		}()
	}
	var err error
	for range workers {
		err = errors.Join(err, <-errs)
	}
	must(t, err)
	return again
}

// openRows opens a policy's file anew for an Env, batch rows at once.
func openRows(t *testing.T, path string, env *rollout.Spec, batch int) *session.Policy {
	t.Helper()
	file, err := contract.Load(path)
	must(t, err)
	p, err := session.Open(file, session.Options{Rows: batch, Env: env})
	must(t, err)
	return p
}

// randomPolicy exports a network of random weights, which a Go1 does not walk by but moves by.
func randomPolicy(t *testing.T, random *rand.Rand, normaliser bool, hidden []int) string {
	t.Helper()
	c := &contract.Contract{Version: contract.Version, Name: "random", Spec: *task.WalkSpec(), License: "Apache-2.0"}
	width := c.Group("policy").Size()
	n := &export.Network{Activation: export.ELU, Normaliser: contract.Normaliser{InGraph: normaliser}}
	for range width {
		n.Normaliser.Mean = append(n.Normaliser.Mean, float32(0.1*random.NormFloat64()))
		n.Normaliser.Std = append(n.Normaliser.Std, float32(0.5+random.Float64()))
	}
	for _, out := range append(hidden[:len(hidden):len(hidden)], c.ActDim()) {
		l := export.Layer{Out: out, In: width, Bias: make([]float32, out), Weight: make([]float32, out*width)}
		for i := range l.Weight {
			l.Weight[i] = float32(random.NormFloat64() / math.Sqrt(float64(width)))
		}
		n.Layers = append(n.Layers, l)
		width = out
	}
	pairs := make([]contract.Pair, export.ParityRows)
	for i := range pairs {
		for range n.Layers[0].In {
			pairs[i].Obs = append(pairs[i].Obs, float32(random.NormFloat64()))
		}
		pairs[i].Action = forward(n, pairs[i].Obs)
	}
	path := filepath.Join(t.TempDir(), "policy.onnx")
	_, err := export.Write(path, n, c, pairs)
	must(t, err)
	return path
}

// forward is what n makes of an observation, without any library.
func forward(n *export.Network, obs []float32) (out []float32) {
	x := make([]float64, len(obs))
	for i := range obs {
		x[i] = float64(obs[i])
		if z := n.Normaliser; z.InGraph {
			x[i] = (x[i] - float64(z.Mean[i])) / float64(z.Std[i])
		}
	}
	for i, l := range n.Layers {
		y := make([]float64, l.Out)
		for o := range y {
			y[o] = float64(l.Bias[o])
			for k := range x {
				y[o] += float64(l.Weight[o*l.In+k]) * x[k]
			}
			if i < len(n.Layers)-1 && y[o] < 0 {
				y[o] = math.Expm1(y[o])
			}
		}
		x = y
	}
	for _, v := range x {
		out = append(out, float32(v))
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
