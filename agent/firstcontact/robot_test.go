package firstcontact

import (
	"cmp"
	"math"
	"math/rand/v2"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// hung is a hanging robot without physics, and the person beside it: what is asked for happens, with a little noise.
type hung struct {
	draw  *rand.Rand
	nowNs int64
	acts  []act
	last  [go1.Joints]float64
	wrong func(*wire.LowState)                  // what is wrong with its sensors and wires
	errs  func(s Step, try int) (Step, float64) // what the person does instead, and the sign
	hand  func(s Step) hand                     // how
	slow  int64                                 // ns until the person begins
}

// hand is how a person moves something.
type hand struct {
	wayNs  int64   // that it takes there, and back
	stayNs int64   // that it is held there
	creepS float64 // time constant of the way back of what is let go; 0: the hand takes it back
}

// act is a movement there and back.
type act struct {
	step   Step
	fromNs int64
	size   float64
	mask   uint16
	stick  [4]float64
	by     hand
}

const actNs = int64(800e6)

// along is how far the act has come, 0 to 1 and back.
func (a *act) along(nowNs int64) float64 {
	way := cmp.Or(a.by.wayNs, actNs/2)
	t := nowNs - a.fromNs
	back := t - way - a.by.stayNs
	switch {
	case back > 0 && a.by.creepS > 0:
		return math.Exp(-float64(back) / 1e9 / a.by.creepS)
	case back > 0:
		t = way - back
	default:
		t = min(t, way)
	}
	s := math.Sin(math.Pi / 2 * float64(max(t, 0)) / float64(way))
	return s * s
}

func newHung(seed uint64) *hung { return &hung{draw: rand.New(rand.NewPCG(seed, 7)), nowNs: 5e9} }

func (h *hung) ask(s Step, part, try int) {
	size, does := 1.0, s
	if h.errs != nil {
		does, size = h.errs(s, try)
	}
	a := act{step: does, fromNs: h.nowNs + 50e6 + h.slow, size: size}
	if h.hand != nil {
		a.by = h.hand(s)
	}
	switch does {
	case RemoteStop:
		a.mask = stopButtons
	case RemoteButtons:
		a.mask = asked[part]
	case RemoteSticks:
		a.stick[sticks[part].axis] = sticks[part].sign
	}
	h.acts = append(h.acts, a)
}

// state is the next one, 2 ms on.
func (h *hung) state(s *wire.LowState) {
	const dt = 0.002
	h.nowNs += 2e6
	noise := func(sd float64) float32 { return float32(sd * h.draw.NormFloat64()) }
	s.Init()
	s.Tick = uint32(h.nowNs / 1e6)
	s.SN = [2]uint32{7, 9}
	attitude := func(nowNs int64) quat {
		q := quat{math.Cos(0.2), 0, 0, math.Sin(0.2)} // it does not hang with its nose to the north
		for i := range h.acts {
			a := &h.acts[i]
			if a.step.Group() == Motions {
				m := motion[a.step.index()]
				half := 0.45 * a.size * m.sign * a.along(nowNs) / 2
				by := quat{math.Cos(half)}
				by[1+m.axis] = math.Sin(half)
				q = mul(q, by)
			}
		}
		return q
	}
	q := attitude(h.nowNs)
	w := turned(attitude(h.nowNs-2e6), q)
	g := down(q)
	for i := range q {
		s.IMU.Quaternion[i] = float32(q[i]) + noise(1e-5)
	}
	for i := range 3 {
		s.IMU.Gyroscope[i] = float32(w[i]/dt) + noise(0.01) + 0.003
		s.IMU.Accelerometer[i] = float32(-9.81*g[i]) + noise(0.05)
	}
	s.IMU.Temperature = 40
	hang := [go1.JointsInLeg]float64{0.02, 0.45, -0.9}
	for j := range go1.Joints {
		at := hang[j%go1.JointsInLeg]
		for i := range h.acts {
			if a := &h.acts[i]; a.step == FirstJoint+Step(j) {
				at += 0.35 * a.size * handSign(j) * a.along(h.nowNs)
			}
		}
		s.Motor[j] = wire.MotorState{Mode: wire.ModeServo, Q: float32(math.Round(at/3e-5) * 3e-5), Dq: float32((at-h.last[j])/dt) + noise(0.05), Temperature: 30}
		h.last[j] = at
	}
	for leg := range go1.Legs {
		f := 20 + float64(noise(1.5))
		for i := range h.acts {
			if a := &h.acts[i]; a.step == FirstFoot+Step(leg) {
				f += 100 * a.size * a.along(h.nowNs)
			}
		}
		s.FootForce[leg] = int16(f)
	}
	s.BMS = wire.BMS{SOC: 80}
	for i := range 6 {
		s.BMS.CellVoltage[i] = 3904
	}
	r := wire.Remote{Head: [2]byte{wire.RemoteHead0, wire.RemoteHead1}}
	for i := range h.acts {
		if a := &h.acts[i]; a.along(h.nowNs) > 0.1 {
			r.Buttons |= a.mask
			if a.stick != [4]float64{} {
				by := a.size * a.along(h.nowNs)
				r.Lx, r.Ly, r.Rx, r.Ry = float32(a.stick[0]*by), float32(a.stick[1]*by), float32(a.stick[2]*by), float32(a.stick[3]*by)
			}
		}
	}
	copy(s.Remote[:], wire.AppendRemote(nil, &r))
	if h.wrong != nil {
		h.wrong(s)
	}
}

// examine goes through the steps that are neither kept nor left out.
func (h *hung) examine(e *Examiner, skip ...Group) *Record {
	var s wire.LowState
	h.state(&s)
	for step := range Step(StepCount) {
		left := false
		for _, g := range skip {
			left = left || g == step.Group()
		}
		if left {
			e.Skip(step)
			continue
		}
		if e.Kept(step) || !e.Begin(step) {
			continue
		}
		for {
			h.state(&s)
			st := e.Add(h.nowNs, &s)
			if st.Phase == Done {
				break
			}
			if st.Phase == Asking && st.Changed && step.Group() != Automatic {
				h.ask(step, st.Part, st.Tries)
			}
		}
	}
	return e.Record()
}
