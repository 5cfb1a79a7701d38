package firstcontact

import (
	"encoding/binary"
	"fmt"
	"github.com/go-json-experiment/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

func testConfig() Config {
	c := DefaultConfig()
	c.StepSeconds = 4
	return c
}

// named are the codes of a Record with what they are about.
func named(r *Record, cfg *Config) (names []string) {
	for _, v := range r.Verdicts(nil, cfg) {
		names = append(names, v.Code.String()+" "+v.Text())
	}
	return names
}

func TestHealthyRobotPasses(t *testing.T) {
	cfg := testConfig()
	for seed := range uint64(4) {
		r := newHung(seed).examine(New(cfg, nil))
		if v := named(r, &cfg); len(v) != 0 || !r.Pass(&cfg) {
			t.Fatalf("seed %d: %q, results %v", seed, v, r.Results)
		}
	}
}

// TestLargerPackPasses: one of ten cells, as the virtual robot's, is as good as a Go1's six.
func TestLargerPackPasses(t *testing.T) {
	cfg := testConfig()
	h := newHung(16)
	h.wrong = func(s *wire.LowState) {
		for i := range s.BMS.CellVoltage {
			s.BMS.CellVoltage[i] = 3904
		}
	}
	r := h.examine(New(cfg, nil))
	if v := named(r, &cfg); len(v) != 0 || !r.Pass(&cfg) {
		t.Errorf("%q, results %v", v, r.Results)
	}
}

// swapMotors exchanges what two motors say.
func swapMotors(pairs ...[2]int) func(*wire.LowState) {
	return func(s *wire.LowState) {
		for _, p := range pairs {
			s.Motor[p[0]], s.Motor[p[1]] = s.Motor[p[1]], s.Motor[p[0]]
		}
	}
}

// scaledSpeed is a motor whose speed reads so many times what it is.
func scaledSpeed(i int, by float32) func(*wire.LowState) {
	return func(s *wire.LowState) { s.Motor[i].Dq *= by }
}

// mirror is an IMU whose axis points the other way.
func mirror(axis int) func(*wire.LowState) {
	return func(s *wire.LowState) {
		s.IMU.Accelerometer[axis] *= -1
		for i := range 3 {
			if i != axis {
				s.IMU.Gyroscope[i] *= -1
				s.IMU.Quaternion[1+i] *= -1
			}
		}
	}
}

// turnIMU is an IMU that is mounted turned about its z axis.
func turnIMU(s *wire.LowState, by float64) {
	var q quat
	for i, v := range s.IMU.Quaternion {
		q[i] = float64(v)
	}
	q = mul(q, quat{math.Cos(by / 2), 0, 0, math.Sin(by / 2)})
	for i := range q {
		s.IMU.Quaternion[i] = float32(q[i])
	}
	sin, cos := math.Sincos(by)
	for _, v := range []*[3]float32{&s.IMU.Gyroscope, &s.IMU.Accelerometer} {
		x, y := float64(v[0]), float64(v[1])
		v[0], v[1] = float32(cos*x+sin*y), float32(cos*y-sin*x)
	}
}

// frozen keeps what a part of the first state said.
func frozen(keep func(first, s *wire.LowState)) func(*wire.LowState) {
	var first *wire.LowState
	return func(s *wire.LowState) {
		if first == nil {
			c := *s
			first = &c
		}
		keep(first, s)
	}
}

// TestNames: each wrong robot is named, by the code and by what it is about, and by nothing else.
func TestNames(t *testing.T) {
	imu, joints, feet, remote := []Group{Joints, Feet, Remote}, []Group{Motions, Feet, Remote}, []Group{Motions, Joints, Remote}, []Group{Motions, Joints, Feet}
	rest := []Group{Motions, Joints, Feet, Remote}
	drawn := newHung(99).draw
	whole := testConfig()
	healthy := newHung(3).examine(New(whole, nil))
	shake := func(sd float64) float32 { return float32(sd * drawn.NormFloat64()) }
	for _, c := range []struct {
		want  string // code and what its text must say; several with ;
		skip  []Group
		wrong func(*wire.LowState)
	}{
		{"motor_mode_dropped: 1 of 12 FL_hip_joint", rest, func(s *wire.LowState) { s.Motor[3].Mode = 0 }},
		{"state_not_finite: states", rest, func(s *wire.LowState) { s.Motor[3].Dq = float32(math.NaN()) }},
		{"quaternion_bad: 0.50", rest, func(s *wire.LowState) {
			for i := range s.IMU.Quaternion {
				s.IMU.Quaternion[i] *= 0.5
			}
		}},
		{"quaternion_bad: 0.00", rest, func(s *wire.LowState) { s.IMU.Quaternion = [4]float32{} }},
		{"imu_stuck: quaternion; imu_stuck: gyroscope; imu_stuck: accelerometer", imu, frozen(func(first, s *wire.LowState) { s.IMU = first.IMU })},
		{"imu_stuck: gyroscope", imu, func(s *wire.LowState) { s.IMU.Gyroscope = [3]float32{} }},
		{"imu_stuck: quaternion", imu, func(s *wire.LowState) {
			s.IMU.Quaternion = [4]float32{1 + shake(1e-5), 0, 0, 0}
		}},
		{"imu_noisy: rad/s", imu, func(s *wire.LowState) { s.IMU.Gyroscope[1] += shake(0.3) }},
		{"imu_noisy: ", rest, func(s *wire.LowState) { s.IMU.Quaternion[1] += shake(0.03) }},
		{"imu_noisy: ", rest, func(s *wire.LowState) { s.IMU.Accelerometer[1] += shake(3) }},
		{"gyro_bias: y -0.197", imu, func(s *wire.LowState) { s.IMU.Gyroscope[1] -= 0.2 }},
		{"acc_norm: perhaps in g", imu, func(s *wire.LowState) {
			for i := range 3 {
				s.IMU.Accelerometer[i] /= 9.81
			}
		}},
		{"tilt: 0.7", rest, func(s *wire.LowState) {
			s.IMU.Quaternion = [4]float32{float32(math.Cos(0.35)) + shake(1e-6), float32(math.Sin(0.35)), 0, 0}
			s.IMU.Accelerometer = [3]float32{shake(0.01), float32(9.81 * math.Sin(0.7)), float32(9.81 * math.Cos(0.7))}
		}},
		{"quat_order: x y z w", imu, func(s *wire.LowState) {
			q := s.IMU.Quaternion
			s.IMU.Quaternion = [4]float32{q[1], q[2], q[3], q[0]}
		}},
		{"imu_mirror_x: backwards", imu, mirror(0)},
		{"imu_mirror_y: to the right", imu, mirror(1)},
		{"imu_mirror_z: points down", imu, mirror(2)},
		{"gyro_sign: : x", imu, func(s *wire.LowState) { s.IMU.Gyroscope[0] *= -1 }},
		{"gyro_sign: : y", imu, func(s *wire.LowState) { s.IMU.Gyroscope[1] *= -1 }},
		{"gyro_sign: : z", imu, func(s *wire.LowState) { s.IMU.Gyroscope[2] *= -1 }},
		{"gyro_sign: : y; gyro_sign: : x; gyro_sign: : z", imu, func(s *wire.LowState) {
			for i := range 3 {
				s.IMU.Gyroscope[i] *= -1
			}
		}},
		{"gyro_units: degrees a second", imu, func(s *wire.LowState) {
			for i := range 3 {
				s.IMU.Gyroscope[i] *= 180 / math.Pi
			}
		}},
		{"gyro_units: 0.5 times", imu, func(s *wire.LowState) {
			for i := range 3 {
				s.IMU.Gyroscope[i] *= 0.5
			}
		}},
		{"gyro_units: about y it says 0.5 times", imu, func(s *wire.LowState) { s.IMU.Gyroscope[1] *= 0.5 }},
		{"imu_stuck: gyroscope about x", imu, func(s *wire.LowState) { s.IMU.Gyroscope[0] = shake(0.01) }},
		{"gyro_axes: at nose_down it says +x, the orientation +y; gyro_axes: at yaw_left it says +y, the orientation +z; gyro_axes: at roll_left it says -z, the orientation -x", imu, func(s *wire.LowState) {
			g := s.IMU.Gyroscope
			s.IMU.Gyroscope = [3]float32{g[1], g[2], g[0]}
		}},
		{"gravity_mismatch: at nose_down", imu, func(s *wire.LowState) { s.IMU.Accelerometer[0] = shake(0.05) }}, // x says nothing
		{"imu_axes: pitch and roll are off by -25 degrees alike", imu, func(s *wire.LowState) { turnIMU(s, 25*math.Pi/180) }},
		{"hangs_askew: 0.2", rest, func(s *wire.LowState) {
			s.IMU.Quaternion = [4]float32{float32(math.Cos(0.1)) + shake(1e-6), float32(math.Sin(0.1)), 0, 0}
			s.IMU.Accelerometer = [3]float32{shake(0.01), float32(9.81 * math.Sin(0.2)), float32(9.81 * math.Cos(0.2))}
		}},
		{"imu_axes: pitch and roll are off by -180 degrees alike", imu, func(s *wire.LowState) { // mounted backwards
			q := quat{float64(s.IMU.Quaternion[0]), float64(s.IMU.Quaternion[1]), float64(s.IMU.Quaternion[2]), float64(s.IMU.Quaternion[3])}
			q = mul(q, quat{0, 0, 0, 1})
			for i := range q {
				s.IMU.Quaternion[i] = float32(q[i])
			}
			for i := range 2 {
				s.IMU.Gyroscope[i] *= -1
				s.IMU.Accelerometer[i] *= -1
			}
		}},
		{"gravity_mismatch: rad apart", imu, func(s *wire.LowState) { s.IMU.Accelerometer[0] *= -1 }},
		{"gravity_mismatch: 0.40 rad apart", rest, func(s *wire.LowState) {
			s.IMU.Accelerometer = [3]float32{shake(0.01), float32(9.81 * math.Sin(0.4)), float32(9.81 * math.Cos(0.4))}
		}},
		{"joint_range: FR_calf_joint 0.90", rest, func(s *wire.LowState) { s.Motor[2].Q = 0.9 }},
		{"joint_noisy: RL_hip_joint", rest, func(s *wire.LowState) { s.Motor[9].Dq += shake(2) }},
		{"joint_noisy: RL_calf_joint", rest, func(s *wire.LowState) { s.Motor[11].Q += shake(0.02) }},
		{"joint_stuck: RR_thigh_joint", joints, frozen(func(first, s *wire.LowState) { s.Motor[7].Q, s.Motor[7].Dq = first.Motor[7].Q, first.Motor[7].Dq })},
		{"joint_stuck: RR_thigh_joint", joints, frozen(func(first, s *wire.LowState) { s.Motor[7].Q = first.Motor[7].Q })},
		{"joint_speed: FL_hip_joint turned by +0.2 of 12 the wrong way", joints, scaledSpeed(3, -1)},
		{"joint_speed: FR_calf_joint turned by -0.2 of 12 stands still", joints, scaledSpeed(2, 0)},
		{"joint_noisy: RL_thigh_joint; joint_speed: RL_thigh_joint of 12 degrees a second", joints, scaledSpeed(10, 180/math.Pi)},
		{"joint_speed: RL_thigh_joint", joints, scaledSpeed(10, 0.6)},
		{"joint_speed: RL_thigh_joint", joints, scaledSpeed(10, 1.6)},
		{"joint_speed: RR_hip_joint of 12 stands still", joints, func(s *wire.LowState) { s.Motor[6].Dq = 0.02 }},
		{"joint_speed: FL_calf_joint", joints, func(s *wire.LowState) { s.Motor[5].Dq += 1 }},
		{"joint_speed: FL_thigh_joint; joint_noisy: FL_thigh_joint", joints, func(s *wire.LowState) { s.Motor[4].Dq = -s.Motor[4].Dq + shake(3) }},
		{"joint_noisy: FL_thigh_joint", joints, func(s *wire.LowState) { s.Motor[4].Dq += shake(3) }},
		{"joint_speed: FR_hip_joint; joint_speed: FR_thigh_joint; joint_speed: FR_calf_joint", joints, func(s *wire.LowState) {
			for i := range 3 {
				s.Motor[i].Dq *= -1
			}
		}},
		{"joint_reversed: FL_thigh_joint", joints, func(s *wire.LowState) { s.Motor[4].Q *= -1; s.Motor[4].Dq *= -1 }},
		{"joint_reversed: FR_calf_joint", joints, func(s *wire.LowState) { s.Motor[2].Q *= -1; s.Motor[2].Dq *= -1 }},
		{"joints_swapped: RR_thigh_joint was moved, RR_calf_joint", joints, swapMotors([2]int{7, 8})},
		{"joints_swapped: FR_hip_joint was moved, FR_calf_joint", joints, swapMotors([2]int{0, 2})},
		{"legs_swapped: FR and FL", joints, swapMotors([2]int{0, 3}, [2]int{1, 4}, [2]int{2, 5})},
		{"legs_swapped: FL and RL", joints, swapMotors([2]int{3, 9}, [2]int{4, 10}, [2]int{5, 11})},
		{"legs_exchanged: front and rear, in all 12 joints; legs_swapped: FR and RR; legs_swapped: FL and RL", joints, swapMotors([2]int{0, 6}, [2]int{1, 7}, [2]int{2, 8}, [2]int{3, 9}, [2]int{4, 10}, [2]int{5, 11})},
		{"joint_order: FR_hip_joint was moved, FL_hip_joint; joint_order: FL_hip_joint was moved, FR_hip_joint", joints, swapMotors([2]int{0, 3})},
		{"joint_not_alone: FR_hip_joint", joints, func(s *wire.LowState) { s.Motor[1].Q += 0.9 * (s.Motor[0].Q - 0.02) }},
		{"foot_force_zero: No foot", feet, func(s *wire.LowState) { s.FootForce = [4]int16{} }},
		{"foot_stuck: RR", feet, func(s *wire.LowState) { s.FootForce[2] = 120 }},
		{"feet_swapped: FR and RL", feet, func(s *wire.LowState) { s.FootForce[0], s.FootForce[3] = s.FootForce[3], s.FootForce[0] }},
		{"foot_order: FR was pressed; foot_order: FL was pressed; foot_order: RR was pressed", feet, func(s *wire.LowState) {
			s.FootForce[0], s.FootForce[1], s.FootForce[2] = s.FootForce[1], s.FootForce[2], s.FootForce[0]
		}},
		{"remote_absent: not there", remote, func(s *wire.LowState) { s.Remote = [40]byte{} }},
		{"remote_buttons: L2+B was asked for, it says L2+A; remote_buttons: A was asked for, it says B; remote_buttons: B was asked for, it says A", remote, func(s *wire.LowState) {
			var r wire.Remote
			wire.DecodeRemote(&s.Remote, &r)
			a, b := r.Buttons&wire.ButtonA != 0, r.Buttons&wire.ButtonB != 0
			r.Buttons &^= wire.ButtonA | wire.ButtonB
			if a {
				r.Buttons |= wire.ButtonB
			}
			if b {
				r.Buttons |= wire.ButtonA
			}
			copy(s.Remote[:], wire.AppendRemote(nil, &r))
		}},
		{"remote_sticks: left stick forward: it reads -0.7", remote, func(s *wire.LowState) {
			var r wire.Remote
			wire.DecodeRemote(&s.Remote, &r)
			r.Ly = -r.Ly
			copy(s.Remote[:], wire.AppendRemote(nil, &r))
		}},
		{"motor_temp_unknown: RL_calf_joint", rest, func(s *wire.LowState) { s.Motor[11].Temperature = 0 }},
		{"motor_hot: FR_thigh_joint 80 C", rest, func(s *wire.LowState) { s.Motor[1].Temperature = 80 }},
		{"battery_unknown: nothing", rest, func(s *wire.LowState) { s.BMS.CellVoltage = [10]uint16{} }},
		{"battery_low: 12 %", rest, func(s *wire.LowState) { s.BMS.SOC = 12 }},
		{"cells_missing: 2, among them number 4", rest, func(s *wire.LowState) { s.BMS.CellVoltage[1], s.BMS.CellVoltage[3] = 0, 0 }},
		{"cells_missing: 1, among them number 6", rest, func(s *wire.LowState) { s.BMS.CellVoltage[5] = 0 }},
		{"cells_uneven: 320 mV", rest, func(s *wire.LowState) { s.BMS.CellVoltage[2] += 320 }},
		{"foot_force_zero: the same all the time", feet, func(s *wire.LowState) { s.FootForce = [4]int16{120, 30, -7, 0} }},
		{"foot_stuck: FR; foot_stuck: FL; foot_stuck: RR", feet, func(s *wire.LowState) { s.FootForce[0], s.FootForce[1], s.FootForce[2] = 9, 9, 9 }},
		{"foot_stuck: RR", feet, func(s *wire.LowState) { // and pressing it sways the others
			by := s.FootForce[2] - 20
			s.FootForce[2] = 120
			if by > 10 {
				s.FootForce[0], s.FootForce[1] = s.FootForce[0]+by, s.FootForce[1]+by
			}
		}},
		{"foot_stuck: RL", feet, func(s *wire.LowState) { s.FootForce[3] = min(s.FootForce[3], 24) }},           // it lives, and is none of the others'
		{"nothing_seen: RL_foot", feet, func(s *wire.LowState) { s.FootForce[3] = 20 + (s.FootForce[3]-20)/5 }}, // it answers, and not enough
		{"nothing_seen: RL_foot; nothing_seen: RR_foot", feet, func(s *wire.LowState) { // they may be each other's
			s.FootForce[2], s.FootForce[3] = min(s.FootForce[2], 24), min(s.FootForce[3], 24)
		}},
		{"foot_stuck: RR", feet, func(s *wire.LowState) { // and pressing it sways the others, while it flickers
			by := s.FootForce[2] - 20
			s.FootForce[2] = 120 + int16(s.Tick/2%2)
			if by > 10 {
				s.FootForce[0], s.FootForce[1] = s.FootForce[0]+by, s.FootForce[1]+by
			}
		}},
	} {
		t.Run(c.want, func(t *testing.T) {
			cfg := testConfig()
			h := newHung(3)
			h.wrong = c.wrong
			r := h.examine(New(cfg, nil), c.skip...)
			got := named(r, &cfg)
			want := strings.Split(c.want, "; ")
			for _, w := range want {
				code, says, _ := strings.Cut(w, ": ")
				if !slices.ContainsFunc(got, func(g string) bool {
					ok := strings.HasPrefix(g, code+" ")
					for _, part := range strings.SplitN(says, " of 12 ", 2) {
						ok = ok && strings.Contains(g, part)
					}
					return ok
				}) {
					t.Errorf("not named: %s", w)
				}
			}
			if len(got) != len(want) || t.Failed() {
				t.Errorf("%q, want %d names", got, len(want))
			}
			for i, res := range r.Results {
				if res == Failed && !slices.ContainsFunc(r.Verdicts(nil, &cfg), func(v Verdict) bool { return v.Of(Step(i)) }) {
					t.Errorf("%s has failed, and nothing says why", Step(i))
				}
			}
			fault := slices.ContainsFunc(r.Verdicts(nil, &cfg), func(v Verdict) bool { return Codes[v.Code].Level == Fault })
			if r.Pass(&cfg) {
				t.Error("it passes, though steps were left out")
			}
			for i := range r.Results { // as if they had been done, and well
				if r.Results[i] == Skipped {
					r.fill(Step(i), healthy)
				}
			}
			if r.Pass(&cfg) == fault {
				t.Errorf("passes %v with a fault %v; results %v", r.Pass(&cfg), fault, r.Results)
			}
		})
	}
}

// fill takes over what another Record has of a step.
func (r *Record) fill(s Step, from *Record) {
	r.Results[s] = from.Results[s]
	switch i := s.index(); s.Group() {
	case Motions:
		r.Motions[i] = from.Motions[i]
	case Joints:
		r.Joints[i] = from.Joints[i]
	case Feet:
		r.Feet[i] = from.Feet[i]
	case Remote:
		r.Remote = from.Remote
	}
}

// TestPassBelievesNoResult: a Record whose steps only say that they have passed does not.
func TestPassBelievesNoResult(t *testing.T) {
	cfg := testConfig()
	good := *newHung(15).examine(New(cfg, nil))
	if !good.Pass(&cfg) {
		t.Fatalf("%q", named(&good, &cfg))
	}
	for s := range Step(StepCount) {
		r := good
		r.forget(s)
		r.Results[s] = Passed
		if r.Pass(&cfg) {
			t.Errorf("%s: passes without a figure", s)
		}
		for _, res := range []Result{Open, Failed, TimedOut, Skipped, NotAsked} {
			r = good
			if r.Results[s] = res; r.Pass(&cfg) {
				t.Errorf("%s: passes though it is %s", s, res)
			}
		}
		if s.Group() != Feet {
			continue
		}
		// It walks without a foot sensor of which was measured that it is dead.
		for i, change := range []func(r *Record, f *MoveFigures, rest *Spread){
			func(_ *Record, f *MoveFigures, rest *Spread) { f.Stuck, rest.SD = true, 0 },
			func(_ *Record, f *MoveFigures, rest *Spread) { f.Stuck, rest.SD = true, 0.5 },
			func(_ *Record, f *MoveFigures, rest *Spread) { f.Stuck, rest.SD = false, 0 },
			func(r *Record, f *MoveFigures, rest *Spread) { f.Stuck, rest.SD, r.Results[s] = true, 0, NotAsked },
		} {
			r = good
			r.forget(s)
			r.Results[s] = TimedOut
			if change(&r, &r.Feet[s.index()], &r.Rest.Foot[s.index()]); r.Pass(&cfg) != (i == 0) {
				t.Errorf("%s: case %d: passes %v", s, i, i != 0)
			}
		}
		// Nor without one that may flicker, and of which was measured that it alone did not answer.
		other := FirstFoot + (s-FirstFoot+1)%go1.Legs
		for i, change := range []func(r *Record, f *MoveFigures){
			func(*Record, *MoveFigures) {},
			func(_ *Record, f *MoveFigures) { f.AskedS = 2.9 },
			func(_ *Record, f *MoveFigures) { f.Reach = footMute },
			func(r *Record, _ *MoveFigures) { r.Results[other] = TimedOut },
			func(r *Record, _ *MoveFigures) { r.Feet[other.index()].Delta[other.index()] *= -1 },
			func(r *Record, _ *MoveFigures) { r.Feet[other.index()].Moved = s.index() },
			func(r *Record, _ *MoveFigures) { r.Results[s] = NotAsked },
		} {
			r = good
			r.forget(s)
			r.Results[s], r.Feet[s.index()].AskedS, r.Feet[s.index()].Reach = TimedOut, 3, footMute-1
			if change(&r, &r.Feet[s.index()]); r.Pass(&cfg) != (i == 0) {
				t.Errorf("%s: mute, case %d: passes %v", s, i, i != 0)
			}
		}
	}
	// It walks without any, of which was measured that they say nothing.
	for i, change := range []func(r *Record){
		func(*Record) {}, func(r *Record) { r.Feet[0].Still = false }, func(r *Record) { r.Feet[1].Stuck = false },
		func(r *Record) { r.Rest.Foot[3].SD = 0.1 }, func(r *Record) { r.Results[FirstFoot] = NotAsked },
	} {
		r := good
		for leg := range go1.Legs {
			s := FirstFoot + Step(leg)
			r.forget(s)
			r.Rest.Foot[leg].SD, r.Results[s] = 0, NotAsked
			if leg < 2 {
				r.Results[s], r.Feet[leg].Stuck, r.Feet[leg].Still = TimedOut, true, true
			}
		}
		if change(&r); r.Pass(&cfg) != (i == 0) {
			t.Errorf("no feet, case %d: passes %v", i, i != 0)
		}
	}
	r := newRecord()
	for s := range r.Results {
		r.Results[s] = Passed
	}
	if r.Pass(&cfg) {
		t.Error("nothing measured, and it passes")
	}
	// Who works without the remote need not have shown it; who works with it must.
	r = good
	for s := RemoteStop; int(s) < StepCount; s++ {
		r.forget(s)
		r.Results[s] = NotAsked
	}
	without := cfg
	without.WithoutRemote = true
	if !r.Pass(&without) || r.Pass(&cfg) {
		t.Errorf("without the remote passes %v, with it %v", r.Pass(&without), r.Pass(&cfg))
	}
}

// TestCodeTable: names are words that differ, and what is wrong has a remedy.
func TestCodeTable(t *testing.T) {
	seen := map[string]bool{}
	for i, c := range Codes {
		if c.Name == "" || c.Title == "" || c.Level != Note && c.Remedy == "" || seen[c.Name] || strings.ToLower(c.Name) != c.Name {
			t.Errorf("code %d: %+v", i, c)
		}
		seen[c.Name] = true
	}
	names := map[string]bool{}
	for s := range Step(StepCount) {
		if names[s.String()] || s.Ask(0) == "" {
			t.Errorf("step %d: %s: %s", s, s, s.Ask(0))
		}
		names[s.String()] = true
		if got, err := ParseSteps(s.String()); err != nil || len(got) != 1 || got[0] != s {
			t.Errorf("%s: %v %v", s, got, err)
		}
	}
	if all, err := ParseSteps("joints"); err != nil || len(all) != go1.Joints {
		t.Errorf("joints: %v %v", all, err)
	}
	if _, err := ParseSteps("nose_up"); err == nil || !strings.Contains(err.Error(), `"nose_up"`) || !strings.Contains(err.Error(), "nose_down") {
		t.Errorf("nose_up: %v", err)
	}
}

// TestAskedAsTheLegsAre: where a person is told to move a foot, there it goes when the joint turns in the sense that is waited for.
func TestAskedAsTheLegsAre(t *testing.T) {
	for j := range go1.Joints {
		leg := j / go1.JointsInLeg
		for _, hang := range [][go1.JointsInLeg]float64{{0, 0, -0.92}, {0.02, 0.45, -0.9}, {0, 0.9, -1.8}} { // legs hang between straight and folded
			var q [go1.Joints]float64
			copy(q[leg*go1.JointsInLeg:], hang[:])
			from := go1.Foot(leg, &q)
			q[j] += 0.3 * handSign(j)
			to := go1.Foot(leg, &q)
			outwards := 1.0 // +y is left
			if leg == go1.FR || leg == go1.RR {
				outwards = -1
			}
			goes := map[string]bool{"outwards": (to[1]-from[1])*outwards > 0.02, "backwards": from[0]-to[0] > 0.02, "forward and up": to[0]-from[0] > 0.02 && to[2]-from[2] > 0.01}
			asked := (FirstJoint + Step(j)).Ask(0)
			said := 0
			for way, so := range goes {
				if strings.Contains(asked, way) {
					said++
					if !so {
						t.Errorf("%s at %v: asked to %q, and the foot goes from %.3f to %.3f", go1.JointNames[j], hang, asked, from, to)
					}
				}
			}
			if said != 1 {
				t.Errorf("%q names %d ways", asked, said)
			}
		}
	}
}

// TestPeopleErr: one wrong motion is asked for again, and the second counts.
func TestPeopleErr(t *testing.T) {
	cfg := testConfig()
	h := newHung(5)
	h.errs = func(s Step, try int) (Step, float64) {
		switch {
		case try > 0:
			return s, 1
		case s == NoseDown, s == YawLeft:
			return s, -1 // nose up, yaw right
		case s == RollLeft:
			return NoseDown, 1
		case s == FirstJoint:
			return s, -1
		case s.Group() == Joints:
			return FirstJoint + (s-FirstJoint+3)%go1.Joints, 1
		case s.Group() == Feet:
			return FirstFoot + (s-FirstFoot+1)%go1.Legs, 1
		case s == RemoteSticks:
			return s, -1
		}
		return s, 1
	}
	r := h.examine(New(cfg, nil))
	if v := named(r, &cfg); len(v) != 0 || !r.Pass(&cfg) {
		t.Fatalf("%q, results %v", v, r.Results)
	}
	if r.Motions[0].Tries != 2 || r.Joints[4].Tries != 2 || r.Feet[1].Tries != 2 {
		t.Errorf("tries %d, %d, %d, want 2 each", r.Motions[0].Tries, r.Joints[4].Tries, r.Feet[1].Tries)
	}
	// Twice wrong is what it is: a robot that turns the wrong way, or a person who does.
	h.errs = func(s Step, _ int) (Step, float64) {
		if s == NoseDown {
			return s, -1
		}
		return s, 1
	}
	r = h.examine(New(cfg, nil))
	if v := named(r, &cfg); len(v) != 1 || !strings.HasPrefix(v[0], "imu_axes") || r.Results[NoseDown] != Failed || r.Pass(&cfg) {
		t.Errorf("%q, results %v", v, r.Results)
	}
}

// TestResume: a session that was broken off goes on with what has not passed, and a Record survives its file.
func TestResume(t *testing.T) {
	cfg := testConfig()
	h := newHung(6)
	h.errs = func(s Step, _ int) (Step, float64) {
		if s == FirstJoint+5 || s == FirstFoot+2 {
			return s, 0 // the person does nothing
		}
		return s, 1
	}
	r := h.examine(New(cfg, nil), Remote)
	if v := named(r, &cfg); len(v) != 2 || r.Results[FirstJoint+5] != TimedOut || r.Results[RemoteStop] != Skipped || r.Pass(&cfg) {
		t.Fatalf("%q, results %v", v, r.Results)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Record
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(back) != fmt.Sprint(*r) {
		t.Fatalf("a Record comes back from its file as another:\n%v\n%v", back, *r)
	}
	h.errs = nil
	h.acts = nil
	e := New(cfg, &back)
	for s, want := range map[Step]bool{Frame: false, Rest: false, NoseDown: true, FirstJoint: true, FirstJoint + 5: false, FirstFoot + 2: false, RemoteStop: false} {
		if e.Kept(s) != want {
			t.Errorf("%s: kept %v, want %v", s, e.Kept(s), want)
		}
	}
	r = h.examine(e)
	if v := named(r, &cfg); len(v) != 0 || !r.Pass(&cfg) {
		t.Errorf("%q, results %v", v, r.Results)
	}
	asked := 0
	for i := range h.acts {
		if h.acts[i].step.Group() < Remote {
			asked++
		}
	}
	if asked != 2 {
		t.Errorf("%d motions were asked for again, want 2", asked)
	}
}

// TestWithoutRemote: who works without it is not asked for it, wherever it is; who does not drive with the sticks not for them.
func TestWithoutRemote(t *testing.T) {
	cfg := testConfig()
	cfg.WithoutRemote = true
	h := newHung(7)
	h.wrong = func(s *wire.LowState) { s.Remote = [40]byte{} }
	r := h.examine(New(cfg, nil))
	if !r.Pass(&cfg) || r.Results[RemoteStop] != NotAsked || r.Results[RemoteSticks] != NotAsked {
		t.Errorf("%q, results %v", named(r, &cfg), r.Results)
	}
	h.wrong = nil
	if r = h.examine(New(cfg, nil)); !r.Pass(&cfg) || r.Results[RemoteStop] != NotAsked || r.Results[RemoteSticks] != NotAsked {
		t.Errorf("results %v", r.Results)
	}
	// Sticks that read otherwise than they are pushed are a fault, and none once they drive nothing.
	cfg.WithoutRemote = false
	h.wrong = func(s *wire.LowState) {
		var r wire.Remote
		wire.DecodeRemote(&s.Remote, &r)
		r.Ly = -r.Ly
		copy(s.Remote[:], wire.AppendRemote(nil, &r))
	}
	r = h.examine(New(cfg, nil))
	if r.Pass(&cfg) || r.Results[RemoteSticks] != Failed {
		t.Errorf("results %v", r.Results)
	}
	driven := cfg
	cfg.SticksIdle = true
	r = h.examine(New(cfg, r))
	if !r.Pass(&cfg) || r.Pass(&driven) || r.Results[RemoteSticks] != NotAsked || r.Results[RemoteStop] != Passed {
		t.Errorf("%q, results %v", named(r, &cfg), r.Results)
	}
}

// TestRemoteBytesAtRest are kept whole, with those that change.
func TestRemoteBytesAtRest(t *testing.T) {
	cfg := testConfig()
	h := newHung(8)
	n := byte(0)
	h.wrong = func(s *wire.LowState) { n++; s.Remote[30], s.Remote[31] = 0xAB, n }
	f := &h.examine(New(cfg, nil), Motions, Joints, Feet).Rest
	if f.RemoteBytes[0] != 0x55 || f.RemoteBytes[1] != 0x51 || f.RemoteBytes[30] != 0xAB || f.RemoteChanged[30] || !f.RemoteChanged[31] || f.RemoteChanged[2] {
		t.Errorf("%x %v", f.RemoteBytes, f.RemoteChanged)
	}
}

// TestSway: a robot that swings on its gantry at the start is waited for, and is not called noisy.
func TestSway(t *testing.T) {
	cfg := testConfig()
	h := newHung(9)
	h.acts = []act{{step: RollLeft, fromNs: h.nowNs, size: 1}, {step: RollLeft, fromNs: h.nowNs + actNs, size: -1}}
	r := h.examine(New(cfg, nil), Motions, Joints, Feet, Remote)
	if v := named(r, &cfg); len(v) != 0 {
		t.Errorf("%q", v)
	}
	if n := norm(turned(r.Rest.Quat, quat{math.Cos(0.2), 0, 0, math.Sin(0.2)})); n > 0.01 {
		t.Errorf("at rest it is said to hang %.3f rad off", n)
	}
}

// TestNoiseIsNoSway: what jumps from state to state is not waited for.
func TestNoiseIsNoSway(t *testing.T) {
	cfg := testConfig()
	h := newHung(14)
	h.wrong = func(s *wire.LowState) {
		for i := range s.IMU.Quaternion {
			s.IMU.Quaternion[i] += float32(0.03 * h.draw.NormFloat64())
		}
	}
	e := New(cfg, nil)
	e.Begin(Rest)
	var s wire.LowState
	states := 0
	for st := (Status{}); st.Phase != Done; states++ {
		h.state(&s)
		st = e.Add(h.nowNs, &s)
	}
	if most := int((cfg.RestSeconds + 0.5) * 500); states > most {
		t.Errorf("at rest for %d states, want at most %d", states, most)
	}
}

// TestRepeatedStates: a robot that sends each state twice, or whose states come late in bursts, is judged the same.
func TestRepeatedStates(t *testing.T) {
	cfg := testConfig()
	h := newHung(10)
	e := New(cfg, nil)
	var s, before wire.LowState
	h.state(&before)
	for step := range FirstJoint + 1 {
		e.Begin(step)
		for {
			h.state(&s)
			first := e.Add(h.nowNs-2e6, &before)
			st := e.Add(h.nowNs, &s)
			before = s
			if st.Phase == Done {
				break
			}
			if st.Phase == Asking && (st.Changed || first.Changed) && step.Group() != Automatic {
				h.ask(step, st.Part, st.Tries)
			}
		}
	}
	for step := range FirstJoint + 1 {
		if e.Record().Results[step] != Passed {
			t.Errorf("%s: %s: %q", step, e.Record().Results[step], named(e.Record(), &cfg))
		}
	}
}

// TestNoAllocation: a state costs none, in any step.
func TestNoAllocation(t *testing.T) {
	cfg := testConfig()
	h := newHung(11)
	e := New(cfg, nil)
	var s wire.LowState
	h.state(&s)
	for step := range Step(StepCount) {
		e.rec.Rest.RemotePresent, e.rec.Rest.Stuck = true, [3]bool{}
		e.rec.Rest.Foot[0].SD = 1
		e.Begin(step)
		now := h.nowNs
		if n := testing.AllocsPerRun(2500, func() {
			now += 2e6
			e.Add(now, &s)
		}); n != 0 {
			t.Errorf("%s: %v allocations a state", step, n)
		}
	}
}

// FuzzStates: no state makes a figure that a file cannot hold, and no step goes on for ever.
func FuzzStates(f *testing.F) {
	h := newHung(12)
	var s wire.LowState
	h.state(&s)
	frame, err := wire.AppendLowState(nil, &s, wire.PlainCRC)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame, uint8(2))
	f.Add(make([]byte, wire.LowStateSize), uint8(5))
	f.Fuzz(func(t *testing.T, b []byte, at uint8) {
		cfg := testConfig()
		cfg.StepSeconds, cfg.RestSeconds = 1, 0.5
		e := New(cfg, nil)
		e.rec.Rest.RemotePresent = true
		e.rec.Rest.Foot[0].SD = 1
		step := Step(int(at) % StepCount)
		if !e.Begin(step) {
			t.Fatalf("%s not begun", step)
		}
		h := newHung(13)
		var s wire.LowState
		for n := 0; ; n++ {
			h.state(&s)
			if raw := append([]byte(nil), b...); n%3 != 0 && len(raw) >= wire.LowStateSize {
				raw = raw[:wire.LowStateSize]
				raw[0], raw[1], raw[2] = wire.HeadLow0, wire.HeadLow1, wire.LevelLow
				const covered = (wire.LowStateSize/4 - 1) * 4
				binary.LittleEndian.PutUint32(raw[wire.LowStateSize-4:], wire.CRC32(raw[:covered]))
				if err := wire.DecodeLowState(raw, &s); err != nil {
					t.Fatal(err)
				}
			}
			if st := e.Add(h.nowNs, &s); st.Phase == Done {
				break
			}
			if n > 20000*2 {
				t.Fatalf("%s goes on after %d states", step, n)
			}
		}
		if _, err := json.Marshal(e.Record()); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		for _, v := range e.Record().Verdicts(nil, &cfg) {
			if v.Text() == "" {
				t.Errorf("%+v has no text", v)
			}
		}
	})
}
