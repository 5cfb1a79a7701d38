package guard

import (
	"net"
	"time"
)

// For the tests outside the package, which put a control.Loop before the guard.

// Greet talks with whoever is at the other end of conn, without Serve.
func (g *Guard) Greet(conn *net.UnixConn) { g.greet(conn) }

// Supervised is one look of Serve's: the loop's thread is looked for, sessions that are over are left.
func (g *Guard) Supervised() { g.attend() }

// Thread names another for the loop's.
func (w *Watch) Thread(number int) { w.agent.thread.Store(int64(number)) }

// Patience is how long it waits for an answer; 0: as usual.
func (c *Client) Patience(d time.Duration) { c.patience = d }

// NewClient is the other end.
func NewClient(conn *net.UnixConn) *Client { return &Client{conn: conn, lost: make(chan struct{})} }

// Gone says whether the guard has seen its agent end.
func (g *Guard) Gone() bool { return g.current.Load().gone.Load() }

// Knocks lets frames leave until then, as knock does.
func (g *Guard) Knocks(untilNs int64) { g.current.Load().knockNs.Store(untilNs) }

// Over ends it as sport mode does.
func (g *Guard) Over() {
	s := g.current.Load()
	s.over.Store(s.page.beatNs.Load())
}

// Window says whether a torque frame is on its way.
func (w *Watch) Window() bool { return w.agent.window.Load() != 0 }

// BeatNs is the loop's newest beat.
func (w *Watch) BeatNs() int64 { return w.agent.beatNs.Load() }

// Epoch is what stands in the page.
func (w *Watch) Epoch() uint64 { return w.agent.epoch.Load() }

// Request is a message as it goes over the socket.
func Request(op string, r Registration) []byte {
	b, err := appendRequest(op, &r)
	if err != nil {
		panic(err)
	}
	return b
}
