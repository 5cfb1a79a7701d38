//go:build torch

package nets

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is written to the parameters is what the networks compute with.
func TestParameters(t *testing.T) {
	n := newNets(t, Config{Policy: 3, Critic: 2, Act: 2, ActorHidden: []int{4}, CriticHidden: []int{5}, InitStd: 0.5, MinStd: 0.1, MaxStd: 1, Workers: 1})
	all := n.Parameters()
	sizes := map[string]int{"actor.0.weight": 12, "actor.0.bias": 4, "actor.1.weight": 8, "actor.1.bias": 2, "log_std": 2,
		"critic.0.weight": 10, "critic.0.bias": 5, "critic.1.weight": 5, "critic.1.bias": 1}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(sizes)), slices.Sorted(maps.Keys(all))); diff != "" {
		t.Fatal(diff)
	}
	for name, p := range all {
		if len(p) != sizes[name] {
			t.Errorf("%s has %d numbers, want %d", name, len(p), sizes[name])
		}
		clear(p)
	}
	all["actor.0.weight"][2] = 2 // the first of 4 outputs by the last of 3 inputs
	all["actor.1.weight"][4] = 3 // the second of 2 outputs by the first of 4 inputs
	all["actor.1.bias"][0] = -1
	all["log_std"][1] = float32(math.Log(0.25))
	var mean, std [2]float32
	if err := n.Forward(encoded([]float32{7, 7, 0.5}), 1, mean[:]); err != nil {
		t.Fatal(err)
	}
	n.Std(std[:])
	if mean != [2]float32{-1, 3} || std[0] != 1 || math.Abs(float64(std[1])-0.25) > 1e-6 {
		t.Errorf("mean %v, std %v, want -1 3 and 1 0.25", mean, std)
	}
}
