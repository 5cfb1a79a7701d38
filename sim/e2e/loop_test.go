package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// TestRemoteStopWithoutHTTP walks without any HTTP server in the process: L2+B, down for a single state, damps with the frame
// that answers that state.
func TestRemoteStopWithoutHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigSetup{noHTTP: true, faults: []string{"remote_buttons,samples=1@walk+2"}})
	r.walk()
	w := r.walkedAt()
	r.runTo(w + 2 + after + 1)
	s := r.snapshot()
	recs := r.records()
	since := began(t, recs, "remote_buttons")
	at, _, ok := damped(recs, since)
	if age := (at - since) * 1e3; !ok || age > 2*tickMs {
		t.Errorf("damped: %v, %.0f ms after the state with L2+B, want at most two ticks", ok, age)
	}
	if r := torqueAfter(recs, at); r != nil {
		t.Errorf("torque after damping: %v", *r)
	}
	if s.Mode != control.EStop || s.Verdict.Fault != safety.RemoteStop {
		t.Errorf("mode %v, fault %v", s.Mode, s.Verdict.Fault)
	}
	t.Logf("damped %.0f ms after the state with L2+B", (at-since)*1e3)
}

// TestLoopLate is the guard's limit as the loop knows it: 20 ms late damps, whether it woke late or was held up within the tick.
func TestLoopLate(t *testing.T) {
	for _, c := range []struct {
		name   string
		heldUp bool
		lateNs int64
		trips  bool
	}{
		{"wakes 20 ms late", false, 20e6, true},
		{"wakes 19 ms late", false, 19e6, false},
		{"held up 20 ms within the tick", true, 20e6, true},
		{"held up 19 ms within the tick", true, 19e6, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var lateAt atomic.Int64 // robot's clock, ms
			walked := 0
			r := newRig(t, rigSetup{each: func(r *rig, s *control.Snapshot) {
				if s.Mode != control.Policy {
					return
				}
				// Once: the robot's time stood still meanwhile, which looks like a longer way from then on.
				if walked++; walked != 2000 {
					return
				}
				lateAt.CompareAndSwap(0, int64(s.State.Tick)+tickMs)
				if c.heldUp {
					r.clock.heldUp = c.lateNs
				} else {
					r.clock.now += c.lateNs
				}
			}})
			r.walk()
			w := r.walkedAt()
			if !c.trips {
				r.runTo(w + 2 + calm)
				st := getState(t, r.http)
				walkedOn(t, r.records(), w+2, w+2+calm, 0.8)
				if st.Mode != "policy" || st.fault() != "" {
					t.Errorf("state says mode %s, fault %q", st.Mode, st.fault())
				}
				return
			}
			until(t, "the late tick", func() bool { return lateAt.Load() > 0 })
			since := float64(lateAt.Load()) / 1e3
			r.runTo(since + after + 1)
			st := getState(t, r.http)
			recs := r.records()
			at, _, ok := damped(recs, since-tickMs/1e3)
			if age := (at - since) * 1e3; !ok || age > 1e-6 {
				t.Errorf("damped: %v, %.0f ms after the state of the late tick, want its very frame", ok, age)
			}
			if r := torqueAfter(recs, at); r != nil {
				t.Errorf("torque after damping: %v", *r)
			}
			if st.Mode != "damp" || st.fault() != "loop_late" {
				t.Errorf("state says mode %s, fault %q", st.Mode, st.fault())
			}
		})
	}
}

