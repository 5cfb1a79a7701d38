package main

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// doctor runs `clawagent doctor --json`, and checks that exit code, ok and levels agree.
func doctor(t testing.TB, robot netip.AddrPort, args ...string) (diagnosis, result) {
	t.Helper()
	given := []string{"doctor", "--json", "--robot", "udp://" + robot.String()}
	if !slices.Contains(args, "--first-contact") && !slices.Contains(args, "--hang-test") { // which take the time that they need
		given = append(given, "--seconds", "0.4")
	}
	r := clawagent(t, append(given, args...)...)
	var d diagnosis
	r.lastJSON(t, &d)
	errors := slices.ContainsFunc(d.Findings, func(f finding) bool { return f.Level == levelError })
	if d.OK == errors || d.OK != (r.code == 0) || r.code > 1 {
		t.Errorf("ok %v, an error among the findings %v, exit code %d", d.OK, errors, r.code)
	}
	for _, f := range d.Findings {
		if f.Text == "" || f.Remedy == "" && f.Level != levelOK {
			t.Errorf("%+v: want a text and a remedy", f)
		}
	}
	return d, r
}

func (d *diagnosis) find(code string) *finding {
	for i := range d.Findings {
		if d.Findings[i].Code == code {
			return &d.Findings[i]
		}
	}
	return nil
}

func TestDoctorReady(t *testing.T) {
	robot := lyingRobot(t)
	d, r := doctor(t, robot.Addr())
	if !d.OK || r.code != 0 || r.stderr != "" {
		t.Fatalf("%+v\n%s", d.Findings, r.stderr)
	}
	for _, code := range []string{"states", "sport_mode_off"} {
		if f := d.find(code); f == nil || f.Level != levelOK {
			t.Errorf("no %s among %+v", code, d.Findings)
		}
	}
	// Row 21 of cases.md: from where to where, and the packet counts.
	if d.Robot != robot.Addr().String() || d.High != robot.HighAddr().String() || !strings.HasPrefix(d.Local, "127.0.0.1:") {
		t.Errorf("robot %s, high %s, local %s", d.Robot, d.High, d.Local)
	}
	if d.Link["sent"] == 0 || d.Link["accepted"] == 0 {
		t.Errorf("link %v", d.Link)
	}
	if n := robot.Count(linktest.Damping); n == 0 || n != robot.Count() {
		t.Errorf("%d of %d frames were damping frames, want all", n, robot.Count())
	}
}

// TestDoctorRightsAreAdvice: without real-time rights the doctor warns, and the robot is ready all the same.
func TestDoctorRightsAreAdvice(t *testing.T) {
	d := &diagnosis{}
	d.rights(80)
	if len(d.Findings) != 1 || d.Findings[0].Code != "realtime" || d.Findings[0].Level == levelError {
		t.Errorf("%+v", d.Findings)
	}
	if err := fifo(0); err != nil {
		t.Errorf("ordinary priority: %v", err)
	}
}

