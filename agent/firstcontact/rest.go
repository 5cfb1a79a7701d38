package firstcontact

import (
	"math"
	"math/bits"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// sums of a figure. Its spread is taken from one state to the next, so that a slow sway is no noise.
type sums struct {
	n              int
	mean, last, d2 float64
}

func (s *sums) add(x float64) {
	if s.n > 0 {
		s.d2 += (x - s.last) * (x - s.last)
	}
	s.n++
	s.last = x
	s.mean += (x - s.mean) / float64(s.n)
}

func (s *sums) spread() (sp Spread) {
	if s.n > 1 {
		sp.SD = math.Sqrt(s.d2 / float64(s.n-1) / 2)
	}
	sp.Mean = s.mean
	return sp
}

// restSums is what is gathered at rest.
type restSums struct {
	startNs, lastNs int64
	n, notFinite    int
	first, newest   wire.LowState
	changed         [3]bool // quaternion, gyroscope, accelerometer
	quat            [4]sums
	beganAt, last   quat
	step2           float64 // rad squared from state to state, summed
	lo, hi          float64
	gyro, acc       [3]sums
	q, dq, tau      [go1.Joints]sums
	early           [go1.Joints]float64 // mean of q over the first half
	earlyN          int
	swayed          bool // it was begun anew for that
	sways           bool // it does, and there is no time to wait
	temp            [go1.Joints]int
	foot            [go1.Legs]sums
	remoteMoved     [wire.RemoteSize]bool
	remoteHeard     int
}

// maxSway is how far the body may tip while it is at rest, rad, and rope how fast its nose may turn, rad/s; creeps is how fast a joint may, rad/s: a damped leg that was let go goes
// on so slowly, and where it hangs at rest is what its moves are counted from later.
const (
	maxSway = 0.05
	rope    = 0.05
	creeps  = 0.01
)

// atRest gathers. A body that sways, a leg that creeps, or a knee that is folded, begins it anew, while there is time.
func (e *Examiner) atRest(nowNs int64, s *wire.LowState, st *Status) {
	e.gather(nowNs, s, st)
	if e.phase == Done || e.folded == 0 {
		return
	}
	about := jointSet(0)
	for i := range go1.Joints {
		if e.folded.has(i) && isFolded(i, finite(s.Motor[i].Q)) {
			about |= 1 << i
		}
	}
	if about != 0 {
		st.Hint, st.About = HintStretch, about
	}
	if n := about.count(); n < e.foldedLeast { // for each there is time
		e.foldedLeast, e.startNs = n, nowNs
	}
}

func (e *Examiner) gather(nowNs int64, s *wire.LowState, st *Status) {
	r := &e.rest
	e.phase = Asking
	if r.n == 0 {
		r.startNs, r.first, r.beganAt, r.last = nowNs, *s, quatOf(s), quatOf(s)
		r.lo, r.hi = math.Inf(1), math.Inf(-1)
	}
	q := quatOf(s)
	// What the quaternion jumps from state to state is no sway.
	noise := math.Sqrt(r.step2 / float64(max(r.n, 1)))
	inTime := float64(nowNs-e.startNs)/1e9 < e.cfg.StepSeconds
	sways := angle(down(r.beganAt), down(q)) > maxSway+4*noise || norm(turned(r.beganAt, q)) > max(maxSway, rope*e.cfg.RestSeconds)+4*noise
	if sways && inTime {
		*r = restSums{swayed: true}
		st.Hint = HintStill
		return
	}
	r.sways = r.sways || sways
	r.add(nowNs, s, q)
	seconds := float64(nowNs-r.startNs) / 1e9
	if r.swayed && seconds < 1 {
		st.Hint = HintStill
	}
	if r.earlyN == 0 && seconds >= e.cfg.RestSeconds/2 {
		r.earlyN = r.n
		for i := range r.q {
			r.early[i] = r.q[i].mean
		}
	}
	if e.creeping != 0 {
		st.Hint, st.Moved = HintCreeps, e.creeping.first()
	}
	if seconds < e.cfg.RestSeconds {
		return
	}
	// Legs that creep may stretch by themselves.
	if e.creeping = r.creeping(seconds); e.creeping == 0 || e.folded != 0 {
		e.folded = r.folded()
	}
	if (e.creeping != 0 || e.folded != 0) && inTime {
		*r = restSums{}
		return
	}
	e.restDone()
}

// jointSet has a bit for each joint.
type jointSet uint16

func (j jointSet) has(i int) bool { return j>>i&1 != 0 }

func (j jointSet) count() int { return bits.OnesCount16(uint16(j)) }

// first is the first of them, -1 if there is none.
func (j jointSet) first() int {
	if j == 0 {
		return -1
	}
	return bits.TrailingZeros16(uint16(j))
}

// each tells of each joint whether it is in.
func (j jointSet) each() (is [go1.Joints]bool) {
	for i := range is {
		is[i] = j.has(i)
	}
	return is
}

// legs names those of the joints.
func (j jointSet) legs() string {
	var names []string
	for leg, name := range legText {
		if j>>(leg*go1.JointsInLeg)&(1<<go1.JointsInLeg-1) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// kneeRoom is how far a knee can at least be bent from where it hangs, rad: one that is left folded stays so by its gears' friction, and a
// person bends it, or stretches it and puts it back, and does not measure. Hips and thighs come home by the leg's weight.
const kneeRoom = 0.5

// isFolded says that joint i, that reads q, is a knee without that room. What is beyond its stop it tells nothing of.
func isFolded(i int, q float64) bool {
	room := q - float64(go1.StopLower[i])
	return i%go1.JointsInLeg == go1.Calf && room < kneeRoom && room >= -stopMargin
}

// folded are the knees that are. The legs of a body that is tilted hang otherwise.
func (r *restSums) folded() (set jointSet) {
	var q quat
	for i := range q {
		q[i] = r.quat[i].mean
	}
	if q, ok := unitQuat(q); ok && angle(down(q), vec{0, 0, -1}) > levelTilt {
		return 0
	}
	for i := range r.q {
		if isFolded(i, r.q[i].mean) {
			set |= 1 << i
		}
	}
	return set
}

// creeping are the joints that moved all the while.
func (r *restSums) creeping(seconds float64) (set jointSet) {
	late := float64(r.n - r.earlyN)
	if r.earlyN == 0 || late < 1 {
		return 0
	}
	for i := range r.q {
		q := &r.q[i]
		by := (q.mean*float64(r.n)-r.early[i]*float64(r.earlyN))/late - r.early[i]
		if math.Abs(by) > creeps*seconds/2+4*q.spread().SD*math.Sqrt(1/late+1/float64(r.earlyN)) {
			set |= 1 << i
		}
	}
	return set
}

func (r *restSums) add(nowNs int64, s *wire.LowState, q quat) {
	r.n++
	r.lastNs, r.newest = nowNs, *s
	bad := false
	n, side := 0.0, 1.0 // q and -q are one attitude
	if q[0]*r.beganAt[0]+q[1]*r.beganAt[1]+q[2]*r.beganAt[2]+q[3]*r.beganAt[3] < 0 {
		side = -1
	}
	for i, v := range s.IMU.Quaternion {
		bad = bad || v-v != 0
		n += finite(v) * finite(v)
		r.quat[i].add(side * finite(v))
	}
	n = math.Sqrt(n)
	r.lo, r.hi = min(r.lo, n), max(r.hi, n)
	by := turned(r.last, q)
	r.step2 += dot(by, by)
	r.last = q
	for i := range 3 {
		g, a := s.IMU.Gyroscope[i], s.IMU.Accelerometer[i]
		bad = bad || g-g != 0 || a-a != 0
		r.gyro[i].add(finite(g))
		r.acc[i].add(finite(a))
	}
	r.changed[0] = r.changed[0] || s.IMU.Quaternion != r.first.IMU.Quaternion
	r.changed[1] = r.changed[1] || s.IMU.Gyroscope != r.first.IMU.Gyroscope
	r.changed[2] = r.changed[2] || s.IMU.Accelerometer != r.first.IMU.Accelerometer
	for i := range go1.Joints {
		m := &s.Motor[i]
		bad = bad || m.Q-m.Q != 0 || m.Dq-m.Dq != 0 || m.TauEst-m.TauEst != 0
		r.q[i].add(finite(m.Q))
		r.dq[i].add(finite(m.Dq))
		r.tau[i].add(finite(m.TauEst))
		if r.n == 1 || int(m.Temperature) > r.temp[i] {
			r.temp[i] = int(m.Temperature)
		}
	}
	for i, f := range s.FootForce {
		r.foot[i].add(float64(f))
	}
	for i, b := range s.Remote {
		r.remoteMoved[i] = r.remoteMoved[i] || b != r.first.Remote[i]
	}
	var remote wire.Remote
	if wire.DecodeRemote(&s.Remote, &remote); remote.Present() {
		r.remoteHeard++
	}
	if bad {
		r.notFinite++
	}
}

// restDone writes the figures down and judges the step.
func (e *Examiner) restDone() {
	r := &e.rest
	f := &e.rec.Rest
	*f = RestFigures{
		Seconds: float64(r.lastNs-r.startNs) / 1e9, States: r.n, NotFinite: r.notFinite,
		IMUTemp: int(r.newest.IMU.Temperature), MotorC: r.temp,
		SOC: int(r.newest.BMS.SOC), MilliA: int(r.newest.BMS.Current), Cycles: int(r.newest.BMS.Cycle),
		RemotePresent: r.n > 0 && r.remoteHeard*2 > r.n, RemoteBytes: r.first.Remote, RemoteChanged: r.remoteMoved,
	}
	if r.n > 0 {
		f.QuatNorm = [2]float64{r.lo, r.hi}
	}
	f.Swayed, f.Crept, f.Folded = r.sways, r.creeping(f.Seconds).each(), r.folded().each()
	var q quat
	for i := range q {
		q[i] = r.quat[i].mean
	}
	f.Quat, _ = unitQuat(q)
	if r.n > 1 {
		f.QuatSD = math.Sqrt(r.step2 / float64(r.n-1) / 2)
	}
	for i := range 3 {
		f.Gyro[i], f.Acc[i] = r.gyro[i].spread(), r.acc[i].spread()
		f.Stuck[i] = r.n > 1 && !r.changed[i]
	}
	for i := range go1.Joints {
		f.Q[i], f.Dq[i], f.Tau[i] = r.q[i].spread(), r.dq[i].spread(), r.tau[i].spread()
	}
	for i := range r.foot {
		f.Foot[i] = r.foot[i].spread()
	}
	e.zeroFeet()
	for i, mv := range r.newest.BMS.CellVoltage {
		f.Cells[i] = int(mv)
	}
	var found [maxVerdicts]Verdict
	res := Passed
	for _, v := range e.rec.rest(found[:0], &e.cfg) {
		if Codes[v.Code].Level == Fault {
			res = Failed
		}
	}
	e.end(res)
}
