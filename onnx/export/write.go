package export

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/session"
)

// MaxDiff is the largest difference, in units of network output, between what
// ONNX Runtime and what the trainer's own network make of an observation.
const MaxDiff = 1e-5

// ParityRows is how many observations the two are compared on, at least.
const ParityRows = 256

// ErrParity is unwrapped from the error about a file that does not compute what
// the trainer's network does.
var ErrParity = errors.New("ONNX Runtime and the trainer's network differ")

// Report says what Write has written.
type Report struct {
	SHA256  string  // of the file, hex
	Bytes   int     // its size
	Rows    int     // observations compared
	MaxDiff float32 // over them, units of network output
}

// Write makes the policy's file and puts it at path in one step: whoever looks
// there, also after a crash, finds the whole new file or what was there before.
// Before that ONNX Runtime computes every pair, row by row and in batches, and a
// difference above MaxDiff (ErrParity) leaves path untouched. pairs, at least
// ParityRows, are observations of training with what the trainer's network, and
// not this package, makes of them. Needs ONNX Runtime (session.ErrNoLibrary): a
// trainer asks for session.Library before it trains. Other errors are Encode's and
// those of the file system.
func Write(path string, n *Network, c *contract.Contract, pairs []contract.Pair) (Report, error) {
	data, err := Encode(n, c, pairs)
	if err != nil {
		return Report{}, err
	}
	file, err := contract.Parse(path, data)
	if err != nil {
		return Report{}, fmt.Errorf("export: %w", err)
	}
	diff, err := verify(file, pairs)
	if err != nil {
		return Report{}, err
	}
	if err := writeFile(path, data); err != nil {
		return Report{}, fmt.Errorf("export: %w", err)
	}
	return Report{SHA256: file.SHA256, Bytes: len(data), Rows: len(pairs), MaxDiff: diff}, nil
}

// Verify does with a file that is there what Write does before it writes: it
// gives the largest difference over pairs, or an error that unwraps to ErrParity
// if it is above MaxDiff or not a number. It changes no file.
func Verify(path string, pairs []contract.Pair) (maxDiff float32, err error) {
	file, err := contract.Load(path)
	if err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	return verify(file, pairs)
}

// batch is how many rows verify computes at once: a number that does not divide
// ParityRows, so that a batch which is not full is among those compared.
const batch = 100

// verify compares as a robot runs the policy, one row at a time, and as a
// simulator does, in batches: the runtime has other kernels for these.
func verify(file *contract.File, pairs []contract.Pair) (maxDiff float32, err error) {
	if len(pairs) < ParityRows {
		return 0, fmt.Errorf("export: %d pairs, want %d or more to compare on", len(pairs), ParityRows)
	}
	for _, rows := range []int{1, batch} {
		diff, err := compare(file, rows, pairs)
		if err != nil {
			return 0, fmt.Errorf("export: %w", err)
		}
		maxDiff = max(maxDiff, diff)
	}
	return maxDiff, nil
}

// compare computes all pairs, rows at a time.
func compare(file *contract.File, rows int, pairs []contract.Pair) (maxDiff float32, err error) {
	p, err := session.Open(file, session.Options{Rows: rows})
	switch {
	case errors.Is(err, session.ErrGolden):
		return 0, fmt.Errorf("%w: %w", ErrParity, err)
	case err != nil:
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	spec := p.Spec()
	spec.Rows = len(pairs)
	obsDim, actDim := spec.Group("policy").Size(), spec.ActDim()
	step, out := rollout.NewStep(spec), rollout.NewDecision(spec)
	obs := step.Obs[spec.GroupIndex("policy")]
	for i, pair := range pairs {
		if len(pair.Obs) != obsDim || len(pair.Action) != actDim {
			return 0, fmt.Errorf("pair %d: %d observation numbers and %d action numbers, want %d and %d",
				i, len(pair.Obs), len(pair.Action), obsDim, actDim)
		}
		copy(obs[i*obsDim:], pair.Obs)
	}
	if err := p.Act(step, out); err != nil {
		return 0, err
	}
	for i, pair := range pairs {
		for k, want := range pair.Action {
			got := out.Action[i*actDim+k]
			diff := max(got-want, want-got)
			if !(diff <= MaxDiff) { // NaN too
				return 0, fmt.Errorf("%w: pair %d, action[%d] (%s): %v and %v, at most %v apart are allowed (batches of %d)",
					ErrParity, i, k, spec.Joints[k], got, want, MaxDiff, rows)
			}
			maxDiff = max(maxDiff, diff)
		}
	}
	return maxDiff, nil
}

// writeFile replaces path by a whole file, or leaves it. It writes a file beside
// it, .NAME.*.tmp, locked while somebody writes it; those of writers that were
// killed are removed.
func writeFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	prefix, suffix := "."+filepath.Base(path)+".", ".tmp"
	removeAbandoned(dir, prefix, suffix)
	f, err := os.CreateTemp(dir, prefix+"*"+suffix)
	if err != nil {
		return err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	if err == nil {
		_, err = f.Write(data)
	}
	err = errors.Join(err, f.Chmod(0o644), f.Sync()) // 0644: a robot's agent reads it as another user
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	d, err := os.Open(dir)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(d.Sync(), d.Close(), f.Close())
}

// removeAbandoned removes files of writers that are no more: nobody has them
// locked. One that resists stays; it harms nobody.
func removeAbandoned(dir, prefix, suffix string) {
	entries, _ := os.ReadDir(dir) // without the folder, the writer says so
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !strings.HasSuffix(e.Name(), suffix) || !e.Type().IsRegular() {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.Remove(f.Name())
		}
		f.Close()
	}
}
