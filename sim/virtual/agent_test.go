package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// agent is a control loop in lockstep with a robot, and its link.
func agent(t *testing.T, r *virtualtest.Robot) (*control.Loop, *link.UDP) {
	t.Helper()
	u, err := link.DialUDP(link.UDPConfig{Robot: r.Addr(), VirtualTime: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg := control.DefaultConfig()
	cfg.Lockstep = true
	loop, err := control.New(cfg, control.Parts{Link: u, Safety: safety.DefaultConfig(), Estimate: estimate.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(context.Background()) }()
	t.Cleanup(func() {
		loop.Stop()
		loop.Stop()
		if err := <-ended; err != nil {
			t.Errorf("loop: %v", err)
		}
		u.Close()
	})
	return loop, u
}

// until waits for the loop to come to what ok asks for, at most limit of robot time.
func until(t *testing.T, l *control.Loop, what string, limit time.Duration, ok func(*control.Snapshot) bool) {
	t.Helper()
	var s control.Snapshot
	l.Snapshot(&s)
	for end := s.NowNs + int64(limit); s.NowNs < end; l.Snapshot(&s) {
		if ok(&s) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("not %s within %v: mode %v %v, verdict %+v", what, limit, s.Mode, s.Phase, s.Verdict)
}

func TestAgentStandsAndSits(t *testing.T) {
	r := virtualtest.Start(t, virtualtest.Config())
	l, _ := agent(t, r)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(l.Arm(ctx))
	until(t, l, "listening", time.Second, func(s *control.Snapshot) bool { return s.Stats.States > 20 && s.RemotePresent })
	must(l.SetMode(ctx, control.Stand))
	until(t, l, "standing", 5*time.Second, func(s *control.Snapshot) bool { return s.Phase == control.PhaseReady })
	until(t, l, "still standing", time.Second, func(s *control.Snapshot) bool { return r.Status().Posture == "standing" })
	if h := r.Status().Pos[2]; h < 0.25 || h > 0.3 {
		t.Errorf("it stands at %.3f m", h)
	}
	must(l.SetMode(ctx, control.Sit))
	until(t, l, "damping", 5*time.Second, func(s *control.Snapshot) bool { return s.Mode == control.Damp })
	until(t, l, "lying", 2*time.Second, func(s *control.Snapshot) bool { return r.Status().Posture == "lying" })
	l.Stop()
	<-l.Ended()
	r.Stop()
	var s control.Snapshot
	l.Snapshot(&s)
	for _, rec := range r.Records("command", "stood", "lying", "fall", "limp", "sender", "reject") {
		t.Log(rec)
	}
	sum := r.Summary()
	t.Logf("%+v", sum)
	if sum.Falls != 0 || sum.Posture != "lying" || sum.Frames != s.Stats.Sent || sum.Answered != s.Stats.States {
		t.Errorf("robot: %d falls, %s, %d frames, %d answers; agent: %d sent, %d states", sum.Falls, sum.Posture, sum.Frames, sum.Answered,
			s.Stats.Sent, s.Stats.States)
	}
}

// On a road where commands are lost, doubled, damaged and overtaken and strangers send states, an agent in lockstep still stands up: nothing
// of it stops the clock, and no stranger's word counts.
func TestAgentOnABadRoad(t *testing.T) {
	cfg := virtualtest.Config()
	for _, text := range []string{"drop_command,p=0.02@0", "duplicate_command,p=0.1@0", "corrupt_command,p=0.02@0", "reorder_command,samples=40@1/3",
		"duplicate_state,p=0.1@0", "foreign_state,what=lie,p=0.5@0", "foreign_state,what=garbage,p=0.2@0"} {
		f, err := virtual.ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	r := virtualtest.Start(t, cfg)
	l, u := agent(t, r)
	if err := l.Arm(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, l, "listening", 2*time.Second, func(s *control.Snapshot) bool { return s.Stats.States > 20 && s.RemotePresent })
	if err := l.SetMode(t.Context(), control.Stand); err != nil {
		t.Fatal(err)
	}
	until(t, l, "ready", 8*time.Second, func(s *control.Snapshot) bool { return s.Phase == control.PhaseReady })
	until(t, l, "standing", 2*time.Second, func(s *control.Snapshot) bool { return r.Status().Posture == "standing" })
	if u.Counters().Foreign == 0 {
		t.Error("no foreign states were seen")
	}
	l.Stop()
	l.Stop()
	<-l.Ended()
	r.Stop()
	if sum := r.Summary(); sum.Rejected["crc"] == 0 || sum.Dropped == 0 || len(r.Records("error")) != 0 {
		t.Errorf("refused %v, dropped %d, errors %v", sum.Rejected, sum.Dropped, r.Records("error"))
	}
}
