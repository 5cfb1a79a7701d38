package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

const (
	// aliveFor is how long the loop's clock may stand still before /healthz says so.
	aliveFor = time.Second
	// freshNs is the age of the newest state from which the robot is not ready;
	// the safety table damps there.
	freshNs = int64(40e6)
	// pulsePeriod is how often the loop's clock is looked at between requests.
	pulsePeriod = 250 * time.Millisecond
)

// pulse remembers when the loop's clock was last seen to move. The loop's clock
// alone cannot tell: in lockstep it is virtual, and a stuck one shows no age.
type pulse struct {
	mu    sync.Mutex
	nowNs int64
	moved time.Time
}

// see notes the loop's clock and says for how long it has been standing still.
func (p *pulse) see(nowNs int64, at time.Time) (still time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if nowNs != p.nowNs {
		p.nowNs, p.moved = nowNs, at
	}
	if p.moved.IsZero() { // never ticked
		return aliveFor
	}
	return at.Sub(p.moved)
}

// watch samples the loop's clock until ctx ends.
func (s *Server) watch(ctx context.Context) {
	tick := time.NewTicker(pulsePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			s.pulse.see(s.agent.NowNs(), at)
		}
	}
}

// health is the body of /healthz and /readyz.
type health struct {
	OK      bool     `json:"ok"`
	Reasons []string `json:"reasons"` // why not; empty when ok
}

func replyHealth(c *gin.Context, reasons []string) {
	status := http.StatusOK
	if len(reasons) > 0 {
		status = http.StatusServiceUnavailable
	}
	reply(c, status, health{len(reasons) == 0, append([]string{}, reasons...)})
}

// alive is empty while the loop runs.
func (s *Server) alive() (reasons []string) {
	if still := s.pulse.see(s.agent.NowNs(), time.Now()); still >= aliveFor {
		reasons = append(reasons, "the control loop has not ticked for 1 s or more")
	}
	return reasons
}

func (s *Server) healthz(c *gin.Context) { replyHealth(c, s.alive()) }

func (s *Server) readyz(c *gin.Context) {
	var snap control.Snapshot
	s.agent.Snapshot(&snap)
	replyHealth(c, append(s.alive(), notReady(&snap)...))
}

// notReady lists why the robot would not do what it is told.
func notReady(s *control.Snapshot) (reasons []string) {
	if s.Mode == control.Idle {
		reasons = append(reasons, "not armed: nothing is sent to the robot until a person arms it")
	}
	if !s.GuardAlive && !s.NoGuard && !s.Lockstep {
		reasons = append(reasons, "no guard: nothing would damp the robot if this program died")
	}
	switch {
	case !s.HaveState:
		reasons = append(reasons, "no state from the robot yet")
	case s.StateAgeNs >= freshNs:
		reasons = append(reasons, fmt.Sprintf("the newest state is %.0f ms old, want less than %d", float64(s.StateAgeNs)/1e6, freshNs/1e6))
	}
	if s.Verdict.Fault != safety.NoFault {
		info := faultInfo(s.Verdict.Fault)
		reasons = append(reasons, fmt.Sprintf("fault %d %s is latched: %s", info.Fault, info.Name, info.Title))
	} else if s.Mode == control.EStop {
		reasons = append(reasons, "stopped by an operator")
	}
	return reasons
}
