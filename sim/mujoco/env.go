package mujoco

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// Env is a Batch as a rollout.Env: rows walk on a flat floor in a task.World, and
// begin a new episode within the Step in which they fell, timed out or their physics
// went bad (then the row is Terminated, its reward and metrics are masked, and BadRows
// counts it). Each thread does all of a chunk of rows before it takes the next:
//
//	action -> fault, latency, loss -> targets -> PD at every physics step (one C call)
//	-> reward, metrics, fall, time -> command, push, clock -> observations
//
// The group "policy" is shown what sensors show (zero offsets, bias, noise, faults);
// every other group the truth. base_lin_vel is the velocity at the IMU's place. Final
// is what Obs would have been had the episode gone on. The gait clock advances before
// each observation, as the robot's does; the reward judges by the clock at the end of
// the step under the command that was in force.
//
// One goroutine at a time uses an Env. Same configuration, same actions: same bits,
// whatever Threads is and whichever other rows there are, also across AppendState and
// RestoreState.
type Env struct {
	spec      rollout.Spec
	world     task.World
	model     *Model
	ownModel  bool
	batch     *Batch
	actions   *go1.ActionMap
	observers []*go1.Observer
	noisy     []bool // per group: shown what sensors show
	params    Params // of a row to which no episode has done anything
	fault     task.Fault

	substeps     int     // physics steps of one Step
	episodeSteps int     // 0: no time-out
	period       float64 // s

	rows   []envRow
	cmds   []MotorCmd
	job    job
	action []float32     // of the Step under way
	out    *rollout.Step // of the call under way
	ready  bool          // after the first Reset
	closed bool
	bad    atomic.Int64

	all []int // every row
}

// envRow is what a row has beside its physics.
type envRow struct {
	command task.Commander
	steer   steer
	fault   *task.Row // nil: none
	start   task.Rand
	vary    task.Rand
	noise   task.Rand
	episode task.Episode
	clock   go1.ClockState
	sent    [go1.Joints]float32 // action on its way to the motors, or there, policy order
	force   [go1.Joints]float64 // rad, target in force at the end of the last step
	late    [go1.Joints]float64 // rad, target that is still on its way then
	arrives int                 // physics steps from there until late arrives; 0: none is on its way
	steps   int
	moment  task.Moment // its Action and Last are kept from step to step
	seen    go1.Reading
}

// steer is a command that somebody gives in place of the world's.
type steer struct {
	on      bool
	command [3]float32
	age     float64 // s
}

// now is the command in force.
func (r *envRow) now() *[3]float32 {
	if r.steer.on {
		return &r.steer.command
	}
	return &r.command.Now
}

