//go:build linux

package guard

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/latency"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// PeriodNs of the guard's loop. It sends damping every second cycle, at the rate of the control loop.
const PeriodNs = int64(1e6)

const (
	// windowNs is how long an agent that has just been latched may take to hand a frame to the kernel, which takes some us. Only a thread
	// that runs before all others can do so however busy the machine is. One of ordinary priority is healthy where another program has its
	// core: it gets its turn within the scheduler's slices of some ms, patientNs, and must not be killed for that.
	windowNs     = int64(200e3)
	patientNs    = int64(4e6)
	windowStepNs = int64(50e3) // asleep in between: the agent may need this very core
	// killedCycles is how many cycles a killed process gets to be gone before damping begins all the same.
	killedCycles = 5
	// silenceNs is how long after a robot's last state damping goes on; see control's keepSilence.
	silenceNs = int64(2e9)
	// knockNs is how long frames may leave after each look that showed sport mode off.
	knockNs    = int64(10e6)
	knockEvery = 300 * time.Millisecond
	probeTime  = time.Second
	// deafNs of silence end a session whose agent is gone. They are many: a cable may come back, and a knock harms nobody. Where the robot
	// was a program of this machine and has ended, nothing comes back that stands under torque: then goneNs do.
	deafNs = int64(600e9)
	goneNs = int64(10e9)
	// maxStates are taken from the socket in one cycle.
	maxStates = 16
)

// Clock gives the guard its time. Only its loop sleeps on it.
type Clock interface {
	// Now is CLOCK_MONOTONIC, ns.
	Now() int64
	// SleepUntil returns at deadline or soon after.
	SleepUntil(deadlineNs int64)
}

// Config of a guard.
type Config struct {
	// Robot is the one that it guards; a registration for another is refused.
	Robot netip.AddrPort
	Clock Clock
	// Priority is the SCHED_FIFO priority that the loop shall have; that it has less is told.
	Priority int
	// Started is called on the loop's thread before its first cycle; it raises the thread's priority and says what was reached.
	Started func() string
	// Alone guards were started by an agent: they end by themselves once nobody needs them.
	Alone bool
	// Log must not be nil. The loop does not know it, and what stops taking it stops nobody.
	Log *slog.Logger
	// Probe looks for sport mode; nil: link.ProbeSport.
	Probe func(ctx context.Context, high netip.AddrPort, timeout time.Duration) (link.SportReport, error)
	// Kill ends an agent that was stopped within its window; nil: SIGKILL.
	Kill func(pid int) error
	// Urgent says whether a thread runs before all ordinary ones; nil: by its scheduling policy.
	Urgent func(thread int) bool
}

// Guard watches one robot's agents, one after the other.
type Guard struct {
	cfg   Config
	log   *aside // that cfg.Log writes to
	clock Clock
	page  *guardPage
	keep  *mapping
	file  *os.File // of the page, read only: for agents

	// The loop takes its session from current at the beginning of a cycle and says in seen that it has.
	current, seen atomic.Pointer[session]
	cycles        atomic.Uint64
	ending        atomic.Bool
	realtime      atomic.Value // string
	priority      atomic.Int64 // SCHED_FIFO of the loop's thread; 0: ordinary

	user int // this process's
	// Of damping frames; tell tells of them, and of trip.
	sendErrors atomic.Uint64
	trip       trip

	mu       sync.Mutex // of those who change current; the loop does not know it
	sessions uint64
	life     context.Context // ends when connections are to end
	endLife  context.CancelFunc
	asked    chan struct{} // by End
	talking  sync.WaitGroup
	open     atomic.Int32 // connections
}

// socket is a session's way to the robot; *link.UDP.
type socket interface {
	Receive(s *wire.LowState, nowNs int64) (arrivedNs int64, ok bool)
	Send(frame []byte) error
	Close() error
}

