package e2e

import (
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/safety"
)

// This file says what a robot may have been stopped by in a schedule, and when: neither later nor sooner than its cause asks for, and by no
// other. What a storm may have done says chaos_real_test.go.

const (
	lateS  = 0.05             // faults begin with a state, and lost ones hide the next
	earlyS = 2 * tickMs / 1e3 // a fault may begin within a tick, and the log has milliseconds
)

// mostHarm are the shares of the robots to which nothing had to happen that may come to harm. One trouble in twelve may stop it.
var mostHarm = map[harm]float64{byRow: 0.2, byThrow: 0.05}

// lockstepEnd judges what the agent says of itself at the end of a schedule, and when it damped, in s of the log with the first walking at
// walked. want is how the robot must end: as the schedule says, or where nothing had to act and something came to harm that could, as the
// table says of that.
func (r *referee) lockstepEnd(s *schedule, walked float64, st *state) (want outcome, by harm) {
	if s.does() == safety.None {
		return r.unasked(s, walked, st)
	}
	severity := s.does()
	if severity == safety.Damp && st.Severity == safety.Sit.String() && s.satFirst() {
		severity = safety.Sit // what would damp a robot that walks says nothing of one that has sat down
	}
	var names []safety.Fault
	for _, e := range s.events {
		if e.does == severity {
			names = append(names, e.names...)
		}
	}
	if st.Severity != severity.String() || !isOne(names, st.fault()) {
		r.say("cause", "the agent says severity %s, fault %q, want %v, one of %v", st.Severity, st.fault(), severity, names)
	}
	if mode := map[safety.Severity]string{safety.StandHold: "stand", safety.Cut: "estop"}[severity]; mode != "" && st.Mode != mode {
		r.say("cause", "the agent says mode %s, want %s", st.Mode, mode)
	}
	if from, to, ok := s.stopped(); ok {
		r.within(walked+from-earlyS, walked+to+lateS)
	}
	// Until the first of it acts the robot goes on as before.
	const before = 0.5 // s
	if at := s.actsFrom(); at >= 2*before && !s.stands(at-before, at) {
		if v := r.pace(walked+at-before, walked+at); !(v >= chaosWalk) {
			r.say("time", "it went at %.2f m/s already when the first of what acts began, at %.3f s", v, walked+at)
		}
	}
	return s.ends(), unharmed
}

// unasked is lockstepEnd of a schedule in which nothing had to act.
func (r *referee) unasked(s *schedule, walked float64, st *state) (want outcome, by harm) {
	fault := st.fault()
	if fault == "" {
		if st.Severity != safety.None.String() || st.Mode != "policy" {
			r.say("cause", "the agent says mode %s, severity %s without a fault", st.Mode, st.Severity)
		}
		return walks, unharmed
	}
	from, by := s.harms(fault, &r.up)
	if by == unharmed {
		r.say("cause", "the agent says severity %s, fault %q, at a tilt of %.2f rad, and nothing asks for that", st.Severity, fault, r.up.tilt)
		return walks, unharmed
	}
	switch {
	case st.Severity == safety.StandHold.String() && fault == safety.Tilt.String():
		return stays, by
	case st.Severity == safety.Damp.String():
		r.within(walked+from-earlyS, math.Inf(1))
		return damps, by
	}
	r.say("cause", "the agent says severity %s, fault %q", st.Severity, fault)
	return walks, unharmed
}

// within judges when the first damping frame behind torque came, s.
func (r *referee) within(from, to float64) {
	if len(r.stops) == 0 {
		r.say("time", "it was never damped, want that by %.3f s", to)
	} else if t := r.stops[0].t; !(t >= from && t <= to) {
		r.say("time", "damped at %.3f s, want %.3f..%.3f", t, from, to)
	}
}

// pace is the mean speed along the heading in a span of time, m/s; no number where the log has no state of it.
func (r *referee) pace(from, to float64) float64 {
	v, n := 0., 0
	for _, p := range r.went {
		if p.t >= from && p.t <= to {
			v, n = v+p.v, n+1
		}
	}
	return v / float64(n)
}

// capped fails where more of all than a share were so.
func capped(what string, n, all, share float64) error {
	if n > all*share {
		return fmt.Errorf("%s: %.0f of %.0f, want at most %.0f %%", what, n, all, 100*share)
	}
	return nil
}
