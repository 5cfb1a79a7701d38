package safety

import (
	"math"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

func TestStateAge(t *testing.T) {
	r := newRig(t).walking()
	r.silent = true
	for _, c := range []struct {
		ageMs      int
		warn, hold bool
		severity   Severity
	}{
		{2, false, false, None}, {4, false, false, None}, {6, true, false, None}, {18, true, false, None},
		{20, true, true, None}, {38, true, true, None}, {40, true, true, Damp},
	} {
		for r.now < 1e9+100*period+int64(c.ageMs)*msNs {
			r.once()
		}
		r.warns(StateStale, c.warn)
		if v := r.j.Verdict(); c.severity == None && v.HoldFrame != c.hold {
			t.Fatalf("%d ms: hold %v, want %v", c.ageMs, v.HoldFrame, c.hold)
		}
		if v := r.j.Verdict(); v.Severity != c.severity {
			t.Fatalf("%d ms: %v, want %v", c.ageMs, v.Severity, c.severity)
		}
	}
	r.is(Damp, StateStale)
}

func TestStateComesBackInTime(t *testing.T) {
	r := newRig(t).walking()
	for range 1500 { // 38 ms gaps for a minute
		r.silent = true
		r.run(19)
		r.silent = false
		r.once()
	}
	r.none()
	if r.once().HoldFrame {
		t.Fatal("the frame is still held with a fresh state")
	}
}

func TestTickStuck(t *testing.T) {
	r := newRig(t).walking()
	r.frozen = true
	if v := r.run(9); v.HoldFrame || v.Severity != None {
		t.Fatalf("18 ms: hold %v, %v", v.HoldFrame, v.Severity)
	}
	if v := r.once(); !v.HoldFrame {
		t.Fatal("20 ms: the frame is not held")
	}
	r.run(9)
	r.none()
	r.once()
	r.is(Damp, TickStuck)
}

func TestStuckThenSilent(t *testing.T) {
	r := newRig(t)
	r.once()
	r.warns(StateStale, false)
	r = newRig(t)
	r.silent = true
	r.once()
	r.warns(StateStale, true) // nothing came yet
	r = newRig(t).walking()
	r.frozen = true
	r.run(5)
	r.silent = true
	r.run(14)
	r.none()
	r.once()
	r.is(Damp, StateStale)                                                    // datagrams have ceased for 30 ms
	for frozen, cause := range map[int]Fault{10: StateStale, 11: TickStuck} { // for 20 ms, for 18
		r = newRig(t).walking()
		r.frozen = true
		r.run(frozen)
		r.silent = true
		r.run(19 - frozen)
		r.none()
		r.once()
		r.is(Damp, cause)
	}
}

func TestRobotRestart(t *testing.T) {
	r := newRig(t).walking()
	r.s.Tick -= 1000
	r.once() // its clock is back by 998 ms: overtaken, not restarted
	r.none()
	r.run(18)
	r.none()
	r.once() // and if it stays there, it is stuck
	r.is(Damp, TickStuck)

	r = newRig(t).walking()
	r.s.Tick -= 1002
	r.once()
	r.is(Damp, RobotRestarted)

	r = newRig(t) // lying, that is no matter
	r.run(100)
	r.s.Tick = 10
	r.seconds(1)
	r.none()
	r.warns(RobotRestarted, false)
	r.tick.Torque = true
	r.seconds(1)
	r.none()
	r.warns(EndToEndAge, false)
}

// A state that was overtaken, or comes twice, is not taken for the present.
func TestOvertakenState(t *testing.T) {
	r := newRig(t).walking()
	old := r.s
	r.run(3)
	old.Motor[3].TauEst = float32(math.NaN())
	for range 100 {
		r.once()
		if r.j.State(r.now, &old) {
			t.Fatal("an overtaken state is news")
		}
		again := r.s
		again.IMU.Quaternion = [4]float32{}
		if r.j.State(r.now, &again) {
			t.Fatal("the same tick again is news")
		}
	}
	r.none()
	again := r.s
	copy(again.Remote[:], wire.AppendRemote(nil, &wire.Remote{Buttons: wire.ButtonL2 | wire.ButtonB}))
	r.j.State(r.now, &again)
	r.is(Cut, RemoteStop) // a stop counts wherever it comes from, with any head
}

func TestNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for name, spoil := range map[string]func(*wire.LowState){
		"q":    func(s *wire.LowState) { s.Motor[3].Q = nan },
		"dq":   func(s *wire.LowState) { s.Motor[11].Dq = inf },
		"tau":  func(s *wire.LowState) { s.Motor[0].TauEst = nan },
		"gyro": func(s *wire.LowState) { s.IMU.Gyroscope[2] = nan },
		"acc":  func(s *wire.LowState) { s.IMU.Accelerometer[0] = inf },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t).walking()
			spoil(&r.s)
			r.once()
			r.is(Damp, StateNotFinite)
		})
	}
}

