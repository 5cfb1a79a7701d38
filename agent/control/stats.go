package control

import "math/bits"

// Histogram counts durations in buckets of one eighth of an octave, from 64 ns
// to 34 s: 12 % wide at most, of fixed size, so that counting is two
// instructions and a copy is a snapshot.
type Histogram struct {
	Bucket [240]uint64
	Count  uint64
	SumNs  int64
	MaxNs  int64
}

const histogramBase = 64 // ns

// Add counts one duration; negative ones count as 0.
func (h *Histogram) Add(ns int64) {
	ns = max(ns, 0)
	h.Bucket[bucketOf(ns)]++
	h.Count++
	h.SumNs += ns
	h.MaxNs = max(h.MaxNs, ns)
}

func bucketOf(ns int64) int {
	v := uint64(ns) / (histogramBase / 8) // eighths of the base
	if v < 8 {
		return 0
	}
	octave := bits.Len64(v) - 4
	return min(octave*8+int(v>>octave)-8+1, len(Histogram{}.Bucket)-1)
}

// UpperNs is the upper edge of a bucket.
func UpperNs(bucket int) int64 {
	if bucket == 0 {
		return histogramBase
	}
	b := bucket - 1
	return (int64(b%8) + 9) << (b / 8) * (histogramBase / 8)
}

// Quantile is the upper edge of the bucket that holds the q-th (0..1) part, ns;
// the largest value counted if that is smaller; 0 for an empty histogram.
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
