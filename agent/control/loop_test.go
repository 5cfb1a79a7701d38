package control

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

var update = flag.Bool("update", false, "write the golden files")

func TestIdleSendsNothing(t *testing.T) {
	r := newRig(t, linktest.Config{Sport: true})
	for range 500 {
		r.tick()
	}
	if n := len(r.robot.Frames()); n != 0 {
		t.Fatalf("%d frames were sent in mode idle", n)
	}
	if _, limp := r.robot.Limp(); limp {
		t.Fatal("the robot went limp")
	}
	for _, m := range []Mode{Damp, Stand, Sit} {
		r.refused(r.mode(m), NotArmed)
	}
	r.must(r.ask(func(ctx context.Context) error { return r.l.EStop(ctx, true) }))
	r.must(r.ask(func(ctx context.Context) error { return r.l.EStop(ctx, false) }))
	r.ticks(10)
	if n := len(r.robot.Frames()); n != 0 {
		t.Fatalf("%d frames were sent by an emergency stop in mode idle", n)
	}
}

func TestArmAsksForSportMode(t *testing.T) {
	asked := 0
	boom := errors.New("sport mode is on")
	r := newRig(t, linktest.Config{}, func(_ *Config, p *Parts) {
		p.SportOff = func(context.Context) error {
			if asked++; asked == 1 {
				return boom
			}
			return nil
		}
	})
	if err := r.ask(r.l.Arm); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	r.ticks(5)
	r.in(Idle, PhaseNone)
	r.must(r.ask(r.l.Arm))
	r.in(Listen, PhaseNone)
	r.tick()
	r.refused(r.ask(r.l.Arm), AlreadyArmed)
}

// The damping frame is what stops a robot: it may not change by accident.
func TestDampingFrameGolden(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.l.mode = Listen
	r.l.send(r.clock.now, r.clock.now, false) // before any state
	before := hex.EncodeToString(r.l.frame)
	r.armedStates()
	r.l.state.Motor[3].Q = float32(math.NaN())
	r.l.state.Motor[4].Q = float32(math.Inf(1))
	r.l.send(r.clock.now, r.clock.now, false)
	after := hex.EncodeToString(r.l.frame)
	got := "before any state\n" + before + "\nfolded, joints 3 and 4 not finite\n" + after + "\n"
	const file = "testdata/damping.hex"
	if *update {
		r.must(os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	r.must(err)
	if got != string(want) {
		t.Fatalf("the damping frame is\n%s\nwant\n%s", got, want)
	}
	var c wire.LowCmd
	if _, err := wire.DecodeLowCmd(r.l.frame, &c); err != nil {
		t.Fatal(err)
	}
	for i, m := range c.Motor[:go1.Joints] {
		q := go1.Folded[i]
		if i == 3 || i == 4 {
			q = 0
		}
		if m != (wire.MotorCmd{Mode: 0x0A, Q: q, Kd: 3}) {
			t.Fatalf("joint %d: %+v", i, m)
		}
	}
	if c.BMSOff != 0 {
		t.Fatal("bms.off is set")
	}
}

func (r *rig) armedStates() {
	for i := range go1.Joints {
		r.l.state.Motor[i] = wire.MotorState{Mode: safety.ModeServo, Q: go1.Folded[i]}
	}
	r.l.have = true
}

func TestStandUpAndSit(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.armed()
	for _, f := range r.robot.Frames() {
		if f.Class != linktest.Damping {
			t.Fatalf("frame %d in listen is %v", f.Number, f.Class)
		}
	}
	r.must(r.mode(Stand))
	var last wire.LowCmd
	var torque [go1.Joints]float64
	first := true
	for range 1400 {
		r.tick()
		f, _ := r.robot.LastFrame()
		c := f.Cmd()
		for i := range go1.Joints {
			m, s := &c.Motor[i], &r.l.state.Motor[i]
			tau := float64(m.Kp)*float64(m.Q-s.Q) - float64(m.Kd)*float64(s.Dq)
			if first && m.Kp > 0.5 {
				t.Fatalf("joint %d begins with kp %v", i, m.Kp)
			}
			if !first && math.Abs(float64(m.Q-last.Motor[i].Q)) > 0.01 {
				t.Fatalf("joint %d: target steps by %v rad in a tick", i, m.Q-last.Motor[i].Q)
			}
			torque[i] = tau
		}
		last, first = c, false
	}
	r.in(Stand, PhaseReady)
	for i := range go1.Joints {
		if m := last.Motor[i]; m.Q != go1.Home[i] || m.Kp != 60 || m.Kd != 5 {
			t.Fatalf("standing, joint %d is told %+v", i, m)
		}
	}
	r.refused(r.mode(Stand), NotNamed)
	r.must(r.mode(Sit))
	r.in(Sit, PhaseLower)
	r.refused(r.mode(Policy), NotNamed)
	r.ticks(760)
	r.in(Damp, PhaseNone)
	f, _ := r.robot.LastFrame()
	if f.Class != linktest.Damping {
		t.Fatalf("lying, it sends %v", f.Class)
	}
	r.must(r.mode(Stand)) // and up again
}

func TestStandFromHome(t *testing.T) {
	home := go1.Home
	r := newRig(t, linktest.Config{Pose: &home})
	r.armed()
	r.must(r.mode(Stand))
	r.in(Stand, PhaseRise)
	r.ticks(760)
	r.in(Stand, PhaseReady)
}

func TestStandRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*wire.LowState)
		want  Reason
		joint int
	}{
		"tilted": {func(s *wire.LowState) {
			s.IMU.Quaternion = [4]float32{float32(math.Cos(0.155)), float32(math.Sin(0.155)), 0, 0}
		}, NotUpright, -1},
		"turning":    {func(s *wire.LowState) { s.IMU.Gyroscope[2] = 0.31 }, Turning, -1},
		"motor dead": {func(s *wire.LowState) { s.Motor[7].Mode = 0 }, JointNotAlive, 7},
		"encoder":    {func(s *wire.LowState) { s.Motor[2].Q = -3.2 }, JointNotAlive, 2},
		"not folded": {func(s *wire.LowState) { s.Motor[4].Q = 1.0 }, NotFolded, 4},
		"hip out":    {func(s *wire.LowState) { s.Motor[3].Q = 0.55 }, NotFolded, 3},
		"no remote":  {func(s *wire.LowState) { s.Remote = [40]byte{} }, NoRemote, -1},
		"battery":    {func(s *wire.LowState) { s.BMS.SOC = 10 }, BatteryTooLow, -1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, linktest.Config{})
			r.robot.OnState(c.spoil)
			r.armed()
			r.ticks(600)
			err := r.mode(Stand)
			r.refused(err, c.want)
			var no *Refusal
			errors.As(err, &no)
			if no.Joint != c.joint || strings.Contains(no.Error(), "%!") {
				t.Fatalf("%+v: %v", no, no)
			}
			r.in(Listen, PhaseNone)
			r.robot.OnState(nil)
			r.ticks(10)
			r.must(r.mode(Stand))
		})
	}
}

