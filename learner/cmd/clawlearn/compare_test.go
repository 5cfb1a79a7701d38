package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/learner/run"
)

// aRun writes a run's folder: evaluations are velocity error, yaw rate error and falls, one each 10 s and 0.1 M steps of training.
func aRun(t *testing.T, dir string, seed uint64, edit func(c *Config), evaluations ...[3]float64) {
	t.Helper()
	c := walk()
	c.Run.Preset, c.Run.Seed = "walk", seed
	if edit != nil {
		edit(&c)
	}
	meta := run.Describe("test", "", "")
	meta.Seeds["run"] = int64(seed)
	f, err := run.Create(dir, &c, meta)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, e := range evaluations {
		values := []run.Value{{Tag: "Perf/samples", Value: 1e5 * float64(i+1)}, {Tag: "Perf/train_seconds", Value: 10 * float64(i+1)},
			{Tag: "Loss/behavior", Value: float64(i)}, {Tag: "Eval/vel_err", Value: e[0]}, {Tag: "Eval/yaw_err", Value: e[1]}, {Tag: "Eval/fall_rate", Value: e[2]}}
		if err := f.Log(int64(2*i+1), values[:3]); err != nil {
			t.Fatal(err)
		}
		if err := f.Log(int64(2*i+2), values); err != nil {
			t.Fatal(err)
		}
	}
}

var good, bad = [3]float64{0.2, 0.1, 0.01}, [3]float64{0.2, 0.1, 0.3}

func compared(t *testing.T, args ...string) (c comparison) {
	t.Helper()
	code, out, errs := clawlearn(append([]string{"compare", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &c); code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s", code, err, errs)
	}
	return c
}

// What a table says: the first of three passes in a row, the last evaluation, groups by configuration with their means.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	aRun(t, in("walk-1"), 1, nil, bad, good, good, bad, good, good, good, bad)
	aRun(t, in("walk-2"), 2, nil, good, good, bad, [3]float64{0.4, 0.3, 0.1})
	aRun(t, in("fast"), 1, func(c *Config) { c.Algo.PPO.Gamma = 0.9 }, [3]float64{math.NaN(), math.NaN(), 1}, good, good, good)
	c := compared(t, in("walk-1"), in("fast"), in("walk-2"))
	if len(c.Runs) != 3 || len(c.Groups) != 2 {
		t.Fatalf("%+v", c)
	}
	for i, want := range []comparedRun{
		{Group: "walk", Seed: 1, Walked: true, WalkedSteps: 5e5, WalkedSeconds: 50, Steps: 8e5, Seconds: 80, VelErr: 0.2, YawErr: 0.1, FallRate: 0.3},
		{Group: "fast", Seed: 1, Walked: true, WalkedSteps: 2e5, WalkedSeconds: 20, Steps: 4e5, Seconds: 40, VelErr: 0.2, YawErr: 0.1, FallRate: 0.01},
		{Group: "walk", Seed: 2, Steps: 4e5, Seconds: 40, VelErr: 0.4, YawErr: 0.3, FallRate: 0.1},
	} {
		r := c.Runs[i]
		want.Run, want.Preset, want.Teacher, want.Iterations = r.Run, "walk", "none", r.Iterations
		if fmt.Sprintf("%+v", *r) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s:\n%+v, want\n%+v", r.Run, *r, want)
		}
	}
	g := c.Groups[0]
	if g.Name != "walk" || g.Walked != 1 || fmt.Sprint(g.Seeds, g.Runs) != fmt.Sprint([]uint64{1, 2}, []string{in("walk-1"), in("walk-2")}) ||
		g.WalkedSteps != (spread{1, 5e5, 5e5, 5e5}) || math.Abs(g.VelErr.Mean-0.3) > 1e-12 || g.VelErr.Least != 0.2 || g.VelErr.Most != 0.4 || g.LabelRMSE.Runs != 0 {
		t.Errorf("%+v", *g)
	}
	_, text, _ := clawlearn("compare", in("walk-1"), in("walk-2"))
	for _, want := range []string{"0.50 M, 50 s", "0.300 (0.200..0.400)", "1 of 2", "20.0 (10.0..30.0)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	_, text, _ = clawlearn("compare", in("walk-1"), in("walk-2"), in("fast"), "--markdown")
	if lines := strings.Split(text, "\n"); len(lines) != 5 || lines[3] != "| fast | 1 of 1 | 0.20 | 20 | 40 | 0.200 | 0.100 | 1.0 | - |" {
		t.Errorf("%s", text)
	}
}

