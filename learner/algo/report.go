//go:build torch

package algo

import "github.com/openclaw-rl/openclaw/learner/nets"

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

	Surrogate, Value, Entropy, KL, ClipFraction, GradNorm float64 // means over minibatches
	LabelRMSE                                             float64 // while it clones
	FirstRatioError                                       float64 // largest |ratio - 1| of the first minibatch
	AdvantageStd                                          float64
	LearningRate, Std                                     float64 // after it; Std is the mean over joints
	Skipped                                               int     // minibatches that were not finite

	CollectS, LearnS float64 // s
}

func (r *Report) add(s *nets.Stats) {
	r.Surrogate += s.Surrogate
	r.Value += s.Value
	r.Entropy += s.Entropy
	r.KL += s.KL
	r.ClipFraction += s.ClipFraction
	r.GradNorm += s.GradNorm
}

func (r *Report) divide(n int) {
	for _, x := range []*float64{&r.Surrogate, &r.Value, &r.Entropy, &r.KL, &r.ClipFraction, &r.GradNorm} {
		*x /= float64(max(1, n))
	}
}

// tell fills r from what the iteration added up and begins anew.
func (t *Trainer) tell(r *Report, learnS float64) {
	s := &t.sums
	r.Samples, r.LearnS = t.samples, learnS
	for i, x := range s.metrics {
		r.Metrics[i] = x / float64(max(1, s.metricSteps))
	}
	r.Reward = s.reward / float64(t.buf.Steps*t.buf.Rows)
	r.Episodes, r.Falls, r.BadRows, r.Saturated, r.NaN = s.episodes, s.falls, s.badRows, s.saturated, s.nan
	if s.episodes > 0 {
		r.EpisodeLength, r.EpisodeReward = s.length/float64(s.episodes), s.earned/float64(s.episodes)
	}
	r.LearningRate = t.nets.LearningRate()
	std := make([]float32, t.buf.Act)
	t.nets.Std(std)
	for _, x := range std {
		r.Std += float64(x) / float64(len(std))
	}
	metrics := s.metrics
	clear(metrics)
	*s = tally{metrics: metrics}
}