// NewEnv opens rows robots. Every group of the contract is offered; a term that
// neither the robot nor task.Privileged knows is an error that names it.
func NewEnv(cfg EnvConfig) (*Env, error) {
	if cfg.World == nil {
		cfg.World = task.Nominal()
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	e := &Env{spec: *cfg.Spec, world: *cfg.World, model: cfg.Model, params: cfg.Params, fault: cfg.Fault, period: float64(cfg.Spec.PolicyPeriodNs) / 1e9}
	if err := e.build(&cfg); err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Env) build(cfg *EnvConfig) (err error) {
	e.spec.Rows, e.spec.Metrics = cfg.Rows, task.MetricNames()
	e.spec.Deterministic, e.spec.AutoReset = true, true
	if e.actions, err = go1.NewActionMap(&e.spec); err != nil {
		return err
	}
	for g := range e.spec.Groups {
		o, err := go1.NewObserver(&e.spec, e.spec.Groups[g].Name, cfg.Rows, e.privileged)
		if err != nil {
			return err
		}
		e.observers = append(e.observers, o)
		e.noisy = append(e.noisy, e.spec.Groups[g].Name == "policy")
	}
	e.rows, e.cmds, e.all = make([]envRow, cfg.Rows), make([]MotorCmd, cfg.Rows), make([]int, cfg.Rows)
	for i := range e.rows {
		r, number := &e.rows[i], cfg.FirstRow+i
		if cfg.Fault != (task.Fault{}) {
			if r.fault, err = task.NewRow(cfg.Fault, &e.spec, cfg.Seed, number); err != nil {
				return err
			}
		}
		r.command = task.NewCommander(e.world.Commands, cfg.Seed, number)
		r.start = task.NewRand(cfg.Seed, number, task.StreamStart)
		r.vary = task.NewRand(cfg.Seed, number, task.StreamVary)
		r.noise = task.NewRand(cfg.Seed, number, task.StreamNoise)
		r.clock.Clock = e.spec.Clock
		e.all[i] = i
		c, m := &e.cmds[i], &r.moment
		for k := range go1.Joints {
			c.Mode[k] = ModeServo
			m.Home[k], m.ActionScale[k] = float64(e.actions.Home[k]), e.spec.Action.Scale[k]
		}
	}
	if e.model == nil {
		if e.model, err = Load(Full); err != nil {
			return err
		}
		e.ownModel = true
	}
	e.spec.ControlPeriodNs = int64(e.model.Timestep()*1e9 + 0.5)
	if e.substeps, err = stepsIn("a policy period", e.period, e.model.Timestep()); err != nil {
		return err
	}
	if e.episodeSteps, err = stepsIn("an episode", e.world.EpisodeSeconds, e.period); err != nil {
		return err
	}
	if most := 2 * e.period; e.world.Vary.Latency[1]+e.world.Vary.LatencyJitter > most+1e-9 {
		return fmt.Errorf("mujoco: env: world: vary.latency reaches %v s with its jitter, want at most %v, two policy periods",
			e.world.Vary.Latency[1]+e.world.Vary.LatencyJitter, most)
	}
	e.params.TorqueSpeedLine = e.world.Vary.TorqueSpeedLine
	v := &e.world.Vary
	for _, mass := range append(v.TrunkMass[:], 0) { // what an episode may draw, and what is there before the first
		for _, com := range []float64{-v.TrunkCoM, v.TrunkCoM} {
			p := e.params
			p.Friction, p.TrunkMass = v.Friction[0], p.TrunkMass+mass
			for k := range p.TrunkCoM {
				p.TrunkCoM[k] += com
			}
			if err := p.check(); err != nil {
				return fmt.Errorf("mujoco: env: with what the world varies: %w", err)
			}
		}
	}
	e.job = job{cmds: e.cmds, substeps: e.substeps, before: e.before, after: e.after}
	e.batch, err = NewBatch(e.model, cfg.Rows, cfg.Threads)
	return err
}

// privileged gives observers the terms that only a simulator knows.
func (e *Env) privileged(name string) (int, func(row int, out []float32)) {
	fill, size, ok := task.ExtraTerm(name)
	if !ok {
		return 0, nil
	}
	return size, func(row int, out []float32) { fill(&e.rows[row].moment, &e.rows[row].episode, out) }
}

// Spec is the contract with what this Env adds.
func (e *Env) Spec() rollout.Spec { return e.spec }

// BadRows counts the episodes that ended because the physics went bad.
func (e *Env) BadRows() int64 { return e.bad.Load() }

// Times says how long the threads were in the physics and in everything around it
// (actions, rewards, observations, resets), summed over threads since NewEnv.
func (e *Env) Times() (physics, around time.Duration) { return e.batch.Times() }

// Substeps is the number of physics steps in a Step.
func (e *Env) Substeps() int { return e.substeps }

// Reset begins new episodes; the first must be of all rows.
func (e *Env) Reset(ctx context.Context, rows []int, out *rollout.Step) error {
	if e.closed {
		return rollout.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if rows == nil {
		rows = e.all
	} else if !e.ready {
		return fmt.Errorf("mujoco: env: %w: the first Reset must be of all rows", rollout.ErrNotReset)
	}
	for _, row := range rows {
		if row < 0 || row >= len(e.rows) {
			return fmt.Errorf("mujoco: env: reset of row %d of %d", row, len(e.rows))
		}
	}
	e.out = out
	k := len(e.spec.Metrics)
	for _, row := range rows {
		if err := e.begin(e.batch.threads[0].sim, row); err != nil {
			return err
		}
		r := &e.rows[row]
		if !e.ready && e.world.Stagger && e.episodeSteps > 0 {
			r.steps = int(r.start.Float64() * float64(e.episodeSteps))
		}
		clear(out.Executed[row*go1.Joints : (row+1)*go1.Joints])
		out.Reward[row], out.Terminated[row], out.TimedOut[row] = 0, false, false
		metrics := out.Metrics[row*k : (row+1)*k]
		clear(metrics)
		task.Measure(&r.moment, metrics)
	}
	e.ready = true
	return nil
}

// Step executes one action per row.
func (e *Env) Step(ctx context.Context, action []float32, out *rollout.Step) error {
	switch {
	case e.closed:
		return rollout.ErrClosed
	case !e.ready:
		return rollout.ErrNotReset
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := rollout.CheckAction(action, len(e.rows), e.spec.Joints); err != nil {
		return err
	}
	e.action, e.out = action, out
	if err := e.batch.run(e.job); err != nil {
		e.ready = false // rows may be half way into their next episode
		return err
	}
	return nil
}

// before turns a row's action into its motor command.
func (e *Env) before(_ *Sim, row int) error {
	r := &e.rows[row]
	m := &r.moment
	m.Last2, m.Last = m.Last, m.Action
	copy(m.Action[:], e.action[row*go1.Joints:])
	var target [go1.Joints]float32
	if err := e.actions.Targets(m.Action[:], &target); err != nil { // clips m.Action
		return err
	}
	sent := m.Action
	if r.fault != nil {
		asked := target
		if r.fault.Execute(&target); target != asked {
			e.actions.Action(&target, sent[:])
		}
	}
	var asked [go1.Joints]float64
	for k, q := range target {
		// An action may be as large as a float32; further out no torque changes.
		const far = 1e3
		asked[k] = min(max(float64(q), -far), far)
	}
	v := &e.world.Vary
	late := min(int(math.Round(v.Delay(&r.vary, &r.episode)/e.model.timestep)), 2*e.substeps)
	lost := v.Lost(&r.vary)
	if !lost {
		r.sent = sent
	}
	e.deliver(row, &asked, late, lost)
	return nil
}

// deliver lets a target arrive late physics steps from now, unless it is lost, and writes the motor
// command of this step. Motors follow the newest target that has arrived: one that is overtaken on
// its way counts no more, and of two that arrive within one step only the newer does.
func (e *Env) deliver(row int, asked *[go1.Joints]float64, late int, lost bool) {
	r, c := &e.rows[row], &e.cmds[row]
	c.QBefore, c.Late = r.force, 0
	switch {
	case !lost && late <= e.substeps:
		c.Late, r.force = int32(late), *asked
		r.arrives = 0
	default:
		if r.arrives > 0 {
			c.Late, r.force = int32(r.arrives), r.late
			r.arrives = 0
		}
		if !lost {
			r.late, r.arrives = *asked, late-e.substeps
		}
	}
	c.Q = r.force
	for k, zero := range r.episode.JointZero { // the servo sees its angle plus zero
		c.Q[k] -= float64(zero)
		c.QBefore[k] -= float64(zero)
	}
}

// after judges what a Step did to a row, shows it, and begins the row's next episode
// if this one ended.
func (e *Env) after(s *Sim, row int) error {
	r, out := &e.rows[row], e.out
	r.steps++
	k := len(e.spec.Metrics)
	metrics := out.Metrics[row*k : (row+1)*k]
	bad := e.batch.bad(row)
	fell := bad
	if bad {
		e.bad.Add(1)
		task.Masked(metrics)
		out.Reward[row] = 0
	} else {
		e.look(row)
		fell = e.world.Falls.Fell(&r.moment)
		task.Measure(&r.moment, metrics)
		out.Reward[row] = e.world.Reward.Score(&r.moment, fell, e.period, metrics[task.Rewards:])
	}
	copy(out.Executed[row*go1.Joints:(row+1)*go1.Joints], r.sent[:])
	out.Terminated[row] = fell
	out.TimedOut[row] = !fell && e.episodeSteps > 0 && r.steps >= e.episodeSteps
	r.command.Advance(e.period)
	r.steer.age += e.period
	if kick, due := e.world.Pushes.Advance(&r.vary, &r.episode, e.period); due && !bad {
		if err := e.batch.kick(s, row, &[3]float64{kick[0], kick[1], 0}); err != nil {
			return err
		}
	}
	if !out.Ended(row) {
		e.observe(row, out.Obs)
		return nil
	}
	e.observe(row, out.Final)
	return e.begin(s, row)
}

// begin puts a row at the start of an episode and observes it.
func (e *Env) begin(s *Sim, row int) error {
	r := &e.rows[row]
	e.world.Vary.Draw(&r.vary, &r.episode)
	e.world.Pushes.Begin(&r.vary, &r.episode)
	e.furnish(row)
	pose := Pose{Quat: [4]float64{1, 0, 0, 0}}
	for k := range pose.Q {
		lower, upper := float64(go1.StopLower[k]), float64(go1.StopUpper[k])
		pose.Q[k] = min(max(float64(e.actions.Home[k])+r.start.Sym(e.world.Start.Joint), lower), upper)
	}
	lowest := 0.0
	for leg := range go1.Legs {
		lowest = min(lowest, go1.Foot(leg, &pose.Q)[2])
	}
	const press = 0.0015 // m into the floor: about what its weight presses a foot in
	pose.Position[2] = go1.FootRadius - press - lowest
	v := [3]float64{r.start.Sym(e.world.Start.Velocity), r.start.Sym(e.world.Start.Velocity), 0}
	if err := e.batch.place(s, row, &pose, &v); err != nil {
		return err
	}
	r.command.Reset()
	r.steer.age = 0
	if r.fault != nil {
		r.fault.Reset()
	}
	r.clock.Reset()
	m := &r.moment
	m.Action, m.Last, m.Last2 = [go1.Joints]float32{}, [go1.Joints]float32{}, [go1.Joints]float32{}
	r.sent, r.steps = [go1.Joints]float32{}, 0
	r.arrives = 0
	for k, h := range e.actions.Home {
		r.force[k] = float64(h)
	}
	for _, o := range e.observers {
		o.Reset(row)
	}
	e.look(row)
	e.observe(row, e.out.Obs)
	return nil
}

// furnish gives a row the body and the motors of its episode.
func (e *Env) furnish(row int) {
	ep, p, c := &e.rows[row].episode, &e.batch.params[row], &e.cmds[row]
	*p = e.params
	p.Friction = ep.Friction
	p.TrunkMass += ep.TrunkMass
	for k := range p.TrunkCoM {
		p.TrunkCoM[k] += ep.TrunkCoM[k]
	}
	for k := range go1.Joints {
		p.Strength[k] *= ep.Strength
		kp, kd := float64(e.actions.Kp[k]), float64(e.actions.Kd[k])
		if f := e.rows[row].fault; f != nil {
			kp, kd = f.Gains(kp, kd)
		}
		c.Kp[k], c.Kd[k] = kp*ep.Kp, kd*ep.Kd
	}
}

// look fills a row's moment from its physics. Its clock is the one that the next
// observation shows if the command stays.
func (e *Env) look(row int) {
	r, s := &e.rows[row], &e.batch.out[row]
	m := &r.moment
	m.LinVel, m.AngVel, m.Gravity = s.LinVelBody, s.AngVelBody, s.Gravity
	m.Height, m.Knees, m.Q = s.Pos[2], s.KneeHeight, s.Q
	m.Tau2, m.Power, m.Contact = s.Tau2, s.Power, s.Contacts
	for leg := range go1.Legs {
		v := &s.FootVel[leg]
		m.FootHeight[leg], m.FootVel2[leg] = s.FootPos[leg][2]-go1.FootRadius, v[0]*v[0]+v[1]*v[1]
	}
	m.Command = *r.now()
	clock := r.clock
	clock.Advance(&m.Command, float32(e.period))
	m.Phase, m.ClockOn = clock.Phase, clock.On
}

// observe takes one frame of a row into every group of obs.
func (e *Env) observe(row int, obs [][]float32) {
	r, s := &e.rows[row], &e.batch.out[row]
	r.clock.Advance(r.now(), float32(e.period))
	seen := &r.seen
	for i := range 3 {
		seen.Gyro[i], seen.Gravity[i], seen.LinVel[i] = float32(s.AngVelBody[i]), float32(s.Gravity[i]), float32(s.LinVelIMU[i])
	}
	for i := range go1.Joints {
		seen.Q[i], seen.Dq[i] = float32(s.Q[i]), float32(s.Dq[i])
	}
	seen.Command, seen.LastAction, seen.Phase, seen.ClockOn = *r.now(), r.moment.Action, r.clock.Phase, r.clock.On
	show := func(noisy bool) {
		for g, o := range e.observers {
			if e.noisy[g] == noisy {
				n := o.Dim()
				o.Observe(row, seen, obs[g][row*n:(row+1)*n])
			}
		}
	}
	show(false)
	e.world.Noise.Corrupt(&r.noise, &r.episode, seen)
	if r.fault != nil {
		r.fault.Sense(seen)
	}
	show(true)
}

// Close stops the threads and frees the robots.
func (e *Env) Close() error {
	e.closed = true
	if e.batch != nil {
		e.batch.Close()
	}
	if e.ownModel {
		e.model.Close()
	}
	return nil
}
