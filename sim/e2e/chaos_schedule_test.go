package e2e

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/sim/virtual"
)

// trouble is something that can happen to a robot that walks, with what the safety table does about it.
type trouble struct {
	// fault of the virtual robot, up to the @. {lo:hi} stands for a whole number, {lo~hi} for a number, {a|b} for one of several words
	// and {joint} for a joint, each drawn.
	fault string
	lasts [2]float64 // s, drawn between; 0: it lasts samples, or for ever
	// channel: two troubles of one are not there at once, because they may add up to more than each.
	channel string
	does    safety.Severity
	names   []safety.Fault // one of them is what the agent says, for what acts
	// may: no row of the table judges it. The robot walks on, or comes to harm by it, and then one of these rows does its act.
	may []safety.Fault
	// dueMs: what sits or damps has sent its first damping frame not before and by then, after it began.
	dueMs [2]float64
	// needsWalk: only a robot that walks or stands tells.
	needsWalk bool
}

// imuSamples are the repeats of an IMU that damp.
var imuSamples = safety.DefaultConfig().IMUSamples

// troubles are all that the virtual robot can do to the agent and that has one right answer. Those that do nothing stay below a
// threshold of the table, those that act go beyond. Some few (may) have two, and are drawn only where nothing else acts.
var troubles = []trouble{
	{fault: "drop_state,samples={1:18}", channel: "states"},
	{fault: "corrupt_state,samples={1:18}", channel: "states"},
	{fault: "zeros_state,samples={1:18}", channel: "states"},
	{fault: "freeze_tick,what={tick|state},samples={1:18}", channel: "states"},
	{fault: "drop_command,samples={1:18}", channel: "states"},
	{fault: "delay_state,ms={1:10}", lasts: [2]float64{0.1, 1}, channel: "states"},
	{fault: "duplicate_state,p={0.1~1}", lasts: [2]float64{0.1, 2}, channel: "states"},
	{fault: "reorder", lasts: [2]float64{0.1, 1}, channel: "states"},
	{fault: "duplicate_command,p={0.1~1}", lasts: [2]float64{0.1, 1}, channel: "states"},
	{fault: "reorder_command", lasts: [2]float64{0.1, 1}, channel: "states"},
	{fault: "corrupt_command,samples={1:15}", channel: "states"},
	{fault: "foreign_state,what={copy|lie|garbage},p={0.1~1}", lasts: [2]float64{0.1, 2}, channel: "junk"},
	{fault: "short_state,bytes={1:806}", lasts: [2]float64{0.1, 1}, channel: "junk"},
	{fault: "long_state,bytes={808:1472}", lasts: [2]float64{0.1, 1}, channel: "junk"},
	{fault: "empty_state", lasts: [2]float64{0.1, 1}, channel: "junk"},
	{fault: "imu_quat_scale,scale={0.82~1.18}", lasts: [2]float64{0.1, 2}, channel: "imu"},
	{fault: "imu_tilt,rad={0.3~0.59},axis={roll|pitch},how=set,samples={1:3}", channel: "imu"},
	{fault: fmt.Sprintf("imu_stuck,samples={1:%d}", imuSamples), channel: "imu"}, // the first repeats nothing
	{fault: "imu_noise,gyro={0~0.15},acc={0~1},quat={0~0.005}", lasts: [2]float64{0.1, 2}, channel: "imu"},
	{fault: "joint_noise,joint={joint},q={0~0.005},dq={0~1}", lasts: [2]float64{0.1, 2}, channel: "joints"},
	{fault: "joint_stuck,joint={joint},samples={1:10}", channel: "joints"},
	{fault: "joint_stuck,joint={joint}", lasts: [2]float64{0.1, 2}, channel: "joints", may: []safety.Fault{safety.Tilt, safety.JointSpeed, safety.Power}},
	{fault: "joint_stuck,joint=all", lasts: [2]float64{0.1, 1}, channel: "joints",
		may: []safety.Fault{safety.Tilt, safety.JointSpeed, safety.Power, safety.AnotherSender}}, // its torques disagree on three joints
	{fault: "joint_speed,joint={joint},value={29~60},samples={1:4}", channel: "joints"},
	{fault: "power,w={400:690},samples={1:10}", channel: "joints"},
	{fault: "power,w={710:1900},samples={1:4}", channel: "joints"},
	{fault: "motor_mode,joint={joint},value={0|1|2},samples={1:4}", channel: "joints"},
	{fault: "temperature,joint={joint},value={20:84}", lasts: [2]float64{0.1, 4}, channel: "heat"},
	{fault: "temperature,joint={joint},value={85:127}", lasts: [2]float64{0.1, 1.9}, channel: "heat"},
	{fault: "battery,soc={11:100}", lasts: [2]float64{0.1, 4}, channel: "battery"},
	{fault: "battery,soc={0:10}", lasts: [2]float64{0.1, 0.9}, channel: "battery"},
	{fault: "cells,mv={3300:4200},spread={0:300}", lasts: [2]float64{0.1, 4}, channel: "battery"},
	{fault: "cells_missing,n={1:10}", lasts: [2]float64{0.1, 4}, channel: "battery"},
	{fault: "remote_absent", lasts: [2]float64{0.1, 0.9}, channel: "remote"},
	{fault: "remote_buttons,buttons={L2|B|A|X|L1|R1+R2}", lasts: [2]float64{0.1, 1}, channel: "remote"},
	{fault: "foot_force_zero", lasts: [2]float64{0.1, 4}, channel: "feet"},
	{fault: "foot_force_offset,drift={-50:50}", lasts: [2]float64{0.1, 4}, channel: "feet"},
	{fault: "foot_force_stuck,foot={FR|FL|RR|RL},value={0:300}", lasts: [2]float64{0.1, 4}, channel: "feet"},
	{fault: "push,n={10:60},ms=100,dir={-180:180}", channel: "body"},
	{fault: "kick,vx={-0.2~0.2},vy={-0.2~0.2}", channel: "body"},
	{fault: "friction,mu={0.5~1.2}", lasts: [2]float64{0.1, 4}, channel: "floor"},
	{fault: "other_sender,what={damping|pose}", lasts: [2]float64{0.006, 0.03}, channel: "joints"},
	{fault: "sport_returns", lasts: [2]float64{0.006, 0.03}, channel: "joints"},

	{fault: "imu_tilt,rad={0.62~0.95},axis={roll|pitch},how=set,samples=1", channel: "imu", does: safety.StandHold, names: []safety.Fault{safety.Tilt}},

	{fault: "temperature,joint={joint},value={86:94}", channel: "heat", does: safety.Sit, dueMs: [2]float64{4990, 5010}, names: []safety.Fault{safety.MotorHot}},
	{fault: "battery,soc={1:10}", channel: "battery", does: safety.Sit, dueMs: [2]float64{3990, 4010}, names: []safety.Fault{safety.BatteryLow}},
	{fault: "remote_absent", channel: "remote", does: safety.Sit, dueMs: [2]float64{3990, 4010}, names: []safety.Fault{safety.RemoteAbsent}},

	{fault: "drop_state", channel: "states", does: safety.Damp, dueMs: [2]float64{36, 40}, names: []safety.Fault{safety.StateStale}},
	{fault: "drop_state,samples={25:500}", channel: "states", does: safety.Damp, dueMs: [2]float64{36, 40}, names: []safety.Fault{safety.StateStale}},
	{fault: "corrupt_state", lasts: [2]float64{0.05, 2}, channel: "states", does: safety.Damp, dueMs: [2]float64{36, 40}, names: []safety.Fault{safety.StateStale}},
	{fault: "zeros_state", lasts: [2]float64{0.05, 2}, channel: "states", does: safety.Damp, dueMs: [2]float64{36, 40}, names: []safety.Fault{safety.StateStale}},
	{fault: "freeze_tick,what={tick|state}", lasts: [2]float64{0.06, 2}, channel: "states", does: safety.Damp, dueMs: [2]float64{36, 44},
		names: []safety.Fault{safety.TickStuck, safety.StateStale}},
	{fault: "drop_command", lasts: [2]float64{0.06, 0.3}, channel: "states", does: safety.Damp, dueMs: [2]float64{0, 304}, names: []safety.Fault{safety.StateStale}},
	{fault: "delay_state,ms=0,ms_per_s={400:600}", lasts: [2]float64{0.6, 1}, channel: "states", does: safety.Damp, dueMs: [2]float64{100, 400},
		names: []safety.Fault{safety.EndToEndAge, safety.StateStale}},
	{fault: "imu_tilt,rad={1.01~1.5},axis={roll|pitch},how=set,samples={1:10}", channel: "imu", does: safety.Damp, dueMs: [2]float64{0, 2}, names: []safety.Fault{safety.Tilt}},
	{fault: "imu_quat_zero,samples={1:50}", channel: "imu", does: safety.Damp, dueMs: [2]float64{0, 2}, names: []safety.Fault{safety.QuaternionBad}},
	{fault: "imu_quat_scale,scale={0.1~0.79},samples={1:50}", channel: "imu", does: safety.Damp, dueMs: [2]float64{0, 2}, names: []safety.Fault{safety.QuaternionBad}},
	{fault: fmt.Sprintf("imu_stuck,samples={%d:500}", imuSamples+1), channel: "imu", does: safety.Damp, dueMs: [2]float64{tickMs * float64(imuSamples-2), tickMs * float64(imuSamples)}, names: []safety.Fault{safety.IMUStuck}},
	{fault: "gyro_nan,samples={1:50}", channel: "imu", does: safety.Damp, dueMs: [2]float64{0, 2}, names: []safety.Fault{safety.StateNotFinite}},
	{fault: "acc_nan,samples={1:50}", channel: "imu", does: safety.Damp, dueMs: [2]float64{0, 2}, names: []safety.Fault{safety.StateNotFinite}},
	{fault: "joint_nan,joint={joint},what={q|dq},samples={1:50}", channel: "joints", does: safety.Damp, dueMs: [2]float64{0, 2}, names: []safety.Fault{safety.StateNotFinite}},
	{fault: "power_nan,joint={joint},samples={1:50}", channel: "joints", does: safety.Damp, dueMs: [2]float64{0, 2}, names: []safety.Fault{safety.StateNotFinite}},
	{fault: "joint_speed,joint={joint},value={29~60},samples={5:20}", channel: "joints", does: safety.Damp, dueMs: [2]float64{6, 10}, names: []safety.Fault{safety.JointSpeed}, needsWalk: true},
	{fault: "power,w={710:1900},samples={7:30}", channel: "joints", does: safety.Damp, dueMs: [2]float64{8, 14}, names: []safety.Fault{safety.Power, safety.JointSpeed}, needsWalk: true},
	{fault: "motor_mode,joint={joint},value=8,samples={1:50}", channel: "joints", does: safety.Damp, dueMs: [2]float64{0, 2}, names: []safety.Fault{safety.MotorOverheatMode}},
	{fault: "motor_mode,joint={joint},value={0|1|2},samples={5:50}", channel: "joints", does: safety.Damp, dueMs: [2]float64{6, 10}, names: []safety.Fault{safety.MotorModeDropped}, needsWalk: true},
	{fault: "motor_drop,joint={joint}", lasts: [2]float64{0.02, 1}, channel: "joints", does: safety.Damp, dueMs: [2]float64{6, 10},
		names: []safety.Fault{safety.MotorModeDropped}, needsWalk: true},
	{fault: "temperature_ramp,joint={joint},per_s={20:60}", channel: "heat", does: safety.Damp, dueMs: [2]float64{1000, 4000},
		names: []safety.Fault{safety.MotorHot, safety.MotorOverheatMode}},
	{fault: "temperature,joint={joint},value={96:127}", channel: "heat", does: safety.Damp, dueMs: [2]float64{1990, 2002}, names: []safety.Fault{safety.MotorHot}},
	{fault: "other_sender,what={damping|pose}", lasts: [2]float64{1, 3}, channel: "joints", does: safety.Damp, dueMs: [2]float64{0, 540},
		names: []safety.Fault{safety.AnotherSender, safety.Tilt}, needsWalk: true},
	{fault: "sport_returns", lasts: [2]float64{1, 3}, channel: "joints", does: safety.Damp, dueMs: [2]float64{0, 540},
		names: []safety.Fault{safety.AnotherSender, safety.Tilt}, needsWalk: true},
	{fault: "restart,down={0~0.5}", channel: "states", does: safety.Damp, dueMs: [2]float64{0, 540}, names: []safety.Fault{safety.RobotRestarted, safety.StateStale, safety.TickStuck,
		safety.MotorModeDropped, safety.AnotherSender}, needsWalk: true},

	{fault: "remote_buttons,buttons=L2+B,samples={1:100}", channel: "remote", does: safety.Cut, dueMs: [2]float64{0, 2}, names: []safety.Fault{safety.RemoteStop}},
}

