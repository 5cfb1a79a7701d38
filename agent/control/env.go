package control

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// Env is the robot as a rollout.Env of one row. Its goroutine is the policy's
// thread; it owns observation history, gait clock and last action, so that they
// survive a change of policy.
type Env struct {
	l        *Loop
	spec     rollout.Spec
	observer *go1.Observer
	clock    go1.ClockState
	last     [go1.Joints]float32 // previous action, policy order
	now      reading
	gotNs    int64  // when now was received, link.Now: real time in lockstep too
	episode  uint64 // being stepped; 0: none
	closed   bool
	fds      [1]unix.PollFd
	woken    [8]byte
}

// Metrics of the robot's Env: the estimated velocity.
var envMetrics = []string{"vx", "vy", "wz"}

// Env opens the robot for rollout.Run; the Loop has one, and it exists only
// where a policy's contract was given. It shares the Loop with the operator:
// Reset waits until a person has asked for mode policy.
func (l *Loop) Env() (*Env, error) {
	if !l.hasPolicy {
		return nil, &Refusal{Reason: NoPolicy, Joint: -1}
	}
	spec := *l.parts.Spec
	spec.Rows, spec.Metrics = 1, envMetrics
	spec.Deterministic, spec.AutoReset = false, false
	spec.ControlPeriodNs = PeriodNs
	spec.Groups = []rollout.Group{*spec.Group("policy")} // a robot has no critic's secrets
	o, err := go1.NewObserver(&spec, "policy", 1, nil)
	if err != nil {
		return nil, err
	}
	if !l.envOpen.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("control: the robot's Env is open already")
	}
	return &Env{l: l, spec: spec, observer: o, clock: go1.ClockState{Clock: spec.Clock}}, nil
}

// Spec is the policy's contract, with one row.
func (e *Env) Spec() rollout.Spec { return e.spec }

// Reset waits until an operator has brought the robot into mode policy. A
// context that has ended changes nothing.
func (e *Env) Reset(ctx context.Context, _ []int, out *rollout.Step) error {
	if e.closed {
		return rollout.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e.l.envWaits.Store(true)
	defer e.l.envWaits.Store(false)
	for {
		if err := e.next(ctx); err != nil {
			return err
		}
		if e.now.how == running && e.now.episode != e.episode {
			break
		}
	}
	e.episode = e.now.episode
	e.observer.Reset(0)
	e.clock.Reset()
	e.last = [go1.Joints]float32{}
	e.observe(out, out.Obs[0])
	out.Terminated[0], out.TimedOut[0] = false, false
	return nil
}

// Step hands the action to the loop, which applies it at its next tick, and
// returns when the next policy period begins, or the episode ended: an operator
// or a safety act has taken the robot away. With a context that has ended the
// loop gets no target.
func (e *Env) Step(ctx context.Context, action []float32, out *rollout.Step) error {
	switch {
	case e.closed:
		return rollout.ErrClosed
	case e.episode == 0:
		return rollout.ErrNotReset
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t := e.l.targets.back()
	if err := rollout.CheckAction(action, 1, e.spec.Joints); err != nil {
		return err
	}
	copy(e.last[:], action)
	if err := e.l.actions.Targets(e.last[:], &t.target); err != nil {
		return err
	}
	t.seq, t.episode, t.sensedNs = e.now.seq, e.episode, e.now.sensedNs
	t.tookNs = link.Now() - e.gotNs
	e.l.targets.publish()
	if err := e.next(ctx); err != nil {
		return err
	}
	over := e.now.how != running || e.now.episode != e.episode
	out.Terminated[0] = over && e.now.how == failed
	out.TimedOut[0] = over && e.now.how != failed
	e.observe(out, out.Obs[0])
	copy(out.Final[0], out.Obs[0])
	if over {
		e.episode = 0
	}
	return nil
}

// observe fills everything of out but the ends.
func (e *Env) observe(out *rollout.Step, obs []float32) {
	e.clock.Advance(&e.now.r.Command, float32(e.spec.PolicyPeriodNs)/1e9)
	e.now.r.LastAction, e.now.r.Phase, e.now.r.ClockOn = e.last, e.clock.Phase, e.clock.On
	e.observer.Observe(0, &e.now.r, obs)
	e.l.actions.Action(&e.now.sent, out.Executed)
	out.Reward[0] = 0
	copy(out.Metrics, e.now.r.LinVel[:2])
	out.Metrics[2] = e.now.r.Gyro[2]
}

// next waits for a reading not seen before.
func (e *Env) next(ctx context.Context) error {
	const patienceMs = 100 // how often ctx is looked at while nothing comes
	e.fds[0] = unix.PollFd{Fd: int32(e.l.wake), Events: unix.POLLIN}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r, isNew := e.l.readings.front(); isNew {
			e.now, e.gotNs = *r, link.Now()
			return nil
		}
		select {
		case <-e.l.ended:
			return rollout.ErrClosed
		default:
		}
		if e.l.cfg.Lockstep {
			runtime.Gosched()
		}
		if n, err := unix.Poll(e.fds[:], patienceMs); n > 0 && err == nil {
			_, _ = unix.Read(e.l.wake, e.woken[:]) // only empties it
		}
	}
}

// Close gives the robot back: it damps. The Loop goes on.
func (e *Env) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	e.l.envOpen.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if Mode(e.l.modeNow.Load()) == Idle {
		return nil
	}
	select {
	case <-e.l.ended:
		return nil
	default:
		return e.l.SetMode(ctx, Damp)
	}
}
