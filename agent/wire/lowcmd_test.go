package wire_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// fault is a value no encoder may send.
type fault struct {
	motor  int
	field  wire.Field
	reason wire.Reject
}

// faults lists them in the order the encoder looks, worked out here from the documented ranges alone.
func faults(c *wire.LowCmd) (list []fault) {
	for i, m := range c.Motor {
		for _, v := range []struct {
			field  wire.Field
			value  float32
			inside bool
		}{
			{wire.FieldQ, m.Q, true},
			{wire.FieldDq, m.Dq, true},
			{wire.FieldTau, m.Tau, math.Abs(float64(m.Tau)) < 128},
			{wire.FieldKp, m.Kp, 0 <= m.Kp && m.Kp < 1024},
			{wire.FieldKd, m.Kd, 0 <= m.Kd && m.Kd < 2048},
		} {
			switch x := float64(v.value); {
			case math.IsNaN(x) || math.IsInf(x, 0):
				list = append(list, fault{i, v.field, wire.RejectNonFinite})
			case !v.inside:
				list = append(list, fault{i, v.field, wire.RejectRange})
			}
		}
	}
	return list
}

// makerStep is what the maker's library of the given build makes of value x scale, read back as signed 16 bits.
func makerStep(value, scale float32, arch string) int16 {
	p := float64(value * scale)
	switch {
	case math.IsNaN(p):
		return 0
	case p >= 1<<31 && arch == "arm64":
		return -1 // low half of 0x7FFFFFFF
	case p >= 1<<31 || p < -1<<31:
		return 0 // low half of 0x80000000
	}
	return int16(int32(p))
}

// refusedLowCmd are the golden cases an encoder of ours must refuse, and the first value it refuses in each. The maker's
// library sent all of them, wrapped.
var refusedLowCmd = map[string]fault{
	"tau_wrap":                 {6, wire.FieldTau, wire.RejectRange},
	"kp_wrap":                  {2, wire.FieldKp, wire.RejectRange},
	"kd_wrap":                  {5, wire.FieldKd, wire.RejectRange},
	"float_overflow_tau":       {0, wire.FieldTau, wire.RejectRange},
	"float_overflow_tau_arm64": {0, wire.FieldTau, wire.RejectRange},
	"float_raw_q_dq":           {0, wire.FieldQ, wire.RejectNonFinite},
}

func TestGoldenLowCmdEncode(t *testing.T) {
	encoded, refused := 0, 0
	for _, g := range lowCmdCases(t) {
		t.Run(g.Name, func(t *testing.T) {
			c := g.cmd()
			buf := dirty()
			before := bytes.Clone(buf[:cap(buf)])
			all, err := wire.AppendLowCmd(buf, c, form(t, g.CRCForm))
			bad := faults(c)
			want, listed := refusedLowCmd[g.Name]
			if listed != (len(bad) > 0) {
				t.Fatalf("%d values out of range, in refusedLowCmd: %v", len(bad), listed)
			}
			if !listed {
				encoded++
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff([]byte(g.Frame), appended(t, all)); d != "" {
					t.Errorf("frame (-maker +ours):\n%s", d)
				}
				return
			}
			refused++
			if bad[0] != want {
				t.Errorf("first fault %+v, pinned %+v", bad[0], want)
			}
			e, ok := err.(*wire.RejectError)
			if !ok {
				t.Fatalf("error %v, want a *RejectError", err)
			}
			if d := cmp.Diff(wire.RejectError{Reason: want.reason, Field: want.field, Index: uint8(want.motor)}, *e); d != "" {
				t.Error(d)
			}
			if len(all) != len(buf) || !bytes.Equal(all[:cap(all)], before) {
				t.Error("the refused encoder changed dst")
			}
			sendableRest(t, &g, c, bad)
		})
	}
	if encoded != 83 || refused != 6 {
		t.Errorf("%d encoded and %d refused, want 83 and 6", encoded, refused)
	}
}

// sendableRest zeroes the faulty values in c and their bytes in the golden frame; all other bytes must agree.
func sendableRest(t *testing.T, g *lowCmdCase, c *wire.LowCmd, bad []fault) {
	t.Helper()
	want := bytes.Clone(g.Frame)
	for _, f := range bad {
		m, rec := &c.Motor[f.motor], want[22+27*f.motor:]
		switch f.field {
		case wire.FieldQ:
			m.Q = 0
			clear(rec[1:5])
		case wire.FieldDq:
			m.Dq = 0
			clear(rec[5:9])
		case wire.FieldTau:
			m.Tau = 0
			clear(rec[9:11])
		case wire.FieldKp:
			m.Kp = 0
			clear(rec[11:13])
		case wire.FieldKd:
			m.Kd = 0
			clear(rec[13:15])
		}
	}
	got, err := wire.AppendLowCmd(nil, c, form(t, g.CRCForm))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want[:610], got[:610]); d != "" {
		t.Errorf("without the refused values (-maker +ours):\n%s", d)
	}
}