func TestQuaternion(t *testing.T) {
	for _, c := range []struct {
		norm float32
		bad  bool
	}{{0, true}, {0.79, true}, {0.81, false}, {1.19, false}, {1.21, true}, {float32(math.NaN()), true}} {
		r := newRig(t).walking()
		r.s.IMU.Quaternion[0] = c.norm
		r.seconds(1)
		if c.bad {
			r.is(Damp, QuaternionBad)
		} else {
			r.none()
		}
	}
	r := newRig(t)
	r.s.IMU.Quaternion[0] = 0
	r.once()
	r.none() // without torque it is shown, not acted on
	r.warns(QuaternionBad, true)
	if !math.IsNaN(r.j.TiltRad()) {
		t.Fatalf("tilt %v of no orientation", r.j.TiltRad())
	}
}

// An IMU that repeats itself for 20 ms while anything moves, or is said to move, is stuck.
func TestIMUStuck(t *testing.T) {
	for name, move := range map[string]func(r *rig, n int){
		"a joint moves":                          func(r *rig, n int) { r.s.Motor[11].Q += 1e-5 },
		"a joint's speed is noisy":               func(r *rig, n int) { r.s.Motor[0].Dq = 1e-4 * float32(1-n%2) },
		"a moving robot's whole state is frozen": func(r *rig, n int) { r.s.Motor[5].Dq = -0.02 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t).walking()
			r.stuck = true
			for n := range 10 {
				r.none()
				r.warns(IMUStuck, false)
				move(r, n)
				r.once()
			}
			r.is(Damp, IMUStuck)
			r.warns(IMUStuck, true)
			r.stuck = false
			r.once()
			r.warns(IMUStuck, false)
			r.is(Damp, IMUStuck) // till a person clears it
		})
	}

	// One number of ten that moves is a sensor that works.
	for i := range 10 {
		r := newRig(t).walking()
		r.stuck = true
		for n := range 100 {
			r.s.Motor[11].Q += 1e-5
			imu := &r.s.IMU
			p := [10]*float32{&imu.Quaternion[0], &imu.Quaternion[1], &imu.Quaternion[2], &imu.Quaternion[3], &imu.Gyroscope[0],
				&imu.Gyroscope[1], &imu.Gyroscope[2], &imu.Accelerometer[0], &imu.Accelerometer[1], &imu.Accelerometer[2]}[i]
			if n%10 == 0 { // nine in a row repeat it
				*p += 1e-3 * float32(1-n/10%2*2)
			}
			r.once()
		}
		r.none()
	}

	// A robot simulated without noise stands perfectly still, for as long as it likes; what moves is counted all the same.
	r := newRig(t).walking()
	r.stuck = true
	r.run(2) // the first state of both is news
	r.seconds(60)
	r.none()
	for n := range 10 {
		r.none()
		r.s.Motor[7].Q += 1e-5
		r.once()
		r.run(n) // still again
	}
	r.is(Damp, IMUStuck)

	// So far apart they are in no row.
	for _, c := range []struct {
		still int // states between
		stuck bool
	}{{49, true}, {50, false}} {
		r := newRig(t).walking()
		r.stuck = true
		r.run(2)
		for range 10 {
			r.none()
			r.s.Motor[7].Q += 1e-5
			r.run(1 + c.still)
		}
		if got := r.j.Verdict().Fault == IMUStuck; got != c.stuck {
			t.Errorf("%d still states between two that repeat the IMU: stuck %v", c.still, got)
		}
		for range 10 { // a row of their own
			r.s.Motor[7].Q += 1e-5
			r.once()
		}
		r.is(Damp, IMUStuck)
	}

	// Without torque it is shown; torque is taken at once.
	r = newRig(t)
	r.stuck = true
	for range 20 {
		r.s.Motor[7].Q += 1e-5
		r.once()
	}
	r.none()
	r.warns(IMUStuck, true)
	r.run(100) // till it changes
	r.s.Motor[7].Q += 1e-5
	r.once()
	r.warns(IMUStuck, true)
	r.tick.Torque = true
	r.run(2)
	r.is(Damp, IMUStuck)
}

