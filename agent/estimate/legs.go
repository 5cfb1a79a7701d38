package estimate

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// What moves in a leg (shared/go1/figures.md, lumped): masses in kg, places in m
// and inertias in kg*m2. Hip and thigh offsets count from the hip's axis.
const (
	thighMass  = 1.009
	thighCom   = 0.0305 // down the thigh from its joint
	thighSide  = 0.0607 // sideways from the hip's axis
	calfMass   = 0.196
	calfCom    = 0.1462
	rotorHip   = 0.0040
	rotorCalf  = 0.0091
	hipInertia = 0.030 // leg hanging in a stance, about the hip's axis, with rotor
	thighOwn   = 0.0046 + thighMass*thighCom*thighCom
	calfOwn    = 0.0015 + calfMass*calfCom*calfCom
	elbow      = calfMass * go1.ThighLen * calfCom
	thighWhole = thighOwn + calfMass*go1.ThighLen*go1.ThighLen + calfOwn + rotorHip
)

// leg is what the filter knows of one leg at one tick.
type leg struct {
	foot vec3    // centre of the foot, trunk frame, m
	vel  vec3    // what the leg says of the IMU's velocity if the foot stands, body frame, m/s
	cov  mat3    // its sensor noise, (m/s)^2
	load float64 // what the floor pushes with, N, if loadKnown
	// loadKnown is false when torques are missing or the pose is near singular.
	loadKnown bool
}

// observer tracks the torque that the ground puts on a leg's joints, without
// differentiating joint speed: the momentum the motors explain is integrated,
// and what is missing in the measured one came from outside (De Luca's momentum
// observer).
type observer struct {
	momentum vec3 // N*m*s, explained so far
	ext      vec3 // N*m, from outside
	running  bool
}

// solve does the leg's kinematics. normal is the floor's in the body's
// frame, gyro in rad/s, gyroVar and dqVar are the sensors' variances. It leaves
// the foot's Jacobian in jac (m/rad).
func (l *leg) solve(i int, q, dq *[go1.Joints]float64, jac *mat3, gyro, normal vec3, gyroVar, dqVar float64) {
	p, raw := go1.FootJacobian(i, q)
	l.foot = p
	j := mat3{raw[0], raw[1], raw[2]}
	*jac = j
	sh, ch := math.Sincos(q[3*i+go1.Hip])
	touch := vec3{p[0] - go1.FootRadius*normal[0], p[1] - go1.FootRadius*normal[1], p[2] - go1.FootRadius*normal[2]}
	arm := touch.sub(go1.IMUPosition)

	// Joint axes: hip x, thigh and calf the y axis turned by the hip. The touch
	// point hangs a foot's radius below the centre: column k of its derivative
	// is the centre's plus axis x (touch - centre).
	down := vec3{-go1.FootRadius * normal[0], -go1.FootRadius * normal[1], -go1.FootRadius * normal[2]}
	byHip := vec3{0, -down[2], down[1]}
	byY := vec3{ch*down[2] - sh*down[1], sh * down[0], -ch * down[0]}
	var touchJac mat3
	for a := range 3 {
		touchJac[a] = vec3{j[a][0] + byHip[a], j[a][1] + byY[a], j[a][2] + byY[a]}
	}
	spin := gyro.cross(arm)
	d := vec3{dq[3*i], dq[3*i+1], dq[3*i+2]}
	for a := range 3 {
		l.vel[a] = -(spin[a] + touchJac[a].dot(d))
	}
	// cov = J J' dqVar + [arm] [arm]' gyroVar, and [arm][arm]' = |arm|^2 I - arm arm'.
	n2 := arm.dot(arm)
	for a := range 3 {
		for b := range 3 {
			l.cov[a][b] = touchJac[a].dot(touchJac[b])*dqVar - arm[a]*arm[b]*gyroVar
		}
		l.cov[a][a] += n2 * gyroVar
	}
}

// gravityTorque gives the joint torques that hold a leg's own weight under the
// specific force acc (m/s2, body frame), which includes the body's acceleration.
func gravityTorque(i int, q *[go1.Joints]float64, acc vec3) vec3 {
	s := 1.0
	if i == go1.FR || i == go1.RR {
		s = -1
	}
	sh, ch := math.Sincos(q[3*i+go1.Hip])
	st, ct := math.Sincos(q[3*i+go1.Thigh])
	sc, cc := math.Sincos(q[3*i+go1.Thigh] + q[3*i+go1.Calf])
	ax, ay, az := acc[0], acc[1]*ch+acc[2]*sh, acc[2]*ch-acc[1]*sh
	x1, z1 := -thighCom*st, -thighCom*ct
	x2, z2 := -go1.ThighLen*st-calfCom*sc, -go1.ThighLen*ct-calfCom*cc
	return vec3{
		thighMass*(az*thighSide*s-ay*z1) + calfMass*(az*go1.HipOffset*s-ay*z2),
		thighMass*(ax*z1-az*x1) + calfMass*(ax*z2-az*x2),
		calfMass * calfCom * (az*sc - ax*cc),
	}
}

// update advances the observer by dt with a leg's torques and gives the torque
// from outside.
func (o *observer) update(i int, q, dq *[go1.Joints]float64, tau, acc vec3, tc, dt float64) vec3 {
	h, t, c := dq[3*i], dq[3*i+1], dq[3*i+2]
	cosCalf := math.Cos(q[3*i+go1.Calf])
	m12 := calfOwn + elbow*cosCalf
	p := vec3{
		hipInertia * h,
		(thighWhole+2*elbow*cosCalf)*t + m12*c,
		m12*t + (calfOwn+rotorCalf)*c,
	}
	own := gravityTorque(i, q, acc)
	if !o.running {
		o.running = true
		for k := range 3 {
			o.ext[k] = own[k] - tau[k]
			o.momentum[k] = p[k] - o.ext[k]*tc
		}
		return o.ext
	}
	// Implicit step: ext = (p - momentum)/tc with momentum' = tau - own + ext.
	for k := range 3 {
		o.momentum[k] += dt * (tau[k] - own[k])
		o.ext[k] = (p[k] - o.momentum[k]) / (tc + dt)
		o.momentum[k] += dt * o.ext[k]
	}
	return o.ext
}

// normalLoad gives the floor's push on a foot along its normal (N) from the torque it puts
// on the joints; ok is false near a singular pose.
func normalLoad(jac *mat3, normal, ext vec3) (load float64, ok bool) {
	inv, det := jac.inverse(1e-3)
	return inv.apply(normal).dot(ext), math.Abs(det) >= 1e-3
}
