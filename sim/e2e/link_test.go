package e2e

import (
	"fmt"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// TestStateHeld is the state's age from 20 ms on: frames repeat the last one until states come again; below 20 ms the policy's
// new targets still go out.
func TestStateHeld(t *testing.T) {
	t.Parallel()
	// Gaps of 38 ms in which the policy answers twice, at all phases of its period.
	p := start(t, setup{faults: []string{"drop_state,samples=19@walk+2/0.402"}, robot: []string{"--log-every-frame"}})
	p.walk()
	w := p.walkedAt()
	p.runTo(w + 2 + 20)
	st := p.state()
	recs := p.records()
	walkedOn(t, recs, w+2, w+22, 0.8)
	if st.Mode != "policy" || st.fault() != "" {
		t.Errorf("state says mode %s, fault %q", st.Mode, st.fault())
	}
	gap, young, held := -1., 0, 0
	var before []any
	for _, r := range recs {
		at := float64(r.Tick())
		switch r.Text("event") {
		case "fault":
			if r.Text("kind") == "drop_state" && r["on"] == true {
				gap = at - tickMs // the last state that came
			}
		case "frame":
			target := r["target"].([]any)
			changed := before != nil && !slices.Equal(target, before)
			before = target
			switch age := at - gap; {
			case gap < 0 || age > 38:
			case age >= 20:
				held++
				if changed {
					t.Fatalf("a new target at a state's age of %.0f ms", age)
				}
			case age > 0 && changed:
				young++
			}
		}
	}
	if held < 400 || young < 40 {
		t.Errorf("%d frames at ages from 20 to 38 ms, %d new targets at younger ones: the limit was not tried", held, young)
	}
}

// TestEndToEndAge is the row of the age from state to command, and row 30 of the cases: states come ever later. Each is fresh
// when it comes, so that only their own clock tells.
func TestEndToEndAge(t *testing.T) {
	twice(t, "100 ms",
		func(t *testing.T) {
			const growth = 500. // ms/s
			p := start(t, setup{faults: []string{fmt.Sprintf("delay_state,ms=0,ms_per_s=%g@walk+2", growth)}})
			p.walk()
			w := p.walkedAt()
			p.runTo(w + 2 + after + 2)
			st := p.state()
			recs := p.records()
			since := began(t, recs, "delay_state")
			at, _, ok := damped(recs, since)
			if !ok {
				t.Fatalf("no damping frame arrived; the agent says mode %s, fault %q", st.Mode, st.fault())
			}
			// A state that comes d after the start was sensed at d/1.5; the target answers one at most 20 ms older.
			newest := (at - since) * (1 - 1/(1+growth/1e3)) * 1e3
			if newest > 100 || newest < 100-20-2*tickMs {
				t.Errorf("damped when the newest state was %.0f ms old, want 76..100", newest)
			}
			if r := torqueAfter(recs, at); r != nil {
				t.Errorf("torque after damping: %v", *r)
			}
			if st.Mode != "damp" || st.fault() != "end_to_end_age" {
				t.Errorf("state says mode %s, fault %q", st.Mode, st.fault())
			}
			t.Logf("damped %.0f ms after states began to be late, the newest %.0f ms old: %s", (at-since)*1e3, newest, st.fault())
		},
		// No policy walks with states that are 98 ms old (this one falls within seconds): the legs hold home instead, in mode stand.
		func(t *testing.T) {
			p := start(t, setup{still: true, faults: []string{"delay_state,ms=0,ms_per_s=500@stand+1+0.19/4", "delay_state,ms=95@stand+1.19+3/4"}})
			p.stand()
			from := p.status().T
			p.runTo(from + 2 + calm)
			st := p.state()
			if st.Mode != "stand" || st.fault() != "" {
				t.Errorf("state says mode %s, fault %q, warnings %v", st.Mode, st.fault(), st.Warnings)
			}
			if s := p.status(); s.Falls != 0 || s.Posture != "standing" {
				t.Errorf("it is %s with %d falls", s.Posture, s.Falls)
			}
		})
	twice(t, "30 ms warns", nil, func(t *testing.T) {
		testCalm(t, calmly{faults: []string{"delay_state,ms=10@walk+2"}})
	})
}

// TestRestartedRobot: the robot's computer restarts while it walks. What comes first when it is back is damping, and it stays that.
func TestRestartedRobot(t *testing.T) {
	for _, down := range []float64{0, 0.03, 1} {
		t.Run(fmt.Sprintf("down %v s", down), func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{faults: []string{fmt.Sprintf("restart,down=%g@walk+2", down)}})
			p.walk()
			w := p.walkedAt()
			p.runTo(w + 2 + down + after + 1)
			st := p.state()
			recs := p.records()
			var since float64
			for _, r := range recs {
				if r.Text("kind") == "restart" {
					since = r.Number("t")
				}
				if since == 0 || r.Text("event") != "command" {
					continue
				}
				if r.Text("class") == "torque" && r.Number("t") > since+2*tickMs/1e3 {
					t.Errorf("a torque frame arrived at a robot that has just started, %.3f s after: %v", r.Number("t")-since, r)
				}
			}
			if s := p.status(); s.Class != "damping" {
				t.Errorf("it ended with frames of class %s", s.Class)
			}
			if st.Mode != "damp" || st.Severity != "damp" || st.fault() == "" {
				t.Errorf("state says mode %s, severity %s, fault %q", st.Mode, st.Severity, st.fault())
			}
			t.Logf("%s", st.fault())
		})
	}
}

