package e2e

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// walking policies answer fifty times a second; the hundredth answer but these is three seconds into walking.
const atAnswer = 200

// TestPolicyHangs is the row of the policy's output's age, and row 19 of the cases: the process that computes targets dies or
// hangs while the robot walks.
func TestPolicyHangs(t *testing.T) {
	for name, hang := range map[string]func(stop chan struct{}) error{
		"hangs": func(stop chan struct{}) error { <-stop; return errors.New("the policy hung") },
		"fails": func(chan struct{}) error { return errors.New("the policy failed") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stop := make(chan struct{})
			var askedTick atomic.Int64 // of the reading that it did not answer
			r := newRig(t, rigSetup{frames: true, waitMs: 300, each: func(r *rig, s *control.Snapshot) {
				if askedTick.Load() == -1 {
					askedTick.Store(int64(s.State.Tick))
				}
			}, twist: func(n int, _ *rollout.Decision) error {
				if n < atAnswer {
					return nil
				}
				askedTick.CompareAndSwap(0, -1)
				return hang(stop)
			}})
			release := sync.OnceFunc(func() { close(stop) })
			defer release()
			r.walk()
			r.walkedAt()
			until(t, "the policy's hang", func() bool { return askedTick.Load() > 0 })
			r.runTo(float64(askedTick.Load())/1e3 + 0.2 + after)
			st := getState(t, r.http)
			release()
			recs := r.records()
			// The last target arrived with the tick behind the reading before, one period and a tick earlier.
			last := float64(askedTick.Load())/1e3 - 0.02
			at, _, ok := damped(recs, last)
			if !ok {
				t.Fatalf("no damping frame arrived; the agent says mode %s %s, severity %s, fault %q", st.Mode, st.Phase, st.Severity, st.fault())
			}
			if age := (at - last) * 1e3; age < 95 || age > 100+2*tickMs+2 {
				t.Errorf("first damping frame %.0f ms after the last target, want 5 periods, 100 ms", age)
			}
			if r := torqueAfter(recs, at); r != nil {
				t.Errorf("torque after damping: %v", *r)
			}
			if st.Mode != "damp" || st.fault() != "policy_stale" || st.Severity != "damp" {
				t.Errorf("state says mode %s, severity %s, fault %q", st.Mode, st.Severity, st.fault())
			}
		})
	}
}

// TestPolicyLate is the same row just below its thresholds: every answer half a period late walks on; one that misses a
// period and comes before the second is nothing but counted.
func TestPolicyLate(t *testing.T) {
	t.Parallel()
	t.Skip("written below")
	_ = math.Pi
}
