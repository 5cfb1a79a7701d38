package task

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
)

func TestFixedCommandStays(t *testing.T) {
	c := NewCommander(Fixed(1, -0.5, 0.25), 1, 0)
	c.Reset()
	for range 1000 {
		if c.Now != [3]float32{1, -0.5, 0.25} {
			t.Fatalf("command %v", c.Now)
		}
		c.Advance(0.02)
	}
}

func TestCommandsAreDrawnInRangeAndKeptForTheirTime(t *testing.T) {
	cfg := Commands{Min: [3]float32{-1, -0.5, 0}, Max: [3]float32{1, 0.5, 0.1}, EverySeconds: [2]float64{0.1, 0.2}, ZeroShare: 0.25}
	c := NewCommander(cfg, 5, 3)
	c.Reset()
	const steps, dt = 200_000, 0.02
	zeros, draws, age := 0, 1, 0
	var sum [3]float64
	was := c.Now
	for range steps {
		c.Advance(dt)
		age++
		if c.Now == was { // two zero commands in a row look like one
			continue
		}
		draws++
		if age < 5 || age > 10 && was != [3]float32{} {
			t.Fatalf("%v lasted %d steps, want 5..10", was, age)
		}
		age, was = 0, c.Now
		if c.Now == [3]float32{} {
			zeros++
			continue
		}
		for i, x := range c.Now {
			if x < cfg.Min[i] || x > cfg.Max[i] {
				t.Fatalf("command %v", c.Now)
			}
			sum[i] += float64(x)
		}
	}
	n := float64(draws - zeros)
	if math.Abs(sum[0]/n) > 0.02 || math.Abs(sum[1]/n) > 0.01 || math.Abs(sum[2]/n-0.05) > 0.001 {
		t.Errorf("means %v, want the middles of the ranges", [3]float64{sum[0] / n, sum[1] / n, sum[2] / n})
	}
	// Zeros in a row count once: of the others, a share z follows a change.
	if share := float64(zeros) / float64(draws); math.Abs(share-0.2) > 0.02 {
		t.Errorf("%v of the changes are to zero, want 0.25*0.75/(1-0.25*0.25) = 0.2", share)
	}
}

// A whole number of steps is that many, whatever rounding does to sums of 0.02.
func TestCommandLastsWholeSteps(t *testing.T) {
	c := NewCommander(Commands{Min: [3]float32{-1}, Max: [3]float32{1}, EverySeconds: [2]float64{1, 1}}, 1, 0)
	c.Reset()
	for n := range 20 {
		was := c.Now
		for step := range 49 {
			if c.Advance(0.02); c.Now != was {
				t.Fatalf("command %d changed after %d steps", n, step+1)
			}
		}
		if c.Advance(0.02); c.Now == was {
			t.Fatalf("command %d is older than 50 steps", n)
		}
	}
}

func TestCommandsDependOnSeedAndRow(t *testing.T) {
	draw := func(seed uint64, row int) [3]float32 {
		c := NewCommander(Commands{Min: [3]float32{-1, -1, -1}, Max: [3]float32{1, 1, 1}}, seed, row)
		c.Reset()
		return c.Now
	}
	seen := map[[3]float32]bool{}
	for seed := range uint64(30) {
		for row := range 30 {
			if draw(seed, row) != draw(seed, row) {
				t.Fatal("not repeatable")
			}
			seen[draw(seed, row)] = true
		}
	}
	if len(seen) != 900 {
		t.Errorf("900 pairs of seed and row give %d commands", len(seen))
	}
}

func TestCommandsRefuse(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		says string
		bad  Commands
	}{
		{"command vx", Fixed(float32(nan), 0, 0)},
		{"command wz", Fixed(0, 0, float32(math.Inf(1)))},
		{"command vy is 1..-1", Commands{Min: [3]float32{0, 1}, Max: [3]float32{0, -1}}},
		{"commands.every_seconds is 2..1", Commands{EverySeconds: [2]float64{2, 1}}},
		{"commands.every_seconds is 0..1", Commands{EverySeconds: [2]float64{0, 1}}},
		{"commands.every_seconds is NaN", Commands{EverySeconds: [2]float64{nan, 1}}},
		{"commands.every_seconds is 1..+Inf", Commands{EverySeconds: [2]float64{1, math.Inf(1)}}},
		{"commands.zero_share is 1.5", Commands{ZeroShare: 1.5}},
		{"commands.zero_share is NaN", Commands{ZeroShare: nan}},
	} {
		if err := c.bad.Check(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want %q", err, c.says)
		}
	}
}

