package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/sim/virtual"
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
	// dueMs is when the first damping frame comes, not before and by then on a machine that does not stand still, if it acts: from when it
	// is struck, or of what the robot's log tells of (its own faults, strangers) from when it does.
	dueMs [2]float64
	// again: struck once more after ms, and due from then.
	again bool
	// stops the agent's life.
	stops bool
	exit  int // of an agent that it ends
	// silentUs is how long it keeps states from the agent.
	silentUs int64
	do       func(s *storm, d time.Duration) error
}

const (
	// minStopMs: a blow before it, or a late tick, may have taken up to this of the beat's age.
	minStopMs = 10.
	maxStopMs = stopMs + roomMs
	// sitMs is from policy to a stand, down and to damping.
	sitMs = 3000.
	// scheduledMs is how long an ordinary thread of the agent may wait for its turn beside programs that keep each core busy.
	scheduledMs = 500.
)

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
	answered   atomic.Int64 // of the calls

	struckUs  int64 // when the last blow was, CLOCK_MONOTONIC
	mu        sync.Mutex
	heldUs    heldUp
	notStruck []string
}

// heldUp is, by process, the longest that a blow held it up, as it was and not as it was asked for.
type heldUp map[int]float64

// notStruck is the error of a blow that this machine does not let us strike.
type notStruck struct{ error }

var blows = []blow{
	{name: "SIGSTOP agent", ms: [2]int{1, 8}, do: func(s *storm, d time.Duration) error { return s.hold(s.agent.cmd.Process.Pid, d) }},
	{name: "deadlock", ms: [2]int{1, 8}, do: (*storm).deadlock},
	{name: "SIGSTOP guard", ms: [2]int{1, 60}, do: func(s *storm, d time.Duration) error { return s.hold(s.guard, d) }},
	{name: "SIGSTOP robot", ms: [2]int{1, 12}, do: func(s *storm, d time.Duration) error { return s.hold(s.robot.cmd.Process.Pid, d) }},
	{name: "busy programs", ms: [2]int{500, 3000}, do: func(s *storm, d time.Duration) error { return s.beside("spin", d, nil, (*used).spun) }},
	{name: "busy memory", ms: [2]int{500, 3000}, do: func(s *storm, d time.Duration) error { return s.beside("eat", d, nil, (*used).ate) }},
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

	{name: "SIGSTOP agent", ms: [2]int{60, 1500}, dueMs: [2]float64{minStopMs, maxStopMs}, does: safety.Damp, names: tripped, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.hold(s.agent.cmd.Process.Pid, d) }},
	{name: "deadlock", ms: [2]int{60, 1500}, dueMs: [2]float64{minStopMs, maxStopMs}, does: safety.Damp, names: tripped, ends: damps, do: (*storm).deadlock},
	{name: "kill -9 agent", dueMs: [2]float64{0, maxStopMs}, does: safety.Damp, ends: damps, stops: true, exit: -1, do: func(s *storm, _ time.Duration) error { return s.signal(unix.SIGKILL) }},
	{name: "SIGABRT agent", dueMs: [2]float64{0, maxStopMs + scheduledMs}, does: safety.Damp, ends: damps, stops: true, exit: 2, do: func(s *storm, _ time.Duration) error { return s.signal(unix.SIGABRT) }},
	{name: "SIGQUIT agent", dueMs: [2]float64{0, scheduledMs}, does: safety.Damp, ends: quiet, stops: true, do: func(s *storm, _ time.Duration) error { return s.signal(unix.SIGQUIT) }},
	{name: "SIGTERM agent", dueMs: [2]float64{sitMs, sitMs + scheduledMs}, does: safety.Sit, ends: quiet, stops: true, do: func(s *storm, _ time.Duration) error { return s.signal(unix.SIGTERM) }},
	{name: "SIGTERM agent twice", ms: [2]int{50, 800}, dueMs: [2]float64{0, scheduledMs}, again: true, does: safety.Damp, ends: quiet, stops: true, do: func(s *storm, d time.Duration) error {
		if err := s.signal(unix.SIGTERM); err != nil {
			return err
		}
		time.Sleep(d)
		return s.signal(unix.SIGTERM)
	}},
	{name: "kill -9 guard", dueMs: [2]float64{sitMs, sitMs + 200}, does: safety.Sit, names: []safety.Fault{safety.GuardLost}, ends: damps, do: func(s *storm, _ time.Duration) error { return unix.Kill(s.guard, unix.SIGKILL) }},
	{name: "SIGSTOP guard", ms: [2]int{300, 1500}, dueMs: [2]float64{sitMs, sitMs + 200}, does: safety.Sit, names: []safety.Fault{safety.GuardLost}, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.hold(s.guard, d) }},
	{name: "SIGSTOP robot", ms: [2]int{80, 800}, dueMs: [2]float64{26, 60}, does: safety.Damp, names: []safety.Fault{safety.StateStale}, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.hold(s.robot.cmd.Process.Pid, d) }},
	{name: "estop settle", dueMs: [2]float64{sitMs, sitMs + scheduledMs}, does: safety.Sit, names: []safety.Fault{safety.OperatorSettle}, ends: damps, do: func(s *storm, _ time.Duration) error { return s.estop("settle") }},
	{name: "estop cut", dueMs: [2]float64{0, scheduledMs}, does: safety.Cut, names: []safety.Fault{safety.OperatorCut}, ends: damps, do: func(s *storm, _ time.Duration) error { return s.estop("cut") }},
	{name: "stranger's pose", ms: [2]int{1500, 2500}, dueMs: [2]float64{0, 700}, does: safety.Damp, names: []safety.Fault{safety.AnotherSender, safety.Tilt, safety.JointSpeed}, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.stranger("pose", d) }},
	{name: "stranger's damping", ms: [2]int{1500, 2500}, dueMs: [2]float64{0, 700}, does: safety.Damp, names: []safety.Fault{safety.AnotherSender, safety.Tilt, safety.JointSpeed}, ends: damps,
		do: func(s *storm, d time.Duration) error { return s.stranger("damping", d) }},
	{name: "drop_state,samples=100", dueMs: [2]float64{26, 60}, does: safety.Damp, names: []safety.Fault{safety.StateStale}, ends: damps, do: (*storm).fault},
	{name: "remote_buttons,buttons=L2+B,samples=20", dueMs: [2]float64{0, 20}, does: safety.Cut, names: []safety.Fault{safety.RemoteStop}, ends: damps, do: (*storm).fault},
	{name: "remote_absent", dueMs: [2]float64{sitMs + 900, sitMs + 1200}, does: safety.Sit, names: []safety.Fault{safety.RemoteAbsent}, ends: damps, do: (*storm).fault},
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