// session is one registered agent.
type session struct {
	number  uint64
	reg     Registration
	pid     int
	pidfd   int // -1: the kernel has none
	page    *agentPage
	keep    *mapping
	udp     socket
	local   netip.AddrPort // its own
	staleNs int64

	// Shared with the goroutines beside the loop.
	gone     atomic.Bool  // its connection has ended, and so every thread that could send
	over     atomic.Int64 // the loop's beat behind which sport mode was found on: nothing may be sent until the loop ticks again; 0: none
	silentNs atomic.Int64
	knockNs  atomic.Int64 // frames may leave until then though the robot is silent
	frames   atomic.Uint64
	thread   atomic.Int64 // the agent's loop's, once it was found among that process's; 0: not known
	sought   int64        // the one of the page for which seek has looked; seek's own

	// Owned by the loop.
	latched uint64 // epoch
	inside  bool   // a torque frame of it may still leave
	sending bool
	odd     bool
	killed  int   // cycles that a killed process still has
	untilNs int64 // the robot counts as alive until then
	state   wire.LowState
	cmd     wire.LowCmd
	frame   []byte
}

// nobody is the session of a guard without an agent.
var nobody = &session{}

// New makes a guard that watches nobody yet.
func New(cfg Config) (*Guard, error) {
	if !cfg.Robot.Addr().Is4() || cfg.Robot.Port() == 0 {
		return nil, errors.New("guard: robot: no IPv4 address and port")
	}
	if cfg.Probe == nil {
		cfg.Probe = link.ProbeSport
	}
	keep, file, err := newPage("clawagent-guard")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	readable, err := readOnly(file)
	if err != nil {
		return nil, err
	}
	log := newAside()
	cfg.Log = slog.New(asideHandler{cfg.Log.Handler(), log})
	g := &Guard{cfg: cfg, log: log, clock: cfg.Clock, page: keep.guard(), keep: keep, file: readable, user: os.Geteuid(), asked: make(chan struct{}, 1)}
	g.life, g.endLife = context.WithCancel(context.Background())
	g.current.Store(nobody)
	g.seen.Store(nobody)
	g.realtime.Store("")
	g.page.beatNs.Store(g.clock.Now()) // alive before its first cycle
	return g, nil
}

// loop runs cycles until the guard ends, on absolute deadlines. One that has passed is not run later: its lateness is counted, and is
// how long this machine, or this thread, stood still.
func (g *Guard) loop(started chan<- struct{}) {
	if g.cfg.Started != nil {
		g.realtime.Store(g.cfg.Started())
	}
	g.priority.Store(int64(fifoPriority()))
	rehearse(g.clock)
	close(started)
	deadline := g.clock.Now() + PeriodNs
	for !g.ending.Load() {
		g.clock.SleepUntil(deadline)
		now := g.clock.Now()
		g.Step(now, now-deadline)
		deadline += PeriodNs
		if behind := g.clock.Now() - deadline; behind >= PeriodNs {
			deadline += behind / PeriodNs * PeriodNs
		}
	}
}

// rehearse does once what has to be quick when a robot must be damped: pages of this program that were never touched would then be read
// from disk. From here on they stay in memory, which Started has locked as it is touched.
func rehearse(clock Clock) {
	robot, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return // no loopback: then without
	}
	defer robot.Close()
	udp, err := link.DialUDP(link.UDPConfig{Robot: robot.LocalAddr().(*net.UDPAddr).AddrPort()})
	if err != nil {
		return
	}
	s := &session{number: 1, page: &agentPage{}, pidfd: -1, udp: udp, frame: make([]byte, 0, wire.LowCmdSize)}
	s.cmd.Init()
	s.page.untilNs.Store(math.MaxInt64)
	s.page.torque.Store(1)
	s.page.window.Store(1)
	s.page.epoch.Store(1 << 32)
	g := &Guard{clock: clock, page: &guardPage{}, cfg: Config{Kill: func(int) error { return nil }}}
	g.current.Store(s)
	g.seen.Store(s)
	for i := range 4 * killedCycles {
		g.Step(clock.Now(), int64(i))
	}
	s.page.beatNs.Store(clock.Now())
	s.staleNs = math.MaxInt64
	g.Step(clock.Now(), 0)
	s.close()
}