// Row 19 of the cases, first half: no torque before ten good states.
func TestNoTorqueBeforeStates(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.robot.Mute(true)
	r.must(r.ask(r.l.Arm))
	r.clock.now += 1e9
	r.due += 1e9
	r.tick()
	r.refused(r.mode(Stand), FewStates)
	r.robot.Mute(false)
	for r.l.states < 9 {
		r.tick()
	}
	answer := request{want: wantStand, answer: Refusal{Joint: -1}}
	if got := r.l.apply(r.clock.now, &answer); got != FewStates {
		t.Fatalf("after 9 states: %s", reasonTexts[got])
	}
	r.tick()
	r.must(r.mode(Stand))
	if n := r.robot.Count(linktest.Torque); n > 20 {
		t.Fatalf("%d torque frames", n)
	}
}

// Entering policy mode moves no torque by more than 1 N*m a joint.
func TestPolicyEntryIsContinuous(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.standing()
	r.drive(policyFunc(func(_, a []float32) {
		for i := range a {
			a[i] = 1
		}
	}))
	predicted := func() (tau [go1.Joints]float64) {
		for i := range go1.Joints {
			m, s := &r.l.cmd.Motor[i], &r.l.state.Motor[i]
			tau[i] = float64(m.Kp)*float64(m.Q-s.Q) + float64(m.Kd)*float64(m.Dq-s.Dq) + float64(m.Tau)
		}
		return tau
	}
	before := predicted()
	answer := request{want: wantPolicy, answer: Refusal{Joint: -1}}
	if got := r.l.apply(r.clock.now, &answer); got != Accepted {
		t.Fatal(reasonTexts[got])
	}
	r.in(Policy, PhaseBlend)
	for tick := range 150 {
		r.tick()
		now := predicted()
		for i := range now {
			if d := math.Abs(now[i] - before[i]); d > 1 {
				t.Fatalf("tick %d: torque of joint %d steps by %.2f N*m", tick, i, d)
			}
		}
		before = now
	}
	r.ticks(10)
	r.in(Policy, PhaseWalk)
	for i := range go1.Joints {
		m := &r.l.cmd.Motor[i]
		if !near32(m.Q, go1.Home[i]+0.25, 1e-6) || m.Kp != 35 || m.Kd != 0.5 {
			t.Fatalf("joint %d is told %+v", i, *m)
		}
	}
}

