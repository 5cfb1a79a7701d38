package control

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Link is the way to the robot; agent/link implements it. Only the loop's
// thread calls it, and none of it may block, except Wait, which lockstep uses.
type Link interface {
	// Receive takes the oldest waiting acceptable state; ok is false when none
	// waits. arrivedNs is when the kernel got it, on CLOCK_MONOTONIC.
	Receive(s *wire.LowState, nowNs int64) (arrivedNs int64, ok bool)
	Send(frame []byte) error
	Wait(timeoutNs int64) bool
}

// Parts is what a Loop is made of.
type Parts struct {
	Link     Link
	Clock    Clock // nil: the system's, or virtual time in lockstep
	Safety   safety.Config
	Estimate estimate.Config
	// Spec is the contract of the policy that will drive through Env; nil: none.
	Spec *rollout.Spec
	// Gate judges a standing robot's reading before the policy gets torque.
	Gate func(*go1.Reading) error
	// SportOff returns nil once the maker's sport mode is shown to be off. It is
	// asked, from the requester's goroutine, before the first frame is sent.
	SportOff func(context.Context) error
	// MayStand is asked, from the requester's goroutine, with the newest state,
	// when a person asks for stand: an error, which should wrap ErrNoFirstContact,
	// refuses it. nil: nothing to ask.
	MayStand func(*wire.LowState) error
	// Started is called on the loop's thread before its first tick; it raises
	// the thread's priority. nil: nothing.
	Started func() error
	// Guard watches this loop from a process of its own; nil: none yet, see SetGuard.
	Guard *guard.Watch
	// NeedGuard refuses stand and policy while no guard lives.
	NeedGuard bool
}

// Loop owns one robot.
type Loop struct {
	cfg       Config
	parts     Parts
	clock     Clock
	judge     *safety.Judge
	filter    *estimate.Filter
	actions   *go1.ActionMap
	ranges    rollout.Command
	hasPolicy bool
	// needsVelocity: the policy observes the body's velocity, which is estimated.
	needsVelocity bool
	home          [go1.Joints]float32

	// Shared with other goroutines.
	nowNs     atomic.Int64
	modeNow   atomic.Uint32
	inbox     atomic.Pointer[request]
	requests  chan struct{} // holds the requester whose turn it is; the loop does not know it
	commands  commands
	stop      atomic.Int32 // 1 sit and end, 2 damp and end
	snapshots triple[Snapshot]
	readers   sync.Mutex // of snapshots; the loop does not know it
	readings  triple[reading]
	targets   triple[target]
	wake      int     // eventfd: a reading was published
	one       [8]byte // what is written to it: the number 1
	ended     chan struct{}
	envOpen   atomic.Bool
	envWaits  atomic.Bool   // the Env's goroutine is in Reset
	stops     atomic.Uint64 // emergency stops so far
	silent    atomic.Bool   // the robot; knock looks for sport mode
	knockNs   atomic.Int64  // frames may leave until then though it is silent
	sportSeen atomic.Bool
	nextGuard atomic.Pointer[guarded]
	mistake   atomic.Pointer[error] // what went wrong in this program beside the loop
	// policyFailed: the policy gave no usable action.
	policyFailed atomic.Bool

	// Owned by the loop's thread.
	guard       *guard.Watch
	guardBeatNs int64
	guardStill  int // ticks since its beat moved
	state       wire.LowState
	rx          wire.LowState
	have        bool
	states      uint64 // since armed
	lastArrive  int64
	armedNs     int64
	sample      estimate.Sample
	mode        Mode
	phase       Phase
	phaseNs     int64
	settle      bool // the sitting down ends in estop
	cmd         wire.LowCmd
	damping     wire.LowCmd
	frame       []byte
	haveFrame   bool
	target      [go1.Joints]float32 // as asked for by the mode, before the judge
	kp, kd      [go1.Joints]float32
	from        [go1.Joints]float32
	fromKp      [go1.Joints]float32
	fromKd      [go1.Joints]float32

	policyTarget [go1.Joints]float32
	policyOutNs  int64
	policyTicks  int64 // ticks between observations
	policyTick   int64
	sensedNs     int64 // of the state that policyTarget answers
	episode      uint64
	seq          uint64

	asked, followed [3]float32
	source          Source
	commandNs       int64
	stickNs         int64
	enteredNs       int64 // into mode policy
	sticks          [3]float32
	trackNs         int64
	sendRun         int
	sentNs          int64 // newest frame
	tickedNs        int64 // begin of the newest tick
	unanswered      int   // lockstep: ticks in a row
	endNs           int64 // when the last damping began, while stopping
	stats           Stats
	tripTick        uint64 // of the newest of stats.Trips
	endErr          error
}

