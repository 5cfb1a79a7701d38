package firstcontact

import (
	"math"
	"math/bits"
	"slices"
)

// seen is what each sensor says of one motion, as a rotation vector in the body's frame.
type seen struct {
	quat, gyro, acc vec
}

// see reads a motion, its quaternions as they came or as x y z w. What the body turned about the vertical while it was tipped is left
// out: it hangs on a rope.
func see(f *TurnFigures, axis int, otherOrder bool) (s seen) {
	from, to := f.From, f.To
	if otherOrder {
		from, to = reordered(from), reordered(to)
	}
	s.quat, s.gyro = turned(from, to), f.Gyro
	s.acc = tipped(f.AccFrom, f.AccTo)
	if axis == 2 {
		return s
	}
	vertical := down(from)
	if by := tipped(vertical, down(to)); norm(by) >= noTurn {
		s.quat = by
	}
	if by := across(s.gyro, vertical); norm(by) >= noTurn {
		s.gyro = by
	}
	return s
}

// tipped is the least rotation vector of a body in whose frame the vertical went from a to b: what gravity did there, the body did the
// other way round.
func tipped(a, b vec) vec {
	a, okA := unit(a)
	b, okB := unit(b)
	axis, ok := unit(cross(b, a))
	if !ok || !okA || !okB {
		return vec{}
	}
	by := angle(b, a)
	return vec{axis[0] * by, axis[1] * by, axis[2] * by}
}

// across is what of v is across a unit vector.
func across(v, to vec) vec {
	by := dot(v, to)
	return vec{v[0] - by*to[0], v[1] - by*to[1], v[2] - by*to[2]}
}

// A turn counts as one about an axis when so much of it is; two turns agree in size within a factor, and in direction within an angle.
const (
	mostly  = 0.8
	sizesLo = 0.7
	sizesHi = 1.4
	aside   = 0.45 // rad between what gyroscope and orientation say
	noTurn  = 0.1  // rad: a sensor that says less, while the body turned, says nothing
	// accAside is how far gravity may be from where the orientation has it, as a share of the turn. Within the bounds, rad: a gantry
	// shakes, and a turn that is only half as it should be is none.
	accAside, accAsideLo, accAsideHi = 0.6, 0.15, 0.35
	// turnedFrom is the angle by which an IMU is turned about its vertical axis that is no person's want of care, as pitch and roll show
	// it together, and turnedEach what each of them shows at least. They are the same turn while they are no further apart than turnedApart.
	turnedFrom, turnedEach, turnedApart = 0.26, 0.17, 0.5 // rad
)

// about is the sense in which a turn is about an axis; 0 if it is about another one, or none.
func about(v vec, axis int) int {
	n := norm(v)
	switch {
	case n < noTurn:
		return 0
	case v[axis] > mostly*n:
		return 1
	case v[axis] < -mostly*n:
		return -1
	}
	return 0
}

// cause is why a motion is not the one that was asked for, as bits. Each has its name in turnsSay.verdicts.
type cause uint8

const (
	quatNone cause = 1 << iota // the orientation did not turn
	quatAway                   // it turned about another axis, or the other way
	gyroNone                   // the gyroscope said nothing
	gyroSign                   // it turned the other way than the orientation
	gyroAway                   // it turned about another axis
	gyroSize                   // it turned by another angle
	accAway                    // gravity did not go with the orientation
	quatSkew                   // pitch and roll are off alike, as of an IMU that is mounted turned
)

