package control

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// schedParam is struct sched_param of sched.h.
type schedParam struct{ Priority int32 }

const schedFIFO = 1 // sched.h

// Realtime makes the calling goroutine's thread fit for the loop and says what
// was reached. In lockstep, where time is not real, it only locks the goroutine
// to its thread.
func Realtime(cfg *Config) string {
	if cfg.Lockstep {
		runtime.LockOSThread()
		return "lockstep: ordinary priority"
	}
	return Urgent(cfg.Priority, loopCPU(cfg.CPU, runtime.NumCPU()))
}

// Urgent makes the calling goroutine's thread fit for short periods: it is
// locked to its OS thread, pinned to a core (-1: to none) and, last, raised to
// SCHED_FIFO above all others (0: not). Memory is locked as it is touched. What
// the system refuses is said and is no error: the caller measures what comes of
// it. Call it when all other threads exist: threads that C code makes later
// would inherit the priority.
func Urgent(priority, cpu int) string {
	runtime.LockOSThread()
	var said []string
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		said = append(said, "memory not locked: "+err.Error())
	} else {
		said = append(said, "memory locked")
	}
	if cpu >= 0 {
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			said = append(said, fmt.Sprintf("not pinned to core %d: %v", cpu, err))
		} else {
			said = append(said, fmt.Sprintf("core %d", cpu))
		}
	}
	if priority == 0 {
		return strings.Join(append(said, "ordinary priority, as configured"), ", ")
	}
	p := schedParam{Priority: int32(priority)}
	if _, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, schedFIFO, uintptr(unsafe.Pointer(&p))); errno != 0 {
		return strings.Join(append(said, "ordinary priority: SCHED_FIFO refused: "+errno.Error()), ", ")
	}
	policy, _, _ := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
	var back schedParam
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETPARAM, 0, uintptr(unsafe.Pointer(&back)), 0)
	if policy != schedFIFO || errno != 0 || back.Priority != p.Priority {
		return strings.Join(append(said, fmt.Sprintf("SCHED_FIFO %d not in force (read back policy %d, priority %d)", p.Priority, policy, back.Priority)), ", ")
	}
	return strings.Join(append(said, fmt.Sprintf("SCHED_FIFO %d", back.Priority)), ", ")
}

// loopCPU is the core to pin to; -1 for none. On a machine of few cores a
// pinned thread waits for whatever else runs there.
func loopCPU(want, cores int) int {
	switch {
	case want >= 0:
		return want
	case cores >= 4:
		return cores - 1
	}
	return -1
}
