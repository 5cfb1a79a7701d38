package e2e

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// fromAnswer is the policy's answer from which these tests meddle: fifty a second, so it has walked for some seconds.
const fromAnswer = 200

// noted is the robot's clock, ms, at the newest state of a tick, noted by the loop's thread when another goroutine asks.
type noted struct{ atomic.Int64 }

func (n *noted) ask() { n.CompareAndSwap(0, -1) }

func (n *noted) look(s *control.Snapshot) {
	if n.Load() == -1 {
		n.Store(int64(s.State.Tick))
	}
}

// TestPolicyHangs is the row of the policy's output's age, and row 19 of the cases: whatever computes targets dies or hangs
// while the robot walks. One that says at once that it has failed, or gives what is no number, is not waited for.
func TestPolicyHangs(t *testing.T) {
	for _, c := range []struct {
		name  string
		hang  func(stop chan struct{}, out *rollout.Decision) error
		cause string
		age   float64 // ms, of the last target, when damping is due
	}{
		{"hangs", func(stop chan struct{}, _ *rollout.Decision) error { <-stop; return nil }, "policy_stale", 100},
		{"fails", func(chan struct{}, *rollout.Decision) error { return errors.New("the policy failed") }, "target_refused", 20},
		{"says no number", func(_ chan struct{}, out *rollout.Decision) error { out.Action[7] = float32(math.NaN()); return nil }, "target_refused", 20},
		{"says infinity", func(_ chan struct{}, out *rollout.Decision) error { out.Action[0] = float32(math.Inf(-1)); return nil }, "target_refused", 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stop := make(chan struct{})
			var asked noted // the reading that was not answered
			r := newRig(t, rigSetup{frames: true, waitMs: 300,
				each: func(_ *rig, s *control.Snapshot) { asked.look(s) },
				twist: func(n int, out *rollout.Decision) error {
					if n != fromAnswer {
						return nil
					}
					asked.ask()
					return c.hang(stop, out)
				}})
			release := sync.OnceFunc(func() { close(stop) })
			defer release()
			r.walk()
			r.walkedAt()
			until(t, "the policy's hang", func() bool { return asked.Load() > 0 })
			r.runTo(float64(asked.Load())/1e3 + 0.2 + after)
			st := getState(t, r.http)
			release()
			recs := r.records()
			// The last target came with the tick behind the reading before, nine ticks ago.
			last := float64(asked.Load())/1e3 - 9*tickMs/1e3
			at, _, ok := damped(recs, last)
			if !ok {
				t.Fatalf("no damping frame arrived; the agent says mode %s %s, severity %s, fault %q", st.Mode, st.Phase, st.Severity, st.fault())
			}
			if age := (at - last) * 1e3; age < c.age-1e-6 || age > c.age+2*tickMs+1e-6 {
				t.Errorf("first damping frame %.0f ms after the last target, want %.0f", age, c.age)
			}
			if r := torqueAfter(recs, at); r != nil {
				t.Errorf("torque after damping: %v", *r)
			}
			if st.Mode != "damp" || st.fault() != c.cause || st.Severity != "damp" {
				t.Errorf("state says mode %s, severity %s, fault %q", st.Mode, st.Severity, st.fault())
			}
			letGo := firstMove(recs, last+tickMs/1e3)
			if ms := (letGo - last) * 1e3; c.age > 40 && !(ms >= 40 && ms <= 40+2*tickMs+1e-6) { // the legs begin to go home
				t.Errorf("stand hold began %.0f ms after the last target, want 2 periods, 40 ms", ms)
			}
			t.Logf("damped %.0f ms after the last target, legs on their way home at %.0f ms", (at-last)*1e3, (letGo-last)*1e3)
		})
	}
}

// firstMove is when the targets of the frames first change behind a time, s.
func firstMove(recs []virtualtest.Record, since float64) float64 {
	var last []any
	for _, r := range recs {
		at := float64(r.Tick()) / 1e3
		if r.Text("event") != "frame" || at < since-1e-6 {
			continue
		}
		target := r["target"].([]any)
		if last != nil && !slices.Equal(target, last) {
			return at
		}
		last = target
	}
	return math.NaN()
}

// TestPolicyLate is the same row below its thresholds: one answer in 100 comes 18 ms late, so that the one before
// is 36 ms old.
func TestPolicyLate(t *testing.T) {
	t.Parallel()
	const every, lateTicks = 100, 10
	var late atomic.Bool
	release := make(chan struct{}, 1)
	ticks, worst := 0, int64(0)
	r := newRig(t, rigSetup{
		each: func(_ *rig, s *control.Snapshot) {
			if s.Mode == control.Policy {
				worst = max(worst, s.PolicyAgeNs)
			}
			if !late.Load() {
				return
			}
			if ticks++; ticks == lateTicks {
				ticks = 0
				late.Store(false)
				release <- struct{}{}
				time.Sleep(5 * time.Millisecond) // for the answer to be handed over
			}
		},
		twist: func(n int, _ *rollout.Decision) error {
			if n < fromAnswer || n%every != 0 {
				return nil
			}
			late.Store(true)
			<-release
			return nil
		},
		waitMs: 150, // an answer that is held back is waited for that long
	})
	r.walk()
	w := r.walkedAt()
	r.runTo(w + 2 + calm)
	st := getState(t, r.http)
	recs := r.records()
	walkedOn(t, recs, w+2, w+2+calm, 0.8)
	if st.Mode != "policy" || st.fault() != "" {
		t.Errorf("state says mode %s, fault %q", st.Mode, st.fault())
	}
	if worst < 30e6 || worst >= 40e6 {
		t.Errorf("oldest output %d ms, want 30..40", worst/1e6)
	}
	t.Logf("oldest output %d ms", worst/1e6)
}

