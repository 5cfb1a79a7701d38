package link_test

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// TestAdoptUDP: a duplicate sends from the same address, hears the same answers, and outlives the link that it is a duplicate of.
func TestAdoptUDP(t *testing.T) {
	r := linktest.New(t, linktest.Config{})
	first := dial(t, link.UDPConfig{Robot: r.Addr()})
	fd, err := unix.FcntlInt(uintptr(first.Fd()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := link.AdoptUDP(fd, link.UDPConfig{Robot: r.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	var cmd wire.LowCmd
	cmd.Init()
	frame, err := wire.AppendLowCmd(nil, &cmd, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Send(frame); err != nil {
		t.Fatal(err)
	}
	var s wire.LowState
	if !second.Wait(int64(patience)) {
		t.Fatal("no answer")
	}
	if _, ok := second.Receive(&s, link.Now()); !ok {
		t.Fatalf("no state: %+v", second.Counters())
	}
	f, _ := r.LastFrame()
	if f.From.Port() != first.LocalAddr().Port() || second.LocalAddr() != first.LocalAddr() {
		t.Errorf("sent from %v, the first link from %v, it says %v", f.From, first.LocalAddr(), second.LocalAddr())
	}
}

// TestAdoptRefuses what is no bound UDP socket of IPv4, and leaves it open.
func TestAdoptRefuses(t *testing.T) {
	robot := loopback(8007)
	open := func(domain, kind int) int {
		t.Helper()
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Close(fd); err != nil {
				t.Errorf("the caller's descriptor was closed: %v", err)
			}
		})
		return fd
	}
	connected := open(unix.AF_INET, unix.SOCK_DGRAM)
	if err := unix.Connect(connected, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 8007}); err != nil {
		t.Fatal(err)
	}
	bound := dial(t, link.UDPConfig{Robot: robot})
	for _, c := range []struct {
		name string
		fd   int
		cfg  link.UDPConfig
		says string
	}{
		{"no descriptor", -1, link.UDPConfig{Robot: robot}, "not a UDP socket"},
		{"TCP", open(unix.AF_INET, unix.SOCK_STREAM), link.UDPConfig{Robot: robot}, "its type is 1, want 2"},
		{"IPv6", open(unix.AF_INET6, unix.SOCK_DGRAM), link.UDPConfig{Robot: robot}, "its domain is 10, want 2"},
		{"Unix", open(unix.AF_UNIX, unix.SOCK_DGRAM), link.UDPConfig{Robot: robot}, "its domain is 1, want 2"},
		{"not bound", open(unix.AF_INET, unix.SOCK_DGRAM), link.UDPConfig{Robot: robot}, "not bound"},
		{"connected", connected, link.UDPConfig{Robot: robot}, "connected, to 127.0.0.1:8007"},
		{"no robot", bound.Fd(), link.UDPConfig{}, "robot address"},
		{"robot everywhere", bound.Fd(), link.UDPConfig{Robot: netip.MustParseAddrPort("0.0.0.0:8007")}, "robot address"},
		{"no CRC form", bound.Fd(), link.UDPConfig{Robot: robot, CRC: 9}, "CRC form 9"},
	} {
		if _, err := link.AdoptUDP(c.fd, c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}
