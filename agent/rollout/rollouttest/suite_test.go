package rollouttest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

func toyHarness() Harness {
	return Harness{
		New: func(_ testing.TB, o Options) rollout.Env {
			return NewToy(o.Rows, o.History, o.EpisodeSteps, o.Seed)
		},
		Fall:         func(env rollout.Env, row int) { env.(interface{ Fall(int) }).Fall(row) },
		EpisodeSteps: 7,
	}
}

func TestToyPasses(t *testing.T) { Run(t, toyHarness()) }

// TestOneRowPasses: what a robot's Env can show.
func TestOneRowPasses(t *testing.T) {
	h := toyHarness()
	h.Rows = 1
	Run(t, h)
}

// TestHoldingPasses: an Env that does not begin anew by itself.
func TestHoldingPasses(t *testing.T) {
	h := toyHarness()
	h.New = func(_ testing.TB, o Options) rollout.Env {
		return newHolding(NewToy(o.Rows, o.History, o.EpisodeSteps, o.Seed))
	}
	Run(t, h)
}

// holding shows an Env as a robot does: after an end it keeps the last
// observation and refuses to step until Reset.
type holding struct {
	*Toy
	over []bool
}

func newHolding(e *Toy) *holding {
	e.spec.AutoReset = false
	return &holding{Toy: e, over: make([]bool, len(e.rows))}
}

func (e *holding) Reset(ctx context.Context, rows []int, out *rollout.Step) error {
	if err := e.Toy.Reset(ctx, rows, out); err != nil {
		return err
	}
	if rows == nil {
		clear(e.over)
	}
	for _, row := range rows {
		e.over[row] = false
	}
	return nil
}

func (e *holding) Step(ctx context.Context, action []float32, out *rollout.Step) error {
	if !e.closed && slices.Contains(e.over, true) {
		return rollout.ErrNotReset
	}
	if err := e.Toy.Step(ctx, action, out); err != nil {
		return err
	}
	for row := range e.rows {
		if out.Ended(row) {
			e.over[row] = true
			n := e.spec.Groups[0].Size()
			copy(out.Obs[0][row*n:(row+1)*n], out.Final[0][row*n:(row+1)*n])
		}
	}
	return nil
}

// recorder is a testing.TB that remembers a failure instead of passing it on.
type recorder struct {
	testing.TB
	failed, skipped bool
	said            string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, a ...any) {
	r.failed, r.said = true, fmt.Sprintf(format, a...)
}
func (r *recorder) Fatalf(format string, a ...any) { r.Errorf(format, a...); runtime.Goexit() }
func (r *recorder) FailNow()                       { r.failed = true; runtime.Goexit() }
func (r *recorder) Skip(...any)                    { r.skipped = true; runtime.Goexit() }

// failures runs every check on h and gives what the failing ones said, by name.
func failures(t *testing.T, h Harness) map[string]string {
	failed := map[string]string{}
	for _, c := range checks() {
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if p := recover(); p != nil { // a panic fails a test, too
					r.Errorf("panic: %v", p)
				}
			}()
			c.run(r, h)
		}()
		<-done
		if r.failed {
			failed[c.name] = r.said
		}
	}
	return failed
}

// broken is a Toy with some of its methods broken.
type broken struct {
	*Toy
	o     Options
	spec  func(b *broken) rollout.Spec
	reset func(b *broken, ctx context.Context, rows []int, out *rollout.Step) error
	step  func(b *broken, ctx context.Context, action []float32, out *rollout.Step) error
	close func(b *broken) error
	n     int        // steps
	kept  []float32  // for those that need a memory
	sink  []*float32 // keeps what was allocated from being optimised away
}

func (b *broken) Spec() rollout.Spec {
	if b.spec != nil {
		return b.spec(b)
	}
	return b.Toy.Spec()
}

func (b *broken) Reset(ctx context.Context, rows []int, out *rollout.Step) error {
	if b.reset != nil {
		return b.reset(b, ctx, rows, out)
	}
	return b.Toy.Reset(ctx, rows, out)
}

func (b *broken) Step(ctx context.Context, action []float32, out *rollout.Step) error {
	b.n++
	if b.step != nil {
		return b.step(b, ctx, action, out)
	}
	return b.Toy.Step(ctx, action, out)
}

func (b *broken) Close() error {
	if b.close != nil {
		return b.close(b)
	}
	return b.Toy.Close()
}

// after breaks what a good Step showed.
func after(f func(b *broken, out *rollout.Step)) broken {
	return broken{step: func(b *broken, ctx context.Context, action []float32, out *rollout.Step) error {
		err := b.Toy.Step(ctx, action, out)
		if err == nil {
			f(b, out)
		}
		return err
	}}
}

