//go:build torch

package nets

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/learner/buffer"
)

// saved is n's state.
func saved(t testing.TB, n *Nets) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := n.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLoadedStateTrainsOnWithTheSameBits(t *testing.T) {
	for name, config := range map[string]Config{"small": smallNets(), "history": historyNets()} {
		t.Run(name, func(t *testing.T) { trainsOn(t, config) })
	}
}

func trainsOn(t *testing.T, config Config) {
	n := newNets(t, config)
	b := mixedBatch(t, n, 1000)
	l := &Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.1, VelocityWeight: 1, MaxGradNorm: 1}
	if _, err := n.Regress(b, 0); err != nil { // the groups' step counts differ from now on
		t.Fatal(err)
	}
	train(t, n, b, l, 250, 10)
	if err := n.UpdateNormaliser(b.PolicyObs, b.CriticObs); err != nil {
		t.Fatal(err)
	}
	n.SetLearningRate(3.3e-4)
	state := saved(t, n)

	other := config
	other.Seed = 99
	resumed := newNets(t, other)
	if err := resumed.Load(bytes.NewReader(state)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(saved(t, resumed), state) {
		t.Error("the loaded state saves to other bytes")
	}
	for _, n := range []*Nets{n, resumed} {
		train(t, n, b, l, 250, 20)
		if err := n.UpdateNormaliser(b.PolicyObs[:10*config.Policy], nil); err != nil {
			t.Fatal(err)
		}
		train(t, n, b, l, 250, 20)
	}
	if n.Hash() != resumed.Hash() || !bytes.Equal(saved(t, n), saved(t, resumed)) {
		t.Error("after 20 and 20 more minibatches the two differ")
	}
}

