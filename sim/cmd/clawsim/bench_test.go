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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
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

// counted steps a world without bench and counts what bench says of it: 50 control steps to warm up, then steps.
func counted(t *testing.T, physics, world string, policy rollout.Policy, rows, steps int) (fell, timedOut, feet float64) {
	t.Helper()
	cfg := mujoco.DefaultEnvConfig(task.WalkSpec())
	model, params, err := mujoco.ByPhysics(physics)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.World, err = loadWorld(world); err != nil {
		t.Fatal(err)
	}
	if cfg.Model, err = mujoco.Load(model); err != nil {
		t.Fatal(err)
	}
	defer cfg.Model.Close()
	cfg.Params, cfg.Seed, cfg.Rows = params, 1, rows
	env, err := mujoco.NewEnv(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	step := 0
	err = rollout.Run(t.Context(), []rollout.Env{env}, policy, rollout.SinkFunc(
		func(_ int, _ *rollout.Step, _ *rollout.Decision, after *rollout.Step) error {
			if step++; step <= 50 {
				return nil
			}
			for row := range rows {
				switch {
				case after.Terminated[row]:
					fell++
				case after.TimedOut[row]:
					timedOut++
				}
				for _, p := range env.State(row).FootPos {
					if p[2] < go1.FootRadius {
						feet++
					}
				}
			}
			if step == 50+steps {
				return rollout.ErrStop
			}
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	return fell, timedOut, feet
}

func TestBenchFigures(t *testing.T) {
	const rows, steps, threads = 8, 200, 2
	cpu, begin := cpuTime(), time.Now()
	m := benchJSON(t, "--rows", "8", "--steps", "200", "--threads", "2")
	wall := time.Since(begin).Seconds()
	cpu = cpuTime() - cpu
	for key, want := range map[string]float64{"rows": rows, "threads": threads, "steps": steps, "seed": 1, "physics_bad": 0} {
		if got := number(t, m, key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	// What the test saw of the whole bounds every part.
	seconds := number(t, m, "seconds")
	if !(seconds > 0 && seconds <= wall) {
		t.Errorf("%v s by the clock, the whole program took %v", seconds, wall)
	}
	if got := number(t, m, "steps_per_s"); got < rows*steps/wall {
		t.Errorf("%v steps/s: %d steps took at most %v s", got, rows*steps, wall)
	}
	if got := number(t, m, "cpu_us_per_step") * rows * steps / 1e6; !(got > 0 && got <= cpu.Seconds()) {
		t.Errorf("%v s of processors, the whole program took %v", got, cpu)
	}
	physics, around, policy := number(t, m, "physics_us_per_step"), number(t, m, "around_us_per_step"), number(t, m, "policy_us_per_step")
	if !(physics > 0 && around > 0 && policy > 0 && policy*rows*steps/1e6 <= wall-seconds) {
		t.Errorf("physics %v us, around %v us, policy %v us", physics, around, policy)
	}
	// The threads work within Step, which the clock reads from outside.
	if all := threads * seconds * 1e6 / (rows * steps); physics+around > all {
		t.Errorf("physics and around are %v us, two threads had %v", physics+around, all)
	}
	// The runtime allocates now and then; the steps do not.
	if got := number(t, m, "allocs_per_step"); got >= 1 {
		t.Errorf("%v objects allocated a step", got)
	}
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	if rss, now, most := number(t, m, "rss_mb"), number(t, m, "rss_now_mb"), float64(u.Maxrss)/1024; rss < now || now < 1 || rss > most+1 {
		t.Errorf("peak memory %v MiB, now %v; the process had at most %v", rss, now, most)
	}
	_, _, feet := counted(t, "lean", "walk", zeroPolicy{}, rows, steps)
	if c := number(t, m, "contacts"); c != feet/(rows*steps) || c < 3 || c > 4 {
		t.Errorf("robots that stand have %v feet down, counted %v", c, feet/(rows*steps))
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

// The same work whatever the time it takes, so that two programs can be compared by it: the episodes that end after a warm-up that
// is always as long, on any number of threads.
func TestBenchCountsEpisodes(t *testing.T) {
	for _, c := range []struct {
		policy, physics, world, threads string
		acts                            rollout.Policy
		steps                           int
		least                           float64 // episodes, for there to be something to count
	}{
		{"zero", "peer", worldPeer, "2", zeroPolicy{}, 1000, 4},
		{"zero", "peer", worldPeer, "1", zeroPolicy{}, 1000, 4},
		{"random", "lean", "walk", "2", newRandomPolicy(1, 4), 200, 1},
	} {
		m := benchJSON(t, "--rows", "4", "--steps", strconv.Itoa(c.steps), "--policy", c.policy, "--physics", c.physics, "--world", c.world,
			"--threads", c.threads)
		fell, timedOut, feet := counted(t, c.physics, c.world, c.acts, 4, c.steps)
		for key, want := range map[string]float64{"fell": fell, "timed_out": timedOut, "ended": fell + timedOut, "contacts": feet / float64(4*c.steps)} {
			if got := number(t, m, key); got != want {
				t.Errorf("%s on %s threads: %s is %v, counted %v", c.policy, c.threads, key, got, want)
			}
		}
		if fell+timedOut < c.least {
			t.Errorf("%s: %v episodes ended, want at least %v", c.policy, fell+timedOut, c.least)
		}
	}
}

// On a machine that needs long for a few steps the warm-up of --seconds is short, that of --steps is not.
func TestBenchWarmsUp(t *testing.T) {
	r := newBenchRun(t, zeroPolicy{})
	for _, c := range []struct {
		all   bool
		steps int
	}{{true, benchWarmSteps}, {false, benchWarmAtLeast}} {
		r.steps, r.actTime = 0, time.Hour
		if err := r.warm(t.Context(), c.all); err != nil || r.steps != c.steps {
			t.Errorf("all %v: %d steps, %v; want %d", c.all, r.steps, err, c.steps)
		}
	}
}

// newBenchRun is a measurement of one row that stands.
func newBenchRun(t *testing.T, policy rollout.Policy) *benchRun {
	t.Helper()
	env := standingEnv(t, 1)
	spec := env.Spec()
	r := &benchRun{env: env, spec: spec, policy: policy, before: rollout.NewStep(spec), after: rollout.NewStep(spec),
		decision: rollout.NewDecision(spec), ended: make([]int, 0, 1)}
	if err := env.Reset(t.Context(), nil, r.before); err != nil {
		t.Fatal(err)
	}
	return r
}

// wasteful allocates in every second step.
type wasteful struct {
	zeroPolicy
	steps int
	waste *[64]byte
}

func (p *wasteful) Act(step *rollout.Step, out *rollout.Decision) error {
	if p.steps++; p.steps%2 == 0 {
		p.waste = new([64]byte)
	}
	return p.zeroPolicy.Act(step, out)
}

// One object in two steps is told: half an object a step.
func TestBenchCountsAllocations(t *testing.T) {
	r := newBenchRun(t, &wasteful{})
	if err := r.run(t.Context(), &benchFlags{steps: 1000}, newBenchBar(io.Discard, 1)); err != nil {
		t.Fatal(err)
	}
	if got := r.allocsPerStep(); got < 0.5 || got >= 1 { // with the runtime's own
		t.Errorf("%v objects a step, want 0.5 and hardly more", got)
	}
	var out strings.Builder
	report := &benchReport{figures: []benchFigures{{Rows: 1, Steps: 1, AllocsPerStep: 0.51}}}
	for _, sweep := range []bool{false, true} {
		out.Reset()
		if err := report.print(&out, sweep, false); err != nil || !strings.Contains(out.String(), "0.51") {
			t.Errorf("sweep %v: %v; no 0.51 in:\n%s", sweep, err, out.String())
		}
	}
}

// --seconds measures at least as long.
func TestBenchSeconds(t *testing.T) {
	m := benchJSON(t, "--rows", "2", "--seconds", "0.05")
	if seconds, steps := number(t, m, "seconds"), number(t, m, "steps"); seconds < 0.05 || steps < 1 {
		t.Errorf("%v steps in %v s, want 0.05 s or a little more", steps, seconds)
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
	code, out, errs := bench(t.Context(), "--rows", "2", "--steps", "20")
	if code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"control steps/s", "2 on", "lean: 4 x 5 ms, newton", "walk, seed 1", "MiB", " a step of all rows", "of 4", "episodes",
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
