package virtual

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/promise"
	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// tape is what a sound robot on the gantry says at rest, and in each step in which a person does as asked, from the hand's first moment
// until all is still again. Wires and sensors that are wrong change nothing of what happens under damping, which is the same for all
// motors (TestFaultsAgainstASoundRobot), so that one tape serves for every wrong robot.
type tape struct {
	rest []wire.LowState
	acts map[firstcontact.Step][]wire.LowState
}

// manner is how a person does what is asked for.
type manner struct {
	stayMs int  // hands stay where they moved something, or press
	once   bool // nothing is done where it is asked for again
}

// Those that there are tapes of.
var (
	brief = manner{stayMs: 300}
	holds = manner{stayMs: 1500, once: true} // longer than the examiner takes to see that the wrong thing moved
)

var tapes = map[int]func() (*tape, error){
	brief.stayMs: sync.OnceValues(func() (*tape, error) { return record(brief.stayMs) }),
	holds.stayMs: sync.OnceValues(func() (*tape, error) { return record(holds.stayMs) }),
}

// record makes a tape.
func record(stayMs int) (*tape, error) {
	cfg := DefaultConfig()
	cfg.Listen, cfg.Boot, cfg.Lockstep = netip.MustParseAddrPort("127.0.0.1:0"), BootHung, true
	r, err := New(cfg)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	take := func(n int) (of []wire.LowState, err error) {
		for range n {
			r.obey(mujoco.Servo(r.st.Q, 0, dampKd))
			r.advance()
			s := r.sample
			r.say(&s, r.time())
			frame, err := wire.AppendLowState(r.frame[:0], &s, wire.PlainCRC)
			if err == nil {
				err = wire.DecodeLowState(frame, &s)
			}
			if err != nil {
				return nil, err
			}
			r.frame, of = frame, append(of, s)
		}
		return of, nil
	}
	tp := &tape{acts: map[firstcontact.Step][]wire.LowState{}}
	act := (1000 + stayMs + 1000) / stepMs // there and back, and a second of rest
	if _, err = take(500); err == nil {    // the legs come to rest
		tp.rest, err = take(1000)
	}
	for s := firstcontact.NoseDown; err == nil && s < firstcontact.RemoteStop; s++ {
		var f Fault
		if f, err = ParseFault(asAsked(s, 0, stayMs)); err == nil {
			err = r.Inject(f)
		}
		if err == nil {
			tp.acts[s], err = take(act)
		}
	}
	return tp, err
}

// asAsked is what a person does who does as asked.
func asAsked(s firstcontact.Step, part, stayMs int) string {
	name, _ := strings.CutSuffix(strings.TrimSuffix(s.String(), "_joint"), "_foot")
	switch s.Group() {
	case firstcontact.Motions:
		return fmt.Sprintf("turn,%s,stay=%d@now", [...]string{"axis=pitch,rad=0.45", "axis=roll,rad=-0.45", "axis=yaw,rad=0.45"}[s-firstcontact.NoseDown], stayMs)
	case firstcontact.Joints:
		rad := 0.4
		if i := int(s - firstcontact.FirstJoint); i%3 == go1.Calf || i == 3*go1.FR || i == 3*go1.RR {
			rad = -rad
		}
		return fmt.Sprintf("hand,joint=%s,rad=%v,stay=%d@now", name, rad, stayMs)
	case firstcontact.Feet:
		return fmt.Sprintf("press,n=80,foot=%s,ms=%d@now", name, 300+stayMs)
	}
	switch s {
	case firstcontact.RemoteStop:
		return "remote_buttons,buttons=L2+B@now+0.1"
	case firstcontact.RemoteButtons:
		return "remote_buttons,buttons=" + strings.Fields("A B X Y L1 L2 R1 R2 up down left right select start")[part] + "@now+0.1"
	}
	return "remote_sticks," + [...]string{"ly=1", "lx=-1", "rx=-1"}[part] + "@now+0.1"
}

// taped is a robot that hangs: a tape, and what is wrong.
type taped struct {
	manner
	tape  *tape
	wrong []*effect
	nowNs int64
	act   []wire.LowState // still to come
	atNs  int64           // from when on
	press *effect         // on the remote
	rest  int
}

// newTaped makes one; faults are in text form, without their time.
func newTaped(t testing.TB, how manner, faults ...string) *taped {
	t.Helper()
	tp, err := tapes[how.stayMs]()
	if err != nil {
		t.Fatal(err)
	}
	h := &taped{manner: how, tape: tp, nowNs: 7e9}
	for i, text := range faults {
		h.wrong = append(h.wrong, begun(t, text+"@0", i))
	}
	return h
}

