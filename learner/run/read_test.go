package run

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRead: a run tells the same while another process holds its lock, without the line that is still being written.
func TestRead(t *testing.T) {
	f := mustCreate(t)
	if r, err := Read(f.Dir); err != nil || len(r.Lines) != 0 || r.Meta.Version != "1.2.3" || len(r.Config) == 0 {
		t.Errorf("a run that has just begun: %+v, %v", r, err)
	}
	for i, values := range [][]Value{{{"a", 1}}, {{"a", math.NaN()}, {"b", 2}}} {
		if err := f.Log(int64(3*i), values); err != nil {
			t.Fatal(err)
		}
	}
	appendTo(t, f.Path(metricsFile), `{"iteration":4,"ti`)
	r, err := Read(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Lines {
		delete(r.Lines[i].Values, timeKey)
	}
	want := []Line{{0, map[string]float64{"iteration": 0, "a": 1}}, {3, map[string]float64{"iteration": 3, "b": 2}}}
	if diff := cmp.Diff(want, r.Lines); diff != "" {
		t.Error(diff)
	}
}

func TestReadRefuses(t *testing.T) {
	damage := func(name, text string) func(t *testing.T, f *Folder) {
		return func(t *testing.T, f *Folder) {
			if err := os.WriteFile(f.Path(name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		want    string
		wraps   error
		prepare func(t *testing.T, f *Folder)
	}{
		{"holds no run: no meta.json", ErrNoRun, func(t *testing.T, f *Folder) {
			if err := os.Remove(f.Path(metaFile)); err != nil {
				t.Fatal(err)
			}
		}},
		{"meta.json: ", nil, damage(metaFile, "{")},
		{"config.yaml: ", nil, damage(configFile, "a: [")},
		{"metrics.jsonl: line 2 is damaged: ", ErrDamaged, damage(metricsFile, "{\"iteration\":1}\n{\"iteration\":\n{\"iteration\":3}\n")},
		{"metrics.jsonl: line 1 is damaged: no whole \"iteration\"", ErrDamaged, damage(metricsFile, "{}\n")},
		{"metrics.jsonl: line 2 is damaged: iteration 7 after 7", ErrDamaged, damage(metricsFile, "{\"iteration\":7}\n{\"iteration\":7}\n")},
	} {
		f := mustCreate(t)
		test.prepare(t, f)
		if _, err := Read(f.Dir); err == nil || !strings.Contains(err.Error(), f.Dir) || !strings.Contains(err.Error(), test.want) || test.wraps != nil && !errors.Is(err, test.wraps) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrNoRun) {
		t.Errorf("no folder: %v", err)
	}
}

// TestWriteDiagrams: curves of one name share a colour and an entry; RUN_TEST_DIAGRAMS=FILE keeps the picture to look at.
func TestWriteDiagrams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "picture.svg")
	if err := WriteDiagrams(path, []Diagram{{Title: "empty", Curves: []Curve{{"none", nil}}}}); err == nil || !strings.Contains(err.Error(), "no curve has a point") {
		t.Errorf("a picture of nothing: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file of nothing")
	}
	diagrams := []Diagram{{Title: "error", X: "minutes", Y: "m/s", Curves: []Curve{
		{"one", []Point{{X: 0, Y: 1}, {X: 1, Y: 0.5}}}, {"none", nil}, {"two", []Point{{X: 0, Y: 0.9}, {X: 1, Y: 0.3}}}, {"one", []Point{{X: 0, Y: 0.95}, {X: 1, Y: 0.4}}},
	}}}
	if err := WriteDiagrams(path, diagrams); err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if keep := os.Getenv("RUN_TEST_DIAGRAMS"); keep != "" {
		if err := os.WriteFile(keep, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	texts := svgTexts(t, picture)
	for want, times := range map[string]int{"error": 1, "minutes": 1, "m/s": 1, "one": 1, "two": 1, "none": 0} {
		if n := len(slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s != want })); n != times {
			t.Errorf("%q is shown %d times, want %d", want, n, times)
		}
	}
	// The first colour is drawn with twice and stands in the legend, the third once; the second is of the curve without a point.
	for colour, times := range map[string]int{"#0072B2": 3, "#D55E00": 0, "#009E73": 2} {
		if n := strings.Count(strings.ToUpper(string(picture)), strings.ToUpper("stroke:"+colour)); n != times {
			t.Errorf("%s: %d lines, want %d", colour, n, times)
		}
	}
}
