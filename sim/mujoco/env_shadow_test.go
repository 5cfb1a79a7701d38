package mujoco

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// shadow is a row worked out a second time, from the seed, the world and the actions: with package task's
// draws, a Sim that is told at each physics step which target is in force, and formulas of this file.
type shadow struct {
	cfg      *EnvConfig
	e        *Env
	row      int
	sim      *Sim
	actions  *go1.ActionMap
	vary     task.Rand
	command  task.Commander
	steer    *[3]float32
	steerAge float64
	episode  task.Episode
	clock    go1.ClockState

	steps    int // of the episode
	sent     []flight
	a        [3][go1.Joints]float32 // clipped actions, newest first
	executed [go1.Joints]float32
	state    State
	tau2     float64
	power    float64
	seen     events
}

// flight is a target on its way: it arrives after at physics steps of the episode.
type flight struct {
	at int
	q  [go1.Joints]float64
}

// events counts what happened, so that no comparison is of nothing.
type events struct{ falls, timeOuts, pushes, lost, nextPeriod, overtaken, swings, commands int }

func newShadow(t *testing.T, cfg *EnvConfig, e *Env, row int) *shadow {
	t.Helper()
	sim, err := e.model.NewSim()
	must(t, err)
	t.Cleanup(sim.Close)
	actions, err := go1.NewActionMap(cfg.Spec)
	must(t, err)
	number := cfg.FirstRow + row
	return &shadow{cfg: cfg, e: e, row: row, sim: sim, actions: actions,
		vary:    task.NewRand(cfg.Seed, number, task.StreamVary),
		command: task.NewCommander(cfg.World.Commands, cfg.Seed, number)}
}

// begin starts an episode where the Env put the row.
func (s *shadow) begin(t *testing.T) {
	t.Helper()
	w := s.cfg.World
	w.Vary.Draw(&s.vary, &s.episode)
	w.Pushes.Begin(&s.vary, &s.episode)
	p := s.cfg.Params
	p.Friction, p.TorqueSpeedLine = s.episode.Friction, w.Vary.TorqueSpeedLine
	p.TrunkMass += s.episode.TrunkMass
	for k := range p.TrunkCoM {
		p.TrunkCoM[k] += s.episode.TrunkCoM[k]
	}
	for k := range p.Strength {
		p.Strength[k] *= s.episode.Strength
	}
	if got := s.e.batch.Params(s.row); got != p {
		t.Errorf("row %d: the physics' parameters are %+v, want %+v", s.row, got, p)
	}
	must(t, s.sim.SetParams(p))
	must(t, s.sim.SetState(s.e.batch.GetState(s.row, nil)))
	s.sim.Read(&s.state)
	s.command.Reset()
	s.steerAge = 0
	s.clock = go1.ClockState{Clock: s.cfg.Spec.Clock}
	s.steps, s.a, s.executed = 0, [3][go1.Joints]float32{}, [go1.Joints]float32{}
	home := flight{at: 0}
	for i, k := range byKind {
		home.q[k] = float64(s.cfg.Spec.Home[i])
	}
	s.sent = []flight{home}
}

// now is the command in force.
func (s *shadow) now() *[3]float32 {
	if s.steer != nil {
		return s.steer
	}
	return &s.command.Now
}

