//go:build torch

package nets

import (
	"math"
	"strings"
	"testing"
)

func TestFirstWeightsAreOrthogonal(t *testing.T) {
	n := newNets(t, recipeNets())
	actorLayers, criticLayers := n.Layers()
	for name, layers := range map[string][]Layer{"actor": actorLayers, "critic": criticLayers} {
		for k, l := range layers {
			gain := math.Sqrt2
			if k == len(layers)-1 {
				gain = map[string]float64{"actor": 0.01, "critic": 1}[name]
			}
			// The shorter side's vectors: rows, or columns where there are more rows.
			count, length, at := l.Out, l.In, func(i, k int) float64 { return float64(l.Weight[i*l.In+k]) }
			if l.Out > l.In {
				count, length, at = l.In, l.Out, func(i, k int) float64 { return float64(l.Weight[k*l.In+i]) }
			}
			for i := range count {
				for j := range count {
					product, want := 0.0, 0.0
					for k := range length {
						product += at(i, k) * at(j, k)
					}
					if i == j {
						want = gain * gain
					}
					if math.Abs(product-want) > 1e-5 {
						t.Fatalf("%s's layer %d: vectors %d and %d have product %g, want %g", name, k, i, j, product, want)
					}
				}
			}
			for _, b := range l.Bias {
				if b != 0 {
					t.Errorf("%s's layer %d has a bias of %g", name, k, b)
				}
			}
		}
	}
	std := make([]float32, n.config.Act)
	n.Std(std)
	for _, s := range std {
		if math.Abs(float64(s)-0.7) > 1e-6 {
			t.Errorf("std %g, want 0.7", s)
		}
	}
	other := recipeNets()
	other.Seed = 2
	if newNets(t, other).Hash() == n.Hash() || newNets(t, recipeNets()).Hash() != n.Hash() {
		t.Error("weights do not go by the seed")
	}
}

func TestBadConfigsAreNamed(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"Policy is 0":                             func(c *Config) { c.Policy = 0 },
		"Critic is -1":                            func(c *Config) { c.Critic = -1 },
		"Act is 0":                                func(c *Config) { c.Act = 0 },
		"Workers is 0":                            func(c *Config) { c.Workers = 0 },
		"Workers is 1000, want 256":               func(c *Config) { c.Workers = 1000 },
		"ActorHidden is empty":                    func(c *Config) { c.ActorHidden = nil },
		"CriticHidden has a layer of 0":           func(c *Config) { c.CriticHidden = []int{4, 0} },
		"InitStd 0.05 outside MinStd 0.1":         func(c *Config) { c.InitStd = 0.05 },
		"MinStd 0 ":                               func(c *Config) { c.MinStd = 0 },
		"InitStd NaN":                             func(c *Config) { c.InitStd = float32(math.NaN()) },
		"MaxStd +Inf":                             func(c *Config) { c.MaxStd = float32(math.Inf(1)) },
		"MirrorPolicy: 8 indices and 8 signs":     func(c *Config) { c.MirrorPolicy = rotation(8) },
		"MirrorCritic: 0 indices":                 func(c *Config) { c.MirrorCritic = Mirror{} },
		"MirrorAction: index 1 is 4":              func(c *Config) { c.MirrorAction.Index[1] = 4 },
		"MirrorAction: applied twice it does not": func(c *Config) { c.MirrorAction.Sign[0] = -c.MirrorAction.Sign[0] },
	} {
		config := smallNets()
		change(&config)
		n, err := New(config)
		if err == nil {
			n.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "nets: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
