package link

import (
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Counters is what a UDP has seen since it was opened. Received = Accepted + Foreign + the sum of Rejected.
type Counters struct {
	Received   uint64                  // datagrams taken from the socket
	Accepted   uint64                  // states handed out
	Rejected   [wire.NumRejects]uint64 // from the robot's address but no LowState, by reason
	Zeros      uint64                  // of those rejected for their head: a state's length and every byte 0
	Foreign    uint64                  // from another address or port, ignored whatever they hold
	Truncated  uint64                  // of those rejected as long: longer than the receive buffer, so cut
	Overflowed uint64                  // thrown away by the kernel: the receive queue was full

	Sent        uint64 // datagrams the kernel took
	SendErrors  uint64 // calls of Send that sent nothing
	Refused     uint64 // ICMP port unreachable: the machine is there and nothing listens on that port
	Unreachable uint64 // other network errors: no route, or nobody answers ARP for the address

	LastForeign    netip.AddrPort // the newest foreign sender; zero when there was none
	LastLength     int            // bytes of the newest datagram rejected for its length; -1 when there was none
	LastNetError   syscall.Errno  // the newest of Refused and Unreachable; 0 when there was none
	LastAcceptedNs int64          // CLOCK_MONOTONIC of the newest accepted state's arrival; 0 when there was none
}

// RejectedTotal is the sum of Rejected.
func (c *Counters) RejectedTotal() (n uint64) {
	for _, r := range c.Rejected {
		n += r
	}
	return n
}

// counters is Counters in atomics: one writer, any reader.
type counters struct {
	received, accepted, foreign, truncated, overflowed atomic.Uint64
	zeros                                              atomic.Uint64
	rejected                                           [wire.NumRejects]atomic.Uint64
	sent, sendErrors, refused, unreachable             atomic.Uint64
	lastForeign                                        atomic.Uint64 // address in bits 47..16, port in 15..0
	lastLength                                         atomic.Int64
	lastNetError                                       atomic.Uint64
	lastAcceptedNs                                     atomic.Int64
}

// read fills c. The values are each right but not of one moment.
func (k *counters) read(c *Counters) {
	c.Received, c.Accepted = k.received.Load(), k.accepted.Load()
	for i := range k.rejected {
		c.Rejected[i] = k.rejected[i].Load()
	}
	c.Zeros = k.zeros.Load()
	c.Foreign, c.Truncated, c.Overflowed = k.foreign.Load(), k.truncated.Load(), k.overflowed.Load()
	c.Sent, c.SendErrors = k.sent.Load(), k.sendErrors.Load()
	c.Refused, c.Unreachable = k.refused.Load(), k.unreachable.Load()
	c.LastForeign = unpackAddrPort(k.lastForeign.Load())
	c.LastLength = int(k.lastLength.Load())
	c.LastNetError = syscall.Errno(k.lastNetError.Load())
	c.LastAcceptedNs = k.lastAcceptedNs.Load()
}

// countNetError counts one error that the network reported for an earlier datagram.
func (k *counters) countNetError(errno syscall.Errno) {
	if errno == syscall.ECONNREFUSED {
		k.refused.Add(1)
	} else {
		k.unreachable.Add(1)
	}
	k.lastNetError.Store(uint64(errno))
}

func unpackAddrPort(v uint64) netip.AddrPort {
	if v == 0 {
		return netip.AddrPort{}
	}
	a := netip.AddrFrom4([4]byte{uint8(v >> 40), uint8(v >> 32), uint8(v >> 24), uint8(v >> 16)})
	return netip.AddrPortFrom(a, uint16(v))
}
