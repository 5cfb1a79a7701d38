//go:build torch

package nets

// #include "core.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// ErrNonFinite is wrapped by the error of a minibatch whose loss, ratio or
// squared gradient is not a number or more than a float32 holds. Nothing has
// changed then.
var ErrNonFinite = errors.New("not finite")

// Batch is samples drawn from a buffer. All arrays but Index and Mirror are
// the whole buffer's: entry i of (samples, ..) belongs to sample i.
//
// A mirrored sample was drawn, in the mirrored world, by the mirrored policy: its
// ratio is against OldLogProb, its KL against the mirrored Mean.
type Batch struct {
	PolicyObs, CriticObs []uint16  // fp16, (samples, Policy), (samples, Critic)
	Action               []uint16  // fp16, as executed, (samples, Act)
	Label                []uint16  // fp16, teacher's action, (samples, Act); nil: nothing is labelled
	Mean                 []float32 // mean of the policy the ratio is taken against, (samples, Act)
	OldStd               []float32 // its std, (Act)
	OldLogProb           []float32 // its log-probability of Action, (samples)
	Advantage, Target    []float32 // (samples)
	OldValue             []float32 // value at collection, (samples); may be nil without value clipping
	Labelled             []bool    // Label holds something, (samples); nil: nothing is labelled
	Teacher              []bool    // the teacher acted, (samples); nil: the student always

	Index    []int32   // samples of this minibatch
	Mirror   []bool    // mirror the drawn sample, as long as Index; nil: none
	Near     []int32   // the sample whose Mean the mean is to be near, -1: none, (samples); nil: none
	LabelStd []float32 // teacher's std for Loss.Distill KL, (Act); nil: the student's own, held fixed
}

// Distill is a kind of distillation loss, averaged over labelled samples.
type Distill int

const (
	NLL Distill = C.CLAW_NLL // minus the log-probability of the label, summed over dimensions
	MSE Distill = C.CLAW_MSE // squared difference of mean and label, mean over dimensions
	KL  Distill = C.CLAW_KL  // KL divergence of the student from the teacher, summed over dimensions
)

// Loss weighs what a minibatch is judged by:
//
//	surrogate + ValueWeight value - EntropyWeight entropy + DistillWeight distill + VelocityWeight velocity + CalmWeight calm
//
// Surrogate, entropy and KL speak of the student's own steps, value, velocity and
// calm of all, distill of the labelled; each is a mean over its samples of the
// minibatch.
type Loss struct {
	Clip          float32 // of the ratio: 1 - Clip .. 1 + Clip
	ValueClip     float32 // of the value's distance from OldValue; 0: off
	ValueWeight   float32
	EntropyWeight float32
	DistillWeight float32
	Distill       Distill
	StdDetached   bool // distillation moves the mean only
	// VelocityWeight is of the mean squared error, over samples and the three numbers, of an
	// Encoder's velocity; the teacher's steps count too.
	VelocityWeight float32
	// CalmWeight is of the squared distance, mean over dimensions, of the mean from that of the sample
	// that Batch.Near names: the temporal smoothness of Mysore et al. (2021, CAPS). It moves the mean
	// and, other than a reward for it, does not see the noise of actions.
	CalmWeight float32

	MaxGradNorm float32 // of actor, log std and critic together; 0: no clipping
	ClipApart   bool    // MaxGradNorm holds for actor with log std, and for the critic, each
}

// Stats tell about one minibatch, before its step.
type Stats struct {
	Samples, Students, Labelled int

	Loss, Surrogate, Value, Entropy, Distill float64
	KL                                       float64 // exact, of the new policy from the old, mean over the student's samples
	ClipFraction                             float64 // share of the student's samples with |ratio - 1| > Clip
	MaxRatioError                            float64 // largest |ratio - 1|
	LabelRMSE                                float64 // of mean to label, over labelled samples and dimensions
	Velocity                                 float64 // mean squared error of an Encoder's velocity
	Calm                                     float64 // squared distance of the mean from what Batch.Near names, over all samples
	ActorNorm                                float64 // of the gradient before clipping, with log std
	CriticNorm                               float64
	GradNorm                                 float64 // of both
}

// Minibatch is Gradient and Apply: one Adam step by the loss's gradient.
func (n *Nets) Minibatch(b *Batch, l *Loss) (Stats, error) {
	stats, err := n.Gradient(b, l)
	if err != nil {
		return stats, err
	}
	return stats, n.Apply(l)
}

