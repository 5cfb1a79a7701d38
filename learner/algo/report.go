//go:build torch

package algo

import (
	"math"

	"github.com/openclaw-rl/openclaw/learner/nets"
)

// Report is what an iteration did. Means are over its steps unless said otherwise.
type Report struct {
	Iteration int64 // from 1
	Samples   int64 // steps of rows since the run began
	Warm      bool  // it cloned

	Metrics       []float64 // of rollout.Spec.Metrics, by step
	Reward        float64   // by step
	Episodes      int       // that ended
	Falls         int       // of those
	EpisodeLength float64   // steps, of those
	EpisodeReward float64   // of those
	BadRows       int       // steps whose physics went bad
	Saturated     int       // numbers beyond fp16
	NaN           int       // numbers that are none

	// Means over minibatches, of those that held what they are about.
	Surrogate, Entropy, KL, ClipFraction float64 // the student's own steps
	Value, GradNorm                      float64
	Distill, LabelRMSE                   float64 // labelled steps: the loss, and the actor's distance from the label, also while it clones
	VelocityRMSE                         float64 // an encoder's estimate, of each component, in the unit that the critic is shown it; also while it clones
	Calm                                 float64 // squared distance of means a step apart while nothing is commanded, over all steps
	FirstRatioError                      float64 // largest |ratio - 1| of the first of them

	TeacherShare       float64 // of valid steps: the teacher drove
	Mix, DistillWeight float64 // what the schedules said
	AdvantageStd       float64
	LearningRate, Std  float64 // after it; Std is the mean over joints
	Skipped            int     // minibatches that were not finite; an iteration with such a number is one

	// Rho is the mean over valid steps of the student's of min(1, pi_start/mu): 1 where what is
	// learnt from was collected by the policy at the update's start.
	Rho float64

	// Time, s. Collecting consists of the policy's part (actor, teacher, noise, rounding), the Env's
	// and the rest. WallS is what passed since the iteration before: with Config.Async less
	// than collecting and learning.
	CollectS, PolicyS, PhysicsS float64
	LearnS                      float64
	WallS                       float64
}

// means count the minibatches that a Report's means are over.
type means struct{ all, students, labelled int }

func (m *means) add(r *Report, s *nets.Stats) {
	r.Value += s.Value
	r.GradNorm += s.GradNorm
	r.VelocityRMSE += math.Sqrt(s.Velocity)
	r.Calm += s.Calm
	m.all++
	if s.Students > 0 {
		if m.students == 0 {
			r.FirstRatioError = s.MaxRatioError
		}
		r.Surrogate += s.Surrogate
		r.Entropy += s.Entropy
		r.KL += s.KL
		r.ClipFraction += s.ClipFraction
		m.students++
	}
	if s.Labelled > 0 {
		r.Distill += s.Distill
		r.LabelRMSE += s.LabelRMSE
		m.labelled++
	}
}

// divide makes means of r's sums and begins anew.
func (m *means) divide(r *Report) {
	for _, x := range []struct {
		sum *float64
		n   int
	}{{&r.Value, m.all}, {&r.GradNorm, m.all}, {&r.VelocityRMSE, m.all}, {&r.Calm, m.all}, {&r.Surrogate, m.students}, {&r.Entropy, m.students}, {&r.KL, m.students},
		{&r.ClipFraction, m.students}, {&r.Distill, m.labelled}, {&r.LabelRMSE, m.labelled}} {
		*x.sum /= float64(max(1, x.n))
	}
	*m = means{}
}

// tell fills r from what was collected in from.
func (t *Trainer) tell(r *Report, from *storage) {
	s, b := &from.sums, from.buf
	r.Samples, r.WallS = t.samples, since(t.ended)
	r.CollectS, r.PolicyS, r.PhysicsS = s.CollectS, s.PolicyS, s.PhysicsS
	for i, x := range s.metrics {
		r.Metrics[i] = x / float64(max(1, s.MetricSteps))
	}
	r.Reward = s.Reward / float64(b.Steps*b.Rows)
	r.Episodes, r.Falls, r.BadRows, r.Saturated, r.NaN = int(s.Episodes), int(s.Falls), int(s.BadRows), int(s.Saturated), int(s.NaN)
	if s.Episodes > 0 {
		r.EpisodeLength, r.EpisodeReward = s.Length/float64(s.Episodes), s.Earned/float64(s.Episodes)
	}
	r.LearningRate = t.nets.LearningRate()
	t.nets.Std(t.after)
	for _, x := range t.after {
		r.Std += float64(x) / float64(len(t.after))
	}
	valid, driven := 0, 0
	for i, v := range b.Valid {
		if !v {
			continue
		}
		valid++
		if b.Teacher[i] {
			driven++
		} else {
			r.Rho += float64(b.Rho[i])
		}
	}
	r.TeacherShare = float64(driven) / float64(max(1, valid))
	r.Rho /= float64(max(1, valid-driven))
}
