package buffer

import (
	"fmt"
	"math"
)

// MaxFloat16 is the largest number that fp16 holds.
const MaxFloat16 = 65504

// Rounding counts what rounding to fp16 could not keep near its value.
type Rounding struct {
	Saturated int // beyond MaxFloat16, infinite included: became MaxFloat16 of its sign
	NaN       int // stayed NaN
}

// Bits of a float32's magnitude, and where fp16 sits among them. fp16 has 10 bits of
// mantissa to float32's 23, and an exponent biased by 15 to float32's 127.
const (
	f16Shift    = 23 - 10             // mantissa bits that fp16 lacks
	f16Rebias   = (127 - 15) << 23    // from one exponent to the other
	f16Normal   = (127 - 14) << 23    // 2^-14, fp16's least normal number
	f16Overflow = 0x477ff000          // 65520: here and above the nearest would be 65536
	f32Infinity = 0xff << 23          // above it: NaN
	f32Half     = 126 << 23           // 0.5, whose last bit is worth 2^-24 as fp16's least number is
	f16Lost     = 1<<f16Shift - 1     // the mantissa bits that fp16 lacks
	f16HalfLost = 1<<(f16Shift-1) - 1 // rounds to the nearest, with the last kept bit added: ties to even
)

// Round rounds each of x, in place, to what fp16 holds: to the nearest, ties to even,
// subnormal numbers kept. Encode keeps a rounded x exactly, so that what is acted on is
// what is stored.
func Round(x []float32) Rounding {
	var r Rounding
	for i, v := range x {
		bits := math.Float32bits(v)
		sign, mag := bits&(1<<31), bits&^(1<<31)
		if mag-f16Normal < f16Overflow-f16Normal {
			x[i] = math.Float32frombits(sign | (mag+f16HalfLost+mag>>f16Shift&1)&^f16Lost)
			continue
		}
		h := r.edge(mag)
		x[i] = math.Float32frombits(sign | math.Float32bits(widen(h)))
	}
	return r
}

// Encode writes the fp16 bits of src to dst, rounding as Round does; a NaN becomes the
// quiet one. dst may be longer; shorter panics.
func Encode(dst []uint16, src []float32) Rounding {
	if len(dst) < len(src) {
		panic(fmt.Sprintf("buffer: Encode of %d numbers into %d", len(src), len(dst)))
	}
	var r Rounding
	for i, v := range src {
		bits := math.Float32bits(v)
		sign, mag := uint16(bits>>16&(1<<15)), bits&^(1<<31)
		if mag-f16Normal < f16Overflow-f16Normal {
			dst[i] = sign | uint16((mag-f16Rebias+f16HalfLost+mag>>f16Shift&1)>>f16Shift)
			continue
		}
		dst[i] = sign | r.edge(mag)
	}
	return r
}

// edge is the fp16 magnitude of a float32 magnitude's bits that lies outside fp16's
// normal numbers.
func (r *Rounding) edge(mag uint32) uint16 {
	switch {
	case mag < f16Normal: // the sum's own rounding leaves multiples of 2^-24
		return uint16(math.Float32bits(math.Float32frombits(mag)+0.5) - f32Half)
	case mag > f32Infinity:
		r.NaN++
		return 0x7e00
	default:
		r.Saturated++
		return 0x7bff
	}
}

// Decode writes the numbers whose fp16 bits src holds to dst, exactly. dst may be longer;
// shorter panics.
func Decode(dst []float32, src []uint16) {
	if len(dst) < len(src) {
		panic(fmt.Sprintf("buffer: Decode of %d numbers into %d", len(src), len(dst)))
	}
	for i, h := range src {
		mag := uint32(h&0x7fff) << f16Shift
		if mag-(f16Normal-f16Rebias) < (0x7c00-0x0400)<<f16Shift {
			dst[i] = math.Float32frombits(uint32(h>>15)<<31 | (mag + f16Rebias))
			continue
		}
		dst[i] = math.Float32frombits(uint32(h>>15)<<31 | math.Float32bits(widen(h&0x7fff)))
	}
}

// widen is the number of an fp16 magnitude's bits.
func widen(h uint16) float32 {
	switch {
	case h < 0x0400: // h times 2^-24, without a subnormal operand: those are slow
		return math.Float32frombits(f32Half+uint32(h)) - 0.5
	case h < 0x7c00:
		return math.Float32frombits(uint32(h)<<f16Shift + f16Rebias)
	default:
		return math.Float32frombits(uint32(h)<<f16Shift + f16Rebias + f16Rebias)
	}
}
