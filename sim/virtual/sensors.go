package virtual

import (
	"math"
	"math/rand/v2"

	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// overheat is the temperature from which a motor reports mode 0x08, C. It goes on working: the worst.
const overheat = 100

// sensors turns what physics knows into what the robot says.
type sensors struct {
	cfg  *Config
	draw *rand.Rand

	gyroBias, accBias [3]float64
	roll, pitch       float64
	zero              [mujoco.Joints]float64

	temperature [mujoco.Joints]float64 // C
	charge      float64                // Wh
	lastDq      [mujoco.Joints]float64
	pressed     [mujoco.Legs]float64 // N, by hands on the feet
}

func newSensors(cfg *Config) *sensors {
	s := &sensors{cfg: cfg, draw: rand.New(rand.NewPCG(cfg.Seed, 0x5E2505))}
	n := &cfg.Noise
	within := func(bound float64) float64 { return bound * (2*s.draw.Float64() - 1) }
	for i := range 3 {
		s.gyroBias[i], s.accBias[i] = within(n.GyroBias), within(n.AccBias)
	}
	s.roll, s.pitch = within(n.Tilt), within(n.Tilt)
	for i := range s.zero {
		s.zero[i] = within(n.JointZero)
		s.temperature[i] = cfg.Body.AmbientC
	}
	s.charge = cfg.Battery.CapacityWh * cfg.Battery.SOCPercent / 100
	return s
}

// sense fills out from one physics step of dt seconds. modes are the motors' as they execute them; t is the robot's time.
func (s *sensors) sense(out *wire.LowState, st *mujoco.State, modes *[mujoco.Joints]byte, t, dt float64) {
	out.Init()
	out.SN, out.Version = s.cfg.Identity.SN, s.cfg.Identity.Version
	s.imu(&out.IMU, st, t)
	s.motors(out, st, modes, dt)
	s.battery(&out.BMS, st, dt)
	n := &s.cfg.Noise
	for leg := range st.FootForce {
		v := n.FootOffset[leg] + n.FootDrift[leg]*t + n.FootScale*(st.FootForce[leg]+s.pressed[leg]) + n.FootNoise*s.draw.NormFloat64()
		out.FootForce[leg] = toI16(v)
	}
	if s.cfg.Remote.Present {
		putRemote(&out.Remote, wire.Remote{})
	}
}

func (s *sensors) imu(m *wire.IMU, st *mujoco.State, t float64) {
	n := &s.cfg.Noise
	q := mulQuat(turn(2, n.YawDrift*t), mulQuat(st.Quat, mulQuat(turn(0, s.roll), turn(1, s.pitch))))
	for i, v := range q {
		m.Quaternion[i] = float32(v)
	}
	m.RPY = rpy(q)
	for i := range 3 {
		m.Gyroscope[i] = float32(st.AngVelBody[i] + s.gyroBias[i] + n.Gyro*s.draw.NormFloat64())
		m.Accelerometer[i] = float32(st.Acc[i] + s.accBias[i] + n.Acc*s.draw.NormFloat64())
	}
	m.Temperature = int8(min(s.cfg.Body.AmbientC+12, 127))
}

func (s *sensors) motors(out *wire.LowState, st *mujoco.State, modes *[mujoco.Joints]byte, dt float64) {
	n, b := &s.cfg.Noise, &s.cfg.Body
	for i := range mujoco.Joints {
		m := &out.Motor[i]
		m.Mode = modes[i]
		q := st.Q[i] + s.zero[i]
		if n.Encoder > 0 {
			q = math.Round(q/n.Encoder) * n.Encoder
		}
		m.Q, m.QRaw = float32(q), float32(q)
		dq := st.Dq[i] + n.JointSpeed*s.draw.NormFloat64()
		m.Dq, m.DqRaw = float32(dq), float32(dq)
		m.Ddq = toI16((st.Dq[i] - s.lastDq[i]) / dt)
		m.DdqRaw = m.Ddq
		s.lastDq[i] = st.Dq[i]
		m.TauEst = float32(min(max(st.Tau[i]+n.Torque*s.draw.NormFloat64(), -127), 127))
		// One winding and its surroundings: rises by torque squared, falls back to the room.
		steady := b.AmbientC + b.HeatC*st.Tau[i]*st.Tau[i]
		s.temperature[i] += (steady - s.temperature[i]) * dt / b.HeatS
		m.Temperature = int8(min(max(s.temperature[i], -128), 127))
		if s.temperature[i] >= overheat {
			m.Mode = wire.ModeOverheat
		}
	}
}

func (s *sensors) battery(m *wire.BMS, st *mujoco.State, dt float64) {
	b := &s.cfg.Battery
	watts := b.IdleW + st.Power
	s.charge = max(0, s.charge-watts*dt/3600)
	soc := s.charge / b.CapacityWh
	*m = wire.BMS{VersionH: 1, VersionL: 2, Status: 1, SOC: uint8(math.Ceil(100 * soc)), Cycle: 12}
	cell := 3.3 + 0.85*soc // V, a straight line for a cell's discharge
	m.Current = -int32(1000 * watts / (10 * cell))
	for i := range m.CellVoltage {
		m.CellVoltage[i] = uint16(1000*cell) + uint16(i*7%20) // cells differ by a step or so
	}
	warm := int8(min(s.cfg.Body.AmbientC+4, 127))
	m.BQNTC, m.MCUNTC = [2]int8{warm, warm}, [2]int8{warm + 3, warm + 3}
}

// high fills the sport mode's report from the low level's and from physics.
func (s *sensors) high(out *wire.HighState, low *wire.LowState, st *mujoco.State, mode uint8) {
	out.Init()
	out.SN, out.Version = low.SN, low.Version
	out.IMU, out.BMS, out.FootForce, out.Remote = low.IMU, low.BMS, low.FootForce, low.Remote
	for i := range low.Motor {
		m := &low.Motor[i]
		out.Motor[i] = wire.HighMotorState{Mode: m.Mode, Q: m.Q, Dq: m.Dq, Ddq: float32(m.Ddq), TauEst: m.TauEst,
			QRaw: m.QRaw, DqRaw: m.DqRaw, DdqRaw: float32(m.DdqRaw), Temperature: m.Temperature}
	}
	out.Mode, out.FootRaiseHeight, out.BodyHeight = mode, 0.08, float32(st.Pos[2])
	for i := range 3 {
		out.Position[i], out.Velocity[i] = float32(st.Pos[i]), float32(st.LinVelBody[i])
	}
	out.YawSpeed = float32(st.AngVelBody[2])
	for leg := range st.FootPos {
		for i := range 3 {
			var p, v float64
			for j := range 3 { // world to body: the rotation's transpose
				r := rotation(st.Quat)[j][i]
				p += r * (st.FootPos[leg][j] - st.Pos[j])
				v += r * (st.FootVel[leg][j] - st.LinVelWorld[j])
			}
			out.FootPosition2Body[leg][i], out.FootSpeed2Body[leg][i] = float32(p), float32(v)
		}
	}
}

func toI16(v float64) int16 { return int16(math.Round(min(max(v, math.MinInt16), math.MaxInt16))) }

// mulQuat is the rotation b, then a, w x y z.
func mulQuat(a, b [4]float64) [4]float64 {
	return [4]float64{
		a[0]*b[0] - a[1]*b[1] - a[2]*b[2] - a[3]*b[3],
		a[0]*b[1] + a[1]*b[0] + a[2]*b[3] - a[3]*b[2],
		a[0]*b[2] - a[1]*b[3] + a[2]*b[0] + a[3]*b[1],
		a[0]*b[3] + a[1]*b[2] - a[2]*b[1] + a[3]*b[0],
	}
}

// turn is the rotation by rad about axis 0, 1, 2 for x, y, z.
func turn(axis int, rad float64) (q [4]float64) {
	q[0], q[1+axis] = math.Cos(rad/2), math.Sin(rad/2)
	return q
}

func rpy(q [4]float64) [3]float32 {
	r := rotation(q)
	return [3]float32{
		float32(math.Atan2(r[2][1], r[2][2])),
		float32(math.Asin(min(max(-r[2][0], -1), 1))),
		float32(math.Atan2(r[1][0], r[0][0])),
	}
}

// rotation takes the body's vectors to the world's.
func rotation(q [4]float64) [3][3]float64 {
	w, x, y, z := q[0], q[1], q[2], q[3]
	return [3][3]float64{
		{1 - 2*(y*y+z*z), 2 * (x*y - w*z), 2 * (x*z + w*y)},
		{2 * (x*y + w*z), 1 - 2*(x*x+z*z), 2 * (y*z - w*x)},
		{2 * (x*z - w*y), 2 * (y*z + w*x), 1 - 2*(x*x+y*y)},
	}
}
