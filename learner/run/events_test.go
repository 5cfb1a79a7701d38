package run

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// TestMaskedCRC compares with RFC 3720's answers (B.4), with the mask undone, and with the first bytes of every event file
// that TensorFlow writes: a length of 24 and its checksum.
func TestMaskedCRC(t *testing.T) {
	rising := make([]byte, 32)
	for i := range rising {
		rising[i] = byte(i)
	}
	for _, test := range []struct {
		name string
		data []byte
		crc  uint32
	}{
		{"32 zeros", make([]byte, 32), 0x8a9136aa},
		{"32 ones", bytes.Repeat([]byte{0xff}, 32), 0x62a8ab43},
		{"rising", rising, 0x46dd794e},
		{"digits", []byte("123456789"), 0xe3069283},
	} {
		masked := maskedCRC(test.data)
		turned := masked - 0xa282ead8
		if got := turned>>17 | turned<<15; got != test.crc {
			t.Errorf("%s: unmasked %08x, want %08x", test.name, got, test.crc)
		}
	}
	record := appendRecord(nil, make([]byte, 24))
	if want := []byte("\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7fK\""); !bytes.HasPrefix(record, want) {
		t.Errorf("a record of 24 bytes begins %q, want %q", record[:12], want)
	}
}

// TestFirstRecord: readers tell the file's kind by its first event.
func TestFirstRecord(t *testing.T) {
	dir := t.TempDir()
	w, err := newEvents(dir, time.Unix(1764000000, 500e6), 7)
	if err != nil {
		t.Fatal(err)
	}
	defer w.file.Close()
	data, err := os.ReadFile(w.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	event := binary.LittleEndian.AppendUint64([]byte{0x09}, math.Float64bits(1764000000.5))
	event = append(event, "\x1a\x0dbrain.Event:2"...)
	if diff := cmp.Diff(appendRecord(nil, event), data); diff != "" {
		t.Error(diff)
	}
	if name := filepath.Base(w.file.Name()); !strings.HasPrefix(name, "events.out.tfevents.1764000000.") {
		t.Errorf("file %s", name)
	}
}

// TestEventFilesSort: readers take files in the order of their names, also when the clock stood still or was set back, and in folders whose
// names mean something to a pattern.
func TestEventFilesSort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a[b]*?\c`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, second := range []int64{5, 5, 3, 1764000000, 9} {
		w, err := newEvents(dir, time.Unix(second, 0), 1)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, w.file.Name())
		w.file.Close()
	}
	if !slices.IsSorted(made) {
		t.Errorf("made in another order than they sort: %q", made)
	}
}

// tensorBoard reads a folder with TensorBoard's reader.
func tensorBoard(t *testing.T, dir string) map[string][][2]float64 {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(cache, "openclaw", "tensorboard-2.21.0", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		if os.Getenv("OPENCLAW_ALL") == "1" {
			t.Fatalf("OPENCLAW_ALL=1 wants every test: %v", err)
		}
		t.Skipf("needs TensorBoard 2.21.0, which make test-deps installs: %v", err)
	}
	cmd := exec.Command(python, "-B", "testdata/events.py", dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, said.String())
	}
	var got map[string][][2]float64
	if err := json.Unmarshal(bytes.ReplaceAll(out, []byte("NaN"), []byte("-12345")), &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return got
}

// TestTensorBoardReads: values of one run, killed in the middle of a record, resumed from an earlier iteration, rewound once, then ended.
func TestTensorBoardReads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	f, err := Create(dir, map[string]any{"rows": 8}, Describe("test", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	log := func(iteration int64, values ...Value) {
		t.Helper()
		if err := f.Log(iteration, values); err != nil {
			t.Fatal(err)
		}
	}
	const now, later = 1.5, 2.5
	for i := int64(1); i <= 5; i++ {
		log(i, Value{"Loss/value", now}, Value{"Perf/total_fps", 1e6 * float64(i)})
		if i == 2 {
			if err := f.Save(&Checkpoint{Iteration: i}); err != nil {
				t.Fatal(err)
			}
		}
	}
	name := f.events.file.Name()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data[:len(data)-7], 0o644); err != nil {
		t.Fatal(err)
	}

	if f, err = Open(dir, Describe("test", "", "")); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := int64(3); i <= 6; i++ {
		log(i, Value{"Loss/value", later})
	}
	if err := f.Rewind(4); err != nil {
		t.Fatal(err)
	}
	log(5, Value{"Loss/value", math.NaN()}, Value{"é/<ü>", -1})

	want := map[string][][2]float64{
		"Loss/value":     {{1, now}, {2, now}, {3, later}, {4, later}, {5, -12345}},
		"Perf/total_fps": {{1, 1e6}, {2, 2e6}},
		"é/<ü>":          {{5, -1}},
	}
	if diff := cmp.Diff(want, tensorBoard(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestRecord: both checksums stand behind what they are of.
func TestRecord(t *testing.T) {
	data := []byte("anything")
	record := appendRecord([]byte("before"), data)[len("before"):]
	want := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	want = binary.LittleEndian.AppendUint32(want, maskedCRC(want))
	want = binary.LittleEndian.AppendUint32(append(want, data...), maskedCRC(data))
	if diff := cmp.Diff(want, record); diff != "" {
		t.Error(diff)
	}
}
