package mujoco

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// What an Env does with its parts: that each draw reaches what it is meant for, each number is of its row,
// its moment and its frame, and nothing of an episode is left in the next.

// Policy joints in another order than the robot's: FL FR RL RR by hip, thigh, calf.
var byKind = [go1.Joints]int{3, 0, 9, 6, 4, 1, 10, 7, 5, 2, 11, 8}

// wiringConfig is a lean Env whose joints all differ and are in an order of the policy's own.
func wiringConfig(t testing.TB, world *task.World, rows int) EnvConfig {
	t.Helper()
	from, spec := task.WalkSpec(), task.WalkSpec()
	for i, k := range byKind {
		spec.Joints[i], spec.Home[i], spec.Action.Scale[i] = from.Joints[k], from.Home[k]+0.01*float32(k%4), from.Action.Scale[k]
		spec.Kp[i], spec.Kd[i] = from.Kp[k]+float32(k), from.Kd[k]+0.01*float32(k)
	}
	cfg := DefaultEnvConfig(spec)
	cfg.Model, cfg.World, cfg.Rows, cfg.Threads, cfg.Seed, cfg.FirstRow = loadLean(t), world, rows, 2, 7, 3
	return cfg
}

// busy makes every event of a world happen within a second.
func busy(w *task.World) *task.World {
	w.Stagger, w.EpisodeSeconds = false, 0.3
	w.Commands.EverySeconds, w.Commands.ZeroShare = [2]float64{0.06, 0.16}, 0.3
	w.Pushes = task.Pushes{EverySeconds: [2]float64{0.06, 0.14}, Velocity: 0.3}
	w.Falls.MinHeight = 0.22
	return w
}

// Each row of an Env does, shows and earns what its shadow does, bit for bit in the physics, through falls,
// time-outs, pushes, new commands and somebody else's, and with targets late and lost.
func TestRowsDoWhatTheirEpisodesSay(t *testing.T) {
	walk, ship, plain := busy(task.Walk()), busy(task.Ship()), busy(task.Nominal())
	walk.Vary.Latency = [2]float64{0, 0.04} // two periods
	ship.Vary.Latency, ship.Vary.LatencyStep, ship.Vary.LatencyJitter, ship.Vary.LostTargets = [2]float64{0.005, 0.02}, 0, 0.02, 0.3
	plain.Commands, plain.Start = task.Fixed(0.3, 0, 0), task.Start{}
	for _, c := range []struct {
		name  string
		world *task.World
		asked events // at least
	}{
		{"walk", walk, events{falls: 3, timeOuts: 3, pushes: 20, nextPeriod: 20, swings: 50, commands: 20}},
		{"ship", ship, events{falls: 3, timeOuts: 3, pushes: 20, lost: 30, nextPeriod: 20, overtaken: 10, swings: 50, commands: 20}},
		{"nominal", plain, events{falls: 3, timeOuts: 3, pushes: 20, swings: 50}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const rows, n = 6, 50
			cfg := wiringConfig(t, c.world, rows)
			// What the world varies adds to parameters; friction and the torque-speed line are the world's alone.
			p := &cfg.Params
			p.TrunkMass, p.TrunkCoM, p.Strength[4] = 0.3, [3]float64{0.01, 0, 0.02}, 0.9
			p.Friction, p.TorqueSpeedLine = 0.6, !c.world.Vary.TorqueSpeedLine
			e := openEnv(t, cfg)
			out, ctx := rollout.NewStep(e.Spec()), context.Background()
			must(t, e.Reset(ctx, nil, out))
			var shadows [rows]*shadow
			spread := make([]float64, 47)
			for row := range shadows {
				shadows[row] = newShadow(t, &cfg, e, row)
				shadows[row].begin(t)
				shadows[row].compare(t, out.Obs, spread)
			}
			random := rand.New(rand.NewPCG(5, 6))
			action := make([]float32, rows*go1.Joints)
			for step := range n {
				for i := range action {
					size := float32(0.8) // these rows stand
					if i/go1.Joints < 2 {
						size = 7 // these fall, and are clipped
					}
					action[i] = size * (2*random.Float32() - 1)
				}
				switch s := shadows[1+step%2]; step {
				case 10, 11, 20:
					s.steer, s.steerAge = &[3]float32{0.4, -0.1, 0.02 * float32(step)}, 0
					must(t, e.Steer(s.row, s.steer))
				case 30, 31:
					s.steer = nil
					must(t, e.Steer(s.row, nil))
				}
				must(t, e.Step(ctx, action, out))
				for row, s := range shadows {
					s.step(t, part(action, rows, row))
					s.judge(t, out, spread)
					if t.Failed() {
						t.Fatalf("first seen after step %d", step)
					}
				}
			}
			for i, x := range spread {
				if _, _, noise := shadows[0].observe(); noise[i] > 0 && x < 0.8 {
					t.Errorf("number %d of policy used %v of its noise", i, x)
				}
			}
			var seen events
			for _, s := range shadows {
				seen.add(&s.seen)
			}
			if !seen.atLeast(&c.asked) {
				t.Errorf("seen %+v, want at least %+v", seen, c.asked)
			}
		})
	}
}

