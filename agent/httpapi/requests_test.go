package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/promise"
)

// bad is a body that must change nothing; in the reply's sentence names says
// what must be named. Also the seeds of the fuzz tests.
type bad struct {
	path, body, names string
}

var badBodies = []bad{
	{"command", ``, "empty"},
	{"command", ` `, "empty"},
	{"command", `{`, "not JSON"},
	{"command", `null`, "not a JSON object"},
	{"command", `[]`, "array"},
	{"command", `[{"vx":0.5,"vy":0,"wz":0,"expires":11}]`, "array"},
	{"command", `"vx"`, "string"},
	{"command", `0.5`, "number"},
	{"command", `true`, "boolean"},
	{"command", `{}`, "vx"},
	{"command", `{"vy":0,"wz":0,"expires":11}`, "vx"},
	{"command", `{"vx":0.5,"wz":0,"expires":11}`, "vy"},
	{"command", `{"vx":0.5,"vy":0,"expires":11}`, "wz"},
	{"command", `{"vx":0.5,"vy":0,"wz":0}`, "expires"},
	{"command", `{"vx":null,"vy":0,"wz":0,"expires":11}`, "vx"},
	{"command", `{"vx":0.5,"vy":0,"wz":0,"expires":null}`, "expires"},
	{"command", `{"vx":"1","vy":0,"wz":0,"expires":11}`, "vx is a string, want a number"},
	{"command", `{"vx":"NaN","vy":0,"wz":0,"expires":11}`, "vx is a string"},
	{"command", `{"vx":NaN,"vy":0,"wz":0,"expires":11}`, "not JSON"},
	{"command", `{"vx":Infinity,"vy":0,"wz":0,"expires":11}`, "not JSON"},
	{"command", `{"vx":-Infinity,"vy":0,"wz":0,"expires":11}`, "vx"},
	{"command", `{"vx":1e400,"vy":0,"wz":0,"expires":11}`, "vx"},
	{"command", `{"vx":0,"vy":-1e400,"wz":0,"expires":11}`, "vy"},
	{"command", `{"vx":0,"vy":0,"wz":1e39,"expires":11}`, "wz"},
	{"command", `{"vx":0,"vy":0,"wz":0,"expires":1e400}`, "expires"},
	{"command", `{"vx":0,"vy":0,"wz":0,"expires":1e39}`, "expires"},
	{"command", `{"vx":0,"vy":0,"wz":0,"expires":9223372037}`, "expires"},
	{"command", `{"vx":0,"vy":0,"wz":0,"expires":-9223372037}`, "expires"},
	{"command", `{"vx":0,"vy":0,"wz":0,"expires":"11"}`, "expires is a string"},
	{"command", `{"vx":true,"vy":0,"wz":0,"expires":11}`, "vx is a boolean"},
	{"command", `{"vx":[0.5],"vy":0,"wz":0,"expires":11}`, "vx is an array"},
	{"command", `{"vx":{"x":0.5},"vy":0,"wz":0,"expires":11}`, "vx is an object"},
	{"command", `{"VX":0.5,"vx":0,"vy":0,"wz":0,"expires":11}`, "VX"},
	{"command", `{"Vx":0.5,"vy":0,"wz":0,"expires":11}`, "Vx"},
	{"command", `{"vx":0.5,"vy":0,"wz":0,"expires":11,"yaw":0}`, "yaw"},
	{"command", `{"vx":0.5,"vx":0.6,"vy":0,"wz":0,"expires":11}`, "vx is given twice"},
	{"command", `{"vx":0.5,"\u0076x":0.6,"vy":0,"wz":0,"expires":11}`, "vx is given twice"},
	{"command", `{"vx":0.5,"vy":0,"wz":0,"expires":11} {}`, "not JSON"},
	{"command", `{"vx":0.5,"vy":0,"wz":0,"expires":11}x`, "not JSON"},
	{"command", `{"vx":0.5,"vy":0,"wz":0,"expires":11},`, "not JSON"},
	{"command", `{"vx":0.5,"vy":0,"wz":0,"expires":11`, "not JSON"},
	{"command", `{"vx":0.5,"vy":0,"wz":0,"expires":11}` + "\x00", "not JSON"},
	{"command", "\xef\xbb\xbf" + `{"vx":0.5,"vy":0,"wz":0,"expires":11}`, "not JSON"},
	{"command", `{"vx":0.5,"vy":0,"wz":0,"expires":11,"` + "\xff" + `":1}`, "not JSON"},
	{"command", `{"vx":.5,"vy":0,"wz":0,"expires":11}`, "not JSON"},
	{"command", `{"vx":+1,"vy":0,"wz":0,"expires":11}`, "not JSON"},
	{"command", `{"vx":01,"vy":0,"wz":0,"expires":11}`, "not JSON"},
	{"command", `{"vx":0x1,"vy":0,"wz":0,"expires":11}`, "not JSON"},
	{"command", `{"vx":1,"vy":0,"wz":0,"expires":11,}`, "not JSON"},
	{"command", `{'vx':1,"vy":0,"wz":0,"expires":11}`, "not JSON"},
	{"command", `/* */{"vx":1,"vy":0,"wz":0,"expires":11}`, "not JSON"},
	{"command", `{"__proto__":{},"vx":1,"vy":0,"wz":0,"expires":11}`, "__proto__"},
	{"command", strings.Repeat("[", 9000), "array"},
	{"command", `{"vx":` + strings.Repeat("[", 9000), "vx"},
	{"command", `{"` + strings.Repeat("a", 9000) + `":1}`, "aaa..."},
	{"command", `vx=0.5&vy=0&wz=0&expires=11`, "not JSON"},

	{"mode", ``, "empty"},
	{"mode", `{}`, "mode"},
	{"mode", `null`, "not a JSON object"},
	{"mode", `{"mode":null}`, "mode"},
	{"mode", `{"mode":""}`, "mode"},
	{"mode", `{"mode":"STAND"}`, "STAND"},
	{"mode", `{"mode":"stand "}`, "stand "},
	{"mode", `{"mode":"idle"}`, "idle"},
	{"mode", `{"mode":"listen"}`, "listen"},
	{"mode", `{"mode":"estop"}`, "estop"},
	{"mode", `{"mode":3}`, "mode is a number, want a string"},
	{"mode", `{"mode":["stand"]}`, "mode is an array"},
	{"mode", `{"Mode":"stand"}`, "Mode"},
	{"mode", `{"mode":"stand","mode":"damp"}`, "mode is given twice"},
	{"mode", `{"mode":"stand","force":true}`, "force"},
	{"mode", `{"mode":"stand","trips":1}`, "trips belongs to mode damp alone"},
	{"mode", `{"trips":1}`, "mode is missing"},
	{"mode", `{"mode":"damp","trips":-1}`, "trips is a number, want a whole number, at least 0"},
	{"mode", `{"mode":"damp","trips":1.5}`, "trips is a number, want a whole number, at least 0"},
	{"mode", `{"mode":"damp","trips":"1"}`, "trips is a string, want a whole number, at least 0"},
	{"mode", `{"mode":"damp","trips":true}`, "trips is a boolean"},
	{"mode", `{"mode":"damp","trips":18446744073709551616}`, "trips 18446744073709551616 is too large a number"},
	{"mode", `{"mode":"damp","trips":1,"trips":2}`, "trips is given twice"},
	{"mode", `{"mode":"damp","Trips":1}`, "Trips"},
	{"mode", `{"mode":"stand"}{"mode":"damp"}`, "not JSON"},
	{"mode", `{"mode":"sta` + "\xff" + `nd"}`, "not JSON"},
	{"mode", `{"mode":"\ud800"}`, "not JSON"},
	{"mode", `{"mode":"` + strings.Repeat("x", 9000) + `"}`, "xxx..."},

	{"arm", ``, "empty"},
	{"arm", `null`, "not a JSON object"},
	{"arm", `[]`, "array"},
	{"arm", `true`, "boolean"},
	{"arm", `{"force":true}`, "force"},
	{"arm", `{} {}`, "not JSON"},

	{"estop", `{}`, "level"},
	{"estop", `null`, "not a JSON object"},
	{"estop", `{"level":null}`, "level"},
	{"estop", `{"level":"CUT"}`, "CUT"},
	{"estop", `{"level":1}`, "level is a number, want a string"},
	{"estop", `{"level":"cut","level":"settle"}`, "level is given twice"},
	{"estop", `{"level":"none"}`, "none"},
}

