package link_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

const patience = 10 * time.Second // for what must happen, however busy the machine

// loopback is 127.0.0.1 with port.
func loopback(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
}

// connect is a link to a robot that already knows where it is.
func connect(t testing.TB, cfg link.UDPConfig) (*linktest.Robot, *link.UDP) {
	t.Helper()
	r := linktest.New(t, linktest.Config{})
	cfg.Robot = r.Addr()
	u := dial(t, cfg)
	r.SetClient(loopback(u.LocalAddr().Port()))
	return r, u
}

func dial(t testing.TB, cfg link.UDPConfig) *link.UDP {
	t.Helper()
	u, err := link.DialUDP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

// stateFrame is a good LowState that tick tells apart.
func stateFrame(t testing.TB, tick uint32, alter func(*wire.LowState), form wire.CRCForm) []byte {
	t.Helper()
	var s wire.LowState
	s.Init()
	s.Tick = tick
	s.IMU.Quaternion[0] = 1
	if alter != nil {
		alter(&s)
	}
	b, err := wire.AppendLowState(nil, &s, form)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func good(t testing.TB, tick uint32) []byte { return stateFrame(t, tick, nil, wire.PlainCRC) }

// receiveAll takes datagrams until want have been taken, and returns the ticks of those accepted.
func receiveAll(t testing.TB, u *link.UDP, want uint64) (ticks []uint32) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		var s wire.LowState
		if _, ok := u.Receive(&s, link.Now()); ok {
			ticks = append(ticks, s.Tick)
			continue
		}
		if got := u.Counters().Received; got == want {
			return ticks
		} else if got > want || time.Now().After(end) {
			t.Fatalf("%d datagrams received, want %d", got, want)
		}
		u.Wait(int64(time.Second))
	}
}

// TestReceiverTable sends what shared/wire/README.md says the maker's receiver was given, over real sockets. The outcome
// is ours: each datagram judged alone, in its true length, and none lost to another.
func TestReceiverTable(t *testing.T) {
	one, two := good(t, 1), good(t, 2)
	otherHead := append([]byte(nil), one...)
	otherHead[0], otherHead[1] = 0xEF, 0xFE
	level := func(flag uint8, form wire.CRCForm) []byte {
		return stateFrame(t, 1, func(s *wire.LowState) { s.LevelFlag = flag }, form)
	}
	foreignBytes := bytes.Repeat([]byte{0x7F}, 100)
	type reject = map[wire.Reject]uint64
	for _, c := range []struct {
		name     string
		send     [][]byte
		ticks    []uint32
		rejected reject
	}{
		{"good frame", [][]byte{one}, []uint32{1}, nil},
		{"nothing waiting", nil, nil, nil},
		{"head not FE EF", [][]byte{otherHead}, nil, reject{wire.RejectHead: 1}},
		{"all zero", [][]byte{make([]byte, wire.LowStateSize)}, nil, reject{wire.RejectHead: 1}},
		{"CRC wrong", [][]byte{linktest.Corrupt(one)}, nil, reject{wire.RejectCRC: 1}},
		{"level EE with plain CRC", [][]byte{level(0xEE, wire.PlainCRC)}, nil, reject{wire.RejectLevel: 1}},
		{"level EE with encrypted CRC", [][]byte{level(0xEE, wire.EncryptedCRC)}, []uint32{1}, nil},
		{"levels FF 00 01 F0 FE with plain CRC", [][]byte{level(0xFF, wire.PlainCRC), level(0x00, wire.PlainCRC),
			level(0x01, wire.PlainCRC), level(0xF0, wire.PlainCRC), level(0xFE, wire.PlainCRC)}, []uint32{1, 1, 1, 1, 1}, nil},
		{"level FF with encrypted CRC", [][]byte{level(0xFF, wire.EncryptedCRC)}, nil, reject{wire.RejectLevel: 1}},
		{"too short", [][]byte{one[:806], one[:100], one[:22], one[:1]}, nil, reject{wire.RejectShort: 4}},
		{"too long, first 807 good", [][]byte{linktest.Long(one, 808), linktest.Long(one, 1087), linktest.Long(one, 1472)},
			nil, reject{wire.RejectLong: 3}},
		{"tick the same", [][]byte{one, one}, []uint32{1, 1}, nil},
		{"tick going back", [][]byte{two, one}, []uint32{2, 1}, nil},
		{"five good ones waiting", [][]byte{good(t, 5), good(t, 6), good(t, 7), good(t, 8), good(t, 9)},
			[]uint32{5, 6, 7, 8, 9}, nil},
		{"good, then corrupt", [][]byte{one, linktest.Corrupt(two)}, []uint32{1}, reject{wire.RejectCRC: 1}},
		{"corrupt, then good", [][]byte{linktest.Corrupt(one), two}, []uint32{2}, reject{wire.RejectCRC: 1}},
		{"good, then short with the same first bytes", [][]byte{one, one[:400]}, []uint32{1}, reject{wire.RejectShort: 1}},
		{"good, then short with other bytes", [][]byte{one, foreignBytes}, []uint32{1}, reject{wire.RejectShort: 1}},
		{"short with the first bytes, then the rest", [][]byte{one[:400], one[400:]}, nil, reject{wire.RejectShort: 2}},
		{"empty, then good", [][]byte{{}, one}, []uint32{1}, reject{wire.RejectEmpty: 1}},
		{"good between every other kind", [][]byte{{}, one[:806], otherHead, linktest.Long(one, 900),
			level(0xEE, wire.PlainCRC), two, linktest.Corrupt(one)}, []uint32{2}, reject{wire.RejectEmpty: 1, wire.RejectShort: 1,
			wire.RejectHead: 1, wire.RejectLong: 1, wire.RejectLevel: 1, wire.RejectCRC: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, u := connect(t, link.UDPConfig{})
			if err := r.Send(c.send...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.ticks, receiveAll(t, u, uint64(len(c.send)))); diff != "" {
				t.Errorf("accepted ticks, -want +got:\n%s", diff)
			}
			got := u.Counters()
			want := link.Counters{
				Received: uint64(len(c.send)), Accepted: uint64(len(c.ticks)),
				LastLength: got.LastLength, LastAcceptedNs: got.LastAcceptedNs,
			}
			for reason, n := range c.rejected {
				want.Rejected[reason] = n
			}
			for _, d := range c.send {
				if bytes.Equal(d, make([]byte, wire.LowStateSize)) {
					want.Zeros++
				}
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Errorf("counters, -want +got:\n%s", diff)
			}
		})
	}
}

