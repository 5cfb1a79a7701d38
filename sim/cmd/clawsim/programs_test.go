package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

var builtFolder string // of the built programs, removed by TestMain

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(builtFolder) // "" removes nothing
	os.Exit(code)
}

// built is the folder of all three programs, built once as `make build` does.
var built = sync.OnceValues(func() (bin string, err error) {
	if builtFolder, err = os.MkdirTemp("", "clawsim-test-"); err != nil {
		return "", err
	}
	bin = filepath.Join(builtFolder, "bin")
	build := exec.Command("make", "-C", filepath.Join("..", "..", ".."), "build", "BIN="+bin)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS") { // of a make that runs this test
			build.Env = append(build.Env, v)
		}
	}
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build.Args, err, out)
	}
	return bin, nil
})

// programs is the folder of clawagent, clawsim and clawpolicy.
func programs(t *testing.T) string {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// executed runs a program to its end.
func executed(t *testing.T, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if exit := new(exec.ExitError); !errors.As(cmd.Run(), &exit) && cmd.ProcessState == nil {
		t.Fatalf("%v did not start", cmd.Args)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestPrograms: what design.md section 9 promises of every program.
func TestPrograms(t *testing.T) {
	bin := programs(t)
	for name, own := range map[string]string{"clawagent": "run", "clawsim": "robot", "clawpolicy": "inspect"} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(bin, name)
			ok := func(args ...string) string {
				t.Helper()
				code, stdout, stderr := executed(t, program, args...)
				if code != cli.ExitOK || stdout == "" || stderr != "" {
					t.Errorf("%q: exit %d, stderr %q, stdout %q", args, code, stderr, stdout)
				}
				return stdout
			}

			var b cli.Build
			if err := json.Unmarshal([]byte(ok("--version", "--json")), &b); err != nil || b.Name != name || b.Version == "" || b.Go != runtime.Version() {
				t.Errorf("--version --json: %+v, %v", b, err)
			}
			if line := ok("--version"); line != b.String()+"\n" {
				t.Errorf("--version: %q, want %q", line, b.String())
			}

			defaults := filepath.Join(t.TempDir(), "defaults.yaml")
			if err := os.WriteFile(defaults, []byte(ok("config", "--defaults")), 0o600); err != nil {
				t.Fatal(err)
			}
			if said := ok("config", "--check", defaults); said != defaults+": ok\n" {
				t.Errorf("config --check of the defaults: %q", said)
			}
			if said := ok("config", "--explain"); !strings.Contains(said, "DEFAULT") || strings.Count(said, "\n") < 2 {
				t.Errorf("config --explain: %q", said)
			}
			if said := ok("completion", "bash"); !strings.Contains(said, "bash completion") {
				t.Errorf("completion bash: %.100q", said)
			}

			var listed []string
			_, table, _ := strings.Cut(ok("--help"), "\nCommands:\n")
			for line := range strings.Lines(table) {
				word, _, found := strings.Cut(strings.TrimSpace(line), " ")
				if !found {
					break
				}
				if word != "completion" && word != "help" { // cobra's own
					listed = append(listed, word)
				}
			}
			if !slices.Contains(listed, own) || !slices.Contains(listed, "config") {
				t.Errorf("commands %q, want %s and config among them", listed, own)
			}
			for _, c := range listed {
				_, examples, found := strings.Cut(ok(c, "--help"), "\nExamples:\n")
				if !found || !strings.HasPrefix(examples, "  "+name+" "+c) {
					t.Errorf("%s --help has no examples of itself: %.100q", c, examples)
				}
			}

			if code, stdout, stderr := executed(t, program, own, "--json", "--bogus"); code != cli.ExitUsage ||
				!strings.HasPrefix(stdout, `{"ok":false,"error":"`) || !strings.HasSuffix(stdout, `"exit_code":2}`+"\n") || !strings.Contains(stderr, "--bogus") {
				t.Errorf("an unknown flag with --json: exit %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}

// TestNoSuchPolicy: a named file that does not exist is a failure (1) of every program that takes one, not something that the machine
// lacks.
func TestNoSuchPolicy(t *testing.T) {
	bin := programs(t)
	missing := filepath.Join(t.TempDir(), "none.onnx")
	for _, c := range [][]string{
		{"clawagent", "run", "--robot", "udp://127.0.0.1:9", "--http", "127.0.0.1:0", "--policy", missing},
		{"clawsim", "demo", "--policy", missing},
		{"clawsim", "play", "--policy", missing},
		{"clawpolicy", "inspect", missing},
	} {
		code, stdout, stderr := executed(t, filepath.Join(bin, c[0]), c[1:]...)
		if code != cli.ExitFailed || stdout != "" || !strings.Contains(stderr, missing+": no such file") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", c[:2], code, stdout, stderr)
		}
	}
}

// TestProgramsMove: bin and .deps may be moved together. Moving this repository for a test would be rude: the place where it was
// built is made unknown in a copy instead.
func TestProgramsMove(t *testing.T) {
	root := contracttest.Root(t)
	program, err := os.ReadFile(filepath.Join(programs(t), "clawsim"))
	if err != nil {
		t.Fatal(err)
	}
	place := []byte(filepath.Join(root, "sim") + string(filepath.Separator)) // of the package that names the library, and on to it
	elsewhere := append([]byte("/gone/"), bytes.Repeat([]byte{'x'}, len(place))...)[:len(place)]
	if !bytes.Contains(program, place) {
		t.Fatalf("clawsim does not name %s", place)
	}
	moved := filepath.Join(t.TempDir(), "bin", "clawsim")
	if err := os.Mkdir(filepath.Dir(moved), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(moved, bytes.ReplaceAll(program, place, elsewhere), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := executed(t, moved, "--version"); code == cli.ExitOK || !strings.Contains(stderr, "libmujoco") {
		t.Fatalf("without .deps: exit %d, %q", code, stderr)
	}
	if err := os.Symlink(filepath.Join(root, ".deps"), filepath.Join(filepath.Dir(filepath.Dir(moved)), ".deps")); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := executed(t, moved, "--version"); code != cli.ExitOK || !strings.HasPrefix(stdout, "clawsim ") {
		t.Errorf("with .deps beside bin: exit %d, %q", code, stderr)
	}
}
