//go:build linux

package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

const (
	maxConnections = 16
	// strangerTime is how long a connection that has not registered may be silent.
	strangerTime = 10 * time.Second
	// turnTime is how long the loop may take to leave a session; it needs a cycle.
	turnTime  = 2 * time.Second
	lookEvery = 50 * time.Millisecond
)

// Address is where a robot's guard listens unless configured otherwise: a name in the kernel's abstract socket space, which leaves no file.
func Address(robot string) string { return "@clawagent/guard/" + robot }

// Listen makes a guard's socket. A name that begins with @ is abstract; any other is a file's, and one that a dead guard left is replaced.
func Listen(address string) (*net.UnixListener, error) {
	addr := &net.UnixAddr{Name: address, Net: "unixpacket"}
	l, err := net.ListenUnix("unixpacket", addr)
	if errors.Is(err, unix.EADDRINUSE) && !strings.HasPrefix(address, "@") {
		if conn, dialErr := net.DialUnix("unixpacket", nil, addr); dialErr == nil {
			conn.Close()
		} else if errors.Is(dialErr, unix.ECONNREFUSED) && isSocket(address) && os.Remove(address) == nil {
			l, err = net.ListenUnix("unixpacket", addr)
		}
	}
	if errors.Is(err, unix.EADDRINUSE) {
		if !strings.HasPrefix(address, "@") && !isSocket(address) {
			return nil, fmt.Errorf("guard: socket %s: a file of another kind is there", address)
		}
		return nil, fmt.Errorf("guard: socket %s: another guard listens there", address)
	}
	if err != nil {
		return nil, fmt.Errorf("guard: socket %s: %w", address, err)
	}
	return l, nil
}

// Decline tells the agent at the other end of conn why there will be no guard, as the answer to what it asks, and closes conn. What
// fails here need not be known: the agent has gone.
func Decline(conn *net.UnixConn, why error) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(strangerTime))
	_, fds, _ := receive(conn) // an answer with its question still unread would be lost when conn closes
	closeAll(fds)
	_ = send(conn, &reply{Version: version, Error: why.Error(), PID: os.Getpid()}, nil)
}

func isSocket(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == os.ModeSocket
}

// End asks the guard to end. While a robot is armed it goes on, and says so; then somebody may ask again.
func (g *Guard) End() {
	select {
	case g.asked <- struct{}{}:
	default: // it has been asked just now
	}
}

// Serve watches the agents that register on l, and the one at the other end of first, which may be nil. It returns when End was called
// and no robot is armed, and by itself if the guard is Alone; l and first are closed then.
func (g *Guard) Serve(l *net.UnixListener, first *net.UnixConn) error {
	go g.log.run()
	defer g.log.close()
	started, looped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looped)
		g.loop(started)
	}()
	<-started
	if got := g.priority.Load(); got < int64(g.cfg.Priority) {
		g.cfg.Log.Warn("lower rights than configured: a busy machine may hold this guard up", "priority", got, "configured", g.cfg.Priority, "has", g.realtime.Load())
	}
	accepted, accepting := make(chan error, 1), make(chan struct{})
	if first != nil {
		g.greet(first)
	}
	go func() {
		defer close(accepting)
		accepted <- g.accept(l)
	}()
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		g.knock(g.life)
	}()
	over, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		g.tell(over)
	}()
	err := g.supervise(accepted)
	g.endLife() // of the connections
	l.Close()
	<-accepting
	g.talking.Wait()
	<-probed
	g.ending.Store(true)
	<-looped
	close(over)
	<-told
	g.drop()
	return err
}

// supervise returns when the guard has come to its end.
func (g *Guard) supervise(accepted <-chan error) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-g.asked:
			if s := g.current.Load(); s.armed() {
				g.cfg.Log.Warn("asked to end while the robot is armed: going on", "agent", s.pid)
				continue
			}
			return nil
		case err := <-accepted:
			if g.current.Load() == nobody {
				return err
			}
			accepted = nil // it goes on for the agent that it has
			g.cfg.Log.Error("no further agent can register", "err", err)
		case <-look.C:
		}
		g.attend()
		if g.cfg.Alone && g.current.Load() == nobody && g.open.Load() == 0 {
			return nil
		}
	}
}

// attend looks after the present session.
func (g *Guard) attend() {
	s := g.current.Load()
	if s == nobody {
		return
	}
	s.seek()
	if s.gone.Load() && (!s.armed() || g.deaf(s)) {
		g.release(s)
	}
}

// seek looks for the thread that the agent names among those of its process. An agent in a PID namespace of its own, as in a container, names
// it by a number that is another thread's here, and what that one's priority is says nothing.
func (s *session) seek() {
	named := s.page.thread.Load()
	if named == s.sought {
		return
	}
	s.sought = named
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", s.pid, named)); err != nil {
		named = 0
	}
	s.thread.Store(named)
}