// step moves the robot under an action.
func (s *shadow) step(t *testing.T, action []float32) {
	t.Helper()
	v := &s.cfg.World.Vary
	s.a[2], s.a[1] = s.a[1], s.a[0]
	var target [go1.Joints]float32
	copy(s.a[0][:], action)
	must(t, s.actions.Targets(s.a[0][:], &target))
	from := s.steps * s.e.Substeps()
	to := from + s.e.Substeps()
	late := int(math.Round(v.Delay(&s.vary, &s.episode) / s.e.model.Timestep()))
	if v.Lost(&s.vary) {
		s.seen.lost++
	} else {
		s.executed = s.a[0]
		f := flight{at: from + late}
		for k, q := range target {
			f.q[k] = float64(q)
		}
		if f.at > to {
			s.seen.nextPeriod++
		}
		if f.at < s.sent[len(s.sent)-1].at {
			s.seen.overtaken++
		}
		s.sent = append(s.sent, f)
	}
	// The newest that arrives within the step; others that would are as if overtaken.
	last := 0
	for i, f := range s.sent {
		if f.at <= to {
			last = i
		}
	}
	s.tau2, s.power = 0, 0
	for n := from; n < to; n++ {
		force := 0
		for i, f := range s.sent {
			if f.at <= from && i <= last || i == last && f.at <= n {
				force = i
			}
		}
		c := Servo(s.sent[force].q, 0, 0)
		for i, k := range byKind {
			c.Q[k] -= float64(s.episode.JointZero[k])
			c.Kp[k], c.Kd[k] = float64(s.cfg.Spec.Kp[i])*s.episode.Kp, float64(s.cfg.Spec.Kd[i])*s.episode.Kd
		}
		must(t, s.sim.Advance(&c, 1))
		s.sim.Read(&s.state)
		s.tau2 += s.state.Tau2 / float64(s.e.Substeps())
		s.power += s.state.Power / float64(s.e.Substeps())
	}
	s.steps++
}

// fell is the rule of what a fall is.
func (s *shadow) fell() bool {
	f := &s.cfg.World.Falls
	return s.state.Pos[2] < f.MinHeight || math.Acos(-s.state.Gravity[2]) > f.MaxTilt || slices.Min(s.state.KneeHeight[:]) < f.MinKnee
}

// metrics are those of the step just made, by name: shared/recipe.md's reward among them.
func (s *shadow) metrics(fell bool) (m map[string]float64, reward float64) {
	st, command := &s.state, s.now()
	sq := func(x float64) float64 { return x * x }
	clock := s.clock
	clock.Advance(command, float32(s.e.period))
	vx, vy, wz := st.LinVelBody[0]-float64(command[0]), st.LinVelBody[1]-float64(command[1]), st.AngVelBody[2]-float64(command[2])
	var change, rate, smooth, pose, hips, agree, clearance, slip, feet float64
	for i, k := range byKind {
		a, a1, a2 := float64(s.a[0][i]), float64(s.a[1][i]), float64(s.a[2][i])
		rate += sq(a - a1)
		smooth += sq(a - 2*a1 + a2)
		change += sq(float64(s.cfg.Spec.Action.Scale[i]) * (a - a1))
		d := sq(st.Q[k] - float64(s.cfg.Spec.Home[i]))
		pose += d
		if k%3 == 0 {
			hips += d
		}
	}
	for leg := range go1.Legs {
		cycle := float64(clock.Phase)
		if leg == go1.FL || leg == go1.RR {
			cycle = math.Mod(cycle+0.5, 1)
		}
		swings := clock.On && cycle >= 0.5
		if st.Contacts[leg] {
			feet++
		}
		if st.Contacts[leg] != swings {
			agree += 0.25
		}
		if swings {
			s.seen.swings++
			clearance += sq(st.FootPos[leg][2] - 0.023 - 0.07*math.Sin(math.Pi*(2*cycle-1)))
		} else {
			slip += min(1, sq(st.FootVel[leg][0])+sq(st.FootVel[leg][1]))
		}
	}
	terms := map[string]float64{
		"tracking_lin_vel": 1.5 * math.Exp(-(sq(vx)+sq(vy))/0.25), "tracking_ang_vel": 0.75 * math.Exp(-sq(wz)/0.25),
		"lin_vel_z": -2 * sq(st.LinVelBody[2]), "ang_vel_xy": -0.05 * (sq(st.AngVelBody[0]) + sq(st.AngVelBody[1])),
		"orientation": -2 * (sq(st.Gravity[0]) + sq(st.Gravity[1])), "torques": -1e-4 * s.tau2,
		"action_rate": -0.01 * rate, "action_smoothness": -0.005 * smooth,
		"pose": -0.05 * pose, "hip_pose": -0.3 * hips,
		"gait_contact": 0.5 * agree, "swing_height": -20 * clearance, "foot_slip": -0.1 * slip,
		"base_height": -20 * sq(st.Pos[2]-0.27), "alive": 0.5,
	}
	m = map[string]float64{"vx": st.LinVelBody[0], "vy": st.LinVelBody[1], "wz": st.AngVelBody[2],
		"vel_err": math.Hypot(vx, vy), "yaw_err": math.Abs(wz), "height": st.Pos[2], "physics_bad": 0,
		"power_w": s.power, "action_rate": math.Sqrt(change / go1.Joints), "contacts": feet, "reward/fall": 0}
	if fell {
		m["reward/fall"] = -0.5
	}
	reward = m["reward/fall"]
	for name, x := range terms {
		m["reward/"+name] = 0.02 * x
		reward += 0.02 * x
	}
	return m, reward
}

