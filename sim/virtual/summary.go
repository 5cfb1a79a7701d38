package virtual

import (
	"encoding/json"
	"math"
	"math/bits"
	"time"

	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// Status is what can be asked of a running robot. Velocities are physics' truth, never seen by the agent.
type Status struct {
	T          float64                `json:"t"`    // s of robot time since start
	Tick       uint32                 `json:"tick"` // ms
	Posture    string                 `json:"posture"`
	Pos        [3]float64             `json:"pos"`      // m
	Quat       [4]float64             `json:"quat"`     // w x y z
	Tilt       float64                `json:"tilt"`     // rad
	Q          [mujoco.Joints]float64 `json:"q"`        // rad, of the joints, whatever the robot says of them
	Velocity   [3]float64             `json:"velocity"` // vx vy (m/s), wz (rad/s), body frame
	VelIMU     [3]float64             `json:"vel_imu"`  // m/s at the IMU, body frame: what an estimate is compared with
	Class      Class                  `json:"class"`    // of the last command
	Sender     string                 `json:"sender"`
	Frames     uint64                 `json:"frames"`   // accepted
	Answered   uint64                 `json:"answered"` // states sent
	Falls      int                    `json:"falls"`
	Walking    bool                   `json:"walking"`
	Sport      bool                   `json:"sport"`
	Silent     bool                   `json:"silent"` // no command came for so long that the motors act by themselves, see Silence
	Active     []string               `json:"active"` // faults in force
	MaxTorque  float64                `json:"max_torque"`
	LastTorque int64                  `json:"last_torque_tick"` // tick at the newest torque frame; -1: none yet
}

// Summary is the whole run.
type Summary struct {
	Seconds   float64           `json:"seconds"`
	TickFirst uint32            `json:"tick_first"` // at the first accepted frame
	TickLast  uint32            `json:"tick_last"`
	Frames    uint64            `json:"frames"` // commands accepted
	ByClass   map[Class]uint64  `json:"by_class"`
	Rejected  map[string]uint64 `json:"rejected"` // by wire's reason; only those that were
	Dropped   uint64            `json:"dropped"`  // commands lost to a fault
	Answered  uint64            `json:"answered"` // states sent
	Lost      uint64            `json:"lost"`     // states lost to faults
	High      uint64            `json:"high"`     // valid commands to sport mode
	Senders   int               `json:"senders"`  // changes of sender and the first

	Falls       int        `json:"falls"`
	Posture     string     `json:"posture"` // at the end: lying, standing, walking, fallen, hung
	Height      float64    `json:"height"`
	Distance    float64    `json:"distance"`
	WalkSeconds float64    `json:"walk_seconds"`
	VxMean      float64    `json:"vx_mean"` // over the time it walked, along the heading
	VyMean      float64    `json:"vy_mean"`
	WzMean      float64    `json:"wz_mean"`
	MaxTorque   float64    `json:"max_torque"`   // N·m, largest that a command asked for
	Power       float64    `json:"power"`        // W, mean
	Tilt        float64    `json:"tilt_max"`     // rad
	Last        [3]float64 `json:"pos"`          // m
	DampingTick int64      `json:"damping_tick"` // tick at the first damping frame after the newest torque frame; -1: none
	TorqueTick  int64      `json:"torque_tick"`  // tick at the newest torque frame; -1: none
	TorqueAfter uint64     `json:"torque_after"` // torque frames since a damping frame last followed one

	RxP50Us   float64 `json:"rx_p50_us"` // between commands, by the kernel's receive stamps; 0 in lockstep
	RxP99Us   float64 `json:"rx_p99_us"`
	RxMaxUs   float64 `json:"rx_max_us"`
	Missed    uint64  `json:"missed"` // periods of 2 ms between the first and the last command in which none came; 0 in lockstep
	Stalls    int     `json:"stalls"`
	StallMax  float64 `json:"stall_max_ms"`
	DroppedMs float64 `json:"dropped_ms"` // physics not made up for after stalls
	LogLost   int     `json:"log_lost"`   // records that the disk did not take
	Physics   uint64  `json:"physics_errors"`
}

// counts is what the robot's thread counts.
type counts struct {
	frames, dropped, answered, lost, high uint64
	class                                 [len(classes)]uint64
	reject                                [wire.NumRejects]uint64
	rejectAt                              [wire.NumRejects]float64 // s, last logged
	dropAt                                float64
	senders                               int
	tickFirst                             uint32
	torqueTick, dampingTick               int64
	torqueAfter                           uint64
	maxTorque, energy, tiltMax            float64
	stalls                                int
	stallMax                              time.Duration
	skipped                               uint64 // steps not made up for
	physics                               uint64
	interval                              intervals
	lastRx                                int64
}

func newCounts() counts {
	c := counts{torqueTick: -1, dampingTick: -1, dropAt: math.Inf(-1)}
	for i := range c.rejectAt {
		c.rejectAt[i] = math.Inf(-1)
	}
	return c
}

func (c *counts) summary(r *Robot) Summary {
	v := r.ref.mean()
	s := Summary{
		Seconds: r.time(), TickFirst: c.tickFirst, TickLast: r.tick, Frames: c.frames, Dropped: c.dropped, Answered: c.answered, Lost: c.lost,
		High: c.high, Senders: c.senders, ByClass: map[Class]uint64{}, Rejected: map[string]uint64{},
		Falls: r.ref.falls, Posture: r.ref.posture, Height: r.st.Pos[2], Distance: r.ref.distance, WalkSeconds: r.ref.walked,
		VxMean: v[0], VyMean: v[1], WzMean: v[2], MaxTorque: c.maxTorque, Tilt: c.tiltMax, Last: r.st.Pos,
		DampingTick: c.dampingTick, TorqueTick: c.torqueTick, TorqueAfter: c.torqueAfter,
		RxP50Us: c.interval.quantile(0.5) / 1e3, RxP99Us: c.interval.quantile(0.99) / 1e3, RxMaxUs: float64(c.interval.max) / 1e3, Missed: c.interval.missed,
		Stalls: c.stalls, StallMax: float64(c.stallMax) / 1e6, DroppedMs: float64(c.skipped) * stepSeconds * 1e3,
		Physics: c.physics,
	}
	for i, class := range classes {
		s.ByClass[class] = c.class[i]
	}
	for i, n := range c.reject {
		if n > 0 {
			s.Rejected[wire.Reject(i).String()] = n
		}
	}
	if s.Seconds > 0 {
		s.Power = c.energy / s.Seconds
	}
	return s
}

func (s *Summary) json() []byte {
	b, err := json.Marshal(s)
	if err != nil { // a number that JSON lacks: physics went bad beyond its own checks
		b, _ = json.Marshal(err.Error())
	}
	return b
}

// intervals are the times between one command and the next, ns.
type intervals struct {
	histogram
	missed uint64
}

// add counts one. A command more than half a period late leaves its period empty, whether it still comes or not.
func (i *intervals) add(ns int64) {
	i.histogram.add(ns)
	i.missed += uint64(max((ns+stepNs/2)/stepNs-1, 0))
}

// histogram counts durations in ns, 16 buckets an octave: a quantile is good to 6 %.
type histogram struct {
	n   [64 * 16]uint64
	all uint64
	max int64
}

func bucket(ns int64) int {
	if ns < 16 {
		return int(max(ns, 0))
	}
	octave := bits.Len64(uint64(ns)) - 5 // ns >> octave is 16..31
	return (octave+1)*16 + int(ns>>octave) - 16
}

func (h *histogram) add(ns int64) {
	h.n[bucket(ns)]++
	h.all++
	h.max = max(h.max, ns)
}

// quantile is the upper end of the bucket in which share q of all lies, ns.
func (h *histogram) quantile(q float64) float64 {
	want, sum := uint64(math.Ceil(q*float64(h.all))), uint64(0)
	for i, n := range h.n {
		sum += n
		if n > 0 && sum >= want {
			if i < 16 {
				return float64(i)
			}
			octave := i/16 - 1
			return min(float64((int64(i%16)+17)<<octave), float64(h.max))
		}
	}
	return 0
}
