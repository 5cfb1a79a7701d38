package httpapi

import (
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/guard"
)

// TestShownTrips: a damp clears what its sender can have seen of the guard's trips: by their own word, or else by what was answered so
// far, and not just now. A request that waited while this process stood still comes right behind the answer that tells of the trip.
func TestShownTrips(t *testing.T) {
	f := &fakeAgent{}
	before := testInfo
	t.Cleanup(func() { testInfo = before })
	trips := uint64(2)
	testInfo.Guard = func(s *guard.Status) bool { s.Trips = trips; return true }
	r := start(t, f)
	run := func(ticks uint64) { f.set(func(s *control.Snapshot) { s.Stats.Ticks += ticks }) }
	run(1000)
	damp := func(body, want string) {
		t.Helper()
		a := r.do("POST", "/api/v1/mode", body)
		if got := f.taken(); a.status != 200 || got != want || !strings.Contains(a.body, `"mode":"damp"`) {
			t.Errorf("%s: %d %s, asked %q, want %q", body, a.status, a.body, got, want)
		}
	}
	damp(`{"mode":"damp"}`, "damp, shown 0") // nobody was told
	r.do("GET", "/metrics", "")              // a program's
	damp(`{"mode":"damp"}`, "damp, shown 0")
	r.do("GET", "/api/v1/state", "")
	damp(`{"mode":"damp"}`, "damp, shown 0") // it waited behind the answer that tells of them
	f.set(func(s *control.Snapshot) { s.NowNs += 60e9 })
	damp(`{"mode":"damp"}`, "damp, shown 0") // so long did this process stand still once more
	run(seenTicks - 1)
	r.do("GET", "/api/v1/state", "") // not the first
	damp(`{"mode":"damp"}`, "damp, shown 0")
	run(1)
	damp(`{"mode":"damp"}`, "damp, shown 2")
	damp(`{"mode":"damp","trips":1}`, "damp, shown 1")
	damp(`{"mode":"damp","trips":18446744073709551615}`, "damp, shown 18446744073709551615")
	damp(`{"mode":"damp"}`, "damp, shown 2")
	trips = 4
	f.answer(&control.Refusal{Reason: control.TrippedMeanwhile, Joint: -1, Value: 4})
	for _, ask := range []struct{ body, want string }{
		{`{"mode":"damp","trips":3}`, "damp, shown 3"},
		{`{"mode":"damp"}`, "damp, shown 2"}, // it waited beside the one before
		{`{"mode":"damp"}`, "damp, shown 2"},
	} {
		a := r.do("POST", "/api/v1/mode", ask.body)
		if text, code, _ := a.error(t); a.status != 409 || code != "tripped" || !strings.Contains(text, "4 times by now") || f.taken() != ask.want {
			t.Errorf("%s: %d %s", ask.body, a.status, a.body)
		}
	}
	f.answer(nil)
	damp(`{"mode":"damp"}`, "damp, shown 2")
	damp(`{"mode":"damp","trips":4}`, "damp, shown 4") // who has read it says so, at once
	run(seenTicks)
	damp(`{"mode":"damp"}`, "damp, shown 4") // the refusal told it
	trips = 3
	r.do("GET", "/api/v1/state", "") // an older answer that took longer
	damp(`{"mode":"damp"}`, "damp, shown 4")
}
