package go1

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// isaac is Isaac Lab's joint order: all hips, all thighs, all calves, each
// FL FR RL RR.
func isaac() (names []string) {
	for _, joint := range []string{"hip", "thigh", "calf"} {
		for _, leg := range []string{"FL", "FR", "RL", "RR"} {
			names = append(names, leg+"_"+joint+"_joint")
		}
	}
	return names
}

// spec is a contract in the given joint order whose policy group has terms.
func spec(names []string, layout rollout.Layout, terms ...rollout.Term) *rollout.Spec {
	s := &rollout.Spec{Robot: Robot, Joints: names, PolicyPeriodNs: 20e6, ControlPeriodNs: 2e6,
		Groups: []rollout.Group{{Name: "policy", Layout: layout, Terms: terms}}}
	for _, n := range names {
		h := float32(0)
		if m := JointIndex(n); m >= 0 {
			h = Home[m]
		}
		s.Home = append(s.Home, h)
		s.Action.Scale = append(s.Action.Scale, 0.5)
		s.Kp, s.Kd = append(s.Kp, 35), append(s.Kd, 0.5)
	}
	return s
}

func term(name string, scale float32, history int) rollout.Term {
	return rollout.Term{Name: name, Size: TermByName(name).Size, Scale: scale, History: history}
}

// numbered is a Reading in which every number is another.
func numbered() *Reading {
	r := &Reading{Gyro: [3]float32{1, 2, 3}, Gravity: [3]float32{4, 5, 6}, LinVel: [3]float32{7, 8, 9},
		Command: [3]float32{10, 11, 12}, Phase: 0.25, ClockOn: true}
	for i := range Joints {
		r.Q[i], r.Dq[i], r.LastAction[i] = Home[i]+float32(i)*0.125, 100+float32(i), 200+float32(i)
	}
	return r
}

func observe(t *testing.T, s *rollout.Spec, readings ...*Reading) (out []float32) {
	t.Helper()
	o, err := NewObserver(s, "policy", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	out = make([]float32, o.Dim())
	for _, r := range readings {
		o.Observe(0, r, out)
	}
	return out
}

func near(a, b []float32, within float64) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) <= within })
}

func TestTermsShowTheirReading(t *testing.T) {
	count := func(from, step float32) (v []float32) {
		for i := range Joints {
			v = append(v, from+float32(i)*step)
		}
		return v
	}
	for name, want := range map[string][]float32{
		"base_lin_vel":      {7, 8, 9},
		"base_ang_vel":      {1, 2, 3},
		"projected_gravity": {4, 5, 6},
		"joint_pos":         count(0, 0.125),
		"joint_vel":         count(100, 1),
		"actions":           count(200, 1),
		"command":           {10, 11, 12},
		"clock":             {1, 0}, // sine, cosine of a quarter
	} {
		if got := observe(t, spec(JointNames[:], rollout.ByTerm, term(name, 1, 1)), numbered()); !near(got, want, 1e-6) {
			t.Errorf("%s shows %v, want %v", name, got, want)
		}
	}
	r := numbered()
	r.ClockOn = false
	if got := observe(t, spec(JointNames[:], rollout.ByTerm, term("clock", 1, 1)), r); got[0] != 0 || got[1] != 0 {
		t.Errorf("a standing clock shows %v", got)
	}
	for _, tm := range Terms {
		if TermByName(tm.Name).Size != tm.Size || tm.Doc == "" || tm.Unit == "" {
			t.Errorf("term %s is not documented", tm.Name)
		}
	}
	if TermByName("altitude") != nil {
		t.Error("an unknown term is found")
	}
}

