// Package promise counts the cases of a promise's test. A promise is a sentence about the whole system with a number of cases behind
// it, such as "a command past its end moves nothing: 100 000 commands"; its tests are named TestPromise<n>....
//
//	soak := promise.New(t, 5, 2, 100)             // promise 5: a sample of 2 cases, 100 in all
//	soak.Run(t, func(t *testing.T, seed uint64) map[string]any {
//		random := rand.New(rand.NewPCG(seed, 5))  // all that a case draws comes from its seed
//		...
//		return map[string]any{"commands": n}      // what it drew and saw, for the log
//	})
//
// `make test` runs the sample. `make soak PROMISE=5` sets OPENCLAW_SOAK=5, which runs them all and writes a line of JSON a case to the
// file OPENCLAW_SOAK_LOG. Such a run may be ended at any instant and started again: what the file has as passed, by the code of
// OPENCLAW_SOAK_COMMIT, is not run again. A case that failed, or that the machine did not let be done (a skip), is: of a seed the newest
// line counts, the older ones stay in the file, and how many of them were failures is said at the end. OPENCLAW_SEED=7 runs the case of
// seed 7 alone and writes nothing: a failure prints the command; OPENCLAW_SEED=9001..9050 runs cases that nobody has seen. A case is the
// same in all three.
//
// Only tests import this package.
package promise

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

// Soak counts the cases of one test, each drawn by a seed.
type Soak struct {
	t        testing.TB
	log      *os.File // nil: none
	promise  int      // 0: of none
	word     string   // of a test that is none of a promise's
	first    uint64
	cases    uint64 // the last
	full     bool
	newest   map[uint64]line // by seed, of these and of earlier runs
	count    int             // lines, likewise
	failures int             // of those
	totals   map[string]float64
}

// line is a line of the log.
type line struct {
	Promise  int            `json:"promise,omitzero"`
	Word     string         `json:"word,omitzero"`
	Test     string         `json:"test"`
	Commit   string         `json:"commit"`
	Seed     uint64         `json:"seed"`
	OK       bool           `json:"ok"`
	NotDone  bool           `json:"not_done,omitzero"` // the machine did not let it be tried: neither passed nor failed
	Count    int            `json:"count"`             // lines of this test and commit so far, this one included
	Failures int            `json:"failures"`          // of those
	Case     map[string]any `json:"case"`              // what the seed drew
}

func (l *line) failed() bool { return !l.OK && !l.NotDone }

// New begins or goes on with a promise's test: with all its cases where they are asked for, else with sample of them. Seeds count from 1.
func New(t testing.TB, promise int, sample, all uint64) *Soak {
	t.Helper()
	return begin(&Soak{t: t, promise: promise}, strconv.Itoa(promise), sample, all)
}

// NewWord is New for a test that is none of a promise's and has a word in the Makefile's table of soaks.
func NewWord(t testing.TB, word string, sample, all uint64) *Soak {
	t.Helper()
	return begin(&Soak{t: t, word: word}, word, sample, all)
}

func begin(s *Soak, asked string, sample, all uint64) *Soak {
	t := s.t
	t.Helper()
	s.first, s.cases, s.newest, s.totals = 1, sample, map[uint64]line{}, map[string]float64{}
	t.Cleanup(s.tell)
	if text := os.Getenv("OPENCLAW_SEED"); text != "" {
		first, last, isRange := strings.Cut(text, "..")
		if !isRange {
			last = first
		}
		var errs [2]error
		s.first, errs[0] = strconv.ParseUint(first, 10, 62)
		s.cases, errs[1] = strconv.ParseUint(last, 10, 62)
		if errors.Join(errs[:]...) != nil || s.first < 1 || s.first > s.cases {
			t.Fatalf("OPENCLAW_SEED=%s: want a seed from 1 on, or FIRST..LAST", text)
		}
		return s
	}
	if os.Getenv("OPENCLAW_SOAK") != asked {
		return s
	}
	s.cases, s.full = all, true
	path := os.Getenv("OPENCLAW_SOAK_LOG")
	if path == "" {
		return s
	}
	if err := s.open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.log.Close() })
	if s.count > 0 {
		t.Logf("going on with %s: %d lines before, %d of them failures", path, s.count, s.failures)
	}
	return s
}

