package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/openclaw-rl/openclaw/learner/algo"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// Config of a training run.
type Config struct {
	World   string      `yaml:"world" doc:"what rows are asked and what varies: one of sim/task's worlds"`
	Physics string      `yaml:"physics" doc:"how rows are simulated: lean, full, peer or coarse"`
	Rows    int         `yaml:"rows" doc:"robots side by side (num_envs elsewhere)"`
	Threads int         `yaml:"threads" doc:"threads of physics and networks; 0: one a core"`
	Algo    algo.Config `yaml:"algo" doc:"how to learn"`
	Eval    EvalConfig  `yaml:"eval" doc:"evaluations while training waits"`
	Keep    KeepConfig  `yaml:"keep" doc:"checkpoints"`
}

// EvalConfig says when training stops to be evaluated in eval_v1.
type EvalConfig struct {
	EverySeconds float64 `yaml:"every_seconds" unit:"s" doc:"training time between two evaluations; 0: by steps"`
	EverySteps   int64   `yaml:"every_steps" doc:"steps between two evaluations where every_seconds is 0"`
}

// KeepConfig says when checkpoints are written.
type KeepConfig struct {
	EveryIterations int `yaml:"every_iterations" doc:"iterations between two checkpoints"`
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
	{"ship", "ten minutes in a wider world: what leaves for robots", func() Config {
		c := walk()
		c.World = "ship"
		c.Algo.PPO.KLEnd, c.Algo.PPO.EntropyEnd = 0.006, 0
		return c
	}},
}

func walk() Config {
	return Config{World: "walk", Physics: "lean", Rows: 256, Algo: algo.Default(),
		Eval: EvalConfig{EverySeconds: 10, EverySteps: 250_000}, Keep: KeepConfig{EveryIterations: 20}}
}

// presetNamed finds a preset.
func presetNamed(name string) (func() Config, error) {
	var names []string
	for _, p := range presets {
		if p.name == name {
			return p.make, nil
		}
		names = append(names, p.name)
	}
	return nil, fmt.Errorf("preset %q: want one of %s", name, strings.Join(names, ", "))
}

// Validate names the first field that cannot be.
func (c *Config) Validate() error {
	if !slices.Contains(task.WorldNames(), c.World) {
		return fmt.Errorf("world %q: want one of %s", c.World, strings.Join(task.WorldNames(), ", "))
	}
	if !slices.Contains(mujoco.Physics(), c.Physics) {
		return fmt.Errorf("physics %q: want one of %s", c.Physics, strings.Join(mujoco.Physics(), ", "))
	}
	switch {
	case c.Rows < 1 || c.Rows > 1<<16:
		return fmt.Errorf("rows is %d, want 1..%d", c.Rows, 1<<16)
	case c.Threads < 0 || c.Threads > 256:
		return fmt.Errorf("threads is %d, want 0..256", c.Threads)
	case !(c.Eval.EverySeconds >= 0 && c.Eval.EverySeconds <= 1e6):
		return fmt.Errorf("eval.every_seconds is %v, want 0..1e6", c.Eval.EverySeconds)
	case c.Eval.EverySteps < 1:
		return fmt.Errorf("eval.every_steps is %d, want at least 1", c.Eval.EverySteps)
	case c.Keep.EveryIterations < 1:
		return fmt.Errorf("keep.every_iterations is %d, want at least 1", c.Keep.EveryIterations)
	}
	if err := c.Algo.Validate(); err != nil {
		return fmt.Errorf("algo.%w", err)
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
