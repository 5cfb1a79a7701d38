package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

func wantReason(t *testing.T, err error, want wire.Reject) {
	t.Helper()
	if got, ok := wire.ReasonOf(err); !ok || got != want {
		t.Errorf("error %v, want reason %v", err, want)
	}
}

func words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func TestCRC32(t *testing.T) {
	for _, c := range []struct {
		words []uint32
		want  uint32
	}{
		{nil, 0xFFFFFFFF},
		{[]uint32{0}, 0xC704DD7B},
		{[]uint32{1}, 0xC3C5C0CC},
		{[]uint32{0x80000000}, 0x61E2E066},
		{[]uint32{0xFFFFFFFF}, 0},
		{[]uint32{0x12345678, 0x9ABCDEF0}, 0x7D24A31B},
	} {
		b := words(c.words...)
		if got := wire.CRC32(b); got != c.want {
			t.Errorf("CRC32 of words %08X = %08X, want %08X", c.words, got, c.want)
		}
		for tail := 1; tail < 4; tail++ {
			if got := wire.CRC32(append(bytes.Clone(b), make([]byte, tail)...)); got != c.want {
				t.Errorf("%d bytes behind the words %08X count", tail, c.words)
			}
		}
	}
}

// TestCRC32AgainstStandardLibrary: the maker's CRC is the usual one of Ethernet over bit-reversed words, reversed and
// inverted again; hash/crc32 is an implementation that is not ours. Every length up to 1100 bytes, random content.
func TestCRC32AgainstStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 276 {
		b, mirrored := make([]byte, 0, 4*n), make([]byte, 0, 4*n)
		for range n {
			w := r.Uint32()
			b = binary.LittleEndian.AppendUint32(b, w)
			mirrored = binary.LittleEndian.AppendUint32(mirrored, bits.Reverse32(w))
		}
		if got, want := wire.CRC32(b), bits.Reverse32(^crc32.ChecksumIEEE(mirrored)); got != want {
			t.Errorf("%d words: %08X, want %08X", n, got, want)
		}
	}
}

// TestWorkedExample: what the SDK sends after InitCmdData, both forms, worked by hand in the golden files' page.
func TestWorkedExample(t *testing.T) {
	c := goldenLowCmd(t, "init_only")
	for _, x := range []struct {
		form wire.CRCForm
		tail []byte
	}{
		{wire.PlainCRC, []byte{0xE2, 0xF0, 0x7F, 0x34}},
		{wire.EncryptedCRC, []byte{0x49, 0xB5, 0xD9, 0x3C}},
	} {
		b, err := wire.AppendLowCmd(nil, c, x.form)
		if err != nil {
			t.Fatal(err)
		}
		if w := binary.LittleEndian.Uint32(b); w != 0x00FFEFFE {
			t.Errorf("word 0 %08X, want 00FFEFFE", w)
		}
		if crc := wire.CRC32(b[:608]); crc != 0x347FF0E2 {
			t.Errorf("CRC %08X, want 347FF0E2", crc)
		}
		if !bytes.Equal(b[610:], x.tail) {
			t.Errorf("%v frame ends in % X, want % X", x.form, b[610:], x.tail)
		}
	}
	if got := wire.EncryptCRC(0x347FF0E2); got != 0x3CD9B549 {
		t.Errorf("encrypted %08X, want 3CD9B549", got)
	}
}

func TestEncryptCRC(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 10000 {
		crc := r.Uint32()
		x := wire.EncryptCRC(crc)
		if wire.DecryptCRC(x) != crc {
			t.Fatalf("%08X does not come back", crc)
		}
		if x == crc {
			t.Fatalf("%08X is the same in both forms", crc)
		}
	}
}

