package main

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

func TestIdentity(t *testing.T) {
	cfg := defaultConfig()
	cfg.Robot = "udp://127.0.0.1:8007"
	var s wire.LowState
	if got, err := cfg.identity(&s); err != nil || !strings.HasPrefix(got, "host-") || !strings.HasSuffix(got, "-127.0.0.1-8007") || strings.ContainsAny(got, "/ \\") {
		t.Errorf("on this machine, without a serial number: %s %v", got, err)
	}
	for _, cfg.Robot = range []string{"udp://127.0.0.1:8007", "udp://192.168.123.10:8007"} {
		s.SN = [2]uint32{0xC1A, 7}
		if got, err := cfg.identity(&s); err != nil || got != "sn-00000c1a-00000007" {
			t.Errorf("%s %v", got, err)
		}
	}
}

// Rows of the kernel's table of hardware addresses.
const (
	arpBoard   = "192.168.123.10   0x1         0x2         00:80:e1:00:00:01     *        eth0"
	arpBoard2  = "192.168.123.10   0x1         0x2         00:80:e1:00:00:02     *        eth0"
	arpMute    = "192.168.123.10   0x1         0x0         00:00:00:00:00:00     *        eth0"
	arpPi      = "192.168.123.161  0x1         0x2         e4:5f:01:00:00:01     *        eth0"
	arpPi2     = "192.168.123.161  0x1         0x2         e4:5f:01:00:00:02     *        eth0"
	arpPiMute  = "192.168.123.161  0x1         0x0         00:00:00:00:00:00     *        eth0"
	arpPiZero  = "192.168.123.161  0x1         0x2         00:00:00:00:00:00     *        eth0"
	arpPiProxy = "192.168.123.161  0x1         0x2         00:80:e1:00:00:01     *        eth0"
)

