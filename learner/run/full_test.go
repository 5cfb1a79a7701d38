package run

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// fillUp trains in dir while no file may pass 5000 bytes, which is as a full disk: a write stops in the middle. Then the limit goes.
func fillUp(dir, value string) error {
	f, err := Open(dir, Describe("fill", "", ""))
	if err != nil {
		return err
	}
	x, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return err
	}
	var values []Value
	for i := range 20 {
		values = append(values, Value{fmt.Sprintf("%02d", i), x})
	}
	signal.Ignore(unix.SIGXFSZ)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	small := limit
	small.Cur = 5000
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &small); err != nil {
		return err
	}
	next := f.latest + 1
	for ; ; next++ {
		if err = f.Log(next, values); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("log: %w", err)
	}
	if err := f.Save(someCheckpoint(next, 10_000)); !errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if left := filepath.Join(dir, checkpointsDir); len(names(left)) != 1 {
		return fmt.Errorf("a failed checkpoint left %q", names(left))
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for range 2 {
		next++
		if err := errors.Join(f.Log(next, values), f.Save(someCheckpoint(next, 10_000))); err != nil {
			return err
		}
	}
	return nil
}

func names(dir string) (all []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestFullDisk: what does not fit leaves nothing of itself, what was there stays, and training goes on when there is room.
func TestFullDisk(t *testing.T) {
	for name, value := range map[string]string{"metrics fill up first": "0.123456789", "events fill up first": "1"} {
		t.Run(name, func(t *testing.T) {
			f := mustCreate(t)
			if err := f.Save(someCheckpoint(0, 10_000)); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), "RUN_TEST_FULL="+f.Dir, "RUN_TEST_VALUE="+value)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			f, err := Open(f.Dir, Meta{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			lines := logged(t, f) // all whole
			if len(lines) < 8 || !slices.IsSorted(lines) || lines[len(lines)-1] != f.latest || len(f.Skipped) > 0 {
				t.Errorf("logged %v, latest checkpoint %d, skipped %v", lines, f.latest, f.Skipped)
			}
			files, err := filepath.Glob(f.Path(eventsPrefix + "*"))
			if err != nil || len(files) != 1 {
				t.Fatalf("event files %q, %v", files, err)
			}
			events := records(t, files[0])
			// The file's version first; an iteration may be missing in either, where that was what did not fit.
			if n := len(events) - 1; n < len(lines)-1 || n > len(lines) {
				t.Errorf("%d events, %d lines", n, len(lines))
			}
		})
	}
}

// records is what an event file holds; every record must be whole.
func records(t *testing.T, path string) (all [][]byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for len(data) > 0 {
		if len(data) < 16 {
			t.Fatalf("%s: %d bytes at the end", path, len(data))
		}
		n := binary.LittleEndian.Uint64(data)
		if n > uint64(len(data)-16) {
			t.Fatalf("%s: record %d has %d bytes, the file %d more", path, len(all), n, len(data))
		}
		part := data[12 : 12+n]
		if !bytes.Equal(appendRecord(nil, part), data[:16+n]) {
			t.Fatalf("%s: record %d: a checksum is another", path, len(all))
		}
		all, data = append(all, part), data[16+n:]
	}
	return all
}
