package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// journal tells people on standard error, and a file in JSON lines, what the
// loop did. It looks at snapshots; the loop does not know it.
type journal struct {
	log  *slog.Logger // both
	file *slog.Logger // the file alone; nil without one
	f    *os.File
	// warns is asked when the policy begins to drive; nil: nothing to warn of.
	warns func(*control.Snapshot) string
}

func openJournal(stderr io.Writer, name string) (*journal, error) {
	text := slog.NewTextHandler(stderr, nil)
	j := &journal{log: slog.New(text)}
	if name == "" {
		return j, nil
	}
	// The run before may have ended badly: its journal is kept, one deep.
	if old, err := os.Stat(name); err == nil && old.Mode().IsRegular() && old.Size() > 0 {
		if err := os.Rename(name, name+".1"); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	j.f = f
	lines := slog.NewJSONHandler(&lineWriter{f: f}, nil)
	j.file = slog.New(lines)
	j.log = slog.New(slog.NewMultiHandler(text, lines))
	return j, nil
}

// lineWriter keeps nothing back, so that a killed agent leaves its last lines. What a full disk does not take is lost; when it has room
// again the next line is a whole one. slog hands it one line at a time.
type lineWriter struct {
	f    io.Writer
	torn bool // the file ends within a line
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if w.torn {
		if _, err := w.f.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
	}
	n, err := w.f.Write(p)
	w.torn = n > 0 && n < len(p)
	return n, err
}

func (j *journal) close() {
	if j.f != nil {
		_ = j.f.Close()
	}
}

// watch looks 50 times a second until the loop ends; ten times a second the
// file gets a line of figures. old is the loop before it ran, so that what
// changes while this goroutine waits for its first turn is told too.
func (j *journal) watch(loop *control.Loop, old control.Snapshot) {
	var s control.Snapshot
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for n := 0; ; n++ {
		over := false
		select {
		case <-every.C:
		case <-loop.Ended():
			over = true
		}
		loop.Snapshot(&s)
		j.changes(&old, &s)
		if j.file != nil && n%5 == 0 {
			j.sample(&s)
		}
		old = s
		if over {
			return
		}
	}
}

func (j *journal) changes(old, s *control.Snapshot) {
	t := slog.Float64("clock", float64(s.NowNs)/1e9)
	if s.Mode != old.Mode || s.Phase != old.Phase {
		j.log.Info("mode", t, "mode", s.Mode.String(), "phase", s.Phase.String())
	}
	if s.Mode == control.Policy && old.Mode != control.Policy && j.warns != nil {
		if text := j.warns(s); text != "" {
			j.log.Warn(text, t)
		}
	}
	if v := &s.Verdict; v.Severity != old.Verdict.Severity || v.Fault != old.Verdict.Fault {
		if v.Severity == safety.None {
			j.log.Info("cleared", t)
		} else {
			args := []any{t, "fault", v.Fault.String(), "does", v.Severity.String()}
			if v.Joint >= 0 {
				args = append(args, "joint", go1.JointNames[v.Joint])
			}
			j.log.Error("safety", append(args, "means", safety.Faults[v.Fault].Means, "remedy", safety.Faults[v.Fault].Remedy)...)
		}
	}
	if j.file == nil {
		return
	}
	for f := range safety.Faults {
		if was, is := old.Verdict.Warnings>>f&1, s.Verdict.Warnings>>f&1; was != is {
			j.file.Log(context.Background(), slog.LevelWarn, "warning", t, "fault", safety.Fault(f).String(), "on", is == 1)
		}
	}
}

func (j *journal) sample(s *control.Snapshot) {
	j.file.Info("sample", "clock", float64(s.NowNs)/1e9, "mode", s.Mode.String(), "phase", s.Phase.String(),
		"tick", s.State.Tick, "velocity", s.Velocity, "command", s.Command, "source", s.Source.String(),
		"tilt", null(s.TiltRad), "state_age_ms", float64(s.StateAgeNs)/1e6, "end_to_end_ms", float64(s.EndToEndNs)/1e6,
		"sent", s.Stats.Sent, "missed", s.Stats.Missed, "clamped", s.Limited.Clamped, "capped", s.Limited.Capped)
}

// null is what JSON says of a number that is none.
func null(x float64) any {
	if x-x != 0 {
		return nil
	}
	return x
}

// linkCounters names the link's counters for /state and /metrics.
func linkCounters(u *link.UDP) map[string]uint64 {
	c := u.Counters()
	m := map[string]uint64{
		"received": c.Received, "accepted": c.Accepted, "foreign": c.Foreign, "rejected_head_zeros": c.Zeros, "truncated": c.Truncated,
		"overflowed": c.Overflowed, "sent": c.Sent, "send_errors": c.SendErrors,
		"port_refused": c.Refused, "unreachable": c.Unreachable,
	}
	for i, n := range c.Rejected {
		m["rejected_"+wire.Reject(i).String()] = n
	}
	return m
}
