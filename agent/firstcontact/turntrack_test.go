package firstcontact

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// roped is a body on a single rope, and a person beside it who is no machine: the nose wanders, the body swings to the side, tips are
// brisk and askew, and what is heard is done only after a while.
type roped struct {
	draw  *rand.Rand
	nowNs int64
	wrong func(*wire.LowState)
	acts  func(step Step) (a handAct, ok bool) // instead of what is asked for; false: nothing

	yaw, wander       float64 // rad, rad/s of the rope now
	drift, sway, freq float64 // of the rope; of the body to the side
	swings            float64 // 1: freely, 0: held
	last              quat
	tip, lastTip      vec // by the hand, rotation vector; of the state before
	tipSpeed          vec

	// The person.
	held     bool
	actNs    int64 // of the act at hand, 0 for none
	act      handAct
	yawStart float64
	back     float64 // where the nose was when it was first asked for
	backSeen bool
	hint     Hint
	hintNs   int64
	asked    int
	acted    int // of acts
	told     func(*Status)
	unsaid   int // states in which something was waited for, and nobody said what
}

// handAct is a turn of the body there and back.
type handAct struct {
	by                   vec // rad about each axis, at its peak
	there, stays, backNs int64
}

// along is how far it has come, 0 to 1 and back.
func (a *handAct) along(ns int64) (by float64, done bool) {
	back := ns - a.there - a.stays
	switch {
	case ns < a.there:
		by = math.Sin(math.Pi / 2 * float64(max(ns, 0)) / float64(a.there))
	case back < 0:
		by = 1
	case back < a.backNs:
		by = math.Cos(math.Pi / 2 * float64(back) / float64(a.backNs))
	default:
		return 0, true
	}
	return by * by, false
}

func newRoped(seed uint64) *roped {
	r := &roped{draw: rand.New(rand.NewPCG(seed, 0x20BE)), nowNs: 3e9, swings: 1, last: quat{math.Cos(0.2), 0, 0, math.Sin(0.2)}}
	in := func(lo, hi float64) float64 { return lo + (hi-lo)*r.draw.Float64() }
	r.drift, r.sway, r.freq = in(-0.15, 0.15), in(0, 0.08), in(0.35, 0.7)
	return r
}

// state is the next one, 2 ms on.
func (r *roped) state(s *wire.LowState) {
	const dt = 0.002
	r.nowNs += 2e6
	t := float64(r.nowNs) / 1e9
	// A rope that winds, and now and then the other way.
	r.wander += (r.drift*math.Cos(0.3*t) + 0.02*r.draw.NormFloat64() - r.wander) * dt
	along, done := 0.0, false
	if r.actNs != 0 {
		along, done = r.act.along(r.nowNs - r.actNs)
	}
	r.tip = vec{r.act.by[0] * along, r.act.by[1] * along, 0}
	if r.nowNs < r.actNs {
		r.yawStart = r.yaw
	}
	if r.act.by[2] != 0 && r.nowNs >= r.actNs { // the hand has the nose
		r.yaw = r.yawStart + r.act.by[2]*along
	} else if !r.held {
		r.yaw += r.wander * dt
	} else if r.hint == HintBack || r.hint == HintSlow {
		r.yaw += min(max(r.back-r.yaw, -0.4*dt), 0.4*dt)
	}
	if done {
		r.actNs, r.act, r.held = 0, handAct{}, false
	}
	to := 1.0
	if r.held {
		to = 0
	}
	r.swings += (to - r.swings) * dt / 0.3
	swing := r.swings * r.sway * math.Sin(2*math.Pi*r.freq*t)

	turn := func(v vec) quat {
		n := norm(v)
		if n < 1e-12 {
			return quat{1}
		}
		by := math.Sin(n/2) / n
		return quat{math.Cos(n / 2), v[0] * by, v[1] * by, v[2] * by}
	}
	tipped := turn(r.tip)
	q := mul(mul(turn(vec{0, 0, 0.4 + r.yaw}), turn(vec{swing, 0, 0})), tipped)
	w := turned(r.last, q)
	r.last = q
	// What swings on a rope feels its own weight along the rope; a hand that tips it shakes it, the IMU being 15 cm above what it turns about.
	up := down(tipped)
	var speed, shake vec
	for i := range 2 {
		speed[i] = (r.tip[i] - r.lastTip[i]) / dt
		shake[i] = (speed[i] - r.tipSpeed[i]) / dt
	}
	r.lastTip, r.tipSpeed = r.tip, speed
	s.Init()
	s.Tick = uint32(r.nowNs / 1e6)
	for i := range q {
		s.IMU.Quaternion[i] = float32(q[i] + 1e-5*r.draw.NormFloat64())
	}
	lever := vec{0.15 * shake[1], -0.15 * shake[0], 0}
	for i := range 3 {
		s.IMU.Gyroscope[i] = float32(w[i]/dt + 0.01*r.draw.NormFloat64() + 0.01)
		s.IMU.Accelerometer[i] = float32(-9.81*up[i] + lever[i] + 0.1*r.draw.NormFloat64())
	}
	for i := range s.Motor {
		s.Motor[i] = wire.MotorState{Mode: wire.ModeServo, Q: [...]float32{0, 0.45, -0.9}[i%3], Temperature: 30}
	}
	s.BMS = wire.BMS{SOC: 80}
	for i := range 6 {
		s.BMS.CellVoltage[i] = 3904
	}
	if r.wrong != nil {
		r.wrong(s)
	}
}

