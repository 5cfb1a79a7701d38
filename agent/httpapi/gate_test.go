package httpapi

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/promise"
)

// residentBytes is this process's memory, once the garbage is gone.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("needs /proc/self/statm")
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// slowClients are ways to hold a connection; each request is left as it is.
var slowClients = map[string]func(addr string) string{
	"silent":        func(string) string { return "" },
	"half a line":   func(string) string { return "POST /api/v1/es" },
	"half a head":   func(addr string) string { return "POST /api/v1/estop HTTP/1.1\r\nHost: " + addr + "\r\nX-" },
	"half a body":   func(addr string) string { return postHead(addr, "/api/v1/estop", 15) + `{"level":` },
	"endless chunk": func(addr string) string { return chunkHead(addr) + "1\r\n{\r\n" },
	"idle":          func(addr string) string { return "GET /healthz HTTP/1.1\r\nHost: " + addr + "\r\n\r\n" },
	"reads nothing": func(addr string) string {
		return strings.Repeat("GET /metrics HTTP/1.1\r\nHost: "+addr+"\r\n\r\n", 200)
	},
}

func postHead(addr, path string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, addr, length)
}

func chunkHead(addr string) string {
	return "POST /api/v1/estop HTTP/1.1\r\nHost: " + addr + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
}

// TestPromise06Slow: 200 connections of each slow kind, and a stop gets through
// while they are held; memory stays within 10 MiB. OPENCLAW_SOAK=6 does it 20
// times.
func TestPromise06Slow(t *testing.T) {
	kinds := slices.Sorted(maps.Keys(slowClients))
	n := uint64(len(kinds))
	promise.New(t, 6, n, 20*n).Run(t, func(t *testing.T, seed uint64) map[string]any {
		kind := kinds[(seed-1)%n]
		return map[string]any{"kind": kind, "connections": slowConnections, "grown_mib": slowly(t, slowClients[kind])}
	})
}

const slowConnections = 200

func slowly(t *testing.T, request func(addr string) string) (grownMiB float64) {
	goroutines := runtime.NumGoroutine()
	f := &fakeAgent{}
	r := start(t, f, func(c *Config) { // no time-out comes to our help
		c.HeaderTimeout, c.ReadTimeout, c.IdleTimeout, c.WriteTimeout = time.Hour, time.Hour, time.Hour, 3*time.Hour
	})
	r.do("GET", "/metrics", "") // first use of everything
	before := residentBytes(t)
	var held []net.Conn
	for range slowConnections {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, request(r.addr)) // it may have been pushed out already
		held = append(held, c)
	}
	for range 3 {
		if a := r.do("POST", "/api/v1/estop", `{"level":"cut"}`); a.status != 200 {
			t.Errorf("stop: %d %s", a.status, a.body)
		}
	}
	if got := f.taken(); got != "estop cut=true; estop cut=true; estop cut=true" {
		t.Errorf("asked %q", got)
	}
	grownMiB = withinTenMiB(t, before)
	for _, c := range held {
		c.Close()
	}
	r.stop()
	noneLeft(t, goroutines)
	return grownMiB
}

// withinTenMiB fails when the process has grown by more than that.
func withinTenMiB(t *testing.T, before int64) (grownMiB float64) {
	t.Helper()
	grown := residentBytes(t) - before
	if grown > 10<<20 && !raceEnabled {
		t.Errorf("resident memory grew by %d bytes", grown)
	}
	return math.Round(float64(grown)/(1<<20)*10) / 10
}

