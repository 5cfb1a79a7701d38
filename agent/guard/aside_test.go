package guard_test

import (
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/guard"
)

// stuck is a terminal that takes nothing until it is open.
type stuck struct {
	io.Writer
	open chan struct{}
}

func (s stuck) Write(p []byte) (int, error) {
	<-s.open
	return s.Writer.Write(p)
}

// TestStuckLog: nobody reads the guard's log. It sees an agent's end, and what comes then is served, all the same; the log says later how much
// is not in it.
func TestStuckLog(t *testing.T) {
	var log served
	open := make(chan struct{})
	s := serve(t, func(c *guard.Config) {
		c.Log = slog.New(slog.NewTextHandler(stuck{&log, open}, nil)).With("by", "me").WithGroup("g")
	})
	c := s.dial()
	w, err := c.Register(s.socket().Fd(), s.registration())
	if err != nil {
		t.Fatal(err)
	}
	w.Begin()
	c.Close()
	until(t, "the agent's end is seen", func() bool {
		r, err := guard.Ask(t.Context(), s.address)
		return err == nil && r.AgentGone
	})
	next := s.dial()
	for range 300 {
		if err := next.Take(netip.MustParseAddrPort("127.0.0.1:9")); err == nil || !strings.Contains(err.Error(), "this guard is for") {
			t.Fatalf("another robot: %v", err)
		}
	}
	if err := next.Take(s.robot.Addr()); err != nil {
		t.Errorf("the next agent: %v", err)
	}
	if log.said() != "" {
		t.Fatalf("it is not stuck: %s", log.said())
	}
	close(open)
	until(t, "it says what is missing", func() bool { return strings.Contains(log.said(), "were dropped") })
	if said := log.said(); !strings.Contains(said, "agent registered") || !strings.Contains(said, "by=me g.") {
		t.Errorf("the log says\n%s", said)
	}
}

// TestEndWithStuckLog: it does not keep a guard that was asked to end.
func TestEndWithStuckLog(t *testing.T) {
	open := make(chan struct{})
	defer close(open)
	s := serve(t, func(c *guard.Config) {
		c.Log = slog.New(slog.NewTextHandler(stuck{io.Discard, open}, nil))
		c.Priority = 90 // which it does not get, and says
	})
	if _, err := guard.Ask(t.Context(), s.address); err != nil {
		t.Fatal(err)
	}
	s.guard.End()
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Fatal("does not end")
	}
}
