package go1

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// Reading is one moment of one robot, as far as observations need it. Joints are
// in SDK order.
type Reading struct {
	Gyro    [3]float32 // rad/s, body frame
	Gravity [3]float32 // direction in the body's frame, upright (0, 0, -1)
	LinVel  [3]float32 // m/s, body frame, at the IMU: estimated on a robot
	Q, Dq   [Joints]float32
	Command [3]float32 // vx, vy (m/s), wz (rad/s)
	// LastAction is the previous network output in policy order, before scale.
	LastAction [Joints]float32
	Phase      float32 // gait clock, cycles 0..1
	ClockOn    bool    // false while the clock stands
}

// Term is what an observation term means.
type Term struct {
	Name   string
	Size   int
	Unit   string
	Doc    string
	Sensed bool // the robot's own sensors give it; otherwise it is estimated
	Mirror Mirror
	fill   func(o *Observer, r *Reading, out []float32)
}

// Terms are the observation terms of a Go1 that only its own computer has to
// know; the names are mjlab's and Isaac Lab's. Simulators add privileged terms
// by Extra.
var Terms = []Term{
	{Name: "base_lin_vel", Size: 3, Unit: "m/s", Doc: "velocity of the IMU, body frame", Sensed: false, Mirror: polar,
		fill: func(_ *Observer, r *Reading, out []float32) { copy(out, r.LinVel[:]) }},
	{Name: "base_ang_vel", Size: 3, Unit: "rad/s", Doc: "gyroscope, body frame", Sensed: true, Mirror: axial,
		fill: func(_ *Observer, r *Reading, out []float32) { copy(out, r.Gyro[:]) }},
	{Name: "projected_gravity", Size: 3, Unit: "1", Doc: "direction of gravity, body frame; upright is 0, 0, -1", Sensed: true, Mirror: polar,
		fill: func(_ *Observer, r *Reading, out []float32) { copy(out, r.Gravity[:]) }},
	{Name: "joint_pos", Size: Joints, Unit: "rad", Doc: "joint angle minus home, policy order", Sensed: true, Mirror: byJoint,
		fill: func(o *Observer, r *Reading, out []float32) {
			for i, m := range o.motor {
				out[i] = r.Q[m] - o.home[i]
			}
		}},
	{Name: "joint_vel", Size: Joints, Unit: "rad/s", Doc: "joint speed, policy order", Sensed: true, Mirror: byJoint,
		fill: func(o *Observer, r *Reading, out []float32) {
			for i, m := range o.motor {
				out[i] = r.Dq[m]
			}
		}},
	{Name: "actions", Size: Joints, Unit: "1", Doc: "previous network output, policy order, before scale", Sensed: true, Mirror: byJoint,
		fill: func(_ *Observer, r *Reading, out []float32) { copy(out, r.LastAction[:]) }},
	{Name: "command", Size: 3, Unit: "m/s, m/s, rad/s", Doc: "commanded vx, vy, yaw rate", Sensed: true, Mirror: planar,
		fill: func(_ *Observer, r *Reading, out []float32) { copy(out, r.Command[:]) }},
	{Name: "clock", Size: 2, Unit: "1", Doc: "sine and cosine of the gait clock; 0, 0 while it stands", Sensed: true, Mirror: opposite,
		fill: func(_ *Observer, r *Reading, out []float32) {
			if !r.ClockOn {
				out[0], out[1] = 0, 0
				return
			}
			s, c := math.Sincos(2 * math.Pi * float64(r.Phase))
			out[0], out[1] = float32(s), float32(c)
		}},
}

// TermByName finds a term; nil if there is none.
func TermByName(name string) *Term {
	for i := range Terms {
		if Terms[i].Name == name {
			return &Terms[i]
		}
	}
	return nil
}

// Extra knows terms that only a simulator can give. It is asked once, when an
// Observer is made, for each name that TermByName lacks, and answers with the
// term's size and a function that fills out with a row's numbers; nil if it does
// not know the name either.
type Extra func(term string) (size int, fill func(row int, out []float32))

// Observer turns Readings into one group's observation: scale, clip, history and
// layout as the Spec says. It keeps the history of its rows. After New it does
// not allocate. Different rows may be used from different goroutines at a time.
type Observer struct {
	group  rollout.Group
	motor  [Joints]int // SDK index of each policy joint
	home   [Joints]float32
	terms  []obsTerm
	dim    int // one row of observation
	frame  int // one frame of all terms
	maxLen int // frames kept
	hist   []float32
	filled []int32 // frames since reset, per row, at most maxLen
}

type obsTerm struct {
	rollout.Term
	fill   func(o *Observer, r *Reading, out []float32) // nil: extra
	extra  func(row int, out []float32)
	at     int // offset in a frame
	out    int // offset in the observation (ByTerm)
	newest bool
	zero   bool
}

// NewObserver builds the observer of spec's group for rows. A term that is
// neither in Terms nor taken by extra (nil: none) is an error that names it.
func NewObserver(spec *rollout.Spec, group string, rows int, extra Extra) (*Observer, error) {
	g := spec.Group(group)
	if g == nil {
		return nil, fmt.Errorf("go1: group %s: not in the spec", group)
	}
	o := &Observer{group: *g, dim: g.Size(), filled: make([]int32, rows)}
	motor, err := MotorOrder(spec.Joints)
	if err != nil {
		return nil, err
	}
	o.motor = motor
	copy(o.home[:], spec.Home)
	at := 0
	for _, t := range g.Terms {
		ot := obsTerm{Term: t, at: o.frame, out: at, newest: t.Order == rollout.NewestFirst, zero: t.Fill == rollout.FillZero}
		size := 0
		if def := TermByName(t.Name); def != nil {
			size, ot.fill = def.Size, def.fill
		} else if extra != nil {
			size, ot.extra = extra(t.Name)
		}
		switch {
		case ot.fill == nil && ot.extra == nil:
			return nil, fmt.Errorf("go1: group %s, term %s: not known", group, t.Name)
		case size != t.Size:
			return nil, fmt.Errorf("go1: group %s, term %s: size %d, want %d", group, t.Name, t.Size, size)
		}
		o.terms = append(o.terms, ot)
		o.frame += t.Size
		at += t.Size * t.History
		o.maxLen = max(o.maxLen, t.History)
	}
	o.hist = make([]float32, rows*o.maxLen*o.frame)
	return o, nil
}

