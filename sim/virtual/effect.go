package virtual

import (
	"math"
	"math/rand/v2"

	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// effect is a fault at work.
type effect struct {
	f  Fault
	k  *kind
	p  map[string]float64
	id int

	start float64 // s, next or present; NaN until known
	end   float64 // s; infinite: it stays
	left  int     // samples; 0: not counted
	since float64 // s, when it was injected
	on    bool
	over  bool

	// Memory of single kinds.
	state   wire.LowState // freeze_tick, imu_stuck, joint_stuck
	noise   *rand.Rand    // imu_noise, joint_noise, foreign_state
	states  []heldStates  // reorder: of each receiver at most one
	orders  []heldOrders  // reorder_command: of each sender at most one
	foreign *socket       // foreign_state
	turn    float64       // other_sender: share not yet given
	force   [3]float64    // push, world
	from    float64       // hand: the joint's angle at start, rad
}

func newEffect(f Fault, id int, t float64, seed uint64) (*effect, error) {
	p, err := f.values()
	if err != nil {
		return nil, err
	}
	e := &effect{f: f, k: findKind(f.Kind), p: p, id: id, since: t, start: math.NaN()}
	e.noise = rand.New(rand.NewPCG(seed, 0xF0<<32|uint64(id)))
	return e, nil
}

// due says whether the effect begins at t.
func (e *effect) due(t float64, ref *referee) bool {
	if e.on || e.over {
		return false
	}
	if math.IsNaN(e.start) {
		switch e.f.From {
		case "now":
			e.start = e.since
		case "walk":
			e.start = max(ref.walkedAt+e.f.At, e.since)
		case "stand":
			e.start = max(ref.stoodAt+e.f.At, e.since)
		default:
			e.start = max(e.f.At, e.since)
		}
	}
	return t+1e-9 >= e.start // false for NaN: what it counts from has not happened
}

// begin sets how long it lasts from t on.
func (e *effect) begin(t float64) {
	e.on, e.left, e.end, e.turn = true, e.f.Samples, math.Inf(1), 0
	if e.f.For > 0 || e.f.Samples == 0 {
		e.end = t + e.k.lasts(&e.f, e.p)
	}
}

// finish ends it; with Every it will begin anew.
func (e *effect) finish() {
	e.on = false
	if e.f.Every > 0 {
		e.start += e.f.Every
	} else {
		e.over = true
	}
}

// alter changes what a state says.
func (e *effect) alter(s *wire.LowState, t float64) {
	p := e.p
	j := int(p["joint"])
	nan := float32(math.NaN())
	switch e.k.name {
	case "freeze_tick":
		e.remember(s)
		if p["what"] == 0 {
			s.Tick = e.state.Tick
		} else {
			*s = e.state
		}
	case "imu_quat_zero":
		s.IMU.Quaternion = [4]float32{}
	case "imu_quat_scale":
		for i := range s.IMU.Quaternion {
			s.IMU.Quaternion[i] *= float32(p["scale"])
		}
	case "imu_quat_order":
		q := s.IMU.Quaternion
		s.IMU.Quaternion = [4]float32{q[1], q[2], q[3], q[0]}
	case "imu_quat_conj":
		for i := range 3 {
			s.IMU.Quaternion[1+i] *= -1
		}
	case "imu_turned":
		turnIMU(&s.IMU, int(p["axis"]), p["deg"]*math.Pi/180)
	case "imu_mirror":
		mirrorIMU(&s.IMU, int(p["axis"]))
	case "imu_stuck":
		e.remember(s)
		temperature := s.IMU.Temperature
		s.IMU = e.state.IMU
		s.IMU.Temperature = temperature
	case "imu_noise":
		e.disturbIMU(&s.IMU)
	case "gyro_sign":
		negate(&s.IMU.Gyroscope, int(p["axis"]))
	case "acc_sign":
		negate(&s.IMU.Accelerometer, int(p["axis"]))
	case "gyro_scale":
		s.IMU.Gyroscope[int(p["axis"])] *= float32(p["scale"])
	case "gyro_swapped":
		a, b := &s.IMU.Gyroscope[int(p["a"])], &s.IMU.Gyroscope[int(p["b"])]
		*a, *b = *b, *a
	case "acc_swapped":
		a, b := &s.IMU.Accelerometer[int(p["a"])], &s.IMU.Accelerometer[int(p["b"])]
		*a, *b = *b, *a
	case "gyro_units":
		for i := range s.IMU.Gyroscope {
			s.IMU.Gyroscope[i] *= 180 / math.Pi
		}
	case "imu_tilt":
		tiltIMU(&s.IMU, int(p["axis"]), p["rad"], p["how"] == 1)
	case "gyro_nan":
		s.IMU.Gyroscope[0] = nan
	case "acc_nan":
		s.IMU.Accelerometer[2] = nan
	case "joint_nan":
		if p["what"] == 0 {
			s.Motor[j].Q = nan
		} else {
			s.Motor[j].Dq = nan
		}
	case "joint_speed":
		s.Motor[j].Dq = float32(p["value"])
	case "joint_offset":
		s.Motor[j].Q += float32(p["rad"])
	case "joint_stuck":
		e.remember(s)
		for i := range mujoco.Joints {
			if j == i || j == allJoints {
				m, was := &s.Motor[i], &e.state.Motor[i]
				m.Q, m.QRaw, m.Dq, m.DqRaw, m.Ddq, m.DdqRaw = was.Q, was.QRaw, was.Dq, was.DqRaw, was.Ddq, was.DdqRaw
			}
		}
	case "joint_noise":
		each(s, j, func(m *wire.MotorState) {
			m.Q += float32(p["q"] * e.noise.NormFloat64())
			m.Dq += float32(p["dq"] * e.noise.NormFloat64())
		})
	case "joint_reversed", "joints_swapped", "legs_swapped", "motors_swapped", "joint_order":
		e.wireStates(s)
	case "joint_speed_scale":
		m := &s.Motor[j]
		m.Dq, m.DqRaw = m.Dq*float32(p["scale"]), m.DqRaw*float32(p["scale"])
	case "power":
		setPower(s, p["w"])
	case "power_nan":
		s.Motor[j].Dq = float32(math.Inf(1))
	case "temperature":
		each(s, j, func(m *wire.MotorState) { m.Temperature = int8(p["value"]) })
	case "temperature_ramp":
		each(s, j, func(m *wire.MotorState) {
			c := min(max(float64(m.Temperature)+p["per_s"]*(t-e.start), -128), 127)
			if m.Temperature = int8(c); c >= overheat {
				m.Mode = wire.ModeOverheat
			}
		})
	case "motor_mode":
		each(s, j, func(m *wire.MotorState) { m.Mode = uint8(p["value"]) })
	case "battery":
		s.BMS.SOC = uint8(p["soc"])
	case "cells":
		n := len(s.BMS.CellVoltage)
		for i := range n {
			mv := p["mv"] + p["spread"]*(float64(i)/float64(n-1)-0.5)
			s.BMS.CellVoltage[i] = uint16(min(max(mv, 0), maxCell))
		}
	case "cells_missing":
		clear(s.BMS.CellVoltage[len(s.BMS.CellVoltage)-int(p["n"]):])
	case "remote_absent":
		s.Remote = [wire.RemoteSize]byte{}
	case "remote_buttons", "remote_sticks":
		var r wire.Remote
		wire.DecodeRemote(&s.Remote, &r)
		if e.k.name == "remote_buttons" {
			r.Buttons |= uint16(p["buttons"])
		} else {
			r.Lx, r.Ly, r.Rx, r.Ry = float32(p["lx"]), float32(p["ly"]), float32(p["rx"]), float32(p["ry"])
		}
		putRemote(&s.Remote, r)
	case "buttons_swapped", "sticks_swapped", "stick_reversed":
		e.layOut(&s.Remote)
	case "foot_reversed":
		f := &s.FootForce[int(p["foot"])]
		*f = toI16(-float64(*f))
	case "foot_force_zero":
		s.FootForce = [4]int16{}
	case "foot_force_offset":
		for leg, name := range [...]string{"fr", "fl", "rr", "rl"} {
			s.FootForce[leg] = toI16(float64(s.FootForce[leg]) + p[name] + p["drift"]*(t-e.start))
		}
	case "foot_force_stuck":
		s.FootForce[int(p["foot"])] = int16(p["value"])
	case "feet_swapped":
		a, b := int(p["a"]), int(p["b"])
		s.FootForce[a], s.FootForce[b] = s.FootForce[b], s.FootForce[a]
		s.FootForceEst[a], s.FootForceEst[b] = s.FootForceEst[b], s.FootForceEst[a]
	}
}

// maxCell is the highest cell voltage that a state carries, mV.
const maxCell = 8191

// remember keeps the first state that the fault touches.
func (e *effect) remember(s *wire.LowState) {
	if e.state.Head[0] == 0 {
		e.state = *s
	}
}

// each calls do for motor j, or for all twelve.
func each(s *wire.LowState, j int, do func(*wire.MotorState)) {
	for i := range mujoco.Joints {
		if j == i || j == allJoints {
			do(&s.Motor[i])
		}
	}
}

// The joint that setPower uses, and its torque, N·m: all that the wire can carry, so that the speed stays one that walking knows
// (5.5 rad/s for 700 W) and policy and estimate see little of it. It pulls the foot up, so that leg passes for swinging.
const (
	powerJoint = 2 // FR_calf
	powerTau   = -127
)

// setPower makes the sum of |tauEst dq| over the joints, as it will read on the wire, watts.
func setPower(s *wire.LowState, watts float64) {
	others := 0.
	for i := range mujoco.Joints {
		m := &s.Motor[i]
		m.TauEst = float32(math.Trunc(float64(m.TauEst)*256) / 256)
		if i != powerJoint {
			others += math.Abs(float64(m.TauEst) * float64(m.Dq))
		}
	}
	if others > watts { // less than there is: all joints slow down
		for i := range mujoco.Joints {
			s.Motor[i].Dq *= float32(watts / others)
		}
		others = watts
	}
	m := &s.Motor[powerJoint]
	m.TauEst = powerTau
	m.Dq = float32(math.Copysign((watts-others)/-powerTau, float64(m.Dq)))
}
