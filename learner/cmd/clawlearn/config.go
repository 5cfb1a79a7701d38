package main

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/learner/algo"
	"github.com/openclaw-rl/openclaw/learner/nets"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// Config of a training run. The run's folder keeps it as config.yaml, and a resumed run goes on with it.
type Config struct {
	Run      RunConfig   `yaml:"run" doc:"what begins and ends this run"`
	Env      string      `yaml:"env" doc:"what simulates the rows: mujoco, on this machine's threads"`
	World    string      `yaml:"world" doc:"what rows are asked and what varies: one of sim/task's worlds"`
	Physics  string      `yaml:"physics" doc:"how rows are simulated: lean, full, peer or coarse"`
	Rows     int         `yaml:"rows" doc:"robots side by side (num_envs elsewhere)"`
	RowsAuto bool        `yaml:"rows_auto" doc:"--rows auto: a new run chooses rows by a short measurement of steps/s, and algo.steps so that rows times steps stays"`
	Threads  int         `yaml:"threads" doc:"threads of physics and networks; 0: one a core"`
	Device   string      `yaml:"device" doc:"what learns from what the threads collect: cpu (they themselves), cuda or cuda:N (a GPU), or cpu:aten (a GPU's operations on the CPU, to check them)"`
	Algo     algo.Config `yaml:"algo" doc:"how to learn"`
	Eval     EvalConfig  `yaml:"eval" doc:"evaluations in eval_v1 while training waits"`
	Keep     KeepConfig  `yaml:"keep" doc:"checkpoints and videos"`
}

// RunConfig says what begins a run and what ends it: whatever comes first.
type RunConfig struct {
	Preset        string  `yaml:"preset" doc:"what this configuration began from, given by --preset"`
	Seed          uint64  `yaml:"seed" doc:"of every random number"`
	Minutes       float64 `yaml:"minutes" unit:"min" doc:"training time after which it ends; 0: without end"`
	Iterations    int64   `yaml:"iterations" doc:"iterations after which it ends; 0: without end"`
	UntilWalking  bool    `yaml:"until_walking" doc:"end when it walks"`
	Deterministic bool    `yaml:"deterministic" doc:"no clock decides anything: evaluate by steps; the number of threads is kept with the run"`
}

// EvalConfig says when training stops to be evaluated in eval_v1, and by how much of it.
type EvalConfig struct {
	EverySeconds float64 `yaml:"every_seconds" unit:"s" doc:"training time between two evaluations; 0: by steps"`
	EverySteps   int64   `yaml:"every_steps" doc:"steps between two evaluations where every_seconds is 0"`
	Rows         int     `yaml:"rows" doc:"robots; 128 in eval_v1"`
	Seconds      float64 `yaml:"seconds" unit:"s" doc:"simulated time; 20 in eval_v1"`
}

// KeepConfig says when checkpoints are written, and whether videos are.
type KeepConfig struct {
	EveryIterations int    `yaml:"every_iterations" doc:"iterations between two checkpoints"`
	Clip            string `yaml:"clip" doc:"10 s videos of best policies, by clawsim beside this program: none, last (at the end of the run) or each (beside training)"`
}

// presets by name, each with what it is for.
var presets = []struct {
	name, doc string
	make      func() Config
}{
	{"walk", "the fastest way to legs: a cloned trot, then PPO", walk},
	{"plain", "PPO alone, from random weights", func() Config {
		c := walk()
		c.Algo.Warm.Rollouts, c.Algo.Warm.Scripted = 0, 0
		c.Algo.PPO.KLTarget, c.Algo.PPO.KLEnd = 0.05, 0.05
		return c
	}},
	{"ship", "what leaves for robots: a wider world, a schedule for ten minutes", func() Config {
		c := walk()
		c.World = "ship"
		c.Algo.PPO.KLEnd, c.Algo.PPO.EntropyEnd = 0.006, 0
		c.Algo.PPO.Calm, c.Algo.PPO.CalmEnd, c.Algo.Average = 10, 10, 0.95
		c.Eval.Rows, c.Eval.EverySeconds = 512, 30
		return c
	}},
	{"origin", "PPO with distillation from the student of before: the numbers of the text this project grew from", func() Config {
		c := walk()
		c.Algo.Warm.Rollouts, c.Algo.Warm.Scripted = 0, 0
		c.Algo.PPO.Gamma, c.Algo.PPO.Lambda = 0.99, 0.95
		c.Algo.OPD.Teacher, c.Algo.OPD.RefreshIterations = "snapshot", 50
		c.Algo.OPD.Mix, c.Algo.OPD.Weight = algo.Schedule{Start: 0.3, End: 0.3}, algo.Schedule{Start: 0.1, End: 0.1}
		return c
	}},
}

