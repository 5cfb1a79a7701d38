package link_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

func monotonic(t testing.TB) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

// silentPeer is a socket that nobody reads: what is sent there costs this process nothing.
func silentPeer(t testing.TB) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback(0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// TestNoAllocations pins the control thread's calls. What the robot does to send is done before counting begins.
func TestNoAllocations(t *testing.T) {
	const runs = 20
	for _, c := range []struct {
		name     string
		datagram []byte
		foreign  bool
	}{
		{"accepted", good(t, 1), false},
		{"corrupt", linktest.Corrupt(good(t, 1)), false},
		{"short", good(t, 1)[:100], false},
		{"long", linktest.Long(good(t, 1), 1400), false},
		{"empty", nil, false},
		{"zeros", make([]byte, wire.LowStateSize), false},
		{"foreign", good(t, 1), true},
	} {
		t.Run("receive/"+c.name, func(t *testing.T) {
			r, u := connect(t, link.UDPConfig{})
			batch := make([][]byte, 3*runs)
			for i := range batch {
				batch[i] = c.datagram
			}
			send := r.Send
			if c.foreign {
				send = func(d ...[]byte) error { return r.SendFrom(loopback(0), d...) }
			}
			if err := send(batch...); err != nil {
				t.Fatal(err)
			}
			if !u.Wait(int64(patience)) {
				t.Fatal("no datagram")
			}
			var s wire.LowState
			if n := testing.AllocsPerRun(runs, func() { u.Receive(&s, link.Now()) }); n != 0 {
				t.Errorf("%v allocations a call", n)
			}
			if u.Counters().Received == 0 {
				t.Error("nothing was received")
			}
		})
	}
	frame := commandFrame(t, nil)
	for _, c := range []struct {
		name  string
		robot netip.AddrPort
		frame []byte
	}{
		{"sent", silentPeer(t), frame},
		{"refused", closedPort(t), frame},
		{"failed", netip.MustParseAddrPort("255.255.255.255:8007"), frame},
		{"wrong size", silentPeer(t), frame[:600]},
	} {
		t.Run("send/"+c.name, func(t *testing.T) {
			u := dial(t, link.UDPConfig{Robot: c.robot})
			var s wire.LowState
			var counters link.Counters
			var last error
			if n := testing.AllocsPerRun(10*runs, func() {
				last = u.Send(c.frame)
				u.Receive(&s, link.Now())
				u.ReadCounters(&counters)
			}); n != 0 {
				t.Errorf("%v allocations a call", n)
			}
			t.Log(last)
		})
	}
	t.Run("wait", func(t *testing.T) {
		u := dial(t, link.UDPConfig{Robot: silentPeer(t)})
		if n := testing.AllocsPerRun(runs, func() { u.Wait(1) }); n != 0 {
			t.Errorf("%v allocations a call", n)
		}
	})
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		link.Now()
	}
}

func BenchmarkReceiveNothing(b *testing.B) {
	u := dial(b, link.UDPConfig{Robot: silentPeer(b)})
	var s wire.LowState
	b.ReportAllocs()
	for b.Loop() {
		u.Receive(&s, link.Now())
	}
}

func BenchmarkSend(b *testing.B) {
	u := dial(b, link.UDPConfig{Robot: silentPeer(b)})
	frame := commandFrame(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := u.Send(frame); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReceive is one state taken, decoded and timed; filling the queue is not counted.
func BenchmarkReceive(b *testing.B) {
	r, u := connect(b, link.UDPConfig{})
	frame := good(b, 1)
	var s wire.LowState
	var spent time.Duration
	var taken int
	for b.Loop() {
		if err := r.Send(frame, frame, frame, frame, frame, frame, frame, frame); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		for {
			if _, ok := u.Receive(&s, link.Now()); !ok {
				break
			}
			taken++
		}
		spent += time.Since(start)
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(max(taken, 1)), "ns/state")
}

// BenchmarkExchange is a command to the fake robot and its state back, two thread wake-ups included.
func BenchmarkExchange(b *testing.B) {
	_, u := connect(b, link.UDPConfig{})
	frame := commandFrame(b, nil)
	var s wire.LowState
	for b.Loop() {
		if err := u.Send(frame); err != nil {
			b.Fatal(err)
		}
		for ok := false; !ok; _, ok = u.Receive(&s, link.Now()) {
			if !u.Wait(int64(patience)) {
				b.Fatal("no answer")
			}
		}
	}
}
