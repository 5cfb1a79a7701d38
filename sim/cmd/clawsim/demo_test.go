package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

// demoProcess is a demo that runs.
type demoProcess struct {
	cmd         *exec.Cmd
	out, errors watched
	done        chan struct{} // closed when it has ended
	err         error         // how; after done
}

// watched is output that may be read while it grows.
type watched struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// startDemo starts it in a folder.
func startDemo(t *testing.T, bin, folder string, args ...string) *demoProcess {
	t.Helper()
	p := &demoProcess{done: make(chan struct{}), cmd: exec.Command(filepath.Join(bin, "clawsim"), append([]string{"demo"}, args...)...)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = folder, &p.out, &p.errors
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.done })
	return p
}

// wait is its exit code.
func (p *demoProcess) wait(t *testing.T) int {
	t.Helper()
	<-p.done
	if exit := new(exec.ExitError); p.err != nil && !errors.As(p.err, &exit) {
		t.Fatal(p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// says waits until standard error has a text, and says whether it came before the end of the program.
func (p *demoProcess) says(t *testing.T, text string) bool {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(p.errors.String(), text); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.done:
			return strings.Contains(p.errors.String(), text)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("it never said %q:\n%s", text, p.errors.String())
		}
	}
	return true
}

// result is the last line of standard output.
func (p *demoProcess) result(t *testing.T) map[string]any {
	t.Helper()
	all := strings.Split(strings.TrimSpace(p.out.String()), "\n")
	var m map[string]any
	if err := json.Unmarshal([]byte(all[len(all)-1]), &m); err != nil {
		t.Fatalf("last line %q: %v\n%s", all[len(all)-1], err, p.errors.String())
	}
	return m
}

// untroubled runs a demo to its end, by run, until one was not ended by the machine's timing, at most three times. Other programs may be all
// that the machine has time for; without real-time rights that is a reason to skip, since nothing was shown about the demo. Whatever else
// goes wrong is the caller's to judge.
func untroubled(t *testing.T, run func() *demoProcess) (p *demoProcess, code int, m map[string]any) {
	t.Helper()
	for range 3 {
		p = run()
		code = p.wait(t)
		m = p.result(t)
		if m["timing"] != true {
			return p, code, m
		}
		t.Logf("the machine was too busy: %v", m["failures"])
	}
	if m["real_time"] == false {
		t.Skipf("needs real-time rights or an idle machine: its timing ended each of 3 demos: %v", m["failures"])
	}
	return p, code, m
}

// programsOf lists the processes that run out of a folder.
func programsOf(t *testing.T, bin string) (found []string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && bytes.HasPrefix(b, []byte(bin)) { // others may end meanwhile
			found = append(found, strings.TrimRight(string(bytes.ReplaceAll(b, []byte{0}, []byte{' '})), " "))
		}
	}
	return found
}

