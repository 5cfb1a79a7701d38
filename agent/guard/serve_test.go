package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
)

// system is the real clock.
type system struct{}

func (system) Now() int64 { return link.Now() }
func (system) SleepUntil(deadlineNs int64) {
	if d := deadlineNs - link.Now(); d > 0 {
		time.Sleep(time.Duration(d))
	}
}

// served is a guard that runs by the real clock and listens.
type served struct {
	t       *testing.T
	robot   *linktest.Robot
	guard   *guard.Guard
	address string
	ended   chan error

	// Of earlier tries to start an agent: frames, trips, kills.
	from, trips, kills uint64

	mu  sync.Mutex
	log bytes.Buffer
}

func (s *served) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *served) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func serve(t *testing.T, change ...func(*guard.Config)) *served {
	t.Helper()
	s := &served{t: t, robot: linktest.New(t, linktest.Config{}), ended: make(chan error, 1)}
	s.address = guard.Address(fmt.Sprintf("test-%d-%v", os.Getpid(), s.robot.Addr()))
	cfg := guard.Config{Robot: s.robot.Addr(), Clock: system{}, Log: slog.New(slog.NewTextHandler(s, nil))}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if s.guard, err = guard.New(cfg); err != nil {
		t.Fatal(err)
	}
	l, err := guard.Listen(s.address)
	if err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.guard.Serve(l, nil); close(s.ended) }()
	t.Cleanup(func() {
		if c, err := guard.Dial(s.address); err == nil { // it would damp on for an agent that was killed
			_ = c.Take(s.robot.Addr())
			c.Close()
		}
		s.guard.End()
		s.robot.Close()
		select {
		case <-s.ended:
		case <-time.After(patience):
			t.Error("the guard does not end")
		}
		if t.Failed() {
			t.Logf("the guard said\n%s", s.said())
		}
	})
	return s
}