// Gradient works the loss and its gradient out and keeps the latter for Apply.
// The error wraps ErrNonFinite where they are not finite; there is nothing to
// apply then.
func (n *Nets) Gradient(b *Batch, l *Loss) (Stats, error) {
	n.ready = false
	if err := n.checkBatch(b, l); err != nil {
		return Stats{}, err
	}
	n.loss = C.claw_loss{clip: C.float(l.Clip), value_clip: C.float(l.ValueClip), value_weight: C.float(l.ValueWeight),
		entropy_weight: C.float(l.EntropyWeight), distill_weight: C.float(l.DistillWeight), distill: C.int(l.Distill),
		std_detached: C.bool(l.StdDetached), velocity_weight: C.float(l.VelocityWeight), calm_weight: C.float(l.CalmWeight)}
	if n.device != nil {
		if err := n.gradientThere(b); err != nil {
			return Stats{}, err
		}
	} else {
		C.claw_gradient(n.core, &n.loss, C.int64_t(len(b.Index)), indices(b.Index), bools(b.Mirror), halves(b.PolicyObs), halves(b.CriticObs),
			halves(b.Action), halves(b.Label), floats(b.Mean), floats(b.OldStd), floats(b.LabelStd), floats(b.OldLogProb),
			floats(b.Advantage), floats(b.Target), floats(b.OldValue), bools(b.Labelled), bools(b.Teacher), indices(b.Near), &n.stats)
	}
	return n.keep("minibatch")
}

// keep turns C's stats into ours and has the gradient wait for Apply.
func (n *Nets) keep(what string) (Stats, error) {
	s := &n.stats
	stats := Stats{Samples: int(s.samples), Students: int(s.students), Labelled: int(s.labelled), Loss: float64(s.loss),
		Surrogate: float64(s.surrogate), Value: float64(s.value), Entropy: float64(s.entropy), Distill: float64(s.distill),
		KL: float64(s.kl), ClipFraction: float64(s.clip_fraction), MaxRatioError: float64(s.max_ratio_error),
		LabelRMSE: float64(s.label_rmse), Velocity: float64(s.velocity), Calm: float64(s.calm), ActorNorm: float64(s.actor_norm), CriticNorm: float64(s.critic_norm),
		GradNorm: math.Hypot(float64(s.actor_norm), float64(s.critic_norm))}
	if !s.finite {
		return stats, fmt.Errorf("nets: %s: loss %g (surrogate %g, value %g, distill %g), gradient %g: %w", what,
			stats.Loss, stats.Surrogate, stats.Value, stats.Distill, stats.GradNorm, ErrNonFinite)
	}
	n.waiting = stats
	n.ready = true
	return stats, nil
}

// Apply clips the gradient that the last Gradient left and takes one Adam
// step, then puts the spread into its range. The actor moves only if the
// minibatch held a student's step, or a label, a velocity or a Near with weight.
func (n *Nets) Apply(l *Loss) error {
	if !n.ready {
		return errors.New("nets: Apply: no gradient waits for it")
	}
	n.ready = false
	s := &n.waiting
	actorScale, criticScale := scale(l.MaxGradNorm, s.GradNorm), scale(l.MaxGradNorm, s.GradNorm)
	if l.ClipApart {
		actorScale, criticScale = scale(l.MaxGradNorm, s.ActorNorm), scale(l.MaxGradNorm, s.CriticNorm)
	}
	distilled := s.Labelled > 0 && l.DistillWeight != 0
	besides := l.VelocityWeight != 0 && n.config.Encoder != nil || l.CalmWeight != 0 && s.Calm > 0
	return n.step([3]bool{s.Students > 0 || distilled || besides, s.Students > 0 || distilled && !l.StdDetached, true}, actorScale, criticScale)
}

// step is an Adam step of the groups (actor, log std, critic) that move.
func (n *Nets) step(moves [3]bool, actorScale, criticScale float64) error {
	for i, moves := range moves {
		n.count[i] = 0
		if moves {
			n.steps[i]++
			n.count[i] = C.int64_t(n.steps[i])
		}
	}
	if n.device != nil {
		return n.adamThere(actorScale, criticScale)
	}
	C.claw_adam(n.core, C.double(n.rate), C.float(actorScale), C.float(criticScale), &n.count[0])
	return nil
}

// scale is what a gradient of this norm is multiplied by to have at most norm
// most, as torch's clip_grad_norm_ does it; most 0 leaves it.
func scale(most float32, norm float64) float64 {
	if most == 0 {
		return 1
	}
	return min(1, float64(most)/(norm+1e-6))
}

