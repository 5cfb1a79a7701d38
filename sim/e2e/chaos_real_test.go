package e2e

import (
	"cmp"
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
	// silentUs is how long it keeps states from the agent.
	silentUs int64
	do       func(s *storm, d time.Duration) error
}

// storm is a schedule in real time, under way.
type storm struct {
	*bench
	wall *wallClock // of the agent
	disk string     // folder of the agent's journal, nearly full
	// noWall, noDisk: why this machine lets us have none.
	noWall, noDisk error
	// robotStops: one of the blows holds the robot's program up.
	robotStops bool
	calls      sync.WaitGroup

	mu        sync.Mutex
	heldUs    map[int]float64 // by process: the longest that a blow held it up, as it was and not as it was asked for
	notStruck []string
}

// notStruck is the error of a blow that this machine does not let us strike.
type notStruck struct{ error }

var blows = []blow{
	{name: "SIGSTOP agent", ms: [2]int{1, 8}, do: func(s *storm, d time.Duration) error { return s.hold(s.agent.cmd.Process.Pid, d) }},
	{name: "deadlock", ms: [2]int{1, 8}, do: (*storm).deadlock},
	{name: "SIGSTOP guard", ms: [2]int{1, 60}, do: func(s *storm, d time.Duration) error { return s.hold(s.guard, d) }},
	{name: "SIGSTOP robot", ms: [2]int{1, 12}, do: func(s *storm, d time.Duration) error { return s.hold(s.robot.cmd.Process.Pid, d) }},
	{name: "busy programs", ms: [2]int{500, 3000}, do: func(s *storm, d time.Duration) error { return s.beside("spin", d, nil) }},
	{name: "busy memory", ms: [2]int{500, 3000}, do: func(s *storm, d time.Duration) error { return s.beside("eat", d, nil) }},
	{name: "no memory left", ms: [2]int{500, 3000}, do: (*storm).noMemory},
	{name: "HTTP flood", ms: [2]int{500, 3000}, do: (*storm).flood},
	{name: "disk full", ms: [2]int{500, 3000}, do: (*storm).fillDisk},
	{name: "wall clock", ms: [2]int{500, 3000}, do: (*storm).jump},
	{name: "second agent", do: (*storm).second},
	{name: "drop_state,samples=5", silentUs: 12e3, do: (*storm).fault},
	{name: "corrupt_state,samples=5", silentUs: 12e3, do: (*storm).fault},
	{name: "duplicate_state,samples=200", do: (*storm).fault},
	{name: "short_state,samples=200", do: (*storm).fault},
	{name: "foreign_state,what=lie,samples=200", do: (*storm).fault},
	{name: "push,n=50,ms=100,dir=90", do: (*storm).fault},

	{name: "SIGSTOP agent", ms: [2]int{60, 1500}, does: safety.Damp, names: tripped, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.hold(s.agent.cmd.Process.Pid, d) }},
	{name: "deadlock", ms: [2]int{60, 1500}, does: safety.Damp, names: tripped, ends: damps, do: (*storm).deadlock},
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
		do: func(s *storm, d time.Duration) error { return s.hold(s.guard, d) }},
	{name: "SIGSTOP robot", ms: [2]int{80, 800}, does: safety.Damp, names: []safety.Fault{safety.StateStale}, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.hold(s.robot.cmd.Process.Pid, d) }},
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

// hold stops a process for a time.
func (s *storm) hold(pid int, d time.Duration) error {
	h, err := pause(pid, d)
	s.stood(pid, h)
	return err
}

func (s *storm) deadlock(d time.Duration) error {
	pid := s.agent.cmd.Process.Pid
	tid, err := loopThread(pid)
	if err != nil {
		return err
	}
	h, err := deadlock(tid, d)
	s.stood(pid, h)
	return err
}