// event is a trouble at its time.
type event struct {
	trouble
	text string  // the fault as the robot takes it
	at   float64 // s after the first walking
	end  float64 // s, when its channel is free again
}

// schedule is what happens to one robot.
type schedule struct {
	seed   uint64
	events []event // by time
}

func (s *schedule) String() string {
	var texts []string
	for _, e := range s.events {
		texts = append(texts, e.text)
	}
	return fmt.Sprintf("seed %d: %s", s.seed, strings.Join(texts, " "))
}

const (
	chaosSpan = 6.  // s in which troubles begin
	outage    = 0.1 // s around an act in which states reach the agent
)

// acting is how often each severity comes up.
var acting = []safety.Severity{safety.StandHold, safety.StandHold, safety.Sit, safety.Sit, safety.Damp, safety.Damp, safety.Damp, safety.Damp, safety.Cut}

// newSchedule draws 2 to 6 troubles; in two of three schedules one to three of them act.
func newSchedule(seed uint64) *schedule {
	random := rand.New(rand.NewPCG(seed, 0xC4A05))
	s := &schedule{seed: seed}
	acts := 0
	if seed%3 != 0 {
		acts = 1 + random.IntN(3)
	}
	by := map[safety.Severity][]trouble{}
	for _, c := range troubles {
		if acts == 0 || len(c.may) == 0 {
			by[c.does] = append(by[c.does], c)
		}
	}
	all := max(2+random.IntN(5), acts)
	walking := false // an event that needs a walking robot is the first that acts
	for i := 0; i < all; i++ {
		from := by[safety.None]
		if i < acts {
			from = by[acting[random.IntN(len(acting))]]
		}
		c := from[random.IntN(len(from))]
		e := event{trouble: c, at: 0.5 + random.Float64()*(chaosSpan-0.5)}
		if c.needsWalk {
			if walking {
				continue
			}
			walking, e.at = true, 0.3+random.Float64()*0.2
		}
		e.draw(random)
		if !slices.ContainsFunc(s.events, e.meets) {
			s.events = append(s.events, e)
		}
	}
	slices.SortFunc(s.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return s
}

var blank = regexp.MustCompile(`\{[^}]*\}`)

// draw fills in what is left open.
func (e *event) draw(random *rand.Rand) {
	seconds := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	what := blank.ReplaceAllStringFunc(e.fault, func(b string) string {
		b = b[1 : len(b)-1]
		number := func(s string) float64 {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				panic(fmt.Sprintf("trouble %s: %v", e.fault, err))
			}
			return v
		}
		if b == "joint" {
			return strings.TrimSuffix(go1.JointNames[random.IntN(go1.Joints)], "_joint")
		}
		if lo, hi, ok := strings.Cut(b, ":"); ok {
			return strconv.Itoa(int(number(lo)) + random.IntN(int(number(hi)-number(lo))+1))
		}
		if lo, hi, ok := strings.Cut(b, "~"); ok {
			return seconds(number(lo) + random.Float64()*(number(hi)-number(lo)))
		}
		words := strings.Split(b, "|")
		return words[random.IntN(len(words))]
	})
	e.text = what + "@walk+" + seconds(e.at)
	e.end = e.at + 0.2 // samples: at most 100 in what does not act, or else nobody needs to know
	if e.lasts[1] > 0 {
		d := e.lasts[0] + random.Float64()*(e.lasts[1]-e.lasts[0])
		e.text += "+" + seconds(d)
		e.end = e.at + d
	}
	if e.does > safety.Warn { // for ever, or until nobody looks any more
		e.end = e.at + 100
	}
}