// TestPromise06Bodies is promise 6's corpus: 400, a sentence that names what is
// wrong, and nothing reaches the agent.
func TestPromise06Bodies(t *testing.T) {
	promise.New(t, 6, 1, 1).Run(t, func(t *testing.T, _ uint64) map[string]any {
		everyBadBody(t)
		return map[string]any{"bodies": len(badBodies)}
	})
}

func everyBadBody(t *testing.T) {
	f := &fakeAgent{}
	f.snap.NowNs, f.snap.Mode = 10e9, control.Policy
	r := start(t, f)
	before := r.do("GET", "/api/v1/state", "").body
	for _, b := range badBodies {
		a := r.do("POST", "/api/v1/"+b.path, b.body)
		text, code, _ := a.error(t)
		if a.status != 400 || code != "bad_request" || !strings.Contains(text, b.names) {
			t.Errorf("%s %.80q: %d %s %q, want 400 bad_request naming %q", b.path, b.body, a.status, code, text, b.names)
		}
		if len(text) > 300 || strings.ContainsAny(text, "\n\r") {
			t.Errorf("%s %.80q: not one short sentence: %q", b.path, b.body, text)
		}
		if calls := f.taken(); calls != "" {
			t.Errorf("%s %.80q: the agent was asked for %s", b.path, b.body, calls)
		}
	}
	if after := r.do("GET", "/api/v1/state", "").body; after != before {
		t.Errorf("state changed from %s to %s", before, after)
	}
}

