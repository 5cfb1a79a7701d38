package task

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// Scores are compared over years: whoever changes the file must make an eval_v2.
func TestEvalV1IsFrozen(t *testing.T) {
	e, hash := EvalV1()
	if want := "5058671af2fe"; hash != want {
		t.Errorf("eval_v1.json has the hash %s, want %s", hash, want)
	}
	want := Evaluation{Name: "eval_v1", Model: "lean", Rows: 128, Seconds: 20, Seed: 611953, SettleSeconds: 1, World: e.World}
	if *e != want {
		t.Errorf("%+v", *e)
	}
	e.World.Noise.Gyro = 9
	if again, _ := EvalV1(); again.World.Noise.Gyro == 9 {
		t.Error("a caller can change the frozen world")
	}
}

func TestDecodeEvaluationRefuses(t *testing.T) {
	for _, c := range []struct{ says, old, with string }{
		{"name is empty", `"eval_v1"`, `""`},
		{"model is empty", `"lean"`, `""`},
		{"rows is 0", `"rows": 128`, `"rows": 0`},
		{"rows is 2000000", `"rows": 128`, `"rows": 2000000`},
		{"rows", `"rows": 128`, `"rows": 1.5`},
		{"seconds is -1", `"seconds": 20`, `"seconds": -1`},
		{"settle_seconds is 20", `"settle_seconds": 1`, `"settle_seconds": 20`},
		{"seed", `611953`, `-1`},
		{"seed is missing", `"seed": 611953,`, ``},
		{"world.noise.gyro is missing", `"gyro": 0.2,`, ``},
		{"noise.gyro is -0.2", `"gyro": 0.2`, `"gyro": -0.2`},
		{"luck", `"rows"`, `"luck": 1, "rows"`},
		{"/world is null", string(evalV1), `{"world": null}`},
	} {
		bad := strings.Replace(string(evalV1), c.old, c.with, 1)
		if bad == string(evalV1) {
			t.Fatalf("%q is not in eval_v1.json", c.old)
		}
		if _, err := DecodeEvaluation([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s for %s: error %v, want %q", c.with, c.old, err, c.says)
		}
	}
}

func FuzzDecodeEvaluation(f *testing.F) {
	f.Add(evalV1)
	f.Add(bytes.Replace(evalV1, []byte("128"), []byte("1e300"), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := DecodeEvaluation(data); err == nil && e.Check() != nil {
			t.Fatalf("%+v is accepted", e)
		}
	})
}

// Two rows, settled after 0.04 s, by hand.
func TestScoreByHand(t *testing.T) {
	s := NewScore(3, 0.04)
	record := func(row int, velErr, yawErr, power, rate float32, fell bool, age float64) {
		m := make([]float32, metrics)
		m[VelErr], m[YawErr], m[Power], m[ActionRate] = velErr, yawErr, power, rate
		s.Record(row, m, fell, age)
	}
	record(0, 9, 9, 10, 0.1, false, 0)      // not settled
	record(0, 9, 9, 20, 0.2, false, 0.02)   // not settled
	record(0, 0.1, 0.3, 30, 0, false, 0.04) // counts
	record(0, 9, 9, 40, 0, false, 0)        // a new command
	record(1, 0.3, 0.1, 50, 0, true, 0.08)  // falls, counts
	record(1, 9, 9, 60, 0, true, 0)         // falls again: still one row
	masked := make([]float32, metrics)
	Masked(masked)
	s.Record(2, masked, true, 1) // fell; not a step of no power
	s.Record(0, masked, false, 1)
	got := s.Result()
	want := Result{VelErr: 0.2, YawErr: 0.2, FallRate: 1, PowerW: 35, ActionRate: 0.05}
	for _, f := range []struct {
		name      string
		got, want float64
	}{{"vel_err", got.VelErr, want.VelErr}, {"yaw_err", got.YawErr, want.YawErr}, {"fall_rate", got.FallRate, want.FallRate},
		{"power_w", got.PowerW, want.PowerW}, {"action_rate", got.ActionRate, want.ActionRate}} {
		if math.Abs(f.got-f.want) > 1e-6 {
			t.Errorf("%s is %v, want %v", f.name, f.got, f.want)
		}
	}
	if r := NewScore(4, 1).Result(); r.FallRate != 0 || !math.IsNaN(r.VelErr) || !math.IsNaN(r.PowerW) {
		t.Errorf("nothing recorded: %+v", r)
	}
}

// With a Commander's ages, the first second of every command is left out, to the step.
func TestScoreSettles(t *testing.T) {
	e, _ := EvalV1()
	s := NewScore(1, e.SettleSeconds)
	c := NewCommander(e.World.Commands, e.Seed, 0)
	c.Reset()
	m := make([]float32, metrics)
	was, since, counted := c.Now, 0, 0
	for range 1000 {
		m[VelErr] = 0
		if since < 50 {
			m[VelErr] = 1e6 // would show
		} else {
			counted++
		}
		s.Record(0, m, false, c.Age)
		c.Advance(0.02)
		if since++; c.Now != was {
			was, since = c.Now, 0
		}
	}
	if counted != 800 || s.settled != 800 || s.Result().VelErr != 0 {
		t.Errorf("%d steps counted, %d ought to be: %+v", s.settled, counted, s.Result())
	}
}
