package promise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A soak that was ended goes on with the cases that are left, of its own commit, and with those that failed.
func TestSoakGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	t.Setenv("OPENCLAW_SEED", "")
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
	want(left(New(&told{TB: t}, 14, 2, 6), 3, 0), "[1 2 3]") // ended
	want(left(New(t, 14, 2, 6), 6, 0), "[4 5 6]")
	want(left(New(t, 14, 2, 6), 6, 0), "[]")
	sampled := New(t, 13, 2, 6)
	want(left(sampled, 6, 0), "[1 2]") // not asked for in full, and not in the log
	if sampled.Full() || !New(t, 14, 2, 6).Full() {
		t.Error("a sample and the full count are told from one another")
	}
	t.Setenv("OPENCLAW_SOAK_COMMIT", "abd")
	want(left(New(&told{TB: t}, 14, 2, 6), 6, 5), "[1 2 3 4 5 6]")
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), "\n") != 12 || !strings.HasSuffix(string(data), `"seed":6,"ok":true,"count":6,"failures":1,"case":{"world":"walk"}}`+"\n") {
		t.Errorf("%v: %s", err, data)
	}
	again := &told{TB: t}
	soak := New(again, 14, 2, 6)
	want(left(soak, 6, 0), "[5]")
	want(left(New(t, 14, 2, 6), 6, 0), "[]")
	soak.tell()
	for _, said := range []string{"6 lines before, 1 of them failures", "6 cases passed, 0 failed, 0 not done; of 7 lines 1 are failures"} {
		if !strings.Contains(again.said, said) {
			t.Errorf("after an earlier failure: %q, want %q", again.said, said)
		}
	}
	t.Setenv("OPENCLAW_SOAK_COMMIT", "abc")
	torn := append(data[:len(data):len(data)], `{"promise":14,"te`...)
	write(t, path, torn)
	want(left(New(t, 14, 2, 7), 7, 0), "[7]")
	data, err = os.ReadFile(path)
	if err != nil || strings.Count(string(data), "\n") != 13 || strings.Contains(string(data), `"te{`) {
		t.Errorf("after a torn line: %v: %s", err, data)
	}
	write(t, path, append(torn, '\n'))
	if err := (&Soak{t: t, promise: 14, newest: map[uint64]line{}, totals: map[string]float64{}}).open(path); err == nil || !strings.Contains(err.Error(), "line 13 is damaged") {
		t.Errorf("a damaged log: %v", err)
	}
}

// A case that skips is neither passed nor failed: it is run again, and a full count without it is none. Figures are summed over the cases
// that passed, in all runs.
func TestSoakNotDone(t *testing.T) {
	t.Setenv("OPENCLAW_SEED", "")
	t.Setenv("OPENCLAW_SOAK", "14")
	t.Setenv("OPENCLAW_SOAK_LOG", filepath.Join(t.TempDir(), "log.jsonl"))
	t.Setenv("OPENCLAW_SOAK_COMMIT", "abc")
	run := func(skips uint64) (said string, ticks float64) {
		s := &told{TB: t}
		soak := New(s, 14, 1, 3)
		soak.Run(t, func(t *testing.T, seed uint64) map[string]any {
			if seed == skips {
				t.Skip("the machine stood still")
			}
			return map[string]any{"ticks": 100 * seed, "mode": "walk"}
		})
		s.said = ""
		soak.tell()
		if soak.Sum("mode") != 0 {
			t.Error("words have a sum")
		}
		if all := soak.Figures("ticks"); len(all) != len(soak.newest)-int(min(skips, 1)) {
			t.Errorf("%d figures of %d cases", len(all), len(soak.newest))
		}
		return s.said, soak.Sum("ticks")
	}
	if said, ticks := run(2); !strings.Contains(said, "2 cases passed, 0 failed, 1 not done; of 3 lines 0") || !strings.Contains(said, "1 of 3 cases have not passed") || ticks != 400 {
		t.Errorf("said %q, %v ticks", said, ticks)
	}
	if said, ticks := run(0); !strings.Contains(said, "3 cases passed, 0 failed, 0 not done; of 4 lines 0") || strings.Contains(said, "have not passed") || ticks != 600 {
		t.Errorf("gone on: said %q, %v ticks", said, ticks)
	}
}

// A full count of which nothing ran is none, whatever the test says of itself.
func TestSoakSkipped(t *testing.T) {
	t.Setenv("OPENCLAW_SEED", "")
	t.Setenv("OPENCLAW_SOAK", "14")
	t.Setenv("OPENCLAW_SOAK_LOG", "")
	s := &told{TB: t}
	New(s, 14, 1, 3).tell()
	if !strings.Contains(s.said, "3 of 3 cases have not passed") {
		t.Errorf("said %q", s.said)
	}
	t.Setenv("OPENCLAW_SOAK", "")
	s = &told{TB: t}
	New(s, 14, 1, 3).tell()
	if strings.Contains(s.said, "have not passed") {
		t.Errorf("a sample: said %q", s.said)
	}
}

