//go:build torch

package algo

import (
	"context"
	"math"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
)

// chain is an Env of two states that follow each other whatever is done: A gives 1, B nothing.
// An episode goes A, B, A, and there its time is over.
type chain struct {
	spec rollout.Spec
	at   int // steps of the episode, of all rows
}

func (c *chain) Spec() rollout.Spec { return c.spec }
func (c *chain) Close() error       { return nil }

func (c *chain) Reset(_ context.Context, _ []int, out *rollout.Step) error {
	c.at = 0
	c.show(out.Obs)
	return nil
}

// show shows 1 in the place of the state.
func (c *chain) show(obs [][]float32) {
	for g := range obs {
		n := c.spec.Groups[g].Size()
		clear(obs[g])
		for row := range c.spec.Rows {
			obs[g][row*n+c.at%2] = 1
		}
	}
}

func (c *chain) Step(_ context.Context, action []float32, out *rollout.Step) error {
	copy(out.Executed, action)
	reward := float32(1 - c.at%2)
	c.at++
	over := c.at == 3
	for row := range c.spec.Rows {
		out.Reward[row], out.Terminated[row], out.TimedOut[row] = reward, false, over
	}
	if over {
		c.show(out.Final) // B
		c.at = 0
	}
	c.show(out.Obs)
	return nil
}

// Row 33 of the cases, learnt from beginning to end: V(A) = 1 / (1 - 0.81) = 5.263 and V(B) = 4.737,
// with an episode that ends by the clock in every second A. Who bootstraps there from the observation
// that was acted on, or from the next episode's, comes to V(A) = 6.90, and who takes the
// time-out for an end to 1.68 (lambda 0).
func TestChainIsWorthWhatItIs(t *testing.T) {
	for _, lambda := range []float64{0, 0.95} {
		cfg := cartConfig()
		cfg.PPO.Gamma, cfg.PPO.Lambda, cfg.PPO.KLTarget, cfg.PPO.KLEnd = 0.9, lambda, 0, 0
		cfg.PPO.Rate, cfg.PPO.MaxRate, cfg.PPO.MaxGradNorm = 5e-3, 5e-3, 0
		env := &chain{spec: cartsSpec()}
		env.spec.Rows = 4
		tr := newTrainer(t, cfg, env, Options{})
		train(t, tr, 400, nil)
		seen, obs, value := make([]float32, 10), make([]uint16, 10), make([]float32, 2)
		seen[0], seen[5+1] = 1, 1
		buffer.Encode(obs, seen)
		if err := tr.nets.Values(obs, 2, value); err != nil {
			t.Fatal(err)
		}
		t.Logf("lambda %v: V(A) = %.3f, V(B) = %.3f", lambda, value[0], value[1])
		if math.Abs(float64(value[0])-5.263) > 0.03 || math.Abs(float64(value[1])-4.737) > 0.03 {
			t.Errorf("lambda %v: V(A) = %.3f, V(B) = %.3f; want 5.263 and 4.737", lambda, value[0], value[1])
		}
	}
}