// TestOneBitFlipped flips one bit in each of the 807 bytes. Only the three bytes that no CRC covers may differ.
func TestOneBitFlipped(t *testing.T) {
	r, u := connect(t, link.UDPConfig{})
	frame := good(t, 1)
	for i := range frame {
		bad := append([]byte(nil), frame...)
		bad[i] ^= 1 << (i % 8)
		if err := r.Send(bad); err != nil {
			t.Fatal(err)
		}
		accepted := len(receiveAll(t, u, uint64(i+1))) == 1
		if covered := i < 800 || i > 802; accepted == covered {
			t.Errorf("bit flipped in byte %d: accepted %v", i, accepted)
		}
	}
	c := u.Counters()
	if c.Rejected[wire.RejectHead] != 2 || c.Rejected[wire.RejectCRC] != 802 {
		t.Errorf("head %d, CRC %d; want 2, 802", c.Rejected[wire.RejectHead], c.Rejected[wire.RejectCRC])
	}
}

func TestRefusedLeavesStateAlone(t *testing.T) {
	r, u := connect(t, link.UDPConfig{})
	if err := r.Send(linktest.Corrupt(good(t, 1)), good(t, 1)[:800]); err != nil {
		t.Fatal(err)
	}
	s := wire.LowState{Tick: 77}
	s.IMU.Temperature = 12
	want := s
	for u.Counters().Received < 2 {
		u.Wait(int64(patience))
		if _, ok := u.Receive(&s, link.Now()); ok {
			t.Fatal("accepted")
		}
	}
	if s != want {
		t.Error("a refused datagram changed the state")
	}
}

// TestFloodIsBounded: one call throws 64 away and no more, and a later one comes to the good frame behind.
func TestFloodIsBounded(t *testing.T) {
	r, u := connect(t, link.UDPConfig{})
	bad := make([][]byte, 70)
	for i := range bad {
		bad[i] = []byte{1, 2, 3}
	}
	if err := r.Send(append(bad, good(t, 3))...); err != nil {
		t.Fatal(err)
	}
	var s wire.LowState
	var calls int
	for end := time.Now().Add(patience); ; calls++ {
		before := u.Counters().Received
		_, ok := u.Receive(&s, link.Now())
		if n := u.Counters().Received - before; n > 64 {
			t.Fatalf("one call took %d datagrams", n)
		}
		if ok {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the good frame never came")
		}
	}
	if c := u.Counters(); s.Tick != 3 || calls == 0 || c.Rejected[wire.RejectShort] != 70 {
		t.Errorf("tick %d after %d calls, %d short", s.Tick, calls, c.Rejected[wire.RejectShort])
	}
}

