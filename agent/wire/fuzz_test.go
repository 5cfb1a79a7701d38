package wire_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Each target takes bytes as they come, and, so that the CRC does not keep the fuzzer out, the same bytes made to a
// frame of the right length whose head and CRC hold.

// message is one of the four as the fuzz targets see it; M is its struct.
type message[M any] struct {
	size   int
	encode func([]byte, *M, wire.CRCForm) ([]byte, error)
	decode func([]byte, *M) (wire.CRCForm, error)
	// carried says whether the encoder must take what the decoder gave.
	carried func(*M) bool
	// asks says whether the level flag asks for the CRC's form.
	asks bool
}

// imageOf is every field of m in order, floats by their bits.
func imageOf[M any](t *testing.T, m *M) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// check decodes b and holds the result against what b says by itself.
func (k message[M]) check(t *testing.T, b []byte) (ok bool) {
	in := bytes.Clone(b)
	// Two outputs with different earlier content: a refusal keeps each, an acceptance makes them equal.
	var clean, used M
	if _, err := binary.Decode(bytes.Repeat([]byte{0x3D}, binary.Size(used)), binary.LittleEndian, &used); err != nil {
		t.Fatal(err)
	}
	cleanBefore, usedBefore := imageOf(t, &clean), imageOf(t, &used)
	form, err := k.decode(b, &clean)
	form2, err2 := k.decode(b, &used)
	if !bytes.Equal(b, in) {
		t.Fatal("the decoder wrote its input")
	}
	if err != err2 || form != form2 {
		t.Fatalf("twice the same bytes: %v %v, then %v %v", form, err, form2, err2)
	}
	if err != nil {
		reason, known := wire.ReasonOf(err)
		var want bool
		switch reason {
		case wire.RejectEmpty:
			want = len(b) == 0
		case wire.RejectShort:
			want = 0 < len(b) && len(b) < k.size
		case wire.RejectLong:
			want = len(b) > k.size
		case wire.RejectHead:
			want = len(b) == k.size && (b[0] != 0xFE || b[1] != 0xEF)
		case wire.RejectLevel, wire.RejectCRC:
			want = len(b) == k.size
		}
		if !known || !want {
			t.Fatalf("%d bytes refused: %v", len(b), err)
		}
		if !bytes.Equal(imageOf(t, &clean), cleanBefore) || !bytes.Equal(imageOf(t, &used), usedBefore) {
			t.Fatal("refused, and wrote its output")
		}
		return false
	}
	image := imageOf(t, &clean)
	if !bytes.Equal(image, imageOf(t, &used)) {
		t.Fatal("something of the earlier content is left")
	}
	again, err := k.encode(nil, &clean, form)
	if carried := k.carried(&clean); carried != (err == nil) {
		t.Fatalf("the encoder must take it: %v, and says %v", carried, err)
	}
	if err != nil {
		return true
	}
	if !bytes.Equal(again, b) {
		t.Fatalf("encoded again:\n%x\nwas\n%x", again, b)
	}
	var back M
	if _, err := k.decode(again, &back); err != nil || !bytes.Equal(imageOf(t, &back), image) {
		t.Fatalf("decode(encode(x)) is not x: %v", err)
	}
	return true
}

// run checks b as it is, and b filled up or cut and sealed in both forms.
func (k message[M]) run(t *testing.T, b []byte) {
	k.check(t, b)
	framed := make([]byte, k.size)
	copy(framed, b)
	for _, form := range []wire.CRCForm{wire.PlainCRC, wire.EncryptedCRC} {
		want := !k.asks || form == wire.FormFor(framed[2])
		if got := k.check(t, reseal(framed, form)); got != want {
			t.Fatalf("level flag %02x, %v CRC: accepted %v, want %v", framed[2], form, got, want)
		}
	}
}

