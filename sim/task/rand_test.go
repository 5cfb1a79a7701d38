package task

import (
	"math"
	"testing"
)

// Seeds, rows and purposes have their own numbers, and always the same.
func TestRandDependsOnItsArguments(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(10) {
		for row := range 10 {
			for purpose := range uint64(6) {
				a, b := NewRand(seed, row, purpose), NewRand(seed, row, purpose)
				x := a.Uint64()
				if x != b.Uint64() || a != b {
					t.Fatal("not repeatable")
				}
				seen[x] = true
			}
		}
	}
	if len(seen) != 600 {
		t.Errorf("600 generators begin with %d numbers", len(seen))
	}
}

func TestRandDistributions(t *testing.T) {
	r := NewRand(1, 2, 3)
	const n = 200_000
	for _, d := range []struct {
		name           string
		draw           func() float64
		mean, variance float64
		lo, hi         float64
	}{
		{"Float64", r.Float64, 0.5, 1.0 / 12, 0, 1},
		{"Uniform", func() float64 { return r.Uniform(-1, 3) }, 1, 16.0 / 12, -1, 3},
		{"Sym", func() float64 { return r.Sym(2) }, 0, 16.0 / 12, -2, 2},
		{"Norm", r.Norm, 0, 1, -9, 9},
	} {
		var sum, squares float64
		for range n {
			x := d.draw()
			if !(x >= d.lo && x <= d.hi) {
				t.Fatalf("%s: %v", d.name, x)
			}
			sum += x
			squares += (x - d.mean) * (x - d.mean)
		}
		if sd := math.Sqrt(d.variance); math.Abs(sum/n-d.mean) > 0.01*sd || math.Abs(squares/n-d.variance) > 0.015*d.variance {
			t.Errorf("%s: mean %v, variance %v, want %v, %v", d.name, sum/n, squares/n, d.mean, d.variance)
		}
	}
	if got := r.Uniform(0.8, 0.8); got != 0.8 {
		t.Errorf("a range of one number gives %v", got)
	}
}