// Joints are shown in the policy's order; the previous action is in it already.
func TestJointsAreInPolicyOrder(t *testing.T) {
	s := spec(isaac(), rollout.ByTerm, term("joint_pos", 1, 1), term("joint_vel", 1, 1), term("actions", 1, 1))
	got := observe(t, s, numbered())
	order := []int{3, 0, 9, 6, 4, 1, 10, 7, 5, 2, 11, 8} // go1/figures.md
	for i, m := range order {
		if want := float32(m) * 0.125; math.Abs(float64(got[i]-want)) > 1e-6 {
			t.Errorf("joint_pos[%d] is %v, want that of motor %d, %v", i, got[i], m, want)
		}
		if want := 100 + float32(m); got[12+i] != want {
			t.Errorf("joint_vel[%d] is %v, want %v", i, got[12+i], want)
		}
		if want := 200 + float32(i); got[24+i] != want {
			t.Errorf("actions[%d] is %v, want %v", i, got[24+i], want)
		}
	}
}

// A value is scaled, then clipped.
func TestScaleThenClip(t *testing.T) {
	gyro := term("base_ang_vel", 0.5, 1)
	gyro.Clip = &[2]float32{-0.6, 1.2}
	r := &Reading{Gyro: [3]float32{-4, 2, 3}}
	if got := observe(t, spec(JointNames[:], rollout.ByTerm, gyro), r); !slices.Equal(got, []float32{-0.6, 1, 1.2}) {
		t.Errorf("got %v", got)
	}
}

// at is a Reading of a moment told by one number.
func at(x float32) *Reading {
	return &Reading{Gyro: [3]float32{x, 0, 0}, Gravity: [3]float32{10 * x, 0, 0}}
}

// firsts picks the numbers that tell the moment: every third.
func firsts(v []float32) (out []float32) {
	for i := 0; i < len(v); i += 3 {
		out = append(out, v[i])
	}
	return out
}