// meets says whether two events may not be in one schedule: those of one channel at the same time, with room for counts to empty,
// and an act of which the agent would see nothing because no states come.
func (e *event) meets(o event) bool {
	overlap := func(a, b *event, room float64) bool { return a.at-room < b.end && b.at-room < a.end }
	switch {
	case e.channel == o.channel:
		return overlap(e, &o, 0.4)
	case e.channel == "states" && o.looked():
		return o.at > e.at-outage && o.at < e.end+outage
	case o.channel == "states" && e.looked():
		return e.at > o.at-outage && e.at < o.end+outage
	}
	return false
}

// looked says whether an act begins with the first states that show its cause.
func (e *event) looked() bool {
	return e.does > safety.Warn && (e.does < safety.Damp || e.dueMs[1] < 100)
}

// does is the most severe act that is asked for.
func (s *schedule) does() safety.Severity {
	most := safety.None
	for _, e := range s.events {
		most = max(most, e.does)
	}
	return most
}

// ends is how the robot must end.
func (s *schedule) ends() outcome {
	switch most := s.does(); {
	case most >= safety.Sit:
		return damps
	case most == safety.StandHold:
		return stays
	}
	return walks
}

// shorterS is how much sooner a robot lies that stood still already when it had to sit.
const shorterS = 1.