// causes judges a motion by itself; 0: all sensors show what was asked for.
func (s *seen) causes(i int) (c cause) {
	m := motion[i]
	by, gyro := norm(s.quat), norm(s.gyro)
	off := 0.0 // of the gyroscope from the orientation
	switch {
	case by < noTurn:
		c |= quatNone
	case about(s.quat, m.axis) != int(m.sign):
		c |= quatAway
	}
	if by >= noTurn {
		off = angle(s.gyro, s.quat)
	}
	switch {
	case gyro < max(by, turnWant)/5:
		c |= gyroNone
	case c != 0 && about(s.gyro, m.axis) == int(m.sign): // then it is the orientation that is off
	case off > math.Pi-aside:
		c |= gyroSign
	case off > aside:
		c |= gyroAway
	case by >= noTurn && !(gyro > sizesLo*by && gyro < sizesHi*by):
		c |= gyroSize
	}
	if m.axis != 2 {
		d := vec{s.acc[0] - s.quat[0], s.acc[1] - s.quat[1], s.acc[2] - s.quat[2]}
		if by < noTurn && about(s.acc, m.axis) != int(m.sign) || by >= noTurn && norm(d) > min(max(accAside*by, accAsideLo), accAsideHi) {
			c |= accAway
		}
	}
	return c
}

// turnsSay is what the motions together show.
type turnsSay struct {
	rec   *Record
	order bool // the quaternion comes as x y z w
	units float64
	// Per motion: 1 as asked, -1 the other way, 0 about another axis or none.
	quat, gyro, acc [motions]int
	said            [motions]seen
	raw, left       [motions]cause // as it came; with order and units right
	done            [motions]bool
	n               int
	deadQuat        bool
	deadGyro        bool
	skew            float64 // by which it is turned about its vertical axis, rad; 0 by no more than people err
}

func (r *Record) turns() (t turnsSay) {
	t.rec, t.units = r, 1
	var ratios [motions]float64
	t.deadQuat, t.deadGyro = true, true
	for i := range r.Motions {
		f := &r.Motions[i]
		if t.done[i] = f.Seconds > 0; !t.done[i] {
			continue
		}
		s := see(f, motion[i].axis, false)
		t.raw[i] = s.causes(i)
		q, g := norm(s.quat), norm(s.gyro)
		t.deadQuat, t.deadGyro = t.deadQuat && t.raw[i]&quatNone != 0, t.deadGyro && t.raw[i]&gyroNone != 0
		ratios[t.n] = g / max(q, 1e-6)
		t.n++
	}
	if t.n == 0 {
		t.deadQuat, t.deadGyro = false, false
		return t
	}
	of := ratios[:t.n]
	slices.Sort(of)
	// A unit is that of all axes; where they differ, each has its own name.
	if u := of[t.n/2]; !(u > sizesLo && u < sizesHi) && of[t.n-1]*sizesLo < of[0]*sizesHi && !t.deadQuat && !t.deadGyro {
		t.units = u
	}
	t.order = r.otherOrder()
	for i := range r.Motions {
		if !t.done[i] {
			continue
		}
		s := see(&r.Motions[i], motion[i].axis, t.order)
		for k := range s.gyro {
			s.gyro[k] /= t.units
		}
		t.said[i], t.left[i] = s, s.causes(i)
		axis, sign := motion[i].axis, int(motion[i].sign)
		t.quat[i], t.gyro[i], t.acc[i] = about(s.quat, axis)*sign, about(s.gyro, axis)*sign, about(s.acc, axis)*sign
	}
	t.skew = t.turnedBy()
	return t
}

// turnedBy is the angle by which the IMU is turned about its vertical axis, as pitch and roll agree.
func (t *turnsSay) turnedBy() float64 {
	var off [2]float64
	for i := range off {
		s, m := t.said[i].quat, motion[i]
		if !t.done[i] || math.Hypot(s[0], s[1]) < max(noTurn, mostly*norm(s)) {
			return 0
		}
		var want vec
		want[m.axis] = m.sign
		off[i] = math.Atan2(want[0]*s[1]-want[1]*s[0], dot(want, s))
	}
	apart := math.Remainder(off[1]-off[0], 2*math.Pi)
	by := math.Remainder(off[0]+apart/2, 2*math.Pi)
	if math.Abs(apart) > turnedApart || math.Abs(by) < turnedFrom || min(math.Abs(off[0]), math.Abs(off[1])) < turnedEach {
		return 0
	}
	return by
}

