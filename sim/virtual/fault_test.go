package virtual_test

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

func power(s *wire.LowState) (w float64) {
	for i := range go1.Joints {
		w += math.Abs(float64(s.Motor[i].TauEst) * float64(s.Motor[i].Dq))
	}
	return w
}

func norm(s *wire.LowState) (n float64) {
	for _, x := range s.IMU.Quaternion {
		n += float64(x) * float64(x)
	}
	return math.Sqrt(n)
}

func remote(s *wire.LowState) (r wire.Remote) {
	wire.DecodeRemote(&s.Remote, &r)
	return r
}

func nan(x float32) bool { return x != x }

// Each fault that changes what a state says is seen in the states that it is in force for, and in no other.
func TestFaultsInStates(t *testing.T) {
	tests := []struct {
		fault string
		seen  func(s *wire.LowState) bool
	}{
		{"freeze_tick", func(s *wire.LowState) bool { return s.Tick == 40 }},
		{"freeze_tick,what=state", func(s *wire.LowState) bool { return s.Tick == 40 }},
		{"imu_quat_zero", func(s *wire.LowState) bool { return norm(s) == 0 }},
		{"imu_quat_scale,scale=0.7", func(s *wire.LowState) bool { return math.Abs(norm(s)-0.7) < 1e-5 }},
		{"imu_tilt,rad=0.7", func(s *wire.LowState) bool {
			return math.Abs(float64(s.IMU.RPY[0])-0.7) < 0.05 && math.Abs(float64(go1.Tilt(&s.IMU.Quaternion))-0.7) < 0.05 &&
				math.Abs(float64(s.IMU.Accelerometer[1])-9.81*math.Sin(0.7)) < 0.6
		}},
		{"imu_tilt,rad=0.99,axis=pitch,how=set", func(s *wire.LowState) bool {
			return math.Abs(float64(go1.Tilt(&s.IMU.Quaternion))-0.99) < 1e-3 && math.Abs(float64(s.IMU.RPY[1])-0.99) < 1e-3
		}},
		{"gyro_nan", func(s *wire.LowState) bool { return nan(s.IMU.Gyroscope[0]) }},
		{"acc_nan", func(s *wire.LowState) bool { return nan(s.IMU.Accelerometer[2]) }},
		{"joint_nan,joint=RL_calf", func(s *wire.LowState) bool { return nan(s.Motor[11].Q) }},
		{"joint_nan,joint=3,what=dq", func(s *wire.LowState) bool { return nan(s.Motor[3].Dq) }},
		{"joint_speed,joint=FR_calf,value=19.5", func(s *wire.LowState) bool { return s.Motor[2].Dq == 19.5 }},
		{"joint_offset,joint=FL_hip,rad=0.4", func(s *wire.LowState) bool { return s.Motor[3].Q-s.Motor[3].QRaw > 0.39 }},
		{"power,w=720", func(s *wire.LowState) bool { return math.Abs(power(s)-720) < 0.01 }},
		{"power,w=690", func(s *wire.LowState) bool { return math.Abs(power(s)-690) < 0.01 }},
		{"power_nan", func(s *wire.LowState) bool { return math.IsInf(float64(s.Motor[1].Dq), 1) }},
		{"temperature,joint=RR_hip,value=96", func(s *wire.LowState) bool { return s.Motor[6].Temperature == 96 }},
		{"temperature,value=0", func(s *wire.LowState) bool { return s.Motor[0].Temperature == 0 && s.Motor[11].Temperature == 0 }},
		{"motor_mode,joint=4", func(s *wire.LowState) bool { return s.Motor[4].Mode == wire.ModeOverheat }},
		{"motor_mode,value=0x00", func(s *wire.LowState) bool { return s.Motor[0].Mode == 0 && s.Motor[11].Mode == 0 }},
		{"battery,soc=9", func(s *wire.LowState) bool { return s.BMS.SOC == 9 }},
		{"cells_missing", func(s *wire.LowState) bool { return s.BMS.CellVoltage == [10]uint16{} }},
		{"remote_absent", func(s *wire.LowState) bool { return s.Remote == [wire.RemoteSize]byte{} }},
		{"remote_buttons,buttons=L2+B", func(s *wire.LowState) bool { return remote(s).Buttons == wire.ButtonL2|wire.ButtonB }},
		{"remote_buttons,buttons=0x220", func(s *wire.LowState) bool { return remote(s).Buttons == wire.ButtonL2|wire.ButtonB }},
		{"remote_sticks,ly=0.5,rx=-1", func(s *wire.LowState) bool { return remote(s).Ly == 0.5 && remote(s).Rx == -1 && remote(s).Lx == 0 }},
		{"foot_force_zero", func(s *wire.LowState) bool { return s.FootForce == [4]int16{} }},
		{"foot_force_offset,fr=1000,fl=2000,rr=3000,rl=-4000", func(s *wire.LowState) bool {
			return s.FootForce[0] > 900 && s.FootForce[1] > 1900 && s.FootForce[2] > 2900 && s.FootForce[3] < -3000
		}},
		{"foot_force_stuck,foot=RR,value=321", func(s *wire.LowState) bool { return s.FootForce[2] == 321 }},
	}
	for _, tc := range tests {
		t.Run(tc.fault, func(t *testing.T) {
			fault, err := virtual.ParseFault(tc.fault + "@0.04+0.02")
			if err != nil {
				t.Fatal(err)
			}
			cfg := virtualtest.Config()
			cfg.Faults = []virtual.Fault{fault}
			r := virtualtest.Start(t, cfg)
			c := newClient(t, r.Addr())
			for i := range 40 {
				at := 2 * (i + 1) // ms, of the state that comes back
				s := c.step(damping())
				want := at >= 40 && at < 60
				if got := tc.seen(&s); got != want {
					t.Errorf("state %d ms: seen %v, want %v", at, got, want)
				}
			}
			r.Stop()
			if f := r.Records("fault"); len(f) != 2 || f[0].Tick() != 40 || f[1].Tick() != 60 || f[0].Text("fault") != fault.String() {
				t.Errorf("fault records: %v", f)
			}
		})
	}
}

