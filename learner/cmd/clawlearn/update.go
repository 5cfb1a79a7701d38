//go:build torch

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/learner/nets"
	"github.com/openclaw-rl/openclaw/learner/safetensors"
)

// samples are what an update is given: updateHelp says how.
type samples struct {
	file   string
	arrays map[string]safetensors.Tensor

	batch nets.Batch
	order []int32
	count int
	act   int
	see   [2]int // numbers that actor and critic see
}

// readSamples reads --data, all but the networks' parameters.
func readSamples(file string) (*samples, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	s := &samples{file: file}
	if s.arrays, err = safetensors.Decode(text); err != nil {
		return nil, fmt.Errorf("--data %s: %w", file, err)
	}
	// The first arrays say how many samples there are and how many numbers each has.
	for i, name := range []string{"policy_obs", "critic_obs", "action"} {
		shape := s.arrays[name].Shape
		if len(shape) != 2 || min(shape[0], shape[1]) < 1 || i > 0 && shape[0] != s.count {
			return nil, fmt.Errorf("--data %s: %s has shape %v, want samples x numbers of F16, for as many samples as the others", file, name, shape)
		}
		s.count = shape[0]
	}
	s.see, s.act = [2]int{s.arrays["policy_obs"].Shape[1], s.arrays["critic_obs"].Shape[1]}, s.arrays["action"].Shape[1]
	b := &s.batch
	for _, a := range []struct {
		name  string
		half  *[]uint16
		whole *[]float32
		shape []int
	}{
		{"policy_obs", &b.PolicyObs, nil, []int{s.count, s.see[0]}}, {"critic_obs", &b.CriticObs, nil, []int{s.count, s.see[1]}},
		{"action", &b.Action, nil, []int{s.count, s.act}}, {"mean", nil, &b.Mean, []int{s.count, s.act}}, {"std", nil, &b.OldStd, []int{s.act}},
		{"log_prob", nil, &b.OldLogProb, []int{s.count}}, {"advantage", nil, &b.Advantage, []int{s.count}},
		{"target", nil, &b.Target, []int{s.count}}, {"value", nil, &b.OldValue, []int{s.count}},
	} {
		t := s.arrays[a.name]
		if a.half != nil {
			*a.half = t.F16
		} else {
			*a.whole = t.F32
		}
		if !slices.Equal(t.Shape, a.shape) || a.half != nil && t.F16 == nil || a.whole != nil && t.F32 == nil {
			return nil, fmt.Errorf("--data %s: %s has shape %v, want %v of %s", file, a.name, t.Shape, a.shape, map[bool]string{true: "F16", false: "F32"}[a.half != nil])
		}
	}
	s.order = s.arrays["order"].I32
	seen := make([]bool, s.count)
	for _, i := range s.order {
		if i < 0 || int(i) >= s.count || seen[i] {
			return nil, fmt.Errorf("--data %s: order has %d, which is no sample or twice there", file, i)
		}
		seen[i] = true
	}
	if len(s.order) != s.count {
		return nil, fmt.Errorf("--data %s: order has %d of %d samples", file, len(s.order), s.count)
	}
	return s, nil
}

// give writes the parameters of --data into the networks and has their optimiser begin anew.
func (s *samples) give(n *nets.Nets, rate float64) error {
	for name, p := range n.Parameters() {
		t := s.arrays[name]
		if len(t.F32) != len(p) {
			return fmt.Errorf("--data %s: %s has shape %v of F32, want %d numbers: do algo.net.actor and algo.net.critic say what it holds?",
				s.file, name, t.Shape, len(p))
		}
		copy(p, t.F32)
	}
	n.ResetAdam()
	n.SetLearningRate(rate)
	return nil
}

// result writes the networks' parameters to a file as --data has them.
func (s *samples) result(n *nets.Nets, file string) error {
	out := map[string]safetensors.Tensor{}
	for name, p := range n.Parameters() {
		out[name] = safetensors.Tensor{Shape: s.arrays[name].Shape, F32: p}
	}
	text, err := safetensors.Encode(out)
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("--result: %w", err)
	}
	return nil
}

// measureUpdate times learning from the samples of the file data, each iteration from the parameters there, and writes to the file
// result what they become.
func measureUpdate(ctx context.Context, w io.Writer, cfg Config, iterations int64, data, result string) (*benchResult, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if cfg.Algo.Net.Normaliser {
		return nil, cli.Usagef("--data: algo.net.normaliser is on, and the file holds none")
	}
	if err := cli.NotAvailable(nets.Available(cfg.Device)); err != nil {
		return nil, err
	}
	s, err := readSamples(data)
	if err != nil {
		return nil, err
	}
	net, ppo := &cfg.Algo.Net, &cfg.Algo.PPO
	if s.count < ppo.Minibatches {
		return nil, fmt.Errorf("--data %s: %d samples for %d minibatches", data, s.count, ppo.Minibatches)
	}
	n, err := nets.New(nets.Config{Policy: s.see[0], Critic: s.see[1], Act: s.act, ActorHidden: net.Actor, CriticHidden: net.Critic,
		InitStd: net.InitStd, MinStd: net.MinStd, MaxStd: net.MaxStd, Workers: cfg.threads(), Device: cfg.Device})
	if err != nil {
		return nil, err
	}
	defer n.Close()
	r := newBenchResult(&cfg)
	r.Rows, r.Steps, r.Observed, r.Actions = s.count, 1, s.see, s.act
	r.Settings.ClipApart, r.Settings.Mirror = true, false
	loss := nets.Loss{Clip: ppo.Clip, ValueClip: ppo.ValueClip, ValueWeight: ppo.ValueWeight, EntropyWeight: ppo.EntropyWeight,
		MaxGradNorm: ppo.MaxGradNorm, ClipApart: true}
	bar := newBar(w, "update")
	defer bar.finish()
	step := func(index []int32) error {
		s.batch.Index = index
		stats, err := n.Gradient(&s.batch, &loss)
		if err != nil {
			return err
		}
		n.SetLearningRate(ppo.Steer(n.LearningRate(), stats.KL, ppo.KLTarget))
		r.Rates = append(r.Rates, n.LearningRate())
		return n.Apply(&loss)
	}
	for i := range iterations {
		if err := s.give(n, ppo.Rate); err != nil {
			return nil, err
		}
		if i == 0 { // touch all memory once
			if err := n.Update(&s.batch, func() error { return step(s.order[:s.count/ppo.Minibatches]) }); err != nil {
				return nil, err
			}
			if err := s.give(n, ppo.Rate); err != nil {
				return nil, err
			}
		}
		r.Rates = r.Rates[:0]
		cpu, _ := used()
		begin := time.Now()
		if err := n.Update(&s.batch, func() error {
			for k := range ppo.Epochs * ppo.Minibatches {
				k %= ppo.Minibatches
				if err := step(s.order[k*s.count/ppo.Minibatches : (k+1)*s.count/ppo.Minibatches]); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return errInterrupted
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
		r.collect, r.learn = append(r.collect, 0), append(r.learn, time.Since(begin).Seconds())
		after, _ := used()
		r.CPUS += after - cpu
		bar.share(float64(i+1) / float64(iterations))
	}
	_, r.RSSMB = used()
	if result != "" {
		return r, s.result(n, result)
	}
	return r, nil
}