// judge says what is wrong with a motion of a Record, by itself and with those before it; 0: nothing.
func (r *Record) judge(i int) cause {
	t := r.turns()
	c := t.raw[i]
	if motion[i].axis != 2 && t.skew != 0 {
		c |= quatSkew
	}
	return c
}

// otherOrder says whether the quaternion comes as x y z w. Read so, it must agree with gravity; read as it should be, it must not. An
// IMU upside down could pass for it, but then the accelerometer says so.
func (r *Record) otherOrder() bool {
	asIs, other, upright, n := 0.0, 0.0, true, 0
	look := func(q quat, acc vec) {
		asIs, other = max(asIs, disagreement(q, acc)), max(other, disagreement(reordered(q), acc))
		upright = upright && acc[2] > 0
		n++
	}
	for i := range r.Motions {
		f := &r.Motions[i]
		if f.Seconds == 0 || motion[i].axis == 2 {
			continue
		}
		look(f.From, f.AccFrom)
		look(f.To, f.AccTo)
	}
	return n > 0 && upright && other < 2*gravityAgree && asIs > other+turnWant
}

// explainsGravity: the motions' verdict says already why quaternion and accelerometer disagree at rest.
func (t *turnsSay) explainsGravity() bool {
	return t.order || t.mirror() == 2 || t.deadQuat || t.turnedOver()
}

// without takes back what was said of the sensors at rest and follows from what the motions show.
func (t *turnsSay) without(out []Verdict, from int) []Verdict {
	kept := out[:from]
	for _, v := range out[from:] {
		switch {
		case t.units != 1 && (v.Code == GyroBias || v.Code == IMUNoisy && t.rec.quietButGyro()),
			t.order && (v.Code == Tilt || v.Code == HangsAskew):
			continue
		}
		kept = append(kept, v)
	}
	return kept
}

// quietButGyro: only the gyroscope was noisy at rest, which a wrong unit makes of nothing.
func (r *Record) quietButGyro() bool {
	return r.Rest.QuatSD <= quatNoise && r.Rest.Acc[0].SD <= accNoise && r.Rest.Acc[1].SD <= accNoise && r.Rest.Acc[2].SD <= accNoise
}

// mirror is the axis of a mirror image, -1 for none: turns about the two other axes go the wrong way, in every sensor alike, and
// gravity is upside down only where that axis is z.
func (t *turnsSay) mirror() int {
	if t.n < motions || t.quat != t.gyro || (t.acc[0] != t.quat[0] || t.acc[1] != t.quat[1]) {
		return -1
	}
	axis, wrong := -1, 0
	for i, s := range t.quat {
		switch s {
		case 1:
			axis = motion[i].axis
		case -1:
			wrong++
		}
	}
	if wrong != 2 || axis < 0 || (t.rec.Rest.Acc[2].Mean < 0) != (axis == 2) {
		return -1
	}
	return axis
}

// turnedOver: the accelerometer at rest says that up is down, and the motions do not say that it is a mirror image.
func (t *turnsSay) turnedOver() bool { return t.rec.Rest.Acc[2].Mean < -gravity/2 && t.wrongQuat() }

func (t *turnsSay) wrongQuat() bool {
	for i, s := range t.quat {
		if t.done[i] && s != 1 {
			return true
		}
	}
	return false
}

// of are the motions that are off for one of some causes, as they came.
func (t *turnsSay) of(why cause) (s stepSet) {
	for i, c := range t.raw {
		if c&why != 0 {
			s |= setOf(NoseDown + Step(i))
		}
	}
	return s
}

const anyCause = ^cause(0)

