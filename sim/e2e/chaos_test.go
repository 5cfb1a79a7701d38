package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/sim/virtual"
)

// bench is a virtual robot that logs every frame and an agent beside it, with a person's acts marked in the robot's log and a referee who
// reads it.
type bench struct {
	*pair
	agentArgs []string
	real      bool
	policy    string
	log       logTail
	ref       referee
	seen      []entry // all but frames
	guard     int     // its process, in real time
	guardEnd  int     // the kernel's handle on it, readable when it has ended; its number may then be another's
	stallMs   float64 // the machine's longest, as measured last
}

// benchSetup of a bench.
type benchSetup struct {
	real         bool
	seed         uint64
	faults       []string
	agent, robot []string // flags beyond the usual
}

// newBench starts both programs. Nobody has armed.
func newBench(t *testing.T, s benchSetup) *bench {
	t.Helper()
	b := &bench{pair: &pair{t: t, dir: t.TempDir()}, real: s.real, policy: contracttest.Policy(t, policyName), agentArgs: s.agent}
	b.ref.lockstep = !s.real
	b.log.path = b.pair.log()
	args := []string{"robot", "--json", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--log", b.log.path, "--log-every-frame",
		"--seed", fmt.Sprint(s.seed), "--fault", "remote_sticks,ly=0.8@0"}
	if !s.real {
		args = append(args, "--lockstep")
	}
	for _, f := range s.faults {
		args = append(args, "--fault", f)
	}
	b.robot = launch(t, "clawsim", append(args, s.robot...)...)
	b.low, b.ctl = b.robot.ready["low"].(string), "http://"+b.robot.ready["control"].(string)
	b.startAgent()
	return b
}

// startAgent starts an agent, without arming.
func (b *bench) startAgent() {
	b.t.Helper()
	args := []string{"run", "--json", "--robot", "udp://" + b.low, "--policy", b.policy, "--http", "127.0.0.1:0"}
	if !b.real {
		args = append(args, "--lockstep", "--set", "control.lockstep_wait_ms=60000")
	}
	b.agent = launch(b.t, "clawagent", append(args, b.agentArgs...)...)
	http, ok := b.agent.ready["http"].(string)
	if !ok {
		b.t.Fatalf("the agent did not start: %v", b.agent.ready)
	}
	b.http = "http://" + http + "/api/v1/"
	if b.real {
		guard, _ := b.agent.ready["guard"].(map[string]any)
		pid, _ := guard["pid"].(float64)
		if pid == 0 {
			b.t.Fatalf("the agent has no guard: %v", b.agent.ready)
		}
		if b.guard == 0 {
			b.t.Cleanup(b.endGuard)
		}
		b.guards(int(pid))
	}
}

// guards takes the process that the agent says is its guard.
func (b *bench) guards(pid int) {
	b.t.Helper()
	if pid == b.guard {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		b.t.Fatalf("guard, process %d: %v", pid, err)
	}
	b.t.Cleanup(func() { _ = unix.Close(fd) })
	b.guard, b.guardEnd = pid, fd
}

// does marks an act in the robot's log, before it is done.
func (b *bench) does(a act) {
	b.t.Helper()
	b.ref.story = append(b.ref.story, a)
	b.inject(mark) // in force with the robot's next step
	if b.moves() {
		from := b.status().T
		until(b.t, "a step of the robot", func() bool { return b.status().T >= from+2*tickMs/1e3 })
	}
}

// soon waits as until does, looking less often: each look is two requests, and time the programs lack.
func (b *bench) soon(what string, done func() bool) {
	b.t.Helper()
	until(b.t, what, func() bool {
		if done() {
			return true
		}
		time.Sleep(8 * time.Millisecond)
		return false
	})
}

// runTo lets the robot live until its clock shows t seconds, or a little more.
func (b *bench) runTo(t float64) {
	b.t.Helper()
	b.soon(fmt.Sprintf("%.1f s of robot time", t), func() bool { return b.status().T >= t })
	b.until = t
}

// moves says whether the robot's time goes on.
func (b *bench) moves() bool {
	return b.real || b.ref.armed || slices.Contains(b.ref.story[:len(b.ref.story)-1], arms)
}

// arm lets frames out and waits until the robot answers.
func (b *bench) arm() {
	b.t.Helper()
	b.does(arms)
	b.must("arm", "{}")
	b.soon("states from the robot", func() bool { s := b.state(); return s.Loop.States >= 10 && s.Remote.Present })
}

