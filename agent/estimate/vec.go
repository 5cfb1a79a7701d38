package estimate

import "math"

// vec3 is a vector, mat3 a matrix [row][column]; fixed arrays, never allocated.
type (
	vec3 [3]float64
	mat3 [3]vec3
)

func (a vec3) dot(b vec3) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }
func (a vec3) sub(b vec3) vec3    { return vec3{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }
func (a vec3) norm() float64      { return math.Sqrt(a.dot(a)) }
func (a vec3) cross(b vec3) vec3 {
	return vec3{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

func (m *mat3) apply(v vec3) vec3 { return vec3{m[0].dot(v), m[1].dot(v), m[2].dot(v)} }

func (m *mat3) mul(n *mat3) (r mat3) {
	for i := range 3 {
		for j := range 3 {
			r[i][j] = m[i][0]*n[0][j] + m[i][1]*n[1][j] + m[i][2]*n[2][j]
		}
	}
	return r
}

func (m *mat3) transposed() mat3 {
	return mat3{{m[0][0], m[1][0], m[2][0]}, {m[0][1], m[1][1], m[2][1]}, {m[0][2], m[1][2], m[2][2]}}
}

// inverse gives m's inverse and determinant; the inverse is zero when the
// determinant's size is below least.
func (m *mat3) inverse(least float64) (inv mat3, det float64) {
	c0, c1, c2 := m[1].cross(m[2]), m[2].cross(m[0]), m[0].cross(m[1])
	det = m[0].dot(c0)
	if !(math.Abs(det) >= least) {
		return inv, det
	}
	d := 1 / det
	for i := range 3 {
		inv[i] = vec3{c0[i] * d, c1[i] * d, c2[i] * d}
	}
	return inv, det
}

// rotation gives the matrix that turns by the vector w (rad).
func rotation(w vec3) mat3 {
	a := w.norm()
	s, c := 1-a*a/6, 0.5-a*a/24 // sin(a)/a and (1-cos a)/a^2
	if a > 1e-3 {
		sin, cos := math.Sincos(a)
		s, c = sin/a, (1-cos)/(a*a)
	}
	x, y, z := w[0], w[1], w[2]
	return mat3{
		{1 - c*(y*y+z*z), c*x*y - s*z, c*x*z + s*y},
		{c*x*y + s*z, 1 - c*(x*x+z*z), c*y*z - s*x},
		{c*x*z - s*y, c*y*z + s*x, 1 - c*(x*x+y*y)},
	}
}
