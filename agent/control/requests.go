package control

import (
	"context"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// request is one operator's wish, answered by the loop in place.
type request struct {
	want   want
	stops  uint64 // arm: emergency stops when it was asked for
	trips  uint64 // damp: the guard's that whoever asks was shown
	late   uint64 // damp: the loop's own of which whoever asks knows
	answer Refusal
	done   atomic.Bool
}

type want uint8

const (
	wantArm want = iota
	wantDamp
	wantStand
	wantPolicy
	wantSit
	wantSettle
	wantCut
)

// seenTicks of the loop, 300 ms, pass until a person can have seen that it damped for its own lateness. They are ticks that ran, not time:
// a program that stands still twice has had no time between.
const seenTicks = uint64(300e6 / PeriodNs)

// ask hands a request to the loop and waits for its answer.
func (l *Loop) ask(ctx context.Context, w want) error {
	return l.submit(ctx, &request{want: w, answer: Refusal{Joint: -1}})
}

func (l *Loop) submit(ctx context.Context, r *request) error {
	select { // one at a time
	case l.requests <- struct{}{}:
		defer func() { <-l.requests }()
	case <-ctx.Done():
		return ctx.Err()
	}
	l.inbox.Store(r)
	for !r.done.Load() {
		select {
		case <-ctx.Done():
			// Taken back if the loop has not looked at it yet; else it is answered within a tick.
			if l.inbox.CompareAndSwap(r, nil) {
				return ctx.Err()
			}
		case <-l.ended:
			return &Refusal{Reason: Stopping, Joint: -1}
		default:
		}
		time.Sleep(200 * time.Microsecond)
	}
	if r.answer.Reason != Accepted {
		return &r.answer
	}
	return nil
}

// Arm begins to talk to the robot, with damping frames, after sport mode is
// shown to be off. Until then nothing is sent.
func (l *Loop) Arm(ctx context.Context) error {
	if Mode(l.modeNow.Load()) != Idle {
		return &Refusal{Reason: AlreadyArmed, Joint: -1}
	}
	r := &request{want: wantArm, stops: l.stops.Load(), answer: Refusal{Joint: -1}}
	if l.parts.SportOff != nil {
		if err := l.parts.SportOff(ctx); err != nil {
			return err
		}
	}
	return l.submit(ctx, r)
}

// SetMode asks for damp, stand, policy or sit. What the table of modes does not
// name is refused with a *Refusal.
func (l *Loop) SetMode(ctx context.Context, m Mode) error {
	switch m {
	case Damp:
		var s Snapshot
		l.Snapshot(&s)
		return l.submit(ctx, &request{want: wantDamp, trips: l.guardTrips(), late: s.Stats.Trips, answer: Refusal{Joint: -1}})
	case Stand:
		if err := l.mayBegin(); err != nil {
			return err
		}
		return l.ask(ctx, wantStand)
	case Sit:
		return l.ask(ctx, wantSit)
	case Policy:
		if !l.hasPolicy {
			return &Refusal{Reason: NoPolicy, Joint: -1}
		}
		if l.parts.Gate != nil {
			var s Snapshot
			l.Snapshot(&s)
			if s.Mode != Stand || s.Phase != PhaseReady {
				return &Refusal{Reason: NotReady, Joint: -1}
			}
			r := s.reading()
			if err := l.parts.Gate(&r); err != nil {
				return err
			}
		}
		return l.ask(ctx, wantPolicy)
	}
	return &Refusal{Reason: NotNamed, Joint: -1}
}

// Damp damps, and clears what is latched. shown is how many trips of the guard whoever asks has been shown (guard.Status.Trips, of Guard): if
// there have been others, they stay latched, and the Refusal's Value says how many there are. A request that waited while this program
// stood still must not clear the trip that came of that. Nor what the loop itself did then for its own lateness, which nobody counts for
// whoever asks: that stays latched for seenTicks. SetMode clears what has come until it is called.
func (l *Loop) Damp(ctx context.Context, shown uint64) error {
	return l.submit(ctx, &request{want: wantDamp, trips: shown, answer: Refusal{Joint: -1}})
}

// mayBegin asks Parts.MayStand about the robot that answers now. Without a state
// nobody knows which robot it is, so the loop's own check of states would come
// too late.
func (l *Loop) mayBegin() error {
	if l.parts.MayStand == nil {
		return nil
	}
	var s Snapshot
	l.Snapshot(&s)
	switch {
	case s.HaveState:
		return l.parts.MayStand(&s.State)
	case s.Mode == Idle:
		return &Refusal{Reason: NotArmed, Joint: -1}
	}
	return &Refusal{Reason: FewStates, Joint: -1}
}

// EStop stops: cut damps at once, otherwise the robot settles first.
func (l *Loop) EStop(ctx context.Context, cut bool) error {
	if cut {
		return l.ask(ctx, wantCut)
	}
	return l.ask(ctx, wantSettle)
}

// Stop ends Run: the first call sits down first, the second damps at once. Both
// end with damping frames that the state shows to have arrived.
func (l *Loop) Stop() {
	if !l.stop.CompareAndSwap(0, 1) {
		l.stop.Store(2)
	}
}

// PolicyFailed tells the loop that the policy gave no usable action, such as one
// that is not finite: the motors are damped.
func (l *Loop) PolicyFailed() { l.policyFailed.Store(true) }

// Ended is closed when Run has returned.
func (l *Loop) Ended() <-chan struct{} { return l.ended }

// NowNs is the loop's clock at its newest tick.
func (l *Loop) NowNs() int64 { return l.nowNs.Load() }

// Snapshot copies what the newest tick published. It never holds up the loop.
func (l *Loop) Snapshot(out *Snapshot) {
	l.readers.Lock()
	s, _ := l.snapshots.front()
	*out = *s
	l.readers.Unlock()
}

// takeRequest answers at most one request a tick.
func (l *Loop) takeRequest(now int64) {
	r := l.inbox.Load()
	if r == nil || !l.inbox.CompareAndSwap(r, nil) {
		return
	}
	r.answer.Reason = l.apply(now, r)
	r.done.Store(true)
}

func (l *Loop) apply(now int64, r *request) Reason {
	stopping := l.stop.Load() != 0
	switch r.want {
	case wantArm:
		switch {
		case stopping:
			return Stopping
		case l.mode != Idle:
			return AlreadyArmed
		case l.stops.Load() != r.stops:
			return StoppedMeanwhile
		}
		l.judge.Clear() // arming is a person's act
		l.states, l.armedNs = 0, now
		l.setMode(now, Listen, PhaseNone)
	case wantDamp:
		if l.mode == Idle {
			return NotArmed
		}
		l.setMode(now, Damp, PhaseNone)
		if l.stats.Trips != r.late && l.stats.Ticks-l.tripTick < seenTicks {
			r.answer.Value = float64(l.guardTrips())
			return TrippedMeanwhile
		}
		if n, ok := unlatch(l, r.trips); !ok {
			r.answer.Value = float64(n)
			return TrippedMeanwhile
		}
		l.judge.Clear()
	case wantCut:
		l.stops.Add(1)
		l.judge.Raise(now, safety.Cut, safety.OperatorCut, -1)
		if l.mode != Idle {
			l.setMode(now, EStop, PhaseNone)
		}
	case wantSettle:
		l.stops.Add(1)
		l.judge.Raise(now, safety.Sit, safety.OperatorSettle, -1)
		switch {
		case l.mode == Idle || l.mode == EStop:
		case l.mode.torque():
			l.settle = true
			l.sit(now)
		default:
			l.setMode(now, EStop, PhaseNone)
		}
	case wantSit:
		if l.mode != Stand && l.mode != Policy {
			return l.notNamed()
		}
		l.sit(now)
	case wantStand:
		return l.mayStand(now, r, stopping)
	case wantPolicy:
		switch {
		case stopping:
			return Stopping
		case l.mode != Stand:
			return l.notNamed()
		case l.judge.Verdict().Severity > safety.Warn:
			return Latched
		case l.phase != PhaseReady:
			return NotReady
		case l.unguarded():
			return NoGuard
		case !l.hasPolicy:
			return NoPolicy
		case !l.parts.Safety.WithoutRemote && !l.judge.RemotePresent(now):
			return NoRemote
		case !l.envWaits.Load():
			return PolicyAbsent
		case l.needsVelocity && !l.filter.Healthy():
			return VelocityUnsure
		}
		l.setMode(now, Policy, PhaseBlend)
	}
	return Accepted
}

// latch is the guard's part of a damp: *Loop.
type latch interface {
	tripped() bool
	guardTrips() uint64
	begin()
}

// unlatch begins a new epoch where the guard has latched the present one, if whoever asks was shown all trips. It looks first and counts
// then: the guard counts before it latches, so that a trip that is seen is counted, and one that comes behind the look stays latched.
func unlatch(g latch, shown uint64) (trips uint64, ok bool) {
	tripped := g.tripped()
	trips = g.guardTrips()
	switch {
	case !tripped:
		return trips, true
	case trips != shown:
		return trips, false
	}
	g.begin()
	return trips, true
}

func (l *Loop) notNamed() Reason {
	if l.mode == Idle {
		return NotArmed
	}
	return NotNamed
}

// mayStand checks everything that standing up needs, and stands up.
func (l *Loop) mayStand(now int64, r *request, stopping bool) Reason {
	switch {
	case stopping:
		return Stopping
	case l.mode != Damp && l.mode != Listen:
		return l.notNamed()
	case l.judge.Verdict().Severity > safety.Warn:
		return Latched
	case l.states < goodStates || float64(now-l.lastArrive) > l.parts.Safety.StateHoldMs*1e6:
		r.answer.Value = float64(l.states)
		if l.states >= goodStates {
			r.answer.Value = 0
		}
		return FewStates
	case l.unguarded():
		return NoGuard
	case l.sendRun > 0:
		return LinkFails
	case !(l.judge.TiltRad() < startTilt):
		r.answer.Value = l.judge.TiltRad()
		return NotUpright
	case !l.parts.Safety.WithoutRemote && !l.judge.RemotePresent(now):
		return NoRemote
	case l.judge.BatteryTooLow():
		r.answer.Value = float64(l.state.BMS.SOC)
		return BatteryTooLow
	}
	g := l.state.IMU.Gyroscope
	if turn := math.Sqrt(float64(g[0]*g[0] + g[1]*g[1] + g[2]*g[2])); !(turn < startTurn) {
		r.answer.Value = turn
		return Turning
	}
	nearHome := true
	for i := range go1.Joints {
		m := &l.state.Motor[i]
		if m.Mode != safety.ModeServo || !(m.Q > go1.StopLower[i]-stopMargin && m.Q < go1.StopUpper[i]+stopMargin) {
			r.answer.Joint, r.answer.Value = i, float64(m.Mode)
			return JointNotAlive
		}
		nearHome = nearHome && near(m.Q, l.home[i], startPose)
	}
	if nearHome {
		l.setMode(now, Stand, PhaseRise)
		return Accepted
	}
	for i := range go1.Joints {
		within := float32(startPose)
		if i%go1.JointsInLeg == go1.Hip {
			within = startHip
		}
		if m := &l.state.Motor[i]; !near(m.Q, go1.Folded[i], within) {
			r.answer.Joint = i
			r.answer.Value = math.Min(math.Abs(float64(m.Q-go1.Folded[i])), math.Abs(float64(m.Q-l.home[i])))
			return NotFolded
		}
	}
	l.setMode(now, Stand, PhaseFold)
	return Accepted
}

func near(q, to, within float32) bool { return q-to < within && to-q < within }

// stopping carries out Stop and reports that the loop is done.
func (l *Loop) stopping(now int64) bool {
	stage := l.stop.Load()
	if stage == 0 {
		return false
	}
	if l.mode == Idle {
		return true
	}
	if l.mode.torque() {
		if stage == 1 {
			l.sit(now)
			return false
		}
		l.setMode(now, Damp, PhaseNone)
	}
	if l.endNs == 0 {
		l.endNs = now
	}
	sent := float64(now-l.endNs) / 1e9
	switch {
	case sent < l.cfg.DampSeconds:
		return false
	case l.sendRun == 0 && l.lastArrive > l.endNs+int64(l.cfg.DampSeconds/2*1e9):
		return true // the robot still answered when it had damping frames for a while
	case sent < 3*l.cfg.DampSeconds:
		return false
	}
	l.endErr = ErrUnconfirmed
	return true
}

// lockstepWait lets a policy answer, unless ctx ends, then waits for the robot's answer.
func (l *Loop) lockstepWait(ctx context.Context) {
	limit := time.Now().Add(time.Duration(l.cfg.LockWaitMs * 1e6))
	if l.driving() && (l.policyTick-1)%l.policyTicks == 0 {
		for l.targets.middle.Load()&fresh == 0 && l.envOpen.Load() && !l.policyFailed.Load() && ctx.Err() == nil && time.Now().Before(limit) {
			runtime.Gosched()
		}
	}
	if l.mode == Idle {
		time.Sleep(time.Duration(PeriodNs))
		return
	}
	patience := int64(l.cfg.LockWaitMs * 1e6)
	if l.unanswered >= lockstepPatience {
		patience = 1e6 // the robot is gone: time goes on without it
	}
	if l.unanswered++; l.parts.Link.Wait(patience) {
		l.unanswered = 0
	}
}

func jointName(i int) string { return go1.JointNames[i] }
