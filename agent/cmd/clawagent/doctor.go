package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// level of a finding. The robot is ready when none is an error.
type level string

const (
	levelError   level = "error"
	levelWarning level = "warning"
	levelOK      level = "ok"
)

// levelOrder is how findings are listed.
var levelOrder = map[level]int{levelError: 0, levelWarning: 1, levelOK: 2}

// finding is one thing that the doctor saw.
type finding struct {
	Code   string `json:"code"` // one word that does not change
	Level  level  `json:"level"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// diagnosis is what doctor --json prints.
type diagnosis struct {
	OK       bool              `json:"ok"`
	Findings []finding         `json:"findings"` // errors, warnings, ok; within each in the order they were seen
	Robot    string            `json:"robot"`
	High     string            `json:"high"`
	Local    string            `json:"local"` // what the robot sees as sender; "" when nothing could be sent
	Sport    string            `json:"sport"` // of link.ProbeSport; "" when it was not asked
	ARP      map[string]string `json:"arp"`   // hardware address of each address that is not on this machine
	Link     map[string]uint64 `json:"link"`  // datagrams by what became of them; empty when no low-level frame was sent

	// Interrupted: a person ended it.
	Interrupted bool `json:"interrupted,omitzero"`
	// Contact is there with --first-contact and --hang-test, once the robot is known.
	Contact *contactReport `json:"first_contact,omitzero"`
}

// add is one finding; without a remedy of its own it gets that of the table of codes.
func (d *diagnosis) add(l level, code, remedy, format string, args ...any) {
	if remedy == "" && l != levelOK {
		remedy = remedyOf(code)
	}
	d.put(finding{Code: code, Level: l, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// put adds findings, each once.
func (d *diagnosis) put(found ...finding) {
	for _, f := range found {
		if !slices.Contains(d.Findings, f) {
			d.Findings = append(d.Findings, f)
		}
	}
}

func (d *diagnosis) fault(l level, f safety.Fault, format string, args ...any) {
	d.add(l, f.String(), "", format, args...)
}

// doctorOptions are the flags that are no configuration: a person's word may not lie in a file.
type doctorOptions struct {
	armed, hung             bool
	firstContact, hangTest  bool
	anew, asJSON, showCodes bool
	seconds                 float64
	skip                    []string
	skipped                 []firstcontact.Step
}

const doctorLong = `doctor asks the high-level service first: a robot in sport mode stands under its
own controller and goes limp at the first low-level frame, so then none is sent.
Otherwise it sends damping frames for a second and looks at what comes back:
nothing listening, another port, zeros, a bad CRC, a wrong length, another
version's protocol; then motors, IMU, battery and hand remote, the way there
(wireless, slow, lossy), frames of another program, and this computer: real-time
rights, clocks, room on the disk.

While an agent runs for the robot, doctor sends nothing: damping frames between
that agent's would make a walking robot fall.

On a robot that is not on this machine, silence of the high-level service does
not prove that sport mode is off; then --arm, a person's word that the robot
lies or hangs, is needed before frames are sent; for the two tests below it is
--hung.

--first-contact is for a robot that hangs from a gantry, legs free, before it
stands for the first time, and after every repair. Damping frames only. A person
tips the nose down, rolls the body left, turns it left, moves each named joint,
presses each foot, and the buttons and sticks of the remote; each step goes on by
itself once the motion is seen. Mirrored, swapped, reversed, dead, and wrong in
unit: each is named with its remedy. The result is kept in first_contact.dir under
the robot's serial number, or where its states carry none the hardware addresses
of both its computers, which then have to answer; without a passed one clawagent
run does not let a real robot stand. A robot on this machine is not asked for it:
for a relay to a Go1 set first_contact.require. Ctrl-C ends it; started again it
goes on with the steps that have not passed, unless the robot's clock has gone
back: what was measured before a robot was restarted (and perhaps mended) is
forgotten. Begun once more with a robot that has passed, it replaces that result,
and the hang test's, when you have done a step, or all are over; ended before, it
leaves both. The result holds for the robot's own software (LowState.Version), if
all states name the same.
--skip leaves a step out (the result is then incomplete), --anew forgets at once
what was kept. --json prints a line for each step that asks, hints, was not it and ends, and the object last.

--hang-test, after that and with the robot still hung (--hung is your word for
it), waits until the legs hang still where they hung in the first contact, at most
as long as for a step of that (--timeout): it says which do not, and you put them
back by hand. Then it holds them a little back with Kp 5, silences the link for
200 ms five times, and says what the motors do without commands: hold, damp or go
limp. A first contact done anew forgets it. A leg that moves as nobody told it ends the test. A silence is
judged if by this computer's clock it lasted 190 to 230 ms.
Whatever ends it, the robot is damped: by this program, or, where that is killed
or stands still, by its guard (clawagent guard). Ctrl-Z ends it as Ctrl-C does.
With the cable out or this computer dead the legs keep what the motors make of
silence, Kp 5 at most, until the robot's own switch.

To leave sport mode: with the robot hung or lying, press on its remote L2+A,
L2+A, L2+B, then L1+L2+START.

Exit code 0: ready (warnings at most), 1: something stands in the way, or it was
broken off, 2: the command line or the configuration is wrong; nothing was sent.`

func newDoctor(loader *cli.Loader[config]) *cobra.Command {
	var o doctorOptions
	var cfg config
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why no state arrives, or what is wrong with the robot, before it stands",
		Long:  doctorLong,
		Example: `  clawagent doctor --robot udp://192.168.123.10:8007
  clawagent doctor --robot udp://127.0.0.1:8007 --json
  clawagent doctor --first-contact --hung --robot udp://192.168.123.10:8007
  clawagent doctor --first-contact --hung --skip feet --skip FR_hip_joint --timeout 60
  clawagent doctor --hang-test --hung --robot udp://192.168.123.10:8007
  clawagent doctor --codes`,
		Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) (err error) {
			if o.showCodes {
				return nil
			}
			if cfg, err = loader.Load(); err != nil {
				return err
			}
			return cli.Usage(o.check(&cfg))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.showCodes {
				return printCodes(cmd.OutOrStdout(), o.asJSON)
			}
			return runDoctor(cmd, &cfg, &o)
		},
	}
	f := cmd.Flags()
	loader.AddFlags(f)
	for flag, key := range map[string]string{"robot": "robot", "high": "high", "local": "local", "encrypt-crc": "control.encrypt_crc",
		"no-remote": "safety.without_remote", "timeout": "first_contact.exam.step_seconds"} {
		loader.AddKeyFlag(f, flag, key)
	}
	// Not the configuration's arm: that one is about an agent which a person starts beside the robot.
	f.BoolVar(&o.armed, "arm", false, "the robot lies or hangs, and a person stands beside it: frames may be sent")
	f.BoolVar(&o.firstContact, "first-contact", false, "the robot hangs: show step by step that it is the one in the documents, with damping frames only")
	f.BoolVar(&o.hangTest, "hang-test", false, "the robot hangs: find out what its motors do when no command comes for 200 ms, with Kp 5")
	f.BoolVar(&o.hung, "hung", false, "your word that the robot hangs, legs free, and you stand beside it; --hang-test wants it, to --first-contact it is as good as --arm")
	f.StringArrayVar(&o.skip, "skip", nil, "leave out a `STEP` of the first contact, or motions, joints, feet, remote; may be repeated")
	f.BoolVar(&o.anew, "anew", false, "first contact: forget what was kept of this robot")
	f.Float64Var(&o.seconds, "seconds", 1, "how long to listen, s")
	cmd.MarkFlagsMutuallyExclusive("seconds", "first-contact") // which takes the time that it needs
	cmd.MarkFlagsMutuallyExclusive("seconds", "hang-test")
	f.BoolVar(&o.showCodes, "codes", false, "print everything that doctor can name, and exit")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object; before it, a line for each step of the first contact")
	return cmd
}

// check refuses flags that do not go together, and reads the names of steps.
func (o *doctorOptions) check(cfg *config) error {
	if !(o.seconds >= 0.2 && o.seconds <= 60) {
		return fmt.Errorf("--seconds: %v, want 0.2..60", o.seconds)
	}
	for _, name := range o.skip {
		steps, err := firstcontact.ParseSteps(name)
		if err != nil {
			return fmt.Errorf("--skip: %w", err)
		}
		o.skipped = append(o.skipped, steps...)
	}
	for _, s := range o.skipped {
		if s.Group() == firstcontact.Automatic {
			return fmt.Errorf("--skip: %s is not left out: what follows builds on it", s)
		}
	}
	switch {
	case o.firstContact && o.hangTest:
		return errors.New("--first-contact and --hang-test: one after the other")
	case !o.firstContact && (len(o.skip) > 0 || o.anew):
		return errors.New("--skip and --anew belong to --first-contact")
	case o.hung && !o.firstContact && !o.hangTest:
		return errors.New("--hung belongs to --first-contact and --hang-test; without them the word for a robot that lies or hangs is --arm")
	case o.hangTest && !o.hung:
		return errors.New("--hang-test: the legs get torque; hang the robot with its legs free, stand beside it, and say so with --hung")
	case o.hangTest && cfg.Control.Lockstep:
		return errors.New("--hang-test: control.lockstep: a silent link stops the robot's time there")
	}
	return nil
}

// runDoctor is the command.
func runDoctor(cmd *cobra.Command, cfg *config, o *doctorOptions) error {
	ctx, _, release := cli.StopStages(cmd.Context())
	defer release()
	if o.hangTest { // a program that is stopped damps nothing: then rather ended
		stoppable, release := signal.NotifyContext(ctx, syscall.SIGTSTP)
		defer release()
		ctx = stoppable
	}
	d, err := diagnose(ctx, cfg, o, newTeller(cmd, o))
	interrupted := ctx.Err() != nil
	if err != nil && !interrupted {
		return err
	}
	if interrupted {
		d.Interrupted, d.OK = true, false
	}
	if err := d.print(cmd.OutOrStdout(), o.asJSON); err != nil {
		return err
	}
	switch {
	case interrupted:
		return fmt.Errorf("doctor: broken off (%w)", context.Cause(ctx))
	case !d.OK:
		return fmt.Errorf("doctor: the robot at %s is not ready", cfg.low())
	}
	return nil
}

func newTeller(cmd *cobra.Command, o *doctorOptions) *teller {
	t := &teller{out: cmd.OutOrStdout(), asJSON: o.asJSON}
	w := cmd.OutOrStdout()
	if o.asJSON {
		w = cmd.ErrOrStderr()
	}
	t.live = terminal(w)
	if t.live || !o.asJSON {
		t.people = w
	}
	return t
}

// diagnose looks at computer, network and robot in that order, and stops before
// whatever could bring a standing robot down. Its error is that of ctx.
func diagnose(ctx context.Context, cfg *config, o *doctorOptions, t *teller) (*diagnosis, error) {
	d := &diagnosis{
		Robot: cfg.low().String(), High: cfg.high().String(),
		Findings: []finding{}, ARP: map[string]string{}, Link: map[string]uint64{},
	}
	d.rights(cfg.Control.Priority)
	d.disk(cfg)
	clocks := readClocks()
	err := d.robot(ctx, cfg, o, t)
	d.clocks(clocks, readClocks())
	slices.SortStableFunc(d.Findings, func(a, b finding) int { return cmp.Compare(levelOrder[a.Level], levelOrder[b.Level]) })
	d.OK = !slices.ContainsFunc(d.Findings, func(f finding) bool { return f.Level == levelError })
	return d, err
}

func (d *diagnosis) robot(ctx context.Context, cfg *config, o *doctorOptions, t *teller) error {
	unlock, err := lockRobot(cfg.low())
	switch {
	case errors.Is(err, errLocked):
		d.add(levelError, "another_agent", "", "%v; nothing was sent", err)
		return nil
	case err != nil:
		d.add(levelError, "another_agent", "", "whether another agent drives the robot cannot be told: %v; nothing was sent", err)
		return nil
	}
	defer unlock()
	defer d.arp(cfg)

	if off, err := d.sportIsOff(ctx, cfg, o); err != nil || !off {
		return err
	}
	switch {
	case o.firstContact:
		return d.firstContacts(ctx, cfg, o, t)
	case o.hangTest:
		return d.hangTest(ctx, cfg, t)
	}
	return d.listen(ctx, cfg, time.Duration(o.seconds*1e9))
}

// sportIsOff says whether low-level frames may be sent: they bring a robot down that stands under its own controller. Its error is that
// of ctx.
func (d *diagnosis) sportIsOff(ctx context.Context, cfg *config, o *doctorOptions) (bool, error) {
	sport, err := link.ProbeSport(ctx, cfg.high(), time.Second)
	if sport.Local.IsValid() {
		d.Local = sport.Local.String()
	}
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil:
		d.add(levelError, "unreachable", "Check cable and power, and that this computer has an address in the robot's network; a Go1's is 192.168.123.0/24.",
			"sport mode could not be looked for: %v; no low-level frame was sent", err)
		return false, nil
	}
	d.Sport = sport.Result.String()
	switch sport.Result {
	case link.SportOn:
		d.add(levelError, "sport_mode", "",
			"sport mode is on (mode %d, gait %d): the robot stands under its own controller and goes limp at low-level frames; none was sent", sport.Mode, sport.GaitType)
		return false, nil
	case link.SportUnclear:
		d.add(levelError, "high_level_unclear", "",
			"something answers at %s, but not as a Go1's high-level service does (%s); no low-level frame was sent", cfg.high(), sport.LastReject)
		return false, nil
	case link.SportSilent:
		if !cfg.low().Addr().IsLoopback() && !o.armed && !o.hung {
			d.add(levelError, "sport_mode_unknown", "",
				"the high-level service at %s does not answer, which does not show that sport mode is off; no low-level frame was sent", cfg.high())
			return false, nil
		}
		d.add(levelOK, "sport_mode_off", "", "no answer from the high-level service at %s", cfg.high())
	case link.SportRefused:
		d.add(levelOK, "sport_mode_off", "", "nothing listens at the high-level service's address %s", cfg.high())
	}
	return true, nil
}

// listen sends damping frames at 500 Hz and looks at the answers.
func (d *diagnosis) listen(ctx context.Context, cfg *config, listenFor time.Duration) error {
	udp, err := d.open(cfg)
	if err != nil {
		return nil
	}
	defer udp.Close()
	frame, err := dampingFrame(udp.CRC())
	if err != nil {
		return err
	}
	var seen states
	start := link.Now()
	if err := d.route(ctx, udp, frame, func(arrivedNs int64, s *wire.LowState) { seen.add(s, arrivedNs) }); err != nil {
		return err
	}
	b := newBench(udp, cfg)
	for began := link.Now(); link.Now()-began < listenFor.Nanoseconds(); {
		err := b.turn(ctx, frame, func(arrivedNs int64, s *wire.LowState) {
			if cfg.Control.Lockstep { // the robot's time, not ours
				arrivedNs = link.Now()
			}
			seen.add(s, arrivedNs)
		})
		if errors.Is(err, errSilent) {
			break
		}
		if restart := new(restartedError); errors.As(err, &restart) { // it may stand under its own controller now
			d.add(levelError, "robot_restarted", "", "%v; nothing more was sent", restart)
			break
		}
		if err != nil {
			return err
		}
	}
	took := link.Now() - start
	d.loss(udp)
	d.hints(udp, cfg, seen.n > 0)
	if seen.n == 0 {
		return nil
	}
	seen.examine(d, &cfg.Safety, start, took)
	if b.senders.found() {
		d.anotherSender(&b.senders)
	}
	d.contact(cfg, &seen.last)
	return nil
}

// hints names what the link's counters show.
func (d *diagnosis) hints(udp *link.UDP, cfg *config, heard bool) {
	c := udp.Counters()
	d.Link = linkCounters(udp)
	for _, h := range link.Hints(&c, cfg.low()) {
		l := levelWarning
		if h.Severe && !heard {
			l = levelError
		}
		d.add(l, h.Code, h.Remedy, "%s", strings.TrimSuffix(h.Text, "."))
	}
}

// contact says what is known of this robot from its first contact, where it needs one.
func (d *diagnosis) contact(cfg *config, s *wire.LowState) {
	known := contacts{cfg: cfg}
	switch required, warning := known.askedOf(s); {
	case warning != "":
		d.add(levelWarning, "first_contact", "A virtual robot of your own making is free to stand so.", "%s", warning)
		return
	case !required:
		return
	}
	if err := known.mayStand(s); err != nil {
		d.add(levelWarning, "first_contact", "Until then it does not stand.", "%v", err)
	} else if id, err := cfg.identity(s); err == nil {
		d.add(levelOK, "first_contact", "", "%s has passed its first contact", id)
	}
	if b := known.linkLoss(s); b == firstcontact.Unknown {
		d.add(levelWarning, "link_loss_unknown", "With the robot hung run "+contactCommand(cfg, toHangTest)+".", "what its motors do when no command comes is not known")
	} else {
		v := firstcontact.Verdict{Code: map[firstcontact.Behaviour]firstcontact.Code{
			firstcontact.Holds: firstcontact.LossHold, firstcontact.Damps: firstcontact.LossDamp, firstcontact.Limp: firstcontact.LossLimp}[b]}
		d.add(levelOK, v.Code.String(), "", "%s", firstcontact.Codes[v.Code].Title)
	}
}

func (d *diagnosis) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(w, d)
	}
	local, sport := cmp.Or(d.Local, "none"), cmp.Or(d.Sport, "not asked")
	fmt.Fprintf(w, "robot %s, from %s; high level %s: %s\n", d.Robot, local, d.High, sport)
	for _, a := range slices.Sorted(maps.Keys(d.ARP)) {
		fmt.Fprintf(w, "ARP %s: %s\n", a, d.ARP[a])
	}
	if len(d.Link) > 0 {
		fmt.Fprint(w, "datagrams:")
		for _, k := range slices.Sorted(maps.Keys(d.Link)) {
			if n := d.Link[k]; n > 0 {
				fmt.Fprintf(w, " %s %d", k, n)
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	for _, f := range d.Findings {
		fmt.Fprintf(w, "%-8s %s: %s\n", f.Level, f.Code, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(w, "         -> %s\n", f.Remedy)
		}
	}
	end := "not ready"
	switch {
	case d.Interrupted:
		end = "broken off"
	case d.OK:
		end = "ready"
	}
	fmt.Fprintf(w, "\n%s\n", end)
	return nil
}
