package control

import "testing"

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

func (g *tripping) tripped() bool { g.ask(); return g.latched }
func (g *tripping) trips() uint64 { g.ask(); return g.count }
func (g *tripping) begin()        { g.ask(); g.latched = false }

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
