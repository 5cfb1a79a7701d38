package task

import (
	"math"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// moment is a Reading in which every number is another.
func moment(x float32) *go1.Reading {
	r := &go1.Reading{Gyro: [3]float32{x, 0.2, 0.3}, Gravity: [3]float32{0.1, 0.2, -0.97}, LinVel: [3]float32{x, 2, 3},
		Command: [3]float32{0.7, 0.1, -0.2}}
	for i := range go1.Joints {
		r.Q[i], r.Dq[i], r.LastAction[i] = x+float32(i), 100+float32(i), 200+float32(i)
	}
	return r
}

func row(t *testing.T, f Fault) *Row {
	t.Helper()
	w, err := NewRow(f, DefaultSpec(), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Each fault shows the policy what its doc says, and nothing else.
func TestSense(t *testing.T) {
	var home [go1.Joints]float32
	for i := range home {
		home[i] = go1.Home[i] + 0.25
	}
	for _, c := range []struct {
		name string
		f    Fault
		want func(r *go1.Reading)
	}{
		{"none", Fault{}, func(*go1.Reading) {}},
		{"LeftFirst", Fault{LeftFirst: true}, func(r *go1.Reading) {
			old := *r
			for i, j := range [go1.Joints]int{3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8} { // go1/figures.md
				r.Q[i], r.Dq[i], r.LastAction[i] = old.Q[j], old.Dq[j], old.LastAction[j]
			}
		}},
		{"FlipGravity", Fault{FlipGravity: true}, func(r *go1.Reading) { r.Gravity = [3]float32{-0.1, -0.2, 0.97} }},
		{"LinVelZero", Fault{LinVelZero: true}, func(r *go1.Reading) { r.LinVel = [3]float32{} }},
		{"LinVelCommand", Fault{LinVelCommand: true}, func(r *go1.Reading) { r.LinVel = [3]float32{0.7, 0.1, 0} }},
		{"GyroDegrees", Fault{GyroDegrees: true}, func(r *go1.Reading) {
			for i := range r.Gyro {
				r.Gyro[i] *= 180 / math.Pi
			}
		}},
		{"ObsHome", Fault{ObsHome: &home}, func(r *go1.Reading) {
			for i := range r.Q { // q - other home is what the observer must arrive at
				r.Q[i] += go1.Home[i] - home[i]
			}
		}},
		{"what only the motors notice", Fault{ActionScale: 2, Kp: 20, Kd: 1, TargetDelay: 2, TargetLoss: 0.5}, func(*go1.Reading) {}},
	} {
		got, want := moment(1), moment(1)
		row(t, c.f).Sense(got)
		c.want(want)
		if *got != *want {
			t.Errorf("%s: shows %+v, want %+v", c.name, *got, *want)
		}
	}
}

// In another joint order the previous action is shown with its legs exchanged, too.
func TestLeftFirstInPolicyOrder(t *testing.T) {
	s := DefaultSpec()
	for i := range s.Joints { // back to front
		s.Joints[i] = go1.JointNames[go1.Joints-1-i]
		s.Home[i] = go1.Home[go1.Joints-1-i]
	}
	w, err := NewRow(Fault{LeftFirst: true}, s, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := moment(0)
	w.Sense(r)
	for i, name := range s.Joints { // 200+i was the action of joint i
		from := s.Joints[int(r.LastAction[i])-200]
		if from[1] == name[1] || from[0] != name[0] || from[2:] != name[2:] {
			t.Errorf("%s shows the action of %s", name, from)
		}
	}
}

func TestLinVelNoise(t *testing.T) {
	w := row(t, Fault{LinVelNoise: 0.5})
	const n = 20_000
	var sum, squares float64
	for range n {
		r := moment(1)
		w.Sense(r)
		e := float64(r.LinVel[0] - 1)
		sum += e
		squares += e * e
	}
	if mean, sd := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.02 || math.Abs(sd-0.5) > 0.02 {
		t.Errorf("mean %v, sd %v", mean, sd)
	}
}

// The observation of n steps ago, and the first one until there is an older.
func TestObsDelay(t *testing.T) {
	for _, delay := range []int{1, 2, MaxDelay} {
		w := row(t, Fault{ObsDelay: delay})
		for range 2 {
			w.Reset()
			for step := range 3 * MaxDelay {
				r := moment(float32(step))
				w.Sense(r)
				if want := *moment(float32(max(0, step-delay))); *r != want {
					t.Fatalf("delay %d, step %d shows %v, want %v", delay, step, r.LinVel[0], want.LinVel[0])
				}
			}
		}
	}
}

func target(x float32) (q [go1.Joints]float32) {
	for i := range q {
		q[i] = go1.Home[i] + x
	}
	return q
}

func TestExecute(t *testing.T) {
	w := row(t, Fault{})
	q := target(0.3)
	if w.Execute(&q); q != target(0.3) {
		t.Errorf("no fault changes the target: %v", q)
	}
	w = row(t, Fault{ActionScale: 0.5})
	q = target(0.5)
	w.Execute(&q)
	for i := range q {
		if math.Abs(float64(q[i]-go1.Home[i]-0.25)) > 1e-6 {
			t.Errorf("half the scale: joint %d %v from home", i, q[i]-go1.Home[i])
		}
	}
	for _, delay := range []int{1, 3, MaxDelay} {
		w = row(t, Fault{TargetDelay: delay})
		for range 2 {
			w.Reset()
			for step := 1; step < 3*MaxDelay; step++ {
				q := target(float32(step))
				w.Execute(&q)
				if want := target(float32(max(0, step-delay))); q != want {
					t.Fatalf("delay %d, step %d: %v from home, want %v", delay, step, q[0]-go1.Home[0], want[0]-go1.Home[0])
				}
			}
		}
	}
}

func TestTargetLoss(t *testing.T) {
	w := row(t, Fault{TargetLoss: 0.2})
	lost, last := 0, float32(0)
	const n = 20_000
	for step := range n {
		x := float32(step + 1)
		q := target(x)
		w.Execute(&q)
		switch q {
		case target(x):
			last = x
		case target(last):
			lost++
		default:
			t.Fatalf("step %d: %v from home, neither the new target nor the last", step, q[0]-go1.Home[0])
		}
	}
	if share := float64(lost) / n; math.Abs(share-0.2) > 0.02 {
		t.Errorf("%v of the targets are lost", share)
	}
	w = row(t, Fault{TargetLoss: 1})
	q := target(1)
	if w.Execute(&q); q != target(0) {
		t.Errorf("with every target lost it does not stay at home: %v", q)
	}
}

func TestGains(t *testing.T) {
	for _, c := range []struct {
		f      Fault
		kp, kd float64
	}{{Fault{}, 35, 0.5}, {Fault{Kp: 20}, 20, 0.5}, {Fault{Kp: 100, Kd: 2}, 100, 2}} {
		if kp, kd := row(t, c.f).Gains(35, 0.5); kp != c.kp || kd != c.kd {
			t.Errorf("%+v: kp %v, kd %v", c.f, kp, kd)
		}
	}
}

// The table has one entry a row of shared/policies/README.md (two where a row
// states two), each found by its name and each doing something.
func TestFaultsTable(t *testing.T) {
	all := Faults()
	if len(all) != 17 {
		t.Errorf("%d faults, want 17", len(all))
	}
	seen := map[string]bool{}
	for _, f := range all {
		if seen[f.Name] || f.Name == "" || f.Doc == "" || f.Outcome == "" || f.Full == "" || f.Coarse == "" {
			t.Errorf("fault %+v is named twice or not documented", f)
		}
		seen[f.Name] = true
		if err := f.Check(); err != nil {
			t.Error(err)
		}
		found, err := FaultByName(f.Name)
		if err != nil || found.Doc != f.Doc {
			t.Errorf("FaultByName(%s): %v", f.Name, err)
		}
		bare := f
		bare.Name, bare.Doc, bare.Outcome, bare.Full, bare.Coarse = "", "", "", "", ""
		if bare == (Fault{}) {
			t.Errorf("fault %s changes nothing", f.Name)
		}
	}
	if _, err := FaultByName("gremlins"); err == nil || !strings.Contains(err.Error(), "gremlins") || !strings.Contains(err.Error(), "kp-100") {
		t.Errorf("an unknown fault: %v", err)
	}
}

func TestFaultsRefuse(t *testing.T) {
	nan := math.NaN()
	for says, f := range map[string]Fault{
		"ObsDelay is 9":                  {ObsDelay: MaxDelay + 1},
		"ObsDelay is -1":                 {ObsDelay: -1},
		"TargetDelay is 9":               {TargetDelay: MaxDelay + 1},
		"TargetLoss is 1.5":              {TargetLoss: 1.5},
		"TargetLoss is NaN":              {TargetLoss: nan},
		"LinVelNoise is -1":              {LinVelNoise: -1},
		"ActionScale is NaN":             {ActionScale: float32(nan)},
		"Kp is -1":                       {Kp: -1},
		"Kd is +Inf":                     {Kd: math.Inf(1)},
		"ObsHome of FR_hip_joint is NaN": {ObsHome: &[go1.Joints]float32{float32(nan)}},
	} {
		if _, err := NewRow(f, DefaultSpec(), 1, 0); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
	s := DefaultSpec()
	s.Joints[0] = "tail"
	if _, err := NewRow(Fault{}, s, 1, 0); err == nil || !strings.Contains(err.Error(), "tail") {
		t.Errorf("another robot's joints: %v", err)
	}
}

func TestARowDoesNotAllocate(t *testing.T) {
	w := row(t, Fault{LeftFirst: true, LinVelNoise: 1, ObsDelay: 2, TargetDelay: 2, TargetLoss: 0.5})
	c := NewCommander(Commands{EverySeconds: [2]float64{0.02, 0.02}}, 1, 0)
	r, q := moment(1), target(1)
	if n := testing.AllocsPerRun(100, func() {
		w.Sense(r)
		w.Execute(&q)
		w.Reset()
		c.Advance(0.02)
		c.Reset()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
