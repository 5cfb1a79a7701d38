package e2e

import "testing"

// TestDampingRows are the rows of the safety table that damp at once, each threshold of each row that a robot can bring
// about. The times are those of agent/safety.DefaultConfig.
func TestDampingRows(t *testing.T) {
	for _, c := range []struct {
		name  string
		above trip
		below []string
	}{
		{"state age 40 ms, states lost", trip{faults: []string{"drop_state@walk+2"}, atMs: 40, good: true, cause: "state_stale"},
			[]string{"drop_state@walk+2+0.038/1"}},
		{"state age 40 ms, states corrupt", trip{faults: []string{"corrupt_state@walk+2"}, atMs: 40, good: true, cause: "state_stale"},
			[]string{"corrupt_state@walk+2+0.038/2", "zeros_state@walk+3+0.038/2"}},
		{"state age 40 ms, zeros come instead", trip{faults: []string{"zeros_state@walk+2"}, atMs: 40, good: true, cause: "state_stale"}, nil},
		{"state age 40 ms, commands lost", trip{faults: []string{"drop_command@walk+2+0.1"}, atMs: 100, cause: "state_stale"},
			[]string{"drop_command@walk+2+0.038/1"}},
		{"tick stuck", trip{faults: []string{"freeze_tick@walk+2"}, atMs: 42, good: true, cause: "tick_stuck"},
			[]string{"freeze_tick@walk+2+0.038/2", "freeze_tick,what=state@walk+3+0.038/2"}},
		{"tick stuck, whole state repeated", trip{faults: []string{"freeze_tick,what=state@walk+2"}, atMs: 42, good: true, cause: "tick_stuck"}, nil},
		{"tilt 1.0 rad, roll", trip{faults: []string{"imu_tilt,rad=1.01,how=set,samples=1@walk+2"}, cause: "tilt"}, nil},
		{"tilt 1.0 rad, pitch", trip{faults: []string{"imu_tilt,rad=-1.01,axis=pitch,how=set,samples=1@walk+2"}, cause: "tilt"}, nil},
		{"joint speed 28 rad/s, hip", trip{faults: []string{"joint_speed,joint=RL_hip,value=28.1,samples=5@walk+2"}, atMs: 8, cause: "joint_speed", joint: "RL_hip"},
			[]string{"joint_speed,joint=RL_hip,value=40,samples=4@walk+2/3", "joint_speed,joint=RL_hip,value=27.9,samples=10@walk+2.5/3",
				"joint_speed,joint=FR_thigh,value=-40,samples=4@walk+3/3", "joint_speed,joint=FR_thigh,value=-27.9,samples=10@walk+3.5/3",
				"joint_speed,joint=FL_calf,value=30,samples=4@walk+4/3", "joint_speed,joint=FL_calf,value=18.9,samples=10@walk+4.5/3"}},
		{"joint speed 28 rad/s, thigh", trip{faults: []string{"joint_speed,joint=FR_thigh,value=-28.1,samples=5@walk+2"}, atMs: 8, cause: "joint_speed", joint: "FR_thigh"}, nil},
		{"joint speed 19 rad/s, calf", trip{faults: []string{"joint_speed,joint=FL_calf,value=19.1,samples=5@walk+2"}, atMs: 8, cause: "joint_speed", joint: "FL_calf"}, nil},
		{"power 700 W", trip{faults: []string{"power,w=705,samples=6@walk+2"}, atMs: 10, cause: "power"},
			[]string{"power,w=1200,samples=5@walk+2/1", "power,w=695,samples=10@walk+2.5/1"}},
		{"power no number", trip{faults: []string{"power_nan,samples=1@walk+2"}, cause: "state_not_finite", joint: "FR_thigh"}, nil},
		{"joint angle no number", trip{faults: []string{"joint_nan,joint=RR_calf,samples=1@walk+2"}, cause: "state_not_finite", joint: "RR_calf"}, nil},
		{"gyroscope no number", trip{faults: []string{"gyro_nan,samples=1@walk+2"}, cause: "state_not_finite"}, nil},
		{"accelerometer no number", trip{faults: []string{"acc_nan,samples=1@walk+2"}, cause: "state_not_finite"}, nil},
		{"motor temperature 95 C", trip{faults: []string{"temperature,joint=RL_calf,value=95@walk+2"}, atMs: 2000, cause: "motor_hot", joint: "RL_calf"},
			[]string{"temperature,joint=RL_calf,value=120@walk+2+1.99/2.1"}},
		{"motor mode 0x08", trip{faults: []string{"motor_mode,joint=FL_hip,value=8,samples=1@walk+2"}, cause: "motor_overheat_mode", joint: "FL_hip"}, nil},
		{"motor mode dropped", trip{faults: []string{"motor_mode,joint=RR_thigh,value=0,samples=5@walk+2"}, atMs: 8, cause: "motor_mode_dropped", joint: "RR_thigh"},
			[]string{"motor_mode,joint=RR_thigh,value=0,samples=4@walk+2/0.1"}},
		{"zero quaternion", trip{faults: []string{"imu_quat_zero,samples=1@walk+2"}, cause: "quaternion_bad"}, nil},
		{"quaternion too short", trip{faults: []string{"imu_quat_scale,scale=0.79,samples=1@walk+2"}, cause: "quaternion_bad"},
			[]string{"imu_quat_scale,scale=0.81@walk+2+30", "imu_quat_scale,scale=1.19@walk+32+30"}},
		{"quaternion too long", trip{faults: []string{"imu_quat_scale,scale=1.21,samples=1@walk+2"}, cause: "quaternion_bad"}, nil},
		{"remote L2+B", trip{faults: []string{"remote_buttons,samples=1@walk+2"}, cause: "remote_stop", cut: true},
			[]string{"remote_buttons,buttons=L2@walk+2+0.5/2", "remote_buttons,buttons=B@walk+3+0.5/2", "remote_buttons,buttons=L2+A+R2+X@walk+4+0.5/2"}},
		{"another sender's pose", trip{faults: []string{"other_sender,what=pose@walk+2"}, atMs: 38, slack: 500, cause: "another_sender"},
			[]string{"other_sender,what=pose@walk+2+0.038/1"}},
		{"another sender's damping", trip{faults: []string{"other_sender@walk+2"}, atMs: 38, slack: 500, cause: "another_sender"},
			[]string{"other_sender@walk+2+0.038/1"}},
		{"sport mode is back", trip{faults: []string{"sport_returns@walk+2"}, atMs: 38, slack: 500, cause: "another_sender"}, nil},
	} {
		above := func(t *testing.T) { testTrip(t, c.above) }
		below := func(t *testing.T) { testCalm(t, calmly{faults: c.below}) }
		if c.below == nil {
			below = nil
		}
		twice(t, c.name, above, below)
	}
}

