//go:build torch

package nets

import (
	"math"
	"strings"
	"testing"
)

func TestBlend(t *testing.T) {
	for name, config := range map[string]Config{"small": smallNets(), "history": historyNets()} {
		t.Run(name, func(t *testing.T) { blends(t, config) })
	}
}

func blends(t *testing.T, config Config) {
	other := newNets(t, config)
	b := randomBatch(t, other, 300, 1)
	train(t, other, b, ppo(), 300, 5)
	if err := other.UpdateNormaliser(b.PolicyObs, b.CriticObs); err != nil {
		t.Fatal(err)
	}
	want := make([]float32, len(b.Mean))
	if err := other.Forward(b.PolicyObs, 300, want); err != nil {
		t.Fatal(err)
	}
	for _, keep := range []float32{0, 0.75, 1} {
		n := newNets(t, config)
		before := append([]float32(nil), n.params[0].value...)
		if err := n.Blend(other, keep); err != nil {
			t.Fatal(err)
		}
		for i, x := range n.params[0].value {
			blended := keep*before[i] + (1-keep)*other.params[0].value[i]
			if math.Abs(float64(x-blended)) > 1e-7 {
				t.Fatalf("keep %g: weight %d is %g, want %g", keep, i, x, blended)
			}
		}
		if keep == 0 {
			if err := n.Forward(b.PolicyObs, 300, b.Mean); err != nil {
				t.Fatal(err)
			}
			if !equal(b.Mean, want) || n.Hash() != other.Hash() {
				t.Error("keep 0: the copy's outputs are not the other's")
			}
		}
		// The normaliser is a copy too.
		mean, _ := n.NormaliserStats()
		if err := other.UpdateNormaliser(b.PolicyObs[:config.Policy], nil); err != nil {
			t.Fatal(err)
		}
		if after, _ := n.NormaliserStats(); !equal(mean, after) {
			t.Error("the other's normaliser moves the copy's")
		}
	}
	bigger := config
	bigger.ActorHidden = []int{32}
	n := newNets(t, config)
	for want, err := range map[string]error{
		"different shapes: ActorHidden is [32 24] and [32]": n.Blend(newNets(t, bigger), 0),
		"keep is -0.1": n.Blend(other, -0.1),
		"keep is NaN":  n.Blend(other, float32(math.NaN())),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
