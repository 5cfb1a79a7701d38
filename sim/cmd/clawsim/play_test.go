package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// play runs `clawsim play` in process.
func play(args ...string) (code int, stdout, stderr string) {
	root := &cobra.Command{Use: "clawsim"}
	root.AddCommand(newPlayCommand())
	var out, errs bytes.Buffer
	code = cli.Run(root, append([]string{"play"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// playJSON runs it with --json and reads its last line.
func playJSON(t *testing.T, args ...string) map[string]any {
	t.Helper()
	code, out, errs := play(append(args, "--json")...)
	if code != 0 {
		t.Fatalf("play %q: exit %d: %s", args, code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var m map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &m); err != nil {
		t.Fatalf("play %q: last line %q: %v", args, lines[len(lines)-1], err)
	}
	return m
}

// The table of shared/policies/README.md, measured by others in their own
// simulation: Playground's policy, 10 s, means over 2..10 s, nobody falls.
func TestPlayAgreesWithTheTable(t *testing.T) {
	policy := contracttest.Policy(t, "go1_policy.onnx")
	for _, c := range []struct {
		command string
		rows    string
		want    [3]float64
	}{
		{"1,0,0", "64", [3]float64{1.02, 0.01, 0}},
		{"0,0,0", "8", [3]float64{0, 0, 0}},
		{"1.5,0,0", "8", [3]float64{1.50, 0.03, -0.01}},
		{"-1,0,0", "8", [3]float64{-0.99, -0.01, -0.01}},
		{"0,0.5,0", "8", [3]float64{0.03, 0.46, 0.02}},
		{"0,0,1", "8", [3]float64{0.02, 0.04, 0.86}},
	} {
		t.Run(c.command, func(t *testing.T) {
			m := playJSON(t, "--policy", policy, "--command", c.command, "--rows", c.rows, "--seconds", "10")
			t.Logf("vx %.3f vy %.3f wz %.3f, %.0f steps/s", m["vx_mean"], m["vy_mean"], m["wz_mean"], m["steps_per_s"])
			for i, key := range [3]string{"vx_mean", "vy_mean", "wz_mean"} {
				if got, ok := m[key].(float64); !ok || math.Abs(got-c.want[i]) > 0.1 {
					t.Errorf("%s is %v, want %v within 0.1", key, m[key], c.want[i])
				}
			}
			if m["falls"] != 0.0 {
				t.Errorf("%v rows fell, the first at %v s", m["falls"], m["fall_time_s"])
			}
		})
	}
}

func TestPlayZeroStandsAndRandomFalls(t *testing.T) {
	zero := playJSON(t, "--policy", "zero", "--rows", "4", "--seconds", "3")
	if zero["falls"] != 0.0 || math.Abs(zero["vx_mean"].(float64)) > 0.02 || zero["fall_time_s"] != nil {
		t.Errorf("zero actions do not stand: %v", zero)
	}
	if h := zero["height_mean"].(float64); h < 0.24 || h > 0.3 {
		t.Errorf("zero actions stand at %v m", h)
	}
	random := playJSON(t, "--policy", "random", "--rows", "4", "--seconds", "10")
	if random["falls"] == 0.0 || random["fall_time_s"].(float64) <= 0 {
		t.Errorf("random actions do not fall: %v", random)
	}
}

// Threads, and rows beside it, change nothing; the seed does.
func TestPlayDependsOnTheSeedAlone(t *testing.T) {
	figures := func(args ...string) string {
		m := playJSON(t, append([]string{"--policy", "random", "--rows", "3", "--seconds", "1"}, args...)...)
		for _, k := range []string{"steps_per_s", "threads", "seed"} {
			delete(m, k)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one := figures("--threads", "1")
	if two := figures("--threads", "2"); two != one {
		t.Errorf("two threads: %s\none thread: %s", two, one)
	}
	if other := figures("--seed", "2"); other == one {
		t.Errorf("seeds 1 and 2 give the same: %s", one)
	}
}

// Half the action is what the two physics differ in most: 0.44 m/s was measured
// elsewhere, with the settings of coarse.
func TestPlayPhysics(t *testing.T) {
	policy := contracttest.Policy(t, "go1_policy.onnx")
	for physics, want := range map[string]float64{"full": 0.72, "coarse": 0.44} {
		m := playJSON(t, "--policy", policy, "--command", "1,0,0", "--fault", "action-scale-half", "--rows", "8", "--physics", physics)
		if got, ok := m["vx_mean"].(float64); !ok || math.Abs(got-want) > 0.08 || m["physics"] != physics {
			t.Errorf("physics %v: vx %v, want %v within 0.08", m["physics"], m["vx_mean"], want)
		}
	}
}

func TestPlayPrintsATable(t *testing.T) {
	code, out, errs := play("--policy", "zero", "--rows", "2", "--seconds", "1", "--command", "2,0,0")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"policy", "zero", "physics", "full", "falls", "none", "command", "2.000", "mean", "height"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "vx is -1.5..1.5") {
		t.Errorf("a command outside of the contract's range is not noted: %q", errs)
	}
}

func TestPlayListsFaults(t *testing.T) {
	code, out, _ := play("--fault", "list")
	if code != 0 {
		t.Fatalf("exit %d", code)
	}
	for _, f := range task.Faults() {
		for _, want := range []string{f.Name, f.Doc, f.Full, f.Coarse, f.Outcome} {
			if want == "" || !strings.Contains(out, want) {
				t.Errorf("fault %s: %q is not listed", f.Name, want)
			}
		}
	}
	for _, want := range []string{"PHYSICS FULL", "PHYSICS COARSE", "--physics coarse"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// What a world decides is not said to be --physics'.
func TestHelpOfWorlds(t *testing.T) {
	for name, run := range map[string]func(...string) (int, string, string){
		"play":  play,
		"bench": func(args ...string) (int, string, string) { return bench(t.Context(), args...) },
	} {
		_, out, _ := run("--help")
		text := strings.Join(strings.Fields(out), " ")
		for _, want := range []string{"How rows start, what a fall is, the floor's friction and whether the motors' torque falls with speed",
			"come from the world, not from --physics", "the friction in the joints"} {
			if !strings.Contains(text, want) {
				t.Errorf("help of %s does not say %q:\n%s", name, want, out)
			}
		}
	}
}

func TestPlayRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.onnx")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no policy", nil, cli.ExitUsage, "--policy"},
		{"no such file", []string{"--policy", missing}, cli.ExitFailed, missing + ": no such file"},
		{"a folder", []string{"--policy", t.TempDir()}, cli.ExitFailed, "folder"},
		{"not ONNX", []string{"--policy", "play.go"}, cli.ExitFailed, "play.go"},
		{"two numbers", []string{"--policy", "zero", "--command", "1,0"}, cli.ExitUsage, "vx,vy,wz"},
		{"words", []string{"--policy", "zero", "--command", "1,fast,0"}, cli.ExitUsage, "vy"},
		{"NaN", []string{"--policy", "zero", "--command", "1,0,nan"}, cli.ExitUsage, "wz"},
		{"infinite", []string{"--policy", "zero", "--command", "1e400,0,0"}, cli.ExitUsage, "vx"},
		{"faster than legs", []string{"--policy", "zero", "--command", "3e38,0,0"}, cli.ExitUsage, `--command "3e38,0,0": vx is "3e38", want -100..100`},
		{"slower than legs", []string{"--policy", "zero", "--command", "0,-101,0"}, cli.ExitUsage, `--command "0,-101,0": vy is "-101"`},
		{"no rows", []string{"--policy", "zero", "--rows", "0"}, cli.ExitUsage, "--rows 0"},
		{"too many rows", []string{"--policy", "zero", "--rows", "8193"}, cli.ExitUsage, "8192"},
		{"no time", []string{"--policy", "zero", "--seconds", "0"}, cli.ExitUsage, "--seconds"},
		{"NaN time", []string{"--policy", "zero", "--seconds", "NaN"}, cli.ExitUsage, "--seconds"},
		{"no threads", []string{"--policy", "zero", "--threads", "0"}, cli.ExitUsage, "--threads"},
		{"unknown fault", []string{"--policy", "zero", "--fault", "gremlins"}, cli.ExitUsage, "linvel-zero"},
		{"unknown physics", []string{"--policy", "zero", "--physics", "real"}, cli.ExitUsage, "full, lean, peer, coarse"},
		{"unknown flag", []string{"--policy", "zero", "--robots", "3"}, cli.ExitUsage, "robots"},
		{"an argument", []string{"policy.onnx"}, cli.ExitUsage, "policy.onnx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := play(c.args...)
			if code != c.code || !strings.Contains(errs, c.says) || out != "" {
				t.Errorf("exit %d, want %d; stderr %q should say %q; stdout %q", code, c.code, errs, c.says, out)
			}
		})
	}
}

// A contract for another robot is refused, and both robots are named.
func TestPlayRefusesAnotherRobotsContract(t *testing.T) {
	model, err := contract.Embed(contracttest.Linear(1, make([]float32, 6), []float32{0, 0}).Bytes(), contracttest.Toy())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "toy.onnx")
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := play("--policy", path)
	for _, want := range []string{path, `"toy"`, `"unitree-go1"`} {
		if code != cli.ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("exit %d; %q should say %s", code, errs, want)
		}
	}
}

// Another robot's policy has no contract here, and the refusal shows how wide it is.
func TestPlayRefusesAnotherRobot(t *testing.T) {
	path := contracttest.Policy(t, "bh_policy.onnx")
	code, _, errs := play("--policy", path)
	for _, want := range []string{path, "no contract", "52"} {
		if code != cli.ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("exit %d; %q should say %q", code, errs, want)
		}
	}
}
