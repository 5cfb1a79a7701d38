package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/control"
)

// This file is what is done to the programs and to the machine under them.

// childEnv names the part that this test's own program plays as a child.
const childEnv = "OPENCLAW_CHAOS_CHILD"

// A child ends when its standard input does, so that none outlives the test.
func init() {
	part := os.Getenv(childEnv)
	if part == "" {
		return
	}
	asked := bufio.NewScanner(os.Stdin)
	switch part {
	case "spin": // keeps every core busy
		threads := 4 * runtime.NumCPU()
		runtime.GOMAXPROCS(threads + 1)
		for range threads {
			go func() {
				for n := 0; ; n++ {
					runtime.KeepAlive(n)
				}
			}()
		}
	case "eat", "idle": // takes memory and gives it back, over and over; or none
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte(endFirst), 0)
		if part == "eat" {
			go eat()
		}
	case "meter":
		meter()
	}
	for asked.Scan() {
		if part == "meter" {
			tell()
		}
	}
	os.Exit(0)
}

// child starts a part of this program and gives its end.
func child(t *testing.T, part string) (in io.WriteCloser, out *bufio.Reader, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+part)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // that it was killed is known
	})
	return in, bufio.NewReader(pipe), cmd
}

const eatBytes = 256 << 20

// endFirst is the oom_score_adj of whom the kernel ends before any other.
const endFirst = "1000"

func eat() {
	for {
		b, err := unix.Mmap(-1, 0, eatBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		_ = unix.Munmap(b)
	}
}

// stalls is what a stall meter measured since it was last asked: how late threads wake that want to each millisecond, one on each core,
// above the loop in priority where the system allows that.
type stalls struct {
	FIFO  bool    `json:"fifo"`
	N     int     `json:"n"`
	Late  int     `json:"late"` // of those by 1 ms or more
	P50Us float64 `json:"p50_us"`
	P99Us float64 `json:"p99_us"`
	MaxUs float64 `json:"max_us"`
}

// lateness counts in buckets of 1 us up to a millisecond, then of 100 us. Without a lock: whoever asks may be held up.
var lateness struct {
	refused atomic.Bool
	n       [2000]atomic.Int64
	maxNs   atomic.Int64
}

const (
	meterPriority = 85 // above the loop's 80, below the guard's 90
	fineUs        = 1000
	coarseUs      = 100
)

func meter() {
	// A page of it that has to be fetched first is no stall of the machine. Where the system refuses, it only seems to stall more.
	_ = unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT)
	var cores unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cores); err != nil {
		fmt.Fprintln(os.Stderr, "stall meter:", err)
		os.Exit(1)
	}
	runtime.GOMAXPROCS(cores.Count() + 2) // a meter's thread keeps its processor while it sleeps
	cli.Ahead()                           // as the loop's program: else what Go's scheduler holds up counts as the machine's
	for core := range len(cores) * 64 {
		if cores.IsSet(core) {
			go meterOn(core)
		}
	}
}

func meterOn(core int) {
	runtime.LockOSThread()
	var one unix.CPUSet
	one.Set(core)
	if unix.SchedSetaffinity(0, &one) != nil || toFIFO() != nil {
		lateness.refused.Store(true)
	}
	clock := control.SystemClock{}
	const period = int64(1e6)
	for due := clock.Now() + period; ; {
		clock.SleepUntil(due)
		late := max(clock.Now()-due, 0)
		at := int(late / 1e3)
		if at >= fineUs {
			at = min(fineUs+(at-fineUs)/coarseUs, len(lateness.n)-1)
		}
		lateness.n[at].Add(1)
		for most := lateness.maxNs.Load(); late > most && !lateness.maxNs.CompareAndSwap(most, late); {
			most = lateness.maxNs.Load()
		}
		due += period * (1 + late/period)
	}
}

// toFIFO puts the calling thread above the loop.
func toFIFO() error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: meterPriority}, 0)
}

func tell() {
	s := stalls{FIFO: !lateness.refused.Load(), MaxUs: float64(lateness.maxNs.Swap(0)) / 1e3}
	var n [len(lateness.n)]int
	for i := range n {
		n[i] = int(lateness.n[i].Swap(0))
		if s.N += n[i]; i >= fineUs {
			s.Late += n[i]
		}
	}
	quantile := func(q int) float64 { // upper edge
		below := 0
		for i := range n {
			if below += n[i]; below*100 > s.N*q {
				if i >= fineUs {
					return float64(fineUs + (i-fineUs+1)*coarseUs)
				}
				return float64(i + 1)
			}
		}
		return 0
	}
	s.P50Us, s.P99Us = min(quantile(50), s.MaxUs), min(quantile(99), s.MaxUs)
	_ = json.NewEncoder(os.Stdout).Encode(s)
}

