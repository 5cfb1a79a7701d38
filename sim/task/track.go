package task

import (
	"fmt"
	"math"
)

// Moment is what judging a row needs of its physics.
type Moment struct {
	Velocity [3]float64 // m/s, at the IMU, body frame: what base_lin_vel shows
	YawRate  float64    // rad/s, body frame
	Height   float64    // m, trunk's origin above the floor
	GravityZ float64    // z of gravity's direction in the body's frame; upright -1
	Knees    [4]float64 // m, knee axes above the floor
}

// Falls says when a row counts as fallen.
type Falls struct {
	MinHeight float64 // m, of the trunk
	MaxTilt   float64 // rad, of the body's z axis from the vertical
	MinKnee   float64 // m, of any knee
}

// DefaultFalls are the limits that policies for this robot were trained with:
// 0.15 m, 60 degrees, 0.02 m.
func DefaultFalls() Falls {
	return Falls{MinHeight: 0.15, MaxTilt: math.Pi / 3, MinKnee: 0.02}
}

// Check refuses limits that are not numbers or that end every episode.
func (f *Falls) Check() error {
	switch {
	case !(f.MinHeight < 0.25):
		return fmt.Errorf("task: falls: trunk below %v m, want a limit below 0.25", f.MinHeight)
	case !(f.MaxTilt > 0):
		return fmt.Errorf("task: falls: tilt above %v rad, want a limit above 0", f.MaxTilt)
	case !(f.MinKnee < 0.1):
		return fmt.Errorf("task: falls: knee below %v m, want a limit below 0.1", f.MinKnee)
	}
	return nil
}

// Fell says whether a row has fallen.
func (f *Falls) Fell(m *Moment) bool {
	if m.Height < f.MinHeight || math.Acos(min(max(-m.GravityZ, -1), 1)) > f.MaxTilt {
		return true
	}
	for _, k := range m.Knees {
		if k < f.MinKnee {
			return true
		}
	}
	return false
}

// Places in a row of metrics.
const (
	Vx     = iota // m/s, at the IMU, body frame, as the robot's own Env has it
	Vy            // m/s
	Wz            // rad/s
	VelErr        // m/s, |(vx, vy) - command|
	YawErr        // rad/s, |wz - command|
	Height        // m
	Bad           // 1 where the physics went bad and the rest is masked, else 0
	metrics
)

// MetricNames are their names in rollout.Spec.
func MetricNames() []string {
	return []string{"vx", "vy", "wz", "vel_err", "yaw_err", "height", "physics_bad"}
}

// Track writes a row's metrics and returns its reward of this step:
// exp(-e*e/0.25), e the velocity error in m/s; 1 is perfect. It is the tracking
// term that legged_gym made customary, alone.
func Track(m *Moment, command *[3]float32, out []float32) (reward float32) {
	ex := m.Velocity[0] - float64(command[0])
	ey := m.Velocity[1] - float64(command[1])
	e := math.Hypot(ex, ey)
	out = out[:metrics]
	out[Vx], out[Vy], out[Wz] = float32(m.Velocity[0]), float32(m.Velocity[1]), float32(m.YawRate)
	out[VelErr] = float32(e)
	out[YawErr] = float32(math.Abs(m.YawRate - float64(command[2])))
	out[Height] = float32(m.Height)
	out[Bad] = 0
	return float32(math.Exp(-e * e / 0.25))
}

// Masked writes the metrics of a row whose physics went bad.
func Masked(out []float32) {
	out = out[:metrics]
	clear(out)
	out[Bad] = 1
}
