package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// mixed is one of the ten faults of promise 19, as a walking robot, its policy, its computer or a person brings it about.
type mixed struct {
	name     string
	robot    string // the virtual robot's fault, which begins when it is told
	severity safety.Severity
	dueMs    float64 // after the first state that shows it
	drives   bool    // it acts only on a robot that the policy drives
}

// Seven are the pure judge's (agent/safety). Three differ:
//   - Its policy is 45 ms old, ours fails: in lockstep the loop's time waits for a policy. TestPolicySlow and TestPolicyHangs let one grow
//     old in real time.
//   - Its command is 11 s old, ours is a joint that is no number: the sticks drive here, are never old, and 11 s of silence would outlast
//     the 1.5 s in which the others begin. TestCommandStops is silent for as long.
//   - Its remote says L2+B, our operator cuts by the program: "remote absent" takes the very bytes away. TestRemoteStopWithoutHTTP presses.
//
// So only one of ours lets the legs hold and no more, where the judge has three.
var ten = [10]mixed{
	{name: "tilt 0.7 rad", robot: "imu_tilt,rad=0.7,how=set,samples=2@now", severity: safety.StandHold},
	{name: "policy fails", severity: safety.Damp, dueMs: 22, drives: true}, // up to 20 ms to the next question
	{name: "battery 8 %", robot: "battery,soc=8@now", severity: safety.Sit, dueMs: 1000},
	{name: "remote absent", robot: "remote_absent@now", severity: safety.Sit, dueMs: 1000},
	{name: "motor 86 C", robot: "temperature,joint=FL_calf,value=86@now", severity: safety.Sit, dueMs: 2000},
	{name: "no states", robot: "drop_state@now+0.046", severity: safety.Damp, dueMs: 42},
	{name: "joint at 29 rad/s", robot: "joint_speed,joint=RL_hip,value=29,samples=5@now", severity: safety.Damp, dueMs: 8},
	{name: "joint no number", robot: "joint_nan,joint=RR_calf,samples=1@now", severity: safety.Damp},
	{name: "loop late 21 ms", severity: safety.Damp},
	{name: "operator cuts", severity: safety.Cut},
}

const (
	policyFails  = 1
	noStates     = 5
	loopLate     = 8
	operatorCuts = 9
)

// history is a subset of the ten in the order in which they begin.
type history struct {
	subset int // bits
	order  []int
}

// most is the most severe of its acts.
func (h *history) most() (s safety.Severity) {
	for _, f := range h.order {
		s = max(s, ten[f].severity)
	}
	return s
}

// evenly are the severities, of which each is the most severe of as many cases: of all subsets nearly every one damps or cuts.
var evenly = [...]safety.Severity{safety.StandHold, safety.Sit, safety.Damp, safety.Cut}

// histories are the cases of one severity, no two alike: first each subset once, in a drawn sequence, then those that have one in a
// second order, and so on up to enough.
func histories(most safety.Severity, enough int) (all []history) {
	random := rand.New(rand.NewPCG(uint64(most), 1919))
	orders := map[int]func() []int{}
	var subsets []int
	for subset := 1; subset < 1<<len(ten); subset++ {
		h := history{subset: subset}
		for f := range ten {
			if subset>>f&1 == 1 {
				h.order = append(h.order, f)
			}
		}
		if h.most() == most {
			subsets, orders[subset] = append(subsets, subset), shuffles(random, h.order)
		}
	}
	random.Shuffle(len(subsets), func(i, k int) { subsets[i], subsets[k] = subsets[k], subsets[i] })
	for len(subsets) > 0 && len(all) < enough {
		subsets = slices.DeleteFunc(subsets, func(subset int) bool {
			order := orders[subset]()
			if order != nil {
				all = append(all, history{subset, order})
			}
			return order == nil
		})
	}
	return all[:min(len(all), enough)]
}

// shuffles gives the orders of a subset, one at each call in a drawn sequence and none twice; nil when there are no more.
func shuffles(random *rand.Rand, members []int) func() []int {
	given, left := map[string]bool{}, 1
	for n := range members {
		left *= n + 1
	}
	return func() []int {
		if left == 0 {
			return nil
		}
		left--
		for {
			order := slices.Clone(members)
			random.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
			if key := fmt.Sprint(order); !given[key] {
				given[key] = true
				return order
			}
		}
	}
}

const histories19 = 200

// history19 is that of a case. A tilt alone has one order and is all that lets the legs hold and no more: it comes at another instant each
// time.
func history19(seed uint64) history {
	all := histories(evenly[(seed-1)%uint64(len(evenly))], histories19/len(evenly))
	return all[(seed-1)/uint64(len(evenly))%uint64(len(all))]
}

