package estimate

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// A foot that lands sinks into rubber and floor and is pushed out again: while it
// counts as standing it moves upwards more than downwards, which as a velocity
// reads as a body that sinks for ever (measured: 0.1 m/s at a walk of 0.8). What
// does not drift is the distance between the body and the ground that carries
// it, so that is a state too, along the ground's normal. The normal comes from
// where the feet stand on average, so a slope is a slope and not a fault.

// floor is the plane through the places where feet stand.
type floor struct {
	normal vec3              // body frame
	mean   [go1.Legs]vec3    // where each foot stands, levelled frame, m
	age    [go1.Legs]float64 // s since it stood
	seen   [go1.Legs]float64 // s it stood in all
}

const (
	floorTrust = 0.75 // probability of contact from which a foot's place counts
	floorTime  = 0.5  // s of standing over which a foot's place is averaged
	floorAge   = 2.   // s after which a place is forgotten
	floorLeast = 0.1  // s of standing before a place counts
	floorTilt  = 0.75 // cosine of the steepest ground, 41 degrees
	floorStep  = 5.   // sigmas beyond which the ground itself has a step
)

// level gives the axes, in the body's frame, of a frame whose z is up and whose x
// looks ahead; ok is false when the body looks straight up or down.
func level(up vec3) (m mat3, ok bool) {
	n := math.Hypot(up[1], up[2]) // |up x forward|
	if n < 0.2 {
		return m, false
	}
	y := vec3{0, up[2] / n, -up[1] / n}
	return mat3{y.cross(up), y, up}, true
}

// update learns where the feet stand and sets the normal.
func (g *floor) update(legs *[go1.Legs]leg, prob, stance *[go1.Legs]float64, up vec3, dt float64) {
	g.normal = up
	m, ok := level(up)
	if !ok {
		return
	}
	all := true
	for i := range legs {
		g.age[i] += dt
		if prob[i] > floorTrust && stance[i] > settleTime {
			if g.age[i] > floorAge {
				g.seen[i] = 0
			}
			g.age[i] = 0
			g.seen[i] = math.Min(g.seen[i]+dt, floorTime)
			p := m.apply(legs[i].foot)
			for k := range 3 {
				g.mean[i][k] += (p[k] - g.mean[i][k]) * dt / g.seen[i]
			}
		}
		all = all && g.seen[i] > floorLeast && g.age[i] < floorAge
	}
	if !all {
		return
	}
	n := g.mean[go1.FL].sub(g.mean[go1.RR])
	n = g.mean[go1.FR].sub(g.mean[go1.RL]).cross(n)
	size := n.norm()
	if size < 0.01 || n[2] < floorTilt*size {
		return
	}
	t := m.transposed()
	n = t.apply(n)
	g.normal = vec3{n[0] / size, n[1] / size, n[2] / size}
}

// correctHeight takes in how far standing feet are below the IMU.
func (f *Filter) correctHeight(up vec3, dt float64) {
	f.floor.update(&f.legs, &f.prob, &f.stance, up, dt)
	n := f.floor.normal
	for i := range f.legs {
		if f.prob[i] < leastContact || f.stance[i] <= 0 {
			continue
		}
		foot := f.legs[i].foot.sub(go1.IMUPosition)
		trust := f.prob[i] * f.stance[i] / (f.stance[i] + settleTime)
		r := sq(f.c.HeightNoise) / dt / (trust * trust)
		inn := -n.dot(foot) - f.height
		s := f.p[6][6] + r
		if inn*inn > sq(floorStep)*s {
			// Another level: forget the height, keep the velocity.
			for k := range states {
				f.p[k][6], f.p[6][k] = 0, 0
			}
			f.p[6][6] = heightStart
			s = f.p[6][6] + r
		}
		row := f.p[6]
		for a := range states {
			k := row[a] / s
			for b := a; b < states; b++ {
				v := f.p[a][b] - k*row[b]
				f.p[a][b], f.p[b][a] = v, v
			}
		}
		g := inn / s
		for a := range 3 {
			f.vel[a] += g * row[a]
			f.bias[a] += g * row[a+3]
		}
		f.height += g * row[6]
	}
}
