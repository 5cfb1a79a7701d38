package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
)

// A checkpoint file, numbers little endian:
//
//	0        8  "CLAWCKP1"
//	8        4  n, bytes of the index, at most maxIndex
//	12       n  the index: {"iteration":120,"sections":[{"name":"nets","bytes":4096,"sha256":"..."},...]}
//	12+n    32  sha256 of the index
//	44+n        the sections' bytes, one after the other, to the end of the file
const (
	checkpointMagic = "CLAWCKP1"
	maxIndex        = 1 << 20
	indexStart      = len(checkpointMagic) + 4
)

// ErrDamaged is wrapped where a checkpoint is not what was saved.
var ErrDamaged = errors.New("damaged")

// ErrNoCheckpoint is wrapped where there is none to take.
var ErrNoCheckpoint = errors.New("no checkpoint")

// Section is one part of a checkpoint, opaque here.
type Section struct {
	Name string // unique in the checkpoint
	Data []byte
}

// Checkpoint is what training needs to go on after an iteration.
type Checkpoint struct {
	Iteration int64
	Sections  []Section
}

// Section is the bytes of the named section; the error names the checkpoint that lacks it.
func (c *Checkpoint) Section(name string) ([]byte, error) {
	for _, s := range c.Sections {
		if s.Name == name {
			return s.Data, nil
		}
	}
	return nil, fmt.Errorf("run: the checkpoint of iteration %d has no section %q", c.Iteration, name)
}

type index struct {
	Iteration int64          `json:"iteration"`
	Sections  []indexSection `json:"sections"`
}

type indexSection struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hex
}

// encode is the checkpoint's file in parts, which share memory with the sections.
func (c *Checkpoint) encode() ([][]byte, error) {
	if c.Iteration < 0 {
		return nil, fmt.Errorf("iteration %d is negative", c.Iteration)
	}
	ix := index{Iteration: c.Iteration, Sections: make([]indexSection, 0, len(c.Sections))}
	parts := [][]byte{nil}
	names := map[string]bool{}
	for _, s := range c.Sections {
		if s.Name == "" || names[s.Name] {
			return nil, fmt.Errorf("section %q: a name that is empty or was there before", s.Name)
		}
		names[s.Name] = true
		sum := sha256.Sum256(s.Data)
		ix.Sections = append(ix.Sections, indexSection{s.Name, int64(len(s.Data)), hex.EncodeToString(sum[:])})
		parts = append(parts, s.Data)
	}
	text, err := json.Marshal(&ix)
	if err != nil {
		return nil, err
	}
	if len(text) > maxIndex {
		return nil, fmt.Errorf("the index has %d bytes, at most %d fit", len(text), maxIndex)
	}
	sum := sha256.Sum256(text)
	head := binary.LittleEndian.AppendUint32([]byte(checkpointMagic), uint32(len(text)))
	parts[0] = append(append(head, text...), sum[:]...)
	return parts, nil
}

