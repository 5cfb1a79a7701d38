package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// fakeAgent stands in for control.Loop: it records what is asked and answers
// what the test says. Its clock is the test's.
type fakeAgent struct {
	mu    sync.Mutex
	snap  control.Snapshot
	calls []string
	err   error                     // what every request is answered
	block func(ctx context.Context) // SetMode waits here

	blockEStop func(ctx context.Context)
	panics     bool // Snapshot panics
	ticking    bool // each NowNs moves the clock
	lag        int  // so many Snapshots are of the tick before, in mode idle
}

func (f *fakeAgent) Snapshot(out *control.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics {
		panic("fake: snapshot")
	}
	*out = f.snap
	if f.lag > 0 {
		f.lag--
		out.NowNs--
		out.Mode = control.Idle
	}
}

func (f *fakeAgent) NowNs() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ticking {
		f.snap.NowNs++
	}
	return f.snap.NowNs
}

func (f *fakeAgent) called(what string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(what, args...))
	return f.err
}

func (f *fakeAgent) Arm(context.Context) error { return f.called("arm") }

func (f *fakeAgent) SetMode(ctx context.Context, m control.Mode) error {
	if f.block != nil {
		f.block(ctx)
	}
	err := f.called("mode %s", m)
	if err == nil {
		f.set(func(s *control.Snapshot) { s.Mode = m })
	}
	return err
}

func (f *fakeAgent) Damp(ctx context.Context, shown uint64) error {
	if f.block != nil {
		f.block(ctx)
	}
	err := f.called("damp, shown %d", shown)
	if err == nil {
		f.set(func(s *control.Snapshot) { s.Mode = control.Damp })
	}
	return err
}

func (f *fakeAgent) EStop(ctx context.Context, cut bool) error {
	if f.blockEStop != nil {
		f.blockEStop(ctx)
	}
	return f.called("estop cut=%t", cut)
}

func (f *fakeAgent) Command(v [3]float32, expiresNs int64) error {
	return f.called("command %g %g %g until %d", v[0], v[1], v[2], expiresNs)
}

func (f *fakeAgent) set(change func(*control.Snapshot)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.snap)
}

func (f *fakeAgent) answer(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// taken returns and forgets what was asked.
func (f *fakeAgent) taken() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := strings.Join(f.calls, "; ")
	f.calls = nil
	return all
}

var testInfo = Info{
	Version: "1.2.3", Commit: "abc", Robot: "unitree-go1", PolicyName: "walk", PolicySHA256: "0123",
	ContractSource: "file",
	CommandRange:   rollout.Command{Vx: [2]float32{-1, 1.5}, Vy: [2]float32{-0.5, 0.5}, Wz: [2]float32{-1, 1}},
	Realtime:       func() string { return "SCHED_FIFO 80" },
	LinkCounters:   func() map[string]uint64 { return map[string]uint64{"accepted": 7, "crc": 2} },
	Guard: func(s *guard.Status) bool {
		*s = guard.Status{PID: 77, Latched: true, Trips: 2, Frames: 40, KillErrors: 3}
		s.Lateness.Add(3000)
		return true
	},
}

// running is a server on a real listener.
type running struct {
	*Server
	t    *testing.T
	addr string // 127.0.0.1:PORT
	stop func() // ends Serve and waits for it
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func start(t *testing.T, agent Agent, change ...func(*Config)) *running {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Log = quiet()
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg, agent, testInfo)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return &running{Server: s, t: t, addr: l.Addr().String(), stop: stop}
}

// answer is a reply.
type answer struct {
	status int
	header http.Header
	body   string
}

// error is the sentence of an error reply.
func (a *answer) error(t *testing.T) (text, code, field string) {
	t.Helper()
	var e struct{ Error, Code, Field string }
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || e.Error == "" || e.Code == "" {
		t.Errorf("error body %q: %v", a.body, err)
	}
	return e.Error, e.Code, e.Field
}

// do sends one request on a connection of its own.
func (r *running) do(method, path, body string, header ...string) *answer {
	r.t.Helper()
	req, err := http.NewRequest(method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return r.send(req)
}

func (r *running) send(req *http.Request) *answer {
	r.t.Helper()
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: time.Minute}).Do(req)
	if err != nil {
		r.t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
		return &answer{}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	return &answer{resp.StatusCode, resp.Header, string(b)}
}

// dial opens a connection that ends with the test.
func (r *running) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// raw sends bytes and returns all that comes back.
func (r *running) raw(request string) string {
	r.t.Helper()
	c := r.dial()
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		r.t.Fatal(err)
	}
	b, _ := io.ReadAll(c) // a reset after the reply is as good as an end
	return string(b)
}

// quick posts over the default client's kept connection.
func (r *running) quick(path, body string) *answer {
	r.t.Helper()
	resp, err := http.Post("http://"+r.addr+"/api/v1/"+path, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return &answer{resp.StatusCode, resp.Header, string(b)}
}
