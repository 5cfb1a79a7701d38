package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// TestPromise07UnderLoad: the 500 Hz loop of the built agent holds while the robot walks, in real time, beside two programs that use a
// core each and clients at 200 requests a second, whose garbage makes the agent's collector work. Recorder, fleet and the swap of a
// policy, which the promise names too, do not exist yet and are not covered. A case is 30 000 ticks; OPENCLAW_SOAK=7 runs 30, which is
// half an hour and 900 000 ticks. A case that was tripped while the machine itself stood still, measured beside it by a process of its
// own, for so long that the loop had to be late, is run again from its beginning and counted as disturbed. No other trip is forgiven, and
// all are counted, those of disturbed tries too. It is no part of `make test`, where time is not to be had: TestPromise07Counts of
// agent/httpapi counts the same in lockstep, and the tests of that name in agent/control count allocations and keep real time for a moment.
func TestPromise07UnderLoad(t *testing.T) {
	soak := promise.New(t, 7, 0, 30)
	if !soak.Full() && os.Getenv("OPENCLAW_SEED") == "" {
		t.Skip("half an hour in real time: make soak PROMISE=7")
	}
	realTime(t)
	for seed := range soak.Seeds() {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			recorded(t, soak, seed, func(t *testing.T, seed uint64, drawn map[string]any) {
				var disturbed []string
				trips := uint64(0)
				for try := range tries {
					why := ""
					ok := t.Run(fmt.Sprintf("try=%d", try+1), func(t *testing.T) { why = walkUnderLoad(t, seed, drawn) })
					n, _ := drawn["trips"].(uint64)
					trips += n
					if why != "" {
						disturbed = append(disturbed, why)
					}
					drawn["trips"], drawn["disturbed"], drawn["disturbed_count"] = trips, disturbed, len(disturbed)
					if !ok || why == "" {
						return
					}
				}
				t.Skipf("not done: the machine stood still in each of %d tries: %q", tries, disturbed)
			})
		})
	}
	ticks := soak.Sum("ticks")
	t.Logf("in all: %.0f ticks of whole cases, %.0f missed, %.0f falls; %.0f trips in all tries, %.0f tries that a stall of the machine cut short and that were run again",
		ticks, soak.Sum("missed"), soak.Sum("falls"), soak.Total("trips"), soak.Total("disturbed_count"))
	if late := soak.Sum("late_over_1ms") / max(ticks, 1); late <= lateShare {
		t.Logf("the promise is met: %.4f %% of the ticks were more than 1 ms late, at most %.2f %% may be", late*100, lateShare*100)
	} else {
		t.Logf("the promise is NOT MET on this machine: %.4f %% of the ticks were more than 1 ms late, at most %.2f %% may be; see machine_late_share of each case",
			late*100, lateShare*100)
	}
}

// lateShare is what the promise lets be late: ticks more than 1 ms behind their deadline. A case is held to what the machine itself allows;
// whether the promise is met is said at the end, of all ticks together.
const lateShare = 1e-4