func TestPolicyRefused(t *testing.T) {
	r := newRig(t, linktest.Config{}, func(_ *Config, p *Parts) { p.Spec = nil })
	r.standing()
	r.refused(r.mode(Policy), NoPolicy)
	if _, err := r.l.Env(); err == nil {
		t.Fatal("an Env without a policy")
	}

	gate := errors.New("observation 3 is 38.8 standard deviations away")
	r = newRig(t, linktest.Config{}, func(_ *Config, p *Parts) {
		p.Gate = func(q *go1.Reading) error {
			if q.Gravity[2] > -0.99 || q.Q[2] > -1.5 {
				t.Errorf("the gate saw %+v", q)
			}
			return gate
		}
	})
	r.armed()
	r.refused(r.mode(Policy), NotReady)
	r.must(r.mode(Stand))
	r.ticks(1300)
	if err := r.mode(Policy); !errors.Is(err, gate) {
		t.Fatal(err)
	}
	r.in(Stand, PhaseReady)
}

// Row 8 of the cases: commands stop at full speed.
func TestCommandRunsOut(t *testing.T) {
	var vx atomic.Uint32
	r := newRig(t, linktest.Config{})
	r.walking(policyFunc(func(o, a []float32) {
		clear(a)
		vx.Store(math.Float32bits(o[len(o)-3]))
	}))
	seen := func() float32 { return math.Float32frombits(vx.Load()) }
	for range 60 { // at 20 Hz
		r.must(r.l.Command([3]float32{1, 0, 0}, r.l.NowNs()+500e6))
		r.ticks(25)
	}
	if seen() != 1 {
		t.Fatalf("the policy is told %v m/s", seen())
	}
	start := r.clock.now - 25*PeriodNs
	at := func(ms int64) float32 {
		for r.clock.now < start+ms*1e6 {
			r.tick()
		}
		return r.l.followed[0]
	}
	for _, c := range []struct {
		ms   int64
		want float32
	}{{240, 1}, {250, 1}, {375, 0.5}, {500, 0}} {
		if got := at(c.ms); !near32(got, c.want, 0.02) {
			t.Fatalf("%d ms after the last command: %v m/s, want %v", c.ms, got, c.want)
		}
	}
	at(9990)
	r.in(Policy, PhaseWalk) // it keeps standing under the policy
	at(10010)
	r.in(Stand, PhaseHold)
	at(19900)
	r.in(Stand, PhaseHold)
	at(20020)
	if r.l.mode != Sit {
		t.Fatalf("after 20 s: %v", r.l.mode)
	}
	at(25000)
	r.in(Damp, PhaseNone)
	r.refused(r.mode(Stand), Latched)
	r.must(r.mode(Damp))
	r.must(r.mode(Stand))
}

func TestCommandEndsWhenItSays(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	for range 30 {
		r.must(r.l.Command([3]float32{1, 0, 0}, r.l.NowNs()+60e6))
		r.ticks(25)
	}
	end := r.clock.now + 10e6
	for r.clock.now < end+250e6 {
		r.tick()
		if now := r.clock.now; now <= end && r.l.followed[0] != 1 {
			t.Fatalf("%v m/s before its end", r.l.followed[0])
		}
	}
	if r.l.followed[0] > 0.01 {
		t.Fatalf("%v m/s 250 ms after its end", r.l.followed[0])
	}
}

