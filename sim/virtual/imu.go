package virtual

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// tiltIMU turns what the IMU says by rad about the body's roll or pitch axis; set makes that the whole tilt and keeps the yaw.
func tiltIMU(m *wire.IMU, axis int, rad float64, set bool) {
	var q [4]float64
	for i, v := range m.Quaternion {
		q[i] = float64(v)
	}
	by := turn(axis, rad)
	if set {
		r := rotation(q)
		q = turn(2, math.Atan2(r[1][0], r[0][0]))
	}
	q = mulQuat(q, by)
	if set { // gravity alone: what else the accelerometer felt is lost
		r := rotation(q)
		for i := range 3 {
			m.Accelerometer[i] = float32(9.81 * r[2][i])
		}
	} else {
		r, a := rotation(by), m.Accelerometer
		for i := range 3 { // the turned body sees the same vector the other way round
			m.Accelerometer[i] = float32(r[0][i]*float64(a[0]) + r[1][i]*float64(a[1]) + r[2][i]*float64(a[2]))
		}
	}
	for i, v := range q {
		m.Quaternion[i] = float32(v)
	}
	m.RPY = rpy(q)
}

// mirrorIMU is an IMU in a robot, and a world, mirrored along body axis x, y or z: what points along the axis changes sign
// (acceleration), and so does every rotation about another axis (gyroscope, quaternion, rpy). Along x and y gravity stays where it
// was, so that nothing at rest betrays the mounting: only a turn by hand does. Along z the accelerometer says that the robot is
// upside down and the quaternion that it is not.
func mirrorIMU(m *wire.IMU, axis int) {
	m.Accelerometer[axis] *= -1
	for i := range 3 {
		if i != axis {
			m.Gyroscope[i] *= -1
			m.Quaternion[1+i] *= -1
			m.RPY[i] *= -1
		}
	}
}

// turnIMU is an IMU that is mounted turned by rad about a body axis: it sees every vector the other way round, and its own attitude is
// the body's with that turn behind it.
func turnIMU(m *wire.IMU, axis int, rad float64) {
	tiltIMU(m, axis, rad, false)
	r, w := rotation(turn(axis, rad)), m.Gyroscope
	for i := range 3 {
		m.Gyroscope[i] = float32(r[0][i]*float64(w[0]) + r[1][i]*float64(w[1]) + r[2][i]*float64(w[2]))
	}
}

// negate changes the sign of one axis, or of all where axis is 3.
func negate(v *[3]float32, axis int) {
	for i := range v {
		if axis == i || axis == 3 {
			v[i] *= -1
		}
	}
}

// disturbIMU adds the noise of imu_noise.
func (e *effect) disturbIMU(m *wire.IMU) {
	for i := range 3 {
		m.Gyroscope[i] += float32(e.p["gyro"] * e.noise.NormFloat64())
		m.Accelerometer[i] += float32(e.p["acc"] * e.noise.NormFloat64())
	}
	var q [4]float64
	for i, v := range m.Quaternion {
		q[i] = float64(v)
	}
	for axis := range 3 {
		q = mulQuat(q, turn(axis, e.p["quat"]*e.noise.NormFloat64()))
	}
	for i, v := range q {
		m.Quaternion[i] = float32(v)
	}
	m.RPY = rpy(q)
}
