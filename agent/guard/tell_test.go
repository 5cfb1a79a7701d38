package guard

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestTell: each thing is told at once, and then once a second with how many there were; nothing is left out.
func TestTell(t *testing.T) {
	var log bytes.Buffer
	g := &Guard{clock: patient{}, page: &guardPage{}, cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	s := &session{number: 3, pid: 4711, page: &agentPage{}, udp: mute{}, staleNs: 20e6}
	s.cmd.Init()
	g.current.Store(s)
	g.seen.Store(s)
	s.page.epoch.Store(3<<32 | 1)
	s.page.torque.Store(1)
	s.page.beatNs.Store(2e9)
	s.page.untilNs.Store(1 << 62)
	tells := teller{g: g}
	start := time.Unix(1000, 0)
	look := func(after time.Duration, want ...string) {
		t.Helper()
		log.Reset()
		tells.look(start.Add(after))
		lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
		if len(want) == 0 {
			if log.Len() != 0 {
				t.Errorf("after %v: %s", after, log.String())
			}
			return
		}
		if len(lines) != len(want) {
			t.Fatalf("after %v: %d lines, want %d\n%s", after, len(lines), len(want), log.String())
		}
		for i, w := range want {
			for _, part := range strings.Split(w, "|") {
				if !strings.Contains(lines[i], part) {
					t.Errorf("after %v: %s, want %q in it", after, lines[i], part)
				}
			}
		}
	}

	look(0)
	g.Step(2e9+20e6, 0)
	look(0)
	g.Step(2e9+21e6, 0) // stale: the first frame, which does not leave
	look(time.Millisecond, "tripped: the agent's loop stands still|agent=4711 session=3 clock=2.021 beat_age_ms=21 stale_ms=20 new=1 trips=1",
		"damping frames could not be sent\"|new=1 send_errors=1")
	for i := range 400 {
		g.Step(2e9+22e6+int64(i)*1e6, 0)
	}
	look(time.Second)
	look(1001*time.Millisecond, "new=200 send_errors=201")

	g.Step(3e9, 0)
	s.page.beatNs.Store(3e9) // it ticks again, a person begins an epoch, it is gone
	s.page.epoch.Store(3<<32 | 2)
	s.page.window.Store(1)
	g.Step(3e9+1e6, 0)
	s.gone.Store(true)
	g.Step(3e9+2e6, 0)
	look(3*time.Second, "tripped: the agent is gone|beat_age_ms=2 |new=1 trips=2", "send_errors=")

	g.page.killed.Add(1)
	look(3100*time.Millisecond, "agent killed|agent=4711 new=1 killed=1")
	g.page.killed.Add(2)
	look(3200 * time.Millisecond)
	look(5*time.Second, "agent killed|new=2 killed=3")
	g.page.killErrors.Add(1)
	look(6*time.Second, "agent not killed|agent=4711 new=1 kill_errors=1")
	look(9 * time.Second)
}