// TestDoctorNamesWhatArrives: a robot whose answers are wrong in one way each.
func TestDoctorNamesWhatArrives(t *testing.T) {
	for _, c := range []struct {
		code  string
		level level
		alter func(*wire.LowState)
		says  string
	}{
		{"level_flag", levelError, func(s *wire.LowState) { s.LevelFlag = 0 }, "0x00, not a low level's 0xFF"},
		{"level_flag", levelError, func(s *wire.LowState) { s.LevelFlag = wire.LevelHigh }, "0xEE"},
		{"tick_stuck", levelError, func(s *wire.LowState) { s.Tick = 42 }, "stands at 42 ms"},
		{"zeros", levelError, func(s *wire.LowState) { *s = wire.LowState{Header: s.Header} }, "only zeros"},
		{"quaternion_bad", levelError, func(s *wire.LowState) { s.IMU.Quaternion = [4]float32{} }, "length 0.00"},
		{"tilt", levelWarning, func(s *wire.LowState) { s.IMU.Quaternion = [4]float32{0.866, 0.5, 0, 0} }, "1.05 rad"},
		{"joint_range", levelError, func(s *wire.LowState) { s.Motor[4].Q = 9 }, "FL_thigh_joint 9.00"},
		{"motor_overheat_mode", levelError, func(s *wire.LowState) { s.Motor[2].Mode = wire.ModeOverheat }, "FR_calf_joint (35 C)"},
		{"motor_mode_dropped", levelError, func(s *wire.LowState) { s.Motor[1].Mode, s.Motor[3].Mode = 0, 1 }, "FR_thigh_joint 0x00, FL_hip_joint 0x01"},
		{"motor_hot", levelWarning, func(s *wire.LowState) { s.Motor[0].Temperature = 70 }, "FR_hip_joint 70 C"},
		{"motor_hot", levelError, func(s *wire.LowState) { s.Motor[0].Temperature = 90 }, "too hot"},
		{"motor_temp_unknown", levelWarning, func(s *wire.LowState) {
			for i := range s.Motor {
				s.Motor[i].Temperature = 0
			}
		}, "no motor"},
		{"foot_force_zero", levelWarning, func(s *wire.LowState) { s.FootForce = [4]int16{} }, "read 0"},
		{"remote_absent", levelWarning, func(s *wire.LowState) { s.Remote = [40]byte{} }, "L2+B"},
		{"remote_stop", levelWarning, func(s *wire.LowState) {
			r := wire.Remote{Head: [2]byte{wire.RemoteHead0, wire.RemoteHead1}, Buttons: wire.ButtonL2 | wire.ButtonB}
			copy(s.Remote[:], wire.AppendRemote(nil, &r))
		}, "pressed"},
		{"battery_unknown", levelWarning, func(s *wire.LowState) { s.BMS.CellVoltage = [10]uint16{} }, "plausible"},
		{"battery_low", levelWarning, func(s *wire.LowState) { s.BMS.SOC = 15 }, "15 %"},
		{"battery_low", levelError, func(s *wire.LowState) { s.BMS.SOC = 5 }, "will not stand up"},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel() // they listen more than they compute
			robot := lyingRobot(t)
			robot.OnState(c.alter)
			d, _ := doctor(t, robot.Addr())
			f := d.find(c.code)
			if f == nil || f.Level != c.level || !strings.Contains(f.Text, c.says) {
				t.Fatalf("%+v, want %s %s: ...%s...", d.Findings, c.level, c.code, c.says)
			}
			if d.OK != (c.level != levelError) {
				t.Errorf("ok %v: %+v", d.OK, d.Findings)
			}
		})
	}
}

