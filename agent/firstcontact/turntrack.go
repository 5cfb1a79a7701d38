package firstcontact

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

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
	// home is where the step's first try began; a second one begins there, too.
	home     quat
	homeSeen bool
	quatDead bool // the quaternion stood still in the motions before

	from    quat
	accFrom vec
	fromNs  int64
	gyro    vec // integral; no quaternion, which would wrap where the unit is degrees
	peak    float64
	peakNs  int64
	at      TurnFigures // at the peak
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

// motion follows one of the three turns of the body.
func (e *Examiner) motion(nowNs int64, dt float64, s *wire.LowState, st *Status) {
	t := &e.turn
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
	st.Want = turnWant
	if !t.asking {
		st.Value = angle(t.acc, e.restAcc())
		if angle(t.acc, t.anchorAcc) > t.accStill || norm(turned(t.anchorQ, q)) > t.quatStill || angle(t.acc, e.restAcc()) > turnLevel+t.accStill ||
			t.homeSeen && norm(turned(t.home, q)) > turnLevel+t.quatStill {
			t.anchorAcc, t.anchorQ, t.anchorNs = t.acc, q, nowNs
		}
		if nowNs-t.anchorNs < stillNs {
			return
		}
		t.asking, t.from, t.accFrom, t.fromNs = true, q, t.acc, nowNs
		if !t.homeSeen {
			t.home, t.homeSeen = q, true
		}
		e.phase = Asking
		return
	}
	for i, v := range s.IMU.Gyroscope {
		t.gyro[i] += (finite(v) - e.rec.Rest.Gyro[i].Mean) * dt
	}

	by3 := turned(t.from, q)
	far := norm(by3)
	asked := motion[e.step.index()]
	if fa := angle(t.acc, t.accFrom); far < turnWant/2 && asked.axis != 2 {
		far = fa // an orientation that stands still, and gravity that moves
	} else if t.quatDead { // of yaw nothing else tells
		far = norm(t.gyro)
	}
	st.Moved, st.Value = 0, by3[0]
	for i := range by3 {
		if math.Abs(by3[i]) > math.Abs(st.Value) {
			st.Moved, st.Value = i, by3[i]
		}
	}
	if far > t.peak*1.02 || t.peakNs == 0 {
		t.peak, t.peakNs = far, nowNs
		t.at = TurnFigures{
			Seconds: float64(nowNs-t.fromNs) / 1e9,
			From:    t.from, To: q, AccFrom: t.accFrom, AccTo: t.acc, Gyro: t.gyro,
		}
	}
	if t.peak < turnWant || nowNs-t.peakNs <= holdNs && far >= over*t.peak {
		return
	}
	f := &e.rec.Motions[e.step.index()]
	*f = t.at
	f.Tries = e.tries + 1
	said := see(f, false)
	if said.right(e.step.index()) {
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
