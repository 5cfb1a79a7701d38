package virtual_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// hung is a robot on the gantry, its legs softly damped.
func hung(t *testing.T, faults ...string) (*virtualtest.Robot, *client) {
	t.Helper()
	cfg := virtualtest.Config()
	cfg.Boot = virtual.BootHung
	for _, text := range faults {
		f, err := virtual.ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	r := virtualtest.Start(t, cfg)
	return r, newClient(t, r.Addr())
}

func TestHungRobotHangs(t *testing.T) {
	r, c := hung(t)
	first := c.step(damping())
	var s wire.LowState
	for i := range 1000 {
		s = c.step(damping())
		if i%100 == 0 && r.Status().Posture != "hung" {
			t.Errorf("it is %s", r.Status().Posture)
		}
	}
	if st := r.Status(); math.Abs(st.Pos[2]-0.8) > 0.01 || st.Tilt > 0.03 {
		t.Errorf("it hangs at %v, tilted %v rad", st.Pos, st.Tilt)
	}
	for i := range go1.Joints {
		if q := s.Motor[i].Q; math.Abs(float64(q-first.Motor[i].Q)) > 0.03 || q < go1.StopLower[i]-0.05 || q > go1.StopUpper[i]+0.05 {
			t.Errorf("joint %d goes from %v to %v rad", i, first.Motor[i].Q, q)
		}
	}
	if a := s.IMU.Accelerometer; math.Abs(float64(a[2])-9.81) > 0.5 {
		t.Errorf("it feels %v m/s2", a)
	}
	// Kp moves legs that hang and nothing else: no posture, no fall, whatever is asked for.
	for range 500 {
		s = c.step(servo(60, 5))
	}
	if math.Abs(float64(s.Motor[1].Q-go1.Home[1])) > 0.1 {
		t.Errorf("FR_thigh goes to %v, not home", s.Motor[1].Q)
	}
	r.Fault("restart@now")
	for range 10 {
		s = c.step(damping())
	}
	if st := r.Status(); s.Tick != 20 || st.Posture != "hung" || math.Abs(st.Pos[2]-0.8) > 0.01 {
		t.Errorf("after a restart: tick %d, %+v", s.Tick, st)
	}
	r.Stop()
	if sum := r.Summary(); sum.Falls != 0 || sum.Posture != "hung" || len(r.Records("stood", "fall", "walking", "lying")) != 0 {
		t.Errorf("%+v", sum)
	}
}

// What a person turns is turned for every sensor: quaternion, rpy, gyroscope and accelerometer say the same.
func TestPersonTurns(t *testing.T) {
	for axis, name := range []string{"roll", "pitch", "yaw"} {
		for _, rad := range []float64{0.4, -0.4} {
			t.Run(fmt.Sprint(name, rad), func(t *testing.T) {
				r, c := hung(t, fmt.Sprintf("turn,axis=%s,rad=%v,ms=400,stay=400@0.1", name, rad))
				before := c.step(damping())
				var there, after wire.LowState
				integral, fastest := 0., 0.
				for range 800 {
					s := c.step(damping())
					w := float64(s.IMU.Gyroscope[axis])
					if s.Tick <= 900 {
						integral += 0.002 * w
						there = s
					}
					if math.Abs(w) > math.Abs(fastest) && s.Tick < 500 {
						fastest = w
					}
					after = s
				}
				turned := float64(there.IMU.RPY[axis] - before.IMU.RPY[axis])
				if math.Abs(turned-rad) > 0.08 || math.Abs(integral-turned) > 0.03 || fastest*rad < 0 || math.Abs(fastest) < 1 {
					t.Errorf("turned %v rad, gyroscope says %v, at most %v rad/s", turned, integral, fastest)
				}
				for other := range 3 {
					if other != axis && math.Abs(float64(there.IMU.RPY[other]-before.IMU.RPY[other])) > 0.05 {
						t.Errorf("it turned about another axis too: %v, was %v", there.IMU.RPY, before.IMU.RPY)
					}
				}
				g := go1.Gravity(&there.IMU.Quaternion) // the accelerometer shows the opposite
				for i := range 3 {
					if math.Abs(float64(there.IMU.Accelerometer[i])+9.81*float64(g[i])) > 1 {
						t.Errorf("accelerometer %v, gravity by quaternion %v", there.IMU.Accelerometer, g)
					}
				}
				if back := after.IMU.RPY[axis] - before.IMU.RPY[axis]; math.Abs(float64(back)) > 0.05 {
					t.Errorf("it came back to %v rad", back)
				}
				r.Stop()
				recs := r.Records("fault")
				if len(recs) != 2 || recs[0]["person"] != true || recs[0].Tick() != 100 || recs[1].Tick() != 100+1200 || recs[1]["on"] != false {
					t.Errorf("records: %v", recs)
				}
			})
		}
	}
}

// Axes as a person at the gantry sees them: nose down lifts the tail, right side down, nose to the left.
func TestTurnIsWhatItSays(t *testing.T) {
	for name, ok := range map[string]func(m [3][3]float64) bool{
		"pitch": func(m [3][3]float64) bool { return m[2][0] < -0.3 }, // the trunk's x points down
		"roll":  func(m [3][3]float64) bool { return m[2][1] > 0.3 },  // its y, the left side, points up
		"yaw":   func(m [3][3]float64) bool { return m[1][0] > 0.3 },  // its x points to the left
	} {
		r, c := hung(t, "turn,rad=0.5,how=hold,axis="+name+"@0")
		for range 1500 {
			c.step(damping())
		}
		q := r.Status().Quat
		w, x, y, z := q[0], q[1], q[2], q[3]
		m := [3][3]float64{0: {1 - 2*(y*y+z*z), 0, 0}, 1: {2 * (x*y + w*z), 0, 0}, 2: {2 * (x*z - w*y), 2 * (y*z + w*x), 0}}
		if !ok(m) {
			t.Errorf("%s held for 3 s: quaternion %v", name, q)
		}
		r.Fault("clear@now") // the hand lets go
		for range 1500 {
			c.step(damping())
		}
		if tilt := r.Status().Tilt; tilt > 0.05 {
			t.Errorf("%s: let go, it tilts %v rad", name, tilt)
		}
	}
}

func TestPersonMovesJoints(t *testing.T) {
	for i := range go1.Joints {
		rad := 0.3
		if i%3 == 2 || i == 0 || i == 6 {
			rad = -0.3 // a hanging calf is at its end, and a hip, turned under the robot, near its own
		}
		r, c := hung(t, fmt.Sprintf("hand,joint=%d,rad=%v,ms=300@0.1", i, rad))
		before := c.step(damping())
		moved, integral := 0., 0.
		var after wire.LowState
		for range 700 {
			s := c.step(damping())
			if s.Tick <= 600 {
				integral += 0.002 * float64(s.Motor[i].Dq)
				if moved = float64(s.Motor[i].Q - before.Motor[i].Q); s.Tick == 600 {
					for k := range go1.Joints {
						if other := float64(s.Motor[k].Q - before.Motor[k].Q); k != i && math.Abs(other) > 0.06 {
							t.Errorf("joint %d: joint %d moved %v rad too", i, k, other)
						}
					}
				}
			}
			after = s
		}
		if math.Abs(moved-rad) > 0.05 || math.Abs(integral-moved) > 0.05 {
			t.Errorf("joint %d moved %v rad, its speed says %v", i, moved, integral)
		}
		if back := float64(after.Motor[i].Q - before.Motor[i].Q); math.Abs(back) > 0.06 {
			t.Errorf("joint %d came back to %v rad", i, back)
		}
		r.Stop()
	}
}

// A hand is no match for a motor that holds, and its torque is not the motor's.
func TestHandIsOnlyAHand(t *testing.T) {
	r, c := hung(t)
	for range 500 {
		c.step(servo(60, 5))
	}
	r.Fault("hand,joint=FR_thigh,rad=1,nm=10,how=hold@now+1")
	var s wire.LowState
	for range 450 {
		s = c.step(servo(60, 5))
	}
	if off := float64(s.Motor[1].Q - go1.Home[1]); off < 0.1 || off > 0.3 { // 10 N·m against 60 N·m/rad
		t.Errorf("10 N·m move the joint by %v rad", off)
	}
	if tau := s.Motor[1].TauEst; tau > -5 {
		t.Errorf("the motor holds against the hand with %v N·m", tau)
	}
}

func TestPersonPressesFeet(t *testing.T) {
	for leg, name := range go1.LegNames {
		r, c := hung(t, "press,n=60,ms=400,foot="+name+"@0.1")
		before := c.step(damping())
		var most, after [4]int16
		for range 400 {
			s := c.step(damping())
			for i, f := range s.FootForce {
				most[i] = max(most[i], f-before.FootForce[i])
				after[i] = f - before.FootForce[i]
			}
		}
		for i := range most {
			want := 0. // counts
			if i == leg {
				want = 60 * virtual.DefaultConfig().Noise.FootScale
			}
			if math.Abs(float64(most[i])-want) > 15 || math.Abs(float64(after[i])) > 15 {
				t.Errorf("%s pressed: foot %d rose by %d, then %d; want %v", name, i, most[i], after[i], want)
			}
		}
		r.Stop()
		if recs := r.Records("fault"); len(recs) != 2 || recs[1].Tick() != 500 || recs[0]["person"] != true {
			t.Errorf("records: %v", recs)
		}
	}
}

func TestNobodyTurnsARobotOnTheFloor(t *testing.T) {
	f, err := virtual.ParseFault("turn@0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := virtualtest.Config()
	cfg.Faults = []virtual.Fault{f}
	if _, err := virtual.New(cfg); err == nil || !strings.Contains(err.Error(), "turn") || !strings.Contains(err.Error(), "folded") {
		t.Errorf("at start: %v", err)
	}
	r := virtualtest.Start(t, virtualtest.Config())
	if err := r.Inject(f); err == nil || !strings.Contains(err.Error(), "turn") {
		t.Errorf("at run time: %v", err)
	}
	if err := r.Inject(virtual.Fault{Kind: "hand"}); err != nil {
		t.Errorf("a hand on a robot that lies: %v", err)
	}
}

// pair steps a sound robot and one with a fault, of one seed and under one person's hands, and shows their states side by side.
func pair(t *testing.T, fault string, n int, see func(at int, sound, hurt *wire.LowState)) {
	t.Helper()
	busy := []string{"turn,axis=roll,rad=0.3,ms=60,stay=0@0/0.13", "turn,axis=pitch,rad=0.4,ms=50,stay=0@0/0.11", "turn,axis=yaw,rad=0.5,ms=80,stay=0@0/0.17",
		"hand,joint=FR_thigh,rad=0.2,ms=50@0", "hand,joint=FL_calf,rad=-0.3,ms=70@0", "hand,joint=RL_hip,rad=0.2,ms=60@0", "press,foot=FL@0", "press,foot=RR,n=20@0"}
	_, a := hung(t, busy...)
	_, b := hung(t, append(slices.Clone(busy), fault)...)
	for i := range n {
		sound, hurt := a.step(damping()), b.step(damping())
		see(2*(i+1), &sound, &hurt)
	}
}

// Each fault of a sensor or a wire gives states that differ from a sound robot's in what the fault says, to the bit, and in nothing else.
func TestFaultsAgainstASoundRobot(t *testing.T) {
	type state = wire.LowState
	swap := func(s *state, a, b int) { s.Motor[a], s.Motor[b] = s.Motor[b], s.Motor[a] }
	mirror := func(axis int) func(*state) {
		return func(s *state) {
			s.IMU.Accelerometer[axis] *= -1
			for i := range 3 {
				if i != axis {
					s.IMU.Gyroscope[i] *= -1
					s.IMU.RPY[i] *= -1
					s.IMU.Quaternion[1+i] *= -1
				}
			}
		}
	}
	for fault, change := range map[string]func(s *state){
		"imu_quat_order":     func(s *state) { q := &s.IMU.Quaternion; *q = [4]float32{q[1], q[2], q[3], q[0]} },
		"imu_mirror,axis=x":  mirror(0),
		"imu_mirror":         mirror(1),
		"imu_mirror,axis=z":  mirror(2),
		"gyro_sign":          func(s *state) { s.IMU.Gyroscope[2] *= -1 },
		"gyro_sign,axis=x":   func(s *state) { s.IMU.Gyroscope[0] *= -1 },
		"gyro_sign,axis=all": func(s *state) { g := &s.IMU.Gyroscope; *g = [3]float32{-g[0], -g[1], -g[2]} },
		"gyro_units": func(s *state) {
			for i := range s.IMU.Gyroscope {
				s.IMU.Gyroscope[i] *= 180 / math.Pi
			}
		},
		"gyro_scale,axis=y,scale=-3":        func(s *state) { s.IMU.Gyroscope[1] *= -3 },
		"gyro_swapped":                      func(s *state) { g := &s.IMU.Gyroscope; g[0], g[1] = g[1], g[0] },
		"gyro_swapped,a=y,b=z":              func(s *state) { g := &s.IMU.Gyroscope; g[1], g[2] = g[2], g[1] },
		"acc_sign":                          func(s *state) { s.IMU.Accelerometer[2] *= -1 },
		"acc_sign,axis=x":                   func(s *state) { s.IMU.Accelerometer[0] *= -1 },
		"acc_sign,axis=all":                 func(s *state) { a := &s.IMU.Accelerometer; *a = [3]float32{-a[0], -a[1], -a[2]} },
		"acc_swapped,a=z,b=y":               func(s *state) { a := &s.IMU.Accelerometer; a[1], a[2] = a[2], a[1] },
		"imu_quat_conj":                     func(s *state) { q := &s.IMU.Quaternion; *q = [4]float32{q[0], -q[1], -q[2], -q[3]} },
		"motors_swapped":                    func(s *state) { swap(s, 1, 4) },
		"motors_swapped,a=RL_calf,b=FR_hip": func(s *state) { swap(s, 11, 0) },
		"joint_order": func(s *state) {
			swap(s, 0, 3)
			swap(s, 1, 4)
			swap(s, 2, 5)
			swap(s, 6, 9)
			swap(s, 7, 10)
			swap(s, 8, 11)
		},
		"joint_order,order=isaac": func(s *state) {
			sound := s.Motor
			for place, name := range strings.Fields("FL_hip FR_hip RL_hip RR_hip FL_thigh FR_thigh RL_thigh RR_thigh FL_calf FR_calf RL_calf RR_calf") {
				s.Motor[place] = sound[slices.Index(go1.JointNames[:], name+"_joint")]
			}
		},
		"joint_order,order=isaac_back": func(s *state) {
			sound := s.Motor
			for place, name := range strings.Fields("FL_hip FR_hip RL_hip RR_hip FL_thigh FR_thigh RL_thigh RR_thigh FL_calf FR_calf RL_calf RR_calf") {
				s.Motor[slices.Index(go1.JointNames[:], name+"_joint")] = sound[place]
			}
		},
		"joint_speed_scale,joint=FL_calf":    func(s *state) { m := &s.Motor[5]; m.Dq, m.DqRaw = -m.Dq, -m.DqRaw },
		"foot_reversed":                      func(s *state) { s.FootForce[1] *= -1 },
		"legs_swapped":                       func(s *state) { swap(s, 0, 3); swap(s, 1, 4); swap(s, 2, 5) },
		"legs_swapped,a=RL,b=FR":             func(s *state) { swap(s, 0, 9); swap(s, 1, 10); swap(s, 2, 11) },
		"joints_swapped":                     func(s *state) { swap(s, 1, 2) },
		"joints_swapped,leg=RL,a=hip,b=calf": func(s *state) { swap(s, 9, 11) },
		"joint_reversed,joint=FL_calf": func(s *state) {
			m := &s.Motor[5]
			m.Q, m.QRaw, m.Dq, m.DqRaw, m.Ddq, m.DdqRaw, m.TauEst = -m.Q, -m.QRaw, -m.Dq, -m.DqRaw, -m.Ddq, -m.DdqRaw, -m.TauEst
		},
		"feet_swapped,a=FL,b=RR": func(s *state) { f := &s.FootForce; f[1], f[2] = f[2], f[1] },
		"cells,mv=3520,spread=640": func(s *state) { // in the wire's steps of 32 mV
			s.BMS.CellVoltage = [10]uint16{3200, 3264, 3328, 3392, 3456, 3552, 3616, 3680, 3744, 3840}
		},
		"cells_missing,n=3": func(s *state) { clear(s.BMS.CellVoltage[7:]) },
	} {
		t.Run(fault, func(t *testing.T) {
			differs := false
			pair(t, fault+"@0.04+0.06", 60, func(at int, sound, hurt *state) {
				want := *sound
				if at >= 40 && at < 100 {
					change(&want)
					differs = differs || want != *sound
				}
				if *hurt != want {
					t.Fatalf("at %d ms:\n%+v\nwant\n%+v", at, *hurt, want)
				}
			})
			if !differs {
				t.Error("nothing was to be seen of it")
			}
		})
	}
}

// An IMU that is mounted turned shows vectors the other way round, and is right in itself: what it says of gravity and of turns agrees.
func TestTurnedIMU(t *testing.T) {
	type vec = [3]float32
	for fault, seen := range map[string]func(v vec) vec{ // what it makes of a vector of the body: its x, y and z axis point along ...
		"imu_turned":                  func(v vec) vec { return vec{v[1], -v[0], v[2]} }, // left, back, up
		"imu_turned,deg=180":          func(v vec) vec { return vec{-v[0], -v[1], v[2]} },
		"imu_turned,axis=x":           func(v vec) vec { return vec{v[0], v[2], -v[1]} }, // forward, up, right
		"imu_turned,axis=x,deg=-90":   func(v vec) vec { return vec{v[0], -v[2], v[1]} },
		"imu_turned,axis=y":           func(v vec) vec { return vec{-v[2], v[1], v[0]} }, // down, left, forward
		"imu_turned,axis=y,deg=-180":  func(v vec) vec { return vec{-v[0], v[1], -v[2]} },
		"imu_turned,axis=z,deg=1e-99": func(v vec) vec { return v },
	} {
		t.Run(fault, func(t *testing.T) {
			turned := float32(0)
			near := func(what string, got, want vec) {
				for i := range want {
					if d := got[i] - want[i]; !(d*d < 1e-8) {
						t.Errorf("%s %v, want %v", what, got, want)
						break
					}
				}
			}
			var first [2][4]float32
			pair(t, fault+"@0", 60, func(at int, sound, hurt *wire.LowState) {
				near("acceleration", hurt.IMU.Accelerometer, seen(sound.IMU.Accelerometer))
				near("gyroscope", hurt.IMU.Gyroscope, seen(sound.IMU.Gyroscope))
				near("gravity by the quaternion", go1.Gravity(&hurt.IMU.Quaternion), seen(go1.Gravity(&sound.IMU.Quaternion)))
				if at == 2 {
					first = [2][4]float32{sound.IMU.Quaternion, hurt.IMU.Quaternion}
				}
				by := since(first[0], sound.IMU.Quaternion)
				near("turn by the quaternion", since(first[1], hurt.IMU.Quaternion), seen(by))
				turned = max(turned, by[0], by[1], by[2])
			})
			if turned < 0.1 {
				t.Errorf("it was not turned, but for %v", turned)
			}
		})
	}
}

// since is twice the vector part of the turn from a to b, in the turned body's axes.
func since(a, b [4]float32) [3]float32 {
	return [3]float32{
		2 * (a[0]*b[1] - a[1]*b[0] - a[2]*b[3] + a[3]*b[2]),
		2 * (a[0]*b[2] - a[2]*b[0] - a[3]*b[1] + a[1]*b[3]),
		2 * (a[0]*b[3] - a[3]*b[0] - a[1]*b[2] + a[2]*b[1]),
	}
}

// A remote of another layout says something else of what a person does, whichever began first.
func TestRemoteLayouts(t *testing.T) {
	for _, tc := range []struct {
		layout, act string
		want        wire.Remote
	}{
		{"buttons_swapped", "remote_buttons", wire.Remote{Buttons: wire.ButtonR2 | wire.ButtonB}},
		{"buttons_swapped,a=A,b=B", "remote_buttons,buttons=A+B", wire.Remote{Buttons: wire.ButtonA | wire.ButtonB}},
		{"buttons_swapped,a=A,b=B", "remote_buttons,buttons=A+up", wire.Remote{Buttons: wire.ButtonB | wire.ButtonUp}},
		{"buttons_swapped,a=left,b=R1", "remote_buttons,buttons=left", wire.Remote{Buttons: wire.ButtonR1}},
		{"sticks_swapped", "remote_sticks,lx=1,ly=-0.5", wire.Remote{Rx: 1, Ly: -0.5}},
		{"sticks_swapped,a=ry,b=ly", "remote_sticks,lx=1,ly=-0.5", wire.Remote{Lx: 1, Ry: -0.5}},
		{"stick_reversed", "remote_sticks,lx=1,ly=-0.5", wire.Remote{Lx: 1, Ly: 0.5}},
		{"stick_reversed,stick=rx", "remote_sticks,rx=1", wire.Remote{Rx: -1}},
	} {
		for _, faults := range [][]string{{tc.layout + "@0", tc.act + "@0.01"}, {tc.act + "@0", tc.layout + "@0.01"}} {
			_, c := hung(t, faults...)
			var s wire.LowState
			for range 10 {
				s = c.step(damping())
			}
			tc.want.Head = [2]byte{wire.RemoteHead0, wire.RemoteHead1}
			if got := remote(&s); got != tc.want {
				t.Errorf("%q: %+v, want %+v", faults, got, tc.want)
			}
		}
	}
	_, c := hung(t, "remote_absent@0", "buttons_swapped@0", "remote_buttons@0.01")
	var s wire.LowState
	for range 10 {
		s = c.step(damping())
	}
	if s.Remote != [wire.RemoteSize]byte{} {
		t.Errorf("a remote that is not there says % X", s.Remote)
	}
}

func TestStuckSensors(t *testing.T) {
	for fault, read := range map[string]func(*wire.LowState) [10]float32{
		"imu_stuck": func(s *wire.LowState) (v [10]float32) {
			copy(v[:], s.IMU.Quaternion[:])
			copy(v[4:], s.IMU.Gyroscope[:])
			copy(v[7:], s.IMU.Accelerometer[:])
			return v
		},
		"joint_stuck,joint=FR_thigh": func(s *wire.LowState) [10]float32 { return [10]float32{s.Motor[1].Q, s.Motor[1].Dq} },
		"joint_stuck": func(s *wire.LowState) [10]float32 {
			return [10]float32{s.Motor[1].Q, s.Motor[1].Dq, s.Motor[5].Q, s.Motor[9].Q}
		},
	} {
		t.Run(fault, func(t *testing.T) {
			var first wire.LowState
			pair(t, fault+"@0.04+0.06", 60, func(at int, sound, hurt *wire.LowState) {
				on := at >= 40 && at < 100
				if at == 40 {
					first = *hurt
				}
				switch {
				case !on && *hurt != *sound:
					t.Errorf("at %d ms it is already, or still, seen", at)
				case on && read(hurt) != read(&first):
					t.Errorf("at %d ms: %v, stuck at %v", at, read(hurt), read(&first))
				case on && at > 44 && read(sound) == read(&first):
					t.Errorf("at %d ms nothing would have moved", at)
				}
			})
		})
	}
}

func TestNoisySensors(t *testing.T) {
	var gyro, acc, q, dq, other float64
	pair(t, "imu_noise,gyro=0.5,acc=2,quat=0.05@0", 500, func(_ int, sound, hurt *wire.LowState) {
		for i := range 3 {
			gyro += math.Pow(float64(hurt.IMU.Gyroscope[i]-sound.IMU.Gyroscope[i]), 2)
			acc += math.Pow(float64(hurt.IMU.Accelerometer[i]-sound.IMU.Accelerometer[i]), 2)
		}
		if n := norm(hurt); math.Abs(n-1) > 1e-5 {
			t.Fatalf("the quaternion's length is %v", n)
		}
		if a := math.Abs(float64(go1.Tilt(&hurt.IMU.Quaternion) - go1.Tilt(&sound.IMU.Quaternion))); a > 0.4 {
			t.Fatalf("tilt off by %v rad", a)
		} else {
			other += a
		}
	})
	for name, v := range map[string][2]float64{"gyro": {gyro, 0.5}, "acc": {acc, 2}} {
		if sigma := math.Sqrt(v[0] / 1500); math.Abs(sigma/v[1]-1) > 0.15 {
			t.Errorf("%s: sigma %v, want %v", name, sigma, v[1])
		}
	}
	if other/500 < 0.01 {
		t.Errorf("tilt off by %v rad on average", other/500)
	}
	pair(t, "joint_noise,joint=4,q=0.1,dq=3@0", 500, func(_ int, sound, hurt *wire.LowState) {
		q += math.Pow(float64(hurt.Motor[4].Q-sound.Motor[4].Q), 2)
		dq += math.Pow(float64(hurt.Motor[4].Dq-sound.Motor[4].Dq), 2)
		hurt.Motor[4] = sound.Motor[4]
		if *hurt != *sound {
			t.Fatal("more than that joint is noisy")
		}
	})
	if a, b := math.Sqrt(q/500), math.Sqrt(dq/500); math.Abs(a/0.1-1) > 0.15 || math.Abs(b/3-1) > 0.15 {
		t.Errorf("joint: sigma %v rad, %v rad/s", a, b)
	}
}
