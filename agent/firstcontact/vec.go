package firstcontact

import "math"

type (
	vec  = [3]float64
	quat = [4]float64 // w x y z, body to world
)

func dot(a, b vec) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func norm(a vec) float64 { return math.Sqrt(dot(a, a)) }

func cross(a, b vec) vec {
	return vec{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

// unit is a with length 1; false for one that has none.
func unit(a vec) (vec, bool) {
	n := norm(a)
	if !(n > 1e-9) || math.IsInf(n, 0) {
		return vec{}, false
	}
	return vec{a[0] / n, a[1] / n, a[2] / n}, true
}

// angle between two vectors, rad; 0 where one has no direction.
func angle(a, b vec) float64 { return math.Atan2(norm(cross(a, b)), dot(a, b)) }

func unitQuat(q quat) (quat, bool) {
	n := math.Sqrt(q[0]*q[0] + q[1]*q[1] + q[2]*q[2] + q[3]*q[3])
	if !(n > 1e-9) || math.IsInf(n, 0) {
		return quat{1}, false
	}
	return quat{q[0] / n, q[1] / n, q[2] / n, q[3] / n}, true
}

// mul is the turn b, then a.
func mul(a, b quat) quat {
	return quat{
		a[0]*b[0] - a[1]*b[1] - a[2]*b[2] - a[3]*b[3],
		a[0]*b[1] + a[1]*b[0] + a[2]*b[3] - a[3]*b[2],
		a[0]*b[2] - a[1]*b[3] + a[2]*b[0] + a[3]*b[1],
		a[0]*b[3] + a[1]*b[2] - a[2]*b[1] + a[3]*b[0],
	}
}

func conj(q quat) quat { return quat{q[0], -q[1], -q[2], -q[3]} }

// turned is the rotation vector, rad in the body's frame, from one orientation to another.
func turned(from, to quat) vec { return rotation(mul(conj(from), to)) }

// rotation is a unit quaternion as a rotation vector of at most pi.
func rotation(q quat) vec {
	if q[0] < 0 {
		q = quat{-q[0], -q[1], -q[2], -q[3]}
	}
	v := vec{q[1], q[2], q[3]}
	s := norm(v)
	if s < 1e-12 {
		return vec{}
	}
	by := 2 * math.Atan2(s, q[0]) / s
	return vec{v[0] * by, v[1] * by, v[2] * by}
}

// down is the direction of gravity in the body's frame.
func down(q quat) vec {
	w, x, y, z := q[0], q[1], q[2], q[3]
	return vec{-2 * (x*z - w*y), -2 * (y*z + w*x), -(w*w - x*x - y*y + z*z)}
}

// reordered reads four numbers that came as x y z w.
func reordered(q quat) quat { return quat{q[3], q[0], q[1], q[2]} }
