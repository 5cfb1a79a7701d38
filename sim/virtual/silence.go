package virtual

import (
	"fmt"
	"math"
	"strings"

	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// Silence is what the motors do when no command comes any more. Nothing public says what a real Go1's do. As text:
//
//	hold           go on executing the last command, for ever: the worst, and the default
//	damp:TIME      TIME after the last command (such as 20ms), brake softly: Kd 3 about rest, mode 0x0A
//	limp:TIME      then let go: no torque, mode 0x00
//
// The next command is obeyed again. Time is the robot's, so that in lockstep it needs commands that are lost (drop_command).
type Silence struct {
	does   string  // "" is hold
	afterS float64 // s
}

// ParseSilence reads the text form.
func ParseSilence(text string) (Silence, error) {
	if text == "hold" {
		return Silence{}, nil
	}
	does, after, found := strings.Cut(text, ":")
	if !found || does != "damp" && does != "limp" {
		return Silence{}, fmt.Errorf("virtual: on silence %q, want hold, damp:TIME or limp:TIME, such as damp:20ms", text)
	}
	v, err := parseSeconds(after)
	if err == nil && v < stepSeconds {
		err = fmt.Errorf("%q is less than a step of %v ms", after, stepMs)
	}
	if err != nil {
		return Silence{}, fmt.Errorf("virtual: on silence %s after %v", does, strings.TrimPrefix(err.Error(), "virtual: "))
	}
	return Silence{does: does, afterS: v}, nil
}

// String is the text form.
func (s Silence) String() string {
	if s.does == "" {
		return "hold"
	}
	return fmt.Sprintf("%s:%vms", s.does, math.Round(s.afterS*1e6)/1e3)
}

// MarshalText writes the text form, for configuration files.
func (s Silence) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text form.
func (s *Silence) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSilence(string(text))
	return err
}

// mindSilence looks for silence before each step: the motors act by themselves when the last command is too old.
func (r *Robot) mindSilence() {
	s := r.cfg.OnSilence
	if s.does == "" || !r.hasCmd || r.silent || r.time() < r.heardAt+s.afterS-1e-9 {
		return
	}
	r.silent = true
	r.cmd = limp()
	r.modes = [len(r.modes)]byte{}
	if s.does == "damp" {
		r.cmd = mujoco.Servo(r.st.Q, 0, dampKd)
		r.modes = r.cmd.Mode
	}
	r.begin("silence").flag("on", true).text("do", s.does).number("after_ms", 1e3*(r.time()-r.heardAt)).end()
}

// heard is a command that has reached the motors.
func (r *Robot) heard() {
	if r.silent {
		r.begin("silence").flag("on", false).text("do", r.cfg.OnSilence.does).number("after_ms", 1e3*(r.time()-r.heardAt)).end()
	}
	r.silent, r.heardAt = false, r.time()
}
