package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"golang.org/x/sys/unix"
)

const (
	configFile     = "config.yaml"
	metaFile       = "meta.json"
	metricsFile    = "metrics.jsonl"
	curvesFile     = "curves.svg"
	lockFile       = "lock"
	checkpointsDir = "checkpoints"
	bestFile       = "best"
	eventsPrefix   = "events.out.tfevents."
)

// ErrLocked is wrapped by Create and Open where another trainer works in the folder.
var ErrLocked = errors.New("another trainer works in this folder")

// ErrNoRun is wrapped by Open where the folder holds no run.
var ErrNoRun = errors.New("holds no run")

// Folder is a run's folder with its lock held. One goroutine at a time may call its methods.
type Folder struct {
	Dir     string
	Meta    Meta // as created; with an entry in Resumed once a resumed run goes on
	Keep    int  // newest checkpoints that Save leaves besides best; 3, may be changed
	Skipped []Skipped

	lock    *os.File
	latest  int64 // iteration of the newest whole checkpoint, -1: none
	last    int64 // iteration of the last Log or Save, -1: none
	logged  int64 // iteration of the last Log, -1: none
	resume  *Meta // of this process, until a resumed run goes on
	metrics *os.File
	events  *eventWriter
	line    []byte // of metrics.jsonl, reused
}

// Skipped is a checkpoint that Open did not take.
type Skipped struct {
	Path string
	Why  error // names the path too
}