func TestGoodBodies(t *testing.T) {
	f := &fakeAgent{}
	f.snap.NowNs, f.snap.Mode = 1234567890123, control.Listen
	r := start(t, f)
	for _, test := range []struct{ path, body, want string }{
		{"arm", `{}`, "arm"},
		{"arm", " {\n} \n", "arm"},
		{"mode", `{"mode":"damp"}`, "damp, shown 0"},
		{"mode", `{"trips":3,"mode":"damp"}`, "damp, shown 3"},
		{"mode", `{"mode":"stand"}`, "mode stand"},
		{"mode", `{"mode":"policy"}`, "mode policy"},
		{"mode", `{"mode":"sit"}`, "mode sit"},
		{"mode", `{"mode":"\u0073it"}`, "mode sit"},
		{"estop", `{"level":"settle"}`, "estop cut=false"},
		{"estop", ``, "estop cut=false"},
		{"estop", `{"level":"cut"}`, "estop cut=true"},
		{"command", `{"vx":0.5,"vy":-0.25,"wz":1,"expires":1234.667890123}`, "command 0.5 -0.25 1 until 1234667890123"},
		{"command", `{"expires":12,"wz":0,"vy":0,"vx":1e-1}`, "command 0.1 0 0 until 12000000000"},
		{"command", `{"vx":-0,"vy":-0.0,"wz":-0e5,"expires":-0}`, "command 0 0 0 until 0"},
		{"command", `{"vx":1e-400,"vy":-1e-400,"wz":1e-46,"expires":1e-400}`, "command 0 0 0 until 0"},
		{"command", `{"vx":3.4e38,"vy":0,"wz":0,"expires":9e9}`, "command 3.4e+38 0 0 until 9000000000000000000"},
		{"command", `{"vx":1,"vy":0,"wz":0,"expires":864000.000000001}`, "command 1 0 0 until 864000000000001"},
	} {
		a := r.do("POST", "/api/v1/"+test.path, test.body)
		if got := f.taken(); a.status != 200 || got != test.want {
			t.Errorf("%s %s: %d %s, asked %q, want %q", test.path, test.body, a.status, a.body, got, test.want)
		}
	}
	if a := r.do("POST", "/api/v1/mode", `{"mode":"stand"}`); a.body != `{"ok":true,"mode":"stand","clock":1234.567890123}`+"\n" {
		t.Errorf("reply %s", a.body)
	}
}

// TestSecondCommand is case 7: an infinity in a command leaves nothing behind.
func TestSecondCommand(t *testing.T) {
	f := &fakeAgent{}
	r := start(t, f)
	if a := r.do("POST", "/api/v1/command", `{"vx":1e400,"vy":0,"wz":0,"expires":1}`); a.status != 400 {
		t.Errorf("1e400: %d %s", a.status, a.body)
	}
	a := r.do("POST", "/api/v1/command", `{"vx":0.5,"vy":0,"wz":0,"expires":1}`)
	if got := f.taken(); a.status != 200 || got != "command 0.5 0 0 until 1000000000" {
		t.Errorf("%d %s, asked %q", a.status, a.body, got)
	}
}

