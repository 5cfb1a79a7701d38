package estimate

import "fmt"

// Config is what the filter assumes about sensors and ground. Noise of gyro and
// joint speed is also measured while running; the configured figures are floors.
type Config struct {
	GyroNoise       float64 // rad/s, 1 sigma of a sample
	JointSpeedNoise float64 // rad/s, 1 sigma of a sample
	AccNoise        float64 // m/s2/sqrt(Hz), density; holds shocks and tilt error too
	AccBiasWalk     float64 // m/s2/sqrt(s)
	AccBiasStart    float64 // m/s2, 1 sigma at start
	AccBiasMax      float64 // m/s2, the bias is kept within +- this
	FootNoise       float64 // m/s/sqrt(Hz), density of what a standing foot moves by give and slip
	FootSlip        float64 // m/s, 1 sigma of the same at any moment; the gate's measure
	FootGive        float64 // how many times noisier a foot is vertically: floor, rubber and gears give way
	HeightNoise     float64 // m*sqrt(s), density of a standing foot's height
	FloorWalk       float64 // m/sqrt(s), unevenness of the ground walked over
	SpeedError      float64 // part of the speed that is uncertain however long one walks
	VelocityStart   float64 // m/s, 1 sigma at start
	VelocityMax     float64 // m/s, no Go1 is faster; the estimate is kept within +- this

	Gate        float64 // squared Mahalanobis distance (3 axes) beyond which a foot slips
	RecoverTime float64 // s without an accepted foot, while feet stand, after which they are believed

	ContactForce float64 // N upward on a foot at which torque says as likely ground as air
	ForceScale   float64 // N per unit of log odds around it
	ForceFilter  float64 // s, time constant of the ground reaction's observer
	FootHeight   float64 // m over the floor through the lowest foot, as ContactForce
	HeightScale  float64 // m per unit of log odds
	FootSpeed    float64 // m/s of the foot over the floor, as ContactForce
	SpeedScale   float64 // m/s per unit of log odds

	SensorDrift float64 // raw/sqrt(s), how fast a foot sensor's zero may wander
	SensorNoise float64 // raw, 1 sigma
	SensorMin   float64 // raw a foot sensor must gain under a standing foot's load to be of use

	MaxGap float64 // s, a longer gap between samples starts the filter anew
}

// DefaultConfig suits a Go1 on hard floor at 500 Hz; the figures were chosen on
// simulated walking with sensor noise from a tenth to all of what policies are
// trained with.
func DefaultConfig() Config {
	return Config{
		GyroNoise:       0.01,
		JointSpeedNoise: 0.05,
		AccNoise:        0.04,
		AccBiasWalk:     0.015,
		AccBiasStart:    0.2,
		AccBiasMax:      1.5,
		FootNoise:       0.007,
		FootSlip:        0.08,
		FootGive:        10,
		HeightNoise:     0.0015,
		FloorWalk:       0.01,
		SpeedError:      0.025,
		VelocityStart:   1,
		VelocityMax:     6,
		Gate:            12,
		RecoverTime:     0.1,
		ContactForce:    20,
		ForceScale:      5,
		ForceFilter:     0.008,
		FootHeight:      0.02,
		HeightScale:     0.006,
		FootSpeed:       0.5,
		SpeedScale:      0.15,
		SensorDrift:     3,
		SensorNoise:     3,
		SensorMin:       6,
		MaxGap:          0.1,
	}
}

// Validate names the first field that cannot be meant.
func (c Config) Validate() error {
	for _, f := range []struct {
		name    string
		v       float64
		lo, hi  float64
		meaning string
	}{
		{"GyroNoise", c.GyroNoise, 1e-6, 1, "rad/s"},
		{"JointSpeedNoise", c.JointSpeedNoise, 1e-6, 5, "rad/s"},
		{"AccNoise", c.AccNoise, 1e-6, 10, "m/s2/sqrt(Hz)"},
		{"AccBiasWalk", c.AccBiasWalk, 0, 1, "m/s2/sqrt(s)"},
		{"AccBiasStart", c.AccBiasStart, 0, 2, "m/s2"},
		{"AccBiasMax", c.AccBiasMax, 0, 5, "m/s2"},
		{"FootNoise", c.FootNoise, 1e-6, 1, "m/s/sqrt(Hz)"},
		{"FootSlip", c.FootSlip, 1e-3, 5, "m/s"},
		{"FootGive", c.FootGive, 1, 100, "times"},
		{"HeightNoise", c.HeightNoise, 1e-6, 1, "m*sqrt(s)"},
		{"FloorWalk", c.FloorWalk, 0, 1, "m/sqrt(s)"},
		{"SpeedError", c.SpeedError, 0, 0.5, "of the speed"},
		{"VelocityStart", c.VelocityStart, 1e-3, 10, "m/s"},
		{"VelocityMax", c.VelocityMax, 1, 20, "m/s"},
		{"Gate", c.Gate, 3, 1000, "squared sigmas"},
		{"RecoverTime", c.RecoverTime, 0.01, 10, "s"},
		{"ContactForce", c.ContactForce, 1, 60, "N"},
		{"ForceScale", c.ForceScale, 0.1, 60, "N"},
		{"ForceFilter", c.ForceFilter, 0.002, 0.2, "s"},
		{"FootHeight", c.FootHeight, 0.001, 0.2, "m"},
		{"HeightScale", c.HeightScale, 1e-4, 0.2, "m"},
		{"FootSpeed", c.FootSpeed, 0.01, 5, "m/s"},
		{"SpeedScale", c.SpeedScale, 0.01, 5, "m/s"},
		{"SensorDrift", c.SensorDrift, 0, 100, "raw/sqrt(s)"},
		{"SensorNoise", c.SensorNoise, 0.1, 1000, "raw"},
		{"SensorMin", c.SensorMin, 1, 1000, "raw"},
		{"MaxGap", c.MaxGap, 0.004, 1, "s"},
	} {
		if !(f.v >= f.lo && f.v <= f.hi) {
			return fmt.Errorf("estimate: %s: %v %s, want %v..%v", f.name, f.v, f.meaning, f.lo, f.hi)
		}
	}
	return nil
}
