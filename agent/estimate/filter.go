package estimate

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

const (
	gravity   = 9.81 // m/s2
	feetBelow = 0.04 // m, a foot that carries is at least this far below the trunk's origin
	leastUp   = 0.3  // cosine of the tilt, 72 degrees, beyond which no foot carries

	// Beyond these a sample is not a measurement: the IMU's ranges are 157 m/s2
	// and 35 rad/s, the motors' top speed 30 rad/s and torque 36 N*m.
	maxAcc, maxGyro, maxQ, maxDq, maxTau = 400, 70, 10, 100, 200

	gapStart      = 0.007 // s between samples that is a gap
	noiseTime     = 0.5   // s over which sensor noise is measured
	quietTime     = 0.3   // s of rest before the body is taken to lie still
	quietFilter   = 0.1   // s
	quietGyro     = 0.15  // rad/s
	quietAcc      = 0.5   // m/s2 off gravity
	quietDq       = 0.5   // rad/s
	quietSigma    = 0.005 // m/s/sqrt(Hz) of the claim that a lying body does not move
	flightSigma   = 3.    // m/s/sqrt(Hz) of the weak claim that a robot is not a projectile
	healthySigma  = 0.5   // m/s
	healthyBlind  = 0.5   // s
	shockError    = 0.1   // part of a shock's velocity that is not trusted
	shockStart    = 30.   // m/s2 off gravity, above which it is a shock
	imuRange      = 150.  // m/s2 on an axis, where the sensor saturates
	lostAcc       = 5.    // m/s2 the body may have had during a gap: walking
	lostShock     = 300.  // m/s2 the same when a refused sample was a shock
	settleTime    = 0.02  // s after touch-down until a foot has settled
	leastContact  = 0.35  // probability under which a foot measures nothing
	states        = 7
	heightStart   = 0.25 // m^2
	recoverSpread = 0.5  // m/s, 1 sigma added when standing feet were refused for too long
)

// Sample is what one LowState says, in the SDK's joint order.
type Sample struct {
	Quat      [4]float32  // body to world, w x y z
	Gyro      [3]float32  // rad/s, body frame
	Acc       [3]float32  // specific force, m/s2, body frame; (0, 0, 9.81) at rest
	Q, Dq     [12]float32 // rad, rad/s
	Tau       [12]float32 // N*m, estimated by the motors; all 0 if not reported
	FootForce [4]int16    // raw, no unit; all 0 if not fitted
}

// Counters count since New; they survive Reset.
type Counters struct {
	Samples    uint64 // used
	BadSamples uint64 // refused: not finite, out of any sensor's range, or no orientation
	BadTimes   uint64 // refused: dt not finite, zero or negative
	Gaps       uint64 // gaps beyond MaxGap, each a new start
	Refused    uint64 // measurements of standing feet refused by the gate
	Recovered  uint64 // times the feet were believed after all
}

// Filter estimates one robot's velocity and contacts. It is for one goroutine.
type Filter struct {
	c     Config
	count Counters

	vel, bias vec3                    // m/s at the IMU and m/s2, body frame
	height    float64                 // m of the IMU over the ground that carries it
	p         [states][states]float64 // covariance of vel, bias, height
	floor     floor
	running   bool
	lost      float64 // (m/s)^2 that refused shocks may have changed
	owed      float64 // s of refused samples since the last used one

	legs    [go1.Legs]leg
	obs     [go1.Legs]observer
	sensors [go1.Legs]sensor
	others  [go1.Legs]float64 // log odds without the foot's sensor, smoothed
	odds    [go1.Legs]float64
	prob    [go1.Legs]float64
	stance  [go1.Legs]float64 // s on the ground
	contact [go1.Legs]Contact
	silent  float64 // s since any foot sensor read other than 0

	gyroNoise, dqNoise noise
	restGyro, restAcc  vec3
	restDq             [go1.Joints]float64
	rest               float64 // s at rest
	blind              float64 // s since anything was measured
	refusing           float64 // s since a foot was accepted while feet stand
}

// New makes a filter. c is taken as valid: see Validate.
func New(c Config) *Filter {
	f := &Filter{c: c, silent: math.Inf(1)} // never heard
	f.Reset()
	return f
}

// Reset forgets the motion. Foot sensors' calibrations stay: their zero and gain
// do not change with the robot's motion.
func (f *Filter) Reset() {
	f.start()
	for i := range f.sensors {
		f.sensors[i].airAge, f.sensors[i].groundAge = sensorMemory, sensorMemory
	}
}

