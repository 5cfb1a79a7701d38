//go:build torch

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/onnx/contract"
)

// A run whose update is a GPU's, done by the CPU, clones, learns from a teacher too, writes a policy, and is repeated bit for bit when it
// is stopped and resumed. It is not the CPU's own update: rounding tells the two apart.
func TestTrainsOnADevice(t *testing.T) {
	dir := t.TempDir()
	args := func(name, device, iterations string) []string {
		return tiny(filepath.Join(dir, name), "--deterministic", "--device", device, "--iterations", iterations, "--set", "algo.net.encoder=conv",
			"--set", "algo.net.normaliser=true", "--set", "algo.opd.teacher=gait", "--set", "algo.opd.mix.start=0.2", "--set", "algo.opd.weight.start=0.1",
			"--set", "algo.ppo.calm=1", "--set", "algo.ppo.calm_end=1")
	}
	whole, core := trained(t, args("whole", "cpu:aten", "10")...), trained(t, args("core", "cpu", "10")...)
	trained(t, args("half", "cpu:aten", "6")...)
	half := trained(t, "train", "--out", filepath.Join(dir, "half"), "--resume", "--json", "--iterations", "10")
	if half.Parameters != whole.Parameters || whole.Skipped != 0 || recorded(t, filepath.Join(dir, "whole")) != whole.Parameters {
		t.Errorf("resumed: %+v\nwhole: %+v", half, whole)
	}
	if core.Parameters == whole.Parameters {
		t.Error("the CPU's own update was done, not the device's")
	}
	if _, err := contract.Load(whole.Policy); err != nil {
		t.Error(err)
	}
	code, _, errs := clawlearn("train", "--out", filepath.Join(dir, "half"), "--resume", "--iterations", "12", "--device", "cpu")
	if want := `device cpu: the run in`; code != cli.ExitUsage || !strings.Contains(errs, want) {
		t.Errorf("exit %d, %s, want 2 and %q", code, errs, want)
	}
}

// A GPU that is not there is refused by what is missing, before a folder is made.
func TestDeviceThatIsNotHere(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	for _, args := range [][]string{tiny(out, "--device", "cuda:127", "--iterations", "1"), {"bench", "train", "--device", "cuda:127"},
		{"bench", "update", "--device", "cuda:127", "--data", written(t, given())}} {
		code, _, errs := clawlearn(args...)
		if code != cli.ExitNotAvailable || !strings.Contains(errs, "device cuda:127: no ") && !strings.Contains(errs, "device cuda:127: GPUs here: ") {
			t.Errorf("%q: exit %d, %s, want 3 and what is missing", args, code, errs)
		}
	}
	if exists(out) {
		t.Error("a folder was made")
	}
}

// Where the update is done is told, and what it becomes of given samples is the same but for rounding.
func TestBenchOnADevice(t *testing.T) {
	file := written(t, given())
	var rates [2][]float64
	for i, device := range []string{"cpu", "cpu:aten"} {
		code, out, errs := benchGiven(file, "--device", device, "--set", "algo.ppo.kl_target=0.01", "--set", "algo.ppo.kl_end=0.01")
		var r benchResult
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || r.Device != device || !(r.StepsPerS > 0) {
			t.Fatalf("%s: exit %d, %v: %s%s", device, code, err, out, errs)
		}
		rates[i] = r.Rates
	}
	if len(rates[0]) != 4 || len(rates[1]) != 4 || rates[0][3] != rates[1][3] {
		t.Errorf("learning rates %v on the device, %v by the CPU's own update", rates[1], rates[0])
	}
}
