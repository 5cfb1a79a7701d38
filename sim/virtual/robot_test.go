package virtual_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

func TestFirstState(t *testing.T) {
	r := virtualtest.Start(t, virtualtest.Config())
	c := newClient(t, r.Addr())
	var s wire.LowState
	for i := range 250 {
		s = c.step(damping())
		if want := uint32(2 * (i + 1)); s.Tick != want {
			t.Fatalf("answer %d has tick %d, want %d", i, s.Tick, want)
		}
	}
	if s.Head != [2]byte{0xFE, 0xEF} || s.LevelFlag != wire.LevelLow {
		t.Errorf("header %+v", s.Header)
	}
	if tilt := go1.Tilt(&s.IMU.Quaternion); tilt > 0.05 {
		t.Errorf("lying, it tilts %v rad", tilt)
	}
	if a := s.IMU.Accelerometer; math.Abs(float64(a[2])-9.81) > 0.5 {
		t.Errorf("lying, it feels %v m/s2", a)
	}
	for i := range go1.Joints {
		m := &s.Motor[i]
		if m.Mode != wire.ModeServo {
			t.Errorf("motor %d is in mode %#x", i, m.Mode)
		}
		if math.Abs(float64(m.Q)-mujoco.FoldedPose().Q[i]) > 0.1 || m.Q < go1.StopLower[i]-0.15 {
			t.Errorf("joint %d lies at %v", i, m.Q)
		}
		if m.Temperature < 25 || m.Temperature > 30 {
			t.Errorf("motor %d has %d C", i, m.Temperature)
		}
		if math.Abs(float64(m.TauEst)) > 2 || math.Abs(float64(m.Dq)) > 1 {
			t.Errorf("joint %d rests with %v N·m, %v rad/s", i, m.TauEst, m.Dq)
		}
	}
	if s.BMS.SOC != 90 || s.BMS.Current >= 0 {
		t.Errorf("battery %+v", s.BMS)
	}
	for i, mV := range s.BMS.CellVoltage {
		if mV < 3300 || mV > 4200 {
			t.Errorf("cell %d has %d mV", i, mV)
		}
	}
	var remote wire.Remote
	wire.DecodeRemote(&s.Remote, &remote)
	if !remote.Present() || remote.Buttons != 0 || remote.Lx != 0 || remote.Ly != 0 {
		t.Errorf("hand remote %+v", remote)
	}
}

func TestFootForceFollowsLoad(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Boot = virtual.BootHome
	cfg.Noise.FootOffset, cfg.Noise.FootDrift, cfg.Noise.FootNoise = [4]float64{}, [4]float64{}, 0
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	var s wire.LowState
	for range 500 {
		s = c.step(servo(60, 5))
	}
	sum := 0.
	for _, f := range s.FootForce {
		sum += float64(f)
	}
	if want := cfg.Noise.FootScale * go1.Mass * 9.81; math.Abs(sum-want) > 0.05*want {
		t.Errorf("standing, the feet read %v: %v in all, want %v", s.FootForce, sum, want)
	}
	if s.FootForceEst != [4]int16{} {
		t.Errorf("estimates %v; real robots report 0", s.FootForceEst)
	}
}

// cases.md row 26: what a user took for a torque command still has Kd. The bytes are the SDK's: q = PosStopF.
func TestTorqueCommandStillHasKd(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Boot, cfg.Noise = virtual.BootHome, virtual.Noise{}
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	cmd := servo(0, 0.5)
	for i := range go1.Joints {
		cmd.Motor[i].Q, cmd.Motor[i].Tau = mujoco.PosStop, 0.25
	}
	if b := encode(t, cmd); !bytes.Equal(b[23:27], []byte{0xB9, 0xD2, 0xFF, 0x4E}) {
		t.Fatalf("PosStopF is % X", b[23:27])
	}
	before, fastest := c.step(cmd), 0.
	for range 100 {
		s := c.step(cmd)
		for i := range go1.Joints {
			dq := float64(before.Motor[i].Dq)
			fastest = max(fastest, math.Abs(dq))
			if want := 0.25 - 0.5*dq; math.Abs(float64(s.Motor[i].TauEst)-want) > 1./256 {
				t.Fatalf("joint %d at %v rad/s makes %v N·m, want %v", i, dq, s.Motor[i].TauEst, want)
			}
		}
		before = s
	}
	if fastest < 1 {
		t.Errorf("no joint moved faster than %v rad/s: nothing was shown", fastest)
	}
}

