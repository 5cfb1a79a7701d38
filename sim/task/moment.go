package task

import (
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// Moment is what judging a row needs of its physics and of what was asked of it, at
// the end of a step. Legs and joints are in the SDK's order, actions in the policy's.
type Moment struct {
	LinVel  [3]float64          // m/s, trunk's origin, body frame; base_lin_vel shows that of the IMU
	AngVel  [3]float64          // rad/s, body frame
	Gravity [3]float64          // its direction in the body's frame; upright 0, 0, -1
	Height  float64             // m, trunk's origin above the floor
	Knees   [go1.Legs]float64   // m, knee axes above the floor
	Q, Home [go1.Joints]float64 // rad; the contract's home
	Tau2    float64             // (N*m)^2, sum over motors of torque squared, mean over the step
	Power   float64             // W, sum over motors of |torque * speed|, mean over the step

	Contact    [go1.Legs]bool    // the foot presses on the floor
	FootHeight [go1.Legs]float64 // m, lowest point of the foot above the floor
	FootVel2   [go1.Legs]float64 // (m/s)^2, horizontal speed of the foot squared, world

	// Action is this step's network output, clipped, before scale; Last and Last2 are
	// those of the two steps before, 0 where the episode had not begun.
	Action, Last, Last2 [go1.Joints]float32
	ActionScale         [go1.Joints]float32 // rad per unit of action

	Command [3]float32 // vx, vy (m/s), wz (rad/s), in force during the step
	Phase   float32    // gait clock, cycles 0..1
	ClockOn bool       // false while the clock stands: every foot is to stand too
}

// Falls says when a row counts as fallen.
type Falls struct {
	MinHeight float64 `json:"min_height"` // m, of the trunk
	MaxTilt   float64 `json:"max_tilt"`   // rad, of the body's z axis from the vertical
	MinKnee   float64 `json:"min_knee"`   // m, of any knee
}

// DefaultFalls are the limits that policies for this robot were trained with:
// 0.15 m, 60 degrees, 0.02 m.
func DefaultFalls() Falls {
	return Falls{MinHeight: 0.15, MaxTilt: math.Pi / 3, MinKnee: 0.02}
}

// Check refuses limits that are not numbers or that end every episode.
func (f *Falls) Check() error {
	switch {
	case !(f.MinHeight >= -1e3 && f.MinHeight < 0.25):
		return fmt.Errorf("task: world: falls.min_height: trunk below %v m, want a limit below 0.25", f.MinHeight)
	case !(f.MaxTilt > 0 && f.MaxTilt <= 10):
		return fmt.Errorf("task: world: falls.max_tilt: tilt above %v rad, want a limit above 0", f.MaxTilt)
	case !(f.MinKnee >= -1e3 && f.MinKnee < 0.1):
		return fmt.Errorf("task: world: falls.min_knee: knee below %v m, want a limit below 0.1", f.MinKnee)
	}
	return nil
}

// Fell says whether a row has fallen.
func (f *Falls) Fell(m *Moment) bool {
	if m.Height < f.MinHeight || math.Acos(min(max(-m.Gravity[2], -1), 1)) > f.MaxTilt {
		return true
	}
	for _, k := range m.Knees {
		if k < f.MinKnee {
			return true
		}
	}
	return false
}

// Places in a row of metrics; from Rewards on follow the reward's terms.
const (
	Vx         = iota // m/s, trunk's origin, body frame
	Vy                // m/s
	Wz                // rad/s
	VelErr            // m/s, |(vx, vy) - command|
	YawErr            // rad/s, |wz - command|
	Height            // m
	Bad               // 1 where the physics went bad and the rest is masked, else 0
	Power             // W, sum over motors of |torque * speed|
	ActionRate        // rad, root mean square over joints of the target's change in the step
	Contacts          // feet on the floor
	Rewards           // the reward's first term, as it was added
	metrics    = Rewards + rewardTerms
)

// MetricNames are their names in rollout.Spec.
func MetricNames() []string {
	names := []string{"vx", "vy", "wz", "vel_err", "yaw_err", "height", "physics_bad", "power_w", "action_rate", "contacts"}
	for _, t := range RewardTerms() {
		names = append(names, "reward/"+t)
	}
	return names
}

// Measure writes a row's metrics up to Rewards; Reward.Score writes those after.
func Measure(m *Moment, out []float32) {
	out = out[:Rewards]
	vx, vy, wz := m.LinVel[0], m.LinVel[1], m.AngVel[2]
	out[Vx], out[Vy], out[Wz] = float32(vx), float32(vy), float32(wz)
	out[VelErr] = float32(math.Hypot(vx-float64(m.Command[0]), vy-float64(m.Command[1])))
	out[YawErr] = float32(math.Abs(wz - float64(m.Command[2])))
	out[Height] = float32(m.Height)
	out[Bad] = 0
	out[Power] = float32(m.Power)
	var sum float64
	for i, s := range m.ActionScale {
		d := (float64(m.Action[i]) - float64(m.Last[i])) * float64(s)
		sum += d * d
	}
	out[ActionRate] = float32(min(math.Sqrt(sum/go1.Joints), math.MaxFloat32))
	out[Contacts] = 0
	for _, c := range m.Contact {
		if c {
			out[Contacts]++
		}
	}
}

// Masked writes the metrics of a row whose physics went bad.
func Masked(out []float32) {
	out = out[:metrics]
	clear(out)
	out[Bad] = 1
}
