package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
)

// guarded is what state, the first and the last line say of the guard.
type guarded struct {
	PID            int     `json:"pid"`
	Alive          bool    `json:"alive"`
	AllowedWithout bool    `json:"allowed_without"`
	Latched        bool    `json:"latched"`
	Sending        bool    `json:"sending"`
	Trips          uint64  `json:"trips"`
	LateP50Us      float64 `json:"late_p50_us"`
	LateMaxUs      float64 `json:"late_max_us"`
}

func (a *agent) guard() guarded {
	a.t.Helper()
	var s struct{ Guard guarded }
	if err := json.Unmarshal([]byte(a.get("/api/v1/state")), &s); err != nil {
		a.t.Fatal(err)
	}
	return s.Guard
}

// guardedAgent is an agent in real time with a guard, which the test's end ends. Both may be held up for 50 ms: what is tested is what
// they do, not how good this machine is.
func guardedAgent(t testing.TB, robot *linktest.Robot, args ...string) *agent {
	t.Helper()
	a := startAgent(t, robot.Addr(), append([]string{"--set", "guard.stale_ms=50", "--set", "safety.loop_late_ms=50", "--no-remote",
		"--set", "control.fold_seconds=0.5", "--set", "control.rise_seconds=0.6", "--set", "control.lower_seconds=0.6"}, args...)...)
	pid := a.guard().PID
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) }) // else it damps on as long as this robot answers
	return a
}

// standOn brings it to a stand, again where this machine stood still meanwhile.
func (a *agent) standOn() {
	a.t.Helper()
	if s := a.state(); s.Mode == "idle" {
		a.post("/api/v1/arm", "{}")
	}
	asked := false
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s := a.state()
		switch {
		case s.Mode == "stand" && s.Phase == "ready":
			return
		case time.Now().After(end):
			a.t.Fatalf("does not stand: mode %s, fault %+v", s.Mode, s.Fault)
		case s.Fault != nil:
			a.t.Logf("fault %s: once more", s.Fault.Name)
			if status, answer := a.damp(); status != 200 {
				a.t.Logf("damp: %s", answer) // the guard has tripped since
			}
			asked = false
		case s.Mode == "stand" && asked:
		default:
			status, _ := a.try("/api/v1/mode", `{"mode":"stand"}`)
			asked = status == 200
		}
	}
}

// damp asks for damp, for somebody who has seen the guard's trips.
func (a *agent) damp() (status int, answer string) {
	a.t.Helper()
	return a.try("/api/v1/mode", fmt.Sprintf(`{"mode":"damp","trips":%d}`, a.guard().Trips))
}

// mustDamp asks until it is carried out: what nobody can have seen yet is not cleared.
func (a *agent) mustDamp() {
	a.t.Helper()
	a.waitFor("damp", func() bool {
		status, answer := a.damp()
		if status != 200 && !strings.Contains(answer, `"tripped"`) {
			a.t.Fatalf("damp: %d %s", status, answer)
		}
		return status == 200
	})
}

// waitFor waits for a condition beside faults.
func (a *agent) waitFor(what string, reached func() bool) {
	a.t.Helper()
	for end := time.Now().Add(patience); !reached(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatalf("%s: not within %v; %+v", what, patience, a.state())
		}
	}
}

// status is `clawagent guard --status --json`.
func guardStatus(t testing.TB, robot *linktest.Robot) (r guard.Report, code int) {
	t.Helper()
	out := clawagent(t, "guard", "--status", "--json", "--robot", "udp://"+robot.Addr().String())
	if out.code == 0 {
		out.lastJSON(t, &r)
	}
	return r, out.code
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// gone waits until a process that this test did not start has ended.
func gone(t testing.TB, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); alive(pid); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}

// onlyDamping fails unless all frames behind a number are damping and come from where the one of that number did.
func onlyDamping(t testing.TB, robot *linktest.Robot, after uint64) {
	t.Helper()
	from := ""
	for _, f := range robot.Frames() {
		switch {
		case f.Number == after:
			from = f.From.String()
		case f.Number > after && (f.Class != linktest.Damping || f.From.String() != from):
			t.Fatalf("frame %d behind %d is %v from %v, want damping from %s", f.Number, after, f.Class, f.From, from)
		}
	}
}

