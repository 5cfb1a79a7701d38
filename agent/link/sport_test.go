package link_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

func TestProbeSportOn(t *testing.T) {
	r := linktest.New(t, linktest.Config{Sport: true})
	report, err := link.ProbeSport(t.Context(), r.HighAddr(), patience)
	if err != nil {
		t.Fatal(err)
	}
	if report.Result != link.SportOn || report.Mode != wire.HighModeIdle || report.Sent < 1 || report.RoundTrip <= 0 || report.BodyHeight != 0.28 {
		t.Errorf("%+v", report)
	}
	if _, limp := r.Limp(); limp {
		t.Error("the probe made the robot go limp")
	}
	if n := r.Count(); n != 0 {
		t.Errorf("%d frames came to the low level", n)
	}
	// What was sent moves nothing: mode 0, and all but head, level flag and CRC zero.
	for _, f := range r.HighFrames() {
		var cmd wire.HighCmd
		form, err := wire.DecodeHighCmd(f, &cmd)
		if err != nil || form != wire.PlainCRC || f[2] != wire.LevelHigh {
			t.Fatalf("probe frame %x: %v, %v", f, form, err)
		}
		if !bytes.Equal(f[3:wire.HighCmdSize-4], make([]byte, wire.HighCmdSize-7)) {
			t.Errorf("probe frame %x asks for something", f)
		}
	}
}

func TestProbeSportRefused(t *testing.T) {
	r := linktest.New(t, linktest.Config{Sport: true})
	r.LeaveSport()
	report, err := link.ProbeSport(t.Context(), r.HighAddr(), patience)
	if err != nil || report.Result != link.SportRefused {
		t.Errorf("%+v, %v", report, err)
	}
}

// answering is a peer that answers each datagram with these; none: with nothing.
func answering(t *testing.T, answers ...[]byte) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback(0)))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { c.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			_, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			for _, a := range answers {
				c.WriteToUDPAddrPort(a, from)
			}
		}
	}()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestProbeSportSilentAndUnclear(t *testing.T) {
	report, err := link.ProbeSport(t.Context(), answering(t), 50*time.Millisecond)
	if err != nil || report.Result != link.SportSilent || report.Sent < 1 || report.RoundTrip != 0 {
		t.Errorf("silent peer: %+v, %v", report, err)
	}
	var s wire.HighState
	s.Init()
	s.Mode = wire.HighModeVelocityWalk
	state, err := wire.AppendHighState(nil, &s, wire.EncryptedCRC)
	if err != nil {
		t.Fatal(err)
	}
	garbage := [][]byte{nil, {1, 2, 3}, linktest.Corrupt(state), linktest.Long(state, 1088), good(t, 1)}
	report, err = link.ProbeSport(t.Context(), answering(t, garbage...), 50*time.Millisecond)
	if err != nil || report.Result != link.SportUnclear || report.Rejected < len(garbage) || !strings.HasPrefix(report.LastReject, "wire: HighState: ") {
		t.Errorf("peer that speaks otherwise: %+v, %v", report, err)
	}
	report, err = link.ProbeSport(t.Context(), answering(t, append(garbage, state)...), patience)
	if err != nil || report.Result != link.SportOn || report.Mode != wire.HighModeVelocityWalk || report.Rejected != len(garbage) {
		t.Errorf("HighState behind others: %+v, %v", report, err)
	}
}

func TestProbeSportErrors(t *testing.T) {
	for _, c := range []struct {
		high    netip.AddrPort
		timeout time.Duration
		want    string
	}{
		{netip.AddrPort{}, time.Second, "link: sport mode's address"},
		{loopback(0), time.Second, "link: sport mode's address 127.0.0.1:0"},
		{netip.MustParseAddrPort("[::1]:8082"), time.Second, "link: sport mode's address [::1]:8082"},
		{loopback(8082), 0, "timeout 0s is not positive"},
	} {
		if _, err := link.ProbeSport(t.Context(), c.high, c.timeout); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.high, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if report, err := link.ProbeSport(ctx, answering(t), patience); !errors.Is(err, context.Canceled) || report.Sent != 0 {
		t.Errorf("cancelled: %+v, %v", report, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := link.ProbeSport(ctx, answering(t), patience); err != nil {
		t.Errorf("the caller's deadline is a timeout like ours: %v", err)
	}
}

func TestSportResultNames(t *testing.T) {
	for r, want := range map[link.SportResult]string{
		link.SportSilent: "silent", link.SportOn: "on", link.SportRefused: "refused", link.SportUnclear: "unclear", 9: "unknown",
	} {
		if r.String() != want {
			t.Errorf("%d: %s, want %s", r, r, want)
		}
	}
}
