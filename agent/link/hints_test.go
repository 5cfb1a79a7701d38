package link_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// TestHints is rows 20, 21 and 23 of cases.md as far as counters can tell them: which cause, and what to do.
func TestHints(t *testing.T) {
	reject := func(r wire.Reject, length int) link.Counters {
		c := link.Counters{Sent: 10, Received: 3, LastLength: length}
		c.Rejected[r] = 3
		return c
	}
	for _, c := range []struct {
		name     string
		counters link.Counters
		want     []string // each in the hints, in this order
	}{
		{"all well", link.Counters{Sent: 10, Received: 10, Accepted: 10}, nil},
		{"nothing sent", link.Counters{}, []string{"Nothing has been sent to 192.168.123.10:8007 yet"}},
		{"no answer", link.Counters{Sent: 500}, []string{"No answer from 192.168.123.10:8007 to 500 commands",
			"Sport mode", "L2+A, L2+A, L2+B, then L1+L2+START", "CRC", "8090 or 8080"}},
		{"nothing listens", link.Counters{Sent: 5, Refused: 5, LastNetError: syscall.ECONNREFUSED},
			[]string{"192.168.123.10 is there, but nothing listens on port 8007"}},
		{"no ARP answer", link.Counters{Sent: 5, Unreachable: 3, LastNetError: syscall.EHOSTUNREACH},
			[]string{"cannot be reached", "no route to host", "192.168.123.0/24"}},
		{"cannot send", link.Counters{SendErrors: 4}, []string{"4 commands could not be sent"}},
		{"A1", reject(wire.RejectShort, 771), []string{"newest 771 bytes where a Go1's LowState has 807", "A1", "version", "Not one of 3"}},
		{"sport mode's port", reject(wire.RejectLong, 1087), []string{"1087 bytes", "HighState", "8007"}},
		{"echo", reject(wire.RejectShort, 614), []string{"LowCmd", "another client"}},
		{"high echo", reject(wire.RejectShort, 129), []string{"HighCmd", "another client"}},
		{"unknown short", reject(wire.RejectShort, 300), []string{"300 bytes", "another SDK or firmware version"}},
		{"unknown long", reject(wire.RejectLong, 900), []string{"900 bytes", "adds to the state"}},
		{"empty", reject(wire.RejectEmpty, 0), []string{"3 empty datagrams"}},
		{"head", reject(wire.RejectHead, -1), []string{"do not begin with FE EF", "another version"}},
		{"level", reject(wire.RejectLevel, -1), []string{"form for the other level"}},
		{"CRC", reject(wire.RejectCRC, -1), []string{"3 states with a wrong CRC", "(0 were good)"}},
		{"foreign", link.Counters{Sent: 5, Received: 2, Foreign: 2, LastForeign: loopback(9999)},
			[]string{"2 datagrams from elsewhere than 192.168.123.10:8007, newest from 127.0.0.1:9999"}},
		{"overflow", link.Counters{Sent: 5, Received: 2, Accepted: 2, Overflowed: 7}, []string{"7 datagrams lost", "stalled"}},
	} {
		hints := link.Hints(&c.counters, link.Go1Low)
		if c.want == nil && len(hints) > 0 {
			t.Errorf("%s: %q", c.name, hints)
		}
		rest := strings.Join(hints, "\n")
		for _, w := range c.want {
			_, after, found := strings.Cut(rest, w)
			if !found {
				t.Errorf("%s: no %q in\n%s", c.name, w, strings.Join(hints, "\n"))
				break
			}
			rest = after
		}
	}
}
