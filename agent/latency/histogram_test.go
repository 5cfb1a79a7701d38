package latency

import (
	"testing"
)

// TestBuckets: every duration lies in its bucket and in no other.
func TestBuckets(t *testing.T) {
	for i := 1; i < Buckets-1; i++ {
		lo, hi := UpperNs(i-1), UpperNs(i)
		if hi <= lo || float64(hi) > 1.15*float64(lo) && lo > base {
			t.Fatalf("bucket %d from %d to %d ns", i, lo, hi)
		}
		if a, b := bucketOf(lo+1), bucketOf(hi); a != i || b != i {
			t.Fatalf("%d and %d ns lie in buckets %d and %d, want %d", lo+1, hi, a, b, i)
		}
	}
	if a, b, c := bucketOf(0), bucketOf(base), bucketOf(1<<62); a != 0 || b != 0 || c != Buckets-1 {
		t.Fatalf("0 and 64 ns in buckets %d and %d, 146 years in %d", a, b, c)
	}
}

func TestQuantile(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 {
		t.Fatal("an empty histogram has a median")
	}
	for range 99 {
		h.Add(1000)
	}
	h.Add(1e6)
	h.Add(-5)
	if p50, p99, p100 := h.Quantile(0.5), h.Quantile(0.985), h.Quantile(1); p50 < 1000 || p50 > 1130 || p99 != p50 || p100 != 1e6 {
		t.Fatalf("p50 %d, p98.5 %d, largest %d ns", p50, p99, p100)
	}
	if h.Bucket[0] != 1 {
		t.Fatal("a negative duration is not 0")
	}
}

// TestShared: what it counts is what a Histogram counts, and counting allocates nothing.
func TestShared(t *testing.T) {
	var s Shared
	var want, got Histogram
	for ns := int64(-1); ns < 1e9; ns = ns*3/2 + 2 {
		s.Add(ns)
		want.Add(ns)
	}
	s.Read(&got)
	if got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { s.Add(7e6); s.Read(&got); want.Add(7e6) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
