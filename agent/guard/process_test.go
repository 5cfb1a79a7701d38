package guard_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/mutant"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// The tests of this file run agents that are processes: this test's own program once more, told by its environment what to be.
const (
	envGuard = "OPENCLAW_TEST_GUARD" // address
	envRobot = "OPENCLAW_TEST_ROBOT"
	envWhere = "OPENCLAW_TEST_STOPS" // where it stops itself: before, window, behind; "": nowhere
)

func TestMain(m *testing.M) {
	if address := os.Getenv(envGuard); address != "" {
		if err := playAgent(address, os.Getenv(envRobot), os.Getenv(envWhere)); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playAgent is a control loop with nothing but its guard: a torque frame a tick, with half of the tick inside the window. It ends when
// the guard has latched, and has then sent nothing for a while.
func playAgent(address, robot, where string) error {
	runtime.LockOSThread()
	to, err := netip.ParseAddrPort(robot)
	if err != nil {
		return err
	}
	udp, err := link.DialUDP(link.UDPConfig{Robot: to})
	if err != nil {
		return err
	}
	c, err := guard.Dial(address)
	if err != nil {
		return err
	}
	w, err := c.Register(udp.Fd(), guard.Registration{Robot: to, High: netip.AddrPortFrom(to.Addr(), to.Port()+1), Stale: guard.MaxStale})
	if err != nil {
		return err
	}
	var cmd wire.LowCmd
	cmd.Init()
	for i := range wire.Joints {
		cmd.Motor[i] = wire.MotorCmd{Mode: wire.ModeServo, Kp: 60, Kd: 5}
	}
	torque, err := wire.AppendLowCmd(nil, &cmd, wire.PlainCRC)
	if err != nil {
		return err
	}
	stop := func(here string) error {
		if where != here {
			return nil
		}
		where = ""
		return unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
	beat := func() { w.Beat(link.Now(), link.Now()+int64(time.Hour), true) }
	beat()
	w.Begin()
	for tick := 0; ; tick++ {
		if tick == 20 {
			fmt.Println("walking")
		}
		beat()
		if tick > 20 {
			if err := stop("before"); err != nil {
				return err
			}
		}
		w.Open()
		if w.Look() != guard.Free {
			w.Shut()
			break
		}
		if tick > 20 {
			if err := stop("window"); err != nil {
				return err
			}
		}
		for until := link.Now() + 1e6; link.Now() < until; {
		}
		if err := udp.Send(torque); err != nil {
			return err
		}
		w.Shut()
		if tick > 20 {
			if err := stop("behind"); err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond)
	}
	for range 100 {
		beat()
		time.Sleep(time.Millisecond)
	}
	w.End()
	return c.Close()
}

// agent is such a process.
type agent struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// agent starts one and waits until it walks. A machine that stands still meanwhile may trip the guard: then another is started.
func (s *served) agent(where string) *agent {
	s.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	const tries = 50
	for range tries {
		a := &agent{t: s.t, cmd: exec.Command(exe), done: make(chan struct{})}
		a.cmd.Env = append(os.Environ(), envGuard+"="+s.address, envRobot+"="+s.robot.Addr().String(), envWhere+"="+where)
		a.cmd.Stderr = os.Stderr
		out, err := a.cmd.StdoutPipe()
		if err != nil {
			s.t.Fatal(err)
		}
		s.from = s.robot.Count()
		if err := a.cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() {
			_ = a.cmd.Process.Kill() // for the case that it has not ended
			<-a.done
		})
		line, err := bufio.NewReader(out).ReadString('\n')
		go func() {
			_ = a.cmd.Wait()
			close(a.done)
		}()
		if err == nil && line == "walking\n" {
			return a
		}
		if !a.ended().Success() && !a.killed() {
			s.t.Fatalf("the agent says %q: %v", line, err)
		}
		s.trips, s.kills = s.guard.Report().Trips, s.guard.Report().Killed
		until(s.t, "the session is over", func() bool {
			c, err := guard.Dial(s.address)
			if err != nil {
				s.t.Fatal(err)
			}
			defer c.Close()
			return c.Take(s.robot.Addr()) == nil
		})
	}
	s.t.Skipf("this machine stands still for %v again and again", guard.MaxStale)
	return nil
}

func (a *agent) ended() *os.ProcessState {
	select {
	case <-a.done:
	case <-time.After(patience):
		a.t.Fatal("the agent does not end")
	}
	return a.cmd.ProcessState
}

func (a *agent) signal(s os.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}

// killed waits for the end and says whether SIGKILL was it.
func (a *agent) killed() bool {
	a.t.Helper()
	status := a.ended().Sys().(syscall.WaitStatus)
	if !status.Signaled() && !a.cmd.ProcessState.Success() {
		a.t.Fatalf("the agent ended with %v", a.cmd.ProcessState)
	}
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

// damped waits for some damping frames and fails if a torque frame comes behind the first of them, now or when check is called again.
// check is nil when the agent has ended by itself: the machine stood still before it could be stopped.
func (s *served) damped(a *agent, least int) (check func()) {
	s.t.Helper()
	n := s.robot.Count(linktest.Damping)
	over := false
	until(s.t, strconv.Itoa(least)+" damping frames", func() bool {
		select {
		case <-a.done:
			over = a.cmd.ProcessState.Success()
		default:
		}
		return over || s.robot.Count(linktest.Damping) >= n+uint64(least)
	})
	if over {
		return nil
	}
	check = func() {
		s.t.Helper()
		first := uint64(0)
		for _, f := range s.robot.Frames() {
			switch {
			case f.Number <= s.from: // an earlier try's
			case f.Class == linktest.Damping && first == 0:
				first = f.Number
			case f.Class != linktest.Damping && first != 0:
				s.t.Fatalf("frame %d is %v, the first damping frame was %d", f.Number, f.Class, first)
			}
		}
	}
	check()
	return check
}

// TestStoppedProcess: SIGSTOP at each place of the tick, the window by force. Within the window it is killed; elsewhere it finds the latch
// when it goes on.
func TestStoppedProcess(t *testing.T) {
	for where, dies := range map[string]bool{"before": false, "window": true, "behind": false} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			a := s.agent(where)
			check := s.damped(a, 20)
			if check == nil {
				t.Skip("this machine stood still right before")
			}
			until(t, "the latch is in force", func() bool { return s.guard.Report().LatchedNs != 0 })
			rep := s.guard.Report()
			// Where the kernel takes its time to end a process that was killed, damping begins before.
			if rep.Trips != s.trips+1 || rep.Killed > s.kills != dies || !dies && rep.DampedNs < rep.LatchedNs {
				t.Errorf("%+v", rep)
			}
			if !dies {
				a.signal(syscall.SIGCONT)
			}
			if killed := a.killed(); killed != dies {
				t.Errorf("killed: %v, want %v", killed, dies)
			}
			check()
			until(t, "the trip is in the log", func() bool { return strings.Contains(s.said(), "tripped: ") })
			if dies {
				until(t, "the kill is in the log", func() bool { return strings.Contains(s.said(), "agent killed") })
			}
			if dies && !s.guard.Report().Sending {
				t.Error("the guard does not damp on")
			}
		})
	}
}

// TestStoppedAnywhere: SIGSTOP and SIGKILL at random times, half of them within the window. TestStoppedProcess says what each leads to.
func TestStoppedAnywhere(t *testing.T) {
	if mutant.Running() {
		t.Skip("TestStoppedProcess comes sooner to the same")
	}
	const seed, rounds = 1, 8
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range rounds {
		after := time.Duration(random.IntN(40)) * 100 * time.Microsecond
		s := serve(t)
		a := s.agent("")
		time.Sleep(after)
		sig := syscall.SIGSTOP
		if i%4 == 3 {
			sig = syscall.SIGKILL
		}
		a.signal(sig)
		check := s.damped(a, 20)
		if check == nil {
			continue
		}
		killed := s.guard.Report().Killed > s.kills
		if sig == syscall.SIGSTOP && !killed {
			a.signal(syscall.SIGCONT)
		}
		if dead := a.killed(); dead != (killed || sig == syscall.SIGKILL) {
			t.Errorf("round %d, seed %d: %v after %v: dead %v, killed by the guard %v", i, seed, sig, after, dead, killed)
		}
		check()
		t.Logf("%v after %v: killed by the guard: %v", sig, after, killed)
	}
}
