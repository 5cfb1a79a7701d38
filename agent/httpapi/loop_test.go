package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// pacedClock is virtual time that a busy machine cannot outrun: a tick takes at
// least a quarter of its real length.
type pacedClock struct{ now atomic.Int64 }

func (c *pacedClock) Now() int64 { return c.now.Load() }

func (c *pacedClock) SleepUntil(deadlineNs int64) {
	time.Sleep(500 * time.Microsecond)
	c.now.Store(max(c.now.Load(), deadlineNs))
}

// still is a policy that stands in the home pose.
type still struct{}

func (still) Reset([]int) {}

func (still) Act(_ *rollout.Step, d *rollout.Decision) error {
	clear(d.Action)
	return nil
}

func stillSpec() *rollout.Spec {
	s := &rollout.Spec{
		Robot: go1.Robot, Joints: go1.JointNames[:], Home: go1.Home[:], PolicyPeriodNs: 20e6, ControlPeriodNs: 2e6,
		Command: testInfo.CommandRange,
		Groups: []rollout.Group{{Name: "policy", Layout: rollout.ByTerm, Terms: []rollout.Term{
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

// startLoop runs control.Loop in front of linktest's Go1 over real sockets.
func startLoop(t *testing.T) (*control.Loop, *linktest.Robot) {
	t.Helper()
	clock := &pacedClock{}
	clock.now.Store(1e9)
	return startLoopOn(t, clock, still{}, 500)
}

// startLoopOn does it by another clock and policy, for which the loop's time stands still for at most waitMs of real time. A policy
// that fails is damped and may be asked for again, as in clawagent.
func startLoopOn(t *testing.T, clock control.Clock, p rollout.Policy, waitMs float64) (*control.Loop, *linktest.Robot) {
	t.Helper()
	robot := linktest.New(t, linktest.Config{KeepFrames: 256})
	udp, err := link.DialUDP(link.UDPConfig{Robot: robot.Addr(), VirtualTime: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg := control.DefaultConfig()
	cfg.Lockstep, cfg.LockWaitMs = true, waitMs
	loop, err := control.New(cfg, control.Parts{
		Link: udp, Clock: clock, Safety: safety.DefaultConfig(), Estimate: estimate.DefaultConfig(), Spec: stillSpec(),
	})
	if err != nil {
		t.Fatal(err)
	}
	env, err := loop.Env()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { _ = loop.Run(ctx) })
	both.Go(func() {
		for ctx.Err() == nil {
			if err := rollout.Run(ctx, []rollout.Env{env}, p, nil); err == nil || errors.Is(err, rollout.ErrClosed) {
				return
			}
			loop.PolicyFailed()
		}
	})
	t.Cleanup(func() {
		cancel()
		both.Wait()
		_ = udp.Close()
	})
	return loop, robot
}

// shown is the part of a state that the test reads.
type shown struct {
	Clock       float64
	Mode, Phase string
	Joints      []any
	Fault       *struct{ Name string }
	Command     struct {
		Asked, Followed [3]float64
		Source          string
	}
}

func (r *running) state() (s shown) {
	r.t.Helper()
	a := r.do("GET", "/api/v1/state", "")
	if err := json.Unmarshal([]byte(a.body), &s); err != nil {
		r.t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return s
}

// until polls the state; the bound is only there to end a broken test.
func (r *running) until(what string, ok func(*shown) bool) shown {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		s := r.state()
		if ok(&s) {
			return s
		}
		if time.Now().After(end) {
			r.t.Fatalf("never %s: %+v", what, s)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// post asserts a status and what the reply says.
func (r *running) post(path, body string, status int, says string) {
	r.t.Helper()
	if a := r.do("POST", "/api/v1/"+path, body); a.status != status || !strings.Contains(a.body, says) {
		r.t.Fatalf("%s %s: %d %s, want %d and %s", path, body, a.status, a.body, status, says)
	}
}

// drive sends a command that ends ahead s after the robot's clock; on a machine
// so busy that it ends on its way, once more.
func (r *running) drive(vx string, ahead float64, status int, says string) {
	r.t.Helper()
	for {
		body := fmt.Sprintf(`{"vx":%s,"vy":0,"wz":0,"expires":%.9f}`, vx, r.state().Clock+ahead)
		a := r.do("POST", "/api/v1/command", body)
		if ahead > 0 && status != 409 && strings.Contains(a.body, `"code":"expired"`) {
			continue
		}
		if a.status != status || !strings.Contains(a.body, says) {
			r.t.Fatalf("%s: %d %s, want %d and %s", body, a.status, a.body, status, says)
		}
		return
	}
}

// TestLoop takes the real control loop from idle to walking, stops it and sets
// it free again, by HTTP alone.
func TestLoop(t *testing.T) {
	loop, robot := startLoop(t)
	r := start(t, loop)

	r.post("mode", `{"mode":"stand"}`, 409, "not armed")
	r.drive("0.5", 1, 409, "only in mode policy")
	if s := r.state(); s.Mode != "idle" || len(robot.Frames()) != 0 {
		t.Fatalf("mode %s, %d frames", s.Mode, len(robot.Frames()))
	}
	r.post("arm", `{}`, 200, `"mode":"listen"`)
	r.post("arm", `{}`, 409, "already armed")
	r.until("states", func(s *shown) bool { return len(s.Joints) == go1.Joints })
	for { // ten states first
		if a := r.do("POST", "/api/v1/mode", `{"mode":"stand"}`); a.status == 200 {
			break
		} else if !strings.Contains(a.body, "too few states") {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	r.post("mode", `{"mode":"policy"}`, 409, "not standing yet")
	r.until("standing", func(s *shown) bool { return s.Phase == "ready" })
	if a := r.do("GET", "/readyz", ""); a.status != 200 {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	r.post("mode", `{"mode":"policy"}`, 200, `"mode":"policy"`)
	r.until("walking", func(s *shown) bool { return s.Phase == "walk" })

	// Case 7: an infinity is refused and the next command works.
	r.drive("1e400", 1, 400, "vx")
	if s := r.state(); s.Command.Source != "none" {
		t.Errorf("after 1e400 the command is %+v", s.Command)
	}
	r.drive("0.5", 1.5, 200, `"ok":true`)
	r.until("commanded", func(s *shown) bool { return s.Command.Asked == [3]float64{0.5, 0, 0} && s.Command.Source == "http" })

	r.drive("3", 1.8, 400, `"code":"out_of_range","field":"vx","value":3,"lo":-1,"hi":1.5`)
	r.drive("0.4", -1, 409, `"code":"expired"`)
	r.drive("0.4", 30, 400, `"code":"too_distant"`)
	body := fmt.Sprintf(`{"vx":0.3,"vy":0,"wz":0,"expires":%.9f}`, r.state().Clock+1.9)
	if a := r.do("POST", "/api/v1/command", body); a.status == 200 {
		if a := r.do("POST", "/api/v1/command", body); a.status != 409 || !strings.Contains(a.body, `"code":"older"`) && !strings.Contains(a.body, `"code":"expired"`) {
			t.Errorf("the same again: %d %s", a.status, a.body)
		}
	}
	// Case 8: silence, and the followed velocity is zero while the policy goes on.
	r.until("slowed down", func(s *shown) bool {
		if s.Mode != "policy" {
			t.Fatalf("mode %s", s.Mode)
		}
		return s.Command.Followed == [3]float64{}
	})

	r.post("estop", `{"level":"cut"}`, 200, `"mode":"estop"`)
	if s := r.state(); s.Fault == nil || s.Fault.Name != "operator_cut" {
		t.Errorf("fault %+v", s.Fault)
	}
	if a := r.do("GET", "/readyz", ""); a.status != 503 || !strings.Contains(a.body, "operator_cut") {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	if f, ok := robot.LastFrame(); !ok || f.Class != linktest.Damping {
		t.Errorf("last frame %+v", f.Class)
	}
	r.post("mode", `{"mode":"policy"}`, 409, `"code":"refused"`)
	r.post("mode", `{"mode":"damp"}`, 200, `"mode":"damp"`)
	if s := r.state(); s.Fault != nil {
		t.Errorf("fault %+v after damp", s.Fault)
	}
	for _, path := range []string{"/healthz", "/metrics"} {
		if a := r.do("GET", path, ""); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
