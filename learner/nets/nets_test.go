//go:build torch

package nets

import "testing"

func TestSmoke(t *testing.T) {
	n, err := New(Config{Policy: 47, Critic: 63, Act: 12, ActorHidden: []int{128, 128}, CriticHidden: []int{128, 128}, InitStd: 0.7, MinStd: 0.1, MaxStd: 1.65, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	out := make([]float32, 256*12)
	if err := n.Forward(make([]uint16, 256*47), 256, out); err != nil {
		t.Fatal(err)
	}
	t.Log(n.Hash(), out[:3])
}
