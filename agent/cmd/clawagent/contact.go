package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// contactConfig is that of the first contact with a robot, and of what run asks of its result.
type contactConfig struct {
	Dir     string `yaml:"dir" doc:"folder of the results, a file a robot; empty: openclaw/first-contact in the user's state folder"`
	Require bool   `yaml:"require" doc:"ask a robot on this machine, too, for a passed first contact before it stands, as for a relay to a Go1; others are asked always"`

	Exam firstcontact.Config `yaml:"exam" doc:"clawagent doctor --first-contact"`
}

func (c *contactConfig) validate() error {
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("first_contact.dir: %q, want an absolute path", c.Dir)
	}
	if err := c.Exam.Validate(); err != nil {
		return fmt.Errorf("first_contact.exam.%w", err)
	}
	return nil
}

// exam is the first contact's configuration, with what it takes from elsewhere.
func (c *config) exam() firstcontact.Config {
	e := c.FirstContact.Exam
	e.WithoutRemote = c.Safety.WithoutRemote
	e.SticksIdle = c.Control.RemoteVxMS == 0 && c.Control.RemoteVyMS == 0 && c.Control.RemoteWzRadS == 0
	return e
}

// passed says why a result does not let the robot of a state stand. What the file says of itself is not enough: the figures must say so
// too, and for how this agent works; and the robot must be as it was.
func (c *config) passed(f *contactFile, s *wire.LowState) error {
	if !f.Passed {
		return fmt.Errorf("that of %s of %s did not pass", f.Identity, f.Date)
	}
	e := c.exam()
	if f.Record.Pass(&e) {
		if other := c.another(f, s); other != "" {
			return fmt.Errorf("that of %s of %s is not of the robot as it is: %s", f.Identity, f.Date, other)
		}
		return nil
	}
	if e.SticksIdle = true; f.Record.Pass(&e) {
		return fmt.Errorf("that of %s of %s was made without the hand remote's sticks (control.remote_vx_m_s, remote_vy_m_s, remote_wz_rad_s 0), which drive now", f.Identity, f.Date)
	}
	if e.WithoutRemote = true; f.Record.Pass(&e) {
		return fmt.Errorf("that of %s of %s was made without the hand remote (safety.without_remote), with which this agent works", f.Identity, f.Date)
	}
	return fmt.Errorf("that of %s of %s says that it passed, and its figures do not", f.Identity, f.Date)
}

// contactDir is the folder of the results.
func (c *config) contactDir() string {
	if c.FirstContact.Dir != "" {
		return c.FirstContact.Dir
	}
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		base = "/var/lib" // of a service without a home
		if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
			base = filepath.Join(home, ".local", "state")
		}
	}
	return filepath.Join(base, "openclaw", "first-contact")
}

// contactNeeded says whether this robot has to have passed its first contact before it stands.
func (c *config) contactNeeded() bool { return c.FirstContact.Require || !c.low().Addr().IsLoopback() }

// contactFormat is the version of contactFile.
const contactFormat = 1

// maxContact is the longest file that is read, bytes; ours have some 20 kB.
const maxContact = 1 << 20

// contactFile is what is kept of a robot's first contact and of its hang test.
type contactFile struct {
	Format   int    `json:"format"`
	Identity string `json:"identity"`
	Robot    string `json:"robot"` // low-level address at that time
	Host     string `json:"host"`
	Date     string `json:"date"` // of the newest step, or when it was seen to have started anew
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	CRCForm  string `json:"crc_form"` // that the motors took
	Passed   bool   `json:"passed"`
	TickMs   uint32 `json:"tick_ms"` // of the newest state, the robot's clock at that date; see restarted
	// RobotVersion is LowState.Version, which the result is bound to: that of the robot's own software. Null where it is bound to none: in
	// a file from before it was kept, and of a robot whose states did not all say the same.
	RobotVersion *[2]uint32 `json:"robot_version"`
	// VersionVaries: they did not.
	VersionVaries bool `json:"robot_version_varies"`

	Steps    []contactStep       `json:"steps"`
	Findings []finding           `json:"findings"`
	Record   firstcontact.Record `json:"record"`
	LinkLoss *linkLoss           `json:"link_loss"` // null: not tested
}

// contactStep is one step's result.
type contactStep struct {
	Step   string              `json:"step"`
	Result firstcontact.Result `json:"result"`
	Date   string              `json:"date"` // "" for one that was not done
}

