package safety

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Motor modes of the maker's SDK header.
const (
	ModeServo    = 0x0A
	ModeOverheat = 0x08
)

const (
	msNs = int64(1e6)
	// settleNs after torque begins or ends, the motors' answers still belong to
	// the frames before.
	settleNs = 50 * msNs
	// clockSlack is how fast the two clocks may drift apart before we call it a
	// growing delay: quartz by 100 ppm, and the system's clock is slewed by up to
	// 500 ppm after a start with the wrong time. A delay that grows by less than
	// 2 ms a second is so not seen.
	clockSlack = 2000e-6
	// Beyond these a number in a frame is a mistake: no policy of a Go1 has such
	// gains, no joint such a speed (the maker's VelStopF is 16000), and a torque
	// of 128 N*m wraps on the wire.
	maxKp, maxKd, maxDq, maxTau = 200, 20, 100, 127
	// restartMs is how far back the robot's clock must go to be a new start, and
	// not a state overtaken on its way.
	restartMs = 1000
	// stillSpeed is how fast, rad/s, no joint turns in a state that may repeat the one before as a whole; see repeats.
	stillSpeed = 0.01
	// noisyStates in a row in which no joint turns, and the IMU is off a straight line through the two before by accNoise, m/s2, or gyroNoise,
	// rad/s, are those of a sensor with noise: about a step of a real one's, and in our simulation without noise never in three in a row.
	noisyStates         = 50
	accNoise, gyroNoise = 1. / 256, 1. / 2048
	// repeatNs is the longest time between two states that count as repeats in a row.
	repeatNs = 100 * msNs
	// senderDelay is how long a state may be on its way for its torques to be
	// compared: beyond, we know too badly which frames it answers, and the age
	// itself is judged.
	senderDelay = 10 * msNs
	// senderLeak states in agreement undo one that disagrees with our frames.
	senderLeak = 4
	// answered is how many frames the motors may be answering in one state, the
	// newest being the last one sent before it was sensed; sentFrames are kept,
	// a quarter of a second, for states that were long on their way.
	answered   = 5
	sentFrames = 128
	// lateShare is the share of ticks, one in so many, that may be later than
	// LoopWarnMs: each that is fills the count by lateShare, each that is not
	// takes one away; lateTicks late ones fill it, and it holds twice that.
	lateShare, lateTicks = 100, 5
	// warnHoldNs keeps a counted event visible.
	warnHoldNs = 1000 * msNs
)

// Tick is what the loop knows when it is about to send.
type Tick struct {
	NowNs  int64 // the loop's monotonic clock
	LateNs int64 // how late this tick runs
	Torque bool  // the mode gives torque (stand, policy, sit)
	Policy bool  // the policy drives
	// PolicyLost: it drove until it grew too old; its age is still judged.
	PolicyLost bool

	PolicyPeriodNs int64
	PolicyOutNs    int64 // arrival of the policy's newest output, or its start
	TargetSensedNs int64 // when the state was sensed that the present target answers
	CommandNs      int64 // arrival of the newest velocity command, or the policy's start
}

// Verdict is what has to be done now.
type Verdict struct {
	Severity Severity // the worst, latched until Clear
	Fault    Fault    // its cause: the first of that severity
	Joint    int      // the joint it is about, SDK index; -1 if none
	SinceNs  int64    // when it was latched

	HoldFrame     bool   // send the last frame once more
	HalveCommands bool   // a hot motor: half the commanded velocity
	Warnings      uint64 // bit i: fault number i is worth a warning now
}

// Counters of what was limited.
type Counters struct {
	Clamped, Capped, Refused uint64
}