// Episodes begin near home, on their feet, with a velocity: all within the world's ranges and most of them used.
func TestEpisodesBeginWithinTheirRanges(t *testing.T) {
	const rows = 64
	cfg := wiringConfig(t, task.Walk(), rows)
	cfg.World.Start = task.Start{Joint: 0.08, Velocity: 0.3}
	e := openEnv(t, cfg)
	must(t, e.Reset(context.Background(), nil, rollout.NewStep(e.Spec())))
	var velocity [2]float64
	var joint [go1.Joints]float64
	for row := range rows {
		s := e.State(row)
		for i := range velocity {
			velocity[i] = max(velocity[i], math.Abs(s.LinVelWorld[i]))
		}
		if s.LinVelWorld[2] != 0 || s.AngVelBody != [3]float64{} || s.Dq != [Joints]float64{} || s.Gravity != [3]float64{0, 0, -1} {
			t.Errorf("row %d begins with more than a velocity across: %+v", row, *s)
		}
		for i, k := range byKind {
			joint[k] = max(joint[k], math.Abs(s.Q[k]-float64(cfg.Spec.Home[i])))
		}
		lowest := math.Inf(1)
		for _, p := range s.FootPos {
			lowest = min(lowest, p[2]-go1.FootRadius)
		}
		if math.Abs(lowest+0.0015) > 1e-4 { // its weight's worth in the floor
			t.Errorf("row %d: the lowest foot begins at %v m", row, lowest)
		}
	}
	for i, v := range velocity {
		if !(v > 0.27 && v <= 0.3) {
			t.Errorf("velocities along axis %d reach %v m/s, want nearly 0.3", i, v)
		}
	}
	for k, q := range joint {
		if !(q > 0.07 && q <= 0.08+1e-6) {
			t.Errorf("%s begins up to %v rad from home, want nearly 0.08", JointNames[k], q)
		}
	}
}

// With Stagger the first episodes time out one by one, later ones each after their whole time; without, all at once.
func TestStagger(t *testing.T) {
	const rows, length = 16, 20
	for _, stagger := range []bool{true, false} {
		cfg := wiringConfig(t, task.Nominal(), rows)
		cfg.World.Stagger, cfg.World.EpisodeSeconds = stagger, length*0.02
		e := openEnv(t, cfg)
		out, ctx := rollout.NewStep(e.Spec()), context.Background()
		must(t, e.Reset(ctx, nil, out))
		action := make([]float32, rows*go1.Joints)
		var ends [rows][]int
		for step := 1; step <= 2*length; step++ {
			must(t, e.Step(ctx, action, out))
			for row := range rows {
				if out.TimedOut[row] {
					ends[row] = append(ends[row], step)
				}
			}
		}
		first := map[int]bool{}
		for row, at := range ends {
			if len(at) != 2 || at[1]-at[0] != length {
				t.Errorf("stagger %v: row %d timed out after steps %v, want twice, %d apart", stagger, row, at, length)
				continue
			}
			first[at[0]] = true
		}
		if stagger && len(first) < rows/2 || !stagger && (len(first) != 1 || !first[length]) {
			t.Errorf("stagger %v: %d rows first timed out after steps %v", stagger, rows, first)
		}
		// A Reset on the way is of a whole episode.
		must(t, e.Reset(ctx, []int{3}, out))
		for step := 1; step <= length; step++ {
			must(t, e.Step(ctx, action, out))
			if out.TimedOut[3] != (step == length) {
				t.Errorf("stagger %v: %d steps after its Reset TimedOut is %v", stagger, step, out.TimedOut[3])
			}
		}
	}
}

