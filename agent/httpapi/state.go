package httpapi

import (
	"fmt"
	"math"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// State is the reply of GET /api/v1/state: one tick of the loop. SI units but
// where a name tells another; joints in SDK order; a quantity that is not
// finite is null. Parts about the robot are null before its first state.
type State struct {
	Clock      seconds  `json:"clock"` // the robot's monotonic clock, s; commands end on it
	Mode       string   `json:"mode"`
	Phase      string   `json:"phase"` // of the mode; "" where it has none
	Armed      bool     `json:"armed"` // frames are sent
	Lockstep   bool     `json:"lockstep"`
	Realtime   string   `json:"realtime"` // what the loop's thread was given
	Severity   string   `json:"severity"` // of the latched fault
	Fault      *Fault   `json:"fault"`    // latched; null: none
	Warnings   []string `json:"warnings"` // names of faults worth a warning now
	StateAgeMs number   `json:"state_age_ms"`

	IMU      *IMU      `json:"imu"`
	Joints   []Joint   `json:"joints"`
	Velocity Velocity  `json:"velocity"`
	Contacts []Contact `json:"contacts"`
	Battery  *Battery  `json:"battery"`
	Remote   Remote    `json:"remote"`
	Command  Command   `json:"command"`
	Policy   Policy    `json:"policy"`
	Loop     Loop      `json:"loop"`

	FirstContact FirstContact `json:"first_contact"`

	LinkLoss LinkLoss `json:"link_loss"`
	Guard    Guard    `json:"guard"`
	Limited  Limited  `json:"limited"`

	Link map[string]uint64 `json:"link"` // datagrams by what became of them
}

// Fault is a latched one; the text is that of FAULTS.md.
type Fault struct {
	Number   int     `json:"number"`
	Name     string  `json:"name"`
	Title    string  `json:"title"`
	Severity string  `json:"severity"`
	Joint    *string `json:"joint"` // null: not about one
	Since    seconds `json:"since"` // on the robot's clock
	Remedy   string  `json:"remedy"`
}

// IMU is the inertial unit's reading.
type IMU struct {
	Quaternion [4]number32 `json:"quaternion"`    // w x y z
	Gyro       [3]number32 `json:"gyroscope"`     // rad/s, body frame
	Acc        [3]number32 `json:"accelerometer"` // m/s2, body frame
	RPY        [3]number32 `json:"rpy"`           // rad, as the robot reports it
	TiltRad    number      `json:"tilt_rad"`      // of the body's z against up
}

// Joint is one actuated joint.
type Joint struct {
	Name         string   `json:"name"`
	Q            number32 `json:"q"`   // rad
	Dq           number32 `json:"dq"`  // rad/s
	Tau          number32 `json:"tau"` // N*m, the motor's estimate
	Target       number32 `json:"target"`
	Kp           number32 `json:"kp"`
	Kd           number32 `json:"kd"`
	TemperatureC int      `json:"temperature_c"`
	MotorMode    int      `json:"motor_mode"`
}

// Velocity is the estimate of the body's, body frame, at the IMU.
type Velocity struct {
	Vx    number32    `json:"vx"` // m/s
	Vy    number32    `json:"vy"`
	Vz    number32    `json:"vz"`
	Sigma [3]number32 `json:"sigma"` // one standard deviation
	OK    bool        `json:"ok"`
}

// Contact is a foot's.
type Contact struct {
	Leg         string   `json:"leg"`
	State       string   `json:"state"`       // unknown, air, ground
	Probability number32 `json:"probability"` // of ground
	Sensor      string   `json:"sensor"`      // what the estimator thinks of the force sensor
}

// Battery is the robot's.
type Battery struct {
	SOCPercent int        `json:"soc_percent"`
	CurrentMA  int32      `json:"current_ma"`
	CellsMV    [10]uint16 `json:"cells_mv"`
	Plausible  bool       `json:"plausible"` // else the percentage means nothing
}

// Remote is the hand remote.
type Remote struct {
	Present        bool `json:"present"`
	AllowedWithout bool `json:"allowed_without"` // --no-remote
}

// Command is the velocity command; vx, vy (m/s), wz (rad/s).
type Command struct {
	Asked    [3]number32 `json:"asked"`
	Followed [3]number32 `json:"followed"` // limited, ramped, halved
	Source   string      `json:"source"`   // none, http, remote
	AgeMs    number      `json:"age_ms"`
	Range    Ranges      `json:"range"`
}

// Ranges of commands that are taken.
type Ranges struct {
	Vx [2]number32 `json:"vx"`
	Vy [2]number32 `json:"vy"`
	Wz [2]number32 `json:"wz"`
}

// Policy is the policy that drives, and how timely it is.
type Policy struct {
	Loaded     bool   `json:"loaded"`
	Name       string `json:"name"`
	SHA256     string `json:"sha256"`
	Source     string `json:"source"` // where its contract came from
	AgeMs      number `json:"age_ms"`
	EndToEndMs number `json:"end_to_end_ms"` // age of the state that the target answers
	Steps      uint64 `json:"steps"`
	Late       uint64 `json:"late"`
}

// Loop is the control loop since it started. Quantiles are upper edges of
// buckets 12 % wide.
type Loop struct {
	Ticks       uint64 `json:"ticks"`
	Missed      uint64 `json:"missed"`
	Sent        uint64 `json:"sent"`
	SendErrors  uint64 `json:"send_errors"`
	States      uint64 `json:"states"`
	Trips       uint64 `json:"trips"`
	LateP50Us   number `json:"late_p50_us"`
	LateP99Us   number `json:"late_p99_us"`
	LateP999Us  number `json:"late_p999_us"`
	LateMaxUs   number `json:"late_max_us"`
	RxToTxP50Us number `json:"rx_to_tx_p50_us"`
	RxToTxP99Us number `json:"rx_to_tx_p99_us"`
	PolicyP50Us number `json:"policy_p50_us"`
	PolicyP99Us number `json:"policy_p99_us"`
}

// LinkLoss is what the motors do when no command comes, as `clawagent doctor --hang-test` has found it out on this robot.
type LinkLoss struct {
	Behaviour string `json:"behaviour"` // unknown, hold, damp, limp
	Warning   string `json:"warning"`   // "" where there is none
}

// newLinkLoss asks what is known of the robot in a snapshot.
func newLinkLoss(s *control.Snapshot, info *Info) LinkLoss {
	if info.LinkLoss == nil || !s.HaveState {
		return LinkLoss{Behaviour: "unknown"}
	}
	behaviour, warning := info.LinkLoss(s)
	return LinkLoss{Behaviour: behaviour, Warning: warning}
}

// FirstContact is what is asked of this robot's first contact, `clawagent doctor --first-contact`, before it stands.
type FirstContact struct {
	Required bool   `json:"required"`
	Warning  string `json:"warning"` // "" where there is none
}

// newFirstContact asks it of the robot in a snapshot.
func newFirstContact(s *control.Snapshot, info *Info) (f FirstContact) {
	if info.FirstContact != nil && s.HaveState {
		f.Required, f.Warning = info.FirstContact(s)
	}
	return f
}

// Guard is the process that damps the robot should this one die or stand still. Its lateness is how long the machine stands still.
type Guard struct {
	PID            int    `json:"pid"` // 0: none
	Alive          bool   `json:"alive"`
	AllowedWithout bool   `json:"allowed_without"` // --no-guard
	Latched        bool   `json:"latched"`         // no torque until a person asks for damp, then for stand
	Sending        bool   `json:"sending"`         // it damps in the loop's place
	Trips          uint64 `json:"trips"`
	Frames         uint64 `json:"frames"`      // damping frames of its own
	KillErrors     uint64 `json:"kill_errors"` // agents that stood still with a torque frame on its way and that it could not kill
	LateP50Us      number `json:"late_p50_us"`
	LateP99Us      number `json:"late_p99_us"`
	LateP999Us     number `json:"late_p999_us"`
	LateMaxUs      number `json:"late_max_us"`
}

// NewGuard shows what read says of the guard; read may be nil.
func NewGuard(alive, allowedWithout bool, read func(*guard.Status) bool) Guard {
	g := Guard{Alive: alive, AllowedWithout: allowedWithout}
	var s guard.Status
	if read == nil || !read(&s) {
		return g
	}
	g.PID, g.Latched, g.Sending, g.Trips, g.Frames, g.KillErrors = s.PID, s.Latched, s.Sending, s.Trips, s.Frames, s.KillErrors
	g.LateP50Us, g.LateP99Us = us(s.Lateness.Quantile(0.5)), us(s.Lateness.Quantile(0.99))
	g.LateP999Us, g.LateMaxUs = us(s.Lateness.Quantile(0.999)), us(s.Lateness.MaxNs)
	return g
}

// Limited counts what the judge moved or refused.
type Limited struct {
	Clamped uint64 `json:"clamped"` // joint targets
	Capped  uint64 `json:"capped"`  // torques
	Refused uint64 `json:"refused"` // frames
}

func (s *Server) state(c *gin.Context) {
	var snap control.Snapshot
	s.agent.Snapshot(&snap)
	all := newState(&snap, &s.info)
	reply(c, 200, all)
	s.told.tell(all.Guard.Trips, s.ticks)
}

// newState shows a snapshot; it accepts any content.
func newState(s *control.Snapshot, info *Info) *State {
	st := &State{
		Clock:      seconds(s.NowNs),
		Mode:       modeName(s.Mode),
		Phase:      phaseName(s.Phase),
		Armed:      s.Mode != control.Idle,
		Lockstep:   s.Lockstep,
		Realtime:   info.realtime(),
		Severity:   severityName(s.Verdict.Severity),
		Fault:      fault(&s.Verdict),
		Warnings:   warnings(s.Verdict.Warnings),
		StateAgeMs: ms(s.StateAgeNs),
		Joints:     []Joint{},
		Velocity: Velocity{
			Vx: number32(s.Velocity[0]), Vy: number32(s.Velocity[1]), Vz: number32(s.Velocity[2]),
			Sigma: three(s.VelocitySD), OK: s.EstimatorOK,
		},
		Contacts: []Contact{},
		Remote:   Remote{Present: s.RemotePresent, AllowedWithout: s.NoRemote},
		Command: Command{
			Asked: three(s.Asked), Followed: three(s.Command), Source: sourceName(s.Source), AgeMs: ms(s.CommandAgeNs),
			Range: Ranges{Vx: two(info.CommandRange.Vx), Vy: two(info.CommandRange.Vy), Wz: two(info.CommandRange.Wz)},
		},
		Policy: Policy{
			Loaded: s.HasPolicy, Name: info.PolicyName, SHA256: info.PolicySHA256, Source: info.ContractSource,
			AgeMs: ms(s.PolicyAgeNs), EndToEndMs: ms(s.EndToEndNs), Steps: s.Stats.Policy, Late: s.Stats.LatePolicy,
		},
		Loop: Loop{
			Ticks: s.Stats.Ticks, Missed: s.Stats.Missed, Sent: s.Stats.Sent, SendErrors: s.Stats.SendErrors,
			States: s.Stats.States, Trips: s.Stats.Trips,
			LateP50Us:  us(s.Stats.Lateness.Quantile(0.5)),
			LateP99Us:  us(s.Stats.Lateness.Quantile(0.99)),
			LateP999Us: us(s.Stats.Lateness.Quantile(0.999)),
			LateMaxUs:  us(s.Stats.Lateness.MaxNs),

			RxToTxP50Us: us(s.Stats.RxToTx.Quantile(0.5)), RxToTxP99Us: us(s.Stats.RxToTx.Quantile(0.99)),
			PolicyP50Us: us(s.Stats.PolicyStep.Quantile(0.5)), PolicyP99Us: us(s.Stats.PolicyStep.Quantile(0.99)),
		},
		Guard:    NewGuard(s.GuardAlive, s.NoGuard, info.Guard),
		LinkLoss: newLinkLoss(s, info),
		Limited:  Limited{Clamped: s.Limited.Clamped, Capped: s.Limited.Capped, Refused: s.Limited.Refused},

		FirstContact: newFirstContact(s, info),
		Link:         info.linkCounters(),
	}
	if s.HaveState {
		st.addRobot(s)
	}
	return st
}

func (st *State) addRobot(s *control.Snapshot) {
	imu := &s.State.IMU
	st.IMU = &IMU{
		Gyro: three(imu.Gyroscope), Acc: three(imu.Accelerometer), RPY: three(imu.RPY), TiltRad: number(s.TiltRad),
	}
	for i, x := range imu.Quaternion {
		st.IMU.Quaternion[i] = number32(x)
	}
	for i, name := range go1.JointNames {
		m := &s.State.Motor[i]
		st.Joints = append(st.Joints, Joint{
			Name: name, Q: number32(m.Q), Dq: number32(m.Dq), Tau: number32(m.TauEst),
			Target: number32(s.Target[i]), Kp: number32(s.Kp[i]), Kd: number32(s.Kd[i]),
			TemperatureC: int(m.Temperature), MotorMode: int(m.Mode),
		})
	}
	for i, name := range go1.LegNames {
		st.Contacts = append(st.Contacts, Contact{
			Leg: name, State: s.Contacts[i].State.String(), Probability: number32(s.Contacts[i].Probability),
			Sensor: sensorName(s.FootForce[i]),
		})
	}
	st.Battery = &Battery{
		SOCPercent: int(s.State.BMS.SOC), CurrentMA: s.State.BMS.Current, CellsMV: s.State.BMS.CellVoltage,
		Plausible: s.Verdict.Warnings&(1<<safety.BatteryUnknown) == 0,
	}
}

func fault(v *safety.Verdict) *Fault {
	if v.Fault == safety.NoFault {
		return nil
	}
	info := faultInfo(v.Fault)
	f := &Fault{
		Number: int(v.Fault), Name: info.Name, Title: info.Title, Severity: severityName(v.Severity),
		Since: seconds(v.SinceNs), Remedy: info.Remedy,
	}
	if v.Joint >= 0 && v.Joint < go1.Joints {
		f.Joint = &go1.JointNames[v.Joint]
	}
	return f
}

// faultInfo also answers for numbers that the table does not have.
func faultInfo(f safety.Fault) safety.Info {
	if int(f) < len(safety.Faults) {
		return safety.Faults[f]
	}
	return safety.Info{Fault: f, Name: f.String(), Title: "Unknown fault", Remedy: "This program and its table of faults do not fit together."}
}

func warnings(bits uint64) []string {
	names := []string{}
	for f := range safety.Fault(64) {
		if bits&(1<<f) != 0 {
			names = append(names, f.String())
		}
	}
	return names
}

// Names of enumerations; a value outside shows as its number.
func modeName(m control.Mode) string            { return nameOf(m, control.EStop) }
func phaseName(p control.Phase) string          { return nameOf(p, control.PhaseLower) }
func sourceName(s control.Source) string        { return nameOf(s, control.SourceRemote) }
func severityName(s safety.Severity) string     { return nameOf(s, safety.Cut) }
func sensorName(h estimate.SensorHealth) string { return nameOf(h, estimate.SensorStuck) }

func nameOf[T interface {
	~uint8
	fmt.Stringer
}](v, last T) string {
	if v > last {
		return strconv.Itoa(int(v))
	}
	return v.String()
}

// seconds is a time on the robot's clock in ns, shown in s with all its digits.
type seconds int64

// MarshalJSONTo writes, for example, 12.345678901.
func (t seconds) MarshalJSONTo(e *jsontext.Encoder) error {
	whole, part := int64(t)/1e9, int64(t)%1e9
	sign := ""
	if t < 0 {
		sign, whole, part = "-", -whole, -part
	}
	return e.WriteValue(fmt.Appendf(nil, "%s%d.%09d", sign, whole, part))
}

// number and number32 are floats whose NaN and infinities become null.
type (
	number   float64
	number32 float32
)

// MarshalJSONTo writes the shortest digits that give the same number back.
func (x number) MarshalJSONTo(e *jsontext.Encoder) error { return writeFloat(e, float64(x), 64) }

// MarshalJSONTo writes the shortest digits that give the same float32 back.
func (x number32) MarshalJSONTo(e *jsontext.Encoder) error { return writeFloat(e, float64(x), 32) }

func writeFloat(e *jsontext.Encoder, x float64, bits int) error {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return e.WriteToken(jsontext.Null)
	}
	return e.WriteValue(strconv.AppendFloat(make([]byte, 0, 24), x, 'g', -1, bits))
}

func ms(ns int64) number { return number(float64(ns) / 1e6) }
func us(ns int64) number { return number(float64(ns) / 1e3) }

func three(v [3]float32) (n [3]number32) {
	for i, x := range v {
		n[i] = number32(x)
	}
	return n
}

func two(v [2]float32) [2]number32 { return [2]number32{number32(v[0]), number32(v[1])} }