func TestAgentErrors(t *testing.T) {
	f := &fakeAgent{}
	r := start(t, f)
	nan := float32(math.NaN())
	for _, test := range []struct {
		err         error
		status      int
		code, names string
		body        string // part of it
	}{
		{&control.Refusal{Reason: control.NotArmed, Joint: -1}, 409, "refused", "not armed", ""},
		{&control.Refusal{Reason: control.NotFolded, Joint: 2, Value: 0.5}, 409, "refused", "FR_calf_joint", ""},
		{&control.CommandError{Field: "vx", Value: 3, Lo: -1, Hi: 1.5}, 400, "out_of_range", "vx is 3, want -1..1.5", `"field":"vx","value":3,"lo":-1,"hi":1.5`},
		{&control.CommandError{Field: "wz", Value: nan, Lo: -1, Hi: 1}, 400, "out_of_range", "wz is NaN", `"field":"wz","lo":-1`},
		{fmt.Errorf("%w 0.012 s ago", control.ErrExpired), 409, "expired", "0.012 s ago", `"field":"expires"`},
		{fmt.Errorf("%w: 3.1 s", control.ErrTooDistant), 400, "too_distant", "3.1 s", `"field":"expires"`},
		{fmt.Errorf("%w: run the doctor", control.ErrNoFirstContact), 409, "first_contact", "run the doctor", ""},
		{control.ErrOlder, 409, "older", "later", `"field":"expires"`},
		{context.DeadlineExceeded, 503, "no_answer", "did not answer", ""},
		{errors.New("gate: observation 3 is far off"), 409, "failed", "observation 3", ""},
	} {
		f.answer(test.err)
		for path, body := range map[string]string{
			"command": `{"vx":3,"vy":0,"wz":0,"expires":1}`, "mode": `{"mode":"stand"}`, "arm": `{}`, "estop": `{"level":"cut"}`,
		} {
			a := r.do("POST", "/api/v1/"+path, body)
			text, code, _ := a.error(t)
			if a.status != test.status || code != test.code || !strings.Contains(text, test.names) || !strings.Contains(a.body, test.body) {
				t.Errorf("%s with %v: %d %s", path, test.err, a.status, a.body)
			}
		}
	}
}

// pattern is an endless body.
type pattern struct{ left int }

func (p *pattern) Read(b []byte) (int, error) {
	if p.left <= 0 {
		return 0, io.EOF
	}
	n := min(len(b), p.left)
	for i := range b[:n] {
		b[i] = ' '
	}
	p.left -= n
	return n, nil
}

func TestBodySize(t *testing.T) {
	f := &fakeAgent{}
	r := start(t, f)
	arm := func(size int, chunked bool) *answer {
		var body io.Reader = io.MultiReader(strings.NewReader("{}"), &pattern{size - 2})
		req, err := http.NewRequest("POST", "http://"+r.addr+"/api/v1/arm", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if req.ContentLength = int64(size); chunked {
			req.ContentLength = -1
		}
		return r.send(req)
	}
	for _, chunked := range []bool{false, true} {
		if a := arm(bodyLimit, chunked); a.status != 200 {
			t.Errorf("16 KiB, chunked %t: %d %s", chunked, a.status, a.body)
		}
		if got := f.taken(); got != "arm" {
			t.Errorf("asked %q", got)
		}
		for _, size := range []int{bodyLimit + 1, 200 << 10} { // net/http takes so much behind the reply, and resets who sends more
			a := arm(size, chunked)
			if _, code, _ := a.error(t); a.status != 413 || code != "too_large" {
				t.Errorf("%d bytes, chunked %t: %d %s", size, chunked, a.status, a.body)
			}
		}
		if got := f.taken(); got != "" {
			t.Errorf("asked %q", got)
		}
	}
	// Who writes all of it before reading, and reads late, has the answer too: nothing was reset.
	for _, kind := range []string{"Content-Length: 307200", "Transfer-Encoding: chunked"} {
		c := r.dial()
		head := "POST /api/v1/arm HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Type: application/json\r\n" + kind + "\r\nConnection: close\r\n\r\n"
		body := strings.Repeat(" ", 300<<10)
		if kind != "Content-Length: 307200" {
			body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		}
		for left := head + body; left != ""; {
			n := min(len(left), 32<<10)
			if _, err := io.WriteString(c, left[:n]); err != nil {
				t.Fatalf("%s: %v with %d bytes to go", kind, err, len(left))
			}
			left = left[n:]
			time.Sleep(100 * time.Millisecond) // 1 s in all: net/http hangs up after half of it
		}
		if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 413 ") || !strings.Contains(string(b), `"too_large"`) {
			t.Errorf("%s: %q, %v", kind, b, err)
		}
	}
	// Who says how long it is need not send it to be told, and one that never ends ends.
	c := r.dial()
	head := "POST /api/v1/arm HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n"
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 413 {
		t.Errorf("1 GB that does not come: %v, %v", resp, err)
	}
	if n, err := io.Copy(c, &pattern{1e9}); err == nil || n > 100<<20 {
		t.Errorf("1 GB that comes: %d bytes taken, %v", n, err)
	}
	if got := f.taken(); got != "" {
		t.Errorf("asked %q", got)
	}
}

