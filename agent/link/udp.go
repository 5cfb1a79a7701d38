//go:build linux && (amd64 || arm64)

package link

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// UDPConfig says which robot, and from where.
type UDPConfig struct {
	// Robot is the robot's low-level address, IPv4. Only datagrams from exactly there are read.
	Robot netip.AddrPort
	// Local is the address and port to send from. The zero value, address and port alike, leaves the choice to the
	// kernel. The maker's examples use 8090 (C++) or 8080 (Python); a Go1 that answers only there would need it set.
	Local netip.AddrPort
	// CRC is the form in which commands to this robot carry their CRC; whoever encodes them asks CRC().
	CRC wire.CRCForm
	// ReceiveBuffer is the socket's receive queue, bytes; 0 leaves the kernel's default (about 90 states, 0.2 s at
	// 500 Hz). More of it only makes old states wait longer behind a stalled agent.
	ReceiveBuffer int
	// VirtualTime is for a caller whose nowNs is not CLOCK_MONOTONIC (lockstep): every state arrives at that nowNs.
	VirtualTime bool
}

// Bounds of one call.
const (
	maxRefused   = 64 // datagrams and error reports one Receive throws away before it returns
	maxNetErrors = 64 // error reports one drain takes
	sendTries    = 3
)

// UDP is the link to one Go1. Receive, Send, Wait and Close belong to one goroutine; the rest may be called from any.
type UDP struct {
	fd      atomic.Int32 // -1 once closed
	robot   netip.AddrPort
	local   netip.AddrPort
	crc     wire.CRCForm
	virtual bool

	to      unix.RawSockaddrInet4 // the robot, as the kernel wants it
	emptyNs int64                 // when a Receive last found no datagram waiting, or the socket was opened
	in      inbox
	poll    [1]unix.PollFd
	clocks  func() (monoNs, wallNs int64) // readClocks; tests set the wall clock

	n counters
}

// DialUDP opens the link. Nothing is sent and nothing need answer.
func DialUDP(cfg UDPConfig) (*UDP, error) {
	robot, err := cfg.check()
	if err != nil {
		return nil, err
	}
	local, err := ipv4(cfg.Local)
	if err != nil {
		return nil, fmt.Errorf("link: local address %v: want an IPv4 address and a port", cfg.Local)
	}
	fd, bound, err := openSocket(local, cfg.ReceiveBuffer)
	if err != nil {
		return nil, err
	}
	return newUDP(fd, robot, bound, &cfg), nil
}

// AdoptUDP makes a link of a duplicate of another process's Fd; Local and ReceiveBuffer are that one's. The two share one queue of
// received states, so only one may receive at a time. On an error fd stays the caller's.
func AdoptUDP(fd int, cfg UDPConfig) (*UDP, error) {
	robot, err := cfg.check()
	if err != nil {
		return nil, err
	}
	bound, err := checkSocket(fd)
	if err != nil {
		return nil, err
	}
	return newUDP(fd, robot, bound, &cfg), nil
}

// check is the robot's address, or what is wrong with the configuration.
func (cfg *UDPConfig) check() (robot netip.AddrPort, err error) {
	robot, err = ipv4(cfg.Robot)
	if err != nil || !robot.IsValid() || robot.Port() == 0 || robot.Addr().IsUnspecified() {
		return robot, fmt.Errorf("link: robot address %v: want an IPv4 address and a port", cfg.Robot)
	}
	if cfg.CRC != wire.PlainCRC && cfg.CRC != wire.EncryptedCRC {
		return robot, fmt.Errorf("link: CRC form %d: want plain or encrypted", cfg.CRC)
	}
	return robot, nil
}

func newUDP(fd int, robot, bound netip.AddrPort, cfg *UDPConfig) *UDP {
	u := &UDP{
		robot: robot, local: bound, crc: cfg.CRC, virtual: cfg.VirtualTime,
		to:      sockaddr(robot),
		emptyNs: Now(),
		clocks:  readClocks,
	}
	u.fd.Store(int32(fd))
	u.in.init()
	u.n.lastLength.Store(-1)
	return u
}