// New makes a Loop in mode idle. Configurations must be valid; a Spec that does
// not fit a Go1 is refused here.
func New(cfg Config, parts Parts) (*Loop, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := parts.Safety.Validate(); err != nil {
		return nil, err
	}
	if err := parts.Estimate.Validate(); err != nil {
		return nil, err
	}
	l := &Loop{
		cfg: cfg, parts: parts, clock: parts.Clock,
		judge:  safety.New(parts.Safety),
		filter: estimate.New(parts.Estimate),
		home:   go1.Home,
		ended:  make(chan struct{}), requests: make(chan struct{}, 1),
		frame: make([]byte, 0, wire.LowCmdSize),
	}
	if l.clock == nil {
		l.clock = SystemClock{SpinNs: int64(cfg.SpinUs * 1e3)}
		if cfg.Lockstep {
			l.clock = &lockstepClock{now: PeriodNs}
		}
	}
	if parts.Spec != nil {
		if err := go1.Fit(parts.Spec, go1.Sensing{LinVel: true}); err != nil {
			return nil, err
		}
		m, err := go1.NewActionMap(parts.Spec)
		if err != nil {
			return nil, err
		}
		l.actions, l.hasPolicy, l.home = m, true, m.Home
		l.ranges = parts.Spec.Command
		for _, t := range parts.Spec.Group("policy").Terms {
			l.needsVelocity = l.needsVelocity || t.Name == "base_lin_vel"
		}
		l.policyTicks = parts.Spec.PolicyPeriodNs / PeriodNs
	}
	l.guard = parts.Guard
	if l.guard != nil {
		l.nextGuard.Store(&guarded{watch: l.guard})
	}
	l.cmd.Init()
	l.damping.Init()
	l.snapshots.init()
	l.readings.init()
	l.targets.init()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("control: eventfd: %w", err)
	}
	l.wake = fd
	binary.NativeEndian.PutUint64(l.one[:], 1)
	runtime.AddCleanup(l, func(fd int) { _ = unix.Close(fd) }, fd)
	l.publishSnapshot(l.clock.Now())
	return l, nil
}

// ErrUnconfirmed says that the last damping frames were sent, but no state came
// back that shows them taken.
var ErrUnconfirmed = errors.New("control: damping was sent, but no state from the robot confirmed it")

// Run is the loop. It returns after Stop has been carried out, or at once with
// damping sent when ctx ends. Call it once, from a goroutine of its own; it
// should have an OS thread to itself.
func (l *Loop) Run(ctx context.Context) error {
	defer close(l.ended)
	defer l.signal()
	defer func() {
		if p := recover(); p != nil { // a mistake of ours: the motors first
			if l.lastDamping() {
				l.disarm()
			}
			panic(p)
		}
	}()
	if l.parts.Started != nil {
		if err := l.parts.Started(); err != nil {
			return err
		}
	}
	if l.parts.SportOff != nil && !l.cfg.Lockstep { // there, time goes on by our frames alone
		go l.knock(ctx)
	}
	done := ctx.Done()
	deadline := l.clock.Now() + PeriodNs
	for {
		l.clock.SleepUntil(deadline)
		select {
		case <-done:
			l.stop.Store(2)
		default:
		}
		if l.Tick(deadline) {
			if l.endErr == nil { // else the guard goes on
				l.disarm()
			}
			if m := l.mistake.Load(); m != nil {
				return *m
			}
			return l.endErr
		}
		if l.cfg.Lockstep {
			l.lockstepWait(ctx)
		}
		deadline += PeriodNs
		// Deadlines that have passed are counted, not run in a burst.
		if behind := l.clock.Now() - deadline; behind >= PeriodNs {
			missed := behind / PeriodNs
			l.stats.Missed += uint64(missed)
			deadline += missed * PeriodNs
		}
	}
}

