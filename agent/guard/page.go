//go:build linux

package guard

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/latency"
)

// agentPage is written by the agent's control loop alone.
type agentPage struct {
	beatNs  atomic.Int64  // CLOCK_MONOTONIC of the loop's newest tick
	epoch   atomic.Uint64 // session<<32 | count of armings; 0: disarmed, no frame leaves
	torque  atomic.Uint64 // 1 while frames may carry torque
	window  atomic.Uint64 // 1 while a torque frame is between the last look and the kernel
	untilNs atomic.Int64  // damping may be sent until then, though no further state comes
	thread  atomic.Int64  // the loop's, as its PID namespace numbers it; 0: not said
	_       [16]byte      // one cache line
}

// guardPage is written by the guard's loop alone.
type guardPage struct {
	session   atomic.Uint64 // whose turn it is; 0: nobody's
	latched   atomic.Uint64 // newest epoch that was latched
	latchedNs atomic.Int64  // since then no torque frame was handed to the kernel; 0: one still might be, or no latch in this session
	dampedNs  atomic.Int64  // first damping frame after that; 0: none in this session
	trips     atomic.Uint64 // latches since the guard started
	killed    atomic.Uint64 // of these, with the agent killed because its window stayed open
	beatNs    atomic.Int64  // CLOCK_MONOTONIC of the newest cycle
	sending   atomic.Uint64 // 1 while the guard damps
	frames    atomic.Uint64 // damping frames sent since the guard started
	untilNs   atomic.Int64  // damping may be sent until then, by the states that the guard took; 0: none in this session
	// killErrors are the agents whose window stayed open and that the kernel would not kill, since the guard started.
	killErrors atomic.Uint64
	_          [40]byte // to the end of the line
	late       latency.Shared
}

// pageBytes is the size of either page's file.
const pageBytes = 4096

// Both must fit.
var (
	_ [pageBytes - unsafe.Sizeof(agentPage{})]byte
	_ [pageBytes - unsafe.Sizeof(guardPage{})]byte
)

// mapping is a page in memory. The memory is given back when nobody holds the mapping any more; whoever uses at does.
type mapping struct{ at unsafe.Pointer }

// newPage makes a page that only its maker and those to whom it passes file can write, and that nobody can shrink under another's feet.
// The caller closes file.
func newPage(name string) (m *mapping, file *os.File, err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("guard: shared memory: %w", err)
	}
	file = os.NewFile(uintptr(fd), name)
	err = file.Truncate(pageBytes)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		m, err = mapPage(fd, true)
	}
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("guard: shared memory: %w", err)
	}
	return m, file, nil
}

// readOnly opens a page's file once more, for others: what they map by it they cannot write. (F_SEAL_FUTURE_WRITE would say the same,
// but a Jetson's kernel, 4.9, does not know it.)
func readOnly(file *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
}

// openPage maps a page that came over a socket, after a look at what it is.
func openPage(fd int, write bool) (*mapping, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("guard: page: %w", err)
	}
	if st.Size != pageBytes {
		return nil, fmt.Errorf("guard: page of %d bytes, want %d", st.Size, pageBytes)
	}
	const want = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	if seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || seals&want != want {
		return nil, fmt.Errorf("guard: page is not sealed against another size (%#x, %v)", seals, err)
	}
	m, err := mapPage(fd, write)
	if err != nil {
		return nil, fmt.Errorf("guard: page: %w", err)
	}
	return m, nil
}

func mapPage(fd int, write bool) (*mapping, error) {
	how := unix.PROT_READ
	if write {
		how |= unix.PROT_WRITE
	}
	b, err := unix.Mmap(fd, 0, pageBytes, how, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	m := &mapping{at: unsafe.Pointer(&b[0])}
	runtime.AddCleanup(m, func(b []byte) { _ = unix.Munmap(b) }, b)
	return m, nil
}

func (m *mapping) agent() *agentPage { return (*agentPage)(m.at) }
func (m *mapping) guard() *guardPage { return (*guardPage)(m.at) }