func TestCommandRefused(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.standing()
	now := r.l.NowNs()
	r.refused(r.l.Command([3]float32{0.5, 0, 0}, now+1e9), NotWalking)
	r.drive(still)
	r.must(r.mode(Policy))
	r.ticks(10)
	now = r.l.NowNs()
	var out *CommandError
	nan := float32(math.NaN())
	for field, v := range map[string][3]float32{"vx": {1.6, 0, 0}, "vy": {0, -0.51, 0}, "wz": {0, 0, nan}} {
		if err := r.l.Command(v, now+1e9); !errors.As(err, &out) || out.Field != field {
			t.Fatalf("%v: %v", v, err)
		}
	}
	if err := r.l.Command([3]float32{}, now); !errors.Is(err, ErrExpired) {
		t.Fatal(err)
	}
	if err := r.l.Command([3]float32{}, now+2e9+1); !errors.Is(err, ErrTooDistant) {
		t.Fatal(err)
	}
	r.must(r.l.Command([3]float32{0.5, 0, 0}, now+1e9))
	for _, at := range []int64{now + 1e9, now + 5e8} { // again, and one that was overtaken
		if err := r.l.Command([3]float32{1, 0, 0}, at); !errors.Is(err, ErrOlder) {
			t.Fatal(err)
		}
	}
	r.ticks(5)
	if r.l.asked != [3]float32{0.5, 0, 0} {
		t.Fatalf("asked %v", r.l.asked)
	}
}

// A command from before does not move the robot when the policy comes back.
func TestOldCommandIsForgotten(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	r.must(r.l.Command([3]float32{1, 0, 0}, r.l.NowNs()+2e9))
	r.must(r.mode(Damp))
	home := go1.Home
	r.robot.SetPose(home)
	r.ticks(5)
	r.must(r.mode(Stand))
	for r.l.phase != PhaseReady {
		r.l.phaseNs -= 1e9 // stands up in no time, so that the command has not run out
		r.tick()
	}
	r.must(r.mode(Policy))
	r.ticks(100)
	r.in(Policy, PhaseBlend)
	if r.l.asked != [3]float32{} || r.l.followed != [3]float32{} {
		t.Fatalf("it follows a command from before: %v", r.l.asked)
	}
}

func TestRemoteDrives(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	var m atomic.Pointer[wire.Remote]
	m.Store(&wire.Remote{})
	r.robot.OnState(func(s *wire.LowState) { s.Remote = remoteBytes(*m.Load()) })
	r.must(r.l.Command([3]float32{0.2, 0, 0}, r.l.NowNs()+2e9))
	m.Store(&wire.Remote{Ly: 0.5, Lx: -1, Rx: 1})
	r.ticks(400)
	if want := [3]float32{0.5, 0.4, -1}; r.l.source != SourceRemote || r.l.followed != want {
		t.Fatalf("%v %v, want %v", r.l.source, r.l.followed, want)
	}
	m.Store(&wire.Remote{Ly: float32(math.NaN()), Lx: float32(math.Inf(1)), Rx: 30})
	r.ticks(600)
	if r.l.followed != [3]float32{0, 0, -1} {
		t.Fatalf("sticks that are no numbers: %v", r.l.followed)
	}
	m.Store(&wire.Remote{Ly: 0.07}) // in the dead zone
	r.ticks(450)
	if r.l.followed != [3]float32{} || r.l.source != SourceRemote {
		t.Fatalf("let go: %v from %v", r.l.followed, r.l.source)
	}
	r.ticks(100)
	if r.l.source == SourceRemote {
		t.Fatal("the remote still has the robot")
	}
	r.in(Policy, PhaseWalk)
}

// L2+B reaches the motors two ticks after the state that carries it, at most.
func TestRemoteStopInTwoTicks(t *testing.T) {
	for _, m := range []Mode{Listen, Stand, Policy, Sit} {
		r := newRig(t, linktest.Config{})
		switch m {
		case Listen:
			r.armed()
		case Stand:
			r.armed()
			r.must(r.mode(Stand))
			r.ticks(100)
		default:
			r.walking(still)
			if m == Sit {
				r.must(r.mode(Sit))
			}
		}
		r.robot.OnState(func(s *wire.LowState) {
			s.Remote = remoteBytes(wire.Remote{Buttons: wire.ButtonL2 | wire.ButtonB})
		})
		n := r.robot.Count(linktest.Torque)
		r.ticks(2)
		r.in(EStop, PhaseNone)
		if got := r.robot.Count(linktest.Torque); got > n+1 {
			t.Fatalf("%v: %d torque frames after the state that carries L2+B", m, got-n)
		}
		n = r.robot.Count(linktest.Torque)
		r.robot.OnState(nil)
		r.ticks(5000)
		if got := r.robot.Count(linktest.Torque); got != n {
			t.Fatalf("%v: torque came back", m)
		}
		r.refused(r.mode(Stand), NotNamed)
		r.must(r.mode(Damp))
		r.must(r.mode(Damp))
	}
}

