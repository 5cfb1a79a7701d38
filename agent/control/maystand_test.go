package control

import (
	"errors"
	"fmt"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// TestMayStand: whoever answers for the robot's first contact is asked about the newest state each time, before any torque.
func TestMayStand(t *testing.T) {
	var asked []uint32 // ticks of the states it was asked about
	var no error
	r := newRig(t, linktest.Config{}, func(_ *Config, p *Parts) {
		p.MayStand = func(s *wire.LowState) error {
			asked = append(asked, s.Tick)
			return no
		}
	})
	r.refused(r.mode(Stand), NotArmed)
	r.robot.Mute(true)
	r.must(r.ask(r.l.Arm))
	r.refused(r.mode(Stand), FewStates)
	if len(asked) != 0 {
		t.Fatalf("asked %d times about a robot that has said nothing", len(asked))
	}
	r.robot.Mute(false)
	r.ticks(12)
	no = fmt.Errorf("%w: it hangs", ErrNoFirstContact)
	if err := r.mode(Stand); !errors.Is(err, ErrNoFirstContact) {
		t.Fatalf("%v, want the refusal of MayStand", err)
	}
	r.in(Listen, PhaseNone)
	r.ticks(3)
	if n := r.robot.Count(); n != r.robot.Count(linktest.Damping) {
		t.Fatalf("%d of %d frames were no damping frames", n-r.robot.Count(linktest.Damping), n)
	}
	no = nil
	r.must(r.mode(Stand))
	r.in(Stand, PhaseFold)
	if len(asked) != 2 || asked[0] == 0 || asked[1] <= asked[0] {
		t.Errorf("asked about the states of ticks %v, want two, the newest each time", asked)
	}
	r.must(r.mode(Damp))
	if len(asked) != 2 {
		t.Error("asked about damp")
	}
}