// TestIMUStuckWithAllElse: an IMU that has shown noise while the joints stood is stuck also where the whole state is. What moves smoothly, or
// moves joints, has shown none.
func TestIMUStuckWithAllElse(t *testing.T) {
	const acc, gyro = float32(accNoise / 2), float32(gyroNoise / 2)
	still := func(r *rig) *rig { // its IMU says nothing by now
		r.stuck = true
		r.s.IMU.Accelerometer[1] = 0
		r.run(3)
		return r
	}
	var beat int
	// states are n in which a reading goes to and fro by x, so that each but the first is off the line of those before by twice that.
	states := func(r *rig, of *float32, x float32, n int) {
		for range n {
			beat++
			*of += x * float32(beat%2*2-1)
			r.once()
		}
	}
	for name, c := range map[string]struct {
		show  func(r *rig)
		noisy bool
	}{
		"an accelerometer with noise": {func(r *rig) { states(r, &r.s.IMU.Accelerometer[1], acc, 51) }, true},
		"one too few":                 {func(r *rig) { states(r, &r.s.IMU.Accelerometer[1], acc, 50) }, false},
		"too little":                  {func(r *rig) { states(r, &r.s.IMU.Accelerometer[1], acc*0.999, 200) }, false},
		"a gyroscope with noise":      {func(r *rig) { states(r, &r.s.IMU.Gyroscope[2], gyro, 51) }, true},
		"of the gyroscope too little": {func(r *rig) { states(r, &r.s.IMU.Gyroscope[2], gyro*0.999, 200) }, false},
		"the x axis":                  {func(r *rig) { states(r, &r.s.IMU.Accelerometer[0], acc, 51) }, true},
		"of the x axis too little":    {func(r *rig) { states(r, &r.s.IMU.Accelerometer[0], acc*0.999, 200) }, false},
		"a gyroscope's":               {func(r *rig) { states(r, &r.s.IMU.Gyroscope[0], gyro, 51) }, true},
		"a break": {func(r *rig) {
			states(r, &r.s.IMU.Accelerometer[1], acc, 40)
			r.once()
			states(r, &r.s.IMU.Accelerometer[1], acc, 40)
		}, false},
		"joints that turn": {func(r *rig) {
			r.s.Motor[3].Dq = 2 * stillSpeed
			states(r, &r.s.IMU.Accelerometer[1], acc, 200)
			r.s.Motor[3].Dq = 0
		}, false},
		"joints that turn in between": {func(r *rig) {
			states(r, &r.s.IMU.Accelerometer[1], acc, 26)
			r.s.Motor[3].Dq = -2 * stillSpeed
			states(r, &r.s.IMU.Accelerometer[1], acc, 5)
			r.s.Motor[3].Dq = 0.9 * stillSpeed
			states(r, &r.s.IMU.Accelerometer[1], acc, 25)
		}, true},
		"a smooth motion": {func(r *rig) {
			for range 200 {
				r.s.IMU.Accelerometer[1] += 0.01
				r.s.IMU.Gyroscope[0] += 0.01
				r.once()
			}
		}, false},
		"a robot that was restarted since": {func(r *rig) {
			states(r, &r.s.IMU.Accelerometer[1], acc, 100)
			r.s.Tick -= 5000
			r.once()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := still(newRig(t))
			beat = 0
			c.show(r)
			r.run(11)
			r.warns(IMUStuck, c.noisy)
			if !c.noisy {
				r.seconds(60)
				r.warns(IMUStuck, false)
			}
			states(r, &r.s.IMU.Accelerometer[2], acc, 1)
			r.warns(IMUStuck, false)
			// And under torque.
			r.tick.Torque = true
			for range 9 {
				r.once()
				r.none()
			}
			if r.once(); c.noisy {
				r.is(Damp, IMUStuck)
			} else {
				r.none()
			}
		})
	}
}

func (r *rig) roll(rad float64) {
	s, c := math.Sincos(rad / 2)
	r.s.IMU.Quaternion = [4]float32{float32(c), float32(s), 0, 0}
}

func TestTilt(t *testing.T) {
	for _, c := range []struct {
		rad  float64
		want Severity
	}{{0.59, None}, {-0.59, None}, {0.61, StandHold}, {-0.99, StandHold}, {1.01, Damp}, {3.1, Damp}} {
		r := newRig(t).walking()
		r.roll(c.rad)
		r.once()
		if v := r.j.Verdict(); v.Severity != c.want || (c.want != None && v.Fault != Tilt) {
			t.Fatalf("%v rad: %v by %v, want %v", c.rad, v.Severity, v.Fault, c.want)
		}
		if got := r.j.TiltRad(); math.Abs(got-math.Abs(c.rad)) > 1e-4 {
			t.Fatalf("%v rad: tilt %v", c.rad, got)
		}
	}
}

