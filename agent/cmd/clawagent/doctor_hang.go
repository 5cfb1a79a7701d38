package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// The hang test: legs that hang are held a little back, softly.
const (
	hangKp    = 5   // N*m/rad
	hangKd    = 1   // N*m*s/rad
	hangAway  = 0.6 // rad that the thighs' targets go back; at Kp 5 they come some two thirds of it
	hangTilt  = 0.3 // rad, as for standing up
	hangRamp  = 1.0 // s, each way
	hangWait  = 0.6 // s, until the legs are at rest again behind a silence
	hangDamps = 0.5 // s of damping frames at the start and at the end; as long the legs are looked at
	hangFresh = 0.1 // s of them before the first torque, so that the newest state is of now
	// answerTurns is how many frames behind a silence may stay without an answer.
	answerTurns = 25
)

// hang is one hang test.
type hang struct {
	d     *diagnosis
	cfg   *config
	b     *bench
	judge *safety.Judge
	cmd   wire.LowCmd
	frame []byte
	damp  []byte

	udp    *link.UDP
	watch  *guard.Watch // nil: guard.without
	torque bool         // the frames of now are torque frames, or the motors may still have one in force
	sentNs int64        // when the newest frame left

	state  wire.LowState
	have   bool
	window poseWindow
	rest   [go1.Joints]float64 // where the legs hang, rad
	away   float64             // 0..1
	kp     float64             // now
	strays int                 // states in a row in which a joint did not do as it was told
	why    string              // what the newest of them showed
}

// abortion is why the test was broken off.
type abortion struct{ why string }

func (a *abortion) Error() string { return a.why }

func abortf(format string, args ...any) error { return &abortion{fmt.Sprintf(format, args...)} }

