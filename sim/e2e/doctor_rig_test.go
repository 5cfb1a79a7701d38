package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// finding is one of the doctor's.
type doctorFinding struct{ Code, Level, Text, Remedy string }

// diagnosis is the doctor's object.
type diagnosis struct {
	OK          bool
	Interrupted bool
	Findings    []doctorFinding
	Contact     struct {
		Identity, File, CRCForm string
		Passed                  bool
		Steps                   []struct{ Step, Result, Date string }
		LinkLoss                *struct {
			Behaviour string
			Trials    []map[string]float64
		} `json:"link_loss"`
	} `json:"first_contact"`

	code   int
	stderr string
	events []doctorEvent
}

func (d *diagnosis) find(code string) *doctorFinding {
	for i := range d.Findings {
		if d.Findings[i].Code == code {
			return &d.Findings[i]
		}
	}
	return nil
}

// doctorEvent is a line before it.
type doctorEvent struct {
	Event, Step, Text, Result string
	Part, Try                 int
	Kept                      bool
	Names                     []string
	Figures                   map[string]any
}

// person does something when asked; the texts are faults of the virtual robot.
type person func(e *doctorEvent) []string

// buttons are asked for in this order.
var buttons = []string{"A", "B", "X", "Y", "L1", "L2", "R1", "R2", "up", "down", "left", "right", "select", "start"}

// does is what a person does who does as asked.
func does(e *doctorEvent) []string {
	joint, isJoint := strings.CutSuffix(e.Step, "_joint")
	foot, isFoot := strings.CutSuffix(e.Step, "_foot")
	switch {
	case e.Step == "nose_down":
		return []string{"turn,axis=pitch,rad=0.45@now"}
	case e.Step == "roll_left":
		return []string{"turn,axis=roll,rad=-0.45@now"}
	case e.Step == "yaw_left":
		return []string{"turn,axis=yaw,rad=0.45@now"}
	case isJoint && strings.HasSuffix(joint, "calf"):
		return []string{"hand,joint=" + joint + ",rad=-0.4@now"}
	case joint == "FR_hip" || joint == "RR_hip":
		return []string{"hand,joint=" + joint + ",rad=-0.4@now"}
	case isJoint:
		return []string{"hand,joint=" + joint + ",rad=0.4@now"}
	case isFoot:
		return []string{"press,foot=" + foot + ",n=80@now"}
	case e.Step == "remote_stop":
		return []string{"remote_buttons,buttons=L2+B@now+0.1"}
	case e.Step == "remote_buttons":
		return []string{"remote_buttons,buttons=" + buttons[e.Part] + "@now+0.1"}
	case e.Step == "remote_sticks":
		return []string{"remote_sticks," + []string{"ly=1", "lx=-1", "rx=-1"}[e.Part] + "@now+0.1"}
	}
	return nil
}

// hungRobot hangs in lockstep, with faults from the start on.
func hungRobot(t *testing.T, faults ...string) *virtualtest.Robot {
	t.Helper()
	return hungRobotWith(t, nil, faults...)
}

func hungRobotWith(t *testing.T, change func(*virtual.Config), faults ...string) *virtualtest.Robot {
	t.Helper()
	cfg := virtualtest.Config()
	cfg.Boot = virtual.BootHung
	if change != nil {
		change(&cfg)
	}
	for _, text := range faults {
		f, err := virtual.ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	return virtualtest.Start(t, cfg)
}

// runDoctor runs `clawagent doctor --json` to its end; p answers to what it asks for.
func runDoctor(t *testing.T, p person, robot *virtualtest.Robot, args ...string) diagnosis {
	t.Helper()
	return runDoctorWith(t, func(e *doctorEvent, _ *exec.Cmd) []string {
		if p == nil {
			return nil
		}
		return p(e)
	}, robot, args...)
}

// runDoctorWith gives the person the program, too, to end it.
func runDoctorWith(t *testing.T, p func(*doctorEvent, *exec.Cmd) []string, robot *virtualtest.Robot, args ...string) (d diagnosis) {
	t.Helper()
	args = append([]string{"doctor", "--json", "--robot", "udp://" + robot.Addr().String()}, args...)
	cmd := exec.Command(filepath.Join(binDir, "clawagent"), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer late.Stop()
	var last string
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) || err != nil {
			break
		}
		last = line
		var e doctorEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if e.Event == "" {
			continue // the object
		}
		d.events = append(d.events, e)
		if e.Event == "ask" {
			for _, act := range p(&e, cmd) {
				robot.Fault(act)
			}
		}
	}
	err = cmd.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(last), &d); err != nil {
		t.Fatalf("clawagent %s: last line %q: %v\n%s", strings.Join(args, " "), last, err, stderr.String())
	}
	d.code, d.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	d.note()
	bad := slices.ContainsFunc(d.Findings, func(f doctorFinding) bool { return f.Level == "error" })
	if d.OK == bad || d.OK != (d.code == 0) || d.code > 1 {
		if !d.Interrupted {
			t.Errorf("ok %v, an error among the findings %v, exit code %d: %+v", d.OK, bad, d.code, d.Findings)
		}
	}
	for _, f := range d.Findings {
		if f.Text == "" || f.Remedy == "" && f.Level != "ok" {
			t.Errorf("%+v: want a text and a remedy", f)
		}
	}
	return d
}

// contactArgs are those of a first contact in lockstep, with its results in a folder, and as long for a motion as a busy machine may take.
func contactArgs(dir string, more ...string) []string {
	return append([]string{"--first-contact", "--set", "control.lockstep=true", "--set", "control.lockstep_wait_ms=60000",
		"--set", "first_contact.dir=" + dir, "--set", "first_contact.exam.rest_seconds=0.5", "--timeout", "600"}, more...)
}

// noTorque fails the test if the robot has seen a frame with torque. It ends the robot.
func noTorque(t *testing.T, robot *virtualtest.Robot) {
	t.Helper()
	robot.Stop()
	if s := robot.Status(); s.LastTorque >= 0 {
		t.Errorf("a frame with torque at tick %d", s.LastTorque)
	}
	for _, r := range robot.Records("command") {
		if c := r.Text("class"); c != "damping" && c != "none" {
			t.Errorf("frames of class %s at tick %d", c, r.Tick())
		}
	}
}
