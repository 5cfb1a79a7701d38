package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// Agent is what the server needs of the control loop; control.Loop implements
// it. All methods are called from many goroutines at once.
type Agent interface {
	// Snapshot fills out with the newest published tick.
	Snapshot(out *control.Snapshot)
	// NowNs is the loop's monotonic clock; commands end on it.
	NowNs() int64
	Arm(ctx context.Context) error
	// SetMode asks for stand, policy or sit.
	SetMode(ctx context.Context, m control.Mode) error
	// Damp asks for damp, for somebody who was shown so many trips of the guard.
	Damp(ctx context.Context, shown uint64) error
	// EStop stops: damping at once when cut, else by sitting down. It must not
	// wait for an Arm or SetMode that is under way.
	EStop(ctx context.Context, cut bool) error
	// Command asks for a velocity, vx, vy (m/s), wz (rad/s), until expiresNs. It
	// does not wait.
	Command(v [3]float32, expiresNs int64) error
}

// Info is what the server tells about the agent besides snapshots.
type Info struct {
	Version        string
	Commit         string
	Robot          string // kind of robot, e.g. go1.Robot
	PolicyName     string // "" without a policy, as the next two
	PolicySHA256   string
	ContractSource string // where the policy's contract came from
	CommandRange   rollout.Command

	// Realtime tells people what the loop's thread was given by the system, once
	// it runs; LinkCounters returns the link's counters by name; Guard copies what
	// the guard says, false without one. All are called from any goroutine; nil:
	// nothing to tell.
	Realtime     func() string
	LinkCounters func() map[string]uint64
	Guard        func(*guard.Status) bool
	// LinkLoss tells what the motors of the robot in a snapshot that has a state do when no command comes, and what to be
	// warned of; nil: nobody knows.
	LinkLoss func(*control.Snapshot) (behaviour, warning string)
	// FirstContact tells whether that robot has to have passed its first contact before it stands, and what to be warned of
	// where it has not; nil: nothing is asked.
	FirstContact func(*control.Snapshot) (required bool, warning string)
}

func (i *Info) realtime() string {
	if i.Realtime == nil {
		return ""
	}
	return i.Realtime()
}

func (i *Info) linkCounters() map[string]uint64 {
	if i.LinkCounters == nil {
		return map[string]uint64{}
	}
	return i.LinkCounters()
}

// Config bounds what clients can cost.
type Config struct {
	// Connections held at once. More makes floods costlier in memory (some
	// 30 KB each), fewer makes a new client push out an idle one sooner.
	Connections int
	// HeaderTimeout and ReadTimeout bound the arrival of a request's head and of
	// all of it; WriteTimeout that of its reply; IdleTimeout the wait for the
	// next one.
	HeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// CallTimeout bounds the wait for the control loop's answer.
	CallTimeout time.Duration
	// ShutdownTimeout is what requests under way get when Serve ends.
	ShutdownTimeout time.Duration
	// Log takes what goes wrong inside the server; nil: slog.Default.
	Log *slog.Logger
}

// DefaultConfig is right for a robot.
func DefaultConfig() Config {
	return Config{
		Connections:   64,
		HeaderTimeout: 3 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 15 * time.Second, IdleTimeout: 60 * time.Second,
		CallTimeout: 8 * time.Second, ShutdownTimeout: 2 * time.Second,
	}
}

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	if c.Connections < minConnections || c.Connections > 4096 {
		return fmt.Errorf("httpapi: connections: %d, want %d..4096", c.Connections, minConnections)
	}
	for _, t := range []struct {
		name string
		d    time.Duration
	}{
		{"header timeout", c.HeaderTimeout}, {"read timeout", c.ReadTimeout}, {"write timeout", c.WriteTimeout},
		{"idle timeout", c.IdleTimeout}, {"call timeout", c.CallTimeout}, {"shutdown timeout", c.ShutdownTimeout},
	} {
		if t.d <= 0 {
			return fmt.Errorf("httpapi: %s: %v, want more than 0", t.name, t.d)
		}
	}
	if c.WriteTimeout <= c.ReadTimeout+c.CallTimeout { // it runs from the request's head on
		return fmt.Errorf("httpapi: write timeout: %v, want more than read timeout + call timeout = %v", c.WriteTimeout, c.ReadTimeout+c.CallTimeout)
	}
	return nil
}

const (
	maxWaiting     = 8 // requests that wait for the control loop, stops aside
	minConnections = 2 * maxWaiting
	headerLimit    = 8 << 10 // bytes of a request's head
)

// Server answers HTTP for one Agent. It is used for one Serve.
type Server struct {
	cfg     Config
	agent   Agent
	info    Info
	engine  *gin.Engine
	routes  []route
	pulse   pulse
	port    atomic.Uint32 // of the listener; 0 before Serve
	waiting chan struct{}
	told    told
}

// New makes a server.
func New(cfg Config, agent Agent, info Info) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &Server{cfg: cfg, agent: agent, info: info, waiting: make(chan struct{}, maxWaiting)}
	metrics, err := s.metrics()
	if err != nil {
		return nil, err
	}
	s.routes = s.table(metrics)

	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	e.ForwardedByClientIP = false
	if err := e.SetTrustedProxies(nil); err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	e.Use(s.recover, s.guard)
	e.NoRoute(func(c *gin.Context) {
		fail(c, &apiError{status: http.StatusNotFound, Code: "not_found", Text: "no such path; GET / lists them"})
	})
	e.NoMethod(func(c *gin.Context) {
		fail(c, &apiError{status: http.StatusMethodNotAllowed, Code: "method",
			Text: fmt.Sprintf("method %s is not for this path, want %s", short(c.Request.Method), c.Writer.Header().Get("Allow"))})
	})
	for _, r := range s.routes {
		e.Handle(r.method, r.path, r.handler)
	}
	s.engine = e
	return s, nil
}

