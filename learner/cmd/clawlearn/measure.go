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

// errInterrupted is what a measurement that a person ended says.
var errInterrupted = errors.New("bench: interrupted")

// measure times iterations of training.
func measure(ctx context.Context, w io.Writer, cfg Config, iterations int64) (*benchResult, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	t := &trial{cfg: cfg}
	if err := t.openEnv(); err != nil {
		return nil, err
	}
	defer t.closeEnv()
	r := newBenchResult(&cfg)
	r.Rows, r.Steps = cfg.Rows, cfg.Algo.Steps
	r.Settings.World, r.Settings.Physics = cfg.World, cfg.Physics
	spec := t.env.Spec()
	r.Actions = spec.ActDim()
	for i, group := range []string{cfg.Algo.Net.Group, "critic"} {
		if g := spec.GroupIndex(group); g >= 0 { // algo.New refuses one that is not there
			r.Observed[i] = spec.Groups[g].Size()
		}
	}
	bar := newBar(w, "training")
	defer bar.finish()
	begun := 0.0
	trainer, err := t.newTrainer(t.env, func(it *algo.Report) error {
		if it.Iteration == benchWarm {
			begun, _ = used()
		}
		if it.Iteration > benchWarm {
			r.collect, r.learn, r.wall = append(r.collect, it.CollectS), append(r.learn, it.LearnS), append(r.wall, it.WallS)
		}
		bar.share(float64(it.Iteration) / float64(benchWarm+iterations))
		if it.Iteration == benchWarm+iterations {
			r.CPUS, r.RSSMB = used()
			r.CPUS -= begun
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
		return nil, errInterrupted
	}
	return r, nil
}

// newBenchResult is what cfg says of the measurement to come.
func newBenchResult(cfg *Config) *benchResult {
	n, p := &cfg.Algo, &cfg.Algo.PPO
	return &benchResult{Library: "libtorch " + libtorchVersion, Threads: cfg.threads(), Device: cfg.Device, Actor: n.Net.Actor, Critic: n.Net.Critic,
		Epochs: p.Epochs, Batches: p.Minibatches,
		Settings: benchSettings{Clip: p.Clip, ValueClip: p.ValueClip, ValueWeight: p.ValueWeight, EntropyWeight: p.EntropyWeight,
			MaxGradNorm: p.MaxGradNorm, Rate: p.Rate, MinRate: p.MinRate, MaxRate: p.MaxRate, KLTarget: p.KLTarget, Mirror: p.Mirror}}
}

// used is the time that all threads of this process have had of the processors, s, and the most memory that it held, MiB; 0 where the
// system does not say.
func used() (cpuS, rssMB float64) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, float64(u.Maxrss) / 1024
}