// stallMeter measures in a process of its own. ask gives what came since it was last asked.
func stallMeter(t *testing.T) (ask func() stalls) {
	in, out, _ := child(t, "meter")
	var mu sync.Mutex
	return func() (s stalls) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := in.Write([]byte("?\n")); err != nil {
			t.Error(err)
		}
		line, err := out.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &s)
		}
		if err != nil {
			t.Errorf("the stall meter: %v: %s", err, line)
		}
		return s
	}
}

// monotonicUs is CLOCK_MONOTONIC, on which the robot's log stamps frames.
func monotonicUs() int64 { return control.SystemClock{}.Now() / 1e3 }

// loopPriority is that of control.DefaultConfig.
var loopPriority = uint32(control.DefaultConfig().Priority)

// loopThread is the thread of a process that runs its control loop: the one at the loop's priority.
func loopThread(pid int) (tid int, err error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, err
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			return 0, err
		}
		if a, err := unix.SchedGetAttr(id, 0); err == nil && a.Policy == unix.SCHED_FIFO && a.Priority == loopPriority {
			return id, nil
		}
	}
	return 0, fmt.Errorf("process %d has no thread at SCHED_FIFO %d", pid, loopPriority)
}

// held is how long a process or a thread stood still: from before it was stopped to after it was let go, us of CLOCK_MONOTONIC.
type held struct{ fromUs, toUs int64 }

func (h held) us() float64 { return float64(h.toUs - h.fromUs) }

// punctual runs f on a thread of its own above the loop, so that other programs do not lengthen what f holds up.
func punctual(f func() (held, error)) (h held, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with its priority
		if err = toFIFO(); err == nil {
			h, err = f()
		}
	}()
	<-done
	return h, err
}

// sleep is d without Go's timers, which wait for a thread of ordinary priority.
func sleep(d time.Duration) {
	end := unix.NsecToTimespec(control.SystemClock{}.Now() + int64(d))
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &end, nil) == unix.EINTR {
	}
}

// pause stops a process for a time.
func pause(pid int, d time.Duration) (held, error) {
	return punctual(func() (h held, err error) {
		h.fromUs = monotonicUs()
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			return h, err
		}
		for end := h.fromUs + int64(patience/time.Microsecond); !stopped(pid); sleep(100 * time.Microsecond) {
			if monotonicUs() > end {
				return h, fmt.Errorf("process %d goes on behind SIGSTOP", pid)
			}
		}
		sleep(d)
		// The guard ends an agent that was stopped between its last look and the kernel: nobody is left to go on.
		if err = unix.Kill(pid, unix.SIGCONT); errors.Is(err, unix.ESRCH) {
			err = nil
		}
		h.toUs = monotonicUs()
		return h, err
	})
}

// stopped says whether a signal has stopped a process, or ended it.
func stopped(pid int) bool {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return true
	}
	for _, task := range tasks {
		fields, err := procStat(fmt.Sprintf("/proc/%d/task/%s/stat", pid, task.Name()))
		if err == nil && strings.ContainsAny(fields[0], "TZX") {
			return true
		}
	}
	return false
}

// procStat are the fields of a stat file of proc(5) behind the command's name; the first is the state.
func procStat(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("%s: %q", path, b)
	}
	return fields, nil
}

// used is what a process has used of the machine.
type used struct {
	cpu  time.Duration // of processors
	most int           // bytes of memory at once
}

func usedBy(pid int) (*used, error) {
	fields, err := procStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	user, err := strconv.Atoi(fields[11])
	system, e := strconv.Atoi(fields[12])
	status, e2 := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err := errors.Join(err, e, e2); err != nil {
		return nil, err
	}
	const tick = 10 * time.Millisecond
	u := &used{cpu: time.Duration(user+system) * tick}
	for line := range strings.Lines(string(status)) {
		if most, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, err = fmt.Sscanf(most, "%d kB", &u.most)
			u.most <<= 10
		}
	}
	return u, err
}