// Judge watches one robot. It is not safe for concurrent use; the control loop
// owns it.
type Judge struct {
	cfg     Config
	v       Verdict
	n       Counters
	torque  bool
	sinceNs int64 // torque on or off since

	have      bool
	arrivedNs int64 // newest datagram
	freshNs   int64 // newest state whose tick moved
	lastTick  uint32
	robotNs   int64   // the robot's clock since its first state, unwrapped
	relearn   bool    // the next state begins a new offset
	offsetNs  float64 // arrival minus the robot's clock, smallest seen
	sensedNs  int64

	speedRun, modeRun, senderRun, imuRun, power int
	lateRun                                     int
	imuNs                                       int64    // the newest state that imuRun counts
	tempSince                                   [4]int64 // per limit; 0 = below
	tempJoint                                   [4]int
	tempSeen                                    [go1.Joints]bool
	firstNs                                     int64
	batteryNs                                   int64 // low since; 0 = not
	battery                                     bool  // plausible
	soc                                         uint8
	remoteNs                                    int64 // last seen
	clampNs, capNs                              int64 // last event; 0 = never

	edgeLo, edgeHi [go1.Joints]float64 // how far outside its limits a target may still be
	sent           [sentFrames]frame
	sentNs         [sentFrames]int64
	sentCount      int
	q, dq          [go1.Joints]float64
	imu            [10]float32 // of the state before: quaternion, gyroscope, accelerometer
	imuStep        [6]float32  // gyroscope's and accelerometer's, from the state before that
	noisy          int         // states in a row that show the IMU's noise; from noisyStates on it is known to have some
	quat           [4]float32
	tiltRad        float64
}

type frame struct{ q, dq, tau, kp, kd [go1.Joints]float64 }

// New makes a judge; the configuration must be valid.
func New(cfg Config) *Judge {
	j := &Judge{cfg: cfg}
	j.v.Joint = -1
	return j
}

// Verdict is the present verdict.
func (j *Judge) Verdict() Verdict { return j.v }

// Counters since start.
func (j *Judge) Counters() Counters { return j.n }

// Clear forgets what was latched: a person has looked. The control loop calls
// it only while it damps.
func (j *Judge) Clear() {
	j.relearn = true // and so is what the way's delay was taken to be
	j.v.Severity, j.v.Fault, j.v.Joint, j.v.SinceNs = None, NoFault, -1, 0
}

// Raise latches an act that was decided outside: an operator's stop, a failed
// link, a leg that does not follow.
func (j *Judge) Raise(nowNs int64, s Severity, f Fault, joint int) {
	j.warn(f)
	if s > j.v.Severity {
		j.v.Severity, j.v.Fault, j.v.Joint, j.v.SinceNs = s, f, joint, nowNs
	}
}

func (j *Judge) warn(f Fault) { j.v.Warnings |= 1 << f }

// act latches a fault while the motors have torque and shows it otherwise.
func (j *Judge) act(nowNs int64, s Severity, f Fault, joint int) {
	if j.torque {
		j.Raise(nowNs, s, f, joint)
		return
	}
	j.warn(f)
}

// SensedNs estimates when the newest state was measured, on the loop's clock:
// its arrival, less what its way took longer than the fastest one.
func (j *Judge) SensedNs() int64 { return j.sensedNs }

// TiltRad is the newest state's tilt.
func (j *Judge) TiltRad() float64 { return j.tiltRad }

// RemotePresent says whether the hand remote was heard within its time.
func (j *Judge) RemotePresent(nowNs int64) bool {
	return j.remoteNs != 0 && float64(nowNs-j.remoteNs) < j.cfg.RemoteSeconds*1e9
}

// BatteryTooLow says whether standing up is refused for the battery.
func (j *Judge) BatteryTooLow() bool { return j.battery && int(j.soc) <= j.cfg.BatterySitPct }

// State judges one accepted state; call it for each, in order of arrival. It
// reports whether the state is news: one with the tick of the state before, or
// an earlier one that was overtaken on its way, says nothing of the present and
// is not judged, but for the remote's stop.
func (j *Judge) State(arrivedNs int64, s *wire.LowState) bool {
	if !j.have {
		j.have, j.firstNs = true, arrivedNs
		j.remoteNs, j.lastTick = 0, s.Tick-1
	}
	j.arrivedNs = arrivedNs
	j.remoteStop(arrivedNs, s)
	if !j.keepTime(arrivedNs, s.Tick) {
		return false
	}
	j.freshNs = arrivedNs

	// Conditions seen in states are shown until a state without them arrives.
	j.v.Warnings &^= 1<<StateNotFinite | 1<<QuaternionBad | 1<<Tilt | 1<<JointSpeed | 1<<Power |
		1<<MotorHot | 1<<MotorOverheatMode | 1<<MotorTempUnknown | 1<<BatteryLow | 1<<BatteryUnknown |
		1<<MotorModeDropped | 1<<AnotherSender | 1<<RemoteStop | 1<<RobotRestarted | 1<<IMUStuck
	j.v.HalveCommands = false

	j.repeats(arrivedNs, s)
	j.body(arrivedNs, s)
	j.motion(arrivedNs, s)
	j.modes(arrivedNs, s)
	j.temperatures(arrivedNs, s)
	j.charge(arrivedNs, s)
	j.sender(arrivedNs, s)
	j.remote(arrivedNs, s)
	return true
}

