package main

import (
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// TestVersionThatVaries: LowState.Version binds a result only where all states say the same; where they do not, that is told, and also who
// goes on with such a first contact does not take a later number for other software.
func TestVersionThatVaries(t *testing.T) {
	robot := lyingRobot(t)
	dir := t.TempDir()
	id := contactOf(robot.Addr(), true).Identity
	args := []string{"--first-contact", "--timeout", "1", "--set", "control.lockstep=true", "--set", "first_contact.dir=" + dir, "--skip", "motions", "--skip", "joints", "--skip", "feet", "--skip", "remote"}
	const says = "LowState.Version was not the same in all states, so it is no version of its software: the result is not bound to it"
	for _, row := range []struct {
		name   string
		of     func(tick uint32) [2]uint32
		args   []string
		varies bool
	}{
		{"a constant", func(uint32) [2]uint32 { return [2]uint32{3, 1} }, nil, false},
		{"a counter", func(tick uint32) [2]uint32 { return [2]uint32{3, tick} }, []string{"--anew"}, true},
		{"gone on, and it stands", func(uint32) [2]uint32 { return [2]uint32{4, 0} }, nil, true},
		{"anew, and it stands", func(uint32) [2]uint32 { return [2]uint32{5, 0} }, []string{"--anew"}, false},
	} {
		robot.OnState(func(s *wire.LowState) { s.Version = row.of(s.Tick) })
		d, _ := doctor(t, robot.Addr(), append(row.args, args...)...)
		warned := false
		for _, f := range d.Findings {
			warned = warned || f.Code == "first_contact" && f.Level == levelWarning && f.Text == says && strings.Contains(f.Remedy, "--anew")
		}
		f, err := loadContact(dir, id)
		if err != nil || f.VersionVaries != row.varies || (f.RobotVersion == nil) != row.varies || warned != row.varies {
			t.Errorf("%s: warned %v, kept %+v %v", row.name, warned, f, err)
		}
		later := wire.LowState{}
		later.Version = [2]uint32{9, 9}
		if other := f.otherVersion(&later); (other == "") != row.varies {
			t.Errorf("%s: another version later: %q", row.name, other)
		}
	}
}
