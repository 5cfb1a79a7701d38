package mujoco

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// trace steps an Env n times from out by actions that depend on the step and the row's number, and
// gives the bits that it shows.
func trace(t testing.TB, e *Env, out *rollout.Step, from, n int) []byte {
	t.Helper()
	var seen []byte
	action := make([]float32, e.Spec().Rows*go1.Joints)
	for step := from; step < from+n; step++ {
		for i := range action {
			action[i] = 0.8 * float32(math.Sin(0.3*float64(step)+5*float64(i)))
		}
		must(t, e.Step(context.Background(), action, out))
		seen = append(seen, bits(t, out)...)
	}
	return seen
}

// bits are those of all that a Step shows; Final only where an episode ended.
func bits(t testing.TB, out *rollout.Step) (b []byte) {
	t.Helper()
	add := func(v any) {
		var err error
		b, err = binary.Append(b, binary.LittleEndian, v)
		must(t, err)
	}
	rows := len(out.Reward)
	for g := range out.Obs {
		add(out.Obs[g])
		n := len(out.Obs[g]) / rows
		for row := range rows {
			if out.Ended(row) {
				add(out.Final[g][row*n : (row+1)*n])
			}
		}
	}
	add(out.Reward)
	add(out.Terminated)
	add(out.TimedOut)
	add(out.Executed)
	add(out.Metrics)
	return b
}

// TestPromise14 is the first half of promise 14: episodes that are saved at a random step and
// restored, on another number of threads, go on bit for bit. OPENCLAW_SOAK=14 runs all 100.
func TestPromise14(t *testing.T) {
	soak := promise.New(t, 14, 8, 100)
	models := map[string]*Model{"full": loadFull(t), "lean": loadLean(t)}
	for seed := range soak.Seeds() {
		episode := int(seed - 1)
		random := rand.New(rand.NewPCG(seed, 14))
		physics, world := []string{"full", "lean"}[episode%2], []string{"walk", "ship"}[episode/2%2]
		config := func(threads int) EnvConfig {
			cfg := trainConfig(t, world, 3, threads)
			cfg.Model, cfg.Seed = models[physics], seed
			for g := range cfg.Spec.Groups {
				for i := range cfg.Spec.Groups[g].Terms {
					cfg.Spec.Groups[g].Terms[i].History = 1 + episode%4
				}
			}
			cfg.World.EpisodeSeconds, cfg.World.Pushes.EverySeconds = 3, [2]float64{0.5, 1}
			if episode%3 == 0 {
				cfg.Fault = task.Fault{ObsDelay: 2, TargetDelay: 1, TargetLoss: 0.1, LinVelNoise: 0.1}
			}
			return cfg
		}
		const length = 150
		at := 1 + random.IntN(length-1)
		one, two := openEnv(t, config(1)), openEnv(t, config(2))
		out := rollout.NewStep(one.Spec())
		must(t, one.Reset(context.Background(), nil, out))
		trace(t, one, out, 0, at)
		state, err := one.AppendState(nil)
		must(t, err)
		want := trace(t, one, out, at, length-at)

		shown := rollout.NewStep(two.Spec())
		if episode%2 == 0 { // a fresh Env, or one that has lived otherwise
			must(t, two.Reset(context.Background(), nil, shown))
			trace(t, two, shown, 7, 20)
		}
		must(t, two.RestoreState(state, shown))
		again, err := two.AppendState(nil)
		must(t, err)
		ok := bytes.Equal(state, again) && bytes.Equal(want, trace(t, two, shown, at, length-at))
		if !ok {
			t.Errorf("seed %d, %s, %s: saved at step %d of %d it goes on otherwise", seed, physics, world, at, length)
		}
		soak.Done(seed, ok, map[string]any{"physics": physics, "world": world, "saved_at": at})
		must(t, errors.Join(one.Close(), two.Close()))
	}
}

