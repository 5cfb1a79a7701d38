package linktest_test

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

const patience = 10 * time.Second

func command(t testing.TB, alter func(i int, m *wire.MotorCmd)) *wire.LowCmd {
	t.Helper()
	c := new(wire.LowCmd)
	c.Init()
	for i := range wire.Joints {
		alter(i, &c.Motor[i])
	}
	return c
}

func damping(t testing.TB) *wire.LowCmd {
	return command(t, func(i int, m *wire.MotorCmd) { *m = wire.MotorCmd{Mode: wire.ModeServo, Kd: 3} })
}

func home(t testing.TB) *wire.LowCmd {
	return command(t, func(i int, m *wire.MotorCmd) {
		*m = wire.MotorCmd{Mode: wire.ModeServo, Q: go1.Home[i], Kp: 60, Kd: 5}
	})
}

func connect(t testing.TB, cfg linktest.Config) (*linktest.Robot, *link.UDP) {
	t.Helper()
	r := linktest.New(t, cfg)
	u, err := link.DialUDP(link.UDPConfig{Robot: r.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return r, u
}

func send(t testing.TB, u *link.UDP, c *wire.LowCmd) {
	t.Helper()
	b, err := wire.AppendLowCmd(nil, c, u.CRC())
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Send(b); err != nil {
		t.Fatal(err)
	}
}

// exchange is one command and its answer.
func exchange(t testing.TB, u *link.UDP, c *wire.LowCmd) (s wire.LowState) {
	t.Helper()
	send(t, u, c)
	for {
		if !u.Wait(int64(patience)) {
			t.Fatal("no answer")
		}
		if _, ok := u.Receive(&s, link.Now()); ok {
			return s
		}
	}
}

func TestStandsUpWithLag(t *testing.T) {
	r, u := connect(t, linktest.Config{})
	before := r.State()
	if before.Motor[2].Q != -2.65 || before.IMU.Quaternion != [4]float32{1, 0, 0, 0} || before.BMS.SOC != 80 {
		t.Fatalf("at the start: %+v", before)
	}
	var remote wire.Remote
	if wire.DecodeRemote(&before.Remote, &remote); !remote.Present() || remote.Buttons != 0 {
		t.Errorf("remote %+v", remote)
	}
	var s wire.LowState
	err := func(s *wire.LowState) (worst float64) {
		for i := range wire.Joints {
			worst = max(worst, math.Abs(float64(s.Motor[i].Q-go1.Home[i])))
		}
		return worst
	}
	last := err(&before)
	for n := range 500 {
		s = exchange(t, u, home(t))
		if s.Tick != uint32(2*(n+1)) {
			t.Fatalf("tick %d after %d commands", s.Tick, n+1)
		}
		if e := err(&s); e > last {
			t.Fatalf("command %d: error grows from %.4f to %.4f rad", n, last, e)
		} else {
			last = e
		}
		for i := range wire.Joints {
			m := &s.Motor[i]
			want := 60*(go1.Home[i]-m.Q) - 5*m.Dq
			want = min(max(want, -go1.TorqueMax[i]), go1.TorqueMax[i])
			if math.Abs(float64(m.TauEst-want)) > 1.0/256+1e-4 || m.Mode != wire.ModeServo || m.Temperature != 35 {
				t.Fatalf("joint %d: %+v, torque by formula %v", i, *m, want)
			}
		}
	}
	if last > 0.01 {
		t.Errorf("%.4f rad off after a second", last)
	}
	// Damping holds a joint without weight where it is.
	q := s.Motor[1].Q
	for range 10 {
		s = exchange(t, u, damping(t))
	}
	if s.Motor[1].Q != q || s.Motor[1].Dq != 0 || s.Motor[1].TauEst != 0 {
		t.Errorf("under damping: %+v, was at %v", s.Motor[1], q)
	}
}

// TestBody keeps joints inside speed limits and stops, and unmoved by what is no command.
func TestBody(t *testing.T) {
	for _, c := range []struct {
		name  string
		motor wire.MotorCmd
		check func(m *wire.MotorState, before float32) bool
	}{
		{"far target, stiff", wire.MotorCmd{Mode: wire.ModeServo, Q: 50, Kp: 1000},
			func(m *wire.MotorState, _ float32) bool { return m.Q <= 0.863 && m.Dq <= 30.2 && m.TauEst == 23.699219 }},
		{"torque alone", wire.MotorCmd{Mode: wire.ModeServo, Tau: 0.5},
			func(m *wire.MotorState, before float32) bool { return m.Q > before && m.TauEst == 0.5 }},
		{"speed alone", wire.MotorCmd{Mode: wire.ModeServo, Dq: 1, Kd: 4},
			func(m *wire.MotorState, before float32) bool { return m.Dq > 0.5 && m.Dq < 1 }},
		{"mode 0", wire.MotorCmd{Mode: wire.ModeDamping, Q: 0.5, Kp: 60, Kd: 5},
			func(m *wire.MotorState, before float32) bool { return m.Q == before && m.TauEst == 0 && m.Mode == 0 }},
	} {
		_, u := connect(t, linktest.Config{})
		s := exchange(t, u, damping(t))
		for range 3 {
			before := s.Motor[0].Q
			s = exchange(t, u, command(t, func(_ int, m *wire.MotorCmd) { *m = c.motor }))
			if !c.check(&s.Motor[0], before) {
				t.Errorf("%s: %+v, was at %v", c.name, s.Motor[0], before)
			}
		}
	}
}

func TestRecord(t *testing.T) {
	r, u := connect(t, linktest.Config{})
	servo := func(m wire.MotorCmd) func(int, *wire.MotorCmd) {
		m.Mode = wire.ModeServo
		return func(_ int, c *wire.MotorCmd) { *c = m }
	}
	wrongLevel := damping(t)
	wrongLevel.LevelFlag = 0
	oneDriven := damping(t)
	oneDriven.Motor[11].Kp = 1
	unused := damping(t)
	unused.Motor[12].Kp = 1 // no motor there
	half := damping(t)
	half.Motor[3] = wire.MotorCmd{}
	cases := []struct {
		name     string
		cmd      *wire.LowCmd
		class    linktest.Class
		answered bool
	}{
		{"damping", damping(t), linktest.Damping, true},
		{"initial command", command(t, func(int, *wire.MotorCmd) {}), linktest.Zero, true},
		{"servo without gains", command(t, servo(wire.MotorCmd{Q: 1})), linktest.Zero, true},
		{"position", home(t), linktest.Torque, true},
		{"torque", command(t, servo(wire.MotorCmd{Tau: -0.25})), linktest.Torque, true},
		{"speed", command(t, servo(wire.MotorCmd{Dq: 1, Kd: 1})), linktest.Torque, true},
		{"one joint driven", oneDriven, linktest.Torque, true},
		{"a motor that is not there", unused, linktest.Damping, true},
		{"one joint free", half, linktest.Other, true},
		{"level flag 0", wrongLevel, linktest.Other, false},
	}
	for i, c := range cases {
		send(t, u, c.cmd)
		if !r.Await(uint64(i+1), patience) {
			t.Fatalf("%s: not received", c.name)
		}
		f, ok := r.LastFrame()
		if !ok || f.Class != c.class || f.Answered != c.answered || f.Number != uint64(i+1) || (f.Err == nil) != c.answered {
			t.Errorf("%s: %v answered %v error %v, want %v", c.name, f.Class, f.Answered, f.Err, c.class)
		}
		if f.From.Port() != u.LocalAddr().Port() {
			t.Errorf("%s: from %v", c.name, f.From)
		}
		if got := f.Cmd(); f.Err == nil && got != *c.cmd {
			t.Errorf("%s: recorded %+v", c.name, got)
		}
	}
	if n := r.Count(); n != uint64(len(cases)) {
		t.Errorf("%d frames", n)
	}
	if n := r.Count(linktest.Damping, linktest.Zero); n != 4 {
		t.Errorf("%d damping and zero frames", n)
	}
	frames := r.Frames()
	for i := range frames[1:] {
		if frames[i+1].AtNs < frames[i].AtNs {
			t.Errorf("frame %d is earlier than the one before", i+2)
		}
	}
	if f, ok := r.AwaitFrame(patience, func(f *linktest.Frame) bool { return f.Class == linktest.Torque }); !ok || f.Number != 4 {
		t.Errorf("first torque frame: %d, %v", f.Number, ok)
	}
	if _, ok := r.AwaitFrame(time.Millisecond, func(f *linktest.Frame) bool { return f.Number > 99 }); ok {
		t.Error("a frame that never came")
	}
	if r.Await(99, time.Millisecond) {
		t.Error("99 frames")
	}
}

func TestKeepsTheNewest(t *testing.T) {
	r, u := connect(t, linktest.Config{KeepFrames: 4})
	for range 23 {
		exchange(t, u, damping(t))
	}
	frames := r.Frames()
	if len(frames) != 4 || frames[0].Number != 20 || frames[3].Number != 23 || r.Count(linktest.Damping) != 23 {
		t.Errorf("%d kept, %+v", len(frames), frames)
	}
}

func TestHooks(t *testing.T) {
	r, u := connect(t, linktest.Config{})
	var seen []uint64
	r.OnFrame(func(f *linktest.Frame) { seen = append(seen, f.Number) })
	r.OnState(func(s *wire.LowState) { s.Motor[0].Temperature = 90 })
	if s := exchange(t, u, damping(t)); s.Motor[0].Temperature != 90 || s.Motor[1].Temperature != 35 {
		t.Errorf("temperatures %d, %d", s.Motor[0].Temperature, s.Motor[1].Temperature)
	}
	r.OnState(nil)
	if s := exchange(t, u, damping(t)); s.Motor[0].Temperature != 35 {
		t.Errorf("temperature %d after the hook was taken away", s.Motor[0].Temperature)
	}
	r.Drop(func(number uint64) bool { return number == 3 })
	send(t, u, damping(t)) // 3, dropped
	if s := exchange(t, u, damping(t)); s.Tick != 8 {
		t.Errorf("tick %d, want the answer to command 4", s.Tick)
	}
	r.Mute(true)
	send(t, u, damping(t)) // 5, dropped
	if !r.Await(5, patience) {
		t.Fatal("not received")
	}
	r.Mute(false)
	if f, _ := r.LastFrame(); f.Answered {
		t.Error("a dropped answer is called answered")
	}
	r.OnState(func(s *wire.LowState) { s.Motor[0].TauEst = 500 }) // no LowState can carry it
	send(t, u, damping(t))                                        // 6
	if !r.Await(6, patience) {
		t.Fatal("not received")
	}
	r.OnState(nil)
	if s := exchange(t, u, damping(t)); s.Tick != 14 {
		t.Errorf("tick %d, want 14", s.Tick)
	}
	r.OnFrame(nil)
	if len(seen) != 7 {
		t.Errorf("hook saw frames %v", seen)
	}
	r.SetPose(go1.Home)
	if s := r.State(); s.Motor[2].Q != -1.8 {
		t.Errorf("calf at %v after SetPose", s.Motor[2].Q)
	}
}

func TestDelay(t *testing.T) {
	r, u := connect(t, linktest.Config{})
	r.SetDelay(3)
	for range 3 {
		send(t, u, damping(t))
	}
	if !r.Await(3, patience) {
		t.Fatal("not received")
	}
	if u.Wait(0) {
		t.Error("answered without delay")
	}
	if s := exchange(t, u, damping(t)); s.Tick != 2 {
		t.Errorf("tick %d, want the first answer behind the fourth command", s.Tick)
	}
	r.SetDelay(0)
	var ticks []uint32
	for len(ticks) < 3 && u.Wait(int64(patience)) {
		var s wire.LowState
		if _, ok := u.Receive(&s, link.Now()); ok {
			ticks = append(ticks, s.Tick)
		}
	}
	if len(ticks) != 3 || ticks[0] != 4 || ticks[2] != 8 {
		t.Errorf("held back: %v, want 4 6 8", ticks)
	}
}

func TestFreeRunning(t *testing.T) {
	r, u := connect(t, linktest.Config{FreeRunning: true})
	start := exchange(t, u, home(t))
	if start.Motor[2].Q != -2.65 {
		t.Errorf("moved before any time had passed: %v", start.Motor[2].Q)
	}
	first, _ := r.LastFrame()
	var s wire.LowState
	for s.Tick < 20 { // answers as often as asked; time alone moves it
		s = exchange(t, u, home(t))
	}
	last, _ := r.LastFrame()
	if passed := (last.AtNs - first.AtNs) / 2e6; int64(s.Tick)/2 != passed {
		t.Errorf("tick %d after %d periods", s.Tick, passed)
	}
	if s.Motor[2].Q <= start.Motor[2].Q || s.Motor[2].TauEst <= 0 {
		t.Errorf("calf %+v", s.Motor[2])
	}
}

func TestSport(t *testing.T) {
	r, u := connect(t, linktest.Config{Sport: true})
	if s := r.State(); s.Motor[2].Q != -1.8 {
		t.Errorf("calf at %v, want it standing", s.Motor[2].Q)
	}
	if _, limp := r.Limp(); limp {
		t.Fatal("limp at the start")
	}
	report, err := link.ProbeSport(t.Context(), r.HighAddr(), patience)
	if err != nil || report.Result != link.SportOn || report.Mode != wire.HighModeIdle {
		t.Fatalf("%+v, %v", report, err)
	}
	sentNs := link.Now()
	send(t, u, damping(t))
	send(t, u, damping(t))
	if !r.Await(2, patience) {
		t.Fatal("not received")
	}
	at, limp := r.Limp()
	if first := r.Frames()[0]; !limp || at != first.AtNs || at < sentNs || first.Answered {
		t.Errorf("limp %v at %d, first frame at %d answered %v", limp, at, first.AtNs, first.Answered)
	}
	if s := r.State(); s.Motor[2].Q >= -1.8 || s.Motor[2].Mode != wire.ModeDamping {
		t.Errorf("calf %+v, want it falling", s.Motor[2])
	}
	if u.Wait(0) {
		t.Error("answered in sport mode")
	}
	report, err = link.ProbeSport(t.Context(), r.HighAddr(), patience)
	if err != nil || report.Result != link.SportOn || report.Mode != wire.HighModeDamping {
		t.Errorf("after going limp: %+v, %v", report, err)
	}
	r.LeaveSport()
	r.LeaveSport()
	exchange(t, u, damping(t))
	report, err = link.ProbeSport(t.Context(), r.HighAddr(), patience)
	if err != nil || report.Result != link.SportRefused {
		t.Errorf("after leaving sport mode: %+v, %v", report, err)
	}
}

func TestStartRefuses(t *testing.T) {
	r := linktest.New(t, linktest.Config{})
	for _, c := range []linktest.Config{{Addr: r.Addr()}, {Addr: netip.MustParseAddrPort("192.0.2.1:0")}, {Addr: r.Addr(), Sport: true}} {
		if other, err := linktest.Start(c); err == nil {
			other.Close()
			t.Errorf("%+v started", c)
		}
	}
	if err := r.Send([]byte{1}); err == nil {
		t.Error("sent to nobody")
	}
	if err := r.SendFrom(netip.MustParseAddrPort("192.0.2.1:0"), []byte{1}); err == nil {
		t.Error("sent from an address that is not ours")
	}
	if _, ok := r.LastFrame(); ok {
		t.Error("a frame")
	}
	r.Close()
	if r.Await(1, patience) {
		t.Error("a frame after Close")
	}
}
