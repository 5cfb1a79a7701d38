package virtual

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

const (
	stepNs      = int64(2e6)
	stepSeconds = 0.002
	stepMs      = 2
	settleSteps = 500
	stateEvery  = 10          // steps between state records
	maxCatchUp  = 50          // steps made up for after a stall
	stallNs     = int64(10e6) // lateness worth a record
	idleWaitNs  = int64(20e6) // lockstep looks for an end and for new faults this often
	probes      = 20          // ports tried until the one for sport mode is free too
	standKp     = 60.         // of the robot's own stand, N·m/rad
	standKd     = 5.          // N·m·s/rad
	dampKd      = 3.          // of other_sender's damping
	maxPhysics  = 500         // steps in a row that may fail
)

// Robot is one virtual Go1. New binds its sockets, Run lives it, from one goroutine. Inject, Status and the addresses may be
// used from any.
type Robot struct {
	cfg   Config
	model *mujoco.Model
	sim   *mujoco.Sim
	low   *socket
	high  *socket // nil while sport mode is off
	highA netip.AddrPort
	log   *logger
	sense *sensors
	ref   *referee
	draw  *rand.Rand // of faults

	steps   uint64
	tick    uint32
	st      mujoco.State
	sample  wire.LowState
	cmd     mujoco.MotorCmd        // in force
	target  [mujoco.Joints]float64 // q* of the newest command, for target_step
	hasCmd  bool
	heardAt float64 // s, when the motors last got a command
	silent  bool    // and what they do since is their own
	modes   [mujoco.Joints]byte
	sport   bool
	downTo  float64 // s, until then nothing is answered
	off     bool    // battery switched off
	badRun  int
	class   Class
	sender  netip.AddrPort
	stepMax float64 // rad, largest change of a target since the last state record
	n       counts

	effects []*effect
	nextID  int
	pushed  mujoco.Hands // what physics has been given
	outbox  []packet
	waiting *datagram // taken from the socket, but younger than the step to be made
	frame   []byte
	late    []lateCommand
	overdue []order   // what reorder_command held until it ended
	folded  []float64 // physics at rest, lying

	inbox   atomic.Bool // something is in injected
	mu      sync.Mutex
	inject  []Fault
	status  Status
	summary Summary
	ended   bool
	closed  sync.Once
	started bool
}

// lateCommand is a command that the motors have not got yet.
type lateCommand struct {
	due float64 // s
	cmd mujoco.MotorCmd
}

// packet is a datagram on its way out.
type packet struct {
	dueNs int64
	to    netip.AddrPort
	b     []byte
}

// New makes a robot, lets physics settle, and binds its sockets. The first record of the log is written.
func New(cfg Config) (*Robot, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Robot{cfg: cfg, class: ClassNone, ref: newReferee(), n: newCounts(), draw: rand.New(rand.NewPCG(cfg.Seed, 0xFA017))}
	r.sense = newSensors(&r.cfg)
	for _, f := range cfg.Faults {
		if err := r.add(f); err != nil {
			return nil, err
		}
	}
	if err := r.openSim(); err != nil {
		return nil, err
	}
	if err := r.bind(); err != nil {
		r.closeSim()
		return nil, err
	}
	r.log = newLogger(cfg.Log)
	l := r.begin("start").text("version", cfg.Version).count("seed", int64(cfg.Seed)).text("boot", string(cfg.Boot)).flag("lockstep", cfg.Lockstep).
		text("low", r.low.addr.String())
	if r.sport {
		l.text("high", r.highA.String())
	}
	r.cfg.Listen = r.low.addr
	l.raw("config", r.cfg.json()).end()
	return r, nil
}

func (r *Robot) openSim() (err error) {
	if r.model, err = mujoco.Load(mujoco.Full); err != nil {
		return fmt.Errorf("virtual: %w", err)
	}
	if r.sim, err = r.model.NewSim(); err != nil {
		r.model.Close()
		return fmt.Errorf("virtual: %w", err)
	}
	if r.model.Timestep() != stepSeconds {
		r.closeSim()
		return fmt.Errorf("virtual: the model's step is %v s, want %v", r.model.Timestep(), stepSeconds)
	}
	p := r.sim.Params()
	p.Body.Friction, p.Body.TrunkMass = r.cfg.Body.Friction, r.cfg.Body.Payload
	if err = r.sim.SetParams(p); err == nil {
		err = r.boot(BootFolded)
	}
	if err == nil {
		r.folded = r.sim.GetState(nil) // what a restart goes back to
		if r.cfg.Boot != BootFolded {
			err = r.boot(r.cfg.Boot)
		}
	}
	if err != nil {
		r.closeSim()
		return fmt.Errorf("virtual: %w", err)
	}
	return nil
}

