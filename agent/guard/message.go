package guard

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// version of the messages. A guard and an agent of different ones refuse each other. 2: a refusal has a code, a report the socket's address.
// 3: a report says whether the guard is alone.
const version = 3

// maxMessage is the longest message, bytes.
const maxMessage = 4096

// Limits of Registration.Stale.
const (
	MinStale = 10 * time.Millisecond
	MaxStale = 50 * time.Millisecond
)

// Operations of a request.
const (
	opTake     = "take"     // end a session whose agent is gone, and release its socket
	opRegister = "register" // begin one; the socket comes with it
	opStatus   = "status"   // of the guard
)

// Registration is what a guard has to know of a robot.
type Registration struct {
	Robot      netip.AddrPort // low level
	High       netip.AddrPort // the maker's high-level service, where sport mode answers
	Stale      time.Duration  // age of the loop's beat from which the guard damps, MinStale..MaxStale
	EncryptCRC bool           // frames carry the encrypted form of the CRC
	SportIsOff bool           // a person's word, for a robot whose high-level service does not answer
}

// check names what is wrong.
func (r *Registration) check() error {
	for _, a := range []struct {
		name string
		addr netip.AddrPort
	}{{"robot", r.Robot}, {"high", r.High}} {
		if !a.addr.Addr().Is4() || a.addr.Addr().IsUnspecified() || a.addr.Port() == 0 {
			return fmt.Errorf("guard: %s: %v is not the IPv4 address and port of one machine", a.name, a.addr)
		}
	}
	if r.Stale < MinStale || r.Stale > MaxStale {
		return fmt.Errorf("guard: stale_ms: %v, want %v..%v", ms(r.Stale), ms(MinStale), ms(MaxStale))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// request is a message to the guard. Pointers tell what is missing.
type request struct {
	Version    *int     `json:"version"`
	Op         string   `json:"op"`
	Robot      string   `json:"robot,omitzero"`
	High       string   `json:"high,omitzero"`
	StaleMs    *float64 `json:"stale_ms,omitzero"`
	EncryptCRC *bool    `json:"encrypt_crc,omitzero"`
	SportOff   *bool    `json:"sport_off,omitzero"`
}

// strict refuses what is in no message of ours.
var strict = json.JoinOptions(json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(false))

// parseRequest reads a message. It is strict: everything that belongs to the operation is there, and nothing else.
func parseRequest(b []byte) (op string, r Registration, err error) {
	bad := func(format string, a ...any) (string, Registration, error) {
		return "", Registration{}, fmt.Errorf("guard: message: "+format, a...)
	}
	if len(b) > maxMessage {
		return bad("%d bytes, want at most %d", len(b), maxMessage)
	}
	var q request
	if err := json.Unmarshal(b, &q, strict); err != nil {
		return bad("%w", err)
	}
	switch {
	case q.Version == nil:
		return bad("no version, want %d", version)
	case *q.Version != version:
		return bad("version %d, want %d: end the older of agent and guard", *q.Version, version)
	}
	registers := q.Op == opRegister
	for _, f := range []struct {
		key   string
		there bool
		wants bool
	}{
		{"robot", q.Robot != "", q.Op != opStatus}, {"high", q.High != "", registers}, {"stale_ms", q.StaleMs != nil, registers},
		{"encrypt_crc", q.EncryptCRC != nil, registers}, {"sport_off", q.SportOff != nil, registers},
	} {
		switch {
		case q.Op != opTake && q.Op != opRegister && q.Op != opStatus:
			return bad("op %s: want take, register or status", quote(q.Op))
		case f.wants && !f.there:
			return bad("%s: %s is missing", q.Op, f.key)
		case !f.wants && f.there:
			return bad("%s: %s does not belong there", q.Op, f.key)
		}
	}
	for _, a := range []struct {
		key, text string
		into      *netip.AddrPort
	}{{"robot", q.Robot, &r.Robot}, {"high", q.High, &r.High}} {
		if a.text == "" {
			continue
		}
		if *a.into, err = netip.ParseAddrPort(a.text); err != nil {
			return bad("%s: %s is not HOST:PORT with a numeric host", a.key, quote(a.text))
		}
	}
	if !registers {
		return q.Op, r, nil
	}
	if x := *q.StaleMs; !(x >= 0 && x <= 1e6) { // what a Duration holds; check says more
		return bad("stale_ms: %v, want %v..%v", x, ms(MinStale), ms(MaxStale))
	}
	r.Stale = time.Duration(*q.StaleMs * 1e6)
	r.EncryptCRC, r.SportIsOff = *q.EncryptCRC, *q.SportOff
	if err := r.check(); err != nil {
		return "", Registration{}, err
	}
	return q.Op, r, nil
}

// appendRequest is parseRequest's other half.
func appendRequest(op string, r *Registration) ([]byte, error) {
	v := version
	q := request{Version: &v, Op: op}
	if op != opStatus {
		q.Robot = r.Robot.String()
	}
	if op == opRegister {
		stale := ms(r.Stale)
		q.High, q.StaleMs, q.EncryptCRC, q.SportOff = r.High.String(), &stale, &r.EncryptCRC, &r.SportIsOff
	}
	return json.Marshal(&q)
}

// quote shows text from outside in an error: quoted, and cut where it is too long to read.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// reply is the guard's answer.
type reply struct {
	Version int    `json:"version"`
	Error   string `json:"error"` // "": done
	Code    string `json:"code"`  // of a Refusal
	// Priority is the SCHED_FIFO priority of the guard's loop, and Realtime all that its thread was given.
	Priority int     `json:"priority"`
	Realtime string  `json:"realtime"`
	PID      int     `json:"pid"` // the guard's
	Session  uint64  `json:"session"`
	Trips    uint64  `json:"trips"`  // since the guard started
	Frames   uint64  `json:"frames"` // likewise
	Report   *Report `json:"report,omitzero"`
}

// Report is what a guard says of itself to whoever asks. Times are CLOCK_MONOTONIC.
type Report struct {
	PID        int    `json:"pid"`
	Robot      string `json:"robot"`
	Alone      bool   `json:"alone"`     // an agent started it: it ends by itself once nobody needs it
	Realtime   string `json:"realtime"`  // what its loop's thread was given
	Priority   int    `json:"priority"`  // SCHED_FIFO of its loop's thread; 0: ordinary
	AgentPID   int    `json:"agent_pid"` // 0: no agent has registered, or its session is over
	AgentGone  bool   `json:"agent_gone"`
	Session    uint64 `json:"session"`
	Local      string `json:"local"` // address of the agent's socket; "": no agent
	Armed      bool   `json:"armed"`
	Latched    bool   `json:"latched"`
	Sending    bool   `json:"sending"`
	Silent     bool   `json:"silent"` // the robot, while the guard would damp it
	Trips      uint64 `json:"trips"`
	Killed     uint64 `json:"killed"`      // agents killed within their window
	KillErrors uint64 `json:"kill_errors"` // agents that should have been, and could not be
	Frames     uint64 `json:"frames"`      // damping frames of this session
	// SendErrors are damping frames that could not be sent since the guard started.
	SendErrors uint64  `json:"send_errors"`
	LatchedNs  int64   `json:"latched_ns"` // 0: a torque frame may still leave
	DampedNs   int64   `json:"damped_ns"`
	Cycles     uint64  `json:"cycles"`
	LateP50Us  float64 `json:"late_p50_us"` // of its cycles: how long this machine stands still
	LateP99Us  float64 `json:"late_p99_us"`
	LateP999   float64 `json:"late_p999_us"`
	LateMaxUs  float64 `json:"late_max_us"`
}
