package task

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// standing is a robot that does all that the command zero asks.
func standing() *Moment {
	m := &Moment{Gravity: [3]float64{0, 0, -1}, Height: BaseHeight, Contact: [4]bool{true, true, true, true},
		Knees: [4]float64{0.13, 0.13, 0.13, 0.13}}
	for i, h := range go1.Home {
		m.Q[i], m.Home[i] = float64(h), float64(h)
		m.ActionScale[i] = 0.3
	}
	return m
}

// What standing earns in 0.02 s: 1.5, 0.75, 0.5 and 0.5 times that.
var standingEarns = map[string]float64{"tracking_lin_vel": 0.03, "tracking_ang_vel": 0.015, "gait_contact": 0.01, "alive": 0.01}

// Every term, worked by hand from the recipe: weight * value * 0.02 s. What is not
// named is as for standing.
func TestRewardByHand(t *testing.T) {
	const e = 0.36787944117144233 // exp(-1)
	walking := func(m *Moment, phase float32) { m.ClockOn, m.Phase = true, phase }
	for _, c := range []struct {
		name string
		edit func(m *Moment)
		fell bool
		want map[string]float64
	}{
		{"standing", func(*Moment) {}, false, nil},
		{"velocity error 0.3, 0.4 m/s", func(m *Moment) {
			m.LinVel, m.Command = [3]float64{1.3, -0.4, 0}, [3]float32{1, 0, 0}
		}, false, map[string]float64{"tracking_lin_vel": 0.03 * e}},
		{"yaw rate error 0.5 rad/s", func(m *Moment) { m.AngVel[2], m.Command[2] = 0.5, 1 }, false,
			map[string]float64{"tracking_ang_vel": 0.015 * e}},
		{"sinks at 0.5 m/s", func(m *Moment) { m.LinVel[2] = -0.5 }, false, map[string]float64{"lin_vel_z": -2 * 0.25 * 0.02}},
		{"rolls and pitches", func(m *Moment) { m.AngVel = [3]float64{1, -2, 0} }, false,
			map[string]float64{"ang_vel_xy": -0.05 * 5 * 0.02}},
		{"leans", func(m *Moment) { m.Gravity = [3]float64{0.6, -0.1, -0.79} }, false,
			map[string]float64{"orientation": -2 * 0.37 * 0.02}},
		{"torque", func(m *Moment) { m.Tau2 = 400 }, false, map[string]float64{"torques": -1e-4 * 400 * 0.02}},
		{"actions", func(m *Moment) {
			m.Action[3], m.Last[3], m.Last2[3] = 1, 0.5, -1 // changes by 0.5, before by 1.5
			m.Action[7], m.Last[7], m.Last2[7] = 2, 0, 0    // by 2, before by 0
		}, false, map[string]float64{"action_rate": -0.01 * 4.25 * 0.02, "action_smoothness": -0.005 * 5 * 0.02}},
		{"away from home", func(m *Moment) {
			m.Q[0] += 0.2  // a hip
			m.Q[9] -= 0.1  // another
			m.Q[4] += 0.3  // a thigh
			m.Q[11] -= 0.1 // a calf
		}, false, map[string]float64{"pose": -0.05 * 0.15 * 0.02, "hip_pose": -0.3 * 0.05 * 0.02}},
		{"FR and RL ought to be in mid-swing", func(m *Moment) {
			walking(m, 0.75)
			m.FootHeight = [4]float64{0.07, 0.5, 0.5, 0.02} // FR as it should, RL 5 cm too low
			m.FootVel2 = [4]float64{9, 0.25, 4, 9}          // stance: FL slips at 0.5 m/s, RR at 2
		}, false, map[string]float64{"gait_contact": 0.5 * 0.5 * 0.02, "swing_height": -20 * 0.0025 * 0.02, "foot_slip": -0.1 * 1.25 * 0.02}},
		{"FL and RR ought to be in mid-swing", func(m *Moment) {
			walking(m, 0.25)
			m.FootHeight = [4]float64{0.5, 0.02, 0.07, 0.5}
			m.Contact[1], m.Contact[2] = false, false
			m.FootVel2 = [4]float64{0.25, 9, 9, 0}
		}, false, map[string]float64{"gait_contact": 0.01, "swing_height": -20 * 0.0025 * 0.02, "foot_slip": -0.1 * 0.25 * 0.02}},
		{"FR and RL a sixth through the swing: 0.035 m", func(m *Moment) {
			walking(m, 0.5+0.5/6)
			m.FootHeight[0] = 0.035
			m.Contact[0], m.Contact[2] = false, false // RR ought to stand
			m.FootHeight[3] = 0.015
		}, false, map[string]float64{"gait_contact": 0.5 * 0.5 * 0.02, "swing_height": -20 * 0.0004 * 0.02}},
		{"no clock: every foot ought to stand", func(m *Moment) {
			m.Phase = 0.75
			m.Contact[0] = false
			m.FootHeight[0] = 0.5
			m.FootVel2 = [4]float64{1, 2, 0.5, 0}
		}, false, map[string]float64{"gait_contact": 0.5 * 0.75 * 0.02, "foot_slip": -0.1 * 2.5 * 0.02}},
		{"0.1 m too high", func(m *Moment) { m.Height += 0.1 }, false, map[string]float64{"base_height": -20 * 0.01 * 0.02}},
		{"falls", func(*Moment) {}, true, map[string]float64{"fall": -0.5}},
	} {
		m := standing()
		c.edit(m)
		w := DefaultReward()
		terms := make([]float32, len(RewardTerms()))
		sum := w.Score(m, c.fell, 0.02, terms)
		total := 0.0
		for i, name := range RewardTerms() {
			want, ok := c.want[name]
			if !ok {
				want = standingEarns[name]
			}
			total += want
			if math.Abs(float64(terms[i])-want) > 1e-8 {
				t.Errorf("%s: %s is %v, want %v", c.name, name, terms[i], want)
			}
		}
		if math.Abs(float64(sum)-total) > 1e-7 {
			t.Errorf("%s: reward %v, want %v", c.name, sum, total)
		}
	}
}

