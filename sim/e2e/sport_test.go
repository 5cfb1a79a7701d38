package e2e

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSportModeStaysUp: a robot that stands under the maker's own controller goes limp at the first foreign low-level frame, so
// neither the agent's start, nor arming it, nor the doctor may send one. In real time: that robot moves by itself.
func TestSportModeStaysUp(t *testing.T) {
	t.Parallel()
	turns <- struct{}{}
	defer func() { <-turns }()
	p := &pair{t: t, dir: t.TempDir()}
	p.robot = launch(t, "clawsim", "robot", "--json", "--boot", "sport", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--log", p.log())
	p.low, p.ctl = p.robot.ready["low"].(string), "http://"+p.robot.ready["control"].(string)
	standing := func(what string) {
		t.Helper()
		if s := p.status(); s.Posture != "standing" || !s.Sport || s.Frames != 0 || s.Pos[2] < 0.2 {
			t.Fatalf("%s: the robot is %s, %.2f m high, sport mode %v, %d low-level frames arrived", what, s.Posture, s.Pos[2], s.Sport, s.Frames)
		}
	}
	standing("at first")

	run := []string{"run", "--json", "--robot", "udp://" + p.low, "--http", "127.0.0.1:0"}
	p.agent = launch(t, "clawagent", run...)
	p.http = "http://" + p.agent.ready["http"].(string) + "/api/v1/"
	time.Sleep(time.Second)
	standing("clawagent run")
	if code, answer := p.post("arm", `{}`); code != 409 || !containsFold(answer, "sport") {
		t.Errorf("POST arm: %d %s, want 409 that names sport mode", code, answer)
	}
	if st := p.state(); st.Mode != "idle" || st.Loop.Sent != 0 {
		t.Errorf("state says mode %s, %d frames sent", st.Mode, st.Loop.Sent)
	}
	standing("POST arm")
	if code, answer := p.post("estop", `{"level":"cut"}`); code != 200 { // even a stop has nothing to say to it
		t.Logf("POST estop: %d %s", code, answer)
	}
	time.Sleep(300 * time.Millisecond)
	standing("POST estop")
	p.agent.end()
	standing("the agent's end")

	p.agent = launch(t, "clawagent", append(run, "--arm")...)
	time.Sleep(2 * time.Second)
	standing("clawagent run --arm")
	p.agent.end()
	if !containsFold(p.agent.err.String(), "sport mode") {
		t.Errorf("clawagent run --arm says nothing of sport mode: %s", p.agent.err.String())
	}
	standing("the end of the one that was told to arm")

	doctor := exec.Command(filepath.Join(binDir, "clawagent"), "doctor", "--robot", "udp://"+p.low, "--json")
	var out bytes.Buffer
	doctor.Stdout, doctor.Stderr = &out, &out
	err := doctor.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !containsFold(out.String(), "sport") {
		t.Errorf("clawagent doctor: %v, want exit code 1 and sport mode named: %s", err, out.String())
	}
	standing("clawagent doctor")

	p.robot.end()
	for _, r := range p.records("command", "limp") {
		t.Errorf("the robot's log has %v", r)
	}
}

func containsFold(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}