func TestEStop(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	r.must(r.ask(func(ctx context.Context) error { return r.l.EStop(ctx, false) }))
	var s Snapshot
	r.l.Snapshot(&s)
	if s.Mode != EStop || s.Verdict.Fault != safety.OperatorSettle {
		t.Fatalf("%v, %v", s.Mode, s.Verdict.Fault)
	}
	r.in(Sit, PhaseStopping)
	r.ticks(2000)
	r.in(EStop, PhaseNone)
	r.refused(r.mode(Stand), NotNamed)
	r.must(r.mode(Damp))
	r.must(r.mode(Stand))
	r.ticks(100)
	r.must(r.ask(func(ctx context.Context) error { return r.l.EStop(ctx, true) }))
	r.in(EStop, PhaseNone)
	f, _ := r.robot.LastFrame()
	if f.Class == linktest.Torque {
		t.Fatal("torque after a cut")
	}
	r.refused(r.mode(Sit), NotNamed)
}

// A policy that stops answering: the target stays, after two periods the legs
// hold it, after five the motors are damped.
func TestPolicyStalls(t *testing.T) {
	var stall atomic.Bool
	release := make(chan struct{})
	r := newRig(t, linktest.Config{}, func(c *Config, _ *Parts) { c.LockWaitMs = 5 })
	r.walking(policyFunc(func(_, a []float32) {
		clear(a)
		if stall.Load() {
			<-release
		}
	}))
	t.Cleanup(func() { close(release) })
	last := r.l.policyOutNs
	stall.Store(true)
	for r.l.policyOutNs != last || r.clock.now-last < 20e6 {
		if r.l.policyOutNs != last {
			last = r.l.policyOutNs
		}
		r.due += PeriodNs
		r.clock.SleepUntil(r.due)
		r.l.Tick(r.due)
		r.udp.Wait(1e9)
	}
	for r.l.mode == Policy {
		r.tickWithoutPolicy()
	}
	r.in(Stand, PhaseHold)
	if age := r.clock.now - last; age < 40e6 || age > 42e6 {
		t.Fatalf("held after %d ms", age/1e6)
	}
	r.ticksWithoutPolicy(50)
	r.in(Stand, PhaseHold) // no policy any more, so none that is too old
}

func (r *rig) tickWithoutPolicy() {
	r.due += PeriodNs
	r.clock.SleepUntil(r.due)
	r.l.Tick(r.due)
	r.udp.Wait(1e9)
}

func (r *rig) ticksWithoutPolicy(n int) {
	for range n {
		r.tickWithoutPolicy()
	}
}

func TestHoldsTheLastFrame(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	r.robot.Mute(true)
	before, _ := r.robot.LastFrame()
	for i := 1; ; i++ {
		r.due += PeriodNs
		r.clock.SleepUntil(r.due)
		r.l.Tick(r.due)
		age := (i - 1) * 2 // the first tick still finds a state
		f := append([]byte(nil), r.l.frame...)
		switch {
		case age >= 40:
			r.in(Damp, PhaseNone)
			var c wire.LowCmd
			if _, err := wire.DecodeLowCmd(f, &c); err != nil || torqueFrame(&c) {
				t.Fatalf("%d ms: %v", age, err)
			}
			return
		case age >= 20 && string(f) != string(before.Raw):
			t.Fatalf("%d ms: not the last frame", age)
		}
		before.Raw = f
	}
}

func TestStandTracking(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.armed()
	r.robot.OnState(func(s *wire.LowState) { s.Motor[5].Q = go1.Folded[5] }) // a leg that is stuck
	r.must(r.mode(Stand))
	for range 1500 {
		r.tick()
	}
	r.in(Damp, PhaseNone)
	if v := r.l.judge.Verdict(); v.Fault != safety.StandTracking || v.Joint != 5 {
		t.Fatalf("%v of joint %d", v.Fault, v.Joint)
	}
}

