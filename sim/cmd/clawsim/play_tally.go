package main

import (
	"math"
	"slices"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// tally adds up what a run of one Env shows; it allocates nothing while it runs.
type tally struct {
	rows, metrics int
	period        float64 // s
	steps, settle int     // of the whole run, 0: without end; left out of the means
	step, counted int
	sums          []float64 // (rows, metrics)
	fell          []float64 // s of a row's first fall; 0: none
}

// newTally counts seconds, in whole steps, at least one; infinite seconds never end.
func newTally(spec rollout.Spec, seconds float64) *tally {
	t := &tally{rows: spec.Rows, metrics: len(spec.Metrics), period: float64(spec.PolicyPeriodNs) / 1e9}
	t.settle = int(math.Round(playSettle / t.period))
	if !math.IsInf(seconds, 1) {
		t.steps = max(1, int(math.Round(seconds/t.period)))
		t.settle = min(t.settle, t.steps/2)
	}
	t.sums = make([]float64, t.rows*t.metrics)
	t.fell = make([]float64, t.rows)
	return t
}

// record takes one Step; it ends the run with rollout.ErrStop.
func (t *tally) record(after *rollout.Step) error {
	t.step++
	for row := range t.rows {
		if after.Terminated[row] && t.fell[row] == 0 {
			t.fell[row] = float64(t.step) * t.period
		}
	}
	if t.step > t.settle {
		t.counted++
		for i, m := range after.Metrics {
			t.sums[i] += float64(m)
		}
	}
	if t.step == t.steps {
		return rollout.ErrStop
	}
	return nil
}

// result is what was seen, wall seconds after the start.
func (t *tally) result(wall float64) *playResult {
	r := &playResult{Rows: t.rows, Seconds: float64(t.step) * t.period, StepsPerS: float64(t.rows*t.step) / wall,
		FirstFall: math.NaN(), MedianFall: math.NaN()}
	sums := make([]float64, t.metrics)
	var falls []float64
	for row, at := range t.fell {
		if at > 0 {
			falls = append(falls, at)
			continue
		}
		for i := range sums {
			sums[i] += t.sums[row*t.metrics+i]
		}
	}
	n := (t.rows - len(falls)) * t.counted
	for _, f := range []struct {
		out *float64
		at  int
	}{{&r.Vx, task.Vx}, {&r.Vy, task.Vy}, {&r.Wz, task.Wz}, {&r.VelErr, task.VelErr}, {&r.YawErr, task.YawErr}, {&r.Height, task.Height},
		{&r.PowerW, task.Power}, {&r.ActionRate, task.ActionRate}} {
		*f.out = orNaN(sums[f.at], n)
	}
	r.FallRate = float64(len(falls)) / float64(t.rows)
	if r.Falls = len(falls); r.Falls > 0 {
		slices.Sort(falls)
		r.FirstFall, r.MedianFall = falls[0], falls[len(falls)/2]
	}
	return r
}

// zeroPolicy always asks for the home pose.
type zeroPolicy struct{}

func (zeroPolicy) Reset([]int) {}

func (zeroPolicy) Act(_ *rollout.Step, out *rollout.Decision) error {
	clear(out.Action)
	return nil
}

// randomPolicy asks for uniform actions in -1..1; each row has its own numbers.
type randomPolicy struct{ rands []task.Rand }

func newRandomPolicy(seed uint64, rows int) *randomPolicy {
	p := &randomPolicy{}
	for row := range rows {
		p.rands = append(p.rands, task.NewRand(seed, row, task.StreamPolicy))
	}
	return p
}

func (*randomPolicy) Reset([]int) {}

func (p *randomPolicy) Act(step *rollout.Step, out *rollout.Decision) error {
	dim := len(out.Action) / len(out.Acted)
	for i := range out.Action {
		out.Action[i] = float32(p.rands[step.FirstRow+i/dim].Sym(1))
	}
	return nil
}
