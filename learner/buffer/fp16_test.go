package buffer

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// number is what fp16 bits stand for, straight from IEEE 754's definition.
func number(h uint16) float64 {
	exponent, mantissa, sign := int(h>>10&31), float64(h&1023), 1.0
	if h>>15 == 1 {
		sign = -1
	}
	switch {
	case exponent == 31 && mantissa == 0:
		return math.Inf(int(sign))
	case exponent == 31:
		return math.NaN()
	case exponent == 0:
		return math.Copysign(math.Ldexp(mantissa, -24), sign)
	default:
		return sign * math.Ldexp(1+mantissa/1024, exponent-15)
	}
}

// same is equality that tells -0 from 0 and takes any NaN for another.
func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// All 65536 values are decoded exactly; all that are numbers are kept by Round and Encode.
func TestFloat16HoldsItsValues(t *testing.T) {
	all, x, back := make([]uint16, 1<<16), make([]float32, 1<<16), make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	Decode(x, all)
	for i, v := range x {
		if want := float32(number(all[i])); !same(v, want) {
			t.Fatalf("%#04x decoded as %v, want %v", i, v, want)
		}
	}
	if r := Encode(back, x); r.Saturated != 2 || r.NaN != 2*1023 {
		t.Errorf("all values: %+v, want 2 infinities saturated and 2046 NaN", r)
	}
	rounded := append([]float32(nil), x...)
	if r := Round(rounded); r.Saturated != 2 || r.NaN != 2*1023 {
		t.Errorf("all values rounded: %+v, want 2 infinities saturated and 2046 NaN", r)
	}
	for i, v := range x {
		want, wantBits := v, all[i]
		switch {
		case v != v:
			wantBits = all[i]&0x8000 | 0x7e00
		case v-v != 0:
			wantBits = all[i]&0x8000 | 0x7bff
			want = float32(math.Copysign(MaxFloat16, float64(v)))
		}
		if back[i] != wantBits {
			t.Fatalf("%#04x (%v) came back as %#04x, want %#04x", i, v, back[i], wantBits)
		}
		if !same(rounded[i], want) {
			t.Fatalf("%v rounded to %v, want %v", v, rounded[i], want)
		}
	}
}

// Between each two neighbours: what lies below the middle goes down, above it up, and the
// middle to the even one. Rounding is monotonic (below), so this is every float32.
func TestRoundToNearestEven(t *testing.T) {
	towards := func(x, to float32) float32 { return math.Nextafter32(x, to) }
	for h := range uint16(0x7c00) {
		low, high := float32(number(h)), float32(number(h+1))
		if h == 0x7bff {
			high = 65536 // what would come next
		}
		middle := (low + high) / 2 // exact: one bit more than fp16's
		even := low
		if h&1 == 1 {
			even = high
		}
		for _, c := range []struct{ x, want float32 }{
			{low, low}, {towards(low, high), low}, {towards(middle, low), low},
			{middle, even},
			{towards(middle, high), high}, {towards(high, low), high},
		} {
			want, saturated := c.want, 0
			if want == 65536 {
				want, saturated = MaxFloat16, 1
			}
			for _, sign := range []float32{1, -1} {
				x := []float32{sign * c.x}
				bits := []uint16{0}
				e := Encode(bits, x)
				r := Round(x)
				if !same(x[0], sign*want) || number(bits[0]) != float64(sign*want) {
					t.Fatalf("%v rounded to %v and encoded as %#04x (%v), want %v", sign*c.x, x[0], bits[0], number(bits[0]), sign*want)
				}
				if counts := (Rounding{Saturated: saturated}); r != counts || e != counts {
					t.Fatalf("%v: counted %+v by Round, %+v by Encode, want %+v", sign*c.x, r, e, counts)
				}
			}
		}
	}
}

// What Round leaves is kept exactly by Encode and Decode, whatever went in, so that what
// is stored is what was acted on; and rounding keeps order.
func TestRoundThenStore(t *testing.T) {
	any32 := rapid.Custom(func(t *rapid.T) float32 { return math.Float32frombits(rapid.Uint32().Draw(t, "bits")) })
	float := rapid.OneOf(any32, rapid.Float32(), rapid.Float32Range(-1e-4, 1e-4), rapid.Float32Range(-70000, 70000))
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(float, 0, 40).Draw(t, "x")
		x := append([]float32(nil), raw...)
		first := Round(x)
		bits, direct, back := make([]uint16, len(x)), make([]uint16, len(x)), make([]float32, len(x))
		kept := Encode(bits, x)
		if counts := Encode(direct, raw); counts != first {
			t.Fatalf("Encode counted %+v, Round %+v", counts, first)
		}
		Decode(back, bits)
		nan := 0
		for i := range x {
			if x[i] != x[i] {
				nan++
			}
			if !same(back[i], x[i]) || direct[i] != bits[i] {
				t.Fatalf("%v rounded to %v, stored as %#04x and %#04x, read as %v", raw[i], x[i], bits[i], direct[i], back[i])
			}
			if i > 0 && raw[i-1] <= raw[i] && x[i-1] > x[i] {
				t.Fatalf("%v <= %v rounded to %v > %v", raw[i-1], raw[i], x[i-1], x[i])
			}
			if math.Signbit(float64(raw[i])) != math.Signbit(float64(x[i])) {
				t.Fatalf("%v rounded to %v: other sign", raw[i], x[i])
			}
		}
		if kept != (Rounding{NaN: nan}) || first.NaN != nan {
			t.Fatalf("counted %+v, then %+v, with %d NaN", first, kept, nan)
		}
	})
}

func TestRoundCounts(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := []float32{0, 1, nan, -inf, 65504, 65519.996, 65520, -1e30, inf, -nan, 6e-8, math.MaxFloat32}
	want := []float32{0, 1, nan, -MaxFloat16, MaxFloat16, MaxFloat16, MaxFloat16, -MaxFloat16, MaxFloat16, nan, 5.9604645e-08, MaxFloat16}
	if r := Round(x); r != (Rounding{Saturated: 5, NaN: 2}) {
		t.Errorf("counted %+v, want 5 saturated and 2 NaN", r)
	}
	for i := range x {
		if !same(x[i], want[i]) {
			t.Errorf("number %d became %v, want %v", i, x[i], want[i])
		}
	}
}

func TestShortDestinations(t *testing.T) {
	for want, f := range map[string]func(){
		"buffer: Encode of 3 numbers into 2": func() { Encode(make([]uint16, 2), make([]float32, 3)) },
		"buffer: Decode of 3 numbers into 2": func() { Decode(make([]float32, 2), make([]uint16, 3)) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %q", got, want)
				}
			}()
			f()
		}()
	}
	dst := []uint16{7, 7, 7}
	Encode(dst, []float32{1})
	x := []float32{7, 7, 7}
	Decode(x, dst[:1])
	if dst[1] != 7 || x[0] != 1 || x[1] != 7 {
		t.Errorf("longer destinations became %v and %v", dst, x)
	}
}

func BenchmarkFloat16(b *testing.B) {
	x, h := make([]float32, 256*110), make([]uint16, 256*110)
	for i := range x {
		x[i] = float32(i%1000)/100 - 5
	}
	for name, f := range map[string]func(){
		"Round": func() { Round(x) }, "Encode": func() { Encode(h, x) }, "Decode": func() { Decode(x, h) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/number")
		})
	}
}
