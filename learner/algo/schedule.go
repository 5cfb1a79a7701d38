//go:build torch

package algo

import "math"

// klTarget is the divergence to steer to when share of a run of known length is over.
func (p *PPO) klTarget(share float64) float64 {
	return geometric(p.KLTarget, p.KLEnd, share)
}

// calm is the weight of standing still then.
func (p *PPO) calm(share float64) float32 {
	return float32(geometric(float64(p.Calm), float64(p.CalmEnd), share))
}

// geometric goes from one number to another by equal factors; both are above 0 or equal.
func geometric(from, to, share float64) float64 {
	if from == to {
		return from
	}
	return from * math.Pow(to/from, share)
}

// entropy is the weight of the entropy then.
func (p *PPO) entropy(share float64) float32 {
	return p.EntropyWeight + float32(share)*(p.EntropyEnd-p.EntropyWeight)
}

// Steer is the learning rate after a minibatch that diverged by kl: smaller by half again
// beyond twice the target, larger below half of it.
func (p *PPO) Steer(rate, kl, target float64) float64 {
	switch {
	case target == 0:
		return rate
	case kl > 2*target:
		rate /= 1.5
	case kl < target/2:
		rate *= 1.5
	}
	return min(max(rate, p.MinRate), p.MaxRate)
}

// group is the observation group that a teacher of a file or checkpoint reads.
func (o *OPD) group() string {
	switch {
	case o.Group != "":
		return o.Group
	case o.Teacher == teacherPrivileged:
		return "critic"
	}
	return "policy"
}