// What may never be left out of a count is added up over all lines, those that failed, were not done or were run again too.
func TestSoakTotal(t *testing.T) {
	t.Setenv("OPENCLAW_SEED", "")
	t.Setenv("OPENCLAW_SOAK", "14")
	t.Setenv("OPENCLAW_SOAK_LOG", filepath.Join(t.TempDir(), "log.jsonl"))
	t.Setenv("OPENCLAW_SOAK_COMMIT", "abc")
	soak := New(&told{TB: t}, 14, 1, 3)
	soak.Done(1, false, map[string]any{"trips": uint64(1), "mode": "walk"})
	soak.NotDone(2, map[string]any{"trips": 2})
	soak.Done(3, true, map[string]any{"trips": 4.})
	soak.Done(1, true, map[string]any{"trips": 8})
	for _, s := range []*Soak{soak, New(&told{TB: t}, 14, 1, 3)} { // the log says the same
		if s.Total("trips") != 15 || s.Sum("trips") != 12 || s.Total("mode") != 0 || s.count != 4 || s.failures != 1 {
			t.Errorf("total %v, sum %v, %d lines, %d failures", s.Total("trips"), s.Sum("trips"), s.count, s.failures)
		}
	}
}

// A test that is none of a promise's is asked for by its word.
func TestSoakOfAWord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	t.Setenv("OPENCLAW_SEED", "")
	t.Setenv("OPENCLAW_SOAK", "storm")
	t.Setenv("OPENCLAW_SOAK_LOG", path)
	t.Setenv("OPENCLAW_SOAK_COMMIT", "abc")
	for _, c := range []struct {
		word string
		all  uint64
		full bool
		left int
	}{{"calm", 3, false, 1}, {"storm", 3, true, 3}, {"storm", 4, true, 1}} {
		soak, n := NewWord(t, c.word, 1, c.all), 0
		for seed := range soak.Seeds() {
			n++
			soak.Done(seed, true, nil)
		}
		if soak.Full() != c.full || n != c.left {
			t.Errorf("%s: full %v, %d cases; want %v, %d", c.word, soak.Full(), n, c.full, c.left)
		}
	}
	data, err := os.ReadFile(path)
	if want := `{"word":"storm","test":"TestSoakOfAWord","commit":"abc","seed":1,"ok":true,"count":1,"failures":0,"case":null}` + "\n"; err != nil || !strings.HasPrefix(string(data), want) {
		t.Errorf("%v: %s", err, data)
	}
}

// One case alone runs by its seed, leaves no line, and its failure says how to see it again.
func TestOneSeed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	t.Setenv("OPENCLAW_SOAK", "14")
	t.Setenv("OPENCLAW_SOAK_LOG", path)
	t.Setenv("OPENCLAW_SEED", "5")
	s := &told{TB: t}
	soak := New(s, 14, 2, 6)
	for seed := range soak.Seeds() {
		soak.Done(seed, false, nil)
	}
	if want := "OPENCLAW_SEED=5 go test ./agent/promise -run '^TestOneSeed$' -count=1 -v"; !strings.HasSuffix(s.said, want) || strings.Count(s.said, "seed") != 1 {
		t.Errorf("said %q, want one line with %q", s.said, want)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a case that was run alone is in the log")
	}
	t.Setenv("OPENCLAW_SEED", "9001..9003") // of no sample and of no count
	var fresh []uint64
	for seed := range New(&told{TB: t}, 14, 2, 6).Seeds() {
		fresh = append(fresh, seed)
	}
	if fmt.Sprint(fresh) != "[9001 9002 9003]" {
		t.Errorf("ran %v", fresh)
	}
	for _, bad := range []string{"0", "-1", "x", "1..", "..2", "3..2", "1..2..3", "1-2", "99999999999999999999"} {
		t.Setenv("OPENCLAW_SEED", bad)
		s := &told{TB: t}
		func() {
			defer func() { _ = recover() }()
			New(s, 14, 2, 6)
		}()
		if want := "OPENCLAW_SEED=" + bad + ": want a seed from 1 on, or FIRST..LAST"; s.said != want {
			t.Errorf("said %q, want %q", s.said, want)
		}
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// told is a test that keeps to itself what went wrong.
type told struct {
	testing.TB
	said string
}

func (r *told) Errorf(format string, a ...any) { r.said += fmt.Sprintf(format, a...) }
func (r *told) Logf(format string, a ...any)   { r.said += fmt.Sprintf(format, a...) }
func (r *told) Fatalf(format string, a ...any) { r.Errorf(format, a...); panic(r) }
