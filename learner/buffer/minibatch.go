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
// negative number of epochs is a mistake of the caller's and panics.
func (b *Buffer) Minibatches(rng *rand.Rand, epochs, count int) iter.Seq[[]int32] {
	if epochs < 0 || count < 1 {
		panic(fmt.Sprintf("buffer: %d epochs of %d minibatches", epochs, count))
	}
	return func(yield func([]int32) bool) {
		order := b.gather()
		for range epochs {
			for i := len(order) - 1; i > 0; i-- {
				j := rng.IntN(i + 1)
				order[i], order[j] = order[j], order[i]
			}
			for k := range count {
				from, to := k*len(order)/count, (k+1)*len(order)/count
				if from < to && !yield(order[from:to:to]) {
					return
				}
			}
		}
	}
}

// gather lists the valid transitions, in order, in b.order.
func (b *Buffer) gather() []int32 {
	b.order = b.order[:0]
	for i, valid := range b.Valid {
		if valid {
			b.order = append(b.order, int32(i))
		}
	}
	return b.order
}
