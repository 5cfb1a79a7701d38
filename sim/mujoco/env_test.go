package mujoco

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/rollout/rollouttest"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// envConfig is a small Env on a shared model.
func envConfig(t testing.TB, rows, threads int) EnvConfig {
	t.Helper()
	cfg := DefaultEnvConfig(task.DefaultSpec())
	cfg.Model = loadFull(t)
	cfg.Rows, cfg.Threads = rows, threads
	cfg.World.Start = task.Start{Joint: 0.05, Velocity: 0.2}
	cfg.World.Commands = task.Commands{Min: [3]float32{-1, -0.5, -1}, Max: [3]float32{1, 0.5, 1}, EverySeconds: [2]float64{0.04, 0.1}, ZeroShare: 0.1}
	return cfg
}

func openEnv(t testing.TB, cfg EnvConfig) *Env {
	t.Helper()
	e, err := NewEnv(cfg)
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

// onItsBack turns a row over; the next Step sees it.
func onItsBack(e *Env, row int) error {
	pose := HomePose()
	pose.Quat = [4]float64{0, 1, 0, 0}
	return e.batch.Reset([]int{row}, []Pose{pose})
}

// conform runs the conformance suite on Envs of a configuration.
func conform(t *testing.T, config func(t testing.TB, rows, threads int) EnvConfig) {
	rollouttest.Run(t, rollouttest.Harness{
		New: func(t testing.TB, o rollouttest.Options) rollout.Env {
			cfg := config(t, o.Rows, o.Threads)
			cfg.Seed = o.Seed
			cfg.World.EpisodeSeconds = float64(o.EpisodeSteps) * 0.02
			for g := range cfg.Spec.Groups {
				for i := range cfg.Spec.Groups[g].Terms {
					cfg.Spec.Groups[g].Terms[i].History = o.History
				}
			}
			e, err := NewEnv(cfg)
			must(t, err)
			return e
		},
		Fall: func(env rollout.Env, row int) {
			must(t, onItsBack(env.(*Env), row))
		},
		EpisodeSteps: 8,
	})
}

func TestConformance(t *testing.T) { conform(t, envConfig) }

// The training Env: everything varies, the critic sees the truth beside the policy's noise.
func TestConformanceLean(t *testing.T) {
	for _, name := range []string{"walk", "ship"} {
		t.Run(name, func(t *testing.T) {
			conform(t, func(t testing.TB, rows, threads int) EnvConfig {
				cfg := trainConfig(t, name, rows, threads)
				cfg.World.Stagger = false // the suite counts an episode's steps
				return cfg
			})
		})
	}
}

// trainConfig is what training opens.
func trainConfig(t testing.TB, world string, rows, threads int) EnvConfig {
	t.Helper()
	cfg := DefaultEnvConfig(task.WalkSpec())
	cfg.Model = loadLean(t)
	cfg.Rows, cfg.Threads = rows, threads
	var err error
	cfg.World, err = task.WorldByName(world)
	must(t, err)
	return cfg
}

func loadLean(t testing.TB) *Model {
	t.Helper()
	m, err := Load(Lean)
	must(t, err)
	t.Cleanup(m.Close)
	return m
}

// steps drives an Env by made-up actions that depend on the step and on a row's
// number, counted from first, and gives all the bits that rows show.
func steps(t *testing.T, e *Env, first, n int) (seen [][]float32) {
	t.Helper()
	ctx := context.Background()
	out := rollout.NewStep(e.Spec())
	must(t, e.Reset(ctx, nil, out))
	rows := e.Spec().Rows
	seen = make([][]float32, rows)
	action := make([]float32, rows*go1.Joints)
	for step := range n {
		for row := range rows {
			for k := range go1.Joints {
				action[row*go1.Joints+k] = 0.8 * float32(math.Sin(0.3*float64(step)+float64((first+row)*5+k)))
			}
		}
		must(t, e.Step(ctx, action, out))
		for row := range rows {
			show := func(v []float32) { seen[row] = append(seen[row], part(v, rows, row)...) }
			flag := func(v []bool) {
				x := float32(0)
				if v[row] {
					x = 1
				}
				seen[row] = append(seen[row], x)
			}
			for g := range out.Obs {
				show(out.Obs[g])
				if out.Ended(row) {
					show(out.Final[g])
				}
			}
			show(out.Metrics)
			show(out.Executed)
			show(out.Reward)
			flag(out.Terminated)
			flag(out.TimedOut)
		}
	}
	return seen
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// A row does the same on one thread and two, alone and among 64, with time-outs,
// new commands and a fault that draws random numbers in between.
func TestRowsAreIndependentBitForBit(t *testing.T) {
	const rows, n = 64, 60
	config := func(rows, threads int) EnvConfig {
		cfg := envConfig(t, rows, threads)
		cfg.Seed, cfg.World.EpisodeSeconds = 3, 0.7
		cfg.Fault = task.Fault{LinVelNoise: 0.3, TargetLoss: 0.1, TargetDelay: 1}
		return cfg
	}
	one := steps(t, openEnv(t, config(rows, 1)), 0, n)
	two := steps(t, openEnv(t, config(rows, 2)), 0, n)
	for row := range rows {
		if !sameBits(one[row], two[row]) {
			t.Fatalf("row %d differs between one thread and two", row)
		}
	}
	for _, row := range []int{0, 17, 63} {
		cfg := config(1, 1)
		cfg.FirstRow = row
		if alone := steps(t, openEnv(t, cfg), row, n); !sameBits(alone[0], one[row]) {
			t.Fatalf("row %d differs alone and among %d", row, rows)
		}
	}
	if sameBits(one[0], one[1]) {
		t.Fatal("rows 0 and 1 are copies of each other")
	}
}

// The same for the training Env, with all that varies in it: alone or among 4096.
func TestTrainingRowsAreIndependentBitForBit(t *testing.T) {
	const rows, n = 4096, 15
	config := func(rows, threads int) EnvConfig {
		cfg := trainConfig(t, "ship", rows, threads)
		cfg.Seed, cfg.World.EpisodeSeconds, cfg.World.Pushes.EverySeconds = 3, 0.2, [2]float64{0.06, 0.1}
		return cfg
	}
	one := steps(t, openEnv(t, config(rows, 1)), 0, n)
	two := steps(t, openEnv(t, config(rows, 2)), 0, n)
	for row := range rows {
		if !sameBits(one[row], two[row]) {
			t.Fatalf("row %d differs between one thread and two", row)
		}
	}
	for _, row := range []int{0, 31, 32, 2047, 4095} {
		cfg := config(1, 1)
		cfg.FirstRow = row
		if alone := steps(t, openEnv(t, cfg), row, n); !sameBits(alone[0], one[row]) {
			t.Fatalf("row %d differs alone and among %d", row, rows)
		}
	}
}

// The robot's own Env and this one show the same numbers for the same moment.
func TestFirstObservation(t *testing.T) {
	cfg := envConfig(t, 1, 1)
	cfg.World.Start, cfg.World.Commands = task.Start{}, task.Fixed(0.5, 0.1, -0.2)
	e := openEnv(t, cfg)
	out := rollout.NewStep(e.Spec())
	must(t, e.Reset(context.Background(), nil, out))
	want := make([]float32, 48)
	want[8] = -1
	copy(want[45:], []float32{0.5, 0.1, -0.2})
	for i, x := range out.Obs[0] {
		if math.Abs(float64(x-want[i])) > 1e-6 {
			t.Errorf("obs[%d] is %v, want %v", i, x, want[i])
		}
	}
	if h := out.Metrics[task.Height]; math.Abs(float64(h)-HomePose().Position[2]) > 0.001 {
		t.Errorf("starts at %v m, HomePose is at %v", h, HomePose().Position[2])
	}
}

// The observed velocity is that of the IMU's place, not of the trunk's origin.
func TestVelocityIsTheIMUs(t *testing.T) {
	cfg := envConfig(t, 1, 1)
	cfg.World.Start = task.Start{}
	e := openEnv(t, cfg)
	out := rollout.NewStep(e.Spec())
	must(t, e.Reset(context.Background(), nil, out))
	must(t, e.batch.Edit(0, func(s *Sim) error { return s.SetVelocity([3]float64{0.3, 0, 0}, [3]float64{0, 0, 2}) }))
	e.observe(0, out.Obs)
	p := go1.IMUPosition
	want := [3]float64{0.3 - 2*p[1], 2 * p[0], 0}
	for i, w := range want {
		if got := float64(out.Obs[0][i]); math.Abs(got-w) > 1e-6 {
			t.Errorf("base_lin_vel[%d] is %v, want %v", i, got, w)
		}
	}
}

// A row whose physics went bad is Terminated, masked and counted; the others and
// its own next episode are not touched.
func TestPhysicsGoneBadEndsTheRowAlone(t *testing.T) {
	e := openEnv(t, envConfig(t, 3, 2))
	spec := e.Spec()
	ctx := context.Background()
	out := rollout.NewStep(spec)
	action := make([]float32, 3*go1.Joints)
	must(t, e.Reset(ctx, nil, out))
	must(t, e.Step(ctx, action, out))
	must(t, e.batch.Edit(1, func(s *Sim) error { return s.SetVelocity([3]float64{1e12, 0, 0}, [3]float64{}) }))
	must(t, e.Step(ctx, action, out))
	k := len(spec.Metrics)
	for row := range 3 {
		bad := row == 1
		if out.Terminated[row] != bad || out.TimedOut[row] {
			t.Errorf("row %d: Terminated %v, TimedOut %v", row, out.Terminated[row], out.TimedOut[row])
		}
		if got := out.Metrics[row*k+task.Bad]; (got == 1) != bad {
			t.Errorf("row %d: physics_bad is %v", row, got)
		}
	}
	if out.Reward[1] != 0 || slices.ContainsFunc(out.Metrics[k:k+task.Bad], func(x float32) bool { return x != 0 }) {
		t.Errorf("not masked: reward %v, metrics %v", out.Reward[1], out.Metrics[k:2*k])
	}
	for _, v := range [][]float32{out.Obs[0], out.Final[0][48:96]} {
		for i, x := range v {
			if x-x != 0 {
				t.Fatalf("observation %d is %v", i, x)
			}
		}
	}
	if e.BadRows() != 1 {
		t.Errorf("%d bad rows counted, want 1", e.BadRows())
	}
	must(t, e.Step(ctx, action, out))
	if out.Terminated[1] || out.Metrics[k+task.Bad] != 0 {
		t.Errorf("the new episode is bad, too")
	}
}

// The contract's gains, and a fault's, are what the motors work with.
func TestGainsAndFaultsReachTheMotors(t *testing.T) {
	cfg := envConfig(t, 2, 1)
	cfg.Spec.Kp[4], cfg.Spec.Kd[4] = 50, 1.5 // FL thigh
	e := openEnv(t, cfg)
	must(t, e.Reset(context.Background(), nil, rollout.NewStep(e.Spec())))
	if c := e.cmds[1]; c.Kp[4] != 50 || c.Kd[4] != 1.5 || c.Kp[3] != 35 || c.Kd[3] != 0.5 {
		t.Errorf("gains %v %v", c.Kp, c.Kd)
	}
	cfg.Fault = task.Fault{Kp: 20, ActionScale: 2}
	e = openEnv(t, cfg)
	ctx := context.Background()
	out := rollout.NewStep(e.Spec())
	must(t, e.Reset(ctx, nil, out))
	action := make([]float32, 2*go1.Joints)
	action[4], action[5] = 0.5, -3 // the last is clipped to -1
	must(t, e.Step(ctx, action, out))
	c := e.cmds[0]
	if c.Kp[4] != 20 || c.Kd[4] != 1.5 {
		t.Errorf("with the fault kp %v, kd %v", c.Kp[4], c.Kd[4])
	}
	if got, want := c.Q[4], 0.9+0.5*2*0.5; math.Abs(got-want) > 1e-6 {
		t.Errorf("target %v, want %v", got, want)
	}
	if got, want := c.Q[5], -1.8-0.5*2*1; math.Abs(got-want) > 1e-6 {
		t.Errorf("clipped target %v, want %v", got, want)
	}
	if math.Abs(float64(out.Executed[4]-1)) > 1e-6 || math.Abs(float64(out.Executed[5]+2)) > 1e-6 || out.Executed[0] != 0 {
		t.Errorf("executed %v", out.Executed[:12])
	}
	if obs := out.Obs[0][33:45]; obs[4] != 0.5 || obs[5] != -1 {
		t.Errorf("previous action is shown as %v", obs)
	}
}

// An action as large as a float32 moves joints to their limits, no more.
func TestHugeActionsStayFinite(t *testing.T) {
	cfg := envConfig(t, 1, 1)
	cfg.Spec.Action.Clip = nil
	e := openEnv(t, cfg)
	ctx := context.Background()
	out := rollout.NewStep(e.Spec())
	must(t, e.Reset(ctx, nil, out))
	action := make([]float32, go1.Joints)
	for step := range 20 {
		for i := range action {
			action[i] = math.MaxFloat32 * float32(1-2*((i+step)%2))
		}
		must(t, e.Step(ctx, action, out))
		for what, v := range map[string][]float32{"obs": out.Obs[0], "metrics": out.Metrics, "reward": out.Reward} {
			for i, x := range v {
				if x-x != 0 {
					t.Fatalf("step %d: %s[%d] is %v", step, what, i, x)
				}
			}
		}
	}
}

func TestPolicyPeriodsAndEpisodesAreWholeSteps(t *testing.T) {
	cfg := envConfig(t, 1, 1)
	cfg.World.EpisodeSeconds = 0.05
	if _, err := NewEnv(cfg); err == nil || !strings.Contains(err.Error(), "an episode of 0.05 s") {
		t.Errorf("error %v", err)
	}
	cfg.World.EpisodeSeconds, cfg.Spec.PolicyPeriodNs = 0, 30e6
	e := openEnv(t, cfg)
	if e.substeps != 15 || e.Spec().ControlPeriodNs != 2e6 {
		t.Errorf("%d substeps of %d ns", e.substeps, e.Spec().ControlPeriodNs)
	}
}

func TestBadConfigurationsAreNamed(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		says  string
		spoil func(*EnvConfig)
	}{
		{"Spec", func(c *EnvConfig) { c.Spec = nil }},
		{"kp of FR_hip_joint", func(c *EnvConfig) { c.Spec.Kp[0] = 1 }},
		{"unitree-go2", func(c *EnvConfig) { c.Spec.Robot = "unitree-go2" }},
		{"term altitude", func(c *EnvConfig) { c.Spec.Groups[0].Terms[0].Name = "altitude" }},
		{"group critic, term mood", func(c *EnvConfig) {
			c.Spec.Groups = append(c.Spec.Groups, rollout.Group{Name: "critic", Layout: rollout.ByTerm,
				Terms: []rollout.Term{{Name: "mood", Size: 1, Scale: 1, History: 1}}})
		}},
		{"0 rows", func(c *EnvConfig) { c.Rows = 0 }},
		{"rows", func(c *EnvConfig) { c.Rows = MaxRows + 1 }},
		{"0 threads", func(c *EnvConfig) { c.Threads = 0 }},
		{"FirstRow", func(c *EnvConfig) { c.FirstRow = -1 }},
		{"episode_seconds", func(c *EnvConfig) { c.World.EpisodeSeconds = nan }},
		{"start.joint", func(c *EnvConfig) { c.World.Start.Joint = -1 }},
		{"start.velocity", func(c *EnvConfig) { c.World.Start.Velocity = math.Inf(1) }},
		{"command vy", func(c *EnvConfig) { c.World.Commands.Min[1] = float32(nan) }},
		{"knee", func(c *EnvConfig) { c.World.Falls.MinKnee = nan }},
		{"TargetDelay", func(c *EnvConfig) { c.Fault.TargetDelay = task.MaxDelay + 1 }},
		{"friction", func(c *EnvConfig) { c.World.Vary.Friction[0] = 0 }},
		{"latency reaches 0.045 s", func(c *EnvConfig) { c.World.Vary.Latency[1], c.World.Vary.LatencyJitter = 0.04, 0.005 }},
		{"SpeedMax of FR_hip", func(c *EnvConfig) { c.Params.SpeedMax[0] = 0 }},
	} {
		cfg := envConfig(t, 2, 1)
		c.spoil(&cfg)
		e, err := NewEnv(cfg)
		if err == nil {
			_ = e.Close()
			t.Errorf("%s: accepted", c.says)
		} else if !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %q does not say %q", err, c.says)
		}
	}
}

