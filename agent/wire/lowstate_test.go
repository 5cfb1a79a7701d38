package wire_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

const accepted = wire.Reject(wire.NumRejects) // in tables: no reason, taken

// receiverCases are the golden acceptance cases and our verdict. stricter says why where the maker's receiver takes
// what we refuse; there is no case where we take what it refuses.
var receiverCases = map[string]struct {
	want     wire.Reject
	stricter string
}{
	"accept_or_reject_crc_flip_top_bit":       {want: wire.RejectCRC},
	"accept_or_reject_crc_zero":               {want: wire.RejectCRC},
	"accept_or_reject_level_ff_encrypted_crc": {want: wire.RejectLevel},
	"accept_or_reject_bad_head_second":        {want: wire.RejectHead},
	"accept_or_reject_bad_head_zero":          {want: wire.RejectHead},
	"accept_or_reject_head_swapped":           {want: wire.RejectHead},
	"accept_or_reject_level_ee_plain_crc":     {want: wire.RejectLevel},
	"accept_or_reject_level_ee_encrypted_crc": {want: accepted},
	"accept_or_reject_level_00_plain_crc":     {want: accepted},
	"accept_or_reject_level_01_plain_crc":     {want: accepted},
	"accept_or_reject_level_f0_plain_crc":     {want: accepted},
	"accept_or_reject_level_fe_plain_crc":     {want: accepted},
	"size_806":                                {want: wire.RejectShort},
	"size_22":                                 {want: wire.RejectShort},
	"size_808":                                {wire.RejectLong, "a byte too many: not a LowState, whatever its first 807 bytes say"},
	"size_1087":                               {wire.RejectLong, "the length of a HighState: sport mode, not a LowState with a tail"},
	"size_614_lowcmd":                         {want: wire.RejectShort},
}

// TestReceiver runs the maker's acceptance cases, each listed by name.
func TestReceiver(t *testing.T) {
	seen := 0
	for _, g := range lowStateCases(t) {
		c, listed := receiverCases[g.Name]
		if listed != (g.Fields == nil) {
			t.Errorf("%s: listed %v, has fields %v", g.Name, listed, g.Fields != nil)
		}
		if !listed {
			continue
		}
		seen++
		if differs := g.Accepted != (c.want == accepted); differs != (c.stricter != "") || differs && c.want == accepted {
			t.Errorf("%s: the maker's receiver accepts: %v, we want %v, reason to be stricter %q", g.Name, g.Accepted, c.want, c.stricter)
		}
		s := *goldenLowState(t, "random_01")
		before := s
		err := wire.DecodeLowState(g.Frame, &s)
		if c.want != accepted {
			wantReason(t, err, c.want)
			if s != before {
				t.Errorf("%s: refused, and changed the state", g.Name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", g.Name, err)
			continue
		}
		again, err := wire.AppendLowState(nil, &s, wire.FormFor(s.LevelFlag))
		if err != nil || !bytes.Equal(again, g.Frame) {
			t.Errorf("%s: encoded again it differs (%v)", g.Name, err)
		}
	}
	if seen != len(receiverCases) {
		t.Errorf("%d acceptance cases in the file, %d listed", seen, len(receiverCases))
	}
}

func TestGoldenLowState(t *testing.T) {
	n := 0
	for _, g := range lowStateCases(t) {
		if g.Fields == nil {
			continue // in receiverCases, see TestReceiver
		}
		n++
		t.Run(g.Name, func(t *testing.T) {
			if !g.Accepted {
				t.Fatal("a refused case with fields")
			}
			want := g.state()
			all, err := wire.AppendLowState(dirty(), want, wire.FormFor(want.LevelFlag))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]byte(g.Frame), appended(t, all)); d != "" {
				t.Errorf("frame (-golden +ours):\n%s", d)
			}
			s := *goldenLowState(t, "random_39") // every field is written over
			if err := wire.DecodeLowState(g.Frame, &s); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, &s, sameBits); d != "" {
				t.Errorf("fields (-maker +ours):\n%s", d)
			}
		})
	}
	if n != 79 {
		t.Errorf("%d cases with fields, want 79", n)
	}
}

