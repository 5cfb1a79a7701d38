package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// someCheckpoint has sections of several sizes that follow from the iteration.
func someCheckpoint(iteration int64, size int) *Checkpoint {
	pattern := func(salt byte, n int) []byte {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(iteration) + salt + byte(i*7)
		}
		return data
	}
	return &Checkpoint{iteration, []Section{{"nets", pattern(1, size)}, {"empty", []byte{}}, {"rows", pattern(2, size/3)}, {"random", pattern(3, 16)}}}
}

func encoded(t testing.TB, c *Checkpoint) []byte {
	t.Helper()
	parts, err := c.encode()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Join(parts, nil)
}

func TestCheckpointRoundTrip(t *testing.T) {
	for _, want := range []*Checkpoint{someCheckpoint(120, 1000), {0, []Section{}}, {1 << 40, []Section{{"ü \"", []byte{1}}}}} {
		got, err := decode(encoded(t, want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	c := someCheckpoint(120, 10)
	if got, err := c.Section("rows"); err != nil || !bytes.Equal(got, c.Sections[2].Data) {
		t.Errorf("section rows: %v, %v", got, err)
	}
	if _, err := c.Section("noise"); err == nil || !strings.Contains(err.Error(), `iteration 120 has no section "noise"`) {
		t.Errorf("section noise: %v", err)
	}
}

// TestDamageIsSeen changes each bit of a checkpoint, cuts it at each length, and makes it longer.
func TestDamageIsSeen(t *testing.T) {
	whole := encoded(t, someCheckpoint(3, 60))
	for n := range whole {
		if _, err := decode(whole[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
		for bit := range 8 {
			bad := bytes.Clone(whole)
			bad[n] ^= 1 << bit
			if _, err := decode(bad); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d, bit %d: %v", n, bit, err)
			}
		}
	}
	if _, err := decode(append(bytes.Clone(whole), 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte more: %v", err)
	}
}

// TestCraftedFiles have right checksums and wrong contents.
func TestCraftedFiles(t *testing.T) {
	empty := sha256.Sum256(nil)
	section := fmt.Sprintf(`{"name":"a","bytes":0,"sha256":"%x"}`, empty)
	for _, test := range []struct{ index, want string }{
		{`{"iteration":1,"sections":[` + section + `]}`, ""},
		{`{"iteration":1,"sections":[` + section + `,` + section + `]}`, `section "a": no name, or twice`},
		{`{"iteration":1,"sections":[{"name":"","bytes":0,"sha256":""}]}`, `section "": no name`},
		{`{"iteration":1,"sections":[{"name":"a","bytes":-1,"sha256":""}]}`, `section "a" has -1 bytes`},
		{`{"iteration":1,"sections":[{"name":"a","bytes":9223372036854775807,"sha256":""}]}`, `the file 0 more`},
		{`{"iteration":1,"sections":[{"name":"a","bytes":0,"sha256":"00"}]}`, `section "a": its checksum`},
		{`{"iteration":-1,"sections":[]}`, "iteration -1"},
		{`{"iteration":1,"sections":[],"more":1}`, "more"},
		{`{"iteration":1.5}`, "index"},
		{`[]`, "index"},
	} {
		sum := sha256.Sum256([]byte(test.index))
		data := binary.LittleEndian.AppendUint32([]byte(checkpointMagic), uint32(len(test.index)))
		data = append(append(data, test.index...), sum[:]...)
		_, err := decode(data)
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", test.index, err)
			}
		} else if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.index, err, test.want)
		}
	}
}

func TestSaveRefuses(t *testing.T) {
	f := mustCreate(t)
	for _, test := range []struct {
		c    Checkpoint
		want string
	}{
		{Checkpoint{-1, nil}, "iteration -1 is negative"},
		{Checkpoint{1, []Section{{"", nil}}}, `section ""`},
		{Checkpoint{1, []Section{{"a", nil}, {"b", nil}, {"a", nil}}}, `section "a"`},
		{Checkpoint{1, []Section{{"a\xff", nil}}}, "UTF-8"},
		{Checkpoint{1, []Section{{strings.Repeat("a", maxIndex), nil}}}, "at most 1048576 fit"},
	} {
		if err := f.Save(&test.c); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.80q: %v, want %q", fmt.Sprint(test.c), err, test.want)
		}
		if err := f.SaveBest(&test.c); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.80q as best: %v, want %q", fmt.Sprint(test.c), err, test.want)
		}
	}
	if got := tree(t, f.Path(checkpointsDir)); got != nil {
		t.Errorf("left %q", got)
	}
}

