package buffer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// newBuffer is a Buffer whose transitions are all valid and the student's.
func newBuffer(t testing.TB, steps, rows int) *Buffer {
	t.Helper()
	b, err := New(Shape{Steps: steps, Rows: rows, Policy: 1, Critic: 1, Act: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Valid {
		b.Valid[i], b.Rho[i] = true, 1
	}
	return b
}

// near says whether got lies within tolerance of want; a NaN never does.
func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

func TestNew(t *testing.T) {
	good := Shape{Steps: 2, Rows: 3, Policy: 5, Critic: 7, Act: 4}
	b, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][2]int{
		"policy": {len(b.PolicyObs), 30}, "critic": {len(b.CriticObs), 42}, "action": {len(b.Action), 24}, "label": {len(b.Label), 24},
		"mean": {len(b.Mean), 24}, "last value": {len(b.LastValue), 3}, "log-probability": {len(b.LogProb), 6}, "value": {len(b.Value), 6},
		"reward": {len(b.Reward), 6}, "final value": {len(b.FinalValue), 6}, "rho": {len(b.Rho), 6}, "terminated": {len(b.Terminated), 6},
		"timed out": {len(b.TimedOut), 6}, "valid": {len(b.Valid), 6}, "labelled": {len(b.Labelled), 6}, "teacher": {len(b.Teacher), 6},
		"advantage": {len(b.Advantage), 6}, "target": {len(b.Target), 6}, "index": {b.Index(1, 2), 5},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
	for want, spoil := range map[string]func(*Shape){
		"steps is 0, want at least 1":                                   func(s *Shape) { s.Steps = 0 },
		"rows is -1, want at least 1":                                   func(s *Shape) { s.Rows = -1 },
		"policy is 0, want at least 1":                                  func(s *Shape) { s.Policy = 0 },
		"critic is -7, want at least 1":                                 func(s *Shape) { s.Critic = -7 },
		"act is 0, want at least 1":                                     func(s *Shape) { s.Act = 0 },
		"65536 steps x 32768 rows: want at most 2147483647 transitions": func(s *Shape) { s.Steps, s.Rows = 65536, 32768 },
		fmt.Sprintf("%d steps x %d rows", math.MaxInt, math.MaxInt):     func(s *Shape) { s.Steps, s.Rows = math.MaxInt, math.MaxInt },
	} {
		s := good
		spoil(&s)
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q in it", s, err, want)
		}
	}
}

// Between the first iteration and the last nothing is allocated.
func TestNoAllocations(t *testing.T) {
	b := newBuffer(t, 8, 16)
	rng := rand.New(rand.NewPCG(1, 2))
	x, h := make([]float32, 100), make([]uint16, 100)
	seen := 0
	for name, f := range map[string]func(){
		"Returns": func() {
			if err := b.Returns(0.98, 0.95); err != nil {
				t.Error(err)
			}
		},
		"Normalise": func() { b.Normalise() },
		"Minibatches": func() {
			for batch := range b.Minibatches(rng, 2, 4) {
				seen += len(batch)
			}
		},
		"Round": func() { Round(x) }, "Encode": func() { Encode(h, x) }, "Decode": func() { Decode(x, h) },
	} {
		if n := testing.AllocsPerRun(10, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	if seen != 11*2*128 {
		t.Errorf("%d transitions seen, want %d", seen, 11*2*128)
	}
}