// decode reads a checkpoint file; the sections share memory with data. Every byte of data is under a checksum or fixed. Errors wrap
// ErrDamaged and say which part.
func decode(data []byte) (*Checkpoint, error) {
	if len(data) < indexStart || string(data[:len(checkpointMagic)]) != checkpointMagic {
		return nil, fmt.Errorf("%w: does not begin as a checkpoint does", ErrDamaged)
	}
	n := int64(binary.LittleEndian.Uint32(data[len(checkpointMagic):]))
	rest := data[indexStart:]
	if n > maxIndex || int64(len(rest)) < n+sha256.Size {
		return nil, fmt.Errorf("%w: an index of %d bytes in a file of %d", ErrDamaged, n, len(data))
	}
	text, rest := rest[:n], rest[n:]
	if sum := sha256.Sum256(text); !bytes.Equal(sum[:], rest[:sha256.Size]) {
		return nil, fmt.Errorf("%w: the index's checksum is another", ErrDamaged)
	}
	rest = rest[sha256.Size:]
	var ix index
	if err := json.Unmarshal(text, &ix, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: index: %w", ErrDamaged, err)
	}
	if ix.Iteration < 0 {
		return nil, fmt.Errorf("%w: iteration %d", ErrDamaged, ix.Iteration)
	}
	c := &Checkpoint{Iteration: ix.Iteration, Sections: make([]Section, 0, len(ix.Sections))}
	for _, s := range ix.Sections {
		if _, err := c.Section(s.Name); s.Name == "" || err == nil {
			return nil, fmt.Errorf("%w: section %q: no name, or twice", ErrDamaged, s.Name)
		}
		if s.Bytes < 0 || s.Bytes > int64(len(rest)) {
			return nil, fmt.Errorf("%w: section %q has %d bytes, the file %d more", ErrDamaged, s.Name, s.Bytes, len(rest))
		}
		part := rest[:s.Bytes:s.Bytes]
		if sum := sha256.Sum256(part); hex.EncodeToString(sum[:]) != s.SHA256 {
			return nil, fmt.Errorf("%w: section %q: its checksum is another", ErrDamaged, s.Name)
		}
		c.Sections = append(c.Sections, Section{s.Name, part})
		rest = rest[s.Bytes:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes after the last section", ErrDamaged, len(rest))
	}
	return c, nil
}

// readCheckpoint reads a file; want is its iteration, -1: any. Errors name the file.
func readCheckpoint(path string, want int64) (*Checkpoint, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := decode(data)
	if err == nil && want >= 0 && c.Iteration != want {
		err = fmt.Errorf("%w: it is of iteration %d", ErrDamaged, c.Iteration)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (f *Folder) checkpointPath(iteration int64) string {
	return filepath.Join(f.Dir, checkpointsDir, fmt.Sprintf("%06d", iteration))
}

// iterations are those of the checkpoint files, whole or not, in rising order.
func (f *Folder) iterations() ([]int64, error) {
	entries, err := os.ReadDir(f.Path(checkpointsDir))
	if err != nil {
		return nil, err
	}
	var all []int64
	for _, e := range entries {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		if err == nil && n >= 0 && filepath.Base(f.checkpointPath(n)) == e.Name() {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// findLatest sets latest and Skipped.
func (f *Folder) findLatest() error {
	all, err := f.iterations()
	if err != nil {
		return err
	}
	for _, n := range slices.Backward(all) {
		path := f.checkpointPath(n)
		_, err := readCheckpoint(path, n)
		if err == nil {
			f.latest = n
			return nil
		}
		f.Skipped = append(f.Skipped, Skipped{path, fmt.Errorf("run: %w", err)})
	}
	return nil
}

// Save writes the checkpoint, and when it is safe on disk removes all but the Keep newest. An iteration is at least that of the last Log
// or Save; the same again replaces.
func (f *Folder) Save(c *Checkpoint) error {
	save := func() error {
		parts, err := c.encode()
		if err != nil {
			return err
		}
		if err := f.goOn(c.Iteration, c.Iteration); err != nil {
			return err
		}
		if err := writeAtomic(f.checkpointPath(c.Iteration), parts...); err != nil {
			return err
		}
		f.latest, f.last = c.Iteration, c.Iteration
		all, err := f.iterations()
		if err != nil {
			return err
		}
		for _, n := range all[:max(0, len(all)-max(f.Keep, 1))] {
			if err := os.Remove(f.checkpointPath(n)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := save(); err != nil {
		return fmt.Errorf("run: %s: checkpoint of iteration %d: %w", f.Dir, c.Iteration, err)
	}
	return nil
}

// SaveBest writes the checkpoint as the best so far, in place of the one before. It lies beside those of Save: neither is resumed from nor
// removed.
func (f *Folder) SaveBest(c *Checkpoint) error {
	parts, err := c.encode()
	if err == nil && f.lock == nil {
		err = fs.ErrClosed
	}
	if err == nil {
		err = writeAtomic(f.Path(filepath.Join(checkpointsDir, bestFile)), parts...)
	}
	if err != nil {
		return fmt.Errorf("run: %s: best checkpoint: %w", f.Dir, err)
	}
	return nil
}

// Latest is the newest whole checkpoint. The error wraps ErrNoCheckpoint where there is none.
func (f *Folder) Latest() (*Checkpoint, error) {
	if f.latest < 0 {
		return nil, fmt.Errorf("run: %s: %w", f.Dir, ErrNoCheckpoint)
	}
	return f.Load(f.latest)
}

// Load is the checkpoint of one iteration, for those that are still kept.
func (f *Folder) Load(iteration int64) (*Checkpoint, error) {
	return f.load(f.checkpointPath(iteration), iteration)
}

// Best is what SaveBest wrote last. The error wraps ErrNoCheckpoint where it never did.
func (f *Folder) Best() (*Checkpoint, error) {
	return f.load(f.Path(filepath.Join(checkpointsDir, bestFile)), -1)
}

func (f *Folder) load(path string, want int64) (*Checkpoint, error) {
	c, err := readCheckpoint(path, want)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", path, ErrNoCheckpoint)
	}
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	return c, nil
}

// removeAfter removes the checkpoints of iterations after the given one, newest first, so that no later one outlives an earlier.
func (f *Folder) removeAfter(iteration int64) error {
	all, err := f.iterations()
	if err != nil {
		return err
	}
	left := all[:0]
	for _, n := range slices.Backward(all) {
		if n <= iteration {
			left = append(left, n)
		} else if err := os.Remove(f.checkpointPath(n)); err != nil {
			return err
		}
	}
	if f.latest <= iteration {
		return nil
	}
	f.latest = -1
	for _, n := range left { // newest first
		if _, err := readCheckpoint(f.checkpointPath(n), n); err == nil {
			f.latest = n
			break
		}
	}
	return nil
}