func TestPolicyAge(t *testing.T) {
	r := newRig(t).walking()
	r.tick.PolicyOutNs = r.now
	r.run(19) // 38 ms
	r.none()
	r.once() // 40 ms: two periods
	r.is(StandHold, PolicyStale)

	r = newRig(t).walking()
	r.tick.PolicyOutNs = r.now
	r.run(25)
	r.tick.Policy, r.tick.PolicyLost = false, true // the loop has let it go
	r.run(24)
	r.is(StandHold, PolicyStale)
	r.once() // 100 ms: five
	r.is(Damp, PolicyStale)

	r = newRig(t).walking() // let go for another reason, it may be silent
	r.tick.PolicyOutNs = r.now
	r.tick.Policy = false
	r.seconds(10)
	r.none()
}

func TestEndToEndAge(t *testing.T) {
	r := newRig(t).walking()
	r.tick.TargetSensedNs = r.now
	r.run(14) // 28 ms
	r.warns(EndToEndAge, false)
	r.once()
	r.warns(EndToEndAge, true)
	r.run(34) // 98 ms
	r.none()
	r.once()
	r.is(Damp, EndToEndAge)
}

// A queue that grows on the way is seen though states arrive all the time.
func TestDelayGrows(t *testing.T) {
	r := newRig(t).walking()
	sent := r.s.Tick
	for i := 0; r.j.Verdict().Severity == None && i < 5000; i++ {
		sent += 2
		r.frozen = true
		r.s.Tick = sent - uint32(i/20)*2 // 2 ms more every 40 ms
		r.once()
	}
	r.is(Damp, EndToEndAge)
	if lag := sent - r.s.Tick; lag < 96 || lag > 110 {
		t.Fatalf("noticed at %d ms of delay", lag)
	}
}

// Five frames are compared, those before the state was sensed, however long it
// was on its way.
func TestFramesInForce(t *testing.T) {
	for lag := range 5 { // periods
		r := newRig(t).walking()
		r.s.Tick -= uint32(2 * lag)
		for range lag + 1 { // its way grows long, once
			r.once()
		}
		r.run(300)
		r.none()
		for k := range go1.Joints {
			r.cmd.Motor[k].Q = go1.Home[k] + 0.5 // 17.5 N*m, and the motors give none
		}
		r.once()
		n := 0
		for ; r.j.Verdict().Severity == None && n < 100; n++ {
			r.once()
		}
		// A state sensed before the new frames were sent still answers the old
		// ones. The allowance for drifting clocks takes a late state for a hair
		// newer than it is: one frame.
		want := lag + 4 + 20
		if lag > 0 {
			want--
		}
		if n != want {
			t.Errorf("states %d ms on their way: tripped after %d frames, want %d", 2*lag, n, want)
		}
		r.is(Damp, AnotherSender)
	}
}

// Of a state that was long on its way nobody knows which frames it answers.
func TestLongWayIsNotCompared(t *testing.T) {
	r := newRig(t).walking()
	r.s.Tick -= 12
	for range 7 {
		r.once()
	}
	for k := range go1.Joints {
		r.s.Motor[k].TauEst = 20
	}
	r.seconds(0.5)
	r.none()
}

// Torques that answer older frames, because the state was long on its way, are
// still answers to ours: what is wrong is the age.
func TestDelayIsNoOtherSender(t *testing.T) {
	r := newRig(t).walking()
	type past struct {
		tick uint32
		tau  [go1.Joints]float32
	}
	var asked []past
	sent := r.s.Tick
	for i := 0; r.j.Verdict().Severity == None && i < 20000; i++ {
		sent += 2
		var p past
		p.tick = sent
		for k := range go1.Joints { // a new target each 20 ms, 17 N*m apart
			r.cmd.Motor[k].Q = go1.Home[k] + float32((i/10+k)%2)*0.5
			p.tau[k] = 35 * (r.cmd.Motor[k].Q - go1.Home[k])
		}
		asked = append(asked, p)
		lag := uint32(i/100) * 2 // 10 ms a second
		r.frozen = true
		r.s.Tick = sent - lag
		for _, p := range asked {
			if p.tick == r.s.Tick-2 {
				for k := range go1.Joints {
					r.s.Motor[k].TauEst = p.tau[k]
				}
			}
		}
		r.once()
	}
	r.is(Damp, EndToEndAge)
}

// Two quartz clocks differ: that is no growing delay.
func TestClocksDrift(t *testing.T) {
	for _, ppm := range []float64{-1000, -150, 150, 1000} {
		r := newRig(t).walking()
		ms := float64(r.s.Tick)
		for range 150000 { // 5 minutes: 300 ms apart
			r.frozen = true
			ms += 2 * (1 + ppm/1e6)
			r.s.Tick = uint32(ms)
			r.once()
		}
		r.none()
		r.warns(EndToEndAge, false)
	}
}