// keepTime says whether the robot's clock moved on and learns the way's delay.
// A clock that has gone far back is a robot that started anew: what its legs do
// then is not what we told them.
func (j *Judge) keepTime(arrivedNs int64, tick uint32) bool {
	moved := int32(tick - j.lastTick)
	if moved <= 0 && moved > -restartMs {
		return false
	}
	j.robotNs += int64(moved) * msNs
	off := float64(arrivedNs - j.robotNs)
	slack := float64(arrivedNs-j.freshNs) * clockSlack
	if moved <= -restartMs {
		j.act(arrivedNs, Damp, RobotRestarted, -1)
		j.noisy = 0 // it may be another robot
	}
	if j.relearn || j.freshNs == 0 || moved < 0 || off < j.offsetNs+slack {
		j.offsetNs = off // first, restarted, or the fastest yet
		j.relearn = false
	} else {
		j.offsetNs += slack
	}
	j.sensedNs = arrivedNs - int64(off-j.offsetNs)
	j.lastTick = tick
	return true
}

// repeats judges an IMU that says the same again and again: with it the robot is blind for its own fall. The noise of a real one moves at
// least one of ten floats in each state, also where nothing moves. A robot that is simulated without noise repeats itself when it stands
// perfectly still, but its joints then do so too, and have no speed: such a state shows nothing, and counts neither way, but for 100 ms.
// An IMU that has shown noise is none of those: of it every repeat counts, also where the whole state stands still.
func (j *Judge) repeats(now int64, s *wire.LowState) {
	var imu [10]float32
	copy(imu[:4], s.IMU.Quaternion[:])
	copy(imu[4:7], s.IMU.Gyroscope[:])
	copy(imu[7:], s.IMU.Accelerometer[:])
	j.hear(&imu, s)
	switch {
	case imu != j.imu:
		j.imu, j.imuRun = imu, 0
	case j.noisy >= noisyStates || !j.still(s):
		if j.imuRun < j.cfg.IMUSamples && now-j.imuNs > repeatNs { // not in a row
			j.imuRun = 0
		}
		j.imuRun, j.imuNs = min(j.imuRun+1, j.cfg.IMUSamples), now
	}
	if j.imuRun >= j.cfg.IMUSamples {
		j.act(now, Damp, IMUStuck, -1)
	}
}

// hear listens for the IMU's noise. What a body that moves makes of its readings lies on smooth curves, as seen at 500 Hz, unless joints
// turn that are thrown about: states in which they do say nothing.
func (j *Judge) hear(imu *[10]float32, s *wire.LowState) {
	loud := false
	for i := range j.imuStep {
		least := gyroNoise
		if i >= 3 {
			least = accNoise
		}
		step := imu[4+i] - j.imu[4+i]
		loud = loud || math.Abs(float64(step-j.imuStep[i])) >= least
		j.imuStep[i] = step
	}
	switch {
	case j.noisy >= noisyStates || !slow(s):
	case loud:
		j.noisy++
	default:
		j.noisy = 0
	}
}

// slow says that every joint turns no more than one that stands.
func slow(s *wire.LowState) bool {
	for i := range go1.Joints {
		if !(math.Abs(float64(s.Motor[i].Dq)) < stillSpeed) {
			return false
		}
	}
	return true
}

// still says so, and that every joint is as it was in the state before.
func (j *Judge) still(s *wire.LowState) bool {
	for i := range go1.Joints {
		if float64(s.Motor[i].Q) != j.q[i] || float64(s.Motor[i].Dq) != j.dq[i] {
			return false
		}
	}
	return slow(s)
}

