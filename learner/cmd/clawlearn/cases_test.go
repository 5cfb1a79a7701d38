package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

// Row 46 of the cases: a policy that walks in its trainer's simulator is judged by our full model before it is called good. A network walks in
// a simulator like its trainer's (coarse) and, by its own contract, in the full model too; with the gains that another trainer would have
// given its joints (kp 100, kd 2) it still follows commands there, and one robot in eight falls. The figures say so.
func TestFullModelIsTheGate(t *testing.T) {
	file, err := contract.Load(contracttest.Policy(t, "go1_policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	stiff := *file.Contract
	stiff.Kp, stiff.Kd = slices.Repeat([]float32{100}, stiff.ActDim()), slices.Repeat([]float32{2}, stiff.ActDim())
	data, err := contract.Embed(file.Bytes, &stiff)
	if err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(t.TempDir(), "theirs.onnx")
	if err := os.WriteFile(theirs, data, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		policy, physics string
		walks           bool
	}{{file.Path, "coarse", true}, {file.Path, "full", true}, {theirs, "full", false}} {
		code, out, errs := clawlearn("eval", "--policy", test.policy, "--physics", test.physics, "--rows", "32", "--seconds", "12", "--json")
		var r struct {
			Physics  string
			Rows     int
			VelErr   *float64 `json:"vel_err"`
			YawErr   *float64 `json:"yaw_err"`
			FallRate *float64 `json:"fall_rate"`
		}
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || r.Physics != test.physics || r.Rows != 32 || r.FallRate == nil {
			t.Fatalf("%s in %s: exit %d, %v: %s%s", test.policy, test.physics, code, err, out, errs)
		}
		walks := r.VelErr != nil && r.YawErr != nil && *r.VelErr < 0.25 && *r.YawErr < 0.3 && *r.FallRate <= 0.05
		t.Logf("%s", out)
		if walks != test.walks {
			t.Errorf("%s in %s: walks %v, want %v", filepath.Base(test.policy), test.physics, walks, test.walks)
		}
	}
}
