package task

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// Episode is one draw of a World: what holds of one row until its episode ends.
// Vary.Draw fills it; joints are in the SDK's order.
type Episode struct {
	Friction  float64             // sliding friction of feet on the floor
	TrunkMass float64             // kg added
	TrunkCoM  [3]float64          // m added, trunk frame
	Kp, Kd    float64             // times the contract's
	Strength  float64             // torque made over torque asked for
	JointZero [go1.Joints]float32 // rad that encoders add
	Latency   float64             // s from an action to its target's arrival
	GyroBias  [3]float32          // rad/s, in the IMU's frame
	IMU       [9]float32          // rotation, row-major: what the IMU sees is IMU times the body's vector
	NextPush  float64             // s until it; Pushes counts it down
}

// latencySteps are the first and last multiples of LatencyStep within Latency, with
// room for rounding.
func (v *Vary) latencySteps() (first, last float64) {
	const room = 1e-6 // of a step
	return math.Ceil(v.Latency[0]/v.LatencyStep - room), math.Floor(v.Latency[1]/v.LatencyStep + room)
}

// Draw fills e for a new episode. The count of its draws is always the same: widening
// one range leaves the other numbers of this episode as they were (jitter, losses and
// pushes draw from the same numbers, where there are any).
func (v *Vary) Draw(r *Rand, e *Episode) {
	e.Friction = r.Uniform(v.Friction[0], v.Friction[1])
	e.TrunkMass = r.Uniform(v.TrunkMass[0], v.TrunkMass[1])
	for i := range e.TrunkCoM {
		e.TrunkCoM[i] = r.Sym(v.TrunkCoM)
	}
	e.Kp = r.Uniform(v.Kp[0], v.Kp[1])
	e.Kd = r.Uniform(v.Kd[0], v.Kd[1])
	e.Strength = r.Uniform(v.Strength[0], v.Strength[1])
	for i := range e.JointZero {
		e.JointZero[i] = float32(r.Sym(v.JointZero))
	}
	if u := r.Float64(); v.LatencyStep > 0 {
		first, last := v.latencySteps()
		e.Latency = v.LatencyStep * (first + math.Floor(u*(last-first+1)))
	} else {
		e.Latency = v.Latency[0] + u*(v.Latency[1]-v.Latency[0])
	}
	for i := range e.GyroBias {
		e.GyroBias[i] = float32(r.Sym(v.GyroBias))
	}
	// A random axis: z uniform in -1..1 and an angle about it are uniform on the sphere.
	z, around := r.Sym(1), r.Float64()
	sin, cos := math.Sincos(2 * math.Pi * around)
	h := math.Sqrt(1 - z*z)
	e.IMU = rotation([3]float64{h * cos, h * sin, z}, r.Sym(v.IMUTilt))
}

// rotation is the matrix, row-major, that turns vectors by angle (rad) about an axis of
// length 1.
func rotation(axis [3]float64, angle float64) (m [9]float32) {
	s, c := math.Sincos(angle)
	x, y, z := axis[0], axis[1], axis[2]
	d := 1 - c
	return [9]float32{
		float32(c + d*x*x), float32(d*x*y - s*z), float32(d*x*z + s*y),
		float32(d*x*y + s*z), float32(c + d*y*y), float32(d*y*z - s*x),
		float32(d*x*z - s*y), float32(d*y*z + s*x), float32(c + d*z*z),
	}
}

// turned is m times v.
func turned(m *[9]float32, v [3]float32) [3]float32 {
	return [3]float32{
		m[0]*v[0] + m[1]*v[1] + m[2]*v[2],
		m[3]*v[0] + m[4]*v[1] + m[5]*v[2],
		m[6]*v[0] + m[7]*v[1] + m[8]*v[2],
	}
}

// Delay is the latency of one step's target, s: the episode's with the step's jitter,
// never below 0. Call it once a step.
func (v *Vary) Delay(r *Rand, e *Episode) float64 {
	if v.LatencyJitter == 0 {
		return e.Latency
	}
	return max(0, e.Latency+r.Sym(v.LatencyJitter))
}

// Lost says whether one step's target never arrives. Call it once a step.
func (v *Vary) Lost(r *Rand) bool { return v.LostTargets > 0 && r.Float64() < v.LostTargets }

// Corrupt turns what is true into what the sensors show: the encoders' zero offsets,
// the IMU's tilt and the gyroscope's bias, then noise. Call it once an observation of
// the group "policy". Command, last action and clock are the computer's own and stay.
func (n *Noise) Corrupt(r *Rand, e *Episode, seen *go1.Reading) {
	seen.Gyro = turned(&e.IMU, seen.Gyro)
	seen.Gravity = turned(&e.IMU, seen.Gravity)
	for i, b := range e.GyroBias {
		seen.Gyro[i] += b
	}
	for i, z := range e.JointZero {
		seen.Q[i] += z
	}
	r.addSym(float32(n.Gyro), seen.Gyro[:])
	r.addSym(float32(n.Gravity), seen.Gravity[:])
	r.addSym(float32(n.JointPos), seen.Q[:])
	r.addSym(float32(n.JointVel), seen.Dq[:])
	r.addSym(float32(n.LinVel), seen.LinVel[:])
}

// Begin draws the time until an episode's first push.
func (p *Pushes) Begin(r *Rand, e *Episode) {
	e.NextPush = r.Uniform(p.EverySeconds[0], p.EverySeconds[1])
}

// Advance lets dt seconds pass. When a push is due it gives the change of the trunk's
// velocity in world x and y, m/s, and draws the time until the next.
func (p *Pushes) Advance(r *Rand, e *Episode, dt float64) (kick [2]float64, due bool) {
	if p.EverySeconds == [2]float64{} {
		return kick, false
	}
	// Half a step of slack: seconds that are whole steps must not end one later.
	if e.NextPush -= dt; e.NextPush >= dt/2 {
		return kick, false
	}
	p.Begin(r, e)
	return [2]float64{r.Sym(p.Velocity), r.Sym(p.Velocity)}, true
}
