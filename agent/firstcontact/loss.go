package firstcontact

import "math"

// LossSeconds is how long the link is silenced.
const LossSeconds = 0.2

// A silence is judged if it lasted so long: by the sender's clock, from its last frame before to the newest frame that had left when the
// first state behind came. The first frame behind leaves in the first period of 2 ms at or after LossSeconds; a computer that is late,
// and an answer that is lost, make it longer, and then the limits of Behaviour are not those of LossSeconds any more.
const (
	LossShortestMs = 190
	LossLongestMs  = 230
)

// LossTrials is how often, one after the other.
const LossTrials = 5

// LossTrial is one silence of the link while joints are held away from where they hang. Deltas and rates are those of the joints that
// were moved (their mean), with the sign of the way back to where they would hang.
type LossTrial struct {
	AwayRad    float64 `json:"away_rad"`          // how far from where they hang, before
	DriftRad   float64 `json:"drift_rad"`         // their way back within an equal time before the silence
	BackRad    float64 `json:"back_rad"`          // their way back in the silence
	BackRadS   float64 `json:"back_rad_s"`        // speed of it in the first state after
	TauBefore  float64 `json:"tau_before_nm"`     // torque estimate, away from where they hang
	TauAfter   float64 `json:"tau_after_nm"`      // in the first state after
	ModesAfter int     `json:"not_in_servo_mode"` // motors not in servo mode in the first state after
	Unasked    int     `json:"unasked_states"`    // that came in the silence
	SilentMs   float64 `json:"silent_ms"`         // by the sender's clock, see LossShortestMs
}

// Behaviour of the motors when no command comes.
type Behaviour uint8

// Behaviours.
const (
	Unknown Behaviour = iota
	Holds             // the last command stays in force
	Damps
	Limp
)

var behaviourNames = [...]string{"unknown", "hold", "damp", "limp"}

func (b Behaviour) String() string { return behaviourNames[b] }

// MarshalText gives the behaviour's name.
func (b Behaviour) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads it.
func (b *Behaviour) UnmarshalText(text []byte) error {
	return fromName(b, behaviourNames[:], "behaviour", text)
}

// Limits of what the joints did in the silence. A held joint stays; a limp leg swings like a pendulum of some 4 rad/s, of which
// LossSeconds is an eighth of a turn; a damped one creeps at the rate of its gravity over its damping, some 0.25/s for Kd 3.
const (
	lossAway  = 0.1   // rad: less is not worth judging
	lossStays = 0.006 // of the way back
	lossTau   = 0.5   // of the torque before: a motor that holds goes on giving it
	limpWay   = 0.15  // of the way back
	limpRate  = 0.7   // of the way back a second
)

// silent says whether the silence lasted as long as it should.
func (t *LossTrial) silent() bool { return t.SilentMs >= LossShortestMs && t.SilentMs <= LossLongestMs }

// Behaviour is what one silence shows.
func (t *LossTrial) Behaviour() Behaviour {
	if !(t.AwayRad >= lossAway) || !t.silent() {
		return Unknown
	}
	way := (t.BackRad - t.DriftRad) / t.AwayRad
	rate := t.BackRadS / t.AwayRad
	switch {
	case math.IsNaN(way) || way < -lossStays:
		return Unknown
	case way < lossStays && t.ModesAfter == 0 && t.TauAfter > lossTau*t.TauBefore:
		return Holds
	case way > limpWay || rate > limpRate:
		return Limp
	case way >= lossStays || t.ModesAfter > 0:
		return Damps
	}
	return Unknown // it stayed without the torque that holds it: friction, at too small an angle
}

// JudgeLoss is what all silences together show: what most say, if no more than one says otherwise. The verdict's A counts those that did
// not last as long as they should, Want is how long they lasted in the mean, ms.
func JudgeLoss(trials []LossTrial) (b Behaviour, v Verdict) {
	var count [len(behaviourNames)]int
	way, silentMs, other := 0.0, 0.0, 0
	for i := range trials {
		t := &trials[i]
		count[t.Behaviour()]++
		silentMs += t.SilentMs / float64(len(trials))
		if !t.silent() {
			other++
		}
		if t.AwayRad > 0 {
			way += t.BackRad / t.AwayRad / float64(len(trials))
		}
	}
	for is := Holds; is <= Limp; is++ {
		if len(trials) >= LossTrials && count[is] >= len(trials)-1 {
			b = is
		}
	}
	code := [...]Code{LossUnclear, LossHold, LossDamp, LossLimp}[b]
	return b, Verdict{Code: code, A: other, B: -1, Value: way, Want: silentMs}
}