var (
	lowCmdMessage = message[wire.LowCmd]{
		size: wire.LowCmdSize, encode: wire.AppendLowCmd, decode: wire.DecodeLowCmd,
		carried: func(c *wire.LowCmd) bool { return len(faults(c)) == 0 },
	}
	lowStateMessage = message[wire.LowState]{
		size: wire.LowStateSize, encode: wire.AppendLowState, asks: true,
		decode: func(b []byte, s *wire.LowState) (wire.CRCForm, error) {
			err := wire.DecodeLowState(b, s)
			return wire.FormFor(s.LevelFlag), err
		},
		carried: func(*wire.LowState) bool { return true },
	}
	highCmdMessage = message[wire.HighCmd]{
		size: wire.HighCmdSize, encode: wire.AppendHighCmd, decode: wire.DecodeHighCmd,
		carried: func(c *wire.HighCmd) bool {
			for _, v := range []float32{
				c.FootRaiseHeight, c.BodyHeight, c.Position[0], c.Position[1], c.Euler[0], c.Euler[1], c.Euler[2],
				c.Velocity[0], c.Velocity[1], c.YawSpeed,
			} {
				if v-v != 0 {
					return false
				}
			}
			return true
		},
	}
	highStateMessage = message[wire.HighState]{
		size: wire.HighStateSize, encode: wire.AppendHighState, asks: true,
		decode: func(b []byte, s *wire.HighState) (wire.CRCForm, error) {
			err := wire.DecodeHighState(b, s)
			return wire.FormFor(s.LevelFlag), err
		},
		carried: func(*wire.HighState) bool { return true },
	}
)

func FuzzDecodeLowCmd(f *testing.F) {
	for _, g := range lowCmdCases(f) {
		f.Add([]byte(g.Frame))
	}
	f.Fuzz(lowCmdMessage.run)
}

func FuzzDecodeLowState(f *testing.F) {
	for _, g := range lowStateCases(f) {
		f.Add([]byte(g.Frame))
	}
	f.Fuzz(lowStateMessage.run)
}

func FuzzDecodeHighCmd(f *testing.F) {
	for _, g := range highCmdCases(f) {
		f.Add([]byte(g.Frame))
	}
	f.Fuzz(highCmdMessage.run)
}

func FuzzDecodeHighState(f *testing.F) {
	for _, g := range highStateCases(f) {
		f.Add([]byte(g.Frame))
	}
	f.Fuzz(highStateMessage.run)
}

func FuzzDecodeRemote(f *testing.F) {
	for _, g := range lowStateCases(f) {
		if g.Fields != nil {
			f.Add([]byte(g.Fields.Remote))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var b [wire.RemoteSize]byte
		copy(b[:], in)
		var clean wire.Remote
		used := wire.Remote{Head: [2]byte{1, 2}, Buttons: 3, Lx: 4, Rx: 5, Ry: 6, L2: 7, Ly: 8}
		wire.DecodeRemote(&b, &clean)
		wire.DecodeRemote(&b, &used)
		if !bytes.Equal(imageOf(t, &clean), imageOf(t, &used)) {
			t.Fatal("something of the earlier content is left")
		}
		if clean.Present() != (b[0] == 0x55 && b[1] == 0x51) {
			t.Fatalf("present %v with head % x", clean.Present(), b[:2])
		}
		clear(b[24:]) // the idle bytes are not kept
		if got := wire.AppendRemote(nil, &clean); !bytes.Equal(got, b[:]) {
			t.Fatalf("made again % x, was % x", got, b)
		}
	})
}

// FuzzAppendLowCmd: any five floats in any motor go out as documented, or are refused as documented.
func FuzzAppendLowCmd(f *testing.F) {
	for _, g := range lowCmdCases(f) {
		for i, m := range g.cmd().Motor {
			f.Add(uint8(i), m.Q, m.Dq, m.Tau, m.Kp, m.Kd)
		}
	}
	f.Fuzz(func(t *testing.T, motor uint8, q, dq, tau, kp, kd float32) {
		var c, got wire.LowCmd
		c.Init()
		m := &c.Motor[motor%wire.Motors]
		m.Q, m.Dq, m.Tau, m.Kp, m.Kd = q, dq, tau, kp, kd
		b, err := wire.AppendLowCmd(nil, &c, wire.PlainCRC)
		if bad := faults(&c); len(bad) > 0 {
			want := wire.RejectError{Reason: bad[0].reason, Field: bad[0].field, Index: uint8(bad[0].motor)}
			if e, ok := err.(*wire.RejectError); !ok || *e != want {
				t.Fatalf("%+v: %v, want %+v", *m, err, want)
			}
			return
		}
		if err != nil {
			t.Fatalf("%+v: %v", *m, err)
		}
		if _, err := wire.DecodeLowCmd(b, &got); err != nil {
			t.Fatal(err)
		}
		m.Tau = float32(makerStep(tau, 256, "amd64")) / 256
		m.Kp = float32(makerStep(kp, 32, "amd64")) / 32
		m.Kd = float32(makerStep(kd, 16, "amd64")) / 16
		if !bytes.Equal(imageOf(t, &got), imageOf(t, &c)) {
			t.Fatalf("came back as %+v, want %+v", got.Motor[motor%wire.Motors], *m)
		}
	})
}
