package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/openclaw-rl/openclaw/agent/control"
)

// apiError is the body of every reply that is not 2xx, but for /healthz and
// /readyz.
type apiError struct {
	status int
	Text   string   `json:"error"`           // one sentence for people
	Code   string   `json:"code"`            // for programs
	Field  string   `json:"field,omitempty"` // the member it is about
	Value  *float32 `json:"value,omitempty"` // with code out_of_range
	Lo     *float32 `json:"lo,omitempty"`
	Hi     *float32 `json:"hi,omitempty"`
}

func (e *apiError) Error() string { return e.Text }

// badRequest is a 400 about a member, or about the body where field is "".
func badRequest(field, text string) error {
	if field != "" {
		text = field + " " + text
	}
	return &apiError{status: http.StatusBadRequest, Code: "bad_request", Field: field, Text: text}
}

// asAPI gives an Agent's error its status.
func asAPI(err error) *apiError {
	var api *apiError
	var refusal *control.Refusal
	var value *control.CommandError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &value):
		return &apiError{status: http.StatusBadRequest, Code: "out_of_range", Text: err.Error(),
			Field: value.Field, Value: finiteOrNil(value.Value), Lo: finiteOrNil(value.Lo), Hi: finiteOrNil(value.Hi)}
	case errors.Is(err, control.ErrTooDistant):
		return &apiError{status: http.StatusBadRequest, Code: "too_distant", Field: "expires", Text: err.Error()}
	case errors.Is(err, control.ErrExpired):
		return &apiError{status: http.StatusConflict, Code: "expired", Field: "expires", Text: err.Error()}
	case errors.Is(err, control.ErrOlder):
		return &apiError{status: http.StatusConflict, Code: "older", Field: "expires", Text: err.Error()}
	case errors.Is(err, control.ErrNoFirstContact):
		return &apiError{status: http.StatusConflict, Code: "first_contact", Text: err.Error()}
	case errors.As(err, &refusal) && refusal.Reason == control.TrippedMeanwhile:
		return &apiError{status: http.StatusConflict, Code: "tripped", Text: err.Error()}
	case errors.As(err, &refusal):
		return &apiError{status: http.StatusConflict, Code: "refused", Text: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &apiError{status: http.StatusServiceUnavailable, Code: "no_answer", Text: "the control loop did not answer in time: " + err.Error()}
	}
	return &apiError{status: http.StatusConflict, Code: "failed", Text: err.Error()}
}

func finiteOrNil(x float32) *float32 {
	if !finite(float64(x)) {
		return nil
	}
	return &x
}

// lingerLimit is what is read of a refused body behind the reply, bytes.
const lingerLimit = 1 << 20

// fail ends a request with an error. The reply goes first, then what the client
// still sends is read: whoever is hung up on while writing may lose the reply
// to the reset (RFC 9112 9.6). ReadTimeout bounds it.
func fail(c *gin.Context, err error) {
	e := asAPI(err)
	lingers := c.Request.ContentLength != 0 && c.Request.Header.Get("Expect") == "" && // who waits for a 100 sends nothing
		http.NewResponseController(c.Writer).EnableFullDuplex() == nil // else net/http would read before it replies
	reply(c, e.status, e)
	c.Abort()
	if lingers {
		c.Writer.Flush()
		_, _ = io.CopyN(io.Discard, c.Request.Body, lingerLimit)
	}
}

// done is the body of a request that was carried out.
type done struct {
	OK    bool    `json:"ok"`
	Mode  string  `json:"mode"`  // after it
	Clock seconds `json:"clock"` // the robot's
	// Warning is what somebody who lets the robot stand, or the policy drive, should know.
	Warning string `json:"warning,omitzero"`
}

