package link

import (
	"fmt"
	"net/netip"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Lengths of other messages that a robot with another SDK or firmware sends: the A1 and Aliengo of SDK 3.3.
const (
	// A1LowStateSize is the A1's low-level state, bytes (LOW_STATE_LENGTH in programs written for that SDK).
	A1LowStateSize = 771
	// A1LowCmdSize is the A1's low-level command, bytes.
	A1LowCmdSize = 610
)

// LowLevelHelp is how a person brings a Go1 from sport mode to low level with the hand remote, robot hung or lying.
const LowLevelHelp = "With the robot hung or lying, press L2+A, L2+A, L2+B, then L1+L2+START on its remote to leave sport mode."

// Hint is one thing that a link's counters show to somebody who waits for a robot's state.
type Hint struct {
	Code   string // one word for programs, one of HintCodes
	Text   string // what was seen
	Remedy string // what to do about it
	Severe bool   // it explains why states do not arrive; else they flow all the same
}

// HintCodes are the codes of Hints, in the order in which it gives them: the likeliest cause first.
var HintCodes = []string{
	"unreachable",     // no route, or nobody answers ARP
	"nothing_listens", // the machine is there, the port is closed
	"no_answer",       // commands leave and nothing at all comes
	"send_errors",     // this computer's network refuses to send
	"nothing_sent",    // no command has been sent, so no state is due
	"wrong_length",    // A1's state, sport mode's, a command's, or none we know
	"empty_datagrams", // of no bytes
	"zeros",           // a state's length, and only zero bytes
	"bad_head",        // a state's length, and not FE EF in front
	"level_flag",      // the CRC is in the other level's form
	"bad_crc",         // damaged
	"wrong_port",      // the robot's machine answers from another port
	"foreign_sender",  // somebody else sends to us
	"overflow",        // the receive queue was full
	"not_lowstate",    // all that came from the robot's address was refused, for the reasons above
}

// versions is what to do about a sender that speaks another protocol.
const versions = "The robot must be a Go1 whose firmware speaks SDK 3.8's protocol; compare its firmware version."

// Hints says what c means for somebody who waits for a robot's state, the likeliest cause first. None when states come
// and nothing else does. robot is the address c belongs to. It allocates: not for the control thread.
func Hints(c *Counters, robot netip.AddrPort) (hints []Hint) {
	add := func(code string, severe bool, remedy, format string, a ...any) {
		hints = append(hints, Hint{Code: code, Text: fmt.Sprintf(format, a...), Remedy: remedy, Severe: severe})
	}
	silent := c.Accepted == 0
	// spoilt: n bad datagrams are the trouble itself, not a few among good ones.
	spoilt := func(n uint64) bool { return n >= c.Accepted }

	if c.Unreachable > 0 {
		add("unreachable", silent, "Check cable and power, and that this computer has an address in the robot's network; a Go1's is 192.168.123.0/24.",
			"%v cannot be reached (%d times, newest cause: %v).", robot, c.Unreachable, c.LastNetError)
	}
	if c.Refused > 0 {
		add("nothing_listens", silent, fmt.Sprintf("The low level is on port %d of a Go1 at %v, or on the port that a virtual robot printed; is it started?",
			Go1Low.Port(), Go1Low.Addr()),
			"%v is there, but nothing listens on port %d (%d refusals).", robot.Addr(), robot.Port(), c.Refused)
	}
	if c.Sent > 0 && c.Received == 0 && c.Refused == 0 && c.Unreachable == 0 {
		add("no_answer", true, LowLevelHelp+" Else try the other CRC form (control.encrypt_crc), and to send from port 8090 or 8080 (--local), as the maker's examples do.",
			"No answer from %v to %d commands. Sport mode, for one, ignores low-level commands.", robot, c.Sent)
	}
	if c.SendErrors > 0 {
		add("send_errors", silent, "Look at this computer's network: `ip route get ADDRESS`, firewall, cable.",
			"%d commands to %v could not be sent from this computer.", c.SendErrors, robot)
	}
	if c.Sent == 0 && c.SendErrors == 0 && c.Received == 0 {
		add("nothing_sent", true, "Arm the agent, once the robot lies or hangs and a person stands beside it.",
			"Nothing has been sent to %v yet, and a Go1 answers only commands.", robot)
	}
	if n := c.Rejected[wire.RejectShort] + c.Rejected[wire.RejectLong]; n > 0 {
		what, remedy := lengthHint(c.LastLength)
		add("wrong_length", spoilt(n), remedy, "%d datagrams of a wrong length, newest %d bytes where a Go1's LowState has %d: %s.",
			n, c.LastLength, wire.LowStateSize, what)
	}
	if n := c.Rejected[wire.RejectEmpty]; n > 0 {
		add("empty_datagrams", spoilt(n), "Find that program and stop it; a robot sends none.",
			"%d empty datagrams: another program at %v sends them.", n, robot)
	}
	if c.Zeros > 0 {
		add("zeros", spoilt(c.Zeros), "Wait a minute after switching it on; if they stay, restart the robot.",
			"%d datagrams of a state's length that hold only zeros: the robot's main board is up and has no data to send.", c.Zeros)
	}
	if n := c.Rejected[wire.RejectHead] - min(c.Zeros, c.Rejected[wire.RejectHead]); n > 0 {
		add("bad_head", spoilt(n), versions, "%d datagrams of a state's length that do not begin with FE EF.", n)
	}
	if n := c.Rejected[wire.RejectLevel]; n > 0 {
		add("level_flag", spoilt(n), LowLevelHelp+" "+versions,
			"%d states whose CRC is in the form for the other level: the robot speaks at another level than low.", n)
	}
	if n := c.Rejected[wire.RejectCRC]; n > 0 {
		remedy := "Check plugs and cable: they were damaged on the way."
		if spoilt(n) {
			remedy = versions
		}
		add("bad_crc", spoilt(n), remedy, "%d states with a wrong CRC, %d good.", n, c.Accepted)
	}
	if c.Foreign > 0 {
		code, remedy := "foreign_sender", "If that is the robot, give its address with --robot; if not, stop that sender."
		if c.LastForeign.Addr() == robot.Addr() && silent {
			code, remedy = "wrong_port", fmt.Sprintf("Give the port that answers: --robot udp://%v.", c.LastForeign)
		}
		add(code, silent, remedy, "%d datagrams from elsewhere than %v, newest from %v: ignored.", c.Foreign, robot, c.LastForeign)
	}
	if c.Overflowed > 0 {
		add("overflow", false, "Take other load off this computer, or give the agent real-time rights.",
			"%d datagrams lost in this computer's receive queue: the agent was stalled.", c.Overflowed)
	}
	if n := c.RejectedTotal(); silent && n > 0 {
		add("not_lowstate", true, "See the reasons above.", "Not one of %d datagrams from %v was a Go1's LowState.", n, robot)
	}
	return hints
}

// lengthHint says what a datagram of n bytes may be, and what to do.
func lengthHint(n int) (what, remedy string) {
	const sender = "Find which program answers at that address; the robot's low level is not it."
	switch n {
	case A1LowStateSize:
		return "that is the A1's and Aliengo's LowState (SDK 3.3), so this robot or its firmware is of another version", versions
	case wire.HighStateSize:
		return "that is a HighState, so this is sport mode's address",
			fmt.Sprintf("Give the low level's port, %d on a Go1 at %v. %s", Go1Low.Port(), Go1Low.Addr(), LowLevelHelp)
	case wire.LowCmdSize, A1LowCmdSize:
		return "that is a LowCmd, so this is another client's address", sender
	case wire.HighCmdSize:
		return "that is a HighCmd, so this is another client's address", sender
	}
	if n < wire.LowStateSize {
		return "no message we know; another SDK or firmware version, or another program", versions
	}
	return "no message we know; another SDK or firmware version that adds to the state, or another program", versions
}
