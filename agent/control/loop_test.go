package control

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"math"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

var update = flag.Bool("update", false, "write the golden files")

// The damping frame is what stops a robot: it may not change by accident.
func TestDampingFrameGolden(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.l.mode = Listen
	r.l.send(r.clock.now, r.clock.now, false) // before any state
	before := hex.EncodeToString(r.l.frame)
	r.armedStates()
	r.l.state.Motor[3].Q = float32(math.NaN())
	r.l.state.Motor[4].Q = float32(math.Inf(1))
	r.l.send(r.clock.now, r.clock.now, false)
	after := hex.EncodeToString(r.l.frame)
	got := "before any state\n" + before + "\nfolded, joints 3 and 4 not finite\n" + after + "\n"
	const file = "testdata/damping.hex"
	if *update {
		r.must(os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	r.must(err)
	if got != string(want) {
		t.Fatalf("the damping frame is\n%s\nwant\n%s", got, want)
	}
	var c wire.LowCmd
	if _, err := wire.DecodeLowCmd(r.l.frame, &c); err != nil {
		t.Fatal(err)
	}
	for i, m := range c.Motor[:go1.Joints] {
		q := go1.Folded[i]
		if i == 3 || i == 4 {
			q = 0
		}
		if m != (wire.MotorCmd{Mode: 0x0A, Q: q, Kd: 3}) {
			t.Fatalf("joint %d: %+v", i, m)
		}
	}
	if c.BMSOff != 0 {
		t.Fatal("bms.off is set")
	}
}

// A policy that stops answering: the target stays, after two periods the legs
// hold it, after five the motors are damped.
func TestPolicyStalls(t *testing.T) {
	var stall atomic.Bool
	release := make(chan struct{})
	r := newRig(t, linktest.Config{}, func(c *Config, _ *Parts) { c.LockWaitMs = 5 })
	r.walking(policyFunc(func(_, a []float32) {
		clear(a)
		if stall.Load() {
			<-release
		}
	}))
	t.Cleanup(func() { close(release) })
	last := r.l.policyOutNs
	stall.Store(true)
	for r.l.policyOutNs != last || r.clock.now-last < 20e6 {
		if r.l.policyOutNs != last {
			last = r.l.policyOutNs
		}
		r.due += PeriodNs
		r.clock.SleepUntil(r.due)
		r.l.Tick(r.due)
		r.udp.Wait(1e9)
	}
	for r.l.mode == Policy {
		r.tickWithoutPolicy()
	}
	r.in(Stand, PhaseHold)
	if age := r.clock.now - last; age < 40e6 || age > 42e6 {
		t.Fatalf("held after %d ms", age/1e6)
	}
	for r.l.mode == Stand {
		r.tickWithoutPolicy()
	}
	r.in(Damp, PhaseNone)
	if age := r.clock.now - last; age < 100e6 || age > 102e6 {
		t.Fatalf("damped after %d ms", age/1e6)
	}
}

// An action that is no number is refused and damped, at the next tick; one from
// before the robot was given to the policy is forgotten.
func TestPolicyFails(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.l.PolicyFailed()
	r.walking(still)
	r.l.PolicyFailed()
	r.tick()
	r.in(Damp, PhaseNone)
	if v := r.l.judge.Verdict(); v.Fault != safety.TargetRefused {
		t.Fatal(v.Fault)
	}
}

func TestHoldsTheLastFrame(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.standing()
	r.must(r.mode(Sit)) // targets that move at every tick
	r.ticks(300)
	r.in(Sit, PhaseLower)
	r.robot.Mute(true)
	before, _ := r.robot.LastFrame()
	moved := false
	for i := 1; ; i++ {
		r.due += PeriodNs
		r.clock.SleepUntil(r.due)
		r.l.Tick(r.due)
		age := (i - 1) * 2 // the first tick still finds a state
		f := append([]byte(nil), r.l.frame...)
		switch {
		case age >= 40:
			r.in(Damp, PhaseNone)
			var c wire.LowCmd
			if _, err := wire.DecodeLowCmd(f, &c); err != nil || torqueFrame(&c) {
				t.Fatalf("%d ms: %v", age, err)
			}
			if !moved {
				t.Fatal("the target did not move before: the test sees nothing")
			}
			return
		case age < 20 && string(f) != string(before.Raw):
			moved = true
		case age >= 20 && string(f) != string(before.Raw):
			t.Fatalf("%d ms: not the last frame", age)
		}
		before.Raw = f
	}
}

// A loop that does not answer keeps nobody waiting beyond their own time.
func TestAskGivesUp(t *testing.T) {
	r := newRig(t, linktest.Config{})
	first := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { first <- r.l.SetMode(ctx, Damp) }()
	for r.l.inbox.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	gone, stop := context.WithCancel(context.Background())
	stop()
	if err := r.l.EStop(gone, true); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	r.refused(r.mode(Damp), NotArmed) // and the wish is forgotten
}

// The loop's own lateness damps, at the last look before the frame leaves.
func TestLateLoopDamps(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	n := r.robot.Count(linktest.Torque)
	r.due += PeriodNs
	r.clock.now = r.due + 20e6
	r.l.Tick(r.due)
	r.udp.Wait(1e9)
	r.in(Damp, PhaseNone)
	if got := r.robot.Count(linktest.Torque); got != n {
		t.Fatal("a torque frame left from a late loop")
	}
	if r.l.stats.Trips != 1 {
		t.Fatalf("%d trips counted", r.l.stats.Trips)
	}
	if v := r.l.judge.Verdict(); v.Fault != safety.LoopLate {
		t.Fatal(v.Fault)
	}
}

// slowClock is a clock whose next readings jump ahead.
type slowClock struct {
	*lockstepClock
	readings int   // until it jumps
	jumpNs   int64 // by this
}

func (c *slowClock) Now() int64 {
	if c.readings--; c.readings == 0 {
		c.now += c.jumpNs
	}
	return c.now
}

// Held up between the judge and the frame: the last look stops the frame.
func TestHeldUpBeforeTheFrameLeaves(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	n := r.robot.Count(linktest.Torque)
	r.l.clock = &slowClock{lockstepClock: r.clock, readings: 2, jumpNs: 20e6} // first the tick's time, then the last look
	r.due += PeriodNs
	r.clock.now = r.due
	r.l.Tick(r.due)
	r.udp.Wait(1e9)
	r.in(Damp, PhaseNone)
	if got := r.robot.Count(linktest.Torque); got != n || r.l.stats.Trips != 1 {
		t.Fatalf("%d torque frames left, %d trips", got-n, r.l.stats.Trips)
	}
}

// stalling is a Link in front of another, in which one Send takes long.
type stalling struct {
	Link
	clock *lockstepClock
	ns    int64
}

func (s *stalling) Send(frame []byte) error {
	s.clock.now += s.ns
	s.ns = 0
	return s.Link.Send(frame)
}

// Held up after the last look, the gap is seen at the next tick.
func TestHeldUpInSend(t *testing.T) {
	for ms, trip := range map[int64]bool{17: false, 21: true, 38: true} {
		r := newRig(t, linktest.Config{})
		r.walking(still)
		link := &stalling{Link: r.l.parts.Link, clock: r.clock}
		r.l.parts.Link = link
		r.tick()
		link.ns = ms * 1e6
		before := r.l.sentNs
		r.due += PeriodNs
		r.clock.SleepUntil(r.due)
		r.l.Tick(r.due)
		r.l.sentNs = before + PeriodNs // the frame left before the thread was held up
		r.udp.Wait(1e9)
		r.due = r.clock.now + PeriodNs
		r.clock.SleepUntil(r.due)
		r.l.Tick(r.due)
		v := r.l.judge.Verdict()
		if got := r.l.mode == Damp && v.Fault == safety.LoopLate; got != trip {
			t.Errorf("%d ms: %v, %v by %v", ms, r.l.mode, v.Severity, v.Fault)
		}
		if r.l.stats.Lateness.MaxNs < (ms-2)*1e6 {
			t.Errorf("%d ms: the longest lateness counted is %d ns", ms, r.l.stats.Lateness.MaxNs)
		}
	}
}

// A mistake of ours in the loop leaves the motors damped.
func TestPanicDamps(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.standing()
	r.l.cfg.DampSeconds = 0.02
	r.l.parts.Link = &panicking{Link: r.udp}
	caught := make(chan any, 1)
	go func() {
		defer func() { caught <- recover() }()
		_ = r.l.Run(context.Background())
	}()
	if p := <-caught; p != "told to" {
		t.Fatal(p)
	}
	if _, ok := r.robot.AwaitFrame(10*time.Second, func(f *linktest.Frame) bool { return f.Class == linktest.Damping && f.Number > 1300 }); !ok {
		f, _ := r.robot.LastFrame()
		t.Fatalf("the last frame is %v", f.Class)
	}
}

type panicking struct {
	Link
	told bool
}

func (p *panicking) Receive(s *wire.LowState, now int64) (int64, bool) {
	if !p.told {
		p.told = true
		panic("told to")
	}
	return p.Link.Receive(s, now)
}

func TestLinkLost(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	r.udp.Close()
	for range linkFailures {
		r.in(Policy, PhaseWalk)
		r.tickQuick()
	}
	r.tickQuick()
	r.in(Damp, PhaseNone)
	if v := r.l.judge.Verdict(); v.Fault != safety.LinkLost {
		t.Fatal(v.Fault)
	}
}

// replay is a Link that shows one state a tick and takes every frame: a fake,
// because linktest's robot would allocate in this process.
type replay struct {
	state wire.LowState
	given bool
}

func (p *replay) Receive(s *wire.LowState, nowNs int64) (int64, bool) {
	if p.given = !p.given; !p.given {
		return 0, false
	}
	p.state.Tick += 2
	p.state.IMU.Gyroscope[0] = 1e-4 * float32(p.state.Tick/2*37%101) // a sensor that works
	*s = p.state
	return nowNs, true
}

func (p *replay) Send([]byte) error { return nil }

func (p *replay) Wait(int64) bool { return true }

// Promise 7: the loop allocates nothing, in any mode.
func TestPromise07TickDoesNotAllocate(t *testing.T) {
	for _, m := range []Mode{Idle, Listen, Damp, Stand, Policy, Sit, EStop} {
		r := newRig(t, linktest.Config{})
		if m == Idle {
			r.ticks(5)
		} else {
			r.standing()
		}
		switch m {
		case Policy:
			r.l.envWaits.Store(true)
			must := request{want: wantPolicy, answer: Refusal{Joint: -1}}
			r.l.apply(r.clock.now, &must)
			r.must(nil)
		case Idle, Stand:
		default:
			r.l.setMode(r.clock.now, m, map[Mode]Phase{Sit: PhaseLower}[m])
		}
		r.l.parts.Link = &replay{state: r.l.state}
		n := testing.AllocsPerRun(200, func() {
			r.l.policyOutNs, r.l.sensedNs, r.l.commandNs = r.clock.now, r.clock.now, r.clock.now
			r.tickQuick()
		})
		if r.l.mode != m {
			t.Fatalf("left %v for %v (%v)", m, r.l.mode, r.l.judge.Verdict().Fault)
		}
		if n != 0 {
			t.Errorf("%v: %v allocations a tick", m, n)
		}
	}
}

// Stepping the robot's Env under a policy allocates nothing either.
func TestPromise07EnvStepDoesNotAllocate(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.standing()
	env, err := r.l.Env()
	r.must(err)
	defer env.Close()
	r.l.envWaits.Store(true)
	answer := request{want: wantPolicy, answer: Refusal{Joint: -1}}
	if got := r.l.apply(r.clock.now, &answer); got != Accepted {
		t.Fatal(reasonTexts[got])
	}
	r.l.parts.Link = &replay{state: r.l.state}
	step := rollout.NewStep(env.Spec())
	r.l.policyTick = 0
	r.tickQuick()
	r.must(env.Reset(context.Background(), nil, step))
	action := make([]float32, go1.Joints)
	n := testing.AllocsPerRun(100, func() {
		for range 9 {
			r.tickQuick()
		}
		r.tickQuick() // publishes the next reading
		if err := env.Step(context.Background(), action, step); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

// Promise 7: in real time too every period is a tick or counted as missed.
func TestPromise07RunKeepsTime(t *testing.T) {
	r := newRig(t, linktest.Config{FreeRunning: true}, func(c *Config, p *Parts) {
		c.Lockstep = false
		p.Clock = SystemClock{SpinNs: 120e3}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.l.Run(ctx) }()
	r.must(r.l.Arm(context.Background()))
	var a, b Snapshot
	for r.l.Snapshot(&a); b.Stats.Ticks < a.Stats.Ticks+100; time.Sleep(time.Millisecond) {
		r.l.Snapshot(&b)
	}
	// Every period is accounted for, as a tick or as a missed one, on the loop's own
	// clock: the two ticks may each have been late, but no later than the latest.
	periods := b.Stats.Ticks + b.Stats.Missed - a.Stats.Ticks - a.Stats.Missed
	ran := b.NowNs - a.NowNs
	if off := int64(periods)*PeriodNs - ran; max(off, -off) > b.Stats.Lateness.MaxNs {
		t.Fatalf("%d ticks and %d missed account for %d periods in %d ns; the latest tick was %d ns late",
			b.Stats.Ticks, b.Stats.Missed, periods, ran, b.Stats.Lateness.MaxNs)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f, _ := r.robot.LastFrame()
	if f.Class != linktest.Damping {
		t.Fatalf("the last frame is %v", f.Class)
	}
	r.refused(r.l.SetMode(context.Background(), Damp), Stopping)
}
