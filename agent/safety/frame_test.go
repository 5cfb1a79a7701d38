package safety

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// judged gives what becomes of one joint's command.
func (r *rig) judged(joint int, m wire.MotorCmd) (wire.MotorCmd, bool) {
	c := r.cmd
	for i := range go1.Joints { // the others ask for nothing
		c.Motor[i] = wire.MotorCmd{Mode: ModeServo, Q: r.s.Motor[i].Q}
	}
	c.Motor[joint] = m
	ok := r.j.Frame(r.now, &c)
	return c.Motor[joint], ok
}

func torqueOf(m *wire.MotorCmd, s *wire.MotorState) float64 {
	return float64(m.Kp)*(float64(m.Q)-float64(s.Q)) + float64(m.Kd)*(float64(m.Dq)-float64(s.Dq)) + float64(m.Tau)
}

func TestTargetLimits(t *testing.T) {
	for joint := range go1.Joints {
		lo, hi := go1.TargetLower[joint], go1.TargetUpper[joint]
		for _, c := range []struct {
			q, want float32
			refused bool
		}{
			{lo + 0.01, lo + 0.01, false}, {hi - 0.01, hi - 0.01, false},
			{lo - 0.01, lo, false}, {hi + 0.01, hi, false},
			{lo - 0.49, lo, false}, {hi + 0.49, hi, false},
			{lo - 0.51, 0, true}, {hi + 0.51, 0, true},
			{2.146e9, 0, true}, // the maker's PosStopF is no target
		} {
			r := newRig(t).walking()
			r.s.Motor[joint].Q = min(max(c.q, lo), hi) // near, so that torque is no matter
			r.once()
			m, ok := r.judged(joint, wire.MotorCmd{Mode: ModeServo, Q: c.q, Kp: 20})
			if ok == c.refused {
				t.Fatalf("%s %v: accepted %v", go1.JointNames[joint], c.q, ok)
			}
			if !ok {
				r.is(Damp, TargetRefused)
				if r.j.Verdict().Joint != joint || r.j.Counters().Refused != 1 {
					t.Fatalf("refusal names joint %d, counted %d", r.j.Verdict().Joint, r.j.Counters().Refused)
				}
				continue
			}
			if m.Q != c.want {
				t.Fatalf("%s %v became %v, want %v", go1.JointNames[joint], c.q, m.Q, c.want)
			}
			clamped := uint64(0)
			if c.q != c.want {
				clamped = 1
			}
			if n := r.j.Counters().Clamped; n != clamped {
				t.Fatalf("%v: counted %d", c.q, n)
			}
			r.none()
		}
	}
}

// Half a radian outside is still clamped, where a float32 can say it exactly.
func TestTargetAtTheEdgeOfReason(t *testing.T) {
	for joint, q := range map[int]float32{2: go1.TargetLower[2] - 0.5, 1: go1.TargetUpper[1] + 0.5} {
		r := newRig(t).walking()
		if _, ok := r.judged(joint, wire.MotorCmd{Mode: ModeServo, Q: q, Kp: 5}); !ok {
			t.Errorf("joint %d: %v refused", joint, q)
		}
	}
}

// Without stiffness a target angle means nothing: it is neither refused nor
// limited nor counted.
func TestTargetWithoutStiffness(t *testing.T) {
	r := newRig(t).walking()
	m, ok := r.judged(4, wire.MotorCmd{Mode: ModeServo, Q: 99, Kd: 3})
	if !ok || m.Q != 99 || r.j.Counters() != (Counters{}) {
		t.Fatalf("%v %+v %+v", ok, m, r.j.Counters())
	}
}

