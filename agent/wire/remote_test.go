package wire_test

import (
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// TestGoldenRemote: each joystick case of the golden states, its button or sticks, and the 40 bytes made again.
func TestGoldenRemote(t *testing.T) {
	want := map[string]wire.Remote{
		"L2_B_sticks": {Buttons: wire.ButtonL2 | wire.ButtonB, Lx: 0.25, Rx: -0.5, Ry: 0.75, L2: 1, Ly: -1},
		"btn_R1":      {Buttons: wire.ButtonR1},
		"btn_L1":      {Buttons: wire.ButtonL1},
		"btn_start":   {Buttons: wire.ButtonStart},
		"btn_select":  {Buttons: wire.ButtonSelect},
		"btn_R2":      {Buttons: wire.ButtonR2},
		"btn_L2":      {Buttons: wire.ButtonL2},
		"btn_F1":      {Buttons: wire.ButtonF1},
		"btn_F2":      {Buttons: wire.ButtonF2},
		"btn_A":       {Buttons: wire.ButtonA},
		"btn_B":       {Buttons: wire.ButtonB},
		"btn_X":       {Buttons: wire.ButtonX},
		"btn_Y":       {Buttons: wire.ButtonY},
		"btn_up":      {Buttons: wire.ButtonUp},
		"btn_right":   {Buttons: wire.ButtonRight},
		"btn_down":    {Buttons: wire.ButtonDown},
		"btn_left":    {Buttons: wire.ButtonLeft},
	}
	seen := 0
	for _, g := range lowStateCases(t) {
		name, ok := strings.CutPrefix(g.Name, "joystick_")
		if !ok {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			w, listed := want[name]
			if !listed {
				t.Fatal("not listed")
			}
			w.Head = [2]byte{0x55, 0x51}
			var s wire.LowState
			if err := wire.DecodeLowState(g.Frame, &s); err != nil {
				t.Fatal(err)
			}
			r := wire.Remote{Ly: 9, L2: 9}
			wire.DecodeRemote(&s.Remote, &r)
			if r != w {
				t.Errorf("%+v, want %+v", r, w)
			}
			if !r.Present() {
				t.Error("not present")
			}
			if !r.Pressed(w.Buttons) || r.Pressed(^w.Buttons) {
				t.Errorf("buttons %04x", r.Buttons)
			}
			if got := appended(t, wire.AppendRemote(dirty(), &r)); string(got) != string(s.Remote[:]) {
				t.Errorf("made again % x, want % x", got, s.Remote)
			}
		})
	}
	if seen != len(want) {
		t.Errorf("%d joystick cases, %d listed", seen, len(want))
	}
}

func TestRemotePresent(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*[wire.RemoteSize]byte)
		want bool
	}{
		{"all zero", func(*[wire.RemoteSize]byte) {}, false},
		{"head alone", func(b *[wire.RemoteSize]byte) { b[0], b[1] = 0x55, 0x51 }, true},
		{"head missing, button down", func(b *[wire.RemoteSize]byte) { b[2] = 0x20 }, false},
		{"first head byte missing", func(b *[wire.RemoteSize]byte) { b[1] = 0x51 }, false},
		{"second head byte missing", func(b *[wire.RemoteSize]byte) { b[0] = 0x55 }, false},
		{"head swapped", func(b *[wire.RemoteSize]byte) { b[0], b[1] = 0x51, 0x55 }, false},
	} {
		var b [wire.RemoteSize]byte
		c.set(&b)
		var r wire.Remote
		wire.DecodeRemote(&b, &r)
		if r.Present() != c.want {
			t.Errorf("%s: present %v, want %v", c.name, r.Present(), c.want)
		}
	}
}

// TestStopNeedsBothButtons: L2+B is the emergency stop; one of them is not.
func TestStopNeedsBothButtons(t *testing.T) {
	const stop = wire.ButtonL2 | wire.ButtonB
	for buttons, want := range map[uint16]bool{
		0: false, wire.ButtonL2: false, wire.ButtonB: false, stop: true, stop | wire.ButtonUp: true, 0xFFFF: true, ^stop: false,
	} {
		if got := (&wire.Remote{Buttons: buttons}).Pressed(stop); got != want {
			t.Errorf("buttons %04x: %v, want %v", buttons, got, want)
		}
	}
}