// pass lets the time of a step pass: commands, pushes.
func (s *shadow) pass(t *testing.T) {
	t.Helper()
	before := s.command.Now
	s.command.Advance(s.e.period)
	s.steerAge += s.e.period
	if s.command.Now != before {
		s.seen.commands++
	}
	if kick, due := s.cfg.World.Pushes.Advance(&s.vary, &s.episode, s.e.period); due {
		s.seen.pushes++
		must(t, s.sim.AddVelocity([3]float64{kick[0], kick[1], 0}))
		s.sim.Read(&s.state)
	}
}

// observe gives what the critic is shown, what the policy would be without noise, and the policy's noise.
func (s *shadow) observe() (critic, policy, noise []float64) {
	s.clock.Advance(s.now(), float32(s.e.period))
	st, ep, n := &s.state, &s.episode, &s.cfg.World.Noise
	sensed := func(gyro, gravity [3]float64, zero [go1.Joints]float32) (o []float64) {
		o = append(o, 0.25*gyro[0], 0.25*gyro[1], 0.25*gyro[2], gravity[0], gravity[1], gravity[2])
		for i, k := range byKind {
			o = append(o, st.Q[k]+float64(zero[k])-float64(s.cfg.Spec.Home[i]))
		}
		for _, k := range byKind {
			o = append(o, 0.05*st.Dq[k])
		}
		for _, a := range s.a[0] {
			o = append(o, float64(a))
		}
		for _, c := range s.now() {
			o = append(o, float64(c))
		}
		if !s.clock.On {
			return append(o, 0, 0)
		}
		sin, cos := math.Sincos(2 * math.Pi * float64(s.clock.Phase))
		return append(o, sin, cos)
	}
	critic = sensed(st.AngVelBody, st.Gravity, [go1.Joints]float32{})
	critic = append(critic, st.LinVelIMU[0], st.LinVelIMU[1], st.LinVelIMU[2], 10*(st.Pos[2]-0.27))
	for _, c := range st.Contacts {
		critic = append(critic, map[bool]float64{true: 1}[c])
	}
	for _, p := range st.FootPos {
		critic = append(critic, 10*(p[2]-0.023))
	}
	critic = append(critic, ep.Friction-0.7, ep.TrunkMass, 10*(ep.Kp-1), 50*ep.Latency)

	tilted := func(v [3]float64) (out [3]float64) {
		for i := range 3 {
			for k := range 3 {
				out[i] += float64(ep.IMU[3*i+k]) * v[k]
			}
		}
		return out
	}
	gyro := tilted(st.AngVelBody)
	for i, b := range ep.GyroBias {
		gyro[i] += float64(b)
	}
	policy = sensed(gyro, tilted(st.Gravity), ep.JointZero)
	noise = make([]float64, len(policy))
	for i := range noise {
		switch {
		case i < 3:
			noise[i] = 0.25 * n.Gyro
		case i < 6:
			noise[i] = n.Gravity
		case i < 18:
			noise[i] = n.JointPos
		case i < 30:
			noise[i] = 0.05 * n.JointVel
		}
	}
	return critic, policy, noise
}

// allWithin says where the first of got is further from want than within (and float32's rounding).
func allWithin(got []float32, want, within []float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d numbers, want %d", len(got), len(want))
	}
	for i, w := range want {
		give := 3e-6 * max(1, math.Abs(w))
		if within != nil {
			give += within[i]
		}
		if d := math.Abs(float64(got[i]) - w); !(d <= give) {
			return fmt.Errorf("number %d is %v, want %v within %v", i, got[i], w, give)
		}
	}
	return nil
}

