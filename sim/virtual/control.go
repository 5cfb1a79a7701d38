package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxBody is the longest request, bytes.
const maxBody = 16 << 10

// Control is the robot's HTTP interface for tests, on a loopback address: GET /status gives a Status, GET /faults the table of
// kinds, POST /fault injects one Fault (as a JSON object with its keys, or {"fault": TEXT} in text form, which then stands alone). A
// parameter is a text or a number.
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
	var keys map[string]jsontext.Value
	if err := json.UnmarshalRead(body, &keys); err != nil {
		if _, ok := errors.AsType[*json.SemanticError](err); ok {
			err = errors.New("want one JSON object")
		}
		return Fault{}, fmt.Errorf("virtual: request: %w", err)
	}
	var f Fault
	var text string
	var params map[string]jsontext.Value
	type place struct {
		at   any
		want string
	}
	into := map[string]place{"fault": {&text, "a text"}, "kind": {&f.Kind, "a text"}, "params": {&params, "an object"}, "from": {&f.From, "a text"},
		"at": {&f.At, "a number of seconds"}, "for": {&f.For, "a number of seconds"}, "every": {&f.Every, "a number of seconds"}, "samples": {&f.Samples, "a whole number"}}
	_, asText := keys["fault"]
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		bad := func(format string, a ...any) (Fault, error) {
			return Fault{}, fmt.Errorf("virtual: request: %s %s", name, fmt.Sprintf(format, a...))
		}
		value := keys[name]
		switch p, known := into[name]; {
		case !known:
			return bad("is no key (fault alone, or kind, params, from, at, for, samples, every)")
		case asText && name != "fault":
			return bad("stands beside fault, whose text says everything")
		case value.Kind() == 'n' || json.Unmarshal(value, p.at) != nil:
			return bad("is %.100s, want %s", value, p.want)
		}
	}
	if asText {
		return ParseFault(strings.TrimSpace(text))
	}
	for name, value := range params {
		if f.Params == nil {
			f.Params = map[string]string{}
		}
		switch value.Kind() {
		case '"':
			var v string
			if err := json.Unmarshal(value, &v); err != nil {
				return Fault{}, fmt.Errorf("virtual: request: params.%s: %w", name, err)
			}
			f.Params[name] = v
		case '0':
			f.Params[name] = value.String()
		default:
			return Fault{}, fmt.Errorf("virtual: request: params.%s is %.100s, want a text or a number", name, value)
		}
	}
	given := func(name string) bool { return keys[name] != nil }
	return f, f.validate(given)
}
