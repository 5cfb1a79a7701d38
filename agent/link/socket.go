//go:build linux && (amd64 || arm64)

package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openSocket opens and binds the socket: not blocking, stamped, with ICMP errors and the count of lost datagrams.
func openSocket(local netip.AddrPort, receiveBuffer int) (fd int, bound netip.AddrPort, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, bound, fmt.Errorf("link: socket: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	for _, o := range []struct {
		name         string
		level, which int
	}{
		{"SO_TIMESTAMPNS", unix.SOL_SOCKET, unix.SO_TIMESTAMPNS},
		{"SO_RXQ_OVFL", unix.SOL_SOCKET, unix.SO_RXQ_OVFL},
		{"IP_RECVERR", unix.IPPROTO_IP, unix.IP_RECVERR},
	} {
		if err = unix.SetsockoptInt(fd, o.level, o.which, 1); err != nil {
			return -1, bound, fmt.Errorf("link: socket option %s: %w", o.name, err)
		}
	}
	if receiveBuffer != 0 {
		if err = setReceiveBuffer(fd, receiveBuffer); err != nil {
			return -1, bound, err
		}
	}
	sa := &unix.SockaddrInet4{Port: int(local.Port())}
	if local.Addr().IsValid() {
		sa.Addr = local.Addr().As4()
	}
	if err = unix.Bind(fd, sa); err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			return -1, bound, fmt.Errorf("link: local address %v: %w (another agent, or a program of the maker's SDK, holds it)",
				local, err)
		}
		return -1, bound, fmt.Errorf("link: local address %v: %w", local, err)
	}
	got, err := unix.Getsockname(fd)
	if err != nil {
		return -1, bound, fmt.Errorf("link: own address: %w", err)
	}
	in4 := got.(*unix.SockaddrInet4) // the socket is AF_INET
	return fd, netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port)), nil
}

// checkSocket says what an open socket is bound to, or why no link can be made of it.
func checkSocket(fd int) (bound netip.AddrPort, err error) {
	for _, o := range []struct {
		name        string
		which, want int
	}{{"domain", unix.SO_DOMAIN, unix.AF_INET}, {"type", unix.SO_TYPE, unix.SOCK_DGRAM}, {"protocol", unix.SO_PROTOCOL, unix.IPPROTO_UDP}} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.which)
		if err != nil {
			return bound, fmt.Errorf("link: not a UDP socket: %w", err)
		}
		if got != o.want {
			return bound, fmt.Errorf("link: not a UDP socket: its %s is %d, want %d", o.name, got, o.want)
		}
	}
	got, err := unix.Getsockname(fd)
	if err != nil {
		return bound, fmt.Errorf("link: own address: %w", err)
	}
	in4 := got.(*unix.SockaddrInet4) // the domain is AF_INET
	if in4.Port == 0 {
		return bound, errors.New("link: a UDP socket that is not bound: the robot would see another address")
	}
	if to, err := unix.Getpeername(fd); err == nil {
		in4 := to.(*unix.SockaddrInet4)
		return bound, fmt.Errorf("link: a UDP socket that is connected, to %v", netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port)))
	}
	return netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port)), nil
}

// setReceiveBuffer asks for n bytes and reads back what came of it: the kernel cuts a wish down without a word.
func setReceiveBuffer(fd, n int) error {
	if n < 0 {
		return fmt.Errorf("link: receive buffer of %d bytes", n)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, n); err != nil {
		return fmt.Errorf("link: receive buffer of %d bytes: %w", n, err)
	}
	got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return fmt.Errorf("link: receive buffer: %w", err)
	}
	if got/2 < n { // the kernel keeps twice the wish, for its own bookkeeping
		return fmt.Errorf("link: receive buffer of %d bytes: the kernel gives %d, its limit is net.core.rmem_max", n, got/2)
	}
	return nil
}

// sourceTowards is the address of the interface that leads to robot.
func sourceTowards(robot netip.AddrPort) (netip.Addr, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: robot.Addr().As4(), Port: int(robot.Port())}); err != nil {
		return netip.Addr{}, err
	}
	got, err := unix.Getsockname(fd)
	if err != nil {
		return netip.Addr{}, err
	}
	return netip.AddrFrom4(got.(*unix.SockaddrInet4).Addr), nil
}

// ipv4 takes IPv4 also in its IPv6 clothes, and the zero AddrPort.
func ipv4(a netip.AddrPort) (netip.AddrPort, error) {
	if !a.Addr().IsValid() {
		return netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()), nil
	}
	if addr := a.Addr().Unmap(); addr.Is4() {
		return netip.AddrPortFrom(addr, a.Port()), nil
	}
	return a, errors.New("not IPv4")
}

