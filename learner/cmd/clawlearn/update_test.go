//go:build torch

package main

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/safetensors"
)

// given are samples of two seen numbers, three for the critic and one action, and parameters for networks with a layer of 4.
func given() map[string]safetensors.Tensor {
	const samples = 16
	random := rand.New(rand.NewPCG(1, 2))
	normal := func(shape ...int) safetensors.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		t := safetensors.Tensor{Shape: shape, F32: make([]float32, n)}
		for i := range t.F32 {
			t.F32[i] = float32(random.NormFloat64())
		}
		return t
	}
	half := func(shape ...int) safetensors.Tensor {
		x := normal(shape...)
		h := safetensors.Tensor{Shape: shape, F16: make([]uint16, len(x.F32))}
		buffer.Encode(h.F16, x.F32)
		return h
	}
	all := map[string]safetensors.Tensor{"policy_obs": half(samples, 2), "critic_obs": half(samples, 3), "action": half(samples, 1),
		"mean": normal(samples, 1), "std": {Shape: []int{1}, F32: []float32{0.5}}, "log_prob": normal(samples), "advantage": normal(samples),
		"target": normal(samples), "value": normal(samples), "order": {Shape: []int{samples}},
		"actor.0.weight": normal(4, 2), "actor.0.bias": normal(4), "actor.1.weight": normal(1, 4), "actor.1.bias": normal(1),
		"log_std":         {Shape: []int{1}, F32: []float32{-0.5}},
		"critic.0.weight": normal(4, 3), "critic.0.bias": normal(4), "critic.1.weight": normal(1, 4), "critic.1.bias": normal(1)}
	order := all["order"]
	for _, i := range random.Perm(samples) {
		order.I32 = append(order.I32, int32(i))
	}
	all["order"] = order
	return all
}

// written is a file of them.
func written(t *testing.T, all map[string]safetensors.Tensor) string {
	t.Helper()
	text, err := safetensors.Encode(all)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "given.safetensors")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// bench update of a file's samples with networks that fit given's.
func benchGiven(file string, more ...string) (code int, out, errs string) {
	return clawlearn(append([]string{"bench", "update", "--json", "--threads", "1", "--iterations", "1", "--set", "algo.net.actor=[4]",
		"--set", "algo.net.critic=[4]", "--set", "algo.ppo.minibatches=2", "--set", "algo.ppo.epochs=2", "--data", file}, more...)...)
}

// Each iteration begins where the file says, and the result is one iteration's.
func TestBenchGiven(t *testing.T) {
	file, result := written(t, given()), filepath.Join(t.TempDir(), "after")
	var after [2]map[string]safetensors.Tensor
	for i, iterations := range []string{"1", "3"} {
		code, out, errs := benchGiven(file, "--result", result, "--iterations", iterations)
		if code != 0 {
			t.Fatal(errs)
		}
		var r benchResult
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if r.What != "update" || r.Samples != 16*r.Iterations || !(r.StepsPerS > 0) || r.Observed != [2]int{2, 3} || r.Actions != 1 ||
			!r.Settings.ClipApart || r.Settings.Mirror || len(r.Rates) != 4 {
			t.Errorf("%+v", r)
		}
		text, err := os.ReadFile(result)
		if err != nil {
			t.Fatal(err)
		}
		if after[i], err = safetensors.Decode(text); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(after[0], after[1]); diff != "" {
		t.Errorf("after one iteration, after three: %s", diff)
	}
	before := given()
	if len(after[0]) != 9 {
		t.Errorf("%d parameters, want 9", len(after[0]))
	}
	for name, now := range after[0] {
		if diff := cmp.Diff(before[name].Shape, now.Shape); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if cmp.Equal(before[name], now) {
			t.Errorf("%s has not moved", name)
		}
	}
}

// The rate that a minibatch's step is made with already knows of its divergence: here, with means far off, it falls at once.
func TestBenchGivenRateBeforeStep(t *testing.T) {
	_, out, errs := benchGiven(written(t, given()), "--set", "algo.ppo.rate=0.0009", "--set", "algo.ppo.kl_target=0.01", "--set", "algo.ppo.kl_end=0.01")
	var r benchResult
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(errs)
	}
	for i, want := range []float64{0.0006, 0.0004} {
		if i >= len(r.Rates) || math.Abs(r.Rates[i]-want) > 1e-9 {
			t.Fatalf("rates %v, want 0.0006, 0.0004 ...", r.Rates)
		}
	}
}