func walk() Config {
	ev, _ := task.EvalV1()
	return Config{Run: RunConfig{Seed: 1}, Env: envMuJoCo, World: "walk", Physics: "lean", Rows: 256, Device: nets.CPU, Algo: algo.Default(),
		Eval: EvalConfig{EverySeconds: 10, EverySteps: 250_000, Rows: ev.Rows, Seconds: ev.Seconds},
		Keep: KeepConfig{EveryIterations: 20, Clip: "last"}}
}

// presetNames lists the presets: "walk, plain, ship".
func presetNames() string {
	var names []string
	for _, p := range presets {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// presetHelp says what each preset is for, a line each.
func presetHelp() string {
	var b strings.Builder
	for _, p := range presets {
		fmt.Fprintf(&b, "  %-6s %s\n", p.name, p.doc)
	}
	return b.String()
}

// presetNamed is the preset's configuration.
func presetNamed(name string) (Config, error) {
	for _, p := range presets {
		if p.name == name {
			c := p.make()
			c.Run.Preset = name
			return c, nil
		}
	}
	return Config{}, fmt.Errorf("preset %q: want one of %s", name, presetNames())
}

// presetFlag is --preset, which refuses what no preset is called.
type presetFlag string

func (f *presetFlag) String() string { return string(*f) }
func (f *presetFlag) Type() string   { return "NAME" }
func (f *presetFlag) Set(name string) error {
	_, err := presetNamed(name)
	if err == nil {
		*f = presetFlag(name)
	}
	return err
}

// config is the preset's configuration.
func (f *presetFlag) config() Config {
	c, err := presetNamed(string(*f))
	if err != nil {
		panic(err) // Set refuses it
	}
	return c
}

func (f *presetFlag) add(flags *pflag.FlagSet) {
	flags.Var(f, "preset", "configuration to begin from: "+presetNames())
}

// What may simulate rows. Those after the first step in a worker process on a GPU, for which this program has no client.
const (
	envMuJoCo     = "mujoco"
	envIsaacGym   = "isaacgym"
	envMuJoCoWarp = "mujoco-warp"
)

// Bounds of the rows that --rows auto tries.
const autoRowsMin, autoRowsMax = 64, 1024

// rowsToTry are divisors of samples an iteration between those bounds, each about twice the one before.
func rowsToTry(samples int) (rows []int) {
	for n := autoRowsMin; n <= min(autoRowsMax, samples); n++ {
		if samples%n == 0 && (len(rows) == 0 || float64(n) > 1.5*float64(rows[len(rows)-1])) {
			rows = append(rows, n)
		}
	}
	return rows
}

// evalPairs is how many observations of an evaluation a policy file is checked on.
const evalPairs = 256

// Validate names the first field that cannot be.
func (c *Config) Validate() error {
	if err := c.Run.validate(); err != nil {
		return err
	}
	if envs := []string{envMuJoCo, envIsaacGym, envMuJoCoWarp}; !slices.Contains(envs, c.Env) {
		return fmt.Errorf("env is %q, want %s (%s: not available here)", c.Env, envMuJoCo, strings.Join(envs[1:], ", "))
	}
	if !slices.Contains(task.WorldNames(), c.World) {
		return fmt.Errorf("world is %q, want one of %s", c.World, strings.Join(task.WorldNames(), ", "))
	}
	if !slices.Contains(mujoco.Physics(), c.Physics) {
		return fmt.Errorf("physics is %q, want one of %s", c.Physics, strings.Join(mujoco.Physics(), ", "))
	}
	if err := nets.CheckDevice(c.Device); err != nil {
		return err
	}
	switch {
	case c.Rows < 1 || c.Rows > 1<<16:
		return fmt.Errorf("rows is %d, want 1..%d", c.Rows, 1<<16)
	case c.Threads < 0 || c.Threads > 256:
		return fmt.Errorf("threads is %d, want 0..256", c.Threads)
	case c.Keep.EveryIterations < 1:
		return fmt.Errorf("keep.every_iterations is %d, want at least 1", c.Keep.EveryIterations)
	case !slices.Contains([]string{"none", "last", "each"}, c.Keep.Clip):
		return fmt.Errorf("keep.clip is %q, want none, last or each", c.Keep.Clip)
	}
	if err := c.Eval.validate(); err != nil {
		return err
	}
	if err := c.Algo.Validate(); err != nil {
		return fmt.Errorf("algo.%w", err)
	}
	return nil
}

func (r *RunConfig) validate() error {
	if _, err := presetNamed(r.Preset); err != nil {
		return fmt.Errorf("run.%w", err)
	}
	switch {
	case !(r.Minutes >= 0 && r.Minutes <= 1e6):
		return fmt.Errorf("run.minutes is %v, want 0..1e6", r.Minutes)
	case r.Iterations < 0:
		return fmt.Errorf("run.iterations is %d, want 0 or more", r.Iterations)
	case r.Deterministic && r.Minutes > 0:
		return fmt.Errorf("run.minutes is %v and run.deterministic is true: a clock would decide; give run.iterations", r.Minutes)
	}
	return nil
}

func (e *EvalConfig) validate() error {
	ev, _ := task.EvalV1()
	switch {
	case !(e.EverySeconds >= 0 && e.EverySeconds <= 1e6):
		return fmt.Errorf("eval.every_seconds is %v, want 0..1e6", e.EverySeconds)
	case e.EverySteps < 1:
		return fmt.Errorf("eval.every_steps is %d, want at least 1", e.EverySteps)
	case e.Rows < 1 || e.Rows > 1<<16:
		return fmt.Errorf("eval.rows is %d, want 1..%d", e.Rows, 1<<16)
	case !(e.Seconds > ev.SettleSeconds && e.Seconds <= 1e5):
		return fmt.Errorf("eval.seconds is %v, want more than %v, at most 1e5", e.Seconds, ev.SettleSeconds)
	case float64(e.Rows)*e.Seconds*1e9 < evalPairs*float64(task.WalkSpec().PolicyPeriodNs):
		return fmt.Errorf("eval.rows is %d and eval.seconds is %v: want %d steps in all, on which a policy file is checked", e.Rows, e.Seconds, evalPairs)
	}
	return nil
}

// settle makes a new run's configuration say what this machine, this folder and --deterministic make of it.
func (c *Config) settle() error {
	if samples := c.Rows * c.Algo.Steps; c.RowsAuto {
		switch {
		case c.Run.Deterministic:
			return cli.Usagef("--rows auto and --deterministic: a clock would decide; give --rows a number")
		case len(rowsToTry(samples)) == 0:
			return cli.Usagef("--rows auto: rows (%d) times algo.steps (%d) has no divisor from %d to %d", c.Rows, c.Algo.Steps, autoRowsMin, autoRowsMax)
		}
	}
	if c.Run.Deterministic {
		c.Eval.EverySeconds, c.Threads = 0, c.threads()
	}
	if o := &c.Algo.OPD; o.File != "" {
		path, err := filepath.Abs(o.File)
		if err != nil {
			return fmt.Errorf("opd.file: %w", err)
		}
		o.File = path
	}
	return nil
}

// threads of this machine where the configuration leaves it open.
func (c *Config) threads() int {
	if c.Threads > 0 {
		return c.Threads
	}
	return runtime.NumCPU()
}

// differs is the first key, of those that do not end a run, in which two configurations differ, with both values.
func differs(a, b Config) (key string, x, y any) {
	a.Run.endless()
	b.Run.endless()
	return differIn("", reflect.ValueOf(a), reflect.ValueOf(b))
}

// endless leaves out what ends the run.
func (r *RunConfig) endless() { r.Minutes, r.Iterations, r.UntilWalking = 0, 0, false }

func differIn(prefix string, a, b reflect.Value) (key string, x, y any) {
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("yaml"), ",")
		if a.Field(i).Kind() == reflect.Struct {
			if key, x, y = differIn(prefix+name+".", a.Field(i), b.Field(i)); key != "" {
				return key, x, y
			}
		} else if x, y = a.Field(i).Interface(), b.Field(i).Interface(); !reflect.DeepEqual(x, y) {
			return prefix + name, x, y
		}
	}
	return "", nil, nil
}