func TestRefusedNumbers(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, sign := range []float32{1, -1} {
		edge := wire.MotorCmd{Q: 0.9, Kp: 200, Kd: 20, Dq: sign * 100, Tau: sign * 127}
		if _, ok := newRig(t).walking().judged(4, edge); !ok {
			t.Fatal("the largest numbers in reason are refused")
		}
	}
	for name, m := range map[string]wire.MotorCmd{
		"q":    {Q: nan, Kp: 20},
		"q0":   {Q: nan},
		"dq":   {Dq: inf},
		"tau":  {Tau: nan},
		"kp":   {Kp: inf},
		"kd":   {Kd: nan},
		"kp-":  {Kp: -1},
		"kd-":  {Kd: -0.1},
		"kp+":  {Kp: 200.1},
		"kd+":  {Kd: 20.1},
		"dq+":  {Dq: 100.1},
		"dq-":  {Dq: -16000}, // the maker's VelStopF
		"tau+": {Tau: 127.1},
		"tau-": {Tau: -127.1},
	} {
		r := newRig(t).walking()
		if _, ok := r.judged(4, m); ok {
			t.Fatalf("%s accepted", name)
		}
		r.is(Damp, TargetRefused)
	}
}

// A joint measured outside its command limits may be led inwards from there,
// never further out and never out again.
func TestTargetsStartOutside(t *testing.T) {
	const calf = 2
	lo := go1.TargetLower[calf]
	r := newRig(t)
	r.s.Motor[calf].Q = lo - 0.08
	r.run(5)
	r.cmd.Motor[calf] = wire.MotorCmd{Mode: ModeServo, Q: lo - 0.08, Kp: 30}
	r.tick.Torque = true
	r.once()
	r.none()
	for _, c := range []struct{ q, want float32 }{
		{lo - 0.10, lo - 0.08}, // not further out
		{lo - 0.05, lo - 0.05},
		{lo - 0.07, lo - 0.05}, // not out again
		{lo + 0.10, lo + 0.10},
		{lo - 0.03, lo}, // inside now: the limit holds
	} {
		m, ok := r.judged(calf, wire.MotorCmd{Mode: ModeServo, Q: c.q, Kp: 30})
		if !ok || math.Abs(float64(m.Q-c.want)) > 1e-6 {
			t.Fatalf("target %v became %v (%v), want %v", c.q, m.Q, ok, c.want)
		}
	}
	// The same beyond the upper limit.
	const hip = 0
	hi := go1.TargetUpper[hip]
	r = newRig(t)
	r.s.Motor[hip].Q = hi + 0.05
	r.run(5)
	r.cmd.Motor[hip] = wire.MotorCmd{Mode: ModeServo, Q: hi + 0.05, Kp: 10}
	r.tick.Torque = true
	r.once()
	for _, c := range []struct{ q, want float32 }{{hi + 0.2, hi + 0.05}, {hi + 0.02, hi + 0.02}, {hi + 0.04, hi + 0.02}, {0, 0}, {hi + 0.01, hi}} {
		m, ok := r.judged(hip, wire.MotorCmd{Mode: ModeServo, Q: c.q, Kp: 10})
		if !ok || math.Abs(float64(m.Q-c.want)) > 1e-6 {
			t.Fatalf("target %v became %v (%v), want %v", c.q, m.Q, ok, c.want)
		}
	}
}

func TestTorqueCap(t *testing.T) {
	for joint := range go1.Joints {
		limit := float64(go1.TorqueMax[joint])
		for _, sign := range []float32{1, -1} {
			r := newRig(t).walking()
			r.s.Motor[joint].Q = go1.Home[joint]
			r.once()
			s := &r.s.Motor[joint]
			just := s.Q + sign*float32(0.99*limit/60)
			if m, ok := r.judged(joint, wire.MotorCmd{Mode: ModeServo, Q: just, Kp: 60}); !ok || m.Q != just || r.j.Counters().Capped != 0 {
				t.Fatalf("joint %d: %v below the cap was changed to %v", joint, just, m.Q)
			}
			m, ok := r.judged(joint, wire.MotorCmd{Mode: ModeServo, Q: s.Q + sign*float32(1.01*limit/60), Kp: 60})
			if got := torqueOf(&m, s); !ok || math.Abs(got-float64(sign)*limit) > 1e-3 {
				t.Fatalf("joint %d: capped to %v, want %v", joint, got, float64(sign)*limit)
			}
			if m.Kp != 60 || r.j.Counters().Capped != 1 {
				t.Fatalf("joint %d: kp %v, counted %d", joint, m.Kp, r.j.Counters().Capped)
			}
			// Without a spring: by tau and Kd.
			m, _ = r.judged(joint, wire.MotorCmd{Mode: ModeServo, Q: s.Q, Tau: sign * 60})
			if got := torqueOf(&m, s); math.Abs(got-float64(sign)*limit) > 1e-3 {
				t.Fatalf("joint %d: tau capped to %v", joint, got)
			}
			m, _ = r.judged(joint, wire.MotorCmd{Mode: ModeServo, Q: s.Q, Kd: 10, Dq: sign * 10})
			if got := torqueOf(&m, s); math.Abs(got-float64(sign)*limit) > 1e-3 {
				t.Fatalf("joint %d: damping capped to %v", joint, got)
			}
			r.none() // limiting is no fault
			r.once()
			r.warns(TorqueCapped, true)
		}
	}
}