// TestFlood: clients that come back as soon as they are pushed out do not keep a
// stop away either.
func TestFlood(t *testing.T) {
	f := &fakeAgent{}
	r := start(t, f)
	done := make(chan struct{})
	var clients sync.WaitGroup
	for range 100 {
		clients.Go(func() {
			for {
				c, err := net.Dial("tcp", r.addr)
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "GET /healthz HT")
				_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				_, _ = c.Read(make([]byte, 1)) // until pushed out
				c.Close()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	got := 0
	for range 20 {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, postHead(r.addr, "/api/v1/estop", 15)+`{"level":"cut"}`)
		b := make([]byte, 12)
		_, _ = io.ReadFull(c, b)
		c.Close()
		if string(b) == "HTTP/1.1 200" {
			got++
		}
	}
	close(done)
	clients.Wait()
	t.Logf("%d of 20 stops got through at the first attempt", got)
	if got < 10 {
		t.Errorf("%d of 20 stops got through", got)
	}
}

// TestTimeouts: without pressure too, a slow client is sent away.
func TestTimeouts(t *testing.T) {
	f := &fakeAgent{}
	r := start(t, f, func(c *Config) {
		c.HeaderTimeout, c.ReadTimeout, c.IdleTimeout = 30*time.Millisecond, 60*time.Millisecond, 30*time.Millisecond
	})
	for name, want := range map[string]string{
		"silent": "", "half a line": "", "half a head": "", "idle": "HTTP/1.1 ",
		"half a body": "HTTP/1.1 400 ", "endless chunk": "HTTP/1.1 400 ",
	} {
		got := r.raw(slowClients[name](r.addr)) // returns when the server closes
		if !strings.HasPrefix(got, want) || want == "" && strings.Contains(got, "200 OK") {
			t.Errorf("%s: %.80q, want %q", name, got, want)
		}
	}
	if got := f.taken(); got != "" {
		t.Errorf("asked %q", got)
	}
}

// TestPromise06Huge: 64 MiB are refused without being taken in.
func TestPromise06Huge(t *testing.T) {
	promise.New(t, 6, 1, 20).Run(t, func(t *testing.T, _ uint64) map[string]any {
		return map[string]any{"bodies": 2, "grown_mib": hugeBodies(t)}
	})
}

func hugeBodies(t *testing.T) (grownMiB float64) {
	f := &fakeAgent{}
	r := start(t, f)
	r.do("POST", "/api/v1/arm", "{}")
	f.taken()
	before := residentBytes(t)
	for _, head := range []string{postHead(r.addr, "/api/v1/command", 64<<20), chunkHead(r.addr)} {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, head)
		reply := make(chan string, 1)
		go func() {
			b := make([]byte, 12)
			_, _ = io.ReadFull(c, b)
			reply <- string(b)
		}()
		piece := strings.Repeat(" ", 64<<10)
		if strings.Contains(head, "chunked") {
			piece = "10000\r\n" + piece + "\r\n"
		}
		written := 0
		for written < 64<<20 {
			n, err := io.WriteString(c, piece)
			if written += n; err != nil {
				break // the server hung up
			}
		}
		if got := <-reply; got != "HTTP/1.1 413" {
			t.Errorf("got %q", got)
		}
		c.Close()
		t.Logf("hung up on after %d KiB", written>>10)
	}
	grownMiB = withinTenMiB(t, before)
	if got := f.taken(); got != "" {
		t.Errorf("asked %q", got)
	}
	return grownMiB
}

// TestHeldConnectionStays: a request that the agent works on is not pushed out,
// and when all are held a new connection waits for the first to end.
func TestHeldConnectionStays(t *testing.T) {
	g := newGate(&net.TCPListener{}, 2)
	far := make([]net.Conn, 3)
	for i := range far {
		var near net.Conn
		near, far[i] = net.Pipe()
		defer near.Close()
		g.Listener = fakeListener{near}
		if i < 2 {
			c, err := g.Accept()
			if err != nil {
				t.Fatal(err)
			}
			c.(*gateConn).hold()
			defer c.Close()
			continue
		}
		accepted := make(chan error)
		go func() { _, err := g.Accept(); accepted <- err }()
		select {
		case <-accepted:
			t.Fatal("a third connection pushed out a held one")
		case <-time.After(20 * time.Millisecond):
		}
		for c := range g.copyOfConns() {
			c.release()
			break
		}
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
	}
	for c := range g.copyOfConns() {
		c.hold()
	}
	accepted := make(chan error)
	go func() { _, err := g.Accept(); accepted <- err }()
	_ = g.Close()
	if err := <-accepted; err == nil {
		t.Error("Accept goes on after Close")
	}
}

func (g *gate) copyOfConns() map[*gateConn]struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[*gateConn]struct{}{}
	for c := range g.conns {
		all[c] = struct{}{}
	}
	return all
}

// fakeListener accepts one connection.
type fakeListener struct{ c net.Conn }

func (l fakeListener) Accept() (net.Conn, error) { return l.c, nil }
func (l fakeListener) Close() error              { return nil }
func (l fakeListener) Addr() net.Addr            { return &net.TCPAddr{} }

// TestClientGone: the agent's call is told when its client hangs up.
func TestClientGone(t *testing.T) {
	inside, gone := make(chan struct{}), make(chan error, 1)
	f := &fakeAgent{block: func(ctx context.Context) {
		close(inside)
		<-ctx.Done()
		gone <- ctx.Err()
	}}
	r := start(t, f, func(c *Config) { c.CallTimeout, c.WriteTimeout = time.Hour, 2*time.Hour })
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+r.addr+"/api/v1/mode", strings.NewReader(`{"mode":"sit"}`))
	req.Header.Set("Content-Type", "application/json")
	failed := make(chan error)
	go func() { _, err := http.DefaultClient.Do(req); failed <- err }()
	<-inside
	cancel()
	if err := <-gone; err != context.Canceled {
		t.Errorf("the call ended with %v", err)
	}
	if err := <-failed; err == nil {
		t.Error("the client got a reply")
	}
}

// TestStopOutlivesItsClient: a stop is not taken back when its client hangs up.
func TestStopOutlivesItsClient(t *testing.T) {
	inside, told := make(chan context.Context), make(chan struct{})
	f := &fakeAgent{blockEStop: func(ctx context.Context) { inside <- ctx; <-told }}
	r := start(t, f)
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, postHead(r.addr, "/api/v1/estop", 15)+`{"level":"cut"}`)
	ctx := <-inside
	c.Close()
	time.Sleep(50 * time.Millisecond) // the server notices
	if err := ctx.Err(); err != nil {
		t.Errorf("the stop was told %v", err)
	}
	if _, bounded := ctx.Deadline(); !bounded {
		t.Error("the stop has no bound")
	}
	close(told)
	r.stop() // its handler has ended
	if got := f.taken(); got != "estop cut=true" {
		t.Errorf("asked %q", got)
	}
}

// TestReadTimeoutSparesTheCall: the time-out for a request's arrival does not
// cancel what it asked for.
func TestReadTimeoutSparesTheCall(t *testing.T) {
	const arrival = 2 * time.Second // long enough for a client that the machine keeps waiting
	f := &fakeAgent{block: func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(5 * arrival / 4): // well after both time-outs
		}
		if err := ctx.Err(); err != nil {
			t.Errorf("the call was told %v", err)
		}
	}}
	r := start(t, f, func(c *Config) { c.HeaderTimeout, c.ReadTimeout = arrival, arrival })
	if a := r.do("POST", "/api/v1/mode", `{"mode":"sit"}`); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