// Regress is one Adam step of the actor alone by the mean squared error of its
// mean to b's Label, over samples and dimensions, and, with an Encoder,
// velocityWeight times that of its velocity. Of b it takes PolicyObs, Label, Index,
// Mirror (nil: none), with an Encoder CriticObs too. Distill and Velocity of the
// Stats are the errors before the step; not finite, the error wraps ErrNonFinite.
func (n *Nets) Regress(b *Batch, velocityWeight float32) (Stats, error) {
	n.ready = false
	if len(b.Index) == 0 {
		return Stats{}, errors.New("nets: Regress: Index is empty")
	}
	c := &n.config
	samples := len(b.PolicyObs) / c.Policy
	switch {
	case len(b.PolicyObs) != samples*c.Policy || len(b.Label) != samples*c.Act:
		return Stats{}, fmt.Errorf("nets: Regress: PolicyObs has %d numbers and Label %d, want multiples of %d and %d for equally many samples",
			len(b.PolicyObs), len(b.Label), c.Policy, c.Act)
	case c.Encoder != nil && len(b.CriticObs) != samples*c.Critic:
		return Stats{}, fmt.Errorf("nets: Regress: CriticObs has %d numbers, want %d for %d samples", len(b.CriticObs), samples*c.Critic, samples)
	case b.Mirror != nil && len(b.Mirror) != len(b.Index):
		return Stats{}, fmt.Errorf("nets: Regress: %d mirrors for %d samples", len(b.Mirror), len(b.Index))
	case b.Mirror != nil && !c.mirrors():
		return Stats{}, errors.New("nets: Regress: the networks were made without mirror maps")
	}
	if err := checkIndex(b.Index, samples); err != nil {
		return Stats{}, err
	}
	if n.device != nil {
		if err := n.regressThere(b, velocityWeight); err != nil {
			return Stats{}, err
		}
	} else {
		C.claw_regress(n.core, C.int64_t(len(b.Index)), indices(b.Index), bools(b.Mirror), halves(b.PolicyObs), halves(b.CriticObs), halves(b.Label),
			C.float(velocityWeight), &n.stats)
	}
	stats, err := n.keep("regression")
	n.ready = false
	if err == nil {
		err = n.step([3]bool{true, false, false}, 1, 1)
	}
	return stats, err
}

// SetLearningRate sets Adam's step size from now on.
func (n *Nets) SetLearningRate(rate float64) { n.rate = rate }

// LearningRate is Adam's step size.
func (n *Nets) LearningRate() float64 { return n.rate }

// ResetAdam forgets Adam's moments, as a new optimiser has none.
func (n *Nets) ResetAdam() {
	clear(n.first)
	clear(n.second)
	n.steps = [3]int64{}
}

// checkBatch refuses what C would read out of bounds.
func (n *Nets) checkBatch(b *Batch, l *Loss) error {
	if len(b.Index) == 0 {
		return errors.New("nets: minibatch: Index is empty")
	}
	c, samples := &n.config, len(b.Advantage)
	for _, array := range []struct {
		name      string
		got, want int
	}{
		{"PolicyObs", len(b.PolicyObs), samples * c.Policy}, {"CriticObs", len(b.CriticObs), samples * c.Critic},
		{"Action", len(b.Action), samples * c.Act}, {"Mean", len(b.Mean), samples * c.Act}, {"OldStd", len(b.OldStd), c.Act},
		{"OldLogProb", len(b.OldLogProb), samples}, {"Target", len(b.Target), samples},
		{"OldValue", len(b.OldValue), wanted(samples, b.OldValue != nil || l.ValueClip > 0)},
		{"Label", len(b.Label), wanted(samples*c.Act, b.Label != nil || b.Labelled != nil)},
		{"Labelled", len(b.Labelled), wanted(samples, b.Label != nil || b.Labelled != nil)},
		{"Teacher", len(b.Teacher), wanted(samples, b.Teacher != nil)},
		{"Mirror", len(b.Mirror), wanted(len(b.Index), b.Mirror != nil)},
		{"Near", len(b.Near), wanted(samples, b.Near != nil)},
		{"LabelStd", len(b.LabelStd), wanted(c.Act, b.LabelStd != nil)},
	} {
		if array.got != array.want {
			return fmt.Errorf("nets: minibatch: %s has %d numbers, want %d for %d samples", array.name, array.got, array.want, samples)
		}
	}
	if b.Mirror != nil && !c.mirrors() {
		return errors.New("nets: minibatch: Mirror given, but the networks were made without mirror maps")
	}
	for i, near := range b.Near {
		if near < -1 || int(near) >= samples {
			return fmt.Errorf("nets: minibatch: Near of sample %d is %d, want -1..%d", i, near, samples-1)
		}
	}
	if l.Distill < NLL || l.Distill > KL {
		return fmt.Errorf("nets: minibatch: Distill is %d, want NLL, MSE or KL", l.Distill)
	}
	return checkIndex(b.Index, samples)
}

func wanted(n int, wanted bool) int {
	if wanted {
		return n
	}
	return 0
}

func checkIndex(index []int32, samples int) error {
	for k, i := range index {
		if i < 0 || int(i) >= samples {
			return fmt.Errorf("nets: index %d is %d, want 0..%d", k, i, samples-1)
		}
	}
	return nil
}

// flatGradient is the gradient that the last Gradient or Regress left, each
// parameter's at its offset.
func (n *Nets) flatGradient() []float32 {
	if n.device != nil {
		return n.flatGradientThere()
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(C.claw_flat_gradient(n.core))), len(n.first))
}
