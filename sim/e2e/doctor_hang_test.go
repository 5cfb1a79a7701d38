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

// keptContact is a folder with a passed result of the virtual robot of the default serial number, hung.
func keptContact(t *testing.T) string {
	t.Helper()
	record, err := os.ReadFile("../../agent/cmd/clawagent/testdata/passed_record.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := slices.Concat([]byte(`{"format":1,"identity":"sn-00000c1a-00000001","passed":true,"record":`), record, []byte("}\n"))
	if err := os.WriteFile(filepath.Join(dir, "sn-00000c1a-00000001.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestHangTestWantsAHungRobot: one that lies gets no torque, whatever its foot sensors say, and neither does one whose legs are not
// where they hung.
func TestHangTestWantsAHungRobot(t *testing.T) {
	kept := keptContact(t)
	for _, row := range []struct {
		name   string
		boot   virtual.Boot
		faults []string
		says   string
	}{
		{"on its belly with dead feet", virtual.BootFolded, []string{"foot_force_zero@0"}, "all legs are folded, as those of a robot that lies on its belly; no torque was sent"},
		{"a thigh reversed", virtual.BootHung, []string{"joint_reversed,joint=RL_thigh@0"}, "the RL_thigh_joint is at "},
		{"a hand holds a leg", virtual.BootHung, []string{"hand,joint=FR_thigh,rad=0.7,how=hold@0"}, "the FR_thigh_joint is at "},
		{"two feet on the ground", virtual.BootHung, []string{"foot_force_offset,fr=0,fl=0,rr=100,rl=100@0"}, "the RL foot reads "},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			robot := hungRobotWith(t, func(c *virtual.Config) { c.Lockstep, c.Boot = false, row.boot }, row.faults...)
			d := runDoctor(t, nil, robot, "--hang-test", "--hung", "--timeout", "1", "--set", "first_contact.dir="+kept)
			if f := d.find("not_hung"); f == nil || f.Level != "error" || !strings.Contains(f.Text, row.says) || d.code != 1 {
				t.Errorf("exit code %d, want not_hung with %q: %+v", d.code, row.says, d.Findings)
			}
			noTorque(t, robot)
		})
	}
}

// TestHangTestEndsWhereLegsStray: with torque on the legs, one that goes against its target, or one that moves though it is told to stay,
// ends the test, and the robot is damped.
func TestHangTestEndsWhereLegsStray(t *testing.T) {
	kept := keptContact(t)
	for _, row := range []struct{ name, act, says string }{
		{"against its target", "hand,joint=FL_thigh,rad=-0.5,ms=300,how=hold@now", "FL_thigh_joint has moved by -"},
		{"uncommanded", "hand,joint=RR_hip,rad=0.4,ms=300,how=hold@now", "though it is told to stay"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for range tries {
				robot := hungRobotWith(t, func(c *virtual.Config) { c.Lockstep = false })
				h := startHangTest(t, robot, "--set", "first_contact.dir="+kept)
				until(t, "torque", func() bool { return !h.running() || robot.Status().LastTorque > 0 })
				robot.Fault(row.act)
				<-h.ended
				robot.Stop()
				d := new(diagnosis)
				if err := json.Unmarshal([]byte(h.out.String()), d); err != nil {
					t.Fatalf("%v: %q", err, h.out.String())
				}
				if d.late() { // broken off by this machine
					continue
				}
				if f := d.find("hang_aborted"); f == nil || f.Level != "error" || !strings.Contains(f.Text, row.says) || d.Contact.LinkLoss != nil || h.cmd.ProcessState.ExitCode() != 1 {
					t.Errorf("exit code %d, want hang_aborted with %q: %+v", h.cmd.ProcessState.ExitCode(), row.says, d.Findings)
				}
				if s := robot.Summary(); s.DampingTick < 0 || s.TorqueAfter != 0 || robot.Status().Class != virtual.ClassDamping {
					t.Errorf("it is not damped: %+v", s)
				}
				return
			}
			t.Skip("this machine stands still too often for a hang test")
		})
	}
}