// brief says whether it is over at once.
func (b *blow) brief() bool { return b.ms[1] < 100 }

// kind tells blows apart that have one name.
func (b *blow) kind() string {
	if b.does > safety.None {
		return b.name
	}
	return b.name + " (mild)"
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
		if slices.ContainsFunc(strikes, func(s strike) bool { return s.name == b.name || s.brief() && b.brief() }) {
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

// beside runs a child of this program for a time, and has what it used looked at; nil: that does not matter.
func (s *storm) beside(part string, d time.Duration, started func(pid int) error, did func(*used, time.Duration) error) error {
	in, _, cmd := child(s.t, part)
	if started != nil {
		if err := started(cmd.Process.Pid); err != nil {
			return err
		}
	}
	time.Sleep(d)
	if did != nil {
		u, err := usedBy(cmd.Process.Pid)
		if err == nil {
			err = did(u, d)
		}
		if err != nil {
			return err
		}
	}
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
		// For a moment the eater is gone and its memory not yet back. With nobody else there the kernel would end the agent then.
		spare, _, cmd := child(s.t, "idle")
		err := group.addVictim(cmd.Process.Pid)
		if err == nil {
			err = s.beside("eat", 100*time.Millisecond, group.addVictim, nil)
		}
		if e := spare.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	ended, err := group.ended()
	if err == nil && ended == 0 {
		err = errors.New("the kernel ended nobody for want of memory")
	}
	return err
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
					s.answered.Add(1)
				}
			}
		})
	}
	return nil
}

// fillDisk takes the last bytes that the agent's journal could have, and gives them back when it has tried to write for a time. The journal
// goes on then.
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
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	time.Sleep(d)
	// Of the ten lines a second the last page that the journal has takes some.
	const page, lines = 4096, 3 * time.Second
	size := func() int64 {
		info, e := os.Stat(filepath.Join(s.disk, journalName))
		if err = e; e != nil {
			return 0
		}
		return info.Size()
	}
	if err = s.eventually(lines, func() bool { return size()%page == 0 || err != nil }); err != nil {
		return fmt.Errorf("the journal never met the end of its disk: %w", err)
	}
	full := size()
	if err := os.Remove(more); err != nil {
		return err
	}
	if err = s.eventually(lines, func() bool { return size() > full || err != nil }); err != nil {
		return fmt.Errorf("the journal does not go on when its disk has room again: %w", err)
	}
	return nil
}