// nonsense makes one answer in every on one joint a target of q rad.
func nonsense(joint, every int, q float64, gently bool) func(int, *rollout.Decision) error {
	return func(n int, out *rollout.Decision) error {
		// Gently: where the leg goes a third of the way anyhow, so that a robot survives it for a minute. A calf kicked out of its swing
		// turns at up to 19.8 rad/s, beyond what it is damped for; like this at 15.
		away := q - float64(go1.Home[joint])
		if n >= fromAnswer && n%every == 0 && (!gently || float64(out.Action[joint])*0.5/away > 0.3) {
			out.Action[joint] = float32(away / 0.5)
		}
		return nil
	}
}

// unclipped lets a policy ask for what it likes.
func unclipped(s *rollout.Spec) { s.Action.Clip = nil }

var joints = []struct {
	name    string
	joint   int
	outside float64 // rad, a target less than 0.5 rad outside
	every   int     // answers, how often a walking robot survives it
}{
	{"hip", 3, float64(go1.TargetUpper[3]) + 0.49, 50},
	{"thigh", 7, float64(go1.TargetUpper[7]) + 0.49, 50},
	{"calf", 2, float64(go1.TargetUpper[2]) + 0.49, 13},
}

// TestTargetRefused is the row of the target's angle: more than 0.5 rad outside the limits is refused, and no frame leaves with it.
func TestTargetRefused(t *testing.T) {
	for _, j := range joints {
		for side, q := range map[string]float64{
			"above": float64(go1.TargetUpper[j.joint]) + 0.51, "below": float64(go1.TargetLower[j.joint]) - 0.51,
		} {
			t.Run(j.name+" "+side, func(t *testing.T) {
				t.Parallel()
				var asked noted
				mad := nonsense(j.joint, 1, q, false)
				r := newRig(t, rigSetup{frames: true, spec: unclipped,
					each: func(_ *rig, s *control.Snapshot) { asked.look(s) },
					twist: func(n int, out *rollout.Decision) error {
						if n == fromAnswer {
							asked.ask()
						}
						return mad(n, out)
					}})
				r.walk()
				r.walkedAt()
				until(t, "the nonsense", func() bool { return asked.Load() > 0 })
				since := float64(asked.Load()) / 1e3
				r.runTo(since + after + 0.1)
				st := getState(t, r.http)
				recs := r.records()
				at, _, ok := damped(recs, since)
				if age := (at - since) * 1e3; !ok || age > 2*tickMs+1e-6 {
					t.Errorf("damped: %v, %.0f ms after the state that was answered, want two ticks", ok, age)
				}
				if r := torqueAfter(recs, at); r != nil {
					t.Errorf("torque after damping: %v", *r)
				}
				if st.Mode != "damp" || st.fault() != "target_refused" || st.Limited.Refused == 0 ||
					st.Fault.Joint == nil || *st.Fault.Joint != go1.JointNames[j.joint] {
					t.Errorf("state says mode %s, fault %+v, %+v", st.Mode, st.Fault, st.Limited)
				}
				insideLimits(t, recs)
			})
		}
	}
}

// insideLimits fails for a torque frame with a target outside the joint's range.
func insideLimits(t *testing.T, recs []virtualtest.Record) {
	t.Helper()
	frames := 0
	for _, r := range recs {
		if r.Text("event") != "frame" || r.Text("class") != "torque" {
			continue
		}
		frames++
		if r.Number("t") < 3 { // on its way up from the folded pose, where encoders may read beyond a limit
			continue
		}
		for i, q := range r["target"].([]any) {
			if q := q.(float64); q < float64(go1.TargetLower[i])-1e-5 || q > float64(go1.TargetUpper[i])+1e-5 {
				t.Fatalf("a frame arrived with %s at %v", go1.JointNames[i], q)
			}
		}
	}
	if frames == 0 {
		t.Error("no torque frame was logged")
	}
}