// TestDemo runs the programs as a person would, in real time: few cases, short.
func TestDemo(t *testing.T) {
	bin := programs(t)
	noOrphans := func(t *testing.T) {
		t.Helper()
		if left := programsOf(t, bin); len(left) > 0 {
			t.Errorf("still running: %q", left)
		}
	}

	t.Run("bad input", func(t *testing.T) {
		notAFolder := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(notAFolder, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		lone := filepath.Join(t.TempDir(), "clawsim")
		if err := os.Link(filepath.Join(bin, "clawsim"), lone); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			program string // in place of bin
			args    []string
			code    int
			want    string // in the message
		}{
			{"", []string{"--duration", "30"}, cli.ExitUsage, `missing unit in duration "30"`},
			{"", []string{"--duration", ""}, cli.ExitUsage, "--duration"},
			{"", []string{"--duration", "-1s"}, cli.ExitUsage, "--duration -1s: want 3s"},
			{"", []string{"--duration", "2.9s"}, cli.ExitUsage, "--duration 2.9s: want 3s"},
			{"", []string{"--duration", "25h"}, cli.ExitUsage, "--duration 25h"},
			{"", []string{"--command", "0.8,0"}, cli.ExitUsage, "2 numbers, want vx,vy,wz"},
			{"", []string{"--command", "NaN,0,0"}, cli.ExitUsage, `vx is "NaN"`},
			{"", []string{"--command", "0.8,0,1e400"}, cli.ExitUsage, `wz is "1e400"`},
			{"", []string{"--command", "0,0,1"}, cli.ExitUsage, "want at least 0.4"},
			{"", []string{"--policy", "none.onnx"}, cli.ExitFailed, "none.onnx: no such file"},
			{"", []string{"--policy", notAFolder}, cli.ExitFailed, notAFolder},
			{"", []string{"--robot", "serial"}, cli.ExitNotAvailable, "--robot serial: not available in this version"},
			{"", []string{"--robot", "bridge"}, cli.ExitNotAvailable, "--robot bridge: not available in this version"},
			{"", []string{"--robot", "usb"}, cli.ExitUsage, `--robot "usb"`},
			{"", []string{"--out", filepath.Join(notAFolder, "demo")}, cli.ExitFailed, "--out: mkdir " + notAFolder},
			{"", []string{"--speed", "1"}, cli.ExitUsage, "--speed"},
			{"", []string{"now"}, cli.ExitUsage, "now"},
			{filepath.Dir(lone), nil, cli.ExitNotAvailable, "run make build"},
		} {
			if c.program == "" {
				c.program = bin
			}
			p := startDemo(t, c.program, t.TempDir(), c.args...)
			if code, said := p.wait(t), p.errors.String(); code != c.code || !strings.Contains(said, c.want) || p.out.String() != "" {
				t.Errorf("demo %q ends with %d, want %d; it says %q, want %q; and prints %q", c.args, code, c.code, said, c.want, p.out.String())
			}
		}
		if policy := new(demoFlags).findPolicy(filepath.Join(contracttest.Root(t), "bin", "clawsim")); policy != "" {
			p := startDemo(t, bin, contracttest.Root(t), "--command", "9,0,0", "--out", t.TempDir())
			if code := p.wait(t); code != cli.ExitUsage || !strings.Contains(p.errors.String(), "vx is 9, and "+filepath.Base(policy)+" was trained for") {
				t.Errorf("a command that the policy does not know ends with %d: %s", code, p.errors.String())
			}
		}
		noOrphans(t)
	})

	t.Run("stands without a policy", func(t *testing.T) {
		folder := t.TempDir() // no policy is to be found from here
		p, code, m := untroubled(t, func() *demoProcess { return startDemo(t, bin, folder, "--duration", "3s") })
		if code != cli.ExitNotAvailable || m["ok"] != true || m["vx_mean"] != nil || m["falls"] != 0. || !strings.Contains(p.errors.String(), "make demo POLICY=FILE") {
			t.Errorf("exit %d, %v\n%s", code, m, p.errors.String())
		}
		if h, ok := m["height_standing_m"].(float64); !ok || h < 0.25 || h > 0.3 {
			t.Errorf("it stands at %v m", m["height_standing_m"])
		}
		noOrphans(t)
	})

	t.Run("interrupted", func(t *testing.T) {
		folder := t.TempDir()
		p, code, m := untroubled(t, func() *demoProcess {
			p := startDemo(t, bin, folder, "--duration", "10m")
			if p.says(t, "standing      0.2") {
				if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
			}
			return p
		})
		if h, lies := m["height_lying_again_m"].(float64); code != cli.ExitFailed || m["ok"] != false || m["falls"] != 0. || !lies || h > 0.12 {
			t.Errorf("exit %d, %v", code, m)
		}
		if said := p.errors.String(); !strings.Contains(said, "stopped by signal: interrupt") {
			t.Errorf("it says %q", said)
		}
		noOrphans(t)
	})

	t.Run("killed", func(t *testing.T) {
		folder := t.TempDir()
		p := startDemo(t, bin, folder, "--duration", "10m")
		p.says(t, "lying")
		if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		p.wait(t)
		eventually(t, "all that it had started have ended", func() bool { return len(programsOf(t, bin)) == 0 })
	})

	t.Run("the agent cannot start", func(t *testing.T) {
		folder := t.TempDir()
		if err := os.Mkdir(filepath.Join(folder, "agent.jsonl"), 0o755); err != nil { // where its log goes
			t.Fatal(err)
		}
		p := startDemo(t, bin, t.TempDir(), "--duration", "3s", "--out", folder)
		if code, said := p.wait(t), p.errors.String(); code != cli.ExitFailed || !strings.Contains(said, "clawagent run ended: exit status 1") ||
			!strings.Contains(said, "agent.jsonl: is a directory") {
			t.Errorf("exit %d: %s", code, said)
		}
		noOrphans(t)
	})

	t.Run("walks", func(t *testing.T) {
		policy := contracttest.Policy(t, "go1_policy.onnx")
		folder := t.TempDir()
		p, code, m := untroubled(t, func() *demoProcess {
			return startDemo(t, bin, contracttest.Root(t), "--duration", "3s", "--policy", policy, "--out", folder)
		})
		t.Logf("%v", m)
		if code != cli.ExitOK || m["ok"] != true {
			t.Fatalf("exit %d: %s", code, p.errors.String())
		}
		for key, want := range map[string][2]float64{
			"vx_cmd": {0.8, 0.8}, "vx_mean": {0.65, 0.95}, "falls": {0, 0}, "frames": {1000, 1e5}, "missed": {0, 1e5}, "guard_trips": {0, 0},
			"loop_p99_us": {0, 1e6}, "rx_to_tx_p50_us": {0, 1e6}, "duration_s": {2.5, 60}, "height_lying_m": {0, 0.12},
			"height_standing_m": {0.25, 0.3}, "height_lying_again_m": {0, 0.12}, "attempts": {1, 3},
		} {
			if v, ok := m[key].(float64); !ok || !(v >= want[0] && v <= want[1]) || v-v != 0 {
				t.Errorf("%s is %v, want %v..%v", key, m[key], want[0], want[1])
			}
		}
		if said := strings.Contains(p.errors.String(), "no real-time rights"); said == (m["real_time"] == true) || said != (m["loop_late_ms"] == 50.) {
			t.Errorf("real_time is %v, loop_late_ms %v, and it says:\n%s", m["real_time"], m["loop_late_ms"], p.errors.String())
		}
		frames, sent := m["frames"].(float64), m["agent_frames"].(float64)
		if math.Abs(frames-sent) > 1e-3*sent {
			t.Errorf("%v frames sent, %v arrived", sent, frames)
		}
		for _, name := range demoFiles {
			if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
				t.Error(err)
			}
		}
		noOrphans(t)
	})
}

