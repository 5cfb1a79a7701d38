package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// binDir holds the built programs.
var binDir string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == underClockWord {
		fmt.Fprintln(os.Stderr, "e2e:", underClock(os.Args[2:]))
		os.Exit(1)
	}
	code, err := testMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func testMain(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "openclaw-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	root, err := filepath.Abs("../..")
	if err != nil {
		return 0, err
	}
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./agent/cmd/clawagent", "./sim/cmd/clawsim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build: %w\n%s", err, out)
	}
	binDir = dir
	// The programs look beside themselves; here they lie elsewhere.
	lib := filepath.Join(root, ".deps", runtime.GOOS+"-"+runtime.GOARCH, "lib", "libonnxruntime.so")
	if _, err := os.Stat(lib); err == nil && os.Getenv("OPENCLAW_ONNXRUNTIME") == "" {
		os.Setenv("OPENCLAW_ONNXRUNTIME", lib)
	}
	// Robots in real time sleep most of the time: more of them than there are cores may walk at once. Those in lockstep take turns, and
	// storms, which keep cores busy and stop programs, come one at a time.
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
		if err := p.Value.Set(strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

// turns lets two robots walk at a time: each keeps a core busy.
var turns = make(chan struct{}, 2)

// policyName is the policy that walks.
const policyName = "go1_policy.onnx"

// patience is how long a test waits for anything, of wall time, on the busiest machine.
const patience = 4 * time.Minute

// setup of a pair.
type setup struct {
	seed   uint64
	robot  []string // flags beyond the usual
	faults []string
	agent  []string
	real   bool   // real time instead of lockstep
	still  bool   // the sticks rest
	policy string // file; "": that of policyName
}

// pair is a virtual robot and an agent that drives it.
type pair struct {
	t            *testing.T
	robot, agent *program
	http, ctl    string // base URLs
	low          string
	dir          string
	until        float64 // s of the robot's time that its log must cover
}

// program is one of ours, running.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	ready map[string]any // its first line
	out   bytes.Buffer   // what came after, when done
	err   bytes.Buffer
	done  chan struct{}
	state error // of the end
}

// launch starts a program with --json and reads its first line.
func launch(t *testing.T, name string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(filepath.Join(binDir, name), args...), done: make(chan struct{})}
	p.cmd.Stderr = &p.err
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(first, &p.ready)
	}
	go func() {
		_, _ = io.Copy(&p.out, lines)
		p.state = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // for the case that the test has not ended it
		<-p.done
		if t.Failed() {
			t.Logf("to replay: %s", p)
			t.Logf("%s wrote to stderr:\n%s", name, tail(p.err.String(), 30))
		}
	})
	if err != nil {
		<-p.done
		t.Fatalf("%s: no JSON line when ready: %v: %q %s", p, err, first, p.err.String())
	}
	return p
}

// String is the command line.
func (p *program) String() string {
	words := []string{filepath.Base(p.cmd.Path)}
	for _, a := range p.cmd.Args[1:] {
		if strings.ContainsAny(a, " ,@|&;<>()$*") {
			a = "'" + a + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// end asks it to end as a person would and returns the JSON of its last line.
func (p *program) end() map[string]any {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s has not ended on SIGTERM", p)
	}
	var last map[string]any
	lines := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		p.t.Errorf("%s: its last line is not JSON: %v", p, err)
	}
	return last
}

// events are a log's lines without the states, of which there are 50 a second.
func events(log []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(log)) {
		if !strings.Contains(line, `"event":"state"`) && !strings.Contains(line, `"event":"frame"`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// start starts both programs; the agent is armed.
func start(t *testing.T, s setup) *pair {
	t.Helper()
	policy := s.policy
	if policy == "" {
		policy = contracttest.Policy(t, policyName)
	}
	turns <- struct{}{}
	t.Cleanup(func() { <-turns })
	p := &pair{t: t, dir: t.TempDir()}
	if s.seed == 0 {
		s.seed = 1
	}
	args := []string{"robot", "--json", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--log", p.log(), "--seed", fmt.Sprint(s.seed)}
	if !s.real {
		args = append(args, "--lockstep")
	}
	if !s.still {
		args = append(args, "--fault", "remote_sticks,ly=0.8@0")
	}
	for _, f := range s.faults {
		args = append(args, "--fault", f)
	}
	p.robot = launch(t, "clawsim", append(args, s.robot...)...)
	p.low, p.ctl = p.robot.ready["low"].(string), "http://"+p.robot.ready["control"].(string)
	args = []string{"run", "--json", "--robot", "udp://" + p.low, "--policy", policy, "--http", "127.0.0.1:0", "--arm"}
	if !s.real {
		args = append(args, "--lockstep", "--set", "control.lockstep_wait_ms=60000")
	}
	p.agent = launch(t, "clawagent", append(args, s.agent...)...)
	if s.real {
		t.Cleanup(p.endGuard)
	}
	http, ok := p.agent.ready["http"].(string)
	if !ok {
		t.Fatalf("the agent did not start: %v", p.agent.ready)
	}
	p.http = "http://" + http + "/api/v1/"
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; then POST /api/v1/mode stand and, when the phase is ready, policy (see pair.walk). The robot's log ends with\n%s",
				s.seed, tail(events(p.logBytes()), 12))
		}
	})
	return p
}