func TestResetOfRowsThatAreNotThere(t *testing.T) {
	e := openEnv(t, envConfig(t, 2, 1))
	ctx := context.Background()
	out := rollout.NewStep(e.Spec())
	if err := e.Reset(ctx, []int{0}, out); !errors.Is(err, rollout.ErrNotReset) {
		t.Errorf("a first Reset of one row: %v", err)
	}
	must(t, e.Reset(ctx, nil, out))
	for _, row := range []int{-1, 2} {
		if err := e.Reset(ctx, []int{0, row}, out); err == nil || !strings.Contains(err.Error(), "of 2") {
			t.Errorf("Reset of row %d: %v", row, err)
		}
	}
}

func BenchmarkEnvStep(b *testing.B) {
	cfg := envConfig(b, 64, 2)
	e := openEnv(b, cfg)
	ctx := context.Background()
	out := rollout.NewStep(e.Spec())
	must(b, e.Reset(ctx, nil, out))
	action := make([]float32, 64*go1.Joints)
	b.ReportAllocs()
	for b.Loop() {
		must(b, e.Step(ctx, action, out))
	}
	b.ReportMetric(float64(b.N*64)/b.Elapsed().Seconds(), "steps/s")
}

func BenchmarkTrainStep(b *testing.B) {
	for _, rows := range []int{64, 256, 4096} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("rows=%d/threads=%d", rows, threads), func(b *testing.B) {
				e := openEnv(b, trainConfig(b, "walk", rows, threads))
				ctx := context.Background()
				out := rollout.NewStep(e.Spec())
				must(b, e.Reset(ctx, nil, out))
				action := make([]float32, rows*go1.Joints)
				for b.Loop() {
					must(b, e.Step(ctx, action, out))
				}
				steps := float64(rows) * float64(b.N)
				b.ReportMetric(steps/b.Elapsed().Seconds(), "control_steps/s")
				physics, around := e.Times()
				b.ReportMetric(float64(physics.Nanoseconds())/steps/1e3, "physics_us")
				b.ReportMetric(float64(around.Nanoseconds())/steps/1e3, "around_us")
			})
		}
	}
}