// TestTickWarnings are the conditions of the table that are worth a warning and nothing else, one state long each where that is
// enough, and just below; all in one walk.
func TestTickWarnings(t *testing.T) {
	t.Parallel()
	rows := []struct {
		fault string
		warn  safety.Fault
		want  bool
	}{
		{"drop_state,samples=3", safety.StateStale, true}, // 6 ms
		{"drop_state,samples=2", safety.StateStale, false},
		{"joint_speed,joint=FL_hip,value=22.5,samples=1", safety.JointSpeed, true},
		{"joint_speed,joint=FL_hip,value=22.3,samples=1", safety.JointSpeed, false},
		{"joint_speed,joint=RL_thigh,value=-22.5,samples=1", safety.JointSpeed, true},
		{"joint_speed,joint=RL_thigh,value=-22.3,samples=1", safety.JointSpeed, false},
		{"joint_speed,joint=RR_calf,value=15.3,samples=1", safety.JointSpeed, true},
		{"joint_speed,joint=RR_calf,value=15.1,samples=1", safety.JointSpeed, false},
		{"power,w=565,samples=1", safety.Power, true},
		{"power,w=555,samples=1", safety.Power, false},
		{"delay_state,ms=14", safety.EndToEndAge, true}, // an answer is up to 20 ms old, and lasts 18
		{"delay_state,ms=4", safety.EndToEndAge, false},
		{"drop_state,samples=10", safety.StateStale, true}, // 22 ms: the last frame is held
	}
	const space = 1. // s
	var faults []string
	for i, row := range rows {
		faults = append(faults, fmt.Sprintf("%s@walk+%g+%g", row.fault, 2+space*float64(i), 0.2))
		if kindOf(row.fault) != "delay_state" {
			faults[i] = fmt.Sprintf("%s@walk+%g", row.fault, 2+space*float64(i))
		}
	}
	var seen [1 << 16]uint64 // warnings by tick of the newest state / 2
	r := newRig(t, rigSetup{faults: faults, each: func(_ *rig, s *control.Snapshot) {
		if i := int(s.State.Tick / 2); i < len(seen) {
			seen[i] |= s.Verdict.Warnings
		}
	}})
	r.walk()
	w := r.walkedAt()
	end := w + 2 + space*float64(len(rows))
	r.runTo(end)
	st := getState(t, r.http)
	recs := r.records()
	if st.Mode != "policy" || st.fault() != "" {
		t.Errorf("state says mode %s, fault %q", st.Mode, st.fault())
	}
	walkedOn(t, recs, w+2, end, 0.8)
	var starts []int
	for _, rec := range recs {
		if rec.Text("event") == "fault" && rec["on"] == true && rec.Text("kind") != "remote_sticks" {
			starts = append(starts, rec.Tick())
		}
	}
	if len(starts) != len(rows) {
		t.Fatalf("%d faults began, want %d", len(starts), len(rows))
	}
	for i, row := range rows {
		got := uint64(0)
		for tick := starts[i]/2 - 1; tick < starts[i]/2+250; tick++ {
			got |= seen[tick]
		}
		if has := got>>row.warn&1 == 1; has != row.want {
			t.Errorf("%s: warns of %v: %v, want %v", row.fault, row.warn, has, row.want)
		}
	}
}

// steering sends velocity commands over HTTP, from the loop's thread, at exact ticks.
type steering struct {
	t       *testing.T
	everyNs int64 // from one command to the next
	aheadS  float64
	until   func(*control.Snapshot) bool // no more commands from then on
	lastNs  int64
	ended   bool
	sent    int
}

func (c *steering) look(r *rig, s *control.Snapshot) {
	if s.Mode != control.Policy || c.ended || r.http == "" {
		return
	}
	if c.ended = c.until(s); c.ended || s.NowNs-c.lastNs < c.everyNs {
		return
	}
	c.lastNs = s.NowNs
	c.sent++
	body := fmt.Sprintf(`{"vx":0.8,"vy":0,"wz":0,"expires":%.6f}`, float64(s.NowNs)/1e9+c.aheadS)
	if code, b, err := call("POST", r.http+"command", body); (err != nil || code != 200) && !r.ending.Load() {
		c.t.Errorf("POST command %s: %d %s %v", body, code, b, err)
		c.ended = true
	}
}

