package mujoco

/*
#include "claw.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// Batch is many robots of one model, kept as state vectors. Advance hands each thread one block of
// rows, which one C call swaps through the thread's own mjData. A row's trajectory does not depend
// on the number of threads or on the other rows, bit for bit.
//
// A row whose physics goes bad keeps its last good state, is skipped by Advance and reported by Bad
// until it is reset.
//
// A Batch is used by one goroutine at a time.
type Batch struct {
	model   *Model
	rows    int
	sims    []*Sim // one per thread; sims[0] also serves Reset and Edit
	blocks  []block
	jobs    []chan job
	done    sync.WaitGroup
	workers sync.WaitGroup
	closed  bool

	states []float64 // (rows, StateSize)
	params []Params  // (rows)
	out    []State   // (rows)
	status []C.int32_t
}

type block struct{ from, to int }

type job struct {
	cmds     []MotorCmd
	substeps int
}

// NewBatch returns rows robots in HomePose with DefaultParams, advanced by threads goroutines that
// live until Close.
func NewBatch(m *Model, rows, threads int) (*Batch, error) {
	if rows < 1 || threads < 1 {
		return nil, fmt.Errorf("mujoco: batch of %d rows on %d threads, want 1 or more of each", rows, threads)
	}
	threads = min(threads, rows)
	b := &Batch{
		model: m, rows: rows,
		states: make([]float64, rows*m.nstate),
		params: make([]Params, rows),
		out:    make([]State, rows),
		status: make([]C.int32_t, rows),
	}
	for range threads {
		s, err := m.NewSim()
		if err != nil {
			b.Close()
			return nil, err
		}
		b.sims = append(b.sims, s)
	}
	s := b.sims[0]
	for row := range rows {
		b.params[row] = s.params
		s.Read(&b.out[row])
		s.GetState(b.state(row))
	}
	for i, s := range b.sims {
		b.blocks = append(b.blocks, block{i * rows / threads, (i + 1) * rows / threads})
		b.jobs = append(b.jobs, make(chan job, 1))
		b.workers.Add(1)
		go b.work(s, b.blocks[i], b.jobs[i])
	}
	return b, nil
}

func (b *Batch) work(s *Sim, k block, jobs <-chan job) {
	defer b.workers.Done()
	for j := range jobs {
		C.claw_rows(s.c, C.int(k.from), C.int(k.to), (*C.double)(&b.states[0]),
			(*C.claw_cmd)(unsafe.Pointer(&j.cmds[0])), (*C.claw_params)(unsafe.Pointer(&b.params[0])),
			(*C.claw_state)(unsafe.Pointer(&b.out[0])), &b.status[0], C.int(j.substeps))
		b.done.Done()
	}
}

// Close stops the threads and frees the robots. It may be called again.
func (b *Batch) Close() {
	if b.closed {
		return
	}
	b.closed = true
	for _, jobs := range b.jobs {
		close(jobs)
	}
	b.workers.Wait()
	for _, s := range b.sims {
		s.Close()
	}
}

// Rows returns the number of robots.
func (b *Batch) Rows() int { return b.rows }

// Threads returns the number of threads.
func (b *Batch) Threads() int { return len(b.sims) }

// Model returns the model the robots were made from.
func (b *Batch) Model() *Model { return b.model }

func (b *Batch) state(row int) []float64 {
	n := b.model.nstate
	return b.states[row*n : (row+1)*n : (row+1)*n]
}

// Reset puts rows at rest into poses (one each), at time 0, and clears what made them bad. Their
// Params stay.
func (b *Batch) Reset(rows []int, poses []Pose) error {
	if len(rows) != len(poses) {
		return fmt.Errorf("mujoco: batch: %d rows, %d poses", len(rows), len(poses))
	}
	for i, row := range rows {
		if err := b.Edit(row, func(s *Sim) error { return s.Reset(poses[i]) }); err != nil {
			return fmt.Errorf("mujoco: batch: row %d: %w", row, err)
		}
		b.status[row] = C.CLAW_OK
	}
	return nil
}

// Advance runs substeps physics steps of every row that is not bad, row i under cmds[i]. It does
// not allocate.
//
// A command with a number that is not finite, or another number of commands than rows, is refused
// before any row moves. Rows that go bad are not an error of the call: see Bad.
func (b *Batch) Advance(cmds []MotorCmd, substeps int) error {
	if b.closed {
		return errClosed
	}
	if len(cmds) != b.rows {
		return fmt.Errorf("mujoco: batch: %d commands for %d rows", len(cmds), b.rows)
	}
	if substeps < 1 {
		return fmt.Errorf("mujoco: batch: %d substeps, want 1 or more", substeps)
	}
	for row := range cmds {
		if err := cmds[row].check(); err != nil {
			return fmt.Errorf("mujoco: batch: row %d: %w", row, err)
		}
	}
	b.done.Add(len(b.jobs))
	for _, jobs := range b.jobs {
		jobs <- job{cmds, substeps}
	}
	b.done.Wait()
	return nil
}

// State copies the state of a row after its last Advance, Reset or Edit.
func (b *Batch) State(row int, out *State) { *out = b.out[row] }

// States returns the states of all rows, (rows). The slice belongs to the Batch and is overwritten
// by the next Advance.
func (b *Batch) States() []State { return b.out }

// Bad returns nil, or an error that wraps ErrPhysics and says why a row is left alone.
func (b *Batch) Bad(row int) error {
	if b.status[row] == C.CLAW_OK {
		return nil
	}
	thread := 0
	for row >= b.blocks[thread].to {
		thread++
	}
	return fmt.Errorf("mujoco: batch: row %d: %w", row, physicsError(int(b.status[row]), b.sims[thread].engineText()))
}

// BadRows counts the rows that are bad.
func (b *Batch) BadRows() int {
	n := 0
	for _, s := range b.status {
		if s != C.CLAW_OK {
			n++
		}
	}
	return n
}

// Params returns the parameters of a row.
func (b *Batch) Params(row int) Params { return b.params[row] }

// SetParams changes the parameters of a row from its next Advance on.
func (b *Batch) SetParams(row int, p Params) error {
	if err := p.check(); err != nil {
		return fmt.Errorf("mujoco: batch: row %d: %w", row, err)
	}
	b.params[row] = p
	return nil
}

// GetState appends the integration state of a row to dst[:0], as Sim.GetState does.
func (b *Batch) GetState(row int, dst []float64) []float64 { return append(dst[:0], b.state(row)...) }

// Edit lets f work on a row as if it were a Sim (push it, set its velocity or state) and keeps what
// it made. When f fails the row is as before.
// The error is f's own.
func (b *Batch) Edit(row int, f func(*Sim) error) error {
	if row < 0 || row >= b.rows {
		return fmt.Errorf("mujoco: batch: row %d of %d", row, b.rows)
	}
	s := b.sims[0]
	if err := s.SetParams(b.params[row]); err != nil {
		return err
	}
	C.claw_set_state(s.c, (*C.double)(&b.state(row)[0]))
	if err := f(s); err != nil {
		return err
	}
	s.GetState(b.state(row))
	s.Read(&b.out[row])
	b.params[row] = s.params
	return nil
}