func (f *Filter) start() {
	f.vel, f.bias = vec3{}, vec3{}
	f.p = [states][states]float64{}
	f.height, f.floor = 0, floor{}
	f.p[6][6] = heightStart
	for i := range 3 {
		f.p[i][i] = sq(f.c.VelocityStart)
		f.p[i+3][i+3] = sq(f.c.AccBiasStart)
	}
	f.running, f.owed, f.lost = false, 0, 0
	f.obs = [go1.Legs]observer{}
	f.odds, f.others = [go1.Legs]float64{}, [go1.Legs]float64{}
	f.prob = [go1.Legs]float64{0.5, 0.5, 0.5, 0.5}
	f.stance = [go1.Legs]float64{}
	f.contact = [go1.Legs]Contact{{Probability: 0.5}, {Probability: 0.5}, {Probability: 0.5}, {Probability: 0.5}}
	f.gyroNoise.reset(f.c.GyroNoise)
	f.dqNoise.reset(f.c.JointSpeedNoise)
	f.restGyro, f.restAcc, f.restDq = vec3{}, vec3{}, [go1.Joints]float64{}
	f.rest, f.blind, f.refusing = 0, 0, 0
}

// Update takes one sample in, dt seconds after the last one. A bad sample is
// counted and its time is owed; a gap beyond Config.MaxGap starts anew.
func (f *Filter) Update(s *Sample, dt float64) {
	if !(dt > 0) || math.IsInf(dt, 1) {
		f.count.BadTimes++
		return
	}
	tick := dt
	dt += f.owed
	up, ok := check(s)
	if !ok {
		f.count.BadSamples++
		if a := wide(s.Acc); math.Abs(a[0]) > maxAcc || math.Abs(a[1]) > maxAcc || math.Abs(a[2]) > maxAcc {
			f.lost += sq(lostShock * math.Min(tick, f.c.MaxGap))
		}
		f.owed = math.Min(dt, 1e3)
		return
	}
	f.owed = 0
	f.count.Samples++
	if dt > f.c.MaxGap {
		f.count.Gaps++
		f.start()
	}

	gyro, acc := wide(s.Gyro), wide(s.Acc)
	var q, dq [go1.Joints]float64
	for i := range q {
		q[i], dq[i] = float64(s.Q[i]), float64(s.Dq[i])
	}
	if !f.running {
		f.floor.normal = up
	}
	if f.running {
		f.predict(gyro, acc, up, f.unseen(acc, dt), dt)
	} else {
		dt = math.Min(dt, f.c.MaxGap)
	}
	gyroVar := f.gyroNoise.update(gyro[:], f.c.GyroNoise, dt)
	dqVar := f.dqNoise.update(dq[:], f.c.JointSpeedNoise, dt)

	normal := f.floor.normal
	noTorque := s.Tau == [go1.Joints]float32{}
	for i := range f.legs {
		var jac mat3
		l := &f.legs[i]
		l.solve(i, &q, &dq, &jac, gyro, normal, gyroVar, dqVar)
		if noTorque {
			f.obs[i].running, l.loadKnown = false, false
			continue
		}
		tau := vec3{float64(s.Tau[3*i]), float64(s.Tau[3*i+1]), float64(s.Tau[3*i+2])}
		ext := f.obs[i].update(i, &q, &dq, tau, acc, f.c.ForceFilter, dt)
		l.load, l.loadKnown = normalLoad(&jac, normal, ext)
	}
	f.contacts(s, up, dt)
	f.correct(dt)
	f.correctHeight(up, dt)
	f.standStill(gyro, acc, up, &dq, dt)
	f.bound()
	f.running = true
}

// unseen is the variance, (m/s)^2, of the velocity that the accelerometer may have
// missed in dt: shocks, saturation, gaps.
func (f *Filter) unseen(acc vec3, dt float64) float64 {
	v := f.lost
	f.lost = 0
	if shock := math.Abs(acc.norm() - gravity); shock > shockStart {
		v += sq(shockError * shock * dt)
	}
	if m := math.Max(math.Abs(acc[0]), math.Max(math.Abs(acc[1]), math.Abs(acc[2]))); m > imuRange {
		v += sq(m * dt)
	}
	if dt > gapStart {
		v += sq(lostAcc * dt)
	}
	return v
}