// Step is one cycle, lateNs after it was due. Serve calls it; tests that have a clock of their own may call it instead.
func (g *Guard) Step(nowNs, lateNs int64) {
	g.page.beatNs.Store(nowNs)
	g.page.late.Add(lateNs)
	g.cycles.Add(1)
	s := g.current.Load()
	if before := g.seen.Load(); s != before {
		g.quiet(before)
		g.outside(before) // its last latch, too, is in force: it has ended
		if s != nobody {  // whose latches are its own
			g.page.latchedNs.Store(0)
			g.page.dampedNs.Store(0)
		}
		g.page.untilNs.Store(0)
		g.page.session.Store(s.number)
		g.seen.Store(s) // from here on the session before is not touched
	}
	if s == nobody {
		return
	}
	g.outside(s)
	epoch := s.page.epoch.Load() // before the beat: a new epoch comes with a fresh one
	if epoch>>32 != s.number {
		g.quiet(s)
		return
	}
	stale := s.gone.Load() || nowNs-s.page.beatNs.Load() > s.staleNs
	if !stale {
		g.quiet(s)
		return
	}
	if s.latched != epoch && s.page.torque.Load() != 0 {
		g.trip.of.Store(s)
		g.trip.atNs.Store(nowNs)
		g.trip.ageNs.Store(nowNs - s.page.beatNs.Load())
		g.latch(s, epoch)
	}
	g.damp(s, nowNs)
}

// quiet leaves the robot to the agent's loop.
func (g *Guard) quiet(s *session) {
	if s.sending {
		s.sending = false
		g.page.sending.Store(0)
		s.silentNs.Store(0)
	}
}

// latch ends an epoch: from its return on no torque frame of it reaches the kernel, or its agent has been killed, if that can be.
func (g *Guard) latch(s *session, epoch uint64) {
	g.page.trips.Add(1) // before the latch: whoever sees that one knows which it is
	s.latched, s.inside = epoch, true
	g.page.latchedNs.Store(0)
	g.page.latched.Store(epoch) // first; then the look at the window
	g.page.dampedNs.Store(0)
	s.killed = 0
	until := int64(0)
	for !g.outside(s) {
		now := g.clock.Now()
		if until == 0 {
			until = now + g.patience(s)
		}
		if now >= until {
			g.kill(s)
			s.killed = killedCycles
			return
		}
		g.clock.SleepUntil(min(now+windowStepNs, until))
	}
}

// outside says that no torque frame of the latched epoch can leave any more, and shows since when: the agent's window is closed, behind
// which it finds the latch, or all its threads have ended.
func (g *Guard) outside(s *session) bool {
	if s.inside && (s.gone.Load() || s.page.window.Load() == 0) {
		s.inside = false
		g.page.latchedNs.Store(g.clock.Now())
	}
	return !s.inside
}

// patience is how long the agent's window may stay open.
func (g *Guard) patience(s *session) int64 {
	urgent := g.cfg.Urgent
	if urgent == nil {
		urgent = runsFirst
	}
	if thread := s.thread.Load(); thread > 0 && urgent(int(thread)) {
		return windowNs
	}
	return patientNs
}

// runsFirst says that the kernel runs a thread before all of ordinary priority.
func runsFirst(thread int) bool {
	policy, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(thread), 0, 0)
	switch policy &^ unix.SCHED_RESET_ON_FORK {
	case unix.SCHED_FIFO, unix.SCHED_RR, unix.SCHED_DEADLINE:
		return errno == 0
	}
	return false
}

