//go:build torch

package algo

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/nets"
)

// learn learns from s.
func (t *Trainer) learn(s *storage) error {
	begin := time.Now()
	r := &t.report
	*r = Report{Iteration: t.iteration + 1, Metrics: r.Metrics, Warm: t.warm()}
	b := s.buf
	var err error
	switch {
	case s.sums.NaN > 0:
		t.skip(r, fmt.Errorf("algo: %d numbers seen or acted are none: %w", s.sums.NaN, nets.ErrNonFinite))
	case t.warm(): // no ratios: what is cloned now is cloned for the eyes of the next rollout
		if err = t.nets.UpdateNormaliser(b.PolicyObs, b.CriticObs); err == nil {
			err = t.clone(r, b)
		}
	default: // what was collected is learnt from through the eyes that saw it
		if err = t.improve(r, s); err == nil {
			err = t.nets.UpdateNormaliser(b.PolicyObs, b.CriticObs)
		}
	}
	r.LearnS = since(begin)
	return err
}

// conclude ends the iteration that was learnt from s.
func (t *Trainer) conclude(s *storage) error {
	if err := t.count(s); err != nil {
		return err
	}
	if t.diverged >= badInARow {
		return fmt.Errorf("algo: iteration %d: %w: %w", t.iteration, ErrDiverged, t.cause)
	}
	if t.opts.Each != nil {
		if err := t.opts.Each(&t.report); err != nil {
			return err
		}
	}
	t.ended = time.Now()
	return nil
}

// count counts an iteration that was learnt from s, lets the teacher follow and fills the Report.
func (t *Trainer) count(s *storage) error {
	t.iteration++
	t.samples += int64(s.buf.Steps * s.buf.Rows)
	if t.iteration == int64(t.cfg.Warm.Rollouts) {
		t.endWarm()
	}
	if t.opd != nil && t.learnt() >= 0 {
		if err := t.opd.follow(t.nets, t.learnt()); err != nil {
			return err
		}
	}
	if err := t.publish(); err != nil {
		return err
	}
	t.tell(&t.report, s)
	return nil
}

// endWarm begins PPO after cloning.
func (t *Trainer) endWarm() {
	t.nets.ResetAdam()
	t.setRate()
}

// skip counts what was not learnt from, and says whether that is enough.
func (t *Trainer) skip(r *Report, cause error) (enough bool) {
	r.Skipped++
	t.diverged++
	t.cause = cause
	return t.diverged >= badInARow
}

// clone fits the actor to the script on the iteration's steps.
func (t *Trainer) clone(r *Report, b *buffer.Buffer) error {
	batch := nets.Batch{PolicyObs: b.PolicyObs, CriticObs: b.CriticObs, Label: b.Label}
	return t.nets.Update(&batch, func() error { return t.cloning(r, b, &batch) })
}

// cloning takes clone's minibatches.
func (t *Trainer) cloning(r *Report, b *buffer.Buffer, batch *nets.Batch) error {
	random := rand.New(&t.order)
	count := max(1, (b.Steps*b.Rows+t.cfg.Warm.Batch-1)/t.cfg.Warm.Batch)
	batches := 0
	for index := range b.Minibatches(random, t.cfg.Warm.Epochs, count) {
		batch.Index, batch.Mirror = index, t.draw(random, len(index))
		s, err := t.nets.Regress(batch, t.cfg.Net.VelocityWeight)
		if err != nil {
			if !errors.Is(err, nets.ErrNonFinite) {
				return err
			}
			if t.skip(r, err) {
				break
			}
			continue
		}
		t.diverged = 0
		r.LabelRMSE += math.Sqrt(s.Distill)
		r.VelocityRMSE += math.Sqrt(s.Velocity)
		batches++
	}
	r.LabelRMSE /= float64(max(1, batches))
	r.VelocityRMSE /= float64(max(1, batches))
	return nil
}

// draw says which drawn samples are mirrored; nil: none are.
func (t *Trainer) draw(random *rand.Rand, n int) []bool {
	if !t.cfg.PPO.Mirror {
		return nil
	}
	for i := range n {
		t.mirror[i] = random.Uint64()>>63 == 1
	}
	return t.mirror[:n]
}