// walkUnderLoad is one try of a case, and writes down what it saw. disturbed says what the machine did, if that ended the try, which then
// proves nothing.
func walkUnderLoad(t *testing.T, seed uint64, drawn map[string]any) (disturbed string) {
	const ticks = 30_000
	clear(drawn)
	ask := stallMeter(t)
	p := start(t, setup{real: true, seed: seed})
	var machine stalls
	look := func() (s loopState, stallUs float64) {
		s = p.loopState()
		now := ask() // behind it: what the state knows of has been measured
		drawn["trips"] = s.Guard.Trips + s.Loop.Trips
		machine.N, machine.Late, machine.MaxUs = machine.N+now.N, machine.Late+now.Late, max(machine.MaxUs, now.MaxUs)
		drawn["stall_ms"] = machine.MaxUs / 1e3
		return s, now.MaxUs
	}
	// explained says whether the machine's longest stall of about that time is a reason for a trip.
	explained := func(s *loopState, us float64) bool {
		fault := s.fault()
		if fault == "" { // it is cleared, or not yet told
			fault = safety.GuardTripped.String()
		}
		return stalled(fault, us)
	}

	cleared := p.standAgain()
	p.post("mode", `{"mode":"policy"}`) // refused where something tripped just now
	var first loopState
	until(t, "walking", func() bool { first = p.loopState(); return first.fault() != "" || p.status().Posture == "walking" })
	first, most := look()
	for _, fault := range cleared {
		if !stalled(fault, most) {
			t.Errorf("fault %q before it walked; the machine stood still for %.1f ms at most, which explains nothing", fault, most/1e3)
		}
	}
	if fault := first.fault(); fault != "" {
		if !explained(&first, most) {
			t.Fatalf("fault %q before it walked; the machine stood still for %.1f ms at most, which explains nothing", fault, most/1e3)
		}
		return fmt.Sprintf("before it walked: fault %q: the machine stood still for %.1f ms", fault, most/1e3)
	}

	b := load(t, p.http)
	begin, before := time.Now(), p.metrics()
	last, falls, us := first, 0, 0.
	machine.N, machine.Late = 0, 0
	ended, recent := false, 0. // recent: the longest stall of the look before
	for last.Loop.Ticks < first.Loop.Ticks+ticks && time.Since(begin) < patience && !ended {
		time.Sleep(250 * time.Millisecond)
		fell := p.status().Falls
		recent = us
		last, us = look()
		ended = last.fault() != "" || last.Guard.Trips+last.Loop.Trips > first.Guard.Trips+first.Loop.Trips
		if !ended {
			falls = fell // of a robot that nobody has damped
		}
	}
	seconds := time.Since(begin).Seconds()
	m := p.metrics()
	b.end()
	latest := m["openclaw_loop_lateness_max_seconds"]

	// Every period of the loop's clock is a tick or a miss; both ends may each have been late.
	ran := last.Loop.Ticks - first.Loop.Ticks
	missed := last.Loop.Missed - first.Loop.Missed
	periods := (last.Clock - first.Clock) / 0.002
	if off := math.Abs(periods-float64(ran+missed)) * 0.002; off > latest+1e-6 {
		t.Errorf("%d ticks and %d misses in %.3f periods; the latest tick was %.4f s late", ran, missed, periods, latest)
	}
	lates := m["openclaw_loop_late_ticks_total"] - before["openclaw_loop_late_ticks_total"]
	late := lates / max(m["openclaw_loop_ticks_total"]-before["openclaw_loop_ticks_total"], 1)
	share := float64(machine.Late) / float64(max(machine.N, 1))
	s := p.end()
	summed := p.summary()
	if summed.Missed < m["openclaw_loop_deadline_misses_total"] {
		t.Errorf("the last line says %v misses, /metrics said %v before", summed.Missed, m["openclaw_loop_deadline_misses_total"])
	}
	switch most := max(us, recent); { // the stall that tripped it is one of about that moment
	case ended && explained(&last, most):
		disturbed = fmt.Sprintf("after %d ticks: %v trips, fault %q: the machine stood still for %.1f ms", ran, drawn["trips"], last.fault(), most/1e3)
		t.Log(disturbed)
	case ended:
		t.Errorf("after %d ticks: %v trips, fault %q; the machine stood still for %.1f ms at most about then, which explains nothing", ran, drawn["trips"], last.fault(), most/1e3)
	default:
		if late > lateShare+3*share {
			t.Errorf("%.4f %% of the ticks were more than 1 ms late, and of the stall meter's %.4f %%; want at most %.2f %% more than three times as many",
				late*100, share*100, lateShare*100)
		}
		if rate := float64(b.requests.Load()) / seconds; rate < 0.9*perS {
			t.Errorf("%.0f requests/s, want %d", rate, perS)
		}
		if ran < ticks {
			t.Errorf("only %d ticks", ran)
		}
		if math.Abs(summed.Frames-float64(s.Frames)) > summed.Frames*1e-3 {
			t.Errorf("the last line says %v frames; the robot got %d", summed.Frames, s.Frames)
		}
		falls = s.Falls
	}
	if falls != 0 {
		t.Errorf("%d falls of a robot that nobody had damped", falls)
	}
	if n := b.failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed", n, b.requests.Load())
	}
	maps.Copy(drawn, map[string]any{"ticks": ran, "missed": missed, "late_over_1ms": lates, "late_share": late, "machine_late_share": share,
		"fault": last.fault(), "latest_ms": latest * 1e3, "collections": m["go_gc_duration_seconds_count"] - before["go_gc_duration_seconds_count"],
		"requests_per_s": math.Round(float64(b.requests.Load()) / seconds), "loop_p99_us": summed.LateP99, "falls": falls,
		"not_covered": "recorder, fleet, swap of a policy: not built yet"})
	t.Logf("%v", drawn)
	return disturbed
}

// loopState is the part of a state that says how the loop does.
type loopState struct {
	state
	Loop struct {
		Ticks, Missed, Trips uint64
	} `json:"loop"`
	Guard struct {
		Trips     uint64
		LateMaxUs float64 `json:"late_max_us"`
	} `json:"guard"`
}

func (p *pair) loopState() (s loopState) {
	p.t.Helper()
	code, b, err := call("GET", p.http+"state", "")
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil || code != 200 {
		p.t.Fatalf("state: %d %v", code, err)
	}
	return s
}

// agentEnd is what the agent's last line says of its loop.
type agentEnd struct {
	Frames  float64 `json:"frames"`
	Ticks   float64 `json:"ticks"`
	Missed  float64 `json:"missed"`
	Trips   float64 `json:"guard_trips"`
	Late1ms float64 `json:"loop_late_1ms"`
	LateP99 float64 `json:"loop_p99_us"`
	DtP50   float64 `json:"loop_dt_p50_us"`
	DtP99   float64 `json:"loop_dt_p99_us"`
	DtP999  float64 `json:"loop_dt_p999_us"`
	DtMax   float64 `json:"loop_dt_max_us"`
	RxToTx  float64 `json:"rx_to_tx_p50_us"`
	Fault   string  `json:"fault"`
	Guard   struct {
		P50  float64 `json:"late_p50_us"`
		P99  float64 `json:"late_p99_us"`
		P999 float64 `json:"late_p999_us"`
		Max  float64 `json:"late_max_us"`
	} `json:"guard"`
}

// summary is the agent's last line, once it has ended.
func (p *pair) summary() (s agentEnd) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(tail(p.agent.out.String(), 1)), &s); err != nil {
		p.t.Fatalf("the agent's last line: %v", err)
	}
	return s
}