func (s *served) dial() *guard.Client {
	s.t.Helper()
	c, err := guard.Dial(s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

func (s *served) socket() *link.UDP {
	s.t.Helper()
	u, err := link.DialUDP(link.UDPConfig{Robot: s.robot.Addr()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { u.Close() })
	return u
}

func (s *served) registration() guard.Registration {
	return guard.Registration{Robot: s.robot.Addr(), High: s.robot.HighAddr(), Stale: stale}
}

// until waits for something that the guard does beside the test.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// files is how many descriptors this process has open.
func files(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestBadRegistrations are refused by name; the guard goes on, keeps no descriptor, and the next good one is taken.
func TestBadRegistrations(t *testing.T) {
	s := serve(t)
	udp := s.socket()
	reg := s.registration()
	good := string(guard.Request("register", reg))
	other := reg
	other.Robot = netip.MustParseAddrPort("127.0.0.1:9")
	dup := func(fd int) *os.File {
		t.Helper()
		d, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(d), "fd")
	}
	robot := func() *os.File { return dup(udp.Fd()) }
	sock := func(domain, kind int) *os.File {
		t.Helper()
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "socket")
	}
	connected := func() *os.File {
		f := sock(unix.AF_INET, unix.SOCK_DGRAM)
		if err := unix.Connect(int(f.Fd()), &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 9}); err != nil {
			t.Fatal(err)
		}
		return f
	}
	null := func() *os.File {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	with := func(f ...func() *os.File) (all []*os.File) {
		for _, make := range f {
			all = append(all, make())
		}
		return all
	}
	before := -1
	for _, c := range []struct {
		name, message string
		files         []func() *os.File
		says          string
	}{
		{"too long", good + strings.Repeat(" ", 5000), []func() *os.File{robot}, "more than 4096 bytes"},
		{"cut off", good[:len(good)-1], []func() *os.File{robot}, "unexpected EOF"},
		{"no JSON", "damp it", []func() *os.File{robot}, "message: "},
		{"a list", "[1]", []func() *os.File{robot}, "message: "},
		{"something behind it", good + "{}", []func() *os.File{robot}, "message: "},
		{"no version", strings.Replace(good, `"version":3,`, "", 1), []func() *os.File{robot}, "no version"},
		{"another version", strings.Replace(good, `"version":3`, `"version":1`, 1), []func() *os.File{robot}, "version 1, want 3"},
		{"no such op", strings.Replace(good, `"register"`, `"drive"`, 1), []func() *os.File{robot}, `op "drive"`},
		{"unknown key", strings.Replace(good, "{", `{"kp":60,`, 1), []func() *os.File{robot}, "kp"},
		{"a key twice", strings.Replace(good, "{", `{"version":3,`, 1), []func() *os.File{robot}, "version"},
		{"a key in other letters", strings.Replace(good, `"robot"`, `"Robot"`, 1), []func() *os.File{robot}, "Robot"},
		{"a missing key", strings.Replace(good, `,"encrypt_crc":false`, "", 1), []func() *os.File{robot}, "encrypt_crc is missing"},
		{"null", strings.Replace(good, `"stale_ms":20`, `"stale_ms":null`, 1), []func() *os.File{robot}, "stale_ms is missing"},
		{"too soon stale", strings.Replace(good, `"stale_ms":20`, `"stale_ms":9.99`, 1), []func() *os.File{robot}, "stale_ms: 9.99, want 10..50"},
		{"too late stale", strings.Replace(good, `"stale_ms":20`, `"stale_ms":50.01`, 1), []func() *os.File{robot}, "stale_ms: 50.01, want 10..50"},
		{"never stale", strings.Replace(good, `"stale_ms":20`, `"stale_ms":1e300`, 1), []func() *os.File{robot}, "stale_ms: 1e+300, want 10..50"},
		{"stale for a time below 0", strings.Replace(good, `"stale_ms":20`, `"stale_ms":-20`, 1), []func() *os.File{robot}, "stale_ms: -20"},
		{"a number too large", strings.Replace(good, `"stale_ms":20`, `"stale_ms":1e400`, 1), []func() *os.File{robot}, "message: "},
		{"robot by name", strings.Replace(good, `"robot":"127.0.0.1:`, `"robot":"go1:`, 1), []func() *os.File{robot}, `robot: "go1:`},
		{"robot everywhere", strings.Replace(good, `"robot":"127.0.0.1:`, `"robot":"0.0.0.0:`, 1), []func() *os.File{robot}, "robot: 0.0.0.0:"},
		{"IPv6", strings.Replace(good, `"high":"127.0.0.1:`, `"high":"[::1]:`, 1), []func() *os.File{robot}, "high: [::1]:"},
		{"another robot", string(guard.Request("register", other)), []func() *os.File{robot}, fmt.Sprintf("robot 127.0.0.1:9: this guard is for %v", reg.Robot)},
		{"no descriptor", good, nil, "0 descriptors"},
		{"two descriptors", good, []func() *os.File{robot, robot}, "2 descriptors"},
		{"five descriptors", good, []func() *os.File{robot, robot, robot, robot, null}, "more than 4 descriptors"},
		{"a file", good, []func() *os.File{null}, "not a UDP socket"},
		{"a TCP socket", good, []func() *os.File{func() *os.File { return sock(unix.AF_INET, unix.SOCK_STREAM) }}, "not a UDP socket: its type"},
		{"a Unix socket", good, []func() *os.File{func() *os.File { return sock(unix.AF_UNIX, unix.SOCK_DGRAM) }}, "not a UDP socket: its domain"},
		{"a socket of IPv6", good, []func() *os.File{func() *os.File { return sock(unix.AF_INET6, unix.SOCK_DGRAM) }}, "not a UDP socket: its domain"},
		{"a socket without an address", good, []func() *os.File{func() *os.File { return sock(unix.AF_INET, unix.SOCK_DGRAM) }}, "not bound"},
		{"a connected socket", good, []func() *os.File{connected}, "connected, to 127.0.0.1:9"},
		{"take with a descriptor", string(guard.Request("take", reg)), []func() *os.File{robot}, "take: 1 descriptors"},
		{"take another robot", string(guard.Request("take", other)), nil, "robot 127.0.0.1:9"},
		{"take with a time", strings.Replace(string(guard.Request("take", reg)), "{", `{"stale_ms":20,`, 1), nil, "stale_ms does not belong there"},
		{"status of a robot", strings.Replace(string(guard.Request("take", reg)), `"take"`, `"status"`, 1), nil, "robot does not belong there"},
	} {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.address, Net: "unixpacket"})
		if err != nil {
			t.Fatalf("%s: the guard is no more: %v", c.name, err)
		}
		var rights []byte
		if all := with(c.files...); len(all) > 0 {
			var fds []int
			for _, f := range all {
				fds = append(fds, int(f.Fd()))
			}
			rights = unix.UnixRights(fds...)
			if _, _, err := conn.WriteMsgUnix([]byte(c.message), rights, nil); err != nil {
				t.Fatal(err)
			}
			for _, f := range all {
				f.Close()
			}
		} else if _, err := conn.Write([]byte(c.message)); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 8192)
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		n, err := conn.Read(answer)
		if err != nil {
			t.Fatalf("%s: no answer: %v", c.name, err)
		}
		text := strings.ReplaceAll(string(answer[:n]), `\"`, `"`)
		if !strings.Contains(text, c.says) || strings.Contains(text, `"error":"",`) {
			t.Errorf("%s: %s, want %q in it", c.name, text, c.says)
		}
		until(t, c.name+": it is logged", func() bool { return strings.Contains(s.said(), "refused") })
		conn.Close()
		until(t, c.name+": descriptors are closed", func() bool {
			n := files(t)
			if before < 0 {
				before = n
			}
			return n <= before
		})
	}
	if s.robot.Count() != 0 {
		t.Errorf("%d frames", s.robot.Count())
	}
	c := s.dial()
	if err := c.Take(reg.Robot); err != nil {
		t.Fatal(err)
	}
	w, err := c.Register(udp.Fd(), reg)
	if err != nil {
		t.Fatal(err)
	}
	if w.PID() != os.Getpid() || c.PID() != os.Getpid() || w.StaleNs() != int64(stale) || w.Look() != guard.Free {
		t.Errorf("registered: %+v", w)
	}
	if _, err := c.Register(udp.Fd(), reg); err == nil || !strings.Contains(err.Error(), "this client has registered") {
		t.Errorf("once more: %v", err)
	}
}