// linkLoss is what the hang test found.
type linkLoss struct {
	Behaviour firstcontact.Behaviour   `json:"behaviour"`
	Date      string                   `json:"date"`
	Version   string                   `json:"version"`
	Commit    string                   `json:"commit"`
	Trials    []firstcontact.LossTrial `json:"trials"`
}

func contactPath(dir, identity string) string { return filepath.Join(dir, identity+".json") }

// loadContact reads a robot's file; nil without an error where there is none.
func loadContact(dir, identity string) (*contactFile, error) {
	path := contactPath(dir, identity)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("first contact: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("first contact: %w", err)
	case !st.Mode().IsRegular() || st.Size() > maxContact:
		return nil, fmt.Errorf("first contact: %s is not a result: want a file of at most %d bytes", path, maxContact)
	}
	c := new(contactFile)
	if err := json.UnmarshalRead(f, c); err != nil {
		return nil, fmt.Errorf("first contact: %s: %w", path, err)
	}
	switch {
	case c.Format != contactFormat:
		return nil, fmt.Errorf("first contact: %s: format %d, want %d", path, c.Format, contactFormat)
	case c.Identity != identity:
		return nil, fmt.Errorf("first contact: %s is of another robot, %q", path, c.Identity)
	}
	return c, nil
}

// store writes the file aside, syncs it and puts it in place, so that it is there whole or not at all.
func (c *contactFile) store(dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("first contact: result not kept: %w", err)
		}
	}()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.Marshal(c, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".contact-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // in vain once it has been renamed
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), contactPath(dir, c.Identity))
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

// stamp says which program made a result, and when.
func (c *contactFile) stamp(now time.Time) {
	b := cli.ReadBuild("clawagent")
	c.Format, c.Version, c.Commit = contactFormat, b.Version, b.Commit
	c.Host, _ = os.Hostname()
	c.Date = now.UTC().Format(time.RFC3339)
}

// bootSlackMs is how far two reckonings of when a robot was started may be apart: its clock is not this computer's.
const bootSlackMs = 60e3

// restarted says that the robot has been started anew since a result was kept, by a state's clock, and how that shows; "" if it has not.
// Its clock counts from its start, and runs over after 49 days: where it has gone as far as this computer's since then, it is the same.
// In lockstep the two go each their own way, and only one that went back tells.
func (c *contactFile) restarted(tickMs uint32, now time.Time, lockstep bool) string {
	date, err := time.Parse(time.RFC3339, c.Date)
	passed := now.Sub(date).Milliseconds()
	apart := int64(int32(uint32(passed) - (tickMs - c.TickMs)))
	switch {
	case wentBack(c.TickMs, tickMs) && (lockstep || passed < math.MaxInt32-bootSlackMs):
		return "It has been restarted since " + c.Date
	case !lockstep && (err != nil || max(apart, -apart) > bootSlackMs):
		return fmt.Sprintf("Since %s its clock has not gone as far as this computer's: it has been restarted (or this computer's clock was set)", c.Date)
	}
	return ""
}

// another says why a robot need not be the one of a result that is kept under its name; "" if it is.
func (c *config) another(f *contactFile, s *wire.LowState) string {
	if other := f.otherVersion(s); other != "" {
		return other
	}
	if !c.nameless(s) {
		return ""
	}
	if since := f.restarted(s.Tick, time.Now(), c.Control.Lockstep); since != "" {
		return since + "; without a serial number, and behind an address of this machine's own, it could be another robot"
	}
	return ""
}

// otherVersion says that the robot's own software is not that of a result, so that nothing of it need hold any more; "" if it is, or if
// nobody knows, see RobotVersion.
func (c *contactFile) otherVersion(s *wire.LowState) string {
	if c.RobotVersion == nil || *c.RobotVersion == s.Version {
		return ""
	}
	return fmt.Sprintf("its own software was version %d.%d then and is %d.%d now", c.RobotVersion[0], c.RobotVersion[1], s.Version[0], s.Version[1])
}

