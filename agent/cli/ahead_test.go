package cli

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Ahead is tried in a process of its own, so that this one stays ordinary.
func TestAhead(t *testing.T) {
	if os.Getenv("CLI_AHEAD") != "" {
		ok := Ahead()
		policies := []string{strconv.FormatBool(ok)}
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			if a, err := unix.SchedGetAttr(tid, 0); err == nil {
				policies = append(policies, strconv.Itoa(int(a.Policy)))
			}
		}
		os.Stdout.WriteString("AHEAD " + strings.Join(policies, " ") + "\n")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAhead$", "-test.v")
	cmd.Env = append(os.Environ(), "CLI_AHEAD=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, line, ok := strings.Cut(string(out), "AHEAD ")
	if !ok {
		t.Fatalf("no answer in %q", out)
	}
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	want := strconv.Itoa(unix.SCHED_FIFO)
	if words[0] == "false" {
		want = strconv.Itoa(unix.SCHED_NORMAL)
	}
	for _, policy := range words[1:] {
		if policy != want {
			t.Errorf("allowed: %s, but a thread has policy %s", words[0], policy)
		}
	}
}
