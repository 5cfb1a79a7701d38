package mujoco

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// A saved Env is little endian:
//
//	magic, sha256 of what it was opened with, rows (uint32)
//	each row: physics (StateSize float64), savedRow, episode, commander, three random generators,
//	          a fault's memory if there is one, each group's history
//	CRC-32C of all that
const stateMagic = "openclaw rows 1\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// savedRow is the part of a row that has a fixed size.
type savedRow struct {
	Phase                float32
	ClockOn              bool
	Steps                int64
	Arrives              int32
	Sent                 [go1.Joints]float32
	Force, Late          [go1.Joints]float64
	Action, Last1, Last2 [go1.Joints]float32
}

// check refuses numbers that no Env saves.
func (s *savedRow) check(substeps int) error {
	switch {
	case !(s.Phase >= 0 && s.Phase < 1):
		return fmt.Errorf("its gait clock is at %v", s.Phase)
	case s.Steps < 0:
		return fmt.Errorf("its episode is %d steps old", s.Steps)
	case s.Arrives < 0 || int(s.Arrives) > substeps:
		return fmt.Errorf("its target arrives in %d physics steps", s.Arrives)
	case !finiteAll(s.Force[:]...) || !finiteAll(s.Late[:]...):
		return errors.New("its target is not finite")
	}
	for _, v := range [][go1.Joints]float32{s.Sent, s.Action, s.Last1, s.Last2} {
		for _, x := range v {
			if x-x != 0 {
				return errors.New("its action is not finite")
			}
		}
	}
	return nil
}

// print is the sha256 of everything that decides how a state goes on: contract, world, parameters,
// fault, model, and the library and machine whose bits it holds.
func (e *Env) print() ([sha256.Size]byte, error) {
	spec := e.spec
	text, err := json.Marshal([]any{spec, e.world, e.params, e.fault, e.model.name, Version(), runtime.GOARCH})
	return sha256.Sum256(text), err
}

// AppendState appends the state of every row to b: physics, episode, history, random numbers. An
// Env of the same configuration (Threads and Seed may differ) that takes it over goes on bit for
// bit. Commands of Steer are not part of it.
func (e *Env) AppendState(b []byte) ([]byte, error) {
	switch {
	case e.closed:
		return b, rollout.ErrClosed
	case !e.ready:
		return b, rollout.ErrNotReset
	}
	print, err := e.print()
	if err != nil {
		return b, fmt.Errorf("mujoco: env: state: %w", err)
	}
	begin := len(b)
	b = append(b, stateMagic...)
	b = append(b, print[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.rows)))
	for row := range e.rows {
		for _, x := range e.batch.state(row) {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		r := &e.rows[row]
		m := &r.moment
		if b, err = binary.Append(b, binary.LittleEndian, &savedRow{Phase: r.clock.Phase, ClockOn: r.clock.On,
			Steps: int64(r.steps), Arrives: int32(r.arrives), Sent: r.sent, Force: r.force, Late: r.late, Action: m.Action, Last1: m.Last, Last2: m.Last2}); err != nil {
			return b[:begin], fmt.Errorf("mujoco: env: state: %w", err)
		}
		b = r.episode.AppendState(b)
		b = r.command.AppendState(b)
		b = r.start.AppendState(b)
		b = r.vary.AppendState(b)
		b = r.noise.AppendState(b)
		if r.fault != nil {
			b = r.fault.AppendState(b)
		}
		for _, o := range e.observers {
			b = o.AppendState(row, b)
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[begin:], castagnoli)), nil
}