// Faults of the way the states take. In lockstep nothing is lost without an empty datagram in its place.
func TestFaultsOnTheWay(t *testing.T) {
	var s wire.LowState
	decodes := func(b []byte) bool { return wire.DecodeLowState(b, &s) == nil }
	reason := func(b []byte) string {
		r, _ := wire.ReasonOf(wire.DecodeLowState(b, &s))
		return r.String()
	}
	tests := []struct {
		fault string
		n     int // datagrams per command while it is in force
		seen  func(got [][]byte, tick uint32) bool
	}{
		{"drop_state", 1, func(got [][]byte, _ uint32) bool { return len(got[0]) == 0 }},
		{"duplicate_state", 2, func(got [][]byte, _ uint32) bool { return decodes(got[0]) && bytes.Equal(got[0], got[1]) }},
		{"corrupt_state", 1, func(got [][]byte, _ uint32) bool { return len(got[0]) == wire.LowStateSize && reason(got[0]) == "crc" }},
		{"zeros_state", 1, func(got [][]byte, _ uint32) bool {
			return len(got[0]) == wire.LowStateSize && reason(got[0]) == "head"
		}},
		{"short_state", 2, func(got [][]byte, _ uint32) bool { return decodes(got[0]) && len(got[1]) == 771 }},
		{"long_state,bytes=1087", 2, func(got [][]byte, _ uint32) bool { return decodes(got[0]) && len(got[1]) == 1087 }},
		{"empty_state", 2, func(got [][]byte, _ uint32) bool { return decodes(got[0]) && len(got[1]) == 0 }},
		{"foreign_state", 2, func(got [][]byte, _ uint32) bool { return decodes(got[0]) && bytes.Equal(got[0], got[1]) }},
		{"foreign_state,what=lie", 2, func(got [][]byte, tick uint32) bool {
			return decodes(got[1]) && go1.Tilt(&s.IMU.Quaternion) < 0.1 && decodes(got[0]) && go1.Tilt(&s.IMU.Quaternion) > 1.5 && s.Tick == tick+100
		}},
		{"foreign_state,what=garbage", 2, func(got [][]byte, _ uint32) bool {
			return len(got[0]) == wire.LowStateSize && !decodes(got[0]) && decodes(got[1])
		}},
		{"drop_command", 1, func(got [][]byte, _ uint32) bool { return len(got[0]) == 0 }},
		{"duplicate_command", 2, func(got [][]byte, _ uint32) bool { return decodes(got[0]) && bytes.Equal(got[0], got[1]) }},
		{"corrupt_command", 1, func(got [][]byte, _ uint32) bool { return len(got[0]) == 0 }},
	}
	for _, tc := range tests {
		t.Run(tc.fault, func(t *testing.T) {
			fault, err := virtual.ParseFault(tc.fault + ",samples=10@0.04")
			if err != nil {
				t.Fatal(err)
			}
			cfg := virtualtest.Config()
			cfg.Faults = []virtual.Fault{fault}
			r := virtualtest.Start(t, cfg)
			c := newClient(t, r.Addr())
			// A command is lost before the step it would have made, a state behind it.
			first, last := 19, 28
			if strings.HasSuffix(fault.Kind, "_command") {
				first, last = 20, 29
			}
			for i := range 40 {
				tick, n := uint32(2*(i+1)), 1
				on := i >= first && i <= last
				if on {
					n = tc.n
				}
				got := c.exchange(damping(), n)
				switch {
				case on && !tc.seen(got, tick):
					t.Errorf("command %d: % .40X", i, got)
				case !on && (!decodes(got[0]) || s.Tick != tick):
					t.Errorf("command %d: not fault-free, tick %d, want %d", i, s.Tick, tick)
				}
			}
			if !c.nothing() {
				t.Error("more came than was expected")
			}
			r.Stop()
			if f := r.Records("fault"); len(f) != 2 || f[0].Tick() != 40 {
				t.Errorf("fault records: %v", f)
			}
			sum, frames, crc := r.Summary(), uint64(40), uint64(0)
			switch fault.Kind {
			case "drop_command":
				frames -= 10
			case "duplicate_command":
				frames += 10
			case "corrupt_command":
				frames, crc = frames-10, 10
			}
			if sum.Frames != frames || sum.Rejected["crc"] != crc {
				t.Errorf("%d frames, want %d; refused %v", sum.Frames, frames, sum.Rejected)
			}
		})
	}
}