func TestModesAreEchoed(t *testing.T) {
	r := virtualtest.Start(t, virtualtest.Config())
	c := newClient(t, r.Addr())
	cmd := damping()
	for i, mode := range []byte{0x0A, 0x00, 0x05} {
		cmd.Motor[i].Mode = mode
	}
	s := c.step(cmd)
	for i, mode := range []byte{0x0A, 0x00, 0x05} {
		if s.Motor[i].Mode != mode {
			t.Errorf("motor %d reports %#x, was told %#x", i, s.Motor[i].Mode, mode)
		}
	}
}

func TestMotorsHeatUp(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Boot, cfg.Body.HeatS = virtual.BootHome, 0.5
	cfg.Body.HeatC = 4
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	var s wire.LowState
	for range 1500 {
		s = c.step(servo(60, 5))
	}
	if calf, hip := s.Motor[2], s.Motor[0]; calf.Temperature < 100 || calf.Mode != wire.ModeOverheat || hip.Temperature > 60 || hip.Mode != wire.ModeServo {
		t.Errorf("calf %d C in mode %#x, hip %d C in mode %#x", calf.Temperature, calf.Mode, hip.Temperature, hip.Mode)
	}
}

func TestRejects(t *testing.T) {
	r := virtualtest.Start(t, virtualtest.Config())
	c := newClient(t, r.Addr())
	good := encode(t, damping())
	with := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	nan := damping()
	nanBytes := encode(t, nan)
	copy(nanBytes[23:], []byte{0, 0, 0xC0, 0x7F}) // q of motor 0
	crc := wire.CRC32(nanBytes[:608])
	nanBytes[610], nanBytes[611], nanBytes[612], nanBytes[613] = byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24)
	bad := map[string][]byte{
		"empty": {}, "short": good[:610], "long": append(bytes.Clone(good), 0), "head": with(0, 0), "crc": with(100, 1), "non_finite": nanBytes,
	}
	for _, b := range bad {
		c.send(b)
		c.send(b)
	}
	c.step(damping()) // behind them, so all have been looked at
	if !c.nothing() {
		t.Error("an invalid frame was answered")
	}
	r.Stop()
	s := r.Summary()
	for reason := range bad {
		if s.Rejected[reason] != 2 {
			t.Errorf("%s: counted %d, want 2", reason, s.Rejected[reason])
		}
	}
	if s.Frames != 1 || s.Answered != 1 {
		t.Errorf("%d frames, %d answers", s.Frames, s.Answered)
	}
	if n := len(r.Records("reject")); n != len(bad) { // the second of each within a second is only counted
		t.Errorf("%d reject records, want %d", n, len(bad))
	}
}

func TestEncryptedCRCIsTaken(t *testing.T) {
	r := virtualtest.Start(t, virtualtest.Config())
	c := newClient(t, r.Addr())
	b, err := wire.AppendLowCmd(nil, damping(), wire.EncryptedCRC)
	if err != nil {
		t.Fatal(err)
	}
	c.send(b)
	var s wire.LowState
	if err := wire.DecodeLowState(c.receive(), &s); err != nil {
		t.Error(err)
	}
}

func TestAnySenderIsObeyed(t *testing.T) {
	r := virtualtest.Start(t, virtualtest.Config())
	a, b := newClient(t, r.Addr()), newClient(t, r.Addr())
	a.step(damping())
	b.step(servo(20, 1))
	a.step(damping())
	r.Stop()
	if n := len(r.Records("sender")); n != 2 {
		t.Errorf("%d changes of sender, want 2", n)
	}
	cmds := r.Records("command")
	if len(cmds) != 3 || cmds[1].Text("class") != "torque" || cmds[1].Text("sender") != b.conn.LocalAddr().String() {
		t.Errorf("commands: %v", cmds)
	}
	if cmds[1].Number("kp") != 20 || cmds[2].Number("last_torque_tick") != cmds[1].Number("tick") {
		t.Errorf("commands: %v", cmds)
	}
	if s := r.Summary(); s.TorqueTick != int64(cmds[1].Tick()) || s.DampingTick != int64(cmds[2].Tick()) || s.TorqueAfter != 0 {
		t.Errorf("summary %+v", s)
	}
}