// lastTorque is the newest torque frame's number.
func lastTorque(robot *linktest.Robot) (n uint64) {
	for _, f := range robot.Frames() {
		if f.Class == linktest.Torque {
			n = f.Number
		}
	}
	return n
}

// TestGuardDampsForAKilledAgent: kill -9 of a standing robot's agent; the guard damps from the same address until the next run takes
// over, which may then stand the robot up. The agent's orderly end is the guard's.
func TestGuardDampsForAKilledAgent(t *testing.T) {
	t.Parallel()
	robot := lyingRobot(t)
	a := guardedAgent(t, robot)
	a.standOn()
	before := a.guard()
	if before.PID == 0 || !before.Alive || before.AllowedWithout || before.LateMaxUs <= 0 {
		t.Errorf("state: %+v", before)
	}
	if m := a.get("/metrics"); !strings.Contains(m, "openclaw_guard_alive 1\n") || !strings.Contains(m, fmt.Sprintf("openclaw_guard_pid %d\n", before.PID)) {
		t.Error("the guard is not in the metrics")
	}
	var ready struct {
		Guard guarded `json:"guard"`
	}
	if err := json.Unmarshal([]byte(strings.SplitN(a.said(), "\n", 2)[0]), &ready); err != nil || ready.Guard.PID != before.PID {
		t.Errorf("first line: %+v, %v", ready, err)
	}
	// A terminal's Ctrl-C does not reach it: it has a session of its own.
	if sid, err := getsid(before.PID); err != nil || sid != before.PID {
		t.Errorf("the guard's session is %d, %v", sid, err)
	}

	a.signal(syscall.SIGKILL)
	<-a.ended
	n := robot.Count()
	if !robot.Await(n+100, patience) {
		t.Fatal("nothing damps the robot")
	}
	torque := lastTorque(robot)
	onlyDamping(t, robot, torque)
	r, code := guardStatus(t, robot)
	if code != 0 || !r.AgentGone || !r.Armed || !r.Latched || !r.Sending || r.Trips != before.Trips+1 || r.PID != before.PID || r.DampedNs < r.LatchedNs {
		t.Errorf("status: %d %+v", code, r)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(before.PID, s); err != nil {
			t.Fatal(err)
		}
	}
	if n = robot.Count(); !robot.Await(n+100, patience) || !alive(before.PID) {
		t.Fatal("a signal ended the guard of an armed robot")
	}

	b := guardedAgent(t, robot)
	if g := b.guard(); g.PID != before.PID || !g.Alive || g.Latched || g.Sending || g.Trips != 0 {
		t.Errorf("taken over: %+v", g)
	}
	onlyDamping(t, robot, torque)
	b.standOn()
	b.signal(os.Interrupt)
	end := b.wait()
	var last struct {
		GuardTrips uint64  `json:"guard_trips"`
		Guard      guarded `json:"guard"`
		Without    bool    `json:"without_guard"`
	}
	end.lastJSON(t, &last)
	if end.code != 0 || last.Guard.PID != before.PID || last.Without {
		t.Errorf("exit code %d, last line %+v", end.code, last)
	}
	n = robot.Count()
	gone(t, before.PID)
	if robot.Count() != n {
		t.Errorf("%d frames behind the agent's end", robot.Count()-n)
	}
	if _, code := guardStatus(t, robot); code != 3 {
		t.Errorf("status without a guard: exit code %d, want 3", code)
	}
}

func getsid(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // state, ppid, pgrp, session
	return strconv.Atoi(strings.Fields(rest)[3])
}

