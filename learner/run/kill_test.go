package run

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test's own program be a second process: one that opens a folder, one that trains in it until it is killed, and one
// that may not write large files.
func TestMain(m *testing.M) {
	err := error(nil)
	switch {
	case os.Getenv("RUN_TEST_OPEN") != "":
		_, err = Open(os.Getenv("RUN_TEST_OPEN"), Meta{})
	case os.Getenv("RUN_TEST_TRAIN") != "":
		err = train(os.Getenv("RUN_TEST_TRAIN"))
	case os.Getenv("RUN_TEST_FULL") != "":
		err = fillUp(os.Getenv("RUN_TEST_FULL"), os.Getenv("RUN_TEST_VALUE"))
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// killSize is the bytes of a checkpoint's largest section: writing it takes most of train's time.
const killSize = 400_000

// train goes on in dir as a trainer would, without an end, and prints each iteration whose checkpoint is safe.
func train(dir string) error {
	f, err := Open(dir, Describe("train", "", ""))
	if errors.Is(err, ErrNoRun) {
		f, err = Create(dir, map[string]any{"size": killSize}, Describe("train", "", ""))
	}
	if err != nil {
		return err
	}
	next := f.latest + 1
	for ; ; next++ {
		if err := f.Log(next, []Value{{"Loss/value", float64(next)}}); err != nil {
			return err
		}
		c := someCheckpoint(next, killSize)
		if err := f.Save(c); err != nil {
			return err
		}
		if next%5 == 0 {
			if err := f.SaveBest(c); err != nil {
				return err
			}
			if err := f.WriteCurves("", []Panel{{Title: "loss", Tags: []string{"Loss/value"}}}); err != nil {
				return err
			}
		}
		fmt.Println(next)
	}
}

// TestKilled: killed at random moments, among them before the folder is a run, the folder opens at the last checkpoint that was said to be safe,
// or at one that became so in the last instant, and nothing in it is broken.
func TestKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	const kills = 10
	safe, torn, iteration := int64(-1), 0, 20*time.Millisecond
	for kill := range kills {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "RUN_TEST_TRAIN="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The first dies wherever it is; the others after some iterations, and a part of one more.
		lines := bufio.NewScanner(out)
		read := func() bool {
			if !lines.Scan() {
				return false
			}
			n, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil || n < safe {
				t.Fatalf("the trainer said %q after %d", lines.Text(), safe)
			}
			safe = n
			return true
		}
		for range rand.IntN(8) * min(kill, 1) {
			began := time.Now()
			if !read() {
				t.Fatal("the trainer ended by itself")
			}
			iteration = time.Since(began)
		}
		time.Sleep(time.Duration(rand.Float64() * float64(iteration)))
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for read() {
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
			t.Fatalf("the trainer ended by itself: %v", err)
		}
		for _, folder := range []string{dir, filepath.Join(dir, checkpointsDir)} {
			left, err := filepath.Glob(filepath.Join(folder, tempPrefix+"*"))
			if err != nil {
				t.Fatal(err)
			}
			torn += len(left)
		}

		f, err := Open(dir, Describe("test", "", ""))
		if errors.Is(err, ErrNoRun) && safe < 0 {
			continue // the next trainer creates it
		}
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if len(f.Skipped) > 0 {
			t.Errorf("kill %d: damaged checkpoints: %v", kill, f.Skipped)
		}
		if f.latest < safe {
			t.Errorf("kill %d: opened at %d, %d was safe", kill, f.latest, safe)
		}
		if f.latest >= 0 {
			got, err := f.Latest()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(encoded(t, got), encoded(t, someCheckpoint(f.latest, killSize))) {
				t.Errorf("kill %d: checkpoint %d is not what was saved", kill, f.latest)
			}
		}
		if best, err := f.Best(); err != nil && !errors.Is(err, ErrNoCheckpoint) {
			t.Errorf("kill %d: %v", kill, err)
		} else if err == nil && !bytes.Equal(encoded(t, best), encoded(t, someCheckpoint(best.Iteration, killSize))) {
			t.Errorf("kill %d: best, %d, is not what was saved", kill, best.Iteration)
		}
		for _, name := range tree(t, dir) {
			if strings.Contains(name, tempPrefix) {
				t.Errorf("kill %d: %s is still there", kill, name)
			}
		}
		safe = max(safe, f.latest)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, %d while a file was written, the last checkpoint is of iteration %d", kills, torn, safe)

	// Every iteration up to the checkpoint is logged once, in order.
	f, err := Open(dir, Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Log(f.latest+1, nil); err != nil {
		t.Fatal(err)
	}
	for i, n := range logged(t, f) {
		if n != int64(i) {
			t.Fatalf("line %d of the metrics is of iteration %d", i, n)
		}
	}
}
