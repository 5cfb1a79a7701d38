package control

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/link"
)

// Clock gives the loop its time. The loop's thread is the only one to sleep on it.
type Clock interface {
	// Now is monotonic, in ns.
	Now() int64
	// SleepUntil returns at deadline or soon after.
	SleepUntil(deadlineNs int64)
}

// SystemClock is CLOCK_MONOTONIC: it sleeps until SpinNs before the deadline and
// spins the rest, because a sleeping thread is woken tens of microseconds late
// and a running one is not.
type SystemClock struct{ SpinNs int64 }

// Now reads CLOCK_MONOTONIC.
func (SystemClock) Now() int64 { return link.Now() }

// SleepUntil sleeps, then spins. The raw system call keeps the Go scheduler out
// of the way; its preemption signal cuts the sleep short, so it is repeated.
func (c SystemClock) SleepUntil(deadlineNs int64) {
	ts := unix.NsecToTimespec(deadlineNs - c.SpinNs)
	for c.Now() < deadlineNs-c.SpinNs {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC,
			unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			time.Sleep(time.Duration(deadlineNs - c.Now())) // not on any Linux; better late than never
			return
		}
	}
	for c.Now() < deadlineNs {
	}
}

// lockstepClock is virtual time: it moves when the loop has slept, at once.
type lockstepClock struct{ now int64 }

func (c *lockstepClock) Now() int64 { return c.now }

func (c *lockstepClock) SleepUntil(deadlineNs int64) { c.now = max(c.now, deadlineNs) }