func (s *storm) stood(pid int, h held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heldUs[pid] = max(s.heldUs[pid], h.us())
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
		return notStruck{fmt.Errorf("no group of processes may run out of memory: %w", err)}
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
	if s.noDisk != nil {
		return notStruck{s.noDisk}
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
	if s.noWall != nil {
		return notStruck{s.noWall}
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
	soak := promise.NewWord(t, "storms", 3, 200)
	inTurn(t, soak, chaosRealTime)
	var missing []string // by kind
	for _, b := range blows {
		if n := soak.Total(notStruckKey(b.name)); n > 0 {
			missing = append(missing, fmt.Sprintf("%s %.0f times", b.name, n))
		}
	}
	t.Logf("in all: %.0f blows struck, %.0f that this machine did not let us strike (%s); %.0f storms in which a stall of the machine damped the robot",
		soak.Total("struck"), soak.Total("not_struck_count"), cmp.Or(strings.Join(missing, ", "), "none"), soak.Total("excused_count"))
}

func chaosRealTime(t *testing.T, seed uint64, drawn map[string]any) {
	strikes := newStorm(seed)
	t.Logf("seed %d: %v", seed, strikes)
	ask := stallMeter(t)
	s := &storm{heldUs: map[int]float64{}, robotStops: slices.ContainsFunc(strikes, func(s strike) bool { return s.name == "SIGSTOP robot" })}
	var flags []string
	if slices.ContainsFunc(strikes, func(s strike) bool { return s.name == "disk full" }) {
		if s.disk, s.noDisk = smallDisk(t); s.noDisk == nil {
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
		s.wall, s.noWall = takeWallClock(s.agent.cmd.Process.Pid)
	}
	s.arm()
	drawn["strikes"] = fmt.Sprint(strikes)
	if !s.walkAnyway(ask) {
		t.Skipf("not done: this machine stood still for %v and more in each of %d tries", stallUs*time.Microsecond, tries)
	}
	began := time.Now()
	var doing sync.WaitGroup
	for _, k := range strikes {
		doing.Go(func() {
			time.Sleep(time.Until(began.Add(k.at)))
			if k.isFault() {
				s.stood(s.robot.cmd.Process.Pid, held{0, k.silentUs})
				s.inject(k.name + "@now")
				return
			}
			err := k.do(s, k.d)
			if no := (notStruck{}); errors.As(err, &no) {
				t.Logf("%v was not struck: %v", k, err)
				s.mu.Lock()
				defer s.mu.Unlock()
				s.notStruck = append(s.notStruck, k.name)
			} else if err != nil {
				t.Errorf("%v: %v", k, err)
			}
		})
	}
	doing.Wait()
	s.calls.Wait()
	drawn["struck"], drawn["not_struck"], drawn["not_struck_count"] = len(strikes)-len(s.notStruck), s.notStruck, len(s.notStruck)
	for _, name := range s.notStruck {
		drawn[notStruckKey(name)] = 1
	}
	last := strikes[len(strikes)-1]
	if last.does == safety.Sit {
		time.Sleep(sitting)
		if last.name == "remote_absent" { // which is missed after a second
			time.Sleep(time.Second)
		}
	}
	if last.stops {
		until(t, "the agent's end", func() bool { return !alive(s.agent) })
	}
	ended := monotonicUs() // if it has
	time.Sleep(1200 * time.Millisecond)
	machine := s.machine(ask)
	if excused := s.outcome(last, &machine, ended); excused != "" {
		drawn["excused"], drawn["excused_count"] = excused, 1
	}
	drawn["stall_max_us"], drawn["stall_p99_us"] = machine.MaxUs, machine.P99Us
	if len(s.notStruck) == len(strikes) {
		t.Skip("not done: this machine let us strike none of its blows")
	}
}

// notStruckKey is a figure of a case's line: that one kind of blow was not struck.
func notStruckKey(name string) string { return "not_struck: " + name }

// machine is its longest stall since the robot began to get up.
func (s *storm) machine(ask func() stalls) stalls {
	s.t.Helper()
	s.sync()
	if s.robotStops { // its thread stood still because we stopped it
		s.ref.stallMs = 0
	}
	return s.measure(ask)
}

func (s *strike) isFault() bool { return strings.Contains(s.name, ",") || s.name == "remote_absent" }

// excuse is what a fault that the blows do not ask for did, if the machine's stall, or what it added to a blow that holds something up,
// explains it.
func (s *storm) excuse(fault string, machine *stalls) (does safety.Severity, ok bool) {
	s.mu.Lock()
	agent, guard, robot := s.heldUs[s.agent.cmd.Process.Pid], s.heldUs[s.guard], s.heldUs[s.robot.cmd.Process.Pid]
	s.mu.Unlock()
	const (
		lateUs = 18e3 // of 20 ms, less a period
		lostUs = 95e3 // of the 100 ms after which a guard is missed
	)
	switch {
	case stalled(fault, machine.MaxUs), isOne(tripped, fault) && agent+machine.MaxUs >= lateUs,
		fault == safety.StateStale.String() && robot+machine.MaxUs >= staleUs:
		return safety.Damp, true
	case fault == safety.GuardLost.String() && guard+machine.MaxUs >= lostUs:
		return safety.Sit, true
	}
	return safety.None, false
}

// sitting is the time from policy to a stand, down and to damping.
const sitting = 3500 * time.Millisecond

// outcome judges the end of a storm, and says what a stall of the machine did that no blow asked for. endedUs is when an agent had ended
// that was to, CLOCK_MONOTONIC.
func (s *storm) outcome(last strike, machine *stalls, endedUs int64) (excused string) {
	t := s.t
	t.Helper()
	if !last.stops && last.does == safety.Damp && slices.Equal(last.names, tripped) && !alive(s.agent) {
		t.Log("the guard ended the agent, which was stopped between its last look and the kernel")
		last.stops, last.exit = true, -1
	}
	if last.stops {
		if last.ends == quiet {
			s.quietSince(endedUs)
		} else {
			s.judge(last.ends)
		}
		if code := s.agent.exit(); code != last.exit {
			t.Errorf("%s: the agent ended with exit code %d, want %d: %s", last.name, code, last.exit, tail(s.agent.err.String(), 5))
		}
		if last.ends == quiet {
			s.guardEnds()
		}
		s.robot.end()
		return ""
	}
	st := s.state()
	want, names, severity := walks, []safety.Fault{safety.NoFault}, "none"
	if last.does > safety.None {
		want, names, severity = last.ends, last.names, last.does.String()
	}
	if does, ok := s.excuse(st.fault(), machine); ok && !isOne(names, st.fault()) {
		excused = st.fault()
		t.Logf("the machine stood still for %.0f us, and blows held up for %v us: %s", machine.MaxUs, s.heldUs, excused)
		want, severity = damps, does.String()
		names = slices.Concat(tripped, []safety.Fault{safety.GuardLost, safety.StateStale}) // of which it is one
		if does == safety.Sit {
			time.Sleep(sitting + time.Duration(closing*float64(time.Second)))
			s.sync()
		}
	}
	s.judge(want)
	if fault := st.fault(); !slices.ContainsFunc(names, func(f safety.Fault) bool { return f.String() == fault || f == safety.NoFault && fault == "" }) || st.Severity != severity {
		t.Errorf("the agent says severity %s, fault %q, want %s, one of %v; the machine's longest stall %.0f us, held %v us", st.Severity, fault, severity, names, machine.MaxUs, s.heldUs)
	}
	if pid := s.guardPID(); pid != s.guard && last.name != "kill -9 guard" {
		t.Errorf("the guard is process %d, was %d", pid, s.guard)
	}
	if pid := s.guardPID(); pid != 0 {
		s.guards(pid) // another, where that was the blow
	}
	s.inject("clear@now")
	s.agent.end()
	if code := s.agent.exit(); code != 0 {
		t.Errorf("the agent ended with exit code %d: %s", code, tail(s.agent.err.String(), 5))
	}
	s.quietSince(monotonicUs())
	s.guardEnds()
	s.robot.end()
	return excused
}