// A weight belongs to the term whose name it has in JSON.
func TestRewardNames(t *testing.T) {
	var w Reward
	v, names := reflect.ValueOf(&w).Elem(), RewardTerms()
	if v.NumField() != len(names) || len(names) != rewardTerms {
		t.Fatalf("%d weights, %d names, %d terms", v.NumField(), len(names), rewardTerms)
	}
	for i, name := range names {
		if tag := v.Type().Field(i).Tag.Get("json"); tag != name {
			t.Errorf("weight %d is %s, the term is %s", i, tag, name)
		}
		v.Field(i).SetFloat(float64(i + 1))
	}
	for i, x := range w.weights() {
		if x != float64(i+1) {
			t.Errorf("%s has the weight of %s", names[i], names[int(x)-1])
		}
	}
	// A term has only its own weight: without weights there is no reward.
	terms := make([]float32, rewardTerms)
	if sum := new(Reward).Score(standing(), true, 0.02, terms); sum != 0 || slices.ContainsFunc(terms, func(x float32) bool { return x != 0 }) {
		t.Errorf("no weights earn %v: %v", sum, terms)
	}
}

// The clock's wish for each foot over a cycle: diagonal pairs, half a cycle apart,
// each in the air for the second half of its own.
func TestSwing(t *testing.T) {
	const no = -1
	for _, c := range []struct {
		phase float32
		want  [4]float64 // progress of FR FL RR RL, no where it stands
	}{
		{0, [4]float64{no, 0, 0, no}},
		{0.125, [4]float64{no, 0.25, 0.25, no}},
		{0.375, [4]float64{no, 0.75, 0.75, no}},
		{0.5, [4]float64{0, no, no, 0}},
		{0.625, [4]float64{0.25, no, no, 0.25}},
		{0.875, [4]float64{0.75, no, no, 0.75}},
	} {
		m := Moment{ClockOn: true, Phase: c.phase}
		for leg, want := range c.want {
			swings, s := m.swing(leg)
			if swings != (want != no) || swings && s != want {
				t.Errorf("phase %v, %s: swings %v, progress %v, want %v", c.phase, go1.LegNames[leg], swings, s, want)
			}
		}
		m.ClockOn = false
		for leg := range c.want {
			if swings, _ := m.swing(leg); swings {
				t.Errorf("phase %v, %s swings while the clock stands", c.phase, go1.LegNames[leg])
			}
		}
	}
}

