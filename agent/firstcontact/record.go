package firstcontact

import (
	"encoding/hex"
	"fmt"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Result of a step.
type Result uint8

// Results.
const (
	Open     Result = iota // not done
	Passed                 // as it should be
	Failed                 // seen, and not as it should be
	TimedOut               // not seen in time
	Skipped                // a person left it out
	NotAsked               // it makes no sense on this robot: no remote wanted, no foot sensors
)

var resultNames = [...]string{"open", "passed", "failed", "timed_out", "skipped", "not_asked"}

func (r Result) String() string { return resultNames[r] }

// MarshalText gives the result's name.
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads it.
func (r *Result) UnmarshalText(text []byte) error { return fromName(r, resultNames[:], "result", text) }

// Record is all that was measured, for a file. Joints in SDK order, legs FR FL RR RL, SI units but where a name tells another. What
// was not measured is zero; no number in it is NaN or infinite.
type Record struct {
	Results [StepCount]Result       `json:"results"` // by Step
	Frame   FrameFigures            `json:"frame"`
	Rest    RestFigures             `json:"rest"`
	Motions [motions]TurnFigures    `json:"motions"`
	Joints  [go1.Joints]MoveFigures `json:"joints"`
	Feet    [go1.Legs]MoveFigures   `json:"feet"`
	Remote  RemoteFigures           `json:"remote"`
}

// FrameFigures are of step Frame.
type FrameFigures struct {
	States int             `json:"states"`
	Modes  [go1.Joints]int `json:"modes"` // of the newest state
}

// Spread is a figure's mean and standard deviation; the latter from one state to the next, so that slow motion is no noise.
type Spread struct {
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"`
}

// RestFigures are of step Rest, while it hangs still.
type RestFigures struct {
	Seconds   float64    `json:"seconds"`
	States    int        `json:"states"`
	NotFinite int        `json:"not_finite"`        // states with a NaN or an infinity
	Quat      quat       `json:"quaternion"`        // mean, as it came, of length 1
	QuatNorm  [2]float64 `json:"quaternion_norm"`   // smallest, largest
	QuatSD    float64    `json:"quaternion_sd_rad"` // from state to state
	Gyro      [3]Spread  `json:"gyroscope"`
	Acc       [3]Spread  `json:"accelerometer"`
	IMUTemp   int        `json:"imu_c"`
	// Stuck says which of quaternion, gyroscope and accelerometer came with the same bits all the time.
	Stuck  [3]bool            `json:"stuck"`
	Q      [go1.Joints]Spread `json:"q"`
	Dq     [go1.Joints]Spread `json:"dq"`
	Tau    [go1.Joints]Spread `json:"tau"`
	MotorC [go1.Joints]int    `json:"motor_c"` // highest
	Foot   [go1.Legs]Spread   `json:"foot"`    // counts
	Cells  [10]int            `json:"cells_mv"`
	SOC    int                `json:"soc_percent"`
	MilliA int                `json:"current_ma"`
	Cycles int                `json:"cycles"`

	// Whether it hung still, and as it should: while the figures above were measured the body swayed, joints crept, or knees were folded.
	Swayed bool             `json:"swayed"`
	Crept  [go1.Joints]bool `json:"crept"`
	Folded [go1.Joints]bool `json:"folded"`

	RemotePresent bool                  `json:"remote_present"`
	RemoteBytes   hexBytes              `json:"remote_bytes"`   // of the first state
	RemoteChanged [wire.RemoteSize]bool `json:"remote_changed"` // bytes that did not stay so
}

// hexBytes are the remote's 40, in a file as hexadecimal digits.
type hexBytes [wire.RemoteSize]byte

// MarshalText gives the digits.
func (b hexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b[:]), nil }

// UnmarshalText reads them.
func (b *hexBytes) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(b[:], text[:min(len(text), 2*len(b))]); err != nil || n != len(b) || len(text) != 2*len(b) {
		return fmt.Errorf("firstcontact: remote_bytes: want %d hexadecimal digits", 2*len(b))
	}
	return nil
}

// TurnFigures are of a motion: the robot before it and at its peak.
type TurnFigures struct {
	Tries   int     `json:"tries"`
	Seconds float64 `json:"seconds"` // between the two
	From    quat    `json:"quaternion_before"`
	To      quat    `json:"quaternion_peak"`
	AccFrom vec     `json:"accelerometer_before"`
	AccTo   vec     `json:"accelerometer_peak"`
	Gyro    vec     `json:"gyroscope_integral"` // rotation vector, rad if it counts in rad/s
}

// MoveFigures are of a joint moved by hand (rad) or a foot that was pressed (counts).
type MoveFigures struct {
	Tries int                 `json:"tries"`
	Moved int                 `json:"moved"` // joint or leg that changed most, -1 none
	Delta [go1.Joints]float64 `json:"delta"` // from before to the peak, of all; a foot's are the first four
	Blur  bool                `json:"blur"`  // others changed nearly as much
	Stuck bool                `json:"stuck"` // the asked one's bits stayed the same; of a joint, while others' changed
	Still bool                `json:"still"` // of a foot: nobody's bits changed
	// Of a foot that was not seen pressed: for how long that was asked for, and how far its sensor went meanwhile, counts.
	AskedS float64 `json:"asked_s"`
	Reach  float64 `json:"reach"`
	// The end of a joint's way to its peak, by its angle and by its speed, and how long that took.
	Turned  float64 `json:"turned_rad"`
	BySpeed float64 `json:"by_speed_rad"`
	WayS    float64 `json:"way_s"`
}

// RemoteFigures are of the remote's steps.
type RemoteFigures struct {
	StopSeen uint16               `json:"stop_seen"` // buttons that were down together when L2 and B were asked for
	Buttons  [askedButtons]uint16 `json:"buttons"`   // those down when each was asked for
	Sticks   [3][4]float64        `json:"sticks"`    // lx, ly, rx, ry when each was asked for
	Tries    [3]int               `json:"tries"`     // of the three steps
}

// newRecord is one in which nothing has been measured.
func newRecord() (r Record) {
	for i := range r.Joints {
		r.Joints[i].Moved = -1
	}
	for i := range r.Feet {
		r.Feet[i].Moved = -1
	}
	return r
}

// forget empties what a step measured, before it is done anew.
func (r *Record) forget(s Step) {
	r.Results[s] = Open
	switch i := s.index(); s.Group() {
	case Automatic:
		if s == Frame {
			r.Frame = FrameFigures{}
		} else {
			r.Rest = RestFigures{}
		}
	case Motions:
		r.Motions[i] = TurnFigures{}
	case Joints:
		r.Joints[i] = MoveFigures{Moved: -1}
	case Feet:
		r.Feet[i] = MoveFigures{Moved: -1}
	case Remote:
		switch s {
		case RemoteStop:
			r.Remote.StopSeen = 0
		case RemoteButtons:
			r.Remote.Buttons = [askedButtons]uint16{}
		default:
			r.Remote.Sticks = [3][4]float64{}
		}
		r.Remote.Tries[i] = 0
	}
}

// Figures are what a step measured.
func (r *Record) Figures(s Step) any {
	switch i := s.index(); s.Group() {
	case Motions:
		return &r.Motions[i]
	case Joints:
		return &r.Joints[i]
	case Feet:
		return &r.Feet[i]
	case Remote:
		return &r.Remote
	}
	if s == Frame {
		return &r.Frame
	}
	return &r.Rest
}