// Without --policy the student that ships walks, from wherever it is asked; others' policy where there is no student.
func TestDemoFindsItsPolicy(t *testing.T) {
	repository := t.TempDir()
	clawsim := filepath.Join(repository, "bin", "clawsim")
	put := func(root, name string) string {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	work := filepath.Join(t.TempDir(), "a", "b") // nothing of the repository's is beside it
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(work)
	find := func(want, why string) {
		t.Helper()
		if got := new(demoFlags).findPolicy(clawsim); got != want {
			t.Errorf("%s: found %q, want %q", why, got, want)
		}
	}
	find("", "nothing is there")
	others := put(repository, "../shared/policies/go1_policy.onnx")
	find(others, "others' policy beside the repository")
	student := put(repository, "onnx/policies/student.onnx")
	find(student, "the student and others' policy")
	put(".", "onnx/policies/student.onnx")
	find("onnx/policies/student.onnx", "a student in the working folder")
	if got := (&demoFlags{policy: "x.onnx"}).findPolicy(clawsim); got != "x.onnx" {
		t.Errorf("--policy x.onnx: found %q", got)
	}
}

// A child has its own process group; its exit code and its last words are told. Priorities are its own too.
func TestChild(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if after, err := unix.SchedGetAttr(0, 0); err != nil || after.Policy != before.Policy || after.Nice != before.Nice {
			t.Errorf("this thread was %+v and is %+v (%v)", before, after, err)
		}
	}()
	errs := filepath.Join(t.TempDir(), "errs")
	c, err := startChild("sh", errs, "/bin/sh", "-c", `echo '{"ready":true}'; echo oh no >&2; exit 3`)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := c.ready(t.Context(), &m); err != nil || m["ready"] != true {
		t.Fatalf("%v, %v", m, err)
	}
	<-c.done
	if err := c.died(); cli.ExitCode(err) != cli.ExitNotAvailable || !strings.Contains(err.Error(), "oh no") {
		t.Errorf("died: %v", err)
	}
	if err := c.lines.summary(&m); err == nil {
		t.Error("one line is taken for a summary")
	}
	if err := c.stop(t.Context()); err != nil {
		t.Errorf("it is told twice: %v", err)
	}
	c, err = startChild("sh", errs, "/bin/sh", "-c", `trap 'echo bye >&2; exit 4' INT; echo {}; while :; do sleep 0.01; done`)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ready(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	if err := c.stop(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 4") || !strings.Contains(err.Error(), "bye") {
		t.Errorf("stopped: %v", err)
	}

	c, err = startChild("sleep", errs, "/bin/sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	if pgid, err := syscall.Getpgid(c.cmd.Process.Pid); err != nil || pgid != c.cmd.Process.Pid {
		t.Errorf("process group %d of process %d: %v", pgid, c.cmd.Process.Pid, err)
	}
	c.kill()
	c.kill()
	if !c.ended() {
		t.Error("it lives")
	}
	if _, err := startChild("x", errs, filepath.Join(t.TempDir(), "x")); err == nil || !strings.Contains(err.Error(), "x: ") {
		t.Errorf("a program that is not there: %v", err)
	}
}
