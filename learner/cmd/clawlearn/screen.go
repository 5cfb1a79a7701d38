//go:build torch

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/openclaw-rl/openclaw/learner/algo"
	"github.com/openclaw-rl/openclaw/learner/run"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// rewardPrefix begins the metrics that are terms of the reward.
const rewardPrefix = "reward/"

// reportEvery is the time between two reports of how training goes: a block where a person watches, else a line.
const reportEvery = 10 * time.Second

// screen shows how a run goes.
type screen struct {
	*console
	cfg  *Config
	next time.Time // of a report
}

func newScreen(w io.Writer, cfg *Config) *screen {
	return &screen{console: newConsole(w), cfg: cfg, next: time.Now().Add(reportEvery)}
}

// evaluated shows an evaluation.
func (s *screen) evaluated(r *trainResult, e *task.Result) {
	s.line("%7.2f M steps %6.1f s: error %.3f m/s %.3f rad/s, falls %4.1f %%, %3.0f W, action rate %.3f, %.0f steps/s",
		float64(r.Samples)/1e6, r.Seconds, e.VelErr, e.YawErr, 100*e.FallRate, e.PowerW, e.ActionRate, r.StepsPerS)
}

// iteration shows an iteration: in the last line, and from time to time more of it. share is how much of the run is over, 0: not known.
func (s *screen) iteration(r *trainResult, it *algo.Report, metrics []string, share float64) {
	speed := float64(s.cfg.Rows*s.cfg.Algo.Steps) / it.WallS
	head := fmt.Sprintf("iteration %d, %.2f M steps, %.1f s: %.0f steps/s", r.Iterations, float64(r.Samples)/1e6, r.Seconds, speed)
	if it.Warm {
		head += fmt.Sprintf(", cloning to %.3f", it.LabelRMSE)
	} else if s.cfg.Algo.OPD.Teacher != "none" {
		head += fmt.Sprintf(", %.0f %% by the teacher, %.3f from it", 100*it.TeacherShare, it.LabelRMSE)
	}
	tracking := fmt.Sprintf("error %.3f m/s %.3f rad/s, reward %.4f a step", metric(it, metrics, "vel_err"), metric(it, metrics, "yaw_err"), it.Reward)
	if it.Episodes > 0 {
		tracking += fmt.Sprintf(", episodes of %.0f steps", it.EpisodeLength)
	}
	if now := time.Now(); !now.Before(s.next) {
		s.next = now.Add(reportEvery)
		if s.file == nil {
			s.line("%s, %s", head, tracking)
		} else {
			s.line("%s", block(head, tracking, it, metrics))
		}
	}
	switch {
	case share > 0:
		left := time.Duration(r.Seconds * max(0, 1/share-1) * float64(time.Second))
		s.last(drawn(share, left) + "  " + head + ", " + tracking)
	default:
		s.last(head + ", " + tracking)
	}
}

// block is an iteration for a person, as rsl_rl shows it.
func block(head, tracking string, it *algo.Report, metrics []string) string {
	var b strings.Builder
	whole := it.CollectS + it.LearnS
	fmt.Fprintf(&b, "%s (collecting %.0f %%, physics %.0f %% of it, learning %.0f %%)\n  %s", head, 100*it.CollectS/whole,
		100*it.PhysicsS/it.CollectS, 100*it.LearnS/whole, tracking)
	shown := 0
	for i, name := range metrics {
		term, ok := strings.CutPrefix(name, rewardPrefix)
		if !ok {
			continue
		}
		if shown%4 == 0 {
			b.WriteString("\n  ")
		}
		fmt.Fprintf(&b, "%-20s %9.5f   ", term, it.Metrics[i])
		shown++
	}
	fmt.Fprintf(&b, "\n  kl %.4f, clipped %.1f %%, rate %.2g, std %.3f, value loss %.4f, entropy %.2f", it.KL, 100*it.ClipFraction, it.LearningRate,
		it.Std, it.Value, it.Entropy)
	if it.Skipped+it.BadRows+it.Saturated > 0 {
		fmt.Fprintf(&b, "\n  not finite: %d minibatches; physics gone bad: %d steps; beyond fp16: %d numbers", it.Skipped, it.BadRows, it.Saturated)
	}
	return b.String()
}

// metric is the mean of the named metric, 0 if the Env has none such.
func metric(it *algo.Report, metrics []string, name string) float64 {
	if i := slices.Index(metrics, name); i >= 0 {
		return it.Metrics[i]
	}
	return 0
}

