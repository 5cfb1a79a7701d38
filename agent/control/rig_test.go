package control

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// rig is a loop whose ticks the test makes one by one, on a virtual clock, in
// front of linktest's Go1 on real sockets.
type rig struct {
	t     testing.TB
	l     *Loop
	robot *linktest.Robot
	udp   *link.UDP
	clock *lockstepClock
	due   int64
}

// testSpec is a contract for go1 with scale 0.25 and gains 35, 0.5 at 50 Hz.
func testSpec() *rollout.Spec {
	s := &rollout.Spec{
		Robot: go1.Robot, Joints: go1.JointNames[:], Home: append([]float32(nil), go1.Home[:]...),
		PolicyPeriodNs: 20e6, ControlPeriodNs: 2e6,
		Command: rollout.Command{Vx: [2]float32{-1, 1.5}, Vy: [2]float32{-0.5, 0.5}, Wz: [2]float32{-1, 1}},
		Groups: []rollout.Group{{Name: "policy", Layout: rollout.ByTerm, Terms: []rollout.Term{
			{Name: "projected_gravity", Size: 3, Scale: 1, History: 1, Sensed: true},
			{Name: "joint_pos", Size: 12, Scale: 1, History: 2, Sensed: true},
			{Name: "actions", Size: 12, Scale: 1, History: 1, Sensed: true},
			{Name: "command", Size: 3, Scale: 1, History: 1, Sensed: true},
		}}},
	}
	for range go1.Joints {
		s.Action.Scale = append(s.Action.Scale, 0.25)
		s.Kp = append(s.Kp, 35)
		s.Kd = append(s.Kd, 0.5)
	}
	return s
}

func newRig(t testing.TB, robot linktest.Config, change ...func(*Config, *Parts)) *rig {
	t.Helper()
	r := &rig{t: t, robot: linktest.New(t, robot), clock: &lockstepClock{now: 1e9}}
	udp, err := link.DialUDP(link.UDPConfig{Robot: r.robot.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	r.udp = udp
	cfg := DefaultConfig()
	cfg.Lockstep = true
	parts := Parts{Link: udp, Clock: r.clock, Safety: safety.DefaultConfig(), Estimate: estimate.DefaultConfig(), Spec: testSpec()}
	for _, f := range change {
		f(&cfg, &parts)
	}
	l, err := New(cfg, parts)
	if err != nil {
		t.Fatal(err)
	}
	r.l, r.due = l, r.clock.now
	return r
}

// tick makes one tick and waits for the robot's answer.
func (r *rig) tick() (end bool) {
	r.due += PeriodNs
	r.clock.SleepUntil(r.due)
	sent := r.l.stats.Sent
	end = r.l.Tick(r.due)
	if r.l.driving() && r.l.envOpen.Load() && (r.l.policyTick-1)%r.l.policyTicks == 0 {
		for until := time.Now().Add(time.Second); r.l.targets.middle.Load()&fresh == 0 && time.Now().Before(until); {
			time.Sleep(20 * time.Microsecond)
		}
	}
	if r.l.stats.Sent > sent {
		r.udp.Wait(1e9)
	}
	return end
}

func (r *rig) ticks(n int) {
	for range n {
		r.tick()
	}
}

// ask makes a request while the rig ticks.
func (r *rig) ask(f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(context.Background()) }()
	for {
		select {
		case err := <-done:
			return err
		default:
			r.tick()
			time.Sleep(50 * time.Microsecond)
		}
	}
}

func (r *rig) mode(m Mode) error {
	return r.ask(func(ctx context.Context) error { return r.l.SetMode(ctx, m) })
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// refused asserts a refusal and its reason.
func (r *rig) refused(err error, want Reason) {
	r.t.Helper()
	var no *Refusal
	if !errors.As(err, &no) || no.Reason != want {
		r.t.Fatalf("%v, want a refusal: %s", err, reasonTexts[want])
	}
}

func (r *rig) in(m Mode, p Phase) {
	r.t.Helper()
	if r.l.mode != m || r.l.phase != p {
		v := r.l.judge.Verdict()
		r.t.Fatalf("mode %v %v, want %v %v (latched %v by %v, joint %d)", r.l.mode, r.l.phase, m, p, v.Severity, v.Fault, v.Joint)
	}
}

func (r *rig) armed() *rig {
	r.t.Helper()
	r.must(r.ask(r.l.Arm))
	r.ticks(20)
	return r
}

func (r *rig) standing() *rig {
	r.t.Helper()
	r.armed()
	r.must(r.mode(Stand))
	r.ticks(1300)
	r.in(Stand, PhaseReady)
	return r
}

// walking brings it into mode policy under p.
func (r *rig) walking(p rollout.Policy) *rig {
	r.t.Helper()
	r.standing()
	r.drive(p)
	r.must(r.mode(Policy))
	r.ticks(200)
	r.in(Policy, PhaseWalk)
	return r
}

// drive runs p on the robot's Env until the test ends.
func (r *rig) drive(p rollout.Policy) {
	env, err := r.l.Env()
	r.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		_ = rollout.Run(ctx, []rollout.Env{env}, p, nil)
	}()
	for !r.l.envWaits.Load() {
		time.Sleep(50 * time.Microsecond)
	}
	r.t.Cleanup(func() { cancel(); wg.Wait() })
}

// policyFunc is a policy that is a function of the observation.
type policyFunc func(obs, action []float32)

func (policyFunc) Reset([]int) {}
func (f policyFunc) Act(s *rollout.Step, d *rollout.Decision) error {
	f(s.Obs[0], d.Action)
	return nil
}

// still answers zero: the home pose.
var still = policyFunc(func(_, a []float32) { clear(a) })

// remote sets the hand remote in the robot's states.
func remoteBytes(m wire.Remote) (b [40]byte) {
	m.Head = [2]byte{wire.RemoteHead0, wire.RemoteHead1}
	copy(b[:], wire.AppendRemote(nil, &m))
	return b
}

// torqueFrame says whether a frame can move a motor.
func torqueFrame(c *wire.LowCmd) bool {
	for _, m := range c.Motor[:go1.Joints] {
		if m.Kp != 0 || m.Tau != 0 || m.Dq != 0 {
			return true
		}
	}
	return false
}

func near32(a, b, tol float32) bool { return math.Abs(float64(a-b)) <= float64(tol) }

func (r *rig) armedStates() {
	for i := range go1.Joints {
		r.l.state.Motor[i] = wire.MotorState{Mode: safety.ModeServo, Q: go1.Folded[i]}
	}
	r.l.have = true
}

func (r *rig) tickWithoutPolicy() {
	r.due += PeriodNs
	r.clock.SleepUntil(r.due)
	r.l.Tick(r.due)
	r.udp.Wait(1e9)
}

func (r *rig) ticksWithoutPolicy(n int) {
	for range n {
		r.tickWithoutPolicy()
	}
}

// tickQuick is a tick that waits for nobody.
func (r *rig) tickQuick() bool {
	r.due += PeriodNs
	r.clock.SleepUntil(r.due)
	return r.l.Tick(r.due)
}