// eventually waits for what an agent that lives does within a time.
func (s *storm) eventually(most time.Duration, done func() bool) error {
	for end := time.Now().Add(most); alive(s.agent) && !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v", most)
		}
	}
	return nil
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
		if err := s.dated(at); err != nil && alive(s.agent) {
			return err
		}
		time.Sleep(d / 2)
	}
	return s.wall.jump(0)
}

// dated fails unless the agent dates its answers so many seconds from now, by the clock that it has.
func (s *storm) dated(offset int64) error {
	resp, err := client.Get(s.http + "state")
	if err != nil {
		return err
	}
	resp.Body.Close()
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return err
	}
	const room = 60 // s
	if off := at.Unix() - time.Now().Unix() - offset; off < -room || off > room {
		return fmt.Errorf("the agent dates its answer %v: its wall clock was not moved by %d s", at, offset)
	}
	return nil
}

// mostExcused is the share of the storms in which a machine's stall may have damped the robot.
const mostExcused = 0.1

// TestChaosRealTime draws storms: what other programs, the system and people do to the agent, its guard, the robot and the machine while
// the robot walks. The referee finds nothing in the robot's log, the robot ends as the worst of it says and when it says so, and the agent
// says so or ends as it should. One storm at a time: what one does to the machine is no other's affair. OPENCLAW_SOAK=storms draws 200.
func TestChaosRealTime(t *testing.T) {
	soak := promise.NewWord(t, "storms", 3, 200)
	realTime(t)
	for seed := range soak.Seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { recorded(t, soak, seed, chaosRealTime) })
	}
	var missing, never []string // by kind
	for i := range blows {
		b := &blows[i]
		if n := soak.Total(notStruckKey(b.kind())); n > 0 {
			missing = append(missing, fmt.Sprintf("%s %.0f times", b.kind(), n))
		}
		if soak.Sum(struckKey(b.kind())) == 0 {
			never = append(never, b.kind())
		}
	}
	excused, all := soak.Sum("excused_count"), soak.Sum("storm_count")
	t.Logf("in all: %.0f blows struck, %.0f that this machine did not let us strike (%s); %.0f of %.0f storms in which a stall of the machine damped the robot",
		soak.Total("struck"), soak.Total("not_struck_count"), cmp.Or(strings.Join(missing, ", "), "none"), excused, all)
	if !soak.Full() {
		return
	}
	if len(never) > 0 {
		t.Errorf("never struck: %s", strings.Join(never, ", "))
	}
	if err := capped("storms in which a stall of the machine damped the robot", excused, all, mostExcused); err != nil {
		t.Error(err)
	}
}

// journalName is the agent's journal on a small disk.
const journalName = "agent.jsonl"

