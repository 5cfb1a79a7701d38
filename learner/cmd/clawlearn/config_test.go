package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// clawlearn runs the program in this process.
func clawlearn(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(newRoot(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// refused checks that the program refuses a command line, and why.
func refused(t *testing.T, want string, args ...string) {
	t.Helper()
	if code, _, errs := clawlearn(args...); code != cli.ExitUsage || !strings.Contains(errs, want) {
		t.Errorf("%q: exit %d, %q, want 2 and %q", args, code, errs, want)
	}
}

func TestPresets(t *testing.T) {
	for _, p := range presets {
		c, err := presetNamed(p.name)
		if err != nil || c.Run.Preset != p.name {
			t.Fatalf("%s: %q, %v", p.name, c.Run.Preset, err)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		ev, _ := task.EvalV1()
		if p.name == "ship" { // what ships is judged to half a percent of falls
			ev.Rows = 512
		}
		if c.Eval.Rows != ev.Rows || c.Eval.Seconds != ev.Seconds {
			t.Errorf("%s evaluates %d rows for %v s: not what others are compared by", p.name, c.Eval.Rows, c.Eval.Seconds)
		}
		// What is printed loads to the same.
		code, text, errs := clawlearn("config", "--defaults", "--preset", p.name)
		if code != 0 {
			t.Fatal(errs)
		}
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		loader := cli.NewLoader(walk)
		if got, err := loader.LoadFile(file); err != nil {
			t.Errorf("%s: %v", p.name, err)
		} else if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("%s: %s", p.name, diff)
		}
	}
	if _, err := presetNamed("fly"); err == nil || err.Error() != `preset "fly": want one of `+presetNames() {
		t.Error(err)
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, test := range []struct{ set, want string }{
		{"run.minutes=-1", "run.minutes is -1, want 0..1e6"},
		{"run.iterations=-1", "run.iterations is -1, want 0 or more"},
		{"run.preset=fly", `run.preset "fly": want one of walk`},
		{"world=moon", `world is "moon", want one of nominal`},
		{"physics=jelly", `physics is "jelly", want one of full`},
		{"rows=0", "rows is 0, want 1..65536"},
		{"threads=-1", "threads is -1, want 0..256"},
		{"device=gpu", `device is "gpu", want cpu, cuda, cuda:N`},
		{"device=cuda:-1", `device is "cuda:-1", want cpu`},
		{"keep.every_iterations=0", "keep.every_iterations is 0, want at least 1"},
		{"keep.clip=some", `keep.clip is "some", want none, last or each`},
		{"keep.clip=", `keep.clip is "", want none, last or each`},
		{"eval.every_seconds=-1", "eval.every_seconds is -1"},
		{"eval.every_steps=0", "eval.every_steps is 0, want at least 1"},
		{"eval.rows=0", "eval.rows is 0, want 1..65536"},
		{"eval.seconds=1", "eval.seconds is 1, want more than 1"},
		{"eval.seconds=inf", "eval.seconds"},
		{"algo.ppo.gamma=1.5", "algo.ppo.gamma is 1.5, want 0..1"},
		{"algo.ppo.gama=1", "algo.ppo.gama"},
	} {
		refused(t, test.want, "train", "--out", "x", "--set", test.set)
	}
	refused(t, "want 256 steps in all", "train", "--out", "x", "--set", "eval.rows=1", "--set", "eval.seconds=2")
}

func TestTrainFlagsRefuse(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	for _, test := range []struct {
		want string
		args []string
	}{
		{"--out: name a folder", nil},
		{`for "--preset" flag: preset "fly": want one of walk, plain, ship, origin`, []string{"--out", out, "--preset", "fly"}},
		{"--minutes: run.minutes", []string{"--out", out, "--minutes", "long"}},
		{"run.minutes is -2", []string{"--out", out, "--minutes", "-2"}},
		{"run.iterations is -1", []string{"--out", out, "--iterations", "-1"}},
		{"--seed: run.seed", []string{"--out", out, "--seed", "-1"}},
		{"a clock would decide; give run.iterations", []string{"--out", out, "--deterministic", "--minutes", "1"}},
		{`run.preset is "ship" in the configuration: begin from it by --preset ship`, []string{"--out", out, "--set", "run.preset=ship"}},
		{`env is "moon", want mujoco (isaacgym, mujoco-warp: not available here)`, []string{"--out", out, "--env", "moon"}},
		{`"many" is neither a whole number nor auto`, []string{"--out", out, "--rows", "many"}},
		{"rows is 0, want 1..65536", []string{"--out", out, "--rows", "0"}},
		{"--rows auto and --deterministic: a clock would decide; give --rows a number", []string{"--out", out, "--rows", "auto", "--deterministic"}},
		{"--rows auto: rows (7) times algo.steps (9) has no divisor from 64 to 1024", []string{"--out", out, "--rows", "auto", "--set", "rows=7", "--set", "algo.steps=9"}},
		{"--async: algo.async", []string{"--out", out, "--async=perhaps"}},
		{"train: unknown command", []string{"--out", out, "now"}},
	} {
		refused(t, test.want, append([]string{"train"}, test.args...)...)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a folder was made for a run that was refused")
	}
}

func TestEvalFlagsRefuse(t *testing.T) {
	for _, test := range []struct {
		want string
		args []string
	}{
		{"--policy: name an ONNX file", nil},
		{"--rows 0: want 1..65536", []string{"--rows", "0"}},
		{"--seconds 1: want more than 1", []string{"--seconds", "1"}},
		{"--seconds NaN: want more than 1", []string{"--seconds", "nan"}},
		{"--threads 0: want 1..1024", []string{"--threads", "0"}},
		{`--physics "jelly": want one of full`, []string{"--physics", "jelly"}},
		{"--seed", []string{"--seed", "-1"}},
		{"--policy: name an ONNX file", []string{"--policy", ""}},
		{"--policy x.onnx: given twice", []string{"--policy", "x.onnx"}},
		{"--json and --markdown: not both", []string{"--json", "--markdown"}},
		{"--suite --physics full: the suite has its own, lean and full", []string{"--suite", "--physics", "full"}},
		{"--suite", []string{"--suite=perhaps"}},
		{"--markdown", []string{"--markdown=2"}},
	} {
		args := []string{"eval"}
		if test.args != nil {
			args = append(args, "--policy", "x.onnx")
		}
		refused(t, test.want, append(args, test.args...)...)
	}
	if code, out, errs := clawlearn("eval", "--policy", "missing.onnx", "--json"); code != cli.ExitFailed || !strings.Contains(errs, "missing.onnx") ||
		!strings.HasPrefix(out, `{"ok":false,`) {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestBenchFlagsRefuse(t *testing.T) {
	for _, b := range benches {
		refused(t, "--iterations 0: want 1..1e6", "bench", b.name, "--iterations", "0")
		refused(t, `preset "fly"`, "bench", b.name, "--preset", "fly")
		refused(t, "rows is 0", "bench", b.name, "--rows", "0")
		refused(t, `device is "tpu"`, "bench", b.name, "--device", "tpu")
	}
	refused(t, "bench: name a command", "bench")
	refused(t, `preset "fly"`, "config", "--defaults", "--preset", "fly")
}

func TestBenchSums(t *testing.T) {
	for i, want := range []benchResult{
		{Seconds: 1 + 2 + 6, StepsPerS: 240.0 / 9, MedianS: 2},
		{Seconds: 10 + 20 + 30, StepsPerS: 4, MedianS: 20},
		{Seconds: 11 + 22 + 36, StepsPerS: 240.0 / 69, MedianS: 22},
	} {
		r := benchResult{Rows: 8, Steps: 10, collect: []float64{2, 1, 6}, learn: []float64{20, 10, 30}, wall: []float64{22, 11, 36}}
		r.sum(benches[i].seconds)
		if r.Seconds != want.Seconds || r.StepsPerS != want.StepsPerS || r.MedianS != want.MedianS || r.Samples != 240 || r.Iterations != 3 {
			t.Errorf("%s: %+v", benches[i].name, r)
		}
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %v", m)
	}
}

// A deterministic run's configuration says everything that decides it.
func TestSettle(t *testing.T) {
	c := walk()
	if err := c.settle(); err != nil {
		t.Fatal(err)
	}
	if c.Eval.EverySeconds == 0 || c.Threads != 0 {
		t.Errorf("a run by the clock: %+v, %d threads", c.Eval, c.Threads)
	}
	c.Run.Deterministic = true
	if err := c.settle(); err != nil {
		t.Fatal(err)
	}
	if c.Eval.EverySeconds != 0 || c.Threads == 0 {
		t.Errorf("a deterministic run: %+v, %d threads", c.Eval, c.Threads)
	}
}

func TestRowsToTry(t *testing.T) {
	for samples, want := range map[int][]int{
		6144: {64, 128, 256, 512, 1024}, 63: nil, 64: {64}, 1000: {100, 200, 500, 1000}, 7919: nil, 192: {64, 192},
	} {
		if got := rowsToTry(samples); !slices.Equal(got, want) {
			t.Errorf("%d samples: %v, want %v", samples, got, want)
		}
	}
}

func TestDiffers(t *testing.T) {
	a := walk()
	for _, test := range []struct {
		key  string
		edit func(c *Config)
		x, y any
	}{
		{"", func(c *Config) { c.Run.Minutes, c.Run.Iterations, c.Run.UntilWalking = 3, 4, true }, nil, nil},
		{"run.seed", func(c *Config) { c.Run.Seed = 7 }, uint64(1), uint64(7)},
		{"algo.ppo.gamma", func(c *Config) { c.Algo.PPO.Gamma = 0.5 }, 0.98, 0.5},
		{"algo.net.actor", func(c *Config) { c.Algo.Net.Actor = []int{1} }, []int{128, 128}, []int{1}},
		{"keep.every_iterations", func(c *Config) { c.Keep.EveryIterations = 5 }, 20, 5},
	} {
		b := walk()
		test.edit(&b)
		if key, x, y := differs(a, b); key != test.key || key != "" && !cmp.Equal([]any{x, y}, []any{test.x, test.y}) {
			t.Errorf("%q: %v, %v; want %q: %v, %v", key, x, y, test.key, test.x, test.y)
		}
	}
}
