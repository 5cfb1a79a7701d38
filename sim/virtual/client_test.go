package virtual_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// client is a program of the maker's SDK, as far as a test needs one.
type client struct {
	t    testing.TB
	conn *net.UDPConn
	to   netip.AddrPort
	buf  [4096]byte
}

func newClient(t testing.TB, to netip.AddrPort) *client {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn, to: to}
}

func (c *client) send(b []byte) {
	c.t.Helper()
	if _, err := c.conn.WriteToUDPAddrPort(b, c.to); err != nil {
		c.t.Fatal(err)
	}
}

// receive waits for one datagram; a test that waits in vain fails.
func (c *client) receive() []byte {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, _, err := c.conn.ReadFromUDPAddrPort(c.buf[:])
	if err != nil {
		c.t.Fatal("no answer: ", err)
	}
	return append([]byte{}, c.buf[:n]...)
}

// nothing says that no datagram waits. A datagram sent on the loopback interface waits when its send has returned.
func (c *client) nothing() bool {
	c.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, _, err := c.conn.ReadFromUDPAddrPort(c.buf[:])
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// newest waits for one datagram and takes those behind it too, for at most a millisecond each.
func (c *client) newest() []byte {
	c.t.Helper()
	b := c.receive()
	for {
		c.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		n, _, err := c.conn.ReadFromUDPAddrPort(c.buf[:])
		if err != nil {
			return b
		}
		b = append(b[:0], c.buf[:n]...)
	}
}

// exchange sends a command and takes n datagrams.
func (c *client) exchange(cmd *wire.LowCmd, n int) [][]byte {
	c.t.Helper()
	c.send(encode(c.t, cmd))
	all := make([][]byte, n)
	for i := range all {
		all[i] = c.receive()
	}
	return all
}

// step is an exchange that is answered with a state.
func (c *client) step(cmd *wire.LowCmd) (s wire.LowState) {
	c.t.Helper()
	b := c.exchange(cmd, 1)[0]
	if err := wire.DecodeLowState(b, &s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

func encode(t testing.TB, cmd *wire.LowCmd) []byte {
	t.Helper()
	b, err := wire.AppendLowCmd(nil, cmd, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// servo commands one gain for all joints, to home.
func servo(kp, kd float32) *wire.LowCmd {
	var c wire.LowCmd
	c.Init()
	for i := range go1.Joints {
		c.Motor[i] = wire.MotorCmd{Mode: wire.ModeServo, Q: go1.Home[i], Kp: kp, Kd: kd}
	}
	return &c
}

// servoAt holds the joints where a state shows them.
func servoAt(s *wire.LowState, kp, kd float32) *wire.LowCmd {
	c := servo(kp, kd)
	for i := range go1.Joints {
		c.Motor[i].Q = s.Motor[i].Q
	}
	return c
}

func damping() *wire.LowCmd { return servo(0, 3) }

// request makes one HTTP request.
func request(t *testing.T, method string, to netip.AddrPort, path, body string) (code int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+to.String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