// TestRefuse: every decoder, every reason a frame can have, the sentence, and the output left alone.
func TestRefuse(t *testing.T) {
	type decoder struct {
		name   string
		size   int
		decode func([]byte) (err error, touched bool)
		good   []byte
		level  bool // the level flag asks for a form
	}
	lowCmd, lowState := new(wire.LowCmd), new(wire.LowState)
	highCmd, highState := new(wire.HighCmd), new(wire.HighState)
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	lowState.Init()
	highState.Init()
	decoders := []decoder{
		{"LowCmd", 614, func(b []byte) (error, bool) {
			c := *lowCmd
			_, err := wire.DecodeLowCmd(b, &c)
			return err, c != *lowCmd
		}, must(wire.AppendLowCmd(nil, goldenLowCmd(t, "random_00"), wire.PlainCRC)), false},
		{"LowState", 807, func(b []byte) (error, bool) {
			s := *lowState
			return wire.DecodeLowState(b, &s), s != *lowState
		}, must(wire.AppendLowState(nil, goldenLowState(t, "random_00"), wire.PlainCRC)), true},
		{"HighCmd", 129, func(b []byte) (error, bool) {
			c := *highCmd
			_, err := wire.DecodeHighCmd(b, &c)
			return err, c != *highCmd
		}, reseal(highCmdCases(t)[20].Frame, wire.PlainCRC), false},
		{"HighState", 1087, func(b []byte) (error, bool) {
			s := *highState
			return wire.DecodeHighState(b, &s), s != *highState
		}, highStateCases(t)[1].Frame, true},
	}
	for _, d := range decoders {
		if err, touched := d.decode(d.good); err != nil || !touched {
			t.Fatalf("%s: the good frame: %v, written %v", d.name, err, touched)
		}
		edit := func(f func([]byte)) []byte {
			b := bytes.Clone(d.good)
			f(b)
			return b
		}
		encrypted := reseal(d.good, wire.EncryptedCRC)
		ee := edit(func(b []byte) { b[2] = wire.LevelHigh })
		want := fmt.Sprint(" bytes, want ", d.size)
		otherForm := accepted
		if d.level {
			otherForm = wire.RejectLevel
		}
		for _, c := range []struct {
			what  string
			frame []byte
			want  wire.Reject
			text  string
		}{
			{"nil", nil, wire.RejectEmpty, "0" + want},
			{"empty", []byte{}, wire.RejectEmpty, "0" + want},
			{"one byte", d.good[:1], wire.RejectShort, "1" + want},
			{"one short", d.good[:d.size-1], wire.RejectShort, fmt.Sprint(d.size-1) + want},
			{"one long", append(bytes.Clone(d.good), 0), wire.RejectLong, fmt.Sprint(d.size+1) + want},
			{"1500", make([]byte, 1500), wire.RejectLong, "1500" + want},
			{"1501", make([]byte, 1501), wire.RejectLong, "more than 1500" + want},
			{"65507", make([]byte, 65507), wire.RejectLong, "more than 1500" + want},
			{"zeros", make([]byte, d.size), wire.RejectHead, "does not begin with FE EF"},
			{"head first", edit(func(b []byte) { b[0]++ }), wire.RejectHead, "does not begin with FE EF"},
			{"head second", edit(func(b []byte) { b[1]++ }), wire.RejectHead, "does not begin with FE EF"},
			{"body", edit(func(b []byte) { b[50] ^= 0x10 }), wire.RejectCRC, "CRC is wrong"},
			{"crc", edit(func(b []byte) { b[d.size-1] ^= 0x80 }), wire.RejectCRC, "CRC is wrong"},
			{"encrypted", encrypted, otherForm, "CRC is not in the form the level flag asks for"},
			{"EE encrypted", reseal(ee, wire.EncryptedCRC), accepted, ""},
			{"EE plain", reseal(ee, wire.PlainCRC), otherForm, "CRC is not in the form the level flag asks for"},
		} {
			t.Run(d.name+"/"+c.what, func(t *testing.T) {
				err, touched := d.decode(c.frame)
				if c.want == accepted {
					if err != nil {
						t.Error(err)
					}
					return
				}
				wantReason(t, err, c.want)
				if touched {
					t.Error("refused, and wrote its output")
				}
				if text := "wire: " + d.name + ": " + c.text; err.Error() != text {
					t.Errorf("error %q, want %q", err, text)
				}
			})
		}
	}
}