// predict moves the state by dt; lost is what unseen gave. Turning by -gyro*dt
// keeps the body's frame.
func (f *Filter) predict(gyro, acc, up vec3, lost, dt float64) {
	e := rotation(vec3{-gyro[0] * dt, -gyro[1] * dt, -gyro[2] * dt})
	v := e.apply(f.vel)
	for i := range 3 {
		v[i] += (acc[i] - f.bias[i] - gravity*up[i]) * dt
	}
	f.vel = v

	n := f.floor.normal
	f.height += n.dot(f.vel) * dt

	// F = [E, -dt I, 0; 0, I, 0; n'dt, 0, 1]; t = F P, then P = t F'.
	var t [states][states]float64
	for c := range states {
		p0, p1, p2 := f.p[0][c], f.p[1][c], f.p[2][c]
		for r := range 3 {
			b := f.p[r+3][c]
			t[r][c] = e[r][0]*p0 + e[r][1]*p1 + e[r][2]*p2 - dt*b
			t[r+3][c] = b
		}
		t[6][c] = f.p[6][c] + dt*(n[0]*p0+n[1]*p1+n[2]*p2)
	}
	for r := range states {
		row := &t[r]
		t0, t1, t2 := row[0], row[1], row[2]
		out := &f.p[r]
		for c := range 3 {
			out[c] = e[c][0]*t0 + e[c][1]*t1 + e[c][2]*t2 - dt*row[c+3]
			out[c+3] = row[c+3]
		}
		out[6] = row[6] + dt*(n[0]*t0+n[1]*t1+n[2]*t2)
	}
	for k := range 3 {
		f.p[k][k] += sq(f.c.AccNoise)*dt + lost
		f.p[k+3][k+3] += sq(f.c.AccBiasWalk) * dt
	}
	f.p[6][6] += sq(f.c.FloorWalk) * dt
	f.blind += dt
}

// correct takes in the feet that stand.
func (f *Filter) correct(dt float64) {
	standing, accepted := false, false
	for pass := 0; ; pass++ {
		for i := range f.legs {
			if f.prob[i] < leastContact {
				continue
			}
			if f.contact[i].State == ContactGround {
				standing = true
			}
			trust := f.prob[i] * (0.05 + 0.95*f.stance[i]/(f.stance[i]+settleTime))
			if f.correctFoot(i, trust, dt) {
				accepted = true
			}
		}
		if accepted || !standing {
			f.refusing = 0
			break
		}
		f.refusing += dt
		if f.refusing < f.c.RecoverTime || pass > 0 {
			break
		}
		// All feet contradict the estimate for long: it is the estimate.
		f.count.Recovered++
		for k := range 3 {
			f.p[k][k] += sq(recoverSpread) + sq(f.refusing)
		}
	}
	if accepted {
		f.blind = 0
	}
}

// correctFoot takes in one foot's velocity, trusted 0..1; false when the gate
// refuses it.
func (f *Filter) correctFoot(i int, trust, dt float64) bool {
	l := &f.legs[i]
	inn := l.vel.sub(f.vel)
	// What a standing foot does lasts for many ticks. To average it well it has
	// to count as noisier than it is at any moment; to tell a slip it must not.
	now := f.footCov(l, sq(f.c.FootSlip)/(trust*trust))
	d2 := f.distance(&now, inn)
	if !(d2 <= f.c.Gate) {
		f.count.Refused++
		return false
	}
	// Towards the gate a foot counts less and less: slip begins gradually.
	long := f.footCov(l, sq(f.c.FootNoise)/dt/(trust*trust)*sq(1+d2/3))
	f.fuse(&long, inn)
	return true
}

// footCov is a foot's sensor noise with variance (m/s)^2 of the foot itself, which
// gives way more along the floor's normal.
func (f *Filter) footCov(l *leg, own float64) mat3 {
	r, n := l.cov, f.floor.normal
	more := own * (sq(f.c.FootGive) - 1)
	for a := range 3 {
		r[a][a] += own
		for b := range 3 {
			r[a][b] += more * n[a] * n[b]
		}
	}
	return r
}

func (f *Filter) distance(r *mat3, inn vec3) float64 {
	s := *r
	for a := range 3 {
		for b := range 3 {
			s[a][b] += f.p[a][b]
		}
	}
	inv, det := s.inverse(1e-30)
	if !(det > 0) {
		return math.Inf(1)
	}
	return inn.dot(inv.apply(inn))
}

// fuse is the Kalman update for a measured velocity with innovation inn and
// noise r.
func (f *Filter) fuse(r *mat3, inn vec3) {
	s := *r
	for a := range 3 {
		for b := range 3 {
			s[a][b] += f.p[a][b]
		}
	}
	inv, det := s.inverse(1e-30)
	if !(det > 0) {
		return
	}
	// Gain K = P H' S^-1; H picks the velocity, so P H' is P's first three
	// columns, which are its first three rows.
	r0, r1, r2 := f.p[0], f.p[1], f.p[2]
	for a := range states {
		k := inv.apply(vec3{r0[a], r1[a], r2[a]}) // S is symmetric
		for b := a; b < states; b++ {
			v := f.p[a][b] - (k[0]*r0[b] + k[1]*r1[b] + k[2]*r2[b])
			f.p[a][b], f.p[b][a] = v, v
		}
		switch d := k.dot(inn); {
		case a < 3:
			f.vel[a] += d
		case a < 6:
			f.bias[a-3] += d
		default:
			f.height += d
		}
	}
}

// symmetric removes what rounding has made different.
func (f *Filter) symmetric() {
	for a := range states {
		for b := range a {
			v := (f.p[a][b] + f.p[b][a]) / 2
			f.p[a][b], f.p[b][a] = v, v
		}
	}
}

