package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// maxBody is the longest request, bytes.
const maxBody = 16 << 10

// Control is the robot's HTTP interface for tests, on a loopback address: GET /status gives a Status, GET /faults the table of
// kinds, POST /fault injects one Fault (as a JSON object with its keys, or {"fault": TEXT} in text form).
type Control struct {
	server *http.Server
	addr   netip.AddrPort
	done   chan error
}

// ServeControl opens the interface on addr.
func ServeControl(r *Robot, addr netip.AddrPort) (*Control, error) {
	l, err := net.Listen("tcp4", addr.String())
	if err != nil {
		return nil, fmt.Errorf("virtual: control: %w", err)
	}
	c := &Control{
		addr:   l.Addr().(*net.TCPAddr).AddrPort(),
		server: &http.Server{Handler: handler(r), ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10},
		done:   make(chan error, 1),
	}
	go func() { c.done <- c.server.Serve(l) }()
	return c, nil
}

// Addr is where it listens.
func (c *Control) Addr() netip.AddrPort { return c.addr }

// Close ends it within a second.
func (c *Control) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := c.server.Shutdown(ctx)
	if served := <-c.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func handler(r *Robot) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, r.Status()) })
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, FaultHelp()) })
	mux.HandleFunc("POST /fault", func(w http.ResponseWriter, req *http.Request) {
		f, err := readFault(http.MaxBytesReader(w, req.Body, maxBody))
		if err == nil {
			err = r.Inject(f)
		}
		switch tooLong := new(http.MaxBytesError); {
		case errors.As(err, &tooLong):
			reply(w, http.StatusRequestEntityTooLarge, failure{err.Error()})
		case errors.Is(err, ErrEnded):
			reply(w, http.StatusConflict, failure{err.Error()})
		case err != nil:
			reply(w, http.StatusBadRequest, failure{err.Error()})
		default:
			reply(w, http.StatusOK, accepted{f.String(), r.Status().Tick})
		}
	})
	return mux
}

type failure struct {
	Error string `json:"error"`
}

type accepted struct {
	Fault string `json:"fault"`
	Tick  uint32 `json:"tick"` // of the robot when it was accepted
}

func reply(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(b, '\n')) // a client that has gone is its own matter
}

// readFault reads a request: a Fault's keys, or the key fault alone.
func readFault(body io.Reader) (Fault, error) {
	var req struct {
		Fault
		Text string `json:"fault"`
	}
	if err := json.UnmarshalRead(body, &req, json.RejectUnknownMembers(true)); err != nil {
		return Fault{}, fmt.Errorf("virtual: request: %w", err)
	}
	if req.Text == "" {
		return req.Fault, req.Fault.Validate()
	}
	if req.Kind != "" {
		return Fault{}, errors.New("virtual: request: either fault or kind")
	}
	f, err := ParseFault(strings.TrimSpace(req.Text))
	return f, err
}
