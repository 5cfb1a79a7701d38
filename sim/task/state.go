package task

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// What a row has beside its configuration is saved as its numbers, little endian and
// without names: a state is read back by the program and the configuration that wrote
// it, and checked as far as that allows.

func appendFloats(b []byte, x ...float64) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func appendFloat32s(b []byte, x []float32) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// stateReader takes numbers from the front of rest; after the first error it takes no
// more.
type stateReader struct {
	what string
	rest []byte
	err  error
}

func (s *stateReader) take(n int) []byte {
	if s.err == nil && len(s.rest) < n {
		s.err = fmt.Errorf("task: state of %s: it ends too early", s.what)
	}
	if s.err != nil {
		return nil
	}
	b := s.rest[:n]
	s.rest = s.rest[n:]
	return b
}

func (s *stateReader) floats(x ...*float64) {
	for _, p := range x {
		b := s.take(8)
		if b == nil {
			return
		}
		if *p = math.Float64frombits(binary.LittleEndian.Uint64(b)); *p-*p != 0 {
			s.err = fmt.Errorf("task: state of %s: it holds %v", s.what, *p)
		}
	}
}

func (s *stateReader) float32s(x []float32) {
	for i := range x {
		b := s.take(4)
		if b == nil {
			return
		}
		if x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b)); x[i]-x[i] != 0 {
			s.err = fmt.Errorf("task: state of %s: it holds %v", s.what, x[i])
		}
	}
}

func (s *stateReader) byte() byte {
	if b := s.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (s *stateReader) bool() bool {
	b := s.byte()
	if b > 1 && s.err == nil {
		s.err = fmt.Errorf("task: state of %s: it holds %d where 0 or 1 belongs", s.what, b)
	}
	return b == 1
}

func (s *stateReader) random(r *Rand) {
	if b := s.take(randState); b != nil {
		if err := r.UnmarshalBinary(b); err != nil {
			s.err = fmt.Errorf("task: state of %s: %w", s.what, err)
		}
	}
}

// AppendState appends the generator's state.
func (r *Rand) AppendState(b []byte) []byte {
	b, err := r.AppendBinary(b)
	if err != nil {
		panic(err) // a PCG can always be written
	}
	return b
}

// randState is the length of a generator's state, bytes.
const randState = 20

// RestoreState takes a state that AppendState wrote from the front of b. Refused bytes
// leave r as it was.
func (r *Rand) RestoreState(b []byte) (rest []byte, err error) {
	n, s := *r, stateReader{what: "random numbers", rest: b}
	s.random(&n)
	if s.err != nil {
		return b, s.err
	}
	*r = n
	return s.rest, nil
}

// AppendState appends the commander's state: the command, its age, what follows.
func (c *Commander) AppendState(b []byte) []byte {
	b = appendFloat32s(b, c.Now[:])
	b = appendFloats(b, c.Age, c.left)
	return c.rand.AppendState(b)
}

// RestoreState takes a state that AppendState wrote from the front of b, for a
// Commander with the same Commands. Refused bytes leave c as it was.
func (c *Commander) RestoreState(b []byte) (rest []byte, err error) {
	n, s := *c, stateReader{what: "a command", rest: b}
	s.float32s(n.Now[:])
	s.floats(&n.Age, &n.left)
	s.random(&n.rand)
	if s.err != nil {
		return b, s.err
	}
	*c = n
	return s.rest, nil
}

// AppendState appends what is on its way in the row: late readings and targets.
func (w *Row) AppendState(b []byte) []byte {
	b = w.rand.AppendState(b)
	b = append(b, byte(w.fault.ObsDelay), byte(w.fault.TargetDelay), byte(w.sensed))
	for i := range w.sensed {
		b = appendReading(b, &w.readings[i])
	}
	for i := range w.fault.TargetDelay {
		b = appendFloat32s(b, w.targets[i][:])
	}
	return appendFloat32s(b, w.held[:])
}

// RestoreState takes a state that AppendState wrote from the front of b, for a Row with
// the same Fault. Refused bytes leave w as it was.
func (w *Row) RestoreState(b []byte) (rest []byte, err error) {
	n, s := *w, stateReader{what: "a fault", rest: b}
	s.random(&n.rand)
	obs, target, sensed := int(s.byte()), int(s.byte()), int(s.byte())
	switch f := &w.fault; {
	case s.err != nil:
		return b, s.err
	case obs != f.ObsDelay || target != f.TargetDelay:
		return b, fmt.Errorf("task: state of a fault: of one with ObsDelay %d and TargetDelay %d, this one has %d and %d",
			obs, target, f.ObsDelay, f.TargetDelay)
	case sensed > obs:
		return b, fmt.Errorf("task: state of a fault: %d late readings, at most %d", sensed, obs)
	}
	n.sensed = sensed
	for i := range sensed {
		s.reading(&n.readings[i])
	}
	for i := range target {
		s.float32s(n.targets[i][:])
	}
	s.float32s(n.held[:])
	if s.err != nil {
		return b, s.err
	}
	*w = n
	return s.rest, nil
}

func appendReading(b []byte, r *go1.Reading) []byte {
	for _, x := range [...][]float32{r.Gyro[:], r.Gravity[:], r.LinVel[:], r.Q[:], r.Dq[:], r.Command[:], r.LastAction[:]} {
		b = appendFloat32s(b, x)
	}
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(r.Phase))
	if r.ClockOn {
		return append(b, 1)
	}
	return append(b, 0)
}

func (s *stateReader) reading(r *go1.Reading) {
	for _, x := range [...][]float32{r.Gyro[:], r.Gravity[:], r.LinVel[:], r.Q[:], r.Dq[:], r.Command[:], r.LastAction[:]} {
		s.float32s(x)
	}
	var phase [1]float32
	s.float32s(phase[:])
	r.Phase, r.ClockOn = phase[0], s.bool()
}

// AppendState appends the episode's numbers.
func (e *Episode) AppendState(b []byte) []byte {
	b = appendFloats(b, e.Friction, e.TrunkMass, e.TrunkCoM[0], e.TrunkCoM[1], e.TrunkCoM[2],
		e.Kp, e.Kd, e.Strength, e.Latency, e.NextPush)
	b = appendFloat32s(b, e.JointZero[:])
	b = appendFloat32s(b, e.GyroBias[:])
	return appendFloat32s(b, e.IMU[:])
}

// RestoreState takes a state that AppendState wrote from the front of b. Refused bytes
// leave e as it was.
func (e *Episode) RestoreState(b []byte) (rest []byte, err error) {
	n, s := *e, stateReader{what: "an episode", rest: b}
	s.floats(&n.Friction, &n.TrunkMass, &n.TrunkCoM[0], &n.TrunkCoM[1], &n.TrunkCoM[2],
		&n.Kp, &n.Kd, &n.Strength, &n.Latency, &n.NextPush)
	s.float32s(n.JointZero[:])
	s.float32s(n.GyroBias[:])
	s.float32s(n.IMU[:])
	if s.err != nil {
		return b, s.err
	}
	*e = n
	return s.rest, nil
}
