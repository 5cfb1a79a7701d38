package estimate

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// ContactState says where a foot is.
type ContactState uint8

const (
	ContactUnknown ContactState = iota // since the start nothing has spoken clearly
	ContactAir
	ContactGround
)

// String gives the word for logs and the page.
func (c ContactState) String() string {
	return [...]string{"unknown", "air", "ground", "unknown"}[c&3]
}

// Source is a set of bits: which sources speak for a contact's state.
type Source uint8

const (
	SourceTorque Source = 1 << iota // ground reaction from joint torques
	SourceForce                     // foot force sensor
	SourceHeight                    // height over the lowest foot
	SourceSpeed                     // speed over the floor
)

// Contact is one foot's.
type Contact struct {
	State       ContactState
	Probability float32 // of ground, 0..1
	Source      Source  // sources that agree with State
}

const (
	standingLoad = go1.Mass * gravity / go1.Legs // N
	voteMax      = 3.5                           // log odds of one source at most
	heightMax    = 1.5                           // at most: floors are uneven
	weakVote     = 0.7                           // a low or slow foot says little: it may hang still
	groundAbove  = 0.6                           // probability at which air becomes ground
	airBelow     = 0.4
	sureOdds     = 1.3   // log odds at which the others teach the foot's sensor
	sureFilter   = 0.015 // s over which they must be sure
	silentTime   = 0.5   // s of all zeros after which the foot sensors are not there
	voteFilter   = 0.003 // s over which the sum is smoothed
)

// contacts fuses the sources of all feet into probabilities. up is the vertical
// in the body's frame.
func (f *Filter) contacts(s *Sample, up vec3, dt float64) {
	lowest := math.Inf(1)
	var height [go1.Legs]float64
	for i := range height {
		height[i] = f.legs[i].foot.dot(f.floor.normal)
		lowest = math.Min(lowest, height[i])
	}
	// Sensors without an offset may all read 0 in a jump; for long they may not.
	noSensors := s.FootForce == [go1.Legs]int16{}
	if noSensors {
		f.silent += dt
	} else {
		f.silent = 0
	}
	velSigma := math.Sqrt((f.p[0][0] + f.p[1][1] + f.p[2][2]) / 3)

	for i := range f.legs {
		l := &f.legs[i]
		var vote [4]float64 // in the order of Source's bits
		if l.loadKnown {
			vote[0] = clamp((l.load-f.c.ContactForce)/f.c.ForceScale, voteMax)
		}
		vote[2] = math.Min(clamp((f.c.FootHeight-(height[i]-lowest))/f.c.HeightScale, heightMax), weakVote)
		if up[2] < leastUp || l.foot.dot(up) > -feetBelow {
			vote[2] = -2 * voteMax // beside or over the trunk: not a floor it stands on
		}
		// The noise of joint speed and what is not known of the body's own make
		// the foot look fast: allow for it, so that a lost filter does not lose
		// its feet too.
		speed := f.vel.sub(l.vel).norm()
		noise := math.Sqrt((l.cov[0][0]+l.cov[1][1]+l.cov[2][2])/3) + velSigma
		vote[3] = math.Min(clamp((f.c.FootSpeed+2*noise-speed)/(f.c.SpeedScale+noise), voteMax), weakVote)
		others := vote[0] + vote[2] + vote[3]

		sensor := &f.sensors[i]
		if noSensors {
			if f.silent > silentTime {
				sensor.health = SensorUnknown
			}
		} else {
			if sensor.health == SensorUnknown {
				sensor.health = SensorUncalibrated
			}
			var sure int8
			load := 1.
			if l.loadKnown {
				load = math.Max(l.load, 0) / standingLoad
			}
			f.others[i] += (others - f.others[i]) * dt / (dt + sureFilter)
			if f.others[i] > sureOdds {
				sure = 1
			} else if f.others[i] < -sureOdds {
				sure = -1
			}
			raw := float64(s.FootForce[i])
			sensor.update(&f.c, raw, load, sure, dt)
			vote[1] = sensor.vote(raw)
		}

		odds := others + vote[1]
		f.odds[i] += (odds - f.odds[i]) * dt / (dt + voteFilter)
		f.prob[i] = 1 / (1 + math.Exp(-f.odds[i]))
		c := &f.contact[i]
		c.Probability = float32(f.prob[i])
		was := c.State
		switch {
		case f.prob[i] > groundAbove:
			c.State = ContactGround
		case f.prob[i] < airBelow:
			c.State = ContactAir
		}
		c.Source = 0
		for k, v := range vote {
			if c.State == ContactGround && v > 0 || c.State == ContactAir && v < 0 {
				c.Source |= 1 << k
			}
		}
		if c.State == ContactGround && was == ContactGround {
			f.stance[i] += dt
		} else {
			f.stance[i] = 0
		}
	}
}

func clamp(x, size float64) float64 { return math.Max(-size, math.Min(size, x)) }
