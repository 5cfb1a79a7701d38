package algo

import (
	"math"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// trot asks a Gait for its joint angles, rad from home, SDK order.
func trot(t *testing.T, spec *rollout.Spec, command [3]float32, phase float64, on bool) (delta [go1.Joints]float64) {
	t.Helper()
	g, err := NewGait(spec)
	if err != nil {
		t.Fatal(err)
	}
	o, err := go1.NewObserver(spec, "policy", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	step := rollout.Step{Obs: [][]float32{make([]float32, o.Dim())}}
	o.Observe(0, &go1.Reading{Phase: 0.9}, step.Obs[0]) // an older frame
	o.Observe(0, &go1.Reading{Command: command, Phase: float32(phase), ClockOn: on}, step.Obs[0])
	d := rollout.Decision{Action: make([]float32, go1.Joints)}
	if err := g.Act(&step, &d); err != nil {
		t.Fatal(err)
	}
	m, err := go1.NewActionMap(spec)
	if err != nil {
		t.Fatal(err)
	}
	var target [go1.Joints]float32
	if err := m.Targets(d.Action, &target); err != nil {
		t.Fatal(err)
	}
	for i := range delta {
		delta[i] = float64(target[i] - m.Home[i])
	}
	return delta
}

// foot is where a foot is, from where it is at home, m.
func foot(leg int, delta *[go1.Joints]float64) (d [3]float64) {
	var q, home [go1.Joints]float64
	for i := range q {
		home[i] = float64(go1.Home[i])
		q[i] = home[i] + delta[i]
	}
	at, was := go1.Foot(leg, &q), go1.Foot(leg, &home)
	for i := range d {
		d[i] = at[i] - was[i]
	}
	return d
}

// Standing feet go back under the trunk as fast as the command says, diagonal pairs together, and
// swinging feet are in the air.
func TestGaitFollowsTheCommand(t *testing.T) {
	spec := task.WalkSpec()
	const dp = 0.02
	dt := dp / float64(spec.Clock.Hz)
	for _, c := range [][3]float32{{0.6, 0, 0}, {-0.4, 0, 0}, {0, 0.3, 0}, {0, 0, 1}, {0.5, -0.2, 0.6}} {
		for _, phase := range []float64{0.1, 0.24, 0.4, 0.6, 0.9} {
			a, b := trot(t, spec, c, phase, true), trot(t, spec, c, phase+dp, true)
			for leg := range go1.Legs {
				p := phase
				if leg == go1.FL || leg == go1.RR {
					p = math.Mod(p+0.5, 1)
				}
				from, to := foot(leg, &a), foot(leg, &b)
				if p >= 0.5 {
					if p < 0.95 && p > 0.55 && from[2] < 0.015 {
						t.Errorf("command %v, phase %v: swinging foot %s is %.3f m high", c, phase, go1.LegNames[leg], from[2])
					}
					continue
				}
				x, y := 0.188, 0.127
				if leg >= go1.RR {
					x = -x
				}
				if leg == go1.FR || leg == go1.RR {
					y = -y
				}
				want := [2]float64{-(float64(c[0]) - float64(c[2])*y), -(float64(c[1]) + float64(c[2])*x)}
				for k, w := range want {
					if v := (to[k] - from[k]) / dt; math.Abs(v-w) > 0.05+0.15*math.Abs(w) {
						t.Errorf("command %v, phase %v: standing foot %s moves at %.2f m/s along axis %d, want %.2f", c, phase, go1.LegNames[leg], v, k, w)
					}
				}
			}
		}
	}
}

func TestGaitStandsWithoutACommand(t *testing.T) {
	if d := trot(t, task.WalkSpec(), [3]float32{}, 0.7, false); d != [go1.Joints]float64{} {
		t.Errorf("%v rad from home", d)
	}
}

// Only the newest frame counts, wherever the contract puts it, and in any joint order.
func TestGaitReadsAnyContract(t *testing.T) {
	want := trot(t, task.WalkSpec(), [3]float32{0.5, 0.1, -0.3}, 0.3, true)
	for _, layout := range []rollout.Layout{rollout.ByTerm, rollout.ByFrame} {
		for _, order := range []rollout.HistoryOrder{rollout.OldestFirst, rollout.NewestFirst} {
			s := task.WalkSpec()
			s.Groups[0].Layout = layout
			for i := range s.Groups[0].Terms {
				s.Groups[0].Terms[i].History, s.Groups[0].Terms[i].Order = 2, order
			}
			for i := range s.Joints { // back to front
				k := go1.Joints - 1 - i
				s.Joints[i], s.Home[i] = go1.JointNames[k], go1.Home[k]
				s.Action.Scale[i] = [3]float32{0.15, 0.3, 0.3}[k%3]
			}
			got := trot(t, s, [3]float32{0.5, 0.1, -0.3}, 0.3, true)
			for i := range got {
				if math.Abs(got[i]-want[i]) > 1e-6 {
					t.Errorf("%s, %s: joint %d at %v, want %v", layout, order, i, got[i], want[i])
				}
			}
		}
	}
}

func TestGaitRefuses(t *testing.T) {
	for says, spoil := range map[string]func(*rollout.Spec){
		"no group policy":              func(s *rollout.Spec) { s.Groups = s.Groups[1:] },
		"clock.hz is 0":                func(s *rollout.Spec) { s.Clock.Hz = 0 },
		"does not show the term clock": func(s *rollout.Spec) { s.Groups[0].Terms = s.Groups[0].Terms[:6] },
		"tail":                         func(s *rollout.Spec) { s.Joints[0] = "tail" },
	} {
		s := task.WalkSpec()
		spoil(s)
		if _, err := NewGait(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}
