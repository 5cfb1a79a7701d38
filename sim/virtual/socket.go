package virtual

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a bound UDP socket that never blocks and knows when the kernel got each datagram.
type socket struct {
	fd   int
	addr netip.AddrPort
	buf  [2048]byte // longer than any message; what is cut is refused as too long all the same
	oob  [64]byte
}

// datagram is one as received; b is valid until the next receive.
type datagram struct {
	b    []byte
	from netip.AddrPort
	atNs int64 // arrival, on the monotonic clock
}

func listen(addr netip.AddrPort) (*socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("virtual: socket: %w", err)
	}
	s := &socket{fd: fd}
	sa := &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().Unmap().As4()}
	if err := errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1), unix.Bind(fd, sa)); err != nil {
		s.close()
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("virtual: %v: %w (another virtual robot, or a program of the maker's SDK, holds it)", addr, err)
		}
		return nil, fmt.Errorf("virtual: %v: %w", addr, err)
	}
	got, err := unix.Getsockname(fd)
	if err != nil {
		s.close()
		return nil, fmt.Errorf("virtual: %v: %w", addr, err)
	}
	s.addr = fromSockaddr(got)
	return s, nil
}

func (s *socket) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

// receive takes the oldest waiting datagram.
func (s *socket) receive() (d datagram, ok bool) {
	for {
		n, oobn, _, from, err := unix.Recvmsg(s.fd, s.buf[:], s.oob[:], unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || from == nil {
			return d, false
		}
		return datagram{b: s.buf[:n], from: fromSockaddr(from), atNs: arrival(s.oob[:oobn])}, true
	}
}

// send drops what the kernel does not take: the sender has gone, or the queue is full.
func (s *socket) send(b []byte, to netip.AddrPort) bool {
	return unix.Sendto(s.fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}) == nil
}

func fromSockaddr(sa unix.Sockaddr) netip.AddrPort {
	in4, ok := sa.(*unix.SockaddrInet4)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port))
}

// arrival turns the kernel's receive stamp, wall clock, into monotonic time; now, when there is none.
func arrival(oob []byte) int64 {
	now := monotonic()
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return now
	}
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			stamp := int64(binary.NativeEndian.Uint64(m.Data))*1e9 + int64(binary.NativeEndian.Uint64(m.Data[8:]))
			if age := time.Now().UnixNano() - stamp; age > 0 && age < int64(10e9) {
				return now - age
			}
		}
	}
	return now
}

// monotonic is CLOCK_MONOTONIC in ns, the clock of ppoll's and our deadlines.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return ts.Nano()
}

// wait sleeps until a datagram waits on one of the sockets or waitNs have passed. It may return early.
func wait(waitNs int64, sockets ...*socket) {
	var fds [2]unix.PollFd
	n := 0
	for _, s := range sockets {
		if s != nil && s.fd >= 0 {
			fds[n] = unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN}
			n++
		}
	}
	ts := unix.NsecToTimespec(max(waitNs, 0))
	_, _ = unix.Ppoll(fds[:n], &ts, nil) // EINTR: early, as allowed
}

// raise gives the calling thread SCHED_FIFO where the system allows it, and says what came of it.
func raise(priority int) string {
	if priority == 0 {
		return "ordinary priority, as configured"
	}
	err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: uint32(priority)}, 0)
	if err != nil {
		return "ordinary priority: SCHED_FIFO refused: " + err.Error()
	}
	return fmt.Sprintf("SCHED_FIFO %d", priority)
}