func TestMeasure(t *testing.T) {
	names := MetricNames()
	if len(names) != metrics || names[Rewards] != "reward/tracking_lin_vel" || names[metrics-1] != "reward/fall" {
		t.Fatalf("%d metrics: %v", metrics, names)
	}
	m := standing()
	m.LinVel, m.AngVel[2], m.Height, m.Power = [3]float64{1.3, -0.4, 9}, 0.5, 0.28, 61
	m.Command = [3]float32{1, 0, 1}
	m.Contact[1] = false
	for i := range m.Action { // 0.3 rad * 0.5 on half of the joints
		m.Action[i], m.Last[i] = 1, 1-0.5*float32(i%2)
	}
	out := make([]float32, metrics)
	out[Rewards], out[Bad] = 7, 1
	Measure(m, out)
	for at, want := range map[int]float64{Vx: 1.3, Vy: -0.4, Wz: 0.5, VelErr: 0.5, YawErr: 0.5, Height: 0.28, Bad: 0,
		Power: 61, ActionRate: 0.15 / math.Sqrt2, Contacts: 3, Rewards: 7} {
		if math.Abs(float64(out[at])-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", names[at], out[at], want)
		}
	}
	Masked(out)
	for i, x := range out {
		if (i == Bad) != (x == 1) || i != Bad && x != 0 {
			t.Errorf("masked: %s is %v", names[i], x)
		}
	}
}

func TestPrivileged(t *testing.T) {
	m := standing()
	m.Height, m.Contact[2] = 0.3, false
	m.FootHeight = [4]float64{0.01, 0.02, 0.03, 0.04}
	e := Episode{Friction: 1.1, TrunkMass: -0.5, Kp: 1.05, Kd: 9, Latency: 0.015}
	want := map[string][]float32{
		"base_height": {0.03}, "foot_contact": {1, 1, 0, 1}, "foot_height": {0.01, 0.02, 0.03, 0.04},
		"friction": {0.4}, "trunk_mass": {-0.5}, "motor_gain": {0.05}, "latency": {0.015},
	}
	if len(Privileged) != len(want) {
		t.Errorf("%d privileged terms, want %d", len(Privileged), len(want))
	}
	for _, p := range Privileged {
		if go1.TermByName(p.Name) != nil || p.Doc == "" || p.Unit == "" {
			t.Errorf("%s is a term of the robot, or is not documented", p.Name)
		}
		fill, size, ok := ExtraTerm(p.Name)
		if !ok || size != len(want[p.Name]) {
			t.Fatalf("%s: size %d, known %v", p.Name, size, ok)
		}
		out := slices.Repeat([]float32{9}, size)
		fill(m, &e, out)
		for i, x := range out {
			if math.Abs(float64(x-want[p.Name][i])) > 1e-6 {
				t.Errorf("%s is %v, want %v", p.Name, out, want[p.Name])
			}
		}
	}
	if _, _, ok := ExtraTerm("mood"); ok {
		t.Error("mood is a term")
	}
}

func BenchmarkScore(b *testing.B) {
	m, w, out := standing(), DefaultReward(), make([]float32, metrics)
	m.ClockOn, m.Phase = true, 0.6
	for b.Loop() {
		Measure(m, out)
		w.Score(m, false, 0.02, out[Rewards:])
	}
}
