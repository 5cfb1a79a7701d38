package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// SportResult is what a probe found at the high-level address.
type SportResult uint8

const (
	// SportSilent: no answer of any kind in time. Nothing is proven: the machine may be off, or another network's.
	SportSilent SportResult = iota
	// SportOn: a valid HighState came, so sport mode runs.
	SportOn
	// SportRefused: ICMP says that nothing listens on that port of a machine that is there, so sport mode is off.
	SportRefused
	// SportUnclear: datagrams came, but none was a HighState. Something runs there; not to be taken for off.
	SportUnclear
)

var sportResults = [...]string{"silent", "on", "refused", "unclear"}

// String is the result in one word: silent, on, refused, unclear.
func (r SportResult) String() string {
	if int(r) < len(sportResults) {
		return sportResults[r]
	}
	return "unknown"
}

// SportReport is the outcome of ProbeSport.
type SportReport struct {
	Result     SportResult
	Mode       uint8          // of the HighState, wire.HighModeIdle and so on; SportOn only
	GaitType   uint8          // likewise
	BodyHeight float32        // m, likewise
	Sent       int            // frames sent
	Rejected   int            // answers that were no HighState
	LastReject string         // why the newest of them was none
	RoundTrip  time.Duration  // first frame to the answer that decided; 0 for SportSilent
	Local      netip.AddrPort // where the probe sent from
}

// sportPeriod is the time between two frames of a probe. Slower than any real client: one answer is enough.
const sportPeriod = 20 * time.Millisecond

// ProbeSport asks the high-level service at high whether sport mode runs, for at most timeout. It sends HighCmd frames of
// mode 0 (idle), all else zero, plain CRC: what the maker's examples send to read the high-level state, and moves nothing.
// It never sends a low-level frame, at which a robot in sport mode goes limp. An error is one of the computer's own
// network or of ctx, not of the robot; the report then holds what was seen so far.
func ProbeSport(ctx context.Context, high netip.AddrPort, timeout time.Duration) (SportReport, error) {
	var r SportReport
	if !high.IsValid() || high.Port() == 0 || !high.Addr().Unmap().Is4() {
		return r, fmt.Errorf("link: sport mode's address %v: want an IPv4 address and a port", high)
	}
	if timeout <= 0 {
		return r, fmt.Errorf("link: sport mode at %v: timeout %v is not positive", high, timeout)
	}
	conn, err := dialHigh(high)
	if err != nil {
		return r, fmt.Errorf("link: sport mode at %v: %w", high, err)
	}
	defer conn.Close()
	r.Local = localOf(conn)

	var cmd wire.HighCmd
	cmd.Init()
	frame, err := wire.AppendHighCmd(nil, &cmd, wire.PlainCRC)
	if err != nil {
		return r, fmt.Errorf("link: sport mode at %v: %w", high, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// A deadline in the past ends a read at once, so a cancelled context does not wait for the period's end.
	unwatch := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer unwatch()

	start := time.Now()
	decided := func(result SportResult) (SportReport, error) {
		r.Result, r.RoundTrip = result, time.Since(start)
		return r, nil
	}
	var state wire.HighState
	buf := make([]byte, wire.HighStateSize+1) // one more, so that a longer answer is seen to be longer
	for ctx.Err() == nil {
		switch _, err := conn.Write(frame); {
		case errors.Is(err, syscall.ECONNREFUSED):
			return decided(SportRefused)
		case err != nil:
			return r, fmt.Errorf("link: sport mode at %v: %w", high, err)
		}
		r.Sent++
		if err := conn.SetReadDeadline(time.Now().Add(sportPeriod)); err != nil {
			return r, fmt.Errorf("link: sport mode at %v: %w", high, err)
		}
		for ctx.Err() == nil {
			n, err := conn.Read(buf)
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
			case errors.Is(err, syscall.ECONNREFUSED):
				return decided(SportRefused)
			case err != nil:
				return r, fmt.Errorf("link: sport mode at %v: %w", high, err)
			default:
				if err := wire.DecodeHighState(buf[:n], &state); err != nil {
					r.Rejected++
					r.LastReject = err.Error()
					continue
				}
				r.Mode, r.GaitType, r.BodyHeight = state.Mode, state.GaitType, state.BodyHeight
				return decided(SportOn)
			}
			break
		}
	}
	if r.Rejected > 0 {
		r.Result = SportUnclear
	}
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return r, fmt.Errorf("link: sport mode at %v: %w", high, err)
	}
	return r, nil
}

// dialHigh opens a socket for a probe. Where high is on this machine and nothing listens there, the kernel may choose that
// very port to send from, and the probe would hear its own frames: then another is taken while the first is held.
func dialHigh(high netip.AddrPort) (*net.UDPConn, error) {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(high))
	if err != nil || localOf(conn).Port() != high.Port() {
		return conn, err
	}
	defer conn.Close()
	return net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(high))
}

func localOf(conn *net.UDPConn) netip.AddrPort { return conn.LocalAddr().(*net.UDPAddr).AddrPort() }
