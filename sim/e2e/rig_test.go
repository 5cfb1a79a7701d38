package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/httpapi"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// rig is a control.Loop in this process, in lockstep with a virtual robot over real sockets. The test sees every tick.
type rig struct {
	t     *testing.T
	robot *virtualtest.Robot
	loop  *control.Loop
	clock *tickClock
	http  string // base URL; "" without a server
	end   func() // ends the loop and the policy's thread, and waits
	// ending is set before anything of the rig ends: what fails from then on is no failure of the agent's.
	ending atomic.Bool
	truth  virtual.Status // physics at a tick, for those who compare
}

// rigSetup of a rig.
type rigSetup struct {
	seed   uint64
	faults []string
	still  bool // the sticks rest
	frames bool // the robot logs each frame
	feet   func(*virtual.Config)
	// twist changes what the policy (the n-th answer of its life, from 1) says, or holds it up; nil leaves it.
	twist func(n int, out *rollout.Decision) error
	// spec changes the contract that the loop acts by.
	spec func(*rollout.Spec)
	// waitMs is how long the loop's time stands still for a policy, ms of real time; 0: as good as for ever.
	waitMs float64
	// safety changes the limits.
	safety func(*safety.Config)
	noHTTP bool
	// each is called on the loop's thread when a tick is about to begin: the state of tick s.State.Tick has been judged and its
	// answer was sent, the robot's next state is waiting.
	each func(r *rig, s *control.Snapshot)
}

// tickClock is virtual time that the test may bend.
type tickClock struct {
	now int64
	// heldUp is how long the loop's thread stands still within the tick, behind its first look at the clock.
	heldUp int64
	looked bool
	each   func()
}

func (c *tickClock) Now() int64 {
	if c.looked {
		c.now += c.heldUp
		c.heldUp = 0
	}
	c.looked = true
	return c.now
}

// SleepUntil returns at once; the test may move now on to wake late.
func (c *tickClock) SleepUntil(deadlineNs int64) {
	c.now, c.looked = max(c.now, deadlineNs), false
	if c.each != nil {
		c.each()
	}
}

// twisted is a policy that a test meddles with. Unlike the session inside it states no contract of its own.
type twisted struct {
	inner *session.Policy
	n     int
	twist func(n int, out *rollout.Decision) error
}

func (p *twisted) Reset(rows []int) { p.inner.Reset(rows) }

func (p *twisted) Act(step *rollout.Step, out *rollout.Decision) error {
	if err := p.inner.Act(step, out); err != nil {
		return err
	}
	p.n++
	if p.twist == nil {
		return nil
	}
	return p.twist(p.n, out)
}

func newRig(t *testing.T, s rigSetup) *rig {
	t.Helper()
	path := contracttest.Policy(t, policyName)
	turns <- struct{}{}
	t.Cleanup(func() { <-turns })
	file, err := contract.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := session.Open(file, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inner.Close() })

	rc := virtualtest.Config()
	if s.seed != 0 {
		rc.Seed = s.seed
	}
	rc.LogEveryFrame = s.frames
	if s.feet != nil {
		s.feet(&rc)
	}
	r := &rig{t: t, robot: virtualtest.Start(t, rc), clock: &tickClock{now: control.PeriodNs}}
	if !s.still {
		r.robot.Fault("remote_sticks,ly=0.8@0")
	}
	for _, f := range s.faults {
		r.robot.Fault(f)
	}
	udp, err := link.DialUDP(link.UDPConfig{Robot: r.robot.Addr(), VirtualTime: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })

	cfg := control.DefaultConfig()
	cfg.Lockstep, cfg.LockWaitMs = true, 60000
	if s.waitMs != 0 {
		cfg.LockWaitMs = s.waitMs
	}
	spec := file.Contract.Spec
	if s.spec != nil {
		s.spec(&spec)
	}
	limits := safety.DefaultConfig()
	if s.safety != nil {
		s.safety(&limits)
	}
	parts := control.Parts{Link: udp, Clock: r.clock, Safety: limits, Estimate: estimate.DefaultConfig(), Spec: &spec}
	if r.loop, err = control.New(cfg, parts); err != nil {
		t.Fatal(err)
	}
	if s.each != nil {
		var snap control.Snapshot
		r.clock.each = func() {
			r.loop.Snapshot(&snap)
			s.each(r, &snap)
		}
	}
	env, err := r.loop.Env()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	driving, stopDriving := context.WithCancel(context.Background()) // ends later: the loop's time waits for the policy
	var threads, policy sync.WaitGroup
	r.end = func() {
		r.ending.Store(true)
		cancel()
		threads.Wait()
		stopDriving()
		policy.Wait()
	}
	t.Cleanup(func() {
		r.end()
		if t.Failed() {
			t.Logf("seed %d, faults %q. The robot's log ends with\n%s", rc.Seed, s.faults, tail(events(r.robot.Log()), 12))
		}
	})
	if !s.noHTTP {
		r.serve(ctx)
	}
	policy.Go(func() { // as clawagent does it
		for driving.Err() == nil {
			err := rollout.Run(driving, []rollout.Env{env}, &twisted{inner: inner, twist: s.twist}, nil)
			if err == nil || errors.Is(err, rollout.ErrClosed) {
				return
			}
			r.loop.PolicyFailed()
		}
	})
	threads.Go(func() {
		if err := r.loop.Run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("loop: %v", err)
		}
	})
	return r
}

func (r *rig) serve(ctx context.Context) {
	r.t.Helper()
	server, err := httpapi.New(httpapi.DefaultConfig(), r.loop, httpapi.Info{Robot: "unitree-go1", CommandRange: r.loop.Ranges()})
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	r.t.Cleanup(func() {
		r.end()
		if err := <-ended; err != nil {
			r.t.Errorf("HTTP: %v", err)
		}
	})
	r.http = "http://" + l.Addr().String() + "/api/v1/"
}

func (r *rig) snapshot() (s control.Snapshot) {
	r.loop.Snapshot(&s)
	return s
}

func (r *rig) must(what string, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// stand brings the robot from lying to standing.
func (r *rig) stand() {
	r.t.Helper()
	ctx := context.Background()
	r.must("arm", r.loop.Arm(ctx))
	until(r.t, "states from the robot", func() bool { s := r.snapshot(); return s.Stats.States >= 10 && s.RemotePresent })
	r.must("stand", r.loop.SetMode(ctx, control.Stand))
	until(r.t, "standing", func() bool { return r.snapshot().Phase == control.PhaseReady && r.robot.Status().Posture == "standing" })
}

// walk brings it from lying to walking.
func (r *rig) walk() {
	r.t.Helper()
	r.stand()
	r.must("policy", r.loop.SetMode(context.Background(), control.Policy))
}

func (r *rig) walkedAt() (t float64) {
	r.t.Helper()
	until(r.t, "walking", func() bool {
		for _, rec := range r.robot.Records("walking") {
			t = rec.Number("t")
			return true
		}
		if st := r.robot.Status(); st.T > 60 {
			r.t.Fatalf("the robot does not walk: %+v", st)
		}
		return false
	})
	return t
}

func (r *rig) runTo(t float64) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%.1f s of robot time", t), func() bool { return r.robot.Status().T >= t })
}

// records ends the loop, which damps, then the robot, and reads its whole log.
func (r *rig) records(events ...string) []virtualtest.Record {
	r.t.Helper()
	r.end()
	r.robot.Stop()
	return r.robot.Records(events...)
}
