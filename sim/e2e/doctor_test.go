package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/sim/virtual"
)

// doctorRow is a robot that something is wrong with, and what the doctor must name: all of it, and nothing else that is wrong with
// the robot.
type doctorRow struct {
	names  string // separated by spaces; in a first contact those that keep it from passing
	warns  string // of a first contact: what does not
	faults []string
	change func(*virtual.Config)
	person person // nil: as asked
	steps  string // of a first contact: those that are asked for; the others have passed before, and that is kept
	args   []string
	kind   doctorKind
}

type doctorKind uint8

const (
	contact    doctorKind = iota // --first-contact, in lockstep
	plain                        // in lockstep
	inRealTime                   // plain, time being the point
	hang                         // --hang-test, in real time
)

// host are names of this machine's own, whatever the robot: one that stands still for a while loses states and is slow.
var host = []string{"realtime", "clock_unsynchronised", "clock_steps", "disk_low", "first_contact", "link_loss_unknown", "state_stale", "route_slow", "route_lossy"}

// only leaves out all steps but the named, which then may be waited for in vain.
func only(steps ...string) (args []string) {
	all := []string{"nose_down", "roll_left", "yaw_left", "remote_stop", "remote_buttons", "remote_sticks"}
	for _, leg := range []string{"FR", "FL", "RR", "RL"} {
		all = append(all, leg+"_hip_joint", leg+"_thigh_joint", leg+"_calf_joint", leg+"_foot")
	}
	for _, s := range all {
		if !slices.Contains(steps, s) {
			args = append(args, "--skip", s)
		}
	}
	return args
}

// instead is a person who does something else when asked for a step, however often.
func instead(step string, acts ...string) person {
	return func(e *doctorEvent) []string {
		if e.Step == step && e.Part == 0 {
			return acts
		}
		return does(e)
	}
}

func silence(text string) func(*virtual.Config) {
	return func(c *virtual.Config) {
		s, err := virtual.ParseSilence(text)
		if err != nil {
			panic(err)
		}
		c.OnSilence = s
	}
}

const inVain = "5" // s of the robot's time

// Steps of a first contact.
const (
	turnSteps = "nose_down roll_left yaw_left "
	legSteps  = "FR_hip_joint FR_thigh_joint FR_calf_joint FL_hip_joint FL_thigh_joint FL_calf_joint RR_hip_joint RR_thigh_joint RR_calf_joint RL_hip_joint RL_thigh_joint RL_calf_joint "
)

