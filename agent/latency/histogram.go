// Package latency counts how late or how long something was, in a histogram of fixed size.
//
//	           Add, at 500 Hz                Quantile, buckets
//	loop ─────────────────▶ Histogram ──copy──────▶ HTTP, metrics, last line
//	guard's loop ─────────▶ Shared    ──Read──┘     (memory of two processes)
//
// agent/control and agent/guard count by it; agent/httpapi shows what they counted. Counting allocates nothing.
package latency

import (
	"math/bits"
	"sync/atomic"
)

// Buckets of a histogram: one eighth of an octave each, 12 % wide at most, from 64 ns to 34 s.
const Buckets = 240

const base = 64 // ns

// Histogram counts durations. Counting is two instructions and a copy is a snapshot. It belongs to one goroutine.
type Histogram struct {
	Bucket [Buckets]uint64
	Count  uint64
	SumNs  int64
	MaxNs  int64
}

// Add counts one duration; negative ones count as 0.
func (h *Histogram) Add(ns int64) {
	ns = max(ns, 0)
	h.Bucket[bucketOf(ns)]++
	h.Count++
	h.SumNs += ns
	h.MaxNs = max(h.MaxNs, ns)
}

// bucketOf the duration; its upper edge belongs to a bucket, as to one of Prometheus.
func bucketOf(ns int64) int {
	v := uint64(max(ns-1, 0)) / (base / 8) // eighths of the base
	if v < 8 {
		return 0
	}
	octave := bits.Len64(v) - 4
	return min(octave*8+int(v>>octave)-8+1, Buckets-1)
}

// UpperNs is the upper edge of a bucket, the longest duration in it.
func UpperNs(bucket int) int64 {
	if bucket == 0 {
		return base
	}
	b := bucket - 1
	return (int64(b%8) + 9) << (b / 8) * (base / 8)
}

// Quantile is the upper edge of the bucket that holds the q-th (0..1) part, ns; the largest value counted if that is smaller; 0 for
// an empty histogram.
func (h *Histogram) Quantile(q float64) int64 {
	if h.Count == 0 {
		return 0
	}
	want := uint64(q * float64(h.Count))
	seen := uint64(0)
	for i, n := range h.Bucket {
		seen += n
		if seen > want {
			return min(UpperNs(i), h.MaxNs)
		}
	}
	return h.MaxNs
}

// Shared is a Histogram that one thread counts into while others, also of other processes, read it. It holds no pointer, so it may
// lie in shared memory.
type Shared struct {
	bucket [Buckets]atomic.Uint64
	sumNs  atomic.Int64
	maxNs  atomic.Int64
}

// Add counts one duration; negative ones count as 0. Only one thread may call it.
func (s *Shared) Add(ns int64) {
	ns = max(ns, 0)
	s.bucket[bucketOf(ns)].Add(1)
	s.sumNs.Add(ns)
	if ns > s.maxNs.Load() {
		s.maxNs.Store(ns)
	}
}

// Read copies it. The values are each right but not of one moment; Count is the sum of the buckets.
func (s *Shared) Read(h *Histogram) {
	h.Count = 0
	for i := range s.bucket {
		h.Bucket[i] = s.bucket[i].Load()
		h.Count += h.Bucket[i]
	}
	h.SumNs, h.MaxNs = s.sumNs.Load(), s.maxNs.Load()
}
