package virtual

import "testing"

func TestMissedPeriods(t *testing.T) {
	for _, c := range []struct {
		ns   []int64
		want uint64
	}{
		{[]int64{2e6, 2e6, 0, 4e5}, 0},
		{[]int64{2.9e6, 1.1e6}, 0}, // late, and its period had it
		{[]int64{3.1e6, 0.9e6}, 1},
		{[]int64{4e6, 2e6}, 1},
		{[]int64{4e6, 6e6, 2e6}, 3},
		{[]int64{20e6}, 9},
	} {
		var i intervals
		for _, ns := range c.ns {
			i.add(ns)
		}
		if i.missed != c.want || i.all != uint64(len(c.ns)) {
			t.Errorf("%v ns: %d periods missed of %d intervals, want %d", c.ns, i.missed, i.all, c.want)
		}
	}
}
