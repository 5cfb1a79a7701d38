package safety

import (
	"fmt"
	"math"
)

// Config holds the limits. Every one has a default that is right for a Go1;
// none can be switched off.
type Config struct {
	StateWarnMs float64 `yaml:"state_warn_ms" doc:"age of the newest state that is worth a warning, ms"`
	StateHoldMs float64 `yaml:"state_hold_ms" doc:"age of the newest state from which the last frame is held, ms"`
	StateDampMs float64 `yaml:"state_damp_ms" doc:"age of the newest state from which the motors are damped, ms"`

	PolicyHoldPeriods float64 `yaml:"policy_hold_periods" doc:"age of the policy's output from which it lets go (stand hold), policy periods"`
	PolicyDampPeriods float64 `yaml:"policy_damp_periods" doc:"age of the policy's output from which the motors are damped, policy periods"`

	EndToEndWarnMs float64 `yaml:"end_to_end_warn_ms" doc:"age of the state that the present target answers: warning, ms"`
	EndToEndDampMs float64 `yaml:"end_to_end_damp_ms" doc:"the same: damping, ms"`

	TiltHoldRad float64 `yaml:"tilt_hold_rad" doc:"body tilt from which the policy lets go (stand hold), rad"`
	TiltDampRad float64 `yaml:"tilt_damp_rad" doc:"body tilt from which the motors are damped, rad"`

	IMUSamples int `yaml:"imu_samples" doc:"states in a row that repeat quaternion, gyroscope and accelerometer bit for bit, of a robot that is not perfectly still or whose IMU has shown noise, that damp; no more than 100 ms from one to the next"`

	TargetRefuseRad float64 `yaml:"target_refuse_rad" doc:"a joint target further than this outside its limits is refused, rad"`

	JointSpeedRadS float64 `yaml:"joint_speed_rad_s" doc:"joint speed limit of hips and thighs, rad/s"`
	CalfSpeedRadS  float64 `yaml:"calf_speed_rad_s" doc:"joint speed limit of calves, rad/s"`
	SpeedSamples   int     `yaml:"speed_samples" doc:"states in a row above the speed limit that damp"`
	PowerW         float64 `yaml:"power_w" doc:"mechanical power limit, sum of |torque x speed|, W"`
	PowerCount     int     `yaml:"power_count" doc:"leaky count of states above the power limit that damps"`
	WarnRatio      float64 `yaml:"warn_ratio" doc:"share of the speed and power limits that is worth a warning"`
	TempWarnC      int     `yaml:"temp_warn_c" doc:"motor temperature: warning, C"`
	TempHalveC     int     `yaml:"temp_halve_c" doc:"motor temperature from which velocity commands are halved, C"`
	TempSitC       int     `yaml:"temp_sit_c" doc:"motor temperature from which it sits, C"`
	TempDampC      int     `yaml:"temp_damp_c" doc:"motor temperature from which it is damped, C"`
	TempSeconds    float64 `yaml:"temp_seconds" doc:"how long a temperature must last, s"`
	BatteryWarnPct int     `yaml:"battery_warn_percent" doc:"battery charge: warning, %"`
	BatterySitPct  int     `yaml:"battery_sit_percent" doc:"battery charge from which it sits and does not stand up, %"`
	BatterySeconds float64 `yaml:"battery_seconds" doc:"how long a low charge must last, s"`
	RemoteSeconds  float64 `yaml:"remote_seconds" doc:"how long the hand remote may be silent, s"`
	ModeSamples    int     `yaml:"mode_samples" doc:"states in a row with a motor out of servo mode that damp"`
	SenderTorqueNm float64 `yaml:"sender_torque_nm" doc:"torque estimate further than this from what our last 5 frames ask for counts as disagreeing, N*m"`
	SenderJoints   int     `yaml:"sender_joints" doc:"joints that must disagree at once"`
	SenderSamples  int     `yaml:"sender_samples" doc:"states in a row with disagreement that damp; four in agreement undo one"`
	CommandRampMs  float64 `yaml:"command_ramp_ms" doc:"age of a velocity command from which it ramps down, ms"`
	CommandZeroMs  float64 `yaml:"command_zero_ms" doc:"age of a velocity command at which it is zero, ms"`
	CommandStandS  float64 `yaml:"command_stand_s" doc:"without a command for this long it stands, s"`
	CommandSitS    float64 `yaml:"command_sit_s" doc:"without a command for this long it sits, s"`
	LoopWarnMs     float64 `yaml:"loop_warn_ms" doc:"lateness of the control loop that, in more than one tick of 100, is worth a warning, ms"`
	LoopLateMs     float64 `yaml:"loop_late_ms" doc:"lateness of the control loop itself that damps, ms"`
	StandErrorRad  float64 `yaml:"stand_error_rad" doc:"tracking error while standing up, rad"`
	StandErrorMs   float64 `yaml:"stand_error_ms" doc:"how long that error may last, ms"`
	WithoutRemote  bool    `yaml:"without_remote" doc:"work without the hand remote: its stop is then missing; shown and logged"`
}