func (p *pair) log() string { return filepath.Join(p.dir, "robot.jsonl") }

func (p *pair) logBytes() []byte {
	b, err := os.ReadFile(p.log())
	if err != nil {
		p.t.Error(err)
	}
	return b
}

// records of the robot's log so far, which covers the time of runTo. The robot writes it some ten times a second of real time.
func (p *pair) records(events ...string) []virtualtest.Record {
	p.t.Helper()
	until(p.t, "the robot's log", func() bool {
		recs, err := virtualtest.ParseLog([]byte(tail(string(p.logBytes()), 2000)+"\n"), "state", "summary")
		return err == nil && (p.until == 0 || len(recs) > 0 && recs[len(recs)-1].Number("t") > p.until-0.03)
	})
	recs, err := virtualtest.ParseLog(p.logBytes(), events...)
	if err != nil {
		p.t.Fatal(err)
	}
	return recs
}

var client = &http.Client{Timeout: patience}

func call(method, url, body string) (int, []byte, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// state is what GET /api/v1/state says, as far as these tests ask.
type state struct {
	Clock    float64  `json:"clock"`
	Mode     string   `json:"mode"`
	Phase    string   `json:"phase"`
	Severity string   `json:"severity"`
	Warnings []string `json:"warnings"`
	Fault    *struct {
		Name     string  `json:"name"`
		Severity string  `json:"severity"`
		Joint    *string `json:"joint"`
	} `json:"fault"`
	Remote struct {
		Present bool `json:"present"`
	} `json:"remote"`
	Command struct {
		Asked    [3]float64 `json:"asked"`
		Followed [3]float64 `json:"followed"`
		Source   string     `json:"source"`
	} `json:"command"`
	Loop struct {
		States uint64 `json:"states"`
		Sent   uint64 `json:"sent"`
	} `json:"loop"`
	Guard struct {
		Trips uint64 `json:"trips"`
	} `json:"guard"`
	Limited struct {
		Clamped, Capped, Refused uint64
	} `json:"limited"`
}

// fault is the latched fault's name, "" for none.
func (s *state) fault() string {
	if s.Fault == nil {
		return ""
	}
	return s.Fault.Name
}

func getState(t *testing.T, base string) (s state) {
	t.Helper()
	code, b, err := call("GET", base+"state", "")
	if err == nil && code != 200 {
		err = fmt.Errorf("status %d: %s", code, b)
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatalf("GET %sstate: %v", base, err)
	}
	return s
}

func (p *pair) state() state { p.t.Helper(); return getState(p.t, p.http) }

// post asks the agent for something; code is 0 for no answer.
func (p *pair) post(what, body string) (code int, answer string) {
	p.t.Helper()
	code, b, err := call("POST", p.http+what, body)
	if err != nil {
		p.t.Fatalf("POST %s %s: %v", what, body, err)
	}
	return code, string(b)
}

// damp asks for damp, and has what is latched cleared, for somebody who has seen s.
func (p *pair) damp(s *state) (code int, answer string) {
	p.t.Helper()
	return p.post("mode", fmt.Sprintf(`{"mode":"damp","trips":%d}`, s.Guard.Trips))
}

func (p *pair) must(what, body string) {
	p.t.Helper()
	if code, answer := p.post(what, body); code != 200 {
		p.t.Fatalf("POST %s %s: %d %s", what, body, code, answer)
	}
}

// status is the virtual robot's own.
func (p *pair) status() (s virtual.Status) {
	p.t.Helper()
	_, b, err := call("GET", p.ctl+"/status", "")
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		p.t.Fatalf("GET %s/status: %v", p.ctl, err)
	}
	return s
}

