package e2e

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// heldClock is a clock that a program reads instead of this machine's, which nobody may set: a filter of the kernel (seccomp) gives
// its reads of the time of day, of CLOCK_MONOTONIC_RAW and of adjtimex to the test, which answers. Those that Go's runtime makes go
// another way (the vDSO), and CLOCK_MONOTONIC is the machine's own.
//
//	test ─► this test's binary, underClock ─filter─► clawagent doctor ── clock_gettime ─►┐
//	  └──◄── the filter's notices, over a socket ──◄────────────────────────────────────┘
type heldClock struct {
	synchronised bool
	// Steps between the doctor's first look at the clocks and its second.
	wallStep, rawStep time.Duration
}

// lookReads is how often a doctor's look reads each clock.
const lookReads = 20

// underClockWord is the first argument of the test's binary where it is to run the others so.
const underClockWord = "under-clock"

// words are those to put before a program's.
func (c heldClock) words(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "notices")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return // the test has ended
			}
			if notices, ok := takeFile(conn); ok {
				if err := c.answer(notices); err != nil {
					t.Errorf("held clock: %v", err)
				}
				_ = unix.Close(notices)
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-served })
	words := []string{self, underClockWord, at}
	if out, err := exec.Command(words[0], append(words[1:], "/bin/true")...).CombinedOutput(); err != nil {
		lacks(t, "needs seccomp with notices (Linux 5.0): %v: %s", err, out)
	}
	return words
}

// takeFile takes a file that came over a socket.
func takeFile(conn *net.UnixConn) (fd int, ok bool) {
	var b [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(b[:], rights)
	if err != nil {
		return 0, false
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return 0, false
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, false
	}
	return fds[0], true
}

// The kernel's struct seccomp_notif and seccomp_notif_resp.
type notice struct {
	id         uint64
	tid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type noticeAnswer struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// answer answers a program's reads until it ends.
func (c heldClock) answer(notices int) error {
	read := map[int32]int{}
	for {
		poll := []unix.PollFd{{Fd: int32(notices), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return err
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return nil // the program has ended
		}
		var n notice
		if errno := ioctl(notices, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); errno == unix.ENOENT || errno == unix.EINTR {
			continue // the thread has ended
		} else if errno != 0 {
			return errno
		}
		a := noticeAnswer{id: n.id}
		at, says := n.args[0], []byte(nil)
		if n.nr == unix.SYS_CLOCK_GETTIME {
			id := int32(n.args[0])
			at, says = n.args[1], c.time(id, read[id] >= lookReads)
			read[id]++
		} else {
			a.value, says = c.adjtimex()
		}
		if err := poke(n.tid, at, says); err != nil {
			return err
		}
		if errno := ioctl(notices, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)); errno != 0 && errno != unix.ENOENT {
			return errno
		}
	}
}

// time is what a clock says, as a struct timespec.
func (c heldClock) time(id int32, later bool) []byte {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err)
	}
	ns := ts.Nano()
	switch {
	case later && id == unix.CLOCK_REALTIME:
		ns += c.wallStep.Nanoseconds()
	case later && id == unix.CLOCK_MONOTONIC_RAW:
		ns += c.rawStep.Nanoseconds()
	}
	ts = unix.NsecToTimespec(ns)
	return append(binary.NativeEndian.AppendUint64(nil, uint64(ts.Sec)), binary.NativeEndian.AppendUint64(nil, uint64(ts.Nsec))...)
}

// adjtimex is what the kernel says of its clock, as a struct timex.
func (c heldClock) adjtimex() (state int64, says []byte) {
	const unsynchronised = 0x0040 // STA_UNSYNC
	t := new(unix.Timex)
	if state = unix.TIME_OK; !c.synchronised {
		state, t.Status = unix.TIME_ERROR, unsynchronised
	}
	return state, unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t))
}

// poke writes to a thread's memory.
func poke(tid uint32, at uint64, b []byte) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", tid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	_, err = mem.WriteAt(b, int64(at))
	return err
}

func ioctl(fd int, what uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), what, uintptr(arg))
	return errno
}

// underClock becomes the program args[1:] under the filter, whose notices go to the socket args[0]. It returns if it cannot.
func underClock(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("want a socket and a program, not %q", args)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: args[0]})
	if err != nil {
		return err
	}
	runtime.LockOSThread()     // the filter is this thread's, and it becomes the program
	const nr, argument = 0, 16 // in struct seccomp_data
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	filter := []unix.SockFilter{
		load(nr),
		equal(unix.SYS_ADJTIMEX, 5, 0),
		equal(unix.SYS_CLOCK_GETTIME, 0, 3),
		load(argument),
		equal(unix.CLOCK_REALTIME, 2, 0),
		equal(unix.CLOCK_MONOTONIC_RAW, 1, 0),
		end(unix.SECCOMP_RET_ALLOW),
		end(unix.SECCOMP_RET_USER_NOTIF),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	notices, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(notices)), nil); err != nil {
		return err
	}
	_ = unix.Close(int(notices)) // also the program's own would keep them from ending
	return fmt.Errorf("exec %s: %w", args[1], unix.Exec(args[1], args[1:], os.Environ()))
}
