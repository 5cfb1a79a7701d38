package control

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

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

// A command whose end passes before a tick has seen it begins nothing, and one that turns round does not outlive its end either.
func TestEndedCommandBeginsNothing(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	r.must(r.l.Command([3]float32{1, 0, 0}, r.l.NowNs()+1e6))
	for range 300 {
		if r.tick(); r.l.followed != [3]float32{} {
			t.Fatalf("it follows %v by a command that had ended", r.l.followed)
		}
	}
	r.must(r.l.Command([3]float32{1, 0, 0}, r.l.NowNs()+200e6))
	r.ticks(90)
	if r.l.followed[0] < 0.3 {
		t.Fatalf("%v m/s: the test sees nothing", r.l.followed[0])
	}
	r.must(r.l.Command([3]float32{-1, 0, 0.5}, r.l.NowNs()+21e6))
	r.ticks(1)
	last := r.l.followed
	for range 300 {
		r.tick()
		f := r.l.followed
		if f[0] < 0 || f[2] > 0.09 || r.clock.now > r.l.commands.newest.Load().expiresNs && (f[0] > last[0] || f[2] > last[2]) {
			t.Fatalf("from %v to %v", last, f)
		}
		last = f
	}
	if last != [3]float32{} {
		t.Fatalf("%v m/s long after its end", last)
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
	// A stop is taken whatever came before, and what it overtook stays behind.
	r.must(r.l.Command([3]float32{}, now+2e8))
	if err := r.l.Command([3]float32{1, 0, 0}, now+9e8); !errors.Is(err, ErrOlder) {
		t.Fatal(err)
	}
	r.ticks(5)
	if r.l.asked != [3]float32{} {
		t.Fatalf("asked %v after a stop", r.l.asked)
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

// A hot motor halves the velocity, as gently as any other change.
func TestHotMotorHalves(t *testing.T) {
	r := newRig(t, linktest.Config{})
	r.walking(still)
	m := wire.Remote{Ly: 1}
	temperature := int8(40)
	r.robot.OnState(func(s *wire.LowState) {
		s.Remote = remoteBytes(m)
		s.Motor[3].Temperature = temperature
	})
	r.ticks(500)
	if r.l.followed[0] != 1 {
		t.Fatalf("%v m/s", r.l.followed[0])
	}
	r.robot.OnState(func(s *wire.LowState) {
		s.Remote = remoteBytes(m)
		s.Motor[3].Temperature = 76
	})
	last := r.l.followed[0]
	for range 1500 {
		r.tick()
		if step := last - r.l.followed[0]; step > 0.0041 || step < -0.0041 {
			t.Fatalf("the velocity steps by %v m/s", step)
		}
		last = r.l.followed[0]
	}
	if last != 0.5 {
		t.Fatalf("%v m/s with a hot motor", last)
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
