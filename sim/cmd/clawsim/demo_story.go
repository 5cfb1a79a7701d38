package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	barWidth   = 30
	lineEvery  = 5 * time.Second // where no terminal can show a bar
	clearLine  = "\r\x1b[K"
	barDivider = 100 * time.Millisecond // one step of the bar
)

// story tells people what happens: lines that stay and, on a terminal, one that changes.
type story struct {
	w        io.Writer
	terminal bool
	dirty    bool // the changing line is on the screen
}

func newStory(w io.Writer) *story { return &story{w: w, terminal: isTerminal(w)} }

// say writes a line that stays. A broken terminal does not stop the robot.
func (s *story) say(format string, args ...any) {
	s.end()
	fmt.Fprintf(s.w, format+"\n", args...)
}

// now shows something that will have changed soon; elsewhere than on a terminal, nothing.
func (s *story) now(format string, args ...any) {
	if !s.terminal {
		return
	}
	fmt.Fprintf(s.w, clearLine+format, args...)
	s.dirty = true
}

// end clears the changing line.
func (s *story) end() {
	if s.dirty {
		io.WriteString(s.w, clearLine)
		s.dirty = false
	}
}

// walkBar shows how far the walk is, and how fast.
type walkBar struct {
	story *story
	all   time.Duration
	bar   *progressbar.ProgressBar // nil: no terminal
	told  time.Duration
}

func (s *story) bar(all time.Duration) *walkBar {
	s.end()
	b := &walkBar{story: s, all: all}
	if s.terminal {
		b.bar = progressbar.NewOptions(int(all/barDivider), progressbar.OptionSetWriter(s.w), progressbar.OptionSetWidth(barWidth),
			progressbar.OptionSetElapsedTime(false), progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish())
	}
	return b
}

func (b *walkBar) at(t time.Duration, vx float64) {
	t = min(t, b.all)
	switch {
	case b.bar != nil:
		b.bar.Describe(fmt.Sprintf("%-13s %.2f m/s, %2.0f of %.0f s", verb(vx), vx, t.Seconds(), b.all.Seconds()))
		_ = b.bar.Set(int(t / barDivider))
	case t-b.told >= lineEvery:
		b.told = t
		b.story.say("%-13s %.2f m/s, %.0f of %.0f s", verb(vx), vx, t.Seconds(), b.all.Seconds())
	}
}

func (b *walkBar) end() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}

func verb(vx float64) string {
	if math.Abs(vx) < 0.1 {
		return "standing"
	}
	return "walking"
}

// verdict sums up.
func (s *story) verdict(r *demoResult, cfg *demoConfig) {
	s.say("")
	robot := []string{fmt.Sprintf("lying %.2f m", r.LyingM)}
	if !math.IsNaN(r.StandingM) {
		robot = append(robot, fmt.Sprintf("standing %.2f m", r.StandingM))
	}
	if !math.IsNaN(r.VxMean) {
		robot = append(robot, fmt.Sprintf("walking %.2f m/s (commanded %.2f)", r.VxMean, r.VxCmd))
	}
	s.say("robot   %s, in the end %.2f m; falls: %d", strings.Join(robot, ", "), r.LyingAgainM, r.Falls)
	s.say("frames  %d sent, %d arrived, %d periods of 2 ms without one", r.AgentFrames, r.Frames, r.Missed)
	s.say("agent   tick late p50 %.1f us, p99 %.0f us; state to frame p50 %.0f us; trips of its judge: %d", r.LoopP50Us, r.LoopP99Us, r.RxToTxP50Us, r.GuardTrips)
	s.say("logs    %s, %s", filepath.Join(cfg.out, "robot.jsonl"), filepath.Join(cfg.out, "agent.jsonl"))
	if r.Attempts > 1 {
		s.say("note    this was attempt %d: the machine's timing ended those before", r.Attempts)
	}
	for _, f := range r.Failures {
		s.say("FAILED  %s", f)
	}
	if r.Timing {
		s.say("hint    this machine was too busy for a loop of 500 Hz: end other programs and try again")
		if !r.Ahead {
			s.say("hint    real-time priority was refused; as root, or with CAP_SYS_NICE, robot and agent come before other programs")
		}
	}
	switch {
	case len(r.Failures) == 0 && cfg.policy != "":
		s.say("OK      it walked")
	case len(r.Failures) == 0:
		s.say("OK      it stood")
	}
}
