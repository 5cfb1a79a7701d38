package control

import (
	"context"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// tripping is a guard that trips just before the at-th thing that is asked of it.
type tripping struct {
	at, asked int
	count     uint64
	latched   bool
}

func (g *tripping) ask() {
	if g.asked == g.at {
		g.count, g.latched = g.count+1, true
	}
	g.asked++
}

func (g *tripping) tripped() bool      { g.ask(); return g.latched }
func (g *tripping) guardTrips() uint64 { g.ask(); return g.count }
func (g *tripping) begin()             { g.ask(); g.latched = false }

// TestTripWithinADamp: whenever the guard trips, a damp clears that only for whoever was shown it, and only if it was there when the damp
// looked.
func TestTripWithinADamp(t *testing.T) {
	for _, c := range []struct {
		at      int
		shown   uint64
		ok      bool
		latched bool
	}{
		{at: 0, shown: 0, ok: false, latched: true},
		{at: 0, shown: 1, ok: true},
		{at: 0, shown: 2, ok: false, latched: true},
		{at: 1, shown: 0, ok: true, latched: true}, // behind the look: there was nothing to clear then
		{at: 1, shown: 1, ok: true, latched: true},
		{at: 9, shown: 0, ok: true}, // it does not
		{at: 9, shown: 1, ok: true},
	} {
		g := &tripping{at: c.at}
		n, ok := unlatch(g, c.shown)
		if ok != c.ok || g.latched != c.latched || n != g.count {
			t.Errorf("it trips at %d, %d trips were shown: %v with %d trips, latched %v", c.at, c.shown, ok, n, g.latched)
		}
	}
	// One that was shown, and none behind it.
	g := &tripping{at: 9, count: 3, latched: true}
	if n, ok := unlatch(g, 3); !ok || n != 3 || g.latched {
		t.Errorf("%v with %d trips, latched %v", ok, n, g.latched)
	}
}

// TestHeldUpWhileADampWaits: without a guard, or with one that stood still as well, only the loop notices that it did. A damp and a stand
// that waited meanwhile clear nothing of that, nor do those that come before a person can have seen it.
func TestHeldUpWhileADampWaits(t *testing.T) {
	r := newRig(t, linktest.Config{}).standing()
	// waiting asks while the loop stands still for so long.
	waiting := func(ns int64, ask func(context.Context) error) error {
		done := make(chan error, 1)
		go func() { done <- ask(context.Background()) }()
		for r.l.inbox.Load() == nil {
			time.Sleep(50 * time.Microsecond)
		}
		r.due += PeriodNs
		r.clock.now = r.due + ns
		r.l.Tick(r.due)
		r.udp.Wait(1e9)
		r.due = r.clock.now
		return <-done
	}
	damp := func(ctx context.Context) error { return r.l.SetMode(ctx, Damp) }
	latched := func(fault safety.Fault, trips uint64) {
		t.Helper()
		if v := r.l.judge.Verdict(); r.l.mode != Damp || v.Fault != fault || r.l.stats.Trips != trips {
			t.Fatalf("mode %v, latched %v by %v, %d trips; want %v, %d", r.l.mode, v.Severity, v.Fault, r.l.stats.Trips, fault, trips)
		}
	}
	torque := r.robot.Count(linktest.Torque)
	r.refused(waiting(20e6, damp), TrippedMeanwhile)
	latched(safety.LoopLate, 1)
	r.refused(r.mode(Stand), Latched)
	shown := func(ctx context.Context) error { return r.l.Damp(ctx, 0) } // of the guard's: there is none
	r.refused(r.ask(shown), TrippedMeanwhile)
	for r.l.stats.Ticks-r.l.tripTick < seenTicks-2 {
		r.tick()
	}
	r.refused(waiting(0, shown), TrippedMeanwhile) // on the last of them
	latched(safety.LoopLate, 1)
	if n := r.robot.Count(linktest.Torque); n != torque {
		t.Errorf("%d torque frames", n-torque)
	}
	r.must(waiting(0, shown))
	latched(safety.NoFault, 1)

	// Who asks behind it for what has come until then, and where no torque was, is not made to wait.
	r.must(r.mode(Stand))
	r.ticks(1300)
	r.in(Stand, PhaseReady)
	r.must(waiting(19e6, damp))
	latched(safety.NoFault, 1)
	r.must(waiting(50e6, damp))
	latched(safety.NoFault, 1)
	r.must(r.mode(Stand))
	r.ticks(1300)
	r.refused(waiting(20e6, shown), TrippedMeanwhile)
	latched(safety.LoopLate, 2)
	r.must(r.mode(Damp))
	latched(safety.NoFault, 2)
}
