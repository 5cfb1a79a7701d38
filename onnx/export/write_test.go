package export

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWriteFileRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := writeFile(filepath.Join(dir, "none", "p.onnx"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a folder that is not there: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "p.onnx", "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "p.onnx"), []byte("x")); err == nil {
		t.Error("over a folder: no error")
	}
	if left := entries(t, dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// killedWriter names the variable that makes this test's program write files by
// turns at the path it holds, until it is killed.
const killedWriter = "OPENCLAW_TEST_KILLED_WRITER"

// versions are the two files that the killed writer writes by turns.
func versions() (v [2][]byte) {
	for i := range v {
		v[i] = bytes.Repeat([]byte{byte('A' + i)}, 1<<20)
	}
	return v
}

// Whenever a writer is killed, the file is a whole one.
func TestKilledWriterLeavesAWholeFile(t *testing.T) {
	v := versions()
	if path := os.Getenv(killedWriter); path != "" {
		for i := 0; ; i++ {
			if err := writeFile(path, v[i%2]); err != nil {
				t.Fatal(err)
			}
			fmt.Println("written") // tells the killer that its turn has come
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "p.onnx")
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[byte]int{}
	for range 20 {
		cmd := exec.Command(exe, "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), killedWriter+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		_, readErr := lines.ReadString('\n')
		// However long a write takes here, some of these end in the midst of one.
		time.Sleep(time.Duration(rng.IntN(10_000)) * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, lines); err != nil {
			t.Fatal(err)
		}
		if waitErr := cmd.Wait(); readErr != nil {
			t.Fatalf("the writer did not write: %v, %v", readErr, waitErr)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, v[0]) && !bytes.Equal(data, v[1]) {
			t.Fatalf("%d bytes that are neither version", len(data))
		}
		seen[data[0]]++
	}
	left := entries(t, filepath.Dir(path))
	t.Logf("versions found: %v; beside the file, from the last writer: %v", seen, left[:len(left)-1])
	if len(left) > 2 { // a writer removes what the one before it left
		t.Errorf("left behind: %v", left)
	}
	if err := writeFile(path, v[0]); err != nil {
		t.Fatal(err)
	}
	if left := entries(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// entries are the names in a folder; one with a dot in front comes first.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// A writer leaves alone what another is writing, and files of other names.
func TestWriteFileBesideAnother(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.onnx")
	for _, name := range []string{".p.onnx.1.tmp", ".p.onnx.2.tmp", ".p.onnx", ".q.onnx.1.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other, err := os.Open(filepath.Join(dir, ".p.onnx.1.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(path, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if left := entries(t, dir); !slices.Equal(left, []string{".p.onnx", ".p.onnx.1.tmp", ".q.onnx.1.tmp", "p.onnx"}) {
		t.Errorf("in the folder: %v", left)
	}
}