// DefaultConfig is the project's safety table.
func DefaultConfig() Config {
	return Config{
		StateWarnMs: 6, StateHoldMs: 20, StateDampMs: 40,
		PolicyHoldPeriods: 2, PolicyDampPeriods: 5,
		EndToEndWarnMs: 30, EndToEndDampMs: 100,
		TiltHoldRad: 0.6, TiltDampRad: 1.0,
		IMUSamples:      10,
		TargetRefuseRad: 0.5,
		JointSpeedRadS:  28, CalfSpeedRadS: 19, SpeedSamples: 5,
		PowerW: 700, PowerCount: 6, WarnRatio: 0.8,
		TempWarnC: 65, TempHalveC: 75, TempSitC: 85, TempDampC: 95, TempSeconds: 2,
		BatteryWarnPct: 20, BatterySitPct: 10, BatterySeconds: 1,
		RemoteSeconds:  1,
		ModeSamples:    5,
		SenderTorqueNm: 6, SenderJoints: 3, SenderSamples: 20,
		CommandRampMs: 250, CommandZeroMs: 500, CommandStandS: 10, CommandSitS: 20,
		LoopWarnMs:    4,
		LoopLateMs:    20,
		StandErrorRad: 0.35, StandErrorMs: 100,
	}
}

// Validate refuses limits that are out of order or outside what protects a
// robot; the error names the key and the relation.
func (c *Config) Validate() error {
	for _, r := range []struct {
		key       string
		v, lo, hi float64
	}{
		{"state_warn_ms", c.StateWarnMs, 2, c.StateHoldMs},
		{"state_hold_ms", c.StateHoldMs, 2, c.StateDampMs},
		{"state_damp_ms", c.StateDampMs, 4, 100},
		{"policy_hold_periods", c.PolicyHoldPeriods, 1, c.PolicyDampPeriods},
		{"policy_damp_periods", c.PolicyDampPeriods, 1, 10},
		{"end_to_end_warn_ms", c.EndToEndWarnMs, 2, c.EndToEndDampMs},
		{"end_to_end_damp_ms", c.EndToEndDampMs, 2, 250},
		{"tilt_hold_rad", c.TiltHoldRad, 0.1, c.TiltDampRad},
		{"tilt_damp_rad", c.TiltDampRad, 0.2, 1.5},
		{"imu_samples", float64(c.IMUSamples), 5, 50},
		{"target_refuse_rad", c.TargetRefuseRad, 0, 1},
		{"joint_speed_rad_s", c.JointSpeedRadS, 1, 30.1},
		{"calf_speed_rad_s", c.CalfSpeedRadS, 1, 20.06},
		{"speed_samples", float64(c.SpeedSamples), 1, 50},
		{"power_w", c.PowerW, 10, 1500},
		{"power_count", float64(c.PowerCount), 1, 100},
		{"warn_ratio", c.WarnRatio, 0.1, 1},
		{"temp_warn_c", float64(c.TempWarnC), 30, float64(c.TempHalveC)},
		{"temp_halve_c", float64(c.TempHalveC), 30, float64(c.TempSitC)},
		{"temp_sit_c", float64(c.TempSitC), 30, float64(c.TempDampC)},
		{"temp_damp_c", float64(c.TempDampC), 30, 110},
		{"temp_seconds", c.TempSeconds, 0, 10},
		{"battery_sit_percent", float64(c.BatterySitPct), 1, float64(c.BatteryWarnPct)},
		{"battery_warn_percent", float64(c.BatteryWarnPct), 1, 90},
		{"battery_seconds", c.BatterySeconds, 0, 10},
		{"remote_seconds", c.RemoteSeconds, 0.1, 5},
		{"mode_samples", float64(c.ModeSamples), 1, 50},
		{"sender_torque_nm", c.SenderTorqueNm, 1, 20},
		{"sender_joints", float64(c.SenderJoints), 1, 12},
		{"sender_samples", float64(c.SenderSamples), 1, 250},
		{"command_ramp_ms", c.CommandRampMs, 20, c.CommandZeroMs},
		{"command_zero_ms", c.CommandZeroMs, 20, 1000},
		{"command_stand_s", c.CommandStandS, 1, c.CommandSitS},
		{"command_sit_s", c.CommandSitS, 1, 600},
		{"loop_warn_ms", c.LoopWarnMs, 0.1, c.LoopLateMs},
		{"loop_late_ms", c.LoopLateMs, 10, 50},
		{"stand_error_rad", c.StandErrorRad, 0.05, 1},
		{"stand_error_ms", c.StandErrorMs, 2, 1000},
	} {
		if math.IsNaN(r.v) || r.v < r.lo || r.v > r.hi {
			return fmt.Errorf("safety.%s: %v, want %v..%v", r.key, r.v, r.lo, r.hi)
		}
	}
	return nil
}
