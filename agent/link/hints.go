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

// Hints says in sentences what c means for somebody who waits for a robot's state, the likeliest cause first. None when
// states come and nothing else does. robot is the address c belongs to.
func Hints(c *Counters, robot netip.AddrPort) (hints []string) {
	add := func(format string, a ...any) { hints = append(hints, fmt.Sprintf(format, a...)) }
	rejected := c.RejectedTotal()
	if c.Unreachable > 0 {
		add("%v cannot be reached (%d times, newest cause: %v). Check cable and power, and that this computer has an address "+
			"in the robot's network; a Go1's is 192.168.123.0/24.", robot, c.Unreachable, c.LastNetError)
	}
	if c.Refused > 0 {
		add("%v is there, but nothing listens on port %d (%d refusals). The low level is on port %d of a Go1 at %v, "+
			"or on the port that a virtual robot printed.", robot.Addr(), robot.Port(), c.Refused, Go1Low.Port(), Go1Low.Addr())
	}
	if c.Sent > 0 && c.Received == 0 && c.Refused == 0 && c.Unreachable == 0 {
		add("No answer from %v to %d commands. Sport mode ignores low-level commands: %s If it is off, try the other CRC "+
			"form, and local port 8090 or 8080, which the maker's examples use.", robot, c.Sent, LowLevelHelp)
	}
	if c.Sent == 0 && c.SendErrors == 0 && c.Received == 0 {
		add("Nothing has been sent to %v yet, and a Go1 answers only commands.", robot)
	}
	if c.SendErrors > 0 {
		add("%d commands could not be sent from this computer.", c.SendErrors)
	}
	if n := c.Rejected[wire.RejectShort] + c.Rejected[wire.RejectLong]; n > 0 {
		add("%d datagrams of a wrong length, newest %d bytes where a Go1's LowState has %d: %s",
			n, c.LastLength, wire.LowStateSize, lengthHint(c.LastLength))
	}
	if n := c.Rejected[wire.RejectEmpty]; n > 0 {
		add("%d empty datagrams: another program at %v sends them, the robot does not.", n, robot)
	}
	if n := c.Rejected[wire.RejectHead]; n > 0 {
		add("%d datagrams of the right length that do not begin with FE EF (all zeros, for one): the sender is not ready, or "+
			"its SDK is another version than the firmware.", n)
	}
	if n := c.Rejected[wire.RejectLevel]; n > 0 {
		add("%d states whose CRC is in the form for the other level: the robot speaks the protocol at another level or with "+
			"another firmware version.", n)
	}
	if n := c.Rejected[wire.RejectCRC]; n > 0 {
		add("%d states with a wrong CRC: damaged on the way when few (%d were good), else another protocol version.", n, c.Accepted)
	}
	if c.Foreign > 0 {
		add("%d datagrams from elsewhere than %v, newest from %v: ignored. If that is the robot, give its address; "+
			"if not, stop that sender.", c.Foreign, robot, c.LastForeign)
	}
	if c.Overflowed > 0 {
		add("%d datagrams lost in this computer's receive queue: the agent was stalled.", c.Overflowed)
	}
	if c.Accepted == 0 && rejected > 0 {
		add("Not one of %d datagrams from %v was a Go1's LowState.", rejected, robot)
	}
	return hints
}

// lengthHint says what a datagram of n bytes may be.
func lengthHint(n int) string {
	switch n {
	case A1LowStateSize:
		return "that is the A1's and Aliengo's LowState (SDK 3.3), so this robot or its firmware is of another version; a Go1 wants SDK 3.8 and its firmware."
	case wire.HighStateSize:
		return "that is a HighState, so this address is sport mode's; the low level is on port 8007."
	case wire.LowCmdSize, A1LowCmdSize:
		return "that is a LowCmd, so this address is another client's, not the robot's."
	case wire.HighCmdSize:
		return "that is a HighCmd, so this address is another client's, not the robot's."
	}
	if n < wire.LowStateSize {
		return "no message we know; another SDK or firmware version, or another program."
	}
	return "no message we know; another SDK or firmware version that adds to the state, or another program."
}