func TestFalls(t *testing.T) {
	f := DefaultFalls()
	for _, c := range []struct {
		name string
		fell bool
		edit func(*Moment)
	}{
		{"standing", false, func(*Moment) {}},
		{"crouching", false, func(m *Moment) { m.Height = 0.151 }},
		{"too low", true, func(m *Moment) { m.Height = 0.149 }},
		{"tilted by 59 degrees", false, func(m *Moment) { m.Gravity[2] = -math.Cos(59 * math.Pi / 180) }},
		{"tilted by 61 degrees", true, func(m *Moment) { m.Gravity[2] = -math.Cos(61 * math.Pi / 180) }},
		{"on its back", true, func(m *Moment) { m.Gravity[2] = 1 }},
		{"gravity a little longer than 1", false, func(m *Moment) { m.Gravity[2] = -1.0000001 }},
		{"a knee low", false, func(m *Moment) { m.Knees[2] = 0.021 }},
		{"a knee on the floor", true, func(m *Moment) { m.Knees[3] = 0.019 }},
	} {
		m := standing()
		c.edit(m)
		if got := f.Fell(m); got != c.fell {
			t.Errorf("%s: fell %v", c.name, got)
		}
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	for says, bad := range map[string]Falls{
		"trunk": {MinHeight: math.NaN(), MaxTilt: 1}, "tilt": {MaxTilt: 0}, "knee": {MaxTilt: 1, MinKnee: 1},
	} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestDefaultSpec(t *testing.T) {
	s := DefaultSpec()
	if err := go1.Fit(s, go1.Sensing{LinVel: true}); err != nil {
		t.Fatal(err)
	}
	if n := s.Group("policy").Size(); n != 48 {
		t.Errorf("observation of %d numbers, want 48", n)
	}
	s.Home[0], s.Joints[0] = 9, "other" // a copy: the robot's facts stay
	if go1.Home[0] == 9 || go1.JointNames[0] == "other" {
		t.Error("DefaultSpec lends out the robot's facts")
	}
}

// The contract of recipe.md, "Environment".
func TestWalkSpec(t *testing.T) {
	s := WalkSpec()
	if err := go1.Fit(s, go1.Sensing{}); err != nil {
		t.Fatal(err)
	}
	policy := []rollout.Term{
		{Name: "base_ang_vel", Size: 3, Scale: 0.25, History: 1, Sensed: true},
		{Name: "projected_gravity", Size: 3, Scale: 1, History: 1, Sensed: true},
		{Name: "joint_pos", Size: 12, Scale: 1, History: 1, Sensed: true},
		{Name: "joint_vel", Size: 12, Scale: 0.05, History: 1, Sensed: true},
		{Name: "actions", Size: 12, Scale: 1, History: 1, Sensed: true},
		{Name: "command", Size: 3, Scale: 1, History: 1, Sensed: true},
		{Name: "clock", Size: 2, Scale: 1, History: 1, Sensed: true},
	}
	critic := append(slices.Clone(policy),
		rollout.Term{Name: "base_lin_vel", Size: 3, Scale: 1, History: 1},
		rollout.Term{Name: "base_height", Size: 1, Scale: 10, History: 1},
		rollout.Term{Name: "foot_contact", Size: 4, Scale: 1, History: 1},
		rollout.Term{Name: "foot_height", Size: 4, Scale: 10, History: 1},
		rollout.Term{Name: "friction", Size: 1, Scale: 1, History: 1},
		rollout.Term{Name: "trunk_mass", Size: 1, Scale: 1, History: 1},
		rollout.Term{Name: "motor_gain", Size: 1, Scale: 10, History: 1},
		rollout.Term{Name: "latency", Size: 1, Scale: 50, History: 1})
	want := rollout.Spec{
		Robot:  "unitree-go1",
		Joints: go1.JointNames[:],
		Home:   []float32{0.1, 0.9, -1.8, -0.1, 0.9, -1.8, 0.1, 0.9, -1.8, -0.1, 0.9, -1.8},
		Action: rollout.Action{Clip: &[2]float32{-5, 5},
			Scale: []float32{0.15, 0.3, 0.3, 0.15, 0.3, 0.3, 0.15, 0.3, 0.3, 0.15, 0.3, 0.3}},
		Kp: slices.Repeat([]float32{35}, 12), Kd: slices.Repeat([]float32{0.5}, 12),
		PolicyPeriodNs: 20e6, ControlPeriodNs: 2e6,
		Command: rollout.Command{Vx: [2]float32{-1, 1}, Vy: [2]float32{-0.5, 0.5}, Wz: [2]float32{-1, 1}},
		Clock:   rollout.Clock{Hz: 2.2, Start: 0, MinCommand: 0.05},
		Groups: []rollout.Group{
			{Name: "policy", Layout: rollout.ByTerm, Terms: policy},
			{Name: "critic", Layout: rollout.ByTerm, Terms: critic},
		},
	}
	if diff := cmp.Diff(&want, s); diff != "" {
		t.Error(diff)
	}
	if p, c := s.Group("policy").Size(), s.Group("critic").Size(); p != 47 || c != 63 {
		t.Errorf("%d and %d numbers, want 47 and 63", p, c)
	}
}

// The same numbers by frames, and the critic as it was.
func TestWalkHistorySpec(t *testing.T) {
	if diff := cmp.Diff(WalkSpec(), WalkHistorySpec(1)); diff != "" {
		t.Errorf("one frame: %s", diff)
	}
	s := WalkHistorySpec(15)
	if err := go1.Fit(s, go1.Sensing{}); err != nil {
		t.Fatal(err)
	}
	g := s.Group("policy")
	if g.Size() != 15*47 || g.Layout != rollout.ByFrame || s.Group("critic").Size() != 63 {
		t.Errorf("%d numbers, layout %s, critic %d", g.Size(), g.Layout, s.Group("critic").Size())
	}
	for i := range g.Terms {
		g.Terms[i].History = 1
	}
	g.Layout = rollout.ByTerm
	if diff := cmp.Diff(WalkSpec(), s); diff != "" {
		t.Errorf("but for the history: %s", diff)
	}
}
