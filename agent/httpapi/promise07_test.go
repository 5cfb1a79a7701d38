package httpapi

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/promise"
)

// figures are the samples of /metrics by name and labels.
func (r *running) figures() map[string]float64 {
	r.t.Helper()
	a := r.do("GET", "/metrics", "")
	all := map[string]float64{}
	for line := range strings.Lines(a.body) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if x, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(name, "#") {
			all[name] = x
		}
	}
	return all
}

// TestPromise07Counts: no tick is skipped silently. The loop is woken late at random, by up to 18 ms, while clients ask for all that
// there is to be read, send commands and force the garbage collector; each period that passed is then a tick or a miss in /metrics, each
// lateness lies in the right bucket, and no deadlines are made up for in a burst. A case is 600 ticks. Half an hour of it in real time,
// by the built programs, is TestPromise07 of sim/e2e.
func TestPromise07Counts(t *testing.T) {
	promise.New(t, 7, 1, 100).Run(t, func(t *testing.T, seed uint64) map[string]any {
		random := rand.New(rand.NewPCG(seed, 7))
		clock := newGrantedClock(20_000e9)
		loop, _ := startLoopOn(t, clock, still{}, 60000)
		t.Cleanup(func() { clock.grant(math.MaxInt64) })
		r := start(t, loop)
		if err := loop.Arm(t.Context()); err != nil { // no more: a robot in lockstep does not live through what the loop misses
			t.Fatal(err)
		}
		clock.grant(0)
		clock.bend = func() int64 {
			switch k := random.IntN(100); {
			case k < 4:
				return random.Int64N(18e6)
			case k < 30:
				return random.Int64N(1e6)
			}
			return 0
		}

		ctx, cancel := context.WithCancel(t.Context())
		var load sync.WaitGroup
		for _, path := range []string{"/api/v1/state", "/metrics"} {
			load.Go(func() {
				for ctx.Err() == nil {
					if a := r.do("GET", path, ""); a.status != 200 && a.status != 503 { // 503: too many scrapes at once
						t.Errorf("%s: %d", path, a.status)
					}
				}
			})
		}
		load.Go(func() {
			for ctx.Err() == nil {
				r.quick("command", posted{[3]float32{0.3, 0, 0}, loop.NowNs() + 1e9}.body())
				runtime.GC()
			}
		})
		for range 60 {
			clock.grant(10 * control.PeriodNs)
		}
		cancel()
		load.Wait()

		missed, late := int64(0), 0
		for i, w := range clock.wakes[1:] {
			before := clock.wakes[i]
			passed := w.deadlineNs - before.deadlineNs
			if passed < control.PeriodNs || passed%control.PeriodNs != 0 || w.deadlineNs <= before.atNs-control.PeriodNs {
				t.Fatalf("woken at %d for %d, the next deadline is %d", before.atNs, before.deadlineNs, w.deadlineNs)
			}
			missed += passed/control.PeriodNs - 1
			if w.atNs-w.deadlineNs > 1e6 {
				late++
			}
		}
		var s control.Snapshot
		loop.Snapshot(&s)
		m := r.figures()
		for name, want := range map[string]int{
			"openclaw_loop_ticks_total": len(clock.wakes), "openclaw_loop_deadline_misses_total": int(missed),
			"openclaw_loop_trips_total": 0, "openclaw_loop_late_ticks_total": late,
			"openclaw_loop_jitter_seconds_count": len(clock.wakes) - 1, "openclaw_loop_lateness_seconds_count": len(clock.wakes),
			"openclaw_frames_sent_total": int(s.Stats.Sent),
		} {
			if got, ok := m[name]; !ok || got != float64(want) {
				t.Errorf("%s is %v, want %d", name, got, want)
			}
		}
		buckets := 0
		for name, got := range m {
			edge, ok := strings.CutPrefix(name, `openclaw_loop_lateness_seconds_bucket{le="`)
			if !ok {
				continue
			}
			le, err := strconv.ParseFloat(strings.TrimSuffix(edge, `"}`), 64)
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			for _, w := range clock.wakes {
				if float64(w.atNs-w.deadlineNs)/1e9 <= le {
					want++
				}
			}
			if buckets++; got != float64(want) {
				t.Errorf("%s is %v, want %d", name, got, want)
			}
		}
		if buckets < 10 || missed < 20 || late < 5 || s.Mode != control.Listen {
			t.Errorf("%d buckets, %d misses, %d late, mode %v: this case shows nothing", buckets, missed, late, s.Mode)
		}
		return map[string]any{"ticks": len(clock.wakes), "missed": missed, "late_over_1ms": late}
	})
}