// RestoreState takes over what AppendState gave and fills out as the Step or Reset before it did, but
// for what ended and what it earned, and errors are against the command that is in force now. A state that is damaged or of another configuration is refused
// and changes nothing; should one with a good checksum be malformed all the same, the Env needs a Reset.
func (e *Env) RestoreState(b []byte, out *rollout.Step) error {
	if e.closed {
		return rollout.ErrClosed
	}
	rows, err := e.checkState(b)
	if err != nil {
		return fmt.Errorf("mujoco: env: state: %w", err)
	}
	e.ready = false
	for row := range e.rows {
		if rows, err = e.restoreRow(row, rows); err != nil {
			return fmt.Errorf("mujoco: env: state: row %d: %w", row, err)
		}
	}
	if len(rows) != 0 {
		return fmt.Errorf("mujoco: env: state: %d bytes too many", len(rows))
	}
	k := len(e.spec.Metrics)
	for row := range e.rows {
		for g, o := range e.observers {
			n := o.Dim()
			o.Show(row, out.Obs[g][row*n:(row+1)*n])
		}
		copy(out.Executed[row*go1.Joints:(row+1)*go1.Joints], e.rows[row].sent[:])
		out.Reward[row], out.Terminated[row], out.TimedOut[row] = 0, false, false
		metrics := out.Metrics[row*k : (row+1)*k]
		clear(metrics)
		task.Measure(&e.rows[row].moment, metrics)
	}
	e.ready = true
	return nil
}

// checkState refuses what is not a whole state of this configuration, and gives its rows.
func (e *Env) checkState(b []byte) (rows []byte, err error) {
	const head = len(stateMagic) + sha256.Size + 4
	if len(b) < head+4 || string(b[:len(stateMagic)]) != stateMagic {
		return nil, errors.New("these bytes are not a state of an Env")
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errors.New("damaged: its checksum is wrong")
	}
	print, err := e.print()
	if err != nil {
		return nil, err
	}
	if [sha256.Size]byte(b[len(stateMagic):]) != print {
		return nil, errors.New("it belongs to another contract, world, model, MuJoCo version or kind of machine")
	}
	if n := binary.LittleEndian.Uint32(b[head-4:]); int(n) != len(e.rows) {
		return nil, fmt.Errorf("it has %d rows, this Env %d", n, len(e.rows))
	}
	return body[head:], nil
}

// restoreRow takes a row from the front of b.
func (e *Env) restoreRow(row int, b []byte) (rest []byte, err error) {
	r := &e.rows[row]
	state := e.batch.state(row)
	var saved savedRow
	if len(b) < 8*len(state)+binary.Size(&saved) {
		return b, errors.New("it ends early")
	}
	for i := range state {
		state[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		if !finite(state[i]) {
			return b, fmt.Errorf("its physics' number %d is %v", i, state[i])
		}
	}
	b = b[8*len(state):]
	n, err := binary.Decode(b, binary.LittleEndian, &saved)
	if err != nil {
		return b, err
	}
	b = b[n:]
	if err := saved.check(e.substeps); err != nil {
		return b, err
	}
	m := &r.moment
	r.clock.Phase, r.clock.On, r.steps = saved.Phase, saved.ClockOn, int(saved.Steps)
	r.sent, r.force, r.late, r.arrives, r.steer = saved.Sent, saved.Force, saved.Late, int(saved.Arrives), steer{}
	m.Action, m.Last, m.Last2 = saved.Action, saved.Last1, saved.Last2
	restorers := []interface {
		RestoreState([]byte) ([]byte, error)
	}{&r.episode, &r.command, &r.start, &r.vary, &r.noise}
	if r.fault != nil {
		restorers = append(restorers, r.fault)
	}
	for _, x := range restorers {
		if b, err = x.RestoreState(b); err != nil {
			return b, err
		}
	}
	for _, o := range e.observers {
		if b, err = o.RestoreState(row, b); err != nil {
			return b, err
		}
	}
	e.furnish(row)
	s := e.batch.threads[0].sim
	if err := e.batch.swapIn(s, row); err != nil {
		return b, err
	}
	s.Read(&e.batch.out[row])
	e.batch.good(row)
	e.look(row)
	return b, nil
}
