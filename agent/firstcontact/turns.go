package firstcontact

import (
	"math"
	"slices"
)

// seen is what each sensor says of one motion, as a rotation vector in the body's frame.
type seen struct {
	quat, gyro, acc vec
}

// see reads a motion, its quaternions as they came or as x y z w.
func see(f *TurnFigures, otherOrder bool) (s seen) {
	from, to := f.From, f.To
	if otherOrder {
		from, to = reordered(from), reordered(to)
	}
	s.quat, s.gyro = turned(from, to), f.Gyro
	// What gravity did in the body's frame, the body did the other way round.
	a, okA := unit(f.AccFrom)
	b, okB := unit(f.AccTo)
	if axis, ok := unit(cross(b, a)); ok && okA && okB {
		by := angle(b, a)
		s.acc = vec{axis[0] * by, axis[1] * by, axis[2] * by}
	}
	return s
}

// A turn counts as one about an axis when so much of it is; two turns agree in size within a factor.
const (
	mostly  = 0.8
	sizesLo = 0.7
	sizesHi = 1.4
	noTurn  = 0.1 // rad: a sensor that says less, while the body turned, says nothing
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

// right says whether all sensors show the motion that was asked for.
func (s *seen) right(i int) bool {
	m := motion[i]
	ratio := norm(s.gyro) / norm(s.quat)
	return about(s.quat, m.axis) == int(m.sign) && about(s.gyro, m.axis) == int(m.sign) && ratio > sizesLo && ratio < sizesHi &&
		(m.axis == 2 || about(s.acc, m.axis) == int(m.sign))
}

// turnsSay is what the motions together show.
type turnsSay struct {
	rec   *Record
	order bool // the quaternion comes as x y z w
	units float64
	// Per motion: 1 as asked, -1 the other way, 0 about another axis or none.
	quat, gyro, acc [motions]int
	done            [motions]bool
	n               int
	deadQuat        bool
	deadGyro        bool
}

func (r *Record) turns() (t turnsSay) {
	t.rec, t.units = r, 1
	var ratios [motions]float64
	quatMost, gyroMost := 0.0, 0.0
	for i := range r.Motions {
		f := &r.Motions[i]
		if t.done[i] = f.Seconds > 0; !t.done[i] {
			continue
		}
		s := see(f, false)
		q, g := norm(s.quat), norm(s.gyro)
		quatMost, gyroMost = max(quatMost, q), max(gyroMost, g)
		ratios[t.n] = g / max(q, 1e-6)
		t.n++
	}
	if t.n == 0 {
		return t
	}
	t.deadQuat = quatMost < noTurn
	t.deadGyro = gyroMost < noTurn
	slices.Sort(ratios[:t.n])
	if t.units = ratios[t.n/2]; t.units > sizesLo && t.units < sizesHi || t.deadQuat || t.deadGyro {
		t.units = 1
	}
	t.order = r.otherOrder()
	for i := range r.Motions {
		if !t.done[i] {
			continue
		}
		s := see(&r.Motions[i], t.order)
		axis, sign := motion[i].axis, int(motion[i].sign)
		t.quat[i], t.gyro[i], t.acc[i] = about(s.quat, axis)*sign, about(s.gyro, axis)*sign, about(s.acc, axis)*sign
	}
	return t
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

// explainsGravity: the motions' verdict says already why quaternion and accelerometer disagree.
func (t *turnsSay) explainsGravity() bool {
	return t.order || t.mirror() == 2 || t.deadQuat || t.turnedOver()
}

// without takes back what was said of the sensors at rest and follows from what the motions show.
func (t *turnsSay) without(out []Verdict, from int) []Verdict {
	kept := out[:from]
	for _, v := range out[from:] {
		switch {
		case t.units != 1 && (v.Code == GyroBias || v.Code == IMUNoisy && t.rec.quietButGyro()),
			t.order && v.Code == Tilt:
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

func (t *turnsSay) verdicts(out []Verdict) []Verdict {
	if t.n == 0 {
		return out
	}
	first := NoseDown
	for i, done := range t.done {
		if done {
			first = NoseDown + Step(i)
			break
		}
	}
	add := func(c Code, step Step, about int, value, want float64) {
		out = append(out, Verdict{Code: c, Step: step, A: about, B: -1, Value: value, Want: want})
	}
	if t.deadQuat {
		add(IMUStuck, first, 0, 0, 0)
	}
	if t.deadGyro {
		add(IMUStuck, first, 1, 0, 0)
	}
	if t.order {
		add(QuatOrder, first, -1, 0, 0)
	}
	if t.units != 1 {
		add(GyroUnits, first, -1, t.units, 1)
	}
	if k := t.mirror(); k >= 0 {
		add(IMUMirrorX+Code(k), first, k, 0, 0)
		return out
	}
	for i, done := range t.done {
		if !done {
			continue
		}
		m := motion[i]
		s := see(&t.rec.Motions[i], t.order)
		step := NoseDown + Step(i)
		switch {
		case !t.deadQuat && t.quat[i] != 1:
			axis := mostAxis(s.quat)
			add(IMUAxes, step, axis, s.quat[axis], m.sign)
		case !t.deadGyro && t.gyro[i] == -1:
			add(GyroSign, step, m.axis, s.gyro[m.axis], m.sign*math.Abs(s.gyro[m.axis]))
		case !t.deadGyro && t.gyro[i] == 0:
			axis := mostAxis(s.gyro)
			add(IMUAxes, step, axis, s.gyro[axis], m.sign)
		}
	}
	return out
}

func mostAxis(v vec) (axis int) {
	for i := range v {
		if math.Abs(v[i]) > math.Abs(v[axis]) {
			axis = i
		}
	}
	return axis
}
