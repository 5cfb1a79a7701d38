package e2e

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// wallClock moves the wall clock of one process. The machine's own is everybody's, and the kernel has no name space for it (that of
// time moves CLOCK_MONOTONIC and CLOCK_BOOTTIME only), so it is the process's copy of the kernel's clock_gettime, in its vDSO, that
// is made to add an offset to CLOCK_REALTIME. That is harder than a clock that is set: the kernel's receive stamps stay where they were,
// and disagree from then on.
type wallClock struct {
	pid  int
	data int64 // where its offset lies, s
}

// wallStub is clock_gettime by system call, with the offset at wallData behind its beginning added to the seconds of clock 0.
var wallStub = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov $228, %eax
	0x0f, 0x05, // syscall
	0x85, 0xff, // test %edi, %edi
	0x75, 10, // jne to ret
	0x48, 0x8b, 0x15, wallData - 18, 0, 0, 0, // mov wallData-18(%rip), %rdx
	0x48, 0x01, 0x16, // add %rdx, (%rsi)
	0xc3, // ret
}

const (
	wallData = 40
	wallSize = wallData + 8
)

// takeWallClock prepares a process, which must be one that nobody needs on time just now: it is stopped for a moment.
func takeWallClock(pid int) (*wallClock, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("no code for %s", runtime.GOARCH)
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	var begin, end int64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			if _, err := fmt.Sscanf(line, "%x-%x", &begin, &end); err != nil {
				return nil, err
			}
		}
	}
	if begin == 0 {
		return nil, fmt.Errorf("process %d has no vDSO", pid)
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	image := make([]byte, end-begin)
	if _, err := mem.ReadAt(image, begin); err != nil {
		return nil, fmt.Errorf("vDSO: %w", err)
	}
	at, err := clockGettime(image)
	if err != nil {
		return nil, err
	}
	at += begin
	for range 100 {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			return nil, err
		}
		free, err := elsewhere(pid, at, at+wallSize)
		if err == nil && free {
			_, err = mem.WriteAt(append(append(wallStub[:len(wallStub):len(wallStub)], make([]byte, wallData-len(wallStub))...), make([]byte, 8)...), at)
		}
		if e := unix.Kill(pid, unix.SIGCONT); err == nil {
			err = e
		}
		if err != nil || free {
			return &wallClock{pid, at + wallData}, err
		}
		time.Sleep(time.Millisecond)
	}
	return nil, fmt.Errorf("process %d is always reading its clock", pid)
}

// clockGettime is where the function begins in a vDSO.
func clockGettime(image []byte) (int64, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= wallSize && s.Value%8 == 0 {
			return int64(s.Value), nil
		}
	}
	return 0, fmt.Errorf("vDSO without a __vdso_clock_gettime of %d bytes", wallSize)
}

// elsewhere says whether no thread of a process that is being stopped stands between two addresses.
func elsewhere(pid int, from, to int64) (bool, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false, err
	}
	for _, task := range tasks {
		said := "running"
		for range 100 {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/syscall", pid, task.Name()))
			if err != nil {
				return false, err
			}
			if said = strings.TrimSpace(string(b)); said != "running" {
				break
			}
			time.Sleep(100 * time.Microsecond)
		}
		fields := strings.Fields(said)
		var pc int64
		if said == "running" {
			return false, nil
		}
		if _, err := fmt.Sscanf(fields[len(fields)-1], "0x%x", &pc); err != nil {
			return false, fmt.Errorf("thread %s: %q: %w", task.Name(), said, err)
		}
		if pc >= from && pc < to {
			return false, nil
		}
	}
	return true, nil
}

// jump sets the wall clock so many seconds from the machine's.
func (w *wallClock) jump(seconds int64) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", w.pid), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	_, err = mem.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(seconds)), w.data)
	return err
}