// walk is a person's way to a walking robot, from where it is damped on its belly.
func (b *bench) walk() {
	b.t.Helper()
	if fault := b.tryWalk(); fault != "" {
		b.t.Fatalf("before it walked: fault %q", fault)
	}
}

// tryWalk is walk, and gives the fault that ended it.
func (b *bench) tryWalk() (fault string) {
	b.t.Helper()
	b.does(stands)
	b.soon("damp", func() bool {
		s := b.state()
		code, answer := b.damp(&s)
		if code != 200 && !(code == 409 && strings.Contains(answer, `"tripped"`)) { // the guard has tripped since
			b.t.Fatalf("damp: %d %s", code, answer)
		}
		return code == 200
	})
	said, asked, before := "", 0, len(b.seen)
	b.soon("standing up", func() bool {
		if asked++; b.real && asked > 2 { // for which there is time: what was latched before is gone a tick after damp
			if s := b.state(); s.fault() != "" {
				fault = s.fault()
				return true
			}
		}
		code, answer := b.post("mode", `{"mode":"stand"}`)
		if said = answer; code != 200 && code != 409 {
			b.t.Fatalf("stand: %d %s", code, answer)
		}
		return code == 200
	})
	if fault != "" {
		return fault
	}
	b.soon("standing ("+said+")", func() bool {
		s := b.state()
		fault = s.fault()
		return fault != "" || s.Phase == "ready" && b.status().Posture == "standing"
	})
	if fault != "" {
		return fault
	}
	if code, answer := b.post("mode", `{"mode":"policy"}`); code != 200 {
		s := b.state()
		if s.fault() == "" {
			b.t.Fatalf("policy: %d %s", code, answer)
		}
		return s.fault()
	}
	b.soon("walking", func() bool {
		walking := b.status().Posture == "walking"
		if s := b.state(); !walking {
			fault = s.fault()
		}
		if fault != "" && !b.real { // in lockstep it may have walked, and met its first trouble, between the two looks
			b.read()
			walking = slices.ContainsFunc(b.seen[before:], func(e entry) bool { return e.Event == "walking" })
			if walking {
				fault = ""
			}
		}
		return walking || fault != ""
	})
	return fault
}

// tries that a robot in real time gets on a machine that stands still so long by itself that the robot is damped before anything was done.
const tries = 4

const (
	stallUs = 12e3 // of a machine, at which its loop may be late: it takes 18 ms, and what is measured is not all
	staleUs = 35e3 // at which states may be too old, which takes 40 ms
)

// tripped is what is said of an agent that stood still.
var tripped = []safety.Fault{safety.GuardTripped, safety.LoopLate}

func isOne(faults []safety.Fault, name string) bool {
	return slices.ContainsFunc(faults, func(f safety.Fault) bool { return f.String() == name })
}

// stalled says whether a machine that stood still for so long may be the reason of a fault.
func stalled(fault string, us float64) bool {
	return isOne(tripped, fault) && us >= stallUs || fault == safety.StateStale.String() && us >= staleUs
}

// fresh begins to measure the machine's stalls.
func (b *bench) fresh(ask func() stalls) {
	b.t.Helper()
	b.sync()
	b.ref.stallMs = 0
	ask()
}

// measure is the machine's longest stall since fresh: the meter's, or of the robot's own thread.
func (b *bench) measure(ask func() stalls) (machine stalls) {
	b.t.Helper()
	b.sync()
	machine = ask()
	machine.MaxUs = max(machine.MaxUs, b.ref.stallMs*1e3)
	b.stallMs = machine.MaxUs / 1e3
	return machine
}

// walkAnyway is walk on a machine that may stand still: what its stall explains is tried again, anything else ends the test. false: it
// stood still each time.
func (b *bench) walkAnyway(ask func() stalls) bool {
	b.t.Helper()
	for try := range tries {
		if try > 0 {
			b.layDown()
		}
		b.fresh(ask)
		fault := b.tryWalk()
		if fault == "" {
			return true
		}
		machine := b.measure(ask)
		if !stalled(fault, machine.MaxUs) {
			b.t.Fatalf("before it walked: fault %q; the machine's longest stall was %.0f us", fault, machine.MaxUs)
		}
		b.t.Logf("before it walked: fault %q, because the machine stood still for %.0f us: once more", fault, machine.MaxUs)
	}
	return false
}

