package mujoco

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func loadFull(t testing.TB) *Model {
	t.Helper()
	m, err := Load(Full)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func newSim(t testing.TB) *Sim {
	t.Helper()
	s, err := loadFull(t).NewSim()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(s *Sim) State {
	var st State
	s.Read(&st)
	return st
}

// unpowered is a mode that the SDK's header does not name.
func unpowered() MotorCmd {
	var c MotorCmd
	for i := range c.Mode {
		c.Mode[i] = 1
	}
	return c
}

// inAir returns a pose whose feet cannot reach the floor.
func inAir() Pose {
	p := HomePose()
	p.Position[2] = 3
	return p
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol }

func norm(v [3]float64) float64 { return math.Sqrt(v[0]*v[0] + v[1]*v[1] + v[2]*v[2]) }

func TestStandingHoldsHome(t *testing.T) {
	s := newSim(t)
	c := Servo(HomePose().Q, 60, 5)
	must(t, s.Advance(&c, 1000))
	st := read(s)
	if st.Pos[2] < 0.27 || st.Pos[2] > 0.29 {
		t.Errorf("trunk at %.4f m, want 0.27..0.29", st.Pos[2])
	}
	if !near(st.Time, 2, 1e-9) {
		t.Errorf("time %v, want 2", st.Time)
	}
	if !near(st.Acc[2], 9.81, 0.02) || math.Hypot(st.Acc[0], st.Acc[1]) > 0.3 {
		t.Errorf("accelerometer %.3f, want upright 9.81", st.Acc)
	}
	if st.Gravity[2] > -0.999 {
		t.Errorf("gravity %.3f, want 0 0 -1", st.Gravity)
	}
	weight := 0.0
	for leg := range Legs {
		weight += st.FootForce[leg]
		if !st.Contacts[leg] {
			t.Errorf("leg %d is off the floor", leg)
		}
	}
	if !near(weight, 13.099*9.81, 1) {
		t.Errorf("feet carry %.2f N, want %.2f", weight, 13.099*9.81)
	}
	if st.BodyContacts != 0 {
		t.Errorf("%d body contacts while standing", st.BodyContacts)
	}
}

func TestFoldedRestIsStable(t *testing.T) {
	for name, c := range map[string]MotorCmd{"unpowered": unpowered(), "brake": {}} {
		s := newSim(t)
		must(t, s.Reset(FoldedPose()))
		start := read(s)
		for range 100 {
			must(t, s.Advance(&c, 50))
			st := read(s)
			if !near(st.Pos[2], start.Pos[2], 0.004) || st.Gravity[2] > -0.995 {
				t.Fatalf("%s: at %.1f s trunk at %.4f m, gravity %.3f; began at %.4f m", name, st.Time, st.Pos[2], st.Gravity, start.Pos[2])
			}
			for i := range Joints {
				if !near(st.Q[i], start.Q[i], 0.06) {
					t.Fatalf("%s: at %.1f s %s is %.3f, began at %.3f", name, st.Time, JointNames[i], st.Q[i], start.Q[i])
				}
			}
		}
		if st := read(s); norm(st.LinVelWorld) > 0.002 || st.BodyContacts == 0 {
			t.Errorf("%s: after 10 s speed %.4f m/s, %d body contacts, want at rest on the belly", name, norm(st.LinVelWorld), st.BodyContacts)
		}
	}
}

// The way of the agent's stand mode: measured, folded, home, with the gain growing at first.
func TestStandsUpFromFolded(t *testing.T) {
	s := newSim(t)
	must(t, s.Reset(FoldedPose()))
	folded, home := [Joints]float64{}, HomePose().Q
	for leg := range Legs {
		folded[3*leg+1], folded[3*leg+2] = 1.36, -2.65
	}
	smooth := func(x float64) float64 {
		x = min(1, max(0, x))
		return x * x * x * (10 + x*(6*x-15))
	}
	from := read(s).Q
	worst := 0.0
	for now := 0.0; now < 4; now += 0.002 {
		a, b := smooth(now/1.0), smooth((now-1)/1.5)
		c := Servo(home, 60*min(1, now/0.5), 5)
		for i := range Joints {
			c.Q[i] = from[i] + a*(folded[i]-from[i]) + b*(home[i]-folded[i])
		}
		must(t, s.Advance(&c, 1))
		st := read(s)
		for i := range Joints {
			worst = max(worst, math.Abs(c.Q[i]-st.Q[i]))
		}
	}
	st := read(s)
	if st.Pos[2] < 0.265 || st.Pos[2] > 0.29 || st.Gravity[2] > -0.999 || st.BodyContacts != 0 {
		t.Errorf("stands at %.4f m, gravity %.3f, %d body contacts", st.Pos[2], st.Gravity, st.BodyContacts)
	}
	if worst > 0.35 {
		t.Errorf("tracking error up to %.3f rad, the agent damps beyond 0.35", worst)
	}
}

func TestDropsAndFallsDoNotExplode(t *testing.T) {
	side := math.Sqrt(0.5)
	for _, tc := range []struct {
		name string
		z    float64
		quat [4]float64
		cmd  MotorCmd
	}{
		{"drop 0.5 m on stiff legs", 0.5 + 0.293, [4]float64{1, 0, 0, 0}, Servo(HomePose().Q, 60, 5)},
		{"drop 0.5 m limp", 0.5 + 0.293, [4]float64{1, 0, 0, 0}, unpowered()},
		{"fall on the side", 0.3, [4]float64{side, side, 0, 0}, unpowered()},
		{"fall on the back with stiff legs", 0.4, [4]float64{0, 1, 0, 0}, Servo(HomePose().Q, 60, 5)},
		{"fall on the head", 0.6, [4]float64{side, 0, side, 0}, MotorCmd{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSim(t)
			p := HomePose()
			p.Position[2], p.Quat = tc.z, tc.quat
			must(t, s.Reset(p))
			fastest, lowest := 0.0, 1.0
			for range 2500 {
				must(t, s.Advance(&tc.cmd, 2))
				st := read(s)
				fastest = max(fastest, norm(st.LinVelWorld))
				lowest = min(lowest, st.Pos[2])
			}
			st := read(s)
			if norm(st.LinVelWorld) > 0.05 || norm(st.AngVelBody) > 0.2 {
				t.Errorf("after 10 s still moving: %.3f m/s, %.3f rad/s", norm(st.LinVelWorld), norm(st.AngVelBody))
			}
			if fastest > 6 || lowest < 0.03 {
				t.Errorf("speed up to %.2f m/s, trunk down to %.3f m", fastest, lowest)
			}
		})
	}
}

func TestLimpFallMakesNoEnergy(t *testing.T) {
	s := newSim(t)
	must(t, s.Reset(inAir()))
	c := unpowered()
	must(t, s.Advance(&c, 250))
	st := read(s)
	if !near(st.LinVelWorld[2], -9.81*0.5, 0.05) || norm(st.Acc) > 0.05 {
		t.Errorf("falls at %.3f m/s with specific force %.3f, want %.3f and 0", st.LinVelWorld[2], st.Acc, -9.81*0.5)
	}
}

// Velocities and the accelerometer against differences of positions and velocities.
func TestStateIsConsistent(t *testing.T) {
	s := newSim(t)
	rng := rand.New(rand.NewPCG(1, 2))
	must(t, s.Reset(inAir()))
	must(t, s.SetVelocity([3]float64{0.5, -0.3, 0.2}, [3]float64{0.7, -1.1, 1.9}))
	c := Servo(HomePose().Q, 35, 0.5)
	const dt = 0.002
	imu := [3]float64{-0.01592, -0.06659, -0.00617}
	for range 200 {
		for i := range Joints {
			c.Q[i] += 0.01 * rng.NormFloat64()
		}
		a := read(s)
		must(t, s.Advance(&c, 1))
		b := read(s)
		for leg := range Legs {
			for k := range 3 {
				v := (b.FootPos[leg][k] - a.FootPos[leg][k]) / dt
				if !near(v, b.FootVel[leg][k], 0.05) { // the step is semi-implicit: x' = x + dt v'
					t.Fatalf("foot %d axis %d moves at %.4f m/s, state says %.4f", leg, k, v, b.FootVel[leg][k])
				}
			}
		}
		pa, pb := add(a.Pos, rotate(a.Quat, imu)), add(b.Pos, rotate(b.Quat, imu))
		want := rotate(b.Quat, b.LinVelIMU)
		for k := range 3 {
			if v := (pb[k] - pa[k]) / dt; !near(v, want[k], 0.03) {
				t.Fatalf("IMU moves at %.4f m/s on axis %d, state says %.4f", v, k, want[k])
			}
		}
		va := rotate(a.Quat, a.LinVelIMU)
		acc := rotate(b.Quat, b.Acc)
		for k := range 3 {
			f := (want[k] - va[k]) / dt
			if k == 2 {
				f += 9.81
			}
			if !near(f, acc[k], 1e-6) {
				t.Fatalf("specific force %.6f on axis %d, state says %.6f", f, k, acc[k])
			}
		}
	}
}

func add(a, b [3]float64) [3]float64 { return [3]float64{a[0] + b[0], a[1] + b[1], a[2] + b[2]} }

// rotate turns v by the unit quaternion q.
func rotate(q [4]float64, v [3]float64) [3]float64 {
	w, u := q[0], [3]float64{q[1], q[2], q[3]}
	cross := func(a, b [3]float64) [3]float64 {
		return [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
	}
	t := cross(u, v)
	tt := cross(u, t)
	return [3]float64{v[0] + 2*(w*t[0]+tt[0]), v[1] + 2*(w*t[1]+tt[1]), v[2] + 2*(w*t[2]+tt[2])}
}

func TestPushFrictionAndMass(t *testing.T) {
	slide := func(mu float64) float64 {
		s := newSim(t)
		must(t, s.SetFriction(mu))
		c := Servo(HomePose().Q, 60, 5)
		must(t, s.Advance(&c, 500))
		y := read(s).FootPos[0][1]
		must(t, s.SetPush([3]float64{0, 15, 0}, [3]float64{}))
		must(t, s.Advance(&c, 250))
		return read(s).FootPos[0][1] - y
	}
	if low, high := slide(0.05), slide(0.8); low < 0.05 || math.Abs(high) > 0.01 {
		t.Errorf("15 N for 0.5 s moves a foot %.4f m at friction 0.05 and %.4f m at 0.8", low, high)
	}

	s := newSim(t)
	must(t, s.SetTrunkMass(2))
	c := Servo(HomePose().Q, 60, 5)
	must(t, s.Advance(&c, 1500))
	st := read(s)
	if sum := st.FootForce[0] + st.FootForce[1] + st.FootForce[2] + st.FootForce[3]; !near(sum, 15.099*9.81, 1) {
		t.Errorf("with 2 kg more the feet carry %.2f N, want %.2f", sum, 15.099*9.81)
	}

	before := read(s).LinVelWorld
	must(t, s.AddVelocity([3]float64{0.1, 0.2, 0.3}))
	if after := read(s).LinVelWorld; after != add(before, [3]float64{0.1, 0.2, 0.3}) {
		t.Errorf("velocity %v after a kick, was %v", after, before)
	}
}

// A hand's torque at a joint is what the motor's would be: it moves that joint and, in free fall, the rest
// of the robot as the motor would. A force at the feet takes load off the floor.
func TestHands(t *testing.T) {
	for i := range Joints {
		byMotor, byHand := newSim(t), newSim(t)
		must(t, byMotor.Reset(inAir()))
		must(t, byHand.Reset(inAir()))
		motor, still := Servo(HomePose().Q, 0, 0), Servo(HomePose().Q, 0, 0)
		motor.Tau[i] = 1.5
		for range 50 {
			must(t, byMotor.Advance(&motor, 1))
			var h Hands
			h.Joint[i] = 1.5
			must(t, byHand.SetHands(&h))
			must(t, byHand.Advance(&still, 1))
		}
		a, b := read(byMotor), read(byHand)
		if moved := a.Q[i] - HomePose().Q[i]; moved < 0.02 {
			t.Errorf("%s: the motor moved it by %v rad", JointNames[i], moved)
		}
		for k := range Joints {
			if !near(a.Q[k], b.Q[k], 1e-6) || !near(a.Dq[k], b.Dq[k], 1e-5) {
				t.Errorf("%s: %s is at %v rad %v rad/s by motor, %v %v by hand", JointNames[i], JointNames[k], a.Q[k], a.Dq[k], b.Q[k], b.Dq[k])
			}
		}
		for k := range 3 {
			if !near(a.AngVelBody[k], b.AngVelBody[k], 1e-5) || !near(a.LinVelWorld[k], b.LinVelWorld[k], 1e-6) {
				t.Errorf("%s: the trunk turns %v by motor, %v by hand", JointNames[i], a.AngVelBody, b.AngVelBody)
			}
		}
		if b.Tau[i] != 0 {
			t.Errorf("%s: the hand's torque passes for the motor's: %v", JointNames[i], b.Tau[i])
		}
	}
	s := newSim(t)
	c := Servo(HomePose().Q, 60, 5)
	up := [3]float64{0, 0, 8}
	for range 1000 {
		must(t, s.SetHands(&Hands{Foot: [Legs][3]float64{up, up, up, up}}))
		must(t, s.Advance(&c, 1))
	}
	st := read(s)
	if sum := st.FootForce[0] + st.FootForce[1] + st.FootForce[2] + st.FootForce[3]; !near(sum, 13.099*9.81-32, 1) {
		t.Errorf("with 8 N under each foot the floor carries %.2f N, want %.2f", sum, 13.099*9.81-32)
	}
}

func TestSaveRestoreIsBitExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	a, b := newSim(t), newSim(t)
	saveAt := 20 + rng.IntN(60)
	cmds := make([]MotorCmd, 120)
	for i := range cmds {
		cmds[i] = Servo(HomePose().Q, 35, 0.5)
		for j := range Joints {
			cmds[i].Q[j] += 0.15 * rng.NormFloat64()
		}
	}
	var saved []float64
	for i := range cmds {
		if i == saveAt {
			saved = a.GetState(saved)
		}
		must(t, a.Advance(&cmds[i], 10))
	}
	must(t, b.SetState(saved))
	for i := saveAt; i < len(cmds); i++ {
		must(t, b.Advance(&cmds[i], 10))
	}
	if x, y := read(a), read(b); x != y {
		t.Errorf("restored at chunk %d the robot ends elsewhere:\n%+v\n%+v", saveAt, x, y)
	}
	// A restored robot reads as the saved one did, with the forces of its last step.
	must(t, b.SetState(a.GetState(nil)))
	if x, y := read(a), read(b); x != y {
		t.Errorf("restored robot reads\n%+v\nwant\n%+v", y, x)
	}
	for _, bad := range [][]float64{nil, saved[1:], append(saved[:0:0], append(saved[1:], math.NaN())...)} {
		before := read(b)
		if err := b.SetState(bad); err == nil || !strings.HasPrefix(err.Error(), "mujoco: state") {
			t.Errorf("state of %d numbers: %v", len(bad), err)
		}
		if read(b) != before {
			t.Error("a refused state changed the robot")
		}
	}
}

func TestBadNumbersAreRefusedByName(t *testing.T) {
	s := newSim(t)
	c := Servo(HomePose().Q, 60, 5)
	must(t, s.Advance(&c, 10))
	before := read(s)
	nan, inf := math.NaN(), math.Inf(1)
	for want, f := range map[string]func() error{
		"Q of FR_hip":             func() error { x := c; x.Q[0] = nan; return s.Advance(&x, 1) },
		"Dq of FL_thigh":          func() error { x := c; x.Dq[4] = inf; return s.Advance(&x, 1) },
		"Tau of RL_calf":          func() error { x := c; x.Tau[11] = nan; return s.Advance(&x, 1) },
		"Kp of RR_hip":            func() error { x := c; x.Kp[6] = nan; return s.Advance(&x, 1) },
		"Kd of RL_hip":            func() error { x := c; x.Kd[9] = -inf; return s.Advance(&x, 1) },
		"0 substeps":              func() error { return s.Advance(&c, 0) },
		"pose":                    func() error { p := HomePose(); p.Q[3] = nan; return s.Reset(p) },
		"zero quaternion":         func() error { return s.Reset(Pose{}) },
		"push":                    func() error { return s.SetPush([3]float64{nan}, [3]float64{}) },
		"hands on the trunk":      func() error { return s.SetHands(&Hands{Torque: [3]float64{0, nan}}) },
		"hand on FL_hip":          func() error { return s.SetHands(&Hands{Joint: [Joints]float64{3: nan}}) },
		"hand under foot 2":       func() error { return s.SetHands(&Hands{Foot: [Legs][3]float64{2: {0, inf}}}) },
		"velocity":                func() error { return s.SetVelocity([3]float64{nan}, [3]float64{}) },
		"velocity kick":           func() error { return s.AddVelocity([3]float64{inf}) },
		"Friction":                func() error { return s.SetFriction(-1) },
		"TrunkMass":               func() error { return s.SetTrunkMass(-5.5) },
		"Strength of FR_thigh":    func() error { p := s.Params(); p.Strength[1] = nan; return s.SetParams(p) },
		"SpeedMax of FR_hip is 0": func() error { p := s.Params(); p.SpeedMax[0] = 0; return s.SetParams(p) },
		"Corner":                  func() error { p := s.Params(); p.Corner = 1; return s.SetParams(p) },
		"TrunkCoM":                func() error { p := s.Params(); p.TrunkCoM[1] = nan; return s.SetParams(p) },
	} {
		if err := f(); err == nil || !strings.HasPrefix(err.Error(), "mujoco: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to name %q", err, want)
		}
		if read(s) != before {
			t.Fatalf("%s: refused, but the state changed", want)
		}
	}
}

func TestPhysicsGoneBad(t *testing.T) {
	s := newSim(t)
	must(t, s.SetVelocity([3]float64{1e11, 0, 0}, [3]float64{}))
	before := read(s)
	c := Servo(HomePose().Q, 60, 5)
	err := s.Advance(&c, 5)
	if !errors.Is(err, ErrPhysics) || !strings.Contains(err.Error(), "bad velocity") {
		t.Errorf("error %v, want ErrPhysics for the velocity", err)
	}
	if read(s) != before {
		t.Error("the state is not as before the call")
	}
	must(t, s.Reset(HomePose()))
	must(t, s.Advance(&c, 500))
	if st := read(s); !near(st.Pos[2], 0.28, 0.01) {
		t.Errorf("after a reset the robot stands at %.3f m", st.Pos[2])
	}
}

func TestNoAllocation(t *testing.T) {
	s := newSim(t)
	c := Servo(HomePose().Q, 60, 5)
	var st State
	saved := s.GetState(nil)
	hands := Hands{Joint: [Joints]float64{1}}
	if n := testing.AllocsPerRun(100, func() {
		if s.Advance(&c, 2) != nil || s.SetState(saved) != nil || s.SetPush([3]float64{1}, [3]float64{}) != nil ||
			s.SetHands(&hands) != nil ||
			s.SetFriction(0.7) != nil || s.SetFriction(0.9) != nil || s.Reset(HomePose()) != nil {
			t.Fatal("a call failed")
		}
		s.Read(&st)
		saved = s.GetState(saved)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestCloseIsIdempotent(t *testing.T) {
	m, err := Load(Full)
	must(t, err)
	s, err := m.NewSim()
	must(t, err)
	m.Close()
	m.Close()
	c := Servo(HomePose().Q, 60, 5)
	must(t, s.Advance(&c, 1)) // the model lives as long as its robots
	if _, err := m.NewSim(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a robot of a closed model: %v", err)
	}
	s.Close()
	s.Close()
	for name, err := range map[string]error{
		"Advance": s.Advance(&c, 1), "Reset": s.Reset(HomePose()), "SetParams": s.SetParams(DefaultParams()),
		"SetState": s.SetState(nil), "SetPush": s.SetPush([3]float64{}, [3]float64{}), "SetHands": s.SetHands(&Hands{}),
		"SetVelocity": s.SetVelocity([3]float64{}, [3]float64{}), "AddVelocity": s.AddVelocity([3]float64{}),
	} {
		if !errors.Is(err, errClosed) {
			t.Errorf("%s of a closed robot: %v", name, err)
		}
	}
	if read(s) != (State{}) || s.GetState(nil) != nil {
		t.Error("a closed robot was read")
	}
}

func BenchmarkAdvance(b *testing.B) {
	s := newSim(b)
	c := Servo(HomePose().Q, 60, 5)
	for b.Loop() {
		if err := s.Advance(&c, 10); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(10*b.N), "ns/step")
}
