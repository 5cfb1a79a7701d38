package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// interrupted runs a first contact of which all but the remote's steps are left out, and ends it at a line of --json.
func interrupted(t *testing.T, robot *linktest.Robot, dir, atLine string, args ...string) (d diagnosis) {
	t.Helper()
	args = append([]string{"doctor", "--json", "--first-contact", "--robot", "udp://" + robot.Addr().String(), "--set", "control.lockstep=true", "--set", "first_contact.dir=" + dir,
		"--timeout", "600", "--skip", "motions", "--skip", "joints", "--skip", "feet"}, args...)
	cmd := exec.Command(program, args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	lines := bufio.NewScanner(out)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		if last = lines.Text(); strings.Contains(last, atLine) {
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	_ = cmd.Wait()
	result{stdout: last + "\n"}.lastJSON(t, &d)
	if !d.Interrupted || d.OK {
		t.Errorf("not broken off: %s", last)
	}
	return d
}

// stopPressed presses L2 and B together, half of the time.
func stopPressed(s *wire.LowState) {
	r := wire.Remote{Head: [2]byte{wire.RemoteHead0, wire.RemoteHead1}}
	if s.Tick%2000 >= 1000 {
		r.Buttons = wire.ButtonL2 | wire.ButtonB
	}
	copy(s.Remote[:], wire.AppendRemote(nil, &r))
}

// TestFirstContactSparesWhatHasPassed: whoever begins a first contact by mistake, of a robot that has passed, and ends it before a step is
// done, has lost nothing, the hang test neither. Once a step is done, or with --anew, the old result is no more.
func TestFirstContactSparesWhatHasPassed(t *testing.T) {
	robot := lyingRobot(t)
	dir := t.TempDir()
	kept := contactOf(robot.Addr(), true)
	kept.LinkLoss = &linkLoss{Behaviour: firstcontact.Holds, Trials: lossTrials()}
	path := contactPath(dir, kept.Identity)
	const firstAsk, firstStep = `{"event":"ask","step":"remote_stop"`, `{"event":"step","step":"remote_stop"`
	withRemote, withoutRemote := contactOf(robot.Addr(), true).Record, contactOf(robot.Addr(), true).Record
	withoutRemote.Remote = firstcontact.RemoteFigures{}
	for s := firstcontact.RemoteStop; int(s) < firstcontact.StepCount; s++ {
		withoutRemote.Results[s] = firstcontact.NotAsked
	}
	for _, row := range []struct {
		name   string
		record firstcontact.Record
		passed bool
		at     string
		args   []string
		spared bool
		says   string
	}{
		{"ended before a step is done", withRemote, true, firstAsk, nil, true, "no step was done, so " + kept.Identity + " has passed its first contact as before, on 2023-11-14T22:13:20Z; kept in " + path},
		{"one of an agent without a remote", withoutRemote, true, firstAsk, nil, true, "does not let it stand: that of " + kept.Identity + " of 2023-11-14T22:13:20Z was made without the hand remote"},
		{"ended when a step is done", withRemote, true, firstStep, nil, false, "has not passed its first contact"},
		{"--anew", withRemote, true, firstAsk, []string{"--anew"}, false, "has not passed its first contact"},
		{"one that had not passed", withRemote, false, firstStep, []string{"--anew"}, false, "has not passed its first contact"},
	} {
		kept.Record, kept.Passed = row.record, row.passed
		if err := kept.store(dir); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		robot.OnState(nil)
		if row.at == firstStep {
			robot.OnState(stopPressed)
		}
		d := interrupted(t, robot, dir, row.at, row.args...)
		after, err := os.ReadFile(path)
		if err != nil || bytes.Equal(before, after) != row.spared {
			t.Errorf("%s: spared %v, want %v (%v):\n%s", row.name, !row.spared, row.spared, err, after)
		}
		if f := d.find("first_contact"); f == nil || !strings.Contains(f.Text, row.says) || d.Contact == nil || (d.Contact.LinkLoss != nil) != row.spared {
			t.Errorf("%s: %+v, want %q", row.name, d.Findings, row.says)
		}
		f, err := loadContact(dir, kept.Identity)
		if err != nil || (f.LinkLoss != nil) != row.spared || f.Passed != row.spared {
			t.Errorf("%s: %+v %v", row.name, f, err)
		}
	}
}

// TestRestartSparesWhatHasPassed: nor does a robot that starts anew in such a first contact lose what it has passed.
func TestRestartSparesWhatHasPassed(t *testing.T) {
	robot := lyingRobot(t)
	robot.OnState(func(s *wire.LowState) { s.Tick = 5000 + s.Tick%1500 })
	dir := t.TempDir()
	kept := contactOf(robot.Addr(), true)
	kept.LinkLoss = &linkLoss{Behaviour: firstcontact.Holds, Trials: lossTrials()}
	if err := kept.store(dir); err != nil {
		t.Fatal(err)
	}
	d, _ := doctor(t, robot.Addr(), "--first-contact", "--timeout", "1", "--set", "control.lockstep=true", "--set", "first_contact.dir="+dir)
	if f := d.find("robot_restarted"); f == nil || f.Level != levelError {
		t.Errorf("%+v", d.Findings)
	}
	if f, err := loadContact(dir, kept.Identity); err != nil || !f.Passed || f.LinkLoss == nil {
		t.Errorf("%+v %v", f, err)
	}
}
