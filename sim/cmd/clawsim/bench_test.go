package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// worldPeer is the world in which clawsim is compared with EnvPool.
const worldPeer = "../../peers/world_peer.json"

// bench runs `clawsim bench` in process; ctx ends it.
func bench(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	root := &cobra.Command{Use: "clawsim"}
	root.SetContext(ctx)
	root.AddCommand(newBenchCommand())
	var out, errs bytes.Buffer
	code = cli.Run(root, append([]string{"bench"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// benchJSON runs it with --json and reads its last line.
func benchJSON(t *testing.T, args ...string) map[string]any {
	t.Helper()
	code, out, errs := bench(t.Context(), append(args, "--json")...)
	if code != 0 {
		t.Fatalf("bench %q: exit %d: %s", args, code, errs)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		t.Fatalf("bench %q: %q: %v", args, out, err)
	}
	return m
}

// number is m[key], which must be a finite number.
func number(t *testing.T, m map[string]any, key string) float64 {
	t.Helper()
	v, ok := m[key].(float64)
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		t.Fatalf("%s is %v, want a number", key, m[key])
	}
	return v
}

func TestBenchFigures(t *testing.T) {
	m := benchJSON(t, "--rows", "8", "--steps", "200", "--threads", "2")
	for key, want := range map[string]float64{"rows": 8, "threads": 2, "steps": 200, "seed": 1, "allocs_per_step": 0, "physics_bad": 0} {
		if got := number(t, m, key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	for _, key := range []string{"steps_per_s",
		"physics_us_per_step", "around_us_per_step", "cpu_us_per_step", "seconds", "rss_mb", "rss_now_mb"} {
		if number(t, m, key) <= 0 {
			t.Errorf("%s is %v, want more than 0", key, m[key])
		}
	}
	if got := number(t, m, "steps_per_s") * number(t, m, "seconds"); math.Abs(got-1600) > 1e-6 {
		t.Errorf("steps_per_s x seconds is %v, want 8 rows x 200 steps", got)
	}
	// The parts are the threads' time, less what the clock read a little earlier or later.
	parts := number(t, m, "physics_us_per_step") + number(t, m, "around_us_per_step") + number(t, m, "waiting_us_per_step")
	if all := 2e6 / number(t, m, "steps_per_s"); parts < 0.999*all {
		t.Errorf("physics, around and waiting are %v us, two threads had %v", parts, all)
	}
	if rss, now := number(t, m, "rss_mb"), number(t, m, "rss_now_mb"); rss < now || rss > 1024 {
		t.Errorf("peak memory %v MiB, now %v", rss, now)
	}
	if c := number(t, m, "contacts"); c < 3 || c > 4 {
		t.Errorf("robots that stand have %v feet down", c)
	}
	if m["policy"] != "zero" || m["physics"] != "lean" || m["world_name"] != "walk" {
		t.Errorf("policy %v, physics %v, world %v", m["policy"], m["physics"], m["world_name"])
	}
	settings := m["settings"].(map[string]any)
	for key, want := range map[string]float64{"timestep_s": 0.005, "substeps": 4, "iterations": 1, "ls_iterations": 5, "colliding_geoms": 4,
		"kp": 35, "kd": 0.5, "observations": 47 + 63} {
		if got := number(t, settings, key); got != want {
			t.Errorf("settings: %s is %v, want %v", key, got, want)
		}
	}
	data, err := json.Marshal(m["world"])
	if err != nil {
		t.Fatal(err)
	}
	if w, err := task.DecodeWorld(data); err != nil || *w != *task.Walk() {
		t.Errorf("the world it prints is not the one it named: %v", err)
	}
}

// The same work whatever the time it takes, so that two programs can be compared by it.
func TestBenchCountsEpisodes(t *testing.T) {
	m := benchJSON(t, "--rows", "4", "--steps", "1000", "--physics", "peer", "--world", worldPeer)
	ended, fell, timedOut := number(t, m, "ended"), number(t, m, "fell"), number(t, m, "timed_out")
	if ended != fell+timedOut || ended < 4 {
		t.Errorf("%v episodes ended, %v fell, %v timed out; want one at least of each of 4 rows", ended, fell, timedOut)
	}
	again := benchJSON(t, "--rows", "4", "--steps", "1000", "--physics", "peer", "--world", worldPeer, "--threads", "1")
	for _, key := range []string{"ended", "fell", "contacts"} {
		if m[key] != again[key] {
			t.Errorf("%s is %v, on one thread %v", key, m[key], again[key])
		}
	}
	if random := benchJSON(t, "--rows", "4", "--steps", "200", "--policy", "random"); number(t, random, "fell") == 0 {
		t.Errorf("random actions do not fall: %v", random)
	}
}

// A policy's contract gets the critic's group, which training needs, and the policy still finds its own.
func TestBenchPolicy(t *testing.T) {
	path := contracttest.Policy(t, "go1_policy.onnx")
	m := benchJSON(t, "--rows", "4", "--steps", "100", "--physics", "peer", "--world", worldPeer, "--policy", path)
	if c := number(t, m, "contacts"); c < 1 || c > 3.5 {
		t.Errorf("a trot has %v feet down", c)
	}
	if number(t, m, "policy_us_per_step") <= 0 || m["policy"] != "go1_policy.onnx" {
		t.Errorf("policy %v took %v us", m["policy"], m["policy_us_per_step"])
	}
	settings := m["settings"].(map[string]any)
	if got := number(t, settings, "observations"); got != 48+61 {
		t.Errorf("%v numbers observed, want 48 and the critic's 63 without a clock", got)
	}
	if hash, _ := settings["policy_sha256"].(string); len(hash) != 64 {
		t.Errorf("policy_sha256 is %q", hash)
	}
}

func TestBenchSweep(t *testing.T) {
	rows := benchSweepRows
	defer func() { benchSweepRows = rows }()
	benchSweepRows = []int{1, 4}
	m := benchJSON(t, "--sweep", "--threads", "2", "--steps", "20")
	var got [][2]float64
	for _, entry := range m["sweep"].([]any) {
		e := entry.(map[string]any)
		got = append(got, [2]float64{number(t, e, "rows"), number(t, e, "threads")})
	}
	if want := [][2]float64{{1, 1}, {1, 1}, {4, 1}, {4, 2}}; !slices.Equal(got, want) { // one row takes one thread
		t.Errorf("rows and threads %v, want %v", got, want)
	}
	code, out, errs := bench(t.Context(), "--sweep", "--threads", "2", "--steps", "20")
	if code != 0 || len(strings.Split(strings.TrimSpace(out), "\n")) != 2+1+1+4 {
		t.Errorf("exit %d, %s; want two lines about it and a table of four:\n%s", code, errs, out)
	}
	if got := sweepThreads(6); !slices.Equal(got, []int{1, 2, 4, 6}) {
		t.Errorf("a sweep to 6 threads: %v", got)
	}
}

func TestBenchPrintsATable(t *testing.T) {
	code, out, errs := bench(t.Context(), "--rows", "2", "--seconds", "0.05")
	if code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"control steps/s", "2 on", "lean: 4 x 5 ms, newton", "walk, seed 1", "MiB", "0 a step", "of 4", "episodes",
		"around", "waiting", "not counted above"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, out, errs := bench(ctx, "--rows", "2", "--seconds", "3600")
	if code != cli.ExitFailed || !strings.Contains(errs, "interrupted") || out != "" {
		t.Errorf("exit %d; %q; %q", code, out, errs)
	}
}

func TestBenchBarIsForTerminals(t *testing.T) {
	b := newBenchBar(io.Discard, 2)
	b.show(0.5)
	b.next()
	b.finish()
	if b.bar != nil {
		t.Error("a bar where nobody watches")
	}
}

func TestBenchRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	data, err := os.ReadFile(worldPeer)
	if err != nil {
		t.Fatal(err)
	}
	late := file("late.json", strings.Replace(string(data), `"joint_zero": 0,`, `"joint_zero": 7,`, 1))
	short := file("short.json", "{}")
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"no rows", []string{"--rows", "0"}, cli.ExitUsage, []string{"--rows 0", "8192"}},
		{"too many rows", []string{"--rows", "8193"}, cli.ExitUsage, []string{"--rows 8193"}},
		{"rows in words", []string{"--rows", "many"}, cli.ExitUsage, []string{"rows", "many"}},
		{"no threads", []string{"--threads", "0"}, cli.ExitUsage, []string{"--threads 0"}},
		{"too many threads", []string{"--threads", "1025"}, cli.ExitUsage, []string{"--threads 1025"}},
		{"no time", []string{"--seconds", "0"}, cli.ExitUsage, []string{"--seconds 0"}},
		{"NaN time", []string{"--seconds", "NaN"}, cli.ExitUsage, []string{"--seconds NaN"}},
		{"endless", []string{"--seconds", "1e9"}, cli.ExitUsage, []string{"--seconds", "3600"}},
		{"no steps", []string{"--steps", "0"}, cli.ExitUsage, []string{"--steps 0"}},
		{"both lengths", []string{"--steps", "5", "--seconds", "5"}, cli.ExitUsage, []string{"--steps", "--seconds"}},
		{"rows of a sweep", []string{"--sweep", "--rows", "5"}, cli.ExitUsage, []string{"--sweep", "64, 256, 1024, 4096, 8192"}},
		{"unknown physics", []string{"--physics", "real"}, cli.ExitUsage, []string{`--physics "real"`, "lean"}},
		{"unknown world", []string{"--world", "moon"}, cli.ExitUsage, []string{`--world "moon"`, "walk"}},
		{"a world that lacks all", []string{"--world", short}, cli.ExitFailed, []string{short, "commands"}},
		{"a world out of range", []string{"--world", late}, cli.ExitFailed, []string{late, "vary.joint_zero"}},
		{"a folder as world", []string{"--world", dir}, cli.ExitFailed, []string{dir}},
		{"no policy", []string{"--policy", ""}, cli.ExitUsage, []string{"--policy"}},
		{"no such policy", []string{"--policy", filepath.Join(dir, "none.onnx")}, cli.ExitFailed, []string{"none.onnx", "no such file"}},
		{"not ONNX", []string{"--policy", short}, cli.ExitFailed, []string{short}},
		{"unknown flag", []string{"--robots", "3"}, cli.ExitUsage, []string{"robots"}},
		{"an argument", []string{"policy.onnx"}, cli.ExitUsage, []string{"policy.onnx"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := bench(t.Context(), c.args...)
			if code != c.code || out != "" {
				t.Errorf("exit %d, want %d; stdout %q", code, c.code, out)
			}
			for _, want := range c.says {
				if !strings.Contains(errs, want) {
					t.Errorf("%q should say %q", errs, want)
				}
			}
		})
	}
}
