package control

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/rollout/rollouttest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// attended is the robot's Env with a person beside it, who brings it to mode
// policy whenever Reset waits.
type attended struct {
	*Env
	robot *linktest.Robot
}

func (a *attended) Reset(ctx context.Context, rows []int, out *rollout.Step) error {
	shift, over := context.WithCancel(context.Background())
	home := make(chan struct{})
	go func() {
		defer close(home)
		a.attend(shift)
	}()
	defer func() { over(); <-home }()
	return a.Env.Reset(ctx, rows, out)
}

// attend does the next thing that a person would until its shift is over; what
// is refused is tried again.
func (a *attended) attend(shift context.Context) {
	l := a.l
	for ; shift.Err() == nil; time.Sleep(time.Millisecond) {
		var s Snapshot
		l.Snapshot(&s)
		switch {
		case s.Mode == Idle:
			_ = l.Arm(shift)
		case s.Mode == Listen:
			_ = l.SetMode(shift, Stand)
		case s.Mode == Stand && s.Phase == PhaseReady:
			_ = l.SetMode(shift, Policy)
		case s.Mode == Stand && s.Phase == PhaseHold:
			_ = l.SetMode(shift, Damp)
		case s.Mode == Damp: // it fell: put it on its legs again
			a.robot.OnState(nil)
			a.robot.SetPose(go1.Folded)
			_ = l.SetMode(shift, Damp) // a person has looked: unlatched
			_ = l.SetMode(shift, Stand)
		}
	}
}

// TestConformance: the robot's Env keeps the contract of package rollout, in
// front of linktest's Go1 in lockstep. What a robot cannot show (a second row,
// time-outs, determinism) the suite skips; TestEnvStepDoesNotAllocate stands in
// for its count of allocations, which linktest's own would spoil here.
func TestConformance(t *testing.T) {
	rollouttest.Run(t, rollouttest.Harness{
		Rows: 1, SharedProcess: true,
		New: func(tb testing.TB, o rollouttest.Options) rollout.Env {
			r := newRig(tb, linktest.Config{}, func(c *Config, p *Parts) {
				c.LockWaitMs = 60e3 // virtual time stands while the suite thinks
				for i := range p.Spec.Groups[0].Terms {
					p.Spec.Groups[0].Terms[i].History = o.History
				}
			})
			env, err := r.l.Env()
			if err != nil {
				tb.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			go func() { _ = r.l.Run(ctx) }()
			tb.Cleanup(func() {
				_ = env.Close() // the loop waits for no target any more
				cancel()
				<-r.l.Ended()
			})
			return &attended{Env: env, robot: r.robot}
		},
		Fall: func(env rollout.Env, _ int) {
			const tilt = 1.2 // rad about x, beyond safety's limit
			s, c := math.Sincos(tilt / 2)
			env.(*attended).robot.OnState(func(state *wire.LowState) {
				state.IMU.Quaternion = [4]float32{float32(c), float32(s), 0, 0}
			})
		},
	})
}

// With a context that has ended the loop gets no target and the reading that
// waits stays for the next call. (The suite compares with a twin, which a robot
// that is not deterministic has not got.)
func TestEndedContextMovesNothing(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.standing()
	env, err := r.l.Env()
	r.must(err)
	defer env.Close()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	r.l.envWaits.Store(true)
	answer := request{want: wantPolicy, answer: Refusal{Joint: -1}}
	if got := r.l.apply(r.clock.now, &answer); got != Accepted {
		t.Fatal(reasonTexts[got])
	}
	r.tickQuick() // publishes the first reading
	r.udp.Wait(1e9)
	step, action := rollout.NewStep(env.Spec()), make([]float32, go1.Joints)
	untouched := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%s with an ended context: %v", call, err)
		}
		if r.l.targets.middle.Load()&fresh != 0 {
			t.Fatalf("%s with an ended context gave the loop a target", call)
		}
		if r.l.readings.middle.Load()&fresh == 0 {
			t.Fatalf("%s with an ended context took the reading that waits", call)
		}
	}
	untouched("Reset", env.Reset(over, nil, step))
	r.must(env.Reset(context.Background(), nil, step))
	for range 10 {
		r.tickQuick()
		r.udp.Wait(1e9)
	}
	untouched("Step", env.Step(over, action, step))
	untouched("Reset", env.Reset(over, nil, step))
	r.must(env.Step(context.Background(), action, step))
}
