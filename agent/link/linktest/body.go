package linktest

import (
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

const (
	stepNs = 2_000_000 // one control period
	stepS  = stepNs * 1e-9

	// viscosity is what resists a joint beside its own Kd, N.m.s/rad. It makes the lag: a joint at Kp, Kd comes nearer to its
	// target at Kp/(Kd+viscosity) per second.
	viscosity = 0.8
	// limpRate is how fast limp legs fold, 1/s.
	limpRate = 5.0
)

// body is twelve kinematic joints under a trunk that never moves, and the state they show. The accelerometer has a little noise.
type body struct {
	q, dq [wire.Joints]float32 // rad, rad/s
	cmd   wire.LowCmd          // acts until the next one, as a motor's does
	limp  bool
	state wire.LowState
}

// start puts the body at rest in pose with every sensor at a plausible value: upright, 35 C, battery 80 %, remote present
// with its sticks at rest.
func (b *body) start(pose [wire.Joints]float32) {
	*b = body{q: pose}
	s := &b.state
	s.Init()
	s.IMU = wire.IMU{Quaternion: [4]float32{1, 0, 0, 0}, Accelerometer: [3]float32{0, 0, 9.81}, Temperature: 35}
	s.BMS = wire.BMS{VersionH: 1, SOC: 80, Current: -1500, Cycle: 20, BQNTC: [2]int8{30, 30}, MCUNTC: [2]int8{35, 35}}
	for i := range 6 { // a Go1's pack has six cells in series; the message has room for ten
		s.BMS.CellVoltage[i] = 3904 // mV, a multiple of the message's 32
	}
	for i := range s.FootForce {
		s.FootForce[i] = 100 // a quarter of the robot each, in no unit
	}
	remote := wire.AppendRemote(nil, &wire.Remote{Head: [2]byte{wire.RemoteHead0, wire.RemoteHead1}})
	copy(s.Remote[:], remote)
	b.sense()
}

// step moves the body on by 2 ms.
func (b *body) step() {
	for i := range b.q {
		before := b.q[i]
		b.q[i] = b.next(i)
		b.dq[i] = (b.q[i] - before) / stepS
	}
	b.state.Tick += stepNs / 1e6
	// A trunk that never moves, felt by a sensor that works: no two of many states say quite the same.
	b.state.IMU.Accelerometer[2] = 9.81 + 1e-4*float32(b.state.Tick/2*37%101)
	b.sense()
}

// next is joint i's angle a step on. Torque Kp(q*-q) + Kd(dq*-dq) + tau works against viscosity alone, without inertia, which
// solves to an exponential and stays stable at any gain.
func (b *body) next(i int) float32 {
	q := float64(b.q[i])
	if b.limp {
		return float32(approach(q, float64(go1.Folded[i]), limpRate))
	}
	m := &b.cmd.Motor[i]
	if m.Mode != wire.ModeServo || !finite(m.Q) || !finite(m.Dq) || m.Kp < 0 || m.Kd < 0 {
		return b.q[i]
	}
	push := float64(m.Kd)*float64(m.Dq) + float64(m.Tau)
	var to float64
	if kp := float64(m.Kp); kp > 0 {
		to = approach(q, float64(m.Q)+push/kp, kp/(float64(m.Kd)+viscosity))
	} else {
		to = q + push/(float64(m.Kd)+viscosity)*stepS
	}
	most := float64(go1.SpeedMax[i]) * stepS
	to = q + min(max(to-q, -most), most)
	return float32(min(max(to, float64(go1.StopLower[i])), float64(go1.StopUpper[i])))
}

// approach is q after one step on its way to target at rate per second.
func approach(q, target, rate float64) float64 {
	return target + (q-target)*math.Exp(-rate*stepS)
}

// sense writes the joints into the state. The torque estimate is the motor's own law at the angle and speed shown, within
// what a joint can give.
func (b *body) sense() {
	for i := range b.q {
		m, c := &b.state.Motor[i], &b.cmd.Motor[i]
		m.Q, m.Dq, m.QRaw, m.DqRaw = b.q[i], b.dq[i], b.q[i], b.dq[i]
		m.Temperature = 35
		m.Mode, m.TauEst = c.Mode, 0
		if b.limp {
			m.Mode = wire.ModeDamping
		} else if c.Mode == wire.ModeServo {
			tau := c.Kp*(c.Q-m.Q) + c.Kd*(c.Dq-m.Dq) + c.Tau
			if finite(tau) {
				m.TauEst = min(max(tau, -go1.TorqueMax[i]), go1.TorqueMax[i])
			}
		}
	}
}

func finite(v float32) bool { return v-v == 0 }