// TestCommandStops is the row of the teleop command, and row 8 of the cases: the operator's link is lost at full speed.
func TestCommandStops(t *testing.T) {
	for _, c := range []struct {
		name   string
		aheadS float64 // end time of the last command
		rampS  float64 // age at which the ramp must begin
	}{
		{"silence", 2, 0.25},
		{"silence, and the last command ends after 100 ms", 0.1, 0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var lastNs, lastTick atomic.Int64
			type seen struct {
				ns    int64
				mode  control.Mode
				phase control.Phase
				vx    float32
				warn  bool
			}
			var story []seen // of each tick behind the last command
			drive := &steering{t: t, everyNs: 50e6, aheadS: c.aheadS, until: func(s *control.Snapshot) bool { return s.State.Tick > 9000 && s.NowNs%50e6 == 0 }}
			r := newRig(t, rigSetup{still: true, frames: true, each: func(r *rig, s *control.Snapshot) {
				if drive.sent > 0 && s.State.Tick > 8500 && len(story) < 30*500 {
					story = append(story, seen{s.NowNs, s.Mode, s.Phase, s.Command[0], s.Verdict.Warnings>>safety.CommandStale&1 == 1})
				}
				drive.look(r, s)
				if drive.ended && lastNs.Load() == 0 {
					lastTick.Store(int64(s.State.Tick) - (s.NowNs-drive.lastNs)/1e6)
					lastNs.Store(drive.lastNs)
				}
			}})
			r.walk()
			r.walkedAt()
			until(t, "the last command", func() bool { return lastNs.Load() > 0 })
			last := float64(lastTick.Load()) / 1e3
			r.runTo(last + 10 + 5)
			held := getState(t, r.http)
			r.runTo(last + 20 + 3 + after + 1)
			st := getState(t, r.http)
			recs := r.records()
			at := func(s float64) seen { // s seconds behind the last command
				i, _ := slices.BinarySearchFunc(story, lastNs.Load()+int64(s*1e9), func(e seen, ns int64) int { return cmp.Compare(e.ns, ns) })
				return story[i]
			}
			if v := at(c.rampS - 0.01).vx; v < 0.79 {
				t.Errorf("just before the ramp it follows %.2f m/s", v)
			}
			if v := at(c.rampS + 0.13).vx; v < 0.2 || v > 0.6 {
				t.Errorf("in mid-ramp it follows %.2f m/s", v)
			}
			if v := at(c.rampS + 0.254); v.vx != 0 || v.mode != control.Policy {
				t.Errorf("250 ms later it follows %.2f m/s in mode %v, want 0 and policy", v.vx, v.mode)
			}
			if at(0.24).warn || !at(0.26).warn {
				t.Errorf("warns of an old command at 240 ms: %v, at 260 ms: %v", at(0.24).warn, at(0.26).warn)
			}
			if v := at(9.99); v.mode != control.Policy {
				t.Errorf("just before 10 s in mode %v, want policy", v.mode)
			}
			if v := at(10.01); v.mode != control.Stand || v.phase != control.PhaseHold {
				t.Errorf("just behind 10 s in mode %v %v, want stand hold", v.mode, v.phase)
			}
			if v := at(19.99); v.mode != control.Stand {
				t.Errorf("just before 20 s in mode %v, want stand", v.mode)
			}
			if v := at(20.02); v.mode != control.Sit {
				t.Errorf("just behind 20 s in mode %v, want sit", v.mode)
			}
			if v, _ := speed(recs, last-0.5, last); math.Abs(v-0.8) > 0.2 {
				t.Errorf("it walked at %.2f m/s before", v)
			}
			for _, span := range [][2]float64{{1.5, 10}, {10.5, 20}} {
				if v, _ := speed(recs, last+span[0], last+span[1]); math.Abs(v) > 0.1 {
					t.Errorf("from %v to %v s after the last command it moves at %.2f m/s", span[0], span[1], v)
				}
			}
			if held.Mode != "stand" || held.fault() != "command_stale" || held.Severity != "stand_hold" {
				t.Errorf("at 15 s state says mode %s, severity %s, fault %q", held.Mode, held.Severity, held.fault())
			}
			down, _, ok := damped(recs, last)
			if !ok || down-last < 21.9 || down-last > 22.1 {
				t.Errorf("damped: %v, %.2f s after the last command, want home and down 2 s after 20 s", ok, down-last)
			}
			if r := torqueAfter(recs, down); r != nil {
				t.Errorf("torque after damping: %v", *r)
			}
			if st.Mode != "damp" || st.fault() != "command_stale" || st.Severity != "sit" {
				t.Errorf("at the end state says mode %s, severity %s, fault %q", st.Mode, st.Severity, st.fault())
			}
			if s := r.robot.Summary(); s.Falls != 0 || s.Height > 0.12 {
				t.Errorf("%d falls, %.2f m high at the end", s.Falls, s.Height)
			}
		})
	}
}

// TestCommandInTime is the row below: a command every 240 ms is followed without a pause.
func TestCommandInTime(t *testing.T) {
	t.Parallel()
	lowest, stale := float32(1), false
	drive := &steering{t: t, everyNs: 240e6, aheadS: 0.5, until: func(*control.Snapshot) bool { return false }}
	r := newRig(t, rigSetup{still: true, each: func(r *rig, s *control.Snapshot) {
		if s.State.Tick > 9000 && s.Mode == control.Policy {
			lowest = min(lowest, s.Command[0])
			stale = stale || s.Verdict.Warnings>>safety.CommandStale&1 == 1
		}
		drive.look(r, s)
	}})
	r.walk()
	w := r.walkedAt()
	r.runTo(w + 2 + calm)
	st := getState(t, r.http)
	recs := r.records()
	walkedOn(t, recs, w+2, w+2+calm, 0.8)
	if lowest < 0.799 || stale || st.Mode != "policy" || st.fault() != "" {
		t.Errorf("it followed %.3f m/s at the least, warned of an old command: %v, mode %s, fault %q", lowest, stale, st.Mode, st.fault())
	}
}

