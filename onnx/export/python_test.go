package export_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/export"
)

// python is the interpreter of the venv that .ci/test-deps makes. Without it the
// test skips; with OPENCLAW_ALL=1 it fails.
func python(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(cache, "openclaw", "onnx-1.23.2", "bin", "python")
	if _, err := os.Stat(exe); err != nil {
		if os.Getenv("OPENCLAW_ALL") == "1" {
			t.Fatalf("OPENCLAW_ALL=1 wants every test: %v: run make test-deps", err)
		}
		t.Skipf("needs %s: run make test-deps", exe)
	}
	return exe
}

// Python's onnx and ONNX Runtime take our files and compute the same numbers.
func TestPythonReadsThem(t *testing.T) {
	exe := python(t)
	for _, test := range []struct {
		name     string
		contract *contract.Contract
		net      *export.Network
		want     []string // operators
	}{
		{"normaliser", walk(), network(12, true, 47, 128, 128, 12), []string{"Sub", "Div", "Gemm", "Elu", "Gemm", "Elu", "Gemm"}},
		{"no normaliser", walk(), network(13, false, 47, 512, 256, 128, 12), []string{"Gemm", "Elu", "Gemm", "Elu", "Gemm", "Elu", "Gemm"}},
		{"history", walkHistory(11), history(18, false, 11, [3]int{16, 4, 2}, [3]int{16, 3, 1}), []string{"Constant", "Reshape", "Transpose",
			"Constant", "Constant", "Constant", "Slice", "Conv", "Elu", "Conv", "Elu", "Flatten", "Gemm", "Elu", "Gemm",
			"Constant", "Constant", "Constant", "Slice", "Concat", "Gemm", "Elu", "Gemm"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, rows := filepath.Join(t.TempDir(), "policy.onnx"), pairs(test.net, 256)
			if _, err := export.Write(path, test.net, test.contract, rows); err != nil {
				t.Fatal(err)
			}
			var obs [][]float32
			for _, r := range rows {
				obs = append(obs, r.Obs)
			}
			input, err := json.Marshal(obs)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(exe, filepath.Join("testdata", "check.py"), path)
			var stderr bytes.Buffer
			cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
			output, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			var got struct {
				Opset, Inputs, Outputs any
				Nodes                  []string
				Metadata               map[string]string
				Rows, Batch            [][]float32
			}
			if err := json.Unmarshal(output, &got); err != nil {
				t.Fatal(err)
			}
			tensor := func(name string, width float64) any {
				return []any{[]any{name, "tensor(float)", []any{"batch", width}}}
			}
			if !reflect.DeepEqual(got.Opset, any([]any{[]any{"", 17.0}})) || !reflect.DeepEqual(got.Inputs, tensor("obs", float64(len(rows[0].Obs)))) ||
				!reflect.DeepEqual(got.Outputs, tensor("actions", 12)) || !reflect.DeepEqual(got.Nodes, test.want) {
				t.Errorf("opset %v, inputs %v, outputs %v, nodes %v", got.Opset, got.Inputs, got.Outputs, got.Nodes)
			}
			for what, actions := range map[string][][]float32{"row by row": got.Rows, "in one batch": got.Batch} {
				if len(actions) != len(rows) {
					t.Fatalf("%s: %d rows", what, len(actions))
				}
				worst := 0.0
				for i := range rows {
					for k, want := range rows[i].Action {
						worst = max(worst, math.Abs(float64(actions[i][k]-want)))
					}
				}
				if !(worst <= export.MaxDiff) {
					t.Errorf("%s: off by %v", what, worst)
				}
			}
			c, err := contract.Decode([]byte(got.Metadata[contract.Key]))
			if err != nil || c.Robot != "unitree-go1" {
				t.Errorf("contract as Python sees it: %v", err)
			}
			for _, key := range []string{"joint_stiffness", "joint_damping", "default_joint_pos", "action_scale"} {
				numbers := strings.Split(got.Metadata[key], ",")
				for _, s := range numbers {
					if _, err := strconv.ParseFloat(s, 32); err != nil {
						t.Errorf("%s: %v", key, err)
					}
				}
				if len(numbers) != 12 {
					t.Errorf("%s: %q", key, got.Metadata[key])
				}
			}
		})
	}
}