// deaf says that the robot of an agent that is gone has been silent for long.
func (g *Guard) deaf(s *session) bool {
	since := s.silentNs.Load()
	if since == 0 {
		return false
	}
	silent := g.clock.Now() - since
	return silent >= deafNs || silent >= goneNs && s.reg.Robot.Addr().IsLoopback() && !held(s.reg.Robot.Port())
}

// held says whether a program of this machine has a UDP socket at that port, or that it cannot be known.
func held(port uint16) bool {
	want := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/net/udp", "/proc/net/udp6"} {
		text, err := os.ReadFile(table)
		if errors.Is(err, os.ErrNotExist) && table != "/proc/net/udp" {
			continue // a machine without IPv6
		}
		if err != nil {
			return true
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 1 && strings.HasSuffix(f[1], want) { // its number, its address
				return true
			}
		}
	}
	return false
}

// release ends a session, if it is still the present one.
func (g *Guard) release(s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current.Load() != s || s == nobody {
		return
	}
	g.cfg.Log.Info("session over", "agent", s.pid, "session", s.number, "damping_frames", s.frames.Load(), "sport_mode", s.ended(s.page.beatNs.Load()), "deaf", g.deaf(s))
	if err := g.turn(nobody); err != nil {
		g.cfg.Log.Error("session not left", "err", err)
	}
}

// turn gives the loop another session and closes the one before, once the loop no longer touches it. The caller holds mu.
func (g *Guard) turn(next *session) error {
	before := g.current.Swap(next)
	for end := time.Now().Add(turnTime); g.seen.Load() != next; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			g.current.CompareAndSwap(next, before)
			return errors.New("guard: its loop does not run")
		}
	}
	before.close()
	return nil
}

func (s *session) close() {
	if s == nobody {
		return
	}
	_ = s.udp.Close()
	if s.pidfd >= 0 {
		_ = unix.Close(s.pidfd)
	}
}

// drop closes what is left behind the loop's end.
func (g *Guard) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current.Swap(nobody).close()
	g.file.Close()
}

// knock looks for sport mode while the guard would damp a robot that is silent.
func (g *Guard) knock(ctx context.Context) {
	every := time.NewTicker(knockEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		s := g.current.Load()
		if s == nobody {
			continue
		}
		beat := s.page.beatNs.Load() // before the look: it says nothing of a loop that ticks again meanwhile
		if s.silentNs.Load() == 0 || s.ended(beat) {
			continue
		}
		r, err := g.cfg.Probe(ctx, s.reg.High, probeTime)
		switch {
		case err != nil: // this computer's network: nothing is known
		case r.Result == link.SportOn:
			s.over.Store(beat)
			g.cfg.Log.Error("the robot came back in sport mode: nothing is sent to it any more", "agent", s.pid)
		case r.Result == link.SportRefused, r.Result == link.SportSilent && (s.reg.SportIsOff || s.reg.Robot.Addr().IsLoopback()):
			s.knockNs.Store(g.clock.Now() + knockNs)
		}
	}
}

func (g *Guard) accept(l *net.UnixListener) error {
	for {
		conn, err := l.AcceptUnix()
		switch {
		case err == nil:
			g.greet(conn)
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.ENOMEM):
			time.Sleep(lookEvery)
		default:
			return fmt.Errorf("guard: socket: %w", err)
		}
	}
}

// greet talks with whoever connected, beside everybody else.
func (g *Guard) greet(conn *net.UnixConn) {
	if g.open.Add(1) > maxConnections {
		g.open.Add(-1)
		conn.Close()
		return
	}
	stop := context.AfterFunc(g.life, func() { conn.Close() })
	g.talking.Go(func() {
		defer g.open.Add(-1)
		defer conn.Close()
		defer stop()
		if mine := g.talk(conn); mine != nil && g.life.Err() == nil { // it was not we who hung up
			mine.gone.Store(true)
			if mine.page.epoch.Load() != 0 {
				g.cfg.Log.Error("the agent is gone and had not disarmed: damping in its place", "agent", mine.pid, "session", mine.number)
			}
		}
	})
}

// talk answers one connection until it ends, and returns the session that it had registered.
func (g *Guard) talk(conn *net.UnixConn) (mine *session) {
	who, refused := peerOf(conn)
	if refused == nil {
		refused = g.serves(who)
	}
	for {
		limit := time.Time{}
		if mine == nil {
			limit = time.Now().Add(strangerTime)
		}
		if conn.SetReadDeadline(limit) != nil {
			return mine
		}
		b, fds, err := receive(conn)
		var bad *badMessage
		if err != nil && !errors.As(err, &bad) {
			return mine
		}
		if err == nil {
			err = refused
		}
		r := &reply{Version: version, PID: os.Getpid(), Priority: int(g.priority.Load()), Realtime: g.realtime.Load().(string), Trips: g.page.trips.Load(), Frames: g.page.frames.Load()}
		var pages []*os.File
		if err == nil {
			mine, pages, fds, err = g.act(b, fds, who, mine, r)
		}
		closeAll(fds)
		if err != nil {
			r.Error = err.Error()
			if coded := new(Refusal); errors.As(err, &coded) {
				r.Code = coded.Code
			}
			g.cfg.Log.Warn("refused", "process", who.pid, "err", err)
		}
		err = send(conn, r, pages)
		if len(pages) > 0 {
			pages[0].Close() // the agent's; the other is the guard's own
		}
		if err != nil {
			return mine
		}
	}
}