// TestPromise19Histories: the severities are even, and no history comes twice but the one that is alone.
func TestPromise19Histories(t *testing.T) {
	severities, faults, seen := map[safety.Severity]int{}, map[int]int{}, map[string]bool{}
	for seed := uint64(1); seed <= histories19; seed++ {
		h := history19(seed)
		if again := history19(seed); !slices.Equal(h.order, again.order) || h.subset != again.subset {
			t.Fatalf("seed %d: %v, and once more: %v", seed, h, again)
		}
		severities[h.most()]++
		subset := 0
		for _, f := range h.order {
			faults[f]++
			subset |= 1 << f
		}
		if subset != h.subset {
			t.Errorf("seed %d: subset %010b in order %v", seed, h.subset, h.order)
		}
		key := fmt.Sprint(h.order)
		if seen[key] && h.most() > safety.StandHold {
			t.Errorf("seed %d: %v comes twice", seed, h.order)
		}
		seen[key] = true
	}
	for _, s := range evenly {
		if severities[s] != histories19/len(evenly) {
			t.Errorf("%d histories with %v at most, want %d", severities[s], s, histories19/len(evenly))
		}
	}
	for f := range ten {
		if faults[f] < histories19/10 {
			t.Errorf("%s is in %d of %d histories", ten[f].name, faults[f], histories19)
		}
	}
}

// mix is a walk on which several of the ten begin, and what the loop said of it, tick by tick.
type mix struct {
	t      *testing.T
	order  []int // faults in the order in which they begin
	atNs   []int64
	begun  int
	since  []int64 // loop's time at which each began
	ticks  []int64 // robot's clock then, ms
	fromNs int64   // loop's time of the first tick in mode policy
	from   atomic.Int64
	seen   []seenTick
	cut    sync.WaitGroup
	fail   atomic.Bool
	over   atomic.Bool // a person re-arms
}

type seenTick struct {
	ns              int64
	torque, driving bool
	severity        safety.Severity
}

const settled = 2e9 // ns of walking before the first fault

// look is called before each tick.
func (m *mix) look(r *rig, s *control.Snapshot) {
	if s.Mode == control.Policy && m.fromNs == 0 {
		m.fromNs = s.NowNs
		m.from.Store(int64(s.State.Tick))
	}
	if m.fromNs == 0 || m.over.Load() {
		return
	}
	now := seenTick{s.NowNs, s.Mode == control.Stand || s.Mode == control.Policy || s.Mode == control.Sit,
		s.Mode == control.Policy || s.Phase == control.PhaseStopping, s.Verdict.Severity}
	if n := len(m.seen); n > 0 && now.severity < m.seen[n-1].severity {
		m.t.Errorf("%v was lowered to %v, and nobody re-armed", m.seen[n-1].severity, now.severity)
	}
	m.seen = append(m.seen, now)
	ok := true
	switch now.severity {
	case safety.Cut:
		ok = s.Mode == control.EStop
	case safety.Damp:
		ok = s.Mode == control.Damp
	case safety.Sit:
		ok = s.Mode == control.Sit || s.Mode == control.Damp
	case safety.StandHold:
		ok = s.Mode == control.Stand
	}
	if !ok {
		m.t.Errorf("latched %v by %v, and the mode is %v %v", now.severity, s.Verdict.Fault, s.Mode, s.Phase)
	}
	for m.begun < len(m.order) && s.NowNs-m.fromNs >= settled+m.atNs[m.begun] {
		f := m.order[m.begun]
		m.begun++
		m.since, m.ticks = append(m.since, s.NowNs), append(m.ticks, int64(s.State.Tick))
		switch f {
		case policyFails:
			m.fail.Store(true)
		case loopLate:
			r.clock.heldUp = 21e6
		case operatorCuts:
			m.cut.Go(func() {
				if err := r.loop.EStop(context.Background(), true); err != nil {
					m.t.Errorf("operator cuts: %v", err)
				}
			})
		default:
			r.robot.Fault(ten[f].robot)
		}
	}
}

// must says whether the n-th of the faults had to act: whether it found, all the time in which it was due, a robot that it acts on.
func (m *mix) must(n int) bool {
	f := &ten[m.order[n]]
	if m.order[n] == operatorCuts {
		return true
	}
	// Two ticks for the state that shows it and its answer; a silence of 46 ms meanwhile, and a late loop, put a condition that has
	// to last off until the next state.
	from, to := m.since[n], m.since[n]+int64((f.dueMs+2*tickMs)*1e6)
	if f.dueMs >= 1000 {
		to += 100e6
	}
	for _, s := range m.seen {
		if s.ns >= from && s.ns <= to && s.severity < f.severity && !(s.torque && (s.driving || !f.drives)) {
			return false
		}
	}
	return true
}

