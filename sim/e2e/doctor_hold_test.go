package e2e

import (
	"strings"
	"testing"
)

// letsGo is a person who moves a joint as asked, holds it there for a moment, and lets it go: it comes back by its damping alone.
func letsGo(seconds string) person {
	return func(e *doctorEvent) (acts []string) {
		for _, act := range does(e) {
			if strings.HasPrefix(act, "hand,") {
				act = strings.Replace(act, "@now", ",how=hold@now+"+seconds, 1)
			}
			acts = append(acts, act)
		}
		return acts
	}
}

// atFirst is a person who does what p does, and nothing once it was the wrong thing.
func atFirst(p person) person {
	return func(e *doctorEvent) []string {
		if e.Try > 1 {
			return nil
		}
		return p(e)
	}
}

// hinted counts the hints of a step whose text says so.
func (d *diagnosis) hinted(step, says string) (n int) {
	for _, e := range d.events {
		if e.Event == "hint" && e.Step == step && strings.Contains(e.Text, says) {
			n++
		}
	}
	return n
}

// TestDoctorHeldOut: a joint, and a foot, of the wrong sign do not pass by coming back, while a person who has held them waits for what comes.
func TestDoctorHeldOut(t *testing.T) {
	for _, held := range []string{"0.6", "1.5", "6"} {
		robot := hungRobot(t, "joint_reversed,joint=FL_hip@0", "foot_reversed,foot=RR@0")
		p := atFirst(func(e *doctorEvent) []string {
			if e.Step == "RR_foot" {
				return []string{"press,foot=RR,n=80@now+" + held}
			}
			return letsGo(held)(e)
		})
		d := runDoctor(t, p, robot, append(contactArgs(t.TempDir(), only("FL_hip_joint", "RR_foot")...), "--timeout", "12")...)
		for _, s := range d.Contact.Steps {
			if (s.Step == "FL_hip_joint" || s.Step == "RR_foot") && s.Result != "failed" {
				t.Errorf("held for %s s: %s: %s", held, s.Step, s.Result)
			}
		}
		if d.find("joint_reversed") == nil || d.find("foot_order") == nil || d.find("joint_speed") != nil {
			t.Errorf("held for %s s: %+v", held, d.Findings)
		}
		if n := d.hinted("FL_hip_joint", "first put FL_hip_joint back to where it hung at rest"); n != 1 {
			t.Errorf("held for %s s: told %d times to put it back", held, n)
		}
		noTorque(t, robot)
	}
}

// TestDoctorLetGo: all joints of a healthy robot pass at the first try for who lets them go, though each creeps back while others are
// asked for; and a first contact that begins meanwhile waits for them.
func TestDoctorLetGo(t *testing.T) {
	robot := hungRobot(t)
	dir := t.TempDir()
	d := runDoctor(t, letsGo("0.6"), robot, contactArgs(dir, "--skip", "motions", "--skip", "feet", "--skip", "remote")...)
	tries := 0
	for _, e := range d.events {
		if e.Event == "ask" && strings.HasSuffix(e.Step, "_joint") {
			tries++
		}
	}
	if tries != 12 {
		t.Errorf("asked %d times for 12 joints", tries)
	}
	for _, s := range d.Contact.Steps {
		if strings.HasSuffix(s.Step, "_joint") && s.Result != "passed" {
			t.Errorf("%s: %s", s.Step, s.Result)
		}
	}
	if d = runDoctor(t, does, robot, contactArgs(dir)...); !d.OK || !d.Contact.Passed || d.hinted("rest", "still creeps, and is waited for") == 0 {
		t.Errorf("the second session: %+v, %+v", d.Findings, d.events)
	}
	noTorque(t, robot)
}