// layDown ends all faults and puts the robot on its belly, as a person would who has looked at it.
func (b *bench) layDown() {
	b.t.Helper()
	b.inject("clear@now")
	b.steps(2)
	b.inject("restart@now")
	b.inject("remote_sticks,ly=0.8@now")
	b.steps(100)
}

// steps lets the robot's time go on.
func (b *bench) steps(n int) {
	b.t.Helper()
	b.runTo(b.status().T + float64(n)*tickMs/1e3)
}

// read lets the referee read what has come to the robot's log, of which the robot writes all up to the time of runTo.
func (b *bench) read() {
	b.t.Helper()
	b.soon("the robot's log", func() bool {
		entries, err := b.log.next()
		if err != nil {
			b.t.Fatal(err)
		}
		for i := range entries {
			b.ref.see(&entries[i])
			if entries[i].Event != "frame" {
				b.seen = append(b.seen, entries[i])
			}
		}
		return b.ref.t >= b.until-0.03
	})
}

// judge fails the test for what the referee says.
func (b *bench) judge(want outcome) {
	b.t.Helper()
	b.read()
	b.ref.ends(want, b.fewest())
	b.complain()
}

// fewest are half of the frames that a second has, less what a machine that stood still may have kept from coming.
func (b *bench) fewest() int { return max(250-int(b.stallMs), 1) }

// quietSince fails the test if a frame came to the robot behind the end of its agent, us of CLOCK_MONOTONIC, and watches for a second.
func (b *bench) quietSince(endedUs int64) {
	b.t.Helper()
	b.soon("a quiet second", func() bool { return monotonicUs() >= endedUs+int64(closing*1e6) })
	b.sync()
	b.ref.endedUs = endedUs
	b.ref.ends(quiet, 0)
	b.complain()
}

func (b *bench) complain() {
	b.t.Helper()
	for _, s := range b.ref.said {
		b.t.Errorf("the robot's log: %s", s)
	}
	b.ref.said = nil
}

// walkedAt is when it first walked.
func (b *bench) walkedAt() float64 {
	b.t.Helper()
	for {
		b.read()
		for _, e := range b.seen {
			if e.Event == "walking" {
				return e.T
			}
		}
		b.steps(50)
	}
}

// exit is a program's exit code, -1 for one that a signal ended.
func (p *program) exit() int {
	<-p.done
	var exit *exec.ExitError
	if errors.As(p.state, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// recorded runs one case of a soak, in a subtest of its own, and takes down what came of it at its end, however it ends: the case fills
// drawn with what it drew and saw. One that skips is not done.
func recorded(t *testing.T, soak *promise.Soak, seed uint64, one func(t *testing.T, seed uint64, drawn map[string]any)) {
	drawn := map[string]any{}
	t.Cleanup(func() {
		recording.Lock()
		defer recording.Unlock()
		if t.Skipped() && !t.Failed() {
			soak.NotDone(seed, drawn)
		} else {
			soak.Done(seed, !t.Failed(), drawn)
		}
	})
	one(t, seed, drawn)
}

var recording sync.Mutex // of cases that run at once

// inTurn runs the cases of a soak as parallel subtests, and takes their outcomes down one at a time.
func inTurn(t *testing.T, soak *promise.Soak, one func(t *testing.T, seed uint64, drawn map[string]any)) {
	t.Run("all", func(t *testing.T) {
		for seed := range soak.Seeds() {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				recorded(t, soak, seed, one)
			})
		}
	})
}

// TestChaosLockstep draws schedules of troubles for a walking robot. Whatever comes, the referee finds nothing in the robot's log, the
// robot ends as the most severe of them says, the agent names one of them, a person walks it again, and the agent ends well.
// OPENCLAW_SOAK=chaos draws 600.
func TestChaosLockstep(t *testing.T) {
	t.Parallel()
	soak := promise.NewWord(t, "chaos", 4, 600)
	inTurn(t, soak, chaosLockstep)
	for by, most := range mostHarm {
		n, calm := soak.Sum(harmKey(by)), soak.Sum("calm_count")
		t.Logf("in all: %.0f of %.0f robots to which nothing had to happen came to harm (%s)", n, calm, by)
		if err := capped(fmt.Sprintf("robots that came to harm (%s)", by), n, calm, most); err != nil && soak.Full() {
			t.Error(err)
		}
	}
}

