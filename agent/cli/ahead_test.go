package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Ahead is tried in a process of its own, so that this one stays ordinary: as the
// system has it, and with a system that refuses the second thread.
func TestAhead(t *testing.T) {
	switch os.Getenv("CLI_AHEAD") {
	case "system":
		tellThreads(t, Ahead())
		return
	case "refused":
		raised, tried := 0, map[int]bool{}
		ok := ahead(func(tid int, a *unix.SchedAttr) error {
			tried[tid] = true
			if a.Policy == unix.SCHED_FIFO && len(tried) > 1 {
				return unix.EPERM
			}
			err := unix.SchedSetAttr(tid, a, 0)
			if err == nil && a.Policy == unix.SCHED_FIFO {
				raised++
			}
			return err
		})
		if len(tried) < 2 {
			t.Error("one thread only: nothing was tried")
		}
		t.Logf("%d times raised before the refusal", raised)
		tellThreads(t, ok)
		return
	}
	for _, how := range []string{"system", "refused"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAhead$", "-test.v")
		cmd.Env = append(os.Environ(), "CLI_AHEAD="+how)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", how, err, out)
		}
		_, line, ok := strings.Cut(string(out), "AHEAD ")
		if !ok {
			t.Fatalf("%s: no answer in %q", how, out)
		}
		line, _, _ = strings.Cut(line, "\n")
		words := strings.Fields(line)
		want := strconv.Itoa(unix.SCHED_FIFO)
		if words[0] == "false" {
			want = strconv.Itoa(unix.SCHED_NORMAL)
		} else if how == "refused" {
			t.Error("a refusal is taken for a success")
		}
		for _, policy := range words[1:] {
			if policy != want {
				t.Errorf("%s: allowed: %s, but a thread has policy %s", how, words[0], policy)
			}
		}
	}
}

// tellThreads prints the answer and each thread's policy.
func tellThreads(t *testing.T, ok bool) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("AHEAD %v", ok)
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		if a, err := unix.SchedGetAttr(tid, 0); err == nil {
			line += fmt.Sprintf(" %d", a.Policy)
		}
	}
	fmt.Println(line)
}
