package safety

import (
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

const period = 2 * msNs

// rig is a judge with a healthy robot in front of it; tests spoil one thing.
type rig struct {
	t      *testing.T
	j      *Judge
	s      wire.LowState
	cmd    wire.LowCmd
	now    int64
	tick   Tick
	silent bool // no states
	frozen bool // states without time
	stuck  bool // the IMU
	unsent bool // no frames are judged
	late   int64
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	cfg := DefaultConfig()
	for _, f := range change {
		f(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, j: New(cfg), now: 1e9}
	r.s.IMU.Quaternion[0] = 1
	r.s.IMU.Accelerometer[2] = 9.81
	r.s.Tick = 5000
	for i := range go1.Joints {
		r.s.Motor[i] = wire.MotorState{Mode: ModeServo, Q: go1.Home[i], Temperature: 35}
		r.cmd.Motor[i] = wire.MotorCmd{Mode: ModeServo, Q: go1.Home[i], Kp: 35, Kd: 0.5}
	}
	r.s.BMS.SOC = 80
	for i := range r.s.BMS.CellVoltage {
		r.s.BMS.CellVoltage[i] = 3900
	}
	r.remote(wire.Remote{})
	r.tick.PolicyPeriodNs = 20 * msNs
	return r
}

func (r *rig) remote(m wire.Remote) {
	m.Head = [2]byte{wire.RemoteHead0, wire.RemoteHead1}
	copy(r.s.Remote[:], wire.AppendRemote(nil, &m))
}

// walking brings the rig to mode policy with everything fresh.
func (r *rig) walking() *rig {
	r.tick.Torque, r.tick.Policy = true, true
	r.run(100)
	r.none()
	return r
}

// once is one period: a state, a tick, a frame.
func (r *rig) once() Verdict {
	r.now += period
	if !r.frozen {
		r.s.Tick += 2
	}
	if !r.stuck { // a working one is never silent
		r.s.IMU.Accelerometer[1] = 1e-4 * float32(r.s.Tick/2*37%101)
	}
	if !r.silent {
		r.j.State(r.now, &r.s)
	}
	t := r.tick
	t.NowNs, t.LateNs = r.now, r.late
	if t.PolicyOutNs == 0 {
		t.PolicyOutNs = r.now
	}
	if t.TargetSensedNs == 0 {
		t.TargetSensedNs = r.j.SensedNs()
	}
	if t.CommandNs == 0 {
		t.CommandNs = r.now
	}
	v := r.j.Tick(&t)
	if t.Torque && !r.unsent && v.Severity < Damp {
		c := r.cmd
		r.j.Frame(r.now, &c)
	}
	return r.j.Verdict()
}

func (r *rig) run(n int) (v Verdict) {
	for range n {
		v = r.once()
	}
	return v
}

func (r *rig) seconds(s float64) Verdict { return r.run(int(s * 500)) }

// none asserts that nothing was latched.
func (r *rig) none() {
	r.t.Helper()
	if v := r.j.Verdict(); v.Severity != None {
		r.t.Fatalf("latched %v by %v (joint %d), want nothing", v.Severity, v.Fault, v.Joint)
	}
}

// is asserts what is latched.
func (r *rig) is(s Severity, f Fault) {
	r.t.Helper()
	if v := r.j.Verdict(); v.Severity != s || v.Fault != f {
		r.t.Fatalf("latched %v by %v, want %v by %v", v.Severity, v.Fault, s, f)
	}
}

func (r *rig) warns(f Fault, want bool) {
	r.t.Helper()
	if got := r.j.Verdict().Warnings&(1<<f) != 0; got != want {
		r.t.Fatalf("warning %v: %v, want %v (warnings %b)", f, got, want, r.j.Verdict().Warnings)
	}
}
