package control

import "sync/atomic"

// triple hands values of type T from one writer to one reader; neither ever
// waits, and the reader sees the newest published value whole. Writer and
// reader own one of the three places each; the third is swapped.
type triple[T any] struct {
	place  [3]T
	middle atomic.Uint32 // index of the third place; fresh is set by the writer
	w, r   uint32
}

const fresh = 4

func (t *triple[T]) init() {
	t.w, t.r = 0, 1
	t.middle.Store(2)
}

// back is the writer's place, to be filled and published.
func (t *triple[T]) back() *T { return &t.place[t.w] }

func (t *triple[T]) publish() { t.w = t.middle.Swap(t.w|fresh) &^ fresh }

// front is the newest value; isNew says that it was not seen before.
func (t *triple[T]) front() (v *T, isNew bool) {
	if t.middle.Load()&fresh != 0 {
		t.r = t.middle.Swap(t.r) &^ fresh
		isNew = true
	}
	return &t.place[t.r], isNew
}