// TestLowStateBitFlips: every bit under the CRC, and of the CRC, counts; the three bytes of reserve beside it do not.
func TestLowStateBitFlips(t *testing.T) {
	good, err := wire.AppendLowState(nil, goldenLowState(t, "random_00"), wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	var s wire.LowState
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			err := wire.DecodeLowState(b, &s)
			switch {
			case i < 2:
				wantReason(t, err, wire.RejectHead)
			case i >= 800 && i < 803:
				if err != nil {
					t.Errorf("byte %d bit %d lies outside the CRC: %v", i, bit, err)
				}
			default:
				wantReason(t, err, wire.RejectCRC)
			}
		}
	}
}

func TestLowStateEncoderRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*wire.LowState)
		want wire.Reject
		text string
	}{
		{"tauEst -128", func(s *wire.LowState) { s.Motor[3].TauEst = -128 }, accepted, ""},
		{"tauEst below 128", func(s *wire.LowState) { s.Motor[3].TauEst = math.Nextafter32(128, 0) }, accepted, ""},
		{"tauEst 128", func(s *wire.LowState) { s.Motor[3].TauEst = 128 }, wire.RejectRange,
			"wire: LowState: motor 3 tauEst is not within -128 <= tauEst < 128 N.m"},
		{"tauEst below -128", func(s *wire.LowState) { s.Motor[19].TauEst = math.Nextafter32(-128, -200) }, wire.RejectRange,
			"wire: LowState: motor 19 tauEst is not within -128 <= tauEst < 128 N.m"},
		{"tauEst NaN", func(s *wire.LowState) { s.Motor[0].TauEst = float32(math.NaN()) }, wire.RejectNonFinite,
			"wire: LowState: motor 0 tauEst is not finite"},
		{"tauEst Inf", func(s *wire.LowState) { s.Motor[0].TauEst = float32(math.Inf(-1)) }, wire.RejectNonFinite, ""},
		{"cell 8191 mV", func(s *wire.LowState) { s.BMS.CellVoltage[9] = 8191 }, accepted, ""},
		{"cell 8192 mV", func(s *wire.LowState) { s.BMS.CellVoltage[9] = 8192 }, wire.RejectRange,
			"wire: LowState: cell 9 voltage is not at most 8191 mV"},
		{"q NaN", func(s *wire.LowState) { s.Motor[0].Q = float32(math.NaN()) }, accepted, ""},
		{"gyroscope Inf", func(s *wire.LowState) { s.IMU.Gyroscope[1] = float32(math.Inf(1)) }, accepted, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s wire.LowState
			s.Init()
			c.set(&s)
			buf := dirty()
			before := bytes.Clone(buf[:cap(buf)])
			all, err := wire.AppendLowState(buf, &s, wire.PlainCRC)
			if c.want == accepted {
				if err != nil {
					t.Fatal(err)
				}
				var got wire.LowState
				if err := wire.DecodeLowState(appended(t, all), &got); err != nil {
					t.Fatal(err)
				}
				return
			}
			wantReason(t, err, c.want)
			if c.text != "" && err.Error() != c.text {
				t.Errorf("error %q, want %q", err, c.text)
			}
			if len(all) != len(buf) || !bytes.Equal(all[:cap(all)], before) {
				t.Error("the refused encoder changed dst")
			}
		})
	}
}

// TestCellVoltageStep: what falls between two steps goes out as the lower.
func TestCellVoltageStep(t *testing.T) {
	var s, got wire.LowState
	s.Init()
	s.BMS.CellVoltage[0] = 3711
	b, err := wire.AppendLowState(nil, &s, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.DecodeLowState(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.BMS.CellVoltage[0] != 3680 {
		t.Errorf("3711 mV came back as %d, want 3680", got.BMS.CellVoltage[0])
	}
}