// doctorRows are all that the virtual robot can be made to be. Of the wrong wires, orders, signs and turns it is some: sim/virtual goes
// through them all.
var doctorRows = []doctorRow{
	// The first contact: a robot mirrored, swapped, reversed, in another order.
	{names: "imu_mirror_x legs_swapped feet_swapped", faults: []string{"imu_mirror,axis=x@0", "legs_swapped,a=FR,b=RL@0", "feet_swapped,a=FR,b=RL@0"},
		steps: turnSteps + "FR_hip_joint FR_thigh_joint FR_calf_joint RL_hip_joint RL_thigh_joint RL_calf_joint FR_foot RL_foot"},
	{names: "imu_mirror_y joints_swapped", faults: []string{"imu_mirror,axis=y@0", "joints_swapped,leg=FL@0"}, steps: turnSteps + "FL_thigh_joint FL_calf_joint"},
	{names: "imu_mirror_z joint_reversed", faults: []string{"imu_mirror,axis=z@0", "joint_reversed,joint=RL_calf@0"}, steps: turnSteps + "RL_thigh_joint RL_calf_joint"},
	{names: "quat_order", faults: []string{"imu_quat_order@0"}, steps: turnSteps},
	{names: "gyro_sign", warns: "joint_noisy", faults: []string{"gyro_sign,axis=x@0", "joint_noise,joint=FL_hip@0"}, steps: turnSteps + "FL_hip_joint FL_thigh_joint"},
	{names: "gyro_units joint_speed", faults: []string{"gyro_units@0", "joint_speed_scale,joint=RR_thigh@0"}, steps: turnSteps + "RR_thigh_joint"},
	{names: "gyro_axes", faults: []string{"gyro_swapped,a=x,b=y@0"}, steps: turnSteps},
	{warns: "imu_noisy", faults: []string{"imu_noise@0"}, steps: turnSteps},
	{names: "imu_axes", faults: []string{"imu_turned,axis=z,deg=-90@0"}, steps: turnSteps},
	{names: "gravity_mismatch", faults: []string{"acc_sign,axis=y@0"}, steps: turnSteps},
	{names: "joint_order", faults: []string{"motors_swapped,a=FR_hip,b=RL_hip@0"}, steps: "FR_hip_joint RL_hip_joint"},
	{names: "legs_exchanged legs_swapped feet_swapped", faults: []string{"joint_order,order=legged_gym@0", "feet_swapped,a=FR,b=FL@0", "feet_swapped,a=RR,b=RL@0"},
		steps: legSteps + "FR_foot FL_foot RR_foot RL_foot"},
	{names: "joint_order joint_range", faults: []string{"joint_order,order=isaac@0"}, steps: "FR_hip_joint FR_thigh_joint FR_calf_joint"},
	{names: "foot_order", faults: []string{"feet_swapped,a=FR,b=FL@0", "feet_swapped,a=FL,b=RR@0"}, steps: "FR_foot FL_foot RR_foot"},
	{names: "remote_buttons", faults: []string{"buttons_swapped,a=L2,b=R2@0"}, steps: "remote_stop remote_buttons", args: []string{"--timeout", inVain}},
	{names: "remote_sticks", faults: []string{"stick_reversed,stick=ly@0"}, steps: "remote_sticks"},

	// What is waited for in vain.
	{names: "joint_stuck", faults: []string{"joint_stuck,joint=RR_hip@0"}, steps: "RR_hip_joint", args: []string{"--timeout", inVain}},
	{warns: "foot_stuck", faults: []string{"foot_force_stuck,foot=FL@0"}, steps: "FL_foot", args: []string{"--timeout", inVain}},
	{warns: "foot_force_zero", faults: []string{"foot_force_zero@0"}, steps: "FR_foot FL_foot RR_foot RL_foot", args: []string{"--timeout", inVain}},
	{names: "nothing_seen", person: func(*doctorEvent) []string { return nil }, steps: "yaw_left", args: []string{"--timeout", inVain}},
	{names: "joint_not_alone", person: instead("FL_hip_joint", "hand,joint=FL_hip,rad=0.4@now", "hand,joint=FL_thigh,rad=0.4@now"), steps: "FL_hip_joint", args: []string{"--timeout", "30"}},

	// What shows at rest.
	{names: "imu_stuck remote_absent cells_missing", warns: "motor_hot motor_temp_unknown", steps: "nose_down remote_stop",
		faults: []string{"imu_stuck@0", "remote_absent@0", "cells_missing,n=5@0", "temperature,joint=FL_calf,value=80@0", "temperature,joint=FR_hip,value=0@0"}},
	{names: "quaternion_bad joint_range", warns: "cells_uneven battery_low",
		faults: []string{"imu_quat_scale@0", "cells,mv=3900,spread=500@0", "battery,soc=15@0", "joint_offset,joint=FR_calf,rad=1.2@0"}},
	{names: "motor_mode_dropped state_not_finite", warns: "battery_unknown",
		faults: []string{"cells_missing@0", "motor_drop,joint=FL_thigh@0", "joint_nan,joint=RL_hip,what=dq@0"}},
	{names: "never_still", faults: []string{"turn,axis=roll,rad=0.12,ms=490,stay=0@0/1"}, args: []string{"--timeout", inVain}},
	{names: "knee_folded", faults: []string{"hand,joint=FR_calf,rad=-1.6,how=hold@0"}, args: []string{"--timeout", "20"}},
	{names: "tilt", faults: []string{"turn,axis=roll,rad=0.8,ms=10,how=hold@0"}},
	{warns: "hangs_askew gyro_bias", faults: []string{"turn,axis=roll,rad=0.2,ms=10,how=hold@0"}, change: func(c *virtual.Config) { c.Noise.GyroBias = 0.5 }},
	{names: "acc_norm gravity_mismatch", change: func(c *virtual.Config) { c.Noise.AccBias = 16 }},
	{names: "gravity_mismatch tilt", change: func(c *virtual.Config) { c.Noise.Tilt = 0.4 }},
	{names: "crc_form", warns: "empty_datagrams", change: func(c *virtual.Config) { c.CRC = "encrypted" }},
	{names: "another_sender", warns: "imu_noisy", faults: []string{"other_sender,what=pose,share=0.5@0"}},

	// Without anybody: what comes back, and what it says.
	{names: "no_answer", kind: inRealTime, faults: []string{"drop_state@0"}},
	{names: "zeros not_lowstate", kind: plain, faults: []string{"zeros_state@0"}},
	{names: "bad_crc not_lowstate", kind: plain, faults: []string{"corrupt_state@0"}},
	{names: "wrong_length", kind: plain, faults: []string{"short_state@0"}},
	{names: "empty_datagrams", kind: plain, faults: []string{"empty_state@0"}},
	{names: "foreign_sender", kind: plain, faults: []string{"foreign_state,what=lie@0"}},
	{names: "tick_stuck", kind: plain, faults: []string{"freeze_tick@0"}},
	{names: "state_not_finite motor_hot remote_stop", kind: plain, faults: []string{"joint_nan@0", "temperature,value=70@0", "remote_buttons@0"}},
	{names: "motor_overheat_mode motor_mode_dropped foot_force_zero", kind: plain, faults: []string{"motor_mode,joint=FR_calf@0", "motor_drop,joint=FL_hip@0", "foot_force_zero@0"}},
	{names: "quaternion_bad joint_range remote_absent", kind: plain, faults: []string{"imu_quat_zero@0", "joint_offset,joint=FR_calf,rad=4@0", "remote_absent@0"}},
	{names: "tilt battery_low", kind: plain, faults: []string{"imu_tilt@0", "battery@0"}},
	{names: "motor_temp_unknown battery_unknown", kind: plain, faults: []string{"temperature,value=0@0", "cells_missing@0"}},
	{names: "another_sender", kind: plain, faults: []string{"other_sender,what=pose@0"}, change: func(c *virtual.Config) { c.Boot = virtual.BootFolded }},
	{names: "robot_restarted", kind: plain, faults: []string{"restart@1.2"}, args: []string{"--seconds", "3"}},
	{names: "sport_mode", kind: plain, change: func(c *virtual.Config) { c.Boot = virtual.BootSport }},
	{names: "state_stale route_lossy", kind: inRealTime, faults: []string{"drop_state@0+0.1/0.3"}},
	{names: "route_slow", kind: inRealTime, faults: []string{"delay_state,ms=20@0"}},
	{names: "route_lossy", kind: inRealTime, faults: []string{"drop_command,p=0.1@0"}},

	// What the motors do without commands.
	{names: "link_loss_hold", kind: hang},
	{names: "link_loss_damp not_hung", kind: hang, change: silence("damp:100ms"), faults: []string{"foot_force_offset,fr=0,fl=200,rr=0,rl=0@0"}}, // warned of: one foot
	{names: "link_loss_limp", kind: hang, change: silence("limp:20ms")},
	{names: "link_loss_unclear", kind: hang, change: silence("damp:20ms"), faults: []string{"hand,joint=FR_thigh,rad=0,how=hold@0", "hand,joint=FL_thigh,rad=0,how=hold@0",
		"hand,joint=RR_thigh,rad=0,how=hold@0", "hand,joint=RL_thigh,rad=0,how=hold@0"}},
	{names: "not_hung", kind: hang, faults: []string{"foot_force_offset,fr=200,fl=0,rr=0,rl=200@0"}, args: []string{"--timeout", "1"}},
}