// What was learnt of the way's delay does not outlive a person's look: a pause of
// the robot's clock must not stop it again and again.
func TestDelayIsLearntAnew(t *testing.T) {
	r := newRig(t).walking()
	r.now += 150 * msNs // its clock stood still, and we with it
	r.seconds(1)
	r.is(Damp, EndToEndAge)
	r.tick.Torque, r.tick.Policy = false, false
	r.once()
	r.j.Clear()
	r.once()
	r.walking()
	r.seconds(10)
	r.none()
	r.warns(EndToEndAge, false)
}

// After 49 days the robot's clock begins at 0 again.
func TestTickWraps(t *testing.T) {
	r := newRig(t)
	r.s.Tick = math.MaxUint32 - 1000
	r.walking()
	r.seconds(5)
	if r.s.Tick > 10000 {
		t.Fatalf("tick %d: it did not wrap", r.s.Tick)
	}
	r.none()
	r.warns(EndToEndAge, false)
}

func TestJitterIsNoDelay(t *testing.T) {
	r := newRig(t).walking()
	for i := range 30000 {
		r.frozen = true
		r.s.Tick += 2
		r.now += int64(i%7) * 1e5 // up to 0.6 ms late
		r.once()
		r.now -= int64(i%7) * 1e5
	}
	r.none()
	r.warns(EndToEndAge, false)
}

func TestJointSpeed(t *testing.T) {
	for joint, limit := range map[int]float32{0: 28, 4: 28, 8: 19, 11: 19} {
		for _, sign := range []float32{1, -1} {
			r := newRig(t).walking()
			r.s.Motor[joint].Dq = sign * limit * 0.79
			r.once()
			r.warns(JointSpeed, false)
			r.s.Motor[joint].Dq = sign * limit * 0.81
			r.seconds(1)
			r.warns(JointSpeed, true)
			r.s.Motor[joint].Dq = sign * limit // the limit itself is allowed
			r.seconds(60)
			r.none()
			for range 100 { // four in a row, again and again
				r.s.Motor[joint].Dq = sign * (limit + 0.1)
				r.run(4)
				r.s.Motor[joint].Dq = 0
				r.once()
			}
			r.none()
			r.s.Motor[joint].Dq = sign * (limit + 0.1)
			r.run(5)
			r.is(Damp, JointSpeed)
			if v := r.j.Verdict(); v.Joint != joint {
				t.Fatalf("joint %d named, want %d", v.Joint, joint)
			}
		}
	}
}

// power makes the sum of |tau dq| w watts, with torques that our frames explain.
func (r *rig) power(w float32) {
	for i := range 2 {
		m := &r.s.Motor[3*i]
		m.Dq, m.TauEst = 20, w/40
		r.cmd.Motor[3*i] = wire.MotorCmd{Mode: ModeServo, Tau: w / 40, Q: m.Q}
	}
}

func TestPower(t *testing.T) {
	r := newRig(t).walking()
	r.power(560)
	r.once()
	r.warns(Power, false)
	r.power(560 + 1)
	r.once()
	r.warns(Power, true)
	r.power(700) // the limit itself is allowed
	r.seconds(60)
	r.none()
	for range 1000 { // five above, five below: the count goes up and down
		r.power(701)
		r.run(5)
		r.power(0)
		r.run(5)
	}
	r.none()
	r.power(701)
	r.run(5)
	r.none()
	r.once()
	r.is(Damp, Power)
	// two above for each one below fills it
	r = newRig(t).walking()
	n := 0
	for ; r.j.Verdict().Severity == None && n < 100; n++ {
		r.power(701)
		r.run(2)
		if r.j.Verdict().Severity == None {
			r.power(0)
			r.once()
		}
	}
	r.is(Damp, Power)
	if n != 5 {
		t.Fatalf("tripped in round %d, want 5", n)
	}
}

func TestMotorMode(t *testing.T) {
	r := newRig(t).walking()
	for range 100 {
		r.s.Motor[7].Mode = 0
		r.run(4)
		r.s.Motor[7].Mode = ModeServo
		r.once()
	}
	r.none()
	for _, joint := range []int{0, 7, 11} {
		r = newRig(t).walking()
		r.s.Motor[joint].Mode = 0
		r.run(5)
		r.is(Damp, MotorModeDropped)
		if v := r.j.Verdict(); v.Joint != joint {
			t.Fatalf("joint %d named, want %d", v.Joint, joint)
		}
	}

	r = newRig(t).walking()
	r.s.Motor[2].Mode = ModeOverheat
	r.once()
	r.is(Damp, MotorOverheatMode)

	// Just after torque begins, motors may still tell the mode before.
	r = newRig(t)
	r.run(10)
	r.tick.Torque = true
	for i := range go1.Joints {
		r.s.Motor[i].Mode = 0
	}
	r.run(25) // 50 ms after the first frame they count
	r.none()
	r.run(4)
	r.none()
	r.once()
	r.is(Damp, MotorModeDropped)
}

