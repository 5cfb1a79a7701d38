package estimate

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// noise measures the variance of white noise on a group of channels by their
// second differences, which motion at 500 Hz hardly has: the variance of
// x0 - 2 x1 + x2 is six times that of x.
type noise struct {
	variance float64
	x1, x2   [go1.Joints]float64
	seen     int
}

func (n *noise) reset(floor float64) { *n = noise{variance: floor * floor} }

// update takes one sample of all channels and gives the variance of one channel,
// at least floor^2.
func (n *noise) update(x []float64, floor, dt float64) float64 {
	if n.seen >= 2 {
		sum := 0.
		for i, v := range x {
			d := v - 2*n.x1[i] + n.x2[i]
			sum += d * d
		}
		// A foot's impact moves a few samples a lot: they count little.
		now := math.Min(sum/(6*float64(len(x))), 16*n.variance+floor*floor)
		n.variance += (now - n.variance) * dt / (dt + noiseTime)
	} else {
		n.seen++
	}
	n.x2 = n.x1
	copy(n.x1[:], x)
	return math.Max(n.variance, floor*floor)
}
