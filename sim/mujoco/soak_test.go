package mujoco

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Soak counts the cases of a promise's test, each drawn by a seed. OPENCLAW_SOAK=n runs the full count of promise n, and writes a line
// of JSON a case to the file OPENCLAW_SOAK_LOG. Such a run may be ended at any instant and started again: what the file has as passed, by
// the code of OPENCLAW_SOAK_COMMIT, is not run again, and what it has as failed stays a failure.
type Soak struct {
	t        testing.TB
	log      *os.File // nil: none
	promise  int
	cases    uint64
	passed   map[uint64]bool // by seed, of earlier runs
	count    int             // cases of these and of earlier runs
	failures int
}

// soakLine is a line of the log.
type soakLine struct {
	Promise  int            `json:"promise"`
	Test     string         `json:"test"`
	Commit   string         `json:"commit"`
	Seed     uint64         `json:"seed"`
	OK       bool           `json:"ok"`
	Count    int            `json:"count"`    // lines of this test and commit so far, this one included
	Failures int            `json:"failures"` // of those
	Case     map[string]any `json:"case"`     // what the seed drew
}

// NewSoak begins or goes on with a promise's test: with all its cases where they are asked for, else with sample of them.
func NewSoak(t testing.TB, promise int, sample, all uint64) *Soak {
	t.Helper()
	s := &Soak{t: t, promise: promise, cases: sample, passed: map[uint64]bool{}}
	if os.Getenv("OPENCLAW_SOAK") != strconv.Itoa(promise) {
		return s
	}
	s.cases = all
	path := os.Getenv("OPENCLAW_SOAK_LOG")
	if path == "" {
		return s
	}
	if err := s.open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.log.Close() })
	if s.count > 0 {
		t.Logf("going on with %s: %d cases before, %d of them failed", path, s.count, s.failures)
	}
	if s.failures > 0 {
		t.Errorf("%s has %d failures: remove it to begin anew", path, s.failures)
	}
	return s
}

// open reads what earlier runs wrote.
func (s *Soak) open(path string) (err error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// What a machine that lost power wrote of a line is no case.
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	if len(whole) < len(data) {
		if err := os.Truncate(path, int64(len(whole))); err != nil {
			return err
		}
	}
	// Code that no commit names may be other code than that of the same name before.
	commit := os.Getenv("OPENCLAW_SOAK_COMMIT")
	known := commit != "" && !strings.HasSuffix(commit, "-dirty")
	n := 0
	for line := range bytes.Lines(whole) {
		n++
		var l soakLine
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%s: line %d is damaged: %w", path, n, err)
		}
		if l.Promise == s.promise && l.Test == s.t.Name() && l.Commit == commit && known {
			s.count++
			if l.OK {
				s.passed[l.Seed] = true
			} else {
				s.failures++
			}
		}
	}
	s.log, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return err
}

// Seeds are those of the cases that are left.
func (s *Soak) Seeds() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for seed := uint64(1); seed <= s.cases; seed++ {
			if !s.passed[seed] && !yield(seed) {
				return
			}
		}
	}
}

// Done takes a case's outcome down.
func (s *Soak) Done(seed uint64, ok bool, drawn map[string]any) {
	s.t.Helper()
	s.count++
	if !ok {
		s.failures++
	}
	if s.log == nil {
		return
	}
	line, err := json.Marshal(soakLine{s.promise, s.t.Name(), os.Getenv("OPENCLAW_SOAK_COMMIT"), seed, ok, s.count, s.failures, drawn})
	if err == nil {
		_, err = s.log.Write(append(line, '\n')) // in one piece, also beside other packages' tests
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// A soak that was ended goes on with the cases that are left, of its own commit, and forgets no failure.
func TestSoakGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	t.Setenv("OPENCLAW_SOAK", "14")
	t.Setenv("OPENCLAW_SOAK_LOG", path)
	t.Setenv("OPENCLAW_SOAK_COMMIT", "abc")
	left := func(s *Soak, end uint64, fails uint64) (seeds []uint64) {
		for seed := range s.Seeds() {
			if seed > end {
				break
			}
			seeds = append(seeds, seed)
			s.Done(seed, seed != fails, map[string]any{"world": "walk"})
		}
		return seeds
	}
	want := func(got []uint64, want string) {
		t.Helper()
		if fmt.Sprint(got) != want {
			t.Errorf("ran %v, want %s", got, want)
		}
	}
	want(left(NewSoak(t, 14, 2, 6), 3, 0), "[1 2 3]")
	want(left(NewSoak(t, 14, 2, 6), 6, 0), "[4 5 6]")
	want(left(NewSoak(t, 14, 2, 6), 6, 0), "[]")
	want(left(NewSoak(t, 13, 2, 6), 6, 0), "[1 2]") // not asked for in full, and not in the log
	t.Setenv("OPENCLAW_SOAK_COMMIT", "abd")
	want(left(NewSoak(t, 14, 2, 6), 6, 5), "[1 2 3 4 5 6]")
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), "\n") != 12 || !strings.HasSuffix(string(data), `"seed":6,"ok":true,"count":6,"failures":1,"case":{"world":"walk"}}`+"\n") {
		t.Errorf("%v: %s", err, data)
	}
	failed := &told{TB: t}
	want(left(NewSoak(failed, 14, 2, 6), 6, 0), "[5]")
	if !strings.Contains(failed.said, "has 1 failures") {
		t.Errorf("an earlier failure: %q", failed.said)
	}
	t.Setenv("OPENCLAW_SOAK_COMMIT", "abc")
	torn := append(data[:len(data):len(data)], `{"promise":14,"te`...)
	must(t, os.WriteFile(path, torn, 0o644))
	want(left(NewSoak(t, 14, 2, 7), 7, 0), "[7]")
	data, err = os.ReadFile(path)
	if err != nil || strings.Count(string(data), "\n") != 13 || strings.Contains(string(data), `"te{`) {
		t.Errorf("after a torn line: %v: %s", err, data)
	}
	must(t, os.WriteFile(path, append(torn, '\n'), 0o644))
	if err := (&Soak{t: t, promise: 14, passed: map[uint64]bool{}}).open(path); err == nil || !strings.Contains(err.Error(), "line 13 is damaged") {
		t.Errorf("a damaged log: %v", err)
	}
}

// told is a test that keeps to itself what went wrong.
type told struct {
	testing.TB
	said string
}

func (r *told) Errorf(format string, a ...any) { r.said += fmt.Sprintf(format, a...) }