func TestLastCommandGoesOnInSilence(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Lockstep, cfg.Boot = false, virtual.BootHome
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	c.step(servo(60, 5))
	from := r.Status().T
	wait(t, "standing on in silence", func() bool { return r.Status().T > from+1 })
	if s := r.Status(); s.Posture != "standing" || s.Frames != 1 {
		t.Errorf("a second after the only frame: %+v", s)
	}
	c.step(damping())
	wait(t, "sinking in silence", func() bool { return r.Status().Pos[2] < 0.12 })
	if s := r.Status(); s.Frames != 2 || s.Class != virtual.ClassDamping || s.Falls != 0 {
		t.Errorf("%+v", s)
	}
	r.Stop()
	if s := r.Summary(); s.Physics != 0 || s.RxMaxUs == 0 {
		t.Errorf("%+v", s)
	}
}

// wait polls until ok; a test that waits in vain fails after half a minute.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("waited in vain for: ", what)
}

func TestSportMode(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Lockstep, cfg.Boot = false, virtual.BootSport
	r := virtualtest.Start(t, cfg)
	if r.HighAddr() != link.DefaultHigh(r.Addr()) {
		t.Errorf("sport mode at %v, low level at %v", r.HighAddr(), r.Addr())
	}
	probe := func() link.SportReport {
		t.Helper()
		rep, err := link.ProbeSport(t.Context(), r.HighAddr(), 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	if rep := probe(); rep.Result != link.SportOn || rep.Mode != wire.HighModeIdle || rep.BodyHeight < 0.25 {
		t.Errorf("probe: %+v", rep)
	}
	wait(t, "2 s of standing", func() bool { return r.Status().T > 2 })
	if s := r.Status(); s.Posture != "standing" || !s.Sport || s.Pos[2] < 0.25 {
		t.Errorf("it does not stand by itself: %+v", s)
	}
	c := newClient(t, r.Addr())
	s := c.step(servo(60, 5)) // the frame that makes it let go is not executed
	if s.Motor[0].Mode == wire.ModeDamping {
		t.Error("the answer to the first frame is of the step before it; sport mode held the motors then")
	}
	wait(t, "going limp", func() bool { return r.Status().Pos[2] < 0.15 })
	if rep := probe(); rep.Result != link.SportRefused {
		t.Errorf("after the low-level command: %+v", rep)
	}
	c.step(damping())
	wait(t, "obeying", func() bool { return r.Status().Class == virtual.ClassDamping })
	r.Stop()
	if l := r.Records("limp"); len(l) != 1 || l[0].Text("cause") != "foreign low-level command" {
		t.Errorf("limp records: %v", l)
	}
}

func TestSportProbeLeavesItStanding(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Boot = virtual.BootSport
	r := virtualtest.Start(t, cfg)
	for range 3 {
		if rep, err := link.ProbeSport(t.Context(), r.HighAddr(), 20*time.Second); err != nil || rep.Result != link.SportOn {
			t.Fatalf("%+v, %v", rep, err)
		}
	}
	if s := r.Status(); !s.Sport || s.Frames != 0 {
		t.Errorf("%+v", s)
	}
}

func TestHighPortIsClosedOtherwise(t *testing.T) {
	r := virtualtest.Start(t, virtualtest.Config())
	if rep, err := link.ProbeSport(t.Context(), r.HighAddr(), 20*time.Second); err != nil || rep.Result != link.SportRefused {
		t.Errorf("%+v, %v", rep, err)
	}
}

func TestBatteryOff(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Boot = virtual.BootHome
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	cmd := servo(60, 5)
	cmd.BMSOff = 0xA5
	c.step(cmd)
	if b := c.exchange(servo(60, 5), 1)[0]; len(b) != 0 {
		t.Errorf("a robot without battery answered %d bytes", len(b))
	}
}

// Equal seeds and commands give equal bytes in the log. The second robot gets the first one's port, and both the same client.
func TestLockstepRepeats(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.LogEveryFrame = true
	for _, f := range []string{"drop_state,p=0.3@0.1", "corrupt_state,p=0.2@0.2+0.2", "push,n=50@0.3", "foot_force_offset,drift=3@0",
		"imu_noise@0.1+0.2", "joint_noise,q=0.01@0", "corrupt_command,p=0.1@0.35+0.1", "motor_drop@0.4+0.05", "legs_swapped@0.3+0.1", "press@0.1"} {
		fault, err := virtual.ParseFault(f)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Faults = append(cfg.Faults, fault)
	}
	var c *client
	run := func() (log []byte, answers []byte) {
		r := virtualtest.Start(t, cfg)
		if c == nil {
			c = newClient(t, r.Addr())
			cfg.Listen = r.Addr()
		}
		for i := range 300 {
			cmd := damping()
			if i > 50 {
				cmd = servo(float32(i%40), 2)
			}
			answers = append(answers, c.exchange(cmd, 1)[0]...)
		}
		r.Stop()
		return r.Log(), answers
	}
	log1, answers1 := run()
	log2, answers2 := run()
	if !bytes.Equal(log1, log2) || !bytes.Equal(answers1, answers2) {
		t.Error("two runs of one seed differ")
	}
	cfg.Seed++
	if _, other := run(); bytes.Equal(answers1, other) {
		t.Error("the seed changes nothing")
	}
}

func TestFall(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Boot = virtual.BootHome
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	for range 400 {
		c.step(servo(60, 5))
	}
	r.Fault("push,n=600,ms=300@now")
	for range 1000 {
		c.step(servo(60, 5))
	}
	r.Stop()
	if len(r.Records("stood")) != 1 || len(r.Records("fall")) != 1 || r.Summary().Falls != 1 {
		t.Errorf("stood %v, fall %v", r.Records("stood"), r.Records("fall"))
	}
	if s := r.Records("state"); len(s) != 140 {
		t.Errorf("%d state records for 2.8 s, want 140", len(s))
	}
}

// Damping from a stand lets the robot sink: that is no fall.
func TestSinkingIsNoFall(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Boot = virtual.BootHome
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	for range 400 {
		c.step(servo(60, 5))
	}
	for range 1500 {
		c.step(damping())
	}
	r.Stop()
	if s := r.Summary(); s.Falls != 0 || s.Posture != "lying" || len(r.Records("lying")) != 1 {
		t.Errorf("%+v", s)
	}
}

func TestControlInterface(t *testing.T) {
	r := virtualtest.Start(t, virtualtest.Config())
	ctl, err := virtual.ServeControl(r.Robot, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ctl.Close(); err != nil {
			t.Error(err)
		}
	}()
	post := func(body string) (int, string) { return request(t, "POST", ctl.Addr(), "/fault", body) }
	for body, want := range map[string]int{
		`{"fault":"drop_state@now+1"}`:                   200,
		`{"fault":"foreign_state,from=127.0.0.2@1e3"}`:   200,
		`{"fault":"foreign_state,from=192.0.2.7@1e3"}`:   400,
		`{"kind":"battery","params":{"soc":"7"},"at":1}`: 200,
		`{"kind":"battery","params":{"soc":7},"at":1e3}`: 200,
		`{"kind":"battery","soc":7}`:                     400,
		`{"kind":"nonsense"}`:                            400,
		`{"fault":"drop_state"}`:                         400,
		`{"fault":"drop_state@now","kind":"power"}`:      400,
		`[]`:                              400,
		``:                                400,
		`{"kind":"power","kind":"power"}`: 400,
		`{"kind":"power"} x`:              400,
		`{"fault":"` + strings.Repeat("x", 20<<10) + `@now"}`: 413,
		`{"fault":"battery,soc=5@now","for":2,"params":{}}`:   400,
		`{"fault":"battery,soc=5@now","for":null}`:            400,
		`{"fault":""}`:                                             400,
		`{"fault":null}`:                                           400,
		`{"params":{"soc":7}}`:                                     400,
		`null`:                                                     400,
		`{"kind":"power","for":0}`:                                 400,
		`{"kind":"power","every":0}`:                               400,
		`{"kind":"power","every":5}`:                               400,
		`{"kind":"power","samples":0}`:                             400,
		`{"kind":"power","samples":1.5}`:                           400,
		`{"kind":"power","at":"1"}`:                                400,
		`{"kind":"power","at":null}`:                               400,
		`{"kind":"battery","params":{"soc":[7]}}`:                  400,
		`{"kind":"battery","params":{"soc":null}}`:                 400,
		`{"kind":"power","at":-1}`:                                 400,
		`{"kind":"remote_buttons","params":{"buttons":"L2+nine"}}`: 400,
	} {
		if code, text := post(body); code != want {
			t.Errorf("%.60s: %d %s, want %d", body, code, text, want)
		}
	}
	for body, want := range map[string]string{
		`{"fault":"battery,soc=5@now","for":2}`:     "for stands beside fault",
		`{"kind":"power","when":1}`:                 "when is no key",
		`{"kind":"power","for":0}`:                  "power: for is 0",
		`{"kind":"power","at":"1"}`:                 `at is \"1\", want a number of seconds`,
		`{"kind":"power","samples":2.5}`:            "samples is 2.5, want a whole number",
		`{"kind":"power","at":null}`:                "at is null, want a number",
		`[1]`:                                       "request: want one JSON object",
		`{"kind":"battery","params":{"soc":false}}`: "params.soc is false",
		`{"at":1}`:                                  "no kind",
	} {
		if _, text := post(body); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", body, text, want)
		}
	}
	c := newClient(t, r.Addr())
	if b := c.exchange(damping(), 1)[0]; len(b) != 0 {
		t.Errorf("the state came through: %d bytes", len(b))
	}
	code, text := request(t, "GET", ctl.Addr(), "/status", "")
	var s virtual.Status
	if err := json.Unmarshal([]byte(text), &s); code != 200 || err != nil || s.Frames != 1 || len(s.Active) != 1 {
		t.Errorf("%d %s %v", code, text, err)
	}
	r.Stop()
	if code, _ := post(`{"fault":"drop_state@now+1"}`); code != 409 {
		t.Errorf("a fault for a robot that has ended: %d", code)
	}
}

func TestNewRefuses(t *testing.T) {
	r := virtualtest.Start(t, virtualtest.Config())
	for name, change := range map[string]func(*virtual.Config){
		"in use":      func(c *virtual.Config) { c.Listen = r.Addr() },
		"listen":      func(c *virtual.Config) { c.Listen = netip.MustParseAddrPort("[::1]:1") },
		"control":     func(c *virtual.Config) { c.Control = netip.MustParseAddrPort("0.0.0.0:1") },
		"boot":        func(c *virtual.Config) { c.Boot = "handstand" },
		"crc":         func(c *virtual.Config) { c.CRC = "odd" },
		"noise.gyro":  func(c *virtual.Config) { c.Noise.Gyro = math.NaN() },
		"soc_percent": func(c *virtual.Config) { c.Battery.SOCPercent = 101 },
		"from 192.0.2.7": func(c *virtual.Config) {
			c.Faults = []virtual.Fault{{Kind: "foreign_state", Params: map[string]string{"from": "192.0.2.7"}}}
		},
		"unknown kind":  func(c *virtual.Config) { c.Faults = []virtual.Fault{{Kind: "earthquake"}} },
		"foot_offset":   func(c *virtual.Config) { c.Noise.FootOffset[2] = 1e6 },
		"priority":      func(c *virtual.Config) { c.Priority = 100 },
		"body.friction": func(c *virtual.Config) { c.Body.Friction = 0 },
		"75 above": func(c *virtual.Config) {
			c.Boot, c.Listen = virtual.BootSport, netip.MustParseAddrPort("127.0.0.1:65500")
		},
		"sport mode: vir": func(c *virtual.Config) { c.Boot, c.ListenHigh = virtual.BootSport, r.Addr() },
	} {
		cfg := virtualtest.Config()
		change(&cfg)
		robot, err := virtual.New(cfg)
		if err == nil {
			robot.Close()
			t.Errorf("%s: accepted", name)
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A sender in lockstep that has not waited for its answer gets one for all that it sent.
func TestLockstepLetsNobodyRunAhead(t *testing.T) {
	r, err := virtual.New(virtualtest.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := newClient(t, r.Addr())
	for range 3 {
		c.send(encode(t, damping()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	if got := tick(t, c.receive()); got != 6 {
		t.Errorf("the answer is of %d ms, want 6", got)
	}
	cancel()
	if err := <-ended; err != nil || !c.nothing() {
		t.Errorf("%v, or more than one answer", err)
	}
	if s := r.Summary(); s.Frames != 3 || s.Answered != 1 {
		t.Errorf("%+v", s)
	}
}

type fullDisk struct{}

func (*fullDisk) Write(p []byte) (int, error) { return 0, errors.New("no space left") }

func TestFullDiskIsReported(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Log = &fullDisk{}
	r, err := virtual.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
}