// doctorTurns lets so many sessions run at a time whose time is the robot's: each keeps a core busy.
var doctorTurns = make(chan struct{}, 3)

// TestDoctorNames makes the virtual robot be, one after the other, everything that it can be, and this machine, its network and other
// programs whatever they can be made to be; the doctor names it. In a first contact, no frame has torque, and whoever did not pass it does
// not stand.
func TestDoctorNames(t *testing.T) {
	passed := passedContact(t)
	var tally doctorTally
	t.Run("robots", func(t *testing.T) {
		for _, row := range doctorRows {
			name := strings.Join(slices.Concat(strings.Fields(row.names), strings.Fields(row.warns)), "+")
			tally.run(t, name, row.names+" "+row.warns, func(t *testing.T) { row.try(t, passed, &tally) })
		}
	})
	t.Run("machine", func(t *testing.T) {
		for _, row := range doctorHost {
			tally.run(t, row.names+"_"+row.level, row.names, row.try)
		}
	})
	t.Run("stand", func(t *testing.T) { tally.refusesToStand(t, passed) })
	tally.check(t)
}

// try examines the row's robot.
func (row *doctorRow) try(t *testing.T, passed string, tally *doctorTally) {
	if row.kind == contact || row.kind == plain { // the others wait more than they work
		doctorTurns <- struct{}{}
		defer func() { <-doctorTurns }()
	}
	robot := hungRobotWith(t, func(c *virtual.Config) {
		c.Lockstep = row.kind == contact || row.kind == plain
		if row.change != nil {
			row.change(c)
		}
	}, row.faults...)
	p := row.person
	if p == nil {
		p = does
	}
	var args []string
	switch row.kind {
	case contact:
		args = contactArgs(keptBut(t, passed, strings.Fields(row.steps)...))
	case plain:
		args = []string{"--seconds", "0.2", "--set", "control.lockstep=true"}
	case inRealTime:
		args = []string{"--seconds", "0.8"}
	case hang:
		args = []string{"--hang-test", "--hung", "--set", "first_contact.dir=" + passed}
	}
	d := runDoctor(t, p, robot, append(args, row.args...)...)
	for try := 0; row.kind == hang && d.late() && try < 5; try++ { // the machine stood still, and the test was broken off
		t.Log(d.find("hang_aborted").Text)
		d = runDoctor(t, p, robot, args...)
	}
	if row.kind == hang && d.late() {
		t.Skip("this machine stands still too often for a hang test")
	}
	names, warns := strings.Fields(row.names), strings.Fields(row.warns)
	for _, n := range names {
		if f := d.find(n); f == nil || f.Level == "ok" && n != "link_loss_damp" || f.Level != "error" && row.kind == contact {
			t.Errorf("not named as what keeps it from passing: %s", n)
		}
	}
	for _, n := range warns {
		if f := d.find(n); f == nil || f.Level != "warning" {
			t.Errorf("not warned of: %s", n)
		}
	}
	for _, f := range d.Findings {
		if f.Level != "ok" && !slices.Contains(names, f.Code) && !slices.Contains(warns, f.Code) && !slices.Contains(host, f.Code) {
			t.Errorf("named, and should not be: %+v", f)
		}
	}
	if row.kind == contact {
		row.contact(t, &d, tally)
		noTorque(t, robot)
	}
	if t.Failed() {
		t.Logf("%+v\n%s", d.Findings, d.stderr)
	}
}