// damp is one cycle in the loop's place.
func (g *Guard) damp(s *session, now int64) {
	if s.killed > 0 {
		if s.killed--; s.inside && s.killed > 0 {
			return
		}
		s.killed = 0
	}
	if !s.sending {
		s.sending, s.odd = true, false
		s.untilNs = s.page.untilNs.Load()
		g.page.sending.Store(1)
	}
	for range maxStates {
		if _, ok := s.udp.Receive(&s.state, now); !ok {
			break
		}
		s.untilNs = max(s.untilNs, now+silenceNs)
		g.page.untilNs.Store(s.untilNs) // the loop has not seen these states
	}
	silent := now > s.untilNs
	switch {
	case !silent:
		s.silentNs.Store(0)
	case s.silentNs.Load() == 0:
		s.silentNs.Store(now)
	}
	if s.ended(s.page.beatNs.Load()) || silent && now > s.knockNs.Load() {
		return
	}
	if s.odd = !s.odd; !s.odd {
		return
	}
	safety.Damping(&s.cmd, &s.state)
	frame, err := wire.AppendLowCmd(s.frame[:0], &s.cmd, s.crc())
	if err != nil {
		return // never: every number in it is finite and small
	}
	if s.frame = frame; s.udp.Send(frame) != nil {
		g.sendErrors.Add(1)
		return // the next may leave
	}
	s.frames.Add(1)
	g.page.frames.Add(1)
	if g.page.dampedNs.Load() == 0 {
		g.page.dampedNs.Store(g.clock.Now())
	}
}

func (s *session) crc() wire.CRCForm {
	if s.reg.EncryptCRC {
		return wire.EncryptedCRC
	}
	return wire.PlainCRC
}

// kill ends the agent's process. While its connection is open its number cannot be another's. One that has just ended by itself is as good.
func (g *Guard) kill(s *session) {
	var err error
	switch by := g.cfg.Kill; {
	case by != nil:
		err = by(s.pid)
	case s.pidfd >= 0:
		err = unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0)
	default:
		err = unix.Kill(s.pid, unix.SIGKILL)
	}
	if err != nil && err != unix.ESRCH {
		g.page.killErrors.Add(1)
		return
	}
	g.page.killed.Add(1)
}

// armed says whether the session's robot is this guard's to damp.
func (s *session) armed() bool {
	return s != nobody && s.page.epoch.Load()>>32 == s.number && !s.ended(s.page.beatNs.Load())
}

// ended says that sport mode was found on while the loop stood still behind that beat. A loop that has ticked since has the robot again,
// and looks for itself.
func (s *session) ended(beatNs int64) bool { return beatNs != 0 && s.over.Load() == beatNs }

// Report is what the guard says of itself.
func (g *Guard) Report() *Report {
	var late latency.Histogram
	g.page.late.Read(&late)
	us := func(q float64) float64 { return float64(late.Quantile(q)) / 1e3 }
	r := &Report{
		PID: os.Getpid(), Robot: g.cfg.Robot.String(), Alone: g.cfg.Alone, Realtime: g.realtime.Load().(string),
		Sending: g.page.sending.Load() != 0, Trips: g.page.trips.Load(), Killed: g.page.killed.Load(),
		KillErrors: g.page.killErrors.Load(),
		LatchedNs:  g.page.latchedNs.Load(), DampedNs: g.page.dampedNs.Load(), Cycles: g.cycles.Load(),
		LateP50Us: us(0.5), LateP99Us: us(0.99), LateP999: us(0.999), LateMaxUs: float64(late.MaxNs) / 1e3,
	}
	r.SendErrors, r.Priority = g.sendErrors.Load(), int(g.priority.Load())
	if s := g.current.Load(); s != nobody {
		epoch := s.page.epoch.Load()
		r.AgentPID, r.AgentGone, r.Session, r.Local = s.pid, s.gone.Load(), s.number, s.local.String()
		r.Armed, r.Silent, r.Frames = s.armed(), s.silentNs.Load() != 0, s.frames.Load()
		r.Latched = r.Armed && g.page.latched.Load() == epoch
	}
	return r
}
