package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/link/linktest"
)

// patience is how long a test waits for what should come at once. It bounds a
// test that hangs; no test passes or fails by how long something took.
const patience = 60 * time.Second

// program is the built clawagent: these tests look at it as a shell does.
var program string

func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" { // a real-time case's own process needs no program
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "clawagent-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "clawagent")
	out, err := exec.Command("go", slices.Concat([]string{"build", "-o", program}, buildFlags, []string{"."})...).CombinedOutput()
	code := 1
	if err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// result is how a program ended and what it said.
type result struct {
	code           int
	stdout, stderr string
}

// lastJSON is the object on the last line of standard output.
func (r result) lastJSON(t testing.TB, into any) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(r.stdout, "\n"), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), into); err != nil {
		t.Fatalf("last line of standard output: %v\n%s\n%s", err, r.stdout, r.stderr)
	}
}

// clawagent runs the program to its end.
func clawagent(t testing.TB, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("clawagent %s: %v\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// agent is a running `clawagent run --json`.
type agent struct {
	t     testing.TB
	cmd   *exec.Cmd
	base  string // http://HOST:PORT
	ended chan struct{}

	mu             sync.Mutex
	stdout, stderr bytes.Buffer
}

// startAgent starts `clawagent run` on a free port and waits until it serves.
func startAgent(t testing.TB, robot netip.AddrPort, args ...string) *agent {
	t.Helper()
	return startAgentOn(t, nil, robot, args...)
}

// startAgentOn does it with a standard error of the test's own; nil: it is kept.
func startAgentOn(t testing.TB, stderr *os.File, robot netip.AddrPort, args ...string) *agent {
	t.Helper()
	args = append([]string{"run", "--json", "--robot", "udp://" + robot.String(), "--http", "127.0.0.1:0"}, args...)
	a := &agent{t: t, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.cmd.Stderr = writerFunc(func(p []byte) (int, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.stderr.Write(p)
	})
	if stderr != nil {
		a.cmd.Stderr = stderr
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	go func() {
		defer close(a.ended)
		defer a.cmd.Wait()
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			a.mu.Lock()
			a.stdout.Write(append(lines.Bytes(), '\n'))
			a.mu.Unlock()
			select {
			case ready <- lines.Text():
			default:
			}
		}
		close(ready)
	}()
	t.Cleanup(func() {
		a.cmd.Process.Kill()
		<-a.ended
		if strings.Contains(a.said(), "DATA RACE") {
			t.Error("a race in the agent")
		}
		if t.Failed() {
			t.Logf("agent said:\n%s", a.said())
		}
	})
	select {
	case line := <-ready:
		var r struct {
			Ready bool   `json:"ready"`
			HTTP  string `json:"http"`
			PID   int    `json:"pid"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || !r.Ready || r.PID != a.cmd.Process.Pid {
			t.Fatalf("first line %q: %v", line, err)
		}
		a.base = "http://" + r.HTTP
	case <-time.After(patience):
		t.Fatal("not ready")
	}
	return a
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (a *agent) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stdout.String() + a.stderr.String()
}

// says waits until the agent has said something.
func (a *agent) says(what string) {
	a.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(a.said(), what); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatalf("does not say %q", what)
		}
	}
}

func (a *agent) signal(s os.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}

// wait is the agent's end.
func (a *agent) wait() result {
	a.t.Helper()
	select {
	case <-a.ended:
	case <-time.After(patience):
		a.t.Fatal("does not end")
	}
	return result{a.cmd.ProcessState.ExitCode(), a.stdout.String(), a.stderr.String()}
}

// try is one POST: its status and answer.
func (a *agent) try(path, body string) (status int, answer string) {
	a.t.Helper()
	resp, err := http.Post(a.base+path, "application/json", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (a *agent) post(path, body string) {
	a.t.Helper()
	if status, answer := a.try(path, body); status != http.StatusOK {
		a.t.Fatalf("POST %s %s: %d %s", path, body, status, answer)
	}
}

// state is the part of /api/v1/state that these tests look at.
type state struct {
	Clock    float64 `json:"clock"`
	Mode     string  `json:"mode"`
	Phase    string  `json:"phase"`
	Severity string  `json:"severity"`
	Fault    *struct {
		Name string `json:"name"`
	} `json:"fault"`
	Policy struct {
		Loaded bool   `json:"loaded"`
		Steps  uint64 `json:"steps"`
	} `json:"policy"`
	Loop struct {
		Sent        uint64  `json:"sent"`
		States      uint64  `json:"states"`
		PolicyP50Us float64 `json:"policy_p50_us"`
		PolicyP99Us float64 `json:"policy_p99_us"`
	} `json:"loop"`
	Link     map[string]uint64 `json:"link"`
	LinkLoss struct {
		Behaviour string `json:"behaviour"`
	} `json:"link_loss"`
}

func (a *agent) get(path string) string {
	a.t.Helper()
	resp, err := http.Get(a.base + path)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		a.t.Fatalf("GET %s: %d %v\n%s", path, resp.StatusCode, err, text)
	}
	return string(text)
}

func (a *agent) state() (s state) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.get("/api/v1/state")), &s); err != nil {
		a.t.Fatal(err)
	}
	return s
}

// until waits for a state, and fails when a fault comes first.
func (a *agent) until(what string, reached func(*state) bool) state {
	a.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s := a.state()
		switch {
		case reached(&s):
			return s
		case s.Fault != nil:
			a.t.Fatalf("until %s: fault %s (%s)", what, s.Fault.Name, s.Severity)
		case time.Now().After(end):
			a.t.Fatalf("until %s: mode %s, phase %s", what, s.Mode, s.Phase)
		}
	}
}

// stand arms the agent and stands the robot up.
func (a *agent) stand() {
	a.t.Helper()
	a.post("/api/v1/arm", "{}")
	a.until("states come", func(s *state) bool { return s.Loop.States >= 10 })
	a.post("/api/v1/mode", `{"mode":"stand"}`)
	a.until("it stands", func(s *state) bool { return s.Mode == "stand" && s.Phase == "ready" })
}

// walk asks for the policy until the velocity estimate that it needs is sound.
func (a *agent) walk() {
	a.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		switch status, answer := a.try("/api/v1/mode", `{"mode":"policy"}`); {
		case status == http.StatusOK:
			return
		case !strings.Contains(answer, "not sound yet") || time.Now().After(end):
			a.t.Fatalf("policy: %d %s", status, answer)
		}
	}
}

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// udpSocket is a socket of a test's own.
func udpSocket(t testing.TB, at netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func addrOf(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

// handedOut counts the ports of closedPort from a start of this process's own.
var handedOut atomic.Uint32

func init() { handedOut.Store(rand.Uint32N(4950)) }

// closedPort is an address of this machine where nothing listens, nor 75 above, where the agent looks for sport mode. It lies
// below the ports that the kernel hands out, so that no socket of another test lands there, and no other call gets either.
func closedPort(t testing.TB) netip.AddrPort {
	t.Helper()
	for range 100 {
		i := uint16(handedOut.Add(1) % 4950)
		port := 20000 + i/75*150 + i%75 // of 150 ports the lower half, 75 above the upper one
		if free(t, port) && free(t, port+75) {
			return netip.AddrPortFrom(localhost, port)
		}
	}
	t.Fatal("no free port")
	return netip.AddrPort{}
}

func free(t testing.TB, port uint16) bool {
	t.Helper()
	// No program is started meanwhile: between fork and exec it would hold the socket, and with it the port.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet4{Port: int(port), Addr: localhost.As4()}) == nil
}

// lyingRobot is a Go1 at low level, in lockstep, whose high-level port refuses.
func lyingRobot(t testing.TB) *linktest.Robot {
	t.Helper()
	return linktest.New(t, linktest.Config{Addr: closedPort(t)})
}
