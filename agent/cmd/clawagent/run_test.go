package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

// dampFrames is half a second of damping at 500 Hz.
const dampFrames = 250

// summary is the last line of `clawagent run --json`.
type summary struct {
	Frames     *uint64  `json:"frames"`
	Ticks      uint64   `json:"ticks"`
	Missed     *uint64  `json:"missed"`
	GuardTrips *uint64  `json:"guard_trips"`
	LoopP99Us  *float64 `json:"loop_p99_us"`
	RxToTxP50  *float64 `json:"rx_to_tx_p50_us"`
	Fault      string   `json:"fault"`
	Mode       string   `json:"mode"`
}

func (r result) summary(t *testing.T) (s summary) {
	t.Helper()
	r.lastJSON(t, &s)
	// The names that `make demo` reads (design.md section 9).
	if s.Frames == nil || s.Missed == nil || s.GuardTrips == nil || s.LoopP99Us == nil || s.RxToTxP50 == nil {
		t.Fatalf("a figure is missing in the last line:\n%s", r.stdout)
	}
	return s
}

// lastRun is how many frames at the end are of one class, and that class.
func lastRun(robot *linktest.Robot) (class linktest.Class, n int) {
	frames := robot.Frames()
	for i := len(frames) - 1; i >= 0; i-- {
		if n > 0 && frames[i].Class != class {
			break
		}
		class = frames[i].Class
		n++
	}
	return class, n
}

// TestInterruptInIdle: nobody armed it, so nothing was sent, and it ends at once.
func TestInterruptInIdle(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(s) { // nohup: ignored by all that start from here
			continue
		}
		robot := lyingRobot(t)
		a := startAgent(t, robot.Addr())
		a.signal(s)
		r := a.wait()
		if sum := r.summary(t); r.code != 0 || *sum.Frames != 0 || sum.Mode != "idle" || robot.Count() != 0 {
			t.Errorf("%v: exit code %d, %d frames, mode %s", s, r.code, robot.Count(), sum.Mode)
		}
	}
}

// TestInterruptStanding: the first signal sits the robot down, and damping is sent for half a second before the end.
func TestInterruptStanding(t *testing.T) {
	robot := lyingRobot(t)
	a := startAgent(t, robot.Addr(), "--lockstep")
	a.stand()
	standing := robot.Count()
	a.signal(os.Interrupt)
	r := a.wait()
	sum := r.summary(t)
	if r.code != 0 || *sum.Frames != robot.Count() || sum.Fault != "none" {
		t.Errorf("exit code %d, %d frames of which %d arrived, fault %s", r.code, *sum.Frames, robot.Count(), sum.Fault)
	}
	if class, n := lastRun(robot); class != linktest.Damping || n < dampFrames {
		t.Errorf("the last %d frames are %v, want %d of damping", n, class, dampFrames)
	}
	// Sitting down is 1.5 s from home to folded; damping at once would have shown no torque frame after the signal.
	if n := count(robot, standing, linktest.Torque); n < 700 {
		t.Errorf("%d torque frames after the signal, want those of sitting down", n)
	}
	if s := robot.State(); s.Motor[2].Q > -2.4 {
		t.Errorf("the calf is at %.2f rad, want it folded", s.Motor[2].Q)
	}
}