// TestUnknownForm: a CRC form that does not exist is refused by every encoder, dst unchanged.
func TestUnknownForm(t *testing.T) {
	const bad = wire.CRCForm(2)
	for name, encode := range map[string]func([]byte) ([]byte, error){
		"LowCmd":    func(b []byte) ([]byte, error) { return wire.AppendLowCmd(b, new(wire.LowCmd), bad) },
		"LowState":  func(b []byte) ([]byte, error) { return wire.AppendLowState(b, new(wire.LowState), bad) },
		"HighCmd":   func(b []byte) ([]byte, error) { return wire.AppendHighCmd(b, new(wire.HighCmd), bad) },
		"HighState": func(b []byte) ([]byte, error) { return wire.AppendHighState(b, new(wire.HighState), bad) },
	} {
		b, err := encode([]byte{1})
		wantReason(t, err, wire.RejectRange)
		if want := "wire: " + name + ": CRC form is not plain or encrypted"; err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		if !bytes.Equal(b, []byte{1}) {
			t.Errorf("%s: dst is now %x", name, b)
		}
	}
	if got := bad.String(); got != "unknown" {
		t.Errorf("form 2 is called %q", got)
	}
}

func TestReasonOf(t *testing.T) {
	_, err := wire.DecodeLowCmd(nil, new(wire.LowCmd))
	if r, ok := wire.ReasonOf(fmt.Errorf("link: %w", err)); !ok || r != wire.RejectEmpty {
		t.Errorf("wrapped: %v %v", r, ok)
	}
	for _, err := range []error{nil, io.EOF, errors.Join(io.EOF)} {
		if r, ok := wire.ReasonOf(err); ok {
			t.Errorf("%v has reason %v", err, r)
		}
	}
}

// TestRejectLabels: metric labels are an interface; they do not change.
func TestRejectLabels(t *testing.T) {
	want := []string{"empty", "short", "long", "head", "level", "crc", "range", "non_finite"}
	if len(want) != wire.NumRejects {
		t.Fatalf("%d reasons, %d labels", wire.NumRejects, len(want))
	}
	for r, label := range want {
		if got := wire.Reject(r).String(); got != label {
			t.Errorf("reason %d is %q, want %q", r, got, label)
		}
	}
	if got := wire.Reject(200).String(); got != "unknown" {
		t.Errorf("reason 200 is %q", got)
	}
}

