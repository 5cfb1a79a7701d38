package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// A policy of others goes through the whole suite, and every number is there under its name.
func TestSuiteOfAnotherPolicy(t *testing.T) {
	policy := contracttest.Policy(t, "go1_policy.onnx")
	code, out, errs := clawlearn("eval", "--policy", policy, "--suite", "--rows", "4", "--seconds", "9", "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var r evalResult
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if _, hash := task.EvalV1(); r.Hash != hash || r.Rows != 4 || r.Seconds != 9 || len(r.Given) != 1 || r.Given[0] != "base_lin_vel" || r.Name == "" {
		t.Errorf("%+v", r)
	}
	s := r.Suite
	if len(s.Cases) != 6 || s.Cases[0].Result != r.Result || s.Cases[0].Name != "nominal" || s.Cases[0].Physics != "lean" || s.Cases[1].Physics != "full" {
		t.Fatalf("cases %+v", s.Cases)
	}
	// It walks in all of them, and each is another world.
	for i, c := range s.Cases {
		if !(c.VelErr > 0.02 && c.VelErr < 0.3) || !(c.PowerW > 20 && c.PowerW < 300) || !(c.ActionRate > 0.02 && c.ActionRate < 0.3) || c.Rows != 4 || c.Doc == "" {
			t.Errorf("%+v", c)
		}
		for _, other := range s.Cases[:i] {
			if c.Result == other.Result {
				t.Errorf("%s and %s: both %+v", c.Name, other.Name, c.Result)
			}
		}
	}
	if st := &s.Standing; st.Name != "zero command" || !(st.JointSpeed > 0 && st.JointSpeed < 10) || !(st.DriftMax >= st.Drift && st.Drift > 0) ||
		!(st.VelErr < s.Cases[0].VelErr) {
		t.Errorf("%+v", *st)
	}
	if len(s.Corners.Commands) != 9 || s.Corners.Commands[0].Command != [3]float32{-1, 0, -1} || s.Corners.Commands[8].Command != [3]float32{1, 0, 1} || s.Corners.Commands[4].Rows != 1 {
		t.Errorf("%+v", s.Corners.Commands)
	}
	if len(s.Fit) != 18 || s.Fit[0].Value != r.VelErr || s.Fit[0].OK != (r.VelErr <= 0.1) {
		t.Errorf("%+v", s.Fit)
	}
	// The names are a program's interface.
	for _, name := range []string{"vel_err", "yaw_err", "fall_rate", "power_w", "action_rate", "joint_speed_rms", "feet_lifted", "lift_share", "drift_m", "drift_max_m",
		"vel_err_mean", "vel_err_worst", "yaw_err_worst_over_mean", "command", "physics", "given"} {
		if !strings.Contains(out, `"`+name+`":`) {
			t.Errorf("no %s in %s", name, out)
		}
	}
}

// Two policies beside each other: as tables, as a table in Markdown, and as one object.
func TestEvalCompares(t *testing.T) {
	policy := contracttest.Policy(t, "go1_policy.onnx")
	data, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(t.TempDir(), "second.onnx")
	if err := os.WriteFile(second, data, 0o644); err != nil {
		t.Fatal(err)
	}
	few := []string{"eval", "--policy", policy, "--policy", second, "--rows", "2", "--seconds", "2"}
	code, out, errs := clawlearn(append(few, "--json")...)
	var both struct{ Policies []evalResult }
	if err := json.Unmarshal([]byte(out), &both); code != 0 || err != nil || len(both.Policies) != 2 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	if a, b := both.Policies[0], both.Policies[1]; a.Policy != policy || b.Policy != second || a.Result != b.Result || a.Suite != nil {
		t.Errorf("%+v, %+v", a, b)
	}
	if code, out, errs = clawlearn(few...); code != 0 || strings.Count(out, "velocity error") != 2 || strings.Count(out, "true base_lin_vel, which no Go1 senses") != 2 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, errs = clawlearn(append(few, "--suite", "--markdown")...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 11 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	for i, l := range lines {
		if strings.Count(l, "|") != 4 || !strings.HasPrefix(l, "| ") || !strings.HasSuffix(l, " |") {
			t.Errorf("line %d: %s", i, l)
		}
	}
	for i, want := range []string{"`go1_policy.onnx`, given true base_lin_vel | `second.onnx`, given true", "---", "nominal", "full model", "friction 0.4", "+1 kg", "20 ms delay",
		"pushes 0.5 m/s", "power; action rate", "nine commands", "command zero for 2 s"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d: %s, want %q", i, lines[i], want)
		}
	}
	code, out, _ = clawlearn(append(few, "--markdown", "--physics", "peer")...)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != 0 || len(lines) != 4 || !strings.HasPrefix(lines[2], "| physics peer |") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, errs := clawlearn("eval", "--policy", policy, "--policy", "missing.onnx", "--suite", "--rows", "1", "--seconds", "2"); code != cli.ExitFailed || !strings.Contains(errs, "missing.onnx") {
		t.Errorf("one that is not there: exit %d, %s", code, errs)
	}
}

// Means and worst of the commands by hand; a command under which no row lasted shows.
func TestCornersSum(t *testing.T) {
	corner := func(vel, yaw, falls float64) cornerResult {
		return cornerResult{caseResult: caseResult{Result: task.Result{VelErr: vel, YawErr: yaw, FallRate: falls}}}
	}
	c := cornersResult{Commands: []cornerResult{corner(0.1, 0.3, 0), corner(0.3, 0.1, 0.5), corner(0.2, 0.2, 1)}}
	c.sum()
	for i, p := range [][2]float64{{c.VelMean, 0.2}, {c.VelWorst, 0.3}, {c.VelRatio, 1.5}, {c.YawMean, 0.2}, {c.YawWorst, 0.3}, {c.YawRatio, 1.5}, {c.FallRate, 0.5}} {
		if math.Abs(p[0]-p[1]) > 1e-12 {
			t.Errorf("number %d: %v, want %v", i, p[0], p[1])
		}
	}
	c = cornersResult{Commands: []cornerResult{corner(math.NaN(), math.NaN(), 1), corner(0.3, 0.1, 0)}}
	if c.sum(); !math.IsNaN(c.VelWorst) || !math.IsNaN(c.YawRatio) {
		t.Errorf("%+v", c)
	}
	r := suiteResult{Cases: []caseResult{{Name: "nominal"}, {Name: "full model"}}, Corners: c}
	met := map[string]bool{}
	for _, q := range r.require() {
		met[q.Name] = q.OK
	}
	if met["nine commands: worst velocity error over their mean"] || !met["power, W"] {
		t.Errorf("a number that is none is good enough, or 0 W too much: %v", met)
	}
}
