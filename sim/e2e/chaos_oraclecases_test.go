package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/safety"
)

// read lets a referee read the log up to here.
func (s *script) read(t *testing.T) *referee {
	t.Helper()
	r := &referee{story: s.story, lockstep: true, endedUs: int64(s.ended * 1e6)}
	for _, line := range s.lines {
		e, err := parseEntry([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		r.see(&e)
	}
	return r
}

// says is an agent's answer.
func says(t *testing.T, mode, severity, fault string) *state {
	t.Helper()
	s := &state{Mode: mode, Severity: severity}
	if fault != "" {
		if err := json.Unmarshal(fmt.Appendf(nil, `{"fault":{"name":%q}}`, fault), s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// tilts is a state of a robot that still has torque.
func (s *script) tilts(rad float64) {
	s.add(`"event":"state","height":0.25,"tilt":%g,"heading":[0.8,0],"class":"torque"`, rad)
}

// drawn is the trouble whose fault begins so, of one severity, at a time behind the first walking.
func drawn(t *testing.T, fault string, does safety.Severity, at float64) event {
	t.Helper()
	for _, c := range troubles {
		if strings.HasPrefix(c.fault, fault) && c.does == does {
			return event{trouble: c, at: at}
		}
	}
	t.Fatalf("no trouble %s, %v", fault, does)
	return event{}
}

// TestLockstepEnd: what may be said of a robot that was stopped, and when it may have been, by its log and its schedule; it walks from
// 3 s on.
func TestLockstepEnd(t *testing.T) {
	const walked = 3.
	// walk lets it go on until so long behind the first walking.
	walk := func(s *script, after, v float64) { s.torque(int(math.Round((walked+after-s.t)*1e3/tickMs)), v) }
	quiver := func(at float64) event { return drawn(t, "push", safety.None, at) }
	for _, c := range []struct {
		name   string
		events []event
		do     func(*script)
		says   *state
		want   outcome
		by     harm
		kinds  []string
	}{
		{"damped by what damps", []event{drawn(t, "gyro_nan", safety.Damp, 2)}, func(s *script) { walk(s, 2, 0.8); s.damping(600) },
			says(t, "damp", "damp", "state_not_finite"), damps, unharmed, nil},
		{"damped before anything was", []event{drawn(t, "gyro_nan", safety.Damp, 2)}, func(s *script) { walk(s, 1.98, 0.8); s.damping(600) },
			says(t, "damp", "damp", "state_not_finite"), damps, unharmed, []string{"time"}},
		{"damped sooner than the count is full", []event{drawn(t, "temperature,joint={joint},value={96", safety.Damp, 2)}, func(s *script) { walk(s, 3.9, 0.8); s.damping(600) },
			says(t, "damp", "damp", "motor_hot"), damps, unharmed, []string{"time"}},
		{"damped too late", []event{drawn(t, "gyro_nan", safety.Damp, 2)}, func(s *script) { walk(s, 2.06, 0.8); s.damping(600) },
			says(t, "damp", "damp", "state_not_finite"), damps, unharmed, []string{"time"}},
		{"never damped", []event{drawn(t, "gyro_nan", safety.Damp, 2)}, func(s *script) { walk(s, 4, 0.8) },
			says(t, "damp", "damp", "state_not_finite"), damps, unharmed, []string{"time"}},
		{"another's name", []event{drawn(t, "gyro_nan", safety.Damp, 2)}, func(s *script) { walk(s, 2, 0.8); s.damping(600) },
			says(t, "damp", "damp", "loop_late"), damps, unharmed, []string{"cause"}},
		{"the name of what is less severe", []event{drawn(t, "imu_tilt", safety.StandHold, 1.9), drawn(t, "gyro_nan", safety.Damp, 2)},
			func(s *script) { walk(s, 2, 0.8); s.damping(600) }, says(t, "damp", "damp", "tilt"), damps, unharmed, []string{"cause"}},
		{"less severe than what is asked for", []event{drawn(t, "battery,soc={1:", safety.Sit, 2), drawn(t, "gyro_nan", safety.Damp, 2)},
			func(s *script) { walk(s, 2, 0.8); s.damping(600) }, says(t, "damp", "sit", "battery_low"), damps, unharmed, []string{"cause"}},
		{"sat down before it would be damped", []event{drawn(t, "battery,soc={1:", safety.Sit, 1), drawn(t, "gyro_nan", safety.Damp, 5.5)},
			func(s *script) { walk(s, 1, 0.8); walk(s, 5, 0); s.damping(600) }, says(t, "damp", "sit", "battery_low"), damps, unharmed, nil},
		{"sat down too soon", []event{drawn(t, "battery,soc={1:", safety.Sit, 1)}, func(s *script) { walk(s, 1, 0.8); walk(s, 4.5, 0); s.damping(600) },
			says(t, "damp", "sit", "battery_low"), damps, unharmed, []string{"time"}},
		{"sat down sooner because it stood", []event{drawn(t, "imu_tilt", safety.StandHold, 1), drawn(t, "battery,soc={1:", safety.Sit, 1)},
			func(s *script) { walk(s, 1, 0.8); walk(s, 4, 0); s.damping(600) }, says(t, "damp", "sit", "battery_low"), damps, unharmed, nil},
		{"sat down too late", []event{drawn(t, "battery,soc={1:", safety.Sit, 1)}, func(s *script) { walk(s, 1, 0.8); walk(s, 5.2, 0); s.damping(600) },
			says(t, "damp", "sit", "battery_low"), damps, unharmed, []string{"time"}},
		{"stood still before anything was", []event{drawn(t, "battery,soc={1:", safety.Sit, 2)}, func(s *script) { walk(s, 1.4, 0.8); walk(s, 6, 0); s.damping(600) },
			says(t, "damp", "sit", "battery_low"), damps, unharmed, []string{"time"}},
		{"stood still before, for want of its remote", []event{{trouble: drawn(t, "remote_absent", safety.None, 0).trouble, at: 1.3, end: 1.9}, drawn(t, "battery,soc={1:", safety.Sit, 2)},
			func(s *script) { walk(s, 1.4, 0.8); walk(s, 6, 0); s.damping(600) }, says(t, "damp", "sit", "battery_low"), damps, unharmed, nil},
		{"stands", []event{drawn(t, "imu_tilt", safety.StandHold, 2)}, func(s *script) { walk(s, 2, 0.8); walk(s, 4, 0) },
			says(t, "stand", "stand_hold", "tilt"), stays, unharmed, nil},
		{"stands, in another mode", []event{drawn(t, "imu_tilt", safety.StandHold, 2)}, func(s *script) { walk(s, 2, 0.8); walk(s, 4, 0) },
			says(t, "policy", "stand_hold", "tilt"), stays, unharmed, []string{"cause"}},
		{"the remote's stop, in another mode", []event{drawn(t, "remote_buttons,buttons=L2+B", safety.Cut, 2)}, func(s *script) { walk(s, 2, 0.8); s.damping(600) },
			says(t, "damp", "cut", "remote_stop"), damps, unharmed, []string{"cause"}},

		{"walks on", []event{quiver(1)}, func(s *script) { walk(s, 4, 0.8) }, says(t, "policy", "none", ""), walks, unharmed, nil},
		{"walks on in another mode", []event{quiver(1)}, func(s *script) { walk(s, 4, 0.8) }, says(t, "stand", "none", ""), walks, unharmed, []string{"cause"}},
		{"thrown over by a push", []event{quiver(1)}, func(s *script) { walk(s, 1.5, 0.8); s.tilts(0.7); walk(s, 2, 0.8); s.damping(600) },
			says(t, "damp", "damp", "tilt"), damps, byThrow, nil},
		{"thrown over, and held", []event{quiver(1)}, func(s *script) { walk(s, 1.5, 0.8); s.tilts(0.7); walk(s, 4, 0) },
			says(t, "stand", "stand_hold", "tilt"), stays, byThrow, nil},
		{"thrown over by nobody", []event{drawn(t, "battery,soc={11", safety.None, 1)}, func(s *script) { walk(s, 1.5, 0.8); s.tilts(0.7); walk(s, 2, 0.8); s.damping(600) },
			says(t, "damp", "damp", "tilt"), walks, unharmed, []string{"cause"}},
		{"thrown over before the push", []event{quiver(3)}, func(s *script) { walk(s, 1.5, 0.8); s.tilts(0.7); walk(s, 2, 0.8); s.damping(600) },
			says(t, "damp", "damp", "tilt"), damps, byThrow, []string{"time"}},
		{"falls because it was damped", []event{quiver(1)}, func(s *script) { walk(s, 2, 0.8); s.damping(1); s.tilts(1.2); s.add(`"event":"fall"`); s.damping(600) },
			says(t, "damp", "damp", "joint_speed"), walks, unharmed, []string{"cause"}},
		{"a push that throws nobody over, and a name that is none of it", []event{quiver(1)}, func(s *script) { walk(s, 1.5, 0.8); s.tilts(0.7); walk(s, 2, 0.8); s.damping(600) },
			says(t, "damp", "damp", "state_stale"), walks, unharmed, []string{"cause"}},
		{"a row that may act", []event{drawn(t, "joint_stuck,joint=all", safety.None, 1)}, func(s *script) { walk(s, 1.5, 0.8); s.damping(600) },
			says(t, "damp", "damp", "power"), damps, byRow, nil},
		{"a row that may act, too soon", []event{drawn(t, "joint_stuck,joint=all", safety.None, 1)}, func(s *script) { walk(s, 0.5, 0.8); s.damping(600) },
			says(t, "damp", "damp", "power"), damps, byRow, []string{"time"}},
		{"a row that may act, with an act that is not its own", []event{drawn(t, "joint_stuck,joint=all", safety.None, 1)}, func(s *script) { walk(s, 1.5, 0.8); s.damping(600) },
			says(t, "damp", "sit", "power"), walks, unharmed, []string{"cause"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := goodScript()
			c.do(s)
			r := s.read(t)
			want, by := r.lockstepEnd(&schedule{events: c.events}, walked, c.says)
			if want != c.want || by != c.by {
				t.Errorf("must end %s, came to harm by %q; want %s, %q", want, by, c.want, c.by)
			}
			checkSaid(t, r.said, c.kinds)
		})
	}
}

// TestCapped: excuses are counted.
func TestCapped(t *testing.T) {
	for _, c := range []struct {
		n, all float64
		ok     bool
	}{{0, 0, true}, {0, 200, true}, {20, 200, true}, {21, 200, false}, {1, 0, false}, {200, 200, false}} {
		if err := capped("x", c.n, c.all, 0.1); (err == nil) != c.ok {
			t.Errorf("%v of %v: %v", c.n, c.all, err)
		}
	}
}