// TestKilledAgent: an agent that is killed sends nothing more. Its guard damps the robot from the same address until the next agent takes
// over; TestChaosKills says how soon. Without a guard, as in lockstep, the robot goes on executing its last command.
func TestKilledAgent(t *testing.T) {
	t.Run("guarded", testKilledGuarded)
	t.Run("without a guard", testKilledUnguarded)
}

func testKilledGuarded(t *testing.T) {
	t.Parallel()
	// What is tested is what the guard does, not how good this machine is: both may be held up for as long as they ever may.
	const staleMs = 50
	slow := []string{"--set", fmt.Sprintf("guard.stale_ms=%d", staleMs), "--set", fmt.Sprintf("safety.loop_late_ms=%d", staleMs)}
	p := start(t, setup{real: true, still: true, agent: slow})
	p.standAgain()
	killed := p.agent
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.done
	until(t, "damping, and a robot that lies", func() bool { s := p.status(); return s.Class == "damping" && s.Posture == "lying" })
	frames := p.status().Frames
	until(t, "more of it", func() bool { return p.status().Frames >= frames+100 })
	guard := p.mustGuard()
	if !guard.AgentGone || !guard.Latched || !guard.Sending || guard.PID != guardOf(killed) {
		t.Errorf("the guard says %+v", guard)
	}
	p.until = p.status().T
	var stop virtualtest.Record // newest
	for _, r := range p.records("command") {
		if r.Text("class") == "damping" && r.Text("from") == "torque" {
			stop = r
		}
	}
	if stop == nil {
		t.Fatal("no damping behind torque in the robot's log")
	}

	// The next agent finds the guard, and may stand the robot up.
	p.agent = launch(t, "clawagent", append([]string{"run", "--json", "--robot", "udp://" + p.low, "--http", "127.0.0.1:0", "--arm"}, slow...)...)
	p.http = "http://" + p.agent.ready["http"].(string) + "/api/v1/"
	if got := guardOf(p.agent); got != guard.PID {
		t.Errorf("the next agent has guard %d, want %d", got, guard.PID)
	}
	p.until = p.status().T
	for _, r := range p.records("command") {
		if r.Tick() > stop.Tick() && r.Text("class") == "torque" {
			t.Errorf("torque after damping, before anybody asked: %v", r)
		}
	}
	p.standAgain()
	sum := p.end()
	// The robot notes when it took a frame, and for how long it was held up itself.
	gap := float64(stop.Tick()) - stop.Number("last_torque_tick")
	most := staleMs + 2*tickMs + 2*guard.LateMaxUs/1e3 + sum.StallMax
	if gap > most {
		t.Errorf("%v ms from the last torque frame to damping, want at most %.1f", gap, most)
	}
	t.Logf("%v ms from the last torque frame to damping; the guard was held up for %.1f ms at most, the robot for %.1f", gap, guard.LateMaxUs/1e3, sum.StallMax)
}

