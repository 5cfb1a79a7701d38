package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
)

// Bounds of what pages can cost.
const (
	maxViewers    = 8
	maxStrikes    = 32 // refused messages after which a page is shut out
	frameQueue    = 3  // frames that wait for a slow page; the oldest goes first
	messageLimit  = 1 << 10
	writeTimeout  = 5 * time.Second
	requestsQueue = 64
)

// hub stands between the goroutine that steps and the pages: frames out, requests in. A page that does not keep up misses frames,
// a page that talks nonsense is told so and counted; neither holds up the robots.
type hub struct {
	hello    []byte
	rows     int // shown
	requests chan *request
	changed  chan struct{} // somebody came or went
	refused  atomic.Uint64 // messages
	dropped  atomic.Uint64 // frames

	mu      sync.Mutex
	viewers map[*viewer]struct{}
	last    []byte // newest frame
	closed  bool
}

// viewer is one connected page.
type viewer struct {
	frames chan []byte
	notes  chan []byte
}

func newHub(h *hello) (*hub, error) {
	b, err := json.Marshal(h, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("view: hello: %w", err)
	}
	return &hub{hello: b, rows: h.Rows, requests: make(chan *request, requestsQueue), changed: make(chan struct{}, 1),
		viewers: map[*viewer]struct{}{}}, nil
}

// watching counts the pages.
func (h *hub) watching() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.viewers)
}

// publish offers a frame, which must not change any more, to every page.
func (h *hub) publish(frame []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = frame
	for v := range h.viewers {
		h.offer(v, frame)
	}
}

// offer queues a frame and lets the oldest go when the queue is full; h.mu is held, so nobody else fills the queue.
func (h *hub) offer(v *viewer, frame []byte) {
	for {
		select {
		case v.frames <- frame:
			return
		default:
		}
		select {
		case <-v.frames:
			h.dropped.Add(1)
		default:
		}
	}
}

// refuse counts a message that was not followed and tells its page why.
func (h *hub) refuse(v *viewer, err error) {
	h.refused.Add(1)
	if v == nil {
		return
	}
	b, jsonErr := json.Marshal(map[string]string{"refused": err.Error()})
	if jsonErr != nil { // the reason quotes bytes that are not UTF-8
		b = []byte(`{"refused":"message: not UTF-8"}`)
	}
	select {
	case v.notes <- b:
	default:
	}
}

// join adds a page; false when there are too many.
func (h *hub) join(v *viewer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) >= maxViewers || h.closed {
		return false
	}
	h.viewers[v] = struct{}{}
	if h.last != nil {
		h.offer(v, h.last)
	}
	h.wake()
	return true
}

func (h *hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, v)
	h.wake()
}

func (h *hub) wake() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// serve talks to one page until it goes, misbehaves or ctx ends; its writer has ended too then.
func (h *hub) serve(ctx context.Context, conn *websocket.Conn) {
	v := &viewer{frames: make(chan []byte, frameQueue), notes: make(chan []byte, 4)}
	if !h.join(v) {
		_ = conn.Close(websocket.StatusTryAgainLater, fmt.Sprintf("%d pages look already", maxViewers))
		return
	}
	defer h.leave(v)
	var writer sync.WaitGroup
	defer writer.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn.SetReadLimit(messageLimit)
	writer.Go(func() {
		defer cancel()
		h.write(ctx, conn, v)
	})
	strikes := 0
	for {
		kind, b, err := conn.Read(ctx)
		if err != nil {
			_ = conn.Close(websocket.StatusGoingAway, "the program ends")
			return
		}
		if err := h.hear(v, kind, b); err != nil {
			h.refuse(v, err)
			if strikes++; strikes >= maxStrikes {
				_ = conn.Close(websocket.StatusPolicyViolation, "too many messages that make no sense")
				return
			}
		}
	}
}

// hear hands a page's message on.
func (h *hub) hear(v *viewer, kind websocket.MessageType, b []byte) error {
	if kind != websocket.MessageText {
		return fmt.Errorf("message: %d bytes of binary, want text", len(b))
	}
	r, err := decodeRequest(b, h.rows)
	if err != nil {
		return err
	}
	if r.rendering() {
		return fmt.Errorf("message: %q is only for a page that renders", r.Do)
	}
	r.from = v
	select {
	case h.requests <- r:
		return nil
	default:
		return fmt.Errorf("message: %d wait already", requestsQueue)
	}
}

// write sends what is queued for a page.
func (h *hub) write(ctx context.Context, conn *websocket.Conn, v *viewer) {
	if send(ctx, conn, websocket.MessageText, h.hello) != nil {
		return
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case b := <-v.notes:
			err = send(ctx, conn, websocket.MessageText, b)
		case b := <-v.frames:
			err = send(ctx, conn, websocket.MessageBinary, b)
		}
		if err != nil {
			return
		}
	}
}

// send writes one message; a page that does not take it in time is given up.
func send(ctx context.Context, conn *websocket.Conn, kind websocket.MessageType, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return conn.Write(ctx, kind, b)
}
