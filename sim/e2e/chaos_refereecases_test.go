package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// script writes a robot's log by hand: a robot that is armed, stands up, walks and is damped.
type script struct {
	t     float64
	lines []string
	story []act
	ended float64 // s, of the agent
}

func (s *script) add(format string, a ...any) {
	s.lines = append(s.lines, fmt.Sprintf(`{"t":%.3f,"tick":%.0f,`, s.t, s.t*1e3)+fmt.Sprintf(format, a...)+"}")
}

func (s *script) does(a act) {
	s.story = append(s.story, a)
	s.add(`"event":"fault","kind":"kick","on":true,"fault":%q,"id":1`, mark)
	s.add(`"event":"fault","kind":"kick","on":false,"fault":%q,"id":1`, mark)
}

func list(v []float64) string { return strings.Join(strings.Fields(fmt.Sprint(v)), ",") }

func home() []float64 {
	q := make([]float64, go1.Joints)
	for i := range q {
		q[i] = float64(go1.Home[i])
	}
	return q
}

// frames are sent for some ticks; each tenth comes with a state.
func (s *script) frames(ticks int, class string, kp, kd, vx float64, target, torques []float64) {
	for i := range ticks {
		s.t += tickMs / 1e3
		s.add(`"event":"frame","class":%q,"frame":1,"kp":%g,"kd":%g,"torque":1,"torques":%s,"target":%s,"rx_us":%.0f`,
			class, kp, kd, list(torques), list(target), s.t*1e6)
		if i%10 == 9 {
			s.add(`"event":"state","pos":[0,0,0.28],"height":0.28,"tilt":0.02,"vel":[0,0,0],"heading":[%g,0],"class":%q`, vx, class)
		}
	}
}

func (s *script) torque(ticks int, vx float64) {
	s.frames(ticks, "torque", 60, 5, vx, home(), make([]float64, go1.Joints))
}

func (s *script) damping(ticks int) {
	s.frames(ticks, "damping", 0, 3, 0, make([]float64, go1.Joints), make([]float64, go1.Joints))
}

// good is a log in which nothing is wrong, up to the walk.
func goodScript() *script {
	s := &script{}
	s.add(`"event":"start","version":"x","seed":1`)
	s.t = 1
	s.does(arms)
	s.add(`"event":"command","class":"damping","from":"none","frame":1,"sender":"127.0.0.1:1000","kp":0,"kd":3`)
	s.damping(20)
	s.does(stands)
	s.damping(5)
	s.torque(600, 0.8)
	return s
}

func (s *script) judged(t *testing.T, want outcome) []string {
	t.Helper()
	r := s.read(t)
	r.ends(want, 400)
	return r.said
}