// What only ended the run, or was made on Ctrl-C, does not count for walking: it has no Eval/passes. Where no evaluation has it, the run is an
// older one, and all count.
func TestCompareCountsWhatWasDue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	aRun(t, dir, 1, nil)
	for evaluations, at := range map[string]float64{ // g and b are good and bad ones, those that were due in capitals
		"GGG": 1, "BGGG": 2, "GGBG": 0, "GGg": 0, "GGgG": 1, "gGGgGb": 2, "GGbG": 1, "gggB": 0, "ggg": 1, "bggg": 2, "ggbg": 0,
	} {
		var lines strings.Builder
		for i, e := range evaluations {
			fmt.Fprintf(&lines, `{"iteration":%d,"Perf/samples":%d,"Perf/train_seconds":%[1]d,"Eval/vel_err":0.2,"Eval/yaw_err":0.1,"Eval/fall_rate":%[3]v`,
				i+1, 100*(i+1), map[bool]float64{true: 0.01, false: 0.3}[e == 'g' || e == 'G'])
			if e == 'G' || e == 'B' {
				fmt.Fprintf(&lines, `,%q:0`, passesTag)
			}
			lines.WriteString("}\n")
		}
		if err := os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		record, err := run.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := newComparedRun(record)
		if err != nil {
			t.Fatal(err)
		}
		if r.Walked != (at > 0) || at > 0 && (r.WalkedSeconds != at || r.WalkedSteps != 100*at) {
			t.Errorf("%s: walked %v at %v steps, %v s; want the first at %v s", evaluations, r.Walked, r.WalkedSteps, r.WalkedSeconds, at)
		}
		if len(r.evaluations) != len(evaluations) {
			t.Errorf("%s: %d evaluations are shown", evaluations, len(r.evaluations))
		}
	}
}

