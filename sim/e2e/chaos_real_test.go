package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// blow is something that may happen to the programs, or to the machine under them, while the robot walks.
type blow struct {
	name string
	does safety.Severity
	// names are what the agent may say of it; none for an agent that is not there any more.
	names []safety.Fault
	ends  outcome // if it acts
	// ms are drawn from this range: how long it lasts.
	ms [2]int
	// stops the agent's life.
	stops bool
	exit  int // of an agent that it ends
	do    func(s *storm, d time.Duration) error
}

// storm is a schedule in real time, under way.
type storm struct {
	*bench
	wall *wallClock // of the agent; nil: this machine cannot
	disk string     // folder of the agent's journal, nearly full; "": none
	// robotStops: one of the blows holds the robot's program up.
	robotStops bool
	calls      sync.WaitGroup
}

// tripped is what is said of an agent that stood still.
var tripped = []safety.Fault{safety.GuardTripped, safety.LoopLate}

var blows = []blow{
	{name: "SIGSTOP agent", ms: [2]int{1, 8}, do: func(s *storm, d time.Duration) error { return s.pause(s.agent.cmd.Process.Pid, d) }},
	{name: "deadlock", ms: [2]int{1, 8}, do: (*storm).hold},
	{name: "SIGSTOP guard", ms: [2]int{1, 60}, do: func(s *storm, d time.Duration) error { return s.pause(s.guard, d) }},
	{name: "SIGSTOP robot", ms: [2]int{1, 12}, do: func(s *storm, d time.Duration) error { return s.pause(s.robot.cmd.Process.Pid, d) }},
	{name: "busy programs", ms: [2]int{500, 3000}, do: func(s *storm, d time.Duration) error { return s.beside("spin", d, nil) }},
	{name: "busy memory", ms: [2]int{500, 3000}, do: func(s *storm, d time.Duration) error { return s.beside("eat", d, nil) }},
	{name: "no memory left", ms: [2]int{500, 3000}, do: (*storm).noMemory},
	{name: "HTTP flood", ms: [2]int{500, 3000}, do: (*storm).flood},
	{name: "disk full", ms: [2]int{500, 3000}, do: (*storm).fillDisk},
	{name: "wall clock", ms: [2]int{500, 3000}, do: (*storm).jump},
	{name: "second agent", do: (*storm).second},
	{name: "drop_state,samples=5", do: (*storm).fault},
	{name: "corrupt_state,samples=5", do: (*storm).fault},
	{name: "duplicate_state,samples=200", do: (*storm).fault},
	{name: "short_state,samples=200", do: (*storm).fault},
	{name: "foreign_state,what=lie,samples=200", do: (*storm).fault},
	{name: "push,n=50,ms=100,dir=90", do: (*storm).fault},

	{name: "SIGSTOP agent", ms: [2]int{60, 1500}, does: safety.Damp, names: tripped, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.pause(s.agent.cmd.Process.Pid, d) }},
	{name: "deadlock", ms: [2]int{60, 1500}, does: safety.Damp, names: tripped, ends: damps, do: (*storm).hold},
	{name: "kill -9 agent", does: safety.Damp, ends: damps, stops: true, exit: -1, do: func(s *storm, _ time.Duration) error { return s.signal(unix.SIGKILL) }},
	{name: "SIGABRT agent", does: safety.Damp, ends: damps, stops: true, exit: 2, do: func(s *storm, _ time.Duration) error { return s.signal(unix.SIGABRT) }},
	{name: "SIGQUIT agent", does: safety.Damp, ends: quiet, stops: true, do: func(s *storm, _ time.Duration) error { return s.signal(unix.SIGQUIT) }},
	{name: "SIGTERM agent", does: safety.Sit, ends: quiet, stops: true, do: func(s *storm, _ time.Duration) error { return s.signal(unix.SIGTERM) }},
	{name: "SIGTERM agent twice", ms: [2]int{50, 800}, does: safety.Damp, ends: quiet, stops: true, do: func(s *storm, d time.Duration) error {
		if err := s.signal(unix.SIGTERM); err != nil {
			return err
		}
		time.Sleep(d)
		return s.signal(unix.SIGTERM)
	}},
	{name: "kill -9 guard", does: safety.Sit, names: []safety.Fault{safety.GuardLost}, ends: damps, do: func(s *storm, _ time.Duration) error { return unix.Kill(s.guard, unix.SIGKILL) }},
	{name: "SIGSTOP guard", ms: [2]int{300, 1500}, does: safety.Sit, names: []safety.Fault{safety.GuardLost}, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.pause(s.guard, d) }},
	{name: "SIGSTOP robot", ms: [2]int{80, 800}, does: safety.Damp, names: []safety.Fault{safety.StateStale}, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.pause(s.robot.cmd.Process.Pid, d) }},
	{name: "estop settle", does: safety.Sit, names: []safety.Fault{safety.OperatorSettle}, ends: damps, do: func(s *storm, _ time.Duration) error { return s.estop("settle") }},
	{name: "estop cut", does: safety.Cut, names: []safety.Fault{safety.OperatorCut}, ends: damps, do: func(s *storm, _ time.Duration) error { return s.estop("cut") }},
	{name: "stranger's pose", ms: [2]int{1500, 2500}, does: safety.Damp, names: []safety.Fault{safety.AnotherSender, safety.Tilt, safety.JointSpeed}, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.stranger("pose", d) }},
	{name: "stranger's damping", ms: [2]int{1500, 2500}, does: safety.Damp, names: []safety.Fault{safety.AnotherSender, safety.Tilt, safety.JointSpeed}, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.stranger("damping", d) }},
	{name: "drop_state,samples=100", does: safety.Damp, names: []safety.Fault{safety.StateStale}, ends: damps, do: (*storm).fault},
	{name: "remote_buttons,buttons=L2+B,samples=20", does: safety.Cut, names: []safety.Fault{safety.RemoteStop}, ends: damps, do: (*storm).fault},
	{name: "remote_absent", does: safety.Sit, names: []safety.Fault{safety.RemoteAbsent}, ends: damps, do: (*storm).fault},
}