// TestTwoInterruptsDampAtOnce: the second signal ends the sitting down.
func TestTwoInterruptsDampAtOnce(t *testing.T) {
	robot := lyingRobot(t)
	// In lockstep the agent waits for each answer, so the robot decides how far it comes between two signals.
	a := startAgent(t, robot.Addr(), "--lockstep", "--set", "control.lockstep_wait_ms=60000")
	a.stand()
	robot.Mute(true)
	a.signal(os.Interrupt)
	a.says("sitting down first")
	const sitting = 100
	from := robot.Count()
	robot.Drop(func(number uint64) bool { return number >= from+sitting })
	wake(t, robot)
	if !robot.Await(from+sitting, patience) {
		t.Fatal("no frames after the first signal")
	}
	if n := count(robot, from, linktest.Torque); n < sitting-1 {
		t.Errorf("%d torque frames after the first signal, want %d of sitting down", n, sitting)
	}
	a.signal(os.Interrupt)
	a.says("damping at once\"")
	robot.Drop(nil)
	wake(t, robot)
	r := a.wait()
	if sum := r.summary(t); r.code != 0 || sum.Mode != "damp" {
		t.Errorf("exit code %d, mode %s", r.code, sum.Mode)
	}
	if n := count(robot, from+sitting, linktest.Torque); n != 0 {
		t.Errorf("%d torque frames after the second signal", n)
	}
	if class, n := lastRun(robot); class != linktest.Damping || n < dampFrames {
		t.Errorf("the last %d frames are %v, want %d of damping", n, class, dampFrames)
	}
}

