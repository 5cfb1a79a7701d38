package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

var (
	// neighbours is the kernel's table of hardware addresses.
	neighbours = "/proc/net/arp"
	// answers says whether the computer at an address answers now.
	answers = answersTCP
	// ownCard is this computer's own card with an address.
	ownCard = cardWith
)

// identity is the robot's serial number, where its states carry one, else the hardware addresses of its two computers: every Go1 has
// the same IP addresses, and some the maker of the chip's default for one of the two. Of a robot on this machine it is this computer's
// name and the address; see nameless. It is a file's name, too.
func (c *config) identity(s *wire.LowState) (string, error) {
	low := c.low()
	switch {
	case s.SN != [2]uint32{}:
		return fmt.Sprintf("sn-%08x-%08x", s.SN[0], s.SN[1]), nil
	case !low.Addr().IsLoopback():
		return hardwareIdentity(low.Addr(), c.high().Addr())
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, host)
	return fmt.Sprintf("host-%.64s-%s-%d", clean, low.Addr(), low.Port()), nil
}

// nameless says that nothing tells the robot of a state from others: it has no serial number, and this machine's own address. Behind that
// may be a relay, and behind the relay one Go1 today and another tomorrow. A result holds until it is switched off.
func (c *config) nameless(s *wire.LowState) bool {
	return s.SN == [2]uint32{} && c.low().Addr().IsLoopback()
}

// hardwareIdentity knows a robot that answers at low now by the network cards of both its computers, and never by one of them: two
// robots' main boards may have the same. Nor does the kernel's table do alone, which keeps for a while what answered in another robot: the
// high-level computer has to answer now, at the address that the table says. What sends states has just done so.
func hardwareIdentity(low, high netip.Addr) (string, error) {
	cannot := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("its states carry no serial number, so it is known by the hardware addresses of both its computers, and "+format, args...)
	}
	if low == high {
		return cannot("that of the second is not known: %s is its main board, and was taken for it; say with --high where it is (on a Go1 %s)", low, link.Go1High)
	}
	own, aboard := ownCard(high)
	if aboard && high != link.Go1High.Addr() {
		// A person's computer, whatever the configuration says of it: it would be the same one in front of each robot.
		return cannot("%s, where the second should be, is this computer itself; say with --high where it is (on a Go1 %s)", high, link.Go1High)
	}
	there := aboard || answers(high)
	table, err := os.ReadFile(neighbours)
	if err != nil {
		return cannot("none can be looked up: %w", err)
	}
	board := hardwareOf(table, low)
	computer := own
	if !aboard {
		computer = hardwareOf(table, high)
	}
	switch {
	case board == nil:
		return cannot("that of %s is not known, so it cannot be told from another robot: connect this computer to the robot's own network, without a router between", low)
	case !there || computer == nil:
		return cannot("its computer at %s does not answer there (TCP port %d, open or closed), so it cannot be told from another robot: wait until it has started and ask again, look at the cable, or say with --high where it is", high, answerPort)
	case bytes.Equal(board, computer):
		return cannot("%s and %s have the same, %s, so something between answers for them, or both are one computer's, and it cannot be told from another robot: connect this computer to the robot's own network, or say with --high where its second computer is (on a Go1 %s)", low, high, board, link.Go1High)
	}
	return fmt.Sprintf("hw-%x-%x", []byte(board), []byte(computer)), nil
}

// hardwareOf is what the text of the kernel's table says of an address; nil if nothing.
func hardwareOf(table []byte, a netip.Addr) net.HardwareAddr {
	at, _, _ := strings.Cut(arpEntry(bytes.NewReader(table), a), " ")
	mac, err := net.ParseMAC(at)
	if err != nil || !slices.ContainsFunc(mac, func(b byte) bool { return b != 0 }) {
		return nil
	}
	return mac
}

// cardWith is the hardware address of this computer's card with an address, nil where that has none; false if no card has it.
func cardWith(a netip.Addr) (net.HardwareAddr, bool) {
	cards, err := net.Interfaces()
	if err != nil {
		return nil, false
	}
	for _, card := range cards {
		addrs, err := card.Addrs()
		if err != nil {
			continue
		}
		for _, at := range addrs {
			if n, ok := at.(*net.IPNet); ok && n.IP.Equal(a.AsSlice()) {
				if len(card.HardwareAddr) == 0 {
					return nil, true
				}
				return card.HardwareAddr, true
			}
		}
	}
	return nil, false
}

const (
	answerPort     = 9                      // discard: hardly anybody listens, and it does nothing where somebody does
	answerPatience = 250 * time.Millisecond // on the robot's own network it takes less than 5
)

// answersTCP takes a connection for an answer, and a refusal: both come from the computer itself. The question went to the hardware
// address in the kernel's table, so whoever answers has it; a kernel that only holds it for valid has not asked for up to a minute.
func answersTCP(a netip.Addr) bool {
	conn, err := net.DialTimeout("tcp4", netip.AddrPortFrom(a, answerPort).String(), answerPatience)
	if err == nil {
		conn.Close()
	}
	return err == nil || errors.Is(err, unix.ECONNREFUSED)
}
