package mujoco

import (
	"context"
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// Evaluate opens ev's world with the policy's contract on threads threads, lets policy walk
// there for ev's time and gives the score. physics, one of Physics(), replaces ev's model; "" keeps
// it. progress, unless nil, is called after each Step with the share of the time that is over. A
// run that ctx ended is ctx's error, not a score.
func Evaluate(ctx context.Context, ev *task.Evaluation, physics string, threads int, spec *rollout.Spec, policy rollout.Policy,
	progress func(share float64)) (*task.Result, error) {
	if physics == "" {
		physics = ev.Model
	}
	name, params, err := ByPhysics(physics)
	if err != nil {
		return nil, fmt.Errorf("mujoco: evaluation %s: %w", ev.Name, err)
	}
	cfg := DefaultEnvConfig(spec)
	cfg.Rows, cfg.Threads, cfg.Seed, cfg.World, cfg.Params = ev.Rows, threads, ev.Seed, &ev.World, params
	if cfg.Model, err = Load(name); err != nil {
		return nil, err
	}
	defer cfg.Model.Close()
	e, err := NewEnv(cfg)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	score := task.NewScore(ev.Rows, ev.SettleSeconds)
	steps := int(math.Round(ev.Seconds / e.period))
	if steps < 1 {
		return nil, fmt.Errorf("mujoco: evaluation %s: %v s is shorter than a policy period of %v s", ev.Name, ev.Seconds, e.period)
	}
	ages := make([]float64, ev.Rows) // of the commands when the step began
	step, k := 0, len(e.spec.Metrics)
	err = rollout.Run(ctx, []rollout.Env{e}, policy, rollout.SinkFunc(
		func(_ int, _ *rollout.Step, _ *rollout.Decision, after *rollout.Step) error {
			for row := range ev.Rows {
				score.Record(row, after.Metrics[row*k:(row+1)*k], after.Terminated[row], ages[row])
				ages[row] = e.CommandAge(row)
			}
			if step++; progress != nil {
				progress(float64(step) / float64(steps))
			}
			if step == steps {
				return rollout.ErrStop
			}
			return nil
		}))
	if err != nil {
		return nil, err
	}
	if step < steps {
		return nil, context.Cause(ctx)
	}
	r := score.Result()
	return &r, nil
}
