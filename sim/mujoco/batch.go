package mujoco

/*
#include "claw.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Batch is many robots of one model, kept as state vectors. Advance lets each thread take chunks of
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
	chunk   int // rows that a thread takes at a time
	threads []*thread
	done    sync.WaitGroup
	workers sync.WaitGroup
	next    atomic.Int64 // first row that no thread has taken yet
	closed  bool

	states []float64 // (rows, StateSize)
	params []Params  // (rows)
	out    []State   // (rows)
	status []C.int32_t

	mu    sync.Mutex
	texts map[int]string // row: what the engine said of it
}

// thread is what each thread of a Batch has. The Sim of the first also serves Reset and Edit.
type thread struct {
	sim       *Sim
	jobs      chan job
	physicsNs int64 // spent in C
	aroundNs  int64 // spent in before and after
	err       error // of the lowest row of the job for which a hook failed
	errRow    int
}

// job is one Advance. before and after are called on the thread that advances a chunk, around its
// physics; nil: nothing to do.
type job struct {
	cmds          []MotorCmd
	substeps      int
	before, after func(s *Sim, row int) error
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
		// Several chunks a thread, so that one which the machine holds up does not hold up the other;
		// small enough that a chunk's states stay in a core's cache.
		chunk:  max(1, min(32, rows/(4*threads))),
		states: make([]float64, rows*m.nstate),
		params: make([]Params, rows),
		out:    make([]State, rows),
		status: make([]C.int32_t, rows),
		texts:  map[int]string{},
	}
	for range threads {
		s, err := m.NewSim()
		if err != nil {
			b.Close()
			return nil, err
		}
		b.threads = append(b.threads, &thread{sim: s, jobs: make(chan job, 1)})
	}
	s := b.threads[0].sim
	for row := range rows {
		b.params[row] = s.params
		s.Read(&b.out[row])
		s.GetState(b.state(row))
	}
	for _, t := range b.threads {
		b.workers.Add(1)
		go b.work(t)
	}
	return b, nil
}

func (b *Batch) work(t *thread) {
	defer b.workers.Done()
	for j := range t.jobs {
		for {
			to := int(b.next.Add(int64(b.chunk)))
			from := to - b.chunk
			if from >= b.rows {
				break
			}
			b.take(t, &j, from, min(to, b.rows))
		}
		b.done.Done()
	}
}

// take advances the rows of one chunk.
func (b *Batch) take(t *thread, j *job, from, to int) {
	begin := time.Now()
	b.hook(t, j.before, from, to)
	start := time.Now()
	C.claw_rows(t.sim.c, C.int(from), C.int(to), (*C.double)(&b.states[0]),
		(*C.claw_cmd)(unsafe.Pointer(&j.cmds[0])), (*C.claw_params)(unsafe.Pointer(&b.params[0])),
		(*C.claw_state)(unsafe.Pointer(&b.out[0])), &b.status[0], C.int(j.substeps))
	end := time.Now()
	for row := from; row < to; row++ {
		if b.status[row] == C.CLAW_ENGINE {
			b.engineSaid(row, t.sim)
		}
	}
	b.hook(t, j.after, from, to)
	t.physicsNs += end.Sub(start).Nanoseconds()
	t.aroundNs += start.Sub(begin).Nanoseconds() + time.Since(end).Nanoseconds()
}

func (b *Batch) hook(t *thread, f func(*Sim, int) error, from, to int) {
	if f == nil {
		return
	}
	for row := from; row < to; row++ {
		if err := f(t.sim, row); err != nil && (t.err == nil || row < t.errRow) {
			t.err, t.errRow = err, row
		}
	}
}

// engineSaid keeps the engine's words about a row that has just gone bad.
func (b *Batch) engineSaid(row int, s *Sim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.texts[row] == "" {
		b.texts[row] = s.engineText()
	}
}

// Close stops the threads and frees the robots. It may be called again.
func (b *Batch) Close() {
	if b.closed {
		return
	}
	b.closed = true
	for _, t := range b.threads {
		close(t.jobs)
	}
	b.workers.Wait()
	for _, t := range b.threads {
		t.sim.Close()
	}
}

// Rows returns the number of robots.
func (b *Batch) Rows() int { return b.rows }

// Threads returns the number of threads.
func (b *Batch) Threads() int { return len(b.threads) }

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
		if err := b.has(row); err != nil {
			return fmt.Errorf("mujoco: batch: row %d: %w", row, err)
		}
		if err := b.place(b.threads[0].sim, row, &poses[i], &[3]float64{}); err != nil {
			return fmt.Errorf("mujoco: batch: row %d: %w", row, err)
		}
	}
	return nil
}

// has refuses a row that is not there.
func (b *Batch) has(row int) error {
	if b.closed {
		return errClosed
	}
	if row < 0 || row >= b.rows {
		return fmt.Errorf("mujoco: batch: row %d of %d", row, b.rows)
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
	return b.run(job{cmds: cmds, substeps: substeps})
}

// run hands a job to the threads and waits for it. The error is that of the lowest row for which a
// hook failed; the other rows are done all the same.
func (b *Batch) run(j job) error {
	b.next.Store(0)
	b.done.Add(len(b.threads))
	for _, t := range b.threads {
		t.err = nil
		t.jobs <- j
	}
	b.done.Wait()
	var first *thread
	for _, t := range b.threads {
		if t.err != nil && (first == nil || t.errRow < first.errRow) {
			first = t
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("mujoco: batch: row %d: %w", first.errRow, first.err)
}

// Times says how long the threads were in the physics and in what an Env does around it, summed
// over threads since the Batch was made.
func (b *Batch) Times() (physics, around time.Duration) {
	for _, t := range b.threads {
		physics += time.Duration(t.physicsNs)
		around += time.Duration(t.aroundNs)
	}
	return physics, around
}

// State copies the state of a row after its last Advance, Reset or Edit.
func (b *Batch) State(row int, out *State) { *out = b.out[row] }

// States returns the states of all rows, (rows). The slice belongs to the Batch and is overwritten
// by the next Advance.
func (b *Batch) States() []State { return b.out }

// Bad returns nil, or an error that wraps ErrPhysics and says why a row is left alone.
func (b *Batch) Bad(row int) error {
	if !b.bad(row) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Errorf("mujoco: batch: row %d: %w", row, physicsError(int(b.status[row]), b.texts[row]))
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
// it made. A row that is bad stays so until Reset. When f fails the row is as before. The error is
// f's own.
func (b *Batch) Edit(row int, f func(*Sim) error) error {
	if err := b.has(row); err != nil {
		return err
	}
	s := b.threads[0].sim
	if err := b.swapIn(s, row); err != nil {
		return err
	}
	if err := f(s); err != nil {
		return err
	}
	b.swapOut(s, row)
	b.params[row] = s.params
	return nil
}

// swapIn makes s the row, swapOut the row s.
func (b *Batch) swapIn(s *Sim, row int) error {
	if err := s.SetParams(b.params[row]); err != nil {
		return err
	}
	C.claw_set_state(s.c, (*C.double)(&b.state(row)[0]))
	return nil
}

func (b *Batch) swapOut(s *Sim, row int) {
	s.GetState(b.state(row))
	s.Read(&b.out[row])
}

// bad says whether a row's physics went bad.
func (b *Batch) bad(row int) bool { return b.status[row] != C.CLAW_OK }

// good forgets that a row's physics went bad.
func (b *Batch) good(row int) {
	if b.bad(row) {
		b.mu.Lock()
		delete(b.texts, row)
		b.mu.Unlock()
		b.status[row] = C.CLAW_OK
	}
}

// place resets a row, at rest but for a velocity (m/s, world), on a thread's own Sim, without
// allocating.
func (b *Batch) place(s *Sim, row int, pose *Pose, v *[3]float64) error {
	if err := s.SetParams(b.params[row]); err != nil {
		return err
	}
	if err := s.Reset(*pose); err != nil {
		return err
	}
	if err := s.SetVelocity(*v, [3]float64{}); err != nil {
		return err
	}
	b.swapOut(s, row)
	b.good(row)
	return nil
}

// kick adds to a row's velocity (m/s, world) on a thread's own Sim, without allocating.
func (b *Batch) kick(s *Sim, row int, dv *[3]float64) error {
	if err := b.swapIn(s, row); err != nil {
		return err
	}
	if err := s.AddVelocity(*dv); err != nil {
		return err
	}
	b.swapOut(s, row)
	return nil
}