// A teacher that was trained counts with its steps and time, and so does its own; runs whose teachers differ in their seeds are a group.
func TestCompareCountsTeachers(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	taught := func(by string) func(*Config) {
		return func(c *Config) { c.Algo.OPD.Teacher, c.Algo.OPD.File = "privileged", by }
	}
	for _, seed := range []uint64{1, 2} {
		name := func(s string) string { return in(fmt.Sprintf("%s-seed%d", s, seed)) }
		aRun(t, name("first"), seed, nil, good)
		aRun(t, name("second"), seed, taught(name("first")), good, good)
		if err := os.WriteFile(filepath.Join(name("second"), "policy.onnx"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		aRun(t, name("third"), seed, taught(filepath.Join(name("second"), "policy.onnx")), good, good, good, bad)
	}
	c := compared(t, in("third-seed1"), in("third-seed2"), in("second-seed1"))
	r := c.Runs[1]
	if len(c.Groups) != 2 || c.Groups[0].Name != "third" || r.TeacherSteps != 3e5 || r.TeacherSeconds != 30 || r.Steps != 7e5 || r.Seconds != 70 ||
		r.WalkedSeconds != 40 || r.LabelRMSE != 1.5 || c.Runs[2].TeacherSeconds != 10 {
		t.Errorf("%+v: %+v", c.Groups[0], *r)
	}
	// A policy that others trained costs nothing that could be told.
	others := in("others.onnx")
	if err := os.WriteFile(others, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	aRun(t, in("theirs"), 1, taught(others), good)
	if r := compared(t, in("theirs")).Runs[0]; r.TeacherSteps != 0 || r.Seconds != 10 || r.Teacher != "privileged" {
		t.Errorf("%+v", *r)
	}
	aRun(t, in("ring"), 1, taught(in("ring")), good)
	aRun(t, in("orphan"), 1, taught(in("none")), good)
	for name, want := range map[string]string{"ring": "do they name each other?", "orphan": "its teacher's time is not to be told"} {
		if code, _, errs := clawlearn("compare", in(name)); code != cli.ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
	}
}

// The picture has a curve of each run over minutes or steps.
func TestComparePicture(t *testing.T) {
	dir := t.TempDir()
	a, b, svg := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c.svg")
	aRun(t, a, 1, nil, bad, good, good)
	aRun(t, b, 1, func(c *Config) { c.Algo.OPD.Teacher = "ema" }, good, bad)
	for by, want := range map[string]string{"minutes": "minutes of training", "steps": "steps of rows"} {
		if c := compared(t, a, b, "--svg", svg, "--by", by); c.SVG != svg {
			t.Errorf("%+v", c)
		}
		picture, err := os.ReadFile(svg)
		if err != nil {
			t.Fatal(err)
		}
		for text, times := range map[string]int{">" + want + "<": 4, ">a<": 3, ">b<": 4} { // one has no labels
			if n := strings.Count(string(picture), text); n != times {
				t.Errorf("by %s: %s is there %d times, want %d", by, text, n, times)
			}
		}
	}
	if code, _, errs := clawlearn("compare", a, "--svg", filepath.Join(dir, "none", "c.svg")); code != cli.ExitFailed || !strings.Contains(errs, "none/c.svg") {
		t.Errorf("no such folder for the picture: exit %d, %s", code, errs)
	}
}

func TestCompareRefuses(t *testing.T) {
	dir := t.TempDir()
	whole, empty, torn := filepath.Join(dir, "whole"), filepath.Join(dir, "empty"), filepath.Join(dir, "torn")
	aRun(t, whole, 1, nil, good)
	aRun(t, empty, 1, nil)
	aRun(t, torn, 1, nil, good)
	if err := os.WriteFile(filepath.Join(torn, "metrics.jsonl"), []byte("{\"iteration\":1}\n{\"iterat\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, "compare: requires at least 1 arg", "compare")
	refused(t, `--by "miles": want minutes or steps`, "compare", whole, "--by", "miles")
	refused(t, "--json and --markdown: not both", "compare", whole, "--json", "--markdown")
	refused(t, "named twice", "compare", whole, whole+"/")
	for name, want := range map[string]string{filepath.Join(dir, "none"): "none: holds no run", empty: "empty: no evaluation yet", torn: "torn: metrics.jsonl: line 2 is damaged"} {
		if code, out, errs := clawlearn("compare", whole, name, "--json"); code != cli.ExitFailed || !strings.Contains(errs, want) || !strings.Contains(out, `"ok":false`) {
			t.Errorf("%s: exit %d, %s%s", name, code, out, errs)
		}
	}
}

// Groups are called by their folders without their seeds.
func TestGroupNames(t *testing.T) {
	for want, dirs := range map[string][]string{
		"walk": {"a/walk-1", "b/walk-12"}, "ppo.x": {"ppo.x-seed3", "ppo.x-s4"}, "walk-1": {"walk-1"}, "E9": {"E9.1", "E9.2"},
		"r/one and 1 more": {"r/one", "r/two"}, "r/7 and 1 more": {"r/7", "r/8"},
	} {
		c := comparison{Groups: []*comparedGroup{{}}}
		for _, d := range dirs {
			c.Groups[0].runs = append(c.Groups[0].runs, &comparedRun{Run: d})
		}
		if c.nameGroups(); c.Groups[0].Name != want {
			t.Errorf("%v: %q, want %q", dirs, c.Groups[0].Name, want)
		}
	}
	c := comparison{Groups: []*comparedGroup{{runs: []*comparedRun{{Run: "a/x"}}}, {runs: []*comparedRun{{Run: "b/x"}}}}}
	if c.nameGroups(); c.Groups[0].Name != "a/x" || c.Groups[1].Name != "b/x" {
		t.Errorf("two of one name: %q, %q", c.Groups[0].Name, c.Groups[1].Name)
	}
}
