package e2e

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

const (
	staleMs = 20. // of the guard, by default
	// A beat is up to a period old when the loop stops, and the guard looks each millisecond and sends every second time.
	stopMs = staleMs + tickMs + 2
	// roomMs is for what the machine takes besides, and twice its longest stall around the act: the loop's thread may have been late, and
	// the guard's.
	roomMs = 10.
	// around is how long after an act a stall may still delay the first damping frame.
	around = 100 * time.Millisecond
	// Half of the agents that stand still are damped by stopMs, of a machine that is as late as it was in half of the cases.
	halfMs = stopMs
	// halfOf are the cases of which half is said.
	halfOf = 30
	// watchedS is how long damping is watched, at least.
	watchedS = 1.2
	// benchCases share a robot and its log: always the same ones.
	benchCases = 15
)

// kill is one case: what is done to the agent of a robot that walks.
type kill struct {
	how   string        // kill, stop, deadlock
	phase time.Duration // after it was seen to walk
	hold  time.Duration // of stop and deadlock
}

func drawKill(how string, seed uint64) kill {
	random := rand.New(rand.NewPCG(seed, 0x4B177))
	k := kill{how: how, phase: time.Duration(random.Int64N(int64(900 * time.Millisecond))), hold: time.Second}
	if how == "deadlock" {
		k.hold = time.Duration(60+random.Int64N(1200)) * time.Millisecond
	}
	return k
}

// killed is what came of one.
type killed struct {
	us      float64 // from the act to the first damping frame
	gapUs   float64 // from the last torque frame to it
	machine stalls  // meanwhile
	near    stalls  // around the act
	ended   bool    // the guard had to end the agent, which stood between its last look and the kernel
	guard   guard.Report
	said    []string
	// notDone: the machine stood still by itself, and had damped the robot, each time before anything was done.
	notDone bool
}

// TestChaosKills stops the agent of a robot that walks at 0.8 m/s, at a random instant: by kill -9, by SIGSTOP for a second and then
// SIGCONT, and by holding the loop's thread alone, as a deadlock does. The guard damps, once and for good: no torque frame reaches the
// robot behind the first damping frame, not when the agent goes on either, until a person lets it stand again. OPENCLAW_SOAK=kills does
// each over a hundred times. It is the other half of row 19 of the cases: what computes the targets is killed.
func TestChaosKills(t *testing.T) {
	var mu sync.Mutex
	all := map[string][]killed{}
	t.Run("by", func(t *testing.T) {
		for _, how := range []string{"kill", "stop", "deadlock"} {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				soak := promise.NewWord(t, "kills", 2, 105)
				realTime(t)
				killAll(t, soak, how, func(k killed) {
					mu.Lock()
					defer mu.Unlock()
					all[how] = append(all[how], k)
				})
				if us := soak.Figures("damped_us"); soak.Full() && how != "kill" { // one that has gone is noticed at once
					t.Logf("of %d: act to first damping frame p50 %.0f us, the machine's longest stall around it %.0f us", len(us), median(us), median(soak.Figures("near_max_us")))
					if err := half(us, soak.Figures("near_max_us")); err != nil {
						t.Error(err)
					}
				}
			})
		}
	})
	for _, how := range []string{"kill", "stop", "deadlock"} {
		tellKills(t, how, all[how])
	}
}

// killAll runs the cases of one kind, with a robot for some of them.
func killAll(t *testing.T, soak *promise.Soak, how string, took func(killed)) {
	ask := stallMeter(t)
	var b *bench
	n, notDone, robot := 0, 0, uint64(0)
	for seed := range soak.Seeds() {
		if of := robotOf(seed); of != robot {
			b.retire()
			b, robot = newBench(t, benchSetup{real: true, seed: of}), of
			b.arm()
		}
		n++
		k := drawKill(how, seed)
		func() {
			var got killed
			ok := false
			defer func() { // also when the test ends here
				drawn := map[string]any{"phase_ms": k.phase.Milliseconds(), "hold_ms": k.hold.Milliseconds(), "damped_us": got.us, "gap_us": got.gapUs,
					"stall_max_us": got.machine.MaxUs, "stall_p99_us": got.machine.P99Us, "near_max_us": got.near.MaxUs, "agent_ended": got.ended}
				if got.notDone {
					soak.NotDone(seed, drawn)
				} else {
					soak.Done(seed, ok, drawn)
				}
			}()
			got = b.kill(k, ask)
			for _, s := range got.said {
				t.Errorf("seed %d: %s after %v, held %v: %s", seed, k.how, k.phase, k.hold, s)
			}
			if ok = len(got.said) == 0; got.notDone {
				notDone++
			} else {
				took(got)
			}
		}()
	}
	b.retire()
	if notDone > 0 {
		t.Skipf("%d of %d cases were not done: this machine stood still for %v and more in each of %d tries", notDone, n, stallUs*time.Microsecond, tries)
	}
}