func chaosRealTime(t *testing.T, seed uint64, drawn map[string]any) {
	strikes := newStorm(seed)
	t.Logf("seed %d: %v", seed, strikes)
	ask := stallMeter(t)
	s := &storm{heldUs: heldUp{}, robotStops: slices.ContainsFunc(strikes, func(s strike) bool { return s.name == "SIGSTOP robot" })}
	var flags []string
	if slices.ContainsFunc(strikes, func(s strike) bool { return s.name == "disk full" }) {
		if s.disk, s.noDisk = smallDisk(t); s.noDisk == nil {
			flags = []string{"--log", filepath.Join(s.disk, journalName)}
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
	before := len(s.ref.stops)
	began := time.Now()
	var brief, mild sync.WaitGroup
	last := strikes[len(strikes)-1]
	for _, k := range strikes {
		switch {
		case k.does > safety.None:
		case k.brief():
			brief.Go(func() { s.strike(k, began) })
		default:
			mild.Go(func() { s.strike(k, began) })
		}
	}
	var at moment
	if last.does > safety.None {
		const ahead = 300 * time.Millisecond // that a look takes
		time.Sleep(time.Until(began.Add(last.at - ahead)))
		brief.Wait()
		at = s.look(ask)
		s.strike(last, began)
		at.us = s.struckUs
	}
	brief.Wait()
	mild.Wait()
	s.calls.Wait()
	drawn["struck"], drawn["not_struck"], drawn["not_struck_count"] = len(strikes)-len(s.notStruck), s.notStruck, len(s.notStruck)
	for _, k := range strikes {
		if slices.Contains(s.notStruck, k.kind()) {
			drawn[notStruckKey(k.kind())] = 1
		} else {
			drawn[struckKey(k.kind())] = 1
		}
	}
	if slices.ContainsFunc(strikes, func(k strike) bool { return k.name == "HTTP flood" }) && s.answered.Load() == 0 {
		t.Error("HTTP flood: the agent answered none")
	}
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
	for _, k := range strikes {
		if k.isFault() && s.began(k.name) < 0 {
			t.Errorf("%s is not in the robot's log", k.name)
		}
	}
	at.t = -1
	switch {
	case last.isFault():
		at.t = s.began(last.name)
	case last.stranger():
		at.t = s.ref.strangeAt
	}
	if stops := s.ref.stops[before:]; len(stops) > 0 {
		drawn["stopped_ms"] = at.ms(&stops[0])
		t.Logf("damped %.1f ms after %v; the machine's longest stall %.0f us before, %.0f us since", at.ms(&stops[0]), last, at.machine.MaxUs, machine.MaxUs)
	}
	if excused := s.outcome(last, before, &at, &machine, ended); excused != "" {
		drawn["excused"], drawn["excused_count"] = excused, 1
	}
	drawn["storm_count"], drawn["stall_max_us"], drawn["stall_p99_us"] = 1, max(machine.MaxUs, at.machine.MaxUs), max(machine.P99Us, at.machine.P99Us)
	if len(s.notStruck) == len(strikes) {
		t.Skip("not done: this machine let us strike none of its blows")
	}
}

// strike does a blow at its time.
func (s *storm) strike(k strike, began time.Time) {
	time.Sleep(time.Until(began.Add(k.at)))
	if k.does > safety.None {
		s.struckUs = monotonicUs()
	}
	if k.isFault() {
		s.stood(s.robot.cmd.Process.Pid, held{0, k.silentUs})
		s.inject(k.name + "@now")
		return
	}
	err := k.do(s, k.d)
	if no := (notStruck{}); errors.As(err, &no) {
		s.t.Logf("%v was not struck: %v", k, err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.notStruck = append(s.notStruck, k.kind())
	} else if err != nil {
		s.t.Errorf("%v: %v", k, err)
	}
}

// moment is when the last blow came, and what was before it.
type moment struct {
	us      int64   // CLOCK_MONOTONIC, before it
	t       float64 // s, when the robot's log shows it; -1 for what it does not show
	fault   string  // that the agent told of already
	machine stalls  // since it was asked to walk
	held    heldUp  // by what should have done nothing
}

// ms is from the blow to a stop.
func (m *moment) ms(s *stop) float64 {
	if m.t >= 0 {
		return (s.t - m.t) * 1e3
	}
	return float64(s.dampUs-m.us) / 1e3
}

// look is what there is to see before the last blow: nothing should have acted. Stalls are measured anew from here.
func (s *storm) look(ask func() stalls) (m moment) {
	s.t.Helper()
	m.machine = s.machine(ask)
	st := s.state()
	m.fault = st.fault()
	s.mu.Lock()
	defer s.mu.Unlock()
	m.held = maps.Clone(s.heldUs)
	return m
}

// began is when a fault of the robot did, s of its log; -1: it has not.
func (s *storm) began(name string) float64 {
	s.t.Helper()
	f, err := virtual.ParseFault(name + "@now")
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range s.seen {
		if e := &s.seen[i]; e.Event == "fault" && e.On && e.Fault == f.String() {
			return e.T
		}
	}
	return -1
}

// struckKey and notStruckKey are figures of a case's line: that one kind of blow was struck, or was not.
func struckKey(kind string) string { return "struck: " + kind }

func notStruckKey(kind string) string { return "not_struck: " + kind }

// machine is its longest stall since it was asked before.
func (s *storm) machine(ask func() stalls) stalls {
	s.t.Helper()
	s.sync()
	if s.robotStops { // its thread stood still because we stopped it
		s.ref.stallMs = 0
	}
	return s.measure(ask)
}

func (s *strike) isFault() bool { return strings.Contains(s.name, ",") || s.name == "remote_absent" }

func (b *blow) stranger() bool { return strings.HasPrefix(b.name, "stranger") }

// excuse is what a fault that the blows do not ask for did, if the machine's stall, or what it added to a blow that holds something up,
// explains it.
func (s *storm) excuse(fault string, machine float64, by heldUp) (does safety.Severity, ok bool) {
	agent, guard, robot := by[s.agent.cmd.Process.Pid], by[s.guard], by[s.robot.cmd.Process.Pid]
	const (
		lateUs = 18e3 // of 20 ms, less a period
		lostUs = 95e3 // of the 100 ms after which a guard is missed
	)
	switch {
	case stalled(fault, machine), isOne(tripped, fault) && agent+machine >= lateUs,
		fault == safety.StateStale.String() && robot+machine >= staleUs:
		return safety.Damp, true
	case fault == safety.GuardLost.String() && guard+machine >= lostUs:
		return safety.Sit, true
	}
	return safety.None, false
}

// excuses are what a stall may do; of them one.
var excuses = slices.Concat(tripped, []safety.Fault{safety.GuardLost, safety.StateStale})

// sitting is longer than it takes from policy to a stand, down and to damping.
const sitting = 3500 * time.Millisecond

// stopped judges when the blow stopped the robot, which walked until then: by what was before it, and by the first damping frame behind
// it, which is due on a machine that stood still for so long meanwhile. It gives the stall of the machine that came before the blow, by
// the fault's name.
func (s *storm) stopped(last *strike, before int, at *moment, machine *stalls, said string) (excused string) {
	early := s.ref.due(last, before, at, machine.MaxUs)
	fault, us := at.fault, at.machine.MaxUs
	if fault == "" && early { // between the look and the blow: an agent that is not there any more says no name
		fault, us = said, machine.MaxUs
		if said == "" {
			fault = safety.LoopLate.String()
		}
	}
	if fault == "" {
		return ""
	}
	if _, ok := s.excuse(fault, us, at.held); !ok {
		s.ref.say("early", "fault %q before %v; the machine's longest stall %.0f us, blows held up for %v us", fault, last, us, at.held)
		return ""
	}
	return fault
}

// due judges the first damping frame behind a blow, and says whether it came before it could have been its doing. A machine that stood
// still for so long may have been late with it, once where the cause is seen and once where it is sent.
func (r *referee) due(last *strike, before int, at *moment, stallUs float64) (early bool) {
	stops := r.stops[min(before, len(r.stops)):]
	if len(stops) == 0 {
		r.say("time", "%v: it was never damped", last)
		return false
	}
	from, to := last.dueMs[0], last.dueMs[1]
	if last.again {
		d := float64(last.d) / 1e6
		from, to = from+d, to+d
	}
	ms := at.ms(&stops[0])
	if to += 2 * stallUs / 1e3; ms > to {
		r.say("time", "%v: damped %.1f ms after it, want %.0f..%.1f", last, ms, from, to)
	}
	return ms < from-stampUs/1e3
}

// outcome judges the end of a storm, and says what a stall of the machine did that no blow asked for. before are the stops there were when
// it walked; endedUs is when an agent had ended that was to, CLOCK_MONOTONIC.
func (s *storm) outcome(last strike, before int, at *moment, machine *stalls, endedUs int64) (excused string) {
	t := s.t
	t.Helper()
	if !last.stops && last.does == safety.Damp && slices.Equal(last.names, tripped) && !alive(s.agent) {
		t.Log("the guard ended the agent, which was stopped between its last look and the kernel")
		last.stops, last.exit = true, -1
	}
	if last.stops {
		if excused = s.stopped(&last, before, at, machine, ""); excused != "" {
			t.Logf("the machine stood still for %.0f us before %v: %s", max(at.machine.MaxUs, machine.MaxUs), last, excused)
		}
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
		return excused
	}
	st := s.state()
	want, names, severities := walks, []safety.Fault{safety.NoFault}, []string{"none"}
	if last.does > safety.None {
		want, names, severities = last.ends, last.names, []string{last.does.String()}
		if excused = s.stopped(&last, before, at, machine, st.fault()); excused != "" { // what is more severe stays
			names, severities = slices.Concat(names, excuses), append(severities, safety.Damp.String(), safety.Sit.String())
		}
	}
	if does, ok := s.excuse(st.fault(), machine.MaxUs, s.heldUs); ok && excused == "" && !isOne(names, st.fault()) {
		excused = st.fault()
		want, names, severities = damps, excuses, []string{does.String()}
		if does == safety.Sit {
			time.Sleep(sitting + time.Duration(closing*float64(time.Second)))
			s.sync()
		}
	}
	if excused != "" {
		t.Logf("the machine stood still for %.0f us, and blows held up for %v us: %s", max(at.machine.MaxUs, machine.MaxUs), s.heldUs, excused)
	}
	s.judge(want)
	if fault := st.fault(); !slices.ContainsFunc(names, func(f safety.Fault) bool { return f.String() == fault || f == safety.NoFault && fault == "" }) || !slices.Contains(severities, st.Severity) {
		t.Errorf("the agent says severity %s, fault %q, want one of %v, one of %v; the machine's longest stall %.0f us, held %v us", st.Severity, fault, severities, names, machine.MaxUs, s.heldUs)
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
