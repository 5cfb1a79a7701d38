package guard_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// patience is how long a test waits for what should come at once.
const patience = 60 * time.Second

// virtual is a clock that the test moves. Its hooks run on the thread that asked.
type virtual struct {
	now     int64
	onNow   func()
	onSleep func()
}

func (c *virtual) Now() int64 {
	if f := c.onNow; f != nil {
		f()
	}
	return c.now
}

func (c *virtual) SleepUntil(deadlineNs int64) {
	if f := c.onSleep; f != nil {
		f()
	}
	c.now = max(c.now, deadlineNs)
}

// rig is a control.Loop and its guard, in front of linktest's Go1 on real sockets. The test makes every tick and every cycle, on one
// thread and one clock: the guard's each millisecond, the loop's each second one.
type rig struct {
	t       *testing.T
	clock   *virtual
	robot   *linktest.Robot
	udp     *link.UDP
	loop    *control.Loop
	guard   *guard.Guard
	watch   *guard.Watch
	client  *guard.Client
	sport   atomic.Uint32 // link.SportResult that a probe finds
	killed  []int         // by the guard
	killErr error         // what the kernel says to that
	calm    bool          // the loop's thread is of ordinary priority
	thread  int           // that the guard asked about

	onSend  func(send func() error) error // instead of the loop's sending; nil: none
	drop    bool                          // sending does nothing
	windows int                           // of the frames that were dropped, those with an open window
	ms      int64                         // since the start
	stopped bool                          // the loop does not tick
	blind   bool                          // the guard does not
}

type sender struct {
	*link.UDP
	r *rig
}

func (s sender) Send(frame []byte) error {
	if s.r.drop {
		if s.r.watch.Window() {
			s.r.windows++
		}
		return nil
	}
	if f := s.r.onSend; f != nil {
		return f(func() error { return s.UDP.Send(frame) })
	}
	return s.UDP.Send(frame)
}

func newRig(t *testing.T, stale time.Duration) *rig {
	t.Helper()
	r := &rig{t: t, clock: &virtual{now: 1e9}, robot: linktest.New(t, linktest.Config{})}
	r.sport.Store(uint32(link.SportRefused))
	var err error
	if r.udp, err = link.DialUDP(link.UDPConfig{Robot: r.robot.Addr(), VirtualTime: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.udp.Close() })
	r.guard = newGuard(t, r)
	r.client = connect(t, r.guard)
	r.watch = r.register(r.client, r.registration(stale))
	r.loop, err = control.New(control.DefaultConfig(), control.Parts{
		Link: sender{r.udp, r}, Clock: r.clock, Safety: safety.DefaultConfig(), Estimate: estimate.DefaultConfig(),
		SportOff: func(context.Context) error { return nil }, Guard: r.watch, NeedGuard: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newGuard(t *testing.T, r *rig) *guard.Guard {
	t.Helper()
	g, err := guard.New(guard.Config{
		Robot: r.robot.Addr(), Clock: r.clock, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Kill:   func(pid int) error { r.killed = append(r.killed, pid); return r.killErr },
		Urgent: func(thread int) bool { r.thread = thread; return !r.calm },
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (r *rig) registration(stale time.Duration) guard.Registration {
	return guard.Registration{Robot: r.robot.Addr(), High: r.robot.HighAddr(), Stale: stale}
}

// pair is a connection and its other end.
func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = guard.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

func connect(t *testing.T, g *guard.Guard) *guard.Client {
	t.Helper()
	agent, other := pair(t)
	g.Greet(other)
	return guard.NewClient(agent)
}

// halt stops the loop right behind a tick.
func (r *rig) halt() {
	if r.ms%2 != 0 {
		r.step()
	}
	r.stopped = true
}

// during runs f while the guard's cycles go on, in virtual time that stands still.
func (r *rig) during(f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	for {
		select {
		case <-done:
			return
		default:
			r.guard.Step(r.clock.now, 0)
			time.Sleep(20 * time.Microsecond)
		}
	}
}

func (r *rig) register(c *guard.Client, reg guard.Registration) (w *guard.Watch) {
	r.t.Helper()
	var err error
	r.during(func() { w, err = c.Register(r.udp.Fd(), reg) })
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// step is one millisecond.
func (r *rig) step() {
	r.ms++
	r.clock.now = max(r.clock.now, 1e9+r.ms*1e6)
	if !r.stopped && r.ms%2 == 0 {
		r.loop.Tick(1e9 + r.ms*1e6)
	}
	if !r.blind {
		r.guard.Step(r.clock.now, 0)
	}
	r.settle()
}

// settle waits until the robot has taken every frame that left, and its answer is here.
func (r *rig) settle() {
	r.t.Helper()
	var s control.Snapshot
	r.loop.Snapshot(&s)
	want := s.Stats.Sent + r.guard.Report().Frames
	if r.robot.Count() < want && !r.robot.Await(want, patience) {
		r.t.Fatalf("%d frames left, %d arrived", want, r.robot.Count())
	}
}

func (r *rig) run(ms int) {
	for range ms {
		r.step()
	}
}

// ask makes a request while time goes on.
func (r *rig) ask(f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(context.Background()) }()
	for {
		select {
		case err := <-done:
			return err
		default:
			r.step()
			time.Sleep(50 * time.Microsecond)
		}
	}
}

func (r *rig) mode(m control.Mode) error {
	return r.ask(func(ctx context.Context) error { return r.loop.SetMode(ctx, m) })
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) snapshot() (s control.Snapshot) {
	r.loop.Snapshot(&s)
	return s
}

func (r *rig) armed() *rig {
	r.t.Helper()
	r.must(r.ask(r.loop.Arm))
	r.run(40)
	r.guard.Supervised()
	return r
}

func (r *rig) standing() *rig {
	r.t.Helper()
	r.armed()
	r.must(r.mode(control.Stand))
	r.run(2600)
	if s := r.snapshot(); s.Mode != control.Stand || s.Phase != control.PhaseReady {
		r.t.Fatalf("mode %v %v, fault %v", s.Mode, s.Phase, s.Verdict.Fault)
	}
	return r
}

// since are the frames behind a number.
func (r *rig) since(number uint64) (frames []linktest.Frame) {
	for _, f := range r.robot.Frames() {
		if f.Number > number {
			frames = append(frames, f)
		}
	}
	return frames
}

// only fails unless all frames behind number are damping, at least least of them.
func (r *rig) only(number uint64, least int) {
	r.t.Helper()
	frames := r.since(number)
	for i, f := range frames {
		if f.Class != linktest.Damping {
			r.t.Fatalf("frame %d of %d behind the latch is %v", i+1, len(frames), f.Class)
		}
	}
	if len(frames) < least {
		r.t.Fatalf("%d damping frames, want %d", len(frames), least)
	}
}

func (r *rig) fault() safety.Fault { return r.snapshot().Verdict.Fault }

func (r *rig) trips() uint64 { return r.guard.Report().Trips }

// taken lets another agent take the place of one that is gone, and, if registers, the robot.
func (r *rig) taken(registers bool) {
	r.t.Helper()
	other := connect(r.t, r.guard)
	r.during(func() {
		if err := other.Take(r.robot.Addr()); err != nil {
			r.t.Error(err)
		}
	})
	if registers {
		r.register(other, r.registration(stale))
	}
}

// endAgent closes the agent's connection, as its death does, and waits until the guard has seen that.
func (r *rig) endAgent() {
	r.t.Helper()
	r.client.Close()
	for end := time.Now().Add(patience); !r.guard.Gone(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			r.t.Fatal("the guard does not see the agent's end")
		}
	}
}