// harmKey is a figure of a case's line: that the robot came to harm.
func harmKey(by harm) string { return "harm: " + string(by) }

func chaosLockstep(t *testing.T, seed uint64, drawn map[string]any) {
	s := newSchedule(seed)
	t.Log(s)
	turns <- struct{}{}
	t.Cleanup(func() { <-turns })
	var faults []string
	for _, e := range s.events {
		faults = append(faults, e.text)
	}
	b := newBench(t, benchSetup{seed: seed, faults: faults})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v\nThe robot's log ends with\n%s", s, tail(events(b.logBytes()), 15))
		}
	})
	if st := b.state(); st.Mode != "idle" || st.Loop.Sent != 0 {
		t.Errorf("before anybody armed: mode %s, %d frames", st.Mode, st.Loop.Sent)
	}
	b.arm()
	b.walk()
	w := b.walkedAt()
	const sitting = 4.5 // s, of a fault that lasts a second or two, and the way down
	b.runTo(w + chaosSpan + sitting + 1 + closing)
	st := b.state()
	b.read()
	want, by := b.ref.lockstepEnd(s, w, &st)
	b.judge(want)
	b.allHappened(s)
	drawn["events"], drawn["does"], drawn["fault"] = len(s.events), s.does().String(), st.fault()
	if stops := b.ref.stops; len(stops) > 0 {
		drawn["stopped_s"] = math.Round((stops[0].t-w)*1e3) / 1e3
	}
	if s.does() == safety.None {
		drawn["calm_count"] = 1
	}
	if by != unharmed {
		drawn[harmKey(by)] = 1
		t.Logf("came to harm: tilt %.2f rad, fault %s, %s", b.ref.up.tilt, st.fault(), st.Severity)
	}
	if t.Failed() {
		return
	}

	if st.fault() != "" {
		b.layDown()
		b.walk()
		b.steps(500)
		b.judge(walks)
		if st := b.state(); st.fault() != "" {
			t.Errorf("walking again: mode %s, fault %q", st.Mode, st.fault())
		}
	}
	b.agent.end()
	b.robot.end()
	if code := b.agent.exit(); code != 0 {
		t.Errorf("the agent ended with exit code %d", code)
	}
}

// allHappened fails for what the schedule asked for and the robot's log does not have.
func (b *bench) allHappened(s *schedule) {
	b.t.Helper()
	for _, e := range s.events {
		f, err := virtual.ParseFault(e.text)
		if err != nil {
			b.t.Fatal(err)
		}
		if !slices.ContainsFunc(b.seen, func(r entry) bool { return r.Event == "fault" && r.On && r.Fault == f.String() }) {
			b.t.Errorf("%s is not in the robot's log", e.text)
		}
	}
}

// alive says whether a program has not ended.
func alive(p *program) bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// realTime skips on a system that does not let the programs come before others: there nothing can be said about times.
func realTime(t *testing.T) {
	t.Helper()
	refused := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its priority
		refused <- unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: loopPriority}, 0)
	}()
	if err := <-refused; err != nil {
		t.Skipf("needs the right to SCHED_FIFO %d (CAP_SYS_NICE, or RLIMIT_RTPRIO): %v", loopPriority, err)
	}
}

// guardPID is the process of the guard that the agent has now.
func (b *bench) guardPID() int {
	b.t.Helper()
	var s struct {
		Guard struct {
			PID int `json:"pid"`
		} `json:"guard"`
	}
	code, body, err := call("GET", b.http+"state", "")
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil || code != 200 {
		b.t.Fatalf("GET state: %d %v", code, err)
	}
	return s.Guard.PID
}

// guardEnds waits for the guard of an agent that has ended in order: its robot has shown that it is damped. Where the robot has not, the
// agent says so by its exit code, and the guard goes on for ten minutes beside a robot that is silent and for ever beside one that answers:
// that one endGuard ends.
func (b *bench) guardEnds() {
	b.t.Helper()
	if b.agent.exit() != 0 {
		return
	}
	until(b.t, "the guard's end", func() bool {
		fds := []unix.PollFd{{Fd: int32(b.guardEnd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n == 1
	})
}
