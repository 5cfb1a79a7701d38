//go:build linux

package link

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// origin ties Go's monotonic reading, whose zero is private to the process, to CLOCK_MONOTONIC.
var origin = findOrigin()

type clockOrigin struct {
	at     time.Time
	monoNs int64 // CLOCK_MONOTONIC at that moment
}

// findOrigin brackets a Go reading between two of CLOCK_MONOTONIC and keeps the tightest of some, a few hundred ns wide
// where nothing interrupts. It is also the whole error of Now: both count on the same clock from then on.
func findOrigin() (o clockOrigin) {
	best := int64(math.MaxInt64)
	for range 16 {
		before := readMonotonic()
		at := time.Now()
		after := readMonotonic()
		if after-before < best {
			best = after - before
			o = clockOrigin{at: at, monoNs: before + (after-before)/2}
		}
	}
	return o
}

func readMonotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("link: no CLOCK_MONOTONIC: " + err.Error()) // no Linux lacks it
	}
	return ts.Nano()
}

// Now is CLOCK_MONOTONIC in ns, the clock of clock_nanosleep's deadlines, to within a microsecond. It is read through
// the vDSO without a system call and allocates nothing.
func Now() int64 { return origin.monoNs + int64(time.Since(origin.at)) }

// readClocks is one moment on both clocks, ns: CLOCK_MONOTONIC, and CLOCK_REALTIME, which receive stamps count on.
func readClocks() (monoNs, wallNs int64) {
	t := time.Now()
	return origin.monoNs + int64(t.Sub(origin.at)), t.UnixNano()
}
