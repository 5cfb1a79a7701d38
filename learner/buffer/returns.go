package buffer

import (
	"errors"
	"fmt"
	"math"
)

// ErrNonFinite is wrapped by the error of Returns where a number that learning would
// read is NaN or infinite: the iteration is to be skipped and counted.
var ErrNonFinite = errors.New("not finite")

// Returns fills Advantage and Target from Reward, Value, FinalValue, LastValue, Rho and
// the flags, as the package comment defines them; gamma is the discount and lambda the
// trace's decay, both in 0..1. It allocates nothing. An error names the step and row it
// met first, walking back from the last step; Advantage and Target are then filled only
// in part.
func (b *Buffer) Returns(gamma, lambda float64) error {
	if !(gamma >= 0 && gamma <= 1) {
		return fmt.Errorf("buffer: gamma is %v, want 0..1", gamma)
	}
	if !(lambda >= 0 && lambda <= 1) {
		return fmt.Errorf("buffer: lambda is %v, want 0..1", lambda)
	}
	clear(b.carry) // nothing is known after the horizon but LastValue
	next := b.LastValue
	for t := b.Steps - 1; t >= 0; t-- {
		first := t * b.Rows
		for row := range b.Rows {
			i := first + row
			if !b.Valid[i] {
				b.Advantage[i], b.Target[i], b.carry[row] = 0, 0, 0
				continue
			}
			after, trace := float64(next[row]), b.carry[row]
			switch {
			case b.Terminated[i]:
				after, trace = 0, 0
			case b.TimedOut[i]:
				after, trace = float64(b.FinalValue[i]), 0
			}
			rho := float64(b.Rho[i])
			if !(rho >= 0 && rho <= 1) {
				return fmt.Errorf("buffer: step %d, row %d: rho is %v, want 0..1", t, row, b.Rho[i])
			}
			value := float64(b.Value[i])
			advantage := float64(b.Reward[i]) + gamma*after - value + gamma*lambda*trace
			b.carry[row] = rho * advantage
			b.Advantage[i] = float32(advantage)
			b.Target[i] = float32(value + b.carry[row])
			if bad(b.Advantage[i]) || bad(b.Target[i]) {
				return fmt.Errorf("buffer: step %d, row %d: advantage %v and target %v of reward %v, value %v, next value %v: %w",
					t, row, b.Advantage[i], b.Target[i], b.Reward[i], b.Value[i], after, ErrNonFinite)
			}
		}
		next = b.Value[first : first+b.Rows]
	}
	return nil
}

// bad says whether x is NaN or infinite.
func bad(x float32) bool { return x-x != 0 }

// advantageFloor keeps Normalise from dividing by 0 where all advantages are equal.
const advantageFloor = 1e-8

// Normalise shifts and scales Advantage, in place, to mean 0 and standard deviation 1
// over the valid steps that the student drove; it is called once, after Returns. All
// others become 0: a teacher's action says nothing of the student's. It returns the mean
// and standard deviation (of a sample: divided by count-1) there were, and the count.
func (b *Buffer) Normalise() (mean, std float64, count int) {
	for i, a := range b.Advantage {
		if b.Valid[i] && !b.Teacher[i] {
			mean += float64(a)
			count++
		}
	}
	mean /= float64(max(count, 1))
	for i, a := range b.Advantage {
		if b.Valid[i] && !b.Teacher[i] {
			std += (float64(a) - mean) * (float64(a) - mean)
		}
	}
	std = math.Sqrt(std / float64(max(count-1, 1)))
	for i, a := range b.Advantage {
		if b.Valid[i] && !b.Teacher[i] {
			b.Advantage[i] = float32((float64(a) - mean) / (std + advantageFloor))
		} else {
			b.Advantage[i] = 0
		}
	}
	return mean, std, count
}
