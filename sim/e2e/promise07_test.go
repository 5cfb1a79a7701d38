package e2e

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/promise"
)

// TestPromise07UnderLoad: the 500 Hz loop of the built agent holds while the robot walks, in real time, beside two programs that use a
// core each and clients at 200 requests a second, whose garbage makes the agent's collector work. Recorder, fleet and the swap of a
// policy, which the promise names too, do not exist yet and are not covered. A case is 30 000 ticks; OPENCLAW_SOAK=7 runs 30, which is
// half an hour and 900 000 ticks. It is no part of `make test`, where time is not to be had: TestPromise07Counts of agent/httpapi
// counts the same in lockstep, and the tests of that name in agent/control count allocations and keep real time for a moment.
func TestPromise07UnderLoad(t *testing.T) {
	soak := promise.New(t, 7, 0, 30)
	if !soak.Full() && os.Getenv("OPENCLAW_SEED") == "" {
		t.Skip("half an hour in real time: make soak PROMISE=7")
	}
	soak.Run(t, func(t *testing.T, seed uint64) map[string]any {
		const ticks = 30_000
		p := start(t, setup{real: true, seed: seed})
		p.walk()
		p.walkedAt()
		b := load(t, p.http)
		first, begin := p.loopState(), time.Now()
		last := first
		gc := p.metrics()["go_gc_duration_seconds_count"]
		for last.Loop.Ticks < first.Loop.Ticks+ticks && last.fault() == "" && time.Since(begin) < 3*time.Minute {
			time.Sleep(250 * time.Millisecond)
			last = p.loopState()
		}
		seconds := time.Since(begin).Seconds()
		m := p.metrics()
		b.end()
		latest := m["openclaw_loop_lateness_max_seconds"]
		stallMs := last.Guard.LateMaxUs / 1e3 // the guard runs before everything: what it waits for is the machine

		// Every period of the loop's clock is a tick or a miss; both ends may each have been late.
		ran := last.Loop.Ticks - first.Loop.Ticks
		missed := last.Loop.Missed - first.Loop.Missed
		periods := (last.Clock - first.Clock) / 0.002
		if off := math.Abs(periods-float64(ran+missed)) * 0.002; off > latest+1e-6 {
			t.Errorf("%d ticks and %d misses in %.3f periods; the latest tick was %.4f s late", ran, missed, periods, latest)
		}
		// A machine that stood still for as long as the loop may be late trips it, and is told apart by the guard's own lateness.
		const limitMs, enough = 20, 10
		trips := last.Guard.Trips + last.Loop.Trips
		if (trips > 0 || last.fault() != "") && stallMs < enough {
			t.Errorf("%d trips, fault %q, and the machine stood still for %.1f ms at most (%d ms would be a reason)", trips, last.fault(), stallMs, limitMs)
		}
		late := m["openclaw_loop_late_ticks_total"] / m["openclaw_loop_ticks_total"]
		machine := over(m, "openclaw_guard_lateness_seconds")
		const lateShare = 1e-4
		if late > lateShare+3*machine {
			t.Errorf("%.4f %% of the ticks were more than 1 ms late, and of the guard's %.4f %%; want at most %.2f %% more than three times as many",
				late*100, machine*100, lateShare*100)
		}
		if rate := float64(b.requests.Load()) / seconds; b.failed.Load() > 0 || rate < perS/10 {
			t.Errorf("%d of %d requests failed, at %.0f/s", b.failed.Load(), b.requests.Load(), rate)
		}
		if ran < ticks && trips == 0 {
			t.Errorf("only %d ticks", ran)
		}
		s := p.end()
		if s.Falls != 0 && trips == 0 {
			t.Errorf("%d falls", s.Falls)
		}
		ended := p.summary()
		if ended.Missed < m["openclaw_loop_deadline_misses_total"] || math.Abs(ended.Frames-float64(s.Frames)) > ended.Frames*1e-3 {
			t.Errorf("the last line says %v misses and %v frames; /metrics said %v, the robot got %d", ended.Missed, ended.Frames, m["openclaw_loop_deadline_misses_total"], s.Frames)
		}
		drawn := map[string]any{"ticks": ran, "missed": missed, "late_over_1ms": m["openclaw_loop_late_ticks_total"], "late_share": late,
			"guard_late_share": machine, "trips": trips, "fault": last.fault(), "stall_ms": stallMs, "latest_ms": latest * 1e3, "collections": m["go_gc_duration_seconds_count"] - gc,
			"requests_per_s": math.Round(float64(b.requests.Load()) / seconds), "loop_p99_us": ended.LateP99, "falls": s.Falls,
			"not_covered": "recorder, fleet, swap of a policy: not built yet"}
		t.Logf("%v", drawn)
		return drawn
	})
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
