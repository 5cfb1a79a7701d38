//go:build torch

package algo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/openclaw-rl/openclaw/learner/buffer"
)

// storage is what one iteration collects. With Config.Async there are two: one is filled while
// the other is learnt from.
type storage struct {
	buf      *buffer.Buffer
	std      []float32 // of the policy that its ratios are taken against, (Act)
	labelStd []float32 // of the teacher's own actions, (Act), where it has one
	final    []uint16  // critic's last observations of rows that timed out
	finalAt  []int32   // their transitions
	last     []uint16  // critic's observation after the last step
	sums     tally
}

// tally is what an iteration adds up.
type tally struct {
	metrics []float64
	counts
}

// counts is the part of a tally of fixed size.
type counts struct {
	MetricSteps    int64
	Episodes       int64
	Falls          int64
	Length, Earned float64 // of episodes that ended
	Reward         float64
	BadRows        int64
	Saturated, NaN int64

	// Time, s: in all, in Act, and in the Env's Step.
	CollectS, PolicyS, PhysicsS float64
}

func newStorage(shape buffer.Shape, metrics int) (*storage, error) {
	b, err := buffer.New(shape)
	if err != nil {
		return nil, err
	}
	return &storage{buf: b, std: make([]float32, shape.Act), last: make([]uint16, shape.Rows*shape.Critic),
		sums: tally{metrics: make([]float64, metrics)}}, nil
}

// begin makes s empty.
func (s *storage) begin() {
	s.final, s.finalAt = s.final[:0], s.finalAt[:0]
	clear(s.sums.metrics)
	s.sums.counts = counts{}
}

// round rounds x in place to what fp16 holds and stores it.
func (s *storage) round(x []float32, dst []uint16) {
	r := buffer.Round(x)
	s.sums.Saturated += int64(r.Saturated)
	s.sums.NaN += int64(r.NaN)
	buffer.Encode(dst, x)
}

// parts are what collecting wrote, but for what has no fixed length.
func (s *storage) parts() []any {
	b := s.buf
	return []any{b.PolicyObs, b.CriticObs, b.Action, b.Label, b.Mean, b.LogProb, b.Reward, b.Rho, b.Terminated, b.TimedOut, b.Valid,
		b.Labelled, b.Teacher, s.std, s.last, s.sums.metrics, &s.sums.counts}
}

// lists are the lengths of what has none, in the order that they are saved in.
func (s *storage) lists() [2]int32 { return [2]int32{int32(len(s.labelStd)), int32(len(s.finalAt))} }

// appendState appends what was collected: all that learning from it reads.
func (s *storage) appendState(b []byte) ([]byte, error) {
	var err error
	for _, part := range append([]any{s.lists(), s.labelStd, s.finalAt, s.final}, s.parts()...) {
		if b, err = binary.Append(b, binary.LittleEndian, part); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// restore takes over what appendState gave. After an error s is to be filled anew.
func (s *storage) restore(data []byte) error {
	var lists [2]int32
	in := bytes.NewReader(data)
	if err := binary.Read(in, binary.LittleEndian, &lists); err != nil {
		return err
	}
	act, all := int32(s.buf.Act), int32(s.buf.Steps*s.buf.Rows)
	if stds, finals := lists[0], lists[1]; stds != 0 && stds != act || finals < 0 || finals > all {
		return fmt.Errorf("%d deviations of a teacher and %d last observations, want 0 or %d and at most %d", stds, finals, act, all)
	}
	s.labelStd, s.finalAt, s.final = make([]float32, lists[0]), make([]int32, lists[1]), make([]uint16, int(lists[1])*s.buf.Critic)
	if lists[0] == 0 {
		s.labelStd = nil
	}
	for _, part := range append([]any{s.labelStd, s.finalAt, s.final}, s.parts()...) {
		if err := binary.Read(in, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	if _, err := in.ReadByte(); err != io.EOF {
		return fmt.Errorf("%d bytes, %d too many: another number of rows or steps?", len(data), in.Len()+1)
	}
	for _, at := range s.finalAt {
		if at < 0 || at >= all {
			return fmt.Errorf("a last observation of transition %d, want 0..%d", at, all-1)
		}
	}
	return nil
}
