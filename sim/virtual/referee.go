package virtual

import (
	"math"

	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// Limits of what counts as standing, lying, walking and falling. Lengths are of the trunk's origin over the floor.
const (
	standHeight = 0.22 // m; home is 0.28
	lieHeight   = 0.12 // m
	standTilt   = 0.3  // rad
	fallTilt    = 1.0  // rad, the safety table's
	stillSpeed  = 0.15 // m/s
	standTime   = 0.5  // s
	walkSpeed   = 0.3  // m/s
	walkTime    = 1    // s
	walkEnd     = 0.15 // m/s
	speedTime   = 0.3  // s, low pass of the speed, which sways with each step
	legsOut     = 0.18 // m; commanded legs shorter than this lower the robot on purpose, and then its belly may touch
	touching    = 0.004
	thighRadius = 0.017
)

// trunkCorner and head are go1_full.xml's.
var (
	trunkCorner = [3]float64{0.1881, 0.04675, 0.057}
	head        = 0.24
	headRadius  = 0.06
)

// referee watches physics.
type referee struct {
	hung                   bool // from a gantry: it neither stands nor falls
	stood, fallen, walking bool
	still, lying, fast     float64 // s so far
	speed                  float64 // m/s, low pass
	stoodAt, walkedAt      float64 // first time, s; NaN: not yet

	falls      int
	distance   float64    // m
	walked     float64    // s
	sum        [3]float64 // vx, vy, wz over that time
	tilt       float64
	heading    [2]float64 // m/s
	body       [3]float64 // vx, vy, wz
	posture    string
	lowest     float64 // m, of the trunk's corners and head
	lowestKnee float64
}

func newReferee() *referee {
	return &referee{stoodAt: math.NaN(), walkedAt: math.NaN(), posture: "lying"}
}

// step judges one physics step of dt seconds that ended at t, made under cmd. It returns the events in the order in which
// they are to be logged, with a word on the cause.
func (r *referee) step(st *mujoco.State, cmd *mujoco.MotorCmd, t, dt float64) (event, cause string) {
	rot := rotation(st.Quat)
	r.tilt = math.Acos(min(max(rot[2][2], -1), 1))
	yaw := math.Atan2(rot[1][0], rot[0][0])
	sin, cos := math.Sincos(yaw)
	vx, vy := st.LinVelWorld[0], st.LinVelWorld[1]
	r.heading = [2]float64{cos*vx + sin*vy, cos*vy - sin*vx}
	r.body = [3]float64{st.LinVelBody[0], st.LinVelBody[1], st.AngVelBody[2]}
	speed := math.Hypot(vx, vy)
	r.distance += speed * dt
	r.speed += (speed - r.speed) * dt / speedTime

	r.lowest = st.Pos[2] + min(
		-math.Abs(rot[2][0])*trunkCorner[0]-math.Abs(rot[2][1])*trunkCorner[1]-math.Abs(rot[2][2])*trunkCorner[2],
		rot[2][0]*head-headRadius)
	r.lowestKnee = min(st.KneeHeight[0], st.KneeHeight[1], st.KneeHeight[2], st.KneeHeight[3])

	if r.hung {
		r.posture = "hung"
		return "", ""
	}
	torque := false
	for i := range mujoco.Joints {
		torque = torque || cmd.Mode[i] == mujoco.ModeServo && cmd.Kp[i] > 0
	}
	if e, c := r.falling(cmd, torque); e != "" {
		return e, c
	}
	return r.standing(st, torque, t, dt), ""
}

func (r *referee) falling(cmd *mujoco.MotorCmd, torque bool) (event, cause string) {
	if r.fallen || !r.stood {
		return "", ""
	}
	held := torque && legLength(cmd) >= legsOut
	switch {
	case r.tilt > fallTilt:
		cause = "tilt"
	case held && r.lowest < touching:
		cause = "trunk"
	case held && r.lowestKnee < thighRadius+touching:
		cause = "thigh"
	default:
		return "", ""
	}
	r.fallen, r.stood, r.walking, r.still, r.fast = true, false, false, 0, 0
	r.falls++
	r.posture = "fallen"
	return "fall", cause
}

func (r *referee) standing(st *mujoco.State, torque bool, t, dt float64) (event string) {
	up := st.Pos[2] > standHeight && r.tilt < standTilt
	if up && torque && r.speed < stillSpeed && math.Abs(st.LinVelWorld[2]) < stillSpeed/3 {
		r.still += dt
	} else {
		r.still = 0
	}
	if st.Pos[2] < lieHeight && r.speed < stillSpeed {
		r.lying += dt
	} else {
		r.lying = 0
	}
	if up && r.speed > walkSpeed {
		r.fast += dt
	} else if !r.walking {
		r.fast = 0
	}
	switch {
	case r.walking && (r.speed < walkEnd || !up):
		r.walking, r.fast = false, 0
	case r.walking:
		r.walked += dt
		for i, v := range [3]float64{r.heading[0], r.heading[1], r.body[2]} {
			r.sum[i] += v * dt
		}
	case r.fast >= walkTime-1e-9:
		r.walking = true
		r.posture = "walking"
		r.stood, r.fallen = true, false // it can fall from here, also when it never stood still before
		if math.IsNaN(r.walkedAt) {
			r.walkedAt = t
			return "walking"
		}
	}
	switch {
	case !r.stood && r.still >= standTime-1e-9:
		r.stood, r.fallen, r.posture = true, false, "standing"
		if math.IsNaN(r.stoodAt) {
			r.stoodAt = t
		}
		return "stood"
	case r.stood && r.lying >= standTime-1e-9:
		r.stood, r.posture = false, "lying"
		return "lying"
	case r.stood && !r.walking:
		r.posture = "standing"
	}
	return ""
}

// mean is what it walked at on average, vx vy along the heading, wz; zero when it did not walk.
func (r *referee) mean() (v [3]float64) {
	if r.walked > 0 {
		for i := range v {
			v[i] = r.sum[i] / r.walked
		}
	}
	return v
}