func sockaddr(a netip.AddrPort) unix.RawSockaddrInet4 {
	sa := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: a.Addr().As4()}
	port := (*[2]byte)(unsafe.Pointer(&sa.Port))
	binary.BigEndian.PutUint16(port[:], a.Port())
	return sa
}

// packSockaddr is the address and port in one word, see counters.lastForeign.
func packSockaddr(sa *unix.RawSockaddrInet4) uint64 {
	port := (*[2]byte)(unsafe.Pointer(&sa.Port))
	return uint64(binary.BigEndian.Uint32(sa.Addr[:]))<<16 | uint64(binary.BigEndian.Uint16(port[:]))
}

// inbox is the memory recvmsg writes to, made once. A datagram's true length comes from MSG_TRUNC, so buf need only be
// longer than a LowState.
type inbox struct {
	buf   [2048]byte
	cmsgs [16]uint64 // control messages; words, because their headers are aligned
	from  unix.RawSockaddrInet4
	iov   unix.Iovec
	msg   unix.Msghdr
}

func (b *inbox) init() {
	b.iov = unix.Iovec{Base: &b.buf[0], Len: uint64(len(b.buf))}
	b.msg = unix.Msghdr{
		Name:    (*byte)(unsafe.Pointer(&b.from)),
		Iov:     &b.iov,
		Iovlen:  1,
		Control: (*byte)(unsafe.Pointer(&b.cmsgs)),
	}
}

// receive is one recvmsg. It stays inside the raw system call: with MSG_DONTWAIT that takes about a microsecond, and
// telling the scheduler would cost as much and could cost the thread its place.
func (b *inbox) receive(fd uintptr, flags uintptr) (length int, errno syscall.Errno) {
	b.msg.Namelen = unix.SizeofSockaddrInet4
	b.msg.Controllen = uint64(unsafe.Sizeof(b.cmsgs))
	b.msg.Flags = 0
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&b.msg)), flags)
	return int(n), errno
}

// Control messages: a header (length of all u64, level i32, type i32), then data, padded to 8 bytes.
const (
	cmsgHeader   = unix.SizeofCmsghdr
	cmsgTimespec = 16 // s i64, ns i64
)

// next is the control message at byte off of those received, and the offset of the one behind it; ok is false at the end
// and for a header that does not fit.
func (b *inbox) next(off int) (level, kind int32, data []byte, after int, ok bool) {
	all := unsafe.Slice((*byte)(unsafe.Pointer(&b.cmsgs)), unsafe.Sizeof(b.cmsgs))[:b.msg.Controllen]
	if len(all)-off < cmsgHeader {
		return 0, 0, nil, 0, false
	}
	length := binary.NativeEndian.Uint64(all[off:])
	if length < cmsgHeader || length > uint64(len(all)-off) {
		return 0, 0, nil, 0, false
	}
	level = int32(binary.NativeEndian.Uint32(all[off+8:]))
	kind = int32(binary.NativeEndian.Uint32(all[off+12:]))
	end := off + int(length)
	return level, kind, all[off+cmsgHeader : end], min((end+7)&^7, len(all)), true
}

// control reads the received datagram's receive stamp, wall clock ns, 0 when there is none, and keeps the socket's count of
// lost datagrams.
func (b *inbox) control(n *counters) (stampNs int64) {
	for off := 0; ; {
		level, kind, data, after, ok := b.next(off)
		if !ok {
			return stampNs
		}
		if level == unix.SOL_SOCKET {
			switch {
			case kind == unix.SCM_TIMESTAMPNS && len(data) >= cmsgTimespec:
				s, ns := binary.NativeEndian.Uint64(data), binary.NativeEndian.Uint64(data[8:])
				stampNs = int64(s)*1e9 + int64(ns)
			case kind == unix.SO_RXQ_OVFL && len(data) >= 4:
				n.overflowed.Store(uint64(binary.NativeEndian.Uint32(data)))
			}
		}
		off = after
	}
}

// netError reads the error of a message from the error queue. Its extended error begins with the errno, u32.
func (b *inbox) netError() syscall.Errno {
	for off := 0; ; {
		level, kind, data, after, ok := b.next(off)
		if !ok {
			return unix.EPROTO // an error without its cause; no kernel sends that
		}
		if level == unix.IPPROTO_IP && kind == unix.IP_RECVERR && len(data) >= 4 {
			return syscall.Errno(binary.NativeEndian.Uint32(data))
		}
		off = after
	}
}
