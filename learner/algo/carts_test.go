//go:build torch

package algo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// carts is a tiny Env that trains in milliseconds: each row is a cart on a line that two
// actions push, the second weakly, and that falls beyond -1..1. The group "critic" also shows
// how strong a push is, the group "late" the same as "policy" under another name.
type carts struct {
	spec    rollout.Spec
	episode int32 // steps until a row times out
	rows    []cart
	steps   int
	// spoil changes what a Step shows; nil: nothing.
	spoil func(step int, out *rollout.Step)
	// broken is what Step fails with; nil: it works.
	broken error
	seen   func(action []float32)
}

type cart struct {
	X, V, Push float32
	Last       [2]float32
	Steps      int32
	random     rand.PCG
}

func newCarts(rows int, episode int32, seed uint64) *carts {
	c := &carts{spec: cartsSpec(), episode: episode, rows: make([]cart, rows)}
	c.spec.Rows = rows
	for i := range c.rows {
		c.rows[i].random.Seed(seed, uint64(i))
	}
	return c
}

func (c *carts) Spec() rollout.Spec { return c.spec }
func (c *carts) Close() error       { return nil }

func (c *carts) Reset(_ context.Context, _ []int, out *rollout.Step) error {
	for i := range c.rows {
		c.rows[i].begin()
		c.show(i, out.Obs)
	}
	return nil
}

func (r *cart) begin() {
	random := rand.New(&r.random)
	r.X, r.V, r.Last, r.Steps = 0.4*random.Float32()-0.2, 0, [2]float32{}, 0
	r.Push = 0.5 + random.Float32()
}

func (c *carts) show(i int, obs [][]float32) {
	r := &c.rows[i]
	own := [4]float32{r.X, r.V, r.Last[0], r.Last[1]}
	copy(obs[0][4*i:], own[:])
	copy(obs[1][5*i:], own[:])
	obs[1][5*i+4] = r.Push
	copy(obs[2][4*i:], own[:])
}

func (c *carts) Step(ctx context.Context, action []float32, out *rollout.Step) error {
	if err := errors.Join(ctx.Err(), c.broken); err != nil {
		return err
	}
	if err := rollout.CheckAction(action, len(c.rows), c.spec.Joints); err != nil {
		return err
	}
	if c.seen != nil {
		c.seen(action)
	}
	copy(out.Executed, action)
	for i := range c.rows {
		r := &c.rows[i]
		r.Last = [2]float32{action[2*i], action[2*i+1]}
		r.V += 0.1 * r.Push * (r.Last[0] + 0.1*r.Last[1])
		r.X += 0.1 * r.V
		r.Steps++
		out.Terminated[i] = r.X < -1 || r.X > 1
		out.TimedOut[i] = !out.Terminated[i] && r.Steps == c.episode
		out.Reward[i] = 1 - r.X*r.X
		out.Metrics[2*i], out.Metrics[2*i+1] = r.X, 0
		if out.Ended(i) {
			c.show(i, out.Final)
			r.begin()
		}
		c.show(i, out.Obs)
	}
	c.steps++
	if c.spoil != nil {
		c.spoil(c.steps, out)
	}
	return nil
}

// AppendState and RestoreState are what a learner asks of an Env that can be saved.
func (c *carts) AppendState(b []byte) ([]byte, error) {
	var err error
	for i := range c.rows {
		r := &c.rows[i]
		if b, err = r.random.AppendBinary(b); err != nil {
			return nil, err
		}
		for _, part := range []any{r.X, r.V, r.Push, r.Last, r.Steps} {
			if b, err = binary.Append(b, binary.LittleEndian, part); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

func (c *carts) RestoreState(b []byte, out *rollout.Step) error {
	in := bytes.NewReader(b)
	for i := range c.rows {
		r := &c.rows[i]
		var random [generatorBytes]byte
		for _, part := range []any{&random, &r.X, &r.V, &r.Push, &r.Last, &r.Steps} {
			if err := binary.Read(in, binary.LittleEndian, part); err != nil {
				return err
			}
		}
		if err := r.random.UnmarshalBinary(random[:]); err != nil {
			return err
		}
		c.show(i, out.Obs)
	}
	return nil
}

const generatorBytes = 20
