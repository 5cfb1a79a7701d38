package e2e

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// refereed lets the referee read the whole log of a rig that has ended, whose person let it stand once.
func refereed(t *testing.T, r *rig) *referee {
	t.Helper()
	ref := &referee{lockstep: true, armed: true, mayPush: true}
	r.records("summary") // ends loop and robot
	for _, line := range bytes.SplitAfter(bytes.TrimSuffix(r.robot.Log(), []byte("\n")), []byte("\n")) {
		e, err := parseEntry(line)
		if err != nil {
			t.Fatal(err)
		}
		ref.see(&e)
	}
	for _, s := range ref.said {
		t.Errorf("the robot's log: %s", s)
	}
	return ref
}

// TestDelayLine is row 30 of the cases: states that are one, two and three policy steps old. The age from state to frame is measured at
// every frame, to two ticks and the 2 ms a second by which two clocks may drift; above 30 ms it is warned of in each policy step. What then becomes of the robot (two steps throw it over within
// seconds) is the tilt's row: it is damped once and gets no torque behind that. The act of this row, at 100 ms, is in TestEndToEndAge.
func TestDelayLine(t *testing.T) {
	for steps := 1; steps <= 3; steps++ {
		t.Run(fmt.Sprintf("%d steps", steps), func(t *testing.T) {
			t.Parallel()
			const (
				rate   = 500. // ms/s, of the delay's growth: at once, states would stay away for so long
				walked = 2.   // s before
				lasts  = 1.5  // s
				drift  = 2.   // ms/s, that clocks may drift; see agent/safety
			)
			delay := 20 * float64(steps) // ms
			grown := walked + delay/rate
			type seen struct {
				tick, sensed uint32 // robot's clock, ms: now, and of the state that the target answers
				ms           float64
				warns        bool
			}
			var frames []seen
			var before control.Snapshot
			sensed := uint32(0)
			r := newRig(t, rigSetup{frames: true,
				faults: []string{fmt.Sprintf("delay_state,ms=0,ms_per_s=%g@walk+%g+%g", rate, walked, delay/rate), fmt.Sprintf("delay_state,ms=%g@walk+%g", delay, grown)},
				each: func(r *rig, s *control.Snapshot) {
					if s.Mode != control.Policy {
						sensed = 0
						return
					}
					if s.PolicyAgeNs == 0 { // a new target: it answers the state of the tick before
						sensed = before.State.Tick
					}
					before = *s
					if sensed != 0 {
						frames = append(frames, seen{r.robot.Status().Tick - tickMs, sensed, float64(s.EndToEndNs) / 1e6, s.Verdict.Warnings>>safety.EndToEndAge&1 == 1})
					}
				}})
			r.walk()
			w := r.walkedAt()
			r.runTo(w + grown + lasts)
			ref := refereed(t, r)
			// From a policy step after the delay has grown, while the policy still drives.
			from := uint32((w+grown)*1e3) + 60
			n, young, old, most, warned, unwarned := 0, 0., 0., 0., 0, 0
			for _, f := range frames {
				if f.tick < from || f.tick > uint32((w+grown+lasts)*1e3) {
					continue
				}
				n++
				truth := float64(f.tick - f.sensed)
				young = max(young, truth-f.ms-drift*(float64(f.tick)/1e3-w-walked))
				old, most = max(old, f.ms-truth), max(most, truth)
				switch {
				case f.warns:
					warned++
				case f.ms >= 30:
					unwarned++
				}
			}
			if n < 100 {
				t.Fatalf("%d frames were seen", n)
			}
			if young > 2*tickMs+1e-6 || old > 2*tickMs+1e-6 {
				t.Errorf("the age is measured up to %.1f ms too young, %.1f too old", young, old)
			}
			if most < delay || most > delay+20+3*tickMs {
				t.Errorf("the oldest state that was answered was %.0f ms old, want %.0f..%.0f", most, delay, delay+26)
			}
			if unwarned > 0 || warned < n/10 {
				t.Errorf("%d frames of 30 ms and more without a warning, %d with, of %d", unwarned, warned, n)
			}
			t.Logf("%d frames, oldest state %.0f ms, measured to -%.1f +%.1f ms, %d warned of; %d stops, largest tilt %.2f rad", n, most, young, old, warned, len(ref.stops), ref.tilt)
		})
	}
}

// TestPolicySlow is row 27 of the cases: a policy that takes half of its period walks, on a loop that is none the later for it; one that
// misses two periods is let go, its legs are brought home, and it is damped at five. A policy is held up in real time: where the machine
// stood still besides, for so long that a tick went on without a state or an answer, it is tried again.
func TestPolicySlow(t *testing.T) {
	for _, c := range []slowPolicy{{"10 ms of 20", 25, 5}, {"44 ms", 1, 22}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for try := range tries {
				disturbed := false
				if !t.Run(fmt.Sprintf("try=%d", try+1), func(t *testing.T) { disturbed = c.walks(t) }) || !disturbed {
					return
				}
			}
			t.Skipf("the machine stood still in each of %d tries", tries)
		})
	}
}