func (r *Robot) closeSim() {
	r.sim.Close()
	r.model.Close()
}

// boot puts the robot where it is found and lets it come to rest. Time does not move.
func (r *Robot) boot(b Boot) error {
	pose := mujoco.FoldedPose()
	r.cmd = limp()
	switch b {
	case BootHome, BootSport:
		pose = mujoco.HomePose()
		r.cmd = mujoco.Servo(pose.Q, standKp, standKd)
		r.modes, r.sport = r.cmd.Mode, b == BootSport
		r.ref.posture = "standing"
	case BootHung:
		pose = hangingPose()
		r.ref.hung, r.ref.posture = true, "hung"
	}
	if err := r.sim.Reset(pose); err != nil {
		return err
	}
	if err := r.settle(b == BootHung); err != nil {
		return err
	}
	r.sense.lastDq = r.st.Dq
	r.sense.sense(&r.sample, &r.st, &r.modes, r.time(), stepSeconds)
	r.sample.Tick = r.tick
	return nil
}

// settle lets physics come to rest, on the floor or from the gantry.
func (r *Robot) settle(hung bool) error {
	if !hung {
		err := r.sim.Advance(&r.cmd, settleSteps)
		r.sim.Read(&r.st)
		return err
	}
	r.sim.Read(&r.st)
	for range settleHung {
		r.applyHands()
		if err := r.sim.Advance(&r.cmd, 1); err != nil {
			return err
		}
		r.sim.Read(&r.st)
	}
	return nil
}

// limp is the command of motors without power.
func limp() (c mujoco.MotorCmd) {
	for i := range c.Mode {
		c.Mode[i] = mujoco.ModeServo
	}
	return c
}

// bind binds the low level and, for sport mode, the high one. Where the kernel chooses the low port, one is looked for whose
// neighbour for sport mode is free.
func (r *Robot) bind() (err error) {
	for try := range probes {
		if r.low, err = listen(r.cfg.Listen); err != nil {
			return err
		}
		r.highA = r.cfg.ListenHigh
		if !r.highA.IsValid() {
			r.highA = link.DefaultHigh(r.low.addr)
		}
		if !r.sport {
			return nil
		}
		if err = r.openHigh(); err == nil {
			r.highA = r.high.addr
			return nil
		}
		r.low.close()
		if r.cfg.Listen.Port() != 0 || try == probes-1 {
			break
		}
	}
	return err
}

func (r *Robot) openHigh() error {
	if !r.highA.IsValid() {
		return fmt.Errorf("virtual: no port for sport mode 75 above %v: set listen_high", r.low.addr)
	}
	s, err := listen(r.highA)
	if err != nil {
		return fmt.Errorf("sport mode: %w", err)
	}
	r.high = s
	return nil
}

// Addr is the low level's address.
func (r *Robot) Addr() netip.AddrPort { return r.low.addr }

// HighAddr is where sport mode answers, or would.
func (r *Robot) HighAddr() netip.AddrPort { return r.highA }

// Status is the robot's state at its newest step.
func (r *Robot) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Summary is the whole run's, once Run has returned.
func (r *Robot) Summary() Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.summary
}

// ErrEnded says that the robot no longer runs.
var ErrEnded = errors.New("virtual: the robot has ended")

// Inject schedules a fault, its times counted as Fault says; a time that has passed is now.
func (r *Robot) Inject(f Fault) error {
	if err := r.cfg.admits(&f); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return ErrEnded
	}
	r.inject = append(r.inject, f)
	r.inbox.Store(true)
	return nil
}

