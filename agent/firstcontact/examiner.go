package firstcontact

import (
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Config of an Examiner.
type Config struct {
	StepSeconds  float64 `yaml:"step_seconds" unit:"s" doc:"longest wait for one motion of the person"`
	RestSeconds  float64 `yaml:"rest_seconds" unit:"s" doc:"how long the hanging robot's sensors are watched at rest"`
	FrameSeconds float64 `yaml:"frame_seconds" unit:"s" doc:"longest wait for the motors to take our frames, for each form of the CRC"`
	Cells        int     `yaml:"cells" doc:"how many cells its battery has in series at least, 6 on a Go1 (21.6 V); 0: it is only looked for gaps between cells"`
	// WithoutRemote: a person works without the hand remote, so it is not asked for.
	WithoutRemote bool `yaml:"-"`
	// SticksIdle: the remote's sticks drive nothing, so what they read does not matter and is not asked for.
	SticksIdle bool `yaml:"-"`
}

// DefaultConfig gives a person half a minute for each motion, and a Go1 its battery.
func DefaultConfig() Config {
	return Config{StepSeconds: 30, RestSeconds: 2, FrameSeconds: 1, Cells: 6}
}

// Validate names the key that is out of range.
func (c *Config) Validate() error {
	for _, r := range []struct {
		key       string
		v, lo, hi float64
	}{{"step_seconds", c.StepSeconds, 1, 3600}, {"rest_seconds", c.RestSeconds, 0.5, 60}, {"frame_seconds", c.FrameSeconds, 0.1, 60}} {
		if !(r.v >= r.lo && r.v <= r.hi) {
			return fmt.Errorf("%s: %v, want %v..%v", r.key, r.v, r.lo, r.hi)
		}
	}
	if c.Cells < 0 || c.Cells > 10 {
		return fmt.Errorf("cells: %d, want 0..10", c.Cells)
	}
	return nil
}

// Phase of the step at hand.
type Phase uint8

// Phases.
const (
	Settling Phase = iota // waiting until all is still, and level
	Asking                // waiting for what is asked for
	Done
)

// Status is what a person may be shown while a step goes on. Its arrays are views of one tick.
type Status struct {
	Phase Phase
	// Changed: the phase, the try or the part is another than at the state before.
	Changed bool
	Part    int      // of a step that asks for several things
	Tries   int      // 0 at first; 1 when the wrong thing was seen and it is asked for again
	Moved   int      // axis, joint or leg that changed most; -1 none. With a Hint, the joint or leg that it is about
	Value   float64  // how far: rad, counts, or stick travel
	Want    float64  // from how far on it counts
	Blur    bool     // others change nearly as much
	Buttons uint16   // of the remote, down now
	Hint    Hint     // what keeps it from being asked for, or seen
	About   jointSet // with HintStretch, those that it is about
	LeftS   float64  // s until the time is over
}

// Limits of what is seen.
const (
	stillNs               = int64(300e6)
	turnStill             = 0.04 // rad within stillNs
	turnLevel             = 0.15 // rad from how it hung at rest
	turnWant              = 0.25 // rad
	jointStill, jointWant = 0.03, 0.2
	jointNear             = 0.1 // rad from how it hung at rest
	// staysNs: what is away from there, and has not moved for so long, stays so.
	staysNs             = int64(3e9)
	footStill, footWant = 25, 30
	// footDrift is how fast the zero of a foot's sensor drifts at most, counts/s; a hand presses, and lets go, far quicker.
	footDrift = 0.3
	// footMute: a sensor that went less far, counts, while its foot was pressed, did not answer.
	footMute = 15
	// A move's way counts, by angle and by speed, from where it has left its base by so much of what is wanted.
	leavesBase = 0.25
	// swingNoise is how far noise of 1 rad/s in a speed takes a swing at most, rad: six sigma.
	swingNoise = 0.27
	// noisePass is how much of a sensor's noise is left at most behind the smoothing, and may pass for stillness.
	noisePass = 0.7
	// alone: what moved most has moved so many times as far as the next.
	alone = 2
	// over: a motion is over once it has come back so far from its peak, or has not grown for holdNs.
	over     = 0.7
	holdNs   = int64(400e6)
	maxTries = 1 // more, after a wrong one
	// maxTurnTries is as many of the body's turns, at which a jerk or a swing is easily the person's.
	maxTurnTries = 2
)

// Examiner goes through the steps. It is not safe for concurrent use.
type Examiner struct {
	cfg Config
	rec Record

	step    Step
	phase   Phase
	tries   int
	began   bool
	startNs int64 // of the step, by its first state
	lastNs  int64

	rest restSums
	// creeping and folded are the joints for which the rest was begun anew; foldedLeast is how few have been left of the latter.
	creeping, folded jointSet
	foldedLeast      int
	turn             turnTrack
	move             moveTrack
	remote           remoteStep
	again            bool // this part of the remote's step was wrong once
	stuck            stuckBits
	run              int // states in a row
	// zero is what the foot sensors say of feet that nobody presses: as at rest, and as far as that may have drifted since.
	zero [go1.Legs]float64
}

// New makes an examiner that goes on from a Record, or begins with nil. The configuration must be valid.
func New(cfg Config, from *Record) *Examiner {
	e := &Examiner{cfg: cfg, rec: newRecord(), phase: Done}
	if from != nil {
		e.rec = *from
		e.zeroFeet()
	}
	return e
}

// Record is what has been measured so far; it is valid until the next call.
func (e *Examiner) Record() *Record { return &e.rec }

// Kept says that a step need not be done again: it has passed before, and its figures show so, which those of an older program may not. Frame and Rest are always done anew, since the others build on
// them.
func (e *Examiner) Kept(s Step) bool { return s > Rest && e.rec.Results[s] == Passed && e.rec.shows(s) }

// Skip leaves a step out.
func (e *Examiner) Skip(s Step) {
	e.rec.forget(s)
	e.rec.Results[s] = Skipped
}

// Begin asks for a step, from the next state on. False: it makes no sense on this robot and is NotAsked.
func (e *Examiner) Begin(s Step) bool {
	e.rec.forget(s)
	e.step, e.phase, e.tries, e.began, e.run, e.again = s, Settling, 0, false, 0, false
	e.remote = remoteStep{}
	switch {
	case e.rec.needless(s, &e.cfg):
		e.rec.Results[s] = NotAsked
	case s.Group() == Remote && !e.rec.Rest.RemotePresent, // there is nothing to wait for
		s.Group() == Motions && e.rec.Rest.Stuck != [3]bool{}:
		e.rec.Results[s] = Failed
	default:
		return true
	}
	e.phase = Done
	return false
}

// Add takes a state that came at nowNs, which never goes back. Once the status says Done the step's result stands.
func (e *Examiner) Add(nowNs int64, s *wire.LowState) (st Status) {
	st.Moved = -1
	if e.phase == Done {
		st.Phase = Done
		return st
	}
	before := [3]int{int(e.phase), e.tries, e.remote.part}
	if !e.began {
		e.began, e.startNs, e.lastNs = true, nowNs, nowNs
		e.restart(nowNs, s)
	}
	dt := min(float64(nowNs-e.lastNs)/1e9, 0.1)
	e.lastNs = nowNs
	for i, f := range s.FootForce {
		e.zero[i] += min(max(float64(f)-e.zero[i], -footDrift*dt), footDrift*dt)
	}
	limit := e.cfg.StepSeconds
	switch {
	case e.step == Frame:
		limit = e.cfg.FrameSeconds
		e.frame(s)
	case e.step == Rest:
		limit += e.cfg.RestSeconds
		e.atRest(nowNs, s, &st)
	case e.step.Group() == Motions:
		e.motion(nowNs, dt, s, &st)
	case e.step.Group() == Joints:
		var v, speed [go1.Joints]float64
		for i := range v {
			v[i], speed[i] = finite(s.Motor[i].Q), finite(s.Motor[i].Dq)
		}
		e.stuck.joints(s)
		e.moved(nowNs, dt, s, &v, &speed, &e.rec.Joints[e.step.index()], handSign(e.step.index()), &st)
	case e.step.Group() == Feet:
		var v [go1.Joints]float64
		for i, f := range s.FootForce {
			v[i] = float64(f)
		}
		e.stuck.feet(s)
		e.moved(nowNs, dt, s, &v, new([go1.Joints]float64), &e.rec.Feet[e.step.index()], 1, &st)
	default:
		e.remotes(s, &st)
	}
	st.LeftS = limit - float64(nowNs-e.startNs)/1e9
	if e.phase != Done && st.LeftS <= 0 {
		e.giveUp()
	}
	st.Phase, st.Tries, st.Part = e.phase, e.tries, e.remote.part
	st.Changed = before != [3]int{int(e.phase), e.tries, e.remote.part}
	return st
}

// restart begins a try.
func (e *Examiner) restart(nowNs int64, s *wire.LowState) {
	e.phase = Settling
	switch e.step.Group() {
	case Motions:
		e.restartTurn(nowNs, s)
	case Joints:
		e.move = moveTrack{n: go1.Joints, asked: e.step.index(), still: jointStill, want: jointWant, near: jointNear, homeSeen: e.rec.Rest.States > 0}
		for i, q := range e.rec.Rest.Q {
			e.move.home[i], e.move.still = q.Mean, max(e.move.still, jointStill+noisePass*q.SD)
		}
		e.stuck = stuckBits{}
	case Feet:
		e.move = moveTrack{n: go1.Legs, asked: e.step.index(), still: footStill, want: footWant, homeSeen: e.rec.Rest.States > 0}
		for i, f := range e.rec.Rest.Foot {
			e.move.home[i], e.move.still, e.move.want = e.zero[i], max(e.move.still, footStill+noisePass*f.SD), max(e.move.want, 8*f.SD)
		}
		e.move.near = e.move.want // how well its zero is known
		e.stuck = stuckBits{}
	case Automatic:
		e.rest, e.creeping, e.folded, e.foldedLeast = restSums{}, 0, 0, go1.Joints+1
	}
}

// zeroFeet takes what the foot sensors said at rest for what they say of feet that nobody presses.
func (e *Examiner) zeroFeet() {
	for i := range e.zero {
		e.zero[i] = e.rec.Rest.Foot[i].Mean
	}
}

// wrong asks once more when the wrong thing was seen: people err too.
func (e *Examiner) wrong(nowNs int64, s *wire.LowState) {
	most := maxTries
	if e.step.Group() == Motions {
		most = maxTurnTries
	}
	if e.tries >= most {
		e.end(Failed)
		return
	}
	e.tries++
	e.startNs = nowNs
	e.restart(nowNs, s)
}

func (e *Examiner) end(r Result) {
	e.phase = Done
	e.rec.Results[e.step] = r
}

// giveUp ends the step by its time. What was seen of a wrong try stands.
func (e *Examiner) giveUp() {
	i := e.step.index()
	r := TimedOut
	switch e.step.Group() {
	case Automatic:
		if e.step == Rest {
			e.restDone()
			return
		}
		r = Failed
	case Motions:
		if e.rec.Motions[i].Seconds > 0 {
			r = Failed
		}
	case Joints:
		r = e.unseen(&e.rec.Joints[i], i)
	case Feet:
		r = e.unseen(&e.rec.Feet[i], i)
	case Remote:
		if f := &e.rec.Remote; e.step == RemoteStop && f.StopSeen != 0 || e.step == RemoteButtons && f.Buttons != [askedButtons]uint16{} && e.again {
			r = Failed
		}
	}
	e.end(r)
}

func (e *Examiner) unseen(f *MoveFigures, asked int) Result {
	if f.Moved >= 0 {
		return Failed
	}
	deadFoot := false
	if e.step.Group() == Feet {
		f.Stuck, f.Still = e.stuck.stood(asked), e.stuck.allStood()
		if f.Reach = e.move.reach; e.move.askedNs != 0 {
			f.AskedS = float64(e.lastNs-e.move.askedNs) / 1e9
		}
		deadFoot = f.Stuck || f.Reach < footMute // that others moved meanwhile is the hanging body's sway
	} else {
		// It may also be only its angle that stands still, while its speed tells of a move.
		f.Stuck = e.stuck.alone(asked) || !e.stuck.angle[asked] && e.move.swung[asked] > jointWant+swingNoise*e.rec.Rest.Dq[asked].SD
	}
	if e.move.blurred && !deadFoot {
		f.Blur, f.Delta = true, e.move.blur
		return Failed
	}
	return TimedOut
}

// frame counts states in which every motor is in the mode that it was told.
func (e *Examiner) frame(s *wire.LowState) {
	const taken = 50 // in a row
	e.phase = Asking
	e.rec.Frame.States++
	servo := true
	for i := range go1.Joints {
		e.rec.Frame.Modes[i] = int(s.Motor[i].Mode)
		servo = servo && s.Motor[i].Mode == wire.ModeServo
	}
	if e.run++; !servo {
		e.run = 0
	}
	if e.run >= taken {
		e.end(Passed)
	}
}

// moved follows the joints or the feet.
func (e *Examiner) moved(nowNs int64, dt float64, s *wire.LowState, v, speed *[go1.Joints]float64, f *MoveFigures, sign float64, st *Status) {
	m := &e.move
	e.phase = m.update(nowNs, dt, v, speed)
	st.Moved, st.Value, st.Want, st.Blur = m.most, m.value, m.want, m.blurNow
	if m.back {
		st.Hint, st.Want = HintPutBack, m.near
	}
	if e.phase != Done {
		return
	}
	asked := e.step.index()
	f.Tries, f.Moved, f.Delta = e.tries+1, m.peakOf, m.peak
	f.Turned, f.BySpeed, f.WayS = m.atPeak.by, m.atPeak.bySpeed, m.atPeak.seconds
	if f.Moved == asked && f.Delta[asked]*sign > 0 && (e.step.Group() != Joints || e.rec.speedAgrees(asked)) {
		e.end(Passed)
	} else {
		e.wrong(nowNs, s)
	}
}

func (e *Examiner) remotes(s *wire.LowState, st *Status) {
	var r wire.Remote
	wire.DecodeRemote(&s.Remote, &r)
	f, p := &e.rec.Remote, &e.remote
	st.Buttons = r.Buttons
	f.Tries[e.step.index()] = e.tries + 1
	next, done, right := false, false, true
	switch e.step {
	case RemoteStop:
		next = p.stop(&r, f)
		done = next
	case RemoteButtons:
		next, done, right = p.buttons(&r, f)
	default:
		next, done, right = p.stick(&r, f)
		st.Value = math.Max(math.Abs(finite(r.Lx)), math.Max(math.Abs(finite(r.Ly)), math.Abs(finite(r.Rx))))
		st.Want = stickPushed
	}
	if e.phase = Settling; p.resting {
		e.phase = Asking
	}
	if !next {
		return
	}
	e.startNs = e.lastNs // each part has its time
	if !right && !e.again {
		e.again = true
		e.tries++
		*p = remoteStep{part: p.part}
		return
	}
	e.again = false
	*p = remoteStep{part: p.part + 1}
	if done {
		p.part--
		if remoteRight(e.step, f) {
			e.end(Passed)
		} else {
			e.end(Failed)
		}
	}
}

// remoteRight says whether all that was asked for came as asked.
func remoteRight(s Step, f *RemoteFigures) bool {
	switch s {
	case RemoteStop:
		return f.StopSeen&stopButtons == stopButtons
	case RemoteButtons:
		return f.Buttons == asked
	}
	for i := range sticks {
		if !stickRight(i, &f.Sticks[i]) {
			return false
		}
	}
	return true
}
