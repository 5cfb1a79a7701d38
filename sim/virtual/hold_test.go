package virtual_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// Stand hold at full walk, at six moments of the stride, leaves a robot on its
// feet: with its legs held where they were, 11 of 12 toppled.
func TestHoldLeavesItStanding(t *testing.T) {
	file, err := contract.Load(contracttest.Policy(t, "go1_policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	for moment := range 6 {
		r := virtualtest.Start(t, virtualtest.Config())
		u, err := link.DialUDP(link.UDPConfig{Robot: r.Addr(), VirtualTime: true})
		if err != nil {
			t.Fatal(err)
		}
		net, err := session.Open(file, session.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := control.DefaultConfig()
		cfg.Lockstep = true
		l, err := control.New(cfg, control.Parts{Link: u, Safety: safety.DefaultConfig(), Estimate: estimate.DefaultConfig(), Spec: &file.Contract.Spec})
		if err != nil {
			t.Fatal(err)
		}
		env, err := l.Env()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _ = l.Run(ctx) })
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = rollout.Run(ctx, []rollout.Env{env}, net, nil)
			}
		})
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(l.Arm(ctx))
		until(t, l, "listening", time.Second, func(s *control.Snapshot) bool { return s.Stats.States > 20 && s.RemotePresent })
		must(l.SetMode(ctx, control.Stand))
		until(t, l, "ready", 8*time.Second, func(s *control.Snapshot) bool { return s.Phase == control.PhaseReady })
		must(l.SetMode(ctx, control.Policy))
		r.Fault("remote_sticks,ly=0.8@now")
		var s control.Snapshot
		wait := func(d time.Duration) (tilt float64) {
			l.Snapshot(&s)
			for end := s.NowNs + int64(d); s.NowNs < end; l.Snapshot(&s) {
				tilt = max(tilt, s.TiltRad)
				time.Sleep(100 * time.Microsecond)
			}
			return tilt
		}
		wait(4*time.Second + time.Duration(moment)*74*time.Millisecond)
		r.Fault("imu_tilt,rad=0.65,how=set,samples=1@now") // only said, for one state
		wait(10 * time.Millisecond)
		tilt := wait(4 * time.Second)
		if s.Mode != control.Stand || s.Phase != control.PhaseHold || s.Verdict.Fault != safety.Tilt || tilt > 0.5 || r.Status().Falls != 0 {
			t.Errorf("moment %d: %v %v by %v, tilt %.2f rad, %d falls", moment, s.Mode, s.Phase, s.Verdict.Fault, tilt, r.Status().Falls)
		}
		cancel()
		wg.Wait()
		u.Close()
		must(net.Close())
		r.Stop()
	}
}