// robotOf is the seed of the robot on which a case is run, the first of its group.
func robotOf(seed uint64) uint64 { return seed - (seed-1)%benchCases }

// half fails where agents that were stopped were damped too late in half of the cases, us; near are the machine's longest stalls around
// them.
func half(us, near []float64) error {
	if most := halfMs*1e3 + median(near); len(us) < halfOf || !(median(us) <= most) {
		return fmt.Errorf("p50 of %d from the act to the first damping frame is %.0f us, want %d or more and at most %.0f us", len(us), median(us), halfOf, most)
	}
	return nil
}

// median is no number for none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// retire ends a bench whose log is long enough.
func (b *bench) retire() {
	if b == nil {
		return
	}
	b.t.Helper()
	if alive(b.agent) {
		b.agent.end()
		if code := b.agent.exit(); code != 0 {
			b.t.Errorf("the agent ended with exit code %d: %s", code, tail(b.agent.err.String(), 5))
		}
		b.guardEnds()
	}
	b.endGuard()
	b.robot.end()
}

// kill does one case.
func (b *bench) kill(k kill, ask func() stalls) (got killed) {
	b.t.Helper()
	for range tries {
		if !b.walkAgain(ask) {
			break
		}
		before, guardBefore := len(b.ref.stops), b.mustGuard() // before: when it was asked to walk
		time.Sleep(k.phase)
		waited := b.measure(ask)
		if b.ref.class != "torque" {
			st := b.state()
			b.tooEarly(k, st.fault(), waited.MaxUs)
			continue
		}
		near := make(chan stalls, 1)
		go func() {
			time.Sleep(around)
			near <- ask()
		}()
		actUs := b.do(k)
		if rest := watchedS - float64(monotonicUs()-actUs)/1e6; rest > 0 {
			time.Sleep(time.Duration(rest * 1e9))
		}
		got = killed{machine: b.measure(ask), near: <-near}
		got.machine.MaxUs = max(got.machine.MaxUs, got.near.MaxUs)
		b.stallMs = got.machine.MaxUs / 1e3
		stops := b.ref.stops[before:]
		b.ref.ends(damps, b.fewest())
		got.said, b.ref.said = b.ref.said, nil
		if len(stops) == 0 {
			got.said = append(got.said, "no damping frame reached the robot")
			return got
		}
		if stops[0].dampUs < actUs { // in the moment between: the agent has since been ended, or says what it did later
			b.tooEarly(k, safety.LoopLate.String(), max(waited.MaxUs, got.machine.MaxUs))
			continue
		}
		got.us, got.gapUs = float64(stops[0].dampUs-actUs), float64(stops[0].dampUs-stops[0].torqueUs)
		if err := inTime(k.how, &got); err != nil {
			got.said = append(got.said, err.Error())
		}
		trips := true // of the guard; a loop that finds itself late may have been first
		if gone := !alive(b.agent); gone || k.how == "kill" {
			got.ended = k.how != "kill"
			if code := b.agent.exit(); code != -1 {
				got.said = append(got.said, fmt.Sprintf("the agent ended with exit code %d, not by SIGKILL", code))
			}
		} else if st := b.state(); st.Mode != "damp" || !isOne(tripped, st.fault()) {
			got.said = append(got.said, fmt.Sprintf("the agent says mode %s, fault %q", st.Mode, st.fault()))
		} else {
			trips = st.fault() == safety.GuardTripped.String()
		}
		got.guard = b.mustGuard()
		latchedNs, tripped, err := latch(&guardBefore, &got.guard)
		switch {
		case err != nil:
			got.said = append(got.said, err.Error())
		case trips && !tripped:
			got.said = append(got.said, fmt.Sprintf("the guard says %+v, before %+v: it has not tripped", got.guard, guardBefore))
		case tripped && stops[0].torqueUs*1e3 > latchedNs:
			got.said = append(got.said, fmt.Sprintf("a torque frame came %d us after the guard's latch", stops[0].torqueUs-latchedNs/1e3))
		}
		return got
	}
	got.notDone = true
	return got
}

