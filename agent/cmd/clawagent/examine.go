package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// states is what the doctor keeps of the states that came.
type states struct {
	n           int
	first, last wire.LowState
	lastNs      int64 // arrival of last
	gapNs       int64 // longest time between two arrivals
	zeros       int   // states without orientation and joints
	wrongLevel  int   // states with another level flag than low
	warm        bool  // a motor told a temperature
	feet        bool  // a foot sensor told a force
}

func (s *states) add(rx *wire.LowState, arrivedNs int64) {
	if s.n == 0 {
		s.first = *rx
	} else {
		s.gapNs = max(s.gapNs, arrivedNs-s.lastNs)
	}
	s.n++
	s.last, s.lastNs = *rx, arrivedNs
	blank := rx.IMU.Quaternion == [4]float32{}
	for i := range go1.Joints {
		blank = blank && rx.Motor[i].Q == 0
		s.warm = s.warm || rx.Motor[i].Temperature != 0
	}
	if blank {
		s.zeros++
	}
	if rx.LevelFlag != wire.LevelLow {
		s.wrongLevel++
	}
	s.feet = s.feet || rx.FootForce != [4]int16{}
}

// examine names what is wrong with well-formed states that were listened for
// from startNs on, for tookNs.
func (s *states) examine(d *diagnosis, limits *safety.Config, startNs, tookNs int64) {
	d.add(levelOK, "states", "", "%d states in %.1f s, tick %d to %d ms, longest gap %.1f ms",
		s.n, float64(tookNs)/1e9, s.first.Tick, s.last.Tick, float64(s.gapNs)/1e6)
	if s.wrongLevel > 0 {
		d.add(levelError, "level_flag", link.LowLevelHelp, "%d states carry the level flag 0x%02X, not a low level's 0x%02X", s.wrongLevel, s.last.LevelFlag, wire.LevelLow)
	}
	const stopped = 400e6 // ns of silence at the end that no busy computer explains
	if silence := startNs + tookNs - s.lastNs; silence > max(tookNs/2, stopped) {
		d.add(levelError, "states_stopped", "",
			"the last state came %.1f s before the end", float64(silence)/1e9)
	} else if float64(s.gapNs)/1e6 > limits.StateHoldMs {
		d.fault(levelWarning, safety.StateStale, "for %.0f ms no state came; the agent holds its frame from %.0f ms on and damps from %.0f ms",
			float64(s.gapNs)/1e6, limits.StateHoldMs, limits.StateDampMs)
	}
	if s.zeros == s.n {
		d.add(levelError, "zeros", "Wait a minute after switching it on; if it stays so, restart the robot.",
			"states arrive, but orientation and joints are only zeros: the robot's main board has no data from IMU and motors")
		return
	}
	if s.n >= 20 && s.first.Tick == s.last.Tick {
		d.fault(levelError, safety.TickStuck, "the robot's clock stands at %d ms: the same state again and again", s.last.Tick)
	}
	s.body(d)
	s.motors(d, limits)
	s.supplies(d, limits)
}

func (s *states) body(d *diagnosis) {
	norm := 0.0
	for _, q := range s.last.IMU.Quaternion {
		norm += float64(q) * float64(q)
	}
	const startTilt = 0.3 // rad, the design's limit for standing up
	if norm = math.Sqrt(norm); !(norm > 0.8 && norm < 1.2) {
		d.fault(levelError, safety.QuaternionBad, "the orientation has length %.2f, want 1", norm)
	} else if tilt := go1.Tilt(&s.last.IMU.Quaternion); !(tilt < startTilt) {
		d.fault(levelWarning, safety.Tilt, "the body tilts %.2f rad; it does not stand up from %.1f rad on", tilt, startTilt)
	}
	if !s.feet {
		d.add(levelWarning, "foot_force_zero", "", "the foot sensors read 0 all the time: contacts are unknown to them")
	}
}

// motors collects the joints that share a trouble, so that one cause is one finding.
func (s *states) motors(d *diagnosis, limits *safety.Config) {
	const stopMargin = 0.15 // rad beyond the mechanical stops that an encoder may say
	var notFinite, overheat, modes, outside, tooHot, hot []string
	for i := range go1.Joints {
		m, name := &s.last.Motor[i], go1.JointNames[i]
		if m.Q-m.Q != 0 || m.Dq-m.Dq != 0 {
			notFinite = append(notFinite, name)
		} else if m.Q < go1.StopLower[i]-stopMargin || m.Q > go1.StopUpper[i]+stopMargin {
			outside = append(outside, fmt.Sprintf("%s %.2f", name, m.Q))
		}
		if m.Mode == wire.ModeOverheat {
			overheat = append(overheat, fmt.Sprintf("%s (%d C)", name, m.Temperature))
		} else if m.Mode != wire.ModeServo {
			modes = append(modes, fmt.Sprintf("%s 0x%02X", name, m.Mode))
		}
		if t := int(m.Temperature); t >= limits.TempSitC {
			tooHot = append(tooHot, fmt.Sprintf("%s %d C", name, t))
		} else if t >= limits.TempWarnC {
			hot = append(hot, fmt.Sprintf("%s %d C", name, t))
		}
	}
	list := func(l level, f safety.Fault, joints []string, format string) {
		if len(joints) > 0 {
			d.fault(l, f, format, strings.Join(joints, ", "))
		}
	}
	list(levelError, safety.StateNotFinite, notFinite, "no number from %s")
	list(levelError, safety.MotorOverheatMode, overheat, "overheated, by their own word: %s")
	list(levelError, safety.MotorModeDropped, modes, "not in the servo mode 0x0A that they were told: %s")
	list(levelError, safety.MotorHot, tooHot, "too hot to stand: %s")
	list(levelWarning, safety.MotorHot, hot, "hot: %s")
	if len(outside) > 0 {
		d.add(levelError, "joint_range", "", "outside the mechanical stops, rad: %s", strings.Join(outside, ", "))
	}
	if !s.warm {
		d.fault(levelWarning, safety.MotorTempUnknown, "no motor tells its temperature")
	}
}

// supplies are the battery and the hand remote.
func (s *states) supplies(d *diagnosis, limits *safety.Config) {
	var r wire.Remote
	wire.DecodeRemote(&s.last.Remote, &r)
	if !r.Present() {
		d.fault(levelWarning, safety.RemoteAbsent, "the hand remote is absent: its stop (L2+B) would not work, and without --no-remote it will not stand up")
	} else if r.Pressed(wire.ButtonL2 | wire.ButtonB) {
		d.fault(levelWarning, safety.RemoteStop, "L2+B is pressed on the hand remote")
	}
	cells := 0
	for _, mv := range s.last.BMS.CellVoltage {
		if mv > 2500 && mv < 4500 { // what a lithium cell can have
			cells++
		}
	}
	switch charge := int(s.last.BMS.SOC); {
	case cells == 0:
		d.fault(levelWarning, safety.BatteryUnknown, "no battery cell tells a plausible voltage")
	case charge <= limits.BatterySitPct:
		d.fault(levelError, safety.BatteryLow, "the battery is at %d %%: it will not stand up", charge)
	case charge <= limits.BatteryWarnPct:
		d.fault(levelWarning, safety.BatteryLow, "the battery is at %d %%", charge)
	}
}
