package control

import (
	"github.com/openclaw-rl/openclaw/agent/estimate"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/latency"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Source is who gives the velocity command.
type Source uint8

// Sources, lowest priority first.
const (
	SourceNone Source = iota
	SourceHTTP
	SourceRemote // the hand remote's sticks
)

func (s Source) String() string { return [...]string{"none", "http", "remote"}[s] }

// Stats are the loop's own figures since it started.
type Stats struct {
	Ticks      uint64
	Missed     uint64 // deadlines that passed while the loop was not there
	Sent       uint64 // frames handed to the link
	SendErrors uint64
	States     uint64            // accepted
	Trips      uint64            // own lateness beyond the limit: damped
	Late       uint64            // ticks that began more than 1 ms after their deadline
	Lateness   latency.Histogram // wake-up after the deadline
	Jitter     latency.Histogram // |time since the tick before - 2 ms|
	RxToTx     latency.Histogram // newest state taken from the socket to frame handed to it
	PolicyStep latency.Histogram // observation handed out to target ready: the policy's own time, real in lockstep too
	Policy     uint64            // policy steps
	LatePolicy uint64            // policy steps that missed their period
}

// Snapshot is everything that may be shown about one tick; joints in SDK order.
type Snapshot struct {
	NowNs      int64 // the loop's monotonic clock
	Mode       Mode
	Phase      Phase
	Lockstep   bool
	HasPolicy  bool
	NoRemote   bool // allowed to work without the hand remote
	NoGuard    bool // allowed to work without the guard
	GuardAlive bool
	Verdict    safety.Verdict
	Limited    safety.Counters
	HaveState  bool
	State      wire.LowState // newest
	StateAgeNs int64
	TiltRad    float64

	Velocity    [3]float32 // estimate, m/s, body frame, at the IMU
	VelocitySD  [3]float32 // one sigma
	Contacts    [4]estimate.Contact
	FootForce   [4]estimate.SensorHealth
	EstimatorOK bool

	Asked         [3]float32 // vx, vy (m/s), wz (rad/s) as commanded
	Command       [3]float32 // as followed: limited, ramped, halved
	Source        Source
	CommandAgeNs  int64
	RemotePresent bool

	Target, Kp, Kd [go1.Joints]float32 // as sent
	EndToEndNs     int64               // age of the state that the target answers
	PolicyAgeNs    int64

	Stats Stats
}