// strike is a blow at its time.
type strike struct {
	blow
	at, d time.Duration
}

func (s strike) String() string { return fmt.Sprintf("%s @%v", s.text(), s.at.Round(time.Millisecond)) }

func (s strike) text() string {
	if s.ms[1] == 0 {
		return s.name
	}
	return fmt.Sprintf("%s %v", s.name, s.d)
}

const stormSpan = 3 * time.Second // in which blows begin

// newStorm draws two to four blows that may do nothing, which may meet, and in three of four storms, behind them, one that acts.
func newStorm(seed uint64) (strikes []strike) {
	random := rand.New(rand.NewPCG(seed, 0x57024))
	var mild, acting []blow
	for _, b := range blows {
		if b.does == safety.None {
			mild = append(mild, b)
		} else {
			acting = append(acting, b)
		}
	}
	draw := func(b blow, at time.Duration) strike {
		return strike{b, at, time.Duration(b.ms[0]+random.IntN(b.ms[1]-b.ms[0]+1)) * time.Millisecond}
	}
	for range 2 + random.IntN(3) {
		b := mild[random.IntN(len(mild))]
		// Of those that hold something up for a moment two might add up.
		if slices.ContainsFunc(strikes, func(s strike) bool { return s.name == b.name || s.ms[1] < 100 && b.ms[1] < 100 }) {
			continue
		}
		strikes = append(strikes, draw(b, time.Duration(random.Int64N(int64(stormSpan)))))
	}
	slices.SortFunc(strikes, func(a, b strike) int { return int(a.at - b.at) })
	if seed%4 != 0 {
		strikes = append(strikes, draw(acting[random.IntN(len(acting))], stormSpan+time.Duration(random.Int64N(int64(time.Second)))))
	}
	return strikes
}

func (s *storm) pause(pid int, d time.Duration) error {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(d)
	if err := unix.Kill(pid, unix.SIGCONT); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil // the guard has ended it meanwhile, see kill
}

func (s *storm) hold(d time.Duration) error {
	tid, err := loopThread(s.agent.cmd.Process.Pid)
	if err == nil {
		_, err = deadlock(tid, d)
	}
	return err
}

func (s *storm) signal(sig unix.Signal) error { return unix.Kill(s.agent.cmd.Process.Pid, sig) }

func (s *storm) estop(level string) error {
	code, answer, err := call("POST", s.http+"estop", `{"level":"`+level+`"}`)
	if err == nil && code != 200 {
		err = fmt.Errorf("estop %s: %d %s", level, code, answer)
	}
	return err
}

