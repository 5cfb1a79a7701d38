//go:build torch

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/algo"
)

// How long a number of rows is tried, each time, and how often all are: a machine that is busy for a moment is slow for one of them.
const (
	rowsTrySeconds = 0.5
	rowsTryRounds  = 2
)

// chooseRows makes cfg's rows those with which training is fastest here, of rowsToTry, and its steps what keeps the samples an iteration.
func chooseRows(ctx context.Context, s *screen, cfg *Config) error {
	samples := cfg.Rows * cfg.Algo.Steps
	tries := rowsToTry(samples)
	best := make([]float64, len(tries)) // steps/s
	for range rowsTryRounds {
		for i, rows := range tries {
			s.last(fmt.Sprintf("rows auto: trying %d", rows))
			c := *cfg
			c.Rows, c.Algo.Steps = rows, samples/rows
			speed, err := trySpeed(ctx, c)
			if err != nil {
				return fmt.Errorf("rows auto: %d: %w", rows, err)
			}
			best[i] = max(best[i], speed)
		}
	}
	fastest, said := 0, make([]string, len(tries))
	for i, rows := range tries {
		said[i] = fmt.Sprintf("%d: %.0f", rows, best[i])
		if best[i] > best[fastest] {
			fastest = i
		}
	}
	cfg.Rows, cfg.Algo.Steps, cfg.RowsAuto = tries[fastest], samples/tries[fastest], false
	s.line("rows auto: steps/s by rows %s; taking %d rows x %d steps", strings.Join(said, ", "), cfg.Rows, cfg.Algo.Steps)
	return nil
}

// trySpeed trains by PPO for a moment and gives the steps/s, without what the first iteration took.
func trySpeed(ctx context.Context, cfg Config) (stepsPerS float64, err error) {
	cfg.Run = RunConfig{Preset: cfg.Run.Preset, Seed: cfg.Run.Seed}
	cfg.Algo.Warm.Rollouts, cfg.Algo.Warm.Scripted = 0, 0
	t := &trial{cfg: cfg}
	if err := t.openEnv(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.closeEnv()) }()
	samples, seconds := 0, 0.0
	trainer, err := t.newTrainer(t.env, func(r *algo.Report) error {
		if r.Iteration == 1 {
			return nil
		}
		samples += cfg.Rows * cfg.Algo.Steps
		if seconds += r.WallS; seconds >= rowsTrySeconds {
			return rollout.ErrStop
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	defer trainer.Close()
	if err := trainer.Run(ctx); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return float64(samples) / seconds, nil
}