// TestRobotsAtOneAddress: every Go1 is 192.168.123.10. One without a serial number is known by the hardware of both its computers, and does
// not stand on another's first contact: not where the main boards are alike and the other computer says nothing, nor where the kernel still
// holds what answered in the other robot. One that cannot be known does not stand, and a person is told what to do.
func TestRobotsAtOneAddress(t *testing.T) {
	table, asked, answer := testNeighbours(t)
	cfg := defaultConfig()
	cfg.FirstContact.Dir = t.TempDir()
	known := contacts{cfg: &cfg}
	var s wire.LowState
	loss := func() firstcontact.Behaviour { // of one that has found out nothing yet
		shown := contacts{cfg: &cfg}
		shown.see(&control.Snapshot{HaveState: true, State: s}, time.Now())
		return shown.linkLoss(&s)
	}
	table(arpBoard, arpPi)
	*answer = true
	id, err := cfg.identity(&s)
	if err != nil || id != "hw-0080e1000001-e45f01000001" || len(*asked) != 1 || (*asked)[0] != netip.MustParseAddr("192.168.123.161") {
		t.Fatalf("%q %v, asked %v", id, err, *asked)
	}
	for _, identity := range []string{id, "hw-0080e1000001"} { // and what was kept of a board alone
		c := contactOf(netip.MustParseAddrPort("127.0.0.1:8007"), true)
		c.Identity = identity
		c.LinkLoss = &linkLoss{Behaviour: firstcontact.Holds, Trials: lossTrials()}
		if err := c.store(cfg.FirstContact.Dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := known.mayStand(&s); err != nil {
		t.Errorf("the robot that has passed: %v", err)
	}
	if b := known.linkLoss(&s); b != firstcontact.Holds || loss() != b {
		t.Errorf("the robot that has passed: %v, %v", b, loss())
	}
	for _, c := range []struct {
		name    string
		answers bool
		rows    []string
		says    string
	}{
		{"another main board", true, []string{arpBoard2, arpPi}, "no result of hw-0080e1000002-e45f01000001"},
		{"another computer, the board alike", true, []string{arpBoard, arpPi2}, "no result of hw-0080e1000001-e45f01000002"},
		{"the board alone", false, []string{arpBoard}, "its computer at 192.168.123.161 does not answer there (TCP port 9, open or closed), so it cannot be told from another robot: wait until it has started and ask again"},
		{"the board, and what the kernel holds of another robot's computer", false, []string{arpBoard, arpPi}, "its computer at 192.168.123.161 does not answer there"},
		{"a computer that answers from no card", true, []string{arpBoard, arpPiMute}, "its computer at 192.168.123.161 does not answer there"},
		{"a computer behind a router", true, []string{arpBoard}, "its computer at 192.168.123.161 does not answer there"},
		{"a card without an address", true, []string{arpBoard, arpPiZero}, "its computer at 192.168.123.161 does not answer there"},
		{"a proxy", true, []string{arpBoard, arpPiProxy}, "192.168.123.10 and 192.168.123.161 have the same, 00:80:e1:00:00:01, so something between answers for them, or both are one computer's, and it cannot be told from another robot: connect this computer to the robot's own network, or say with --high"},
		{"nobody answers", true, []string{arpMute, arpPi}, "that of 192.168.123.10 is not known, so it cannot be told from another robot: connect this computer to the robot's own network"},
		{"behind a router", true, []string{arpPi}, "that of 192.168.123.10 is not known"},
	} {
		table(c.rows...)
		*answer = c.answers
		if err := known.mayStand(&s); !errors.Is(err, control.ErrNoFirstContact) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want a refusal that says %q", c.name, err, c.says)
		}
		if b := loss(); b != firstcontact.Unknown {
			t.Errorf("%s: %v", c.name, b)
		}
	}
	// Who wants to stand is always asked for.
	table(arpBoard, arpPi)
	*answer, *asked = true, nil
	for range 2 {
		if err := known.mayStand(&s); err != nil {
			t.Error(err)
		}
	}
	if len(*asked) != 2 {
		t.Errorf("asked %d times, want once for each that would stand", len(*asked))
	}
	neighbours = filepath.Join(t.TempDir(), "none")
	if err := known.mayStand(&s); !errors.Is(err, control.ErrNoFirstContact) || !strings.Contains(err.Error(), "none can be looked up") {
		t.Errorf("without a table: %v, want a refusal", err)
	}
}

// testNeighbours gives the test a table of its own, and the word of whoever is asked whether it answers.
func testNeighbours(t *testing.T) (table func(rows ...string), asked *[]netip.Addr, answer *bool) {
	t.Helper()
	path, ask := neighbours, answers
	t.Cleanup(func() { neighbours, answers = path, ask })
	neighbours = filepath.Join(t.TempDir(), "arp")
	asked, answer = new([]netip.Addr), new(bool)
	answers = func(a netip.Addr) bool {
		*asked = append(*asked, a)
		return *answer
	}
	return func(rows ...string) {
		t.Helper()
		text := "IP address       HW type     Flags       HW address            Mask     Device\n" + strings.Join(rows, "\n") + "\n"
		if err := os.WriteFile(neighbours, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}, asked, answer
}

// testCards gives the test cards of its own.
func testCards(t *testing.T, cards map[string]string) {
	t.Helper()
	was := ownCard
	t.Cleanup(func() { ownCard = was })
	ownCard = func(a netip.Addr) (net.HardwareAddr, bool) {
		text, ok := cards[a.String()]
		card, _ := net.ParseMAC(text)
		return card, ok
	}
}

// TestIdentityAboard: on the robot's own computer that one's card is this machine's, and need not be asked. Any other computer is a
// person's, which stands in front of each robot in turn: a robot is not known by it, and what does not listen there does not show that
// the robot's sport mode is off.
func TestIdentityAboard(t *testing.T) {
	table, asked, answer := testNeighbours(t)
	table(arpBoard, arpPi)
	*answer = true
	testCards(t, map[string]string{"192.168.123.161": "e4:5f:01:00:00:09", "192.168.123.100": "02:00:00:00:00:64", "192.168.123.101": ""})
	cfg := defaultConfig()
	if id, err := cfg.identity(new(wire.LowState)); err != nil || id != "hw-0080e1000001-e45f01000009" || len(*asked) != 0 {
		t.Errorf("aboard: %s %v; asked %v", id, err, *asked)
	}
	for _, row := range []struct {
		robot, high string
		check       string // of the configuration
		identity    string
	}{
		{"192.168.123.10:8007", "192.168.123.100:8082", "high: 192.168.123.100:8082 is this machine, but the robot is 192.168.123.10:8007; a Go1's is 192.168.123.161:8082",
			"192.168.123.100, where the second should be, is this computer itself; say with --high where it is (on a Go1 192.168.123.161:8082)"},
		{"192.168.123.10:8007", "192.168.123.101:8082", "high: 192.168.123.101:8082 is this machine", "192.168.123.101, where the second should be, is this computer itself"},
		{"192.168.123.10:8007", "192.168.123.161:8082", "", ""},
		{"192.168.123.20:8007", "", "", "that of the second is not known: 192.168.123.20 is its main board, and was taken for it; say with --high where it is (on a Go1 192.168.123.161:8082)"},
		{"192.168.123.100:8007", "192.168.123.101:8082", "", "192.168.123.101, where the second should be, is this computer itself"}, // a virtual one
		{"127.0.0.1:8007", "192.168.123.100:8082", "", ""},
	} {
		cfg.Robot, cfg.High = "udp://"+row.robot, row.high
		if err := cfg.Validate(); (err == nil) != (row.check == "") || err != nil && !strings.Contains(err.Error(), row.check) {
			t.Errorf("%s, high level %s: %v, want %q", row.robot, row.high, err, row.check)
		}
		if id, err := cfg.identity(new(wire.LowState)); (err == nil) != (row.identity == "") || err != nil && !strings.Contains(err.Error(), row.identity) {
			t.Errorf("%s, high level %s: %s %v, want %q", row.robot, row.high, id, err, row.identity)
		}
	}
}

// TestOwnCard: this machine's cards are known by their addresses, also one without a hardware address.
func TestOwnCard(t *testing.T) {
	if card, here := cardWith(netip.MustParseAddr("127.0.0.1")); card != nil || !here {
		t.Errorf("127.0.0.1: %s %v", card, here)
	}
	if card, here := cardWith(netip.MustParseAddr("192.0.2.1")); card != nil || here {
		t.Errorf("nobody's: %s %v", card, here)
	}
	if _, here := cardWith(ownAddr(t)); !here {
		t.Error("this machine's own is not known")
	}
}

// TestAnswers: a port where nobody listens answers, and so does one where somebody does; nobody answers for all.
func TestAnswers(t *testing.T) {
	if !answersTCP(netip.MustParseAddr("127.0.0.1")) {
		t.Error("this machine does not answer")
	}
	if answersTCP(netip.MustParseAddr("255.255.255.255")) {
		t.Error("nobody answers")
	}
}

// TestNamelessRobotOnThisMachine: what is behind an address of this machine's own and has no serial number may be another robot each time
// (a relay): what was found out of it holds until it is switched off, in standing up as in the hang test.
func TestNamelessRobotOnThisMachine(t *testing.T) {
	cfg := defaultConfig()
	cfg.Robot, cfg.FirstContact.Dir, cfg.FirstContact.Require = "udp://127.0.0.1:8007", t.TempDir(), true
	c := contactOf(cfg.low(), true)
	c.LinkLoss = &linkLoss{Behaviour: firstcontact.Holds, Trials: lossTrials()}
	c.stamp(time.Now().Add(-time.Hour))
	c.TickMs = 500e3
	for _, row := range []struct {
		name   string
		tickMs uint32
		sn     [2]uint32
		says   string
	}{
		{"still on", 500e3 + 3600e3, [2]uint32{}, ""},
		{"restarted", 20e3, [2]uint32{}, "It has been restarted since " + c.Date + "; without a serial number, and behind an address of this machine's own, it could be another robot"},
		{"another, on for longer", 9000e3, [2]uint32{}, "Since " + c.Date + " its clock has not gone as far as this computer's"},
		{"named", 20e3, [2]uint32{7, 7}, ""},
	} {
		s := wire.LowState{Tick: row.tickMs}
		s.SN = row.sn
		id, err := cfg.identity(&s)
		if err != nil {
			t.Fatal(err)
		}
		c.Identity = id
		if err := c.store(cfg.FirstContact.Dir); err != nil {
			t.Fatal(err)
		}
		known := contacts{cfg: &cfg}
		known.see(&control.Snapshot{HaveState: true, State: s}, time.Now())
		if b := known.linkLoss(&s); (b == firstcontact.Holds) != (row.says == "") {
			t.Errorf("%s, before it would stand: %s", row.name, b)
		}
		if err := known.mayStand(&s); (err == nil) != (row.says == "") || err != nil && (!errors.Is(err, control.ErrNoFirstContact) || !strings.Contains(err.Error(), row.says)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.says)
		}
		if b := known.linkLoss(&s); (b == firstcontact.Holds) != (row.says == "") {
			t.Errorf("%s: %s", row.name, b)
		}
	}
}
