package linktest

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Config says what Robot to start. The zero value is one at low level, lying, in lockstep, on a free port of 127.0.0.1.
type Config struct {
	// Addr is the low-level address; a zero port means a free one.
	Addr netip.AddrPort
	// FreeRunning moves the robot on by the time passed since the last command, in steps of 2 ms, rather than by one step
	// per command.
	FreeRunning bool
	// Sport starts it in its own sport mode: it stands, answers HighCmd at HighAddr, goes limp at the first LowCmd and
	// answers none until LeaveSport.
	Sport bool
	// Pose is the joints' angles at the start, rad, SDK order; nil for lying folded, or home in sport mode.
	Pose *[wire.Joints]float32
	// KeepFrames is how many received frames are kept, the newest; 0 for 65536, two minutes at 500 Hz.
	KeepFrames int
}

// Robot is a fake Go1. All methods may be called from any goroutine, though not from a hook.
type Robot struct {
	low      *net.UDPConn
	high     *net.UDPConn // nil unless started in sport mode
	lowAddr  netip.AddrPort
	highAddr netip.AddrPort
	free     bool
	running  sync.WaitGroup
	closing  sync.Once

	mu      sync.Mutex
	arrived *sync.Cond // a frame was recorded, or the robot closed
	closed  bool
	body    body
	client  netip.AddrPort // where answers go
	lastNs  int64          // when the body was last moved on, free running only
	hooks   hooks
	late    [][]byte // answers held back by SetDelay, oldest first
	frames  record
	sport   sport
}

// New starts a Robot that the end of the test closes. A failure to start fails the test.
func New(tb testing.TB, cfg Config) *Robot {
	tb.Helper()
	r, err := Start(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}

// Start starts a Robot. Close ends it.
func Start(cfg Config) (*Robot, error) {
	if !cfg.Addr.Addr().IsValid() {
		cfg.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), cfg.Addr.Port())
	}
	r := &Robot{free: cfg.FreeRunning}
	r.arrived = sync.NewCond(&r.mu)
	r.frames.limit = cfg.KeepFrames
	if r.frames.limit <= 0 {
		r.frames.limit = 1 << 16
	}
	pose := go1.Folded
	if cfg.Sport {
		pose = go1.Home
	}
	if cfg.Pose != nil {
		pose = *cfg.Pose
	}
	r.body.start(pose)
	if err := r.listen(cfg); err != nil {
		return nil, err
	}
	r.running.Go(r.serveLow)
	if r.high != nil {
		r.sport.on = true
		r.running.Go(r.serveHigh)
	}
	return r, nil
}

// listen opens the sockets. In sport mode both ports must be had at once, so a free port whose high-level port is taken
// is given back and another tried.
func (r *Robot) listen(cfg Config) (err error) {
	const tries = 50
	for try := 0; ; try++ {
		if r.low, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(cfg.Addr)); err != nil {
			return fmt.Errorf("linktest: low level at %v: %w", cfg.Addr, err)
		}
		r.lowAddr = r.low.LocalAddr().(*net.UDPAddr).AddrPort()
		r.highAddr = link.DefaultHigh(r.lowAddr)
		if !cfg.Sport {
			return nil
		}
		if r.high, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(r.highAddr)); err == nil {
			return nil
		}
		r.low.Close()
		if cfg.Addr.Port() != 0 || try == tries {
			return fmt.Errorf("linktest: sport mode at %v: %w", r.highAddr, err)
		}
	}
}

// Addr is the low-level address.
func (r *Robot) Addr() netip.AddrPort { return r.lowAddr }

// HighAddr is where sport mode answers, link.DefaultHigh of Addr. Nothing listens there without Config.Sport.
func (r *Robot) HighAddr() netip.AddrPort { return r.highAddr }

// Close ends the robot, its goroutines and every Await. A second call does nothing.
func (r *Robot) Close() {
	r.closing.Do(func() {
		r.low.Close()
		if r.high != nil {
			r.high.Close()
		}
		r.running.Wait()
		r.mu.Lock()
		r.closed = true
		r.arrived.Broadcast()
		r.mu.Unlock()
	})
}

// serveLow takes commands until the socket is closed.
func (r *Robot) serveLow() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := r.low.ReadFromUDPAddrPort(buf)
		if err != nil {
			return // closed
		}
		r.handle(Frame{AtNs: link.Now(), From: from, Raw: append([]byte(nil), buf[:n]...)})
	}
}

// handle judges, records and answers one frame.
func (r *Robot) handle(f Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var cmd wire.LowCmd
	_, f.Err = wire.DecodeLowCmd(f.Raw, &cmd)
	switch {
	case f.Err != nil:
	case cmd.LevelFlag != wire.LevelLow:
		f.Err = fmt.Errorf("linktest: LowCmd: level flag %02X, want FF", cmd.LevelFlag)
	default:
		f.Class = classify(&cmd)
		r.client = f.From
	}
	f.Number = r.frames.total + 1
	if f.Err == nil {
		if r.sport.on {
			r.goLimp(f.AtNs)
		} else {
			r.follow(&cmd, f.AtNs)
			f.Answered = r.answer(f.Number)
		}
	}
	r.frames.add(f)
	if r.hooks.frame != nil {
		r.hooks.frame(&f)
	}
	r.arrived.Broadcast()
}

// follow moves the body on. Free running, the command before this one has acted until now.
func (r *Robot) follow(cmd *wire.LowCmd, nowNs int64) {
	if !r.free {
		r.body.cmd = *cmd
		r.body.step()
		return
	}
	if r.lastNs == 0 {
		r.lastNs = nowNs
	}
	const mostSteps = 500 // 1 s; every lag here has settled by then
	steps := (nowNs - r.lastNs) / stepNs
	r.lastNs += steps * stepNs
	for range min(steps, mostSteps) {
		r.body.step()
	}
	r.body.cmd = *cmd
	r.body.sense()
}

// answer sends the state, or holds it back, or drops it; it says whether the answer to this command left or will.
func (r *Robot) answer(number uint64) bool {
	if r.hooks.drop != nil && r.hooks.drop(number) {
		return false
	}
	frame, err := r.encode()
	if err != nil {
		return false // a hook asked for a value that no LowState can carry: as good as a dropped one
	}
	r.late = append(r.late, frame)
	r.releaseLate()
	return true
}

// releaseLate sends what is held back beyond the delay.
func (r *Robot) releaseLate() {
	for len(r.late) > r.hooks.delay {
		r.low.WriteToUDPAddrPort(r.late[0], r.client) // a client that has gone is its own matter
		r.late = r.late[1:]
	}
}

// encode is the state as a frame, altered by the hook.
func (r *Robot) encode() ([]byte, error) {
	s := r.body.state
	if r.hooks.state != nil {
		r.hooks.state(&s)
	}
	return wire.AppendLowState(nil, &s, wire.FormFor(s.LevelFlag))
}

// State is the robot's present state, without what OnState would alter.
func (r *Robot) State() wire.LowState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.state
}

// SetPose puts the joints at these angles, rad, SDK order, at rest.
func (r *Robot) SetPose(q [wire.Joints]float32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.body.q, r.body.dq = q, [wire.Joints]float32{}
	r.body.sense()
}
