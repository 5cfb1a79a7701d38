package estimate

import "math"

// SensorHealth is what the filter thinks of a foot's force sensor.
type SensorHealth uint8

const (
	SensorUncalibrated SensorHealth = iota // not yet seen both in the air and on the ground; not used
	SensorOK                               // answers to load; used
	SensorUnknown                          // all four read 0: not fitted or not reported; not used
	SensorStuck                            // does not answer to load; not used
)

// String gives the word for logs and the page.
func (h SensorHealth) String() string {
	return [...]string{"uncalibrated", "ok", "unknown", "stuck"}[h&3]
}

// A sensor's model is raw = zero + gain*load, load in units of a standing foot's
// share (go1.Mass*g/4). zero and gain are a two-state Kalman filter: zero wanders,
// gain does not. The other sources say what load is.
type sensor struct {
	health SensorHealth
	zero   float64 // raw at no load
	gain   float64 // raw per standing load
	pzz    float64 // covariance of zero and gain
	pzg    float64
	pgg    float64
	began  bool

	airAge, groundAge float64 // s since the other sources were last sure of each

	// A stuck sensor is one that stayed within a band while the foot went up
	// and down.
	mark   float64 // middle of the band
	last   int8    // what the others last said surely: -1 air, 1 ground
	passes int     // changes of last within the band
}

const (
	gainStart     = 200. // raw, 1 sigma of the gain before anything is known
	sensorMemory  = 2.   // s within which both air and ground must be seen for the gain to be learnt
	passesToStick = 4    // two steps
	sensorVote    = 10.  // log odds per standing load
	sensorVoteMax = 3.
	sensorSplit   = 0.4 // of a standing load: as likely ground as air
)

// update learns from one raw reading. load is in standing loads and sure is -1
// or 1 when the other sources are sure of air or ground, 0 when not.
func (s *sensor) update(c *Config, raw, load float64, sure int8, dt float64) {
	s.airAge += dt
	s.groundAge += dt
	switch {
	case sure < 0:
		s.airAge, load = 0, 0
	case sure > 0:
		s.groundAge = 0
	}
	if !s.began {
		if sure == 0 {
			return
		}
		*s = sensor{began: true, mark: raw, last: sure, airAge: s.airAge, groundAge: s.groundAge,
			zero: raw, pgg: gainStart * gainStart}
		// zero + gain*load = raw, so an error of the gain is one of the zero.
		s.pzz = c.SensorNoise*c.SensorNoise + load*load*s.pgg
		s.pzg = -load * s.pgg
		return
	}
	s.pzz += c.SensorDrift * c.SensorDrift * dt
	s.watch(c, raw, sure)
	if sure == 0 || !s.began {
		return
	}

	// Readings on neighbouring ticks say the same: as if ten times noisier.
	inn := raw - s.zero - s.gain*load
	model := c.SensorNoise + 0.25*math.Abs(s.gain*load)
	r := 10 * model * model
	hz, hg := s.pzz+load*s.pzg, s.pzg+load*s.pgg
	v := r + hz + load*hg
	kz, kg := hz/v, hg/v
	both := s.airAge < sensorMemory && s.groundAge < sensorMemory
	s.zero += kz * inn
	s.pzz -= kz * hz
	if both {
		s.gain += kg * inn
		s.pzg -= kz * hg
		s.pgg -= kg * hg
		// Grip changes with temperature and age: forget over about a minute.
		s.pgg = math.Min(s.pgg*(1+dt/30), gainStart*gainStart)
	} else {
		s.pzg -= kz * hg // the gain is held: standing still says nothing about it
	}
	if lim := math.Sqrt(math.Max(s.pzz*s.pgg, 0)); math.Abs(s.pzg) > lim {
		s.pzg = math.Copysign(lim, s.pzg)
	}
	s.judge(c)
}

// judge sets the health from the model's gain.
func (s *sensor) judge(c *Config) {
	if s.health == SensorStuck && s.passes >= passesToStick {
		return
	}
	sd := math.Sqrt(s.pgg)
	switch {
	case s.gain > c.SensorMin && s.gain > 4*sd:
		s.health = SensorOK
	case s.gain+4*sd < c.SensorMin:
		s.health = SensorStuck
	default:
		s.health = SensorUncalibrated
	}
}

// watch counts how often the foot went up and down while the reading did not
// move; a slow wander of the zero is followed.
func (s *sensor) watch(c *Config, raw float64, sure int8) {
	band := c.SensorMin / 2
	if s.health == SensorOK {
		band = math.Max(band, 0.15*s.gain)
	}
	if math.Abs(raw-s.mark) > band {
		if s.passes >= passesToStick {
			// It moves again: what was learnt before and during is worth nothing.
			*s = sensor{}
			return
		}
		s.passes, s.mark = 0, raw
	}
	s.mark += 0.002 * (raw - s.mark)
	if sure != 0 && sure != s.last {
		s.last = sure
		if s.passes++; s.passes >= passesToStick {
			s.health = SensorStuck
		}
	}
}

// vote is the sensor's log odds of ground; 0 unless it is OK.
func (s *sensor) vote(raw float64) float64 {
	if s.health != SensorOK {
		return 0
	}
	load := (raw - s.zero) / s.gain
	return clamp(sensorVote*(load-sensorSplit), sensorVoteMax)
}