func TestTemperature(t *testing.T) {
	for _, c := range []struct {
		c    int8
		warn bool
		half bool
		want Severity
	}{
		{64, false, false, None}, {65, true, false, None}, {74, true, false, None}, {75, true, true, None},
		{84, true, true, None}, {85, true, true, Sit}, {94, true, true, Sit}, {95, true, true, Damp}, {127, true, true, Damp},
	} {
		r := newRig(t).walking()
		r.s.Motor[5].Temperature = c.c
		r.run(1000) // 2 s, less the first sample's own period
		r.none()
		r.warns(MotorHot, false)
		r.once()
		v := r.j.Verdict()
		if v.Severity != c.want || v.HalveCommands != c.half {
			t.Fatalf("%d C: %v, halved %v; want %v, %v", c.c, v.Severity, v.HalveCommands, c.want, c.half)
		}
		r.warns(MotorHot, c.warn)
		if c.want != None && (v.Fault != MotorHot || v.Joint != 5) {
			t.Fatalf("%d C: %v of joint %d", c.c, v.Fault, v.Joint)
		}
	}
	both := newRig(t).walking() // the first of several is named
	both.s.Motor[4].Temperature, both.s.Motor[8].Temperature = 96, 96
	both.seconds(3)
	both.is(Damp, MotorHot)
	if j := both.j.Verdict().Joint; j != 4 {
		t.Fatalf("joint %d named", j)
	}
	r := newRig(t).walking()
	for range 30 { // not 2 s in a row
		r.s.Motor[5].Temperature = 120
		r.seconds(1.9)
		r.s.Motor[5].Temperature = 40
		r.once()
	}
	r.none()
}

func TestTemperatureUnknown(t *testing.T) {
	r := newRig(t)
	r.s.Motor[9].Temperature = 0
	r.run(1000)
	r.warns(MotorTempUnknown, false)
	r.once()
	r.warns(MotorTempUnknown, true)
	r.s.Motor[9].Temperature = 30
	r.once()
	r.warns(MotorTempUnknown, false)
	r.s.Motor[9].Temperature = 0 // a cold day
	r.once()
	r.warns(MotorTempUnknown, false)
}

func TestBattery(t *testing.T) {
	for _, c := range []struct {
		soc  uint8
		warn bool
		want Severity
		low  bool
	}{{21, false, None, false}, {20, true, None, false}, {11, true, None, false}, {10, true, Sit, true}, {0, true, Sit, true}} {
		r := newRig(t).walking()
		r.s.BMS.SOC = c.soc
		r.seconds(1)
		r.none()
		r.warns(BatteryLow, c.warn)
		r.once()
		if v := r.j.Verdict(); v.Severity != c.want {
			t.Fatalf("%d %%: %v, want %v", c.soc, v.Severity, c.want)
		}
		if r.j.BatteryTooLow() != c.low {
			t.Fatalf("%d %%: too low to stand: %v", c.soc, !c.low)
		}
	}
	r := newRig(t).walking()
	r.s.BMS.SOC = 0
	r.s.BMS.CellVoltage = [10]uint16{}
	r.seconds(60)
	r.none() // a percentage without cells means nothing
	r.warns(BatteryUnknown, true)
	for mv, plausible := range map[uint16]bool{2500: false, 2501: true, 4499: true, 4500: false} {
		r.s.BMS.CellVoltage[4] = mv
		r.once()
		r.warns(BatteryUnknown, !plausible)
	}
	r = newRig(t).walking() // low for less than a second, again and again
	for range 60 {
		r.s.BMS.SOC = 5
		r.seconds(0.9)
		r.s.BMS.SOC = 50
		r.once()
	}
	r.none()
}

func TestRemoteAbsent(t *testing.T) {
	r := newRig(t).walking()
	r.s.Remote = [40]byte{}
	r.run(499)
	r.none()
	if !r.j.RemotePresent(r.now) {
		t.Fatal("absent before a second is over")
	}
	r.once()
	r.is(Sit, RemoteAbsent)
	if r.j.RemotePresent(r.now) {
		t.Fatal("present after a second of silence")
	}

	r = newRig(t).walking() // bytes, but no head
	r.s.Remote[0] = 0
	r.seconds(1)
	r.is(Sit, RemoteAbsent)

	r = newRig(t, func(c *Config) { c.WithoutRemote = true })
	r.s.Remote = [40]byte{}
	r.tick.Torque, r.tick.Policy = true, true
	r.seconds(60)
	r.none()
	r.warns(RemoteAbsent, true)

	r = newRig(t) // never there
	r.s.Remote = [40]byte{}
	r.tick.Torque = true
	r.run(500)
	r.none()
	r.once()
	r.is(Sit, RemoteAbsent)
}