// What a restored Env shows is what it showed when it was saved.
func TestRestoredStateIsShown(t *testing.T) {
	e := openEnv(t, trainConfig(t, "walk", 5, 2))
	out, shown := rollout.NewStep(e.Spec()), rollout.NewStep(e.Spec())
	must(t, e.Reset(context.Background(), nil, out))
	trace(t, e, out, 0, 30)
	state, err := e.AppendState([]byte("before"))
	must(t, err)
	must(t, e.RestoreState(state[len("before"):], shown))
	for g := range out.Obs {
		if !sameBits(out.Obs[g], shown.Obs[g]) {
			t.Errorf("group %d is shown otherwise", g)
		}
	}
	k := len(e.Spec().Metrics)
	for row := range 5 {
		a, b := out.Metrics[row*k:row*k+task.Rewards], shown.Metrics[row*k:row*k+task.Rewards]
		if !out.Ended(row) && !sameBits(a, b) {
			t.Errorf("row %d: metrics %v, want %v", row, b, a)
		}
	}
}

func TestBadStatesAreRefused(t *testing.T) {
	e := openEnv(t, trainConfig(t, "walk", 2, 1))
	ctx := context.Background()
	out := rollout.NewStep(e.Spec())
	if _, err := e.AppendState(nil); !errors.Is(err, rollout.ErrNotReset) {
		t.Errorf("state before the first Reset: %v", err)
	}
	must(t, e.Reset(ctx, nil, out))
	state, err := e.AppendState(nil)
	must(t, err)
	flipped := bytes.Clone(state)
	flipped[len(flipped)/2] ^= 1
	ship := trainConfig(t, "ship", 2, 1)
	other, err := func() ([]byte, error) {
		x := openEnv(t, ship)
		must(t, x.Reset(ctx, nil, rollout.NewStep(x.Spec())))
		return x.AppendState(nil)
	}()
	must(t, err)
	more := trainConfig(t, "walk", 3, 1)
	three, err := func() ([]byte, error) {
		x := openEnv(t, more)
		must(t, x.Reset(ctx, nil, rollout.NewStep(x.Spec())))
		return x.AppendState(nil)
	}()
	must(t, err)
	for says, b := range map[string][]byte{
		"not a state":     nil,
		"not a state of":  []byte("openclaw rows 2\n" + strings.Repeat("x", 100)),
		"checksum":        flipped,
		"its checksum":    state[:len(state)-1],
		"another contrac": other,
		"it has 3 rows":   three,
	} {
		if err := e.RestoreState(b, out); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
		if again, err := e.AppendState(nil); err != nil || !bytes.Equal(state, again) {
			t.Fatalf("refusing (%s) changed the state: %v", says, err)
		}
	}
	must(t, e.Close())
	if err := e.RestoreState(state, out); !errors.Is(err, rollout.ErrClosed) {
		t.Errorf("restoring a closed Env: %v", err)
	}
	if _, err := e.AppendState(nil); !errors.Is(err, rollout.ErrClosed) {
		t.Errorf("saving a closed Env: %v", err)
	}
}

// Whatever lies in a state whose frame is right, the Env refuses it or goes on with finite numbers.
func FuzzRestoreState(f *testing.F) {
	e := openEnv(f, trainConfig(f, "walk", 1, 1))
	ctx := context.Background()
	out := rollout.NewStep(e.Spec())
	must(f, e.Reset(ctx, nil, out))
	good, err := e.AppendState(nil)
	must(f, err)
	const head = len(stateMagic) + 32 + 4
	f.Add(good[head : len(good)-4])
	f.Add([]byte{})
	nan := bytes.Clone(good[head : len(good)-4])
	binary.LittleEndian.PutUint64(nan[8:], math.Float64bits(math.NaN()))
	f.Add(nan)
	for at := 8 * e.model.StateSize(); at+4 <= len(nan); at += 4 { // any other number that is none
		b := bytes.Clone(good[head : len(good)-4])
		binary.LittleEndian.PutUint32(b[at:], math.Float32bits(float32(math.NaN())))
		f.Add(b)
	}
	action := make([]float32, go1.Joints)
	f.Fuzz(func(t *testing.T, rows []byte) {
		b := append(bytes.Clone(good[:head]), rows...)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
		if err := e.RestoreState(b, out); err != nil {
			must(t, e.Reset(ctx, nil, out))
		}
		for range 3 {
			must(t, e.Step(ctx, action, out))
		}
		for _, v := range [][]float32{out.Obs[0], out.Reward, out.Metrics} {
			for i, x := range v {
				if x-x != 0 {
					t.Fatalf("number %d is %v", i, x)
				}
			}
		}
	})
}