// contact: what is wrong alone keeps it from passing. Every step that nobody asked for has passed before.
func (row *doctorRow) contact(t *testing.T, d *diagnosis, tally *doctorTally) {
	if d.Contact.Passed != (row.names == "") {
		t.Errorf("passed: %v", d.Contact.Passed)
	}
	asked := strings.Fields(row.steps)
	for _, s := range d.Contact.Steps {
		own := s.Step == "frame" || s.Step == "rest" || slices.Contains(asked, s.Step)
		if s.Result == "skipped" || s.Result == "open" || !own && s.Result != "passed" {
			t.Errorf("%s is %s", s.Step, s.Result)
		}
	}
	if len(d.Contact.Steps) != 24 {
		t.Errorf("%d steps", len(d.Contact.Steps))
	}
	if row.names == "" {
		return
	}
	text, err := os.ReadFile(d.Contact.File)
	if err != nil {
		t.Error(err)
		return
	}
	tally.failed(t.Name(), text)
}

// keptBut is a folder with a result in which all has passed but some steps, which are open.
func keptBut(t *testing.T, passed string, open ...string) (dir string) {
	t.Helper()
	var file struct {
		Format       int             `json:"format"`
		Identity     string          `json:"identity"`
		RobotVersion json.RawMessage `json:"robot_version"`
		Steps        []struct {
			Step string `json:"step"`
		} `json:"steps"`
		Record map[string]any `json:"record"`
	}
	const name = "sn-00000c1a-00000001.json"
	text, err := os.ReadFile(filepath.Join(passed, name))
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	results := file.Record["results"].([]any)
	for i, s := range file.Steps {
		if slices.Contains(open, s.Step) {
			results[i] = "open"
		}
	}
	if len(open) == 0 { // it would begin anew if it had passed
		results[0] = "open"
	}
	dir = t.TempDir()
	if text, err = json.Marshal(&file); err == nil {
		err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// late says that a hang test was broken off because this machine stood still.
func (d *diagnosis) late() bool {
	f := d.find("hang_aborted")
	return f != nil && (strings.Contains(f.Text, "loop_late") || strings.Contains(f.Text, "state_stale") || strings.Contains(f.Text, "end_to_end_age") ||
		strings.Contains(f.Text, "guard_tripped") || strings.Contains(f.Text, "guard_lost") || strings.Contains(f.Text, "no state came back"))
}

// passedContact is a folder with the passed result of the virtual robot of the default serial number.
func passedContact(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	robot := hungRobot(t)
	if d := runDoctor(t, does, robot, contactArgs(dir)...); !d.OK || !d.Contact.Passed {
		t.Fatalf("a healthy robot does not pass: %+v", d.Findings)
	}
	noTorque(t, robot)
	return dir
}

// TestDoctorFirstContact: a healthy robot passes; a session that is broken off goes on with the rest; a robot that has passed stands.
func TestDoctorFirstContact(t *testing.T) {
	dir := t.TempDir()
	robot := hungRobot(t)
	d := runDoctor(t, does, robot, contactArgs(dir, "--skip", "joints", "--skip", "remote_sticks")...)
	if d.OK || d.Contact.Passed || d.code != 1 || !strings.Contains(d.find("first_contact").Text, "still open: joints, remote_sticks;") {
		t.Fatalf("incomplete: %+v", d.Findings)
	}
	asked := map[string]bool{}
	d = runDoctor(t, func(e *doctorEvent) []string { asked[e.Step] = true; return does(e) }, robot, contactArgs(dir)...)
	if !d.OK || !d.Contact.Passed || len(asked) != 13 || asked["nose_down"] || !asked["FR_hip_joint"] {
		t.Fatalf("gone on: asked for %v: %+v", asked, d.Findings)
	}
	kept := 0
	for _, e := range d.events {
		if e.Event == "step" && e.Kept {
			kept++
		}
	}
	if kept != 9 {
		t.Errorf("%d steps kept, want 3 motions, 4 feet and 2 of the remote", kept)
	}
	var file map[string]any
	text, err := os.ReadFile(d.Contact.File)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	if file["identity"] != "sn-00000c1a-00000001" || file["passed"] != true || file["crc_form"] != "plain" || file["version"] == "" || file["date"] == "" ||
		len(file["steps"].([]any)) != 24 || file["record"].(map[string]any)["rest"].(map[string]any)["remote_bytes"].(string)[:4] != "5551" {
		t.Errorf("%s", text)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".contact-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// Once it has passed, the next session begins anew, and a robot that has changed is found.
	robot.Fault("gyro_sign,axis=y@now")
	d = runDoctor(t, does, robot, contactArgs(dir, "--skip", "joints", "--skip", "feet", "--skip", "remote")...)
	if d.OK || d.find("gyro_sign") == nil {
		t.Errorf("changed: %+v", d.Findings)
	}
	noTorque(t, robot)
}

// TestDoctorRobotRestarts: a robot that starts anew in the middle is examined anew, and what it showed before is forgotten.
func TestDoctorRobotRestarts(t *testing.T) {
	dir := t.TempDir()
	robot := hungRobot(t)
	restarted, asked := false, []string{}
	d := runDoctor(t, func(e *doctorEvent) []string {
		asked = append(asked, e.Step)
		switch {
		case e.Step == "roll_left" && !restarted:
			restarted = true
			return []string{"restart@now"}
		case e.Step == "nose_down" && !restarted:
			return []string{"turn,axis=pitch,rad=-0.45@now"} // the wrong way, which is forgotten, too
		}
		return does(e)
	}, robot, contactArgs(dir, only("nose_down", "roll_left")...)...)
	// Twice for what was done wrong, then for all anew.
	asked = slices.Compact(asked)
	if want := []string{"nose_down", "roll_left", "nose_down", "roll_left"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	f := d.find("robot_restarted")
	if f == nil || f.Level != "warning" || !strings.Contains(f.Text, "the robot started anew: its clock went back from ") || d.find("imu_axes") != nil || d.code != 1 {
		t.Errorf("exit code %d: %+v", d.code, d.Findings)
	}
	told := 0
	for _, e := range d.events {
		if e.Event == "restart" && strings.Contains(e.Text, "what was measured before is forgotten") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told of %d restarts: %+v", told, d.events)
	}
	for _, s := range d.Contact.Steps {
		if want := map[string]string{"frame": "passed", "rest": "passed", "nose_down": "passed", "roll_left": "passed"}[s.Step]; want != "" && s.Result != want {
			t.Errorf("%s: %s", s.Step, s.Result)
		}
	}
	noTorque(t, robot)
}

// refusesToStand: a robot that did not pass does not stand, no frame has torque, and it stands once it has passed.
func (y *doctorTally) refusesToStand(t *testing.T, passed string) {
	dir := t.TempDir()
	const name = "sn-00000c1a-00000001.json"
	p := start(t, setup{agent: []string{"--set", "first_contact.require=true", "--set", "first_contact.dir=" + dir}, still: true})
	until(t, "states", func() bool { s := p.state(); return s.Mode == "listen" && s.Loop.States >= 10 })
	put := func(text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for of, text := range y.refused {
		put(text)
		if code, answer := p.post("mode", `{"mode":"stand"}`); code != 409 || !strings.Contains(answer, `"code":"first_contact"`) {
			t.Errorf("%s: %d %s", of, code, answer)
		}
	}
	if s := p.status(); s.LastTorque >= 0 {
		t.Errorf("torque at tick %d", s.LastTorque)
	}
	text, err := os.ReadFile(filepath.Join(passed, name))
	if err != nil {
		t.Fatal(err)
	}
	put(text)
	p.stand()
	p.end()
}

// TestDoctorLetsStand: what one robot has passed lets no other stand at the same place, and no frame has torque.
func TestDoctorLetsStand(t *testing.T) {
	passed := passedContact(t)
	asked := []string{"--set", "first_contact.require=true", "--set", "first_contact.dir=" + passed}
	p := start(t, setup{agent: asked, still: true, robot: []string{"--sn", "[3098, 2]"}})
	until(t, "states", func() bool { s := p.state(); return s.Mode == "listen" && s.Loop.States >= 10 })
	code, answer := p.post("mode", `{"mode":"stand"}`)
	if code != 409 || !strings.Contains(answer, `"code":"first_contact"`) || !strings.Contains(answer, "sn-00000c1a-00000002") ||
		!strings.Contains(answer, "clawagent doctor --first-contact --hung --robot udp://"+p.low) {
		t.Errorf("%d %s", code, answer)
	}
	if s := p.status(); s.LastTorque >= 0 {
		t.Errorf("torque at tick %d", s.LastTorque)
	}
	_, text, err := call("GET", p.http+"state", "")
	if err != nil || !strings.Contains(string(text), `"link_loss":{"behaviour":"unknown","warning":"link-loss behaviour unknown: with the robot hung and no agent running, run clawagent doctor --hang-test --hung`) {
		t.Errorf("%v %s", err, text)
	}
	p.end()
}