// second starts another agent for the same robot, which is refused.
func (s *storm) second(time.Duration) error {
	out, err := exec.Command(filepath.Join(binDir, "clawagent"), "run", "--robot", "udp://"+s.low, "--http", "127.0.0.1:0", "--arm").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "driven by another agent") {
		return fmt.Errorf("a second agent: %w: %s", err, out)
	}
	return nil
}

// stranger sends commands to the robot from another address, so often that most steps of the motors follow his: at our own rate it may
// happen that each of his is replaced by ours before a step, and that nobody could tell.
func (s *storm) stranger(what string, d time.Duration) error {
	s.does(strangers)
	out, err := exec.Command(filepath.Join(binDir, "clawsim"), "sender", "--to", s.low, "--from", "127.0.0.2:0", "--what", what,
		"--rate", "3000", "--seconds", fmt.Sprint(d.Seconds())).CombinedOutput()
	if err != nil {
		return fmt.Errorf("clawsim sender: %w: %s", err, out)
	}
	return nil
}

// fault is the robot's; do gives it its name by the schedule.
func (s *storm) fault(time.Duration) error { panic("the schedule injects it") }

// beside runs a child of this program for a time.
func (s *storm) beside(part string, d time.Duration, started func(pid int) error) error {
	in, _, cmd := child(s.t, part)
	if started != nil {
		if err := started(cmd.Process.Pid); err != nil {
			return err
		}
	}
	time.Sleep(d)
	return in.Close()
}

// noMemory puts the agent into a group with little memory left and a program that wants all of it.
func (s *storm) noMemory(d time.Duration) error {
	const most = 64 << 20 // besides what the agent has already, which is counted where it was before
	group, err := newMemoryGroup(s.t, most)
	if err != nil {
		s.t.Logf("this machine lets no group of processes run out of memory: %v", err)
		return nil
	}
	if err := group.add(s.agent.cmd.Process.Pid); err != nil {
		return err
	}
	for end := time.Now().Add(d); time.Now().Before(end); { // the kernel ends the eater, over and over
		if err := s.beside("eat", 100*time.Millisecond, group.add); err != nil {
			return err
		}
	}
	return nil
}

// flood asks the agent as fast as eight clients can.
func (s *storm) flood(d time.Duration) error {
	const clients = 8
	end := time.Now().Add(d)
	for range clients {
		s.calls.Go(func() {
			for time.Now().Before(end) && alive(s.agent) {
				resp, err := http.Get(s.http + "state")
				if err == nil {
					resp.Body.Close()
				}
			}
		})
	}
	return nil
}

// fillDisk takes the last bytes that the agent's journal could have.
func (s *storm) fillDisk(d time.Duration) error {
	if s.disk == "" {
		s.t.Log("this machine lets us make no small disk")
		return nil
	}
	more := filepath.Join(s.disk, "more")
	b := make([]byte, 4096)
	f, err := os.Create(more)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(b)
	}
	f.Close()
	time.Sleep(d)
	return os.Remove(more)
}

// jump moves the agent's wall clock an hour on, then two back, and leaves it there for a time.
func (s *storm) jump(d time.Duration) error {
	if s.wall == nil {
		return nil
	}
	const hour = 3600
	for _, at := range []int64{hour, -hour} {
		if err := s.wall.jump(at); err != nil {
			return err
		}
		time.Sleep(d / 2)
	}
	return s.wall.jump(0)
}

// TestChaosRealTime draws storms: what other programs, the system and people do to the agent, its guard, the robot and the machine while
// the robot walks. The referee finds nothing in the robot's log, the robot ends as the worst of it says, and the agent says so or ends as
// it should. OPENCLAW_SOAK=storms draws 200.
func TestChaosRealTime(t *testing.T) {
	realTime(t)
	inTurn(t, promise.NewWord(t, "storms", 3, 200), chaosRealTime)
}