// TestGuardDampsForAStoppedAgent: SIGSTOP, then SIGCONT: no torque until a person asks for damp, then for stand. (One that is stopped
// between its last look and the kernel is killed instead; package guard tests that by force.)
func TestGuardDampsForAStoppedAgent(t *testing.T) {
	t.Parallel()
	robot := lyingRobot(t)
	a := guardedAgent(t, robot)
	a.standOn()
	trips := a.guard().Trips
	a.signal(syscall.SIGSTOP)
	n := robot.Count(linktest.Damping)
	a.waitForDamping(robot, n+100)
	torque := lastTorque(robot)
	onlyDamping(t, robot, torque)
	r, _ := guardStatus(t, robot)
	a.signal(syscall.SIGCONT)
	if r.Killed > 0 {
		<-a.ended
		t.Skip("stopped within the window, and killed: the rest was not tried")
	}
	a.waitFor("the trip is seen", func() bool { s := a.state(); return s.Fault != nil })
	s := a.state()
	if s.Mode != "damp" || s.Fault.Name != "guard_tripped" || s.Severity != "damp" {
		t.Errorf("mode %s, fault %+v", s.Mode, s.Fault)
	}
	if status, answer := a.try("/api/v1/mode", `{"mode":"stand"}`); status != 409 {
		t.Errorf("stand with the latch in force: %d %s", status, answer)
	}
	onlyDamping(t, robot, torque)
	if g := a.guard(); g.Trips != trips+1 || !g.Latched {
		t.Errorf("%+v", g)
	}
	a.mustDamp()
	a.standOn()
	if g := a.guard(); g.Latched {
		t.Errorf("%+v", g)
	}
	a.signal(os.Interrupt)
	end := a.wait()
	if sum := end.summary(t); end.code != 0 || *sum.GuardTrips < trips+1 {
		t.Errorf("exit code %d, %d trips in the last line", end.code, *sum.GuardTrips)
	}
}

func (a *agent) waitForDamping(robot *linktest.Robot, n uint64) {
	a.t.Helper()
	for end := time.Now().Add(patience); robot.Count(linktest.Damping) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			a.t.Fatal("nothing damps the robot")
		}
	}
}

