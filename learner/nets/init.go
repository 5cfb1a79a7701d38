//go:build torch

package nets

import (
	"math"
	"math/rand/v2"
	"strings"
)

// initialise fills the parameters with their first values.
func (n *Nets) initialise() {
	random := rand.New(rand.NewPCG(uint64(n.config.Seed), 0))
	for i, p := range n.params {
		if !strings.HasSuffix(p.name, ".weight") {
			continue
		}
		out := len(n.params[i+1].value)
		gain := math.Sqrt2
		switch last := i+2 == len(n.params) || n.params[i+2].name == "log_std"; {
		case last && strings.HasPrefix(p.name, "actor."):
			gain = 0.01
		case last, p.name == "encoder.velocity.weight":
			gain = 1
		}
		orthogonal(random, p.value, out, len(p.value)/out, gain)
	}
	for i := range n.logStd {
		n.logStd[i] = float32(math.Log(float64(n.config.InitStd)))
	}
}

// orthogonal fills w (rows, cols) with gain times random orthonormal rows, or
// columns where there are more rows: normal numbers, each vector made
// orthogonal to those before it, twice for the sake of rounding.
func orthogonal(random *rand.Rand, w []float32, rows, cols int, gain float64) {
	count, length := rows, cols
	if rows > cols {
		count, length = cols, rows
	}
	vectors := make([][]float64, count)
	for i := range vectors {
		v := make([]float64, length)
		for k := range v {
			v[k] = random.NormFloat64()
		}
		for range 2 {
			for _, u := range vectors[:i] {
				along := dot(u, v)
				for k := range v {
					v[k] -= along * u[k]
				}
			}
			norm := math.Sqrt(dot(v, v))
			for k := range v {
				v[k] /= norm
			}
		}
		vectors[i] = v
	}
	for i, v := range vectors {
		for k, x := range v {
			if rows > cols {
				w[k*cols+i] = float32(gain * x)
			} else {
				w[i*cols+k] = float32(gain * x)
			}
		}
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
