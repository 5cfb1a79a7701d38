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
			[]string{"drop_state@walk+2+0.036/1"}},
		{"state age 40 ms, states corrupt", trip{faults: []string{"corrupt_state@walk+2"}, atMs: 40, good: true, cause: "state_stale"},
			[]string{"corrupt_state@walk+2+0.036/1"}},
		{"state age 40 ms, zeros come instead", trip{faults: []string{"zeros_state@walk+2"}, atMs: 40, good: true, cause: "state_stale"},
			[]string{"zeros_state@walk+2+0.036/1"}},
		{"state age 40 ms, robot restarts", trip{faults: []string{"restart,down=1@walk+2"}, atMs: 40, good: true, cause: "state_stale"}, nil},
		{"tick stuck", trip{faults: []string{"freeze_tick@walk+2"}, atMs: 42, good: true, cause: "tick_stuck"},
			[]string{"freeze_tick@walk+2+0.036/1"}},
		{"tick stuck, whole state repeated", trip{faults: []string{"freeze_tick,what=state@walk+2"}, atMs: 42, good: true, cause: "tick_stuck"},
			[]string{"freeze_tick,what=state@walk+2+0.036/1"}},
		{"tilt 1.0 rad, roll", trip{faults: []string{"imu_tilt,rad=1.01,how=set,samples=1@walk+2"}, cause: "tilt"}, nil},
		{"tilt 1.0 rad, pitch", trip{faults: []string{"imu_tilt,rad=-1.01,axis=pitch,how=set,samples=1@walk+2"}, cause: "tilt"}, nil},
		{"joint speed 28 rad/s, hip", trip{faults: []string{"joint_speed,joint=RL_hip,value=28.1,samples=5@walk+2"}, atMs: 8, cause: "joint_speed", joint: "RL_hip"},
			[]string{"joint_speed,joint=RL_hip,value=40,samples=4@walk+2/1", "joint_speed,joint=RL_hip,value=27.9,samples=10@walk+2.5/1"}},
		{"joint speed 28 rad/s, thigh", trip{faults: []string{"joint_speed,joint=FR_thigh,value=-28.1,samples=5@walk+2"}, atMs: 8, cause: "joint_speed", joint: "FR_thigh"},
			[]string{"joint_speed,joint=FR_thigh,value=-40,samples=4@walk+2/1", "joint_speed,joint=FR_thigh,value=-27.9,samples=10@walk+2.5/1"}},
		{"joint speed 19 rad/s, calf", trip{faults: []string{"joint_speed,joint=FL_calf,value=19.1,samples=5@walk+2"}, atMs: 8, cause: "joint_speed", joint: "FL_calf"},
			[]string{"joint_speed,joint=FL_calf,value=30,samples=4@walk+2/1", "joint_speed,joint=FL_calf,value=18.9,samples=10@walk+2.5/1"}},
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
			[]string{"imu_quat_scale,scale=0.81@walk+2"}},
		{"quaternion too long", trip{faults: []string{"imu_quat_scale,scale=1.21,samples=1@walk+2"}, cause: "quaternion_bad"},
			[]string{"imu_quat_scale,scale=1.19@walk+2"}},
	} {
		above := func(t *testing.T) { testTrip(t, c.above) }
		below := func(t *testing.T) { testCalm(t, c.below) }
		if c.below == nil {
			below = nil
		}
		twice(t, c.name, above, below)
	}
}