// An episode's history is its own, in every group; Final has the old one's.
func TestHistoryBeginsWithTheEpisode(t *testing.T) {
	cfg := wiringConfig(t, busy(task.Walk()), 2)
	cfg.World.EpisodeSeconds = 0.1
	for g := range cfg.Spec.Groups {
		cfg.Spec.Groups[g].Layout = rollout.ByFrame
		for i := range cfg.Spec.Groups[g].Terms {
			cfg.Spec.Groups[g].Terms[i].History = 2
		}
	}
	e := openEnv(t, cfg)
	out, ctx := rollout.NewStep(e.Spec()), context.Background()
	must(t, e.Reset(ctx, nil, out))
	frames := func(obs []float32, row int) (old, newest []float32) {
		both := part(obs, 2, row)
		return both[:len(both)/2], both[len(both)/2:]
	}
	action := make([]float32, 2*go1.Joints)
	last := [2][2][]float32{} // newest frame by group and row
	ended := 0
	for step := range 12 {
		for g := range last {
			for row := range last[g] {
				_, newest := frames(out.Obs[g], row)
				last[g][row] = slices.Clone(newest)
			}
		}
		for i := range action {
			action[i] = 0.5 * float32(math.Sin(float64(step+i)))
		}
		must(t, e.Step(ctx, action, out))
		for g := range last {
			for row := range last[g] {
				old, newest := frames(out.Obs[g], row)
				if out.Ended(row) {
					ended++
					if !sameBits(old, newest) {
						t.Errorf("step %d: group %d of row %d begins with the history of the episode before", step, g, row)
					}
					old, newest = frames(out.Final[g], row)
				}
				if !sameBits(old, last[g][row]) || sameBits(old, newest) {
					t.Errorf("step %d: group %d of row %d lacks the frame before", step, g, row)
				}
			}
		}
	}
	if ended != 2*2*2 {
		t.Errorf("%d ends seen", ended)
	}
}

// A fault's memory ends with the episode, and only "policy" is shown what it does to sensors.
func TestFaultsBeginWithTheEpisode(t *testing.T) {
	cfg := wiringConfig(t, task.Nominal(), 1)
	cfg.World.EpisodeSeconds = 0.12
	cfg.Fault = task.Fault{TargetDelay: 2, FlipGravity: true}
	e := openEnv(t, cfg)
	out, ctx := rollout.NewStep(e.Spec()), context.Background()
	must(t, e.Reset(ctx, nil, out))
	for step := range 18 {
		action := make([]float32, go1.Joints)
		for i := range action {
			action[i] = 0.1 * float32(step+1)
		}
		must(t, e.Step(ctx, action, out))
		want := 0.0
		if step%6 >= 2 {
			want = 0.1 * float64(step-1)
		}
		for i, x := range out.Executed {
			if math.Abs(float64(x)-want) > 1e-5 {
				t.Fatalf("step %d: action %d that the motors got is %v, want %v", step, i, x, want)
			}
		}
		if policy, critic := out.Obs[0][5], out.Obs[1][5]; policy < 0.9 || critic > -0.9 {
			t.Errorf("step %d: gravity of policy %v, critic %v", step, policy, critic)
		}
	}
}

// A row that falls in the last step of its time has fallen: nothing is to be expected of it any more.
func TestFallInTheLastStepIsNoTimeOut(t *testing.T) {
	cfg := wiringConfig(t, task.Nominal(), 2)
	cfg.World.EpisodeSeconds = 0.06
	e := openEnv(t, cfg)
	out, ctx := rollout.NewStep(e.Spec()), context.Background()
	must(t, e.Reset(ctx, nil, out))
	for step := range 3 {
		if step == 2 {
			must(t, onItsBack(e, 1))
		}
		must(t, e.Step(ctx, make([]float32, 2*go1.Joints), out))
	}
	if !out.TimedOut[0] || out.Terminated[0] || !out.Terminated[1] || out.TimedOut[1] {
		t.Errorf("terminated %v, timed out %v", out.Terminated, out.TimedOut)
	}
}
