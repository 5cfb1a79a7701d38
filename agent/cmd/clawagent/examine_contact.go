package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// contactReport is the diagnosis's part about the first contact, or about the hang test.
type contactReport struct {
	Identity string        `json:"identity"`
	File     string        `json:"file"`
	Passed   bool          `json:"passed"`
	CRCForm  string        `json:"crc_form"`
	Steps    []contactStep `json:"steps"`
	LinkLoss *linkLoss     `json:"link_loss"`
}

// noteEvent, askEvent, hintEvent, wrongEvent and stepEvent are the lines of --json before the object.
type noteEvent struct {
	Event string `json:"event"` // note: what holds for all that is asked for
	Text  string `json:"text"`
}

type askEvent struct {
	Event  string `json:"event"` // ask: now is the time to do it
	Step   string `json:"step"`
	Number int    `json:"number"`
	Of     int    `json:"of"`
	Part   int    `json:"part"` // of a step that asks for several things
	Try    int    `json:"try"`  // from 1; 2: the wrong thing was seen
	Text   string `json:"text"`
}

// hintEvent is what has to be done before, or beside, what is asked for.
type hintEvent struct {
	Event  string `json:"event"` // hint
	Step   string `json:"step"`
	Number int    `json:"number"`
	Of     int    `json:"of"`
	Hint   string `json:"hint"`
	Text   string `json:"text"`
}

// wrongEvent says that a try was judged, and was not what was asked for; the next one is the same step's.
type wrongEvent struct {
	Event  string   `json:"event"` // wrong
	Step   string   `json:"step"`
	Number int      `json:"number"`
	Of     int      `json:"of"`
	Try    int      `json:"try"`   // that was wrong, from 1
	Names  []string `json:"names"` // codes of what it showed by itself; none where what came says it all
	Text   string   `json:"text"`
}

type stepEvent struct {
	Event   string              `json:"event"` // step: its result
	Step    string              `json:"step"`
	Number  int                 `json:"number"`
	Of      int                 `json:"of"`
	Result  firstcontact.Result `json:"result"`
	Kept    bool                `json:"kept"` // from a session before
	Seconds float64             `json:"seconds"`
	Names   []string            `json:"names"` // codes of what it shows by itself
	Figures any                 `json:"figures"`
}

// restartEvent says that the robot has started anew, and with it the session: the steps before it do not count.
type restartEvent struct {
	Event  string `json:"event"` // restart
	FromMs uint32 `json:"from_ms"`
	ToMs   uint32 `json:"to_ms"` // the robot's clock
	Text   string `json:"text"`
}

// teller tells the person, or a program, how the session goes.
type teller struct {
	out    io.Writer
	asJSON bool
	people io.Writer // prompts; nil where nobody looks
	live   bool      // people is a terminal
	tick   time.Time // newest live line
	width  int       // of it, to be wiped out
}

func (t *teller) say(format string, args ...any) {
	if t.people == nil {
		return
	}
	t.wipe()
	fmt.Fprintf(t.people, format+"\n", args...)
}

func (t *teller) wipe() {
	if t.width > 0 {
		fmt.Fprintf(t.people, "\r%s\r", strings.Repeat(" ", t.width))
		t.width = 0
	}
}

// liveEvery is how often the live line is written.
const liveEvery = 100 * time.Millisecond

func (t *teller) showLive(step firstcontact.Step, st *firstcontact.Status) {
	if !t.live || time.Since(t.tick) < liveEvery {
		return
	}
	t.line(liveText(step, st), st.LeftS)
}

// waiting is the live line of legs that do not hang yet; all that is in the way has been said.
func (t *teller) waiting(all []hindrance, leftS float64) {
	if !t.live {
		return
	}
	text := "wait: " + all[0].text
	if n := len(all); n > 1 {
		text = fmt.Sprintf("wait for %d things; %s", n, all[0].text)
	}
	t.line(text, leftS)
}

