package mujoco

import (
	"math"
	"testing"
)

// one advances a robot in the air by a single step and returns the joint states before it and the
// torques the motors made in it.
func one(t *testing.T, s *Sim, c MotorCmd) (before State, tau [Joints]float64) {
	t.Helper()
	before = read(s)
	must(t, s.Advance(&c, 1))
	return before, read(s).Tau
}

// swinging returns a robot in the air whose joints move.
func swinging(t *testing.T) *Sim {
	s := newSim(t)
	must(t, s.Reset(inAir()))
	c := Servo(HomePose().Q, 0, 0)
	for i := range Joints {
		c.Tau[i] = 1.5 - 0.3*float64(i)
	}
	must(t, s.Advance(&c, 20))
	return s
}

func TestServoLaw(t *testing.T) {
	s := swinging(t)
	c := Servo(HomePose().Q, 20, 0.7)
	for i := range Joints {
		c.Dq[i], c.Tau[i] = 0.1*float64(i), -0.2*float64(i)
	}
	st, tau := one(t, s, c)
	for i := range Joints {
		want := 20*(c.Q[i]-st.Q[i]) + 0.7*(c.Dq[i]-st.Dq[i]) + c.Tau[i]
		if !near(tau[i], want, 1e-9) {
			t.Errorf("%s makes %.9f N m, want %.9f", JointNames[i], tau[i], want)
		}
	}
}

// cases.md row 26: a torque command is q = PosStopF with Kp 0; Kd still acts.
func TestStopValues(t *testing.T) {
	for _, tc := range []struct {
		name       string
		q, dq      float64
		kp, kd     float64
		keepsP, kD bool
	}{
		{"torque command, Kd acts", PosStop, 0, 0, 0.5, false, true},
		{"PosStop drops the position term at any Kp", PosStop, 0, 60, 0.5, false, true},
		{"VelStop drops the velocity term", 0.2, VelStop, 10, 0.5, true, false},
		{"both: torque only", PosStop, VelStop, 60, 5, false, false},
	} {
		s := swinging(t)
		var c MotorCmd
		for i := range Joints {
			c.Mode[i], c.Q[i], c.Dq[i], c.Kp[i], c.Kd[i], c.Tau[i] = ModeServo, tc.q, tc.dq, tc.kp, tc.kd, 0.3
		}
		st, tau := one(t, s, c)
		for i := range Joints {
			want := 0.3
			if tc.keepsP {
				want += tc.kp * (tc.q - st.Q[i])
			}
			if tc.kD {
				want -= tc.kd * st.Dq[i]
			}
			if !near(tau[i], want, 1e-9) {
				t.Errorf("%s: %s makes %.6f N m, want %.6f", tc.name, JointNames[i], tau[i], want)
			}
		}
	}
	if float64(float32(PosStop)) != PosStop || float64(float32(VelStop)) != VelStop {
		t.Error("a stop value changes on its way through float32")
	}
}

func TestModes(t *testing.T) {
	p := DefaultParams()
	for mode, want := range map[byte]func(i int, dq float64) float64{
		ModeBrake: func(i int, dq float64) float64 { return -p.Brake[i] * dq },
		0x01:      func(int, float64) float64 { return 0 },
		0x08:      func(int, float64) float64 { return 0 },
		0xFF:      func(int, float64) float64 { return 0 },
	} {
		s := swinging(t)
		c := Servo(HomePose().Q, 60, 5)
		for i := range Joints {
			c.Mode[i], c.Tau[i] = mode, 5
		}
		st, tau := one(t, s, c)
		for i := range Joints {
			if !near(tau[i], want(i, st.Dq[i]), 1e-12) {
				t.Errorf("mode %#x: %s makes %.6f N m, want %.6f", mode, JointNames[i], tau[i], want(i, st.Dq[i]))
			}
		}
	}
}

func TestTorqueSaturates(t *testing.T) {
	s := newSim(t)
	must(t, s.Reset(inAir()))
	c := Servo(HomePose().Q, 1000, 0)
	for i := range Joints {
		c.Q[i] += 1 - 2*float64(i%2)
	}
	_, tau := one(t, s, c)
	for i := range Joints {
		want := pick(i%3 == 2, 35.55, 23.7) * (1 - 2*float64(i%2))
		if tau[i] != want {
			t.Errorf("%s makes %v N m, want %v", JointNames[i], tau[i], want)
		}
	}
}

func TestTorqueSpeedLine(t *testing.T) {
	// fastest swings a thigh through its range with full torque and also returns what the line
	// leaves at each speed.
	fastest := func(on bool) float64 {
		s := newSim(t)
		p := s.Params()
		p.TorqueSpeedLine = on
		must(t, s.SetParams(p))
		pose := inAir()
		pose.Q[1] = -0.6
		must(t, s.Reset(pose))
		c := Servo(pose.Q, 60, 5)
		c.Mode[1], c.Q[1], c.Kp[1], c.Kd[1], c.Tau[1] = ModeServo, PosStop, 0, 0, 30
		v := 0.0
		for range 150 {
			st, tau := one(t, s, c)
			v = max(v, st.Dq[1])
			want := 23.7
			if on && st.Dq[1] > 0 {
				want *= min(1, max(0, (30.1-st.Dq[1])/(30.1*0.5)))
			}
			if !near(tau[1], want, 1e-9) {
				t.Fatalf("line %v: %.3f N m at %.2f rad/s, want %.3f", on, tau[1], st.Dq[1], want)
			}
			if st.Q[1] > 4 {
				break
			}
		}
		return v
	}
	if with, without := fastest(true), fastest(false); with > 31 || with < 15 || without < 40 {
		t.Errorf("thigh reaches %.1f rad/s with the line, %.1f without; its speed without load is 30.1", with, without)
	}
}

func TestStrengthAndMotorFriction(t *testing.T) {
	s := swinging(t)
	p := s.Params()
	for i := range Joints {
		p.Strength[i] = 0.5
	}
	must(t, s.SetParams(p))
	c := Servo(HomePose().Q, 0, 0)
	c.Tau[4] = 10
	if _, tau := one(t, s, c); tau[4] != 5 {
		t.Errorf("half strength makes %v N m of 10", tau[4])
	}

	// Friction alone slows a spinning joint; without it the joint keeps its speed.
	slowed := func(f float64) float64 {
		s := newSim(t)
		p := s.Params()
		for i := range Joints {
			p.MotorFriction[i] = f
		}
		must(t, s.SetParams(p))
		must(t, s.Reset(inAir()))
		c := Servo(HomePose().Q, 60, 2)
		c.Kp[2], c.Kd[2], c.Tau[2] = 0, 0, 1
		must(t, s.Advance(&c, 15))
		v := read(s).Dq[2]
		c.Tau[2] = 0
		must(t, s.Advance(&c, 25))
		return read(s).Dq[2] / v
	}
	if without, with := slowed(0), slowed(0.3); with > 0.8*without || math.Abs(without) < 0.5 {
		t.Errorf("speed left after 50 ms: %.3f without friction, %.3f with 0.3 N m", without, with)
	}
}