func TestDamagedStatesAreRefused(t *testing.T) {
	n := newNets(t, smallNets())
	b := randomBatch(t, n, 200, 1)
	train(t, n, b, ppo(), 200, 2)
	state := saved(t, n)
	train(t, n, b, ppo(), 200, 2)
	before := saved(t, n)
	for length := 0; length < len(state); length += 1 + length/20 {
		if err := n.Load(bytes.NewReader(state[:length])); err == nil || !strings.HasPrefix(err.Error(), "nets: Load: ") {
			t.Errorf("%d of %d bytes: error %v", length, len(state), err)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		bad := bytes.Clone(state)
		bad[random.IntN(len(bad))] ^= 1 << random.IntN(8)
		if err := n.Load(bytes.NewReader(bad)); err == nil {
			t.Error("a state with one bit flipped was loaded")
		}
	}
	if !bytes.Equal(saved(t, n), before) {
		t.Error("refused states left something behind")
	}
}

func TestStatesOfOtherShapesAreRefused(t *testing.T) {
	n := newNets(t, smallNets())
	for want, change := range map[string]func(*Config){
		"Policy of the state is 8, of these networks 9":               func(c *Config) { c.Policy, c.MirrorPolicy = 8, rotation(8) },
		"Critic of the state is 12":                                   func(c *Config) { c.Critic, c.MirrorCritic = 12, rotation(12) },
		"Act of the state is 3":                                       func(c *Config) { c.Act, c.MirrorAction = 3, rotation(3) },
		"ActorHidden of the state is [32], of these networks [32 24]": func(c *Config) { c.ActorHidden = []int{32} },
		"CriticHidden of the state is [40 17]":                        func(c *Config) { c.CriticHidden = []int{40, 17} },
		"Normaliser of the state is false":                            func(c *Config) { c.Normaliser = false },
	} {
		config := smallNets()
		change(&config)
		err := n.Load(bytes.NewReader(saved(t, newNets(t, config))))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	history := newNets(t, historyNets())
	for want, change := range map[string]func(*Config){
		"Encoder of the state is none, of these networks {Frames:8 ": func(c *Config) { c.Encoder = nil },
		"Encoder of the state is {Frames:6 ":                         func(c *Config) { c.Encoder.Frames = 6 },
		"Stride:2}] Latent:5 Velocity:7}, of these":                  func(c *Config) { c.Encoder.Convs[1].Stride = 2 },
		"Latent:6 Velocity:7}, of these":                             func(c *Config) { c.Encoder.Latent = 6 },
		"Velocity:8}, of these":                                      func(c *Config) { c.Encoder.Velocity = 8 },
	} {
		config := historyNets()
		change(&config)
		err := history.Load(bytes.NewReader(saved(t, newNets(t, config))))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// brokenWriter fails after some bytes.
type brokenWriter struct{ left int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestSaveTellsOfAFullDisk(t *testing.T) {
	n := newNets(t, smallNets())
	for left := range len(saved(t, n)) / 100 {
		if err := n.Save(&brokenWriter{left * 100}); !errors.Is(err, io.ErrShortWrite) {
			t.Fatalf("%d bytes fit: error %v", left*100, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	n := newNets(f, Config{Policy: 2, Critic: 1, Act: 1, ActorHidden: []int{2}, CriticHidden: []int{1}, InitStd: 1, MinStd: 1, MaxStd: 1, Workers: 1})
	state := saved(f, n)
	f.Add(state)
	f.Add(state[:len(state)-1])
	f.Add([]byte(stateMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := n.Load(bytes.NewReader(data)); err == nil && !bytes.HasPrefix(data, saved(t, n)) {
			t.Error("a loaded state saves to other bytes")
		}
	})
}

func TestNormaliser(t *testing.T) {
	for _, on := range []bool{true, false} {
		config := smallNets()
		config.Normaliser = on
		n := newNets(t, config)
		if mean, std := n.NormaliserStats(); mean[0] != 0 || std[0] != 1 {
			t.Errorf("before the first row: mean %g, std %g", mean[0], std[0])
		}
		random := rand.New(rand.NewPCG(2, 2))
		const rows = 400
		x := normals(random, rows*config.Policy, 3)
		for i := range x {
			x[i] += float32(i % config.Policy)
		}
		h := encoded(x)
		for from := 0; from < rows; from += 100 {
			if err := n.UpdateNormaliser(h[from*config.Policy:(from+100)*config.Policy], nil); err != nil {
				t.Fatal(err)
			}
		}
		mean, std := n.NormaliserStats()
		for j := range config.Policy {
			sum, squares := 0.0, 0.0
			for r := range rows {
				v := float64(x[r*config.Policy+j])
				sum, squares = sum+v, squares+v*v
			}
			wantMean := sum / rows
			wantStd := math.Sqrt(squares/rows-wantMean*wantMean) + stdFloor
			if math.Abs(float64(mean[j])-wantMean) > 1e-5 || math.Abs(float64(std[j])-wantStd) > 1e-5 {
				t.Errorf("number %d: mean %g, std %g, want %g, %g", j, mean[j], std[j], wantMean, wantStd)
			}
		}
		// What a network without a normaliser makes of the normalised row.
		config.Normaliser = false
		plain := newNets(t, config)
		row := make([]float32, config.Policy)
		buffer.Decode(row, h[:config.Policy])
		if on {
			for j := range row {
				row[j] = (row[j] - mean[j]) / std[j]
			}
		}
		got, want := make([]float32, config.Act), make([]float32, config.Act)
		if err := errors.Join(n.Forward(h, 1, got), plain.Forward(encoded(row), 1, want)); err != nil {
			t.Fatal(err)
		}
		for j := range got {
			if math.Abs(float64(got[j]-want[j])) > 1e-4 { // encoded rounds the normalised row
				t.Errorf("normaliser %v: action %d is %g, want %g", on, j, got[j], want[j])
			}
		}
		state := saved(t, n)
		if err := n.UpdateNormaliser(h[:config.Policy+1], nil); err == nil {
			t.Error("a row and a number were taken")
		}
		h[3] = 0xfc00
		if err := n.UpdateNormaliser(h, nil); !errors.Is(err, ErrNonFinite) || !strings.Contains(err.Error(), "number 3 of row 0") {
			t.Errorf("an infinite number: error %v", err)
		}
		if !bytes.Equal(saved(t, n), state) {
			t.Error("refused observations left something behind")
		}
	}
}