// TestSitRows are the rows that sit the robot down.
func TestSitRows(t *testing.T) {
	for _, c := range []struct {
		name  string
		above []string
		atMs  float64
		cause string
		below calmly
	}{
		{"motor temperature 85 C", []string{"temperature,joint=FL_thigh,value=85@walk+2"}, 2000, "motor_hot",
			calmly{faults: []string{"temperature,joint=FL_thigh,value=84@walk+0.1"}, vx: 0.4, warns: []string{"motor_hot"}}},
		{"battery 10 %", []string{"battery,soc=10@walk+2"}, 1000, "battery_low",
			calmly{faults: []string{"battery,soc=11@walk+2"}, warns: []string{"battery_low"}}},
		{"remote absent", []string{"remote_absent@walk+2"}, 1000, "remote_absent",
			calmly{faults: []string{"remote_absent@walk+2+0.99/15"}}},
	} {
		twice(t, c.name,
			func(t *testing.T) { testSit(t, c.above, c.atMs, c.cause) },
			func(t *testing.T) { testCalm(t, c.below) })
	}
}

// TestHoldRows are the rows that let the legs hold their last target.
func TestHoldRows(t *testing.T) {
	twice(t, "tilt 0.6 rad, roll",
		func(t *testing.T) { testHold(t, []string{"imu_tilt,rad=0.61,how=set,samples=1@walk+2"}, "tilt") },
		func(t *testing.T) {
			testCalm(t, calmly{faults: []string{"imu_tilt,rad=0.59,how=set,samples=1@walk+2/0.5"}})
		})
	twice(t, "tilt 0.6 rad, pitch",
		func(t *testing.T) {
			testHold(t, []string{"imu_tilt,rad=0.61,axis=pitch,how=set,samples=1@walk+2"}, "tilt")
		},
		func(t *testing.T) {
			testCalm(t, calmly{faults: []string{"imu_tilt,rad=-0.59,axis=pitch,how=set,samples=1@walk+2/0.5"}})
		})
}

// TestWarnRows are conditions that last and are worth a warning, or less, while the robot walks on.
func TestWarnRows(t *testing.T) {
	for name, c := range map[string]calmly{
		"motor temperature 75 C halves": {faults: []string{"temperature,joint=RR_calf,value=75@0"}, vx: 0.4, warns: []string{"motor_hot"}},
		"motor temperature 74 C, battery 20 %": {faults: []string{"temperature,joint=RR_calf,value=74@0", "battery,soc=20@0"},
			warns: []string{"motor_hot", "battery_low"}},
		"motor temperature 65 C, battery 5 % of cells that are not there": {
			faults: []string{"temperature,joint=RR_calf,value=65@0", "battery,soc=5@0", "cells_missing@0"},
			warns:  []string{"motor_hot", "battery_unknown"}, silent: []string{"battery_low"}},
		"motor temperature 64 C and one unknown, battery 21 %": {
			faults: []string{"temperature,joint=RR_calf,value=64@0", "temperature,joint=FL_hip,value=0@0", "battery,soc=21@0"},
			warns:  []string{"motor_temp_unknown"}, silent: []string{"motor_hot", "battery_low", "battery_unknown"}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); testCalm(t, c) })
	}
}