// TestRegisteredConnection: what an agent says behind its registration is refused, and does not end its session: it would be taken for dead.
func TestRegisteredConnection(t *testing.T) {
	s := serve(t)
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.address, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	udp := s.socket()
	for i, c := range []struct{ message, says string }{
		{string(guard.Request("register", s.registration())), `"error":""`},
		{string(guard.Request("register", s.registration())), "this connection has registered"},
		{string(guard.Request("take", s.registration())), "this connection has registered"},
		{"damp it", "message: "},
		{strings.Repeat("x", 5000), "more than 4096 bytes"},
		{string(guard.Request("status", s.registration())), `"agent_gone":false`},
	} {
		var rights []byte
		if i < 2 {
			rights = unix.UnixRights(udp.Fd())
		}
		if _, _, err := conn.WriteMsgUnix([]byte(c.message), rights, nil); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 8192)
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		n, err := conn.Read(answer)
		if err != nil || !strings.Contains(string(answer[:n]), c.says) {
			t.Errorf("%.40s: %s, %v, want %q", c.message, answer[:n], err, c.says)
		}
	}
	if rep := s.guard.Report(); rep.AgentPID != os.Getpid() || rep.AgentGone {
		t.Errorf("%+v", rep)
	}
}

// TestTakeOver: while an agent lives nobody takes its place; when it is gone the next one does, and the socket's address is free.
func TestTakeOver(t *testing.T) {
	s := serve(t)
	first, err := link.DialUDP(link.UDPConfig{Robot: s.robot.Addr(), Local: netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	local := first.LocalAddr()
	a := s.dial()
	w, err := a.Register(first.Fd(), s.registration())
	if err != nil {
		t.Fatal(err)
	}
	w.Beat(link.Now(), link.Now()+int64(time.Hour), true)
	w.Begin()
	w.Open()
	w.Shut()
	b := s.dial()
	for what, try := range map[string]func() error{
		"take":     func() error { return b.Take(s.robot.Addr()) },
		"register": func() error { _, err := b.Register(first.Fd(), s.registration()); return err },
	} {
		var no *guard.Refusal
		if err := try(); !errors.As(err, &no) || no.Code != guard.AgentLives || !strings.Contains(err.Error(), fmt.Sprintf("process %d drives the robot and lives", os.Getpid())) {
			t.Errorf("%s while the agent lives: %v", what, err)
		}
	}
	first.Close() // as the kernel does at the end of a process
	a.Close()
	if !s.robot.Await(20, patience) || s.robot.Count(linktest.Damping) != s.robot.Count() {
		t.Fatalf("%d frames, %d of damping", s.robot.Count(), s.robot.Count(linktest.Damping))
	}
	until(t, "the trip is in the log", func() bool { return strings.Contains(s.said(), "tripped: the agent is gone") })
	if f, _ := s.robot.LastFrame(); f.From != local {
		t.Errorf("damping from %v, want %v", f.From, local)
	}
	if _, err := link.DialUDP(link.UDPConfig{Robot: s.robot.Addr(), Local: local}); err == nil {
		t.Error("the guard does not hold the address")
	}
	if rep := s.guard.Report(); rep.Local != local.String() {
		t.Errorf("it says that it holds %q, want %v", rep.Local, local)
	}
	if err := b.Take(s.robot.Addr()); err != nil {
		t.Fatal(err)
	}
	again, err := link.DialUDP(link.UDPConfig{Robot: s.robot.Addr(), Local: local})
	if err != nil {
		t.Fatalf("the address of the agent that is gone: %v", err)
	}
	defer again.Close()
	from := s.robot.Count()
	w2, err := b.Register(again.Fd(), s.registration())
	if err != nil {
		t.Fatal(err)
	}
	if w.Look() != guard.Foreign || w2.Look() != guard.Free {
		t.Errorf("the old agent's look: %v, the new one's: %v", w.Look(), w2.Look())
	}
	var st guard.Status
	if w2.Status(&st); st.Trips != 0 || st.Latched || st.Armed || st.Lateness.Count == 0 {
		t.Errorf("the new session begins with %+v", st)
	}
	rep, err := guard.Ask(t.Context(), s.address)
	if err != nil || rep.Session != 2 || rep.Trips != 1 || rep.Sending || rep.Armed {
		t.Errorf("%+v, %v", rep, err)
	}
	if n := s.robot.Count(); n != from {
		t.Errorf("%d frames behind the hand-over", n-from)
	}
	b.Close()
	<-b.Lost()
	until(t, "the session is over", func() bool { return s.guard.Report().AgentPID == 0 })
}

// TestLowerRights: a guard that has less than it was configured to have says so, in its log and to the agent.
func TestLowerRights(t *testing.T) {
	s := serve(t, func(c *guard.Config) {
		c.Priority, c.Started = 90, func() string { return "ordinary priority: refused" }
	})
	until(t, "it says so", func() bool { return strings.Contains(s.said(), "lower rights than configured") })
	for _, says := range []string{"priority=0 configured=90", `has="ordinary priority: refused"`} {
		if !strings.Contains(s.said(), says) {
			t.Errorf("%s, want %q in it", s.said(), says)
		}
	}
	c := s.dial()
	if _, err := c.Register(s.socket().Fd(), s.registration()); err != nil {
		t.Fatal(err)
	}
	if priority, all := c.Rights(); priority != 0 || all != "ordinary priority: refused" {
		t.Errorf("the agent is told %d, %q", priority, all)
	}
	as := serve(t, func(c *guard.Config) { c.Priority = 0 })
	if _, err := guard.Ask(t.Context(), as.address); err != nil || strings.Contains(as.said(), "lower rights") {
		t.Errorf("as configured: %v, %s", err, as.said())
	}
}

// TestLateLookForSportMode: a look that began while the loop stood still says nothing once it has ticked again.
func TestLateLookForSportMode(t *testing.T) {
	looks, answer := make(chan struct{}, 100), make(chan struct{})
	s := serve(t, func(c *guard.Config) {
		c.Probe = func(ctx context.Context, _ netip.AddrPort, _ time.Duration) (r link.SportReport, err error) {
			looks <- struct{}{}
			select {
			case <-answer:
				r.Result = link.SportOn
			case <-ctx.Done():
				err = ctx.Err()
			}
			return r, err
		}
	})
	w, err := s.dial().Register(s.socket().Fd(), s.registration())
	if err != nil {
		t.Fatal(err)
	}
	w.Beat(link.Now(), 0, false) // the robot is silent
	w.Begin()
	select {
	case <-looks:
	case <-time.After(patience):
		t.Fatal("it does not look for sport mode")
	}
	until(t, "the guard is quiet", func() bool {
		w.Beat(link.Now(), link.Now()+int64(time.Hour), false)
		return !s.guard.Report().Sending
	})
	close(answer)
	until(t, "the look is over", func() bool { return strings.Contains(s.said(), "sport mode") })
	if n := s.robot.Count(); !s.robot.Await(n+20, patience) {
		t.Error("the guard does not damp")
	}
	w.End()
}

// TestAskedToEnd: not while the robot is armed, nor later for having been asked then; otherwise at once.
func TestAskedToEnd(t *testing.T) {
	s := serve(t)
	u := s.socket()
	c := s.dial()
	w, err := c.Register(u.Fd(), s.registration())
	if err != nil {
		t.Fatal(err)
	}
	w.Begin()
	w.Beat(link.Now()+int64(time.Hour), 0, true)
	s.guard.End()
	until(t, "it says why not", func() bool { return strings.Contains(s.said(), "asked to end while the robot is armed") })
	select {
	case err := <-s.ended:
		t.Fatalf("ended: %v", err)
	default:
	}
	w.End()
	s.guard.End()
	select {
	case err := <-s.ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("does not end")
	}
	select {
	case <-c.Lost():
	case <-time.After(patience):
		t.Fatal("the agent does not see it")
	}
	if _, err := guard.Dial(s.address); !errors.Is(err, guard.ErrNoGuard) {
		t.Errorf("somebody listens: %v", err)
	}
}

// TestAlone guards end when nobody needs them.
func TestAlone(t *testing.T) {
	s := serve(t, func(c *guard.Config) { c.Alone = true })
	select {
	case err := <-s.ended: // nobody came
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("does not end")
	}
	if !s.guard.Report().Alone {
		t.Error("it does not say that it is alone")
	}
}

// TestListen: a file that a dead guard left is replaced, one of a living guard or of somebody else is not.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "guard.sock")
	l, err := guard.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Listen(path); err == nil || !strings.Contains(err.Error(), "another guard listens") {
		t.Errorf("twice: %v", err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := guard.Dial(path); !errors.Is(err, guard.ErrNoGuard) {
		t.Errorf("nobody listens: %v", err)
	}
	if l, err = guard.Listen(path); err != nil {
		t.Fatalf("where a dead guard's file is: %v", err)
	}
	l.Close()
	text := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(text, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Listen(text); err == nil || !strings.Contains(err.Error(), "another kind") {
		t.Errorf("in place of a file: %v", err)
	}
	if b, err := os.ReadFile(text); err != nil || string(b) != "mine" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if _, err := guard.Listen("/nowhere/guard.sock"); err == nil || !strings.Contains(err.Error(), "/nowhere/guard.sock") {
		t.Errorf("%v", err)
	}
}

// TestManyConnections: more than the guard takes are hung up on, and those that go make room.
func TestManyConnections(t *testing.T) {
	s := serve(t)
	var all []*guard.Client
	for range 40 {
		all = append(all, s.dial())
	}
	for _, c := range all {
		c.Close()
	}
	until(t, "an answer", func() bool {
		_, err := guard.Ask(t.Context(), s.address)
		return err == nil
	})
}

// TestStartNoProgram: the error names the program.
func TestStartNoProgram(t *testing.T) {
	if _, err := guard.Start("/nowhere/clawagent", nil, os.Stderr); err == nil || !strings.Contains(err.Error(), "/nowhere/clawagent") {
		t.Errorf("%v", err)
	}
	c, err := guard.Start("/bin/true", nil, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Take(netip.MustParseAddrPort("127.0.0.1:9")); err == nil || !errors.Is(err, io.EOF) && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("a program that is no guard: %v", err)
	}
}

// asNobody runs f on a thread that is user 65534's. Only root can.
func asNobody(t *testing.T, f func() error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be somebody else for a moment")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, and its user with it
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			done <- errno
			return
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

const nobody = 65534

// TestAnotherUser: a socket's name is open to every user of this computer. A guard serves its own and root, and tells others who it is and
// how they get the robot.
func TestAnotherUser(t *testing.T) {
	s := serve(t)
	var c *guard.Client
	asNobody(t, func() (err error) {
		c, err = guard.Dial(s.address)
		return err
	})
	defer c.Close()
	udp := s.socket()
	for what, try := range map[string]func() error{
		"take":     func() error { return c.Take(s.robot.Addr()) },
		"register": func() error { _, err := c.Register(udp.Fd(), s.registration()); return err },
	} {
		var no *guard.Refusal
		if err := try(); !errors.As(err, &no) || no.Code != guard.AnotherUser {
			t.Fatalf("%s: %v, want code %s", what, err, guard.AnotherUser)
		}
		for _, says := range []string{
			fmt.Sprintf("process %d of user 0 guards %v", os.Getpid(), s.robot.Addr()),
			fmt.Sprintf("not for process %d of user %d", os.Getpid(), nobody),
			fmt.Sprintf("run as user 0, or have it ended (kill %d;", os.Getpid()),
		} {
			if !strings.Contains(no.Text, says) {
				t.Errorf("%s: %s, want %q in it", what, no.Text, says)
			}
		}
	}
	asNobody(t, func() error {
		if _, err := guard.Ask(t.Context(), s.address); err == nil || !strings.Contains(err.Error(), "of user 0 guards") {
			t.Errorf("status: %v", err)
		}
		return nil
	})
	if _, err := guard.Ask(t.Context(), s.address); err != nil {
		t.Errorf("its own user's: %v", err)
	}
}

// TestGuardOfAnotherUser: root may ask it, and take the robot from it behind an agent that is gone, but gives it none.
func TestGuardOfAnotherUser(t *testing.T) {
	robot := linktest.New(t, linktest.Config{})
	reg := guard.Registration{Robot: robot.Addr(), High: robot.HighAddr(), Stale: stale}
	address := guard.Address(fmt.Sprintf("test-nobody-%d-%v", os.Getpid(), robot.Addr()))
	udp, err := link.DialUDP(link.UDPConfig{Robot: robot.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	var g *guard.Guard
	var l *net.UnixListener
	asNobody(t, func() (err error) {
		if g, err = guard.New(guard.Config{Robot: robot.Addr(), Clock: system{}, Log: slog.New(slog.DiscardHandler)}); err == nil {
			l, err = guard.Listen(address)
		}
		return err
	})
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(l, nil) }()
	defer func() { g.End(); <-ended }()
	var agent *guard.Client
	asNobody(t, func() (err error) {
		if agent, err = guard.Dial(address); err == nil {
			_, err = agent.Register(udp.Fd(), reg)
		}
		return err
	})
	defer agent.Close()

	root, err := guard.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var no *guard.Refusal
	if err := root.Take(robot.Addr()); !errors.As(err, &no) || no.Code != guard.AgentLives {
		t.Errorf("while the agent lives: %v, want code %s", err, guard.AgentLives)
	}
	agent.Close()
	until(t, "the robot is free", func() bool { return root.Take(robot.Addr()) == nil })
	if rep, err := guard.Ask(t.Context(), address); err != nil || rep.PID != os.Getpid() || rep.AgentPID != 0 || rep.Alone {
		t.Errorf("status: %+v, %v", rep, err)
	}
	_, err = root.Register(udp.Fd(), reg)
	for _, says := range []string{fmt.Sprintf("process %d is user %d's", os.Getpid(), nobody), "a program of user 0", fmt.Sprintf("kill -9 while it damps), or run as user %d", nobody)} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it is given the robot's socket: %v, want %q", err, says)
		}
	}
	if rep := g.Report(); rep.AgentPID != 0 {
		t.Errorf("registered: %+v", rep)
	}
}

// TestAnswers: what is no guard's answer is named, and so is who does not answer.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		patience     time.Duration // 0: the usual one
		code, says   string
	}{
		{"silence", "", time.Millisecond, "", fmt.Sprintf("take: process %d has not answered within 1ms: if it stands still, end it (kill -9 %d)", os.Getpid(), os.Getpid())},
		{"no JSON", "yes", 0, "", "take: no answer: "},
		{"a key too many", `{"version":3,"error":"","kp":60}`, 0, "", "kp"},
		{"an older guard", `{"version":1,"error":"guard: message: version 3, want 1","pid":77}`, 0, guard.AnotherVersion, "process 77 speaks version 1, want 3: end it (kill 77;"},
		{"a refusal", `{"version":3,"error":"it rains","code":"weather","pid":77}`, 0, "weather", "it rains"},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := guard.Address(fmt.Sprintf("test-answers-%d-%s", os.Getpid(), c.name))
			l, err := guard.Listen(address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				conn, err := l.AcceptUnix()
				if err != nil {
					return
				}
				defer conn.Close()
				b := make([]byte, 8192)
				if _, err := conn.Read(b); err == nil && c.answer != "" {
					_, _ = conn.Write([]byte(c.answer))
				}
				_, _ = conn.Read(b) // until the other end hangs up
			}()
			client, err := guard.Dial(address)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			client.Patience(c.patience)
			err = client.Take(netip.MustParseAddrPort("127.0.0.1:9"))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q in it", err, c.says)
			}
			if late := errors.Is(err, os.ErrDeadlineExceeded); late != (c.answer == "") {
				t.Errorf("%v: is a deadline's: %v", err, late)
			}
			if no := new(guard.Refusal); errors.As(err, &no) != (c.code != "") || no.Code != c.code {
				t.Errorf("code %q, want %q", no.Code, c.code)
			}
		})
	}
}
