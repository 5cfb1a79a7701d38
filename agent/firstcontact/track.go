package firstcontact

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// smoothing is over so many seconds: a person's motions are slower, noise is not.
const smoothing = 0.05

// moveTrack finds which of n values moves, and how far, away from where they settled and from where they all hung at rest. What comes back
// there, and all that lies between the two, counts for nothing: a leg that was let go creeps for seconds, and one that was held out before,
// and then let go, would seem to be moved the other way; and where it hung at rest is not known so well that what went through there and
// comes back to where it settled were a move.
type moveTrack struct {
	n, asked    int
	still, want float64
	near        float64             // so far from home the asked one may be when it is asked for
	home        [go1.Joints]float64 // at rest
	homeSeen    bool
	begun       bool
	v           [go1.Joints]float64 // smoothed

	anchored bool
	anchor   [go1.Joints]float64
	anchorNs int64
	sum      [go1.Joints]float64
	count    int
	base     [go1.Joints]float64 // where it settled
	asking   bool
	back     bool    // the asked one is not near home yet
	off      bool    // nor was it when it was asked for
	askedNs  int64   // since when it is asked for
	reach    float64 // of the asked one away from its base, at most, either way

	most    int // now
	value   float64
	blurNow bool
	peakOf  int
	peak    [go1.Joints]float64
	peakNs  int64
	blurred bool // several moved, and never one alone
	blur    [go1.Joints]float64

	speed  [go1.Joints]float64 // smoothed as v is
	ways   [go1.Joints]way     // since each left where its moves are counted from
	atPeak way
	swing  [go1.Joints]float64 // what the speeds sum up to, forgotten within swingS
	swung  [go1.Joints]float64 // at most
}

// way is a part of a move: how far by the value itself, and by its speed.
type way struct{ from, by, bySpeed, seconds float64 }

const swingS = 2.0

// follow sums the speeds up.
func (m *moveTrack) follow(dt float64, raw *[go1.Joints]float64) {
	by := min(1, dt/smoothing)
	for i := range m.n {
		m.speed[i] += (raw[i] - m.speed[i]) * by
		w := &m.ways[i]
		w.bySpeed += m.speed[i] * dt
		w.seconds += dt
		w.by = m.v[i] - w.from
		m.swing[i] = (m.swing[i] + m.speed[i]*dt) * (1 - dt/swingS)
		m.swung[i] = max(m.swung[i], math.Abs(m.swing[i]))
	}
}

// update takes the values of a state, and their speeds, 0 where they have none.
func (m *moveTrack) update(nowNs int64, dt float64, raw, speed *[go1.Joints]float64) Phase {
	v := &m.v
	if by := min(1, dt/smoothing); !m.begun {
		m.begun, m.v = true, *raw
	} else {
		for i := range m.n {
			v[i] += (raw[i] - v[i]) * by
		}
	}
	m.follow(dt, speed)
	m.stand(nowNs, v)
	// What was let go only after it was asked for, is home and stays there: now it is asked for from there.
	if m.asking && m.off && m.peakNs == 0 && nowNs-m.anchorNs >= staysNs && math.Abs(v[m.asked]-m.home[m.asked]) <= m.near/2 {
		m.asking = false
	}
	if !m.asking {
		m.most, m.value = -1, 0
		m.settle(nowNs, v)
		return Settling
	}
	m.back = false
	m.reach = max(m.reach, math.Abs(v[m.asked]-m.base[m.asked]))
	first, second := -1, 0.0
	var d [go1.Joints]float64
	for i := range m.n {
		d[i] = m.away(i, v[i])
		if math.Abs(d[i]) < leavesBase*m.want {
			m.ways[i] = way{from: v[i]}
		}
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
		m.peakOf, m.peak, m.peakNs, m.atPeak = first, d, nowNs, m.ways[first]
	}
	if m.peakNs != 0 && (nowNs-m.peakNs > holdNs || math.Abs(d[m.peakOf]) < over*math.Abs(m.peak[m.peakOf])) {
		return Done
	}
	return Asking
}

// away is how far value i has gone away from where it settled and from home, 0 between the two.
func (m *moveTrack) away(i int, v float64) float64 {
	lo, hi := min(m.base[i], m.home[i]), max(m.base[i], m.home[i])
	return v - min(max(v, lo), hi)
}

// stand follows since when nothing has moved, and where.
func (m *moveTrack) stand(nowNs int64, v *[go1.Joints]float64) {
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
}

// settle waits until nothing has moved for a while, and the asked one is near home, and takes that as the base. Where it stays away from
// home, friction holds it, or a hand that waits to be asked: then it is asked for all the same, since the way back counts for nothing.
func (m *moveTrack) settle(nowNs int64, v *[go1.Joints]float64) {
	wait, near := stillNs, m.near
	if m.back {
		near *= 0.8 // it is not told twice for its noise
	}
	if off := v[m.asked] - m.home[m.asked]; m.homeSeen && math.Abs(off) > near {
		m.back, m.most, m.value, wait = true, m.asked, off, staysNs
	} else {
		m.back = false
	}
	if nowNs-m.anchorNs < wait {
		return
	}
	for i := range m.n {
		m.base[i] = m.sum[i] / float64(m.count)
		if !m.homeSeen {
			m.home[i] = m.base[i]
		}
	}
	m.asking, m.off = true, m.back
	if m.askedNs == 0 {
		m.askedNs = nowNs
	}
}

// stuckBits finds values whose bits never change while those of others do.
type stuckBits struct {
	n      int
	first  [go1.Joints]uint64
	moving [go1.Joints]bool
	angle  [go1.Joints]bool // of joints: the angle's bits change, not only the speed's
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
		b.angle[i] = b.angle[i] || bits[i]>>32 != b.first[i]>>32
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

// stood says that value i was seen, and stood still; allStood that all did.
func (b *stuckBits) stood(i int) bool { return b.seen && !b.moving[i] }

func (b *stuckBits) allStood() bool {
	return b.seen && b.moving == [go1.Joints]bool{}
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