// What is taken away to keep the torque is taken from the target angle first,
// then from damping and feed-forward alike, and from the stiffness last.
func TestTorqueCapOrder(t *testing.T) {
	const thigh = 4
	for _, sign := range []float32{1, -1} {
		r := newRig(t).walking()
		s := &r.s.Motor[thigh]
		s.Q, s.Dq = 1, sign*3
		r.once()
		m, _ := r.judged(thigh, wire.MotorCmd{Mode: ModeServo, Q: 1 + sign*0.9, Dq: sign, Tau: sign * 2, Kp: 40, Kd: 2})
		if got := torqueOf(&m, s); math.Abs(got-float64(sign)*23.7) > 1e-4 || m.Kp != 40 || m.Kd != 2 || m.Tau != sign*2 || m.Dq != sign {
			t.Fatalf("by the angle: %v N*m, %+v", got, m)
		}
		// The angle is at its limit, and damping with feed-forward asks for too much.
		s.Q, s.Dq = 2.9, -9
		if sign < 0 {
			s.Q, s.Dq = -0.6, 9
		}
		r.once()
		q := go1.TargetUpper[thigh]
		if sign < 0 {
			q = go1.TargetLower[thigh]
		}
		m, _ = r.judged(thigh, wire.MotorCmd{Mode: ModeServo, Q: q, Tau: sign * 8, Kp: 2, Kd: 4})
		if got := torqueOf(&m, s); math.Abs(got-float64(sign)*23.7) > 1e-4 {
			t.Fatalf("by damping: %v N*m, %+v", got, m)
		}
		if m.Kp != 2 || math.Abs(float64(m.Kd*2-sign*m.Tau)) > 1e-5 || m.Kd >= 4 || m.Kd < 1 {
			t.Fatalf("by damping: %+v", m)
		}
		// A joint pushed far beyond its limits: the spring alone is too strong.
		s.Q, s.Dq = 4.4, 0
		if sign < 0 {
			s.Q = -1.6
		}
		r.once()
		m, _ = r.judged(thigh, wire.MotorCmd{Mode: ModeServo, Q: q, Tau: -sign * 3, Kp: 100, Kd: 1})
		if got := torqueOf(&m, s); math.Abs(got+float64(sign)*23.7) > 1e-3 || m.Kd != 0 || m.Tau != 0 || m.Q != q {
			t.Fatalf("by stiffness: %v N*m, %+v", got, m)
		}
	}
}

// A limited target is worth a warning for a second.
func TestClampedWarns(t *testing.T) {
	r := newRig(t).walking()
	r.judged(0, wire.MotorCmd{Mode: ModeServo, Q: go1.TargetUpper[0] + 0.1, Kp: 1})
	r.once()
	r.warns(TargetClamped, true)
	r.run(498)
	r.warns(TargetClamped, true)
	r.once()
	r.warns(TargetClamped, false)
}

// Row 17 of the cases: a first target 0.9 rad away with kp 40 asks for 36 N*m.
func TestFirstTargetFarAway(t *testing.T) {
	r := newRig(t).walking()
	m, ok := r.judged(2, wire.MotorCmd{Mode: ModeServo, Q: r.s.Motor[2].Q + 0.9, Kp: 40})
	if got := torqueOf(&m, &r.s.Motor[2]); !ok || got > 35.55+1e-3 {
		t.Fatalf("%v N*m", got)
	}
}

