//go:build torch

package algo

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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

// section finds a section's data.
func section(all []Section, name string) ([]byte, error) {
	for _, s := range all {
		if s.Name == name {
			return s.Data, nil
		}
	}
	return nil, fmt.Errorf("algo: state: no section %s", name)
}

// State is everything that training needs to go on bit for bit: networks and optimiser,
// rows, teacher, random numbers, counts, with Config.Async what was collected ahead; and in section "actor" what another run needs to take
// this actor for its teacher. It is asked for between iterations, in Options.Each.
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
	for _, g := range t.generators() {
		if err == nil {
			b, err = g.AppendBinary(b)
		}
	}
	teaching := []byte(t.cfg.OPD.Teacher + "\n")
	if err == nil && t.opd != nil {
		teaching, err = t.opd.appendState(teaching)
	}
	if err != nil {
		return nil, fmt.Errorf("algo: state: %w", err)
	}
	n := &t.cfg.Net
	actor, err := json.Marshal(savedActor{Spec: t.spec, Group: n.Group, Critic: t.buf.Critic, Net: savedNet{Actor: n.Actor, Critic: n.Critic,
		Normaliser: n.Normaliser, InitStd: n.InitStd, MinStd: n.MinStd, MaxStd: n.MaxStd, Encoder: t.shape.Encoder}})
	if err != nil {
		return nil, fmt.Errorf("algo: state: %w", err)
	}
	all := []Section{{"trainer", b}, {"nets", networks.Bytes()}, {"rows", rows}, {"teacher", teaching}, {"actor", actor}}
	if t.published != t.nets {
		var average bytes.Buffer
		if err := t.published.Save(&average); err != nil {
			return nil, err
		}
		all = append(all, Section{averageSection, average.Bytes()})
	}
	if t.pending != nil {
		ahead, err := t.pending.appendState(nil)
		if err != nil {
			return nil, fmt.Errorf("algo: state: %w", err)
		}
		all = append(all, Section{aheadSection, ahead})
	}
	return all, nil
}

// averageSection is the name of the section with the average of the networks; without Config.Average
// there is none.
const averageSection = "average"

// aheadSection is the name of the section with the iteration that was collected while another was
// learnt from, and is still to be learnt from; there need not be one.
const aheadSection = "ahead"

// generators are the streams of random numbers, in the order they are saved in.
func (t *Trainer) generators() []*rand.PCG { return []*rand.PCG{&t.noise, &t.order, &t.mixing} }

// Restore takes over what State gave, before Run. A state of another configuration is
// refused by the part that it does not fit; after an error the Trainer serves for another
// Restore or Close alone.
func (t *Trainer) Restore(sections []Section) error {
	b, err := section(sections, "trainer")
	if err != nil {
		return err
	}
	rows, err := section(sections, "rows")
	if err != nil {
		return err
	}
	if _, ok := t.env.(saver); !ok {
		return errors.New("algo: this Env cannot be restored")
	}
	var counts savedCounts
	length, earned := make([]int32, len(t.length)), make([]float64, len(t.earned))
	generators := make([]rand.PCG, len(t.generators()))
	if want := binary.Size(&counts) + binary.Size(length) + binary.Size(earned) + len(generators)*generatorSize; len(b) != want {
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
	for i := range generators {
		if err := generators[i].UnmarshalBinary(b[i*generatorSize : (i+1)*generatorSize]); err != nil {
			return fmt.Errorf("algo: state: random numbers: %w", err)
		}
	}
	var pending *storage
	if ahead, err := section(sections, aheadSection); err == nil {
		if !t.cfg.Async {
			return errAhead
		}
		pending = t.spare
		if err := pending.restore(ahead); err != nil {
			return fmt.Errorf("algo: state: section %s: %w", aheadSection, err)
		}
	}
	if err := t.restoreLearnt(sections); err != nil {
		return err
	}
	t.pending = pending
	for i, g := range t.generators() {
		*g = generators[i]
	}
	t.iteration, t.samples, t.diverged = counts.Iteration, counts.Samples, int(counts.Diverged)
	t.length, t.earned, t.from = length, earned, rows
	return nil
}

// generatorSize is that of a saved PCG, bytes.
const generatorSize = 20

// restoreLearnt takes over networks and teacher.
func (t *Trainer) restoreLearnt(sections []Section) error {
	networks, err := section(sections, "nets")
	if err != nil {
		return err
	}
	teaching, err := section(sections, "teacher")
	if err != nil {
		return err
	}
	kind, data, _ := bytes.Cut(teaching, []byte("\n"))
	if want := t.cfg.OPD.Teacher; string(kind) != want {
		return fmt.Errorf("algo: state: its teacher is %.20q, opd.teacher is %s", kind, want)
	}
	if err := t.nets.Load(bytes.NewReader(networks)); err != nil {
		return err
	}
	if t.published != t.nets {
		average, err := section(sections, averageSection)
		if err != nil {
			return err
		}
		if err := t.published.Load(bytes.NewReader(average)); err != nil {
			return err
		}
	}
	if t.opd == nil {
		return nil
	}
	return t.opd.restore(data)
}

// Recover takes networks, optimiser, normaliser and teacher of a State back, after ErrDiverged,
// and nothing else: counts and schedules go on, so do all random numbers, and the next Run
// begins new episodes. So what went wrong is not repeated to the bit, and what it cost stays
// counted.
func (t *Trainer) Recover(sections []Section) error {
	if err := t.restoreLearnt(sections); err != nil {
		return err
	}
	b, err := section(sections, "trainer")
	if err != nil {
		return err
	}
	var counts savedCounts
	if _, err := binary.Decode(b, binary.LittleEndian, &counts); err != nil {
		return fmt.Errorf("algo: state: section trainer: %w", err)
	}
	if warm := int64(t.cfg.Warm.Rollouts); counts.Iteration < warm && t.iteration >= warm {
		t.endWarm()
	}
	t.diverged, t.cause, t.from, t.pending = 0, nil, nil, nil
	return nil
}