// hangTest finds out what the motors do without commands. However it ends, damping frames are the last: this program's, or, where it is
// killed or stands still, its guard's. Its error is that of ctx.
func (d *diagnosis) hangTest(ctx context.Context, cfg *config, t *teller) (err error) {
	cli.Ahead()
	watching := guarding{cfg: cfg}
	if cfg.Guard.Without {
		d.add(levelWarning, "guard", "Leave out guard.without.", "there is no guard: if this program is killed, the legs stay at Kp %d", hangKp)
		err = releaseGuard(cfg)
	} else if err = watching.join(); err == nil {
		defer func() { watching.client.Close() }()
	}
	if err != nil {
		d.guarded(cfg, err)
		return nil
	}
	udp, err := d.dial(cfg)
	if err != nil {
		return nil
	}
	defer udp.Close()
	form := udp.CRC()
	h := &hang{d: d, cfg: cfg, udp: udp, b: newBench(udp, cfg), judge: safety.New(cfg.Safety)}
	if !cfg.Guard.Without {
		// --hung is the person's word that frames harm nobody.
		if h.watch, err = watching.register(udp, true); err != nil {
			d.guarded(cfg, err)
			return nil
		}
	}
	h.b.send = h.send
	if h.damp, err = dampingFrame(form); err != nil {
		return err
	}
	h.cmd.Init()
	var file *contactFile
	heard, ok := false, false
	defer func() {
		t.wipe()
		d.hints(udp, cfg, heard)
	}()
	err = h.damped(ctx, hangDamps, true)
	if heard = h.have; err == nil && heard {
		if file, ok = h.result(); !ok {
			return nil
		}
		ok, err = h.hangs(ctx, file, t)
	}
	restart := new(restartedError)
	switch {
	case errors.As(err, &restart):
		d.add(levelError, "hang_aborted", "", "%v; no torque was sent", restart)
		return nil
	case errors.Is(err, errSilent):
		d.add(levelError, "states_stopped", "", "%v; no torque was sent", err)
		return nil
	case err != nil:
		return err
	case !ok:
		return nil
	}
	// Rather before the legs get torque than behind it.
	if err := file.store(cfg.contactDir()); err != nil {
		d.add(levelError, "first_contact_file", "", "%v; no torque was sent", err)
		return nil
	}
	t.say("hang test of %s at %s: Kp %d, five silences of %.0f ms. Ctrl-C damps and ends it.", file.Identity, cfg.low(), hangKp, firstcontact.LossSeconds*1e3)
	control.Realtime(&cfg.Control)
	defer func() {
		if p := recover(); p != nil { // a mistake of ours: the motors first
			_ = h.damped(context.WithoutCancel(ctx), hangDamps, false)
			panic(p)
		}
	}()
	var trials []firstcontact.LossTrial
	h.b.restart() // the file took its time
	if err = h.damped(ctx, hangFresh, false); err == nil {
		h.arm()
		trials, err = h.run(ctx, form, t)
	}
	// However it went: the motors first, and also for a person who has had enough.
	_ = h.damped(context.WithoutCancel(ctx), hangDamps, false)
	if h.watch != nil {
		h.watch.End()
	}
	stop := new(abortion)
	if errors.As(err, &stop) || errors.As(err, &restart) || errors.Is(err, errSilent) {
		d.add(levelError, "hang_aborted", "", "broken off and damped: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	behaviour, verdict := firstcontact.JudgeLoss(trials)
	d.put(verdictFinding(&verdict))
	b := cli.ReadBuild("clawagent")
	file.LinkLoss = &linkLoss{Behaviour: behaviour, Date: time.Now().UTC().Format(time.RFC3339), Version: b.Version, Commit: b.Commit, Trials: trials}
	d.Contact.LinkLoss = file.LinkLoss
	if err := file.store(cfg.contactDir()); err != nil {
		d.add(levelError, "first_contact_file", "", "%v", err)
	}
	return nil
}

const (
	// hangLateNs: a torque frame that is later than this does not leave.
	hangLateNs = int64(20e6)
	// hangGuardNs: so long without a cycle, a guard counts as dead.
	hangGuardNs = int64(100e6)
)

// arm tells the guard that torque frames begin.
func (h *hang) arm() {
	h.b.restart()
	if h.watch != nil {
		h.watch.Beat(link.Now(), h.b.heardNs+silentNs, true)
		h.watch.Begin()
	}
}

// send is the bench's. It beats each period, also in a silence, so that the guard damps for a program that is killed or stopped. A torque
// frame leaves only if it is not late and the guard has not latched meanwhile.
func (h *hang) send(frame []byte) error {
	w := h.watch
	if w != nil {
		w.Beat(h.b.nowNs, h.b.heardNs+silentNs, h.torque)
	}
	if !h.torque {
		if w == nil || w.Look() != guard.Foreign {
			h.leave(frame)
		}
		return nil
	}
	if w != nil {
		w.Open()
		defer w.Shut()
		switch look := w.Look(); {
		case look == guard.Foreign:
			return abortf("another program has the robot")
		case look == guard.Tripped:
			return faulted(safety.GuardTripped)
		case look != guard.Free:
			return faulted(safety.GuardLost)
		case link.Now()-w.GuardBeatNs() > hangGuardNs:
			return faulted(safety.GuardLost)
		}
	}
	if h.b.lateNs+link.Now()-h.b.nowNs >= hangLateNs {
		return faulted(safety.LoopLate)
	}
	h.leave(frame)
	return nil
}

// leave sends a frame, or none. Refusals are counted, and named at the end.
func (h *hang) leave(frame []byte) {
	if at := link.Now(); frame != nil && h.udp.Send(frame) == nil {
		h.sentNs = at // before its answer could come
	}
}

func faulted(f safety.Fault) error { return abortf("%s: %s", f, safety.Faults[f].Title) }

// damped sends damping frames for a while; measure keeps how the legs hang.
func (h *hang) damped(ctx context.Context, seconds float64, measure bool) error {
	h.b.senders.paused, h.torque = !measure, false
	h.window = poseWindow{}
	turns := int(seconds * 1e9 / float64(control.PeriodNs))
	for i := range turns {
		if err := h.b.turn(ctx, h.damp, func(now int64, s *wire.LowState) {
			h.take(now, s)
			h.window.add(2*i/turns, s)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (h *hang) take(now int64, s *wire.LowState) {
	h.judge.State(now, s)
	h.state, h.have = *s, true
}

// result is that of this robot's first contact, which has to have passed before its legs get torque.
func (h *hang) result() (*contactFile, bool) {
	d := h.d
	id, err := h.cfg.identity(&h.state)
	if err != nil {
		d.add(levelError, "first_contact", "Until then it gets no torque.", "%v", err)
		return nil, false
	}
	file, err := loadContact(h.cfg.contactDir(), id)
	run := "Run " + contactCommand(h.cfg, toFirstContact) + " before."
	switch {
	case err != nil:
		d.unreadable(h.cfg, err)
		return nil, false
	case file == nil:
		d.add(levelError, "first_contact", run, "%s has no first contact in %s; no torque was sent", id, h.cfg.contactDir())
		return nil, false
	}
	err = h.cfg.passed(file, &h.state)
	d.Contact = &contactReport{Identity: id, File: contactPath(h.cfg.contactDir(), id), Passed: err == nil, CRCForm: file.CRCForm, Steps: file.Steps, LinkLoss: file.LinkLoss}
	if err != nil {
		d.add(levelError, "first_contact", run, "%s has not passed its first contact (%v); no torque was sent", id, err)
		return nil, false
	}
	return file, true
}

// hangs says whether the legs may get torque: the robot hangs as it did in its first contact, at rest, and nobody else moves it. Legs that
// were just let go, or that a hand has to put back, are waited for as long as for a step of a first contact. Its error is that of a turn.
func (h *hang) hangs(ctx context.Context, file *contactFile, t *teller) (bool, error) {
	d, rest := h.d, &file.Record.Rest
	var now, told []hindrance
	p, seen := h.window.pose(hangDamps)
	for left := h.cfg.FirstContact.Exam.StepSeconds; ; left -= hangDamps {
		if now = []hindrance{{ofStates, "too few states came"}}; seen {
			now = h.hinders(&p, rest)
		}
		if len(now) == 0 || left <= 0 {
			break
		}
		if !slices.EqualFunc(now, told, func(a, b hindrance) bool { return a.of == b.of }) {
			t.say("wait: %s", list(now))
		}
		told = now
		t.waiting(now, left)
		if err := h.damped(ctx, hangDamps, true); err != nil {
			return false, err
		}
		p, seen = h.window.pose(hangDamps)
	}
	t.wipe()
	if len(now) > 0 {
		d.add(levelError, "not_hung", "", "%s; no torque was sent", list(now))
		return false, nil
	}
	if h.b.senders.found() {
		d.anotherSender(&h.b.senders)
		return false, nil
	}
	if feet := p.pressed(rest); len(feet) > 0 {
		d.add(levelWarning, "not_hung", "Look that nothing touches it; if nothing does, its zero has drifted.", "%s; alone it was not waited for", list(feet))
	}
	h.rest = p.q
	return true, nil
}

// hinders is all that is in the way of torque.
func (h *hang) hinders(p *pose, rest *firstcontact.RestFigures) []hindrance {
	all := p.moves()
	if tilt := h.judge.TiltRad(); !(tilt < hangTilt) {
		all = append(all, hindrance{ofBody, fmt.Sprintf("the body tilts %.2f rad", tilt)})
	}
	return append(all, p.notHung(rest)...)
}

// run is the part with torque.
func (h *hang) run(ctx context.Context, form wire.CRCForm, t *teller) (trials []firstcontact.LossTrial, err error) {
	if err := h.move(ctx, form, hangRamp, 0, 0, 0, hangKp); err != nil {
		return nil, err
	}
	if err := h.move(ctx, form, hangRamp, 0, 1, hangKp, hangKp); err != nil {
		return nil, err
	}
	for n := range firstcontact.LossTrials {
		if err := h.move(ctx, form, hangWait, 1, 1, hangKp, hangKp); err != nil {
			return nil, err
		}
		trial, err := h.silence(ctx, form)
		if err != nil {
			return nil, err
		}
		t.say("%d/%d  away %.2f rad, back %.3f rad in %.0f ms: %s", n+1, firstcontact.LossTrials, trial.AwayRad, trial.BackRad, trial.SilentMs, trial.Behaviour())
		trials = append(trials, trial)
	}
	if err := h.move(ctx, form, hangRamp, 1, 0, hangKp, hangKp); err != nil {
		return nil, err
	}
	return trials, h.move(ctx, form, hangRamp, 0, 0, hangKp, 0)
}

// move takes the targets' way back and the stiffness from one value to another.
func (h *hang) move(ctx context.Context, form wire.CRCForm, seconds, fromAway, toAway, fromKp, toKp float64) error {
	turns := int(seconds * 1e9 / float64(control.PeriodNs))
	for i := range turns {
		x := float64(i+1) / float64(turns)
		s := x * x * x * (10 + x*(6*x-15)) // minimum jerk
		h.away, h.kp = fromAway+(toAway-fromAway)*s, fromKp+(toKp-fromKp)*s
		if err := h.hold(ctx, form); err != nil {
			return err
		}
	}
	return nil
}

// hold is one period with torque, judged.
func (h *hang) hold(ctx context.Context, form wire.CRCForm) error {
	h.b.senders.paused = true
	now := h.b.nowNs
	if h.strays >= hangStray {
		return abortf("%s", h.why)
	}
	v := h.judge.Tick(&safety.Tick{NowNs: now, LateNs: h.b.lateNs, Torque: true, CommandNs: now, TargetSensedNs: h.judge.SensedNs()})
	if v.Severity > safety.Warn {
		if v.Joint >= 0 {
			return abortf("%s at %s: %s", v.Fault, go1.JointNames[v.Joint], safety.Faults[v.Fault].Title)
		}
		return faulted(v.Fault)
	}
	if err := h.aim(form, now); err != nil {
		return err
	}
	h.torque = true
	return h.b.turn(ctx, h.frame, func(now int64, s *wire.LowState) {
		h.take(now, s)
		if h.why = stray(&h.rest, s); h.why == "" {
			h.strays = 0
		} else {
			h.strays++
		}
	})
}

// aim makes the frame.
func (h *hang) aim(form wire.CRCForm, now int64) (err error) {
	for j := range go1.Joints {
		q := h.rest[j]
		if j%go1.JointsInLeg == go1.Thigh {
			q += hangAway * h.away
		}
		h.cmd.Motor[j] = wire.MotorCmd{Mode: wire.ModeServo, Q: float32(q), Kp: float32(h.kp), Kd: hangKd}
	}
	if !h.judge.Frame(now, &h.cmd) {
		return abortf("%s: the judge refuses the frame", h.judge.Verdict().Fault)
	}
	h.frame, err = wire.AppendLowCmd(h.frame[:0], &h.cmd, form)
	return err
}

// thighs is the mean of something over the legs.
func thighs(of func(leg, joint int) float64) (mean float64) {
	for leg := range go1.Legs {
		mean += of(leg, leg*go1.JointsInLeg+go1.Thigh) / go1.Legs
	}
	return mean
}

// silence is one trial: the legs have come to rest away from where they hang.
func (h *hang) silence(ctx context.Context, form wire.CRCForm) (t firstcontact.LossTrial, err error) {
	q := func(_, j int) float64 { return float64(h.state.Motor[j].Q) - h.rest[j] }
	tau := func(_, j int) float64 { return float64(h.state.Motor[j].TauEst) }
	// As long as the silence will be, with frames: what moves anyhow.
	before := thighs(q)
	turns := int(firstcontact.LossSeconds * 1e9 / float64(control.PeriodNs))
	sum := 0.0
	for range turns {
		if err := h.hold(ctx, form); err != nil {
			return t, err
		}
		sum += thighs(tau)
	}
	t.AwayRad = thighs(q)
	t.DriftRad = before - t.AwayRad
	t.TauBefore = sum / float64(turns)

	began := h.sentNs
	for h.b.dueNs < began+int64(firstcontact.LossSeconds*1e9) {
		if err := h.b.turn(ctx, nil, func(now int64, s *wire.LowState) { t.Unasked++; h.take(now, s) }); err != nil {
			return t, err
		}
	}
	t.Unasked = max(t.Unasked-1, 0) // the answer to the last frame
	answered := false
	for range answerTurns {
		// What is in force already, or less; of the age of what was judged nothing can be said before a state has come.
		if err := h.aim(form, h.b.nowNs); err != nil {
			return t, err
		}
		was := h.sentNs
		if err := h.b.turn(ctx, h.frame, func(now int64, s *wire.LowState) {
			h.take(now, s)
			newest := h.sentNs
			if now < newest { // it came while this turn's frame was not out yet
				newest = was
			}
			if answered {
				return
			}
			if newest == began { // of the silence itself
				t.Unasked++
				return
			}
			answered = true
			t.SilentMs = float64(newest-began) / 1e6
			t.BackRad, t.BackRadS = t.AwayRad-thighs(q), -thighs(func(_, j int) float64 { return float64(s.Motor[j].Dq) })
			t.TauAfter = thighs(tau)
			for j := range go1.Joints {
				if s.Motor[j].Mode != wire.ModeServo {
					t.ModesAfter++
				}
			}
		}); err != nil {
			return t, err
		}
		if answered {
			return t, nil
		}
	}
	return t, abortf("no state came back after the silence")
}
