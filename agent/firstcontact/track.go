package firstcontact

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// smoothing is over so many seconds: a person's motions are slower, noise is not.
const smoothing = 0.05

// moveTrack finds which of n values moves, and how far, from where they all rested.
type moveTrack struct {
	n           int
	still, want float64
	begun       bool
	v           [go1.Joints]float64 // smoothed

	anchored bool
	anchor   [go1.Joints]float64
	anchorNs int64
	sum      [go1.Joints]float64
	count    int
	base     [go1.Joints]float64
	asking   bool

	most    int // now
	value   float64
	blurNow bool
	peakOf  int
	peak    [go1.Joints]float64
	peakNs  int64
	blurred bool // several moved, and never one alone
	blur    [go1.Joints]float64
}

func (m *moveTrack) update(nowNs int64, dt float64, raw *[go1.Joints]float64) Phase {
	v := &m.v
	if by := min(1, dt/smoothing); !m.begun {
		m.begun, m.v = true, *raw
	} else {
		for i := range m.n {
			v[i] += (raw[i] - v[i]) * by
		}
	}
	if !m.asking {
		m.most, m.value = -1, 0
		m.settle(nowNs, v)
		return Settling
	}
	first, second := -1, 0.0
	var d [go1.Joints]float64
	for i := range m.n {
		d[i] = v[i] - m.base[i]
		switch {
		case first < 0 || math.Abs(d[i]) > math.Abs(d[first]):
			if first >= 0 {
				second = math.Abs(d[first])
			}
			first = i
		default:
			second = max(second, math.Abs(d[i]))
		}
	}
	m.most, m.value = first, d[first]
	far := math.Abs(d[first])
	m.blurNow = far >= m.want/2 && second*alone > far
	switch {
	case far < m.want:
	case m.blurNow:
		if m.peakNs == 0 {
			m.blurred, m.blur = true, d
		}
	case m.peakNs == 0 || m.peakOf != first || far > math.Abs(m.peak[first])*1.02:
		m.peakOf, m.peak, m.peakNs = first, d, nowNs
	}
	if m.peakNs != 0 && (nowNs-m.peakNs > holdNs || math.Abs(d[m.peakOf]) < over*math.Abs(m.peak[m.peakOf])) {
		return Done
	}
	return Asking
}

// settle waits until nothing has moved for a while, and takes that as the base.
func (m *moveTrack) settle(nowNs int64, v *[go1.Joints]float64) {
	for i := range m.n {
		if !m.anchored || math.Abs(v[i]-m.anchor[i]) > m.still {
			m.anchored, m.anchor, m.anchorNs = true, *v, nowNs
			m.sum, m.count = [go1.Joints]float64{}, 0
			break
		}
	}
	m.count++
	for i := range m.n {
		m.sum[i] += v[i]
	}
	if nowNs-m.anchorNs < stillNs {
		return
	}
	for i := range m.n {
		m.base[i] = m.sum[i] / float64(m.count)
	}
	m.asking = true
}

// stuckBits finds values whose bits never change while those of others do.
type stuckBits struct {
	n      int
	first  [go1.Joints]uint64
	moving [go1.Joints]bool
	seen   bool
}

func (b *stuckBits) add(n int, bits *[go1.Joints]uint64) {
	b.n = n
	if !b.seen {
		b.seen, b.first = true, *bits
		return
	}
	for i := range n {
		b.moving[i] = b.moving[i] || bits[i] != b.first[i]
	}
}

func (b *stuckBits) joints(s *wire.LowState) {
	var bits [go1.Joints]uint64
	for i := range bits {
		bits[i] = uint64(math.Float32bits(s.Motor[i].Q))<<32 | uint64(math.Float32bits(s.Motor[i].Dq))
	}
	b.add(go1.Joints, &bits)
}

func (b *stuckBits) feet(s *wire.LowState) {
	var bits [go1.Joints]uint64
	for i, f := range s.FootForce {
		bits[i] = uint64(uint16(f))
	}
	b.add(go1.Legs, &bits)
}

// alone says that value i stands still and most others do not.
func (b *stuckBits) alone(i int) bool {
	moving := 0
	for k := range b.n {
		if b.moving[k] {
			moving++
		}
	}
	return !b.moving[i] && moving*2 > b.n
}

