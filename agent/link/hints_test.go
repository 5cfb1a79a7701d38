package link_test

import (
	"net/netip"
	"slices"
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
	zeros := reject(wire.RejectHead, -1)
	zeros.Zeros = 3
	mixed := zeros
	mixed.Rejected[wire.RejectHead], mixed.Received = 5, 5
	flowing := link.Counters{Sent: 500, Received: 503, Accepted: 497, LastForeign: loopback(9999)}
	flowing.Rejected[wire.RejectCRC], flowing.Foreign, flowing.Refused, flowing.SendErrors = 3, 3, 1, 1
	drowned := link.Counters{Sent: 500, Received: 500, Accepted: 10}
	drowned.Rejected[wire.RejectCRC] = 490
	robotsPort := netip.AddrPortFrom(link.Go1Low.Addr(), 9999)

	for _, c := range []struct {
		name     string
		counters link.Counters
		codes    string   // of all hints in order; those not severe in brackets
		want     []string // each in the texts and remedies, in this order
	}{
		{"all well", link.Counters{Sent: 10, Received: 10, Accepted: 10}, "", nil},
		{"nothing sent", link.Counters{}, "nothing_sent", []string{"Nothing has been sent to 192.168.123.10:8007 yet"}},
		{"no answer", link.Counters{Sent: 500}, "no_answer", []string{"No answer from 192.168.123.10:8007 to 500 commands",
			"Sport mode", "L2+A, L2+A, L2+B, then L1+L2+START", "CRC", "8090 or 8080"}},
		{"nothing listens", link.Counters{Sent: 5, Refused: 5, LastNetError: syscall.ECONNREFUSED}, "nothing_listens",
			[]string{"192.168.123.10 is there, but nothing listens on port 8007"}},
		{"no ARP answer", link.Counters{Sent: 5, Unreachable: 3, LastNetError: syscall.EHOSTUNREACH}, "unreachable",
			[]string{"cannot be reached", "no route to host", "192.168.123.0/24"}},
		{"cannot send", link.Counters{SendErrors: 4}, "send_errors", []string{"4 commands to 192.168.123.10:8007 could not be sent"}},
		{"A1", reject(wire.RejectShort, 771), "wrong_length not_lowstate",
			[]string{"newest 771 bytes where a Go1's LowState has 807", "A1", "version", "Not one of 3"}},
		{"sport mode's port", reject(wire.RejectLong, 1087), "wrong_length not_lowstate", []string{"1087 bytes", "HighState", "8007"}},
		{"echo", reject(wire.RejectShort, 614), "wrong_length not_lowstate", []string{"LowCmd", "another client"}},
		{"high echo", reject(wire.RejectShort, 129), "wrong_length not_lowstate", []string{"HighCmd", "another client"}},
		{"unknown short", reject(wire.RejectShort, 300), "wrong_length not_lowstate", []string{"300 bytes", "another SDK or firmware version"}},
		{"unknown long", reject(wire.RejectLong, 900), "wrong_length not_lowstate", []string{"900 bytes", "adds to the state"}},
		{"empty", reject(wire.RejectEmpty, 0), "empty_datagrams not_lowstate", []string{"3 empty datagrams"}},
		{"zeros", zeros, "zeros not_lowstate", []string{"3 datagrams of a state's length that hold only zeros", "restart the robot"}},
		{"head", reject(wire.RejectHead, -1), "bad_head not_lowstate", []string{"3 datagrams", "do not begin with FE EF", "firmware version"}},
		{"zeros and head", mixed, "zeros bad_head not_lowstate", []string{"3 datagrams", "2 datagrams", "Not one of 5"}},
		{"level", reject(wire.RejectLevel, -1), "level_flag not_lowstate", []string{"form for the other level", "L2+A"}},
		{"CRC", reject(wire.RejectCRC, -1), "bad_crc not_lowstate", []string{"3 states with a wrong CRC, 0 good", "firmware version"}},
		{"mostly bad CRC", drowned, "bad_crc", []string{"490 states with a wrong CRC, 10 good"}},
		{"foreign", link.Counters{Sent: 5, Received: 2, Foreign: 2, LastForeign: loopback(9999)}, "foreign_sender",
			[]string{"2 datagrams from elsewhere than 192.168.123.10:8007, newest from 127.0.0.1:9999"}},
		{"wrong port", link.Counters{Sent: 5, Received: 2, Foreign: 2, LastForeign: robotsPort}, "wrong_port",
			[]string{"newest from 192.168.123.10:9999", "--robot udp://192.168.123.10:9999"}},
		{"overflow", link.Counters{Sent: 5, Received: 2, Accepted: 2, Overflowed: 7}, "(overflow)", []string{"7 datagrams lost", "stalled"}},
		{"states flow all the same", flowing, "(nothing_listens) (send_errors) (bad_crc) (foreign_sender)",
			[]string{"3 states with a wrong CRC, 497 good", "damaged on the way"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var codes, said []string
			for _, h := range link.Hints(&c.counters, link.Go1Low) {
				if !slices.Contains(link.HintCodes, h.Code) {
					t.Errorf("code %s is not one of HintCodes", h.Code)
				}
				if h.Text == "" || h.Remedy == "" {
					t.Errorf("%+v: want a text and a remedy", h)
				}
				said = append(said, h.Text, h.Remedy)
				if code := h.Code; h.Severe {
					codes = append(codes, code)
				} else {
					codes = append(codes, "("+code+")")
				}
			}
			if got := strings.Join(codes, " "); got != c.codes {
				t.Errorf("codes %s, want %s", got, c.codes)
			}
			rest := strings.Join(said, "\n")
			for _, w := range c.want {
				_, after, found := strings.Cut(rest, w)
				if !found {
					t.Fatalf("no %q in\n%s", w, strings.Join(said, "\n"))
				}
				rest = after
			}
		})
	}
}

// TestZerosAreCountedApart: a board without data is told from a sender of another protocol, and only by whole states.
func TestZerosAreCountedApart(t *testing.T) {
	r, u := connect(t, link.UDPConfig{})
	almost := make([]byte, wire.LowStateSize)
	almost[wire.LowStateSize-1] = 1
	if err := r.Send(make([]byte, wire.LowStateSize), almost, make([]byte, 771), make([]byte, wire.LowStateSize)); err != nil {
		t.Fatal(err)
	}
	if ticks := receiveAll(t, u, 4); ticks != nil {
		t.Errorf("taken: %v", ticks)
	}
	c := u.Counters()
	if c.Zeros != 2 || c.Rejected[wire.RejectHead] != 3 || c.Rejected[wire.RejectShort] != 1 {
		t.Errorf("%+v, want 2 of zeros among 3 without a head, 1 short", c)
	}
}

// hintText is all texts and remedies, for tests that look for a word.
func hintText(c *link.Counters, robot netip.AddrPort) string {
	var b strings.Builder
	for _, h := range link.Hints(c, robot) {
		b.WriteString(h.Text + " " + h.Remedy + "\n")
	}
	return b.String()
}
