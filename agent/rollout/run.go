package rollout

import (
	"context"
	"errors"
	"fmt"
)

// ErrStop ends a Run without an error when a Sink returns it.
var ErrStop = errors.New("rollout: stop")

// Sink takes what a Run produces.
type Sink interface {
	// Record is called once per Step of an Env, from the goroutine of Run: in
	// before the policy decided d, and after is what came of it. All three are
	// reused; what must last is copied. Returning ErrStop ends the Run.
	Record(env int, before *Step, d *Decision, after *Step) error
}

// SinkFunc is a function that is a Sink.
type SinkFunc func(env int, before *Step, d *Decision, after *Step) error

// Record calls f.
func (f SinkFunc) Record(env int, before *Step, d *Decision, after *Step) error {
	return f(env, before, d, after)
}

// Run is the one loop: it resets every Env, then lets policy act and the Envs
// step until ctx ends, the sink returns ErrStop (both give nil) or something
// fails. With several Envs one simulates while the policy acts on another.
// Rows that ended in an Env that does not reset by itself are reset at once:
// on a robot that waits for a person. With one Env a step of Run allocates
// nothing and starts no goroutine.
func Run(ctx context.Context, envs []Env, policy Policy, sink Sink) error {
	if len(envs) == 0 {
		return errors.New("rollout: Run without an Env")
	}
	lanes := make([]*lane, len(envs))
	first := 0
	for i, e := range envs {
		spec := e.Spec()
		if p, ok := policy.(interface{ Spec() Spec }); ok {
			need := p.Spec()
			if err := spec.Fits(&need); err != nil {
				return err
			}
		}
		l := &lane{env: e, index: i, spec: spec, before: NewStep(spec), after: NewStep(spec),
			decision: NewDecision(spec), ended: make([]int, 0, spec.Rows)}
		l.before.FirstRow, l.after.FirstRow = first, first
		first += spec.Rows
		lanes[i] = l
	}
	policy.Reset(nil)
	for _, l := range lanes {
		if err := l.env.Reset(ctx, nil, l.before); err != nil {
			return ended(ctx, err)
		}
	}
	if len(lanes) == 1 {
		l := lanes[0]
		for {
			if err := l.act(policy); err != nil {
				return err
			}
			if err := l.env.Step(ctx, l.decision.Action, l.after); err != nil {
				return ended(ctx, err)
			}
			if err := l.finish(ctx, policy, sink); err != nil {
				return ended(ctx, err)
			}
		}
	}
	return interleave(ctx, lanes, policy, sink)
}

// interleave keeps every Env stepping in a goroutine of its own, except the one
// that the policy is looking at. The order in which Envs are served is fixed,
// so that the result does not depend on timing.
func interleave(ctx context.Context, lanes []*lane, policy Policy, sink Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	done := make([]chan error, len(lanes))
	running := make([]bool, len(lanes))
	defer func() { // no Env is left stepping behind the caller's back
		cancel()
		for i, r := range running {
			if r {
				<-done[i]
			}
		}
	}()
	start := func(l *lane) error {
		if err := l.act(policy); err != nil {
			return err
		}
		running[l.index] = true
		go func() { done[l.index] <- l.env.Step(ctx, l.decision.Action, l.after) }()
		return nil
	}
	for i, l := range lanes {
		done[i] = make(chan error, 1)
		if err := start(l); err != nil {
			return err
		}
	}
	for {
		for i, l := range lanes {
			err := <-done[i]
			running[i] = false
			if err == nil {
				err = l.finish(ctx, policy, sink)
			}
			if err != nil {
				return ended(ctx, err)
			}
			if err := start(l); err != nil {
				return err
			}
		}
	}
}

// lane is one Env with its buffers.
type lane struct {
	env           Env
	index         int
	spec          Spec
	before, after *Step
	decision      *Decision
	ended         []int
}

func (l *lane) act(p Policy) error {
	l.decision.Labelled = false
	if err := p.Act(l.before, l.decision); err != nil {
		return fmt.Errorf("rollout: policy: %w", err)
	}
	return nil
}

// finish records the step and makes its observation the next one's.
func (l *lane) finish(ctx context.Context, p Policy, sink Sink) error {
	l.ended = l.ended[:0]
	for row := range l.spec.Rows {
		if l.after.Ended(row) {
			l.ended = append(l.ended, row)
		}
	}
	if sink != nil {
		if err := sink.Record(l.index, l.before, l.decision, l.after); err != nil {
			return err
		}
	}
	l.before, l.after = l.after, l.before
	if len(l.ended) > 0 {
		if !l.spec.AutoReset {
			if err := l.env.Reset(ctx, l.ended, l.before); err != nil {
				return err
			}
		}
		for i := range l.ended {
			l.ended[i] += l.before.FirstRow
		}
		p.Reset(l.ended)
	}
	return ctx.Err()
}

// ended turns the two ordinary ways to stop into nil.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, ErrStop) || (ctx.Err() != nil && errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}
