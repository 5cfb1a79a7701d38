package buffer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// In every epoch each valid transition comes exactly once and no other ever, in
// minibatches whose sizes differ by at most 1; the same seed draws the same.
func TestMinibatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := New(Shape{Steps: rapid.IntRange(1, 9).Draw(t, "steps"), Rows: rapid.IntRange(1, 9).Draw(t, "rows"), Policy: 1, Critic: 1, Act: 1})
		if err != nil {
			t.Fatal(err)
		}
		var valid []int32
		for i := range b.Valid {
			b.Valid[i] = rapid.IntRange(0, 4).Draw(t, "valid") > 0
			b.Teacher[i] = rapid.Bool().Draw(t, "teacher") // a teacher's step teaches the value
			if b.Valid[i] {
				valid = append(valid, int32(i))
			}
		}
		epochs, count := rapid.IntRange(0, 3).Draw(t, "epochs"), rapid.IntRange(1, 12).Draw(t, "count")
		seed := rapid.Uint64().Draw(t, "seed")
		var all [][]int32
		for batch := range b.Minibatches(rand.New(rand.NewPCG(seed, 1)), epochs, count) {
			all = append(all, slices.Clone(batch))
		}
		per := min(count, len(valid))
		if len(all) != epochs*per {
			t.Fatalf("%d minibatches, want %d epochs of %d", len(all), epochs, per)
		}
		for e := range epochs {
			epoch := all[e*per : (e+1)*per]
			var order []int32
			for _, batch := range epoch {
				order = append(order, batch...)
				if small := len(valid) / per; len(batch) < small || len(batch) > small+1 {
					t.Fatalf("minibatch of %d, want %d or one more", len(batch), small)
				}
			}
			slices.Sort(order)
			if !slices.Equal(order, valid) {
				t.Fatalf("epoch %d holds %v, want %v", e, order, valid)
			}
		}
		k := 0
		for batch := range b.Minibatches(rand.New(rand.NewPCG(seed, 1)), epochs, count) {
			if !slices.Equal(batch, all[k]) {
				t.Fatalf("minibatch %d is %v, with the same seed before %v", k, batch, all[k])
			}
			k++
		}
	})
}

// Every order of four transitions is as likely as any other, in the second epoch too, and
// an epoch's order says nothing of the next one's.
func TestMinibatchesAreUniform(t *testing.T) {
	b := newBuffer(t, 2, 2)
	rng := rand.New(rand.NewPCG(3, 4))
	const draws = 24 * 1000
	first, second, again := map[[4]int32]int{}, map[[4]int32]int{}, 0
	for range draws {
		var orders [2][4]int32
		k := 0
		for batch := range b.Minibatches(rng, 2, 1) {
			orders[k] = [4]int32(batch)
			k++
		}
		first[orders[0]]++
		second[orders[1]]++
		if orders[0] == orders[1] {
			again++
		}
	}
	for name, seen := range map[string]map[[4]int32]int{"first": first, "second": second} {
		if len(seen) != 24 {
			t.Errorf("%s epoch: %d orders, want 24", name, len(seen))
		}
		for order, n := range seen {
			if n < 850 || n > 1150 { // five standard deviations
				t.Errorf("%s epoch: order %v came %d times, want about 1000", name, order, n)
			}
		}
	}
	if again < 850 || again > 1150 {
		t.Errorf("an order came twice in a row %d times, want about 1000", again)
	}
}

// Leaving the loop early and beginning again, with other transitions valid, is a new
// beginning; what is drawn hangs on the generator's state and Valid alone.
func TestMinibatchesBeginAnew(t *testing.T) {
	b, fresh := newBuffer(t, 5, 5), newBuffer(t, 5, 5)
	rng := rand.New(rand.NewPCG(5, 6))
	for batch := range b.Minibatches(rng, 3, 4) {
		if len(batch) != 6 {
			t.Errorf("first minibatch of %d, want 6", len(batch))
		}
		break
	}
	b.Valid[7], fresh.Valid[7] = false, false
	var got, want []int32
	for batch := range b.Minibatches(rand.New(rand.NewPCG(7, 8)), 1, 4) {
		got = append(got, batch...)
	}
	for batch := range fresh.Minibatches(rand.New(rand.NewPCG(7, 8)), 1, 4) {
		want = append(want, batch...)
	}
	if !slices.Equal(got, want) || len(got) != 24 || slices.Contains(got, 7) {
		t.Errorf("drew %v after an early end, %v in a new buffer", got, want)
	}
}

func TestMinibatchesRefuses(t *testing.T) {
	for want, args := range map[string][2]int{
		"buffer: 1 epochs of 0 minibatches":  {1, 0},
		"buffer: -1 epochs of 4 minibatches": {-1, 4},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %q", got, want)
				}
			}()
			for batch := range newBuffer(t, 1, 1).Minibatches(rand.New(rand.NewPCG(1, 2)), args[0], args[1]) {
				t.Errorf("%v before the panic", batch)
			}
		}()
	}
}

func BenchmarkMinibatches(b *testing.B) {
	x := newBuffer(b, 24, 4096)
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for batch := range x.Minibatches(rng, 5, 4) {
			n += len(batch)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/index")
}
