package mujoco

import (
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// EnvConfig is what NewEnv needs. DefaultEnvConfig fills it.
type EnvConfig struct {
	// Spec is the contract to offer: groups, action map, gains, rates, clock.
	// What only an Env has (Rows, Metrics, ...) NewEnv fills in itself.
	Spec *rollout.Spec
	// Model is simulated; nil loads Full, and Close frees it.
	Model *Model

	Rows    int // robots
	Threads int // that step them
	// Seed and a row's number, counted from FirstRow, decide all its random
	// numbers: several Envs of one Run count on where the last one ended.
	Seed     uint64
	FirstRow int

	// World is what rows are asked and what varies; nil: task.Nominal().
	World *task.World
	// Params are every row's, before what the world varies; friction and the torque-speed
	// line are the world's.
	Params Params
	Fault  task.Fault // between policy and robot; the zero Fault is none
}

// MaxRows bounds EnvConfig.Rows: a row is 10 kB, and a mistyped number should
// not take the machine's memory.
const MaxRows = 1 << 20

// DefaultEnvConfig is one row on one thread in task.Nominal.
func DefaultEnvConfig(spec *rollout.Spec) EnvConfig {
	return EnvConfig{Spec: spec, Rows: 1, Threads: 1, World: task.Nominal(), Params: DefaultParams()}
}

// check refuses a configuration and names the member.
func (c *EnvConfig) check() error {
	if c.Spec == nil {
		return fmt.Errorf("mujoco: env: Spec is missing")
	}
	if err := go1.Fit(c.Spec, go1.Sensing{LinVel: true}); err != nil {
		return err
	}
	switch {
	case c.Rows < 1 || c.Rows > MaxRows:
		return fmt.Errorf("mujoco: env: %d rows, want 1..%d", c.Rows, MaxRows)
	case c.Threads < 1 || c.Threads > 1024:
		return fmt.Errorf("mujoco: env: %d threads, want 1..1024", c.Threads)
	case c.FirstRow < 0:
		return fmt.Errorf("mujoco: env: FirstRow is %d, want 0 or more", c.FirstRow)
	}
	return c.World.Check()
}

// stepsIn is how many whole steps of period seconds there are; an error if they
// are not whole.
func stepsIn(what string, seconds, period float64) (int, error) {
	n := math.Round(seconds / period)
	if math.Abs(n*period-seconds) > 1e-9*max(1, seconds) {
		return 0, fmt.Errorf("mujoco: env: %s of %v s is not a whole number of steps of %v s", what, seconds, period)
	}
	return int(n), nil
}