// TestDoctorNamesWhyNothingArrives: rows 20, 21 and 23 of cases.md, each cause on a real socket.
func TestDoctorNamesWhyNothingArrives(t *testing.T) {
	good, err := lyingRobot(t).Frame()
	if err != nil {
		t.Fatal(err)
	}
	noHead := slices.Clone(good)
	noHead[0] = 0
	var otherForm wire.LowState
	otherForm.Init()
	level, err := wire.AppendLowState(nil, &otherForm, wire.EncryptedCRC)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, code string
		answer     []byte // to each command; nil: a socket that never answers
		says       string
	}{
		{"silence", "no_answer", nil, "Sport mode"},
		{"zeros", "zeros", make([]byte, wire.LowStateSize), "only zeros"},
		{"head", "bad_head", noHead, "FE EF"},
		{"level", "level_flag", level, "other level"},
		{"CRC", "bad_crc", linktest.Corrupt(good), "0 good"},
		{"A1", "wrong_length", good[:link.A1LowStateSize], "771 bytes where a Go1's LowState has 807: that is the A1's"},
		{"sport mode's port", "wrong_length", linktest.Long(good, wire.HighStateSize), "HighState"},
		{"empty", "empty_datagrams", []byte{}, "another program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			peer := udpSocket(t, closedPort(t))
			go answer(peer, peer, c.answer)
			d, r := doctor(t, addrOf(peer))
			f := d.find(c.code)
			if f == nil || f.Level != levelError || !strings.Contains(f.Text, c.says) {
				t.Fatalf("%+v, want an error %s: ...%s...", d.Findings, c.code, c.says)
			}
			if r.code != 1 || !strings.Contains(r.stderr, "clawagent: doctor: the robot at "+addrOf(peer).String()+" is not ready") {
				t.Errorf("exit code %d: %s", r.code, r.stderr)
			}
			if c.answer != nil && d.find("not_lowstate") == nil {
				t.Errorf("no not_lowstate among %+v", d.Findings)
			}
		})
	}

	t.Run("nothing listens", func(t *testing.T) {
		d, r := doctor(t, closedPort(t))
		if f := d.find("nothing_listens"); f == nil || f.Level != levelError || r.code != 1 || d.Link["port_refused"] == 0 {
			t.Errorf("exit code %d: %+v %v", r.code, d.Findings, d.Link)
		}
	})
	t.Run("wrong port", func(t *testing.T) {
		peer, other := udpSocket(t, closedPort(t)), udpSocket(t, netip.AddrPortFrom(localhost, 0))
		go answer(peer, other, good)
		d, r := doctor(t, addrOf(peer))
		f := d.find("wrong_port")
		if f == nil || f.Level != levelError || r.code != 1 || !strings.Contains(f.Remedy, "--robot udp://"+addrOf(other).String()) {
			t.Errorf("exit code %d: %+v", r.code, d.Findings)
		}
	})
	t.Run("foreign sender", func(t *testing.T) {
		peer := udpSocket(t, closedPort(t))
		other := udpSocket(t, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 9}), 0))
		go answer(peer, other, good)
		d, _ := doctor(t, addrOf(peer))
		if f := d.find("foreign_sender"); f == nil || f.Level != levelError {
			t.Errorf("%+v", d.Findings)
		}
	})
	t.Run("states stop", func(t *testing.T) {
		robot := lyingRobot(t)
		robot.Drop(func(number uint64) bool { return number > 3 })
		d, _ := doctor(t, robot.Addr(), "--seconds", "1")
		if f := d.find("states_stopped"); f == nil || f.Level != levelError {
			t.Errorf("%+v", d.Findings)
		}
	})
}

// answer sends one datagram from a socket for each that comes to another, until that is closed.
func answer(at, from *net.UDPConn, datagram []byte) {
	buf := make([]byte, 2048)
	for {
		_, client, err := at.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if datagram != nil {
			from.WriteToUDPAddrPort(datagram, client)
		}
	}
}

// TestDoctorFewBadAmongGood: what does not keep states from flowing is a warning.
func TestDoctorFewBadAmongGood(t *testing.T) {
	robot := lyingRobot(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		frame, err := robot.Frame()
		if err == nil && robot.Await(5, patience) {
			robot.Send(linktest.Corrupt(frame), linktest.Corrupt(frame), frame[:771])
		}
	}()
	d, r := doctor(t, robot.Addr(), "--seconds", "2")
	<-done
	for _, code := range []string{"bad_crc", "wrong_length"} {
		if f := d.find(code); f == nil || f.Level != levelWarning {
			t.Errorf("%s: %+v", code, d.Findings)
		}
	}
	if r.code != 0 || d.Link["rejected_crc"] != 2 || d.Link["rejected_short"] != 1 {
		t.Errorf("exit code %d, link %v", r.code, d.Link)
	}
}

// TestDoctorLeavesSportModeStanding: a robot under its own controller is told of, and gets no low-level frame.
func TestDoctorLeavesSportModeStanding(t *testing.T) {
	robot := linktest.New(t, linktest.Config{Sport: true})
	for _, args := range [][]string{nil, {"--arm"}} {
		d, r := doctor(t, robot.Addr(), args...)
		f := d.find("sport_mode")
		if f == nil || r.code != 1 || d.Sport != "on" || !strings.Contains(f.Remedy, "L2+A, L2+A, L2+B, then L1+L2+START") {
			t.Errorf("%v: exit code %d: %+v", args, r.code, d.Findings)
		}
	}
	unfelled(t, robot)
}