func (j *Judge) body(now int64, s *wire.LowState) {
	sum := 0.0
	for _, x := range s.IMU.Quaternion {
		sum += float64(x) * float64(x)
	}
	ok := true
	for i := range 3 {
		ok = ok && finite(s.IMU.Gyroscope[i]) && finite(s.IMU.Accelerometer[i])
	}
	if !ok {
		j.act(now, Damp, StateNotFinite, -1)
	}
	if norm := math.Sqrt(sum); !(norm >= 0.8 && norm <= 1.2) {
		j.act(now, Damp, QuaternionBad, -1)
		j.tiltRad = math.NaN()
		return
	}
	j.quat = s.IMU.Quaternion
	inv := float32(1 / math.Sqrt(sum))
	for i := range j.quat {
		j.quat[i] *= inv
	}
	j.tiltRad = float64(go1.Tilt(&j.quat))
	switch {
	case j.tiltRad >= j.cfg.TiltDampRad:
		j.act(now, Damp, Tilt, -1)
	case j.tiltRad >= j.cfg.TiltHoldRad:
		j.act(now, StandHold, Tilt, -1)
	}
}

func (j *Judge) motion(now int64, s *wire.LowState) {
	fast, joint, power := false, -1, 0.0
	for i := range go1.Joints {
		m := &s.Motor[i]
		if !finite(m.Q) || !finite(m.Dq) || !finite(m.TauEst) {
			j.act(now, Damp, StateNotFinite, i)
			continue
		}
		j.q[i], j.dq[i] = float64(m.Q), float64(m.Dq)
		limit := j.cfg.JointSpeedRadS
		if i%go1.JointsInLeg == go1.Calf {
			limit = j.cfg.CalfSpeedRadS
		}
		speed := math.Abs(j.dq[i])
		if speed > limit {
			fast, joint = true, i
		}
		if speed > j.cfg.WarnRatio*limit {
			j.warn(JointSpeed)
		}
		power += math.Abs(float64(m.TauEst) * j.dq[i])
	}
	j.speedRun = run(j.speedRun, fast, j.cfg.SpeedSamples)
	if j.speedRun >= j.cfg.SpeedSamples {
		j.act(now, Damp, JointSpeed, joint)
	}
	switch {
	case power > j.cfg.PowerW:
		j.power = min(j.power+1, j.cfg.PowerCount)
	case j.power > 0:
		j.power--
	}
	if power > j.cfg.WarnRatio*j.cfg.PowerW {
		j.warn(Power)
	}
	if j.power >= j.cfg.PowerCount {
		j.act(now, Damp, Power, -1)
	}
}

func (j *Judge) modes(now int64, s *wire.LowState) {
	dropped := -1
	for i := range go1.Joints {
		switch s.Motor[i].Mode {
		case ModeServo:
		case ModeOverheat:
			j.act(now, Damp, MotorOverheatMode, i)
		default:
			dropped = i
		}
	}
	if !j.torque || now-j.sinceNs < settleNs {
		j.modeRun = 0
		return
	}
	j.modeRun = run(j.modeRun, dropped >= 0, j.cfg.ModeSamples)
	if j.modeRun >= j.cfg.ModeSamples {
		j.act(now, Damp, MotorModeDropped, dropped)
	}
}

func (j *Judge) temperatures(now int64, s *wire.LowState) {
	limits := [4]int{j.cfg.TempWarnC, j.cfg.TempHalveC, j.cfg.TempSitC, j.cfg.TempDampC}
	hot, hottest := -128, -1
	for i := range go1.Joints {
		t := int(s.Motor[i].Temperature)
		if t != 0 {
			j.tempSeen[i] = true
		} else if !j.tempSeen[i] && float64(now-j.firstNs) >= j.cfg.TempSeconds*1e9 {
			j.warn(MotorTempUnknown)
		}
		if t > hot {
			hot, hottest = t, i
		}
	}
	for l, limit := range limits {
		if hot < limit {
			j.tempSince[l] = 0
			continue
		}
		if j.tempSince[l] == 0 {
			j.tempSince[l] = now
		}
		j.tempJoint[l] = hottest
		if float64(now-j.tempSince[l]) < j.cfg.TempSeconds*1e9 {
			continue
		}
		switch l {
		case 0:
			j.warn(MotorHot)
		case 1:
			j.v.HalveCommands = true
		case 2:
			j.act(now, Sit, MotorHot, hottest)
		case 3:
			j.act(now, Damp, MotorHot, hottest)
		}
	}
}

