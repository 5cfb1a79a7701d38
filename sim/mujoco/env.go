package mujoco

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// Env is a Batch as a rollout.Env: rows walk on a flat floor, follow commands,
// and begin a new episode within the Step in which they fell, timed out or their
// physics went bad (then the row is Terminated, its reward and metrics are masked,
// and BadRows counts it).
//
//	Step: action -> fault -> targets -> PD at every physics step -> fall, time,
//	      reward, metrics -> clock and command advance -> observation
//
// base_lin_vel is the true velocity at the IMU's place, the other observations
// are true and without noise. Final is what Obs would have been had the episode
// gone on. The gait clock advances before each observation, as the robot's does.
//
// One goroutine at a time uses an Env. Same configuration, same actions: same
// bits, whatever Threads is and whichever other rows there are.
type Env struct {
	spec      rollout.Spec
	model     *Model
	ownModel  bool
	batch     *Batch
	actions   *go1.ActionMap
	observers []*go1.Observer
	falls     task.Falls
	reward    task.Reward
	start     Start

	substeps     int     // physics steps of one Step
	episodeSteps int     // 0: no time-out
	period       float64 // s

	rows   []envRow
	cmds   []MotorCmd
	obs    [][]float32 // newest of each group, (rows, size)
	ready  bool        // after the first Reset
	closed bool
	bad    int64

	all  []int // every row
	one  [1]int
	pose [1]Pose
	kick [3]float64 // m/s, world
	push func(*Sim) error
}

// envRow is what a row has beside its physics.
type envRow struct {
	command task.Commander
	fault   *task.Row
	start   *rand.Rand
	clock   go1.ClockState
	last    [go1.Joints]float32 // previous action, policy order, clipped
	sent    [go1.Joints]float32 // action the motors got
	steps   int
	seen    go1.Reading
}

// NewEnv opens rows robots. Every group of the contract is offered; a term that
// the robot itself cannot give is an error that names it.
func NewEnv(cfg EnvConfig) (*Env, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	e := &Env{spec: *cfg.Spec, model: cfg.Model, falls: cfg.Falls, reward: task.DefaultReward(), start: cfg.Start,
		period: float64(cfg.Spec.PolicyPeriodNs) / 1e9}
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
		o, err := go1.NewObserver(&e.spec, e.spec.Groups[g].Name, cfg.Rows, nil)
		if err != nil {
			return err
		}
		e.observers = append(e.observers, o)
		e.obs = append(e.obs, make([]float32, cfg.Rows*o.Dim()))
	}
	e.rows, e.cmds, e.all = make([]envRow, cfg.Rows), make([]MotorCmd, cfg.Rows), make([]int, cfg.Rows)
	for i := range e.rows {
		r, number := &e.rows[i], cfg.FirstRow+i
		if r.fault, err = task.NewRow(cfg.Fault, &e.spec, cfg.Seed, number); err != nil {
			return err
		}
		r.command = task.NewCommander(cfg.Commands, cfg.Seed, number)
		r.start = task.Stream(cfg.Seed, number, task.StreamStart)
		r.clock.Clock = e.spec.Clock
		e.all[i] = i
		c := &e.cmds[i]
		for k := range go1.Joints {
			c.Mode[k] = ModeServo
			c.Kp[k], c.Kd[k] = r.fault.Gains(float64(e.actions.Kp[k]), float64(e.actions.Kd[k]))
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
	if e.episodeSteps, err = stepsIn("an episode", cfg.EpisodeSeconds, e.period); err != nil {
		return err
	}
	e.push = func(s *Sim) error { return s.SetVelocity(e.kick, [3]float64{}) }
	if e.batch, err = NewBatch(e.model, cfg.Rows, cfg.Threads); err != nil {
		return err
	}
	for row := range e.rows {
		if err := e.batch.SetParams(row, cfg.Params); err != nil {
			return err
		}
	}
	return nil
}

// Spec is the contract with what this Env adds.
func (e *Env) Spec() rollout.Spec { return e.spec }

// BadRows counts the episodes that ended because the physics went bad.
func (e *Env) BadRows() int64 { return e.bad }

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
	for _, row := range rows {
		if err := e.begin(row); err != nil {
			return err
		}
	}
	e.ready = true
	k := len(e.spec.Metrics)
	for _, row := range rows {
		clear(out.Executed[row*go1.Joints : (row+1)*go1.Joints])
		out.Reward[row], out.Terminated[row], out.TimedOut[row] = 0, false, false
		m := e.moment(row)
		task.Measure(&m, out.Metrics[row*k:(row+1)*k])
	}
	e.show(out)
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
	for row := range e.rows {
		if err := e.command(row, action[row*go1.Joints:(row+1)*go1.Joints]); err != nil {
			return err
		}
	}
	if err := e.batch.Advance(e.cmds, e.substeps); err != nil {
		return err
	}
	for row := range e.rows {
		if err := e.judge(row, out); err != nil {
			return err
		}
	}
	e.show(out)
	return nil
}

