//go:build torch

package nets

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/learner/buffer"
)

// acts are mean and estimated velocity of one observation.
func acts(t *testing.T, n *Nets, obs []float32) (mean, velocity []float32) {
	t.Helper()
	mean, velocity = make([]float32, n.config.Act), make([]float32, VelocityDim)
	h := encoded(obs)
	if err := errors.Join(n.Forward(h, 1, mean), n.Estimate(h, 1, velocity)); err != nil {
		t.Fatal(err)
	}
	return mean, velocity
}

// The kernels end with the newest frame: of eight frames by threes with a stride of two the
// oldest is read by none, and every other is.
func TestEncoderReadsTheNewestFrames(t *testing.T) {
	n := newNets(t, historyNets())
	c := &n.config
	obs := make([]float32, c.Policy)
	buffer.Decode(obs, encoded(normals(rand.New(rand.NewPCG(1, 2)), c.Policy, 1)))
	mean, velocity := acts(t, n, obs)
	for k := range c.Encoder.Frames {
		other := append([]float32(nil), obs...)
		other[k*c.frame()+4] += 1
		m, v := acts(t, n, other)
		if moved := !equal(m, mean) && !equal(v, velocity); moved != (k > 0) {
			t.Errorf("frame %d, oldest first: read %v, want %v", k, moved, k > 0)
		}
	}
}

// seen are histories whose frames all show a velocity, noisily, in one of their numbers each, and what the critic is
// shown of it.
func seen(n *Nets, samples int, seed uint64) *Batch {
	c, random := &n.config, rand.New(rand.NewPCG(seed, 3))
	policy, critic := normals(random, samples*c.Policy, 0.3), normals(random, samples*c.Critic, 1)
	for s := range samples {
		velocity := critic[s*c.Critic+c.Encoder.Velocity:][:VelocityDim]
		for k := range c.Encoder.Frames {
			for j, v := range velocity {
				policy[s*c.Policy+k*c.frame()+2*j] += v
			}
		}
	}
	b := &Batch{PolicyObs: encoded(policy), CriticObs: encoded(critic), Label: encoded(normals(random, samples*c.Act, 1))}
	for i := range samples {
		b.Index = append(b.Index, int32(i))
	}
	return b
}

// The head finds the velocity in the noise of many frames better than one frame tells it, also
// for observations that it has not seen.
func TestEncoderLearnsTheVelocity(t *testing.T) {
	n := newNets(t, historyNets())
	n.SetLearningRate(3e-3)
	b, test := seen(n, 4000, 1), seen(n, 1000, 2)
	truth := make([]float32, 1000*n.config.Critic)
	buffer.Decode(truth, test.CriticObs)
	off := func() float64 {
		estimated := make([]float32, 1000*VelocityDim)
		if err := n.Estimate(test.PolicyObs, 1000, estimated); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, v := range estimated {
			d := float64(v - truth[i/VelocityDim*n.config.Critic+n.config.Encoder.Velocity+i%VelocityDim])
			sum += d * d
		}
		return math.Sqrt(sum / float64(len(estimated)))
	}
	first := off()
	all := b.Index
	for k := range 400 {
		b.Index = all[k%8*500 : (k%8+1)*500]
		if _, err := n.Regress(b, 1); err != nil {
			t.Fatal(err)
		}
	}
	last := off()
	t.Logf("off by %.3f before, %.3f after", first, last)
	if first < 0.7 || last > 0.25 { // one frame's noise is 0.3
		t.Errorf("the estimate is off by %.3f before and %.3f after learning", first, last)
	}
}

func TestEncodersHotPathAllocatesNothing(t *testing.T) {
	n := newNets(t, historyNets())
	b, velocity := mixedBatch(t, n, 700), make([]float32, 700*VelocityDim)
	l := &Loss{Clip: 0.2, ValueWeight: 1, VelocityWeight: 1}
	for name, f := range map[string]func(){
		"Forward":   func() { _ = n.Forward(b.PolicyObs, 700, b.Mean) },
		"Estimate":  func() { _ = n.Estimate(b.PolicyObs, 700, velocity) },
		"Minibatch": func() { _, _ = n.Minibatch(b, l) },
		"Regress":   func() { _, _ = n.Regress(b, 1) },
	} {
		if count := testing.AllocsPerRun(50, f); count != 0 {
			t.Errorf("%s: %g allocations", name, count)
		}
	}
}

