package control

import (
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// guardLostTicks without a beat of the guard's are its end: 100 ms of this loop's own time, so that a machine that stood still as a
// whole, and its guard with it, does not count.
const guardLostTicks = 50

// guarded is a guard, and what those before it did, which were lost.
type guarded struct {
	watch         *guard.Watch
	trips, frames uint64
}

// SetGuard gives the loop a guard anew, after the one before was lost. It is taken as soon as the mode gives no torque. One goroutine
// at a time calls it.
func (l *Loop) SetGuard(w *guard.Watch) {
	var s guard.Status
	l.Guard(&s) // what it did counts on; its page stays readable behind its end
	l.nextGuard.Store(&guarded{watch: w, trips: s.Trips, frames: s.Frames})
}

// Guard copies what the guard's page says, with the trips and frames of those before it; false without a guard. It may be called from
// anywhere.
func (l *Loop) Guard(s *guard.Status) bool {
	g := l.nextGuard.Load()
	if g == nil {
		return false
	}
	g.watch.Status(s)
	s.Trips += g.trips
	s.Frames += g.frames
	return true
}

// guardTrips are those that Guard shows.
func (l *Loop) guardTrips() uint64 {
	if g := l.nextGuard.Load(); g != nil {
		return g.trips + g.watch.Trips()
	}
	return 0
}

// beat tells the guard that the loop lives.
func (l *Loop) beat(now int64) {
	if l.guard != nil {
		l.guard.Beat(now, l.silentFrom(), l.mode.torque())
	}
}

// watchGuard beats, and looks how the guard does, at the beginning of a tick.
func (l *Loop) watchGuard(now int64) {
	if g := l.nextGuard.Load(); g != nil && g.watch != l.guard && !l.mode.torque() {
		l.guard, l.guardStill = g.watch, 0
		if l.mode != Idle {
			l.guard.Begin()
		}
	}
	if l.guard == nil {
		return
	}
	l.beat(now)
	l.guardStill++
	if b := l.guard.GuardBeatNs(); b != l.guardBeatNs {
		l.guardBeatNs, l.guardStill = b, 0
	}
	switch look := l.guard.Look(); {
	case look == guard.Foreign && l.mode != Idle:
		l.judge.Raise(now, safety.Damp, safety.AnotherSender, -1)
		l.setMode(now, Idle, PhaseNone)
	case look == guard.Nobody && l.mode != Idle: // the robot is still ours to damp
		l.judge.Raise(now, safety.Damp, safety.GuardLost, -1)
	case look == guard.Tripped:
		l.judge.Raise(now, safety.Damp, safety.GuardTripped, -1)
	case l.mode.torque() && !l.guardAlive():
		l.judge.Raise(now, safety.Sit, safety.GuardLost, -1)
	}
}

func (l *Loop) guardAlive() bool {
	if l.guard == nil || l.guardStill >= guardLostTicks {
		return false
	}
	look := l.guard.Look()
	return look == guard.Free || look == guard.Tripped
}

// foreign says that another agent has the robot.
func (l *Loop) foreign() bool { return l.guard != nil && l.guard.Look() == guard.Foreign }

// unguarded says that torque is refused for want of a guard.
func (l *Loop) unguarded() bool { return l.parts.NeedGuard && !l.guardAlive() }

// lastLook is the last thing before a torque frame leaves: was this thread held up just now, and has the guard latched? The guard's
// window opens before the look and closes behind the frame, in shut, so that one of the two always sees the other; see package guard.
func (l *Loop) lastLook(now, deadlineNs int64) bool {
	limit, look := l.lateLimit(), guard.Free
	if l.guard != nil {
		limit = min(limit, l.guard.StaleNs())
		l.guard.Open()
	}
	late := l.clock.Now()-deadlineNs >= limit
	if l.guard != nil {
		look = l.guard.Look()
	}
	switch {
	case look == guard.Tripped:
		l.judge.Raise(now, safety.Damp, safety.GuardTripped, -1)
	case look == guard.Foreign:
		l.judge.Raise(now, safety.Damp, safety.AnotherSender, -1)
	case look != guard.Free:
		l.judge.Raise(now, safety.Damp, safety.GuardLost, -1)
	case late:
		l.judge.Raise(now, safety.Damp, safety.LoopLate, -1)
		l.trip()
	default:
		return true
	}
	l.shut()
	return false
}

// shut closes the guard's window.
func (l *Loop) shut() {
	if l.guard != nil {
		l.guard.Shut()
	}
}

// tripped says that the guard has latched the present epoch.
func (l *Loop) tripped() bool { return l.guard != nil && l.guard.Look() == guard.Tripped }

// begin begins a new epoch: a person clears what is latched.
func (l *Loop) begin() { l.guard.Begin() }

// disarm ends the guard's part in order: the robot has shown that it has the last damping frames. Where it has not, the epoch stays, and
// the guard damps on.
func (l *Loop) disarm() {
	if l.guard != nil {
		l.guard.End()
	}
}
