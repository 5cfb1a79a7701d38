package go1

import "math"

// Foot gives a foot's centre in the trunk's frame (m) for the leg's three joint
// angles (rad).
func Foot(leg int, q *[Joints]float64) (p [3]float64) {
	p, _ = FootJacobian(leg, q)
	return p
}

// FootJacobian gives a foot's centre in the trunk's frame (m) and its derivative
// by the leg's joint angles, jac[axis][joint] (m/rad).
func FootJacobian(leg int, q *[Joints]float64) (p [3]float64, jac [3][3]float64) {
	fx, s := legSign(leg)
	sh, ch := math.Sincos(q[3*leg+Hip])
	st, ct := math.Sincos(q[3*leg+Thigh])
	sc, cc := math.Sincos(q[3*leg+Thigh] + q[3*leg+Calf])

	// In the hip's frame, before it turns about x: the leg is a plane at y = a.
	a := HipOffset * s
	x := -ThighLen*st - CalfLen*sc
	z := -ThighLen*ct - CalfLen*cc
	dxt, dzt := -ThighLen*ct-CalfLen*cc, ThighLen*st+CalfLen*sc // by thigh
	dxc, dzc := -CalfLen*cc, CalfLen*sc                         // by calf

	p = [3]float64{HipX*fx + x, HipY*s + ch*a - sh*z, sh*a + ch*z}
	jac[0] = [3]float64{0, dxt, dxc}
	jac[1] = [3]float64{-sh*a - ch*z, -sh * dzt, -sh * dzc}
	jac[2] = [3]float64{ch*a - sh*z, ch * dzt, ch * dzc}
	return p, jac
}

// Gravity turns an orientation (body to world, w x y z) into the direction of
// gravity in the body's frame: (0, 0, -1) when upright.
func Gravity(quat *[4]float32) [3]float32 {
	w, x, y, z := quat[0], quat[1], quat[2], quat[3]
	return [3]float32{
		-2 * (x*z - w*y),
		-2 * (y*z + w*x),
		-(w*w - x*x - y*y + z*z),
	}
}

// Tilt is the angle between the body's z axis and the vertical, rad; NaN for a
// quaternion that is not finite, pi/2 for one of zeros.
func Tilt(quat *[4]float32) float32 {
	g := Gravity(quat)
	return float32(math.Acos(math.Max(-1, math.Min(1, float64(-g[2])))))
}