// Whatever is asked for, what leaves is finite, inside its limits and within the
// motor's torque, or nothing leaves.
func TestFrameAlwaysInside(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	wild := func(scale float64) float32 {
		switch rnd.IntN(40) {
		case 0:
			return float32(math.NaN())
		case 1:
			return float32(math.Inf(1))
		case 2:
			return math.MaxFloat32
		}
		return float32(rnd.NormFloat64() * scale)
	}
	passed := 0
	for range 20000 {
		r := newRig(t)
		for i := range go1.Joints {
			r.s.Motor[i].Q = go1.StopLower[i] + rnd.Float32()*(go1.StopUpper[i]-go1.StopLower[i])
			r.s.Motor[i].Dq = float32(rnd.NormFloat64() * 10)
		}
		r.run(1)
		r.tick.Torque, r.unsent = true, true
		r.once()
		c := r.cmd
		for i := range go1.Joints {
			c.Motor[i] = wire.MotorCmd{Mode: ModeServo, Q: r.s.Motor[i].Q + wild(0.3)/8, Dq: wild(3), Tau: wild(20), Kp: abs(wild(60)), Kd: abs(wild(5))}
			if rnd.IntN(4) == 0 {
				c.Motor[i].Kp = 0
			}
		}
		if !r.j.Frame(r.now, &c) {
			r.is(Damp, TargetRefused)
			continue
		}
		passed++
		for i := range go1.Joints {
			m := &c.Motor[i]
			got := torqueOf(m, &r.s.Motor[i])
			if !(math.Abs(got) <= float64(go1.TorqueMax[i])*(1+1e-4)+1e-3) {
				t.Fatalf("joint %d: %v N*m from %+v at %+v", i, got, *m, r.s.Motor[i])
			}
			lo, hi := min(go1.TargetLower[i], r.s.Motor[i].Q), max(go1.TargetUpper[i], r.s.Motor[i].Q)
			if m.Kp > 0 && !(m.Q >= lo-1e-6 && m.Q <= hi+1e-6) {
				t.Fatalf("joint %d: target %v outside %v..%v", i, m.Q, lo, hi)
			}
		}
	}
	if passed < 100 {
		t.Fatalf("only %d of the wild frames were passable: the test sees nothing", passed)
	}
}

func abs(x float32) float32 { return float32(math.Abs(float64(x))) }

// The cap holds for the frame as the motor reads it: on the wire Kd has steps of 1/16, one of which is more than 1 N·m at speed.
func TestTorqueCapOnTheWire(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	capped := uint64(0)
	for range 5000 {
		joint := random.IntN(go1.Joints)
		r := newRig(t)
		r.s.Motor[joint].Dq = float32(random.Float64()*36 - 18)
		r.run(3)
		r.tick.Torque, r.tick.Policy = true, true
		r.once()
		var c wire.LowCmd
		c.Init()
		c.Motor = r.cmd.Motor
		c.Motor[joint] = wire.MotorCmd{Mode: ModeServo, Q: go1.Home[joint] + float32(random.Float64()*0.8-0.4),
			Kp: float32(random.Float64() * 100), Kd: float32(random.Float64() * 6), Tau: float32(random.IntN(2)) * float32(random.Float64()*20-10)}
		if !r.j.Frame(r.now, &c) {
			t.Fatalf("refused: %+v", c.Motor[joint])
		}
		frame, err := wire.AppendLowCmd(nil, &c, wire.PlainCRC)
		if err != nil {
			t.Fatal(err)
		}
		var read wire.LowCmd
		if _, err := wire.DecodeLowCmd(frame, &read); err != nil {
			t.Fatal(err)
		}
		const step = 1. / 256 // of the wire's torque, where the cap scales tau itself
		if tau := torqueOf(&read.Motor[joint], &r.s.Motor[joint]); math.Abs(tau) > float64(go1.TorqueMax[joint])+step {
			t.Fatalf("%s asks for %.2f N·m of %.2f at %.1f rad/s: %+v", go1.JointNames[joint], tau, go1.TorqueMax[joint], r.s.Motor[joint].Dq, read.Motor[joint])
		}
		capped += r.j.Counters().Capped
	}
	if capped < 500 {
		t.Errorf("only %d frames were capped", capped)
	}
}