// line writes over the live line before.
func (t *teller) line(text string, leftS float64) {
	t.tick = time.Now()
	text = fmt.Sprintf("        %s  (%.0f s left)", text, leftS)
	pad := max(0, t.width-len(text))
	fmt.Fprintf(t.people, "\r%s%s", text, strings.Repeat(" ", pad))
	t.width = len(text)
}

func liveText(step firstcontact.Step, st *firstcontact.Status) string {
	name := func(names []string) string {
		if st.Moved < 0 || st.Moved >= len(names) {
			return "nothing"
		}
		return names[st.Moved]
	}
	var text string
	switch group := step.Group(); {
	case st.Hint != firstcontact.NoHint:
		return st.Hint.Text(step, st)
	case group == firstcontact.Automatic:
		return "measuring"
	case group == firstcontact.Remote && st.Phase == firstcontact.Settling:
		return "let go of everything first"
	case st.Phase == firstcontact.Settling:
		return "wait: let it hang level and still"
	case group != firstcontact.Remote && math.Abs(st.Value) < 0.1*st.Want:
		return "now: nothing moves yet"
	case group == firstcontact.Motions:
		text = fmt.Sprintf("turns about %s by %+.0f of %.0f degrees", name([]string{"x", "y", "z"}), st.Value*180/math.Pi, st.Want*180/math.Pi)
	case group == firstcontact.Joints:
		text = fmt.Sprintf("%s moves by %+.2f of %.2f rad", name(go1.JointNames[:]), st.Value, st.Want)
	case group == firstcontact.Feet:
		text = fmt.Sprintf("%s answers with %+.0f of %.0f counts", name(go1.LegNames[:]), st.Value, st.Want)
	case step == firstcontact.RemoteSticks:
		text = fmt.Sprintf("%.2f of %.2f", st.Value, st.Want)
	default:
		text = fmt.Sprintf("buttons 0x%04x", st.Buttons)
	}
	if st.Blur {
		text += ", and others as far: hold them still"
	}
	return text
}

// hintAfterNs is how long a hint lasts before it is written on a line of its own.
const hintAfterNs = int64(1e9)

// hints writes those that last, once in each try.
type hints struct {
	now, told firstcontact.Hint
	sinceNs   int64
}

func (h *hints) see(t *teller, nowNs int64, step firstcontact.Step, st *firstcontact.Status) {
	if st.Changed && st.Phase == firstcontact.Asking {
		h.told = firstcontact.NoHint
	}
	if st.Hint != h.now {
		h.now, h.sinceNs = st.Hint, nowNs
	}
	if h.now == firstcontact.NoHint || h.now == h.told || nowNs-h.sinceNs < hintAfterNs {
		return
	}
	h.told = h.now
	e := hintEvent{Event: "hint", Step: step.String(), Number: int(step) + 1, Of: firstcontact.StepCount, Hint: h.now.String(), Text: h.now.Text(step, st)}
	if t.asJSON {
		_ = cli.PrintReady(t.out, e)
	}
	t.say("%2d/%d %-15s %s", e.Number, e.Of, e.Step, e.Text)
}

func (t *teller) ask(step firstcontact.Step, st *firstcontact.Status) {
	e := askEvent{Event: "ask", Step: step.String(), Number: int(step) + 1, Of: firstcontact.StepCount, Part: st.Part, Try: st.Tries + 1, Text: step.Ask(st.Part)}
	if t.asJSON {
		_ = cli.PrintReady(t.out, e)
	}
	again := ""
	if st.Tries > 0 {
		again = "once more: "
	}
	t.say("%2d/%d %-15s %s%s", e.Number, e.Of, e.Step, again, e.Text)
}

// note tells what holds for all that is asked for.
func (t *teller) note(text string) {
	if t.asJSON {
		_ = cli.PrintReady(t.out, noteEvent{Event: "note", Text: text})
	}
	t.say("%s", text)
}

