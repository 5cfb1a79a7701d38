package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestBenchLoop measures the 500 Hz loop of the built agent in real time, while the robot walks, alone and under load, and writes a
// table in Markdown. `make bench-loop` calls it with OPENCLAW_BENCH_LOOP, the seconds of each, and OPENCLAW_BENCH_LOOP_OUT, the file.
func TestBenchLoop(t *testing.T) {
	text := os.Getenv("OPENCLAW_BENCH_LOOP")
	if text == "" {
		t.Skip("a measurement: make bench-loop")
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 5 && seconds <= 3600) {
		t.Fatalf("OPENCLAW_BENCH_LOOP=%s: want 5..3600 s", text)
	}
	measured := func(name string, loaded bool) (s agentEnd, rate float64) {
		t.Run(name, func(t *testing.T) {
			p := start(t, setup{real: true})
			var b *burden
			begin := time.Now()
			if loaded {
				b = load(t, p.http) // from the start: the figures are of the whole run
			}
			p.walk()
			p.walkedAt()
			for walked := time.Now(); time.Since(walked).Seconds() < seconds; time.Sleep(100 * time.Millisecond) {
				if st := p.loopState(); st.fault() != "" {
					t.Errorf("fault %s after %.0f s; the guard was %.1f ms late at most", st.fault(), time.Since(walked).Seconds(), st.Guard.LateMaxUs/1e3)
					break
				}
			}
			if loaded {
				b.end()
				rate = float64(b.requests.Load()) / time.Since(begin).Seconds()
			}
			robot := p.end()
			s = p.summary()
			if robot.Falls != 0 {
				t.Errorf("%d falls", robot.Falls)
			}
		})
		return s, rate
	}
	alone, _ := measured("alone", false)
	loaded, rate := measured("under load", true)

	allocations := "0"
	if out, err := exec.Command("go", "test", "../../agent/control", "-run", "^TestPromise07TickDoesNotAllocate$", "-count=1").CombinedOutput(); err != nil {
		allocations = "not 0"
		t.Errorf("%s", out)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "The 500 Hz loop of `clawagent run` on %d cores (%s, Linux/%s), walking the virtual Go1 over UDP for %.0f s each, guard beside it; load: %d programs that use a core each and HTTP at %.0f requests/s.\n\n",
		runtime.NumCPU(), cpuModel(), runtime.GOARCH, seconds, hogs, rate)
	table.WriteString("| | alone | under load | SDK's LoopFunc, quiet cores | SDK's LoopFunc, shared cores |\n|---|---|---|---|---|\n")
	row := func(what, a, b, quiet, shared string) {
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", what, a, b, quiet, shared)
	}
	us := func(x float64) string {
		if x >= 1000 {
			return fmt.Sprintf("%.2f ms", x/1e3)
		}
		return fmt.Sprintf("%.1f us", x)
	}
	row(`\|dt - 2 ms\|, p50`, us(alone.DtP50), us(loaded.DtP50), "4-5 us", "4-9 us")
	row("p99", us(alone.DtP99), us(loaded.DtP99), "50 us", "50-800 us")
	row("p99.9", us(alone.DtP999), us(loaded.DtP999), "190-320 us", "0.6-3.5 ms")
	row("max", us(alone.DtMax), us(loaded.DtMax), "-", "4-16 ms")
	missed := func(s agentEnd) string { return fmt.Sprintf("%.0f of %.0f, counted", s.Missed, s.Ticks+s.Missed) }
	row("ticks missed", missed(alone), missed(loaded), "dropped, not counted", "dropped, not counted")
	late := func(s agentEnd) string { return fmt.Sprintf("%.4f %%", 100*s.Late1ms/s.Ticks) }
	row("ticks over 1 ms late", late(alone), late(loaded), "-", "-")
	row("state in to frame out, p50", us(alone.RxToTx), us(loaded.RxToTx), "-", "-")
	row("allocations a tick", allocations, allocations, "-", "-")
	row("guard's trips", fmt.Sprint(alone.Trips), fmt.Sprint(loaded.Trips), "-", "-")
	stall := func(s agentEnd) string {
		return strings.Join([]string{us(s.Guard.P50), us(s.Guard.P99), us(s.Guard.P999), us(s.Guard.Max)}, ", ")
	}
	row("the machine beside it: lateness of the guard's 1 ms ticks, which come before all else, p50, p99, p99.9, max", stall(alone), stall(loaded), "-", "-")
	table.WriteString("\nThe SDK's columns are the maker's LoopFunc at 2 ms on two such cores, measured once and not in this run (`shared/facts.md`).\n")
	if out := os.Getenv("OPENCLAW_BENCH_LOOP_OUT"); out != "" {
		if err := os.WriteFile(out, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("\n%s", table.String())
}

// cpuModel is the processor's name.
func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor unknown"
}