// hear is what the person does about what is said.
func (r *roped) hear(step Step, st *Status) {
	in := func(lo, hi float64) float64 { return lo + (hi-lo)*r.draw.Float64() }
	if st.Hint != r.hint {
		r.hint, r.hintNs = st.Hint, r.nowNs
	}
	if r.told != nil {
		r.told(st)
	}
	// A hint is heeded once it has stood for a second.
	if r.hint != NoHint && r.nowNs-r.hintNs > 1e9 && r.actNs == 0 {
		r.held = true
	}
	if st.Phase == Settling && st.Hint == NoHint && !st.Changed {
		r.unsaid++
	}
	if step.Group() != Motions || st.Phase != Asking || !st.Changed {
		return
	}
	r.asked++
	m := motion[step.index()]
	if step == YawLeft && !r.backSeen {
		r.back, r.backSeen = r.yaw, true
	}
	if r.acts != nil {
		if a, ok := r.acts(step); ok {
			r.act, r.actNs = a, r.nowNs+50e6
			r.acted++
		}
		return
	}
	size, askew := in(0.37, 0.7), in(-0.15, 0.15)
	way, wait, stay := in(0.25, 1.2), in(0.3, 4), in(0, 0.8)
	r.act = handAct{there: int64(way * 1e9), stays: int64(stay * 1e9), backNs: int64(way * 1e9)}
	r.act.by[m.axis] = m.sign * size
	if m.axis != 2 {
		r.act.by[1-m.axis] = askew * size
	}
	r.actNs = r.nowNs + int64(wait*1e9)
}

// examine goes through some steps: where none is named, through rest and the motions.
func (r *roped) examine(cfg Config, steps ...Step) *Record {
	if len(steps) == 0 {
		steps = []Step{Rest, NoseDown, RollLeft, YawLeft}
	}
	e := New(cfg, nil)
	var s wire.LowState
	for _, step := range steps {
		if !e.Begin(step) {
			continue
		}
		for st := (Status{}); st.Phase != Done; {
			r.state(&s)
			st = e.Add(r.nowNs, &s)
			r.hear(step, &st)
		}
	}
	return e.Record()
}

// TestClumsyPeoplePass: a sound robot on a single rope passes its motions with an ordinary person, in few tries, and whoever waits is told
// why.
func TestClumsyPeoplePass(t *testing.T) {
	cfg := DefaultConfig()
	tries, asked := 0, 0
	const seeds = 24
	for seed := range uint64(seeds) {
		r := newRoped(seed)
		rec := r.examine(cfg)
		for s := Rest; s < FirstJoint; s++ {
			if rec.Results[s] != Passed {
				t.Errorf("seed %d: %s %s: %q", seed, s, rec.Results[s], named(rec, &cfg))
			}
		}
		for i := range rec.Motions {
			tries += rec.Motions[i].Tries
		}
		asked += r.asked
		if r.unsaid != 0 {
			t.Errorf("seed %d: in %d states nobody knew what was waited for", seed, r.unsaid)
		}
	}
	if motions := 3 * seeds; tries > motions*11/10 || asked > motions*12/10 {
		t.Errorf("%d motions in %d tries, asked for %d times", motions, tries, asked)
	}
}

