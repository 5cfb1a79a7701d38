//go:build linux

package guard

import (
	"sync/atomic"
	"time"
)

// tellEvery is how often each thing may be told again, with how many of it there were meanwhile: a robot that cannot be reached would
// else fill the disk, 500 lines a second.
const tellEvery = time.Second

// trip is the newest one. The loop writes it before it counts it.
type trip struct {
	of          atomic.Pointer[session]
	atNs, ageNs atomic.Int64 // CLOCK_MONOTONIC, and how old the agent's beat was then
}

// tell writes to the log what the loop did, from beside it, until over is closed.
func (g *Guard) tell(over <-chan struct{}) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	t := teller{g: g}
	for {
		select {
		case now := <-look.C:
			t.look(now)
		case <-over:
			t.look(time.Now().Add(tellEvery))
			return
		}
	}
}

// teller knows what has been told.
type teller struct {
	g                                     *Guard
	trips, killed, killErrors, sendErrors account
}

// account is of one counter.
type account struct {
	told uint64
	at   time.Time
}

// due is how many are to be told now, 0 for none: new ones, unless something was told within tellEvery.
func (a *account) due(count uint64, now time.Time) (fresh uint64) {
	if fresh = count - a.told; fresh == 0 || now.Sub(a.at) < tellEvery {
		return 0
	}
	a.told, a.at = count, now
	return fresh
}

func (t *teller) look(now time.Time) {
	g, log := t.g, t.g.cfg.Log
	trips, killed, killErrors, sendErrors := g.page.trips.Load(), g.page.killed.Load(), g.page.killErrors.Load(), g.sendErrors.Load()
	if n := t.trips.due(trips, now); n > 0 {
		s := g.trip.of.Load()
		why := "the agent's loop stands still"
		if s.gone.Load() {
			why = "the agent is gone"
		}
		log.Error("tripped: "+why+"; its torque is latched off, damping in its place", "agent", s.pid, "session", s.number,
			"clock", float64(g.trip.atNs.Load())/1e9, "beat_age_ms", ms(time.Duration(g.trip.ageNs.Load())), "stale_ms", ms(time.Duration(s.staleNs)), "new", n, "trips", trips)
	}
	if n := t.killed.due(killed, now); n > 0 {
		log.Error("agent killed: it stood still with a torque frame in its hand", "agent", g.trip.of.Load().pid, "new", n, "killed", killed)
	}
	if n := t.killErrors.due(killErrors, now); n > 0 {
		log.Error("agent not killed, though it stands still with a torque frame in its hand", "agent", g.trip.of.Load().pid, "new", n, "kill_errors", killErrors)
	}
	if n := t.sendErrors.due(sendErrors, now); n > 0 {
		log.Error("damping frames could not be sent", "new", n, "send_errors", sendErrors)
	}
}