// act does what a message asks for. It returns the connection's session, pages to send, and the descriptors that it did not take.
func (g *Guard) act(b []byte, fds []int, who peer, mine *session, r *reply) (_ *session, pages []*os.File, rest []int, err error) {
	op, reg, err := parseRequest(b)
	switch {
	case err != nil:
		return mine, nil, fds, err
	case op == opRegister && len(fds) != 1:
		return mine, nil, fds, fmt.Errorf("guard: register: %d descriptors came with it, want one, the robot's socket", len(fds))
	case op != opRegister && len(fds) != 0:
		return mine, nil, fds, fmt.Errorf("guard: %s: %d descriptors came with it, want none", op, len(fds))
	case op == opStatus:
		r.Report = g.Report()
		return mine, nil, nil, nil
	case reg.Robot != g.cfg.Robot:
		return mine, nil, fds, fmt.Errorf("guard: robot %v: this guard is for %v", reg.Robot, g.cfg.Robot)
	case mine != nil:
		return mine, nil, fds, fmt.Errorf("guard: %s: this connection has registered", op)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.current.Load(); s != nobody {
		if !s.gone.Load() {
			return nil, nil, fds, &Refusal{AgentLives, fmt.Sprintf("guard: %s: process %d drives the robot and lives", op, s.pid)}
		}
		g.cfg.Log.Info("taken over", "from", s.pid, "by", who.pid, "damping_frames", s.frames.Load())
		if err := g.turn(nobody); err != nil {
			return nil, nil, fds, err
		}
	}
	if op == opTake {
		return nil, nil, nil, nil
	}
	s, page, err := g.newSession(fds[0], who, reg)
	if err != nil {
		return nil, nil, fds, err
	}
	if err := g.turn(s); err != nil {
		page.Close()
		s.close()
		return nil, nil, nil, err
	}
	r.Session = s.number
	g.cfg.Log.Info("agent registered", "agent", s.pid, "session", s.number, "stale_ms", ms(reg.Stale))
	return s, []*os.File{page, g.file}, nil, nil
}

// newSession makes one; on an error fd stays the caller's.
func (g *Guard) newSession(fd int, who peer, reg Registration) (s *session, page *os.File, err error) {
	crc := wire.PlainCRC
	if reg.EncryptCRC {
		crc = wire.EncryptedCRC
	}
	udp, err := link.AdoptUDP(fd, link.UDPConfig{Robot: reg.Robot, CRC: crc})
	if err != nil {
		return nil, nil, err
	}
	keep, page, err := newPage("clawagent-agent")
	if err != nil {
		return nil, nil, err
	}
	g.sessions++
	s = &session{
		number: g.sessions, reg: reg, pid: who.pid, pidfd: -1, udp: udp, local: udp.LocalAddr(), staleNs: int64(reg.Stale),
		page: keep.agent(), keep: keep, frame: make([]byte, 0, wire.LowCmdSize),
	}
	s.cmd.Init()
	if pidfd, err := unix.PidfdOpen(who.pid, 0); err == nil {
		s.pidfd = pidfd
	}
	return s, page, nil
}

// fifoPriority is the calling thread's SCHED_FIFO priority; 0: it has another policy.
func fifoPriority() int {
	if a, err := unix.SchedGetAttr(0, 0); err == nil && a.Policy == unix.SCHED_FIFO {
		return int(a.Priority)
	}
	return 0
}

// serves refuses who is neither this guard's user nor root. Its socket's name is open to all, and whoever registers may have a robot
// damped, or keep others from it.
func (g *Guard) serves(who peer) error {
	if who.uid == g.user || who.uid == 0 {
		return nil
	}
	return &Refusal{AnotherUser, fmt.Sprintf("guard: process %d of user %d guards %v for that user and root, not for process %d of user %d: run as user %d, or have it ended (kill %d; kill -9 while it damps)",
		os.Getpid(), g.user, g.cfg.Robot, who.pid, who.uid, g.user, os.Getpid())}
}

// peer is the process at the other end.
type peer struct{ pid, uid int }

// peerOf says who it is.
func peerOf(conn *net.UnixConn) (p peer, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return p, err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		err = e
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("guard: who connected: %w", err)
	case cred.Pid <= 0:
		return p, errors.New("guard: a process of another PID namespace cannot be watched")
	}
	return peer{int(cred.Pid), int(cred.Uid)}, nil
}
