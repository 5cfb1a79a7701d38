package httpapi

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

func TestCheckAddr(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:8080", "127.1.2.3:0", "localhost:8080", "[::1]:8080", "[::ffff:127.0.0.1]:80", "LOCALHOST:65535"} {
		if err := CheckAddr(addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, test := range []struct{ addr, names string }{
		{":8080", "every interface"},
		{"0.0.0.0:8080", "only loopback"},
		{"[::]:8080", "only loopback"},
		{"192.168.123.161:8080", "only loopback"},
		{"10.0.0.1:1", "only loopback"},
		{"[fe80::1%lo]:80", "only loopback"},
		{"[::ffff:10.0.0.1]:80", "only loopback"},
		{"", "HOST:PORT"},
		{"8080", "HOST:PORT"},
		{"127.0.0.1", "HOST:PORT"},
		{"::1:80", "HOST:PORT"},
		{"127.0.0.1:", "port"},
		{"127.0.0.1:http", "port"},
		{"127.0.0.1:-1", "port"},
		{"127.0.0.1:65536", "port"},
		{"127.0.0.1:+80", "port"},
		{"127.0.0.1:080", "port"},
		{"no-such-host.invalid:80", "no-such-host.invalid"},
		{"127.1:80", "127.1:80"}, // inet_aton's forms are no addresses here
		{"http://127.0.0.1:80", "HOST:PORT"},
	} {
		err := CheckAddr(test.addr)
		if err == nil || !strings.Contains(err.Error(), test.names) || !strings.Contains(err.Error(), test.addr) {
			t.Errorf("%q: %v, want it to say %q", test.addr, err, test.names)
		}
	}
}

// TestCheckAddrOwnName: this machine's name, where it leads to a network, is refused.
func TestCheckAddrOwnName(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	ips, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", name)
	loopback := err == nil && !slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !ip.Unmap().IsLoopback() })
	if got := CheckAddr(name + ":8080"); (got == nil) != loopback {
		t.Errorf("%s is %v (%v): %v", name, ips, err, got)
	}
}