// TestGuardIsKilled: the robot sits, another guard is started, and the robot may stand again. Stopped, it counts as lost too.
func TestGuardIsKilled(t *testing.T) {
	t.Parallel()
	robot := lyingRobot(t)
	a := guardedAgent(t, robot)
	a.standOn()
	old := a.guard().PID
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.waitFor("the loss is seen", func() bool { s := a.state(); return s.Fault != nil })
	if s := a.state(); s.Fault.Name != "guard_lost" && s.Fault.Name != "loop_late" {
		t.Errorf("fault %s", s.Fault.Name)
	}
	a.waitFor("it lies", func() bool { return a.state().Mode == "damp" })
	a.waitFor("there is another guard", func() bool { g := a.guard(); return g.Alive && g.PID != old })
	t.Cleanup(func(pid int) func() { return func() { syscall.Kill(pid, syscall.SIGKILL) } }(a.guard().PID))
	if !strings.Contains(a.said(), "the guard has ended") {
		t.Error("the journal says nothing of it")
	}
	a.mustDamp()
	a.standOn()
	if err := syscall.Kill(a.guard().PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.waitFor("the loss is seen", func() bool { s := a.state(); return s.Fault != nil && !a.guard().Alive })
	a.waitFor("it lies", func() bool { return a.state().Mode == "damp" })
	a.mustDamp()
	if status, answer := a.try("/api/v1/mode", `{"mode":"stand"}`); status != 409 || !strings.Contains(answer, "there is no guard") {
		t.Errorf("stand without a guard: %d %s", status, answer)
	}
	if err := syscall.Kill(a.guard().PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.waitFor("it is alive again", func() bool { return a.guard().Alive })
	a.standOn()
}

// TestWithoutGuard: by a person's choice, told in every place; and in lockstep, where time is not real.
func TestWithoutGuard(t *testing.T) {
	t.Parallel()
	robot := lyingRobot(t)
	a := startAgent(t, robot.Addr(), "--no-guard")
	a.says("working WITHOUT the guard")
	if g := a.guard(); g.PID != 0 || g.Alive || !g.AllowedWithout {
		t.Errorf("%+v", g)
	}
	if !strings.Contains(a.said(), `"without_guard":true`) {
		t.Error("the first line does not say it")
	}
	if _, code := guardStatus(t, robot); code != 3 {
		t.Errorf("a guard is there: exit code %d", code)
	}
	a.signal(os.Interrupt)
	var last struct {
		Without bool    `json:"without_guard"`
		Guard   guarded `json:"guard"`
	}
	r := a.wait()
	if r.lastJSON(t, &last); r.code != 0 || !last.Without || last.Guard.PID != 0 {
		t.Errorf("exit code %d, %+v", r.code, last)
	}
	b := startAgent(t, robot.Addr(), "--lockstep")
	if g := b.guard(); g.PID != 0 || g.AllowedWithout || strings.Contains(b.said(), "WITHOUT the guard") {
		t.Errorf("in lockstep: %+v", g)
	}
}

// TestUnitsGuard: a guard that runs already is the one that run takes; it stays when the agent has ended. Its configuration's name for the
// socket may be a file's.
func TestUnitsGuard(t *testing.T) {
	t.Parallel()
	robot := lyingRobot(t)
	socket := filepath.Join(t.TempDir(), "guard.sock")
	own := []string{"--robot", "udp://" + robot.Addr().String(), "--socket", socket, "--priority", "0"}
	cmd := exec.Command(program, append([]string{"guard", "--json"}, own...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	var ready struct {
		Ready  bool
		Socket string
		PID    int
	}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &ready) != nil || !ready.Ready || ready.Socket != socket || ready.PID != cmd.Process.Pid {
		t.Fatalf("first line %s", lines.Text())
	}
	if twice := clawagent(t, append([]string{"guard"}, own...)...); twice.code != 1 || !strings.Contains(twice.stderr, "another guard listens") {
		t.Errorf("twice: exit code %d: %s", twice.code, twice.stderr)
	}
	a := startAgent(t, robot.Addr(), "--set", "guard.socket="+socket)
	if g := a.guard(); g.PID != cmd.Process.Pid || !g.Alive {
		t.Errorf("%+v", g)
	}
	a.says("lower rights than configured")
	a.signal(os.Interrupt)
	a.wait()
	if !alive(cmd.Process.Pid) {
		t.Error("it ended with the agent")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var last guard.Report
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &last) != nil || last.PID != cmd.Process.Pid || last.Cycles == 0 {
		t.Errorf("last line %s", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its file stays: %v", err)
	}
}

// TestDoctorRelievesTheGuard: for an agent that was killed it damps on, and doctor's frames would come between.
func TestDoctorRelievesTheGuard(t *testing.T) {
	t.Parallel()
	robot := lyingRobot(t)
	a := guardedAgent(t, robot, "--arm")
	a.waitFor("it is armed", func() bool { return a.state().Loop.States > 10 })
	pid := a.guard().PID
	a.signal(syscall.SIGKILL)
	<-a.ended
	n := robot.Count()
	if !robot.Await(n+20, patience) {
		t.Fatal("nothing damps the robot")
	}
	r := clawagent(t, "doctor", "--robot", "udp://"+robot.Addr().String(), "--json", "--seconds", "0.2")
	if strings.Contains(r.stdout, "another_agent") || strings.Contains(r.stdout, `"code":"guard"`) {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	gone(t, pid)
}

// TestFailedStartRelievesNobody: a guard that damps for an agent that was killed goes on while the next one cannot start.
func TestFailedStartRelievesNobody(t *testing.T) {
	t.Parallel()
	robot := lyingRobot(t)
	local := closedPort(t).String()
	a := guardedAgent(t, robot, "--arm", "--local", local)
	a.waitFor("it is armed", func() bool { return a.state().Loop.States > 10 })
	pid := a.guard().PID
	a.signal(syscall.SIGKILL)
	<-a.ended
	text := filepath.Join(t.TempDir(), "policy.onnx")
	if err := os.WriteFile(text, []byte("no policy"), 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	other := addrOf(udpSocket(t, netip.AddrPortFrom(localhost, 0))).String()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--policy", text}, "policy.onnx"},
		{[]string{"--http", busy.Addr().String()}, "http: "},
		{[]string{"--local", "192.0.2.1:0"}, "192.0.2.1"}, // no address of this machine
		{[]string{"--local", other}, other},
		{[]string{"--local", other, "--no-guard"}, other},
	} {
		r := clawagent(t, append([]string{"run", "--robot", "udp://" + robot.Addr().String(), "--http", "127.0.0.1:0"}, c.args...)...)
		if r.code == 0 || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%v: exit code %d: %s", c.args, r.code, r.stderr)
		}
		if n := robot.Count(); !robot.Await(n+20, patience) || !alive(pid) {
			t.Fatalf("%v: nothing damps the robot any more", c.args)
		}
	}
	// The address that the guard holds for the one that was killed is the next one's.
	if g := guardedAgent(t, robot, "--local", local).guard(); g.PID != pid || g.Sending {
		t.Errorf("taken over: %+v, want process %d", g, pid)
	}
}

// TestDialOrHeld: an address that is in use is the guard's if that one says so; where it says why it does not answer, so does the error; and
// it may have let go meanwhile.
func TestDialOrHeld(t *testing.T) {
	t.Parallel()
	report := func(local netip.AddrPort) string {
		return fmt.Sprintf(`{"version":3,"error":"","report":{"local":"%s"}}`, local)
	}
	const no = `{"version":3,"error":"of user 1 guards it for that user","code":"another_user"}`
	for _, c := range []struct {
		name   string
		answer func(local netip.AddrPort) string // nil: there is no guard; "": it hangs up
		frees  bool                              // the address, before it answers
		held   bool
		says   string // "": no error
	}{
		{"no guard", nil, false, false, "address already in use"},
		{"held", report, false, true, ""},
		{"held on another address of this machine", func(l netip.AddrPort) string {
			return report(netip.AddrPortFrom(netip.IPv4Unspecified(), l.Port()))
		}, false, true, ""},
		{"another port", func(l netip.AddrPort) string { return report(netip.AddrPortFrom(l.Addr(), l.Port()^1)) }, false, false, "address already in use"},
		{"no agent", func(netip.AddrPort) string { return `{"version":3,"error":"","report":{"local":""}}` }, false, false, "address already in use"},
		{"another user's", func(netip.AddrPort) string { return no }, false, false, "of user 1 guards it for that user"},
		{"another version", func(netip.AddrPort) string { return `{"version":2,"error":"","pid":77}` }, false, false, "process 77 speaks version 2"},
		{"no answer", func(netip.AddrPort) string { return "" }, false, false, "no answer"},
		{"it has let go", func(netip.AddrPort) string { return `{"version":3,"error":"","report":{"local":""}}` }, true, false, ""},
		{"it has ended", func(netip.AddrPort) string { return "" }, true, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			busy := udpSocket(t, netip.AddrPortFrom(localhost, 0))
			local := addrOf(busy)
			cfg := defaultConfig()
			cfg.Robot, cfg.Local = "udp://"+addrOf(udpSocket(t, netip.AddrPortFrom(localhost, 0))).String(), local.String()
			cfg.Guard.Socket = guard.Address(fmt.Sprintf("test-held-%d-%v", os.Getpid(), local))
			if c.answer != nil {
				l, err := guard.Listen(cfg.Guard.Socket)
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
					b := make([]byte, 4096)
					if n, _ := conn.Read(b); n == 0 {
						return
					}
					if c.frees {
						busy.Close()
					}
					if answer := c.answer(local); answer != "" {
						_, _ = conn.Write([]byte(answer))
						_, _ = conn.Read(b) // until the other end hangs up
					}
				}()
			}
			udp, held, err := dialOrHeld(t.Context(), &cfg)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !errors.Is(err, unix.EADDRINUSE)) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if held != c.held || (udp != nil) != (c.says == "" && !held) {
				t.Errorf("held %v, socket %v", held, udp)
			}
			if udp != nil {
				if udp.LocalAddr() != local {
					t.Errorf("from %v, want %v", udp.LocalAddr(), local)
				}
				udp.Close()
			}
		})
	}
}

// TestGuardArgs: the guard that run starts goes by the configuration that run goes by, and takes whatever that one takes.
func TestGuardArgs(t *testing.T) {
	for name, change := range map[string]func(*config){
		"as delivered":        func(*config) {},
		"a port without high": func(c *config) { c.Robot, c.High = "udp://127.0.0.1:65500", "127.0.0.1:65501" },
		"priorities":          func(c *config) { c.Control.Priority, c.Guard.Priority = 95, 96 },
		"no priority":         func(c *config) { c.Control.Priority, c.Guard.Priority = 0, 0 },
		"a file":              func(c *config) { c.Guard.Socket = filepath.Join(t.TempDir(), "guard.sock") },
	} {
		c := defaultConfig()
		c.Robot = "udp://127.0.0.1:65400"
		if change(&c); c.Validate() != nil {
			t.Fatalf("%s: %v", name, c.Validate())
		}
		loader := cli.NewLoader(defaultConfig)
		cmd := newGuard(loader)
		if err := cmd.ParseFlags(c.guardArgs()[1:]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := loader.Load()
		if err != nil {
			t.Errorf("%s: the guard refuses it: %v", name, err)
		}
		if got.low() != c.low() || got.high() != c.high() || got.guardSocket() != c.guardSocket() || got.Guard.Priority != c.Guard.Priority || got.Control.Priority != c.Control.Priority {
			t.Errorf("%s: the guard has %+v", name, got)
		}
	}
}

// TestPriorityWithoutGuard: that there is none to be above the loop.
func TestPriorityWithoutGuard(t *testing.T) {
	c := defaultConfig()
	c.Control.Priority = 95
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "guard.priority: 90, want more than control.priority, which is 95") {
		t.Errorf("with a guard: %v", err)
	}
	c.Guard.Without = true
	if err := c.Validate(); err != nil {
		t.Errorf("without one: %v", err)
	}
}

// TestRelieve: waited for is a guard that is about to end, and one whose agent is. What a guard says is final, and so is its silence.
func TestRelieve(t *testing.T) {
	t.Parallel()
	const (
		yes   = `{"version":3,"error":""}`
		lives = `{"version":3,"error":"it lives","code":"agent_lives"}`
		no    = `{"version":3,"error":"it rains","code":"weather"}`
		hang  = "" // hangs up
	)
	for _, c := range []struct {
		name    string
		answers []string // to one after the other, the last to all further ones
		asked   int
		says    string // "": taken
	}{
		{"at once", []string{yes}, 1, ""},
		{"the agent is being reaped", []string{lives, lives, lives, lives, lives, yes}, 6, ""},
		{"the agent lives", []string{lives}, 6, "it lives"},
		{"refused", []string{no, yes}, 1, "it rains"},
		{"refused behind an agent that lived", []string{lives, no, yes}, 2, "it rains"},
		{"it ends", []string{hang, hang, yes}, 3, ""},
		{"it never answers whole", []string{hang}, 10, "no answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			socket := guard.Address(fmt.Sprintf("test-relieve-%d-%s", os.Getpid(), c.name))
			l, err := guard.Listen(socket)
			if err != nil {
				t.Fatal(err)
			}
			var asked atomic.Int32
			go func() {
				for {
					conn, err := l.AcceptUnix()
					if err != nil {
						return
					}
					answer := c.answers[min(int(asked.Add(1)), len(c.answers))-1]
					go func() {
						defer conn.Close()
						b := make([]byte, 4096)
						if _, err := conn.Read(b); err != nil || answer == hang {
							return
						}
						_, _ = conn.Write([]byte(answer))
						_, _ = conn.Read(b) // until the other end hangs up
					}()
				}
			}()
			defer l.Close()
			start := func() (*guard.Client, error) { return nil, errors.New("another one is started") }
			client, err := relieve(socket, netip.AddrPortFrom(localhost, 9), start)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if n := int(asked.Load()); n != c.asked {
				t.Errorf("asked %d times, want %d", n, c.asked)
			}
			if client != nil {
				client.Close()
			}
		})
	}
	if again := (waited{}); again.allows(fmt.Errorf("guard: take: %w", os.ErrDeadlineExceeded)) {
		t.Error("who does not answer is asked again")
	}
	if c, err := relieve(guard.Address("nowhere"), netip.AddrPortFrom(localhost, 9), nil); c != nil || err != nil {
		t.Errorf("nobody there: %v, %v", c, err)
	}
}