// otherHead are the golden cases that do not begin with FE EF. Our decoder refuses them, and their fields are checked
// under a head that it takes.
var otherHead = []string{"zero_struct", "header_and_tail_markers", "header_and_tail_markers_encrypted"}

func TestGoldenLowCmdDecode(t *testing.T) {
	var heads []string
	for _, g := range lowCmdCases(t) {
		t.Run(g.Name, func(t *testing.T) {
			want := g.cmd()
			for i := range want.Motor {
				m := &want.Motor[i]
				m.Tau = float32(makerStep(m.Tau, 256, g.Arch)) / 256
				m.Kp = float32(makerStep(m.Kp, 32, g.Arch)) / 32
				m.Kd = float32(makerStep(m.Kd, 16, g.Arch)) / 16
			}
			wantForm, frame := form(t, g.CRCForm), []byte(g.Frame)
			var c wire.LowCmd
			if want.Head != [2]byte{0xFE, 0xEF} {
				heads = append(heads, g.Name)
				_, err := wire.DecodeLowCmd(frame, &c)
				wantReason(t, err, wire.RejectHead)
				if c != (wire.LowCmd{}) {
					t.Error("the refused decoder wrote its output")
				}
				frame, want.Head = reseal(frame, wantForm), [2]byte{0xFE, 0xEF}
			}
			gotForm, err := wire.DecodeLowCmd(frame, &c)
			if err != nil {
				t.Fatal(err)
			}
			if gotForm != wantForm {
				t.Errorf("form %v, want %v", gotForm, wantForm)
			}
			if d := cmp.Diff(want, &c, sameBits); d != "" {
				t.Errorf("fields (-maker +ours):\n%s", d)
			}
		})
	}
	if !slices.Equal(heads, otherHead) {
		t.Errorf("refused for their head: %q, want %q", heads, otherHead)
	}
}

func TestLowCmdInit(t *testing.T) {
	c := goldenLowCmd(t, "twenty_distinct_with_reserve")
	c.Init()
	want := wire.LowCmd{Header: wire.Header{Head: [2]byte{0xFE, 0xEF}, LevelFlag: 0xFF}}
	if d := cmp.Diff(&want, c); d != "" {
		t.Errorf("Init left something behind:\n%s", d)
	}
	b, err := wire.AppendLowCmd(nil, c, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b[3:610], []byte{0}); n != 607 {
		t.Errorf("%d of the 607 bytes behind the level flag are zero: a stop value or a mode left", n)
	}
}