func TestForeignSenders(t *testing.T) {
	r, u := connect(t, link.UDPConfig{})
	otherAddr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 2}), r.Addr().Port())
	if err := r.SendFrom(loopback(0), good(t, 1), []byte("hello"), nil); err != nil {
		t.Fatal(err)
	}
	if ticks := receiveAll(t, u, 3); ticks != nil {
		t.Errorf("another port's states taken: %v", ticks)
	}
	if from := u.Counters().LastForeign; from.Addr() != r.Addr().Addr() || from.Port() == 0 || from.Port() == r.Addr().Port() {
		t.Errorf("last foreign sender %v, want another port of %v", from, r.Addr().Addr())
	}
	if err := r.SendFrom(otherAddr, good(t, 2)); err != nil {
		t.Fatal(err)
	}
	if err := r.Send(good(t, 3)); err != nil {
		t.Fatal(err)
	}
	if ticks := receiveAll(t, u, 5); len(ticks) != 1 || ticks[0] != 3 {
		t.Errorf("ticks %v, want the robot's 3", ticks)
	}
	c := u.Counters()
	if c.Foreign != 4 || c.Accepted != 1 || c.RejectedTotal() != 0 || c.LastForeign != otherAddr {
		t.Errorf("%+v, want 4 foreign, the last from %v", c, otherAddr)
	}
}

// TestOtherFirmware is row 23 of cases.md: a datagram of the A1's length, and one of no bytes.
func TestOtherFirmware(t *testing.T) {
	r, u := connect(t, link.UDPConfig{})
	a1 := linktest.Short(good(t, 1), link.A1LowStateSize)
	if err := r.Send(nil, a1); err != nil {
		t.Fatal(err)
	}
	if ticks := receiveAll(t, u, 2); ticks != nil {
		t.Errorf("taken: %v", ticks)
	}
	c := u.Counters()
	if c.Rejected[wire.RejectEmpty] != 1 || c.Rejected[wire.RejectShort] != 1 || c.LastLength != 771 {
		t.Errorf("%+v, want 1 empty, 1 short of 771 bytes", c)
	}
	hints := hintText(&c, r.Addr())
	for _, want := range []string{"771 bytes", "A1", "SDK 3.3", "1 empty datagrams", "Not one of 2"} {
		if !strings.Contains(hints, want) {
			t.Errorf("hints lack %q:\n%s", want, hints)
		}
	}
}

func TestLongerThanBufferIsCounted(t *testing.T) {
	r, u := connect(t, link.UDPConfig{})
	if err := r.Send(linktest.Long(good(t, 1), 5000), good(t, 2)); err != nil {
		t.Fatal(err)
	}
	if ticks := receiveAll(t, u, 2); len(ticks) != 1 || ticks[0] != 2 {
		t.Errorf("ticks %v, want 2", ticks)
	}
	if c := u.Counters(); c.Rejected[wire.RejectLong] != 1 || c.Truncated != 1 || c.LastLength != 5000 {
		t.Errorf("%+v, want 1 long of 5000 bytes, truncated", c)
	}
}

func TestOverflowIsCounted(t *testing.T) {
	r, u := connect(t, link.UDPConfig{ReceiveBuffer: 4096})
	const sent = 100
	for range sent {
		if err := r.Send(good(t, 1)); err != nil {
			t.Fatal(err)
		}
	}
	// The kernel tells the number lost with the next datagram that it queues.
	var s wire.LowState
	for end := time.Now().Add(patience); u.Counters().Overflowed == 0; {
		for ok := true; ok; {
			_, ok = u.Receive(&s, link.Now())
		}
		if err := r.Send(good(t, 2)); err != nil {
			t.Fatal(err)
		}
		u.Wait(int64(time.Second))
		if time.Now().After(end) {
			t.Fatal("no overflow counted")
		}
	}
	if n := u.Counters().Overflowed; n >= sent {
		t.Errorf("%d of %d lost", n, sent)
	}
}

// closedPort is a port of 127.0.0.1 where nothing listens.
func closedPort(t testing.TB) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback(0)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