// values are an iteration's numbers under rsl_rl's and Isaac Lab's tags. seconds are those of training so far.
func values(cfg *Config, metrics []string, r *algo.Report, seconds float64) []run.Value {
	v := []run.Value{
		{Tag: "Loss/value", Value: r.Value}, {Tag: "Loss/surrogate", Value: r.Surrogate}, {Tag: "Loss/entropy", Value: r.Entropy},
		{Tag: "Loss/learning_rate", Value: r.LearningRate}, {Tag: "Loss/kl", Value: r.KL}, {Tag: "Loss/clip_fraction", Value: r.ClipFraction},
		{Tag: "Loss/behavior", Value: r.LabelRMSE}, {Tag: "Loss/skipped", Value: float64(r.Skipped)},
		{Tag: "Policy/mean_std", Value: r.Std},
		{Tag: "Perf/total_fps", Value: float64(cfg.Rows*cfg.Algo.Steps) / r.WallS},
		{Tag: "Perf/collection_time", Value: r.CollectS}, {Tag: "Perf/learning_time", Value: r.LearnS},
		{Tag: "Perf/physics_time", Value: r.PhysicsS}, {Tag: "Perf/policy_time", Value: r.PolicyS},
		{Tag: "Perf/samples", Value: float64(r.Samples)}, {Tag: "Perf/train_seconds", Value: seconds},
		{Tag: "Perf/physics_bad", Value: float64(r.BadRows)}, {Tag: "Perf/saturated", Value: float64(r.Saturated)},
	}
	if r.Episodes > 0 {
		v = append(v, run.Value{Tag: "Train/mean_reward", Value: r.EpisodeReward}, run.Value{Tag: "Train/mean_episode_length", Value: r.EpisodeLength},
			run.Value{Tag: "Episode_Termination/fall", Value: float64(r.Falls) / float64(r.Episodes)})
	}
	if cfg.Algo.Async {
		v = append(v, run.Value{Tag: "Policy/rho", Value: r.Rho})
	}
	if cfg.Algo.OPD.Teacher != "none" {
		v = append(v, run.Value{Tag: "Loss/distill", Value: r.Distill}, run.Value{Tag: "Loss/distill_weight", Value: r.DistillWeight},
			run.Value{Tag: "Policy/teacher_share", Value: r.TeacherShare}, run.Value{Tag: "Policy/mix", Value: r.Mix})
	}
	if cfg.Algo.Net.History() > 1 {
		v = append(v, run.Value{Tag: "Loss/velocity_rmse", Value: r.VelocityRMSE})
	}
	if cfg.Algo.PPO.Calm > 0 {
		v = append(v, run.Value{Tag: "Loss/calm", Value: r.Calm})
	}
	for i, name := range metrics {
		tag := "Metrics/base_velocity/" + name
		if term, ok := strings.CutPrefix(name, rewardPrefix); ok {
			tag = "Episode_Reward/" + term
		}
		v = append(v, run.Value{Tag: tag, Value: r.Metrics[i]})
	}
	return v
}

// evalValues are an evaluation's.
func evalValues(s *task.Result) []run.Value {
	return []run.Value{{Tag: "Eval/vel_err", Value: s.VelErr}, {Tag: "Eval/yaw_err", Value: s.YawErr}, {Tag: "Eval/fall_rate", Value: s.FallRate},
		{Tag: "Eval/power_w", Value: s.PowerW}, {Tag: "Eval/action_rate", Value: s.ActionRate}}
}

// panels of curves.svg.
var panels = []run.Panel{
	{Title: "tracking error in eval_v1", Unit: "m/s, rad/s", Tags: []string{"Eval/vel_err", "Eval/yaw_err"}},
	{Title: "rows that fall in eval_v1", Unit: "share", Tags: []string{"Eval/fall_rate"}},
	{Title: "reward by term", Unit: "a step", Tags: []string{"Episode_Reward/tracking_lin_vel", "Episode_Reward/tracking_ang_vel", "Episode_Reward/gait_contact",
		"Episode_Reward/swing_height", "Episode_Reward/base_height", "Episode_Reward/orientation", "Episode_Reward/action_rate"}},
	{Title: "episode length", Unit: "steps", Tags: []string{"Train/mean_episode_length"}},
	{Title: "divergence and learning rate", Unit: "", Tags: []string{"Loss/kl", "Loss/learning_rate"}, Log: true},
	{Title: "speed", Unit: "steps/s", Tags: []string{"Perf/total_fps"}},
}
