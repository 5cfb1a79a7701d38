//go:build torch

package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/onnx/contract"
)

// A student of a history is trained, written as a file whose contract says what it reads, and
// evaluated from that file alone.
func TestStudentOfAHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	got := trained(t, tiny(dir, "--deterministic", "--iterations", "8", "--set", "algo.net.encoder=conv", "--set", "algo.net.frames=12",
		"--set", "algo.net.channels=[8,8]", "--set", "algo.net.latent=4")...)
	file, err := contract.Load(got.Policy)
	if err != nil {
		t.Fatal(err)
	}
	if err := go1.Fit(&file.Contract.Spec, go1.Sensing{}); err != nil {
		t.Error(err)
	}
	if g := file.Contract.Group("policy"); g.Size() != 12*47 || g.Terms[0].History != 12 {
		t.Errorf("it reads %+v", g)
	}
	lines := logged(t, dir)
	if len(lines) != 8 {
		t.Fatalf("%d iterations", len(lines))
	}
	for i, m := range lines {
		if v, ok := m["Loss/velocity_rmse"].(float64); !ok || v <= 0 {
			t.Errorf("iteration %d: velocity is off by %v", i+1, m["Loss/velocity_rmse"])
		}
	}
	code, out, errs := clawlearn("eval", "--policy", got.Policy, "--rows", "6", "--seconds", "1.2", "--json")
	var score map[string]any
	if code != 0 || json.Unmarshal([]byte(out), &score) != nil || score["fall_rate"] == nil {
		t.Errorf("eval: exit %d, %q, %s", code, out, errs)
	}
}

func TestEncoderKeysAreRefused(t *testing.T) {
	refused(t, `algo.net.encoder is "gru", want none or conv`, "train", "--out", "x", "--set", "algo.net.encoder=gru")
	refused(t, "algo.net.frames is 9, want 10..25", "train", "--out", "x", "--set", "algo.net.encoder=conv", "--set", "algo.net.frames=9")
}
