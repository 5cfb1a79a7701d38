package virtual_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// What a hung robot's motors do while commands are lost for 200 ms, after a command that pulls a thigh up at Kp 20.
func TestOnSilence(t *testing.T) {
	for _, tc := range []struct {
		does    string
		torque  bool // the thigh is pulled on
		afterMs int  // until the motors act by themselves; 0: not within 200 ms
	}{
		{"hold", true, 0},
		{"damp:20ms", false, 20},
		{"damp:100ms", false, 100},
		{"limp:50ms", false, 50},
		{"limp:1s", true, 0},
	} {
		t.Run(tc.does, func(t *testing.T) {
			cfg := virtualtest.Config()
			cfg.Boot = virtual.BootHung
			var err error
			if cfg.OnSilence, err = virtual.ParseSilence(tc.does); err != nil {
				t.Fatal(err)
			}
			r := virtualtest.Start(t, cfg)
			c := newClient(t, r.Addr())
			rest := c.step(damping())
			cmd := servoAt(&rest, 20, 1)
			cmd.Motor[1].Q += 0.6
			for range 500 {
				rest = c.step(cmd)
			}
			r.Fault("drop_command@now+0.2")
			for range 100 {
				c.exchange(cmd, 1)
			}
			silent := r.Status().Silent
			s := c.step(cmd) // the robot has not answered in the silence; this frame is obeyed in the step of its answer
			if silent != (tc.afterMs > 0) {
				t.Errorf("silent: %v", silent)
			}
			if s.Motor[1].Mode != wire.ModeServo || s.Motor[1].TauEst < rest.Motor[1].TauEst-0.6 {
				t.Errorf("it does not obey again: %+v", s.Motor[1])
			}
			if sank := float64(rest.Motor[1].Q - s.Motor[1].Q); (sank > 0.006) == tc.torque {
				t.Errorf("the thigh sank by %v rad", sank)
			}
			r.Stop()
			recs := r.Records("silence")
			if tc.afterMs == 0 {
				if len(recs) != 0 {
					t.Errorf("records: %v", recs)
				}
				return
			}
			if len(recs) != 2 || int(recs[0].Number("after_ms")) != tc.afterMs || recs[0].Tick() != 1000+tc.afterMs || recs[1]["on"] != false ||
				!strings.HasPrefix(tc.does, recs[0].Text("do")) {
				t.Errorf("records: %v", recs)
			}
		})
	}
}

// The states that come while the motors act by themselves say so as far as a motor does: mode and torque.
func TestSilentMotorsReport(t *testing.T) {
	for does, want := range map[string]byte{"damp:20ms": wire.ModeServo, "limp:20ms": wire.ModeDamping} {
		cfg := virtualtest.Config()
		cfg.Lockstep, cfg.Boot = false, virtual.BootHung
		var err error
		if cfg.OnSilence, err = virtual.ParseSilence(does); err != nil {
			t.Fatal(err)
		}
		r := virtualtest.Start(t, cfg)
		c := newClient(t, r.Addr())
		rest := c.step(damping())
		cmd := servoAt(&rest, 20, 1)
		for i := range go1.Joints {
			cmd.Motor[i].Q -= 0.2
		}
		c.step(cmd)
		wait(t, "silence", func() bool { return r.Status().Silent })
		s := c.step(cmd) // in real time the answer is of the step before the command
		for i := range go1.Joints {
			if m := s.Motor[i]; m.Mode != want || does[0] == 'l' && math.Abs(float64(m.TauEst)) > 1 {
				t.Errorf("%s: motor %d: %+v", does, i, m)
			}
		}
		r.Stop()
	}
}

func TestSilenceText(t *testing.T) {
	for text, want := range map[string]string{"hold": "hold", "damp:20ms": "damp:20ms", "limp:0.25": "limp:250ms", "damp:2s": "damp:2000ms", "limp:2.5ms": "limp:2.5ms"} {
		s, err := virtual.ParseSilence(text)
		again, err2 := virtual.ParseSilence(s.String())
		if err != nil || err2 != nil || s.String() != want || again != s {
			t.Errorf("%s: %v %v %v", text, s, err, err2)
		}
	}
	for text, part := range map[string]string{
		"": "on silence", "damp": "damp:TIME", "stand:20ms": "stand", "hold:20ms": "hold:", "damp:": "seconds", "limp:-1": "seconds", "damp:0": "step",
		"damp:1ms": "step", "limp:1e9": "seconds", "limp:NaN": "seconds",
	} {
		if s, err := virtual.ParseSilence(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, %v; want an error with %q", text, s, err, part)
		}
	}
}

func TestIdentity(t *testing.T) {
	seen := map[string]bool{}
	for _, id := range []virtual.Identity{virtual.DefaultConfig().Identity, {}, {SN: [2]uint32{7, 0xFFFFFFFF}, Version: [2]uint32{3, 4}}} {
		cfg := virtualtest.Config()
		cfg.Identity = id
		c := newClient(t, virtualtest.Start(t, cfg).Addr())
		s := c.step(damping())
		if s.SN != id.SN || s.Version != id.Version {
			t.Errorf("header %+v, want %+v", s.Header, id)
		}
		seen[fmt.Sprint(s.SN)] = true
	}
	if len(seen) != 3 {
		t.Errorf("serial numbers %v", seen)
	}
}

// A robot that takes one form of CRC refuses the other with its own reason, and answers nothing.
func TestCRCForms(t *testing.T) {
	for _, tc := range []struct {
		crc   virtual.CRC
		form  wire.CRCForm
		taken bool
	}{
		{virtual.CRCAny, wire.PlainCRC, true}, {virtual.CRCAny, wire.EncryptedCRC, true},
		{virtual.CRCPlain, wire.PlainCRC, true}, {virtual.CRCPlain, wire.EncryptedCRC, false},
		{virtual.CRCEncrypted, wire.PlainCRC, false}, {virtual.CRCEncrypted, wire.EncryptedCRC, true},
	} {
		cfg := virtualtest.Config()
		cfg.CRC = tc.crc
		r := virtualtest.Start(t, cfg)
		c := newClient(t, r.Addr())
		b, err := wire.AppendLowCmd(nil, damping(), tc.form)
		if err != nil {
			t.Fatal(err)
		}
		c.send(b)
		got := c.receive()
		r.Stop()
		sum := r.Summary()
		if taken := len(got) == wire.LowStateSize; taken != tc.taken || (sum.Frames == 1) != tc.taken || (sum.Rejected["level"] == 1) == tc.taken {
			t.Errorf("%s, sent %v: %d bytes, %d frames, refused %v", tc.crc, tc.form, len(got), sum.Frames, sum.Rejected)
		}
	}
}
