package main

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"io/fs"
	"log"
	"mime"
	"net"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/gin-gonic/gin"
	"golang.org/x/net/netutil"

	"github.com/openclaw-rl/openclaw/sim/cmd/clawsim/web"
)

// contentPolicy lets the page load nothing but its own files.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// maxConnections bounds the HTTP connections held at once.
const maxConnections = 64

// viewServer serves the page and its WebSockets.
type viewServer struct {
	hub      *hub      // for people; nil: nobody is let in
	recorder *recorder // for the page that renders; nil: none
	hosts    *hosts
	listener net.Listener
	engine   *gin.Engine
	base     context.Context // ends every WebSocket

	mu     sync.Mutex
	closed bool
	pages  sync.WaitGroup // WebSockets being served
}

// newViewServer makes a server on l, whose ADDR was addr.
func newViewServer(l net.Listener, addr string, open bool) (*viewServer, error) {
	s := &viewServer{hosts: newHosts(addr, l, open), listener: l}
	gin.SetMode(gin.ReleaseMode)
	s.engine = gin.New()
	s.engine.RedirectTrailingSlash, s.engine.ForwardedByClientIP = false, false
	s.engine.HandleMethodNotAllowed = true
	if err := s.engine.SetTrustedProxies(nil); err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	s.engine.Use(gin.RecoveryWithWriter(io.Discard), s.guard)
	s.engine.GET("/ws", s.socket)
	err := fs.WalkDir(web.Dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := web.Dist.ReadFile(name)
		if err != nil {
			return err
		}
		kind := mime.TypeByExtension(path.Ext(name))
		at := name[len("dist"):]
		if at == "/index.html" {
			at = "/"
		}
		s.engine.GET(at, func(c *gin.Context) { c.Data(http.StatusOK, kind, b) })
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	return s, nil
}

// url is where the page is.
func (s *viewServer) url() string {
	at := s.listener.Addr().(*net.TCPAddr)
	if at.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d/", at.Port)
	}
	return "http://" + at.String() + "/"
}

// guard refuses what a page of another site could make a browser send.
func (s *viewServer) guard(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	err := s.hosts.check(c.Request.Host)
	if err == nil {
		err = checkOrigin(c.Request)
	}
	if err != nil {
		c.String(http.StatusForbidden, "%s\n", err)
		c.Abort()
	}
}

// socket serves one page's WebSocket until it ends.
func (s *viewServer) socket(c *gin.Context) {
	token := c.Query("record")
	switch {
	case token != "" && (s.recorder == nil || subtle.ConstantTimeCompare([]byte(token), []byte(s.recorder.token)) == 0):
		c.String(http.StatusForbidden, "nothing is rendered under this token\n")
		return
	case token == "" && s.hub == nil:
		c.String(http.StatusForbidden, "only a rendering is under way here\n")
		return
	}
	// Accept compares Origin with Host once more.
	conn, err := websocket.Accept(c.Writer, c.Request, nil)
	if err != nil {
		return // Accept has answered
	}
	defer func() { _ = conn.CloseNow() }()
	if !s.enter() {
		return
	}
	defer s.pages.Done()
	if token != "" {
		s.recorder.serve(s.base, conn)
		return
	}
	s.hub.serve(s.base, conn)
}

// enter counts a WebSocket in, unless the server has stopped.
func (s *viewServer) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.pages.Add(1)
	}
	return !s.closed
}

// start serves until the returned stop is called, which waits for the goroutines of every page: what reads from it and what writes.
func (s *viewServer) start(ctx context.Context) (stop func()) {
	base, cancel := context.WithCancel(ctx)
	s.base = base
	srv := &http.Server{Handler: s.engine, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 8 << 10, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(netutil.LimitListener(s.listener, maxConnections)) // ends by Close
	}()
	return func() {
		cancel()
		_ = srv.Close()
		<-served
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.pages.Wait()
	}
}