// TestRunBehindAKilledAgent: the kernel may hold a killed agent's lock for a while.
func TestRunBehindAKilledAgent(t *testing.T) {
	t.Parallel()
	robot := lyingRobot(t)
	l, err := net.Listen("unix", "@clawagent/"+robot.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		if conn, err := l.Accept(); err == nil { // run asks who it is
			conn.Close()
			l.Close()
		}
	}()
	if g := guardedAgent(t, robot).guard(); !g.Alive {
		t.Errorf("%+v", g)
	}
	<-tried
}

// TestRelieveAnotherUsersGuard: where it ends behind its agent root takes the robot from it, does not give it the robot, and starts one of its
// own. Where it stays root says who is in the way, and takes nothing: nobody would damp the robot then.
func TestRelieveAnotherUsersGuard(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be somebody else for a moment")
	}
	t.Parallel()
	for name, c := range map[string]struct{ ends bool }{"ends": {true}, "stays": {false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const nobody = 65534
			socket := guard.Address(fmt.Sprintf("test-nobody-%d-%s", os.Getpid(), name))
			listening := make(chan *net.UnixListener)
			go func() {
				runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, and its user with it
				var l *net.UnixListener
				if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno == 0 {
					l, _ = guard.Listen(socket)
				}
				listening <- l
			}()
			l := <-listening
			if l == nil {
				t.Fatal("no socket of another user's")
			}
			defer l.Close()
			took := make(chan string, 100)
			go func() {
				for {
					conn, err := l.AcceptUnix()
					if err != nil {
						return
					}
					b, taken := make([]byte, 4096), false
					for {
						n, _ := conn.Read(b)
						if n == 0 {
							break
						}
						took <- string(b[:n])
						answer := `{"version":3,"error":""}`
						if strings.Contains(string(b[:n]), `"op":"status"`) {
							answer = fmt.Sprintf(`{"version":3,"error":"","report":{"alone":%v}}`, c.ends)
						} else {
							taken = true
						}
						_, _ = conn.Write([]byte(answer))
					}
					if conn.Close(); c.ends && taken {
						l.Close()
					}
				}
			}()
			started := errors.New("one of its own is started")
			_, err := relieve(socket, netip.AddrPortFrom(localhost, 9), func() (*guard.Client, error) { return nil, started })
			if c.ends && !errors.Is(err, started) {
				t.Errorf("it has ended: %v", err)
			}
			if says := fmt.Sprintf("process %d is user %d's", os.Getpid(), nobody); !c.ends && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("it stays: %v, want %q", err, says)
			}
			want := []string{`"op":"status"`, `"op":"take"`}
			if !c.ends {
				want = want[:1]
			}
			if len(took) != len(want) {
				t.Fatalf("it was asked %d times, want %d", len(took), len(want))
			}
			for _, op := range want {
				if message := <-took; !strings.Contains(message, op) {
					t.Errorf("it was asked %s, want %s", message, op)
				}
			}
		})
	}
}

// TestRunNeedsItsGuard: what is at the guard's address and is none ends the start, by name.
func TestRunNeedsItsGuard(t *testing.T) {
	robot := lyingRobot(t)
	text := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(text, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := clawagent(t, "run", "--robot", "udp://"+robot.Addr().String(), "--http", "127.0.0.1:0", "--set", "guard.socket="+text)
	if r.code != 1 || !strings.Contains(r.stderr, "a file of another kind is there") || !strings.Contains(r.stderr, "--no-guard") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if b, err := os.ReadFile(text); err != nil || string(b) != "mine" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if robot.Count() != 0 {
		t.Errorf("%d frames", robot.Count())
	}
}