// lossBehaviour is what a hang test has shown. A first contact that is begun anew forgets it: nobody knows what was mended. It goes by
// the test's figures, not by its own word.
func (c *config) lossBehaviour(f *contactFile, s *wire.LowState) firstcontact.Behaviour {
	if f.LinkLoss == nil || !f.Passed || c.another(f, s) != "" {
		return firstcontact.Unknown
	}
	if b, _ := firstcontact.JudgeLoss(f.LinkLoss.Trials); b == f.LinkLoss.Behaviour {
		return b
	}
	return firstcontact.Unknown
}

// contacts is what run asks the results for. It is safe for concurrent use.
type contacts struct {
	cfg *config
	// unasked gets something when a robot first stands that should be warned of, see asked; nil: nobody listens.
	unasked chan struct{}

	mu   sync.Mutex // held for moments: never while a file is read, or a computer asked whether it is there
	told telling
	// learnt counts what was told, so that a look that was slow does not write over what was learnt meanwhile.
	learnt uint64
	tickMs uint32 // of the newest state that see saw
}

// telling is what is said of a robot without asking anybody.
type telling struct {
	known    bool
	sn       [2]uint32
	version  *[2]uint32 // that the result is bound to; nil: none
	loss     firstcontact.Behaviour
	identity string    // shown of the robot whose states come without a break since; "": to be asked for anew
	at       time.Time // when it was looked at; zero: to be looked at as soon as states come
}

// newContacts is one whose warnings somebody listens for.
func newContacts(cfg *config) *contacts { return &contacts{cfg: cfg, unasked: make(chan struct{}, 1)} }

// What a person is told to run with contactCommand.
const (
	toFirstContact = "--first-contact"
	toHangTest     = "--hang-test"
)

// contactCommand is what a person types: with --hung, without which a hang test is refused and silence at the high-level service
// stops a first contact, and with what of this configuration the result, or where it is kept, depends on.
func contactCommand(cfg *config, what string, more ...string) string {
	words := append([]string{"clawagent", "doctor", what, "--hung", "--robot", cfg.Robot}, more...)
	for _, f := range []struct{ flag, value string }{{"--high", cfg.High}, {"--local", cfg.Local}} {
		if f.value != "" {
			words = append(words, f.flag, f.value)
		}
	}
	if cfg.Control.EncryptCRC {
		words = append(words, "--encrypt-crc")
	}
	if cfg.Safety.WithoutRemote {
		words = append(words, "--no-remote")
	}
	set := func(key string, value any) { words = append(words, "--set", fmt.Sprintf("%s=%v", key, value)) }
	if cfg.exam().SticksIdle {
		set("control.remote_vx_m_s", 0)
		set("control.remote_vy_m_s", 0)
		set("control.remote_wz_rad_s", 0)
	}
	if n := cfg.FirstContact.Exam.Cells; n != firstcontact.DefaultConfig().Cells {
		set("first_contact.exam.cells", n)
	}
	if cfg.FirstContact.Dir != "" {
		set("first_contact.dir", cfg.FirstContact.Dir)
	}
	if cfg.Guard.Socket != "" {
		set("guard.socket", cfg.Guard.Socket)
	}
	return shellLine(words)
}

// guardCommand is how a person asks this robot's guard.
func guardCommand(cfg *config) string {
	words := []string{"clawagent", "guard", "--status", "--robot", cfg.Robot}
	if cfg.Guard.Socket != "" {
		words = append(words, "--socket", cfg.Guard.Socket)
	}
	return shellLine(words)
}

