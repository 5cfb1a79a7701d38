package task

import (
	"math"
	"math/rand/v2"
)

// Purposes of random numbers: each use of a row draws from its own generator, so
// that one more draw in one place does not change the others.
const (
	StreamStart   = iota // how an episode begins
	StreamCommand        // velocity commands
	StreamFault          // noise and losses of a fault
	StreamPolicy         // random actions
	StreamVary           // what varies by episode (Vary.Draw), pushes, late and lost targets
	StreamNoise          // noise of the sensors
)

// Rand is one row's random numbers for one purpose: a PCG of 16 bytes, to be kept
// by value. Its methods do not allocate. The zero Rand is not seeded.
type Rand struct{ rand.PCG }

// NewRand seeds row's random numbers for one purpose. They depend on the arguments
// alone.
func NewRand(seed uint64, row int, purpose uint64) Rand {
	var r Rand
	r.Seed(seed*0x9E3779B97F4A7C15+purpose, uint64(row))
	return r
}

// Float64 is uniform in [0, 1).
func (r *Rand) Float64() float64 { return float64(r.Uint64()>>11) / (1 << 53) }

// Uniform is uniform in lo..hi.
func (r *Rand) Uniform(lo, hi float64) float64 { return lo + r.Float64()*(hi-lo) }

// Sym is uniform in -by..by.
func (r *Rand) Sym(by float64) float64 { return by * (2*r.Float64() - 1) }

// Norm is normal with mean 0 and standard deviation 1 (Box and Muller's transform,
// one of its two numbers: nothing has to be kept for the next call).
func (r *Rand) Norm() float64 {
	u, v := r.Float64(), r.Float64()
	return math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v)
}

// addSym adds noise uniform in -by..by to each of x. Two numbers of 24 bits come
// from one draw: a float32 holds no more. The count of draws does not depend on by.
func (r *Rand) addSym(by float32, x []float32) {
	const unit = 1.0 / (1 << 23)
	for len(x) > 1 {
		u := r.Uint64()
		x[0] += by * (float32(u>>40)*unit - 1)
		x[1] += by * (float32(u<<32>>40)*unit - 1)
		x = x[2:]
	}
	if len(x) == 1 {
		x[0] += by * (float32(r.Uint64()>>40)*unit - 1)
	}
}