// A foreign state comes from a port that is not the robot's, or from an address that is not, and no more of it when the fault has ended.
func TestForeignStateIsForeign(t *testing.T) {
	for fault, host := range map[string]string{"foreign_state,what=lie,samples=2@now": "127.0.0.1", "foreign_state,what=lie,samples=2,from=127.0.0.2@now": "127.0.0.2"} {
		foreignStates(t, fault, host)
	}
}

func foreignStates(t *testing.T, fault, host string) {
	r := virtualtest.Start(t, virtualtest.Config())
	c := newClient(t, r.Addr())
	r.Fault(fault)
	seen := map[netip.AddrPort]int{}
	for i := range 6 {
		c.send(encode(t, damping()))
		for range 1 + b2i(i < 2) {
			c.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			_, from, err := c.conn.ReadFromUDPAddrPort(c.buf[:])
			if err != nil {
				t.Fatal(err)
			}
			seen[netip.AddrPortFrom(from.Addr().Unmap(), from.Port())]++
		}
	}
	of := 0
	for from, n := range seen {
		if from != r.Addr() && from.Addr().String() == host {
			of += n
		}
	}
	if len(seen) != 2 || seen[r.Addr()] != 6 || of != 2 || !c.nothing() {
		t.Errorf("states came from %v; the robot is %v, the other %s", seen, r.Addr(), host)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// What a command asks of a motor goes where the wires go: each sender commands the motor whose report it reads there.
func TestCommandsFollowWires(t *testing.T) {
	straight := [go1.Joints]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	for fault, tc := range map[string]struct {
		motor    [go1.Joints]int // that the command for each joint reaches
		reversed int             // joint that then turns the other way
	}{
		"legs_swapped,a=FR,b=RL":                   {[go1.Joints]int{9, 10, 11, 3, 4, 5, 6, 7, 8, 0, 1, 2}, -1},
		"joints_swapped,leg=FL":                    {[go1.Joints]int{0, 1, 2, 3, 5, 4, 6, 7, 8, 9, 10, 11}, -1},
		"joint_reversed,joint=RR_thigh":            {straight, 7},
		"motors_swapped,a=FR_hip,b=RL_calf":        {[go1.Joints]int{11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0}, -1},
		"joint_order":                              {[go1.Joints]int{3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8}, -1},
		"joint_order,order=isaac":                  {[go1.Joints]int{3, 0, 9, 6, 4, 1, 10, 7, 5, 2, 11, 8}, -1},
		"joint_order,order=isaac@0 joints_swapped": {[go1.Joints]int{3, 9, 0, 6, 4, 1, 10, 7, 5, 2, 11, 8}, -1},
		"legs_swapped@0 joints_swapped":            {[go1.Joints]int{3, 5, 4, 0, 1, 2, 6, 7, 8, 9, 10, 11}, -1},
	} {
		t.Run(fault, func(t *testing.T) {
			r, c := hung(t, strings.Fields(fault+"@0")...)
			for range 500 { // legs are still
				c.step(damping())
			}
			before := c.step(damping())
			for j := range go1.Joints {
				cmd := damping()
				cmd.Motor[j].Kd, cmd.Motor[j].Tau = 0.5, -3
				from := r.Status().Q
				s := c.step(cmd)
				for range 40 {
					c.step(cmd)
				}
				said, moved := 0, 0
				for i := range go1.Joints {
					if math.Abs(float64(s.Motor[i].TauEst)) > 2 {
						said = said*100 + i + 1
					}
				}
				is := r.Status().Q
				for i := range is {
					if math.Abs(is[i]-from[i]) > math.Abs(is[moved]-from[moved]) {
						moved = i
					}
				}
				if d := is[moved] - from[moved]; said != j+1 || moved != tc.motor[j] || (d > 0) != (j == tc.reversed) {
					t.Errorf("joint %d: torque is reported by %d, and %d moves by %v rad", j, said-1, moved, d)
				}
				for range 200 { // back to where it hung, still
					c.step(servoAt(&before, 20, 3))
				}
			}
		})
	}
}

// tick takes one datagram's; -1 for an empty one.
func tick(t *testing.T, b []byte) int {
	t.Helper()
	if len(b) == 0 {
		return -1
	}
	var s wire.LowState
	if err := wire.DecodeLowState(b, &s); err != nil {
		t.Fatal(err)
	}
	return int(s.Tick)
}

func TestDelayGrows(t *testing.T) {
	cfg := virtualtest.Config()
	f, err := virtual.ParseFault("delay_state,ms=6,ms_per_s=500@0.02+0.1")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Faults = []virtual.Fault{f}
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	empty, oldest := 0, 0
	for i := range 55 {
		now := 2 * (i + 1)
		switch got := tick(t, c.exchange(damping(), 1)[0]); {
		case got < 0:
			empty++
		case now < 20 && got != now:
			t.Errorf("at %d ms came %d before the fault", now, got)
		default:
			oldest = max(oldest, now-got)
		}
	}
	// 6 ms and 500 ms/s over 0.09 s: about 45 ms more, less what it grew while a state was under way.
	if empty < 3 || oldest < 30 || oldest > 52 {
		t.Errorf("%d empty, oldest %d ms", empty, oldest)
	}
}

func TestCommandsLate(t *testing.T) {
	cfg := virtualtest.Config()
	f, err := virtual.ParseFault("delay_command,ms=20@0+0.1")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Faults = []virtual.Fault{f}
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	first := 0
	for i := range 40 {
		cmd := damping()
		cmd.Motor[0].Mode = byte(100 + i)
		// A command takes effect in the step after it, which is also the one that its answer is of, or 20 ms later.
		if s := c.step(cmd); s.Motor[0].Mode != 0 {
			if first == 0 {
				first = i
			}
			if want := byte(100 + i - 10); s.Motor[0].Mode != want {
				t.Errorf("step %d: command %d is in force, want %d", i, s.Motor[0].Mode, want)
			}
		}
	}
	if first != 10 {
		t.Errorf("the first command took effect at step %d, want 10", first)
	}
	for range 15 {
		c.step(damping())
	}
	cmd := damping()
	cmd.Motor[0].Mode = 7
	if s := c.step(cmd); s.Motor[0].Mode != 7 {
		t.Error("the delay does not end")
	}
}

func TestPartialLossIsSeeded(t *testing.T) {
	cfg := virtualtest.Config()
	f, err := virtual.ParseFault("drop_state,p=0.25@0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Faults = []virtual.Fault{f}
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	lost := 0
	for range 1000 {
		if len(c.exchange(damping(), 1)[0]) == 0 {
			lost++
		}
	}
	r.Stop()
	if lost < 200 || lost > 300 || r.Summary().Lost != uint64(lost) {
		t.Errorf("%d of 1000 lost, counted %d", lost, r.Summary().Lost)
	}
}

// standing is a robot that has stood for 0.8 s.
func standing(t *testing.T) (*virtualtest.Robot, *client) {
	t.Helper()
	cfg := virtualtest.Config()
	cfg.Boot = virtual.BootHome
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	for range 400 {
		c.step(servo(60, 5))
	}
	return r, c
}

func TestPhysicalFaults(t *testing.T) {
	t.Run("push", func(t *testing.T) {
		r, c := standing(t)
		r.Fault("push,n=80,ms=100,dir=90@now")
		for range 50 {
			c.step(servo(60, 5))
		}
		if v := r.Status().Velocity[1]; v < 0.05 {
			t.Errorf("pushed to the left it moves at %v m/s", v)
		}
	})
	t.Run("kick", func(t *testing.T) {
		r, c := standing(t)
		r.Fault("kick,vx=0.5,vy=0@now")
		c.step(servo(60, 5))
		if v := r.Status().Velocity[0]; v < 0.3 {
			t.Errorf("kicked it moves at %v m/s", v)
		}
	})
	t.Run("friction", func(t *testing.T) {
		slid := func(mu string) float64 {
			r, c := standing(t)
			if mu != "" {
				r.Fault("friction,mu=" + mu + "@now")
			}
			r.Fault("push,n=60,ms=400,dir=0@now")
			from := r.Status().Pos[0]
			for range 200 {
				c.step(servo(60, 5))
			}
			return r.Status().Pos[0] - from
		}
		if ice, floor := slid("0.05"), slid(""); ice < 2*floor {
			t.Errorf("it slid %v m on ice and %v m on the floor", ice, floor)
		}
	})
	t.Run("other_sender", func(t *testing.T) {
		r, c := standing(t)
		before := c.step(servo(60, 5))
		r.Fault("other_sender@now+0.5")
		var s wire.LowState
		for range 100 {
			s = c.step(servo(60, 5))
		}
		if s.Motor[2].Q > before.Motor[2].Q-0.05 || math.Abs(float64(s.Motor[2].TauEst)) > 6 {
			t.Errorf("the calf is at %v (was %v) with %v N·m: the other's damping is not in force", s.Motor[2].Q, before.Motor[2].Q, s.Motor[2].TauEst)
		}
		if s := r.Status(); s.Frames != 501 || s.Class != virtual.ClassTorque {
			t.Errorf("the other's frames were counted as received: %+v", s)
		}
	})
	t.Run("other_sender pose", func(t *testing.T) {
		r := virtualtest.Start(t, virtualtest.Config())
		c := newClient(t, r.Addr())
		r.Fault("other_sender,what=pose,kp=30,kd=1,share=0.5@now")
		var largest float32
		for range 20 {
			s := c.step(damping())
			largest = max(largest, s.Motor[2].TauEst)
		}
		if largest < 10 {
			t.Errorf("calf %v N·m: nobody but the other asks for any", largest)
		}
	})
	t.Run("restart", func(t *testing.T) {
		r, c := standing(t)
		r.Fault("restart,down=0.01@now")
		empty := 0
		var last int
		for range 20 {
			if got := tick(t, c.exchange(servo(60, 5), 1)[0]); got < 0 {
				empty++
			} else {
				last = got
			}
		}
		if empty != 5 || last != 40 {
			t.Errorf("%d without an answer, tick %d at the end", empty, last)
		}
		if h := r.Status().Pos[2]; h > 0.2 {
			t.Errorf("it does not lie: %v m", h)
		}
	})
	t.Run("motor_drop", func(t *testing.T) {
		r, c := standing(t)
		before := c.step(servo(60, 5))
		r.Fault("motor_drop,joint=FL_calf@now+0.2")
		var s wire.LowState
		for range 95 {
			s = c.step(servo(60, 5))
		}
		if m := s.Motor[5]; m.Mode != wire.ModeDamping || math.Abs(float64(m.TauEst)) > 1 || math.Abs(float64(before.Motor[5].TauEst)) < 3 {
			t.Errorf("the calf: %+v, before %+v", m, before.Motor[5])
		}
		if s.Motor[2].Mode != wire.ModeServo || r.Status().Pos[2] > 0.27 {
			t.Errorf("FR_calf is in mode %#x; the robot is still at %v m", s.Motor[2].Mode, r.Status().Pos[2])
		}
		for range 10 {
			s = c.step(servo(60, 5))
		}
		if m := s.Motor[5]; m.Mode != wire.ModeServo || math.Abs(float64(m.TauEst)) < 3 {
			t.Errorf("the calf does not come back: %+v", m)
		}
	})
	t.Run("motor_drop behind swapped wires", func(t *testing.T) {
		for _, first := range []string{"legs_swapped", "motor_drop,joint=FL_calf"} { // whichever began first
			_, c := hung(t, first+"@0", map[bool]string{true: "motor_drop,joint=FL_calf@0", false: "legs_swapped@0"}[first == "legs_swapped"])
			c.step(servo(60, 5))
			s := c.step(servo(60, 5))
			if s.Motor[2].Mode != wire.ModeDamping || s.Motor[5].Mode != wire.ModeServo || math.Abs(float64(s.Motor[2].TauEst)) > 1 {
				t.Errorf("FL_calf, wired as FR_calf: %+v; FL_calf's place: %+v", s.Motor[2], s.Motor[5])
			}
		}
	})
	t.Run("temperature_ramp", func(t *testing.T) {
		r, c := standing(t)
		r.Fault("temperature_ramp,joint=RR_hip,per_s=100@now")
		was := int8(0)
		for i := range 500 {
			m := c.step(servo(60, 5)).Motor[6]
			if want := min(28+100*0.002*float64(i), 127); math.Abs(float64(m.Temperature)-want) > 2 || m.Temperature < was {
				t.Fatalf("step %d: %d C, want %v", i, m.Temperature, want)
			}
			was = m.Temperature
			if hot := m.Temperature >= 100; hot != (m.Mode == wire.ModeOverheat) {
				t.Fatalf("%d C in mode %#x", m.Temperature, m.Mode)
			}
		}
	})
	t.Run("sport_returns", func(t *testing.T) {
		r, c := standing(t)
		r.Fault("sport_returns@now+0.4")
		for range 150 {
			c.step(damping())
		}
		if s := r.Status(); !s.Sport || s.Pos[2] < 0.25 {
			t.Errorf("sport mode does not hold it: %+v", s)
		}
		for range 200 {
			c.step(damping())
		}
		if s := r.Status(); s.Sport || s.Pos[2] > 0.2 {
			t.Errorf("sport mode does not end: %+v", s)
		}
	})
	t.Run("clear", func(t *testing.T) {
		r, c := standing(t)
		r.Fault("battery,soc=5@now")
		r.Fault("remote_absent@stand+100")
		if s := c.step(damping()); s.BMS.SOC != 5 {
			t.Errorf("soc %d", s.BMS.SOC)
		}
		r.Fault("clear@now")
		if s := c.step(damping()); s.BMS.SOC != 90 || len(r.Status().Active) != 0 {
			t.Errorf("soc %d, active %v", s.BMS.SOC, r.Status().Active)
		}
	})
}

func TestEveryAndStand(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Boot = virtual.BootHome
	f, err := virtual.ParseFault("battery,soc=5,samples=3@stand+0.1/0.2")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Faults = []virtual.Fault{f}
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	low := 0
	for range 600 { // stood at 0.5 s, so on at 0.6, 0.8, 1.0, 1.2
		if s := c.step(servo(60, 5)); s.BMS.SOC == 5 {
			low++
		}
	}
	r.Stop()
	var on []int
	for _, rec := range r.Records("fault") {
		if rec["on"] == true {
			on = append(on, rec.Tick())
		}
	}
	if want := []int{600, 800, 1000, 1200}; low != 3*3+1 || !reflect.DeepEqual(on, want) {
		t.Errorf("%d states, begun at %v, want %v", low, on, want)
	}
}

// What comes again is there for its own length, and again, and not between.
func TestWhatComesAgainEndsBetween(t *testing.T) {
	for text, want := range map[string]string{
		"press,n=50,ms=20@0.02/0.04":        "20 on, 40 off, 60 on, 80 off, 100 on, ",
		"motor_drop,samples=5@0.02/0.04":    "20 on, 30 off, 60 on, 70 off, 100 on, ",
		"hand,ms=10,stay=4@0.02/0.04":       "20 on, 44 off, 60 on, 84 off, 100 on, ",
		"battery,soc=5@0.02+0.01/0.04":      "20 on, 30 off, 60 on, 70 off, 100 on, ",
		"push,n=5,ms=30,samples=3@0.02/.04": "20 on, 26 off, 60 on, 66 off, 100 on, ",
	} {
		f, err := virtual.ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg := virtualtest.Config()
		cfg.Faults = []virtual.Fault{f}
		r := virtualtest.Start(t, cfg)
		c := newClient(t, r.Addr())
		for range 51 {
			c.step(damping())
		}
		r.Stop()
		got := ""
		for _, rec := range r.Records("fault") {
			got += fmt.Sprintf("%d %s, ", rec.Tick(), map[any]string{true: "on", false: "off"}[rec["on"]])
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// Every kind of the table comes into force as the table's defaults say, from a flag's text, from a script and over HTTP, is logged, ends,
// and leaves a robot that answers.
func TestEveryKindEveryWay(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.Boot = virtual.BootHung
	r := virtualtest.Start(t, cfg)
	ctl, err := virtual.ServeControl(r.Robot, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Close()
	c := newClient(t, r.Addr())
	kinds := 0
	for line := range strings.Lines(virtual.FaultHelp()) {
		name, _, _ := strings.Cut(line, " ")
		if name == "" || strings.HasPrefix(line, "samples=N") {
			continue
		}
		kinds++
		fromScript, err := virtual.ReadScript("s.yaml", strings.NewReader("- {kind: "+name+", from: now}"))
		if err != nil || len(fromScript) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		r.Fault(name + "@now")
		if err := r.Inject(fromScript[0]); err != nil {
			t.Fatal(err)
		}
		if code, text := request(t, "POST", ctl.Addr(), "/fault", `{"kind":"`+name+`","from":"now"}`); code != 200 {
			t.Errorf("%s: %s", name, text)
		}
		for range 3 { // whatever the fault makes of it
			c.send(encode(t, damping()))
			c.newest()
		}
		r.Fault("clear@now")
		for tries := 0; ; tries++ {
			c.send(encode(t, damping()))
			b := c.newest()
			var s wire.LowState
			if wire.DecodeLowState(b, &s) == nil && len(r.Status().Active) == 0 {
				break
			}
			if tries == 50 {
				t.Fatalf("%s: a cleared robot does not answer", name)
			}
		}
	}
	r.Stop()
	begun := map[string]int{}
	for _, rec := range r.Records("fault") {
		if rec["on"] == true {
			begun[rec.Text("kind")]++
		}
	}
	for kind, n := range begun {
		if want := 3; n != want && kind != "clear" {
			t.Errorf("%s began %d times, want %d", kind, n, want)
		}
	}
	if len(begun) != kinds || kinds < 68 || len(r.Records("error")) != 0 {
		t.Errorf("%d of %d kinds began; errors %v", len(begun), kinds, r.Records("error"))
	}
}