// spun fails for a program that did not keep a processor busy.
func (u *used) spun(d time.Duration) error {
	if u.cpu < d/10 {
		return fmt.Errorf("the busy program had a processor for %v of %v", u.cpu, d)
	}
	return nil
}

// ate fails for one that never had what it takes at a time.
func (u *used) ate(time.Duration) error {
	if u.most < eatBytes {
		return fmt.Errorf("the program that eats memory had %d bytes", u.most)
	}
	return nil
}

// deadlock holds one thread of another process, as a lock would that it never gets, and nothing else of that process, for a time.
func deadlock(tid int, d time.Duration) (held, error) {
	return punctual(func() (h held, err error) { // a tracer is a thread
		h.fromUs = monotonicUs()
		if err := unix.PtraceSeize(tid); err != nil {
			return h, fmt.Errorf("ptrace of thread %d: %w", tid, err)
		}
		if err := unix.PtraceInterrupt(tid); err != nil {
			return h, fmt.Errorf("ptrace of thread %d: interrupt: %w", tid, err)
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(tid, &status, unix.WALL, nil); err != nil {
			return h, fmt.Errorf("ptrace of thread %d: wait: %w", tid, err)
		}
		if !status.Stopped() {
			return h, fmt.Errorf("ptrace of thread %d: it has ended: %#x", tid, status)
		}
		sleep(d)
		signal := uintptr(0)
		if s := status.StopSignal(); s != unix.SIGTRAP && s != unix.SIGSTOP { // one that came just then is its own
			signal = uintptr(s)
		}
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, signal, 0, 0)
		h.toUs = monotonicUs()
		switch errno {
		case 0:
			return h, nil
		case unix.ESRCH: // its process was ended meanwhile, and is not gone until the tracer knows
			_, err := unix.Wait4(tid, &status, unix.WALL, nil)
			return h, err
		default:
			return h, fmt.Errorf("ptrace of thread %d: detach: %w", tid, errno)
		}
	})
}

// smallDisk is a folder on a disk of 8 MiB that is nearly full, where the system lets us make one.
func smallDisk(t *testing.T) (dir string, err error) {
	const left = 1 << 20 // far more than a journal has of a storm: what fills it is what can make room again
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		return "", fmt.Errorf("mount of a tmpfs: %w", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("umount %s: %v", dir, err)
		}
	})
	return dir, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 8<<20-left), 0o600)
}

// memoryGroup is a group of processes that may have so many bytes together.
type memoryGroup struct{ dir, events string }

func newMemoryGroup(t *testing.T, bytes int) (*memoryGroup, error) {
	for _, at := range []struct{ root, limit, events string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"}, {"/sys/fs/cgroup", "memory.max", "memory.events"},
	} {
		if _, err := os.Stat(filepath.Join(at.root, "cgroup.procs")); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(at.root, "openclaw-chaos-")
		if err != nil {
			return nil, err
		}
		g := &memoryGroup{dir, filepath.Join(dir, at.events)}
		t.Cleanup(func() {
			// A group goes when the last process of it has; what lives on goes back first.
			if left, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err == nil {
				for pid := range strings.FieldsSeq(string(left)) {
					_ = os.WriteFile(filepath.Join(at.root, "cgroup.procs"), []byte(pid), 0)
				}
			}
			if err := os.Remove(dir); err != nil {
				t.Errorf("%v", err)
			}
		})
		return g, os.WriteFile(filepath.Join(dir, at.limit), []byte(strconv.Itoa(bytes)), 0)
	}
	return nil, errors.New("no memory controller")
}

// add moves a process into the group.
func (g *memoryGroup) add(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// addVictim is add for a program that the kernel is to end first, as soon as it knows that: until then it would end another.
func (g *memoryGroup) addVictim(pid int) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		switch {
		case err != nil:
			return err
		case strings.TrimSpace(string(score)) == endFirst:
			return g.add(pid)
		case time.Now().After(end):
			return fmt.Errorf("process %d does not ask to be ended first", pid)
		}
	}
}

// ended is how many processes of the group the kernel has ended for want of memory.
func (g *memoryGroup) ended() (n int, err error) {
	b, err := os.ReadFile(g.events)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strconv.Atoi(strings.TrimSpace(count))
		}
	}
	return 0, fmt.Errorf("%s has no oom_kill: %q", g.events, b)
}