// wrongIMUs are those that no person may pass.
var wrongIMUs = map[string]func(*wire.LowState){
	"mirrored x": mirror(0), "mirrored y": mirror(1), "mirrored z": mirror(2),
	"turned by 30 degrees": func(s *wire.LowState) { turnIMU(s, math.Pi/6) },
	"turned by 90 degrees": func(s *wire.LowState) { turnIMU(s, math.Pi/2) },
	"backwards":            func(s *wire.LowState) { turnIMU(s, math.Pi) },
	"gyroscope y reversed": func(s *wire.LowState) { s.IMU.Gyroscope[1] *= -1 },
	"gyroscope z reversed": func(s *wire.LowState) { s.IMU.Gyroscope[2] *= -1 },
	"gyroscope x halved":   func(s *wire.LowState) { s.IMU.Gyroscope[0] *= 0.5 },
	"gyroscope z dead":     func(s *wire.LowState) { s.IMU.Gyroscope[2] = 0 },
	"gyroscope swapped":    func(s *wire.LowState) { g := &s.IMU.Gyroscope; g[0], g[1] = g[1], g[0] },
	"accelerometer x":      func(s *wire.LowState) { s.IMU.Accelerometer[0] *= -1 },
	"accelerometer y dead": func(s *wire.LowState) { s.IMU.Accelerometer[1] = 0 },
	"conjugated": func(s *wire.LowState) {
		for i := range 3 {
			s.IMU.Quaternion[1+i] *= -1
		}
	},
}

// TestClumsyPeoplePassNoWrongIMU: what a person does without care makes no wrong robot a sound one, and what fails is named.
func TestClumsyPeoplePassNoWrongIMU(t *testing.T) {
	cfg := DefaultConfig()
	for name, wrong := range wrongIMUs {
		for seed := range uint64(3) {
			r := newRoped(seed)
			r.wrong = wrong
			rec := r.examine(cfg)
			says := rec.Verdicts(nil, &cfg)
			failed := 0
			for s := NoseDown; s < FirstJoint; s++ {
				if rec.Results[s] != Passed {
					failed++
				}
				if rec.Results[s] == Failed && !slices.ContainsFunc(says, func(v Verdict) bool { return v.Of(s) }) {
					t.Errorf("%s, seed %d: %s has failed, and nothing says why: %q", name, seed, s, named(rec, &cfg))
				}
			}
			if !slices.ContainsFunc(says, func(v Verdict) bool {
				return Codes[v.Code].Level == Fault && v.Code != FootForceZero && v.Code != NothingSeen
			}) || failed == 0 {
				t.Errorf("%s, seed %d: %v: %q", name, seed, rec.Results[:FirstJoint], named(rec, &cfg))
			}
		}
	}
}

// TestTheWayBackIsNoTurn: an IMU that says the other way is not believed when the body is brought back, however slowly it went and however
// long it was held.
func TestTheWayBackIsNoTurn(t *testing.T) {
	cfg := DefaultConfig()
	cfg.StepSeconds = 15
	for axis, step := range []Step{RollLeft, NoseDown, YawLeft} {
		wrong := mirror((axis + 1) % 3)
		for _, a := range []struct{ there, stays, back float64 }{
			{0.5, 0, 0.5}, {0.5, 2, 0.4}, {3, 5, 0.4}, {8, 0, 0.4}, {0.5, 2, 8},
		} {
			r := newRoped(1)
			r.drift, r.sway, r.wrong = 0, 0, wrong
			r.acts = func(s Step) (handAct, bool) {
				m := motion[s.index()]
				h := handAct{there: int64(a.there * 1e9), stays: int64(a.stays * 1e9), backNs: int64(a.back * 1e9)}
				h.by[m.axis] = 0.45 * m.sign
				return h, s == step && r.acted == 0
			}
			rec := r.examine(cfg)
			if r.acted != 1 || rec.Results[step] == Passed {
				t.Errorf("%s, there in %v s, held for %v s, back in %v s: %s after %d acts", step, a.there, a.stays, a.back, rec.Results[step], r.acted)
			}
		}
	}
}