func TestContentType(t *testing.T) {
	f := &fakeAgent{}
	r := start(t, f)
	for _, test := range []struct {
		kind   string
		status int
	}{
		{"application/json", 200},
		{"Application/JSON; charset=UTF-8", 200},
		{"application/json;charset=latin1", 415},
		{"text/plain", 415}, // what a form of another site can send without asking
		{"application/x-www-form-urlencoded", 415},
		{"multipart/form-data; boundary=x", 415},
		{"application/json, text/plain", 415},
		{"application/jsonp", 415},
		{"application/merge-patch+json", 415},
		{"", 415},
		{";", 415},
	} {
		a := r.do("POST", "/api/v1/arm", `{}`, "Content-Type", test.kind)
		if a.status != test.status {
			t.Errorf("%q: %d %s, want %d", test.kind, a.status, a.body, test.status)
		}
		if got := f.taken(); (got == "arm") != (test.status == 200) {
			t.Errorf("%q: asked %q", test.kind, got)
		}
	}
	if a := r.do("POST", "/api/v1/arm", `{}`, "Content-Encoding", "gzip"); a.status != 415 || f.taken() != "" {
		t.Errorf("gzip: %d %s", a.status, a.body)
	}
	req := "POST /api/v1/arm HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Length: 2\r\nConnection: close\r\n"
	if got := r.raw(req + "\r\n{}"); !strings.HasPrefix(got, "HTTP/1.1 415 ") {
		t.Errorf("no type: %.60q", got)
	}
	if got := r.raw(req + "Content-Type: application/json\r\nContent-Type: text/plain\r\n\r\n{}"); !strings.HasPrefix(got, "HTTP/1.1 415 ") {
		t.Errorf("two types: %.60q", got)
	}
	if got := f.taken(); got != "" {
		t.Errorf("asked %q", got)
	}
}

// TestBusy: waiting requests are few, and a stop does not wait behind them.
func TestBusy(t *testing.T) {
	release := make(chan struct{})
	waiting := make(chan struct{}, maxWaiting)
	f := &fakeAgent{block: func(ctx context.Context) {
		waiting <- struct{}{}
		<-release
	}}
	r := start(t, f)
	replies := make(chan *answer, maxWaiting)
	for range maxWaiting {
		go func() { replies <- r.do("POST", "/api/v1/mode", `{"mode":"stand"}`) }()
	}
	for range maxWaiting {
		<-waiting
	}
	a := r.do("POST", "/api/v1/mode", `{"mode":"sit"}`)
	if _, code, _ := a.error(t); a.status != 503 || code != "busy" {
		t.Errorf("mode: %d %s", a.status, a.body)
	}
	if a := r.do("POST", "/api/v1/estop", `{"level":"cut"}`); a.status != 200 {
		t.Errorf("estop: %d %s", a.status, a.body)
	}
	if got := f.taken(); got != "estop cut=true" {
		t.Errorf("asked %q", got)
	}
	close(release)
	for range maxWaiting {
		if a := <-replies; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

// TestReplyShowsTheNewMode: the loop answers a request before it publishes what
// came of it.
func TestReplyShowsTheNewMode(t *testing.T) {
	f := &fakeAgent{lag: 3}
	r := start(t, f)
	if a := r.do("POST", "/api/v1/mode", `{"mode":"stand"}`); !strings.Contains(a.body, `"mode":"stand"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	f.mu.Lock()
	f.lag = 1000 // a loop that publishes no more does not hold the reply up
	f.mu.Unlock()
	if a := r.do("POST", "/api/v1/mode", `{"mode":"sit"}`); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