func commandFrame(t testing.TB, alter func(*wire.LowCmd)) []byte {
	t.Helper()
	var c wire.LowCmd
	c.Init()
	if alter != nil {
		alter(&c)
	}
	b, err := wire.AppendLowCmd(nil, &c, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestNothingListens: ICMP is seen, each report once, and no report costs a frame.
func TestNothingListens(t *testing.T) {
	addr := closedPort(t)
	u := dial(t, link.UDPConfig{Robot: addr})
	frame := commandFrame(t, nil)
	const frames = 5
	for range frames {
		if err := u.Send(frame); err != nil {
			t.Fatalf("send: %v", err)
		}
	}
	var s wire.LowState
	for end := time.Now().Add(patience); u.Counters().Refused < frames; {
		if u.Wait(int64(100 * time.Millisecond)) {
			t.Fatal("a datagram waits at a socket nobody writes to")
		}
		if _, ok := u.Receive(&s, link.Now()); ok {
			t.Fatal("accepted")
		}
		if time.Now().After(end) {
			break
		}
	}
	c := u.Counters()
	if c.Refused != frames || c.Sent != frames || c.SendErrors != 0 || c.Received != 0 || c.LastNetError != syscall.ECONNREFUSED {
		t.Errorf("%+v, want %d sent, each refused", c, frames)
	}
	if hints := hintText(&c, addr); !strings.Contains(hints, "nothing listens on port") {
		t.Errorf("hints:\n%s", hints)
	}

	// A report is pending from this frame when the robot starts: the next frame must reach it.
	if err := u.Send(frame); err != nil {
		t.Fatal(err)
	}
	r := linktest.New(t, linktest.Config{Addr: addr})
	if err := u.Send(frame); err != nil {
		t.Fatal(err)
	}
	if !r.Await(1, patience) {
		t.Error("the frame behind an ICMP report did not arrive")
	}
	if !u.Wait(int64(patience)) {
		t.Error("no answer")
	}
	if _, ok := u.Receive(&s, link.Now()); !ok {
		t.Error("the answer was not taken")
	}
}

// TestReceiveSeesRefusal: the control thread calls no Wait, so Receive alone must come upon the report, and only once.
func TestReceiveSeesRefusal(t *testing.T) {
	u := dial(t, link.UDPConfig{Robot: closedPort(t)})
	if err := u.Send(commandFrame(t, nil)); err != nil {
		t.Fatal(err)
	}
	var s wire.LowState
	for end := time.Now().Add(patience); u.Counters().Refused == 0 && time.Now().Before(end); runtime.Gosched() {
		u.Receive(&s, link.Now())
	}
	for range 3 {
		u.Receive(&s, link.Now())
	}
	if c := u.Counters(); c.Refused != 1 || c.Unreachable != 0 || c.Received != 0 {
		t.Errorf("%+v, want 1 refused", c)
	}
}

func TestSendErrors(t *testing.T) {
	_, u := connect(t, link.UDPConfig{})
	for _, n := range []int{0, 1, 613, 615} {
		if err := u.Send(make([]byte, n)); err != link.ErrFrameSize {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	// The kernel lets no socket send to the broadcast address unasked.
	b := dial(t, link.UDPConfig{Robot: netip.MustParseAddrPort("255.255.255.255:8007")})
	err := b.Send(commandFrame(t, nil))
	var sendError *link.SendError
	if !errors.As(err, &sendError) || !(errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENETUNREACH)) {
		t.Errorf("broadcast: %v", err)
	}
	if c := b.Counters(); c.SendErrors != 1 || c.Sent != 0 {
		t.Errorf("%+v", c)
	}
	for _, c := range []struct {
		errno syscall.Errno
		want  error
	}{
		{syscall.EBADF, link.ErrClosed}, {syscall.EAGAIN, link.ErrWouldBlock}, {syscall.ENOBUFS, link.ErrWouldBlock},
		{syscall.ECONNREFUSED, link.ErrRefused},
	} {
		if got := link.SendErrorOf(c.errno); got != c.want {
			t.Errorf("%v: %v", c.errno, got)
		}
	}
	if err := link.SendErrorOf(syscall.EPERM); err.Error() != "link: send: operation not permitted" || !errors.Is(err, syscall.EPERM) {
		t.Errorf("%v", err)
	}
	if err := link.SendErrorOf(4000); err.Error() != "link: send: unknown error" || errors.Unwrap(err) != nil {
		t.Errorf("%v", err)
	}
}

func TestDialRefuses(t *testing.T) {
	taken := dial(t, link.UDPConfig{Robot: loopback(8007), Local: loopback(0)})
	robot := loopback(8007)
	for _, c := range []struct {
		name string
		cfg  link.UDPConfig
		want string
	}{
		{"no robot", link.UDPConfig{}, "link: robot address"},
		{"no port", link.UDPConfig{Robot: loopback(0)}, "link: robot address 127.0.0.1:0"},
		{"IPv6 robot", link.UDPConfig{Robot: netip.MustParseAddrPort("[::1]:8007")}, "link: robot address [::1]:8007"},
		{"IPv6 local", link.UDPConfig{Robot: robot, Local: netip.MustParseAddrPort("[::1]:0")}, "link: local address [::1]:0"},
		{"not our address", link.UDPConfig{Robot: robot, Local: netip.MustParseAddrPort("192.0.2.1:0")}, "link: local address 192.0.2.1:0: cannot assign"},
		{"local port taken", link.UDPConfig{Robot: robot, Local: taken.LocalAddr()}, "address already in use (another agent"},
		{"CRC form", link.UDPConfig{Robot: robot, CRC: 9}, "link: CRC form 9"},
		{"receive buffer below 0", link.UDPConfig{Robot: robot, ReceiveBuffer: -1}, "link: receive buffer of -1 bytes"},
		{"receive buffer above the limit", link.UDPConfig{Robot: robot, ReceiveBuffer: 1 << 30}, "net.core.rmem_max"},
	} {
		u, err := link.DialUDP(c.cfg)
		if err == nil {
			u.Close()
			t.Errorf("%s: no error", c.name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, err, c.want)
		}
	}
}

func TestAddresses(t *testing.T) {
	u := dial(t, link.UDPConfig{Robot: netip.MustParseAddrPort("[::ffff:127.0.0.1]:8007"), CRC: wire.EncryptedCRC})
	if u.RobotAddr() != loopback(8007) {
		t.Errorf("robot %v", u.RobotAddr())
	}
	if u.CRC() != wire.EncryptedCRC {
		t.Errorf("CRC %v", u.CRC())
	}
	if u.LocalAddr().Port() == 0 || !u.LocalAddr().Addr().IsUnspecified() {
		t.Errorf("local %v", u.LocalAddr())
	}
	if src, err := u.SourceAddr(); err != nil || src != loopback(u.LocalAddr().Port()) {
		t.Errorf("source %v, %v", src, err)
	}
	b := dial(t, link.UDPConfig{Robot: loopback(8007), Local: loopback(0)})
	if src, err := b.SourceAddr(); err != nil || src != b.LocalAddr() || src.Addr() != loopback(0).Addr() {
		t.Errorf("source %v, %v, local %v", src, err, b.LocalAddr())
	}
}

func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	r, err := linktest.Start(linktest.Config{Sport: true})
	if err != nil {
		t.Fatal(err)
	}
	u, err := link.DialUDP(link.UDPConfig{Robot: r.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	if u.Fd() < 0 {
		t.Error("no descriptor")
	}
	for range 2 {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		r.Close()
	}
	if u.Fd() != -1 {
		t.Errorf("descriptor %d after Close", u.Fd())
	}
	if err := u.Send(commandFrame(t, nil)); err != link.ErrClosed {
		t.Errorf("send after Close: %v", err)
	}
	var s wire.LowState
	if _, ok := u.Receive(&s, link.Now()); ok {
		t.Error("received after Close")
	}
	if u.Wait(int64(patience)) {
		t.Error("waited after Close")
	}
	if c := u.Counters(); c.SendErrors != 1 || c.Received != 0 || c.Unreachable != 0 {
		t.Errorf("%+v", c)
	}
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// TestCountersFromElsewhere reads counters while the link runs; the race detector watches.
func TestCountersFromElsewhere(t *testing.T) {
	r, u := connect(t, link.UDPConfig{})
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		var c link.Counters
		for {
			select {
			case <-done:
				return
			default:
				u.ReadCounters(&c)
			}
		}
	})
	var s wire.LowState
	for i := range uint32(50) {
		if err := u.Send(commandFrame(t, nil)); err != nil {
			t.Fatal(err)
		}
		if err := r.SendFrom(loopback(0), []byte{1}); err != nil {
			t.Fatal(err)
		}
		for ok := false; !ok; {
			if !u.Wait(int64(patience)) {
				t.Fatal("no answer")
			}
			_, ok = u.Receive(&s, link.Now())
		}
		if s.Tick != 2*(i+1) {
			t.Fatalf("tick %d at command %d", s.Tick, i)
		}
	}
	close(done)
	reader.Wait()
}