// lastDamping sends what stops the motors, for as long as at any other end, and says whether the robot still answered in its second half.
func (l *Loop) lastDamping() (confirmed bool) {
	if l.mode == Idle {
		return true
	}
	l.mode = Damp
	l.shut()
	l.encodeDamping()
	periods := int(l.cfg.DampSeconds * 1e9 / float64(PeriodNs))
	for i := range periods {
		now := l.clock.Now()
		l.beat(now)
		answered := false
		for range maxStates {
			if _, ok := l.parts.Link.Receive(&l.rx, now); !ok {
				break
			}
			answered = true
		}
		err := l.parts.Link.Send(l.frame)
		if i >= periods/2 {
			confirmed = (confirmed || answered) && err == nil
		}
		time.Sleep(time.Duration(PeriodNs))
	}
	return confirmed
}

// Tick does one period's work for the tick that was due at deadlineNs, and
// reports whether the loop has come to its end. Run calls it; tests that have a
// clock of their own may call it instead of Run.
func (l *Loop) Tick(deadlineNs int64) (end bool) {
	now := l.clock.Now()
	l.nowNs.Store(now)
	l.stats.Ticks++
	late := now - deadlineNs
	if l.mode != Idle && l.sentNs != 0 { // held up anywhere, also after the last tick's last look
		late = max(late, now-l.sentNs-PeriodNs)
	}
	l.stats.Lateness.Add(late)
	if late > lateNs {
		l.stats.Late++
	}
	if l.tickedNs != 0 {
		off := now - l.tickedNs - PeriodNs
		l.stats.Jitter.Add(max(off, -off))
	}
	l.tickedNs = now
	l.watchGuard(now)
	// Before a request that waited meanwhile. Where the guard has tripped, that is the cause.
	if l.mode.torque() && late >= l.lateLimit() && !l.tripped() {
		l.judge.Raise(now, safety.Damp, safety.LoopLate, -1)
		l.trip()
		l.setMode(now, Damp, PhaseNone)
	}

	got := l.receive(now)
	if l.sportSeen.Swap(false) && l.silent.Load() && !l.mode.torque() && l.mode != Idle {
		l.judge.Raise(now, safety.Damp, safety.SportMode, -1)
		l.setMode(now, Idle, PhaseNone)
		l.silent.Store(false)
	}
	l.takeRequest(now)
	l.takeTarget(now)
	l.followCommand(now)

	v := l.judge.Tick(&safety.Tick{
		NowNs: now, LateNs: late,
		Torque: l.mode.torque(), Policy: l.driving(),
		PolicyLost:     l.phase == PhaseHold && l.judge.Verdict().Fault == safety.PolicyStale,
		PolicyPeriodNs: l.policyTicks * PeriodNs, PolicyOutNs: l.policyOutNs,
		TargetSensedNs: l.targetSensed(), CommandNs: l.commandNs,
	})
	if l.driving() && l.policyFailed.Swap(false) { // it asked for what is no number
		l.judge.Raise(now, safety.Damp, safety.TargetRefused, -1)
		v = l.judge.Verdict()
	}
	l.obey(now, &v)
	end = l.stopping(now)
	if !end {
		l.advance(now)
		l.send(now, deadlineNs, v.HoldFrame)
	}
	if got {
		l.stats.RxToTx.Add(l.clock.Now() - now)
	}
	if l.driving() && l.policyTick%l.policyTicks == 0 {
		l.publishReading(running)
	}
	l.policyTick++
	l.modeNow.Store(uint32(l.mode))
	l.publishSnapshot(now)
	return end
}

// lateLimit is the lateness of its own at which the loop damps.
func (l *Loop) lateLimit() int64 { return int64(l.parts.Safety.LoopLateMs * 1e6) }

// trip counts a damping for the loop's own lateness.
func (l *Loop) trip() {
	l.stats.Trips++
	l.tripTick = l.stats.Ticks
}

// driving says whether the policy's output reaches the motors.
func (l *Loop) driving() bool {
	return l.mode == Policy || l.mode == Sit && l.phase == PhaseStopping
}

// targetSensed is when the state was measured that the present target answers.
func (l *Loop) targetSensed() int64 {
	if l.driving() {
		return l.sensedNs
	}
	return l.judge.SensedNs()
}

func (l *Loop) receive(now int64) (got bool) {
	for range maxStates {
		arrived, ok := l.parts.Link.Receive(&l.rx, now)
		if !ok {
			break
		}
		if l.cfg.Lockstep {
			arrived = now
		}
		if !l.judge.State(arrived, &l.rx) {
			continue // repeated or overtaken: not the present
		}
		l.estimate(arrived)
		l.state = l.rx
		l.have, got = true, true
		l.stats.States++
		l.states++
	}
	if got {
		l.readSticks(now)
	}
	return got
}