func TestRemoteStop(t *testing.T) {
	for _, torque := range []bool{true, false} {
		r := newRig(t)
		r.tick.Torque = torque
		r.run(10)
		for _, b := range []uint16{wire.ButtonL2, wire.ButtonB, wire.ButtonL1 | wire.ButtonB, wire.ButtonL2 | wire.ButtonA} {
			r.remote(wire.Remote{Buttons: b})
			r.once()
			r.none()
		}
		r.remote(wire.Remote{Buttons: wire.ButtonL2 | wire.ButtonB})
		r.once()
		r.is(Cut, RemoteStop)
		r.remote(wire.Remote{})
		r.seconds(10)
		r.is(Cut, RemoteStop) // latched
	}
}

func TestCommandAge(t *testing.T) {
	r := newRig(t).walking()
	r.tick.CommandNs = r.now
	r.run(124)
	r.warns(CommandStale, false)
	r.once()
	r.warns(CommandStale, true)
	r.run(5000 - 125 - 1)
	r.none()
	r.once()
	r.is(StandHold, CommandStale)
	for _, c := range []struct {
		ms   int64
		want float32
	}{{0, 1}, {250, 1}, {300, 0.8}, {375, 0.5}, {499, 0.004}, {500, 0}, {100000, 0}} {
		if got := r.j.CommandScale(c.ms * msNs); math.Abs(float64(got-c.want)) > 1e-6 {
			t.Fatalf("%d ms: scale %v, want %v", c.ms, got, c.want)
		}
	}
}

func TestLoopLate(t *testing.T) {
	r := newRig(t).walking()
	r.late = 20*msNs - 1
	r.seconds(60)
	r.none()
	r.late++
	r.once()
	r.is(Damp, LoopLate)
}

// Row 27 of the cases: a loop whose 99th percentile is 4 ms late is warned of, with or without torque.
func TestLoopJitter(t *testing.T) {
	for _, c := range []struct {
		lateNs int64
		every  int // ticks
		warns  bool
	}{{4 * msNs, 99, true}, {4 * msNs, 101, false}, {4*msNs - 1, 1, false}, {19 * msNs, 1, true}, {4 * msNs, 50, true}} {
		for _, torque := range []bool{true, false} {
			r := newRig(t).walking()
			r.tick.Torque, r.tick.Policy = torque, torque
			for range 60 * 500 / c.every {
				r.late = c.lateNs
				r.once()
				r.late = 0
				r.run(c.every - 1)
			}
			r.late = c.lateNs
			r.once()
			r.none()
			r.warns(LoopLate, c.warns)
		}
	}
	// Five late ticks on end are enough, four are not; it is over when their share is.
	r := newRig(t).walking()
	r.late = 10 * msNs
	r.run(4)
	r.warns(LoopLate, false)
	r.once()
	r.warns(LoopLate, true)
	r.late = 0
	r.run(99)
	r.warns(LoopLate, true)
	r.once()
	r.warns(LoopLate, false)
	r.late = 10 * msNs
	r.run(1000)
	r.late = 0
	r.run(599)
	r.warns(LoopLate, true)
	r.once()
	r.warns(LoopLate, false)
}