// resets breaks what a good Reset of some rows showed.
func resets(f func(out *rollout.Step)) broken {
	return broken{reset: func(b *broken, ctx context.Context, rows []int, out *rollout.Step) error {
		err := b.Toy.Reset(ctx, rows, out)
		if err == nil && rows != nil {
			f(out)
		}
		return err
	}}
}

// rowOf is row's vector.
func (b *broken) rowOf(v []float32, row int) []float32 {
	n := len(b.rows[row].history)
	return v[row*n : (row+1)*n]
}

// TestEveryBreakIsCaught: each Env below breaks the contract in one way, and the
// check named (among others, perhaps) must fail.
func TestEveryBreakIsCaught(t *testing.T) {
	bg := context.Background()
	for _, c := range []struct {
		name, check string
		env         broken
	}{
		{"Spec has another number of rows", "Spec", broken{spec: func(b *broken) rollout.Spec {
			s := b.Toy.Spec()
			s.Rows++
			return s
		}}},
		{"Spec contradicts itself", "Spec", broken{spec: func(b *broken) rollout.Spec {
			s := b.Toy.Spec()
			s.Kp = nil
			return s
		}}},
		{"Spec changes", "Spec", broken{spec: func(b *broken) rollout.Spec {
			s := b.Toy.Spec()
			s.Kp = []float32{1 + float32(b.n)}
			return s
		}}},
		{"a metric has two names", "Spec", broken{spec: func(b *broken) rollout.Spec {
			s := b.Toy.Spec()
			s.Metrics = []string{"x", "x"}
			return s
		}}},
		{"Metrics are not written", "EverythingIsFilled", after(func(_ *broken, out *rollout.Step) {
			out.Metrics[0] = float32(math.NaN())
		})},
		{"an observation is NaN", "EverythingIsFilled", after(func(_ *broken, out *rollout.Step) {
			out.Obs[0][0] = float32(math.NaN())
		})},
		{"Reset leaves old ends standing", "EverythingIsFilled", broken{reset: func(b *broken, ctx context.Context, rows []int, out *rollout.Step) error {
			was := slices.Clone(out.TimedOut)
			err := b.Toy.Reset(ctx, rows, out)
			copy(out.TimedOut, was)
			return err
		}}},
		{"Step leaves old ends standing", "EverythingIsFilled", broken{step: func(b *broken, ctx context.Context, action []float32, out *rollout.Step) error {
			was := slices.Clone(out.TimedOut)
			err := b.Toy.Step(ctx, action, out)
			for row := range was {
				out.TimedOut[row] = out.TimedOut[row] || was[row]
			}
			return err
		}}},
		{"Step works before Reset", "StepBeforeReset", broken{step: func(b *broken, ctx context.Context, action []float32, out *rollout.Step) error {
			if !b.ready && !b.closed {
				_ = b.Toy.Reset(ctx, nil, out)
			}
			return b.Toy.Step(ctx, action, out)
		}}},
		{"the seed is ignored", "Determinism", broken{reset: func(b *broken, ctx context.Context, rows []int, out *rollout.Step) error {
			for i := range b.rows {
				b.rows[i].random = rand.New(rand.NewPCG(1, uint64(i)))
			}
			return b.Toy.Reset(ctx, rows, out)
		}}},
		{"not deterministic", "Determinism", after(func(_ *broken, out *rollout.Step) { out.Reward[0] = rand.Float32() })},
		{"threads matter", "Determinism", after(func(b *broken, out *rollout.Step) { out.Metrics[0] += float32(b.o.Threads) })},
		{"Reset of a row resets all", "PartialReset", broken{reset: func(b *broken, ctx context.Context, _ []int, out *rollout.Step) error {
			return b.Toy.Reset(ctx, nil, out)
		}}},
		{"Reset of a row uses another row's random numbers", "PartialReset", broken{reset: func(b *broken, ctx context.Context, rows []int, out *rollout.Step) error {
			err := b.Toy.Reset(ctx, rows, out)
			for range rows {
				b.rows[0].v += 1e-3
			}
			return err
		}}},
		{"Reset of a row observes every row", "PartialReset", broken{reset: func(b *broken, ctx context.Context, rows []int, out *rollout.Step) error {
			err := b.Toy.Reset(ctx, rows, out)
			for i := range b.rows {
				b.rows[i].observe()
				b.show(i, out)
			}
			return err
		}}},
		{"Reset of a row clears every row's Executed", "PartialReset", resets(func(out *rollout.Step) { clear(out.Executed) })},
		{"Reset of a row clears every row's Reward", "PartialReset", resets(func(out *rollout.Step) { clear(out.Reward) })},
		{"Reset of a row clears every row's Terminated", "PartialReset", resets(func(out *rollout.Step) { clear(out.Terminated) })},
		{"Reset of a row clears every row's TimedOut", "PartialReset", resets(func(out *rollout.Step) { clear(out.TimedOut) })},
		{"Reset of a row clears every row's Metrics", "PartialReset", resets(func(out *rollout.Step) { clear(out.Metrics) })},
		{"Reset of a row clears every row's Final", "PartialReset", resets(func(out *rollout.Step) { clear(out.Final[0]) })},
		{"Reset of a row leaves its end standing", "PartialReset", broken{reset: func(b *broken, ctx context.Context, rows []int, out *rollout.Step) error {
			ends := slices.Clone(out.TimedOut)
			err := b.Toy.Reset(ctx, rows, out)
			if rows != nil {
				copy(out.TimedOut, ends)
			}
			return err
		}}},
		{"Reset of no row resets all", "PartialReset", broken{reset: func(b *broken, ctx context.Context, rows []int, out *rollout.Step) error {
			if len(rows) == 0 {
				rows = nil
			}
			return b.Toy.Reset(ctx, rows, out)
		}}},
		{"history is of the old episode", "History5", broken{step: func(b *broken, ctx context.Context, action []float32, out *rollout.Step) error {
			err := b.Toy.Step(ctx, action, out)
			for row := range b.rows {
				if h := b.rows[row].history; err == nil && out.Ended(row) {
					copy(h[:len(h)-toyFrame], b.rowOf(out.Final[0], row)[toyFrame:])
					b.show(row, out)
				}
			}
			return err
		}}},
		{"history is newest first, the Spec says oldest", "History5", after(func(b *broken, out *rollout.Step) {
			for row := range b.rows {
				v := b.rowOf(out.Obs[0], row)
				for i, j := 0, len(v)-toyFrame; i < j; i, j = i+toyFrame, j-toyFrame {
					for k := range toyFrame {
						v[i+k], v[j+k] = v[j+k], v[i+k]
					}
				}
			}
		})},
		{"history asked for is not given", "History5", broken{spec: func(b *broken) rollout.Spec {
			return ToySpec(1)
		}}},
		{"an observation depends on the length of history", "HistoriesAgree", after(func(b *broken, out *rollout.Step) {
			for row := range b.rows {
				v := b.rowOf(out.Obs[0], row)
				v[len(v)-1] += float32(b.o.History)
			}
		})},
		{"Final is the new episode's first", "Final", after(func(b *broken, out *rollout.Step) {
			copy(out.Final[0], out.Obs[0])
		})},
		{"Final ends with the new episode's first frame", "Final", after(func(b *broken, out *rollout.Step) {
			for row := range b.rows {
				if f := b.rowOf(out.Final[0], row); out.Ended(row) {
					copy(f[len(f)-toyFrame:], b.rowOf(out.Obs[0], row)[len(f)-toyFrame:])
				}
			}
		})},
		{"Obs at an end is the old episode's last", "Final", after(func(b *broken, out *rollout.Step) {
			for row := range b.rows {
				if out.Ended(row) {
					copy(b.rowOf(out.Obs[0], row), b.rowOf(out.Final[0], row))
				}
			}
		})},
		// Row 35 of the cases: who is not told of time-outs learns that standing well was worth nothing.
		{"time-outs are not told", "TimeOuts", after(func(_ *broken, out *rollout.Step) { clear(out.TimedOut) })},
		{"a time-out is called a fall", "TimeOuts", after(func(_ *broken, out *rollout.Step) {
			for row := range out.TimedOut {
				out.Terminated[row] = out.Terminated[row] || out.TimedOut[row]
				out.TimedOut[row] = false
			}
		})},
		{"a time-out is both", "TimeOuts", after(func(_ *broken, out *rollout.Step) {
			for row := range out.TimedOut {
				out.Terminated[row] = out.Terminated[row] || out.TimedOut[row]
			}
		})},
		{"episodes last one step more", "TimeOuts", broken{reset: func(b *broken, ctx context.Context, rows []int, out *rollout.Step) error {
			if rows == nil && b.episode > 0 {
				b.episode++
			}
			return b.Toy.Reset(ctx, rows, out)
		}}},
		{"only the first episode times out", "TimeOuts", after(func(b *broken, out *rollout.Step) {
			if slices.Contains(out.TimedOut, true) {
				b.episode = 0
			}
		})},
		{"a fall is called a time-out", "Falls", after(func(_ *broken, out *rollout.Step) {
			for row := range out.Terminated {
				out.TimedOut[row] = out.TimedOut[row] || out.Terminated[row]
				out.Terminated[row] = false
			}
		})},
		{"a fall ends every row", "Falls", after(func(_ *broken, out *rollout.Step) {
			if slices.Contains(out.Terminated, true) {
				for row := range out.Terminated {
					out.Terminated[row], out.TimedOut[row] = true, false
				}
			}
		})},
		{"a fallen row goes on falling", "Falls", after(func(b *broken, out *rollout.Step) {
			for row := range b.rows {
				if out.Terminated[row] {
					b.rows[row].x = 2
				}
			}
		})},
		{"a fall at the time-out is both", "FallAtTheTimeOut", after(func(b *broken, out *rollout.Step) {
			if b.episode > 0 && b.n%b.episode == 0 {
				for row := range out.TimedOut {
					out.TimedOut[row] = true
				}
			}
		})},
		{"at the time-out a fall is not seen", "FallAtTheTimeOut", after(func(b *broken, out *rollout.Step) {
			if b.episode > 0 && b.n%b.episode == 0 {
				for row := range out.TimedOut {
					out.Terminated[row], out.TimedOut[row] = false, true
				}
			}
		})},
		{"NaN is executed", "BadActions", broken{step: func(b *broken, ctx context.Context, action []float32, out *rollout.Step) error {
			for i, a := range action {
				if a-a != 0 {
					action[i] = 0
				}
			}
			return b.Toy.Step(ctx, action, out)
		}}},
		{"NaN is refused when rows before it have moved", "BadActions", broken{step: func(b *broken, ctx context.Context, action []float32, out *rollout.Step) error {
			err := b.Toy.Step(ctx, action, out)
			if errors.Is(err, rollout.ErrAction) {
				b.rows[0].x += 0.01
			}
			return err
		}}},
		{"a long action is cut", "BadActions", broken{step: func(b *broken, ctx context.Context, action []float32, out *rollout.Step) error {
			return b.Toy.Step(ctx, action[:min(len(action), len(b.rows))], out)
		}}},
		{"a refusal is another error", "BadActions", broken{step: func(b *broken, ctx context.Context, action []float32, out *rollout.Step) error {
			err := b.Toy.Step(ctx, action, out)
			if errors.Is(err, rollout.ErrAction) {
				err = errors.New("no")
			}
			return err
		}}},
		{"an ended context is not looked at", "EndedContext", broken{step: func(b *broken, _ context.Context, action []float32, out *rollout.Step) error {
			return b.Toy.Step(bg, action, out)
		}}},
		{"an ended context is looked at too late", "EndedContext", broken{step: func(b *broken, ctx context.Context, action []float32, out *rollout.Step) error {
			return errors.Join(b.Toy.Step(bg, action, out), ctx.Err())
		}}},
		{"Reset does not look at an ended context", "EndedContext", broken{reset: func(b *broken, _ context.Context, rows []int, out *rollout.Step) error {
			return b.Toy.Reset(bg, rows, out)
		}}},
		{"a Step allocates", "NoAllocation", after(func(b *broken, _ *rollout.Step) { b.sink = append(b.sink[:0], new(float32)) })},
		{"an end allocates", "NoAllocation", after(func(b *broken, out *rollout.Step) {
			if out.Ended(0) {
				b.kept = make([]float32, 100)
			}
		})},
		{"the second Close fails", "Close", broken{close: func(b *broken) error {
			if b.closed {
				return rollout.ErrClosed
			}
			return b.Toy.Close()
		}}},
		{"Step works after Close", "Close", broken{close: func(*broken) error { return nil }}},
		{"Reset works after Close", "Close", broken{reset: func(b *broken, ctx context.Context, rows []int, out *rollout.Step) error {
			was := b.closed
			b.closed = false
			defer func() { b.closed = was }()
			return b.Toy.Reset(ctx, rows, out)
		}}},
		{"Close before Reset fails", "Close", broken{close: func(b *broken) error {
			if !b.ready {
				return rollout.ErrNotReset
			}
			return b.Toy.Close()
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := toyHarness()
			h.New = func(_ testing.TB, o Options) rollout.Env {
				b := c.env
				b.Toy, b.o = NewToy(o.Rows, o.History, o.EpisodeSteps, o.Seed), o
				return &b
			}
			failed := failures(t, h)
			if said, ok := failed[c.check]; !ok {
				t.Errorf("%s passes; failing are %v", c.check, failed)
			} else {
				t.Logf("%s: %s", c.check, said)
			}
		})
	}
}

// TestSkips: what an Env cannot show is skipped, not failed.
func TestSkips(t *testing.T) {
	h := toyHarness()
	h.Fall, h.EpisodeSteps, h.Rows = nil, 0, 1
	if failed := failures(t, h); len(failed) > 0 {
		t.Errorf("failing: %v", failed)
	}
}
