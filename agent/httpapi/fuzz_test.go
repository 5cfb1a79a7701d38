package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
)

func keys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// stateMembers are the members that every state has.
func stateMembers() []string {
	var names []string
	for f := range reflect.TypeFor[State]().Fields() {
		names = append(names, f.Tag.Get("json"))
	}
	slices.Sort(names)
	return names
}

var goodBodies = []bad{
	{"command", `{"vx":0.5,"vy":-0.1,"wz":0.3,"expires":11.5}`, ""},
	{"command", `{"vx":-0,"vy":1e-400,"wz":0e99,"expires":0}`, ""},
	{"mode", `{"mode":"stand"}`, ""},
	{"mode", `{"mode":"damp","trips":3}`, ""},
	{"arm", `{}`, ""},
	{"estop", `{"level":"cut"}`, ""},
}

func seed(f *testing.F, path string) {
	for _, b := range append(badBodies, goodBodies...) {
		if b.path == path && len(b.body) < 1000 { // long seeds make the fuzzer slow
			f.Add([]byte(b.body))
		}
	}
}

// judgeCommand is a second opinion, by another decoder, on what decodeCommand
// accepted: one object of exactly the four members, each a finite number that
// arrived as it was sent.
func judgeCommand(body []byte, v [3]float32, expiresNs int64) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return fmt.Errorf("encoding/json: %w", err)
	}
	if d.More() || len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
		return fmt.Errorf("something follows the object")
	}
	if got := keys(m); !slices.Equal(got, []string{"expires", "vx", "vy", "wz"}) {
		return fmt.Errorf("members %q", got)
	}
	for i, name := range []string{"vx", "vy", "wz"} {
		n, ok := m[name].(json.Number)
		if !ok {
			return fmt.Errorf("%s is a %T", name, m[name])
		}
		x, err := strconv.ParseFloat(string(n), 32)
		if err != nil || !finite(x) || float32(x) != v[i] || math.Signbit(float64(v[i])) && v[i] == 0 {
			return fmt.Errorf("%s: %s was taken as %v", name, n, v[i])
		}
	}
	n, ok := m["expires"].(json.Number)
	if !ok {
		return fmt.Errorf("expires is a %T", m["expires"])
	}
	x, err := strconv.ParseFloat(string(n), 64)
	if err != nil || math.Abs(x*1e9-float64(expiresNs)) > 1+math.Abs(x*1e9)*1e-15 {
		return fmt.Errorf("expires: %s was taken as %d ns", n, expiresNs)
	}
	return nil
}

// FuzzCommand is promise 6: whatever is accepted is finite and has all members.
func FuzzCommand(f *testing.F) {
	seed(f, "command")
	f.Fuzz(func(t *testing.T, body []byte) {
		v, expiresNs, err := decodeCommand(body)
		if err != nil {
			checkSentence(t, err)
			if v != [3]float32{} || expiresNs != 0 {
				t.Fatalf("refused, and %v until %d returned", v, expiresNs)
			}
			return
		}
		if err := judgeCommand(body, v, expiresNs); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
	})
}

func checkSentence(t *testing.T, err error) {
	t.Helper()
	e, ok := err.(*apiError)
	if !ok || e.status != 400 || e.Text == "" || len(e.Text) > 700 || strings.ToValidUTF8(e.Text, "") != e.Text {
		t.Fatalf("refused with %T %v", err, err)
	}
}

// FuzzMode: whatever is accepted is one object with a string for its mode and, with damp, perhaps a count.
func FuzzMode(f *testing.F) {
	seed(f, "mode")
	f.Fuzz(func(t *testing.T, body []byte) {
		mode, trips, err := decodeMode(body)
		if err != nil {
			checkSentence(t, err)
			return
		}
		var said struct {
			Mode  string
			Trips *uint64
		}
		switch err := json.Unmarshal(body, &said); {
		case err != nil || said.Mode != mode || (said.Trips == nil) != (trips == nil):
			t.Fatalf("%q was taken as %s, trips %v (%v)", body, mode, trips, err)
		case trips != nil && (mode != "damp" || *said.Trips != *trips):
			t.Fatalf("%q was taken as %s, trips %d", body, mode, *trips)
		}
	})
}

// FuzzEStop is the same for a stop's level.
func FuzzEStop(f *testing.F) {
	seed(f, "estop")
	f.Fuzz(func(t *testing.T, body []byte) {
		cut, err := decodeEStop(body)
		if err != nil {
			checkSentence(t, err)
			return
		}
		if len(body) == 0 {
			if cut {
				t.Fatal("nothing at all was taken as cut")
			}
			return
		}
		oneString(t, body, "level", map[bool]string{false: "settle", true: "cut"}[cut])
	})
}

func oneString(t *testing.T, body []byte, name, want string) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil || len(m) != 1 || m[name] != want {
		t.Fatalf("%q was taken as %s: %q", body, name, want)
	}
}

// mutate changes a body a little, or not at all.
func mutate(rng *rand.Rand, s string) string {
	words := []string{
		"1e400", "1e39", "-0", "1e-400", "NaN", "null", `"vx"`, `"1"`, "{", "}", "[", "]", ",", ":", " ", "\xff", "\x00", "0", "-", ".",
		"e9", `"VX":1,`, `"vx":1,`, "true", "\\u0000", "9223372036854775808", "//", "\n",
	}
	for range rng.IntN(4) {
		at := rng.IntN(len(s) + 1)
		switch rng.IntN(4) {
		case 0:
			s = s[:at] + words[rng.IntN(len(words))] + s[at:]
		case 1:
			end := min(len(s), at+rng.IntN(4))
			s = s[:at] + s[end:]
		case 2:
			if at < len(s) {
				s = s[:at] + string([]byte{s[at] ^ 1<<rng.IntN(8)}) + s[at+1:]
			}
		case 3:
			s = s[:at] + s[rng.IntN(len(s)+1):]
		}
	}
	return s
}

var _ Agent = (*control.Loop)(nil)