// shellLine quotes what a shell would not take as one word.
func shellLine(words []string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,"
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; w == "" || strings.Trim(w, plain) != "" {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// mayStand refuses a robot that has not passed; it is control.Parts.MayStand.
func (c *contacts) mayStand(s *wire.LowState) error {
	if required, warning := c.askedOf(s); !required {
		if warning != "" {
			select {
			case c.unasked <- struct{}{}:
			default: // told already, or nobody listens
			}
		}
		return nil
	}
	id, err := c.cfg.identity(s)
	if err != nil {
		return fmt.Errorf("%w: %v", control.ErrNoFirstContact, err)
	}
	f, err := loadContact(c.cfg.contactDir(), id)
	c.learn(c.of(s, id, f))
	run := contactCommand(c.cfg, toFirstContact)
	switch {
	case err != nil:
		return fmt.Errorf("%w: its result cannot be read (%v); with the robot hung and no agent running, run: %s", control.ErrNoFirstContact, err, contactCommand(c.cfg, toFirstContact, "--anew"))
	case f == nil:
		return fmt.Errorf("%w: no result of %s in %s; with the robot hung and no agent running, run: %s", control.ErrNoFirstContact, id, c.cfg.contactDir(), run)
	}
	if err := c.cfg.passed(f, s); err != nil {
		return fmt.Errorf("%w: %v; with the robot hung and no agent running, run: %s", control.ErrNoFirstContact, err, run)
	}
	return nil
}

const (
	// lossFresh is how long a result is believed before its file is looked at again.
	lossFresh = 2 * time.Second
	// lossLook is how often follow looks whether it is time for that.
	lossLook = 100 * time.Millisecond
	// lossSilentNs: behind so long without a state another robot may be at the cable. Nobody changes robots faster.
	lossSilentNs = int64(1e9)
)

// follow looks after the results for as long as a loop runs, so that whoever is told of them waits neither for a disk nor for another
// computer.
func (c *contacts) follow(loop *control.Loop) {
	every := time.NewTicker(lossLook)
	defer every.Stop()
	var s control.Snapshot
	for {
		select {
		case <-every.C:
		case <-loop.Ended():
			return
		}
		loop.Snapshot(&s)
		c.see(&s, time.Now())
	}
}

// see looks at the result of the robot in a snapshot if it is time to. Which robot it is was shown when it was to stand, or is shown
// here, and holds while its states come without a break: a computer that does not answer once makes it no other.
func (c *contacts) see(s *control.Snapshot, now time.Time) {
	if !s.HaveState {
		return
	}
	c.mu.Lock()
	silent := s.StateAgeNs > lossSilentNs
	if silent || wentBack(c.tickMs, s.State.Tick) || c.told.sn != s.State.SN {
		c.told.identity, c.told.at = "", time.Time{}
	}
	c.tickMs = s.State.Tick
	was, learnt := c.told, c.learnt
	c.mu.Unlock()
	if silent || was.known && now.Sub(was.at) <= lossFresh {
		return
	}
	is := telling{known: true, sn: s.State.SN}
	id := was.identity
	if id == "" {
		id, _ = c.cfg.identity(&s.State) // who asks to stand is told why it is not known
	}
	if id != "" {
		f, _ := loadContact(c.cfg.contactDir(), id)
		is = c.of(&s.State, id, f)
	}
	is.at = now
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.learnt == learnt {
		c.told = is
	}
}

// of is what a robot's file says; nil: there is none.
func (c *contacts) of(s *wire.LowState, identity string, f *contactFile) telling {
	t := telling{known: true, sn: s.SN, identity: identity, at: time.Now()}
	if f != nil {
		t.version, t.loss = f.RobotVersion, c.cfg.lossBehaviour(f, s)
	}
	return t
}

// learn is what whoever would let the robot stand has found out.
func (c *contacts) learn(t telling) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = t
	c.learnt++
}

// linkLoss is what the robot's motors are known to do when no command comes. It waits for nobody.
func (c *contacts) linkLoss(s *wire.LowState) firstcontact.Behaviour {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := &c.told; t.known && t.sn == s.SN && (t.version == nil || *t.version == s.Version) {
		return t.loss
	}
	return firstcontact.Unknown
}

// asked is httpapi.Info's FirstContact. A robot on this machine is trusted unasked, so that people may work with one of their own making;
// but nothing tells that from a relay to a Go1, other than its own word.
func (c *contacts) asked(s *control.Snapshot) (required bool, warning string) {
	return c.askedOf(&s.State)
}

func (c *contacts) askedOf(s *wire.LowState) (required bool, warning string) {
	if required = c.cfg.contactNeeded(); !required && s.SN[0] != go1.VirtualSN {
		warning = unasked
	}
	return required, warning
}

// unasked is what to be warned of where a robot may stand unexamined that may be a real one.
const unasked = "it is on this machine, so no first contact was asked for, and it does not say that it is a virtual robot; " +
	"if this is a relay to a Go1, set first_contact.require (--set first_contact.require=true)"

// tell is httpapi.Info's LinkLoss.
func (c *contacts) tell(s *control.Snapshot) (behaviour, warning string) {
	b := c.linkLoss(&s.State)
	if b == firstcontact.Unknown && c.cfg.contactNeeded() {
		warning = "link-loss behaviour unknown: with the robot hung and no agent running, run " + contactCommand(c.cfg, toHangTest)
	}
	return b.String(), warning
}