// TestNoAllocation pins the control path: good frames, refused frames, refused values, and finding the reason.
func TestNoAllocation(t *testing.T) {
	cmd, state := goldenLowCmd(t, "random_00"), goldenLowState(t, "random_00")
	var high wire.HighCmd
	var highState wire.HighState
	high.Init()
	highState.Init()
	buf := make([]byte, 0, wire.HighStateSize)
	cmdFrame, err := wire.AppendLowCmd(nil, cmd, wire.EncryptedCRC)
	if err != nil {
		t.Fatal(err)
	}
	stateFrame, err := wire.AppendLowState(nil, state, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	highFrame, err := wire.AppendHighCmd(nil, &high, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	highStateFrame, err := wire.AppendHighState(nil, &highState, wire.EncryptedCRC)
	if err != nil {
		t.Fatal(err)
	}
	nanCmd, wideState, nanHigh := *cmd, *state, high
	nanCmd.Motor[11].Tau = float32(math.NaN())
	wideState.Motor[5].TauEst = 500
	nanHigh.Velocity[1] = float32(math.Inf(1))
	long := make([]byte, 65507)
	badCRC, badHead, badLevel := bytes.Clone(stateFrame), bytes.Clone(stateFrame), reseal(stateFrame, wire.EncryptedCRC)
	badCRC[100]++
	badHead[1]++
	var remote wire.Remote

	var gotErr error
	reject := func(err error) { gotErr = err }
	for _, c := range []struct {
		name string
		f    func()
		want wire.Reject
	}{
		{"AppendLowCmd", func() { _, err := wire.AppendLowCmd(buf, cmd, wire.PlainCRC); reject(err) }, accepted},
		{"AppendLowCmd non-finite", func() { _, err := wire.AppendLowCmd(buf, &nanCmd, wire.PlainCRC); reject(err) }, wire.RejectNonFinite},
		{"DecodeLowCmd", func() { _, err := wire.DecodeLowCmd(cmdFrame, cmd); reject(err) }, accepted},
		{"DecodeLowCmd short", func() { _, err := wire.DecodeLowCmd(cmdFrame[:613], cmd); reject(err) }, wire.RejectShort},
		{"AppendLowState", func() { _, err := wire.AppendLowState(buf, state, wire.PlainCRC); reject(err) }, accepted},
		{"AppendLowState range", func() { _, err := wire.AppendLowState(buf, &wideState, wire.PlainCRC); reject(err) }, wire.RejectRange},
		{"DecodeLowState", func() { reject(wire.DecodeLowState(stateFrame, state)) }, accepted},
		{"DecodeLowState empty", func() { reject(wire.DecodeLowState(nil, state)) }, wire.RejectEmpty},
		{"DecodeLowState long", func() { reject(wire.DecodeLowState(long, state)) }, wire.RejectLong},
		{"DecodeLowState head", func() { reject(wire.DecodeLowState(badHead, state)) }, wire.RejectHead},
		{"DecodeLowState crc", func() { reject(wire.DecodeLowState(badCRC, state)) }, wire.RejectCRC},
		{"DecodeLowState level", func() { reject(wire.DecodeLowState(badLevel, state)) }, wire.RejectLevel},
		{"AppendHighCmd", func() { _, err := wire.AppendHighCmd(buf, &high, wire.PlainCRC); reject(err) }, accepted},
		{"AppendHighCmd non-finite", func() { _, err := wire.AppendHighCmd(buf, &nanHigh, wire.PlainCRC); reject(err) }, wire.RejectNonFinite},
		{"DecodeHighCmd", func() { _, err := wire.DecodeHighCmd(highFrame, &high); reject(err) }, accepted},
		{"DecodeHighCmd long", func() { _, err := wire.DecodeHighCmd(long, &high); reject(err) }, wire.RejectLong},
		{"AppendHighState", func() { _, err := wire.AppendHighState(buf, &highState, wire.EncryptedCRC); reject(err) }, accepted},
		{"DecodeHighState", func() { reject(wire.DecodeHighState(highStateFrame, &highState)) }, accepted},
		{"DecodeHighState short", func() { reject(wire.DecodeHighState(stateFrame, &highState)) }, wire.RejectShort},
		{"Remote", func() { wire.DecodeRemote(&state.Remote, &remote); _ = wire.AppendRemote(buf, &remote); reject(nil) }, accepted},
	} {
		var reason wire.Reject
		var refused bool
		n := testing.AllocsPerRun(100, func() {
			c.f()
			reason, refused = wire.ReasonOf(gotErr)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
		if refused != (c.want != accepted) || refused && reason != c.want {
			t.Errorf("%s: %v, want %v", c.name, gotErr, c.want)
		}
	}
}

// TestAppendGrows: a buffer with too little room behind its content grows, and keeps the content.
func TestAppendGrows(t *testing.T) {
	cmd := goldenLowCmd(t, "random_00")
	want, err := wire.AppendLowCmd(nil, cmd, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 1, wire.LowCmdSize - 1, wire.LowCmdSize, wire.LowCmdSize + 1} {
		for _, held := range []int{1, wire.LowCmdSize} {
			dst := bytes.Repeat([]byte{7}, held+room)[:held]
			got, err := wire.AppendLowCmd(dst, cmd, wire.PlainCRC)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got[:held], dst) || !bytes.Equal(got[held:], want) {
				t.Errorf("%d bytes and room for %d: wrong bytes", held, room)
			}
		}
	}
}