// standStill takes in that a body at rest does not move, and that a body which
// no foot holds does not fly for ever.
func (f *Filter) standStill(gyro, acc, up vec3, dq *[go1.Joints]float64, dt float64) {
	a := dt / (dt + quietFilter)
	off := vec3{}
	for k := range 3 {
		f.restGyro[k] += a * (gyro[k] - f.restGyro[k])
		f.restAcc[k] += a * (acc[k] - gravity*up[k] - f.restAcc[k])
		off[k] = f.restAcc[k]
	}
	quiet := f.restGyro.norm() < quietGyro && off.norm() < quietAcc
	for i := range dq {
		f.restDq[i] += a * (dq[i] - f.restDq[i])
		quiet = quiet && math.Abs(f.restDq[i]) < quietDq
	}
	if !quiet {
		f.rest = 0
	} else {
		f.rest += dt
	}
	still := vec3{-f.vel[0], -f.vel[1], -f.vel[2]}
	sigma := 0.
	switch {
	case f.rest > quietTime && f.blind > quietTime:
		sigma, f.blind = quietSigma, quietTime
	case f.blind > quietTime:
		sigma = flightSigma
	default:
		return
	}
	v := sigma * sigma / dt
	f.fuse(&mat3{{v, 0, 0}, {0, v, 0}, {0, 0, v}}, still)
}

// bound keeps the state where a Go1 can be, and the covariance a covariance.
func (f *Filter) bound() {
	if n := f.vel.norm(); n > f.c.VelocityMax {
		for k := range 3 {
			f.vel[k] *= f.c.VelocityMax / n
		}
	}
	f.symmetric()
	sound := true
	for k := range 3 {
		f.bias[k] = clamp(f.bias[k], f.c.AccBiasMax)
		sound = sound && f.p[k][k] > 0 && f.p[k][k] < 1e4 && f.p[k+3][k+3] >= 0 && !math.IsNaN(f.vel[k]+f.bias[k]+f.height)
	}
	if !sound {
		f.start()
	}
}

// Velocity gives the IMU's velocity, m/s, body frame.
func (f *Filter) Velocity() [3]float32 {
	return [3]float32{float32(f.vel[0]), float32(f.vel[1]), float32(f.vel[2])}
}

// Sigma gives one standard deviation of Velocity, m/s per axis: the filter's own
// and what feet that land moving take from the speed.
func (f *Filter) Sigma() (s [3]float32) {
	scale := sq(f.c.SpeedError) * f.vel.dot(f.vel)
	for k := range s {
		s[k] = float32(math.Sqrt(f.p[k][k] + scale))
	}
	return s
}

// AccBias gives the accelerometer's estimated bias, m/s2, body frame.
func (f *Filter) AccBias() [3]float32 {
	return [3]float32{float32(f.bias[0]), float32(f.bias[1]), float32(f.bias[2])}
}

// Contacts gives the feet's states, in the SDK's leg order.
func (f *Filter) Contacts() [4]Contact { return f.contact }

// FootForceHealth gives the force sensors' states, in the SDK's leg order.
func (f *Filter) FootForceHealth() (h [4]SensorHealth) {
	for i := range h {
		h[i] = f.sensors[i].health
	}
	return h
}

// Counters gives the counts since New.
func (f *Filter) Counters() Counters { return f.count }

// Healthy tells whether the velocity may be used for control: something was
// measured lately, and it is known to better than half a metre per second.
func (f *Filter) Healthy() bool {
	s := f.Sigma()
	return f.running && f.owed+f.blind < healthyBlind && max(s[0], s[1], s[2]) < healthySigma
}

// check refuses what is no measurement and gives the vertical in the body's
// frame.
func check(s *Sample) (up vec3, ok bool) {
	for k := range 3 {
		if !within(s.Gyro[k], maxGyro) || !within(s.Acc[k], maxAcc) {
			return up, false
		}
	}
	for i := range s.Q {
		if !within(s.Q[i], maxQ) || !within(s.Dq[i], maxDq) || !within(s.Tau[i], maxTau) {
			return up, false
		}
	}
	w, x, y, z := float64(s.Quat[0]), float64(s.Quat[1]), float64(s.Quat[2]), float64(s.Quat[3])
	n := w*w + x*x + y*y + z*z
	if !(n > 0.5 && n < 2) {
		return up, false
	}
	return vec3{2 * (x*z - w*y) / n, 2 * (y*z + w*x) / n, (w*w - x*x - y*y + z*z) / n}, true
}

func within(x float32, size float32) bool { return x >= -size && x <= size }

func wide(v [3]float32) vec3 { return vec3{float64(v[0]), float64(v[1]), float64(v[2])} }

func sq(x float64) float64 { return x * x }