// Create makes dir a run's folder with the configuration (a struct or map that yaml can write) and meta in it, and locks it. dir must not
// exist, be empty, or hold no more than what a Create left that was killed.
func Create(dir string, config any, meta Meta) (*Folder, error) {
	text, err := configText(config)
	if err != nil {
		return nil, fmt.Errorf("run: %s: configuration: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	if err := mayCreate(dir); err != nil { // before a lock file is left in a folder of something else
		return nil, fmt.Errorf("run: %s: %w", dir, err)
	}
	f, err := locked(dir)
	if err != nil {
		return nil, err
	}
	f.Meta = meta
	create := func() error {
		if err := mayCreate(dir); err != nil {
			return err
		}
		if err := removeTemps(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(f.Path(checkpointsDir), 0o755); err != nil {
			return err
		}
		if err := writeAtomic(f.Path(configFile), text); err != nil {
			return err
		}
		return writeMeta(f.Path(metaFile), &f.Meta) // last: with it the folder is a run
	}
	if err := create(); err != nil {
		f.Close()
		return nil, fmt.Errorf("run: %s: %w", dir, err)
	}
	return f, nil
}

// Open locks the folder of an earlier Create and finds its newest whole checkpoint; newer ones that are damaged are left as they are and
// named in Skipped. meta describes the process that opens, and is written once it goes on: at the first Log or Save. With it everything of
// that iteration and later ones is taken back, which a process logged that was killed before its next checkpoint.
func Open(dir string, meta Meta) (*Folder, error) {
	if _, err := os.Stat(filepath.Join(dir, metaFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("run: %s: %w: no %s", dir, ErrNoRun, metaFile)
	}
	f, err := locked(dir)
	if err != nil {
		return nil, err
	}
	open := func() (err error) {
		if f.Meta, err = readMeta(f.Path(metaFile)); err != nil {
			return err
		}
		if err := os.MkdirAll(f.Path(checkpointsDir), 0o755); err != nil {
			return err
		}
		if err := errors.Join(removeTemps(dir), removeTemps(f.Path(checkpointsDir))); err != nil {
			return err
		}
		return f.findLatest()
	}
	if err := open(); err != nil {
		f.Close()
		return nil, fmt.Errorf("run: %s: %w", dir, err)
	}
	f.resume = &meta
	return f, nil
}

// Path is the path of a file in the folder.
func (f *Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

// Config reads config.yaml into v, a pointer to what Create was given. Unknown keys are errors.
func (f *Folder) Config(v any) error {
	data, err := os.ReadFile(f.Path(configFile))
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if err := yaml.UnmarshalWithOptions(data, v, yaml.Strict()); err != nil {
		return fmt.Errorf("run: %s: %w", f.Path(configFile), err)
	}
	return nil
}

// Close gives the lock back. The folder's methods may not be called afterwards, Close may.
func (f *Folder) Close() error {
	err := f.closeLogs()
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
		f.lock = nil
	}
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// goOn is called by Log and Save before they write of an iteration: iterations do not fall within a process, and the first of a resumed
// run takes back what is there of iterations after the given one.
func (f *Folder) goOn(iteration, after int64) error {
	switch {
	case f.lock == nil:
		return fs.ErrClosed
	case iteration < 0:
		return fmt.Errorf("iteration %d is negative", iteration)
	case iteration < f.last:
		return fmt.Errorf("iteration %d after %d: Rewind first", iteration, f.last)
	}
	if f.resume == nil {
		return nil
	}
	if err := f.takeBack(after); err != nil {
		return err
	}
	resumed := *f.resume
	resumed.From = max(after, 0)
	meta := f.Meta
	meta.Resumed = append(meta.Resumed[:len(meta.Resumed):len(meta.Resumed)], resumed)
	if err := writeMeta(f.Path(metaFile), &meta); err != nil {
		return err
	}
	f.Meta, f.resume = meta, nil
	return nil
}

// Rewind takes back what was logged and saved of iterations after the given one, except best, so that training may go on from there: a
// trainer that met non-finite numbers and took an earlier checkpoint calls it.
func (f *Folder) Rewind(iteration int64) error {
	if f.lock == nil {
		return fmt.Errorf("run: %s: %w", f.Dir, fs.ErrClosed)
	}
	if err := f.takeBack(iteration); err != nil {
		return fmt.Errorf("run: %s: rewind: %w", f.Dir, err)
	}
	return nil
}

func (f *Folder) takeBack(iteration int64) error {
	if err := f.closeLogs(); err != nil {
		return err
	}
	// Checkpoints first: were it stopped here, the next Open goes on from what is left, and takes the rest back itself.
	if err := f.removeAfter(iteration); err != nil {
		return err
	}
	if err := cutMetrics(f.Path(metricsFile), iteration); err != nil {
		return err
	}
	f.last, f.logged = min(f.last, iteration), min(f.logged, iteration)
	return nil
}

// locked is a Folder that holds dir's lock and knows nothing else yet. The system gives the lock back when the process ends, however.
func locked(dir string) (*Folder, error) {
	path := filepath.Join(dir, lockFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			who, _ := os.ReadFile(path) // for people only: it may be half written
			return nil, fmt.Errorf("run: %s: %w: %s", dir, ErrLocked, strings.TrimSpace(string(who)))
		}
		return nil, fmt.Errorf("run: locking %s: %w", path, err)
	}
	host, _ := os.Hostname()
	who := fmt.Sprintf("process %d on %s\n", os.Getpid(), host)
	if err := errors.Join(file.Truncate(0), writeAt(file, who)); err != nil {
		file.Close()
		return nil, fmt.Errorf("run: %w", err)
	}
	return &Folder{Dir: dir, Keep: 3, lock: file, latest: -1, last: -1, logged: -1}, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// mayCreate refuses a folder that holds a run or anything that Create does not make.
func mayCreate(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries { // before anything else that such a folder holds
		if e.Name() == metaFile {
			return errors.New("holds a run already: resume it or name another folder")
		}
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockFile, name == configFile, strings.HasPrefix(name, tempPrefix):
		case name == checkpointsDir:
			if inside, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(inside) > 0 {
				return errors.Join(fmt.Errorf("%s is there already, and not empty", name), err)
			}
		default:
			return fmt.Errorf("not empty: it holds %s; name a new folder", name)
		}
	}
	return nil
}

// configText is the configuration as YAML that reads back to the same.
func configText(config any) ([]byte, error) {
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	var back any
	if err := yaml.Unmarshal(text, &back); err != nil {
		return nil, fmt.Errorf("its YAML does not read back: %w", err)
	}
	if _, ok := back.(map[string]any); !ok {
		return nil, fmt.Errorf("%T is no set of keys and values", config)
	}
	return text, nil
}
