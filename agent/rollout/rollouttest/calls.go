package rollouttest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// wantError fails unless err is want.
func wantError(t testing.TB, err, want error, call string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: error %v, want %q", call, err, want)
	}
}

// checkSpec: the Spec makes sense, is what was asked for, and never changes.
func checkSpec(t testing.TB, h Harness) {
	o := h.options()
	d := h.open(t, o)
	if err := d.spec.Check(); err != nil {
		t.Fatalf("Spec: %v", err)
	}
	if d.spec.Rows != o.Rows {
		t.Fatalf("Spec: %d rows, asked for %d", d.spec.Rows, o.Rows)
	}
	seen := map[string]bool{}
	for _, m := range d.spec.Metrics {
		if m == "" || seen[m] {
			t.Fatalf("Spec: metric %q is empty or named twice: %q", m, d.spec.Metrics)
		}
		seen[m] = true
	}
	d.reset(nil)
	d.step()
	if now := d.env.Spec(); !reflect.DeepEqual(now, d.spec) {
		t.Fatalf("Spec changed: %+v, was %+v", now, d.spec)
	}
}

// checkFilled: Reset and Step write every number and flag of out, finite ones.
func checkFilled(t testing.TB, h Harness) {
	d := h.open(t, h.options())
	poison := func() {
		nan := float32(math.NaN())
		for _, v := range append(append([][]float32{}, d.out.Obs...), d.out.Reward, d.out.Executed, d.out.Metrics) {
			for i := range v {
				v[i] = nan
			}
		}
		for row := range d.spec.Rows {
			d.out.Terminated[row], d.out.TimedOut[row] = true, true
		}
	}
	look := func(call string) {
		t.Helper()
		whole := func(what string, v []float32) {
			t.Helper()
			for i, x := range v {
				if x-x != 0 {
					t.Fatalf("%s: %s[%d] is %v: not written, or not finite", call, what, i, x)
				}
			}
		}
		for g := range d.spec.Groups {
			whole("Obs of group "+d.spec.Groups[g].Name, d.out.Obs[g])
		}
		whole("Reward", d.out.Reward)
		whole("Executed", d.out.Executed)
		whole("Metrics", d.out.Metrics)
		for row := range d.spec.Rows {
			if d.out.Ended(row) {
				t.Fatalf("%s: row %d: Terminated %v, TimedOut %v, but nothing ended", call, row, d.out.Terminated[row], d.out.TimedOut[row])
			}
		}
	}
	poison()
	d.reset(nil)
	look("Reset")
	for range 3 {
		d.prepare()
		poison()
		if err := d.env.Step(context.Background(), d.action, d.out); err != nil {
			t.Fatalf("Step: %v", err)
		}
		look("Step")
	}
}

// checkBeforeReset: a Step before the first Reset is refused.
func checkBeforeReset(t testing.TB, h Harness) {
	d := h.open(t, h.options())
	wantError(t, d.env.Step(context.Background(), d.action, d.out), rollout.ErrNotReset, "Step before Reset")
	d.reset(nil)
	d.step()
}

// checkDeterminism: the seed decides; threads do not.
func checkDeterminism(t testing.TB, h Harness) {
	o := h.options()
	o.EpisodeSteps = h.EpisodeSteps
	a := h.begin(t, o)
	needDeterminism(t, a)
	b := h.begin(t, o)
	o.Threads = 2
	threads := h.begin(t, o)
	o.Threads, o.Seed = 1, seed+1
	other := h.begin(t, o)
	differs := false
	for range 2*max(h.EpisodeSteps, 6) + 3 {
		for row := range a.spec.Rows {
			wantSame(t, a, b, row, "same seed, same actions")
			wantSame(t, a, threads, row, "one thread and two")
			_, same := sameRow(&a.spec, a.out, other.out, row)
			differs = differs || !same
		}
		for _, d := range []*drive{a, b, threads, other} {
			d.step()
		}
	}
	if !differs {
		t.Fatalf("seeds %d and %d give the same", seed, seed+1)
	}
}

