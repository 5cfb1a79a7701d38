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
	m, err := members(body)
	if err != nil {
		return err
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

// members is a second opinion, by another decoder, on a body that was accepted: one object, of which each member has another name.
func members(body []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if first, err := d.Token(); first != json.Delim('{') {
		return nil, fmt.Errorf("it begins with %v (%v)", first, err)
	}
	all := map[string]any{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		if _, twice := all[name.(string)]; twice {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		all[name.(string)] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if len(bytes.Trim(body[d.InputOffset():], " \t\r\n")) > 0 {
		return nil, fmt.Errorf("something follows the object")
	}
	return all, nil
}

// judgeMode is it on what decodeMode accepted: a string for its mode and, with damp, perhaps a count.
func judgeMode(body []byte, mode string, trips *uint64) error {
	said, err := members(body)
	if err != nil {
		return err
	}
	want := map[string]any{"mode": mode}
	if trips != nil {
		n, ok := said["trips"].(json.Number)
		if x, err := strconv.ParseFloat(string(n), 64); !ok || mode != "damp" || err != nil || x != float64(*trips) {
			return fmt.Errorf("%v was taken as %s, trips %d", said, mode, *trips)
		}
		want["trips"] = n
	}
	if !maps.Equal(said, want) {
		return fmt.Errorf("%v was taken as %v", said, want)
	}
	return nil
}

// judgeEStop is it on what decodeEStop accepted: a string for its level, or nothing at all, which is no cut.
func judgeEStop(body []byte, cut bool) error {
	if len(body) == 0 && !cut {
		return nil
	}
	said, err := members(body)
	if err != nil {
		return err
	}
	if want := map[bool]string{false: "settle", true: "cut"}[cut]; len(said) != 1 || said["level"] != want {
		return fmt.Errorf("%v was taken as %s", said, want)
	}
	return nil
}

// judgeArm is it on a body that armed: an object of no members.
func judgeArm(body []byte) error {
	said, err := members(body)
	if err == nil && len(said) > 0 {
		err = fmt.Errorf("%v armed", said)
	}
	return err
}

// TestSecondOpinion: the other decoder does not agree to all that it is told.
func TestSecondOpinion(t *testing.T) {
	three := uint64(3)
	for _, test := range []struct {
		body string
		err  error
	}{
		{`{"mode":"stand","mode":"damp"}`, judgeMode([]byte(`{"mode":"stand","mode":"damp"}`), "damp", nil)},
		{`{"mode":"stand"}`, judgeMode([]byte(`{"mode":"stand"}`), "sit", nil)},
		{`{"Mode":"sit"}`, judgeMode([]byte(`{"Mode":"sit"}`), "sit", nil)},
		{`{"mode":"damp","trips":4}`, judgeMode([]byte(`{"mode":"damp","trips":4}`), "damp", &three)},
		{`{"mode":"damp","trips":3}`, judgeMode([]byte(`{"mode":"damp","trips":3}`), "damp", nil)},
		{`{"mode":"stand","trips":3}`, judgeMode([]byte(`{"mode":"stand","trips":3}`), "stand", &three)},
		{`{"mode":"damp"}`, judgeMode([]byte(`{"mode":"damp"}`), "damp", &three)},
		{`{"mode":"sit"} {}`, judgeMode([]byte(`{"mode":"sit"} {}`), "sit", nil)},
		{`{"level":"cut"}`, judgeEStop([]byte(`{"level":"cut"}`), false)},
		{`{"level":"settle","level":"cut"}`, judgeEStop([]byte(`{"level":"settle","level":"cut"}`), true)},
		{`{"level":"cut","now":1}`, judgeEStop([]byte(`{"level":"cut","now":1}`), true)},
		{``, judgeEStop(nil, true)},
		{`{"now":1}`, judgeArm([]byte(`{"now":1}`))},
		{`[]`, judgeArm([]byte(`[]`))},
		{``, judgeArm(nil)},
		{`{}x`, judgeArm([]byte(`{}x`))},
	} {
		if test.err == nil {
			t.Errorf("%s: no objection", test.body)
		}
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
		if err := judgeMode(body, mode, trips); err != nil {
			t.Fatalf("%q: %v", body, err)
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
		if err := judgeEStop(body, cut); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
	})
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