// Receive takes waiting datagrams, oldest first, until one is a state from the robot, and writes that into s. It returns
// when the state arrived, CLOCK_MONOTONIC ns and never after nowNs, which is the caller's present on that clock. It is
// false, with s untouched, when none waits, or after 64 that were refused (more may wait then). Each refused one is
// counted by reason. To hear of all that wait, call until it is false.
//
// The arrival is the kernel's receive stamp. That counts on the wall clock, which may be stepped between arrival and
// reading, so the result is kept between the last time the queue was seen empty and nowNs: a step can shift an arrival
// by at most the time between two calls.
func (u *UDP) Receive(s *wire.LowState, nowNs int64) (arrivedNs int64, ok bool) {
	fd := uintptr(u.fd.Load())
	for range maxRefused {
		length, errno := u.in.receive(fd, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		switch errno {
		case 0:
		case unix.EAGAIN:
			u.emptyNs = nowNs
			return 0, false
		case unix.EBADF:
			return 0, false
		default: // an error the network reported for a frame sent earlier; reading it has cleared it
			u.drainNetErrors(fd, errno)
			continue
		}
		u.n.received.Add(1)
		stampNs := u.in.control(&u.n)
		if u.in.from.Addr != u.to.Addr || u.in.from.Port != u.to.Port {
			u.n.foreign.Add(1)
			u.n.lastForeign.Store(packSockaddr(&u.in.from))
			continue
		}
		if length > len(u.in.buf) {
			u.n.truncated.Add(1)
		}
		if err := wire.DecodeLowState(u.in.buf[:min(length, len(u.in.buf))], s); err != nil {
			u.countRejected(err, length)
			continue
		}
		u.n.accepted.Add(1)
		arrivedNs = nowNs
		if !u.virtual {
			monoNs, wallNs := u.clocks()
			arrivedNs = arrival(stampNs, monoNs, wallNs, u.emptyNs, nowNs)
		}
		u.n.lastAcceptedNs.Store(arrivedNs)
		return arrivedNs, true
	}
	return 0, false
}

// arrival maps a receive stamp (wall clock, 0 when the kernel gave none) onto the monotonic clock, given one
// moment on both, and keeps it in emptyNs..nowNs.
func arrival(stampNs, monoNs, wallNs, emptyNs, nowNs int64) int64 {
	at := monoNs
	if stampNs != 0 {
		at -= wallNs - stampNs
	}
	return min(max(at, emptyNs), nowNs)
}

// zeros is what a main board without data sends.
var zeros [wire.LowStateSize]byte

func (u *UDP) countRejected(err error, length int) {
	// The decoder hands out this one type only, and asserting it costs no more than a comparison.
	reason := err.(*wire.RejectError).Reason
	u.n.rejected[reason].Add(1)
	if reason == wire.RejectHead && bytes.Equal(u.in.buf[:wire.LowStateSize], zeros[:]) {
		u.n.zeros.Add(1) // only a whole length gets as far as its head
	}
	if reason == wire.RejectEmpty || reason == wire.RejectShort || reason == wire.RejectLong {
		u.n.lastLength.Store(int64(length))
	}
}

// drainNetErrors empties the socket's error queue and counts what it held; if that was nothing, pending alone. It returns
// how many were queued.
func (u *UDP) drainNetErrors(fd uintptr, pending syscall.Errno) (queued int) {
	for queued < maxNetErrors {
		_, errno := u.in.receive(fd, unix.MSG_DONTWAIT|unix.MSG_ERRQUEUE)
		if errno != 0 {
			break
		}
		queued++
		u.n.countNetError(u.in.netError())
	}
	if queued == 0 && pending != 0 && pending != unix.EINTR {
		u.n.countNetError(pending)
	}
	return queued
}

// Send sends one frame of 614 bytes as one datagram and does not wait. A nil error says that the kernel took it, nothing
// more. An error report pending from an earlier frame, which would make the kernel fail this one without trying, is
// counted (Refused, Unreachable) and the frame sent all the same. Errors: ErrFrameSize, ErrClosed, ErrWouldBlock,
// ErrRefused, *SendError.
func (u *UDP) Send(frame []byte) error {
	if len(frame) != wire.LowCmdSize {
		u.n.sendErrors.Add(1)
		return ErrFrameSize
	}
	fd := uintptr(u.fd.Load())
	var errno syscall.Errno
	for range sendTries {
		_, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&frame[0])), uintptr(len(frame)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&u.to)), unix.SizeofSockaddrInet4)
		if errno == 0 {
			u.n.sent.Add(1)
			return nil
		}
		if errno == unix.EAGAIN || errno == unix.ENOBUFS || errno == unix.EBADF {
			break
		}
		// ECONNREFUSED never comes from sending itself; any other error may, so it is worth a second try only when the
		// queue shows that it was an old one.
		pending := syscall.Errno(0)
		if errno == unix.ECONNREFUSED {
			pending = errno
		}
		if u.drainNetErrors(fd, pending) == 0 && errno != unix.ECONNREFUSED && errno != unix.EINTR {
			break
		}
	}
	u.n.sendErrors.Add(1)
	return sendError(errno)
}

