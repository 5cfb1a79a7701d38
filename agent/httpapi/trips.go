package httpapi

import (
	"sync"

	"github.com/openclaw-rl/openclaw/agent/control"
)

// seenTicks of the control loop, 300 ms, pass from the first answer that tells of a trip of the guard until a person can have seen it.
// They are ticks that ran, not time: a request that waited while this process stood still finds time past that nobody had.
const seenTicks = uint64(300e6 / control.PeriodNs)

// told is how many trips of the guard this server's answers have told of.
type told struct {
	mu     sync.Mutex
	trips  uint64 // the most
	at     uint64 // the loop's ticks when these were first told
	before uint64 // what could be seen by then
}

// tell remembers an answer.
func (t *told) tell(trips uint64, ticks func() uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if trips > t.trips {
		now := ticks()
		t.before = t.seenAt(now)
		t.trips, t.at = trips, now
	}
}

// seen is how many trips somebody can have seen who asks now for something.
func (t *told) seen(ticks uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seenAt(ticks)
}

func (t *told) seenAt(ticks uint64) uint64 {
	if ticks-t.at >= seenTicks {
		return t.trips
	}
	return t.before
}

// ticks are the loop's.
func (s *Server) ticks() uint64 {
	var snap control.Snapshot
	s.agent.Snapshot(&snap)
	return snap.Stats.Ticks
}