// charge believes the percentage only beside plausible cell voltages.
func (j *Judge) charge(now int64, s *wire.LowState) {
	j.battery, j.soc = false, s.BMS.SOC
	for _, mv := range s.BMS.CellVoltage {
		if mv > 2500 && mv < 4500 {
			j.battery = true
		}
	}
	switch {
	case !j.battery:
		j.warn(BatteryUnknown)
		j.batteryNs = 0
	case int(j.soc) > j.cfg.BatteryWarnPct:
		j.batteryNs = 0
	default:
		j.warn(BatteryLow)
		if int(j.soc) > j.cfg.BatterySitPct {
			j.batteryNs = 0
			return
		}
		if j.batteryNs == 0 {
			j.batteryNs = now
		}
		if float64(now-j.batteryNs) >= j.cfg.BatterySeconds*1e9 {
			j.act(now, Sit, BatteryLow, -1)
		}
	}
}

// sender compares the motors' own torque estimate with what the frames that they
// had when the state was sensed ask for, at the measured angles and speeds.
func (j *Judge) sender(now int64, s *wire.LowState) {
	oldest, ok := j.inForce(j.sensedNs)
	if !j.torque || !ok || j.sensedNs-j.sinceNs < settleNs || now-j.sensedNs > senderDelay {
		j.senderRun = 0
		return
	}
	off := 0
	for i := range go1.Joints {
		lo, hi := math.Inf(1), math.Inf(-1)
		for k := range answered {
			t := j.sent[(oldest+k)%sentFrames].torque(i, j.q[i], j.dq[i])
			lo, hi = min(lo, t), max(hi, t)
		}
		limit := float64(go1.TorqueMax[i])
		lo, hi = max(lo, -limit), min(hi, limit)
		// A motor gives less at speed; less towards zero is no disagreement there.
		if math.Abs(j.dq[i]) > 0.3*float64(go1.SpeedMax[i]) {
			lo, hi = min(lo, 0), max(hi, 0)
		}
		if t := float64(s.Motor[i].TauEst); t < lo-j.cfg.SenderTorqueNm || t > hi+j.cfg.SenderTorqueNm {
			off++
		}
	}
	// Frames of two senders alternate, so states that answer ours only slow the
	// count: it fills when more than one state in five disagrees.
	if off >= j.cfg.SenderJoints {
		j.senderRun += senderLeak
	} else {
		j.senderRun = max(j.senderRun-1, 0)
	}
	if j.senderRun >= senderLeak*j.cfg.SenderSamples {
		j.act(now, Damp, AnotherSender, -1)
	}
}

// inForce is the number of the first of the frames that the motors may have
// been answering at a time.
func (j *Judge) inForce(ns int64) (oldest int, ok bool) {
	for back := range sentFrames - answered {
		newest := j.sentCount - 1 - back
		if newest < answered-1 {
			break
		}
		if j.sentNs[newest%sentFrames] < ns {
			return newest - answered + 1, true
		}
	}
	return 0, false
}

func (j *Judge) remote(now int64, s *wire.LowState) {
	var r wire.Remote
	wire.DecodeRemote(&s.Remote, &r)
	if r.Present() {
		j.remoteNs = now
	}
}

// remoteStop cuts on L2+B in every mode, without asking anybody, and whatever
// the head bytes say: those of a real remote are not published.
func (j *Judge) remoteStop(now int64, s *wire.LowState) {
	var r wire.Remote
	wire.DecodeRemote(&s.Remote, &r)
	if r.Pressed(wire.ButtonL2 | wire.ButtonB) {
		j.Raise(now, Cut, RemoteStop, -1)
	}
}

