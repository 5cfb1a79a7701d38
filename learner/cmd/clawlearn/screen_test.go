//go:build torch

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/learner/algo"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// pty is a terminal of 100 columns, and what reads what is shown there.
func pty(t *testing.T) (terminal, reader *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { reader.Close() })
	fd := int(reader.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}); err != nil {
		t.Fatal(err)
	}
	return terminal, reader
}

// shows runs a screen through an iteration, an evaluation and another iteration, whose report is due.
func shows(s *screen) {
	metrics := append(task.MetricNames(), "none")
	it := &algo.Report{Iteration: 7, Metrics: make([]float64, len(metrics)), Reward: 0.0125, Episodes: 2, EpisodeLength: 321, CollectS: 0.3, PhysicsS: 0.2, LearnS: 0.1, WallS: 0.4, KL: 0.07, Skipped: 1}
	for i := range it.Metrics {
		it.Metrics[i] = float64(i) / 1000
	}
	r := &trainResult{Iterations: 7, Samples: 1_230_000, Seconds: 30}
	s.next = time.Now().Add(time.Hour)
	s.iteration(r, it, metrics, 0.25)
	s.evaluated(r, &task.Result{VelErr: 0.2, YawErr: 0.3, FallRate: 0.05})
	s.next = time.Time{}
	s.iteration(r, it, metrics, 0.25)
	s.clear()
}

// Where a person watches there is a bar with the time left, and a block with every term of the reward; elsewhere plain lines.
func TestScreen(t *testing.T) {
	cfg := walk()
	var plain bytes.Buffer
	shows(newScreen(&plain, &cfg))
	lines := strings.Split(strings.TrimSuffix(plain.String(), "\n"), "\n")
	if len(lines) != 2 || strings.ContainsAny(plain.String(), "\r\x1b") || !strings.HasPrefix(lines[0], "   1.23 M steps   30.0 s: error 0.200 m/s 0.300 rad/s, falls  5.0 %") ||
		!strings.HasPrefix(lines[1], "iteration 7, 1.23 M steps, 30.0 s: 15360 steps/s, error ") {
		t.Errorf("%q", plain.String())
	}

	terminal, reader := pty(t)
	shows(newScreen(terminal, &cfg))
	seen := make([]byte, 1<<16)
	n, err := reader.Read(seen) // one write after the other lies in the terminal's buffer
	for more := 0; err == nil && !bytes.HasSuffix(seen[:n], []byte("\r\x1b[K")); n += more {
		more, err = reader.Read(seen[n:])
	}
	if err != nil {
		t.Fatal(err)
	}
	text := string(seen[:n])
	for _, want := range []string{"\r\x1b[K[#######-----------------------]  25 %, 1m30s left  iteration 7", "(collecting 75 %, physics 67 % of it, learning 25 %)\r\n  error ", "not finite: 1 minibatches"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in %q", want, text)
		}
	}
	for _, term := range task.RewardTerms() {
		if !strings.Contains(text, "  "+term+" ") {
			t.Errorf("the term %s is missing in %q", term, text)
		}
	}
	for _, part := range strings.Split(text, "\r\x1b[K") {
		if strings.HasPrefix(part, "[") && len(part) > 99 {
			t.Errorf("longer than the terminal is wide: %q", part)
		}
	}
}