func (l *Loop) estimate(arrived int64) {
	s, r := &l.sample, &l.rx
	s.Quat, s.Gyro, s.Acc = r.IMU.Quaternion, r.IMU.Gyroscope, r.IMU.Accelerometer
	for i := range go1.Joints {
		s.Q[i], s.Dq[i], s.Tau[i] = r.Motor[i].Q, r.Motor[i].Dq, r.Motor[i].TauEst
	}
	s.FootForce = r.FootForce
	dt := float64(PeriodNs) / 1e9
	if l.have && arrived > l.lastArrive {
		dt = float64(arrived-l.lastArrive) / 1e9
	}
	l.lastArrive = arrived
	l.filter.Update(s, dt)
}

// readSticks takes the hand remote's sticks; it drives while a stick is out of
// its dead zone and for a second after.
func (l *Loop) readSticks(now int64) {
	var r wire.Remote
	wire.DecodeRemote(&l.state.Remote, &r)
	l.sticks = [3]float32{}
	if !r.Present() {
		return
	}
	dead := float32(l.cfg.RemoteDeadZone)
	for i, x := range [3]float32{r.Ly, -r.Lx, -r.Rx} {
		if x-x != 0 || (x < dead && x > -dead) {
			continue
		}
		l.sticks[i] = min(max(x, -1), 1)
		l.stickNs = now
	}
}

// followCommand decides the velocity that the policy is told.
func (l *Loop) followCommand(now int64) {
	l.source, l.asked = SourceNone, [3]float32{}
	expiry := int64(0)
	if c := l.commands.newest.Load(); c != nil && c.arrivedNs >= l.enteredNs && l.driving() {
		l.source, l.asked, expiry = SourceHTTP, c.v, c.expiresNs
		l.commandNs = max(l.commandNs, c.arrivedNs)
	}
	if l.stickNs != 0 && now-l.stickNs < remoteHold {
		l.source, expiry = SourceRemote, 0
		l.asked = [3]float32{
			l.sticks[0] * float32(l.cfg.RemoteVxMS),
			l.sticks[1] * float32(l.cfg.RemoteVyMS),
			l.sticks[2] * float32(l.cfg.RemoteWzRadS),
		}
		for i, r := range [3][2]float32{l.ranges.Vx, l.ranges.Vy, l.ranges.Wz} {
			l.asked[i] = min(max(l.asked[i], r[0]), r[1])
		}
		l.commandNs = max(l.commandNs, l.stickNs)
	}
	if !l.driving() {
		l.followed = [3]float32{}
		return
	}
	age := now - l.commandNs
	if l.source == SourceRemote {
		age = 0 // what the sticks say is as fresh as the state; the state's age is judged
	}
	ended := expiry != 0 && now > expiry
	if ended {
		age = max(age, int64(l.parts.Safety.CommandRampMs*1e6)+now-expiry)
	}
	scale := l.judge.CommandScale(age)
	want := l.asked
	if l.mode != Policy {
		want = [3]float32{}
	}
	if l.judge.Verdict().HalveCommands {
		for i := range want {
			want[i] *= 0.5
		}
	}
	dt := float32(PeriodNs) / 1e9
	step := [3]float32{float32(l.cfg.AccelerationMS2) * dt, float32(l.cfg.AccelerationMS2) * dt, float32(l.cfg.YawAccelRadS2) * dt}
	for i := range want {
		want[i] *= scale
		if ended { // past its end a command slows down what it began, and begins nothing
			want[i] = min(max(want[i], min(l.followed[i], 0)), max(l.followed[i], 0))
		}
		next := l.followed[i] + min(max(want[i]-l.followed[i], -step[i]), step[i])
		if scale < 1 { // an old command ends in time, whatever the ramp
			bound := max(want[i], -want[i])
			next = min(max(next, -bound), bound)
		}
		l.followed[i] = next
	}
}