// stopped is when the first damping frame may come at the earliest and must have come, in s after the first walking; ok is false for a
// schedule that never damps.
func (s *schedule) stopped() (from, to float64, ok bool) {
	from, to = math.Inf(1), math.Inf(1)
	for _, e := range s.events {
		if e.does < safety.Sit {
			continue
		}
		early := e.at + e.dueMs[0]/1e3
		if e.does == safety.Sit && slices.ContainsFunc(s.events, func(o event) bool { return o.does == safety.StandHold }) {
			early -= shorterS
		}
		from, to = min(from, early), min(to, e.at+e.dueMs[1]/1e3)
	}
	return from, to, !math.IsInf(to, 1)
}

// satFirst says whether a robot that had to sit lay before anything else came that damps one which stands.
func (s *schedule) satFirst() bool {
	sat, damped := math.Inf(1), math.Inf(1)
	for _, e := range s.events {
		switch e.does {
		case safety.Sit:
			sat = min(sat, e.at+e.dueMs[0]/1e3-shorterS)
		case safety.Damp:
			damped = min(damped, e.at+e.dueMs[1]/1e3)
		}
	}
	return sat <= damped
}

// actsFrom is when the first of what acts begins, in s after the first walking.
func (s *schedule) actsFrom() float64 {
	from := math.Inf(1)
	for _, e := range s.events {
		if e.does > safety.Warn {
			from = min(from, e.at)
		}
	}
	return from
}

