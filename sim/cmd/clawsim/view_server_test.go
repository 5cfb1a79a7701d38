package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// A page that talks nonsense is told why, counted, and in the end shut out; the others go on.
func TestServerRefusesNonsense(t *testing.T) {
	url, h := serveStanding(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dial := func() *websocket.Conn {
		t.Helper()
		c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(url, "http")+"ws", nil)
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadLimit(1 << 20)
		t.Cleanup(func() { _ = c.CloseNow() })
		return c
	}
	text := func(c *websocket.Conn) (string, error) {
		for {
			kind, b, err := c.Read(ctx)
			if err != nil || kind == websocket.MessageText {
				return string(b), err
			}
		}
	}
	good, bad := dial(), dial()
	for _, c := range []*websocket.Conn{good, bad} {
		if s, err := text(c); err != nil || !strings.Contains(s, `"policy":"zero"`) {
			t.Fatalf("hello: %q, %v", s, err)
		}
	}
	for i := range maxStrikes {
		kind, b := websocket.MessageText, []byte(`{"do":"drawn","step":1}`)
		if i%2 == 0 {
			kind = websocket.MessageBinary
		}
		if err := bad.Write(ctx, kind, b); err != nil {
			t.Fatal(err)
		}
	}
	for {
		s, err := text(bad)
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
				t.Errorf("ended by %v", err)
			}
			break
		}
		if !strings.Contains(s, "refused") {
			t.Errorf("told %q", s)
		}
	}
	if n := h.refused.Load(); n != maxStrikes {
		t.Errorf("%d refused", n)
	}
	huge := dial()
	if err := huge.Write(ctx, websocket.MessageText, bytes.Repeat([]byte(" "), messageLimit+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := text(huge); err == nil { // hello
		_, err = text(huge)
		if err == nil {
			t.Error("a huge message is read")
		}
	}
	if err := good.Write(ctx, websocket.MessageText, []byte(`{"do":"command","row":0,"command":[0.5,0,0]}`)); err != nil {
		t.Fatal(err)
	}
	for followed := false; !followed; {
		_, b, err := good.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		followed = len(b) > frameHead+4*rowWords && math.Float32frombits(binary.LittleEndian.Uint32(b[frameHead+4*26:])) == 0.5
	}
	eventually(t, "those shut out are gone", func() bool { return h.watching() == 1 })
	for n := 2; n <= maxViewers; n++ {
		dial()
		eventually(t, fmt.Sprintf("%d pages look", n), func() bool { return h.watching() == n })
	}
	if _, err := text(dial()); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("one page too many: %v", err)
	}
}

// A page that says what is wrong and goes is quoted, whichever of the two is noticed first.
func TestRecorderQuotesThePage(t *testing.T) {
	for range 64 {
		r, err := newRecorder(&hello{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.heard <- &request{Do: "failed", Error: new("no encoder")}
		r.broke(io.EOF)
		close(r.gone)
		if _, err := r.wait(t.Context(), "ready", time.Hour); err == nil || err.Error() != "video: the page: no encoder" {
			t.Fatalf("it went away: %v", err)
		}
		if _, err := r.wait(t.Context(), "ready", time.Hour); !errors.Is(err, io.EOF) {
			t.Fatalf("nothing more is heard: %v", err)
		}
	}
}

// When the server has stopped nobody reads or writes any more.
func TestServerWaitsForItsPages(t *testing.T) {
	for range 200 { // a goroutine that is left behind ends soon: seldom caught at it
		h := testHub(t, 1)
		r, err := newRecorder(&hello{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, open, err := listenView("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s, err := newViewServer(l, "127.0.0.1:0", open)
		if err != nil {
			t.Fatal(err)
		}
		s.hub, s.recorder = h, r
		stop := s.start(t.Context())
		for _, query := range []string{"", "", "", "?record=" + r.token} {
			c, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.url(), "http")+"ws"+query, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.CloseNow() }()
			if _, _, err := c.Read(t.Context()); err != nil { // hello: it is being written to
				t.Fatal(err)
			}
			c.SetReadLimit(-1)
			go func() { // takes leave as a browser does
				for err := error(nil); err == nil; {
					_, _, err = c.Read(t.Context())
				}
			}()
		}
		big := make([]byte, 1<<20) // so that there is something to write just then
		h.publish(big)
		r.frames <- big
		stop()
		all := make([]byte, 1<<20)
		all = all[:runtime.Stack(all, true)]
		for _, of := range []string{"(*hub).write(", "(*hub).serve(", "(*recorder).write(", "(*recorder).serve("} {
			if bytes.Contains(all, []byte(of)) {
				t.Fatalf("%s runs after the end", of)
			}
		}
		if n := h.watching(); n != 0 {
			t.Fatalf("%d pages look after the end", n)
		}
	}
}

// Only pages of this server's own are answered.
func TestServerRefusesForeigners(t *testing.T) {
	url, _ := serveStanding(t, 1)
	at := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	_, port, _ := strings.Cut(at, ":")
	for _, c := range []struct {
		name, path, host, origin string
		status                   int
	}{
		{"the page", "/", "", "", 200},
		{"its program", "/app.js", "localhost:" + port, "", 200},
		{"its licences", "/LICENSES.txt", "", "", 200},
		{"another name", "/", "evil.example:" + port, "", 403},
		{"another port", "/", "127.0.0.1:1", "", 403},
		{"another address", "/", "192.0.2.1:" + port, "", 403},
		{"a foreign origin", "/", "", "http://evil.example", 403},
		{"a foreign socket", "/ws", "", "http://evil.example", 403},
		{"its own origin, no upgrade", "/ws", "", "http://" + at, 426},
		{"no rendering", "/ws?record=guess", "", "", 403},
		{"nothing", "/etc/passwd", "", "", 404},
		{"above", "/../view.go", "", "", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.host != "" {
				r.Host = c.host
			}
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != c.status || resp.Header.Get("Content-Security-Policy") == "" {
				b, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
				t.Errorf("status %d, want %d: %s", resp.StatusCode, c.status, b)
			}
		})
	}
}

func TestHosts(t *testing.T) {
	open := &hosts{port: 8090, open: true, own: []string{"localhost", "lab"}}
	for host, ok := range map[string]bool{
		"lab:8090": true, "LAB:8090": true, "192.168.1.7:8090": true, "[2001:db8::1]:8090": true, "localhost:8090": true,
		"evil.example:8090": false, "lab:80": false, "lab": false, "": false, "[fe80::1%25eth0]:8090": false,
	} {
		if err := open.check(host); (err == nil) != ok {
			t.Errorf("Host %q: %v", host, err)
		}
	}
	for addr, open := range map[string]bool{":0": false, "localhost:0": false, "[::1]:0": false, "0.0.0.0:0": true} {
		l, isOpen, err := listenView(addr)
		if err != nil {
			if addr == "[::1]:0" { // a machine without IPv6
				continue
			}
			t.Fatal(err)
		}
		if isOpen != open {
			t.Errorf("%s: open to other machines: %v", addr, isOpen)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := (&hosts{port: 80, own: []string{"localhost"}}).check("localhost"); err != nil {
		t.Errorf("port 80 need not be said: %v", err)
	}
}
