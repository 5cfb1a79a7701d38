package httpapi

import (
	"net"
	"sync"
	"time"
)

// stay is how long a connection is left alone at least: time to send a request
// even while a flood of others is being accepted.
const stay = 10 * time.Millisecond

// gate is a listener that holds at most max connections. When a further one
// comes, the connection that has been waiting the longest for its request goes.
// A plain limit would let as many slow clients as it allows keep a stop out;
// here a stop gets in and memory stays bounded.
type gate struct {
	net.Listener
	max int

	mu     sync.Mutex
	freed  *sync.Cond // a connection closed, or is no longer held
	closed bool
	conns  map[*gateConn]struct{}
}

// gateConn is one connection; its fields belong to gate.mu.
type gateConn struct {
	net.Conn
	gate  *gate
	since time.Time // accepted, or its last request was read whole
	held  bool      // the Agent works on its request: it stays
}

func newGate(l net.Listener, max int) *gate {
	g := &gate{Listener: l, max: max, conns: make(map[*gateConn]struct{}, max)}
	g.freed = sync.NewCond(&g.mu)
	return g
}

// Accept waits for a connection and makes room for it.
func (g *gate) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.conns) >= g.max && !g.closed {
		oldest := g.oldest()
		if oldest == nil {
			g.freed.Wait() // all are held, which the handlers bound in time
			continue
		}
		if rest := stay - time.Since(oldest.since); rest > 0 {
			g.mu.Unlock()
			time.Sleep(rest)
			g.mu.Lock()
			continue
		}
		delete(g.conns, oldest)
		_ = oldest.Conn.Close() // its handler sees a failed read and ends
	}
	if g.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	gc := &gateConn{Conn: c, gate: g, since: time.Now()}
	g.conns[gc] = struct{}{}
	return gc, nil
}

func (g *gate) oldest() (oldest *gateConn) {
	for c := range g.conns {
		if !c.held && (oldest == nil || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	return oldest
}

// Close stops Accept; open connections stay.
func (g *gate) Close() error {
	g.mu.Lock()
	g.closed = true
	g.freed.Broadcast()
	g.mu.Unlock()
	return g.Listener.Close()
}

// Close ends the connection.
func (c *gateConn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.freed.Broadcast()
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite tells the client that nothing more comes; net/http does so before
// it closes on a client that is still sending.
func (c *gateConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// hold keeps the connection from being closed for a newer one until release.
func (c *gateConn) hold() {
	c.gate.mu.Lock()
	c.held, c.since = true, time.Now()
	c.gate.mu.Unlock()
}

func (c *gateConn) release() {
	c.gate.mu.Lock()
	c.held = false
	c.gate.freed.Broadcast()
	c.gate.mu.Unlock()
}
