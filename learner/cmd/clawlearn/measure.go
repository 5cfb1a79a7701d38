//go:build torch

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/algo"
)

// benchWarm is how many iterations come before those that count.
const benchWarm = 2

// measure times iterations of training.
func measure(ctx context.Context, w io.Writer, cfg Config, iterations int64) (*benchResult, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	t := &trial{cfg: cfg}
	if err := t.openEnv(); err != nil {
		return nil, err
	}
	defer t.closeEnv()
	n := &cfg.Algo
	r := &benchResult{Rows: cfg.Rows, Steps: n.Steps, Threads: cfg.threads(), Actor: n.Net.Actor, Critic: n.Net.Critic,
		Epochs: n.PPO.Epochs, Batches: n.PPO.Minibatches}
	bar := newBar(w, "training")
	defer bar.finish()
	trainer, err := t.newTrainer(t.env, func(it *algo.Report) error {
		if it.Iteration > benchWarm {
			r.collect, r.learn = append(r.collect, it.CollectS), append(r.learn, it.LearnS)
		}
		bar.share(float64(it.Iteration) / float64(benchWarm+iterations))
		if it.Iteration == benchWarm+iterations {
			return rollout.ErrStop
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	if err := trainer.Run(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, errors.New("bench: interrupted")
	}
	return r, nil
}