// TestTargetClamped is the row below: what lies less outside is moved to the limit and counted, and the robot walks on.
func TestTargetClamped(t *testing.T) {
	for _, j := range joints {
		t.Run(j.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigSetup{frames: true, spec: unclipped,
				twist: nonsense(j.joint, j.every, j.outside, j.joint%3 == go1.Calf)})
			r.walk()
			w := r.walkedAt()
			r.runTo(w + 2 + calm)
			st := getState(t, r.http)
			recs := r.records()
			walkedOn(t, recs, w+2, w+2+calm, 0.8)
			insideLimits(t, recs)
			if st.Mode != "policy" || st.fault() != "" || st.Limited.Clamped < 50 {
				t.Errorf("state says mode %s, fault %q, %+v", st.Mode, st.fault(), st.Limited)
			}
		})
	}
}

// TestTorqueCapped is the row of the predicted torque: the frame that arrives asks for no more than the motor gives, at the
// angles and speeds that the robot has when it arrives. The contract's gains are raised, with which a calf can ask for enough.
func TestTorqueCapped(t *testing.T) {
	const slack = 0.8 // N*m: 0.004 rad of the encoders' zeros and the noise of their speeds
	for _, j := range joints {
		t.Run(j.name, func(t *testing.T) {
			t.Parallel()
			limit := float64(go1.TorqueMax[j.joint])
			target := float64(go1.TargetUpper[j.joint]) - 0.01
			r := newRig(t, rigSetup{frames: true, twist: nonsense(j.joint, 50, target, false), spec: func(s *rollout.Spec) {
				unclipped(s)
				for i := range s.Kp {
					s.Kp[i], s.Kd[i] = 60, 1
				}
			}})
			r.walk()
			w := r.walkedAt()
			r.runTo(w + 12)
			st := getState(t, r.http)
			recs := r.records()
			worst, near := [go1.Joints]float64{}, 0
			for _, f := range recs {
				if f.Text("event") != "frame" || f.Text("class") != "torque" {
					continue
				}
				for i, tau := range f["torques"].([]any) {
					tau := math.Abs(tau.(float64))
					worst[i] = max(worst[i], tau)
					if i == j.joint && tau > limit-slack {
						near++
					}
				}
			}
			for i, tau := range worst {
				if tau > float64(go1.TorqueMax[i])+slack {
					t.Errorf("a frame asked %s for %.2f N*m of %.2f", go1.JointNames[i], tau, go1.TorqueMax[i])
				}
			}
			if near < 10 || st.Limited.Capped < 10 {
				t.Errorf("%d frames ask for nearly %.2f N*m, %d were capped: the limit was not tried", near, limit, st.Limited.Capped)
			}
			// Not every robot goes on walking after that; whether it does is no matter of this row.
			t.Logf("largest torque asked for %.2f N*m of %.2f, %d capped", worst[j.joint], limit, st.Limited.Capped)
		})
	}
}

// TestFarFirstTarget is row 17 of the cases: the policy's first target lies 0.9 rad from where the joint is.
func TestFarFirstTarget(t *testing.T) {
	const blend = 110 // ticks of the 150 in which gains and targets move over; the nonsense lasts 120
	for _, j := range joints[1:] {
		t.Run(j.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigSetup{frames: true, still: true, spec: unclipped, twist: func(n int, out *rollout.Decision) error {
				if n <= 12 {
					out.Action[j.joint] = 0.9 / 0.5
				}
				return nil
			}})
			r.walk()
			until(t, "walking", func() bool { s := r.snapshot(); return s.Phase == control.PhaseWalk || s.Verdict.Severity != 0 })
			st := getState(t, r.http)
			entered := r.snapshot() // only for the message
			recs := r.records()
			if st.fault() != "" {
				t.Fatalf("fault %q in mode %v", st.fault(), entered.Mode)
			}
			limit := float64(go1.TorqueMax[j.joint])
			var before virtualtest.Record
			jump, step, torque, since := 0., 0., 0., 0
			for _, f := range recs {
				if f.Text("event") != "frame" || f.Text("class") != "torque" || f.Number("t") < 2.8 {
					continue
				}
				switch {
				case since == 0 && before != nil && (f.Number("kp") != before.Number("kp") || f["target"].([]any)[j.joint] != before["target"].([]any)[j.joint]):
					since = 1
					for i := range go1.Joints {
						jump = max(jump, math.Abs(f["torques"].([]any)[i].(float64)-before["torques"].([]any)[i].(float64)))
					}
				case since > 0 && since < blend:
					since++
					step = max(step, math.Abs(f["target"].([]any)[j.joint].(float64)-before["target"].([]any)[j.joint].(float64)))
				}
				if since > 0 {
					torque = max(torque, math.Abs(f["torques"].([]any)[j.joint].(float64)))
				}
				before = f
			}
			if since == 0 || jump > 1 || step > 0.03 || torque > limit+0.5 {
				t.Errorf("at entry the torque jumps by %.2f N*m (want 1), its target moves %.4f rad a tick (want 0.03), largest torque %.1f N*m (want %.1f)",
					jump, step, torque, limit)
			}
			t.Logf("at entry: torque jumps %.2f N*m, its target moves %.4f rad a tick, largest torque %.1f N*m", jump, step, torque)
		})
	}
}
