//go:build torch

package nets

// #include "core.h"
import "C"

import (
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/learner/buffer"
)

// stdFloor is added to each std, so that a number that never changed divides
// by something, as rsl_rl's normaliser does.
const stdFloor = 0.01

// exponent16 are the exponent's bits of fp16, all set where it is not finite.
const exponent16 = 0x7c00

// moments are count, mean and sum of squared distances from it of each
// number of an observation (Welford). Of a history they are the frame's: every
// frame was the newest once, and convolutions want all frames seen alike.
type moments struct {
	dim       int // numbers of an observation, a multiple of a frame's
	count     float64
	mean, sum []float64 // of a frame
}

func newMoments(dim, frame int) moments {
	return moments{dim: dim, mean: make([]float64, frame), sum: make([]float64, frame)}
}

// add takes a batch of newest frames in, row by row.
func (m *moments) add(batch []float32) {
	for dim := len(m.mean); len(batch) > 0; batch = batch[dim:] {
		m.count++
		for i, x := range batch[:dim] {
			off := float64(x) - m.mean[i]
			m.mean[i] += off / m.count
			m.sum[i] += off * (float64(x) - m.mean[i])
		}
	}
}

// stats are mean and std of each number of an observation; std is 1 before the
// first row.
func (m *moments) stats() (mean, std []float32) {
	mean, std = make([]float32, m.dim), make([]float32, m.dim)
	for i := range mean {
		k := i % len(m.mean)
		mean[i], std[i] = float32(m.mean[k]), 1
		if m.count > 0 {
			std[i] = float32(math.Sqrt(m.sum[k]/m.count) + stdFloor)
		}
	}
	return mean, std
}

// UpdateNormaliser takes observations in, fp16, (rows, Policy) and (rows,
// Critic); either may be nil. Only with Config.Normaliser do the networks see
// them differently afterwards: call it between iterations. Numbers that are
// not finite are refused with an error that wraps ErrNonFinite; nothing has
// changed then.
func (n *Nets) UpdateNormaliser(policyObs, criticObs []uint16) error {
	for k, obs := range [][]uint16{policyObs, criticObs} {
		dim := n.running[k].dim
		if len(obs)%dim != 0 {
			return fmt.Errorf("nets: UpdateNormaliser: %d numbers, want a multiple of %d", len(obs), dim)
		}
		for i, h := range obs {
			if h&exponent16 == exponent16 {
				return fmt.Errorf("nets: UpdateNormaliser: number %d of row %d: %w", i%dim, i/dim, ErrNonFinite)
			}
		}
	}
	for k, obs := range [][]uint16{policyObs, criticObs} {
		m := &n.running[k]
		frame := make([]float32, len(m.mean))
		for ; len(obs) > 0; obs = obs[m.dim:] {
			buffer.Decode(frame, obs[m.dim-len(frame):m.dim])
			m.add(frame)
		}
	}
	n.ready = false
	n.normalise()
	return nil
}

// normalise hands mean and std to the networks.
func (n *Nets) normalise() {
	if !n.config.Normaliser {
		return
	}
	for k := range n.running {
		if mean, std := n.running[k].stats(); n.running[k].count > 0 {
			C.claw_normalise(n.core, C.int(k), floats(mean), floats(std))
		} else {
			C.claw_normalise(n.core, C.int(k), nil, nil)
		}
	}
}

// NormaliserStats are mean and std of the policy's observations seen so far,
// (Policy), whether or not the networks use them; the normaliser is
// (x - mean) / std. Before the first UpdateNormaliser mean is 0 and std 1.
func (n *Nets) NormaliserStats() (mean, std []float32) { return n.running[actor].stats() }