// act reads a body whole, then has do decode it and call the Agent. While do
// runs, its connection is not given up for a newer one.
func (s *Server) act(do func(ctx context.Context, body []byte) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		body, err := readBody(c.Writer, c.Request)
		if err == nil {
			err = s.held(c, body, do)
		}
		if err != nil {
			fail(c, err)
			return
		}
		var snap control.Snapshot
		s.snapshotAfter(s.agent.NowNs(), &snap)
		d := done{OK: true, Mode: modeName(snap.Mode), Clock: seconds(snap.NowNs)}
		d.Warning = s.warning(&snap)
		reply(c, http.StatusOK, d)
	}
}

// warning is what somebody who lets the robot of a snapshot stand, or the policy drive it, should know.
func (s *Server) warning(snap *control.Snapshot) string {
	var warnings []string
	if snap.Mode == control.Stand || snap.Mode == control.Policy {
		warnings = append(warnings, newFirstContact(snap, &s.info).Warning)
	}
	if snap.Mode == control.Policy {
		warnings = append(warnings, newLinkLoss(snap, &s.info).Warning)
	}
	return strings.Join(slices.DeleteFunc(warnings, func(w string) bool { return w == "" }), "; ")
}

// snapshotAfter waits a few ticks for a snapshot of nowNs or later: a tick
// answers a request before it publishes what came of it.
func (s *Server) snapshotAfter(nowNs int64, out *control.Snapshot) {
	for range 20 {
		if s.agent.Snapshot(out); out.NowNs >= nowNs {
			return
		}
		time.Sleep(time.Millisecond / 2)
	}
}

func (s *Server) held(c *gin.Context, body []byte, do func(context.Context, []byte) error) error {
	if conn, ok := c.Request.Context().Value(connKey{}).(*gateConn); ok {
		conn.hold()
		defer conn.release()
	}
	// The request is here whole; its read time-out would cancel the call.
	_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(c.Request.Context(), s.cfg.CallTimeout)
	defer cancel()
	return do(ctx, body)
}

// oneOf lets few at a time wait for the control loop, so that the waiting never
// fill the server; a stop does not pass here.
func (s *Server) oneOf(do func() error) error {
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
		return do()
	default:
		return &apiError{status: http.StatusServiceUnavailable, Code: "busy",
			Text: fmt.Sprintf("%d requests wait for the control loop already", cap(s.waiting))}
	}
}

func (s *Server) command(_ context.Context, body []byte) error {
	v, expiresNs, err := decodeCommand(body)
	if err != nil {
		return err
	}
	return s.agent.Command(v, expiresNs)
}

func (s *Server) mode(ctx context.Context, body []byte) error {
	name, trips, err := decodeMode(body)
	if err != nil {
		return err
	}
	if name == control.Damp.String() {
		return s.oneOf(func() error { return s.damp(ctx, trips) })
	}
	for _, m := range []control.Mode{control.Stand, control.Policy, control.Sit} {
		if name == m.String() {
			return s.oneOf(func() error { return s.agent.SetMode(ctx, m) })
		}
	}
	return badRequest("mode", fmt.Sprintf("is %q, want damp, stand, policy or sit", short(name)))
}

// damp clears no trip of the guard that whoever asks cannot have seen: by their own word, or else by what this server has told so far.
// A request that waited while this process stood still comes behind the trip, and was sent before it.
func (s *Server) damp(ctx context.Context, trips *uint64) error {
	if trips == nil {
		seen := s.told.seen(s.ticks())
		trips = &seen
	}
	err := s.agent.Damp(ctx, *trips)
	if refusal := new(control.Refusal); errors.As(err, &refusal) && refusal.Reason == control.TrippedMeanwhile {
		s.told.tell(uint64(refusal.Value), s.ticks) // by this very answer
	}
	return err
}

func (s *Server) arm(ctx context.Context, body []byte) error {
	if err := decode(body, &armBody{}); err != nil {
		return err
	}
	return s.oneOf(func() error { return s.agent.Arm(ctx) })
}

func (s *Server) estop(ctx context.Context, body []byte) error {
	cut, err := decodeEStop(body)
	if err != nil {
		return err
	}
	// A stop that has come is carried out, though its client hung up meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.CallTimeout)
	defer cancel()
	return s.agent.EStop(ctx, cut)
}
