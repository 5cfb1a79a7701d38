package linktest

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// hooks are what a test has asked for. They run on the robot's goroutine under its lock: none may call a method of Robot.
type hooks struct {
	state func(*wire.LowState)
	frame func(*Frame)
	drop  func(number uint64) bool
	delay int
}

// OnState sets f to alter each state before it is sent; nil for none. The alteration does not stay: f sees the true
// state each time.
func (r *Robot) OnState(f func(*wire.LowState)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks.state = f
}

// OnFrame sets f to see each frame once it is recorded and answered; nil for none.
func (r *Robot) OnFrame(f func(*Frame)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks.frame = f
}

// Drop sets which answers are not sent, by the number of the frame they answer (Frame.Number); nil for all sent. The robot
// moves on all the same.
func (r *Robot) Drop(drop func(number uint64) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks.drop = drop
}

// Mute drops all answers, or none.
func (r *Robot) Mute(mute bool) {
	if !mute {
		r.Drop(nil)
		return
	}
	r.Drop(func(uint64) bool { return true })
}

// SetDelay holds each answer back until this many later ones are due, 2 ms each in lockstep. Less than before sends what
// is held back beyond it at once.
func (r *Robot) SetDelay(answers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks.delay = max(answers, 0)
	r.releaseLate()
}

// SetClient sets where answers and Send go, as the newest valid command's sender does.
func (r *Robot) SetClient(client netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client = client
}

// Frame is the present state as a good frame, altered by OnState.
func (r *Robot) Frame() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.encode()
}

// Send sends datagrams, whatever they hold, from the robot's low-level address to the client, in this order and with no
// answer in between.
func (r *Robot) Send(datagrams ...[]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return send(r.low, r.client, datagrams)
}

// SendFrom sends datagrams to the client from another address: a foreign sender. A zero port means any.
func (r *Robot) SendFrom(local netip.AddrPort, datagrams ...[]byte) error {
	r.mu.Lock()
	client := r.client
	r.mu.Unlock()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return fmt.Errorf("linktest: foreign sender: %w", err)
	}
	defer conn.Close()
	return send(conn, client, datagrams)
}

func send(from *net.UDPConn, to netip.AddrPort, datagrams [][]byte) error {
	if !to.IsValid() {
		return fmt.Errorf("linktest: no client yet: none has sent a command, and SetClient was not called")
	}
	for _, d := range datagrams {
		if _, err := from.WriteToUDPAddrPort(d, to); err != nil {
			return fmt.Errorf("linktest: send to %v: %w", to, err)
		}
	}
	return nil
}

// Short is the first n bytes of frame.
func Short(frame []byte, n int) []byte { return append([]byte(nil), frame[:n]...) }

// Long is frame and zeros behind it up to n bytes.
func Long(frame []byte, n int) []byte {
	return append(append(make([]byte, 0, n), frame...), make([]byte, n-len(frame))...)
}

// Corrupt is frame with one bit flipped, in a byte under the CRC.
func Corrupt(frame []byte) []byte {
	c := append([]byte(nil), frame...)
	c[len(c)/2] ^= 1
	return c
}