// route is one line of the table that everything about routes comes from.
type route struct {
	method, path string
	handler      gin.HandlerFunc
	does         string
	body         string // an example for a shell, within single quotes; HOST is ours; "" for GET
}

func (s *Server) table(metrics gin.HandlerFunc) []route {
	return []route{
		{"GET", "/", s.index, "this page", ""},
		{"GET", "/api/v1/state", s.state, "everything about the robot, one tick", ""},
		{"POST", "/api/v1/arm", s.act(s.arm), "begin to send to the robot: a person looks at it first", `{}`},
		{"POST", "/api/v1/mode", s.act(s.mode), "damp, stand, policy or sit; with damp, `trips` says which trips of the guard you have seen", `{"mode":"stand"}`},
		{"POST", "/api/v1/command", s.act(s.command), "velocity (m/s, m/s, rad/s) until `expires`, at most 2 s ahead on the clock of /api/v1/state; send 10 a second", `{"vx":0.5,"vy":0,"wz":0,"expires":'$(curl -s http://HOST/api/v1/state | jq .clock+1)'}`},
		{"POST", "/api/v1/estop", s.act(s.estop), "settle: sit down, then damp; cut: damp at once", `{"level":"settle"}`},
		{"GET", "/healthz", s.healthz, "200 while the control loop ticks", ""},
		{"GET", "/readyz", s.readyz, "200 while armed, with fresh states and no fault", ""},
		{"GET", "/metrics", metrics, "Prometheus", ""},
	}
}

func (s *Server) index(c *gin.Context) {
	var b strings.Builder
	fmt.Fprintf(&b, "clawagent %s, %s. First version: no access control, so only this machine can reach it.\n", s.info.Version, s.info.Robot)
	for _, r := range s.routes {
		fmt.Fprintf(&b, "\n%-4s %s: %s\n    curl ", r.method, r.path, r.does)
		if r.body != "" {
			fmt.Fprintf(&b, "-H 'Content-Type: application/json' -d '%s' ", strings.ReplaceAll(r.body, "HOST", c.Request.Host))
		}
		fmt.Fprintf(&b, "http://%s%s\n", c.Request.Host, r.path)
	}
	c.String(http.StatusOK, "%s", b.String())
}

// guard refuses what a web page on another site could make a browser send.
func (s *Server) guard(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	err := checkHost(c.Request.Host, uint16(s.port.Load()))
	if err == nil {
		err = checkOrigin(c.Request)
	}
	if err != nil {
		fail(c, &apiError{status: http.StatusForbidden, Code: "foreign", Text: short(err.Error())})
	}
}

// recover turns a panic into a 500; the server and the robot go on.
func (s *Server) recover(c *gin.Context) {
	defer func() {
		p := recover()
		switch p {
		case nil:
			return
		case http.ErrAbortHandler:
			panic(p)
		}
		s.cfg.Log.Error("httpapi: panic in a handler", "path", c.Request.URL.Path, "panic", p, "stack", string(debug.Stack()))
		if !c.Writer.Written() {
			fail(c, &apiError{status: http.StatusInternalServerError, Code: "internal", Text: "the server failed; its log has the cause"})
			return
		}
		panic(http.ErrAbortHandler) // half a reply must not look whole
	}()
	c.Next()
}

// reply writes v as JSON.
func reply(c *gin.Context, status int, v any) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil { // no type of ours fails; a map of LinkCounters might hold bad UTF-8
		status, b = http.StatusInternalServerError, []byte(`{"error":"the reply could not be encoded","code":"internal"}`)
	}
	b = append(b, '\n')
	c.Header("Content-Length", strconv.Itoa(len(b)))
	c.Data(status, "application/json; charset=utf-8", b)
}

type connKey struct{}

// Serve answers on l until ctx ends, then lets requests under way finish within
// ShutdownTimeout. It returns nil when ctx ended it. l is closed in any case; it
// must be on loopback.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	port, err := loopbackPort(l)
	if err != nil {
		_ = l.Close()
		return err
	}
	if !s.port.CompareAndSwap(0, uint32(port)) {
		_ = l.Close()
		return errors.New("httpapi: Serve was called before")
	}
	srv := &http.Server{
		Handler:           s.engine,
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		ReadTimeout:       s.cfg.ReadTimeout,
		WriteTimeout:      s.cfg.WriteTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    headerLimit,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelWarn),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	watching, stopWatching := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer func() { // without it /healthz still looks, at each request
			if p := recover(); p != nil {
				s.cfg.Log.Error("httpapi: panic in the look at the loop's clock", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		s.watch(watching)
	}()
	defer func() {
		stopWatching()
		<-watched
	}()

	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(newGate(l, s.cfg.Connections)) }()
	select {
	case err := <-failed:
		_ = srv.Close()
		return fmt.Errorf("httpapi: %w", err)
	case <-ctx.Done():
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(bound); err != nil {
		_ = srv.Close() // those that did not finish
	}
	<-failed
	return nil
}