// checkPartialReset: Reset of one row does nothing to the others, now or later.
func checkPartialReset(t testing.TB, h Harness) {
	o := h.options()
	if o.Rows < 2 {
		t.Skip("this Env has one row")
	}
	o.History, o.EpisodeSteps = 5, h.EpisodeSteps
	a, b := h.begin(t, o), h.begin(t, o)
	const fallen = 0
	last := a.spec.Rows - 1
	wasReset := make([]bool, a.spec.Rows)
	partial := func(row int, when string) {
		t.Helper()
		wasReset[row] = true
		before := a.keep()
		a.reset([]int{row})
		for r := range a.spec.Rows {
			if r == row {
				for g := range a.spec.Groups {
					wantFirst(t, &a.spec.Groups[g], a.vector(a.out.Obs, g, r), "after a partial Reset")
				}
				if a.out.Ended(r) {
					t.Fatalf("%s, Reset of row %d: it still shows an end", when, row)
				}
				continue
			}
			what, same := sameRow(&a.spec, before, a.out, r)
			for g := range a.spec.Groups {
				if !equal(a.vector(before.Final, g, r), a.vector(a.out.Final, g, r)) {
					what, same = "Final of group "+a.spec.Groups[g].Name, false
				}
			}
			if !same {
				t.Fatalf("%s, Reset of row %d changed what row %d shows: %s", when, row, r, what)
			}
		}
	}
	for range 3 {
		a.step()
		b.step()
	}
	partial(1, "within an episode")
	if h.Fall != nil { // the others show an end, of either kind
		h.Fall(a.env, fallen)
		h.Fall(b.env, fallen)
		a.step()
		b.step()
		partial(1, "after a fall")
	}
	if h.EpisodeSteps > 0 {
		for !a.out.TimedOut[last] && a.steps < 2*h.EpisodeSteps {
			a.step()
			b.step()
		}
		partial(1, "after a time-out") // of others
		partial(last, "after its time-out")
	}
	needDeterminism(t, a)
	for range 8 {
		a.step()
		b.step()
		for r := range a.spec.Rows {
			if !wasReset[r] {
				wantSame(t, a, b, r, "Reset of another row")
			}
		}
	}
	a.reset([]int{}) // no row at all
	for range 2 {
		a.step()
		b.step()
		wantSame(t, a, b, 0, "Reset of no row")
	}
}

// checkBadActions: an action of the wrong length or with a number that is not
// finite is refused before anything moves.
func checkBadActions(t testing.TB, h Harness) {
	o := h.options()
	a, twin := h.begin(t, o), h.begin(t, o)
	n := len(a.action)
	with := func(i int, x float32) []float32 {
		v := make([]float32, n)
		v[i] = x
		return v
	}
	for _, bad := range []struct {
		name   string
		action []float32
	}{
		{"NaN first", with(0, float32(math.NaN()))}, {"NaN last", with(n-1, float32(math.NaN()))},
		{"+Inf", with(n/2, float32(math.Inf(1)))}, {"-Inf", with(n-1, float32(math.Inf(-1)))},
		{"no numbers", nil}, {"one too few", make([]float32, n-1)}, {"one too many", make([]float32, n+1)},
	} {
		a.step()
		twin.step()
		wantError(t, a.env.Step(context.Background(), bad.action, a.keep()), rollout.ErrAction, "action with "+bad.name)
		a.step()
		twin.step()
		if a.spec.Deterministic {
			for row := range a.spec.Rows {
				wantSame(t, a, twin, row, "something moved when an action with "+bad.name+" was refused")
			}
		}
	}
}

// checkContext: with a context that has ended Step and Reset do nothing.
func checkContext(t testing.TB, h Harness) {
	o := h.options()
	a, twin := h.begin(t, o), h.begin(t, o)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	a.step()
	twin.step()
	a.prepare()
	a.steps--
	wantError(t, a.env.Step(over, a.action, a.keep()), context.Canceled, "Step with an ended context")
	wantError(t, a.env.Reset(over, nil, a.keep()), context.Canceled, "Reset with an ended context")
	a.step()
	twin.step()
	if a.spec.Deterministic {
		for row := range a.spec.Rows {
			wantSame(t, a, twin, row, "something moved with an ended context")
		}
	}
}

// checkNoAllocation: stepping allocates nothing, ends of episodes included.
func checkNoAllocation(t testing.TB, h Harness) {
	if h.SharedProcess {
		t.Skip("something beside this Env allocates in its process")
	}
	o := h.options()
	o.EpisodeSteps, o.Threads = h.EpisodeSteps, 2
	d := h.begin(t, o)
	steps := 3*max(h.EpisodeSteps, 6) + 1
	if !d.spec.AutoReset {
		steps = (max(h.EpisodeSteps, 6) - 2) / 4 // before the first end
	}
	// AllocsPerRun rounds down, so a run is many steps: one allocation an episode shows.
	const runs = 3
	var err error
	n := testing.AllocsPerRun(runs, func() {
		for range steps {
			d.prepare()
			if e := d.env.Step(context.Background(), d.action, d.out); e != nil {
				err = e
			}
		}
	})
	if err != nil {
		t.Fatalf("Step: %v", err)
	}
	if n != 0 {
		t.Fatalf("%d Steps allocate %v times", steps, n)
	}
}

// checkClose: Close may be called again, and nothing works after it.
func checkClose(t testing.TB, h Harness) {
	d := h.begin(t, h.options())
	d.step()
	for n := 1; n <= 3; n++ {
		if err := d.env.Close(); err != nil {
			t.Fatalf("Close, call %d: %v", n, err)
		}
	}
	wantError(t, d.env.Step(context.Background(), d.action, d.out), rollout.ErrClosed, "Step after Close")
	wantError(t, d.env.Reset(context.Background(), nil, d.out), rollout.ErrClosed, "Reset after Close")
	never := h.open(t, h.options())
	if err := never.env.Close(); err != nil {
		t.Fatalf("Close of an Env that was never reset: %v", err)
	}
}
