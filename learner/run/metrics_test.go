package run

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// logged is the iterations of metrics.jsonl, each line of which must be whole.
func logged(t *testing.T, f *Folder) (iterations []int64) {
	t.Helper()
	data, err := os.ReadFile(f.Path(metricsFile))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		n, _, err := readLine(line)
		if err != nil || !bytes.HasSuffix(line, []byte("\n")) {
			t.Fatalf("line %q: %v", line, err)
		}
		iterations = append(iterations, n)
	}
	return iterations
}

func TestLine(t *testing.T) {
	line, err := appendLine(nil, 12, []Value{{"Loss/value", 0.25}, {"tiny", 1e-7}, {"huge", -1e21}, {`a"b\é`, 3}, {"nan", math.NaN()}, {"inf", math.Inf(-1)}}, time.UnixMilli(1764000000125))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"iteration":12,"time":1764000000.125,"Loss/value":0.25,"tiny":1e-07,"huge":-1e+21,"a\"b\\é":3,"nan":null,"inf":null}` + "\n"
	if diff := cmp.Diff(want, string(line)); diff != "" {
		t.Error(diff)
	}
	n, values, err := readLine(line)
	if err != nil || n != 12 {
		t.Fatalf("iteration %d, %v", n, err)
	}
	if diff := cmp.Diff(map[string]float64{"iteration": 12, "time": 1764000000.125, "Loss/value": 0.25, "tiny": 1e-7, "huge": -1e21, `a"b\é`: 3}, values); diff != "" {
		t.Error(diff)
	}
}

func TestLineRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.StringMatching(`[^\x00]{0,3}/.*`), rapid.Float64()).Draw(t, "values")
		var values []Value
		for tag, v := range want {
			values = append(values, Value{tag, v})
		}
		iteration := rapid.Int64Range(0, 1<<53-1).Draw(t, "iteration")
		line, err := appendLine(nil, iteration, values, time.UnixMilli(0))
		if err != nil {
			t.Fatal(err)
		}
		got, read, err := readLine(line)
		if err != nil || got != iteration || bytes.Count(line, []byte("\n")) != 1 {
			t.Fatalf("%q: iteration %d, %v", line, got, err)
		}
		want["iteration"], want["time"] = float64(iteration), 0
		if diff := cmp.Diff(want, read); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestLogRefuses(t *testing.T) {
	f := mustCreate(t)
	if err := f.Log(5, []Value{{"a", 1}}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		iteration int64
		values    []Value
		want      string
	}{
		{-1, nil, "negative"},
		{4, nil, "after 5"},
		{5, nil, "logged already"},
		{6, []Value{{"", 1}}, `tag ""`},
		{6, []Value{{"iteration", 1}}, `tag "iteration"`},
		{6, []Value{{"time", 1}}, `tag "time"`},
		{6, []Value{{"a\xff", 1}}, `tag "a\xff"`},
		{6, []Value{{"a", 1}, {"b", 1}, {"a", 2}}, `tag "a": twice`},
	} {
		err := f.Log(test.iteration, test.values)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), f.Dir) {
			t.Errorf("iteration %d, %v: error %v, want %q", test.iteration, test.values, err, test.want)
		}
	}
	if got := logged(t, f); !slices.Equal(got, []int64{5}) {
		t.Errorf("logged %v", got)
	}
	if err := f.Save(&Checkpoint{Iteration: 4}); err == nil || !strings.Contains(err.Error(), "after 5") {
		t.Errorf("an earlier checkpoint: %v", err)
	}
	if err := f.Log(9, nil); err != nil { // gaps are the caller's business
		t.Error(err)
	}
}

// TestTakenBack: training goes on from a checkpoint, and what a process logged later is gone, its torn last line too.
func TestTakenBack(t *testing.T) {
	f := mustCreate(t)
	for i := int64(0); i <= 6; i++ {
		if err := f.Log(i, []Value{{"a", float64(i)}}); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := f.Save(&Checkpoint{Iteration: i}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Log(7, nil); err != nil {
		t.Fatal(err)
	}
	appendTo(t, f.Path(metricsFile), `{"iteration":8,"time":1`)
	f = reopen(t, f)
	before, err := os.ReadFile(f.Path(metricsFile))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := f.Latest(); err != nil || c.Iteration != 6 {
		t.Fatalf("latest %v, %v", c, err)
	}
	if now, _ := os.ReadFile(f.Path(metricsFile)); !bytes.Equal(now, before) {
		t.Error("opening changed the metrics")
	}
	if err := f.Log(7, []Value{{"b", 1}}); err != nil {
		t.Fatal(err)
	}
	if got := logged(t, f); !slices.Equal(got, []int64{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("logged %v", got)
	}
	for _, back := range []struct {
		to     int64
		latest int64
		left   []int64
	}{{7, 6, []int64{0, 1, 2, 3, 4, 5, 6, 7}}, {5, 4, []int64{0, 1, 2, 3, 4, 5}}, {2, 2, []int64{0, 1, 2}}, {-1, -1, nil}} {
		if err := f.Rewind(back.to); err != nil {
			t.Fatal(err)
		}
		if got := logged(t, f); !slices.Equal(got, back.left) || f.latest != back.latest {
			t.Errorf("rewound to %d: logged %v, latest checkpoint %d", back.to, got, f.latest)
		}
		if err := f.Log(back.to+1, nil); err != nil {
			t.Errorf("rewound to %d: %v", back.to, err)
		}
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// FuzzReadLine: metrics.jsonl may be anything after a crash.
func FuzzReadLine(f *testing.F) {
	for _, line := range []string{`{"iteration":1,"time":2.5,"a":null}`, `{"iteration":-1}`, `{"iteration":1e99}`, `{"iteration":"1"}`, `[]`, ``, `{"a":1,"a":1}`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		n, values, err := readLine(line)
		if err == nil && (n < 0 || values["iteration"] != float64(n)) {
			t.Errorf("%q: iteration %d, values %v", line, n, values)
		}
	})
}