// part is a row's part of a slice of all rows.
func part[T any](v []T, rows, row int) []T {
	w := len(v) / rows
	return v[row*w : (row+1)*w]
}

// compare checks all that a row shows; spread keeps by how much of its range each policy number was off.
func (s *shadow) compare(t *testing.T, obs [][]float32, spread []float64) {
	t.Helper()
	critic, policy, noise := s.observe()
	rows := s.cfg.Rows
	if err := allWithin(part(obs[1], rows, s.row), critic, nil); err != nil {
		t.Errorf("row %d, step %d of its episode: critic: %v", s.row, s.steps, err)
	}
	shown := part(obs[0], rows, s.row)
	if err := allWithin(shown, policy, noise); err != nil {
		t.Errorf("row %d, step %d of its episode: policy: %v", s.row, s.steps, err)
	}
	for i, w := range policy {
		if noise[i] > 0 {
			spread[i] = max(spread[i], math.Abs(float64(shown[i])-w)/noise[i])
		}
	}
}

// moved says whether the robots are in different states. The force's and motors' means are left out.
func moved(a, b State) bool {
	a.Tau2, a.Power, b.Tau2, b.Power = 0, 0, 0, 0
	return a != b
}

// judge compares what a step did and showed.
func (s *shadow) judge(t *testing.T, out *rollout.Step, spread []float64) {
	t.Helper()
	rows, row := s.cfg.Rows, s.row
	bad := func(what string, got, want any) {
		t.Helper()
		t.Errorf("row %d, step %d of its episode: %s: %v, want %v", row, s.steps, what, got, want)
	}
	fell := s.fell()
	timedOut := !fell && float64(s.steps)*s.e.period > s.cfg.World.EpisodeSeconds-1e-9
	if out.Terminated[row] != fell || out.TimedOut[row] != timedOut {
		bad("ended", [2]bool{out.Terminated[row], out.TimedOut[row]}, [2]bool{fell, timedOut})
	}
	metrics, reward := s.metrics(fell)
	for i, name := range s.e.Spec().Metrics {
		want, ok := metrics[name]
		if got := float64(part(out.Metrics, rows, row)[i]); !ok || !(math.Abs(got-want) <= 2e-6*max(1, math.Abs(want))) {
			bad(name, got, want)
		}
	}
	if got := float64(out.Reward[row]); !(math.Abs(got-reward) <= 2e-6*max(1, math.Abs(reward))) {
		bad("reward", got, reward)
	}
	if got := part(out.Executed, rows, row); !slices.Equal(got, s.executed[:]) {
		bad("executed", got, s.executed)
	}
	s.pass(t)
	if fell || timedOut {
		s.compare(t, out.Final, spread)
		if s.begin(t); fell {
			s.seen.falls++
		} else {
			s.seen.timeOuts++
		}
	}
	age := s.command.Age
	if s.steer != nil {
		age = s.steerAge
	}
	if got := s.e.Command(row); got != *s.now() {
		bad("command", got, *s.now())
	}
	if got := s.e.CommandAge(row); got != age {
		bad("command's age", got, age)
	}
	if got := *s.e.Episode(row); got != s.episode {
		bad("episode", got, s.episode)
	}
	if moved(*s.e.State(row), s.state) {
		bad("state", *s.e.State(row), s.state)
	}
	s.compare(t, out.Obs, spread)
	if phase, on := s.e.Clock(row); phase != s.clock.Phase || on != s.clock.On {
		bad("clock", phase, s.clock.Phase)
	}
}

func (a *events) counts() []*int {
	return []*int{&a.falls, &a.timeOuts, &a.pushes, &a.lost, &a.nextPeriod, &a.overtaken, &a.swings, &a.commands}
}

func (a *events) add(b *events) {
	for i, n := range b.counts() {
		*a.counts()[i] += *n
	}
}

func (a *events) atLeast(b *events) bool {
	for i, n := range b.counts() {
		if *a.counts()[i] < *n {
			return false
		}
	}
	return true
}