// Tick judges the ages and gives the verdict for the frame about to be sent.
func (j *Judge) Tick(t *Tick) Verdict {
	if t.Torque != j.torque {
		j.torque, j.sinceNs = t.Torque, t.NowNs
		j.speedRun, j.modeRun, j.senderRun, j.power, j.sentCount = 0, 0, 0, 0, 0
		j.edgeLo, j.edgeHi = j.q, j.q // targets start at what is measured
	}
	j.v.HoldFrame = false
	j.v.Warnings &^= 1<<StateStale | 1<<TickStuck | 1<<PolicyStale | 1<<EndToEndAge | 1<<RemoteAbsent |
		1<<CommandStale | 1<<LoopLate | 1<<TargetClamped | 1<<TorqueCapped | 1<<TargetRefused

	j.stateAge(t)
	if !j.RemotePresent(t.NowNs) {
		if !j.cfg.WithoutRemote && (j.remoteNs != 0 || float64(t.NowNs-j.firstNs) >= j.cfg.RemoteSeconds*1e9) {
			j.act(t.NowNs, Sit, RemoteAbsent, -1)
		} else {
			j.warn(RemoteAbsent)
		}
	}
	j.late(t)
	if t.Torque {
		age := float64(t.NowNs - t.TargetSensedNs)
		switch {
		case age >= j.cfg.EndToEndDampMs*1e6:
			j.act(t.NowNs, Damp, EndToEndAge, -1)
		case age >= j.cfg.EndToEndWarnMs*1e6:
			j.warn(EndToEndAge)
		}
	}
	if t.Policy || t.PolicyLost {
		j.policyAge(t)
	}
	if t.Policy {
		j.commandAge(t)
	}
	j.recent(t.NowNs, j.clampNs, TargetClamped)
	j.recent(t.NowNs, j.capNs, TorqueCapped)
	return j.v
}

// late judges the loop itself: one late tick by its length, many by their share.
func (j *Judge) late(t *Tick) {
	if t.Torque && t.LateNs >= int64(j.cfg.LoopLateMs*1e6) {
		j.act(t.NowNs, Damp, LoopLate, -1)
	}
	if t.LateNs >= int64(j.cfg.LoopWarnMs*1e6) {
		j.lateRun = min(j.lateRun+lateShare, 2*lateTicks*lateShare)
	} else {
		j.lateRun = max(j.lateRun-1, 0)
	}
	if j.lateRun > (lateTicks-1)*lateShare {
		j.warn(LoopLate)
	}
}

func (j *Judge) stateAge(t *Tick) {
	if !j.have {
		j.warn(StateStale)
		return
	}
	age := float64(t.NowNs - j.freshNs)
	cause := StateStale
	if j.arrivedNs > j.freshNs && float64(t.NowNs-j.arrivedNs) < j.cfg.StateHoldMs*1e6 {
		cause = TickStuck // datagrams come, time in them does not
	}
	switch {
	case age >= j.cfg.StateDampMs*1e6:
		j.act(t.NowNs, Damp, cause, -1)
	case age >= j.cfg.StateHoldMs*1e6:
		j.v.HoldFrame = true
		j.warn(cause)
	case age >= j.cfg.StateWarnMs*1e6:
		j.warn(cause)
	}
}

func (j *Judge) policyAge(t *Tick) {
	age := float64(t.NowNs-t.PolicyOutNs) / float64(t.PolicyPeriodNs)
	switch {
	case age >= j.cfg.PolicyDampPeriods:
		j.act(t.NowNs, Damp, PolicyStale, -1)
	case age >= j.cfg.PolicyHoldPeriods:
		j.act(t.NowNs, StandHold, PolicyStale, -1)
	}
}

func (j *Judge) commandAge(t *Tick) {
	age := float64(t.NowNs - t.CommandNs)
	switch {
	case age >= j.cfg.CommandStandS*1e9:
		j.act(t.NowNs, StandHold, CommandStale, -1)
	case age >= j.cfg.CommandRampMs*1e6:
		j.warn(CommandStale)
	}
}

// recent shows a counted event for a while.
func (j *Judge) recent(now, event int64, f Fault) {
	if event != 0 && now-event < warnHoldNs {
		j.warn(f)
	}
}

// CommandScale is the share (0..1) of a velocity command that is still followed
// at its age.
func (j *Judge) CommandScale(ageNs int64) float32 {
	age, ramp, zero := float64(ageNs), j.cfg.CommandRampMs*1e6, j.cfg.CommandZeroMs*1e6
	switch {
	case age <= ramp:
		return 1
	case age >= zero:
		return 0
	}
	return float32((zero - age) / (zero - ramp))
}