// Run lives until ctx ends (nil) or something breaks. In real time it wants its OS thread to itself and raises it; in
// lockstep it waits for commands.
func (r *Robot) Run(ctx context.Context) (err error) {
	if r.started {
		return errors.New("virtual: Run was called before")
	}
	r.started = true
	r.schedule(false)
	r.publish()
	if r.cfg.Lockstep {
		err = r.runLockstep(ctx)
	} else {
		err = r.runRealTime(ctx)
	}
	r.publish()
	s := r.n.summary(r)
	r.log.mu.Lock()
	s.LogLost = r.log.lost
	r.log.mu.Unlock()
	r.mu.Lock()
	r.summary, r.ended = s, true
	r.mu.Unlock()
	r.begin("summary").raw("summary", s.json()).end()
	if logErr := r.log.close(); logErr != nil {
		err = errors.Join(err, fmt.Errorf("virtual: log: %w", logErr))
	}
	return err
}

// Close frees sockets and physics. Call it after Run has returned, or instead of Run.
func (r *Robot) Close() {
	r.closed.Do(func() {
		if !r.started {
			_ = r.log.close() // nobody asks what a robot that never ran could not write
		}
		r.low.close()
		r.closeHigh()
		for _, e := range r.effects {
			e.silence()
		}
		r.closeSim()
	})
}

func (r *Robot) runLockstep(ctx context.Context) error {
	for ctx.Err() == nil {
		if r.inbox.Load() {
			r.schedule(false)
		}
		r.serveHigh()
		if r.waiting == nil {
			d, ok := r.low.receive()
			if !ok {
				wait(idleWaitNs, r.low, r.high)
				continue
			}
			r.waiting = &d
		}
		d := r.waiting
		r.waiting = nil
		r.receive(d)
		if r.badRun >= maxPhysics {
			return errBroken
		}
	}
	return nil
}

var errBroken = fmt.Errorf("virtual: %w on %d steps in a row", mujoco.ErrPhysics, maxPhysics)

func (r *Robot) runRealTime(ctx context.Context) error {
	runtime.LockOSThread() // never unlocked: the thread has a priority of its own and ends with this goroutine
	r.begin("thread").text("priority", raise(r.cfg.Priority)).end()
	spin := int64(r.cfg.SpinUs * 1e3)
	deadline := monotonic() + stepNs
	for ctx.Err() == nil {
		now := monotonic()
		if late := now - deadline; late >= 0 {
			made, skipped := 0, 0
			for ; deadline <= now; deadline += stepNs {
				r.drain(deadline)
				if made < maxCatchUp {
					r.advance()
					made++
				} else {
					r.steps++
					r.tick += stepMs
					skipped++
				}
			}
			if late >= stallNs {
				r.stalled(late, skipped)
			}
			if r.badRun >= maxPhysics {
				return errBroken
			}
		}
		r.drain(math.MaxInt64)
		r.serveHigh()
		r.flush(monotonic(), netip.AddrPort{})
		next := deadline
		if len(r.outbox) > 0 {
			next = min(next, r.outbox[0].dueNs)
		}
		if sleep := next - monotonic() - spin; sleep > 0 {
			wait(sleep, r.low, r.high)
		}
	}
	return nil
}

func (r *Robot) stalled(late int64, skipped int) {
	r.n.stalls++
	r.n.stallMax = max(r.n.stallMax, time.Duration(late))
	r.n.skipped += uint64(skipped)
	r.begin("stall").number("stall_ms", float64(late)/1e6).number("dropped_ms", float64(skipped)*stepMs).end()
}

// drain takes the datagrams that had arrived by atNs.
func (r *Robot) drain(atNs int64) {
	for {
		if r.waiting == nil {
			d, ok := r.low.receive()
			if !ok {
				return
			}
			r.waiting = &d
		}
		if r.waiting.atNs > atNs {
			return
		}
		d := r.waiting
		r.waiting = nil
		r.receive(d)
	}
}

// time is the robot's, s since start.
func (r *Robot) time() float64 { return float64(r.steps) * stepSeconds }

// nowNs is the clock by which answers leave: real time, or the robot's in lockstep.
func (r *Robot) nowNs() int64 {
	if r.cfg.Lockstep {
		return int64(r.steps) * stepNs
	}
	return monotonic()
}

func (r *Robot) begin(event string) *logger { return r.log.begin(event, r.time(), r.tick) }