// turnTrack follows orientation, gyroscope and accelerometer through a motion.
type turnTrack struct {
	acc       vec  // smoothed
	q         quat // smoothed
	quatStill float64
	accStill  float64
	anchorAcc vec
	anchorQ   quat
	anchorNs  int64
	asking    bool
	// home is where the step's first try began; a second one begins there, too.
	home     quat
	homeSeen bool
	quatDead bool // the quaternion stood still in the motions before

	from    quat
	accFrom vec
	fromNs  int64
	gyro    vec // integral; no quaternion, which would wrap where the unit is degrees
	peak    float64
	peakNs  int64
	at      TurnFigures // at the peak
}

func accOf(s *wire.LowState) (a vec) {
	for i, v := range s.IMU.Accelerometer {
		a[i] = finite(v)
	}
	return a
}

func quatOf(s *wire.LowState) quat {
	var q quat
	for i, v := range s.IMU.Quaternion {
		q[i] = finite(v)
	}
	q, _ = unitQuat(q)
	return q
}

// motion follows one of the three turns of the body.
func (e *Examiner) motion(nowNs int64, dt float64, s *wire.LowState, st *Status) {
	t := &e.turn
	raw, a := quatOf(s), accOf(s)
	by := min(1, dt/smoothing)
	for i := range a {
		t.acc[i] += (a[i] - t.acc[i]) * by
	}
	side := 1.0 // q and -q are one attitude
	if t.q[0]*raw[0]+t.q[1]*raw[1]+t.q[2]*raw[2]+t.q[3]*raw[3] < 0 {
		side = -1
	}
	for i := range raw {
		t.q[i] += (side*raw[i] - t.q[i]) * by
	}
	q, _ := unitQuat(t.q)
	st.Want = turnWant
	if !t.asking {
		st.Value = angle(t.acc, e.restAcc())
		if angle(t.acc, t.anchorAcc) > t.accStill || norm(turned(t.anchorQ, q)) > t.quatStill || angle(t.acc, e.restAcc()) > turnLevel+t.accStill ||
			t.homeSeen && norm(turned(t.home, q)) > turnLevel+t.quatStill {
			t.anchorAcc, t.anchorQ, t.anchorNs = t.acc, q, nowNs
		}
		if nowNs-t.anchorNs < stillNs {
			return
		}
		t.asking, t.from, t.accFrom, t.fromNs = true, q, t.acc, nowNs
		if !t.homeSeen {
			t.home, t.homeSeen = q, true
		}
		e.phase = Asking
		return
	}
	for i, v := range s.IMU.Gyroscope {
		t.gyro[i] += (finite(v) - e.rec.Rest.Gyro[i].Mean) * dt
	}

	by3 := turned(t.from, q)
	far := norm(by3)
	asked := motion[e.step.index()]
	if fa := angle(t.acc, t.accFrom); far < turnWant/2 && asked.axis != 2 {
		far = fa // an orientation that stands still, and gravity that moves
	} else if t.quatDead { // of yaw nothing else tells
		far = norm(t.gyro)
	}
	st.Moved, st.Value = 0, by3[0]
	for i := range by3 {
		if math.Abs(by3[i]) > math.Abs(st.Value) {
			st.Moved, st.Value = i, by3[i]
		}
	}
	if far > t.peak*1.02 || t.peakNs == 0 {
		t.peak, t.peakNs = far, nowNs
		t.at = TurnFigures{
			Seconds: float64(nowNs-t.fromNs) / 1e9,
			From:    t.from, To: q, AccFrom: t.accFrom, AccTo: t.acc, Gyro: t.gyro,
		}
	}
	if t.peak < turnWant || nowNs-t.peakNs <= holdNs && far >= over*t.peak {
		return
	}
	f := &e.rec.Motions[e.step.index()]
	*f = t.at
	f.Tries = e.tries + 1
	said := see(f, false)
	if said.right(e.step.index()) {
		e.end(Passed)
	} else {
		e.wrong(nowNs, s)
	}
}

// restAcc is what the accelerometer said at rest; the present where it said nothing.
func (e *Examiner) restAcc() vec {
	a := vec{e.rec.Rest.Acc[0].Mean, e.rec.Rest.Acc[1].Mean, e.rec.Rest.Acc[2].Mean}
	if norm(a) < 1e-6 {
		return e.turn.acc
	}
	return a
}