func chaosRealTime(t *testing.T, seed uint64) map[string]any {
	strikes := newStorm(seed)
	t.Logf("seed %d: %v", seed, strikes)
	ask := stallMeter(t)
	s := &storm{robotStops: slices.ContainsFunc(strikes, func(s strike) bool { return s.name == "SIGSTOP robot" })}
	var flags []string
	if slices.ContainsFunc(strikes, func(s strike) bool { return s.name == "disk full" }) {
		var err error
		if s.disk, err = smallDisk(t); err != nil {
			t.Log(err)
			s.disk = ""
		} else {
			flags = []string{"--log", filepath.Join(s.disk, "agent.jsonl")}
		}
	}
	s.bench = newBench(t, benchSetup{real: true, seed: seed, agent: flags})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v\nThe robot's log ends with\n%s", strikes, tail(events(s.logBytes()), 15))
		}
	})
	if slices.ContainsFunc(strikes, func(s strike) bool { return s.name == "wall clock" }) {
		var err error
		if s.wall, err = takeWallClock(s.agent.cmd.Process.Pid); err != nil {
			t.Logf("this machine lets us move no wall clock: %v", err)
		}
	}
	s.arm()
	s.walk()
	ask()
	began := time.Now()
	var doing sync.WaitGroup
	for _, k := range strikes {
		doing.Go(func() {
			time.Sleep(time.Until(began.Add(k.at)))
			if k.isFault() {
				s.inject(k.name + "@now")
			} else if err := k.do(s, k.d); err != nil {
				t.Errorf("%v: %v", k, err)
			}
		})
	}
	doing.Wait()
	s.calls.Wait()
	last := strikes[len(strikes)-1]
	if last.does == safety.Sit {
		time.Sleep(3500 * time.Millisecond) // to a stand, down; the remote is missed after a second
		if last.name == "remote_absent" {
			time.Sleep(time.Second)
		}
	}
	if last.stops {
		until(t, "the agent's end", func() bool { return !alive(s.agent) })
	}
	time.Sleep(1200 * time.Millisecond)
	s.sync()
	machine := ask()
	drawn := map[string]any{"strikes": fmt.Sprint(strikes), "stall_max_us": machine.MaxUs, "stall_p99_us": machine.P99Us}
	s.outcome(last, &machine)
	return drawn
}

func (s *strike) isFault() bool { return strings.Contains(s.name, ",") || s.name == "remote_absent" }

// outcome judges the end of a storm.
func (s *storm) outcome(last strike, machine *stalls) {
	t := s.t
	t.Helper()
	if !last.stops && last.does == safety.Damp && slices.Equal(last.names, tripped) && !alive(s.agent) {
		t.Log("the guard ended the agent, which was stopped between its last look and the kernel")
		last.stops, last.exit = true, -1
	}
	if last.stops {
		s.judge(last.ends)
		if code := s.agent.exit(); code != last.exit {
			t.Errorf("%s: the agent ended with exit code %d, want %d: %s", last.name, code, last.exit, tail(s.agent.err.String(), 5))
		}
		if last.ends == quiet {
			s.guardEnds()
		}
		s.robot.end()
		return
	}
	st := s.state()
	want, names, severity := walks, []safety.Fault{safety.NoFault}, "none"
	if last.does > safety.None {
		want, names, severity = last.ends, last.names, last.does.String()
	}
	const stall = 12e3 // us that, with what the blows hold up by themselves, make the loop late
	stoodUs := machine.MaxUs
	if !s.robotStops { // it stood still because the machine did, which its thread may see and the meter's not
		stoodUs = max(stoodUs, s.ref.stallMs*1e3)
	}
	isTripped := func(f safety.Fault) bool { return f.String() == st.fault() }
	if stoodUs > stall && slices.ContainsFunc(tripped, isTripped) && !slices.ContainsFunc(names, isTripped) {
		t.Logf("the machine stood still for %.0f us: %s", stoodUs, st.fault())
		want, names, severity = damps, tripped, "damp"
	}
	s.judge(want)
	if fault := st.fault(); !slices.ContainsFunc(names, func(f safety.Fault) bool { return f.String() == fault || f == safety.NoFault && fault == "" }) || st.Severity != severity {
		t.Errorf("the agent says severity %s, fault %q, want %s, one of %v; the machine's longest stall %.0f us", st.Severity, fault, severity, names, stoodUs)
	}
	if pid := s.guardPID(); pid != s.guard && last.name != "kill -9 guard" {
		t.Errorf("the guard is process %d, was %d", pid, s.guard)
	}
	s.guard = s.guardPID() // another, where that was the blow
	s.inject("clear@now")
	s.agent.end()
	if code := s.agent.exit(); code != 0 {
		t.Errorf("the agent ended with exit code %d: %s", code, tail(s.agent.err.String(), 5))
	}
	time.Sleep(1100 * time.Millisecond)
	s.until = s.status().T
	s.judge(quiet)
	s.guardEnds()
	s.robot.end()
}
