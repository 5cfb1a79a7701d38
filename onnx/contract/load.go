package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/openclaw-rl/openclaw/onnx/importer/known"
)

// MaxFile is the largest policy file that is read, bytes.
const MaxFile = 256 << 20

// Source says where a contract was found.
type Source string

// Sources, in the order they are tried; the first that is there is used.
const (
	FromMetadata Source = "metadata" // metadata_props["openclaw.contract"]
	FromBeside   Source = "beside"   // FILE.contract.json
	FromKnown    Source = "known"    // importer/known, by sha256
)

// Suffix of the file that may lie beside a policy.
const Suffix = ".contract.json"

// Errors of Load that programs tell apart. All name the file.
var (
	ErrNoContract = errors.New("no contract")
	ErrMismatch   = errors.New("the contract does not match the graph")
	ErrExternal   = errors.New("a file of weights is missing")
)

// File is a policy file as it lay on disk.
type File struct {
	Path   string
	SHA256 string // of the policy file, hex
	Bytes  []byte // all of it; not to be changed
	Model  *Model
	// Contract is nil if there is none (Read only).
	Contract *Contract
	Source   Source // where Contract was found
}

// Load reads a policy file that can be used: its model parses, it has a contract
// that matches the graph, and every file of weights is there. The error names
// what is missing and unwraps to ErrNotONNX, ErrTruncated, ErrDamaged,
// ErrNoContract, ErrMismatch, ErrExternal or an fs error.
func Load(path string) (*File, error) {
	f, err := Read(path)
	if err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return f, nil
}

// Read reads a policy file that need not be usable: Contract is nil if there is
// none, and Check says what Load would refuse.
func Read(path string) (*File, error) {
	data, err := readRegular(path, MaxFile)
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	return Parse(path, data)
}

// Parse is Read of bytes at hand, for a file that may not be there yet. path
// stands in errors and says beside what to look for a contract and weights.
func Parse(path string, data []byte) (f *File, err error) {
	sum := sha256.Sum256(data)
	f = &File{Path: path, SHA256: hex.EncodeToString(sum[:]), Bytes: data}
	if f.Model, err = ParseModel(data); err != nil {
		return nil, fmt.Errorf("contract: %s: %w", path, err)
	}
	text, where, err := f.find()
	if err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	if text == nil {
		return f, nil
	}
	if f.Contract, err = Decode(text); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return f, nil
}

// find gives the contract's JSON, nil if there is none, and where it lay.
func (f *File) find() (text []byte, where string, err error) {
	for _, m := range f.Model.Metadata {
		if m.Key == Key {
			f.Source = FromMetadata
			return []byte(m.Value), f.Path + ", metadata " + Key, nil
		}
	}
	beside := f.Path + Suffix
	switch text, err = readRegular(beside, MaxJSON); {
	case err == nil:
		f.Source = FromBeside
		return text, beside, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, "", err
	}
	if text, ok := known.Lookup(f.SHA256); ok {
		f.Source = FromKnown
		return text, "known contract of " + f.Path, nil
	}
	return nil, "", nil
}

// Check says what keeps a policy from being used, as Load does.
func (f *File) Check() error {
	if f.Contract == nil {
		return fmt.Errorf("contract: %s: %w: its metadata has no %s, %s is not there, and no contract is known for sha256 %s",
			f.Path, ErrNoContract, Key, f.Path+Suffix, f.SHA256)
	}
	if err := f.Contract.Matches(f.Model); err != nil {
		return fmt.Errorf("%w (%s, contract from %s)", err, f.Path, f.Source)
	}
	return f.CheckExternal()
}

// CheckExternal says which file of weights is missing or too small.
func (f *File) CheckExternal() error {
	for _, e := range f.Model.External {
		at := filepath.Join(filepath.Dir(f.Path), e.Name)
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("contract: %s: %w: needs %s, %d bytes, in the same folder", f.Path, ErrExternal, e.Name, e.Bytes)
		case err != nil:
			return fmt.Errorf("contract: %s: %w: needs %s, %d bytes: %w", f.Path, ErrExternal, e.Name, e.Bytes, err)
		case !info.Mode().IsRegular():
			return fmt.Errorf("contract: %s: %w: needs %s, %d bytes: it is not a regular file", f.Path, ErrExternal, e.Name, e.Bytes)
		case info.Size() < e.Bytes:
			return fmt.Errorf("contract: %s: %w: needs %s, %d bytes: it has %d", f.Path, ErrExternal, e.Name, e.Bytes, info.Size())
		}
	}
	return nil
}

// Matches says the first way in which a graph is not the one of this contract:
// one float32 input [batch, observation], one float32 output [batch, joints],
// batch 1 or free. The error unwraps to ErrMismatch.
func (c *Contract) Matches(m *Model) error {
	g := c.Group("policy")
	if g == nil {
		return fmt.Errorf("contract: %w: no group is named \"policy\"", ErrMismatch)
	}
	if err := matchTensor("input", m.Inputs, g.Size(), "the observation has"); err != nil {
		return err
	}
	return matchTensor("output", m.Outputs, c.ActDim(), "joints are")
}

func matchTensor(what string, ts []Tensor, width int, has string) error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("contract: %w: "+format, append([]any{ErrMismatch}, a...)...)
	}
	if len(ts) != 1 {
		names := make([]string, len(ts))
		for i := range ts {
			names[i] = ts[i].Name
		}
		return bad("%d %ss %q, want 1 (recurrent policies are not supported)", len(ts), what, names)
	}
	t := ts[0]
	switch {
	case t.Type != Float32:
		return bad("%s %s is %s, want float32", what, t.Name, t.Type)
	case len(t.Dims) != 2:
		return bad("%s %s has %d dimensions, want 2 (batch, width)", what, t, len(t.Dims))
	case t.Dims[1] < 0:
		return bad("%s %s: its width is free, %s %d", what, t, has, width)
	case t.Dims[1] != int64(width):
		return bad("%s %s is %d wide, %s %d", what, t.Name, t.Dims[1], has, width)
	case t.Dims[0] != 1 && t.Dims[0] != -1:
		return bad("%s %s has batch %d, want 1 or free", what, t.Name, t.Dims[0])
	}
	return nil
}

// Batched says whether the graph takes any number of rows at once.
func (m *Model) Batched() bool {
	for _, ts := range [][]Tensor{m.Inputs, m.Outputs} {
		if len(ts) != 1 || len(ts[0].Dims) == 0 || ts[0].Dims[0] != -1 {
			return false
		}
	}
	return true
}

// readRegular reads a file of at most limit bytes. It does not wait on a FIFO or
// read a device.
func readRegular(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s: is a folder", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is not a regular file", path)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s: %d bytes, at most %d are read", path, info.Size(), limit)
	}
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: shrank to %d bytes while it was read", path, n)
	}
	return data, err
}