// TestReferee: logs without a mistake pass, and each thing that may never be is said, once per log, by its name.
func TestReferee(t *testing.T) {
	with := func(at int, q float64) []float64 { v := home(); v[at] = q; return v }
	none := make([]float64, go1.Joints)
	const calf = 2
	upper, lower := float64(go1.TargetUpper[calf]), float64(go1.TargetLower[calf])
	for _, c := range []struct {
		name string
		do   func(*script)
		want outcome
		says []string // kinds; none: nothing is wrong
	}{
		{"walks", func(*script) {}, walks, nil},
		{"damped", func(s *script) { s.damping(600) }, damps, nil},
		{"stands", func(s *script) { s.torque(600, 0) }, stays, nil},
		{"damped, and a person lets it walk again", func(s *script) { s.damping(600); s.does(stands); s.torque(600, 0.8) }, walks, nil},
		{"another agent after the first", func(s *script) {
			s.damping(600)
			s.does(otherAgent)
			s.add(`"event":"sender","sender":"127.0.0.1:1001","before":"127.0.0.1:1000"`)
			s.damping(600)
		}, damps, nil},
		{"a stranger sends torque", func(s *script) {
			s.damping(600)
			s.does(strangers)
			s.add(`"event":"sender","sender":"127.0.0.2:1","before":"127.0.0.1:1000"`)
			s.torque(10, 0)
			s.add(`"event":"sender","sender":"127.0.0.1:1000","before":"127.0.0.2:1"`)
			s.damping(600)
		}, damps, nil},
		{"a command lost by a fault", func(s *script) { s.add(`"event":"reject","reason":"dropped","count":1`) }, walks, nil},
		{"a command damaged by a fault", func(s *script) {
			s.add(`"event":"fault","kind":"corrupt_command","on":true,"fault":"corrupt_command,samples=1@now","id":2`)
			s.add(`"event":"fault","kind":"corrupt_command","on":false,"fault":"corrupt_command,samples=1@now","id":2`)
			s.add(`"event":"reject","reason":"crc","count":1,"bytes":614`)
			s.torque(60, 0.8)
		}, walks, nil},
		{"starts outside and moves in", func(s *script) {
			s.damping(2)
			s.does(stands)
			for _, q := range []float64{-2.9, -2.85, -2.8, -2.7, -2.7} {
				s.frames(1, "torque", 60, 5, 0, with(calf, q), none)
			}
			s.torque(600, 0.8)
		}, walks, nil},
		{"falls silent", func(s *script) {
			s.damping(10)
			s.ended, s.t = s.t, s.t+3
			s.add(`"event":"state","height":0.08,"tilt":0,"heading":[0,0]`)
		}, quiet, nil},

		{"a torque frame behind damping", func(s *script) { s.damping(300); s.torque(1, 0); s.damping(600) }, damps, []string{"torque"}},
		{"torque goes on behind damping", func(s *script) { s.damping(1); s.torque(600, 0.8) }, walks, []string{"torque"}},
		{"an act that is no stand lets torque out", func(s *script) { s.damping(1); s.does(watches); s.torque(600, 0.8) }, walks, []string{"torque"}},
		{"one stand lets torque out twice", func(s *script) { s.damping(1); s.does(stands); s.torque(5, 0); s.damping(1); s.torque(600, 0.8) }, walks, []string{"torque"}},
		{"damping has stiffness", func(s *script) { s.frames(600, "damping", 1, 3, 0, none, none) }, damps, []string{"damping"}},
		{"damping has no damping", func(s *script) { s.frames(600, "damping", 0, 0, 0, none, none) }, damps, []string{"damping"}},
		{"zero torque", func(s *script) { s.damping(600); s.frames(1, "zero", 0, 0, 0, none, none); s.damping(600) }, damps, []string{"class"}},
		{"target above", func(s *script) { s.frames(1, "torque", 60, 5, 0, with(calf, upper+0.001), none); s.torque(600, 0.8) }, walks, []string{"target"}},
		{"target below", func(s *script) { s.frames(1, "torque", 60, 5, 0, with(calf, lower-0.001), none); s.torque(600, 0.8) }, walks, []string{"target"}},
		{"starts outside and moves out", func(s *script) {
			s.damping(2)
			s.does(stands)
			s.frames(1, "torque", 60, 5, 0, with(calf, -2.8), none)
			s.frames(1, "torque", 60, 5, 0, with(calf, -2.81), none)
			s.torque(600, 0.8)
		}, walks, []string{"target"}},
		{"comes in and goes out", func(s *script) {
			s.damping(2)
			s.does(stands)
			for _, q := range []float64{-2.8, -2.7, -2.8} {
				s.frames(1, "torque", 60, 5, 0, with(calf, q), none)
			}
			s.torque(600, 0.8)
		}, walks, []string{"target"}},
		{"starts beyond the stops", func(s *script) {
			s.damping(2)
			s.does(stands)
			s.frames(1, "torque", 60, 5, 0, with(calf, -3), none)
			s.torque(600, 0.8)
		}, walks, []string{"target"}},
		{"a target that is no number", func(s *script) {
			s.add(`"event":"frame","class":"torque","kp":60,"kd":5,"torques":%s,"target":[null,0.8,-1.6,0,0.8,-1.6,0,0.8,-1.6,0,0.8,-1.6]`, list(none))
			s.torque(600, 0.8)
		}, walks, []string{"no number"}},
		{"too stiff", func(s *script) { s.frames(1, "torque", 121, 5, 0, home(), none); s.torque(600, 0.8) }, walks, []string{"gains"}},
		{"too much damping", func(s *script) { s.frames(1, "torque", 60, 11, 0, home(), none); s.torque(600, 0.8) }, walks, []string{"gains"}},
		{"too much torque", func(s *script) {
			s.frames(1, "torque", 60, 5, 0, home(), append([]float64{-26}, none[1:]...))
			s.torque(600, 0.8)
		}, walks, []string{"too much"}},
		{"refused by the robot", func(s *script) { s.add(`"event":"reject","reason":"non-finite","count":1,"bytes":614`) }, walks, []string{"refused"}},
		{"refused by the robot, long behind damaged ones", func(s *script) {
			s.add(`"event":"fault","kind":"corrupt_command","on":true,"fault":"corrupt_command,samples=1@now","id":2`)
			s.add(`"event":"fault","kind":"corrupt_command","on":false,"fault":"corrupt_command,samples=1@now","id":2`)
			s.torque(60, 0.8)
			s.add(`"event":"reject","reason":"crc","count":1,"bytes":614`)
		}, walks, []string{"refused"}},
		{"another address", func(s *script) {
			s.add(`"event":"sender","sender":"127.0.0.1:1001","before":"127.0.0.1:1000"`)
			s.torque(600, 0.8)
		}, walks, []string{"address"}},
		{"torque behind damping, beside a stranger", func(s *script) {
			s.does(strangers)
			s.damping(600)
			s.add(`"event":"sender","sender":"127.0.0.2:1","before":"127.0.0.1:1000"`)
			s.torque(1, 0)
			s.add(`"event":"sender","sender":"127.0.0.1:1000","before":"127.0.0.2:1"`)
			s.torque(1, 0)
			s.damping(600)
		}, damps, []string{"torque"}},
		{"limp", func(s *script) { s.add(`"event":"limp","cause":"battery switched off"`) }, walks, []string{"limp"}},
		{"physics breaks", func(s *script) { s.add(`"event":"error","error":"x"`) }, walks, []string{"physics"}},

		{"should be damped", func(*script) {}, damps, []string{"end"}},
		{"should walk", func(s *script) { s.damping(600) }, walks, []string{"end"}},
		{"should walk, and stands", func(s *script) { s.torque(600, 0) }, walks, []string{"end"}},
		{"should stand, and walks", func(*script) {}, stays, []string{"end"}},
		{"should be quiet", func(s *script) { s.damping(600); s.ended = s.t; s.damping(1) }, quiet, []string{"end"}},
		{"should have been quiet long ago", func(s *script) {
			s.ended = s.t
			s.damping(1)
			s.t += 3
			s.add(`"event":"state","height":0.08,"tilt":0,"heading":[0,0]`)
		}, quiet, []string{"end"}},
		{"damping stops", func(s *script) {
			s.damping(600)
			s.t += 0.7
			s.add(`"event":"state","height":0.08,"tilt":0,"heading":[0,0]`)
		}, damps, []string{"end"}},
		{"a mark that nobody made", func(s *script) { s.does(watches); s.story = s.story[:2] }, walks, []string{"story", "story"}},
		{"an act that left no mark", func(s *script) { s.story = append(s.story, watches) }, walks, []string{"story"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := goodScript()
			c.do(s)
			checkSaid(t, s.judged(t, c.want), c.says)
		})
	}
	t.Run("before anybody armed", func(t *testing.T) {
		s := &script{}
		s.frames(1, "damping", 0, 3, 0, none, none)
		s.does(arms)
		s.damping(600)
		checkSaid(t, s.judged(t, damps), []string{"idle"})
	})
	t.Run("torque before any stand", func(t *testing.T) {
		s := &script{}
		s.does(arms)
		s.damping(20)
		s.torque(1, 0)
		s.damping(600)
		checkSaid(t, s.judged(t, damps), []string{"torque"})
	})
	t.Run("a fault hides the joints", func(t *testing.T) { // what the agent cannot know it is not asked for
		s := goodScript()
		s.add(`"event":"fault","kind":"joint_offset","on":true,"fault":"joint_offset@now","id":2`)
		s.frames(1, "torque", 60, 5, 0, home(), append([]float64{-26}, none[1:]...))
		s.add(`"event":"fault","kind":"joint_offset","on":false,"fault":"joint_offset@now","id":2`)
		s.torque(60, 0.8)
		checkSaid(t, s.judged(t, walks), nil)
		s.frames(1, "torque", 60, 5, 0, home(), append([]float64{-26}, none[1:]...))
		checkSaid(t, s.judged(t, walks), []string{"too much"})
	})
	t.Run("times of a stop", func(t *testing.T) {
		s := goodScript()
		last := s.t
		s.t += 0.02
		s.damping(1)
		r := &referee{story: s.story}
		for _, line := range s.lines {
			e, err := parseEntry([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			r.see(&e)
		}
		want := []stop{{int64(last*1e6 + 0.5), int64(s.t*1e6 + 0.5), s.t}}
		if len(r.stops) != 1 || r.stops[0].torqueUs != want[0].torqueUs || r.stops[0].dampUs != want[0].dampUs {
			t.Errorf("%+v, want %+v", r.stops, want)
		}
	})
}

// checkSaid compares by kind: "1.234 s: KIND: ...".
func checkSaid(t *testing.T, said, want []string) {
	t.Helper()
	var kinds []string
	for _, s := range said {
		kinds = append(kinds, strings.Split(s, ": ")[1])
	}
	// Of a thing that goes on it is said a few times.
	if kinds = slices.Compact(kinds); !slices.Equal(kinds, slices.Compact(slices.Clone(want))) {
		t.Errorf("said %q, want %q", said, want)
	}
}