type slowPolicy struct {
	name    string
	answers int // in a row that are late
	ticks   int // after the reading
}

// walks says whether the machine stood still meanwhile: then nothing is judged.
func (c *slowPolicy) walks(t *testing.T) (disturbed bool) {
	var held, stood atomic.Bool
	release := make(chan struct{}, 1)
	ticks := 0
	late := []int64{} // ns, ages at which targets were taken over
	newest := uint32(0)
	var asked noted
	var answered atomic.Int64
	r := newRig(t, rigSetup{frames: true, waitMs: 100, // an answer that is held back is waited for that long
		each: func(_ *rig, s *control.Snapshot) {
			asked.look(s)
			if s.Mode == control.Policy && s.PolicyAgeNs == 0 {
				late = append(late, s.EndToEndNs)
			}
			if n := answered.Load(); n > 50 && (s.State.Tick == newest || n < fromAnswer-1 && s.PolicyAgeNs >= 20e6) {
				stood.Store(true)
			}
			newest = s.State.Tick
			if !held.Load() {
				ticks = 0
				return
			}
			if ticks++; ticks == c.ticks {
				held.Store(false)
				release <- struct{}{}
				time.Sleep(2 * time.Millisecond) // for the answer to be handed over
			}
		},
		twist: func(n int, _ *rollout.Decision) error {
			answered.Store(int64(n))
			if n < fromAnswer || n >= fromAnswer+c.answers {
				return nil
			}
			asked.ask()
			held.Store(true)
			<-release
			return nil
		}})
	r.walk()
	w := r.walkedAt()
	until(t, "a slow answer", func() bool { return asked.Load() > 0 })
	since := float64(asked.Load()) / 1e3
	const watched = 3. // s
	r.runTo(since + watched)
	st := getState(t, r.http)
	if stood.Load() {
		t.Log("the machine stood still")
		return true
	}
	ref := refereed(t, r)
	if c.answers > 1 {
		walkedOn(t, r.robot.Records(), max(since, w+1), since+watched, 0.8)
		slow := 0
		for _, ns := range late {
			if ns >= 10e6 {
				slow++
			}
		}
		if st.Mode != "policy" || st.fault() != "" || slow != c.answers {
			t.Errorf("state says mode %s, fault %q; %d answers took 10 ms", st.Mode, st.fault(), slow)
		}
		return false
	}
	recs := r.robot.Records()
	last := since - 9*tickMs/1e3 // when the target before came
	if ms := (firstMove(recs, last+tickMs/1e3) - last) * 1e3; !(ms >= 40 && ms <= 40+2*tickMs+1e-6) {
		t.Errorf("stand hold began %.0f ms after the last target, want 40", ms)
	}
	if st.Mode != "damp" || st.fault() != "policy_stale" || len(ref.stops) != 1 {
		t.Errorf("state says mode %s, fault %q, %d stops", st.Mode, st.fault(), len(ref.stops))
	} else if ms := (ref.stops[0].t - last) * 1e3; ms < 100-1e-6 || ms > 100+2*tickMs+1e-6 {
		t.Errorf("damped %.0f ms after the last target, want 100", ms)
	}
	return false
}

// TestLoopJitter is row 27 of the cases as well: a loop that is 5 ms late in five ticks of fifty walks on, and is warned of.
func TestLoopJitter(t *testing.T) {
	t.Parallel()
	const every, late, lateNs = 10, 5, int64(5e6)
	walked, n := 0, 0
	var warned, early atomic.Bool
	r := newRig(t, rigSetup{frames: true, each: func(r *rig, s *control.Snapshot) {
		if s.Mode != control.Policy {
			return
		}
		if s.Verdict.Warnings>>safety.LoopLate&1 == 1 {
			warned.Store(true)
			early.Store(early.Load() || n < late)
		}
		if walked++; walked > 2000 && walked%every == 0 && n < late {
			n++
			r.clock.now += lateNs
		}
	}})
	r.walk()
	w := r.walkedAt()
	until(t, "the warning", func() bool { return warned.Load() || r.robot.Status().T > w+10 })
	r.runTo(w + 6)
	st := getState(t, r.http)
	ref := refereed(t, r)
	if !warned.Load() || early.Load() {
		t.Errorf("warned of: %v, before the fifth late tick: %v", warned.Load(), early.Load())
	}
	if st.Mode != "policy" || st.fault() != "" || len(ref.stops) != 1 {
		t.Errorf("state says mode %s, fault %q, %d stops, want the one at the end", st.Mode, st.fault(), len(ref.stops))
	}
}
