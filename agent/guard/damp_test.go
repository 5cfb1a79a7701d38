package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// TestDampClearsWhatWasShown: a person's damp always damps, and clears the trips that they were shown. One that they were not stays latched.
func TestDampClearsWhatWasShown(t *testing.T) {
	r := newRig(t, stale).standing()
	damp := func(shown uint64) error {
		return r.ask(func(ctx context.Context) error { return r.loop.Damp(ctx, shown) })
	}
	r.must(damp(7)) // there is none to clear
	r.must(r.mode(control.Stand))
	r.run(2600)
	trip := func() {
		t.Helper()
		r.halt()
		r.run(60)
		r.stopped = false
		r.run(10)
	}
	trip()
	behind := r.robot.Count()
	for _, shown := range []uint64{0, 2} {
		var no *control.Refusal
		if err := damp(shown); !errors.As(err, &no) || no.Reason != control.TrippedMeanwhile || no.Value != 1 || !strings.Contains(err.Error(), "1 times by now") {
			t.Errorf("1 trip, shown %d: %v", shown, err)
		}
		r.run(20)
		if s := r.snapshot(); s.Mode != control.Damp || s.Verdict.Fault != safety.GuardTripped || s.Verdict.Severity != safety.Damp {
			t.Errorf("shown %d: mode %v, fault %v %v", shown, s.Mode, s.Verdict.Fault, s.Verdict.Severity)
		}
		if err := r.mode(control.Stand); !errors.As(err, &no) || no.Reason != control.Latched {
			t.Errorf("shown %d: stand: %v", shown, err)
		}
	}
	r.only(behind, 20)
	r.must(damp(1))
	r.run(20)
	if s := r.snapshot(); s.Mode != control.Damp || s.Verdict.Severity != safety.None {
		t.Errorf("shown 1: mode %v, fault %v", s.Mode, s.Verdict.Fault)
	}
	r.must(r.mode(control.Stand))
	r.run(2600)
	trip()
	var no *control.Refusal
	if err := damp(1); !errors.As(err, &no) || no.Reason != control.TrippedMeanwhile || no.Value != 2 {
		t.Errorf("2 trips, shown 1: %v", err)
	}
	r.must(r.mode(control.Damp)) // who calls it knows what has come until then
	r.run(20)
	if f := r.fault(); f != safety.NoFault {
		t.Errorf("fault %v", f)
	}
}