// command turns a row's action into its motor command.
func (e *Env) command(row int, action []float32) error {
	r := &e.rows[row]
	copy(r.last[:], action)
	var target [go1.Joints]float32
	if err := e.actions.Targets(r.last[:], &target); err != nil { // clips r.last
		return err
	}
	asked := target
	r.fault.Execute(&target)
	if r.sent = r.last; target != asked {
		e.actions.Action(&target, r.sent[:])
	}
	c := &e.cmds[row]
	for k, q := range target {
		// An action may be as large as a float32; further out no torque changes.
		const far = 1e3
		c.Q[k] = min(max(float64(q), -far), far)
	}
	return nil
}

// judge looks at what a Step did to a row and, if that ended its episode, begins
// the next one.
func (e *Env) judge(row int, out *rollout.Step) error {
	r := &e.rows[row]
	r.steps++
	k := len(e.spec.Metrics)
	metrics := out.Metrics[row*k : (row+1)*k]
	m := e.moment(row)
	var fell bool
	if e.batch.Bad(row) != nil {
		fell = true
		e.bad++
		task.Masked(metrics)
		out.Reward[row] = 0
	} else {
		fell = e.falls.Fell(&m)
		task.Measure(&m, metrics)
		out.Reward[row] = e.reward.Score(&m, fell, e.period, metrics[task.Rewards:])
	}
	copy(out.Executed[row*go1.Joints:(row+1)*go1.Joints], r.sent[:])
	out.Terminated[row] = fell
	out.TimedOut[row] = !fell && e.episodeSteps > 0 && r.steps >= e.episodeSteps
	r.command.Advance(e.period)
	e.observe(row)
	if !out.Ended(row) {
		return nil
	}
	for g, o := range e.observers {
		n := o.Dim()
		copy(out.Final[g][row*n:(row+1)*n], e.obs[g][row*n:(row+1)*n])
	}
	return e.begin(row)
}

// begin puts a row at the start of an episode and observes it.
func (e *Env) begin(row int) error {
	r := &e.rows[row]
	vary := func(by float64) float64 { return by * (2*r.start.Float64() - 1) }
	p := &e.pose[0]
	*p = Pose{Quat: [4]float64{1, 0, 0, 0}}
	for k := range p.Q {
		lower, upper := float64(go1.StopLower[k]), float64(go1.StopUpper[k])
		p.Q[k] = min(max(float64(e.actions.Home[k])+vary(e.start.Joint), lower), upper)
	}
	lowest := 0.0
	for leg := range go1.Legs {
		lowest = min(lowest, go1.Foot(leg, &p.Q)[2])
	}
	const press = 0.0015 // m into the floor: about what its weight presses a foot in
	p.Position[2] = go1.FootRadius - press - lowest
	e.one[0] = row
	if err := e.batch.Reset(e.one[:], e.pose[:]); err != nil {
		return err
	}
	if e.start.Velocity > 0 {
		e.kick = [3]float64{vary(e.start.Velocity), vary(e.start.Velocity), 0}
		if err := e.batch.Edit(row, e.push); err != nil {
			return err
		}
	}
	r.command.Reset()
	r.fault.Reset()
	r.clock.Reset()
	r.last, r.sent, r.steps = [go1.Joints]float32{}, [go1.Joints]float32{}, 0
	for _, o := range e.observers {
		o.Reset(row)
	}
	e.observe(row)
	return nil
}

// moment is what judging needs of a row's physics.
func (e *Env) moment(row int) task.Moment {
	r, s := &e.rows[row], &e.batch.States()[row]
	m := task.Moment{LinVel: s.LinVelBody, LinVelIMU: s.LinVelIMU, AngVel: s.AngVelBody, Gravity: s.Gravity, Height: s.Pos[2], Knees: s.KneeHeight,
		Q: s.Q, Tau2: s.Tau2, Power: s.Power, Contact: s.Contacts, Action: r.last, Last: r.last, Last2: r.last,
		Command: r.command.Now, Phase: r.clock.Phase, ClockOn: r.clock.On}
	for i := range go1.Joints {
		m.Home[i] = float64(e.actions.Home[i])
	}
	for i := range go1.Legs {
		m.FootHeight[i] = s.FootPos[i][2] - go1.FootRadius
		m.FootVel2[i] = s.FootVel[i][0]*s.FootVel[i][0] + s.FootVel[i][1]*s.FootVel[i][1]
	}
	return m
}

// observe takes one frame of a row into every group.
func (e *Env) observe(row int) {
	r, s := &e.rows[row], &e.batch.States()[row]
	r.clock.Advance(&r.command.Now, float32(e.period))
	seen := &r.seen
	for i := range 3 {
		seen.Gyro[i], seen.Gravity[i], seen.LinVel[i] = float32(s.AngVelBody[i]), float32(s.Gravity[i]), float32(s.LinVelIMU[i])
	}
	for i := range go1.Joints {
		seen.Q[i], seen.Dq[i] = float32(s.Q[i]), float32(s.Dq[i])
	}
	seen.Command, seen.LastAction, seen.Phase, seen.ClockOn = r.command.Now, r.last, r.clock.Phase, r.clock.On
	r.fault.Sense(seen)
	for g, o := range e.observers {
		n := o.Dim()
		o.Observe(row, seen, e.obs[g][row*n:(row+1)*n])
	}
}

// show copies the newest observations.
func (e *Env) show(out *rollout.Step) {
	for g := range e.obs {
		copy(out.Obs[g], e.obs[g])
	}
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
