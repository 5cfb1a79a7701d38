package rollouttest

import (
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// frameAt finds a term's numbers of one frame, age 0 being the newest, in a
// group's observation.
func frameAt(g *rollout.Group, term, age int) (from, to int) {
	t := &g.Terms[term]
	slot := t.History - 1 - age
	if t.Order == rollout.NewestFirst {
		slot = age
	}
	before, frame := 0, 0
	for i := range g.Terms {
		if i < term {
			if g.Layout == rollout.ByFrame {
				before += g.Terms[i].Size
			} else {
				before += g.Terms[i].Size * g.Terms[i].History
			}
		}
		frame += g.Terms[i].Size
	}
	from = before + slot*t.Size
	if g.Layout == rollout.ByFrame {
		from = before + slot*frame
	}
	return from, from + t.Size
}

// wantFirst fails unless obs is the first of an episode: older frames are what
// the term's Fill says.
func wantFirst(t testing.TB, g *rollout.Group, obs []float32, when string) {
	t.Helper()
	for i := range g.Terms {
		from, to := frameAt(g, i, 0)
		want := obs[from:to]
		if g.Terms[i].Fill == rollout.FillZero {
			want = make([]float32, to-from)
		}
		for age := 1; age < g.Terms[i].History; age++ {
			from, to := frameAt(g, i, age)
			if !equal(obs[from:to], want) {
				t.Fatalf("%s: group %s, term %s: frame of age %d is %v, want %v (fill %q)",
					when, g.Name, g.Terms[i].Name, age, obs[from:to], want, g.Terms[i].Fill)
			}
		}
	}
}

// wantNext fails unless the older frames of obs are those of before, one step on.
func wantNext(t testing.TB, g *rollout.Group, before, obs []float32, when string) {
	t.Helper()
	for i := range g.Terms {
		for age := 1; age < g.Terms[i].History; age++ {
			from, to := frameAt(g, i, age)
			wasFrom, wasTo := frameAt(g, i, age-1)
			if !equal(obs[from:to], before[wasFrom:wasTo]) {
				t.Fatalf("%s: group %s, term %s: frame of age %d is %v, but the frame of age %d was %v one step ago",
					when, g.Name, g.Terms[i].Name, age, obs[from:to], age-1, before[wasFrom:wasTo])
			}
		}
	}
}

// checkHistory: at the first, middle and last step of episodes the older frames
// are the episode's own; Final keeps the old episode's.
func checkHistory(t testing.TB, h Harness, history int) {
	o := h.options()
	o.History, o.EpisodeSteps = history, h.EpisodeSteps
	d := h.open(t, o)
	for g := range d.spec.Groups {
		for _, term := range d.spec.Groups[g].Terms {
			if term.History != history {
				t.Fatalf("group %s, term %s: history %d, asked for %d", d.spec.Groups[g].Name, term.Name, term.History, history)
			}
		}
	}
	d.reset(nil)
	before := d.keep()
	for g := range d.spec.Groups {
		for row := range d.spec.Rows {
			wantFirst(t, &d.spec.Groups[g], d.vector(d.out.Obs, g, row), "after Reset")
		}
	}
	ends := 0
	for range 2*max(h.EpisodeSteps, 6) + 3 {
		d.step()
		for g := range d.spec.Groups {
			group := &d.spec.Groups[g]
			for row := range d.spec.Rows {
				was, obs := d.vector(before.Obs, g, row), d.vector(d.out.Obs, g, row)
				switch {
				case !d.spec.AutoReset && before.Ended(row): // step reset it; nothing to compare with
				case !d.out.Ended(row):
					wantNext(t, group, was, obs, "within an episode")
				default:
					ends++
					wantNext(t, group, was, d.vector(d.out.Final, g, row), "Final")
					if d.spec.AutoReset {
						wantFirst(t, group, obs, "Obs at an end")
					}
				}
			}
		}
		before = d.keep()
	}
	if h.EpisodeSteps > 0 && ends == 0 {
		t.Fatalf("no episode of %d steps ended within %d", h.EpisodeSteps, d.steps)
	}
}

// checkHistoriesAgree: the newest frame does not depend on how many are kept.
func checkHistoriesAgree(t testing.TB, h Harness) {
	o := h.options()
	o.EpisodeSteps = h.EpisodeSteps
	one := h.begin(t, o)
	needDeterminism(t, one)
	o.History = 5
	five := h.begin(t, o)
	compare := func(a, b [][]float32, row int, what string) {
		t.Helper()
		for g := range one.spec.Groups {
			for i, term := range one.spec.Groups[g].Terms {
				from, to := frameAt(&one.spec.Groups[g], i, 0)
				from5, to5 := frameAt(&five.spec.Groups[g], i, 0)
				x, y := one.vector(a, g, row)[from:to], five.vector(b, g, row)[from5:to5]
				if !equal(x, y) {
					t.Fatalf("step %d, row %d, %s, term %s: %v with history 1, %v is the newest of 5", one.steps, row, what, term.Name, x, y)
				}
			}
		}
	}
	for range 2*max(h.EpisodeSteps, 6) + 3 {
		for row := range one.spec.Rows {
			compare(one.out.Obs, five.out.Obs, row, "Obs")
			if one.out.Ended(row) && five.out.Ended(row) {
				compare(one.out.Final, five.out.Final, row, "Final")
			}
		}
		one.step()
		five.step()
	}
}

// checkFinal: Final is what Obs would have been had the clock not ended the
// episode, with one frame and with five, and Obs is something else.
func checkFinal(t testing.TB, h Harness) {
	needTimeOuts(t, h)
	for _, history := range []int{1, 5} {
		o := h.options()
		o.History = history
		long := h.begin(t, o)
		o.EpisodeSteps = h.EpisodeSteps
		short := h.begin(t, o)
		for range h.EpisodeSteps {
			long.step()
			short.step()
		}
		for row := range short.spec.Rows {
			if !short.out.TimedOut[row] {
				t.Fatalf("row %d did not time out at step %d", row, h.EpisodeSteps)
			}
			moved := false
			for g := range short.spec.Groups {
				final, obs := short.vector(short.out.Final, g, row), short.vector(short.out.Obs, g, row)
				moved = moved || !equal(final, obs)
				if short.spec.Deterministic && !equal(final, long.vector(long.out.Obs, g, row)) {
					t.Fatalf("history %d, row %d, group %s: Final is %v, but had the episode gone on Obs were %v",
						history, row, short.spec.Groups[g].Name, final, long.vector(long.out.Obs, g, row))
				}
			}
			if short.spec.AutoReset && !moved {
				t.Fatalf("history %d, row %d: Obs at an end equals Final: it belongs to the old episode", history, row)
			}
		}
	}
}

// checkTimeOuts: the clock ends an episode at its last step, not before, again
// and again, and that is no fall.
func checkTimeOuts(t testing.TB, h Harness) {
	needTimeOuts(t, h)
	o := h.options()
	o.EpisodeSteps = h.EpisodeSteps
	d := h.begin(t, o)
	for n := 1; n <= 3*h.EpisodeSteps; n++ {
		d.step()
		for row := range d.spec.Rows {
			if d.out.Terminated[row] {
				t.Fatalf("step %d, row %d: Terminated, but only the clock can end it (or it fell: choose shorter episodes)", n, row)
			}
			if want := n%h.EpisodeSteps == 0; d.out.TimedOut[row] != want {
				t.Fatalf("step %d, row %d: TimedOut %v in episodes of %d steps", n, row, d.out.TimedOut[row], h.EpisodeSteps)
			}
		}
	}
}

// checkFalls: a fall is Terminated, in its row alone, and the next episode runs.
func checkFalls(t testing.TB, h Harness) {
	needFalls(t, h)
	d := h.begin(t, h.options())
	d.step()
	row := d.spec.Rows - 1
	h.Fall(d.env, row)
	d.step()
	for r := range d.spec.Rows {
		if d.out.Terminated[r] != (r == row) || d.out.TimedOut[r] {
			t.Fatalf("row %d fell; row %d: Terminated %v, TimedOut %v", row, r, d.out.Terminated[r], d.out.TimedOut[r])
		}
	}
	if !d.spec.AutoReset {
		d.prepare()
		wantError(t, d.env.Step(t.Context(), d.action, d.out), rollout.ErrNotReset, "Step of a row that fell")
		d.reset([]int{row})
	}
	d.step()
	if rows := d.ended(); rows != nil {
		t.Fatalf("one step into the new episode rows %v ended", rows)
	}
}

// checkFallAtTimeOut: when a row falls in the step that would end its clock, the
// fall wins.
func checkFallAtTimeOut(t testing.TB, h Harness) {
	needFalls(t, h)
	needTimeOuts(t, h)
	o := h.options()
	o.EpisodeSteps = h.EpisodeSteps
	d := h.begin(t, o)
	for range h.EpisodeSteps - 1 {
		d.step()
	}
	h.Fall(d.env, 0)
	d.step()
	for row := range d.spec.Rows {
		fell := row == 0
		if d.out.Terminated[row] != fell || d.out.TimedOut[row] == fell {
			t.Fatalf("at the time-out, row 0 falling: row %d: Terminated %v, TimedOut %v", row, d.out.Terminated[row], d.out.TimedOut[row])
		}
	}
}

func needTimeOuts(t testing.TB, h Harness) {
	t.Helper()
	if h.EpisodeSteps == 0 {
		t.Skip("this Env has no time-outs")
	}
}

func needFalls(t testing.TB, h Harness) {
	t.Helper()
	if h.Fall == nil {
		t.Skip("this Env cannot be made to fall")
	}
}

func needDeterminism(t testing.TB, d *drive) {
	t.Helper()
	if !d.spec.Deterministic {
		t.Skip("this Env is not deterministic")
	}
}