// stands says whether a robot may stand still for a while, in s after the first walking, though nothing acts: nobody's sticks drive it.
func (s *schedule) stands(from, to float64) bool {
	return slices.ContainsFunc(s.events, func(e event) bool {
		const again = 1. // s, until it walks as before
		return e.channel == "remote" && e.does == safety.None && e.at < to && e.end+again > from
	})
}

// harm is how a robot may come to be stopped though nothing had to happen to it.
type harm string

const (
	unharmed harm = ""
	byRow    harm = "may"    // one of its troubles may bring a row of the table about
	byThrow  harm = "thrown" // it was thrown over
)

// harms says how a robot to which nothing had to happen may have come to say this fault, and from when on, in s after the first walking.
// up is what became of it before it was damped.
func (s *schedule) harms(fault string, up *bearing) (from float64, by harm) {
	from = math.Inf(1)
	thrown := isOne([]safety.Fault{safety.Tilt, safety.JointSpeed}, fault) && (up.fell || up.tilt >= thrownRad)
	for _, e := range s.events {
		switch {
		case isOne(e.may, fault):
			from, by = min(from, e.at), byRow
		case thrown && e.throws():
			if from = min(from, e.at); by == unharmed {
				by = byThrow
			}
		}
	}
	return from, by
}

// thrownRad is a tilt no robot that walks has, unless it is being thrown over.
const thrownRad = 0.55

// throws says whether a trouble may throw the robot itself over, whatever the agent does.
func (e *event) throws() bool { return e.channel == "body" || e.channel == "floor" }

// TestChaosSchedules: equal seeds draw equal schedules, each is one that the virtual robot takes, each trouble comes up, and no
// two of a channel at once.
func TestChaosSchedules(t *testing.T) {
	drawn := map[string]int{}
	ends := map[outcome]int{}
	const seeds = 600
	for seed := uint64(1); seed <= seeds; seed++ {
		s := newSchedule(seed)
		if again := newSchedule(seed); s.String() != again.String() {
			t.Fatalf("%v, and once more: %v", s, again)
		}
		if len(s.events) == 0 {
			t.Errorf("%v: nothing happens", s)
		}
		for i, e := range s.events {
			drawn[e.fault]++
			if _, err := virtual.ParseFault(e.text); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			for _, o := range s.events[:i] {
				if e.channel == o.channel && o.end > e.at {
					t.Errorf("%v: %s while %s", s, e.text, o.text)
				}
			}
			if len(e.may) > 0 && s.does() > safety.None {
				t.Errorf("%v: %s has no right answer beside what acts", s, e.text)
			}
		}
		ends[s.ends()]++
	}
	for _, c := range troubles {
		if drawn[c.fault] == 0 {
			t.Errorf("%s is in none of %d schedules", c.fault, seeds)
		}
		if acts := c.does > safety.Warn; acts != (len(c.names) > 0) || (c.does >= safety.Sit) != (c.dueMs[1] > 0) || c.dueMs[0] > c.dueMs[1] {
			t.Errorf("%s: does %v, names %v, due %v ms", c.fault, c.does, c.names, c.dueMs)
		}
	}
	if ends[walks] < seeds/4 || ends[damps] < seeds/3 || ends[stays] < seeds/60 {
		t.Errorf("ends: %v", ends)
	}
}
