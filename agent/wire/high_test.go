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

func TestGoldenHighCmd(t *testing.T) {
	var heads []string
	for _, g := range highCmdCases(t) {
		t.Run(g.Name, func(t *testing.T) {
			want, wantForm, frame := g.cmd(), form(t, g.CRCForm), []byte(g.Frame)
			all, err := wire.AppendHighCmd(dirty(), want, wantForm)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(frame, appended(t, all)); d != "" {
				t.Errorf("frame (-maker +ours):\n%s", d)
			}
			c := wire.HighCmd{Mode: 99, YawSpeed: 9, Reserve: 9}
			if want.Head != [2]byte{0xFE, 0xEF} {
				heads = append(heads, g.Name)
				before := c
				_, err := wire.DecodeHighCmd(frame, &c)
				wantReason(t, err, wire.RejectHead)
				if c != before {
					t.Error("the refused decoder wrote its output")
				}
				frame, want.Head = reseal(frame, wantForm), [2]byte{0xFE, 0xEF}
			}
			gotForm, err := wire.DecodeHighCmd(frame, &c)
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
	if want := []string{"zero_struct", "all_distinct", "all_distinct_encrypted"}; !slices.Equal(heads, want) {
		t.Errorf("refused for their head: %q, want %q", heads, want)
	}
}

func TestGoldenHighState(t *testing.T) {
	refused := map[string]wire.Reject{
		"reject_level_ee_plain_crc":     wire.RejectLevel,
		"reject_level_ff_encrypted_crc": wire.RejectLevel,
		"reject_level_00_encrypted_crc": wire.RejectLevel,
	}
	seen := 0
	for _, g := range highStateCases(t) {
		t.Run(g.Name, func(t *testing.T) {
			s := wire.HighState{Mode: 99, Reserve: 9}
			if want, listed := refused[g.Name]; listed {
				seen++
				before := s
				wantReason(t, wire.DecodeHighState(g.Frame, &s), want)
				if g.Accepted || s != before {
					t.Error("accepted by the maker, or written by us")
				}
				return
			}
			want := g.state()
			all, err := wire.AppendHighState(dirty(), want, wire.FormFor(want.LevelFlag))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]byte(g.Frame), appended(t, all)); d != "" {
				t.Errorf("frame (-golden +ours):\n%s", d)
			}
			if crc := binary.LittleEndian.Uint32(all[len(all)-4:]); crc != g.Fields.CRC {
				t.Errorf("CRC %08X, the maker read %08X", crc, g.Fields.CRC)
			}
			if err := wire.DecodeHighState(g.Frame, &s); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, &s, sameBits); d != "" {
				t.Errorf("fields (-maker +ours):\n%s", d)
			}
		})
	}
	if seen != len(refused) {
		t.Errorf("%d refused cases seen, %d listed", seen, len(refused))
	}
}

// TestHighCmdNonFinite: NaN in any float is refused and named.
func TestHighCmdNonFinite(t *testing.T) {
	for _, c := range []struct {
		at   func(*wire.HighCmd) *float32
		text string
	}{
		{func(c *wire.HighCmd) *float32 { return &c.FootRaiseHeight }, "foot raise height"},
		{func(c *wire.HighCmd) *float32 { return &c.BodyHeight }, "body height"},
		{func(c *wire.HighCmd) *float32 { return &c.Position[1] }, "position 1"},
		{func(c *wire.HighCmd) *float32 { return &c.Euler[2] }, "euler 2"},
		{func(c *wire.HighCmd) *float32 { return &c.Velocity[0] }, "velocity 0"},
		{func(c *wire.HighCmd) *float32 { return &c.YawSpeed }, "yaw speed"},
	} {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			var h wire.HighCmd
			h.Init()
			*c.at(&h) = float32(v)
			buf := dirty()
			before := bytes.Clone(buf[:cap(buf)])
			all, err := wire.AppendHighCmd(buf, &h, wire.PlainCRC)
			wantReason(t, err, wire.RejectNonFinite)
			if want := "wire: HighCmd: " + c.text + " is not finite"; err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
			if len(all) != len(buf) || !bytes.Equal(all[:cap(all)], before) {
				t.Errorf("%s: the refused encoder changed dst", c.text)
			}
		}
	}
}
