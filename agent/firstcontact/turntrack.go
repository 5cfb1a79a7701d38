package firstcontact

import (
	"fmt"
	"math"
	"strconv"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Hint is what a person has to know now, beside what is asked for.
type Hint uint8

// Hints. All but the last keep it from being asked for; of all but HintCreeps and HintStretch, Status.Value is then how far it is off, and
// Status.Want how far it may be.
const (
	NoHint        Hint = iota
	HintCreeps         // a joint, Status.Moved, that was let go has not come to rest
	HintStretch        // knees, Status.About, hang folded, and could not be bent
	HintPutBack        // the joint or foot to be asked for, Status.Moved, is not as it was at rest
	HintLevel          // it does not hang as it did at rest
	HintStill          // it moves
	HintBack           // its nose is not where it was when it was first asked to be turned
	HintSlow           // so, too; it turned so slowly that it may have been the rope
	HintOtherAxis      // it turns about the vertical axis, and is asked to be tipped
)

var hintNames = [...]string{"", "creeps", "stretch", "put_back", "level", "still", "back", "slow", "other_axis"}

func (h Hint) String() string { return hintNames[h] }

// Text says it for people, of a step's status.
func (h Hint) Text(step Step, st *Status) string {
	off := st.Value
	degrees := func() string { return strconv.Itoa(int(math.Ceil(math.Abs(off)*180/math.Pi))) + " degrees" }
	switch h {
	case HintCreeps:
		return "hands off: " + go1.JointNames[st.Moved] + " still creeps, and is waited for"
	case HintStretch:
		return "first stretch the knees that are folded, and leave them so: " + st.About.legs()
	case HintPutBack:
		if step.Group() == Feet {
			return fmt.Sprintf("first let go of the %s foot: it answers with %+.0f counts more than at rest", legText[st.Moved], off)
		}
		return fmt.Sprintf("first put %s back to where it hung at rest, and let it go: it is %+.2f rad away", go1.JointNames[st.Moved], off)
	case HintLevel:
		return "wait: let it hang level, as at the beginning; it is " + degrees() + " off"
	case HintStill:
		return "wait: hold it still, its nose too, if it turns on its rope"
	case HintBack:
		return "turn the nose back to where it was, " + degrees() + " to go, and hold it still there"
	case HintSlow:
		return "it turned as slowly as a rope does: turn the nose back to where it was, " + degrees() + " to go, hold it still there, and then be quicker"
	case HintOtherAxis:
		return "it turns to the side, and is asked to be tipped"
	}
	return ""
}

// Limits of a yaw, of which no gravity tells: a robot on a single rope turns by itself.
const (
	yawStillNs = int64(1e9)
	yawLevel   = 0.15 // rad from where its nose was when it was first asked for
	// A hand turns it faster than quick, rad/s, seen over quickS, when it leaves yawLevel behind.
	quick  = 0.15
	quickS = 0.3
	slow   = 0.1 // rad/s, with which no motion begins
)

// jerkNs is how long a hand that begins shakes the accelerometer at most.
const jerkNs = int64(200e6)

// turnTrack follows orientation, gyroscope and accelerometer through a motion.
type turnTrack struct {
	acc       vec  // smoothed
	q         quat // smoothed
	quatStill float64
	accStill  float64
	anchorAcc vec
	anchorQ   quat
	anchorNs  int64
	asking    bool
	// home is where the step's first try began; a second one begins there, too, and both are judged from there.
	home     quat
	homeSeen bool
	strayed  bool // it has turned too slowly
	quatDead bool // the quaternion stood still in the motions before

	from    quat
	accFrom vec
	// mark is where the motion began. Of a yaw that is where it began to be quick: what the rope turns, and a gyroscope drifts by what the
	// rope turned at rest, counts for nothing.
	mark   TurnFigures
	markNs int64
	raw    vec     // integral of the gyroscope since; no quaternion, which would wrap where the unit is degrees
	gyro   vec     // smoothed, to be as late as the others
	accNs  int64   // since when gravity has moved, and the orientation has not
	byAcc  bool    // an orientation that stands still, and gravity that moves
	lag    float64 // of far, smoothed over quickS
	away   bool    // further away than yawLevel
	peak   float64
	peakNs int64
	at     TurnFigures // at the peak
}

func accOf(s *wire.LowState) (a vec) {
	for i, v := range s.IMU.Accelerometer {
		a[i] = finite(v)
	}
	return a
}

func quatOf(s *wire.LowState) quat {
	var q quat
	for i, v := range s.IMU.Quaternion {
		q[i] = finite(v)
	}
	q, _ = unitQuat(q)
	return q
}

// restartTurn begins a try of a motion.
func (e *Examiner) restartTurn(nowNs int64, s *wire.LowState) {
	home, homeSeen := e.turn.home, e.turn.homeSeen && e.tries > 0
	before := e.rec.turns()
	e.turn = turnTrack{acc: accOf(s), q: quatOf(s), anchorNs: nowNs, quatStill: turnStill + noisePass*e.rec.Rest.QuatSD, accStill: turnStill,
		home: home, homeSeen: homeSeen, quatDead: before.deadQuat}
	for _, a := range e.rec.Rest.Acc {
		e.turn.accStill = max(e.turn.accStill, turnStill+noisePass*a.SD/gravity)
	}
	e.turn.anchorAcc, e.turn.anchorQ = e.turn.acc, e.turn.q
}

// apart is how far two orientations are apart, as far as it matters for a motion: of one that is tipped, the rope may turn the nose.
func (t *turnTrack) apart(a, b quat, axis int) float64 {
	if axis != 2 {
		return angle(down(a), down(b))
	}
	return norm(turned(a, b))
}

// settle waits until it hangs still, and as it did before; then it is asked for.
func (t *turnTrack) settle(nowNs int64, q quat, rest vec, axis int, st *Status) {
	still := stillNs
	if axis == 2 {
		still = yawStillNs
	}
	offLevel, offHome := angle(t.acc, rest), 0.0
	if t.homeSeen {
		offHome = t.apart(t.home, q, axis)
	}
	moves := angle(t.acc, t.anchorAcc) > t.accStill || t.apart(t.anchorQ, q, axis) > t.quatStill
	switch levelWithin, homeWithin := turnLevel+t.accStill, yawLevel+t.quatStill; {
	case offLevel > levelWithin:
		st.Hint, st.Value, st.Want = HintLevel, offLevel, levelWithin
	case offHome > homeWithin && axis != 2:
		st.Hint, st.Value, st.Want = HintLevel, offHome, homeWithin
	case offHome > homeWithin:
		if st.Hint, st.Value, st.Want = HintBack, offHome, homeWithin; t.strayed {
			st.Hint = HintSlow
		}
	default:
		st.Hint, st.Value, st.Want = HintStill, max(angle(t.acc, t.anchorAcc), t.apart(t.anchorQ, q, axis)), t.quatStill
	}
	if moves || st.Hint != HintStill {
		t.anchorAcc, t.anchorQ, t.anchorNs = t.acc, q, nowNs
	}
	if nowNs-t.anchorNs < still {
		return
	}
	t.asking, t.strayed = true, false
	t.from, t.accFrom = q, t.acc
	t.mark, t.markNs = TurnFigures{From: q, AccFrom: t.acc}, nowNs
	t.accNs, t.byAcc = nowNs, false
	t.raw, t.gyro, t.lag, t.away, t.peak, t.peakNs = vec{}, vec{}, 0, false, 0, 0
	if !t.homeSeen {
		t.home, t.homeSeen = q, true
	}
}

// motion follows one of the three turns of the body.
func (e *Examiner) motion(nowNs int64, dt float64, s *wire.LowState, st *Status) {
	t := &e.turn
	axis := motion[e.step.index()].axis
	raw, a := quatOf(s), accOf(s)
	by := min(1, dt/smoothing)
	for i := range a {
		t.acc[i] += (a[i] - t.acc[i]) * by
	}
	side := 1.0 // q and -q are one attitude
	if t.q[0]*raw[0]+t.q[1]*raw[1]+t.q[2]*raw[2]+t.q[3]*raw[3] < 0 {
		side = -1
	}
	for i := range raw {
		t.q[i] += (side*raw[i] - t.q[i]) * by
	}
	q, _ := unitQuat(t.q)
	if !t.asking {
		if t.settle(nowNs, q, e.restAcc(), axis, st); t.asking {
			e.phase, st.Hint = Asking, NoHint
		}
		return
	}
	for i, v := range s.IMU.Gyroscope {
		t.raw[i] += (finite(v) - e.rec.Rest.Gyro[i].Mean) * dt
		t.gyro[i] += (t.raw[i] - t.gyro[i]) * by
	}

	shown := turned(t.from, q)
	far := t.apart(t.from, q, axis)
	fa := norm(tipped(t.accFrom, t.acc))
	if axis == 2 || fa < turnWant || far >= turnWant/2 {
		t.accNs = nowNs
	}
	t.byAcc = t.byAcc || nowNs-t.accNs > jerkNs
	switch {
	case axis == 2 && t.quatDead: // of yaw nothing else tells
		far, shown = norm(t.gyro), t.gyro
	case axis == 2: // a way back to home is no motion
		far = min(far, t.apart(t.home, q, axis))
	case t.byAcc:
		far = fa
	}
	st.Want, st.Moved = turnWant, mostAxis(shown)
	st.Value = shown[st.Moved]
	if axis != 2 && far < turnWant/2 && norm(shown) > turnWant {
		st.Hint = HintOtherAxis
	}
	t.lag += (far - t.lag) * min(1, dt/quickS)
	if axis == 2 && !t.quatDead && far < turnWant/2 && math.Abs(far-t.lag) < slow*quickS {
		t.mark, t.markNs = TurnFigures{From: q, AccFrom: t.acc}, nowNs
		for i := range t.gyro {
			t.raw[i], t.gyro[i] = t.raw[i]-t.gyro[i], 0 // what has come since is as late as the orientation
		}
	}
	left := far > yawLevel && !t.away
	t.away = far > yawLevel
	if far > t.peak*1.02 || t.peakNs == 0 {
		t.peak, t.peakNs = far, nowNs
	}
	if far >= t.peak {
		t.at = t.mark
		t.at.Seconds, t.at.To, t.at.AccTo, t.at.Gyro = float64(nowNs-t.markNs)/1e9, q, t.acc, t.gyro
	}
	if axis == 2 && left && far-t.lag < quick*quickS {
		// Nobody can tell a rope's turn from a slow hand's, so neither counts.
		t.asking, t.strayed, t.anchorNs, e.phase = false, true, nowNs, Settling
		t.anchorQ, st.Hint, st.Value, st.Want = q, HintSlow, far, yawLevel
		return
	}
	if t.peak < turnWant || nowNs-t.peakNs <= holdNs && far >= over*t.peak {
		return
	}
	i := e.step.index()
	e.rec.Motions[i] = t.at
	e.rec.Motions[i].Tries = e.tries + 1
	if e.rec.judge(i) == 0 {
		e.end(Passed)
	} else {
		e.wrong(nowNs, s)
	}
}

// restAcc is what the accelerometer said at rest; the present where it said nothing.
func (e *Examiner) restAcc() vec {
	a := vec{e.rec.Rest.Acc[0].Mean, e.rec.Rest.Acc[1].Mean, e.rec.Rest.Acc[2].Mean}
	if norm(a) < 1e-6 {
		return e.turn.acc
	}
	return a
}