// wake lets an agent go on that waits for an answer which was dropped.
func wake(t *testing.T, robot *linktest.Robot) {
	t.Helper()
	frame, err := robot.Frame()
	if err == nil {
		err = robot.Send(frame)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// count is how many frames behind a number are of a class.
func count(robot *linktest.Robot, after uint64, class linktest.Class) (n int) {
	for _, f := range robot.Frames() {
		if f.Number > after && f.Class == class {
			n++
		}
	}
	return n
}

// TestKilledAgent: nothing in a killed process can send another frame, so without a guard, as in lockstep, the robot goes on with the last
// one; TestGuardDampsForAKilledAgent is the other case. The journal is whole up to the end, and the robot free for another agent.
func TestKilledAgent(t *testing.T) {
	robot := lyingRobot(t)
	name := filepath.Join(t.TempDir(), "agent.jsonl")
	a := startAgent(t, robot.Addr(), "--lockstep", "--log", name)
	a.stand()
	a.signal(syscall.SIGKILL)
	<-a.ended
	last, ok := robot.LastFrame()
	if !ok || last.Class != linktest.Torque {
		t.Errorf("the last frame is %v, want the torque that the robot now keeps", last.Class)
	}

	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	samples, modes := 0, ""
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		var l struct {
			Time, Level, Msg string
			Mode             string
			Phase            string
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Time == "" || l.Level == "" || l.Msg == "" {
			t.Fatalf("line %d of the journal: %v\n%s", i+1, err, line)
		}
		switch l.Msg {
		case "sample":
			samples++
		case "mode":
			modes += " " + l.Mode
		}
	}
	if samples == 0 || !strings.Contains(modes, "stand") {
		t.Errorf("%d samples, modes%s in\n%s", samples, modes, text)
	}

	b := startAgent(t, robot.Addr(), "--lockstep")
	b.post("/api/v1/arm", "{}")
	b.until("the next agent hears states", func(s *state) bool { return s.Loop.States >= 10 })
}

// TestJournalIsForThisRun: an agent that begins anew begins its file anew, and standard error stays for people.
func TestJournalIsForThisRun(t *testing.T) {
	robot := lyingRobot(t)
	name := filepath.Join(t.TempDir(), "agent.jsonl")
	if err := os.WriteFile(name, []byte("of an earlier run\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := startAgent(t, robot.Addr(), "--lockstep", "--log", name, "--arm")
	a.until("armed", func(s *state) bool { return s.Mode == "listen" && s.Loop.States > 0 })
	a.signal(os.Interrupt)
	r := a.wait()
	text, err := os.ReadFile(name)
	if err != nil || strings.Contains(string(text), "earlier run") {
		t.Errorf("%v\n%s", err, text)
	}
	if !strings.Contains(string(text), `"why":"signal: interrupt"`) || !strings.Contains(r.stderr, "msg=mode") || strings.Contains(r.stderr, "sample") {
		t.Errorf("journal:\n%s\nstandard error:\n%s", text, r.stderr)
	}
	if count(robot, 0, linktest.Torque) != 0 || r.code != 0 {
		t.Errorf("exit code %d, frames other than damping", r.code)
	}
}

// TestSecondAgentLeavesTheFirstAlone: started by mistake with the same command line, it ends and has touched neither the robot
// nor the journal.
func TestSecondAgentLeavesTheFirstAlone(t *testing.T) {
	robot := lyingRobot(t)
	name := filepath.Join(t.TempDir(), "agent.jsonl")
	a := startAgent(t, robot.Addr(), "--lockstep", "--log", name)
	a.stand()
	before, err := os.ReadFile(name)
	if err != nil || len(before) == 0 {
		t.Fatalf("journal: %v, %d bytes", err, len(before))
	}
	r := clawagent(t, "run", "--arm", "--robot", "udp://"+robot.Addr().String(), "--http", "127.0.0.1:0", "--lockstep", "--log", name)
	if r.code != 1 || !strings.Contains(r.stderr, "another agent (process "+strconv.Itoa(a.cmd.Process.Pid)+")") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if after, err := os.ReadFile(name); err != nil || !strings.HasPrefix(string(after), string(before)) {
		t.Errorf("the journal of the first agent was changed: %v", err)
	}
	if s := a.state(); s.Mode != "stand" || s.Fault != nil {
		t.Errorf("mode %s, fault %v", s.Mode, s.Fault)
	}
	from := ""
	for _, f := range robot.Frames() {
		if from != "" && f.From.String() != from {
			t.Fatalf("frames from %s and %s", from, f.From)
		}
		from = f.From.String()
	}
}

// TestInterruptUnconfirmed: a robot that no longer answers cannot show that it was damped, and the agent says so.
func TestInterruptUnconfirmed(t *testing.T) {
	robot := lyingRobot(t)
	a := startAgent(t, robot.Addr(), "--lockstep", "--set", "control.lockstep_wait_ms=1", "--arm")
	a.until("states come", func(s *state) bool { return s.Loop.States > 0 })
	robot.Mute(true)
	a.signal(os.Interrupt)
	r := a.wait()
	r.summary(t)
	if class, n := lastRun(robot); r.code != 1 || !strings.Contains(r.stderr, "no state from the robot confirmed it") || class != linktest.Damping || n < dampFrames {
		t.Errorf("exit code %d, the last %d frames are %v: %s", r.code, n, class, r.stderr)
	}
}

// TestRunLeavesSportModeStanding: neither a start, nor arming, nor a second agent brings a robot down that stands by itself.
func TestRunLeavesSportModeStanding(t *testing.T) {
	robot := linktest.New(t, linktest.Config{Sport: true})
	end := func(a *agent) {
		t.Helper()
		a.signal(os.Interrupt)
		if r := a.wait(); r.code != 0 || *r.summary(t).Frames != 0 {
			t.Errorf("exit code %d, %d frames", r.code, *r.summary(t).Frames)
		}
	}

	idle := startAgent(t, robot.Addr())
	second := clawagent(t, "run", "--arm", "--robot", "udp://"+robot.Addr().String(), "--http", "127.0.0.1:0")
	if second.code != 1 || !strings.Contains(second.stderr, "another agent (process "+strconv.Itoa(idle.cmd.Process.Pid)+")") {
		t.Errorf("the second agent: exit code %d: %s", second.code, second.stderr)
	}
	if status, answer := idle.try("/api/v1/arm", "{}"); status != 409 || !strings.Contains(answer, "sport mode is on") {
		t.Errorf("arm: %d %s", status, answer)
	}
	if s := idle.state(); s.Mode != "idle" {
		t.Errorf("mode %s", s.Mode)
	}
	end(idle)

	armed := startAgent(t, robot.Addr(), "--arm")
	armed.says("not armed")
	end(armed)
	unfelled(t, robot)

	// Once a person has left sport mode with the hand remote, the same agent may be armed.
	again := startAgent(t, robot.Addr(), "--lockstep")
	robot.LeaveSport()
	again.post("/api/v1/arm", "{}")
	again.until("states come", func(s *state) bool { return s.Loop.States >= 10 })
}

// TestArmNeedsAnAnswerThatFits: something that answers at the high-level address like no Go1 is not taken for off.
func TestArmNeedsAnAnswerThatFits(t *testing.T) {
	robot := lyingRobot(t)
	high := udpSocket(t, netip.AddrPortFrom(localhost, 0))
	go answer(high, high, make([]byte, 99))
	a := startAgent(t, robot.Addr(), "--high", addrOf(high).String())
	if status, answer := a.try("/api/v1/arm", "{}"); status != 409 || !strings.Contains(answer, "not as a Go1 does") || robot.Count() != 0 {
		t.Errorf("%d %s, %d frames", status, answer, robot.Count())
	}
}

// TestArmOnSilence: away from this machine a silent high-level service shows nothing; a person's word may stand for it.
func TestArmOnSilence(t *testing.T) {
	own := ownAddr(t)
	robot := linktest.New(t, linktest.Config{Addr: netip.AddrPortFrom(own, 0), FreeRunning: true})
	high := addrOf(udpSocket(t, netip.AddrPortFrom(own, 0))).String()
	a := startAgent(t, robot.Addr(), "--high", high)
	if status, answer := a.try("/api/v1/arm", "{}"); status != 409 || !strings.Contains(answer, "--sport-off") || robot.Count() != 0 {
		t.Errorf("%d %s, %d frames", status, answer, robot.Count())
	}
	a.signal(os.Interrupt)
	a.wait()
	a = startAgent(t, robot.Addr(), "--high", high, "--sport-off")
	a.post("/api/v1/arm", "{}")
	a.until("states come", func(s *state) bool { return s.Loop.States >= 10 })
	a.says("on a person's word")
}

// TestPolicyTakesNoCores is rows 27 and 28 of cases.md: a loaded policy brings no pool of threads, and at work the time that
// its steps take is shown.
func TestPolicyTakesNoCores(t *testing.T) {
	policy := contracttest.Policy(t, "go1_policy.onnx")
	robot := lyingRobot(t)
	idle := func(args ...string) int {
		a := startAgent(t, robot.Addr(), args...)
		a.until("it looks about", func(s *state) bool { return s.Mode == "idle" })
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", a.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		a.signal(os.Interrupt)
		a.wait()
		return len(entries)
	}
	// One more waits for the robot's next reading, and Go may need one or two while the library loads. A default session has
	// one for each core but one, so this sees it on a machine of more than five; onnx/session counts many sessions' on any.
	without, with := idle(), idle("--policy", policy)
	t.Logf("%d threads without a policy, %d with", without, with)
	if with > without+4 {
		t.Errorf("%d threads without a policy, %d with", without, with)
	}

	a := startAgent(t, robot.Addr(), "--lockstep", "--policy", policy)
	a.stand()
	a.walk()
	s := a.until("it walks", func(s *state) bool { return s.Mode == "policy" && s.Policy.Steps >= 50 })
	if !s.Policy.Loaded || s.Loop.PolicyP50Us <= 0 || s.Loop.PolicyP99Us < s.Loop.PolicyP50Us {
		t.Errorf("%+v %+v, want the policy's times", s.Policy, s.Loop)
	}
	metrics := a.get("/metrics")
	if !strings.Contains(metrics, "policy_step_seconds_bucket{") {
		t.Errorf("no histogram of policy steps in\n%s", metrics)
	}
	a.signal(os.Interrupt)
	r := a.wait()
	var sum struct {
		Steps uint64  `json:"policy_steps"`
		P50   float64 `json:"policy_p50_us"`
	}
	r.lastJSON(t, &sum)
	if class, n := lastRun(robot); r.code != 0 || sum.Steps < 50 || sum.P50 <= 0 || class != linktest.Damping || n < dampFrames {
		t.Errorf("exit code %d, %+v, the last %d frames are %v", r.code, sum, n, class)
	}
}
