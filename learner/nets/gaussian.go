package nets

import "math"

// LogProb is the logarithm of the density of action under independent normal
// distributions: the sum over dimensions of log N(action; mean, std), as the
// update computes it. All three are (Act).
func LogProb(action, mean, std []float32) float32 {
	sum := 0.0
	for i, a := range action {
		s := float64(std[i])
		z := (float64(a) - float64(mean[i])) / s
		sum -= 0.5*(z*z+math.Log(2*math.Pi)) + math.Log(s)
	}
	return float32(sum)
}