func TestServeRefusesOtherListeners(t *testing.T) {
	s, err := New(DefaultConfig(), &fakeAgent{}, testInfo)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(context.Background(), l); err == nil || !strings.Contains(err.Error(), "only loopback") {
		t.Errorf("%v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}

func TestServeOnce(t *testing.T) {
	r := start(t, &fakeAgent{})
	r.do("GET", "/", "") // it serves
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Serve(context.Background(), l); err == nil || !strings.Contains(err.Error(), "before") {
		t.Errorf("%v", err)
	}
}

func TestServeListenerFails(t *testing.T) {
	s, err := New(DefaultConfig(), &fakeAgent{}, testInfo)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := s.Serve(context.Background(), l); err == nil {
		t.Error("nil from a closed listener")
	}
}

func TestConfigValidate(t *testing.T) {
	for _, test := range []struct {
		names  string
		change func(*Config)
	}{
		{"connections: 0", func(c *Config) { c.Connections = 0 }},
		{"header timeout", func(c *Config) { c.HeaderTimeout = 0 }},
		{"read timeout", func(c *Config) { c.ReadTimeout = 0 }},
		{"idle timeout", func(c *Config) { c.IdleTimeout = -1 }},
		{"call timeout", func(c *Config) { c.CallTimeout = 0 }},
		{"shutdown timeout", func(c *Config) { c.ShutdownTimeout = 0 }},
		{"write timeout", func(c *Config) { c.WriteTimeout = c.ReadTimeout + c.CallTimeout }},
	} {
		c := DefaultConfig()
		test.change(&c)
		if _, err := New(c, &fakeAgent{}, testInfo); err == nil || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%s: %v", test.names, err)
		}
	}
}

// TestHostAndOrigin sends what browsers and others send; only our own pages and
// programs on this machine get through.
func TestHostAndOrigin(t *testing.T) {
	f := &fakeAgent{}
	r := start(t, f)
	_, port, _ := net.SplitHostPort(r.addr)
	own := "http://127.0.0.1:" + port
	for _, test := range []struct {
		host   string
		header string // more lines
		status string
	}{
		{"127.0.0.1:" + port, "", "200"},
		{"localhost:" + port, "", "200"},
		{"LocalHost:" + port, "", "200"},
		{"[::1]:" + port, "", "200"},
		{"127.9.9.9:" + port, "", "200"},
		{"127.0.0.1", "", "403"},
		{"127.0.0.1:1", "", "403"},
		{"localhost", "", "403"},
		{"localhost.:" + port, "", "403"},
		{"evil.example:" + port, "", "403"}, // DNS rebinding
		{"localhost.evil.example:" + port, "", "403"},
		{"127.0.0.1.nip.io:" + port, "", "403"},
		{"192.168.1.2:" + port, "", "403"},
		{"0.0.0.0:" + port, "", "403"},
		{"[::]:" + port, "", "403"},
		{"[::1%25lo]:" + port, "", "403"},
		{"2130706433:" + port, "", "403"},
		{"", "", "403"},

		{"127.0.0.1:" + port, "Origin: " + own, "200"},
		{"localhost:" + port, "Origin: http://localhost:" + port, "200"},
		{"127.0.0.1:" + port, "Origin: http://localhost:" + port, "403"},
		{"127.0.0.1:" + port, "Origin: http://127.0.0.1:1", "403"},
		{"127.0.0.1:" + port, "Origin: http://127.0.0.1", "403"},
		{"127.0.0.1:" + port, "Origin: https://127.0.0.1:" + port, "403"},
		{"127.0.0.1:" + port, "Origin: http://evil.example", "403"},
		{"127.0.0.1:" + port, "Origin: null", "403"},
		{"127.0.0.1:" + port, "Origin:", "403"},
		{"127.0.0.1:" + port, "Origin: " + own + "\r\nOrigin: http://evil.example", "403"},
		{"127.0.0.1:" + port, "Origin: " + own + "/", "403"},
		{"127.0.0.1:" + port, "Origin: " + own + "@evil.example", "403"},

		{"127.0.0.1:" + port, "Sec-Fetch-Site: same-origin", "200"},
		{"127.0.0.1:" + port, "Sec-Fetch-Site: none", "200"},
		{"127.0.0.1:" + port, "Sec-Fetch-Site: cross-site", "403"},
		{"127.0.0.1:" + port, "Sec-Fetch-Site: same-site", "403"}, // another port of localhost
		{"127.0.0.1:" + port, "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site", "403"},

		{"evil.example:" + port, "X-Forwarded-Host: 127.0.0.1:" + port + "\r\nX-Forwarded-For: 127.0.0.1\r\nForwarded: host=127.0.0.1", "403"},
		{"127.0.0.1:" + port, "X-Forwarded-Host: evil.example\r\nX-Forwarded-For: 8.8.8.8", "200"},
	} {
		header := ""
		if test.header != "" {
			header = test.header + "\r\n"
		}
		got := r.raw("POST /api/v1/estop HTTP/1.1\r\nHost: " + test.host + "\r\n" + header +
			"Content-Type: application/json\r\nContent-Length: 15\r\nConnection: close\r\n\r\n" + `{"level":"cut"}`)
		if !strings.HasPrefix(got, "HTTP/1.1 "+test.status+" ") {
			t.Errorf("host %q, %q: %.100q, want %s", test.host, test.header, got, test.status)
		}
		if calls := f.taken(); (calls != "") != (test.status == "200") {
			t.Errorf("host %q, %q: asked %q", test.host, test.header, calls)
		}
		if strings.Contains(strings.ToLower(got), "access-control-") {
			t.Errorf("host %q, %q: CORS headers in %q", test.host, test.header, got)
		}
	}
	for _, get := range []string{"/", "/api/v1/state", "/healthz", "/readyz", "/metrics", "/nothing"} {
		if a := r.do("GET", get, "", "Origin", "http://evil.example"); a.status != 403 {
			t.Errorf("GET %s from elsewhere: %d", get, a.status)
		}
	}
	if got := r.raw("GET http://evil.example/ HTTP/1.1\r\nHost: " + r.addr + "\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("absolute form: %.60q", got)
	}
	if got := r.raw("GET / HTTP/1.0\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.0 403 ") {
		t.Errorf("no Host: %.60q", got)
	}
}

func TestCheckHostOnPort80(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "127.0.0.1:80"} {
		if err := checkHost(host, 80); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if checkHost("evil.example", 80) == nil {
		t.Error("evil.example was taken")
	}
}

func TestMethodsAndPaths(t *testing.T) {
	f := &fakeAgent{}
	r := start(t, f)
	for _, rt := range r.routes {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD", "MOVE"} {
			if method == rt.method {
				continue
			}
			a := r.do(method, rt.path, "")
			if a.status != 405 || a.header.Get("Allow") != rt.method {
				t.Errorf("%s %s: %d, Allow %q, want 405, %s", method, rt.path, a.status, a.header.Get("Allow"), rt.method)
			}
			if method != "HEAD" {
				if _, code, _ := a.error(t); code != "method" {
					t.Errorf("%s %s: %s", method, rt.path, a.body)
				}
			}
		}
	}
	for _, path := range []string{
		"/x", "/api", "/api/v1", "/api/v1/", "/api/v1/state/", "/API/v1/state", "/api/v1//state", "/api/v1/../v1/state",
		"/api/v1/state%00", "/healthz/x", "/debug/pprof/", "/favicon.ico", "/api/v2/state", "/%2e%2e/etc/passwd",
	} {
		for _, method := range []string{"GET", "POST"} {
			a := r.do(method, path, "")
			if _, code, _ := a.error(t); a.status != 404 || code != "not_found" {
				t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			}
		}
	}
	if got := f.taken(); got != "" {
		t.Errorf("asked %q", got)
	}
}

// TestRoutes: the table is what gin serves, what openapi.yaml describes and what
// the first page lists.
func TestRoutes(t *testing.T) {
	r := start(t, &fakeAgent{})
	var table, served, described []string
	page := r.do("GET", "/", "").body
	for _, rt := range r.routes {
		table = append(table, rt.method+" "+rt.path)
		if !strings.Contains(page, rt.method+strings.Repeat(" ", 5-len(rt.method))+rt.path+":") {
			t.Errorf("the first page lacks %s %s:\n%s", rt.method, rt.path, page)
		}
	}
	for _, rt := range r.engine.Routes() {
		served = append(served, rt.Method+" "+rt.Path)
	}
	for path, item := range openAPI(t)["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	for _, l := range [][]string{table, served, described} {
		slices.Sort(l)
	}
	if d := cmp.Diff(table, served); d != "" {
		t.Errorf("gin (-table +gin):\n%s", d)
	}
	if d := cmp.Diff(table, described); d != "" {
		t.Errorf("openapi.yaml (-table +file):\n%s", d)
	}
}

func openAPI(t *testing.T) map[string]any {
	t.Helper()
	b, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// schemas resolves a reference of openapi.yaml.
func resolve(t *testing.T, doc, schema map[string]any) map[string]any {
	t.Helper()
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	at := any(doc)
	for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		if at, ok = at.(map[string]any)[part]; !ok {
			t.Fatalf("openapi.yaml: %s leads nowhere", ref)
		}
	}
	return at.(map[string]any)
}

// describes compares a reply with its schema: the same members everywhere.
func describes(t *testing.T, doc, schema map[string]any, v any, at string) {
	t.Helper()
	schema = resolve(t, doc, schema)
	switch v := v.(type) {
	case map[string]any:
		properties, ok := schema["properties"].(map[string]any)
		if !ok {
			if _, free := schema["additionalProperties"]; !free {
				t.Errorf("%s: openapi.yaml describes no object", at)
			}
			return
		}
		if d := cmp.Diff(slices.Sorted(maps.Keys(properties)), slices.Sorted(maps.Keys(v))); d != "" {
			t.Errorf("%s (-openapi.yaml +reply):\n%s", at, d)
		}
		for name, x := range v {
			if p, ok := properties[name].(map[string]any); ok {
				describes(t, doc, p, x, at+"."+name)
			}
		}
	case []any:
		items, ok := schema["items"].(map[string]any)
		if !ok {
			t.Errorf("%s: openapi.yaml describes no array", at)
			return
		}
		for _, x := range v {
			describes(t, doc, items, x, at+"[]")
		}
	case string:
		if words, ok := schema["enum"].([]any); ok && !slices.Contains(words, any(v)) {
			t.Errorf("%s: %q is not among %v", at, v, words)
		}
	}
}

func TestPanicIsAnswered(t *testing.T) {
	f := &fakeAgent{panics: true}
	r := start(t, f)
	for _, path := range []string{"/api/v1/state", "/readyz"} {
		a := r.do("GET", path, "")
		if _, code, _ := a.error(t); a.status != 500 || code != "internal" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	f.mu.Lock()
	f.panics = false
	f.mu.Unlock()
	if a := r.do("GET", "/api/v1/state", ""); a.status != 200 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// TestPanicWithinReply: what was begun is cut off, so that no client takes it for
// whole, and the server goes on.
func TestPanicWithinReply(t *testing.T) {
	r := start(t, &fakeAgent{})
	r.engine.GET("/begun", func(c *gin.Context) { c.Writer.WriteString("{"); c.Writer.Flush(); panic("test") })
	r.engine.GET("/abort", func(*gin.Context) { panic(http.ErrAbortHandler) })
	for _, path := range []string{"/begun", "/abort"} {
		got := r.raw("GET " + path + " HTTP/1.1\r\nHost: " + r.addr + "\r\n\r\n")
		if strings.HasSuffix(got, "0\r\n\r\n") || strings.Contains(got, "internal") {
			t.Errorf("%s: %q", path, got)
		}
	}
	if a := r.do("GET", "/healthz", ""); a.status == 0 {
		t.Error("the server is gone")
	}
}

func TestInfoMayBeEmpty(t *testing.T) {
	s, err := New(DefaultConfig(), &fakeAgent{}, Info{})
	if err != nil {
		t.Fatal(err)
	}
	s.port.Store(80)
	for _, path := range []string{"/", "/api/v1/state", "/metrics"} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest("GET", path, nil)
		req.Host = "127.0.0.1"
		s.engine.ServeHTTP(w, req)
		if w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestHeaders(t *testing.T) {
	r := start(t, &fakeAgent{})
	for path, kind := range map[string]string{
		"/": "text/plain; charset=utf-8", "/api/v1/state": "application/json; charset=utf-8", "/nothing": "application/json; charset=utf-8",
	} {
		a := r.do("GET", path, "")
		for name, want := range map[string]string{
			"Content-Type": kind, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
	if got := r.raw("GET / HTTP/1.1\r\nHost: " + r.addr + "\r\nX: " + strings.Repeat("x", 32<<10) + "\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 431 ") {
		t.Errorf("32 KiB of header: %.60q", got)
	}
}

// TestShutdown: requests under way are answered, idle connections end, nothing
// is left running.
func TestShutdown(t *testing.T) {
	before := runtime.NumGoroutine()
	inside, release := make(chan struct{}), make(chan struct{})
	f := &fakeAgent{block: func(context.Context) { close(inside); <-release }}
	r := start(t, f)
	tr := &http.Transport{} // keeps its connection open
	defer tr.CloseIdleConnections()
	if resp, err := (&http.Client{Transport: tr}).Get("http://" + r.addr + "/healthz"); err != nil {
		t.Fatal(err)
	} else {
		resp.Body.Close()
	}
	reply := make(chan *answer)
	go func() { reply <- r.do("POST", "/api/v1/mode", `{"mode":"sit"}`) }()
	<-inside
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	for { // until the listener is closed
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			break
		}
		c.Close()
	}
	close(release)
	if a := <-reply; a.status != 200 {
		t.Errorf("under way: %d %s", a.status, a.body)
	}
	<-stopped
	tr.CloseIdleConnections()
	noneLeft(t, before)
}

// TestShutdownIsBounded: a request that does not end is cut off.
func TestShutdownIsBounded(t *testing.T) {
	inside := make(chan struct{})
	f := &fakeAgent{block: func(ctx context.Context) { close(inside); <-ctx.Done() }}
	r := start(t, f, func(c *Config) {
		c.ShutdownTimeout = 20 * time.Millisecond
		c.CallTimeout, c.WriteTimeout = time.Hour, 2*time.Hour
	})
	got := make(chan string)
	go func() {
		got <- r.raw("POST /api/v1/mode HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n" + `{"mode":"sit"}`)
	}()
	<-inside
	r.stop()
	if s := <-got; s != "" {
		t.Errorf("got %q", s)
	}
}

// noneLeft waits for the goroutines of closed connections to end.
func noneLeft(t *testing.T, before int) {
	t.Helper()
	for range 500 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
}
