package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/session"
)

// program is the built clawpolicy.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clawpolicy")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// run executes clawpolicy with more environment variables.
func run(t *testing.T, program string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// files writes a folder and gives its path.
func files(t *testing.T, content map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range content {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func toyWith(t *testing.T, edit func(*contract.Contract)) []byte {
	t.Helper()
	c := contracttest.Toy()
	edit(c)
	data, err := contract.Embed(contracttest.Linear(1, []float32{1, 0, 0, 1, 0, 0}, []float32{0, 0.5}).Bytes(), c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestInspect(t *testing.T) {
	prog := program(t)
	plain := contracttest.Linear(1, make([]float32, 6), make([]float32, 2))
	pairs := func(a float32) func(*contract.Contract) {
		return func(c *contract.Contract) {
			c.Golden = &contract.Golden{Pairs: []contract.Pair{{Obs: []float32{1, 2, 3}, Action: []float32{1, a}}}}
		}
	}
	wide := contracttest.Linear(1, make([]float32, 8), make([]float32, 2))
	weights := contracttest.Linear(1, make([]float32, 6), make([]float32, 2))
	weights.Weights[0].File = "w.data"
	strange := contracttest.Linear(1, make([]float32, 6), make([]float32, 2))
	strange.Inputs[0].Name = "obs\x1b[2J"
	toyJSON, err := contracttest.Toy().Encode()
	if err != nil {
		t.Fatal(err)
	}
	dir := files(t, map[string][]byte{
		"toy.onnx":    toyWith(t, pairs(2.5)),
		"bare.onnx":   toyWith(t, func(c *contract.Contract) { c.Normaliser = nil }),
		"golden.onnx": toyWith(t, pairs(2)),
		"trained.onnx": toyWith(t, func(c *contract.Contract) {
			c.License = "Apache-2.0"
			c.Training = &contract.Training{Run: "r7", Iteration: 40, Steps: 2457600, Seconds: 61.54, Command: "clawlearn train --out 'a\x1b'",
				Curve: []contract.Point{{Steps: 1000, VelErr: 0.5, YawErr: 0.25, FallRate: 1}, {Steps: 2457600, VelErr: 0.1, YawErr: 0.12, FallRate: 0.008}}}
			c.Evaluation = &contract.Evaluation{Suite: "eval_v1 abc", Rows: 128, Seconds: 20, VelErr: 0.1, YawErr: 0.12, FallRate: 0.008, PowerW: 61.4, ActionRate: 0.0734}
		}),
		"plain.onnx":              plain.Bytes(),
		"cut.onnx":                plain.Bytes()[:60],
		"wide.onnx":               wide.Bytes(),
		"wide.onnx.contract.json": toyJSON,
		"weights.onnx":            weights.Bytes(),
		"strange.onnx":            strange.Bytes(),
		"text.onnx":               []byte("hello\n"),
		"bad.onnx":                plain.Bytes(),
		"bad.onnx.contract.json":  []byte(`{"version": 1, "colour": 2}`),
	})
	for _, test := range []struct {
		args   string // FILE is taken from dir
		code   int
		stdout []string // all there; none: nothing is printed
		stderr string
	}{
		{"inspect toy.onnx", 0, []string{"found: metadata", "right", "-0.1", "tilt", "policy 50 Hz, control 500 Hz", "vx -1..1 m/s",
			"1 replayed with ONNX Runtime", `does not fit: go1: robot: the contract is for "toy"`}, ""},
		{"inspect bare.onnx", 0, []string{contract.NotProven, "none: nothing proves"}, ""},
		{"inspect plain.onnx", 0, []string{"obs  float32 [1, 3]", "actions  float32 [1, 2]", "no contract", "plain.onnx.contract.json"}, ""},
		{"inspect strange.onnx", 0, []string{`"obs\x1b[2J"`}, ""},
		{"inspect golden.onnx", 1, []string{"differs", "found: metadata"}, "golden pair 0: action[1] (right) differs by 0.5"},
		{"inspect wide.onnx", 1, []string{"obs  float32 [1, 4]", "found: beside"}, "input obs is 4 wide, the observation has 3"},
		{"inspect trained.onnx --set replay=false", 0, []string{"Apache-2.0", "run r7, iteration 40, commit -, world -, parent -", "2457600 steps of robots, 61.5 s", `"clawlearn train --out 'a\x1b'"`,
			"on the way   after    0.001 M steps: 0.500 m/s, 0.250 rad/s, falls 100.0 %", "after    2.458 M steps: 0.100 m/s, 0.120 rad/s, falls 0.8 %",
			"eval_v1 abc, 128 rows x 20 s: 0.100 m/s, 0.120 rad/s, falls 0.8 %, 61 W, action rate 0.073 rad"}, ""},
		{"inspect weights.onnx", 1, []string{"w.data, 24 bytes"}, "needs w.data, 24 bytes"},
		{"inspect cut.onnx", 1, nil, "cut.onnx: truncated"},
		{"inspect text.onnx", 1, nil, "text.onnx: not an ONNX model"},
		{"inspect none.onnx", 1, nil, "none.onnx: no such file"},
		{"inspect bad.onnx", 1, nil, "bad.onnx.contract.json: contract: JSON"},
		{"inspect golden.onnx --set replay=false", 0, []string{"1, not run: replay is false"}, ""},
		{"inspect toy.onnx --set replay=maybe", 2, nil, "--set: replay"},
		{"inspect toy.onnx --set estimator.on=false", 2, nil, "estimator.on: unknown key"},
		{"inspect", 2, nil, "accepts 1 arg"},
		{"inspect toy.onnx plain.onnx", 2, nil, "accepts 1 arg"},
		{"inspect --joson toy.onnx", 2, nil, "unknown flag: --joson"},
		{"", 2, nil, "name a command"},
		{"inspekt", 2, nil, "unknown command"},
	} {
		t.Run(test.args, func(t *testing.T) {
			args := strings.Fields(test.args)
			for i, a := range args {
				if strings.HasSuffix(a, ".onnx") {
					args[i] = filepath.Join(dir, a)
				}
			}
			code, stdout, stderr := run(t, prog, nil, args...)
			if code != test.code || !strings.Contains(stderr, test.stderr) || test.stderr == "" && stderr != "" {
				t.Errorf("exit code %d, want %d; stderr %q, want %q in it", code, test.code, stderr, test.stderr)
			}
			for _, w := range test.stdout {
				if !strings.Contains(stdout, w) {
					t.Errorf("want %q in\n%s", w, stdout)
				}
			}
			if test.stdout == nil && stdout != "" {
				t.Errorf("printed\n%s", stdout)
			}
			if strings.Contains(stdout, "\x1b") {
				t.Error("a name from the file reached the terminal as it is")
			}
		})
	}

	// With --json the last line is one object, whatever happened.
	for name, want := range map[string]string{"toy.onnx": "", "golden.onnx": "differs by 0.5", "cut.onnx": "truncated", "none.onnx": "no such file"} {
		code, stdout, _ := run(t, prog, nil, "inspect", "--json", filepath.Join(dir, name))
		var got struct {
			File, Error string
			Contract    *contract.Contract
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.File == "" || !strings.Contains(got.Error, want) || (code != 0) != (want != "") {
			t.Errorf("%s: exit code %d, %v\n%s", name, code, err, stdout)
		}
	}

	// Without ONNX Runtime everything else is shown.
	code, stdout, stderr := run(t, prog, []string{session.PathVariable + "=/nowhere.so"}, "inspect", filepath.Join(dir, "golden.onnx"))
	if code != 0 || !strings.Contains(stdout, "not run: session: ONNX Runtime is not available") || stderr != "" {
		t.Errorf("without ONNX Runtime: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// The policies of others that lie beside the repository.
func TestInspectOthers(t *testing.T) {
	for file, want := range map[string][]string{
		"go1_policy.onnx": {"found: known", "FL_hip_joint    -0.1      0.5               35          0.5", "base_lin_vel       3     1      -     1        no",
			"8 replayed", "  fits", "needs base_lin_vel", "yaw -6.28..6.28 rad/s", "in the graph"},
		"bh_policy.onnx":                           {"obs  float32 [1, 52]", "no contract"},
		"unitree_rl_lab_g1_velocity/policy.onnx":   {"obs  float32 [1, 480]", "no contract"},
		"unitree_rl_mjlab_g1_velocity/policy.onnx": {"policy.onnx.data, 871168 bytes", "opset 18", "no contract"},
	} {
		t.Run(file, func(t *testing.T) {
			r, err := inspect(contracttest.Policy(t, file), new(defaultConfig()))
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := r.print(&b); err != nil {
				t.Fatal(err)
			}
			for _, w := range want {
				if !strings.Contains(b.String(), w) {
					t.Errorf("want %q in\n%s", w, b.String())
				}
			}
		})
	}
}

func TestInspectWeightsLeftBehind(t *testing.T) {
	data, err := os.ReadFile(contracttest.Policy(t, "unitree_rl_mjlab_g1_velocity/policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := inspect(filepath.Join(files(t, map[string][]byte{"policy.onnx": data}), "policy.onnx"), new(defaultConfig()))
	if r == nil || !errors.Is(err, contract.ErrExternal) || !strings.Contains(err.Error(), "needs policy.onnx.data, 871168 bytes") {
		t.Errorf("got %v", err)
	}
}

// Without an estimator, a Go1 does not sense what Playground's policy wants.
func TestInspectWithoutEstimator(t *testing.T) {
	path := contracttest.Policy(t, "go1_policy.onnx")
	for _, estimator := range []bool{true, false} {
		r, err := inspect(path, &config{Estimator: estimator})
		if err != nil {
			t.Fatal(err)
		}
		if r.Go1.Fits != estimator || !estimator && !strings.Contains(r.Go1.Why, "base_lin_vel") || r.Golden.Result != "not run" {
			t.Errorf("estimator %v: %+v, golden pairs %q", estimator, r.Go1, r.Golden.Result)
		}
	}
}
