package control

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

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

// Lifted or pushed while it gets up: the way back down, no leg is thrown home.
func TestTiltWhileRising(t *testing.T) {
	for _, at := range []int{100, 550, 1200} { // folding, at the start of rising, near its end
		r := newRig(t, linktest.Config{})
		r.armed()
		r.must(r.mode(Stand))
		r.ticks(at)
		last := r.l.target
		r.robot.OnState(func(s *wire.LowState) {
			s.IMU.Quaternion = [4]float32{float32(math.Cos(0.325)), float32(math.Sin(0.325)), 0, 0}
		})
		r.ticks(3)
		r.in(Sit, PhaseLower)
		for range 800 {
			for i := range last {
				if r.l.mode == Sit && !near32(r.l.target[i], last[i], 0.01) {
					t.Fatalf("after %d ticks the target of joint %d steps by %v rad", at, i, r.l.target[i]-last[i])
				}
			}
			last = r.l.target
			r.tick()
		}
		r.in(Damp, PhaseNone)
	}
}

// Sitting down begins with a second of standing still under the policy: if that
// fails, the legs come home at once.
func TestPolicyLostWhileStopping(t *testing.T) {
	var stall atomic.Bool
	release := make(chan struct{})
	r := newRig(t, linktest.Config{})
	r.walking(policyFunc(func(_, a []float32) {
		clear(a)
		if stall.Load() {
			<-release
		}
	}))
	t.Cleanup(func() { close(release) })
	r.must(r.mode(Sit))
	r.in(Sit, PhaseStopping)
	stall.Store(true)
	for r.l.phase == PhaseStopping {
		r.tickWithoutPolicy()
	}
	r.in(Sit, PhaseHome)
	if age := r.clock.now - r.l.policyOutNs; age > 44e6 {
		t.Fatalf("after %d ms", age/1e6)
	}
	r.ticksWithoutPolicy(1500)
	r.in(Damp, PhaseNone)
}

// A stop that comes while sport mode is being looked for is not forgotten.
func TestStoppedWhileArming(t *testing.T) {
	for _, cut := range []bool{true, false} {
		var r *rig
		r = newRig(t, linktest.Config{}, func(_ *Config, p *Parts) {
			p.SportOff = func(ctx context.Context) error { return r.l.EStop(ctx, cut) }
		})
		r.refused(r.ask(r.l.Arm), StoppedMeanwhile)
		r.in(Idle, PhaseNone)
		if n := len(r.robot.Frames()); n != 0 {
			t.Fatalf("%d frames", n)
		}
	}
}

// Without a policy that waits there is nobody to let drive.
func TestPolicyAbsent(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.standing()
	r.refused(r.mode(Policy), PolicyAbsent)
	r.drive(still)
	r.must(r.mode(Policy))
}

// A robot that is silent may come back in its sport mode: frames stop until a
// new look shows that it is off, and when it is on the agent is disarmed.
func TestSilentRobot(t *testing.T) {
	r := newRig(t, linktest.Config{}, func(c *Config, p *Parts) {
		c.Lockstep = false
		p.SportOff = func(context.Context) error { return nil }
	})
	udp, err := link.DialUDP(link.UDPConfig{Robot: r.robot.Addr(), VirtualTime: true})
	r.must(err)
	t.Cleanup(func() { udp.Close() })
	r.l.parts.Link, r.udp = udp, udp
	r.armed()
	r.robot.Mute(true)
	sentIn := func(ticks int) int {
		before := r.l.stats.Sent
		for range ticks {
			r.tickQuick()
		}
		return int(r.l.stats.Sent - before)
	}
	if n := sentIn(995); n != 995 {
		t.Fatalf("%d frames in the first two seconds of silence", n)
	}
	sentIn(10)
	if n := sentIn(500); n != 0 || !r.l.silent.Load() {
		t.Fatalf("%d frames to a robot that is silent", n)
	}
	r.l.knockNs.Store(r.clock.now + knockNs) // sport mode was looked for and is off
	if n := sentIn(500); n < 4 || n > 6 {
		t.Fatalf("%d frames knock", n)
	}
	r.robot.Mute(false)
	r.l.knockNs.Store(r.clock.now + knockNs)
	r.ticks(500)
	if r.l.silent.Load() || r.l.mode != Listen {
		t.Fatalf("silent %v, %v, after the robot answered", r.l.silent.Load(), r.l.mode)
	}
	r.robot.Mute(true)
	sentIn(1100)
	r.l.sportSeen.Store(true)
	if n := sentIn(500); n != 0 {
		t.Fatalf("%d frames to a robot in sport mode", n)
	}
	r.in(Idle, PhaseNone)
	if v := r.l.judge.Verdict(); v.Fault != safety.SportMode {
		t.Fatal(v.Fault)
	}
	r.robot.Mute(false)
	r.must(r.ask(r.l.Arm))
	r.ticks(20)
	r.in(Listen, PhaseNone)
}

// With a link that does not send, nobody stands up.
func TestStandWithoutLink(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.armed()
	r.l.sendRun = 1
	answer := request{want: wantStand, answer: Refusal{Joint: -1}}
	if got := r.l.apply(r.clock.now, &answer); got != LinkFails {
		t.Fatal(reasonTexts[got])
	}
	r.l.sendRun = 0
	r.clock.now += 25e6 // and none with states that are too old
	if got := r.l.apply(r.clock.now, &answer); got != FewStates {
		t.Fatal(reasonTexts[got])
	}
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

// Row 29 of the cases: a policy of 50 Hz that was trained over a loop of 200 Hz
// is stepped at 50 Hz, and the loop of 500 Hz repeats each of its targets.
func TestCase29TargetsAreRepeated(t *testing.T) {
	r := newRig(t, linktest.Config{}, func(_ *Config, p *Parts) { p.Spec.ControlPeriodNs = 5e6 })
	up := false
	r.walking(policyFunc(func(_, a []float32) {
		clear(a)
		if up = !up; up {
			a[0] = 0.1
		}
	}))
	runs, last := []int{0}, r.l.cmd.Motor[0].Q
	for range 200 {
		r.tick()
		if q := r.l.cmd.Motor[0].Q; q != last {
			runs, last = append(runs, 0), q
		}
		runs[len(runs)-1]++
	}
	for i, n := range runs[1 : len(runs)-1] {
		if n != 10 {
			t.Fatalf("target %d was sent in %d frames, want 10: %v", i+1, n, runs)
		}
	}
	if len(runs) < 20 {
		t.Fatalf("%d targets in 400 ms", len(runs))
	}
}
