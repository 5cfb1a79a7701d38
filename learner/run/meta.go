package run

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"
)

// Meta says what made a run: which program, how it was called, on what machine. It is meta.json.
type Meta struct {
	Program  string            `json:"program"` // "clawlearn"
	Version  string            `json:"version"`
	Commit   string            `json:"commit"`   // git hash, "" if unknown
	Dirty    bool              `json:"dirty"`    // the tree had changes beside the commit
	Versions map[string]string `json:"versions"` // of what it stands on: "go", "libtorch", "mujoco"
	Command  []string          `json:"command"`  // the command line, program first
	Seeds    map[string]int64  `json:"seeds"`    // by what is drawn with each
	Started  time.Time         `json:"started"`
	Machine  Machine           `json:"machine"`
	From     int64             `json:"from"`              // iteration it went on from: 0 for a new run
	Resumed  []Meta            `json:"resumed,omitempty"` // the same of each time the run was taken up again
}

// Machine is where a process runs. What the system does not tell is empty.
type Machine struct {
	Host        string `json:"host"`
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	Kernel      string `json:"kernel"` // release
	CPU         string `json:"cpu"`    // model, as the system names it
	Cores       int    `json:"cores"`  // that the process may use
	MemoryBytes int64  `json:"memory_bytes"`
}

// Describe is the Meta of this process, started now. commit is a git hash, with "-dirty" at its end where the tree had changes; the
// caller adds seeds, and to Versions what else it stands on.
func Describe(program, version, commit string) Meta {
	hash, dirty := strings.CutSuffix(commit, "-dirty")
	return Meta{
		Program:  program,
		Version:  version,
		Commit:   hash,
		Dirty:    dirty,
		Versions: map[string]string{"go": runtime.Version()},
		Command:  append([]string(nil), os.Args...),
		Seeds:    map[string]int64{},
		Started:  time.Now().UTC(),
		Machine:  thisMachine(),
	}
}

func thisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()}
	m.Host, _ = os.Hostname()
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	m.CPU = procField("/proc/cpuinfo", "model name")
	if kb, ok := strings.CutSuffix(procField("/proc/meminfo", "MemTotal"), " kB"); ok {
		if n, err := strconv.ParseInt(kb, 10, 64); err == nil {
			m.MemoryBytes = n * 1024
		}
	}
	return m
}

// procField is the value of the first "key: value" line of a file of /proc, "" if there is none.
func procField(path, key string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func writeMeta(path string, m *Meta) error {
	data, err := json.Marshal(m, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return writeAtomic(path, append(data, '\n'))
}

func readMeta(path string) (m Meta, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}
