//go:build linux

package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// answerTime is how long a guard may take to answer. It may have to be loaded from disk first, on a busy machine.
const answerTime = 20 * time.Second

// ErrNoGuard says that nobody listens at a guard's address.
var ErrNoGuard = errors.New("guard: nobody listens there")

// Refusal is the guard's own word.
type Refusal struct {
	Code string // for programs; "": none of those below
	Text string
}

// Codes of a Refusal.
const (
	AgentLives     = "agent_lives"     // the agent that drives the robot has not ended, or the kernel has not done with it yet
	AnotherUser    = "another_user"    // a guard serves its own user and root
	AnotherVersion = "another_version" // of the messages
)

func (r *Refusal) Error() string { return r.Text }

// Client is an agent's connection to its guard. It belongs to one goroutine, but for Lost. While it is open and registered, the guard
// watches this process.
type Client struct {
	conn     *net.UnixConn
	pid      int           // of the guard
	patience time.Duration // for an answer; 0: answerTime
	lost     chan struct{}
	once     sync.Once
	priority int    // SCHED_FIFO of the guard's loop, in its newest answer
	realtime string // all that its thread was given
	// registered: wait reads what comes.
	registered bool
}

// Dial connects to whoever listens at address; the error wraps ErrNoGuard if nobody does. It may be another user's: see Trusted.
func Dial(address string) (*Client, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: address, Net: "unixpacket"})
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("%w: %s", ErrNoGuard, address)
	case err != nil:
		return nil, fmt.Errorf("guard: socket %s: %w", address, err)
	}
	guard, err := peerOf(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Client{conn: conn, pid: guard.pid, lost: make(chan struct{})}, nil
}

// Trusted refuses a guard of another user than this program's or root, by name: it would be given the robot's socket, and a name in the
// kernel's abstract space is open to all.
func (c *Client) Trusted() error {
	guard, err := peerOf(c.conn)
	if err != nil {
		return err
	}
	if own := os.Geteuid(); guard.uid != own && guard.uid != 0 {
		return fmt.Errorf("guard: process %d is user %d's, and a program of user %d gives it no robot: end it (kill %d; kill -9 while it damps), or run as user %d",
			guard.pid, guard.uid, own, guard.pid, guard.uid)
	}
	return nil
}

// FirstFD is the descriptor at which a guard that Start started finds its first connection.
const FirstFD = 3

// Start starts program with args as a guard in a session of its own, so that what is typed at this terminal does not reach it, and
// connects to it by descriptor FirstFD. It outlives this process. Its messages go to stderr, unless that is a pipe: whoever reads a pipe
// waits for all its writers, and this one may stay long.
func Start(program string, args []string, stderr *os.File) (*Client, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	mine, theirs := os.NewFile(uintptr(ends[0]), "guard"), os.NewFile(uintptr(ends[1]), "agent")
	defer mine.Close()
	defer theirs.Close()
	conn, err := FileConn(mine)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = "/" // it holds no folder
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if info, err := stderr.Stat(); err == nil && info.Mode()&os.ModeNamedPipe == 0 {
		cmd.Stderr = stderr
	}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("guard: start: %w", err)
	}
	go func() { _ = cmd.Wait() }() // else it would stay a zombie; that it has ended is seen on the connection
	return &Client{conn: conn, pid: cmd.Process.Pid, lost: make(chan struct{})}, nil
}