func TestStop(t *testing.T) {
	for _, twice := range []bool{false, true} {
		r := newRig(t, linktest.Config{})
		r.walking(still)
		r.l.Stop()
		r.tick()
		r.in(Sit, PhaseStopping)
		r.refused(r.mode(Policy), Stopping)
		if twice {
			r.l.Stop()
		}
		n := 0
		for ; !r.tick(); n++ {
			if n > 5000 {
				t.Fatal("it does not end")
			}
		}
		f, _ := r.robot.LastFrame()
		if f.Class != linktest.Damping || r.l.endErr != nil {
			t.Fatalf("the last frame is %v, %v", f.Class, r.l.endErr)
		}
		if want := 250; twice && (n < want-5 || n > want+5) {
			t.Fatalf("%d ticks, want half a second of damping", n)
		}
		if !twice && n < 1500 {
			t.Fatalf("%d ticks: it did not sit down", n)
		}
	}
	r := newRig(t, linktest.Config{})
	r.l.Stop()
	if !r.tick() {
		t.Fatal("idle has nothing to do before it ends")
	}
	if n := len(r.robot.Frames()); n != 0 {
		t.Fatalf("%d frames", n)
	}
	r = newRig(t, linktest.Config{})
	r.walking(still)
	r.robot.Mute(true)
	r.l.Stop()
	r.l.Stop()
	for !r.tickQuick() {
	}
	if !errors.Is(r.l.endErr, ErrUnconfirmed) {
		t.Fatal(r.l.endErr)
	}
}

// tickQuick is a tick that waits for nobody.
func (r *rig) tickQuick() bool {
	r.due += PeriodNs
	r.clock.SleepUntil(r.due)
	return r.l.Tick(r.due)
}

// A loop that does not answer keeps nobody waiting beyond their own time.
func TestAskGivesUp(t *testing.T) {
	r := newRig(t, linktest.Config{})
	first := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { first <- r.l.SetMode(ctx, Damp) }()
	for r.l.inbox.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	gone, stop := context.WithCancel(context.Background())
	stop()
	if err := r.l.EStop(gone, true); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	r.refused(r.mode(Damp), NotArmed) // and the wish is forgotten
}

// A policy that is told the body's velocity walks only while its estimate is sound.
func TestVelocityUnsure(t *testing.T) {
	r := newRig(t, linktest.Config{}, func(_ *Config, p *Parts) {
		g := &p.Spec.Groups[0]
		g.Terms = append(g.Terms, rollout.Term{Name: "base_lin_vel", Size: 3, Scale: 1, History: 1})
	})
	r.standing()
	r.drive(still)
	r.l.filter.Reset()
	answer := request{want: wantPolicy, answer: Refusal{Joint: -1}}
	if got := r.l.apply(r.clock.now, &answer); got != VelocityUnsure {
		t.Fatal(reasonTexts[got])
	}
	r.ticks(500)
	r.must(r.mode(Policy))
}

// Every transition that the table does not name is refused, and nothing moves.
func TestTransitions(t *testing.T) {
	bring := map[Mode]func(*rig){
		Idle:   func(*rig) {},
		Listen: func(r *rig) { r.armed() },
		Damp:   func(r *rig) { r.armed(); r.must(r.mode(Damp)) },
		Stand:  func(r *rig) { r.standing() },
		Policy: func(r *rig) { r.walking(still) },
		Sit:    func(r *rig) { r.standing(); r.must(r.mode(Sit)) },
		EStop: func(r *rig) {
			r.armed()
			r.must(r.ask(func(ctx context.Context) error { return r.l.EStop(ctx, true) }))
		},
	}
	named := map[Mode][]Mode{
		Idle:   {},
		Listen: {Damp, Stand},
		Damp:   {Damp, Stand},
		Stand:  {Damp, Policy, Sit},
		Policy: {Damp, Sit},
		Sit:    {Damp},
		EStop:  {Damp},
	}
	for from, enter := range bring {
		for to := Idle; to <= EStop; to++ {
			r := newRig(t, linktest.Config{})
			enter(r)
			if from == Stand {
				r.drive(still)
			}
			err := r.mode(to)
			ok := false
			for _, m := range named[from] {
				ok = ok || m == to
			}
			if ok != (err == nil) {
				t.Errorf("%v -> %v: %v", from, to, err)
			}
			if !ok && r.l.mode != from {
				t.Errorf("%v -> %v refused, but it is in %v", from, to, r.l.mode)
			}
		}
	}
}

