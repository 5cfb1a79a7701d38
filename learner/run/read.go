package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
)

// Record is what a run's folder tells of the run.
type Record struct {
	Dir    string
	Meta   Meta
	Config map[string]any // config.yaml, of whatever version of the program
	Lines  []Line         // of metrics.jsonl, by iteration
}

// Line is what was logged of one iteration.
type Line struct {
	Iteration int64
	Values    map[string]float64 // by tag; those that were not finite are missing
}

// Read reads the folder of a run without its lock, so that the run may be under way: a last line that is still being written is left out.
// The error names what is missing or, wrapping ErrDamaged, the line that is not what Log writes.
func Read(dir string) (*Record, error) {
	r := &Record{Dir: dir}
	read := func() (err error) {
		if r.Meta, err = readMeta(filepath.Join(dir, metaFile)); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: no %s", ErrNoRun, metaFile)
			}
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, configFile))
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(text, &r.Config); err != nil {
			return fmt.Errorf("%s: %w", configFile, err)
		}
		return r.readLines()
	}
	if err := read(); err != nil {
		return nil, fmt.Errorf("run: %s: %w", dir, err)
	}
	return r, nil
}

// readLines reads metrics.jsonl, which a run that has just begun does not have.
func (r *Record) readLines() error {
	data, err := os.ReadFile(filepath.Join(r.Dir, metricsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	for text := range bytes.Lines(whole) {
		iteration, values, err := readLine(text)
		if n := len(r.Lines); err == nil && n > 0 && iteration <= r.Lines[n-1].Iteration {
			err = fmt.Errorf("iteration %d after %d", iteration, r.Lines[n-1].Iteration)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d is %w: %w", metricsFile, len(r.Lines)+1, ErrDamaged, err)
		}
		r.Lines = append(r.Lines, Line{iteration, values})
	}
	return nil
}
