package e2e

import (
	"cmp"
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

// mixed is one of the faults of promise 19, as a walking robot, its policy, its computer or a person brings it about.
type mixed struct {
	name     string
	robot    string // the virtual robot's fault, which begins when it is told
	severity safety.Severity
	dueMs    float64 // after the first state that shows it
	drives   bool    // it acts only on a robot that the policy drives
}

// Eight are the pure judge's (agent/safety); that its command is 11 s old and ours has not come for 1 s, by a stick let go, is a matter of
// configuration. Two differ, and three are more:
//   - Its policy is 45 ms old, ours fails: in lockstep the loop's time waits for a policy. TestPolicySlow and TestPolicyHangs let one grow
//     old in real time.
//   - Its remote says L2+B, our operator cuts by the program: "remote absent" takes the very bytes away. TestRemoteStopWithoutHTTP presses.
//   - A joint that is no number, and two that do no more than warn: by them, and by the order, those histories differ too in which the legs
//     are to hold and no more.
var thirteen = [...]mixed{
	{name: "tilt 0.7 rad", robot: "imu_tilt,rad=0.7,how=set,samples=2@now", severity: safety.StandHold},
	{name: "policy fails", severity: safety.Damp, dueMs: 22, drives: true}, // up to 20 ms to the next question
	{name: "stick let go", robot: "sticks_swapped,a=ly,b=ry@now", severity: safety.StandHold, dueMs: commandS * 1e3, drives: true},
	{name: "battery 8 %", robot: "battery,soc=8@now", severity: safety.Sit, dueMs: 1000},
	{name: "remote absent", robot: "remote_absent@now", severity: safety.Sit, dueMs: 1000},
	{name: "motor 86 C", robot: "temperature,joint=FL_calf,value=86@now", severity: safety.Sit, dueMs: 2000},
	{name: "no states", robot: "drop_state@now+0.046", severity: safety.Damp, dueMs: 42},
	{name: "joint at 29 rad/s", robot: "joint_speed,joint=RL_hip,value=29,samples=5@now", severity: safety.Damp, dueMs: 8},
	{name: "joint no number", robot: "joint_nan,joint=RR_calf,samples=1@now", severity: safety.Damp},
	{name: "loop late 21 ms", severity: safety.Damp},
	{name: "operator cuts", severity: safety.Cut},
	{name: "motor 70 C", robot: "temperature,joint=FR_calf,value=70@now", severity: safety.Warn, dueMs: 2000},
	{name: "joint at 24 rad/s", robot: "joint_speed,joint=RR_hip,value=24,samples=3@now", severity: safety.Warn},
}

const (
	policyFails  = 1
	noStates     = 6
	loopLate     = 9
	operatorCuts = 10

	commandS = 1 // s without a command for which it stands
)

// history is a subset of them in the order in which they begin.
type history struct {
	subset int // bits
	order  []int
}

// most is the most severe of its acts.
func (h *history) most() (s safety.Severity) {
	for _, f := range h.order {
		s = max(s, thirteen[f].severity)
	}
	return s
}

// evenly are the severities, of which each is the most severe of as many cases: of all subsets nearly every one damps or cuts.
var evenly = [...]safety.Severity{safety.StandHold, safety.Sit, safety.Damp, safety.Cut}

// histories are the cases, no two alike: those of each severity in turn.
var histories = sync.OnceValue(func() (cases [histories19]history) {
	for i, most := range evenly {
		for n, h := range historiesOf(most, histories19/len(evenly)) {
			cases[n*len(evenly)+i] = h
		}
	}
	return cases
})

// historiesOf one severity: first each subset once, in a drawn sequence, then those that have one in a second order, and so on up to enough.
func historiesOf(most safety.Severity, enough int) (cases []history) {
	random := rand.New(rand.NewPCG(uint64(most), 1919))
	orders := map[int]func() []int{}
	var subsets []int
	for subset := 1; subset < 1<<len(thirteen); subset++ {
		h := history{subset: subset}
		for f := range thirteen {
			if subset>>f&1 == 1 {
				h.order = append(h.order, f)
			}
		}
		if h.most() == most {
			subsets, orders[subset] = append(subsets, subset), shuffles(random, h.order)
		}
	}
	random.Shuffle(len(subsets), func(i, k int) { subsets[i], subsets[k] = subsets[k], subsets[i] })
	for len(subsets) > 0 && len(cases) < enough {
		subsets = slices.DeleteFunc(subsets, func(subset int) bool {
			order := orders[subset]()
			if order != nil {
				cases = append(cases, history{subset, order})
			}
			return order == nil
		})
	}
	return cases[:min(len(cases), enough)]
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

// history19 is that of a case; beyond the full count they come again, at other instants.
func history19(seed uint64) history { return histories()[(seed-1)%histories19] }

// TestPromise19Histories: the severities are even, each fault is in many, and no history comes twice.
func TestPromise19Histories(t *testing.T) {
	severities, faults, seen := map[safety.Severity]int{}, map[int]int{}, map[string]bool{}
	for seed := uint64(1); seed <= histories19; seed++ {
		h := history19(seed)
		severities[h.most()]++
		subset := 0
		for _, f := range h.order {
			faults[f]++
			subset |= 1 << f
		}
		if subset != h.subset || len(h.order) == 0 {
			t.Errorf("seed %d: subset %013b in order %v", seed, h.subset, h.order)
		}
		key := fmt.Sprint(h.order)
		if seen[key] {
			t.Errorf("seed %d: %v comes twice", seed, h.order)
		}
		seen[key] = true
	}
	for _, s := range evenly {
		if severities[s] != histories19/len(evenly) {
			t.Errorf("%d histories with %v at most, want %d", severities[s], s, histories19/len(evenly))
		}
	}
	for f := range thirteen {
		if faults[f] < histories19/10 {
			t.Errorf("%s is in %d of %d histories", thirteen[f].name, faults[f], histories19)
		}
	}
}

// handed is a context that tells when a request has been handed to the loop: control looks at its end a first time while the request waits
// for its turn, and then, again and again, while it waits for its answer.
type handed struct {
	context.Context
	looks int
	over  chan struct{}
}

func (h *handed) Done() <-chan struct{} {
	if h.looks++; h.looks == 2 {
		close(h.over)
	}
	return h.Context.Done()
}

// mix is a walk on which several of them begin, and what the loop said of it, tick by tick.
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
			ctx := &handed{Context: context.Background(), over: make(chan struct{})}
			m.cut.Go(func() {
				if err := r.loop.EStop(ctx, true); err != nil {
					m.t.Errorf("operator cuts: %v", err)
				}
			})
			<-ctx.over // the loop's time stands still until then
		default:
			r.robot.Fault(thirteen[f].robot)
		}
	}
}

