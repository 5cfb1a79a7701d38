//go:build torch

package nets

import (
	"math/rand/v2"
	"testing"

	"github.com/openclaw-rl/openclaw/learner/buffer"
)

// newNets are networks that the test's end closes.
func newNets(t testing.TB, config Config) *Nets {
	t.Helper()
	n, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// normals are random numbers with this spread.
func normals(random *rand.Rand, n int, std float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(std * random.NormFloat64())
	}
	return x
}

// encoded rounds x to fp16, in place too.
func encoded(x []float32) []uint16 {
	h := make([]uint16, len(x))
	buffer.Round(x)
	buffer.Encode(h, x)
	return h
}

// randomBatch is a rollout by n itself on random observations, in random
// order.
func randomBatch(t testing.TB, n *Nets, samples int, seed uint64) *Batch {
	t.Helper()
	c, random := &n.config, rand.New(rand.NewPCG(seed, 1))
	b := &Batch{PolicyObs: encoded(normals(random, samples*c.Policy, 1)), CriticObs: encoded(normals(random, samples*c.Critic, 1)),
		Mean: make([]float32, samples*c.Act), OldStd: make([]float32, c.Act), OldLogProb: make([]float32, samples),
		Advantage: normals(random, samples, 1), Target: normals(random, samples, 1), OldValue: make([]float32, samples)}
	n.Std(b.OldStd)
	if err := n.Forward(b.PolicyObs, samples, b.Mean); err != nil {
		t.Fatal(err)
	}
	if err := n.Values(b.CriticObs, samples, b.OldValue); err != nil {
		t.Fatal(err)
	}
	action := make([]float32, samples*c.Act)
	for i := range action {
		action[i] = b.Mean[i] + b.OldStd[i%c.Act]*float32(random.NormFloat64())
	}
	b.Action = encoded(action)
	for i := range samples {
		row := i * c.Act
		b.OldLogProb[i] = LogProb(action[row:row+c.Act], b.Mean[row:row+c.Act], b.OldStd)
	}
	for _, i := range random.Perm(samples) {
		b.Index = append(b.Index, int32(i))
	}
	return b
}