func testKilledUnguarded(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	p.walk()
	w := p.walkedAt()
	p.runTo(w + 2)
	if err := p.agent.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.agent.done
	// Time in lockstep goes on with commands; these are lost, so that nothing but time arrives.
	p.inject("drop_command@now")
	conn, err := net.Dial("udp", p.low)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var c wire.LowCmd
	c.Init()
	frame, err := wire.AppendLowCmd(nil, &c, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	from := p.status()
	answer := make([]byte, 2048)
	for range 1000 {
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := conn.Read(answer); err != nil {
			t.Fatal(err)
		}
	}
	st := p.status()
	if st.T < from.T+1.9 || st.Class != "torque" || st.Frames > from.Frames+1 {
		t.Errorf("%.1f s after the agent's end the robot executes a command of class %s; %d frames since", st.T-from.T, st.Class, st.Frames-from.Frames)
	}
	t.Logf("%.1f s after the agent's end the robot still executes its last torque frame; it is %s, tilt %.2f rad", st.T-from.T, st.Posture, st.Tilt)
}

// TestRefusedStands: what the robot lacks keeps it down.
func TestRefusedStands(t *testing.T) {
	for name, c := range map[string]struct {
		faults []string
		robot  []string
		agent  []string
		code   int
		says   string
	}{
		"no hand remote":            {robot: []string{"--remote", "absent"}, code: 409, says: "remote"},
		"no hand remote, by choice": {robot: []string{"--remote", "absent"}, agent: []string{"--no-remote"}, code: 200},
		"battery at 10 %":           {faults: []string{"battery,soc=10@0"}, code: 409, says: "battery"},
		"battery at 11 %":           {faults: []string{"battery,soc=11@0"}, code: 200},
		"tilted 0.31 rad":           {faults: []string{"imu_tilt,rad=0.31,how=set@0"}, code: 409, says: "tilt"},
		"tilted 0.29 rad":           {faults: []string{"imu_tilt,rad=0.29,how=set@0"}, code: 200},
		"a motor in no mode":        {faults: []string{"motor_mode,joint=RL_hip,value=0@0"}, code: 409, says: "RL_hip"},
		"an angle no number":        {faults: []string{"joint_nan,joint=FR_calf@0"}, code: 409, says: "FR_calf"},
		"far from folded and home":  {faults: []string{"joint_offset,joint=FL_thigh,rad=-0.8@0"}, code: 409, says: "FL_thigh"},
		"no quaternion":             {faults: []string{"imu_quat_zero@0"}, code: 409, says: "tilt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{still: true, faults: c.faults, robot: c.robot, agent: c.agent})
			until(t, "states", func() bool { s := p.state(); return s.Mode == "listen" && s.Loop.States > 100 })
			code, answer := p.post("mode", `{"mode":"stand"}`)
			if code != c.code || !containsFold(answer, c.says) {
				t.Errorf("POST mode stand: %d %s, want %d and the word %q", code, answer, c.code, c.says)
			}
			if c.code != 200 {
				p.runTo(p.status().T + 1)
				if st := p.status(); st.Class != "damping" || st.LastTorque >= 0 {
					t.Errorf("refused, but frames of class %s arrive, torque at tick %d", st.Class, st.LastTorque)
				}
			}
		})
	}
}

// TestTorqueCommand is row 26 of the cases: a torque command (q = PosStopF, kp 0) is damped by its kd all the same.
func TestTorqueCommand(t *testing.T) {
	t.Parallel()
	turns <- struct{}{}
	defer func() { <-turns }()
	robot := launch(t, "clawsim", "robot", "--json", "--lockstep", "--listen", "127.0.0.1:0", "--set", "noise.torque=0", "--set", "noise.joint_speed=0")
	conn, err := net.Dial("udp", robot.ready["low"].(string))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const thigh, posStop, kd, tau = 4, 2.146e9, 0.5, 4
	var c wire.LowCmd
	var s wire.LowState
	c.Init()
	for i := range 12 {
		c.Motor[i] = wire.MotorCmd{Mode: wire.ModeServo, Q: posStop, Kd: kd}
	}
	c.Motor[thigh].Tau = tau
	answer := make([]byte, 2048)
	moved, worst := 0., 0.
	for i := range 150 {
		frame, err := wire.AppendLowCmd(nil, &c, wire.PlainCRC)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		n, err := conn.Read(answer)
		if err == nil {
			err = wire.DecodeLowState(answer[:n], &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		m := &s.Motor[thigh]
		if i > 2 && math.Abs(float64(m.Dq)) > 0.5 {
			moved = max(moved, math.Abs(float64(m.Dq)))
			// What the motor did over the step, from the speed at its end: the step's change of speed is the rest.
			worst = max(worst, math.Abs(float64(m.TauEst)-(tau-kd*float64(m.Dq))))
		}
	}
	if moved < 1 || worst > 0.6 {
		t.Errorf("the joint reached %.1f rad/s; its torque differs from tau - kd dq by up to %.2f N*m", moved, worst)
	}
	t.Logf("the joint reached %.1f rad/s; its torque differs from tau - kd dq by up to %.2f N*m", moved, worst)
}