// takeTarget takes the policy's newest answer.
func (l *Loop) takeTarget(now int64) {
	t, isNew := l.targets.front()
	if !isNew || t.episode != l.episode || !l.driving() {
		return
	}
	l.policyTarget, l.policyOutNs, l.sensedNs = t.target, now, t.sensedNs
	l.stats.PolicyStep.Add(t.tookNs)
	l.stats.Policy++
	if t.seq != l.seq {
		l.stats.LatePolicy++
	}
}

// encode makes l.cmd the frame; what the wire cannot say is refused.
func (l *Loop) encode(now int64) bool {
	frame, err := wire.AppendLowCmd(l.frame[:0], &l.cmd, crcForm(l.cfg.EncryptCRC))
	if err != nil {
		l.judge.Raise(now, safety.Damp, safety.TargetRefused, -1)
		l.setMode(now, Damp, PhaseNone)
		return false
	}
	l.frame, l.haveFrame = frame, true
	return true
}

// encodeDamping makes the damping frame.
func (l *Loop) encodeDamping() {
	safety.Damping(&l.damping, &l.state)
	if frame, err := wire.AppendLowCmd(l.frame[:0], &l.damping, crcForm(l.cfg.EncryptCRC)); err == nil {
		l.frame = frame // always: every number in it is finite and small
	}
	l.haveFrame = false
}

// keepSilence says that no frame may leave, because the robot has been silent.
func (l *Loop) keepSilence(now int64, torque bool) bool {
	silent := !torque && now > l.silentFrom()
	l.silent.Store(silent)
	return silent && now > l.knockNs.Load()
}

// silentFrom is when frames stop if no further state comes. While the guard damps it takes the states: what it heard counts too, else
// behind a hold of more than silenceNs neither would send.
func (l *Loop) silentFrom() int64 {
	if l.parts.SportOff == nil || l.cfg.Lockstep {
		return math.MaxInt64
	}
	from := l.lastArrive + silenceNs
	if l.states == 0 {
		from = l.armedNs + firstSilenceNs
	}
	if l.guard != nil {
		from = max(from, l.guard.UntilNs())
	}
	return from
}

// knock looks for sport mode while the robot is silent, beside the loop: each
// time that it is shown to be off a few frames may ask for an answer; when it is
// on, the loop is disarmed.
func (l *Loop) knock(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil { // a mistake of ours: the motors first
			mistake := fmt.Errorf("control: panic while looking for sport mode: %v", p)
			l.mistake.Store(&mistake)
			l.stop.Store(2)
		}
	}()
	every := time.NewTicker(300 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-l.ended:
			return
		}
		if !l.silent.Load() {
			continue
		}
		switch err := l.parts.SportOff(ctx); {
		case err == nil:
			l.knockNs.Store(l.nowNs.Load() + knockNs)
		case errors.Is(err, ErrSportOn):
			l.sportSeen.Store(true)
		}
	}
}

// send makes the frame and hands it to the link.
func (l *Loop) send(now, deadlineNs int64, hold bool) {
	if l.mode == Idle {
		l.haveFrame, l.sentNs = false, 0
		return
	}
	torque := l.mode.torque()
	if l.keepSilence(now, torque) {
		l.haveFrame, l.sentNs = false, 0
		return
	}
	switch {
	case torque && hold && l.haveFrame:
		// The state is too old to compute with: the last frame stays.
	case torque:
		for i := range go1.Joints {
			m := &l.cmd.Motor[i]
			m.Mode, m.Q, m.Dq, m.Tau, m.Kp, m.Kd = safety.ModeServo, l.target[i], 0, 0, l.kp[i], l.kd[i]
		}
		if !l.judge.Frame(now, &l.cmd) {
			l.setMode(now, Damp, PhaseNone)
			torque = false
		}
	}
	if torque && !(hold && l.haveFrame) {
		torque = l.encode(now)
	}
	if torque {
		if torque = l.lastLook(now, deadlineNs); !torque {
			l.setMode(now, Damp, PhaseNone)
		}
	}
	if !torque {
		if l.foreign() {
			l.haveFrame, l.sentNs = false, 0
			return
		}
		l.encodeDamping()
	}
	err := l.parts.Link.Send(l.frame)
	l.shut()
	if err != nil {
		l.stats.SendErrors++
		l.sendRun++
		if l.sendRun >= linkFailures && l.mode.torque() {
			l.judge.Raise(now, safety.Damp, safety.LinkLost, -1)
		}
		return
	}
	l.sendRun = 0
	l.sentNs = l.clock.Now()
	l.stats.Sent++
}
