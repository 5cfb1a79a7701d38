package control

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// setMode enters a mode and its phase; gains and targets go on from where they
// are.
func (l *Loop) setMode(now int64, m Mode, p Phase) {
	was := l.driving()
	wasTorque := l.mode.torque()
	if l.guard != nil && (m == Idle) != (l.mode == Idle) {
		if m == Idle {
			l.guard.End()
		} else { // a person arms
			l.guard.Begin()
		}
	}
	l.mode = m
	l.setPhase(now, p)
	if m.torque() && !wasTorque { // targets start at what is measured, without stiffness
		for i := range go1.Joints {
			l.target[i] = l.state.Motor[i].Q
			l.kp[i], l.kd[i] = 0, safety.DampingKd
		}
		l.from, l.fromKp, l.fromKd = l.target, l.kp, l.kd
		l.haveFrame = false
	}
	if m == Policy && !was {
		l.episode++
		l.policyTick = 0
		l.policyFailed.Store(false) // what went wrong before is not this episode's
		l.policyTarget, l.policyOutNs, l.sensedNs = l.target, now, l.judge.SensedNs()
		l.enteredNs, l.commandNs, l.followed = now, now, [3]float32{}
	}
	if was && !l.driving() {
		how := left
		if v := l.judge.Verdict(); v.Severity >= safety.StandHold {
			how = failed
		}
		l.publishReading(how)
	}
	if !m.torque() {
		l.settle = false
	}
}

func (l *Loop) setPhase(now int64, p Phase) {
	l.phase, l.phaseNs = p, now
	l.from, l.fromKp, l.fromKd = l.target, l.kp, l.kd
	l.trackNs = 0
}

// obey does what the verdict asks for, in every mode where it changes anything.
func (l *Loop) obey(now int64, v *safety.Verdict) {
	switch {
	case v.Severity >= safety.Cut:
		if l.mode != Idle && l.mode != EStop {
			l.setMode(now, EStop, PhaseNone)
		}
	case v.Severity >= safety.Damp:
		if l.mode.torque() {
			if v.Fault == safety.LoopLate {
				l.trip()
			}
			l.setMode(now, Damp, PhaseNone)
		}
	case v.Severity >= safety.Sit:
		l.sit(now)
		if l.phase == PhaseStopping && l.policyLost(now) {
			l.setMode(now, Sit, PhaseHome) // nobody is there to walk it to a stand
		}
	case v.Severity >= safety.StandHold:
		switch {
		case l.mode == Stand && (l.phase == PhaseFold || l.phase == PhaseRise):
			// Half way up the way back is shorter, and without stiffness yet no
			// leg may be thrown home.
			l.setMode(now, Sit, PhaseLower)
		case l.mode == Policy, l.mode == Stand && l.phase == PhaseReady:
			l.setMode(now, Stand, PhaseHold)
		case l.mode == Sit && l.phase == PhaseStopping:
			l.setMode(now, Sit, PhaseHome)
		}
		held := float64(now-l.phaseNs) / 1e9
		if l.phase == PhaseHold && v.Fault == safety.CommandStale &&
			held >= l.parts.Safety.CommandSitS-l.parts.Safety.CommandStandS {
			l.judge.Raise(now, safety.Sit, safety.CommandStale, -1)
		}
	}
}

// policyLost says whether the policy's last output is too old to walk by.
func (l *Loop) policyLost(now int64) bool {
	return float64(now-l.policyOutNs) >= l.parts.Safety.PolicyHoldPeriods*float64(l.policyTicks*PeriodNs)
}

// sit begins to sit down from stand or policy; elsewhere it changes nothing.
func (l *Loop) sit(now int64) {
	switch {
	case l.mode == Policy:
		l.setMode(now, Sit, PhaseStopping)
	case l.mode == Stand && l.phase == PhaseHold:
		l.setMode(now, Sit, PhaseHome)
	case l.mode == Stand:
		l.setMode(now, Sit, PhaseLower)
	}
}