// TestPromise19EndToEnd: of several faults on a walking robot the most severe act is done, at once and for good, until a person re-arms;
// the robot's log is the referee. A case is a subset of ten faults that begin at random times within 1.5 s, in lockstep; each severity is
// as often the most severe. OPENCLAW_SOAK=19 runs 200; all 1024 subsets in 20 orders each pass the pure judge in agent/safety.
func TestPromise19EndToEnd(t *testing.T) {
	promise.New(t, 19, uint64(len(evenly)), histories19).Run(t, func(t *testing.T, seed uint64) map[string]any {
		random := rand.New(rand.NewPCG(seed, 1919))
		h := history19(seed)
		m := &mix{t: t, order: h.order}
		at := int64(0)
		for range m.order {
			at += random.Int64N(3e9 / int64(len(m.order)))
			m.atNs = append(m.atNs, min(at, 1.5e9))
		}
		var names []string
		for n, f := range m.order {
			names = append(names, fmt.Sprintf("%s at %.3f s", ten[f].name, float64(m.atNs[n])/1e9))
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the faults, from 2 s after it began to walk: %s", strings.Join(names, ", "))
			}
		})
		r := newRig(t, rigSetup{seed: seed, noHTTP: true, each: m.look, twist: func(int, *rollout.Decision) error {
			if m.fail.Swap(false) {
				return errors.New("the policy failed")
			}
			return nil
		}})
		r.walk()
		until(t, "mode policy", func() bool { return m.from.Load() > 0 })
		began := float64(m.from.Load())/1e3 + settled/1e9
		end := began + 1.5 + 2.1 + 3.5 // the last fault, its time, and sitting down
		r.runTo(end)
		m.cut.Wait()
		before := r.snapshot().Verdict
		if before.Severity > safety.Warn {
			var no *control.Refusal
			if err := r.loop.SetMode(context.Background(), control.Policy); !errors.As(err, &no) {
				t.Errorf("latched %v, and asked to walk on: %v", before.Severity, err)
			}
		}
		r.robot.Fault("clear@now")
		r.runTo(end + 0.5)
		if v := r.snapshot().Verdict; v.Severity != before.Severity || v.Fault != before.Fault {
			t.Errorf("whole again, and nobody came: %v by %v became %v by %v", before.Severity, before.Fault, v.Severity, v.Fault)
		}
		m.over.Store(true)
		if before.Severity > safety.Warn {
			r.must("damp", r.loop.SetMode(context.Background(), control.Damp))
			until(t, "nothing latched after a person re-armed", func() bool { return r.snapshot().Verdict.Severity == safety.None }) // from the next tick on
		}
		recs := r.records()

		// What had to be done at least, and what may have been.
		least, most, due := safety.None, safety.None, 0.
		for n, f := range m.order {
			k := &ten[f]
			most = max(most, k.severity)
			if !m.must(n) {
				continue
			}
			least = max(least, k.severity)
			at := float64(m.ticks[n])/1e3 + (k.dueMs+3*tickMs)/1e3
			if h.subset>>noStates&1 == 1 {
				at += 0.046 // the state that shows it may have to come first
			}
			if k.severity == safety.Damp && (due == 0 || at < due) {
				due = at
			}
		}
		if m.begun != len(m.order) {
			t.Fatalf("%d of %d faults began", m.begun, len(m.order))
		}
		if got := before.Severity; got < least || got > most {
			t.Errorf("latched %v by %v, want %v..%v", got, before.Fault, least, most)
		}
		down, _, damping := damped(recs, began)
		damping = damping && down < end
		if r := torqueAfter(recs, down); damping && r != nil {
			t.Errorf("torque after damping: %v", *r)
		}
		switch {
		case before.Severity >= safety.Sit && !damping:
			t.Errorf("latched %v by %v, and the robot got no damping", before.Severity, before.Fault)
		case before.Severity <= safety.StandHold && damping:
			t.Errorf("latched %v, and the robot got damping at %.3f s", before.Severity, down)
		case due > 0 && down > due+1e-6:
			t.Errorf("damping began at %.3f s, due %.3f", down, due)
		}
		return map[string]any{"subset": fmt.Sprintf("%010b", h.subset), "faults": len(m.order), "did": before.Severity.String(), "cause": before.Fault.String(), "least": least.String()}
	})
}