// advance makes one step.
func (r *Robot) advance() {
	for _, o := range r.overtaken() {
		r.accept(&o)
		if !r.cfg.Lockstep {
			r.answer(o.from)
		}
	}
	for len(r.late) > 0 && r.late[0].due <= r.time()+1e-9 {
		r.obey(r.late[0].cmd)
		r.late = r.late[1:]
	}
	r.mindSilence()
	cmd := r.executed()
	r.applyHands()
	if err := r.sim.Advance(&cmd, 1); err != nil {
		r.badRun++
		r.n.physics++
		if r.badRun == 1 {
			r.check(err)
		}
	} else {
		r.badRun = 0
	}
	r.sim.Read(&r.st)
	r.steps++
	r.tick += stepMs
	modes := r.reportedModes()
	r.sense.sense(&r.sample, &r.st, &modes, r.time(), stepSeconds)
	r.sample.Tick = r.tick
	r.n.energy += r.st.Power * stepSeconds
	event, cause := r.ref.step(&r.st, &cmd, r.time(), stepSeconds)
	if event != "" {
		l := r.begin(event)
		if event == "fall" {
			l.text("cause", cause).count("falls", int64(r.ref.falls))
		}
		l.number("height", r.st.Pos[2]).number("tilt", r.ref.tilt).end()
	}
	r.n.tiltMax = max(r.n.tiltMax, r.ref.tilt)
	r.schedule(true)
	if r.steps%stateEvery == 0 {
		r.logState()
	}
	r.publish()
}

// dark says that the robot's computer does not run: its battery is off, or it starts. It hears nobody and its motors have no power.
func (r *Robot) dark() bool { return r.off || r.time() < r.downTo }

// executed is the command that the motors follow in the next step.
func (r *Robot) executed() mujoco.MotorCmd {
	cmd := r.cmd
	if r.dark() {
		return cmd
	}
	if r.sport {
		cmd = mujoco.Servo(mujoco.HomePose().Q, standKp, standKd)
	}
	for _, e := range r.effects {
		if !e.on || e.k.name != "other_sender" {
			continue
		}
		e.turn += e.p["share"]
		if e.turn < 1-1e-9 {
			continue
		}
		e.turn--
		if e.p["what"] == 0 {
			cmd = mujoco.Servo(r.st.Q, 0, dampKd)
		} else {
			cmd = mujoco.Servo(mujoco.HomePose().Q, e.p["kp"], e.p["kd"])
		}
	}
	for _, e := range r.effects {
		if e.on && e.k.name == "motor_drop" {
			j := int(e.p["joint"])
			cmd.Kp[j], cmd.Kd[j], cmd.Tau[j], cmd.Mode[j] = 0, 0, 0, mujoco.ModeServo
		}
	}
	return cmd
}

// reportedModes are the motors' as they say.
func (r *Robot) reportedModes() [mujoco.Joints]byte {
	modes := r.modes
	for _, e := range r.effects {
		if e.on && e.k.name == "motor_drop" {
			modes[int(e.p["joint"])] = wire.ModeDamping
		}
	}
	return modes
}

func (r *Robot) logState() {
	st := &r.st
	contacts := [4]byte{'0', '0', '0', '0'}
	for leg, on := range st.Contacts {
		if on {
			contacts[leg] = '1'
		}
	}
	r.begin("state").list("pos", st.Pos[:]...).number("height", st.Pos[2]).number("tilt", r.ref.tilt).list("vel", r.ref.body[:]...).
		list("heading", r.ref.heading[:]...).text("class", string(r.class)).text("contacts", string(contacts[:])).
		list("feet", st.FootForce[:]...).number("power", st.Power).number("target_step", r.stepMax).end()
	r.stepMax = 0
}

// publish shows the newest step to other goroutines; while one of them looks it is left out.
func (r *Robot) publish() {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	s := &r.status
	active := []string{}
	for _, e := range r.effects {
		if e.on {
			active = append(active, e.f.String())
		}
	}
	*s = Status{
		T: r.time(), Tick: r.tick, Posture: r.ref.posture, Pos: r.st.Pos, Quat: r.st.Quat, Tilt: r.ref.tilt, Q: r.st.Q, Velocity: r.ref.body,
		VelIMU: r.st.LinVelIMU, Class: r.class, Frames: r.n.frames, Answered: r.n.answered, Falls: r.ref.falls, Walking: r.ref.walking, Sport: r.sport, Silent: r.silent, Active: active,
		MaxTorque: r.n.maxTorque, LastTorque: r.n.torqueTick,
	}
	if r.sender.IsValid() {
		s.Sender = r.sender.String()
	}
}