func TestKeep(t *testing.T) {
	f := mustCreate(t)
	for i := int64(10); i <= 70; i += 10 {
		if err := f.Save(someCheckpoint(i, 100)); err != nil {
			t.Fatal(err)
		}
		if i == 20 {
			if err := f.SaveBest(someCheckpoint(i, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if i == 60 {
			f.Keep = 2
		}
	}
	if got := tree(t, f.Path(checkpointsDir)); !slices.Equal(got, []string{"000060", "000070", "best"}) {
		t.Errorf("kept %q", got)
	}
	for name, load := range map[string]func() (*Checkpoint, error){
		"latest": f.Latest,
		"60":     func() (*Checkpoint, error) { return f.Load(60) },
		"best":   f.Best,
	} {
		want := map[string]int64{"latest": 70, "60": 60, "best": 20}[name]
		got, err := load()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(someCheckpoint(want, 100), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, err := f.Load(20); !errors.Is(err, ErrNoCheckpoint) || !strings.Contains(err.Error(), "000020") {
		t.Errorf("one that is not kept: %v", err)
	}
	f.Keep = 0
	if err := f.Save(someCheckpoint(1234567, 100)); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, f.Path(checkpointsDir)); !slices.Equal(got, []string{"1234567", "best"}) {
		t.Errorf("keep 0 kept %q", got)
	}
}

// TestOpenSkipsDamaged: the newest whole checkpoint is taken, and the others named with what is wrong.
func TestOpenSkipsDamaged(t *testing.T) {
	f := mustCreate(t)
	f.Keep = 10
	for i := int64(1); i <= 7; i++ {
		if err := f.Save(someCheckpoint(i, 100)); err != nil {
			t.Fatal(err)
		}
	}
	path := func(i int64) string { return f.checkpointPath(i) }
	if err := os.Truncate(path(7), 100); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path(6))
	if err != nil {
		t.Fatal(err)
	}
	whole[len(whole)-1] ^= 1
	for name, data := range map[string][]byte{path(6): whole, path(5): nil, path(4): encoded(t, someCheckpoint(3, 100)), path(2): nil,
		filepath.Join(f.Dir, checkpointsDir, ".new-000008-12"): whole, filepath.Join(f.Dir, checkpointsDir, "9"): whole,
		filepath.Join(f.Dir, checkpointsDir, "notes"): nil} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f = reopen(t, f)
	got, err := f.Latest()
	if err != nil || got.Iteration != 3 {
		t.Fatalf("latest: %v, %v", got, err)
	}
	want := []struct {
		iteration int64
		why       string
	}{{7, "in a file of 100"}, {6, `section "random": its checksum`}, {5, "does not begin as a checkpoint"}, {4, "it is of iteration 3"}}
	if len(f.Skipped) != len(want) {
		t.Fatalf("skipped %v", f.Skipped)
	}
	for i, w := range want {
		got := f.Skipped[i]
		if got.Path != path(w.iteration) || !errors.Is(got.Why, ErrDamaged) || !strings.Contains(got.Why.Error(), got.Path) || !strings.Contains(got.Why.Error(), w.why) {
			t.Errorf("skipped %s: %v, want iteration %d: %s", got.Path, got.Why, w.iteration, w.why)
		}
	}
	if got := tree(t, f.Path(checkpointsDir)); !slices.Equal(got, []string{"000001", "000002", "000003", "000004", "000005", "000006", "000007", "9", "notes"}) {
		t.Errorf("opening left %q", got)
	}
	// Going on at 4 replaces what was damaged, and does not count it among the newest.
	f.Keep = 2
	if err := f.Log(4, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(someCheckpoint(4, 100)); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, f.Path(checkpointsDir)); !slices.Equal(got, []string{"000003", "000004", "9", "notes"}) {
		t.Errorf("going on left %q", got)
	}
}

func TestBestDamaged(t *testing.T) {
	f := mustCreate(t)
	if _, err := f.Best(); !errors.Is(err, ErrNoCheckpoint) {
		t.Errorf("no best: %v", err)
	}
	if err := os.WriteFile(f.Path("checkpoints/best"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Best(); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "best") {
		t.Errorf("damaged best: %v", err)
	}
}

// FuzzDecode: a checkpoint file may be anything; what is taken encodes to the same bytes or to as good ones.
func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, someCheckpoint(3, 20)))
	f.Add(encoded(f, &Checkpoint{}))
	f.Add([]byte(checkpointMagic + "\xff\xff\xff\xff"))
	f.Add([]byte(checkpointMagic + "\x02\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decode(data)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("error %v", err)
			}
			return
		}
		again, err := decode(encoded(t, c))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Error(diff)
		}
	})
}
