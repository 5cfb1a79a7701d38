package control

import (
	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// how an episode of the policy goes on.
type how uint8

const (
	running how = iota
	left        // an operator, or the program, ended it
	failed      // a safety act ended it
)

// reading is what the policy's thread gets once per policy period.
type reading struct {
	seq, episode uint64
	how          how
	r            go1.Reading // LastAction and the clock are the policy's side's
	sent         [go1.Joints]float32
	sensedNs     int64
}

// target is its answer.
type target struct {
	seq, episode uint64
	target       [go1.Joints]float32
	sensedNs     int64
	tookNs       int64 // from the reading's receipt to this answer, real time
}

func (l *Loop) publishReading(h how) {
	l.seq++
	b := l.readings.back()
	b.seq, b.episode, b.how = l.seq, l.episode, h
	l.fillReading(&b.r)
	for i := range go1.Joints {
		b.sent[i] = l.cmd.Motor[i].Q
	}
	b.sensedNs = l.judge.SensedNs()
	l.readings.publish()
	l.signal()
}

func (l *Loop) fillReading(r *go1.Reading) {
	r.Gyro = l.state.IMU.Gyroscope
	r.Gravity = gravity(&l.state.IMU.Quaternion)
	r.LinVel = l.filter.Velocity()
	for i := range go1.Joints {
		r.Q[i], r.Dq[i] = l.state.Motor[i].Q, l.state.Motor[i].Dq
	}
	r.Command = l.followed
}

// gravity is the direction of gravity in the body's frame, of length one for a
// quaternion of any length that the judge accepts.
func gravity(quat *[4]float32) [3]float32 {
	g := go1.Gravity(quat)
	if n := quat[0]*quat[0] + quat[1]*quat[1] + quat[2]*quat[2] + quat[3]*quat[3]; n > 0 {
		for i := range g {
			g[i] /= n
		}
	}
	return g
}

// signal wakes the policy's thread; it never blocks.
func (l *Loop) signal() {
	_, _ = unix.Write(l.wake, l.one[:]) // EAGAIN: it has two billion wake-ups to do already
}

func (l *Loop) publishSnapshot(now int64) {
	s := l.snapshots.back()
	s.NowNs, s.Mode, s.Phase = now, l.mode, l.phase
	if l.settle {
		s.Mode = EStop
	}
	s.Lockstep, s.HasPolicy, s.NoRemote = l.cfg.Lockstep, l.hasPolicy, l.parts.Safety.WithoutRemote
	s.NoGuard, s.GuardAlive = !l.parts.NeedGuard && !l.cfg.Lockstep, l.guardAlive()
	s.Verdict, s.Limited = l.judge.Verdict(), l.judge.Counters()
	s.HaveState, s.State, s.TiltRad = l.have, l.state, l.judge.TiltRad()
	s.StateAgeNs = now - l.lastArrive
	s.Velocity, s.VelocitySD = l.filter.Velocity(), l.filter.Sigma()
	s.Contacts, s.FootForce, s.EstimatorOK = l.filter.Contacts(), l.filter.FootForceHealth(), l.filter.Healthy()
	s.Asked, s.Command, s.Source = l.asked, l.followed, l.source
	s.CommandAgeNs, s.RemotePresent = now-l.commandNs, l.judge.RemotePresent(now)
	s.Target, s.Kp, s.Kd = [go1.Joints]float32{}, [go1.Joints]float32{}, [go1.Joints]float32{}
	if l.mode.torque() {
		for i := range go1.Joints {
			m := &l.cmd.Motor[i]
			s.Target[i], s.Kp[i], s.Kd[i] = m.Q, m.Kp, m.Kd
		}
	}
	s.EndToEndNs, s.PolicyAgeNs = 0, 0
	if l.driving() {
		s.EndToEndNs, s.PolicyAgeNs = now-l.sensedNs, now-l.policyOutNs
	}
	s.Stats = l.stats
	l.snapshots.publish()
}

// reading is the observation's raw material in a snapshot, at rest.
func (s *Snapshot) reading() go1.Reading {
	r := go1.Reading{Gyro: s.State.IMU.Gyroscope, Gravity: gravity(&s.State.IMU.Quaternion), LinVel: s.Velocity}
	for i := range go1.Joints {
		r.Q[i], r.Dq[i] = s.State.Motor[i].Q, s.State.Motor[i].Dq
	}
	return r
}
