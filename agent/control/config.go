package control

import (
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Config of the loop. Safety limits have their own.
type Config struct {
	StandKp      float64 `yaml:"stand_kp" doc:"stiffness while standing, N*m/rad"`
	StandKd      float64 `yaml:"stand_kd" doc:"damping while standing, N*m*s/rad"`
	FoldSeconds  float64 `yaml:"fold_seconds" doc:"from where it lies to the folded pose, s"`
	RiseSeconds  float64 `yaml:"rise_seconds" doc:"from the folded pose to home, s"`
	LowerSeconds float64 `yaml:"lower_seconds" doc:"from home to the folded pose, s"`
	StopSeconds  float64 `yaml:"stop_seconds" doc:"zero velocity before it sits down, s"`
	HomeSeconds  float64 `yaml:"home_seconds" doc:"at home after the policy, before it sits down, s"`
	BlendSeconds float64 `yaml:"blend_seconds" doc:"gains and targets move from the stand's to the policy's, s"`
	HoldSeconds  float64 `yaml:"hold_seconds" doc:"stand hold: from the policy's last target to home, s"`
	DampSeconds  float64 `yaml:"damp_seconds" doc:"damping frames sent before the program ends, s"`

	AccelerationMS2   float64 `yaml:"acceleration_m_s2" doc:"how fast the followed velocity may change, m/s2"`
	YawAccelRadS2     float64 `yaml:"yaw_acceleration_rad_s2" doc:"how fast the followed yaw rate may change, rad/s2"`
	RemoteVxMS        float64 `yaml:"remote_vx_m_s" doc:"forward speed at full stick of the hand remote, m/s"`
	RemoteVyMS        float64 `yaml:"remote_vy_m_s" doc:"sideways speed at full stick, m/s"`
	RemoteWzRadS      float64 `yaml:"remote_wz_rad_s" doc:"yaw rate at full stick, rad/s"`
	RemoteDeadZone    float64 `yaml:"remote_dead_zone" doc:"stick travel (0..1) below which the remote does not drive"`
	CommandAheadS     float64 `yaml:"command_ahead_s" doc:"furthest end time of a velocity command, s from now"`
	ObservationLimitZ float64 `yaml:"observation_limit_z" doc:"standing, an observation further than this from the policy's training mean is refused, standard deviations"`

	SpinUs     float64 `yaml:"spin_us" doc:"last part before each deadline that is spun instead of slept, us"`
	Priority   int     `yaml:"priority" doc:"SCHED_FIFO priority of the loop's thread, 0 to leave it"`
	CPU        int     `yaml:"cpu" doc:"core of the loop's thread; -1: the last one where there are four or more, else any"`
	EncryptCRC bool    `yaml:"encrypt_crc" doc:"send the encrypted form of the CRC"`
	Lockstep   bool    `yaml:"lockstep" doc:"virtual time, one tick per answer of a robot in lockstep: for tests on busy machines, never on hardware"`
	LockWaitMs float64 `yaml:"lockstep_wait_ms" doc:"in lockstep, longest wait for an answer, ms of real time"`
}

// DefaultConfig is right for a Go1.
func DefaultConfig() Config {
	return Config{
		StandKp: 60, StandKd: 5,
		FoldSeconds: 1, RiseSeconds: 1.5, LowerSeconds: 1.5, StopSeconds: 1, HomeSeconds: 0.5,
		BlendSeconds: 0.3, HoldSeconds: 0.15, DampSeconds: 0.5,
		AccelerationMS2: 2, YawAccelRadS2: 4,
		RemoteVxMS: 1, RemoteVyMS: 0.4, RemoteWzRadS: 1, RemoteDeadZone: 0.08,
		CommandAheadS: 2, ObservationLimitZ: 6,
		SpinUs: 120, Priority: 80, CPU: -1, LockWaitMs: 500,
	}
}

// Validate names the key and the relation that fails.
func (c *Config) Validate() error {
	for _, r := range []struct {
		key       string
		v, lo, hi float64
	}{
		{"stand_kp", c.StandKp, 20, 120},
		{"stand_kd", c.StandKd, 1, 10},
		{"fold_seconds", c.FoldSeconds, 0.3, 5},
		{"rise_seconds", c.RiseSeconds, 0.5, 5},
		{"lower_seconds", c.LowerSeconds, 0.5, 5},
		{"stop_seconds", c.StopSeconds, 0, 1},
		{"home_seconds", c.HomeSeconds, 0.2, 3},
		{"blend_seconds", c.BlendSeconds, 0.2, 0.5},
		{"hold_seconds", c.HoldSeconds, 0.05, 0.3},
		{"damp_seconds", c.DampSeconds, 0.5, 10},
		{"acceleration_m_s2", c.AccelerationMS2, 0.1, 20},
		{"yaw_acceleration_rad_s2", c.YawAccelRadS2, 0.1, 40},
		{"remote_vx_m_s", c.RemoteVxMS, 0, 3},
		{"remote_vy_m_s", c.RemoteVyMS, 0, 2},
		{"remote_wz_rad_s", c.RemoteWzRadS, 0, 4},
		{"remote_dead_zone", c.RemoteDeadZone, 0.01, 0.5},
		{"command_ahead_s", c.CommandAheadS, 0.1, 5},
		{"observation_limit_z", c.ObservationLimitZ, 1, 20},
		{"spin_us", c.SpinUs, 0, 1000},
		{"priority", float64(c.Priority), 0, 98},
		{"cpu", float64(c.CPU), -1, 1023},
		{"lockstep_wait_ms", c.LockWaitMs, 1, 60000},
	} {
		if math.IsNaN(r.v) || r.v < r.lo || r.v > r.hi {
			return fmt.Errorf("control.%s: %v, want %v..%v", r.key, r.v, r.lo, r.hi)
		}
	}
	return nil
}

// PeriodNs of the loop: 500 Hz, as the maker's own examples.
const PeriodNs = int64(2e6)

const (
	goodStates = 10  // fresh states before any torque
	startTilt  = 0.3 // rad, above which it does not stand up
	startTurn  = 0.3 // rad/s
	startPose  = 0.3 // rad from the folded pose or from home, every joint
	// Folded, a hip may be this far out: at hip angle 0 the belly is 2 cm above
	// the floor, and a damped robot slides down until its hips have opened by
	// 0.35 rad (sim/mujoco). With 0.3 a robot at rest could never stand up.
	startHip     = 0.5
	stopMargin   = 0.15 // rad beyond the mechanical stops that an encoder may say
	maxStates    = 16   // states taken per tick
	linkFailures = 10   // sends in a row that may fail
	// A robot that is silent may have been switched off and may come back in its
	// sport mode, in which a frame of ours makes it fall limp. After so long
	// without a state (less when none came since arming) frames stop, and only
	// after each new look for sport mode a few knock, for an answer.
	silenceNs      = int64(2e9)
	firstSilenceNs = int64(200e6)
	knockNs        = int64(10e6)
	// lockstepPatience is how many ticks in a row may wait in full for a robot.
	lockstepPatience = 10
	remoteHold       = int64(1e9)
	lateNs           = int64(1e6) // from which a tick is counted as late
)

func crcForm(encrypt bool) wire.CRCForm {
	if encrypt {
		return wire.EncryptedCRC
	}
	return wire.PlainCRC
}