// improve is PPO on the iteration's steps.
func (t *Trainer) improve(r *Report, s *storage) error {
	b := s.buf
	if err := t.value(s); err != nil {
		return err
	}
	if t.cfg.Async {
		if err := t.decouple(s); err != nil {
			if errors.Is(err, nets.ErrNonFinite) {
				t.skip(r, err)
				return nil
			}
			return err
		}
	}
	if err := b.Returns(t.cfg.PPO.Gamma, t.cfg.PPO.Lambda); err != nil {
		if errors.Is(err, buffer.ErrNonFinite) {
			t.skip(r, err)
			return nil
		}
		return err
	}
	_, r.AdvantageStd, _ = b.Normalise()
	if t.cfg.Async {
		truncate(b)
	}
	batch := nets.Batch{PolicyObs: b.PolicyObs, CriticObs: b.CriticObs, Action: b.Action, Mean: b.Mean, OldStd: s.std, OldLogProb: b.LogProb,
		Advantage: b.Advantage, Target: b.Target, OldValue: b.Value}
	share := 0.0
	if t.opts.Progress != nil {
		share = min(max(t.opts.Progress(), 0), 1)
	}
	target := t.cfg.PPO.klTarget(share)
	loss := nets.Loss{Clip: t.cfg.PPO.Clip, ValueClip: t.cfg.PPO.ValueClip, ValueWeight: t.cfg.PPO.ValueWeight,
		EntropyWeight: t.cfg.PPO.entropy(share), MaxGradNorm: t.cfg.PPO.MaxGradNorm, VelocityWeight: t.cfg.Net.VelocityWeight}
	if t.opd != nil {
		batch.Label, batch.Labelled, batch.Teacher, batch.LabelStd = b.Label, b.Labelled, b.Teacher, s.labelStd
		r.Mix, r.DistillWeight = t.cfg.OPD.Mix.at(t.learnt()), t.cfg.OPD.Weight.at(t.learnt())
		loss.DistillWeight = float32(r.DistillWeight)
		loss.Distill, loss.StdDetached = distillation[t.cfg.OPD.Loss], t.cfg.OPD.StdDetached
	}
	if t.cfg.PPO.Calm > 0 {
		batch.Near, loss.CalmWeight = t.calm(b), t.cfg.PPO.calm(share)
	}
	return t.nets.Update(&batch, func() error { return t.improving(r, b, &batch, &loss, target) })
}

// improving takes improve's minibatches, which are to diverge by target.
func (t *Trainer) improving(r *Report, b *buffer.Buffer, batch *nets.Batch, loss *nets.Loss, target float64) error {
	random := rand.New(&t.order)
	for index := range b.Minibatches(random, t.cfg.PPO.Epochs, t.cfg.PPO.Minibatches) {
		batch.Index, batch.Mirror = index, t.draw(random, len(index))
		stats, err := t.nets.Minibatch(batch, loss)
		if err != nil {
			if !errors.Is(err, nets.ErrNonFinite) {
				return err
			}
			if t.skip(r, err) {
				break
			}
			continue
		}
		t.diverged = 0
		t.means.add(r, &stats)
		// A minibatch that the teacher drove alone says nothing of the student's divergence.
		if stats.Students > 0 {
			t.nets.SetLearningRate(t.cfg.PPO.Steer(t.nets.LearningRate(), stats.KL, target))
		}
	}
	t.means.divide(r)
	return nil
}

// distillation are the losses by their names.
var distillation = map[string]nets.Distill{lossNLL: nets.NLL, lossMSE: nets.MSE, lossKL: nets.KL}

// value fills Value, LastValue and FinalValue of s.
func (t *Trainer) value(s *storage) error {
	b := s.buf
	if err := t.nets.Values(b.CriticObs, b.Steps*b.Rows, b.Value); err != nil {
		return err
	}
	if err := t.nets.Values(s.last, b.Rows, b.LastValue); err != nil {
		return err
	}
	if n := len(s.finalAt); n > 0 {
		t.values = slices.Grow(t.values[:0], n)[:n]
		if err := t.nets.Values(s.final, n, t.values); err != nil {
			return err
		}
		for i, at := range s.finalAt {
			b.FinalValue[at] = t.values[i]
		}
	}
	return nil
}