// advance moves the present phase on and computes targets and gains.
func (l *Loop) advance(now int64) {
	if !l.mode.torque() {
		return
	}
	since := float64(now-l.phaseNs) / 1e9
	standKp, standKd := float32(l.cfg.StandKp), float32(l.cfg.StandKd)
	switch l.phase {
	case PhaseFold:
		l.moveTo(&go1.Folded, standKp, standKd, since/l.cfg.FoldSeconds, since/l.cfg.FoldSeconds)
		l.next(now, since >= l.cfg.FoldSeconds, PhaseRise)
	case PhaseRise:
		// A robot that begins here (hung, or already up) still has no stiffness.
		l.moveTo(&l.home, standKp, standKd, since/l.cfg.RiseSeconds, 2*since/l.cfg.RiseSeconds)
		l.next(now, since >= l.cfg.RiseSeconds, PhaseReady)
	case PhaseReady:
		l.moveTo(&l.home, standKp, standKd, 1, 1)
	case PhaseHold:
		// Not the last target itself: legs that stop in mid-stride topple a
		// robot that walks (11 of 12 at 0.8 m/s in sim/virtual; this way none).
		l.moveTo(&l.home, standKp, standKd, since/l.cfg.HoldSeconds, since/l.cfg.HoldSeconds)
	case PhaseBlend:
		s := since / l.cfg.BlendSeconds
		l.movePolicy(s)
		l.next(now, s >= 1, PhaseWalk)
	case PhaseWalk:
		l.movePolicy(1)
	case PhaseStopping:
		l.movePolicy(1)
		l.next(now, since >= l.cfg.StopSeconds, PhaseHome)
	case PhaseHome:
		// As quick as the hold: it may come from mid-stride.
		l.moveTo(&l.home, standKp, standKd, since/l.cfg.HoldSeconds, since/l.cfg.HoldSeconds)
		l.next(now, since >= l.cfg.HomeSeconds, PhaseLower)
	case PhaseLower:
		l.moveTo(&go1.Folded, standKp, standKd, since/l.cfg.LowerSeconds, since/l.cfg.HomeSeconds)
		if since >= l.cfg.LowerSeconds {
			end := Damp
			if l.settle {
				end = EStop
			}
			l.setMode(now, end, PhaseNone)
		}
	}
	l.watchTracking(now)
}

// next enters the following phase of the same mode when this one is over.
func (l *Loop) next(now int64, over bool, p Phase) {
	if !over {
		return
	}
	was := l.driving()
	l.setPhase(now, p)
	if was && !l.driving() {
		l.publishReading(left)
	}
}

// moveTo puts targets and gains s and g (0..1) of the way from where the phase
// began, by minimum jerk.
func (l *Loop) moveTo(to *[go1.Joints]float32, kp, kd float32, s, g float64) {
	q, k := minimumJerk(s), minimumJerk(g)
	for i := range go1.Joints {
		l.target[i] = l.from[i] + q*(to[i]-l.from[i])
		l.kp[i] = l.fromKp[i] + k*(kp-l.fromKp[i])
		l.kd[i] = l.fromKd[i] + k*(kd-l.fromKd[i])
	}
}

// movePolicy is moveTo with the policy's target and the contract's gains.
func (l *Loop) movePolicy(s float64) {
	q := minimumJerk(s)
	for i := range go1.Joints {
		l.target[i] = l.from[i] + q*(l.policyTarget[i]-l.from[i])
		l.kp[i] = l.fromKp[i] + q*(l.actions.Kp[i]-l.fromKp[i])
		l.kd[i] = l.fromKd[i] + q*(l.actions.Kd[i]-l.fromKd[i])
	}
}

// minimumJerk is the smooth step from 0 to 1 with velocity and acceleration 0
// at both ends (Flash and Hogan 1985).
func minimumJerk(s float64) float32 {
	s = math.Max(0, math.Min(1, s))
	return float32(s * s * s * (10 + s*(-15+6*s)))
}

// watchTracking damps when a leg does not follow while the stand moves it.
func (l *Loop) watchTracking(now int64) {
	if l.phase != PhaseFold && l.phase != PhaseRise && l.phase != PhaseReady {
		l.trackNs = 0
		return
	}
	worst, joint := 0.0, -1
	for i := range go1.Joints {
		if e := math.Abs(float64(l.target[i] - l.state.Motor[i].Q)); e > worst {
			worst, joint = e, i
		}
	}
	if !(worst > l.parts.Safety.StandErrorRad) {
		l.trackNs = 0
		return
	}
	if l.trackNs == 0 {
		l.trackNs = now
	}
	if float64(now-l.trackNs) >= l.parts.Safety.StandErrorMs*1e6 {
		l.judge.Raise(now, safety.Damp, safety.StandTracking, joint)
		l.setMode(now, Damp, PhaseNone)
	}
}