// tell says at a test's end how many of its cases have passed, and what the log has of others.
func (s *Soak) tell() {
	s.t.Helper()
	passed, notDone := 0, 0
	for _, l := range s.newest {
		switch {
		case l.OK:
			passed++
		case l.NotDone:
			notDone++
		}
	}
	s.t.Logf("%d cases passed, %d failed, %d not done; of %d lines %d are failures", passed, len(s.newest)-passed-notDone, notDone, s.count, s.failures)
	if left := int(s.cases) - passed; s.full && left > 0 { // a test that was skipped before its first case has them all left
		s.t.Errorf("%d of %d cases have not passed: start the soak again for those that were not done, on a machine that lets them be done", left, s.cases)
	}
}

// Sum adds up a figure of the cases that passed, in these and in earlier runs.
func (s *Soak) Sum(figure string) (sum float64) {
	for _, x := range s.Figures(figure) {
		sum += x
	}
	return sum
}

// Figures are those of the cases that passed, in these and in earlier runs, in no order.
func (s *Soak) Figures(figure string) (all []float64) {
	for _, l := range s.newest {
		if x, ok := l.Case[figure].(float64); ok && l.OK {
			all = append(all, x)
		}
	}
	return all
}

// Total adds up a figure over every line, of cases that failed or were not done too: what may never be left out of the count.
func (s *Soak) Total(figure string) float64 { return s.totals[figure] }

// Full says whether all cases were asked for.
func (s *Soak) Full() bool { return s.full }

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
	for text := range bytes.Lines(whole) {
		n++
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("%s: line %d is damaged: %w", path, n, err)
		}
		if l.Promise == s.promise && l.Word == s.word && l.Test == s.t.Name() && l.Commit == commit && known {
			s.take(l)
		}
	}
	s.log, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return err
}

// take counts a line.
func (s *Soak) take(l line) {
	s.count++
	if l.failed() {
		s.failures++
	}
	s.newest[l.Seed] = l
	for figure, v := range l.Case {
		if x, ok := v.(float64); ok {
			s.totals[figure] += x
		}
	}
}

// Seeds are those of the cases that are left.
func (s *Soak) Seeds() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for seed := s.first; seed <= s.cases; seed++ {
			if !s.newest[seed].OK && !yield(seed) {
				return
			}
		}
	}
}

// Run runs the cases that are left, each as a subtest of its seed's name, which returns what it drew and saw. One that skips is not done.
// t is the test that New was given.
func (s *Soak) Run(t *testing.T, one func(t *testing.T, seed uint64) map[string]any) {
	t.Helper()
	for seed := range s.Seeds() {
		var drawn map[string]any
		skipped := false
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			drawn = one(t, seed)
		})
		if ok && skipped {
			s.NotDone(seed, drawn)
		} else {
			s.Done(seed, ok, drawn)
		}
	}
}

// Done takes a case's outcome down, and of a failure tells how to see it again.
func (s *Soak) Done(seed uint64, ok bool, drawn map[string]any) {
	s.t.Helper()
	if !ok {
		s.t.Logf("seed %d failed; to see it again: %s", seed, s.replay(seed))
	}
	s.write(line{Seed: seed, OK: ok, Case: drawn})
}

// NotDone takes down that the machine did not let a case be tried: it is run again when the soak goes on.
func (s *Soak) NotDone(seed uint64, drawn map[string]any) {
	s.t.Helper()
	s.write(line{Seed: seed, NotDone: true, Case: drawn})
}

func (s *Soak) write(l line) {
	s.t.Helper()
	l.Promise, l.Word, l.Test, l.Commit = s.promise, s.word, s.t.Name(), os.Getenv("OPENCLAW_SOAK_COMMIT")
	if l.Count, l.Failures = s.count+1, s.failures; l.failed() {
		l.Failures++
	}
	text, err := json.Marshal(l)
	if err == nil { // Sum and Total find the same types as in a log
		l.Case = nil
		err = json.Unmarshal(text, &l)
		s.take(l)
	}
	if err == nil && s.log != nil {
		_, err = s.log.Write(append(text, '\n')) // in one piece, also beside other packages' tests
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// replay is the command that runs one case alone.
func (s *Soak) replay(seed uint64) string {
	folder := "."
	if dir, err := os.Getwd(); err == nil { // a test runs in its package's folder
		for root := dir; root != filepath.Dir(root); root = filepath.Dir(root) {
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
				continue
			}
			if rel, err := filepath.Rel(root, dir); err == nil {
				folder = "./" + filepath.ToSlash(rel)
			}
			break
		}
	}
	return fmt.Sprintf("OPENCLAW_SEED=%d go test %s -run '^%s$' -count=1 -v", seed, folder, strings.ReplaceAll(s.t.Name(), "/", "$/^"))
}
