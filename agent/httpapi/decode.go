package httpapi

import (
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/openclaw-rl/openclaw/agent/control"
)

// bodyLimit of a request, bytes.
const bodyLimit = 16 << 10

// Bodies of requests. Members are pointers so that a missing one is seen.
type (
	commandBody struct {
		Vx      *float32 `json:"vx"`      // m/s
		Vy      *float32 `json:"vy"`      // m/s
		Wz      *float32 `json:"wz"`      // rad/s
		Expires *float64 `json:"expires"` // s, on the robot's clock
	}
	modeBody struct {
		Mode  *string `json:"mode"`
		Trips *uint64 `json:"trips"` // with damp, and there not required: the guard's that whoever asks was shown
	}
	estopBody struct {
		Level *string `json:"level"`
	}
	armBody struct{}
)

// readBody reads a JSON body whole. Errors are apiErrors.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil // of no type; the route says what it means
	}
	tooLarge := &apiError{status: http.StatusRequestEntityTooLarge, Code: "too_large",
		Text: fmt.Sprintf("the body is over %d bytes", bodyLimit)}
	if r.ContentLength > bodyLimit {
		return nil, tooLarge // without waiting for it
	}
	for _, v := range append([]string{r.Header.Get("Content-Type")}, r.Header.Values("Content-Type")...) {
		if kind, param, err := mime.ParseMediaType(v); err != nil || kind != "application/json" ||
			(param["charset"] != "" && !strings.EqualFold(param["charset"], "utf-8")) {
			return nil, &apiError{status: http.StatusUnsupportedMediaType, Code: "media_type",
				Text: fmt.Sprintf("Content-Type is %q, want application/json", v)}
		}
	}
	if v := r.Header.Get("Content-Encoding"); v != "" {
		return nil, &apiError{status: http.StatusUnsupportedMediaType, Code: "media_type",
			Text: fmt.Sprintf("Content-Encoding is %q, want none", v)}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
	switch {
	case len(body) > bodyLimit:
		return nil, tooLarge
	case err != nil:
		w.Header().Set("Connection", "close")
		return nil, badRequest("", "the body did not arrive whole: "+err.Error())
	}
	return body, nil
}

// decode reads exactly one JSON object into the zero value that out points to.
// Unknown, repeated and differently cased members, null, wrong types, numbers
// out of range, bad UTF-8 and trailing bytes are refused; the error is a
// sentence for the client. out may be partly filled then and must not be used.
func decode(body []byte, out any) error {
	err := json.Unmarshal(body, out, json.RejectUnknownMembers(true))
	if err == nil {
		if jsontext.Value(body).Kind() != '{' { // null leaves out as it was
			return badRequest("", "the body is not a JSON object")
		}
		return nil
	}
	var bad *jsontext.SyntacticError
	var unfit *json.SemanticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		if errors.As(err, &bad) {
			return badRequest(short(bad.JSONPointer.LastToken()), "is given twice")
		}
	case errors.As(err, &bad):
		if len(strings.TrimSpace(string(body))) == 0 {
			return badRequest("", "the body is empty, want a JSON object")
		}
		return badRequest(field(bad.JSONPointer), fmt.Sprintf("not JSON at byte %d: %v", bad.ByteOffset, bad.Err))
	case errors.As(err, &unfit):
		at := field(unfit.JSONPointer)
		switch {
		case errors.Is(unfit.Err, json.ErrUnknownName):
			return badRequest(at, "is not a member of this request (names are case-sensitive)")
		case errors.Is(unfit.Err, strconv.ErrRange):
			return badRequest(at, fmt.Sprintf("%s is too large a number", short(string(unfit.JSONValue))))
		case at == "":
			return badRequest("", fmt.Sprintf("the body is %s, want a JSON object", kindName(unfit.JSONKind)))
		default:
			return badRequest(at, fmt.Sprintf("is %s, want %s", kindName(unfit.JSONKind), wantName(unfit)))
		}
	}
	return badRequest("", short(err.Error()))
}

// decodeCommand reads a velocity command: vx, vy (m/s), wz (rad/s), all finite,
// and its end on the robot's clock, ns.
func decodeCommand(body []byte) (v [3]float32, expiresNs int64, err error) {
	var b commandBody
	if err := decode(body, &b); err != nil {
		return v, 0, err
	}
	for i, m := range []struct {
		name string
		x    *float32
	}{{"vx", b.Vx}, {"vy", b.Vy}, {"wz", b.Wz}} {
		switch {
		case m.x == nil:
			return [3]float32{}, 0, missing(m.name)
		case !finite(float64(*m.x)): // the decoder has no such number; motion hangs on it, so once more
			return [3]float32{}, 0, badRequest(m.name, "is not finite")
		case *m.x != 0: // so that -0 becomes 0
			v[i] = *m.x
		}
	}
	switch {
	case b.Expires == nil:
		return [3]float32{}, 0, missing("expires")
	case !finite(*b.Expires) || math.Abs(*b.Expires) > maxClockS:
		return [3]float32{}, 0, badRequest("expires", fmt.Sprintf("is %v s, want a time near the clock that /api/v1/state shows", *b.Expires))
	}
	return v, int64(math.Round(*b.Expires * 1e9)), nil
}

// maxClockS keeps seconds within an int64 of ns: 285 years.
const maxClockS = 9e9

// decodeMode reads the mode asked for and, with damp, the trips that whoever asks was shown; nil: not said.
func decodeMode(body []byte) (mode string, trips *uint64, err error) {
	var b modeBody
	if err := decode(body, &b); err != nil {
		return "", nil, err
	}
	switch {
	case b.Mode == nil:
		return "", nil, missing("mode")
	case b.Trips != nil && *b.Mode != control.Damp.String():
		return "", nil, badRequest("trips", "belongs to mode damp alone")
	}
	return *b.Mode, b.Trips, nil
}

// decodeEStop says whether the level is cut. Nothing at all means settle: a stop
// in a hurry (curl -X POST) is a stop.
func decodeEStop(body []byte) (cut bool, err error) {
	if len(body) == 0 {
		return false, nil
	}
	var b estopBody
	if err := decode(body, &b); err != nil {
		return false, err
	}
	switch {
	case b.Level == nil:
		return false, missing("level")
	case *b.Level == "cut":
		return true, nil
	case *b.Level == "settle":
		return false, nil
	}
	return false, badRequest("level", fmt.Sprintf("is %q, want settle or cut", short(*b.Level)))
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func missing(name string) error {
	return badRequest(name, "is missing or null; every member is required")
}

// field is the member of the body that a pointer such as /vx/0 lies in.
func field(p jsontext.Pointer) string {
	for token := range p.Tokens() {
		return short(token)
	}
	return ""
}

// short keeps a client's text from filling a reply.
func short(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if r := []rune(s); len(r) > 64 {
		return string(r[:64]) + "..."
	}
	return s
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case '[':
		return "an array"
	case '{':
		return "an object"
	}
	return "null"
}

func wantName(e *json.SemanticError) string {
	if e.GoType != nil {
		switch e.GoType.Kind() {
		case reflect.String:
			return "a string"
		case reflect.Uint64:
			return "a whole number, at least 0"
		}
	}
	return "a number"
}