// TestDamagedCommand is row 7 of the cases on the walking robot: a number that JSON's reader makes an infinity is refused, and the
// next command works.
func TestDamagedCommand(t *testing.T) {
	t.Parallel()
	bad := []string{`{"vx":1e400,"vy":0,"wz":0,"expires":%v}`, `{"vx":NaN,"vy":0,"wz":0,"expires":%v}`, `{"vx":null,"vy":0,"wz":0,"expires":%v}`,
		`{"vx":0.5,"vx":0.1,"vy":0,"wz":0,"expires":%v}`, `{"vx":0.5,"vy":0,"wz":0,"expires":1e400}`, `{"vx":0.5,"vy":0,"wz":0,"expires":%v}x`}
	posted := 0
	var followed atomic.Bool
	r := newRig(t, rigSetup{still: true, each: func(r *rig, s *control.Snapshot) {
		if s.Command[0] > 0.4 {
			followed.Store(true)
		}
		if s.Phase != control.PhaseWalk || posted > 0 || r.http == "" {
			return
		}
		posted++
		end := float64(s.NowNs)/1e9 + 2
		for _, body := range bad {
			if strings.Contains(body, "%v") {
				body = fmt.Sprintf(body, end)
			}
			if code, b, err := call("POST", r.http+"command", body); err != nil || code != 400 {
				t.Errorf("%s: %d %s %v, want 400", body, code, b, err)
			}
		}
		if code, b, err := call("POST", r.http+"command", fmt.Sprintf(`{"vx":0.5,"vy":0,"wz":0,"expires":%v}`, end)); err != nil || code != 200 {
			t.Errorf("the command behind the bad ones: %d %s %v", code, b, err)
		}
	}})
	r.walk()
	until(t, "following it", func() bool { return followed.Load() || r.snapshot().Verdict.Fault != 0 })
	if !followed.Load() {
		t.Errorf("the command was not followed, fault %v", r.snapshot().Verdict.Fault)
	}
}

// TestNoTorqueBeforeStates is the other half of row 19: whoever asks for a stand gets no torque frame to the robot before ten
// fresh states.
func TestNoTorqueBeforeStates(t *testing.T) {
	for name, c := range map[string]struct {
		fault string
		since float64 // s, when fresh states begin
	}{
		"states from the start":       {"", 0},
		"no states for 3 s":           {"drop_state@0+3", 3},
		"one state, repeated for 3 s": {"freeze_tick,what=state@0+3", 3},
		"a stuck clock for 3 s":       {"freeze_tick@0+3", 3},
		"corrupt states for 3 s":      {"corrupt_state@0+3", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var faults []string
			if c.fault != "" {
				faults = append(faults, c.fault)
			}
			r := newRig(t, rigSetup{still: true, frames: true, faults: faults})
			r.must("arm", r.loop.Arm(context.Background()))
			refused := map[string]int{}
			until(t, "a stand", func() bool {
				err := r.loop.SetMode(context.Background(), control.Stand)
				var why *control.Refusal
				if errors.As(err, &why) {
					refused[why.Error()]++
				} else if err != nil {
					t.Fatal(err)
				}
				if err != nil && r.robot.Status().T > 30 {
					t.Fatalf("never stands: %v", refused)
				}
				return err == nil
			})
			r.runTo(c.since + 5)
			recs := r.records()
			i := slices.IndexFunc(recs, func(rec virtualtest.Record) bool {
				return rec.Text("event") == "command" && rec.Text("class") == "torque"
			})
			if i < 0 {
				t.Fatal("no torque frame arrived at all")
			}
			first := recs[i]
			// The state of robot time t answers a frame, and the frame behind it is the first that may know it.
			if at := first.Number("t"); at < c.since+9*tickMs/1e3 || first.Number("frame") < 11 {
				t.Errorf("first torque frame at %.3f s, the robot's frame %v; fresh states since %v s; refused: %v", at, first["frame"], c.since, refused)
			}
			t.Logf("first torque frame at %.3f s, frame %v", first.Number("t"), first["frame"])
		})
	}
}