func (t *turnsSay) verdicts(out []Verdict) []Verdict {
	if t.n == 0 {
		return out
	}
	// What holds for the whole IMU is shown by all the motions that it spoils.
	whole := func(c Code, steps stepSet, about int, value, want float64) {
		if steps == 0 {
			return
		}
		first := Step(bits.TrailingZeros32(uint32(steps)))
		out = append(out, Verdict{Code: c, Step: first, A: about, B: -1, Value: value, Want: want, also: steps})
	}
	if t.deadQuat {
		whole(IMUStuck, t.of(anyCause), 0, 0, 0)
	}
	if t.deadGyro {
		whole(IMUStuck, t.of(gyroNone), 1, 0, 0)
	}
	if t.order {
		whole(QuatOrder, t.of(anyCause)|setOf(Rest), -1, 0, 0)
	}
	if t.units != 1 {
		whole(GyroUnits, t.of(gyroSize|gyroNone), -1, t.units, 1)
	}
	if k := t.mirror(); k >= 0 {
		whole(IMUMirrorX+Code(k), t.of(anyCause), k, 0, 0)
		return out
	}
	if t.skew != 0 {
		out = append(out, Verdict{Code: IMUAxes, Step: NoseDown, A: -1, B: 2, Value: t.skew, also: setOf(RollLeft)})
	}
	for i, c := range t.left {
		if t.skew != 0 && motion[i].axis != 2 {
			c &^= quatAway
		}
		m, s := motion[i], &t.said[i]
		add := func(c Code, a, b int, value, want float64) {
			out = append(out, Verdict{Code: c, Step: NoseDown + Step(i), A: a, B: b, Value: value, Want: want})
		}
		if c&quatNone != 0 && !t.deadQuat {
			add(IMUStuck, 0, m.axis, 0, 0)
		}
		if c&quatAway != 0 {
			axis := mostAxis(s.quat)
			add(IMUAxes, axis, -1, s.quat[axis], m.sign)
		}
		axis := mostAxis(s.gyro)
		switch {
		case c&gyroNone != 0 && !t.deadGyro:
			add(IMUStuck, 1, m.axis, 0, 0)
		case c&gyroSign != 0:
			add(GyroSign, mostAxis(s.quat), -1, s.gyro[mostAxis(s.quat)], s.quat[mostAxis(s.quat)])
		case c&gyroAway != 0:
			add(GyroAxes, axis, mostAxis(s.quat), s.gyro[axis], s.quat[mostAxis(s.quat)])
		case c&gyroSize != 0:
			add(GyroUnits, m.axis, -1, norm(s.gyro)/norm(s.quat), 1)
		}
	}
	return out
}

// gravity names that quaternion and accelerometer disagree, at rest or when it was tipped: once, where they are furthest apart.
func (t *turnsSay) gravity(out []Verdict) []Verdict {
	v := Verdict{Code: GravityMismatch, A: -1, B: -1}
	look := func(s Step, d float64) {
		v.also |= setOf(s)
		if d > v.Value {
			v.Step, v.Value = s, d
		}
	}
	f := &t.rec.Rest
	if d := disagreement(f.Quat, vec{f.Acc[0].Mean, f.Acc[1].Mean, f.Acc[2].Mean}); d > gravityAgree && f.States > 0 && f.Stuck == [3]bool{} && !t.explainsGravity() {
		look(Rest, d)
	}
	for i, c := range t.left {
		if c&accAway != 0 {
			s := &t.said[i]
			look(NoseDown+Step(i), norm(vec{s.acc[0] - s.quat[0], s.acc[1] - s.quat[1], s.acc[2] - s.quat[2]}))
		}
	}
	if v.also == 0 {
		return out
	}
	return append(out, v)
}

// disagreement is the angle between what an orientation and an accelerometer at rest call down, rad.
func disagreement(q quat, acc vec) float64 {
	up, ok := unit(acc)
	if !ok {
		return 0
	}
	return angle(down(q), vec{-up[0], -up[1], -up[2]})
}

func mostAxis(v vec) (axis int) {
	for i := range v {
		if math.Abs(v[i]) > math.Abs(v[axis]) {
			axis = i
		}
	}
	return axis
}