// FileConn is a connected Unix SEQPACKET socket that was made elsewhere. f stays the caller's.
func FileConn(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("guard: %s: %w", f.Name(), err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok || conn.LocalAddr().Network() != "unixpacket" {
		c.Close()
		return nil, fmt.Errorf("guard: %s: no Unix SEQPACKET socket", f.Name())
	}
	return conn, nil
}

// ask sends one message and takes the answer.
func (c *Client) ask(op string, r *Registration, files ...*os.File) (*reply, []int, error) {
	b, err := appendRequest(op, r)
	if err != nil {
		return nil, nil, fmt.Errorf("guard: %s: %w", op, err)
	}
	patience := c.patience
	if patience == 0 {
		patience = answerTime
	}
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, nil, fmt.Errorf("guard: %s: %w", op, err)
	}
	defer c.conn.SetDeadline(time.Time{})
	if err := sendBytes(c.conn, b, files); err != nil {
		return nil, nil, fmt.Errorf("guard: %s: %w", op, err)
	}
	b, fds, err := receive(c.conn)
	var answer reply
	if err == nil {
		err = json.Unmarshal(b, &answer, strict)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("guard: %s: process %d has not answered within %v: if it stands still, end it (kill -9 %d): %w", op, c.pid, patience, c.pid, os.ErrDeadlineExceeded)
	case err != nil:
		err = fmt.Errorf("guard: %s: no answer: %w", op, err)
	case answer.Version != version:
		err = &Refusal{AnotherVersion, fmt.Sprintf("guard: process %d speaks version %d, want %d: end it (kill %d; kill -9 while it damps)",
			answer.PID, answer.Version, version, answer.PID)}
	case answer.Error != "":
		err = &Refusal{Code: answer.Code, Text: answer.Error}
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	c.pid, c.priority, c.realtime = answer.PID, answer.Priority, answer.Realtime
	return &answer, fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// Take ends a session whose agent is gone, so that its socket's address is free again. The guard refuses while that agent lives, with the
// code AgentLives. An error that wraps os.ErrDeadlineExceeded says that it does not answer.
func (c *Client) Take(robot netip.AddrPort) error {
	_, fds, err := c.ask(opTake, &Registration{Robot: robot})
	closeAll(fds)
	return err
}

// Rights are what the guard's loop was given by its newest answer: its SCHED_FIFO priority, 0 for an ordinary one, and all of it in words.
func (c *Client) Rights() (priority int, all string) { return c.priority, c.realtime }

// PID is the guard's process.
func (c *Client) PID() int { return c.pid }

// Register passes the robot's socket, of which the guard keeps a duplicate, and begins a session. Only a guard that is Trusted gets it.
func (c *Client) Register(socket int, r Registration) (*Watch, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if c.registered {
		return nil, errors.New("guard: register: this client has registered")
	}
	if err := c.Trusted(); err != nil {
		return nil, err
	}
	dup, err := unix.FcntlInt(uintptr(socket), unix.F_DUPFD_CLOEXEC, 0) // os.File closes what it holds
	if err != nil {
		return nil, fmt.Errorf("guard: socket: %w", err)
	}
	f := os.NewFile(uintptr(dup), "robot")
	defer f.Close()
	answer, fds, err := c.ask(opRegister, &r, f)
	if err != nil {
		return nil, err
	}
	defer closeAll(fds)
	if len(fds) != 2 {
		return nil, fmt.Errorf("guard: register: %d pages came, want 2", len(fds))
	}
	own, err := openPage(fds[0], true)
	if err != nil {
		return nil, err
	}
	its, err := openPage(fds[1], false)
	if err != nil {
		return nil, err
	}
	c.registered = true // from here on nothing more is asked
	go c.wait()
	return &Watch{
		agent: own.agent(), guard: its.guard(), keep: [2]*mapping{own, its},
		session: answer.Session, pid: answer.PID, staleNs: int64(r.Stale), trips: answer.Trips, frames: answer.Frames,
	}, nil
}

// wait sees the connection end. The guard says nothing unasked.
func (c *Client) wait() {
	for {
		if _, fds, err := receive(c.conn); err != nil {
			closeAll(fds)
			var bad *badMessage
			if !errors.As(err, &bad) {
				c.once.Do(func() { close(c.lost) })
				return
			}
		}
	}
}

// Lost is closed when the guard has ended, or Close was called, after Register.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Close ends the session in order, if the epoch was ended before; else the guard takes the agent for dead.
func (c *Client) Close() error { return c.conn.Close() }

// Ask asks the guard at address what it does.
func Ask(ctx context.Context, address string) (*Report, error) {
	c, err := Dial(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	return c.Report()
}

// Report asks the guard what it does.
func (c *Client) Report() (*Report, error) {
	answer, fds, err := c.ask(opStatus, &Registration{})
	closeAll(fds)
	if err != nil {
		return nil, err
	}
	if answer.Report == nil {
		return nil, errors.New("guard: status: no report came")
	}
	return answer.Report, nil
}
