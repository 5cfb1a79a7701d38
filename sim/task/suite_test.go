package task

import (
	"math"
	"reflect"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// Each case can be run, is base with the members changed that it names, and leaves base as it was.
func TestSuite(t *testing.T) {
	base, _ := EvalV1()
	before := *base
	cases := Suite(base)
	if *base != before {
		t.Errorf("base was changed: %+v", *base)
	}
	count := map[CaseKind]int{}
	names := map[string]bool{}
	commands := map[[3]float32]bool{}
	for i := range cases {
		c := &cases[i]
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if names[c.Name] || c.Doc == "" {
			t.Errorf("%q: twice, or says nothing", c.Name)
		}
		names[c.Name] = true
		count[c.Kind]++
		w, b := c.World, base.World // with what differs put back
		switch {
		case c.Name == "nominal":
			if c.Evaluation != *base || i != 0 {
				t.Errorf("nominal, number %d: %+v", i, c.Evaluation)
			}
		case c.Name == "full model":
			if c.Model != "full" {
				t.Errorf("the full model is %q", c.Model)
			}
		case c.Name == "friction 0.4":
			w.Vary.Friction = b.Vary.Friction
		case c.Name == "+1 kg":
			w.Vary.TrunkMass = b.Vary.TrunkMass
		case c.Name == "20 ms delay":
			w.Vary.Latency = b.Vary.Latency
		case c.Name == "pushes 0.5 m/s":
			w.Pushes.Velocity = b.Pushes.Velocity
		case c.Kind == Standing:
			if w.Commands != Fixed(0, 0, 0) || w.Pushes != (Pushes{}) {
				t.Errorf("standing: %+v, %+v", w.Commands, w.Pushes)
			}
			w.Commands, w.Pushes = b.Commands, b.Pushes
		case c.Kind == Corner:
			if w.Commands.Min != w.Commands.Max || w.Commands.EverySeconds != [2]float64{} || c.Rows != 32 {
				t.Errorf("%s: %+v, %d rows", c.Name, w.Commands, c.Rows)
			}
			commands[w.Commands.Min] = true
			w.Commands = b.Commands
		}
		if i > 0 && c.Name != "full model" && reflect.DeepEqual(c.World, base.World) || w != b {
			t.Errorf("%s: %+v", c.Name, c.World)
		}
		if c.Seed != base.Seed || c.Seconds != base.Seconds || c.Kind != Corner && c.Rows != base.Rows {
			t.Errorf("%s: seed %d, %v s, %d rows", c.Name, c.Seed, c.Seconds, c.Rows)
		}
	}
	if want := map[CaseKind]int{Walking: 6, Standing: 1, Corner: 9}; !reflect.DeepEqual(count, want) {
		t.Errorf("%v, want %v", count, want)
	}
	for _, vx := range []float32{-1, 0, 1} {
		for _, wz := range []float32{-1, 0, 1} {
			if !commands[[3]float32{vx, 0, wz}] {
				t.Errorf("nobody is asked for %v, 0, %v", vx, wz)
			}
		}
	}
	base.Rows = 1
	if few := Suite(base); few[len(few)-1].Rows != 1 {
		t.Errorf("a quarter of one row is %d", few[len(few)-1].Rows)
	}
}

// Three rows, settled after 0.04 s, by hand.
func TestStandScoreByHand(t *testing.T) {
	s := NewStandScore(4, 0.04)
	record := func(row int, at, x, y, speed float64, feet [go1.Legs]float64, fell bool) {
		var speeds [go1.Joints]float64
		for i := range speeds {
			speeds[i] = speed
		}
		s.Record(row, fell, at, [2]float64{x, y}, &speeds, &feet)
	}
	down, up := [go1.Legs]float64{-0.002, 0, 0.0049, 0.001}, [go1.Legs]float64{0, 0.01, 0, 0.02}
	record(0, 0, 1, 1, 9, up, false)          // not settled: only where it was counts
	record(0, 0.02, 5, 5, 9, up, false)       // not settled
	record(0, 0.04, 1, 1, 1, down, false)     // counts
	record(0, 0.06, 1.03, 0.96, 3, up, false) // two feet
	record(0, 0.08, 1.03, 0.96, 1, up, false) // the same lift
	record(1, 0, 2, 0, 0, down, false)
	record(1, 0.04, 2, 0.01, 1, down, false)
	record(2, 0.04, 0, 0, 0, down, true) // falls at once
	record(2, 0.06, 9, 9, 9, up, false)  // its next life is no part
	record(3, 0.04, 0, 0, 2, down, false)
	record(3, 0.06, 9, 9, 9, up, true)
	got := s.Result()
	if want := math.Sqrt((1 + 9 + 1 + 1 + 4) / 5.); math.Abs(got.JointSpeed-want) > 1e-12 {
		t.Errorf("joint speed %v, want %v", got.JointSpeed, want)
	}
	if got.Lifts != 2 || got.LiftShare != 0.25 {
		t.Errorf("%d lifts in %v of the rows, want 2 in a quarter", got.Lifts, got.LiftShare)
	}
	if math.Abs(got.Drift-0.03) > 1e-12 || math.Abs(got.DriftMax-0.05) > 1e-12 {
		t.Errorf("drift %v, worst %v; want 0.03, 0.05", got.Drift, got.DriftMax)
	}
	if r := NewStandScore(2, 1).Result(); !math.IsNaN(r.JointSpeed) || !math.IsNaN(r.Drift) || !math.IsNaN(r.DriftMax) || r.Lifts != 0 {
		t.Errorf("nothing recorded: %+v", r)
	}
}
