package mujoco

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// Evaluate opens ev's world with the policy's contract on threads threads, lets policy walk
// there for ev's time and gives the score. A teacher, whose group "policy" has what only a simulator
// knows, is shown the truth throughout, as in training; any other policy what sensors show. physics, one of Physics(), replaces ev's model; "" keeps
// it. progress, unless nil, is called after each Step with the share of the time that is over. A
// run that ctx ended is ctx's error, not a score.
func Evaluate(ctx context.Context, ev *task.Evaluation, physics string, threads int, spec *rollout.Spec, policy rollout.Policy,
	progress func(share float64)) (*task.Result, error) {
	score := task.NewScore(ev.Rows, ev.SettleSeconds)
	if err := evaluate(ctx, ev, physics, threads, spec, policy, progress, scoring(score)); err != nil {
		return nil, err
	}
	r := score.Result()
	return &r, nil
}

// EvaluateStanding is Evaluate in ev's own model, and says beside the score how still the rows stood.
func EvaluateStanding(ctx context.Context, ev *task.Evaluation, threads int, spec *rollout.Spec, policy rollout.Policy,
	progress func(share float64)) (*task.Result, *task.StandResult, error) {
	score, stand := task.NewScore(ev.Rows, ev.SettleSeconds), task.NewStandScore(ev.Rows, ev.SettleSeconds)
	take := scoring(score)
	err := evaluate(ctx, ev, "", threads, spec, policy, progress, func(e *Env, row int, age float64, after *rollout.Step) {
		take(e, row, age, after)
		s := e.State(row)
		var feet [go1.Legs]float64
		for leg := range feet {
			feet[leg] = s.FootPos[leg][2] - go1.FootRadius
		}
		stand.Record(row, after.Terminated[row], age, [2]float64{s.Pos[0], s.Pos[1]}, &s.Dq, &feet)
	})
	if err != nil {
		return nil, nil, err
	}
	r, still := score.Result(), stand.Result()
	return &r, &still, nil
}

// scoring hands each row's step to a Score.
func scoring(score *task.Score) func(e *Env, row int, age float64, after *rollout.Step) {
	return func(e *Env, row int, age float64, after *rollout.Step) {
		k := len(e.spec.Metrics)
		score.Record(row, after.Metrics[row*k:(row+1)*k], after.Terminated[row], age)
	}
}

// evaluate runs ev and calls each for every row after each Step; age is that of the row's command when the step began, s.
func evaluate(ctx context.Context, ev *task.Evaluation, physics string, threads int, spec *rollout.Spec, policy rollout.Policy,
	progress func(share float64), each func(e *Env, row int, age float64, after *rollout.Step)) error {
	if physics == "" {
		physics = ev.Model
	}
	name, params, err := ByPhysics(physics)
	if err != nil {
		return fmt.Errorf("mujoco: evaluation %s: %w", ev.Name, err)
	}
	cfg := DefaultEnvConfig(offered(spec))
	if cfg.Spec != spec {
		policy = struct{ rollout.Policy }{policy} // its own contract, which it may state, has a name for its group that these rows have not
	}
	cfg.Rows, cfg.Threads, cfg.Seed, cfg.World, cfg.Params = ev.Rows, threads, ev.Seed, &ev.World, params
	if cfg.Model, err = Load(name); err != nil {
		return err
	}
	defer cfg.Model.Close()
	e, err := NewEnv(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	steps := int(math.Round(ev.Seconds / e.period))
	if steps < 1 {
		return fmt.Errorf("mujoco: evaluation %s: %v s is shorter than a policy period of %v s", ev.Name, ev.Seconds, e.period)
	}
	ages := make([]float64, ev.Rows) // of the commands when the step began
	step := 0
	err = rollout.Run(ctx, []rollout.Env{e}, policy, rollout.SinkFunc(
		func(_ int, _ *rollout.Step, _ *rollout.Decision, after *rollout.Step) error {
			for row := range ev.Rows {
				each(e, row, ages[row], after)
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
		return err
	}
	if step < steps {
		return context.Cause(ctx)
	}
	return nil
}

// offered is the contract that rows offer to a policy. A teacher's group keeps its place, under another name: the truth. What the robot
// senses, which no rows go without, stands behind it and is read by nobody.
func offered(spec *rollout.Spec) *rollout.Spec {
	g := spec.GroupIndex("policy")
	if g < 0 || !slices.ContainsFunc(spec.Groups[g].Terms, func(t rollout.Term) bool { _, _, ok := task.ExtraTerm(t.Name); return ok }) {
		return spec
	}
	s := *spec
	s.Groups = append(slices.Clone(spec.Groups), task.DefaultSpec().Groups[0])
	s.Groups[g].Name = "teacher"
	return &s
}