// wrong tells that a try was judged, and why it was not what was asked for.
func (t *teller) wrong(step firstcontact.Step, try int, why []firstcontact.Verdict) {
	e := wrongEvent{Event: "wrong", Step: step.String(), Number: int(step) + 1, Of: firstcontact.StepCount, Try: try, Names: namesOf(step, why), Text: "that was not it"}
	for i := range why {
		if v := &why[i]; v.Of(step) {
			e.Text += "; " + v.Text()
		}
	}
	if t.asJSON {
		_ = cli.PrintReady(t.out, e)
	}
	t.say("%2d/%d %-15s %s", e.Number, e.Of, e.Step, e.Text)
}

// namesOf are the codes of what a step shows by itself, each once.
func namesOf(step firstcontact.Step, all []firstcontact.Verdict) []string {
	names := []string{}
	for i := range all {
		if name := all[i].Code.String(); all[i].Of(step) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (t *teller) step(e *stepEvent) {
	if t.asJSON {
		_ = cli.PrintReady(t.out, e)
	}
	how := strings.ReplaceAll(e.Result.String(), "_", " ")
	if e.Kept {
		how += " before"
	}
	if len(e.Names) > 0 {
		how += ": " + strings.Join(e.Names, ", ")
	}
	t.say("%2d/%d %-15s -> %s", e.Number, e.Of, e.Step, how)
}

func (t *teller) restart(e *restartedError) {
	text := e.Error() + "; what was measured before is forgotten, and all steps begin anew"
	if t.asJSON {
		_ = cli.PrintReady(t.out, restartEvent{Event: "restart", FromMs: e.fromMs, ToMs: e.toMs, Text: text})
	}
	t.say("%s", text)
}

// exam is one session of the first contact.
type exam struct {
	d    *diagnosis
	cfg  *config
	o    *doctorOptions
	b    *bench
	t    *teller
	e    *firstcontact.Examiner
	cfgE firstcontact.Config
	file *contactFile
	// spared is what is kept of a first contact that it had passed, until this one has shown something; nil: there is none.
	spared *contactFile
	dates  [firstcontact.StepCount]string
	frame  []byte
	form   wire.CRCForm
	// stands: the person knows where to stand.
	stands bool
}

// restarts is how often a robot may start anew in a first contact.
const restarts = 3

// firstContacts is the first contact, begun anew whenever the robot is: what was measured before is not mixed with what comes after, and
// it may stand under its own controller now. Its error is that of ctx.
func (d *diagnosis) firstContacts(ctx context.Context, cfg *config, o *doctorOptions, t *teller) error {
	for n := 0; ; n++ {
		err := d.firstContact(ctx, cfg, o, t, n > 0)
		restart := new(restartedError)
		if !errors.As(err, &restart) {
			return err
		}
		if n == restarts {
			d.add(levelError, "robot_restarted", "", "%v, once more after %d times; nothing more is sent", restart, restarts)
			return nil
		}
		d.add(levelWarning, "robot_restarted", "", "%v; what had been measured was forgotten, and all steps begun anew", restart)
		t.restart(restart)
		if off, err := d.sportIsOff(ctx, cfg, o); err != nil || !off {
			return err
		}
	}
}

// firstContact goes through the steps with damping frames only, and keeps the result; fresh: without what is kept. Its error is that of
// ctx, or that the robot has started anew.
func (d *diagnosis) firstContact(ctx context.Context, cfg *config, o *doctorOptions, t *teller, fresh bool) error {
	udp, err := d.open(cfg)
	if err != nil {
		return nil
	}
	defer udp.Close()
	x := &exam{d: d, cfg: cfg, o: o, t: t, b: newBench(udp, cfg), cfgE: cfg.exam()}
	x.e = firstcontact.New(x.cfgE, nil)
	heard, err := x.findForm(ctx)
	if err == nil && heard {
		if err = x.resume(fresh); err == nil {
			err = x.steps(ctx)
		}
	}
	t.wipe()
	if restart := new(restartedError); errors.As(err, &restart) {
		if err := x.forget(); err != nil {
			d.add(levelError, "first_contact_file", "", "%v", err)
		}
		return err
	}
	x.conclude(err)
	d.hints(udp, cfg, heard)
	var kept *storeError
	var unreadable *unreadableError
	var unknown *identityError
	switch {
	case errors.As(err, &unknown):
		d.add(levelError, "first_contact", "Until then no result is kept, and it does not stand.", "%v", err)
		return nil
	case errors.Is(err, errSilent):
		d.add(levelError, "states_stopped", "", "%v", err)
		return nil
	case errors.As(err, &kept):
		d.add(levelError, "first_contact_file", "", "%v", err)
		return nil
	case errors.As(err, &unreadable):
		d.unreadable(cfg, err)
		return nil
	}
	return err
}

// unreadable names a result that is none, or another robot's, and what replaces it.
func (d *diagnosis) unreadable(cfg *config, err error) {
	d.add(levelError, "first_contact_file", "Begin without it, with the robot hung: "+contactCommand(cfg, toFirstContact, "--anew")+".", "%v", err)
}

// findForm looks for the form of the CRC in which the motors take our frames: the configured one first, then the other.
func (x *exam) findForm(ctx context.Context) (heard bool, err error) {
	configured := x.b.udp.CRC()
	other := wire.EncryptedCRC
	if configured == other {
		other = wire.PlainCRC
	}
	var first *firstcontact.Record // of a form that was answered, though not obeyed
	for _, form := range [2]wire.CRCForm{configured, other} {
		if x.frame, err = dampingFrame(form); err != nil {
			return heard, err
		}
		x.form = form
		answered, err := x.tryForm(ctx)
		if err != nil {
			return heard || answered, err
		}
		heard = heard || answered
		if x.e.Record().Results[firstcontact.Frame] == firstcontact.Passed {
			break
		}
		if answered && first == nil {
			r := *x.e.Record()
			first = &r
		}
		if form == other && first != nil { // neither: what the first showed
			x.form = configured
			x.e = firstcontact.New(x.cfgE, first)
			if x.frame, err = dampingFrame(configured); err != nil {
				return heard, err
			}
		}
	}
	if !heard {
		return false, nil
	}
	if x.form != configured {
		x.d.add(levelError, "crc_form", fmt.Sprintf("Set control.encrypt_crc: %v in the configuration, then run this again: what has passed is kept.", x.form == wire.EncryptedCRC),
			"the motors take our frames only with their CRC in the %s form, and %s is configured", x.form, configured)
	}
	return true, nil
}

// tryForm sends until the step is done, or its time is over without an answer.
func (x *exam) tryForm(ctx context.Context) (answered bool, err error) {
	x.e.Begin(firstcontact.Frame)
	began := x.b.nowNs
	for done := false; !done; {
		if err := x.b.turn(ctx, x.frame, func(now int64, s *wire.LowState) {
			answered = true
			done = x.e.Add(now, s).Phase == firstcontact.Done
		}); err != nil {
			return answered, err
		}
		if !answered && float64(x.b.nowNs-began)/1e9 > x.cfgE.FrameSeconds {
			break
		}
	}
	return answered, nil
}

// Why a session ends that nobody and no robot ends: the result could not be kept; what is kept cannot be read; nobody knows of which
// robot it would be.
type (
	storeError      struct{ error }
	unreadableError struct{ error }
	identityError   struct{ error }
)

// resume goes on from what is kept of this robot, if that has not passed and the robot has not been restarted since.
func (x *exam) resume(fresh bool) error {
	id, err := x.cfg.identity(&x.b.rx)
	if err != nil {
		return &identityError{err}
	}
	old, err := loadContact(x.cfg.contactDir(), id)
	if err != nil && !x.o.anew {
		return &unreadableError{err}
	}
	frame := *x.e.Record()
	// A hang test of before is not taken over: it is asked for once the first contact has passed, and this one has not.
	x.file = &contactFile{Identity: id, Robot: x.cfg.low().String(), CRCForm: x.form.String()}
	begins := "what has passed is kept."
	if old != nil {
		since, other := old.restarted(x.b.rx.Tick, time.Now(), x.cfg.Control.Lockstep), old.otherVersion(&x.b.rx)
		switch {
		case x.o.anew:
		case x.cfg.passed(old, &x.b.rx) == nil:
			x.spared = old
			begins += " It had passed on " + old.Date + ": that is replaced, and its hang test forgotten, once you have done a step, or all are over."
		case fresh:
		case other != "":
			begins += " Since " + old.Date + " the robot has changed (" + other + "): what was kept is forgotten."
		case since != "":
			begins += " " + since + ": what was kept is forgotten."
		default:
			r := old.Record
			r.Frame, r.Results[firstcontact.Frame] = frame.Frame, frame.Results[firstcontact.Frame]
			x.e = firstcontact.New(x.cfgE, &r)
			x.file.VersionVaries = old.VersionVaries
			if old.Passed { // of an agent that is configured otherwise
				x.spared = old
			}
			for i := range old.Steps {
				if i < len(x.dates) {
					x.dates[i] = old.Steps[i].Date
				}
			}
		}
	}
	x.t.say("first contact with %s at %s: damping frames only. Ctrl-C ends it; %s", id, x.cfg.low(), begins)
	return nil
}

// forget keeps that the robot has started anew: whoever asks next does not take up what was measured before. A result that has passed
// stays: no step of it is taken up.
func (x *exam) forget() error {
	if x.spared != nil {
		return nil
	}
	if x.file == nil { // before it was known what is kept
		id, err := x.cfg.identity(&x.b.rx)
		if err != nil {
			return nil // then nothing is
		}
		old, err := loadContact(x.cfg.contactDir(), id)
		if err != nil || old == nil || old.Passed {
			return nil
		}
		x.file = old
	}
	x.file.LinkLoss = nil
	x.e, x.dates = firstcontact.New(x.cfgE, nil), [firstcontact.StepCount]string{}
	return x.keep(false)
}

// steps goes through them.
func (x *exam) steps(ctx context.Context) error {
	for step := range firstcontact.Step(firstcontact.StepCount) {
		began := x.b.nowNs
		kept := false
		switch {
		case step == firstcontact.Frame: // done
		case slices.Contains(x.o.skipped, step):
			x.e.Skip(step)
		case x.e.Kept(step):
			kept = true
		default:
			if err := x.do(ctx, step); err != nil {
				return err
			}
			x.dates[step] = time.Now().UTC().Format(time.RFC3339)
		}
		r := x.e.Record()
		event := stepEvent{Event: "step", Step: step.String(), Number: int(step) + 1, Of: firstcontact.StepCount, Result: r.Results[step], Kept: kept,
			Seconds: float64(x.b.nowNs-began) / 1e9, Names: namesOf(step, r.Verdicts(nil, &x.cfgE)), Figures: r.Figures(step)}
		x.t.step(&event)
		if x.spared != nil { // nobody has done anything yet: perhaps nobody means to
			continue
		}
		if err := x.keep(false); err != nil {
			return err
		}
	}
	return nil
}

// do is one step.
func (x *exam) do(ctx context.Context, step firstcontact.Step) error {
	if !x.e.Begin(step) {
		return nil
	}
	if step.Group() == firstcontact.Automatic {
		x.t.say("%2d/%d %-15s %s", int(step)+1, firstcontact.StepCount, step, step.Ask(0))
	}
	if step.Group() != firstcontact.Automatic && !x.stands {
		x.stands = true
		x.t.note(firstcontact.Stand)
	}
	var told hints
	tries := 0
	for done := false; !done; {
		if err := x.b.turn(ctx, x.frame, func(now int64, s *wire.LowState) {
			if done {
				return
			}
			st := x.e.Add(now, s)
			if st.Tries > tries {
				tries = st.Tries
				x.t.wrong(step, tries, x.e.Record().Verdicts(nil, &x.cfgE))
			}
			if st.Changed && st.Phase == firstcontact.Asking && step.Group() != firstcontact.Automatic {
				x.t.ask(step, &st)
			}
			told.see(x.t, now, step, &st)
			x.t.showLive(step, &st)
			done = st.Phase == firstcontact.Done
		}); err != nil {
			return err
		}
	}
	if r := x.e.Record().Results[step]; step.Group() != firstcontact.Automatic && r != firstcontact.TimedOut {
		x.spared = nil // a person has done something
	}
	return nil
}

// keep writes what there is; passed only once all is done.
func (x *exam) keep(passed bool) error {
	f := x.file
	f.stamp(time.Now())
	f.Passed, f.Record, f.Findings, f.TickMs = passed, *x.e.Record(), x.findings(), x.b.tickMs
	f.RobotVersion, f.VersionVaries = nil, f.VersionVaries || x.b.varies
	if !f.VersionVaries {
		version := x.b.rx.Version
		f.RobotVersion = &version
	}
	f.Steps = f.Steps[:0]
	for s := range firstcontact.Step(firstcontact.StepCount) {
		if f.Record.Results[s] != firstcontact.Passed && f.Record.Results[s] != firstcontact.Failed && f.Record.Results[s] != firstcontact.TimedOut {
			x.dates[s] = ""
		}
		f.Steps = append(f.Steps, contactStep{Step: s.String(), Result: f.Record.Results[s], Date: x.dates[s]})
	}
	if err := f.store(x.cfg.contactDir()); err != nil {
		return &storeError{err}
	}
	return nil
}

// findings are those of the record.
func (x *exam) findings() []finding {
	out := []finding{}
	for _, v := range x.e.Record().Verdicts(nil, &x.cfgE) {
		out = append(out, verdictFinding(&v))
	}
	return out
}

func verdictFinding(v *firstcontact.Verdict) finding {
	info := &firstcontact.Codes[v.Code]
	l := map[firstcontact.Level]level{firstcontact.Fault: levelError, firstcontact.Warning: levelWarning, firstcontact.Note: levelOK}[info.Level]
	return finding{Code: info.Name, Level: l, Text: v.Text(), Remedy: info.Remedy}
}

// conclude says whether it has passed, and keeps that.
func (x *exam) conclude(ended error) {
	d := x.d
	if x.file == nil {
		return
	}
	d.put(x.findings()...)
	if x.b.senders.found() {
		d.anotherSender(&x.b.senders)
	}
	if x.spared != nil && ended != nil {
		x.standsAsItWas()
		return
	}
	r := x.e.Record()
	bad := slices.ContainsFunc(d.Findings, func(f finding) bool { return f.Level == levelError })
	passed := ended == nil && !bad && r.Pass(&x.cfgE)
	stored := !errors.As(ended, new(*storeError))
	if ended == nil {
		if err := x.keep(passed); err != nil {
			d.add(levelError, "first_contact_file", "", "%v", err)
			passed, stored = false, false
		}
	}
	if x.file.VersionVaries || x.b.varies {
		d.add(levelWarning, "first_contact", "Whenever the robot got other software, run "+contactCommand(x.cfg, toFirstContact, "--anew")+".",
			"LowState.Version was not the same in all states, so it is no version of its software: the result is not bound to it")
	}
	path := contactPath(x.cfg.contactDir(), x.file.Identity)
	d.Contact = &contactReport{Identity: x.file.Identity, File: path, Passed: passed, CRCForm: x.file.CRCForm, Steps: x.file.Steps, LinkLoss: x.file.LinkLoss}
	if passed {
		d.add(levelOK, "first_contact", "", "%s has passed its first contact; kept in %s", x.file.Identity, path)
		return
	}
	what := undone(r)
	where := "kept in " + path
	if !stored {
		where = "not kept in " + path
	}
	run := "Run "
	if bad {
		run = "Mend what is named above, then run "
	}
	d.add(levelError, "first_contact", run+contactCommand(x.cfg, toFirstContact)+": what has passed is not asked for again while the robot stays on.",
		"%s has not passed its first contact; %s%s", x.file.Identity, what, where)
}

// standsAsItWas says that a first contact in which nobody did anything has left what was kept.
func (x *exam) standsAsItWas() {
	f, path := x.spared, contactPath(x.cfg.contactDir(), x.spared.Identity)
	why := x.cfg.passed(f, &x.b.rx)
	x.d.Contact = &contactReport{Identity: f.Identity, File: path, Passed: why == nil, CRCForm: f.CRCForm, Steps: f.Steps, LinkLoss: f.LinkLoss}
	run := "To do it again, run " + contactCommand(x.cfg, toFirstContact) + "."
	if why != nil {
		x.d.add(levelError, "first_contact", run, "no step was done, so what was kept of %s stays in %s, and does not let it stand: %v", f.Identity, path, why)
		return
	}
	x.d.add(levelOK, "first_contact", "", "no step was done, so %s has passed its first contact as before, on %s; kept in %s", f.Identity, f.Date, path)
}

// anotherSender names frames that are not ours.
func (d *diagnosis) anotherSender(x *senders) {
	d.add(levelError, "another_sender", "", "in %d of %d states motors gave up to %.0f N*m more or less than our damping frames ask for: another program's frames are among ours", x.off, x.n, x.worst)
}

// open makes the link, or says why there is none. Only now does a guard let go that still damps for an agent that was killed: whatever
// ended before sends nothing in its place.
func (d *diagnosis) open(cfg *config) (*link.UDP, error) {
	if err := releaseGuard(cfg); err != nil {
		d.guarded(cfg, err)
		return nil, err
	}
	return d.dial(cfg)
}

// guarded names a guard that stands in the way.
func (d *diagnosis) guarded(cfg *config, err error) {
	d.add(levelError, "guard", "Look at `"+guardCommand(cfg)+"`, or end that process.", "%v; nothing was sent", err)
}

func (d *diagnosis) dial(cfg *config) (*link.UDP, error) {
	udp, err := cfg.dial()
	if err != nil {
		d.add(levelError, "local_address", "", "%v", err)
		return nil, err
	}
	if a, err := udp.SourceAddr(); err == nil {
		d.Local = a.String()
	}
	return udp, nil
}

// undone names the steps that keep a robot from passing, group by group where that is all of it; "" if none does.
func undone(r *firstcontact.Record) (text string) {
	for _, k := range []struct {
		title string
		of    []firstcontact.Result
	}{
		{"steps that failed", []firstcontact.Result{firstcontact.Failed}},
		{"not seen in time", []firstcontact.Result{firstcontact.TimedOut}},
		{"steps still open", []firstcontact.Result{firstcontact.Open, firstcontact.Skipped}},
	} {
		if steps := stepsWith(r, k.of); len(steps) > 0 {
			text += k.title + ": " + strings.Join(steps, ", ") + "; "
		}
	}
	return text
}

// stepsWith names the steps with one of some results, by their group where that is all of it.
func stepsWith(r *firstcontact.Record, of []firstcontact.Result) (names []string) {
	var total, with [firstcontact.Remote + 1]int
	for s := range firstcontact.Step(firstcontact.StepCount) {
		total[s.Group()]++
		if slices.Contains(of, r.Results[s]) {
			with[s.Group()]++
		}
	}
	for s := range firstcontact.Step(firstcontact.StepCount) {
		g := s.Group()
		switch {
		case !slices.Contains(of, r.Results[s]):
		case g == firstcontact.Automatic || with[g] < total[g]:
			names = append(names, s.String())
		case !slices.Contains(names, g.String()):
			names = append(names, g.String())
		}
	}
	return names
}
