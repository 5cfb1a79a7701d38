//go:build torch

package algo

import (
	"math"
	"testing"
)

// What is given at the start and at the end of a run goes from one to the other, and stays where the run's length is not known.
func TestSchedulesOfPPO(t *testing.T) {
	p := Default().PPO
	p.KLTarget, p.KLEnd, p.Calm, p.CalmEnd, p.EntropyWeight, p.EntropyEnd = 0.08, 0.005, 2, 200, 0.004, 0
	for _, c := range []struct{ share, kl, calm, entropy float64 }{{0, 0.08, 2, 0.004}, {0.5, 0.02, 20, 0.002}, {1, 0.005, 200, 0}} {
		if kl, calm, entropy := p.klTarget(c.share), p.calm(c.share), p.entropy(c.share); math.Abs(kl-c.kl) > 1e-9 ||
			math.Abs(float64(calm)-c.calm) > 1e-4 || math.Abs(float64(entropy)-c.entropy) > 1e-9 {
			t.Errorf("%v of a run: divergence %v, calm %v, entropy %v, want %+v", c.share, kl, calm, entropy, c)
		}
	}
	if p = Default().PPO; p.klTarget(0.7) != p.KLTarget || p.calm(0.7) != 0 {
		t.Error("what is to stay moves")
	}
}
