package mujoco

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// nominalLean is a small Env in which nothing varies, after its first Reset.
func nominalLean(t *testing.T, rows int) (*Env, *rollout.Step) {
	t.Helper()
	cfg := trainConfig(t, "nominal", rows, 1)
	cfg.World.Commands = task.Fixed(0.3, 0, 0)
	cfg.World.EpisodeSeconds = 0.4
	e := openEnv(t, cfg)
	out := rollout.NewStep(e.Spec())
	must(t, e.Reset(context.Background(), nil, out))
	return e, out
}

// A person's command is shown, judged by and counted from the moment it was given; the world's goes on
// underneath and comes back. It is no part of a saved state.
func TestSteer(t *testing.T) {
	e, out := nominalLean(t, 2)
	ctx := context.Background()
	zero := make([]float32, 2*go1.Joints)
	must(t, e.Step(ctx, zero, out))
	must(t, e.Step(ctx, zero, out))
	if age := e.CommandAge(1); math.Abs(age-0.04) > 1e-9 {
		t.Errorf("the world's command is %v s old, want 0.04", age)
	}
	must(t, e.Steer(1, &[3]float32{0.7, -0.2, 0.5}))
	must(t, e.Step(ctx, zero, out))
	command := e.Spec().Groups[0].Size() - 5 // then 2 of clock
	seen := func(row int) []float32 {
		n := e.Spec().Groups[0].Size()
		return out.Obs[0][row*n+command : row*n+command+3]
	}
	if !slices.Equal(seen(1), []float32{0.7, -0.2, 0.5}) || !slices.Equal(seen(0), []float32{0.3, 0, 0}) {
		t.Errorf("commands are shown as %v and %v", seen(0), seen(1))
	}
	if got := e.Command(1); got != [3]float32{0.7, -0.2, 0.5} {
		t.Errorf("command %v", got)
	}
	if age := e.CommandAge(1); math.Abs(age-0.02) > 1e-9 {
		t.Errorf("the person's command is %v s old, want 0.02", age)
	}
	k := len(e.Spec().Metrics)
	if v := out.Metrics[k+task.YawErr]; math.Abs(float64(v)-0.5) > 0.2 {
		t.Errorf("yaw error %v against a command of 0.5 of a robot that stands", v)
	}
	state, err := e.AppendState(nil)
	must(t, err)
	other, shown := nominalLean(t, 2)
	must(t, other.RestoreState(state, shown))
	if got := other.Command(1); got != [3]float32{0.3, 0, 0} {
		t.Errorf("after a restore the command is %v, want the world's", got)
	}
	for !out.TimedOut[1] {
		must(t, e.Step(ctx, zero, out))
	}
	if got := e.Command(1); got != [3]float32{0.7, -0.2, 0.5} || e.CommandAge(1) != 0 {
		t.Errorf("in the next episode the command is %v, %v s old", got, e.CommandAge(1))
	}
	must(t, e.Steer(1, nil))
	if got := e.Command(1); got != [3]float32{0.3, 0, 0} {
		t.Errorf("given back, the command is %v", got)
	}
	for says, f := range map[string]func() error{
		"row 2 of 2": func() error { return e.Steer(2, nil) },
		"row -1":     func() error { return e.Steer(-1, nil) },
		"vy is NaN":  func() error { return e.Steer(0, &[3]float32{0, float32(math.NaN()), 0}) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}

func TestPush(t *testing.T) {
	e, _ := nominalLean(t, 2)
	before := *e.State(1)
	must(t, e.Push(1, [3]float64{0.5, -0.25, 0.125}))
	for i, dv := range [3]float64{0.5, -0.25, 0.125} {
		if got := e.State(1).LinVelWorld[i] - before.LinVelWorld[i]; math.Abs(got-dv) > 1e-12 {
			t.Errorf("velocity %d changed by %v, want %v", i, got, dv)
		}
	}
	if e.State(0).LinVelWorld != [3]float64{} {
		t.Error("another row was pushed, too")
	}
	for says, f := range map[string]func() error{
		"row 2 of 2":   func() error { return e.Push(2, [3]float64{}) },
		"row 1 by [Na": func() error { return e.Push(1, [3]float64{math.NaN()}) },
		"want -100..1": func() error { return e.Push(1, [3]float64{0, 101, 0}) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}

// Whatever the delays and losses, motors follow at each physics step the newest target that has
// arrived, and never an older one than before.
func TestTargetsNeverGoBack(t *testing.T) {
	e, _ := nominalLean(t, 1)
	random := rand.New(rand.NewPCG(1, 1))
	r, c := &e.rows[0], &e.cmds[0]
	for range 300 {
		must(t, e.begin(e.batch.threads[0].sim, 0))
		home := r.force[0]
		type sent struct{ number, arrives int }
		var all []sent // that were not lost; arrives in physics steps from the start
		inForce := 0   // number of the target that motors follow; 0: home
		number := func(q float64) int {
			if q == home {
				return 0
			}
			return int(q)
		}
		for step := 1; step <= 12; step++ {
			late, lost := random.IntN(2*e.substeps+1), random.IntN(5) == 0
			var asked [go1.Joints]float64
			for k := range asked {
				asked[k] = float64(step) // a target that tells its number
			}
			begin := (step - 1) * e.substeps
			if !lost {
				all = append(all, sent{step, begin + late})
			}
			e.deliver(0, &asked, late, lost)
			for s := range e.substeps {
				q := c.Q[0]
				if s < int(c.Late) {
					q = c.QBefore[0]
				}
				got := number(q)
				if got < inForce {
					t.Fatalf("step %d, physics step %d: target %d after %d", step, s, got, inForce)
				}
				inForce = got
				newest, arrivals := 0, 0
				for _, x := range all {
					if x.arrives <= begin+s {
						newest = max(newest, x.number)
					}
					if x.arrives > begin && x.arrives <= begin+s || x.arrives > begin+s && x.arrives <= begin+e.substeps {
						arrivals++
					}
				}
				if got > newest {
					t.Fatalf("step %d, physics step %d: target %d before it arrived, newest is %d", step, s, got, newest)
				}
				if got < newest && arrivals < 2 { // of two that arrive within one step only the newer counts
					t.Fatalf("step %d, physics step %d: target %d, newest that arrived is %d", step, s, got, newest)
				}
			}
		}
	}
}