// Wait sleeps until a datagram waits (true) or timeoutNs has passed (false); 0 and less only look. Error reports that
// come meanwhile are counted. For lockstep and tests: it may hand the thread's place to another goroutine, so it has no
// business on the control thread in real time.
func (u *UDP) Wait(timeoutNs int64) bool {
	deadline := Now() + max(timeoutNs, 0)
	for {
		fd := u.fd.Load()
		if fd < 0 {
			return false
		}
		left := max(deadline-Now(), 0)
		timeout := unix.NsecToTimespec(left)
		u.poll[0] = unix.PollFd{Fd: fd, Events: unix.POLLIN}
		n, err := unix.Ppoll(u.poll[:], &timeout, nil)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return false
		case err == nil && n > 0 && u.poll[0].Revents&unix.POLLIN != 0:
			return true
		case err == nil && n > 0 && u.poll[0].Revents&unix.POLLNVAL != 0:
			return false
		case err == nil && n > 0: // POLLERR
			pending, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
			u.drainNetErrors(uintptr(fd), syscall.Errno(pending))
		}
		if left == 0 {
			return false
		}
	}
}

// Counters is what the link has seen so far.
func (u *UDP) Counters() (c Counters) {
	u.n.read(&c)
	return c
}

// ReadCounters is Counters without a copy.
func (u *UDP) ReadCounters(c *Counters) { u.n.read(c) }

// CRC is the form in which commands to this robot carry their CRC.
func (u *UDP) CRC() wire.CRCForm { return u.crc }

// RobotAddr is the robot's address.
func (u *UDP) RobotAddr() netip.AddrPort { return u.robot }

// LocalAddr is what the socket is bound to: 0.0.0.0 and the port the kernel chose, unless UDPConfig.Local said more.
func (u *UDP) LocalAddr() netip.AddrPort { return u.local }

// SourceAddr is the address and port the robot sees: LocalAddr, with the address of the interface that leads to the
// robot now in place of 0.0.0.0. The error says that no route leads there.
func (u *UDP) SourceAddr() (netip.AddrPort, error) {
	if !u.local.Addr().IsUnspecified() {
		return u.local, nil
	}
	addr, err := sourceTowards(u.robot)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("link: no route to %v: %w", u.robot, err)
	}
	return netip.AddrPortFrom(addr, u.local.Port()), nil
}

// Fd is the socket, for duplicating into the guard's process; -1 once closed. It stays the link's to close.
func (u *UDP) Fd() int { return int(u.fd.Load()) }

// Close closes the socket. A second call does nothing and returns nil.
func (u *UDP) Close() error {
	fd := u.fd.Swap(-1)
	if fd < 0 {
		return nil
	}
	if err := unix.Close(int(fd)); err != nil {
		return fmt.Errorf("link: close: %w", err)
	}
	return nil
}