// inject gives the robot a fault now.
func (p *pair) inject(fault string) {
	p.t.Helper()
	if code, b, err := call("POST", p.ctl+"/fault", `{"fault":"`+fault+`"}`); err != nil || code != 200 {
		p.t.Fatalf("fault %s: %d %s %v", fault, code, b, err)
	}
}

// until waits for something that comes with the robot's time.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// stand brings the robot from lying to standing.
func (p *pair) stand() {
	p.t.Helper()
	until(p.t, "states from the robot", func() bool { s := p.state(); return s.Mode == "listen" && s.Loop.States >= 10 && s.Remote.Present })
	p.must("mode", `{"mode":"stand"}`)
	until(p.t, "standing", func() bool { return p.state().Phase == "ready" && p.status().Posture == "standing" })
}

// guardOf is the process of an agent's guard; 0: none.
func guardOf(agent *program) int {
	g, _ := agent.ready["guard"].(map[string]any)
	pid, _ := g["pid"].(float64)
	return int(pid)
}

// askGuard is what the robot's guard says of itself.
func (p *pair) askGuard() (r guard.Report, err error) {
	out, err := exec.Command(filepath.Join(binDir, "clawagent"), "guard", "--status", "--json", "--robot", "udp://"+p.low).Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		err = fmt.Errorf("clawagent guard --status: %w: %s", err, out)
	}
	return r, err
}

// mustGuard is askGuard of a guard that has to be there.
func (p *pair) mustGuard() guard.Report {
	p.t.Helper()
	r, err := p.askGuard()
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// endGuard ends the agent, if it still lives, and then the guard, if there is one: one whose agent has not ended in order damps on as long
// as the robot answers.
func (p *pair) endGuard() {
	if p.agent != nil { // which would start another
		_ = p.agent.cmd.Process.Kill()
		<-p.agent.done
	}
	if r, err := p.askGuard(); err == nil {
		_ = syscall.Kill(r.PID, syscall.SIGKILL)
	}
}

// standAgain brings an armed robot to a stand in real time, as a person would: what a machine that stood still brought about is cleared,
// and asked for once more. It gives the faults that were.
func (p *pair) standAgain() (cleared []string) {
	p.t.Helper()
	until(p.t, "standing", func() bool {
		s := p.state()
		switch {
		case s.Phase == "ready":
			return p.status().Posture == "standing"
		case s.fault() != "":
			p.t.Logf("fault %s: once more", s.fault())
			cleared = append(cleared, s.fault())
			p.damp(&s) // refused where the guard has tripped since
		case s.Mode == "listen" || s.Mode == "damp":
			p.post("mode", `{"mode":"stand"}`) // refused while it slides down, or has sent too few states
			time.Sleep(50 * time.Millisecond)
		}
		return false
	})
	return cleared
}

// walk brings it from lying to walking; faults that count from walk+S run from then on.
func (p *pair) walk() {
	p.t.Helper()
	p.stand()
	p.must("mode", `{"mode":"policy"}`)
}

// runTo lets the robot live until its clock shows t seconds.
func (p *pair) runTo(t float64) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%.1f s of robot time", t), func() bool { return p.status().T >= t })
	p.until = t
}

// walkedAt waits for the first walking and returns its time.
func (p *pair) walkedAt() (t float64) {
	p.t.Helper()
	until(p.t, "walking", func() bool {
		for _, r := range p.records("walking") {
			t = r.Number("t")
			return true
		}
		if st := p.status(); st.T > 60 {
			p.t.Fatalf("the robot does not walk: %+v", st)
		}
		return false
	})
	return t
}

// end ends the agent, then the robot, and returns the robot's summary.
func (p *pair) end() (s virtual.Summary) {
	p.t.Helper()
	p.agent.end()
	p.robot.end()
	lines := strings.Split(strings.TrimSpace(p.robot.out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
		p.t.Fatalf("the robot's summary: %v", err)
	}
	return s
}