// inTime fails for a first damping frame that came too late after an act, or too soon, on a machine that stood still so long around it. An
// agent that has gone is noticed at once; of one that stands still the beat may be two periods old.
func inTime(how string, got *killed) error {
	least, most := max((staleMs-2*tickMs)*1e3-got.near.MaxUs, 0), (stopMs+roomMs)*1e3+2*got.near.MaxUs
	if how == "kill" {
		least = 0
	}
	if !(got.us >= least && got.us <= most) {
		return fmt.Errorf("the first damping frame came after %.0f us, want %.0f..%.0f (longest stall %.0f)", got.us, least, most, got.near.MaxUs)
	}
	return nil
}

// latch is when the guard latched between two of its reports. Where its trips have not risen it did not, and the latch of which it tells
// is an older case's.
func latch(before, after *guard.Report) (ns int64, tripped bool, err error) {
	switch {
	case after.PID != before.PID:
		return 0, false, fmt.Errorf("the guard is process %d, was %d", after.PID, before.PID)
	case after.Trips == before.Trips:
		return 0, false, nil
	case after.Trips != before.Trips+1:
		return 0, true, fmt.Errorf("the guard tripped %d times, and nobody re-armed: %+v, before %+v", after.Trips-before.Trips, *after, *before)
	case after.LatchedNs <= before.LatchedNs:
		return 0, true, fmt.Errorf("the guard tripped and tells of no later latch: %+v, before %+v", *after, *before)
	}
	return after.LatchedNs, true, nil
}

// TestLatchOfACase: the latch of an earlier trip is never taken for this one's.
func TestLatchOfACase(t *testing.T) {
	before := guard.Report{PID: 7, Trips: 3, LatchedNs: 1000}
	for _, c := range []struct {
		name    string
		after   guard.Report
		ns      int64
		tripped bool
		says    string
	}{
		{"tripped", guard.Report{PID: 7, Trips: 4, LatchedNs: 2000}, 2000, true, ""},
		{"did not trip", before, 0, false, ""},
		{"did not trip, whatever else it tells", guard.Report{PID: 7, Trips: 3, LatchedNs: 2000}, 0, false, ""},
		{"tripped, and tells the older latch", guard.Report{PID: 7, Trips: 4, LatchedNs: 1000}, 0, true, "no later latch"},
		{"tripped twice", guard.Report{PID: 7, Trips: 5, LatchedNs: 2000}, 0, true, "tripped 2 times"},
		{"another guard", guard.Report{PID: 8, Trips: 4, LatchedNs: 2000}, 0, false, "process 8, was 7"},
	} {
		ns, tripped, err := latch(&before, &c.after)
		if ns != c.ns || tripped != c.tripped || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d, %v, %v; want %d, %v, %q", c.name, ns, tripped, err, c.ns, c.tripped, c.says)
		}
	}
}