// TestLowCmdBounds is dense around each bound: the last float32 inside goes out, the first outside does not.
func TestLowCmdBounds(t *testing.T) {
	below := func(v float32) float32 { return math.Nextafter32(v, float32(math.Inf(-1))) }
	above := func(v float32) float32 { return math.Nextafter32(v, float32(math.Inf(1))) }
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	set := map[wire.Field]func(*wire.MotorCmd, float32){
		wire.FieldQ:   func(m *wire.MotorCmd, v float32) { m.Q = v },
		wire.FieldDq:  func(m *wire.MotorCmd, v float32) { m.Dq = v },
		wire.FieldTau: func(m *wire.MotorCmd, v float32) { m.Tau = v },
		wire.FieldKp:  func(m *wire.MotorCmd, v float32) { m.Kp = v },
		wire.FieldKd:  func(m *wire.MotorCmd, v float32) { m.Kd = v },
	}
	const ok = wire.NumRejects
	negZero := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		field wire.Field
		value float32
		want  wire.Reject
		step  int16 // the 16 bits sent, where accepted
		text  string
	}{
		{wire.FieldTau, below(128), ok, 32767, ""},
		{wire.FieldTau, 128, wire.RejectRange, 0, "wire: LowCmd: motor 7 tau is not within -128 < tau < 128 N.m"},
		{wire.FieldTau, above(-128), ok, -32767, ""},
		{wire.FieldTau, -128, wire.RejectRange, 0, ""},
		{wire.FieldTau, math.MaxFloat32, wire.RejectRange, 0, ""},
		{wire.FieldTau, nan, wire.RejectNonFinite, 0, "wire: LowCmd: motor 7 tau is not finite"},
		{wire.FieldTau, inf, wire.RejectNonFinite, 0, ""},
		{wire.FieldTau, -inf, wire.RejectNonFinite, 0, ""},
		{wire.FieldTau, -0.65, ok, -166, ""},
		{wire.FieldTau, 0.0039, ok, 0, ""},
		{wire.FieldTau, -0.0039, ok, 0, ""},
		{wire.FieldKp, 0, ok, 0, ""},
		{wire.FieldKp, negZero, ok, 0, ""},
		{wire.FieldKp, below(0), wire.RejectRange, 0, "wire: LowCmd: motor 7 Kp is not within 0 <= Kp < 1024"},
		{wire.FieldKp, 0.1, ok, 3, ""},
		{wire.FieldKp, below(1024), ok, 32767, ""},
		{wire.FieldKp, 1024, wire.RejectRange, 0, ""},
		{wire.FieldKp, nan, wire.RejectNonFinite, 0, ""},
		{wire.FieldKp, inf, wire.RejectNonFinite, 0, ""},
		{wire.FieldKd, 0, ok, 0, ""},
		{wire.FieldKd, below(0), wire.RejectRange, 0, "wire: LowCmd: motor 7 Kd is not within 0 <= Kd < 2048"},
		{wire.FieldKd, 3.7, ok, 59, ""},
		{wire.FieldKd, below(2048), ok, 32767, ""},
		{wire.FieldKd, 2048, wire.RejectRange, 0, ""},
		{wire.FieldKd, nan, wire.RejectNonFinite, 0, ""},
		{wire.FieldKd, -inf, wire.RejectNonFinite, 0, ""},
		{wire.FieldQ, nan, wire.RejectNonFinite, 0, "wire: LowCmd: motor 7 q is not finite"},
		{wire.FieldQ, inf, wire.RejectNonFinite, 0, ""},
		{wire.FieldQ, math.MaxFloat32, ok, 0, ""},
		{wire.FieldDq, -inf, wire.RejectNonFinite, 0, "wire: LowCmd: motor 7 dq is not finite"},
		{wire.FieldDq, nan, wire.RejectNonFinite, 0, ""},
		{wire.FieldDq, -math.MaxFloat32, ok, 0, ""},
	} {
		var cmd wire.LowCmd
		cmd.Init()
		set[c.field](&cmd.Motor[7], c.value)
		b, err := wire.AppendLowCmd(nil, &cmd, wire.PlainCRC)
		if c.want == ok {
			if err != nil {
				t.Errorf("field %d = %v: %v", c.field, c.value, err)
				continue
			}
			at := map[wire.Field]int{wire.FieldTau: 9, wire.FieldKp: 11, wire.FieldKd: 13}[c.field]
			if at == 0 {
				continue
			}
			if got := int16(binary.LittleEndian.Uint16(b[22+7*27+at:])); got != c.step {
				t.Errorf("field %d = %v: sent %d, want %d", c.field, c.value, got, c.step)
			}
			continue
		}
		wantReason(t, err, c.want)
		if b != nil {
			t.Errorf("field %d = %v: refused, and gave %d bytes", c.field, c.value, len(b))
		}
		if c.text != "" && err.Error() != c.text {
			t.Errorf("error %q, want %q", err, c.text)
		}
	}
}

// TestLowCmdEveryMotorIsChecked: also the eight records a Go1 does not use.
func TestLowCmdEveryMotorIsChecked(t *testing.T) {
	for i := range wire.Motors {
		var c wire.LowCmd
		c.Init()
		c.Motor[i].Kd = float32(math.NaN())
		_, err := wire.AppendLowCmd(nil, &c, wire.PlainCRC)
		e, ok := err.(*wire.RejectError)
		if !ok || e.Index != uint8(i) || e.Field != wire.FieldKd || e.Reason != wire.RejectNonFinite {
			t.Errorf("motor %d: %v", i, err)
		}
	}
}

// OnWire is what is read back of a frame.
func TestOnWire(t *testing.T) {
	for i := range 4000 {
		x := float32(i) * 0.0317
		m := wire.MotorCmd{Tau: x - 63, Kp: x * 8, Kd: x * 0.4}
		var c wire.LowCmd
		c.Init()
		c.Motor[0] = m
		frame, err := wire.AppendLowCmd(nil, &c, wire.PlainCRC)
		if err != nil {
			t.Fatal(err)
		}
		var read wire.LowCmd
		if _, err := wire.DecodeLowCmd(frame, &read); err != nil {
			t.Fatal(err)
		}
		if tau, kp, kd := m.OnWire(); tau != read.Motor[0].Tau || kp != read.Motor[0].Kp || kd != read.Motor[0].Kd {
			t.Fatalf("%+v: %v %v %v, read back %+v", m, tau, kp, kd, read.Motor[0])
		}
	}
}