func TestBenchGivenRefuses(t *testing.T) {
	for _, test := range []struct {
		want   string
		change func(all map[string]safetensors.Tensor)
	}{
		{"policy_obs has shape []", func(all map[string]safetensors.Tensor) { delete(all, "policy_obs") }},
		{"critic_obs has shape [15 3]", func(all map[string]safetensors.Tensor) {
			all["critic_obs"] = safetensors.Tensor{Shape: []int{15, 3}, F16: make([]uint16, 45)}
		}},
		{"action has shape [16 0]", func(all map[string]safetensors.Tensor) {
			all["action"] = safetensors.Tensor{Shape: []int{16, 0}, F16: []uint16{}}
		}},
		{"policy_obs has shape [16 2], want [16 2] of F16", func(all map[string]safetensors.Tensor) {
			all["policy_obs"] = safetensors.Tensor{Shape: []int{16, 2}, F32: make([]float32, 32)}
		}},
		{"target has shape [8], want [16] of F32", func(all map[string]safetensors.Tensor) {
			all["target"] = safetensors.Tensor{Shape: []int{8}, F32: make([]float32, 8)}
		}},
		{"value has shape [], want [16] of F32", func(all map[string]safetensors.Tensor) { delete(all, "value") }},
		{"order has 16, which is no sample", func(all map[string]safetensors.Tensor) { all["order"].I32[3] = 16 }},
		{"order has -1, which is no sample", func(all map[string]safetensors.Tensor) { all["order"].I32[3] = -1 }},
		{"twice there", func(all map[string]safetensors.Tensor) { all["order"].I32[3] = all["order"].I32[4] }},
		{"order has 0 of 16 samples", func(all map[string]safetensors.Tensor) { delete(all, "order") }},
		{"log_std has shape [] of F32, want 1 numbers", func(all map[string]safetensors.Tensor) { delete(all, "log_std") }},
		{"critic.0.weight has shape [5 3] of F32, want 12 numbers", func(all map[string]safetensors.Tensor) {
			all["critic.0.weight"] = safetensors.Tensor{Shape: []int{5, 3}, F32: make([]float32, 15)}
		}},
		{"not finite", func(all map[string]safetensors.Tensor) { all["advantage"].F32[0] = float32(math.NaN()) }},
	} {
		all := maps.Clone(given())
		test.change(all)
		file := written(t, all)
		if code, _, errs := benchGiven(file); code != cli.ExitFailed || !strings.Contains(errs, test.want) {
			t.Errorf("exit %d, %s, want 1 and %q", code, errs, test.want)
		}
	}
	file := written(t, given())
	for _, test := range []struct {
		want string
		code int
		args []string
	}{
		{"algo.net.normaliser is on", cli.ExitUsage, []string{"--set", "algo.net.normaliser=true"}},
		{"16 samples for 17 minibatches", cli.ExitFailed, []string{"--set", "algo.ppo.minibatches=17"}},
		{"--result: ", cli.ExitFailed, []string{"--result", t.TempDir()}},
		{"safetensors: header", cli.ExitFailed, []string{"--data", "update_test.go"}},
		{"--data: open none", cli.ExitFailed, []string{"--data", "none"}},
	} {
		if code, _, errs := benchGiven(file, test.args...); code != test.code || !strings.Contains(errs, test.want) {
			t.Errorf("%q: exit %d, %s, want %d and %q", test.args, code, errs, test.code, test.want)
		}
	}
}