func TestEncoderLayers(t *testing.T) {
	n := newNets(t, historyNets())
	convs, latent, velocity := n.EncoderLayers()
	actorLayers, _ := n.Layers()
	for _, l := range []struct {
		name    string
		got     Layer
		out, in int
		param   string
	}{
		{"conv 0", convs[0], 10, 3 * 9, "encoder.0.weight"}, {"conv 1", convs[1], 6, 2 * 10, "encoder.1.weight"},
		{"latent", latent, 5, 2 * 6, "encoder.latent.weight"}, {"velocity", velocity, 3, 2 * 6, "encoder.velocity.weight"},
		{"actor", actorLayers[0], 32, 9 + 5 + 3, "actor.0.weight"},
	} {
		if l.got.Out != l.out || l.got.In != l.in || len(l.got.Bias) != l.out {
			t.Errorf("%s: %d x %d, %d biases, want %d x %d", l.name, l.got.Out, l.got.In, len(l.got.Bias), l.out, l.in)
		}
		for _, p := range n.params {
			if p.name == l.param && !equal(p.value, l.got.Weight) {
				t.Errorf("%s: not the numbers of %s", l.name, p.name)
			}
		}
	}
	if len(convs) != 2 {
		t.Errorf("%d convolutions", len(convs))
	}
	if convs, latent, _ := newNets(t, smallNets()).EncoderLayers(); convs != nil || latent.Weight != nil {
		t.Error("networks without an encoder have its layers")
	}
}

// All frames are normalised alike, by the newest one's numbers.
func TestNormaliserOfAHistory(t *testing.T) {
	n := newNets(t, historyNets())
	c := &n.config
	x := normals(rand.New(rand.NewPCG(4, 4)), 50*c.Policy, 2)
	if err := n.UpdateNormaliser(encoded(x), nil); err != nil {
		t.Fatal(err)
	}
	buffer.Decode(x, encoded(x))
	mean, std := n.NormaliserStats()
	if len(mean) != c.Policy || len(std) != c.Policy {
		t.Fatalf("%d means, %d deviations of %d numbers", len(mean), len(std), c.Policy)
	}
	for i := range mean {
		sum, squares := 0.0, 0.0
		for r := range 50 {
			v := float64(x[r*c.Policy+c.Policy-c.frame()+i%c.frame()])
			sum, squares = sum+v, squares+v*v
		}
		want := sum / 50
		if math.Abs(float64(mean[i])-want) > 1e-5 || math.Abs(float64(std[i])-math.Sqrt(squares/50-want*want)-stdFloor) > 1e-5 {
			t.Fatalf("number %d: mean %g, deviation %g", i, mean[i], std[i])
		}
	}
	if err := n.UpdateNormaliser(make([]uint16, c.Policy-c.frame()), nil); err == nil {
		t.Error("seven frames of eight were taken")
	}
}

func TestBadEncodersAreNamed(t *testing.T) {
	for want, change := range map[string]func(*Encoder){
		"Encoder.Frames is 1, want at least 2":                 func(e *Encoder) { e.Frames = 1 },
		"Encoder.Frames is 7, of which Policy (72)":            func(e *Encoder) { e.Frames = 7 },
		"Encoder.Convs is empty":                               func(e *Encoder) { e.Convs = nil },
		"Encoder.Convs[1].Channels is 0":                       func(e *Encoder) { e.Convs[1].Channels = 0 },
		"Encoder.Convs[0].Stride is 0":                         func(e *Encoder) { e.Convs[0].Stride = 0 },
		"Encoder.Convs[0].Kernel is 0, want 1..8":              func(e *Encoder) { e.Convs[0].Kernel = 0 },
		"Encoder.Convs[1].Kernel is 4, want 1..3":              func(e *Encoder) { e.Convs[1].Kernel = 4 },
		"Encoder.Latent is 0":                                  func(e *Encoder) { e.Latent = 0 },
		"Encoder.Velocity is -1, want 0..10":                   func(e *Encoder) { e.Velocity = -1 },
		"Encoder.Velocity is 11, want 0..10: 3 numbers of the": func(e *Encoder) { e.Velocity = 11 },
	} {
		config := historyNets()
		change(config.Encoder)
		n, err := New(config)
		if err == nil {
			n.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "nets: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	n := newNets(t, historyNets())
	b := seen(n, 20, 1)
	b.CriticObs = b.CriticObs[1:]
	_, err := n.Regress(b, 1)
	for want, err := range map[string]error{
		"Regress: CriticObs has 259 numbers, want 260":                       err,
		"made without an Encoder":                                            newNets(t, smallNets()).Estimate(nil, 0, nil),
		"2 rows: 144 numbers of observation and 5 of result, want 144 and 6": n.Estimate(b.PolicyObs[:144], 2, make([]float32, 5)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestVelocityThatIsNoNumberChangesNothing(t *testing.T) {
	n := newNets(t, historyNets())
	b := seen(n, 100, 1)
	b.CriticObs[7*n.config.Critic+n.config.Encoder.Velocity] = 0x7e00
	before := n.Hash()
	if _, err := n.Regress(b, 1); !errors.Is(err, ErrNonFinite) || n.Hash() != before {
		t.Errorf("error %v", err)
	}
}