// unfelled checks that a robot in sport mode was asked, and still stands.
func unfelled(t *testing.T, robot *linktest.Robot) {
	t.Helper()
	if _, limp := robot.Limp(); limp || robot.Count() != 0 {
		t.Errorf("limp %v, %d low-level frames, want a standing robot and none", limp, robot.Count())
	}
	for _, f := range robot.HighFrames() {
		var c wire.HighCmd
		if _, err := wire.DecodeHighCmd(f, &c); err != nil || c.Mode != wire.HighModeIdle || c.Velocity != [2]float32{} {
			t.Errorf("a high-level frame that asks for more than a state: %v %+v", err, c)
		}
	}
}

// TestDoctorHighLevelUnclear: what answers strangely may be a sport mode of another version.
func TestDoctorHighLevelUnclear(t *testing.T) {
	robot := lyingRobot(t)
	high := udpSocket(t, netip.AddrPortFrom(localhost, 0))
	go answer(high, high, make([]byte, 99))
	d, _ := doctor(t, robot.Addr(), "--high", addrOf(high).String())
	if f := d.find("high_level_unclear"); f == nil || f.Level != levelError || robot.Count() != 0 {
		t.Errorf("%d frames, %+v", robot.Count(), d.Findings)
	}
}

// TestDoctorSilenceProvesNothing: away from this machine, only a person's word replaces the high-level service's.
func TestDoctorSilenceProvesNothing(t *testing.T) {
	own := ownAddr(t)
	robot := linktest.New(t, linktest.Config{Addr: netip.AddrPortFrom(own, 0)})
	high := udpSocket(t, netip.AddrPortFrom(own, 0)) // reads nothing, says nothing
	d, r := doctor(t, robot.Addr(), "--high", addrOf(high).String())
	if f := d.find("sport_mode_unknown"); f == nil || r.code != 1 || robot.Count() != 0 || !strings.Contains(f.Remedy, "--arm") {
		t.Errorf("exit code %d, %d frames: %+v", r.code, robot.Count(), d.Findings)
	}
	if len(d.ARP) == 0 {
		t.Error("nothing about ARP")
	}
	if d, r := doctor(t, robot.Addr(), "--high", addrOf(high).String(), "--arm"); r.code != 0 || robot.Count(linktest.Damping) != robot.Count() || robot.Count() == 0 {
		t.Errorf("--arm: exit code %d, %d frames: %+v", r.code, robot.Count(), d.Findings)
	}
}

// ownAddr is an address of this machine that is not loopback.
func ownAddr(t *testing.T) netip.Addr {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			return p.Addr()
		}
	}
	t.Skip("needs an IPv4 address besides loopback: this machine has no network")
	return netip.Addr{}
}

// TestDoctorSparesAnotherAgentsRobot: frames between a running agent's would make a walking robot fall.
func TestDoctorSparesAnotherAgentsRobot(t *testing.T) {
	robot := lyingRobot(t)
	a := startAgent(t, robot.Addr(), "--lockstep")
	t.Setenv("TMPDIR", t.TempDir()) // the lock is not a matter of folders
	d, r := doctor(t, robot.Addr())
	f := d.find("another_agent")
	if f == nil || r.code != 1 || robot.Count() != 0 || len(robot.HighFrames()) != 0 {
		t.Fatalf("exit code %d, %d frames: %+v", r.code, robot.Count(), d.Findings)
	}
	if want := "process " + strconv.Itoa(a.cmd.Process.Pid); !strings.Contains(f.Text, want) {
		t.Errorf("%q does not name %s", f.Text, want)
	}
	a.stand()
	if _, r := doctor(t, robot.Addr(), "--arm"); r.code != 1 {
		t.Errorf("exit code %d beside a standing robot", r.code)
	}
	a.until("it still stands", func(s *state) bool { return s.Mode == "stand" })
	a.cmd.Process.Kill()
	<-a.ended
	if d, _ := doctor(t, robot.Addr()); !d.OK {
		t.Errorf("after the agent's death: %+v", d.Findings)
	}
}