func TestAnotherSender(t *testing.T) {
	spoil := func(r *rig, joints int, nm float32) {
		for i := range joints {
			r.s.Motor[i].TauEst = nm
		}
	}
	for _, c := range []struct {
		joints int
		nm     float32
		trip   bool
	}{{3, 6.1, true}, {3, -6.1, true}, {3, 6, false}, {3, -6, false}, {2, 20, false}, {12, 20, true}} {
		r := newRig(t).walking()
		spoil(r, c.joints, c.nm)
		r.run(19)
		r.none()
		if r.once(); c.trip {
			r.is(Damp, AnotherSender)
			continue
		}
		r.seconds(60)
		r.none()
	}
	// Two senders alternate: every other state, or one in four, answers theirs.
	for _, c := range []struct {
		theirs, ours int
		trip         bool
	}{{1, 1, true}, {1, 3, true}, {1, 4, false}, {2, 8, false}, {19, 76, false}, {19, 75, true}} {
		r := newRig(t).walking()
		for range 1000 {
			spoil(r, 12, 20)
			r.run(c.theirs)
			spoil(r, 12, 0)
			r.run(c.ours)
		}
		if got := r.j.Verdict().Fault == AnotherSender; got != c.trip {
			t.Errorf("%d of theirs to %d of ours: %v", c.theirs, c.ours, r.j.Verdict().Fault)
		}
	}
	var r *rig
	// Motors still answering one of the last five frames are ours.
	r = newRig(t).walking()
	for i := range 1000 {
		for k := range go1.Joints {
			r.cmd.Motor[k].Q = go1.Home[k] + float32(i%4)*0.1
			r.s.Motor[k].TauEst = 35 * 0.3
		}
		r.once()
	}
	r.none()
	// Just after torque begins nothing is compared.
	r = newRig(t)
	r.run(10)
	r.tick.Torque = true
	spoil(r, 12, 20)
	r.run(25 + 19) // 50 ms after the first frame they count
	r.none()
	r.once()
	r.is(Damp, AnotherSender)
	// Without five frames there is nothing to compare with.
	for frames, trip := range map[int]bool{0: false, 4: false, 5: true} {
		r = newRig(t)
		r.run(10)
		r.tick.Torque = true
		r.run(frames)
		r.unsent = true
		r.run(60)
		spoil(r, 12, 20)
		r.run(19)
		r.none()
		if r.once(); trip {
			r.is(Damp, AnotherSender)
		} else {
			r.none()
		}
	}
	// A slow motor gives what it is asked for.
	r = newRig(t).walking()
	for k := range go1.Joints {
		r.s.Motor[k].Dq = 5
		r.cmd.Motor[k] = wire.MotorCmd{Mode: ModeServo, Tau: 15, Q: go1.Home[k]}
		r.s.Motor[k].TauEst = 1
	}
	r.run(60)
	r.is(Damp, AnotherSender)
	// A fast motor gives less than it is asked for.
	r = newRig(t).walking()
	for k := range go1.Joints {
		r.s.Motor[k].Dq = 12
		r.cmd.Motor[k] = wire.MotorCmd{Mode: ModeServo, Tau: 15, Q: go1.Home[k]}
		r.s.Motor[k].TauEst = 1
	}
	r.seconds(10)
	r.none()
}

func TestMostSevereWins(t *testing.T) {
	r := newRig(t).walking()
	r.roll(0.7)
	r.once()
	r.is(StandHold, Tilt)
	r.j.Raise(r.now, Warn, OperatorSettle, -1)
	r.is(StandHold, Tilt) // never lowers
	r.j.Raise(r.now, Sit, OperatorSettle, -1)
	r.is(Sit, OperatorSettle)
	r.roll(1.2)
	r.once()
	r.is(Damp, Tilt)
	r.j.Raise(r.now, Damp, LoopLate, -1)
	r.is(Damp, Tilt) // the first cause stays
	r.remote(wire.Remote{Buttons: wire.ButtonL2 | wire.ButtonB})
	r.once()
	r.is(Cut, RemoteStop)
	r.remote(wire.Remote{})
	r.roll(0)
	r.seconds(5)
	r.is(Cut, RemoteStop)
	r.tick.Torque = false
	r.once()
	r.is(Cut, RemoteStop)
	r.j.Clear()
	r.none()
	if v := r.j.Verdict(); v.SinceNs != 0 || v.Joint != -1 {
		t.Fatalf("after Clear: %+v", v)
	}
	r.once()
	r.none()
}

func TestWithoutTorqueNothingActs(t *testing.T) {
	r := newRig(t)
	r.run(10)
	r.roll(2)
	r.s.BMS.SOC = 1
	r.s.Motor[3].Temperature = 120
	r.s.Motor[4].Dq = 40
	r.s.Motor[5].Mode = ModeOverheat
	r.seconds(5)
	r.none()
	for _, f := range []Fault{Tilt, BatteryLow, MotorHot, JointSpeed, MotorOverheatMode} {
		r.warns(f, true)
	}
	r.silent = true
	r.seconds(1)
	r.none()
	r.warns(StateStale, true)
	// and counts from before do not carry over into torque
	r = newRig(t)
	r.s.Motor[4].Dq = 40
	r.run(50)
	r.s.Motor[4].Dq = 0
	r.tick.Torque = true
	r.run(2)
	r.none()
}

func TestNoAllocation(t *testing.T) {
	r := newRig(t).walking()
	if n := testing.AllocsPerRun(500, func() { r.once() }); n != 0 {
		t.Fatalf("%v allocations a tick", n)
	}
	r.roll(2)
	if n := testing.AllocsPerRun(500, func() { r.once() }); n != 0 {
		t.Fatalf("%v allocations a tick while tripping", n)
	}
}

func BenchmarkTick(b *testing.B) {
	r := newRig(&testing.T{})
	r.tick.Torque, r.tick.Policy = true, true
	b.ReportAllocs()
	for b.Loop() {
		r.once()
	}
}