func TestHistoryOrdersFillsAndLayouts(t *testing.T) {
	const first, zero = rollout.FillFirst, rollout.FillZero
	const oldest, newest = rollout.OldestFirst, rollout.NewestFirst
	two := []*Reading{at(1), at(2)}
	five := []*Reading{at(1), at(2), at(3), at(4), at(5)}
	for _, c := range []struct {
		name     string
		layout   rollout.Layout
		order    rollout.HistoryOrder
		fill     rollout.HistoryFill
		readings []*Reading
		want     []float32
	}{
		{"by term, after one", rollout.ByTerm, oldest, first, two[:1], []float32{1, 1, 1, 10, 10, 10}},
		{"by term, after two", rollout.ByTerm, oldest, first, two, []float32{1, 1, 2, 10, 10, 20}},
		{"by term, full", rollout.ByTerm, oldest, first, five, []float32{3, 4, 5, 30, 40, 50}},
		{"defaults are oldest and first", rollout.ByTerm, "", "", two, []float32{1, 1, 2, 10, 10, 20}},
		{"by term, newest first", rollout.ByTerm, newest, first, two, []float32{2, 1, 1, 20, 10, 10}},
		{"by term, zeros, after one", rollout.ByTerm, oldest, zero, two[:1], []float32{0, 0, 1, 0, 0, 10}},
		{"by term, zeros, newest first", rollout.ByTerm, newest, zero, two, []float32{2, 1, 0, 20, 10, 0}},
		{"by term, zeros, full", rollout.ByTerm, oldest, zero, five, []float32{3, 4, 5, 30, 40, 50}},
		{"by frame, after two", rollout.ByFrame, oldest, first, two, []float32{1, 10, 1, 10, 2, 20}},
		{"by frame, full", rollout.ByFrame, oldest, first, five, []float32{3, 30, 4, 40, 5, 50}},
		{"by frame, newest first", rollout.ByFrame, newest, first, five, []float32{5, 50, 4, 40, 3, 30}},
		{"by frame, zeros", rollout.ByFrame, oldest, zero, two, []float32{0, 0, 1, 10, 2, 20}},
	} {
		a, b := term("base_ang_vel", 1, 3), term("projected_gravity", 1, 3)
		a.Order, b.Order, a.Fill, b.Fill = c.order, c.order, c.fill, c.fill
		if got := firsts(observe(t, spec(JointNames[:], c.layout, a, b), c.readings...)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Terms of one group may keep histories of their own.
func TestMixedHistories(t *testing.T) {
	a, b, c := term("base_ang_vel", 1, 3), term("projected_gravity", 1, 1), term("command", 1, 2)
	b.Fill, c.Order = rollout.FillZero, rollout.NewestFirst
	var readings []*Reading
	for x := range 4 {
		r := at(float32(x + 1))
		r.Command[0] = 100 * float32(x+1)
		readings = append(readings, r)
	}
	if got, want := firsts(observe(t, spec(JointNames[:], rollout.ByTerm, a, b, c), readings...)), []float32{2, 3, 4, 40, 400, 300}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Rows keep histories of their own, and Reset forgets one row's.
func TestRowsAndReset(t *testing.T) {
	o, err := NewObserver(spec(JointNames[:], rollout.ByTerm, term("base_ang_vel", 1, 2)), "policy", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, o.Dim())
	o.Observe(0, at(1), out)
	o.Observe(1, at(5), out)
	o.Observe(0, at(2), out)
	if got := firsts(out); !slices.Equal(got, []float32{1, 2}) {
		t.Errorf("row 0 shows %v", got)
	}
	o.Reset(0)
	o.Observe(0, at(3), out)
	if got := firsts(out); !slices.Equal(got, []float32{3, 3}) {
		t.Errorf("row 0 after Reset shows %v", got)
	}
	o.Observe(1, at(6), out)
	if got := firsts(out); !slices.Equal(got, []float32{5, 6}) {
		t.Errorf("row 1 after row 0's Reset shows %v", got)
	}
	r := at(7)
	if n := testing.AllocsPerRun(100, func() { o.Observe(1, r, out) }); n != 0 {
		t.Errorf("Observe allocates %v times", n)
	}
}

// A simulator's privileged terms: asked for by name once, then filled by row.
func TestExtraTerms(t *testing.T) {
	s := spec(JointNames[:], rollout.ByTerm, term("command", 1, 1))
	s.Groups = append(s.Groups, rollout.Group{Name: "critic", Layout: rollout.ByTerm,
		Terms: []rollout.Term{{Name: "friction", Size: 2, Scale: 2, History: 2}}})
	asked := 0
	extra := func(term string) (int, func(row int, out []float32)) {
		if asked++; term != "friction" {
			return 0, nil
		}
		return 2, func(row int, out []float32) { out[0], out[1] = float32(row), 0.5 }
	}
	o, err := NewObserver(s, "critic", 3, extra)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, o.Dim())
	o.Observe(2, &Reading{}, out)
	o.Observe(2, &Reading{}, out)
	if !slices.Equal(out, []float32{4, 1, 4, 1}) || asked != 1 {
		t.Errorf("got %v, asked %d times", out, asked)
	}
	for says, change := range map[string]func(*rollout.Term){
		"term wind: not known":          func(t *rollout.Term) { t.Name = "wind" },
		"term friction: size 3, want 2": func(t *rollout.Term) { t.Size = 3 },
	} {
		change(&s.Groups[1].Terms[0])
		if _, err := NewObserver(s, "critic", 3, extra); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
		s.Groups[1].Terms[0] = rollout.Term{Name: "friction", Size: 2, Scale: 2, History: 2}
	}
}

// An Observer that takes over a row's history goes on as the first would have, also before history
// is full, and shows what was last seen.
func TestObserverState(t *testing.T) {
	s := spec(JointNames[:], rollout.ByTerm, term("command", 1, 3), term("clock", 1, 2))
	open := func() *Observer {
		o, err := NewObserver(s, "policy", 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	seen := func(step int) *Reading {
		return &Reading{Command: [3]float32{float32(step), 0.5, -float32(step)}, Phase: 0.1 * float32(step), ClockOn: true}
	}
	for frames := range 6 {
		a, b := open(), open()
		outA, outB := make([]float32, a.Dim()), make([]float32, b.Dim())
		for step := range frames {
			a.Observe(1, seen(step), outA)
		}
		state := append(a.AppendState(1, nil), "rest"...)
		rest, err := b.RestoreState(1, state)
		if err != nil || string(rest) != "rest" {
			t.Fatalf("%d frames: %q, %v", frames, rest, err)
		}
		if b.Show(1, outB); frames > 0 && !slices.Equal(outA, outB) {
			t.Errorf("%d frames: shows %v, want %v", frames, outB, outA)
		}
		for step := frames; step < frames+4; step++ {
			a.Observe(1, seen(step), outA)
			b.Observe(1, seen(step), outB)
			if !slices.Equal(outA, outB) {
				t.Errorf("%d frames and %d more: %v, want %v", frames, step-frames+1, outB, outA)
			}
		}
		for says, bad := range map[string][]byte{
			"want 64":        state[:63],
			"at most 3":      append([]byte{4}, state[1:]...),
			"of 0 bytes":     nil,
			"4294967295 fra": append([]byte{255, 255, 255, 255}, state[4:]...),
		} {
			was := b.AppendState(1, nil)
			if _, err := b.RestoreState(1, bad); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("error %v, want %q", err, says)
			}
			if !slices.Equal(was, b.AppendState(1, nil)) {
				t.Errorf("refused bytes (%s) changed the history", says)
			}
		}
	}
}

func TestObserverRefuses(t *testing.T) {
	good := func() *rollout.Spec { return spec(JointNames[:], rollout.ByTerm, term("command", 1, 1)) }
	for _, c := range []struct {
		group, says string
		spoil       func(*rollout.Spec)
	}{
		{"critic", "group critic", func(*rollout.Spec) {}},
		{"policy", "term altitude: not known", func(s *rollout.Spec) { s.Groups[0].Terms[0].Name = "altitude" }},
		{"policy", "term command: size 4, want 3", func(s *rollout.Spec) { s.Groups[0].Terms[0].Size = 4 }},
		{"policy", "joints: 11 named", func(s *rollout.Spec) { s.Joints = s.Joints[:11] }},
		{"policy", `"tail" is not a joint`, func(s *rollout.Spec) { s.Joints = slices.Concat(s.Joints[:11], []string{"tail"}) }},
		{"policy", "FR_hip_joint named twice", func(s *rollout.Spec) { s.Joints = slices.Concat(s.Joints[:11], s.Joints[:1]) }},
	} {
		s := good()
		c.spoil(s)
		if _, err := NewObserver(s, c.group, 1, nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want one that says %q", err, c.says)
		}
	}
}

func TestMotorOrder(t *testing.T) {
	order, err := MotorOrder(isaac())
	if err != nil || order != [Joints]int{3, 0, 9, 6, 4, 1, 10, 7, 5, 2, 11, 8} {
		t.Errorf("%v, %v", order, err)
	}
}

func TestClock(t *testing.T) {
	c := ClockState{Clock: rollout.Clock{Hz: 2, Start: 0.75, MinCommand: 0.1}}
	walk, still := [3]float32{-0.05, 0.03, -0.05}, [3]float32{0.05, -0.05, 0}
	c.Reset()
	if c.Phase != 0.75 || c.On {
		t.Fatalf("after Reset %+v", c)
	}
	for _, s := range []struct {
		name    string
		command [3]float32
		phase   float64
		on      bool
	}{
		{"runs, by the sum of magnitudes", walk, 0.95, true},
		{"wraps", walk, 0.15, true},
		{"stands at the least command", still, 0.15, false},
		{"stands without one", [3]float32{}, 0.15, false},
		{"goes on where it stood", walk, 0.35, true},
	} {
		c.Advance(&s.command, 0.1)
		if math.Abs(float64(c.Phase)-s.phase) > 1e-6 || c.On != s.on {
			t.Errorf("%s: phase %v, on %v, want %v, %v", s.name, c.Phase, c.On, s.phase, s.on)
		}
	}
	c = ClockState{} // no clock
	c.Advance(&walk, 0.1)
	if c.On || c.Phase != 0 {
		t.Errorf("a clock of 0 Hz runs: %+v", c)
	}
	c = ClockState{Clock: rollout.Clock{Hz: 2.2}}
	for range 1_000_000 { // 5.5 hours at 50 Hz
		c.Advance(&walk, 0.02)
		if !(c.Phase >= 0 && c.Phase < 1) {
			t.Fatalf("phase %v", c.Phase)
		}
	}
}