// dueNs is when the n-th of the faults must have acted at the latest, ns of the loop.
func (m *mix) dueNs(n int) int64 {
	// Two ticks for the state that shows it and its answer; a silence of 46 ms meanwhile, and a late loop, put a condition that has
	// to last off until the next state.
	due := m.since[n] + int64((thirteen[m.order[n]].dueMs+2*tickMs)*1e6)
	if thirteen[m.order[n]].dueMs >= 1000 {
		due += 100e6
	}
	return due
}

// must says whether the n-th of the faults had to act: whether it found, all the time in which it was due, a robot that it acts on.
func (m *mix) must(n int) bool {
	f := &thirteen[m.order[n]]
	if m.order[n] == operatorCuts {
		return true
	}
	for _, s := range m.seen {
		if s.ns >= m.since[n] && s.ns <= m.dueNs(n) && s.severity < f.severity && !(s.torque && (s.driving || !f.drives)) {
			return false
		}
	}
	return true
}

// latchedBy is the severity that was latched at a time, ns of the loop.
func (m *mix) latchedBy(ns int64) safety.Severity {
	n, _ := slices.BinarySearchFunc(m.seen, ns, func(s seenTick, ns int64) int { return cmp.Compare(s.ns, ns) })
	return m.seen[min(n, len(m.seen)-1)].severity
}

// TestPromise19EndToEnd: of several faults on a walking robot the most severe act is done, at once and for good, until a person re-arms;
// the robot's log is the referee. A case is a subset of 13 faults in an order that no other has, which begin at random times within 1.5 s, in
// lockstep; each severity is as often the most severe. OPENCLAW_SOAK=19 runs 200; the pure judge in agent/safety has all 1024 subsets of
// its ten, in 20 orders each.
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
			names = append(names, fmt.Sprintf("%s at %.3f s", thirteen[f].name, float64(m.atNs[n])/1e9))
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the faults, from 2 s after it began to walk: %s", strings.Join(names, ", "))
			}
		})
		r := newRig(t, rigSetup{seed: seed, noHTTP: true, each: m.look,
			safety: func(c *safety.Config) { c.CommandStandS = commandS }, twist: func(int, *rollout.Decision) error {
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
			k := &thirteen[f]
			most = max(most, k.severity)
			if !m.must(n) || k.severity == safety.Warn {
				continue
			}
			least = max(least, k.severity)
			late := m.dueNs(n)
			if h.subset>>noStates&1 == 1 {
				late += 46e6
			}
			if got := m.latchedBy(late); got < k.severity {
				t.Errorf("%s: latched %v when it was due, %.3f s after it began", k.name, got, float64(late-m.since[n])/1e9)
			}
			at := float64(m.ticks[n])/1e3 + (k.dueMs+3*tickMs)/1e3
			if h.subset>>noStates&1 == 1 {
				at += 0.046 // the state that shows it may have to come first
			}
			if k.severity >= safety.Damp && (due == 0 || at < due) {
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
		return map[string]any{"subset": fmt.Sprintf("%013b", h.subset), "faults": len(m.order), "did": before.Severity.String(), "cause": before.Fault.String(), "least": least.String()}
	})
}