// TestDoctorLeavesTheGuardDamping: a guard that damps for an agent that was killed goes on where the doctor sends nothing, and lets go
// where it does.
func TestDoctorLeavesTheGuardDamping(t *testing.T) {
	robot := lyingRobot(t)
	a := guardedAgent(t, robot)
	a.post("/api/v1/arm", "{}")
	a.waitFor("damping", func() bool { return robot.Count(linktest.Damping) > 50 })
	a.signal(syscall.SIGKILL)
	<-a.ended
	high := udpSocket(t, netip.AddrPortFrom(localhost, 0))
	go answer(high, high, make([]byte, 99))
	if d, _ := doctor(t, robot.Addr(), "--high", addrOf(high).String()); d.find("high_level_unclear") == nil {
		t.Fatalf("%+v", d.Findings)
	}
	r, code := guardStatus(t, robot)
	if code != 0 || !r.AgentGone || !r.Sending {
		t.Errorf("behind a doctor that sent nothing, the guard's status is %d %+v", code, r)
	}
	if n := robot.Count(); !robot.Await(n+100, patience) {
		t.Error("nothing damps the robot any more")
	}
	if d, _ := doctor(t, robot.Addr()); !d.OK {
		t.Errorf("%+v", d.Findings)
	}
	if _, code := guardStatus(t, robot); code != 3 {
		t.Errorf("the guard still damps between the doctor's frames: %d", code)
	}
}

func TestDoctorLocalAddress(t *testing.T) {
	robot := lyingRobot(t)
	taken := udpSocket(t, netip.AddrPortFrom(localhost, 0))
	d, r := doctor(t, robot.Addr(), "--local", addrOf(taken).String())
	if f := d.find("local_address"); f == nil || r.code != 1 || !strings.Contains(f.Text, addrOf(taken).String()) {
		t.Errorf("exit code %d: %+v", r.code, d.Findings)
	}
	// Row 21: a Go1 that answers one local port only.
	free := closedPort(t)
	if d, _ := doctor(t, robot.Addr(), "--local", free.String()); !d.OK || d.Local != free.String() {
		t.Errorf("local %s: %+v", d.Local, d.Findings)
	}
}

// TestDoctorForPeople: the same words in the same order each time, errors first.
func TestDoctorForPeople(t *testing.T) {
	peer := udpSocket(t, closedPort(t))
	go answer(peer, peer, make([]byte, wire.LowStateSize))
	var shapes []string
	for range 3 {
		r := clawagent(t, "doctor", "--seconds", "0.2", "--robot", "udp://"+addrOf(peer).String())
		for _, want := range []string{"robot 127.0.0.1:", "datagrams: ", "error    zeros: ", "         -> ", "not ready"} {
			if !strings.Contains(r.stdout, want) {
				t.Fatalf("no %q in\n%s", want, r.stdout)
			}
		}
		if strings.Index(r.stdout, "error ") > strings.Index(r.stdout, "ok  ") {
			t.Errorf("ok before error:\n%s", r.stdout)
		}
		shapes = append(shapes, strings.Map(func(c rune) rune {
			if c >= '0' && c <= '9' {
				return -1
			}
			return c
		}, r.stdout))
	}
	if shapes[0] != shapes[1] || shapes[1] != shapes[2] {
		t.Errorf("three runs differ by more than figures:\n%s", strings.Join(shapes, "\n"))
	}
}

func TestARPEntry(t *testing.T) {
	const table = `IP address       HW type     Flags       HW address            Mask     Device
192.168.123.10   0x1         0x2         00:80:e1:00:00:01     *        eth0
192.168.123.161  0x1         0x0         00:00:00:00:00:00     *        eth1
torn line
`
	for addr, want := range map[string]string{
		"192.168.123.10":  "00:80:e1:00:00:01 on eth0",
		"192.168.123.161": "nobody answers on eth1",
		"192.168.123.1":   "no entry: this machine's own, behind a router, or never asked",
	} {
		if got := arpEntry(strings.NewReader(table), netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}
