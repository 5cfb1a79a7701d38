//go:build torch

package algo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Section is one part of a Trainer's state.
type Section struct {
	Name string
	Data []byte
}

// savedCounts is the fixed part of section "trainer".
type savedCounts struct {
	Iteration, Samples int64
	Diverged           int32
}

// State is everything that training needs to go on bit for bit: networks and optimiser,
// rows, random numbers, counts. It is asked for between iterations, in Options.Each.
func (t *Trainer) State() ([]Section, error) {
	env, ok := t.env.(saver)
	if !ok {
		return nil, errors.New("algo: this Env cannot be saved")
	}
	rows, err := env.AppendState(nil)
	if err != nil {
		return nil, err
	}
	var networks bytes.Buffer
	if err := t.nets.Save(&networks); err != nil {
		return nil, err
	}
	b, err := binary.Append(nil, binary.LittleEndian, &savedCounts{t.iteration, t.samples, int32(t.diverged)})
	for _, part := range []any{t.length, t.earned} {
		if err == nil {
			b, err = binary.Append(b, binary.LittleEndian, part)
		}
	}
	if err == nil {
		b, err = t.noise.AppendBinary(b)
	}
	if err == nil {
		b, err = t.order.AppendBinary(b)
	}
	if err != nil {
		return nil, fmt.Errorf("algo: state: %w", err)
	}
	return []Section{{"trainer", b}, {"nets", networks.Bytes()}, {"rows", rows}}, nil
}

// Restore takes over what State gave, before Run. A state of another configuration is
// refused by the part that it does not fit.
func (t *Trainer) Restore(sections []Section) error {
	find := func(name string) ([]byte, error) {
		for _, s := range sections {
			if s.Name == name {
				return s.Data, nil
			}
		}
		return nil, fmt.Errorf("algo: state: no section %s", name)
	}
	b, err := find("trainer")
	if err != nil {
		return err
	}
	networks, err := find("nets")
	if err != nil {
		return err
	}
	rows, err := find("rows")
	if err != nil {
		return err
	}
	if _, ok := t.env.(saver); !ok {
		return errors.New("algo: this Env cannot be restored")
	}
	var counts savedCounts
	length, earned := make([]int32, len(t.length)), make([]float64, len(t.earned))
	const generator = 20 // bytes of a PCG
	if want := binary.Size(&counts) + binary.Size(length) + binary.Size(earned) + 2*generator; len(b) != want {
		return fmt.Errorf("algo: state: section trainer has %d bytes, want %d: another number of rows?", len(b), want)
	}
	for _, part := range []any{&counts, length, earned} {
		n, err := binary.Decode(b, binary.LittleEndian, part)
		if err != nil {
			return fmt.Errorf("algo: state: section trainer: %w", err)
		}
		b = b[n:]
	}
	if counts.Iteration < 0 || counts.Samples < 0 {
		return fmt.Errorf("algo: state: iteration %d, %d samples", counts.Iteration, counts.Samples)
	}
	if err := t.nets.Load(bytes.NewReader(networks)); err != nil {
		return err
	}
	if err := errors.Join(t.noise.UnmarshalBinary(b[:generator]), t.order.UnmarshalBinary(b[generator:])); err != nil {
		return fmt.Errorf("algo: state: random numbers: %w", err)
	}
	t.iteration, t.samples, t.diverged = counts.Iteration, counts.Samples, int(counts.Diverged)
	t.length, t.earned, t.from = length, earned, rows
	return nil
}
