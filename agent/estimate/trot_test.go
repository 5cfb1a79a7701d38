package estimate

import (
	"math"
	"math/rand"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// A Go1 that trots, from kinematics alone: the trunk moves as told, standing feet
// roll on the floor without slip, swinging ones fly an arc, joint angles come
// from a numeric inverse, torques from the forces that this motion needs, the
// IMU's readings from differences of its own velocity. Nothing here calls the
// filter's own leg mathematics.

const tick = 0.002 // s

// gait is a motion. It stands for the first second, then speeds up for one.
type gait struct {
	vx, vy, wz float64              // m/s, m/s, rad/s
	slope      float64              // rad, floor rises ahead
	slip       func(t float64) vec3 // m/s of foot FL over the floor while it stands
	seconds    float64
}

// frame is one tick of it: clean sensors and the truth.
type frame struct {
	quat      [4]float64
	gyro, acc vec3
	q, dq     [go1.Joints]float64
	tau       [go1.Joints]float64
	vel       vec3              // m/s at the IMU, body frame
	load      [go1.Legs]float64 // N, along the floor's normal
}

const (
	gaitHz   = 2.0
	gaitDuty = 0.58
	gaitLift = 0.07 // m
	gaitZ    = 0.27 // m
)

type trunk struct {
	pos, vel vec3 // floor frame
	rot      mat3 // body to floor
	gyro     vec3 // body frame
}

// rotate gives the matrix of yaw, pitch, roll.
func rotate(yaw, pitch, roll float64) mat3 {
	a, b, c := rotation(vec3{0, 0, yaw}), rotation(vec3{0, pitch, 0}), rotation(vec3{roll, 0, 0})
	ab := a.mul(&b)
	return ab.mul(&c)
}

func (g *gait) speed(t float64) float64 {
	s := math.Max(0, math.Min(1, t-1))
	return s * s * (3 - 2*s)
}

func (g *gait) rotAt(yaw, t float64) mat3 {
	k := g.speed(t)
	return rotate(yaw, 0.03*k*math.Sin(2*math.Pi*2*gaitHz*t)-0.02*k, 0.03*k*math.Sin(2*math.Pi*gaitHz*t))
}

// inverse finds joint angles for a foot's place in the trunk's frame.
func inverse(leg int, want vec3, q *[go1.Joints]float64) {
	for range 20 {
		p, raw := go1.FootJacobian(leg, q)
		e := want.sub(p)
		if e.norm() < 1e-12 {
			return
		}
		j := mat3{raw[0], raw[1], raw[2]}
		inv, _ := j.inverse(1e-9)
		d := inv.apply(e)
		for k := range 3 {
			q[3*leg+k] += d[k]
		}
	}
}

func legAxes(leg int, q *[go1.Joints]float64) (hip, other vec3) {
	s, c := math.Sincos(q[3*leg])
	return vec3{1, 0, 0}, vec3{0, c, s}
}

func (v vec3) plus(w vec3, k float64) vec3 {
	return vec3{v[0] + k*w[0], v[1] + k*w[1], v[2] + k*w[2]}
}

// run computes the motion.
func (g *gait) run() []frame {
	n := int(g.seconds / tick)
	var home [go1.Joints]float64
	for i, h := range go1.Home {
		home[i] = float64(h)
	}
	var q = home
	var nominal [go1.Legs]vec3
	for i := range nominal {
		nominal[i] = go1.Foot(i, &home)
		nominal[i][2] = go1.FootRadius - gaitZ
	}

	body := make([]trunk, n+3)
	yaw, pos := 0.0, vec3{0, 0, gaitZ}
	for k := range body {
		t := float64(k) * tick
		s := g.speed(t)
		b := &body[k]
		b.rot = g.rotAt(yaw, t)
		const h = 1e-5
		w := g.rotAt(yaw+h*g.wz*s, t+h)
		rt := b.rot.transposed()
		d := rt.mul(&w)
		b.gyro = vec3{(d[2][1] - d[1][2]) / 2 / h, (d[0][2] - d[2][0]) / 2 / h, (d[1][0] - d[0][1]) / 2 / h}
		sy, cy := math.Sincos(yaw)
		bounce := 2 * math.Pi * 2 * gaitHz
		b.vel = vec3{s * (g.vx*cy - g.vy*sy), s * (g.vx*sy + g.vy*cy), s * 0.006 * bounce * math.Cos(bounce*t)}
		b.pos = pos
		pos = pos.plus(b.vel, tick)
		yaw += g.wz * s * tick
	}

	down := vec3{-gravity * math.Sin(g.slope), 0, -gravity * math.Cos(g.slope)}
	tilt := rotation(vec3{0, -g.slope, 0})
	out := make([]frame, n)
	var foot, from [go1.Legs]vec3
	var swinging [go1.Legs]bool
	for i := range foot {
		foot[i] = body[0].pos.plus(body[0].rot.apply(nominal[i]), 1)
		foot[i][2] = go1.FootRadius
	}
	imuVel := func(b *trunk) vec3 {
		return b.vel.plus(b.rot.apply(b.gyro.cross(go1.IMUPosition)), 1)
	}
	var lastDq [go1.Joints]float64
	for k := range out {
		t, b, f := float64(k)*tick, &body[k], &out[k]
		rt := b.rot.transposed()
		world := tilt.mul(&b.rot)
		f.quat = quaternion(&world)
		f.gyro = b.gyro
		v0, v1 := imuVel(b), imuVel(&body[k+1])
		a := v1.sub(v0)
		f.acc = rt.apply(vec3{a[0]/tick - down[0], a[1]/tick - down[1], a[2]/tick - down[2]})
		f.vel = rt.apply(v0)

		// Which feet stand.
		var stands [go1.Legs]bool
		var phase [go1.Legs]float64
		count := 0.0
		for i := range stands {
			ph := math.Mod(t*gaitHz+map[bool]float64{true: 0, false: 0.5}[i == go1.FR || i == go1.RL], 1)
			stands[i] = t < 1 || ph < gaitDuty
			phase[i] = math.Max(0, (ph-gaitDuty)/(1-gaitDuty))
			if stands[i] {
				count++
			}
		}
		total := body[k+1].vel.sub(b.vel)
		for c := range 3 {
			total[c] = go1.Mass * (total[c]/tick - down[c]) / count
		}

		for i := range foot {
			inverse(i, rt.apply(foot[i].sub(b.pos)), &q)
			p, raw := go1.FootJacobian(i, &q)
			jac := mat3{raw[0], raw[1], raw[2]}
			inv, _ := jac.inverse(1e-9)
			var move, d vec3
			rates := func() {
				carried := b.vel.plus(b.rot.apply(b.gyro.cross(vec3(p))), 1)
				d = inv.apply(rt.apply(move.sub(carried)))
			}
			if stands[i] {
				for range 30 { // the roll depends on the joint rates and they on it
					rates()
					hip, other := legAxes(i, &q)
					spin := b.gyro.plus(hip, d[0]).plus(other, d[1]+d[2])
					move = b.rot.apply(spin).cross(vec3{0, 0, go1.FootRadius})
					if i == go1.FL && g.slip != nil {
						move = move.plus(g.slip(t), 1)
					}
				}
				swinging[i] = false
			} else {
				if !swinging[i] {
					swinging[i], from[i] = true, foot[i]
				}
				next := &body[k+1]
				s := math.Min(1, phase[i]+gaitHz/(1-gaitDuty)*tick)
				left := (1-s)*(1-gaitDuty)/gaitHz + gaitDuty/gaitHz/2
				goal := next.pos.plus(next.rot.apply(nominal[i]), 1).plus(vec3{next.vel[0], next.vel[1], 0}, left)
				blend := (1 - math.Cos(math.Pi*s)) / 2
				to := from[i].plus(goal.sub(from[i]), blend)
				to[2] = go1.FootRadius + gaitLift*math.Pow(math.Sin(math.Pi*s), 2)
				move = to.sub(foot[i])
				for c := range 3 {
					move[c] /= tick
				}
			}
			rates()
			var force vec3
			if stands[i] {
				force, f.load[i] = rt.apply(total), total[2]
			}
			tau := legTorque(i, &q, d, vec3{(d[0] - lastDq[3*i]) / tick, (d[1] - lastDq[3*i+1]) / tick, (d[2] - lastDq[3*i+2]) / tick}, f.acc)
			for c := range 3 {
				f.q[3*i+c], f.dq[3*i+c] = q[3*i+c], d[c]
				f.tau[3*i+c] = tau[c] - (jac[0][c]*force[0] + jac[1][c]*force[1] + jac[2][c]*force[2])
				lastDq[3*i+c] = d[c]
			}
			foot[i] = foot[i].plus(move, tick)
		}
	}
	return out
}

// legTorque moves and holds a leg without ground: point masses and their
// inertias by numeric derivatives of where they are.
func legTorque(leg int, q *[go1.Joints]float64, _, ddq, acc vec3) (tau vec3) {
	s := 1.0
	if leg%2 == 0 {
		s = -1
	}
	places := func(q *[go1.Joints]float64) [2]vec3 {
		hip := rotation(vec3{q[3*leg], 0, 0})
		thigh := rotation(vec3{0, q[3*leg+1], 0})
		calf := rotation(vec3{0, q[3*leg+1] + q[3*leg+2], 0})
		knee := vec3{0, go1.HipOffset * s, 0}.plus(thigh.apply(vec3{0, 0, -go1.ThighLen}), 1)
		a := vec3{0, go1.HipOffset * s, 0}.plus(thigh.apply(vec3{-0.00304722, -0.019315 * s, -0.0305004}), 1)
		b := knee.plus(calf.apply(vec3{0.00429862, 0.00097668, -0.1461969}), 1)
		return [2]vec3{hip.apply(a), hip.apply(b)}
	}
	mass := [2]float64{1.009, 0.195862}
	spin := [2]vec3{{0.0046, 0.0047, 0.0047}, {0.0015, 0.0015, 0.0015}} // about hip, thigh, calf axes
	const h = 1e-6
	var jac [2][3]vec3 // [mass][joint]
	for c := range 3 {
		lo, hi := *q, *q
		lo[3*leg+c] -= h
		hi[3*leg+c] += h
		l, u := places(&lo), places(&hi)
		for m := range 2 {
			d := u[m].sub(l[m])
			jac[m][c] = vec3{d[0] / 2 / h, d[1] / 2 / h, d[2] / 2 / h}
		}
	}
	rotor := vec3{0.004, 0.004, 0.009}
	for m := range 2 {
		var bend vec3
		for c := range 3 {
			bend = bend.plus(jac[m][c], ddq[c])
		}
		for c := range 3 {
			tau[c] += mass[m] * jac[m][c].dot(bend.plus(acc, 1))
		}
	}
	tau[0] += (spin[0][0] + spin[1][0]) * ddq[0]
	tau[1] += spin[0][1]*ddq[1] + spin[1][1]*(ddq[1]+ddq[2])
	tau[2] += spin[1][2] * (ddq[1] + ddq[2])
	for c := range 3 {
		tau[c] += rotor[c] * ddq[c]
	}
	return tau
}

func quaternion(m *mat3) [4]float64 {
	w := math.Sqrt(math.Max(0, 1+m[0][0]+m[1][1]+m[2][2])) / 2
	return [4]float64{w, (m[2][1] - m[1][2]) / 4 / w, (m[0][2] - m[2][0]) / 4 / w, (m[1][0] - m[0][1]) / 4 / w}
}

// level of sensor noise, uniform +-.
type noiseLevel struct {
	gyro, acc, q, dq, tau, tilt float64 // rad/s, m/s2, rad, rad/s, N*m, rad
}

var (
	realistic = noiseLevel{gyro: 0.02, acc: 0.3, q: 0.001, dq: 0.1, tau: 0.3, tilt: 0.005}
	rough     = noiseLevel{gyro: 0.2, acc: 0.5, q: 0.01, dq: 1.5, tau: 0.5, tilt: 0.05} // what policies are trained with
)

// footSensor gives a raw reading from leg, load (N) and time (s).
type footSensor func(rng *rand.Rand, leg int, load, t float64) float64

func goodSensor(rng *rand.Rand, leg int, load, t float64) float64 {
	return 20*float64(leg+1) + 2*load + 2*rng.NormFloat64()
}

func noSensor(*rand.Rand, int, float64, float64) float64 { return 0 }

// sense makes a LowState's content of a frame, quantised as the robot's is.
func (f *frame) sense(rng *rand.Rand, l noiseLevel, bias float64, foot footSensor, t float64) (s Sample) {
	u := func(size float64) float64 { return size * (2*rng.Float64() - 1) }
	step := func(x, s float64) float32 { return float32(math.Round(x/s) * s) }
	a, b := u(l.tilt)/2, u(l.tilt)/2
	w, x, y, z := f.quat[0], f.quat[1], f.quat[2], f.quat[3]
	s.Quat = [4]float32{float32(w - x*a - y*b), float32(x + w*a - z*b), float32(y + z*a + w*b), float32(z + x*b - y*a)}
	for k := range 3 {
		s.Gyro[k] = step(f.gyro[k]+u(l.gyro), 0.001)
		s.Acc[k] = step(f.acc[k]+u(l.acc)+bias, 0.005)
	}
	for i := range s.Q {
		s.Q[i] = step(f.q[i]+u(l.q), 0.0002)
		s.Dq[i] = step(f.dq[i]+u(l.dq), 0.004)
		s.Tau[i] = step(f.tau[i]+u(l.tau), 0.02)
	}
	for i := range s.FootForce {
		s.FootForce[i] = int16(foot(rng, i, f.load[i], t))
	}
	return s
}