// TestKillsInTime: a guard that is late, or not to be believed so quick, is not let through, in one case or in half of them.
func TestKillsInTime(t *testing.T) {
	for _, c := range []struct {
		how    string
		us     float64
		nearUs float64
		says   string
	}{
		{"stop", 19.5e3, 0, ""}, {"deadlock", 34e3, 0, ""}, {"stop", 34.1e3, 0, "want 16000..34000"}, {"stop", 37e3, 2e3, ""}, {"stop", 38.1e3, 2e3, "want 14000..38000"},
		{"stop", 15.9e3, 0, "want 16000..34000"}, {"stop", 14.1e3, 2e3, ""}, {"kill", 5e3, 0, ""}, {"kill", -1, 0, "want 0..34000"},
	} {
		err := inTime(c.how, &killed{us: c.us, near: stalls{MaxUs: c.nearUs}})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s after %.0f us, stall %.0f: %v, want %q", c.how, c.us, c.nearUs, err, c.says)
		}
	}
	of := func(n int, us ...float64) (all []float64) {
		for i := range n {
			all = append(all, us[i%len(us)])
		}
		return all
	}
	for _, c := range []struct {
		name     string
		us, near []float64
		ok       bool
	}{
		{"as it is", of(105, 19.5e3, 20.1e3, 18.9e3), of(105, 100), true},
		{"a guard that looks at 30 ms", of(105, 29.5e3, 30.1e3, 28.9e3), of(105, 100), false},
		{"some late ones", of(105, 19.5e3, 20.1e3, 33e3), of(105, 100), true},
		{"more late ones than not", of(105, 19.5e3, 33e3, 33e3), of(105, 100), false},
		{"on a machine as late", of(105, 27e3), of(105, 3.5e3), true},
		{"later than the machine", of(105, 28e3), of(105, 3.5e3), false},
		{"on a machine that was late once", of(105, 28e3), append(of(104, 100), 9e3), false},
		{"too few", of(29, 19.5e3), of(29, 100), false},
		{"none", nil, nil, false},
	} {
		if err := half(c.us, c.near); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestRobotOfAKill: a case has the same robot whether it runs in its group, behind others that have passed or alone.
func TestRobotOfAKill(t *testing.T) {
	for seed, want := range map[uint64]uint64{1: 1, 2: 1, 15: 1, 16: 16, 30: 16, 31: 31, 105: 91} {
		if got := robotOf(seed); got != want {
			t.Errorf("case %d has robot %d, want %d", seed, got, want)
		}
	}
}

// tooEarly takes a robot that was damped before anything was done for tried in vain, if the machine stood still, and for a failure if not.
func (b *bench) tooEarly(k kill, fault string, us float64) {
	b.t.Helper()
	if !stalled(fault, us) {
		b.t.Fatalf("%s: damped by %q before anything was done, and the machine's longest stall was %.0f us", k.how, fault, us)
	}
	b.t.Logf("%s: damped by %q before anything was done, because the machine stood still for %.0f us: once more", k.how, fault, us)
}

// do stops the agent, and gives when.
func (b *bench) do(k kill) (us int64) {
	b.t.Helper()
	pid := b.agent.cmd.Process.Pid
	h := held{fromUs: monotonicUs()}
	var err error
	switch k.how {
	case "kill":
		err = unix.Kill(pid, unix.SIGKILL)
	case "stop":
		h, err = pause(pid, k.hold)
	case "deadlock":
		var tid int
		if tid, err = loopThread(pid); err == nil {
			h, err = deadlock(tid, k.hold)
		}
	}
	if err != nil {
		b.t.Fatalf("%s: %v", k.how, err)
	}
	return h.fromUs
}

// sync lets the referee read what there is, and gives the number of stops so far.
func (b *bench) sync() int {
	b.t.Helper()
	b.until = b.status().T
	b.read()
	return len(b.ref.stops)
}

// walkAgain brings the robot from wherever it is to walking, with another agent if there is none. false: see walkAnyway.
func (b *bench) walkAgain(ask func() stalls) bool {
	b.t.Helper()
	if len(b.ref.stops) > 0 {
		b.layDown()
	}
	if !alive(b.agent) {
		b.does(otherAgent)
		b.startAgent()
		b.arm()
	}
	return b.walkAnyway(ask)
}

// tellKills prints what was measured.
func tellKills(t *testing.T, how string, all []killed) {
	if len(all) == 0 {
		return
	}
	var us, gap, stall, near, often []float64
	ended := 0
	for _, k := range all {
		us, gap, stall = append(us, k.us/1e3), append(gap, k.gapUs/1e3), append(stall, k.machine.MaxUs/1e3)
		near, often = append(near, k.near.MaxUs/1e3), append(often, k.machine.P99Us/1e3)
		if k.ended {
			ended++
		}
	}
	g := all[len(all)-1].guard
	t.Logf("the guard's own lateness at the end: p50 %.0f p99 %.0f p99.9 %.0f max %.0f us", g.LateP50Us, g.LateP99Us, g.LateP999, g.LateMaxUs)
	t.Logf("%d by %s: act to first damping frame %s; last torque frame to it %s; the machine's stalls meanwhile (a thread at SCHED_FIFO %d on each core that wakes each millisecond): longest %s, around the act %s, 99th percentile %s; %d agents ended by the guard in their window",
		len(all), how, spread(us), spread(gap), meterPriority, spread(stall), spread(near), spread(often), ended)
	t.Log(bars(us))
}

// spread is a distribution in a line, ms.
func spread(v []float64) string {
	v = slices.Clone(v)
	sort.Float64s(v)
	at := func(q float64) float64 { return v[min(int(q*float64(len(v))), len(v)-1)] }
	return fmt.Sprintf("p50 %.2f p90 %.2f p99 %.2f max %.2f ms", at(0.5), at(0.9), at(0.99), v[len(v)-1])
}

// bars is a distribution by the millisecond.
func bars(ms []float64) string {
	count := map[int]int{}
	most := 0
	for _, v := range ms {
		count[int(v)]++
		most = max(most, count[int(v)])
	}
	var at []int
	for ms := range count {
		at = append(at, ms)
	}
	slices.Sort(at)
	var s strings.Builder
	s.WriteString("first damping frame by the millisecond:\n")
	for _, ms := range at {
		fmt.Fprintf(&s, "%5d..%-3d ms %4d %s\n", ms, ms+1, count[ms], strings.Repeat("#", (count[ms]*40+most-1)/most))
	}
	return s.String()
}
