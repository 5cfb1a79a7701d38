package main

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// TestUnaskedRobotIsWarnedOf: a robot on this machine stands without a first contact; unless it says that it is a virtual one, whoever lets
// it stand is told, since it may be a relay to a Go1: in the reply, with the state, and once in the journal.
func TestUnaskedRobotIsWarnedOf(t *testing.T) {
	for _, row := range []struct {
		name  string
		sn    [2]uint32
		warns bool
	}{{"of one's own making", [2]uint32{}, true}, {"with a number", [2]uint32{7, 1}, true}, {"virtual", [2]uint32{go1.VirtualSN, 1}, false}} {
		robot := lyingRobot(t)
		robot.OnState(func(s *wire.LowState) { s.SN = row.sn })
		a := startAgent(t, robot.Addr(), "--lockstep")
		a.post("/api/v1/arm", "{}")
		a.until("states come", func(s *state) bool { return s.Loop.States >= 10 })
		want := `"first_contact":{"required":false,"warning":""}`
		if row.warns {
			want = `"first_contact":{"required":false,"warning":"` + unasked + `"}`
		}
		if s := a.get("/api/v1/state"); !strings.Contains(s, want) {
			t.Errorf("%s: no %s in %s", row.name, want, s)
		}
		for range 2 {
			if status, answer := a.try("/api/v1/mode", `{"mode":"stand"}`); status != 200 || strings.Contains(answer, `"warning":"`+unasked+`"`) != row.warns {
				t.Errorf("%s: %d %s", row.name, status, answer)
			}
			a.until("it stands", func(s *state) bool { return s.Mode == "stand" })
			if status, answer := a.try("/api/v1/mode", `{"mode":"damp"}`); status != 200 || strings.Contains(answer, "warning") {
				t.Errorf("%s: %d %s", row.name, status, answer)
			}
			a.until("it is damped", func(s *state) bool { return s.Mode == "damp" })
		}
		a.signal(os.Interrupt)
		a.wait()
		if n := strings.Count(a.said(), unasked); n != map[bool]int{true: 1}[row.warns] {
			t.Errorf("%s: %d times in the journal, want once where it warns:\n%s", row.name, n, a.said())
		}
		d, _ := doctor(t, robot.Addr(), "--set", "control.lockstep=true")
		if f := d.find("first_contact"); (f != nil) != row.warns || f != nil && (f.Level != levelWarning || f.Text != unasked) {
			t.Errorf("%s: doctor: %+v", row.name, d.Findings)
		}
	}
}

// TestAsked: nobody is warned where a first contact is asked for.
func TestAsked(t *testing.T) {
	for _, row := range []struct {
		robot    string
		require  bool
		sn       uint32
		required bool
		warns    bool
	}{
		{"127.0.0.1:8007", false, 0, false, true}, {"127.0.0.1:8007", false, go1.VirtualSN, false, false}, {"127.0.0.1:8007", false, go1.VirtualSN + 1, false, true},
		{"127.0.0.1:8007", true, 0, true, false}, {"127.5.0.1:8007", false, 0, false, true},
		{"192.168.123.10:8007", false, 0, true, false}, {"192.168.123.10:8007", false, go1.VirtualSN, true, false},
	} {
		cfg := defaultConfig()
		cfg.Robot, cfg.FirstContact.Require = "udp://"+netip.MustParseAddrPort(row.robot).String(), row.require
		known := contacts{cfg: &cfg}
		var s control.Snapshot
		s.State.SN[0] = row.sn
		if required, warning := known.asked(&s); required != row.required || (warning != "") != row.warns {
			t.Errorf("%+v: %v %q", row, required, warning)
		}
	}
}
