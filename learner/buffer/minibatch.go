package buffer

import (
	"fmt"
	"iter"
	"math/rand/v2"
)

// Minibatches draws, epochs times, a fresh permutation of the valid transitions and cuts
// it into count minibatches whose sizes differ by at most 1; empty ones are left out. Each
// is a slice of transition numbers, good until the loop goes on. What is drawn depends on
// rng's state and Valid alone. Ranging over it allocates nothing. A count below 1 or a
// negative number of epochs is a mistake of the caller's and panics at the range.
func (b *Buffer) Minibatches(rng *rand.Rand, epochs, count int) iter.Seq[[]int32] {
	// So small that it is inlined: then the closure stays on the caller's stack.
	return func(yield func([]int32) bool) { b.minibatches(rng, epochs, count, yield) }
}

func (b *Buffer) minibatches(rng *rand.Rand, epochs, count int, yield func([]int32) bool) {
	if epochs < 0 || count < 1 {
		panic(fmt.Sprintf("buffer: %d epochs of %d minibatches", epochs, count))
	}
	b.order = b.order[:0]
	for i, valid := range b.Valid {
		if valid {
			b.order = append(b.order, int32(i))
		}
	}
	n := len(b.order)
	for range epochs {
		for i := n - 1; i > 0; i-- {
			j := rng.IntN(i + 1)
			b.order[i], b.order[j] = b.order[j], b.order[i]
		}
		for k := range count {
			from, to := k*n/count, (k+1)*n/count
			if from < to && !yield(b.order[from:to:to]) {
				return
			}
		}
	}
}