// begun is a fault in force.
func begun(t testing.TB, text string, id int) *effect {
	t.Helper()
	f, err := ParseFault(text)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEffect(f, id, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e.start, e.on = 0, true
	return e
}

// asked lets the person do as asked, after a moment.
func (h *taped) asked(t testing.TB, s firstcontact.Step, part int) {
	h.atNs = h.nowNs + 50e6
	if s.Group() != firstcontact.Remote {
		h.act = h.tape.acts[s]
		return
	}
	h.press = begun(t, asAsked(s, part, h.stayMs), 0)
	h.press.end = float64(h.atNs)/1e9 + 0.1
}

// state is the next one.
func (h *taped) state(s *wire.LowState) {
	h.nowNs += stepNs
	if h.nowNs >= h.atNs && len(h.act) > 0 {
		*s, h.act = h.act[0], h.act[1:]
	} else {
		*s = h.tape.rest[h.rest%len(h.tape.rest)]
		h.rest++
	}
	s.Tick = uint32(h.nowNs / 1e6)
	t := float64(h.nowNs) / 1e9
	if h.press != nil && h.nowNs >= h.atNs && t < h.press.end {
		h.press.alter(s, t)
	}
	for _, e := range h.wrong {
		e.alter(s, t)
	}
}

// examine goes through a first contact; what a record has as passed is kept, but for the groups that are examined anew.
func (h *taped) examine(t testing.TB, from *firstcontact.Record, anew ...firstcontact.Group) *firstcontact.Record {
	e := firstcontact.New(contactConfig(), from)
	var s wire.LowState
	for step := range firstcontact.Step(firstcontact.StepCount) {
		if e.Kept(step) && !slices.Contains(anew, step.Group()) || !e.Begin(step) {
			continue
		}
		h.act, h.press = nil, nil
		for {
			h.state(&s)
			st := e.Add(h.nowNs, &s)
			if st.Phase == firstcontact.Done {
				break
			}
			if st.Changed && st.Phase == firstcontact.Asking && step.Group() != firstcontact.Automatic && (st.Tries == 0 || !h.once) {
				h.asked(t, step, st.Part)
			}
		}
	}
	r := *e.Record()
	return &r
}

// contactConfig is the examiner's, with a person who does at once what is asked for.
func contactConfig() firstcontact.Config {
	cfg := firstcontact.DefaultConfig()
	cfg.StepSeconds = 8
	return cfg
}

// soundRecord is that of the sound robot, which passes.
func soundRecord(t testing.TB, how manner) *firstcontact.Record {
	t.Helper()
	r, cfg := newTaped(t, how).examine(t, nil), contactConfig()
	if v := r.Verdicts(nil, &cfg); len(v) != 0 || !r.Pass(&cfg) {
		t.Fatalf("a sound robot does not pass: %v, %+v", r.Results, v)
	}
	return r
}

// wrongRobot is one thing that is wrong with a robot, and the names that the examiner may give it.
type wrongRobot struct {
	fault string
	names string // of faults; one at least is named, and no other
	group firstcontact.Group
}

// wrongRobots are all single ones.
func wrongRobots() (all []wrongRobot) {
	add := func(g firstcontact.Group, names, format string, a ...any) {
		all = append(all, wrongRobot{fmt.Sprintf(format, a...), names, g})
	}
	axes := [...]string{"x", "y", "z"}
	for i, axis := range axes {
		add(firstcontact.Motions, "imu_mirror_"+axis, "imu_mirror,axis=%s", axis)
		add(firstcontact.Motions, "gyro_sign", "gyro_sign,axis=%s", axis)
		add(firstcontact.Motions, "gravity_mismatch", "acc_sign,axis=%s", axis)
		for _, other := range axes[:i] {
			add(firstcontact.Motions, "gyro_axes", "gyro_swapped,a=%s,b=%s", axis, other)
			add(firstcontact.Motions, "gravity_mismatch", "acc_swapped,a=%s,b=%s", axis, other)
		}
		add(firstcontact.Motions, "imu_stuck", "gyro_scale,axis=%s,scale=0", axis)
		add(firstcontact.Motions, "gyro_units", "gyro_scale,axis=%s,scale=0.5", axis)
		add(firstcontact.Motions, "gyro_units", "gyro_scale,axis=%s,scale=2", axis)
		add(firstcontact.Motions, "gyro_sign", "gyro_scale,axis=%s,scale=-1", axis)
		for _, deg := range []int{20, -40, 60, 90, -90, 180} {
			add(firstcontact.Motions, "imu_axes tilt gravity_mismatch", "imu_turned,axis=%s,deg=%d", axis, deg)
		}
	}
	add(firstcontact.Motions, "gyro_sign", "gyro_sign,axis=all")
	add(firstcontact.Motions, "gravity_mismatch", "acc_sign,axis=all")
	add(firstcontact.Motions, "gyro_units", "gyro_units")
	add(firstcontact.Motions, "quat_order", "imu_quat_order")
	add(firstcontact.Motions, "imu_axes gravity_mismatch", "imu_quat_conj")

	for a, name := range mujoco.JointNames {
		add(firstcontact.Joints, "joint_reversed", "joint_reversed,joint=%s", name)
		for _, scale := range []string{"-1", "0", "57.3"} {
			add(firstcontact.Joints, "joint_speed", "joint_speed_scale,joint=%s,scale=%s", name, scale)
		}
		for b := a + 1; b < mujoco.Joints; b++ {
			names := "joint_order joint_reversed"
			if a/3 == b/3 {
				names = "joints_swapped joint_reversed"
			}
			add(firstcontact.Joints, names, "motors_swapped,a=%s,b=%s", name, mujoco.JointNames[b])
		}
	}
	words := strings.Fields("hip thigh calf")
	for a, leg := range go1.LegNames {
		add(firstcontact.Feet, "foot_order foot_stuck", "foot_reversed,foot=%s", leg)
		for _, other := range go1.LegNames[a+1:] {
			add(firstcontact.Joints, "legs_swapped joint_reversed", "legs_swapped,a=%s,b=%s", leg, other)
			add(firstcontact.Feet, "feet_swapped", "feet_swapped,a=%s,b=%s", leg, other)
		}
		for i := range words {
			add(firstcontact.Joints, "joints_swapped joint_reversed", "joints_swapped,leg=%s,a=%s,b=%s", leg, words[i], words[(i+1)%3])
		}
	}
	for _, order := range []string{"legged_gym", "isaac", "isaac_back"} {
		add(firstcontact.Joints, "joint_order legs_swapped joint_reversed", "joint_order,order=%s", order)
	}
	asked := slices.DeleteFunc(slices.Clone(buttonNames), func(s string) bool { return s == "F1" || s == "F2" })
	for i, a := range asked {
		for _, b := range asked[i+1:] {
			add(firstcontact.Remote, "remote_buttons", "buttons_swapped,a=%s,b=%s", a, b)
		}
	}
	for i, a := range stickNames {
		if a != "ry" { // which drives nothing
			add(firstcontact.Remote, "remote_sticks", "stick_reversed,stick=%s", a)
		}
		for _, b := range stickNames[i+1:] {
			add(firstcontact.Remote, "remote_sticks", "sticks_swapped,a=%s,b=%s", a, b)
		}
	}
	return all
}

// faultsOf are the names of what keeps a record from passing.
func faultsOf(r *firstcontact.Record) (names []string) {
	cfg := contactConfig()
	for _, v := range r.Verdicts(nil, &cfg) {
		if name := v.Code.String(); firstcontact.Codes[v.Code].Level == firstcontact.Fault && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// named: no step has failed without a name that says why.
func named(t testing.TB, r *firstcontact.Record) {
	t.Helper()
	cfg := contactConfig()
	says := r.Verdicts(nil, &cfg)
	for s, res := range r.Results {
		s := firstcontact.Step(s)
		if res == firstcontact.Failed && !slices.ContainsFunc(says, func(v firstcontact.Verdict) bool { return v.Of(s) }) {
			t.Errorf("%s has failed, and nothing says why: %q", s, faultsOf(r))
		}
	}
}

// TestFirstContactFindsWrongRobots: each robot with a wire, a sensor or an order that is another one fails the examination of whoever
// does exactly as asked, by a fault that is named as it should be, with every step gone through.
func TestFirstContactFindsWrongRobots(t *testing.T) {
	sound := soundRecord(t, brief)
	cfg := contactConfig()
	for _, w := range wrongRobots() {
		t.Run(w.fault, func(t *testing.T) {
			t.Parallel()
			r := newTaped(t, brief, w.fault).examine(t, sound, w.group)
			names, may := faultsOf(r), strings.Fields(w.names)
			if r.Pass(&cfg) || len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(may, n) }) {
				t.Errorf("passes %v, named %q, want of %q; results %v", r.Pass(&cfg), names, may, r.Results)
			}
			named(t, r)
			for s, res := range r.Results {
				if s := firstcontact.Step(s); res == firstcontact.Open || res == firstcontact.Skipped || res == firstcontact.NotAsked ||
					s.Group() != w.group && s.Group() != firstcontact.Automatic && res != firstcontact.Passed {
					t.Errorf("%s: %s", s, res)
				}
			}
		})
	}
}

// TestFirstContactOfWhoHolds: nor does a wrong robot pass with a person who holds for a while what was moved, lets it go home, and does
// nothing when asked for it again: the way back is no motion.
func TestFirstContactOfWhoHolds(t *testing.T) {
	sound := soundRecord(t, holds)
	cfg := contactConfig()
	for _, w := range wrongRobots() {
		if w.group == firstcontact.Remote { // nothing to hold
			continue
		}
		t.Run(w.fault, func(t *testing.T) {
			t.Parallel()
			r := newTaped(t, holds, w.fault).examine(t, sound, w.group)
			if names := faultsOf(r); r.Pass(&cfg) || len(names) == 0 {
				t.Errorf("passes %v, named %q; results %v", r.Pass(&cfg), names, r.Results)
			}
			named(t, r)
		})
	}
}

// undone says that two things that are wrong undo each other, but for what rounding leaves.
func undone(t testing.TB, faults ...string) bool {
	for seed := range uint64(10) {
		draw := rand.New(rand.NewPCG(seed, 0x0DD5))
		var s wire.LowState
		s.Init()
		for i := range s.Motor {
			s.Motor[i] = wire.MotorState{Q: draw.Float32(), Dq: draw.Float32(), TauEst: draw.Float32()}
		}
		for i := range 3 {
			s.IMU.Gyroscope[i], s.IMU.Accelerometer[i] = draw.Float32(), draw.Float32()
		}
		s.IMU.Quaternion, s.FootForce = [4]float32{0.8, 0.4, 0.2, 0.4}, [4]int16{10, 20, 30, 40}
		putRemote(&s.Remote, wire.Remote{Buttons: uint16(draw.Uint32()), Lx: draw.Float32(), Ly: draw.Float32(), Rx: draw.Float32(), Ry: draw.Float32()})
		hurt := s
		for i, f := range faults {
			begun(t, f+"@0", i).alter(&hurt, 0)
		}
		near := hurt.FootForce == s.FootForce && hurt.Remote == s.Remote
		for i := range s.Motor {
			a, b := &s.Motor[i], &hurt.Motor[i]
			near = near && a.Q == b.Q && a.Dq == b.Dq && a.TauEst == b.TauEst
		}
		differs := func(a, b float32) bool { return math.Abs(float64(a-b)) > 1e-5 }
		side := float32(1) // q and -q are one attitude
		if s.IMU.Quaternion[0]*hurt.IMU.Quaternion[0] < 0 {
			side = -1
		}
		for i, q := range s.IMU.Quaternion {
			near = near && !differs(q, side*hurt.IMU.Quaternion[i])
		}
		for i := range 3 {
			near = near && !differs(s.IMU.Gyroscope[i], hurt.IMU.Gyroscope[i]) && !differs(s.IMU.Accelerometer[i], hurt.IMU.Accelerometer[i])
		}
		if !near {
			return false
		}
	}
	return true
}

// TestFirstContactFindsPairs: two things that are wrong at a time do not hide each other.
func TestFirstContactFindsPairs(t *testing.T) {
	sound := soundRecord(t, brief)
	cfg := contactConfig()
	soak := promise.NewWord(t, "wrong-robots", 60, 10000)
	soak.Run(t, func(t *testing.T, seed uint64) map[string]any {
		draw := rand.New(rand.NewPCG(seed, 0x2B07))
		all := wrongRobots()
		a := all[draw.IntN(len(all))]
		if draw.IntN(2) == 0 { // of one kind, where they may hide each other
			all = slices.DeleteFunc(all, func(w wrongRobot) bool { return w.group != a.group })
		}
		b := all[draw.IntN(len(all))]
		figures := map[string]any{"faults": []string{a.fault, b.fault}}
		if undone(t, a.fault, b.fault) {
			return figures // a sound robot
		}
		r := newTaped(t, brief, a.fault, b.fault).examine(t, sound, a.group, b.group)
		if names := faultsOf(r); r.Pass(&cfg) || len(names) == 0 {
			t.Errorf("%s and %s: passes %v, named %q; results %v", a.fault, b.fault, r.Pass(&cfg), names, r.Results)
		}
		named(t, r)
		return figures
	})
}
