//go:build torch

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/learner/run"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

// Row 37 of the cases: a teacher that was trained on other observations than it would be shown is refused by the group and the term, from its
// file and from its run's folder, before a folder is made for the student.
func TestTeacherOfOtherWidthIsRefused(t *testing.T) {
	dir := t.TempDir()
	teacher := filepath.Join(dir, "teacher")
	trained(t, tiny(teacher, "--iterations", "5", "--set", "algo.net.group=critic")...)
	for _, file := range []string{teacher, filepath.Join(teacher, policyFile)} {
		student := filepath.Join(dir, "student")
		code, _, errs := clawlearn(tiny(student, "--iterations", "5", "--set", "algo.opd.teacher=privileged", "--set", "algo.opd.file="+file,
			"--set", "algo.opd.group=policy")...)
		if code == 0 || !strings.Contains(errs, "group policy: term base_lin_vel is not offered here") {
			t.Errorf("%s: exit %d: %s", file, code, errs)
		}
		if exists(student) {
			t.Errorf("%s: a folder was made", file)
		}
	}
}

// Row 40 of the cases: the same seed gives the same parameters in two builds of the program, one of them not optimised, and their hash is in
// the run's record; another seed gives others.
func TestOneSeedOneHash(t *testing.T) {
	dir := t.TempDir()
	args := func(name, seed string) []string {
		return tiny(filepath.Join(dir, name), "--deterministic", "--iterations", "30", "--seed", seed, "--preset", "ship")
	}
	first, other := trained(t, args("first", "7")...), trained(t, args("other", "8")...)
	const module = "github.com/openclaw-rl/openclaw/"
	program := filepath.Join(dir, "clawlearn")
	build := exec.Command("go", "build", "-tags", "torch", "-o", program, "-gcflags="+module+"learner/algo=-N -l", "-gcflags="+module+"learner/buffer=-N -l",
		"-gcflags="+module+"sim/task=-N -l", "-gcflags="+module+"agent/go1=-N -l", "./learner/cmd/clawlearn")
	build.Dir = contracttest.Root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(program, args("second", "7")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	second := resultOf(t, out)
	if len(first.Parameters) != 64 || second.Parameters != first.Parameters || second.Samples != first.Samples {
		t.Errorf("seed 7 in two builds: %+v and %+v", first, second)
	}
	if other.Parameters == first.Parameters {
		t.Error("seeds 7 and 8 give the same parameters")
	}
	for name, want := range map[string]string{"first": first.Parameters, "second": first.Parameters, "other": other.Parameters} {
		if got := recorded(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s: the record has %q, the run ended with %q", name, got, want)
		}
	}
}

// recorded is the hash of the parameters in the newest checkpoint of a run's folder.
func recorded(t *testing.T, dir string) string {
	t.Helper()
	f, err := run.Open(dir, run.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := f.Latest()
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Section(progressSection)
	if err != nil {
		t.Fatal(err)
	}
	var p progressState
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return p.Parameters
}

// Row 39 of the cases: a whole run, with its rows, evaluations, logs, curves, policy files and checkpoints, keeps its memory over 600
// iterations; OPENCLAW_SOAK=memory makes it 10 000.
func TestMemoryOfARunIsFlat(t *testing.T) {
	const warm = 300
	more := int64(600)
	if os.Getenv("OPENCLAW_SOAK") == "memory" {
		more = 10_000
	}
	cfg := tinyConfig(warm)
	cfg.Run.Seed = 3
	tr := newTrial(t, filepath.Join(t.TempDir(), "run"), io.Discard, cfg)
	if err := tr.openTrainer(tr.env); err != nil {
		t.Fatal(err)
	}
	defer tr.trainer.Close()
	// What files lie in memory, libraries' too, is the machine's affair: growth is counted in what is the process's own.
	resident := func() (all, own float64) {
		if err := tr.run(); err != nil {
			t.Fatal(err)
		}
		debug.FreeOSMemory()
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Skip(err)
		}
		kB := func(name string) (n float64) {
			_, rest, _ := strings.Cut(string(text), "\n"+name+":")
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatalf("%s in /proc/self/status: %v", name, err)
			}
			return n / 1e3
		}
		return kB("VmRSS"), kB("RssAnon")
	}
	all, before := resident()
	tr.cfg.Run.Iterations += more
	_, after := resident()
	if tr.result.Iterations != warm+more {
		t.Fatalf("%d iterations", tr.result.Iterations)
	}
	t.Logf("%.1f MB of its own, %.1f in all, after %d iterations, %.1f of its own after %d", before, all, warm, after, warm+more)
	if after-before > 0.02*all {
		t.Errorf("memory grew from %.1f to %.1f MB of %.1f", before, after, all)
	}
}
