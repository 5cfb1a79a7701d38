//go:build linux

package guard

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/latency"
)

// Watch is the agent's side of one registration. Status may be called from anywhere; all else belongs to the control loop's thread,
// takes no lock, allocates nothing and makes no system call, but for one in Begin.
type Watch struct {
	agent   *agentPage
	guard   *guardPage
	keep    [2]*mapping
	session uint64
	pid     int
	staleNs int64
	trips   uint64 // the guard's when the session began
	frames  uint64

	armings uint64
	epoch   uint64 // what stands in the page
}

// Look is what the guard's page says of the next frame.
type Look uint8

// Looks.
const (
	Nobody  Look = iota // the guard guards nobody, or its page says nothing: no torque, under this session
	Free                // it may leave
	Tripped             // the guard has latched this epoch: no torque until a person begins a new one
	Foreign             // another agent has the robot: no frame at all
)

// Beat tells the guard that the loop ticks. untilNs is how long damping may be sent though no further state comes; torque says whether
// the mode's frames may carry torque.
func (w *Watch) Beat(nowNs, untilNs int64, torque bool) {
	w.agent.beatNs.Store(nowNs)
	w.agent.untilNs.Store(untilNs)
	if !torque && w.agent.torque.Load() != 0 {
		w.agent.torque.Store(0)
	}
}

// Begin begins a new epoch: a person has armed. An older epoch's latch no longer holds.
func (w *Watch) Begin() {
	w.armings = w.armings%math.MaxUint32 + 1
	w.epoch = w.session<<32 | w.armings
	w.agent.thread.Store(int64(unix.Gettid()))
	w.agent.epoch.Store(w.epoch)
}

// End disarms: nothing is sent any more, by either side.
func (w *Watch) End() {
	w.epoch = 0
	w.agent.torque.Store(0)
	w.agent.epoch.Store(0)
}

// Open announces a torque frame. Behind it comes Look, then the frame if that is Free, then Shut in any case.
func (w *Watch) Open() {
	w.agent.torque.Store(1)
	w.agent.window.Store(1)
}

// Shut says that the frame is with the kernel, or does not leave.
func (w *Watch) Shut() { w.agent.window.Store(0) }

// Look is what may leave now.
func (w *Watch) Look() Look {
	switch session := w.guard.session.Load(); {
	case session == 0:
		return Nobody
	case session != w.session:
		return Foreign
	case w.epoch != 0 && w.guard.latched.Load() == w.epoch:
		return Tripped
	}
	return Free
}

// UntilNs is how long damping may be sent by the states that the guard took from the socket while it damped; 0: it took none.
func (w *Watch) UntilNs() int64 {
	if w.guard.session.Load() != w.session {
		return 0
	}
	return w.guard.untilNs.Load()
}

// GuardBeatNs is when the guard's newest cycle ran, CLOCK_MONOTONIC. It moves every millisecond while the guard lives.
func (w *Watch) GuardBeatNs() int64 { return w.guard.beatNs.Load() }

// StaleNs is the age of the beat from which the guard damps.
func (w *Watch) StaleNs() int64 { return w.staleNs }

// Trips are the guard's latches in this session. A latch that Look sees is counted.
func (w *Watch) Trips() uint64 { return w.guard.trips.Load() - w.trips }

// PID is the guard's process.
func (w *Watch) PID() int { return w.pid }

// Status is what may be shown about a guard.
type Status struct {
	PID       int
	Armed     bool
	Latched   bool   // the present epoch
	Sending   bool   // it damps in the loop's place
	Trips     uint64 // latches in this session
	Frames    uint64 // damping frames that it sent in this session
	BeatNs    int64  // its newest cycle, CLOCK_MONOTONIC
	LatchedNs int64  // since then no torque frame left that the newest latch forbids; 0: no latch yet, or one may still leave
	DampedNs  int64  // its first damping frame behind the newest latch
	// KillErrors are the agents that stood still with a torque frame on its way and that the guard could not kill, since it started.
	KillErrors uint64
	Lateness   latency.Histogram
}

// Status copies it. The values are each right but not of one moment.
func (w *Watch) Status(s *Status) {
	epoch := w.agent.epoch.Load()
	s.PID, s.Armed = w.pid, epoch != 0
	s.Latched = epoch != 0 && w.guard.latched.Load() == epoch
	s.Sending = w.guard.sending.Load() != 0
	s.Trips, s.Frames = w.Trips(), w.guard.frames.Load()-w.frames
	s.BeatNs, s.LatchedNs, s.DampedNs = w.guard.beatNs.Load(), w.guard.latchedNs.Load(), w.guard.dampedNs.Load()
	s.KillErrors = w.guard.killErrors.Load()
	w.guard.late.Read(&s.Lateness)
}
