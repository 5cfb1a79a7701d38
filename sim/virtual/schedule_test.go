package virtual

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// still is a robot in lockstep whose steps the test makes itself.
func still(t *testing.T, boot Boot, faults ...string) *Robot {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen, cfg.Lockstep, cfg.Boot = netip.MustParseAddrPort("127.0.0.1:0"), true, boot
	for _, text := range faults {
		f, err := ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	r.schedule(false)
	return r
}

// changes makes n steps and tells at which time, in ms, what see shows became another.
func changes(r *Robot, n int, see func() string) (all []string) {
	last := ""
	for i := 0; ; i++ {
		if is := see(); is != last {
			all = append(all, fmt.Sprintf("%d %s", i*stepMs, is))
			last = is
		}
		if i == n {
			return all
		}
		r.advance()
	}
}

// The floor is that of the fault that began last of those in force, whichever ends first.
func TestOverlappingFriction(t *testing.T) {
	for _, tc := range []struct{ faults, want []string }{
		{[]string{"friction,mu=0.3@0.01+0.02", "friction,mu=0.2@0.02+0.03"}, []string{"0 0.8", "10 0.3", "20 0.2", "50 0.8"}},
		{[]string{"friction,mu=0.3@0.01+0.04", "friction,mu=0.2@0.02+0.01"}, []string{"0 0.8", "10 0.3", "20 0.2", "30 0.3", "50 0.8"}},
		{[]string{"friction,mu=0.2@0.02+0.01", "friction,mu=0.3@0.01+0.04"}, []string{"0 0.8", "10 0.3", "20 0.2", "30 0.3", "50 0.8"}},
		{[]string{"friction,mu=0.3@0.01", "friction,mu=0.2@0.02+0.01/0.02", "clear@0.044"}, []string{"0 0.8", "10 0.3", "20 0.2", "30 0.3", "40 0.2", "44 0.8"}},
		{[]string{"friction,mu=0.3@0.01+0.04", "restart@0.03"}, []string{"0 0.8", "10 0.3", "50 0.8"}},
	} {
		r := still(t, BootFolded, tc.faults...)
		if got := changes(r, 40, func() string { return fmt.Sprint(r.sim.Params().Body.Friction) }); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%v: %v, want %v", tc.faults, got, tc.want)
		}
	}
}

// Sport mode is there as long as one fault says so, through a restart too; while its computer starts the robot has no power and no port answers.
func TestOverlappingSportMode(t *testing.T) {
	for _, tc := range []struct{ faults, want []string }{
		{[]string{"sport_returns@0.01+0.02", "sport_returns@0.02+0.03"}, []string{"0 false false", "10 true true", "50 false false"}},
		{[]string{"sport_returns@0.01+0.04", "sport_returns@0.02+0.01"}, []string{"0 false false", "10 true true", "50 false false"}},
		{[]string{"sport_returns@0.01+0.04", "restart@0.03"}, []string{"0 false false", "10 true true", "50 false false"}},
		{[]string{"sport_returns@0.01", "restart,down=0.01@0.03"}, []string{"0 false false", "10 true true", "30 true false", "40 true true"}},
		{[]string{"restart,down=0.03@0.01", "restart@0.02", "sport_returns@0.02"}, []string{"0 false false", "20 true false", "40 true true"}},
	} {
		r := still(t, BootFolded, tc.faults...)
		got := changes(r, 40, func() string {
			if r.sport != (r.high != nil) {
				t.Errorf("%v: sport mode %v, its port open %v", tc.faults, r.sport, r.high != nil)
			}
			cmd := r.executed()
			return fmt.Sprint(r.sport, cmd.Kp[0] == standKp)
		})
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%v: %v, want %v", tc.faults, got, tc.want)
		}
	}
}

// A battery that is off lets nobody move the motors: neither sport mode nor another program.
func TestNobodyMovesARobotWithoutBattery(t *testing.T) {
	r := still(t, BootFolded, "sport_returns@0", "other_sender,what=pose@0")
	if cmd := r.executed(); cmd.Kp[0] == 0 {
		t.Fatal("nobody holds the robot")
	}
	r.off = true
	r.letGo("battery switched off")
	if cmd := r.executed(); cmd.Kp != [mujoco.Joints]float64{} || cmd.Kd != [mujoco.Joints]float64{} {
		t.Errorf("motors are driven: %v %v", cmd.Kp, cmd.Kd)
	}
}

// In lockstep what is injected between two steps takes no sample from what counts steps.
func TestInjectionIsNoStep(t *testing.T) {
	r := still(t, BootFolded, "push,n=20,samples=5@0.01")
	for i := range 20 {
		for range i % 4 {
			if err := r.Inject(Fault{Kind: "battery", From: "now", Samples: 1}); err != nil {
				t.Fatal(err)
			}
			r.schedule(false)
		}
		if on := len(r.effects) > 0 && r.effects[0].on && r.effects[0].k.name == "push"; on != (i >= 5 && i < 10) {
			t.Errorf("after %d steps the push is on: %v", i, on)
		}
		r.advance()
	}
}