// Frame brings the twelve joints of a torque frame inside their limits and
// remembers it as sent. It reports false, and latches Damp, when a number is
// not finite or out of reason; the frame must then
// not be sent.
func (j *Judge) Frame(nowNs int64, c *wire.LowCmd) bool {
	var f frame
	for i := range go1.Joints {
		m := &c.Motor[i]
		// Written so that NaN fails too.
		if !finite(m.Q) || !(m.Kp >= 0 && m.Kp <= maxKp) || !(m.Kd >= 0 && m.Kd <= maxKd) ||
			!(m.Dq >= -maxDq && m.Dq <= maxDq) || !(m.Tau >= -maxTau && m.Tau <= maxTau) {
			return j.refuse(nowNs, i)
		}
		lo, hi := float64(go1.TargetLower[i]), float64(go1.TargetUpper[i])
		q := float64(m.Q)
		edgeLo, edgeHi := min(lo, j.edgeLo[i]), max(hi, j.edgeHi[i])
		if m.Kp > 0 && (q < edgeLo-j.cfg.TargetRefuseRad || q > edgeHi+j.cfg.TargetRefuseRad) {
			return j.refuse(nowNs, i)
		}
		if at := min(max(q, edgeLo), edgeHi); at != q && m.Kp > 0 {
			q = at
			j.n.Clamped++
			j.clampNs = nowNs
		}
		tau, kp, kd := m.OnWire() // what the motor will reckon with
		f.q[i], f.dq[i], f.tau[i], f.kp[i], f.kd[i] = q, float64(m.Dq), float64(tau), float64(kp), float64(kd)
		if j.cap(&f, i, edgeLo, edgeHi) {
			j.n.Capped++
			j.capNs = nowNs
		}
		// A target that started outside may only move inwards.
		j.edgeLo[i] = max(edgeLo, min(f.q[i], lo))
		j.edgeHi[i] = min(edgeHi, max(f.q[i], hi))
	}
	for i := range go1.Joints {
		m := &c.Motor[i]
		m.Q, m.Tau, m.Kp, m.Kd = float32(f.q[i]), float32(f.tau[i]), float32(f.kp[i]), float32(f.kd[i])
	}
	j.sent[j.sentCount%sentFrames], j.sentNs[j.sentCount%sentFrames] = f, nowNs
	j.sentCount++
	return true
}

func (j *Judge) refuse(nowNs int64, joint int) bool {
	j.n.Refused++
	j.Raise(nowNs, Damp, TargetRefused, joint)
	return false
}

// cap keeps the predicted torque of joint i within the motor's: by the target
// angle, and where that may not move further (or Kp is 0) by Kd and tau.
func (j *Judge) cap(f *frame, i int, lo, hi float64) bool {
	limit := float64(go1.TorqueMax[i])
	t := f.torque(i, j.q[i], j.dq[i])
	if math.Abs(t) <= limit {
		return false
	}
	if f.kp[i] > 0 {
		want := math.Copysign(limit, t)
		q := j.q[i] + (want-f.kd[i]*(f.dq[i]-j.dq[i])-f.tau[i])/f.kp[i]
		f.q[i] = min(max(q, lo), hi)
		t = f.torque(i, j.q[i], j.dq[i])
		if math.Abs(t) <= limit*(1+1e-9) {
			return true
		}
	}
	spring := f.kp[i] * (f.q[i] - j.q[i])
	if math.Abs(spring) > limit {
		f.kp[i] *= limit / math.Abs(spring)
		f.kd[i], f.tau[i] = 0, 0
		return true
	}
	rest := t - spring
	share := 1.0
	if rest != 0 {
		share = max(0, min(1, (math.Copysign(limit, rest)-spring)/rest))
	}
	f.kd[i] *= share
	f.tau[i] *= share
	return true
}

func (f *frame) torque(i int, q, dq float64) float64 {
	return f.kp[i]*(f.q[i]-q) + f.kd[i]*(f.dq[i]-dq) + f.tau[i]
}

func run(n int, yes bool, limit int) int {
	if !yes {
		return 0
	}
	return min(n+1, limit)
}

func finite(x float32) bool { return x-x == 0 }
