package link

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The Go1's own network, from the maker's headers and examples.
var (
	// Go1Low is where a Go1 takes low-level commands.
	Go1Low = netip.MustParseAddrPort("192.168.123.10:8007")
	// Go1High is where its sport mode answers, on another of its computers.
	Go1High = netip.MustParseAddrPort("192.168.123.161:8082")
)

// highPortOffset is how far above the low-level port sport mode listens, where both share a host.
const highPortOffset = 8082 - 8007

// ParseRobot reads a robot's address, such as "udp://192.168.123.10:8007": an IPv4 address and a port, nothing behind it.
// The schemes serial:// and bridge:// are known by name and refused as not available.
func ParseRobot(s string) (netip.AddrPort, error) {
	bad := func(format string, a ...any) (netip.AddrPort, error) {
		return netip.AddrPort{}, fmt.Errorf("link: robot %s: %s", quote(s), fmt.Sprintf(format, a...))
	}
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		return bad("no scheme, want udp://ADDRESS:PORT such as udp://%v", Go1Low)
	}
	switch scheme {
	case "udp":
	case "serial", "bridge":
		return bad("%s:// is not available in this version, only udp://", scheme)
	default:
		return bad("unknown scheme %s, want udp://", quote(scheme))
	}
	host, port, found := cutLast(rest, ":")
	if !found {
		return bad("no port, want udp://ADDRESS:PORT such as udp://%v", Go1Low)
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return bad("%s is not an IPv4 address (names are not looked up)", quote(host))
	case !addr.Is4():
		return bad("%v is not an IPv4 address", addr)
	case addr.IsUnspecified(), addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return bad("%v is not the address of one machine", addr)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '+' {
		return bad("port %s is not a number from 1 to 65535", quote(port))
	}
	return netip.AddrPortFrom(addr, uint16(n)), nil
}

// quote shows text from outside in an error: quoted, and cut where it is too long to read.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// DefaultHigh is where sport mode answers for a robot whose low level is at robot: 192.168.123.161:8082 for a
// Go1's own address, else the same host and port + 75 (8007 to 8082). The zero AddrPort when that port does not exist.
func DefaultHigh(robot netip.AddrPort) netip.AddrPort {
	if robot.Addr() == Go1Low.Addr() {
		return Go1High
	}
	port := int(robot.Port()) + highPortOffset
	if port > 0xFFFF {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(robot.Addr(), uint16(port))
}
