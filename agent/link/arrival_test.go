package link_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

func TestArrival(t *testing.T) {
	const hour = int64(time.Hour)
	for _, c := range []struct {
		name                                       string
		stamp, mono, wall, empty, now, wantArrived int64
	}{
		{"stamp 300 ns ago", 9_700, 1_000, 10_000, 500, 1_000, 700},
		{"the caller's present is a little old", 9_900, 1_000, 10_000, 500, 950, 900},
		{"arrived after the caller read its clock", 9_990, 1_000, 10_000, 500, 950, 950},
		{"wall clock stepped forward an hour since", 9_700, 1_000, 10_000 + hour, 500, 1_000, 500},
		{"wall clock stepped back an hour since", 9_700, 1_000, 10_000 - hour, 500, 1_000, 1_000},
		{"no stamp", 0, 1_000, 10_000, 500, 1_000, 1_000},
		{"present before the last look", 9_700, 1_000, 10_000, 2_000, 1_000, 1_000},
	} {
		if got := link.Arrival(c.stamp, c.mono, c.wall, c.empty, c.now); got != c.wantArrived {
			t.Errorf("%s: %d, want %d", c.name, got, c.wantArrived)
		}
	}
}

// TestArrivalIsTheKernels: a state that has waited is as old as its wait, not as new as its reading.
func TestArrivalIsTheKernels(t *testing.T) {
	r, u := connect(t, link.UDPConfig{})
	var s wire.LowState
	var excess int64
	for range 5 { // the two clocks are read apart; where something comes between, the next try is clean
		if _, ok := u.Receive(&s, link.Now()); ok {
			t.Fatal("accepted")
		}
		before := link.Now()
		if err := r.Send(good(t, 1)); err != nil {
			t.Fatal(err)
		}
		if !u.Wait(int64(patience)) {
			t.Fatal("no datagram")
		}
		waiting := link.Now()
		for link.Now() < waiting+int64(5*time.Millisecond) {
			runtime.Gosched()
		}
		now := link.Now()
		at, ok := u.Receive(&s, now)
		if !ok {
			t.Fatal("not accepted")
		}
		if at > now {
			t.Fatalf("arrived %d ns in the future", at-now)
		}
		if got := u.Counters().LastAcceptedNs; got != at {
			t.Fatalf("LastAcceptedNs %d, want %d", got, at)
		}
		excess = max(at-waiting, before-at)
		if excess < int64(time.Millisecond) {
			return
		}
	}
	t.Errorf("arrival misses the time between sending and waiting by %d ns", excess)
}

// TestWallClockStep: the wall clock is stepped between arrival and reading.
func TestWallClockStep(t *testing.T) {
	for _, c := range []struct {
		name string
		step time.Duration
	}{{"forward", time.Hour}, {"back", -time.Hour}} {
		t.Run(c.name, func(t *testing.T) {
			r, u := connect(t, link.UDPConfig{})
			link.SetClocks(u, func() (monoNs, wallNs int64) {
				mono, wall := link.ReadClocks()
				return mono, wall + int64(c.step)
			})
			var s wire.LowState
			empty := link.Now()
			if _, ok := u.Receive(&s, empty); ok {
				t.Fatal("accepted")
			}
			if err := r.Send(good(t, 1)); err != nil {
				t.Fatal(err)
			}
			if !u.Wait(int64(patience)) {
				t.Fatal("no datagram")
			}
			now := link.Now()
			at, ok := u.Receive(&s, now)
			want := map[bool]int64{true: empty, false: now}[c.step > 0]
			if !ok || at != want {
				t.Errorf("arrived at %d (%v), want %d of %d..%d", at, ok, want, empty, now)
			}
		})
	}
}

func TestVirtualTime(t *testing.T) {
	r, u := connect(t, link.UDPConfig{VirtualTime: true})
	if err := r.Send(good(t, 1)); err != nil {
		t.Fatal(err)
	}
	u.Wait(int64(patience))
	var s wire.LowState
	if at, ok := u.Receive(&s, 42); !ok || at != 42 {
		t.Errorf("arrived at %d, %v; want 42", at, ok)
	}
}

// TestNowIsMonotonicClock: deadlines made from Now are on the clock that sleeps on them.
func TestNowIsMonotonicClock(t *testing.T) {
	var before, after int64
	for range 100 {
		before = monotonic(t)
		now := link.Now()
		after = monotonic(t)
		const slack = 100_000 // the clocks were tied together once, at start, within this
		if now < before-slack || now > after+slack {
			t.Fatalf("Now %d outside CLOCK_MONOTONIC %d..%d", now, before, after)
		}
	}
}