// The loop's own lateness damps, at the last look before the frame leaves.
func TestLateLoopDamps(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	n := r.robot.Count(linktest.Torque)
	r.due += PeriodNs
	r.clock.now = r.due + 20e6
	r.l.Tick(r.due)
	r.udp.Wait(1e9)
	r.in(Damp, PhaseNone)
	if got := r.robot.Count(linktest.Torque); got != n {
		t.Fatal("a torque frame left from a late loop")
	}
	if r.l.stats.Trips != 1 {
		t.Fatalf("%d trips counted", r.l.stats.Trips)
	}
	if v := r.l.judge.Verdict(); v.Fault != safety.LoopLate {
		t.Fatal(v.Fault)
	}
}

func TestLinkLost(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	r.udp.Close()
	for range linkFailures {
		r.in(Policy, PhaseWalk)
		r.tickQuick()
	}
	r.tickQuick()
	r.in(Damp, PhaseNone)
	if v := r.l.judge.Verdict(); v.Fault != safety.LinkLost {
		t.Fatal(v.Fault)
	}
}

// replay is a Link that shows one state a tick and takes every frame: a fake,
// because linktest's robot would allocate in this process.
type replay struct {
	state wire.LowState
	given bool
}

func (p *replay) Receive(s *wire.LowState, nowNs int64) (int64, bool) {
	if p.given = !p.given; !p.given {
		return 0, false
	}
	p.state.Tick += 2
	*s = p.state
	return nowNs, true
}
func (p *replay) Send([]byte) error { return nil }
func (p *replay) Wait(int64) bool   { return true }

func TestTickDoesNotAllocate(t *testing.T) {
	for _, m := range []Mode{Idle, Listen, Damp, Stand, Policy, Sit, EStop} {
		r := newRig(t, linktest.Config{})
		if m == Idle {
			r.ticks(5)
		} else {
			r.standing()
		}
		switch m {
		case Policy:
			must := request{want: wantPolicy, answer: Refusal{Joint: -1}}
			r.l.apply(r.clock.now, &must)
			r.must(nil)
		case Idle, Stand:
		default:
			r.l.setMode(r.clock.now, m, map[Mode]Phase{Sit: PhaseLower}[m])
		}
		r.l.parts.Link = &replay{state: r.l.state}
		n := testing.AllocsPerRun(200, func() {
			r.l.policyOutNs, r.l.sensedNs, r.l.commandNs = r.clock.now, r.clock.now, r.clock.now
			r.tickQuick()
		})
		if r.l.mode != m {
			t.Fatalf("left %v for %v (%v)", m, r.l.mode, r.l.judge.Verdict().Fault)
		}
		if n != 0 {
			t.Errorf("%v: %v allocations a tick", m, n)
		}
	}
}

// Stepping the robot's Env under a policy allocates nothing either.
func TestEnvStepDoesNotAllocate(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.standing()
	env, err := r.l.Env()
	r.must(err)
	defer env.Close()
	answer := request{want: wantPolicy, answer: Refusal{Joint: -1}}
	if got := r.l.apply(r.clock.now, &answer); got != Accepted {
		t.Fatal(reasonTexts[got])
	}
	r.l.parts.Link = &replay{state: r.l.state}
	step := rollout.NewStep(env.Spec())
	r.l.policyTick = 0
	r.tickQuick()
	r.must(env.Reset(context.Background(), nil, step))
	action := make([]float32, go1.Joints)
	n := testing.AllocsPerRun(100, func() {
		for range 9 {
			r.tickQuick()
		}
		r.tickQuick() // publishes the next reading
		if err := env.Step(context.Background(), action, step); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

func TestRunKeepsTime(t *testing.T) {
	r := newRig(t, linktest.Config{FreeRunning: true}, func(c *Config, p *Parts) {
		c.Lockstep = false
		p.Clock = SystemClock{SpinNs: 120e3}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.l.Run(ctx) }()
	r.must(r.l.Arm(context.Background()))
	start := time.Now()
	time.Sleep(300 * time.Millisecond)
	var s Snapshot
	r.l.Snapshot(&s)
	ran := time.Since(start)
	// Every period is accounted for, as a tick or as a missed one.
	if n := s.Stats.Ticks + s.Stats.Missed; n < uint64(ran/(2*time.Millisecond))-5 {
		t.Fatalf("%d ticks and %d missed in %v", s.Stats.Ticks, s.Stats.Missed, ran)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f, _ := r.robot.LastFrame()
	if f.Class != linktest.Damping {
		t.Fatalf("the last frame is %v", f.Class)
	}
	r.refused(r.l.SetMode(context.Background(), Damp), Stopping)
}
