package nets

import (
	"math"
	"testing"
)

func TestLogProb(t *testing.T) {
	for _, c := range []struct {
		action, mean, std []float32
		want              float64
	}{
		{[]float32{0}, []float32{0}, []float32{1}, -0.5 * math.Log(2*math.Pi)},
		{[]float32{3}, []float32{1}, []float32{2}, -0.5 - math.Log(2) - 0.5*math.Log(2*math.Pi)},
		{[]float32{0, 3}, []float32{0, 1}, []float32{1, 2}, -0.5 - math.Log(2) - math.Log(2*math.Pi)},
	} {
		if got := float64(LogProb(c.action, c.mean, c.std)); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("LogProb(%v, %v, %v) = %g, want %g", c.action, c.mean, c.std, got, c.want)
		}
	}
}