// TestTheWayBackThroughHomeIsNoTurn: the second try may begin a little off, and a swing from there through where it began is no turn.
func TestTheWayBackThroughHomeIsNoTurn(t *testing.T) {
	cfg := DefaultConfig()
	cfg.StepSeconds = 15
	r := newRoped(1)
	r.drift, r.sway, r.wrong = 0, 0, mirror(0)
	r.acts = func(Step) (handAct, bool) {
		return handAct{by: vec{0, 0, []float64{0.45, -0.28}[min(r.acted, 1)]}, there: 4e8, stays: 3e9, backNs: 4e8}, r.acted < 2
	}
	r.told = func(st *Status) {
		if st.Tries == 1 && st.Phase == Settling {
			r.yawStart = 0.15 // the hand brings it back so far
		}
	}
	rec := r.examine(cfg, Rest, YawLeft)
	if rec.Results[YawLeft] != Failed || r.acted != 2 || r.asked != 2 {
		t.Errorf("%s after %d acts, asked for %d times: %+v", rec.Results[YawLeft], r.acted, r.asked, rec.Motions[2])
	}
}

// TestYawOfTheRope: a nose that the rope turns, either way, is no motion, and its person is told to turn it back.
func TestYawOfTheRope(t *testing.T) {
	cfg := DefaultConfig()
	for _, rad := range []float64{0.5, -0.5} {
		r := newRoped(2)
		r.drift, r.sway = 0, 0
		told := map[Hint]bool{}
		r.acts = func(s Step) (handAct, bool) {
			return handAct{by: vec{0, 0, rad}, there: 7e9, stays: 1e12}, s == YawLeft && r.acted == 0
		}
		r.told = func(st *Status) { told[st.Hint] = true }
		if rec := r.examine(cfg); rec.Results[YawLeft] != TimedOut || !told[HintSlow] {
			t.Errorf("by %v: %s, told %v", rad, rec.Results[YawLeft], told)
		}
	}
}

// TestWrongTurnIsTurnedBack: who turned the wrong way and holds it there is told how far to turn it back, whatever the sign that is read,
// and passes with the second try; who turns it where it is to be tipped is told so.
func TestWrongTurnIsTurnedBack(t *testing.T) {
	cfg := DefaultConfig()
	r := newRoped(3)
	r.drift, r.sway = 0, 0
	off := 0.0
	r.acts = func(s Step) (handAct, bool) {
		h := handAct{there: 6e8, stays: 5e8, backNs: 6e8}
		if h.by[2] = 0.5; r.asked == 1 {
			h.by[2], h.stays, h.backNs = -0.5, 4e9, 1e9
		}
		return h, s == YawLeft
	}
	r.told = func(st *Status) {
		if st.Hint == HintBack {
			off = max(off, st.Value)
		}
	}
	rec := r.examine(cfg, Rest, YawLeft)
	if f := &rec.Motions[2]; rec.Results[YawLeft] != Passed || f.Tries != 2 || math.Abs(off-0.5) > 0.02 {
		t.Errorf("%s in %d tries, told to turn it back by %.2f rad: %q", rec.Results[YawLeft], f.Tries, off, named(rec, &cfg))
	}

	r = newRoped(4)
	r.drift, r.sway = 0, 0
	told := false
	r.acts = func(s Step) (handAct, bool) {
		return handAct{by: vec{0, 0, 0.5}, there: 6e8, stays: 2e9, backNs: 6e8}, s == NoseDown
	}
	r.told = func(st *Status) { told = told || st.Hint == HintOtherAxis }
	cfg.StepSeconds = 5
	if rec := r.examine(cfg, Rest, NoseDown); rec.Results[NoseDown] != TimedOut || !told {
		t.Errorf("turned where it was to be tipped: %s, told %v", rec.Results[NoseDown], told)
	}
}