// Dim is the length of one row's observation.
func (o *Observer) Dim() int { return o.dim }

// Reset forgets a row's history; the next Observe begins an episode.
func (o *Observer) Reset(row int) { o.filled[row] = 0 }

// Observe takes one frame of row into its history and writes its observation,
// Dim numbers, into out.
func (o *Observer) Observe(row int, r *Reading, out []float32) {
	h := o.history(row)
	if o.maxLen > 1 {
		copy(h[o.frame:], h[:(o.maxLen-1)*o.frame]) // frame 0 is the newest
	}
	now := h[:o.frame]
	for i := range o.terms {
		t := &o.terms[i]
		v := now[t.at : t.at+t.Size]
		if t.fill != nil {
			t.fill(o, r, v)
		} else {
			t.extra(row, v)
		}
		for k := range v {
			v[k] *= t.Scale
			if t.Clip != nil {
				v[k] = min(max(v[k], t.Clip[0]), t.Clip[1])
			}
		}
	}
	if o.filled[row] == 0 {
		for f := 1; f < o.maxLen; f++ {
			past := h[f*o.frame : (f+1)*o.frame]
			for i := range o.terms {
				t := &o.terms[i]
				if t.zero {
					clear(past[t.at : t.at+t.Size])
				} else {
					copy(past[t.at:t.at+t.Size], now[t.at:])
				}
			}
		}
	}
	o.filled[row] = min(o.filled[row]+1, int32(o.maxLen))
	o.write(h, out)
}

// Show writes row's observation, Dim numbers, as its last Observe did.
func (o *Observer) Show(row int, out []float32) { o.write(o.history(row), out) }

func (o *Observer) history(row int) []float32 {
	n := o.maxLen * o.frame
	return o.hist[row*n : (row+1)*n]
}

// AppendState appends row's history, little endian.
func (o *Observer) AppendState(row int, b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(o.filled[row]))
	for _, x := range o.history(row) {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// RestoreState takes a history that AppendState of the same contract wrote from
// the front of b. Bytes that cannot be one are refused and change nothing.
func (o *Observer) RestoreState(row int, b []byte) (rest []byte, err error) {
	h := o.history(row)
	size := 4 + 4*len(h)
	if len(b) < size {
		return b, fmt.Errorf("go1: group %s: history of %d bytes, want %d", o.group.Name, len(b), size)
	}
	filled := binary.LittleEndian.Uint32(b)
	if filled > uint32(o.maxLen) {
		return b, fmt.Errorf("go1: group %s: history of %d frames, want at most %d", o.group.Name, filled, o.maxLen)
	}
	for i := range h {
		if x := math.Float32frombits(binary.LittleEndian.Uint32(b[4+4*i:])); x-x != 0 {
			return b, fmt.Errorf("go1: group %s: number %d of history is %v", o.group.Name, i, x)
		}
	}
	o.filled[row] = int32(filled)
	for i := range h {
		h[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4+4*i:]))
	}
	return b[size:], nil
}

// write lays the history out as the group asks.
func (o *Observer) write(h, out []float32) {
	for i := range o.terms {
		t := &o.terms[i]
		for k := range t.History {
			age := t.History - 1 - k
			if t.newest {
				age = k
			}
			at := t.out + k*t.Size
			if o.group.Layout == rollout.ByFrame {
				at = k*o.frame + t.at
			}
			copy(out[at:at+t.Size], h[age*o.frame+t.at:age*o.frame+t.at+t.Size])
		}
	}
}

// MotorOrder gives the SDK index of each named joint; every joint of the Go1
// must be named once.
func MotorOrder(names []string) (order [Joints]int, err error) {
	if len(names) != Joints {
		return order, fmt.Errorf("go1: joints: %d named, the robot has %d", len(names), Joints)
	}
	var seen [Joints]bool
	for i, n := range names {
		m := JointIndex(n)
		if m < 0 {
			return order, fmt.Errorf("go1: joints: %q is not a joint of the Go1", n)
		}
		if seen[m] {
			return order, fmt.Errorf("go1: joints: %s named twice", n)
		}
		seen[m] = true
		order[i] = m
	}
	return order, nil
}

// ClockState is a running gait clock.
type ClockState struct {
	rollout.Clock
	Phase float32 // cycles, 0..1
	On    bool
}

// Reset puts the clock at its start.
func (c *ClockState) Reset() { c.Phase, c.On = c.Start, false }

// Advance lets dt seconds pass under a command; the clock stands at or below
// MinCommand.
func (c *ClockState) Advance(command *[3]float32, dt float32) {
	size := abs32(command[0]) + abs32(command[1]) + abs32(command[2])
	c.On = c.Hz > 0 && size > c.MinCommand
	if !c.On {
		return
	}
	c.Phase += c.Hz * dt
	c.Phase -= float32(math.Floor(float64(c.Phase)))
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
