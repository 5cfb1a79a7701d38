//go:build torch

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openclaw-rl/openclaw/learner/run"
	"github.com/openclaw-rl/openclaw/onnx/contract"
)

// asProgram is set where the test's own program is to be clawlearn: so that it can be killed.
const asProgram = "CLAWLEARN_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// tiny is a run whose iterations take milliseconds: few robots, small networks, evaluations that end soon.
func tiny(out string, more ...string) []string {
	args := []string{"train", "--out", out, "--json"}
	for _, set := range []string{"threads=1", "rows=8", "algo.steps=8", "algo.net.actor=[8]", "algo.net.critic=[8]", "algo.warm.rollouts=3",
		"algo.warm.batch=16", "eval.rows=6", "eval.seconds=1.2", "eval.every_steps=640", "keep.every_iterations=4"} {
		args = append(args, "--set", set)
	}
	return append(args, more...)
}

// trained runs a training in this process to its end.
func trained(t *testing.T, args ...string) trainResult {
	t.Helper()
	code, out, errs := clawlearn(args...)
	if code != 0 {
		t.Fatalf("%q: exit %d: %s", args, code, errs)
	}
	return resultOf(t, []byte(out))
}

func resultOf(t *testing.T, out []byte) (r trainResult) {
	t.Helper()
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	return r
}

// program is clawlearn as a process of its own. What it said is read after its end.
type program struct {
	*exec.Cmd
	out, errs bytes.Buffer
	ended     chan struct{}
	err       error // of the end
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.Env = append(os.Environ(), asProgram+"=1")
	p.Stdout, p.Stderr = &p.out, &p.errs
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
	})
	return p
}

// end waits for the program's end.
func (p *program) end() error {
	<-p.ended
	return p.err
}

// kill ends it by signal 9.
func (p *program) kill(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	if err := p.end(); err == nil || p.ProcessState.Exited() {
		t.Fatalf("it ended before it could be killed: %v: %s", err, p.errs.String())
	}
}

// logged are the lines of the run's metrics by iteration, without what clocks say.
func logged(t *testing.T, dir string) (all []map[string]any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		m := map[string]any{}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		for key := range m {
			if key == "time" || strings.HasPrefix(key, "Perf/") {
				delete(m, key)
			}
		}
		all = append(all, m)
	}
	return all
}

// until waits for what must come.
func until(t *testing.T, p *program, what string, is func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for !is() {
		select {
		case <-p.ended:
			t.Fatalf("%s: it ended: %s", what, p.errs.String())
		case <-late:
			t.Fatalf("%s: not within a minute", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// Killed after iteration k and resumed, as often as that happens, a deterministic run comes to the parameters and numbers of one that nobody
// disturbed, the schedule of a run of known length and a teacher that moves included (row 36 of the cases).
func TestKilledAndResumedIsExact(t *testing.T) {
	for _, async := range []string{"--async=false", "--async"} { // what was collected ahead is kept too
		t.Run(async, func(t *testing.T) { killedAndResumedIsExact(t, async) })
	}
}

func killedAndResumedIsExact(t *testing.T, async string) {
	const whole = 120
	length := []string{"--deterministic", async, "--preset", "ship", "--iterations", "120", "--seed", "3",
		"--set", "algo.opd.teacher=ema", "--set", "algo.opd.mix.end=0.2", "--set", "algo.opd.weight.end=0.1"}
	dir := t.TempDir()
	calm, killed := filepath.Join(dir, "calm"), filepath.Join(dir, "killed")
	want := trained(t, tiny(calm, length...)...)
	args := tiny(killed, length...)
	for _, k := range []int{2, 21, 90} { // before the first checkpoint, and a while after the last
		p := start(t, args...)
		until(t, p, "an iteration", func() bool { return len(logged(t, killed)) >= k })
		p.kill(t)
		t.Logf("killed at iteration %d", len(logged(t, killed)))
		args = []string{"train", "--out", killed, "--resume", "--json"}
	}
	got := trained(t, args...)
	if got.Iterations != whole || got.Parameters != want.Parameters || got.Seed != 3 || got.Preset != "ship" || got.Samples != want.Samples {
		t.Errorf("resumed: %+v\nundisturbed: %+v", got, want)
	}
	if diff := cmp.Diff(want.Best, got.Best); diff != "" {
		t.Errorf("best: %s", diff)
	}
	if diff := cmp.Diff(logged(t, calm), logged(t, killed)); diff != "" || len(logged(t, calm)) != whole {
		t.Errorf("metrics: %s", diff)
	}
	var meta run.Meta
	data, err := os.ReadFile(filepath.Join(killed, "meta.json"))
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	if err != nil || meta.Seeds["run"] != 3 || len(meta.Resumed) != 3 || meta.Resumed[2].Seeds["run"] != 3 {
		t.Errorf("meta.json: %v, seeds %v, resumed %d times", err, meta.Seeds, len(meta.Resumed))
	}
}

// Killed ten times at random moments a run leaves no broken file, and goes on.
func TestKilledTenTimes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	policies, last := 0, int64(0)
	for kill := range 10 {
		args := tiny(dir, "--set", "keep.every_iterations=1", "--set", "eval.every_steps=64")
		if _, err := os.Stat(filepath.Join(dir, "meta.json")); err == nil {
			args = []string{"train", "--out", dir, "--resume"}
		}
		before := len(logged(t, dir))
		p := start(t, args...)
		if kill%3 > 0 { // else wherever it is, perhaps at its start
			until(t, p, "an iteration", func() bool { return len(logged(t, dir)) > before })
		}
		time.Sleep(rand.N(250 * time.Millisecond))
		p.kill(t)
		path := filepath.Join(dir, policyFile)
		if _, err := os.Stat(path); err == nil {
			policies++
			if f, err := contract.Load(path); err != nil || f.Contract.Training.Run != "run" {
				t.Errorf("kill %d: %v", kill, err)
			}
		}
		f, err := run.Open(dir, run.Meta{})
		if errors.Is(err, run.ErrNoRun) {
			continue
		}
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if len(f.Skipped) > 0 {
			t.Errorf("kill %d: %v", kill, f.Skipped)
		}
		if c, err := f.Latest(); err == nil {
			if c.Iteration < last {
				t.Errorf("kill %d: the newest checkpoint is of iteration %d, once it was %d", kill, c.Iteration, last)
			}
			last = c.Iteration
		}
		if _, err := f.Best(); err != nil && !errors.Is(err, run.ErrNoCheckpoint) {
			t.Errorf("kill %d: %v", kill, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := trained(t, "train", "--out", dir, "--resume", "--json", "--iterations", fmt.Sprint(last+5))
	t.Logf("%d iterations; after %d kills there was a policy", got.Iterations, policies)
	if got.Iterations != last+5 || got.Policy != filepath.Join(dir, policyFile) {
		t.Errorf("%+v", got)
	}
	for i, m := range logged(t, dir) {
		if m["iteration"] != float64(i+1) {
			t.Fatalf("line %d of the metrics is of iteration %v", i+1, m["iteration"])
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}
