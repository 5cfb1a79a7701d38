//go:build torch

package algo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/nets"
)

// ErrDiverged is wrapped by the error of Run when three minibatches or iterations in a row
// held what is not finite: a number seen or earned, a loss or a gradient. Nothing was learnt
// from them and the Trainer is whole, but what led there was learnt: Recover what the last
// good checkpoint knew, then Run again.
var ErrDiverged = errors.New("three times in a row something was not finite")

// badInARow is how many of those end a run.
const badInARow = 3

// Options are a Trainer's besides Config.
type Options struct {
	// Teacher acts for a configuration whose opd.teacher is file (or privileged, from an ONNX
	// file): a policy without memory whose Spec says what it was trained on. It is shown
	// opd.group of the Env as the group "policy" of that Spec, so it is to be opened without
	// knowledge of the Env. The caller closes it, after the Trainer.
	Teacher rollout.Policy
	// TeacherState are the sections of another run's checkpoint, whose actor is the
	// privileged teacher.
	TeacherState []Section
	Seed         uint64 // of the first weights, the noise of actions, the order of minibatches
	Workers      int    // threads of the networks
	Device       string // where they learn (nets.CheckDevice); they act on the Workers
	// Mirror gives the mirrors of terms that agent/go1 does not know.
	Mirror func(term string) *go1.Mirror
	// Progress is the share, 0..1, of a run of known length that is over; nil: not known.
	Progress func() float64
	// Each is called after every iteration; rollout.ErrStop ends the run. The Report is
	// reused.
	Each func(*Report) error
}

// Trainer learns from one Env. It is the policy and the sink of the rollout.Run that it
// is given to by Run. One goroutine at a time uses it.
type Trainer struct {
	cfg    Config
	opts   Options
	env    rollout.Env
	spec   rollout.Spec
	nets   *nets.Nets
	acting backend
	// What is evaluated and written: nets, or their average over iterations.
	published *nets.Nets
	shape     nets.Config // of nets
	gait      teacher     // while it is cloned
	opd       teacher     // after that; nil: none
	policy    int         // groups
	critic    int
	badAt     int // metric that marks broken physics; -1: none

	noise  rand.PCG // of actions
	order  rand.PCG // of minibatches and mirrors
	mixing rand.PCG // of who drives
	from   []byte   // the Env's state to go on from; nil: a new run

	*storage          // being filled
	spare    *storage // with Config.Async: the other, which the learner has or which is empty
	pending  *storage // collected and not learnt from, while State may be asked for; nil: none
	learner  *learner // of the present Run; nil: each iteration is learnt from before the next

	step      int   // of the iteration
	iteration int64 // learnt from
	samples   int64
	diverged  int   // times in a row that something was not finite
	cause     error // of the last of them

	after   []float32 // deviation that an iteration ended with
	means   means
	mirror  []bool
	command int     // where the critic's group shows it, if ppo.calm asks
	near    []int32 // see calm
	values  []float32
	action  []float32 // of one transition
	scratch []float32
	length  []int32 // steps of each row's episode so far
	earned  []float64
	report  Report

	// When this iteration's collecting began, when an iteration last ended, and when Act last did.
	began, ended, acted time.Time
}

// New makes a Trainer with new networks for env, which must offer the groups that actor and
// teacher read, and "critic".
func New(cfg Config, env rollout.Env, opts Options) (*Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("algo: %w", err)
	}
	t := &Trainer{cfg: cfg, opts: opts, env: env, spec: env.Spec()}
	s := &t.spec
	t.policy, t.critic = s.GroupIndex(cfg.Net.Group), s.GroupIndex("critic")
	switch {
	case t.policy < 0:
		return nil, fmt.Errorf("algo: net.group is %q, which the Env does not offer", cfg.Net.Group)
	case t.critic < 0:
		return nil, errors.New("algo: the Env offers no group critic")
	}
	t.badAt = slices.Index(s.Metrics, "physics_bad")
	if cfg.PPO.Calm > 0 {
		var err error
		if t.command, err = commandAt(&s.Groups[t.critic]); err != nil {
			return nil, err
		}
		t.near = make([]int32, cfg.Steps*s.Rows)
	}
	shape := buffer.Shape{Steps: cfg.Steps, Rows: s.Rows, Policy: s.Groups[t.policy].Size(), Critic: s.Groups[t.critic].Size(), Act: s.ActDim()}
	var err error
	if t.storage, err = newStorage(shape, len(s.Metrics)); err != nil {
		return nil, err
	}
	if cfg.Async {
		if t.spare, err = newStorage(shape, len(s.Metrics)); err != nil {
			return nil, err
		}
	}
	t.shape = nets.Config{Policy: shape.Policy, Critic: shape.Critic, Act: shape.Act, ActorHidden: cfg.Net.Actor, CriticHidden: cfg.Net.Critic,
		InitStd: cfg.Net.InitStd, MinStd: cfg.Net.MinStd, MaxStd: cfg.Net.MaxStd, Normaliser: cfg.Net.Normaliser,
		Seed: int64(opts.Seed), Workers: max(1, opts.Workers)}
	if t.shape.Encoder, err = cfg.Net.encoder(s, t.policy, t.critic); err != nil {
		return nil, err
	}
	if cfg.PPO.Mirror {
		if err := t.mirrors(&t.shape); err != nil {
			return nil, err
		}
	}
	if cfg.Warm.Rollouts > 0 {
		if t.gait, err = orNil(newGaitTeacher(s)); err != nil {
			return nil, err
		}
	}
	learning := t.shape
	learning.Device = opts.Device
	if t.nets, err = nets.New(learning); err != nil {
		return nil, err
	}
	t.acting, t.published = same{t.nets}, t.nets
	if cfg.Async {
		var n *nets.Nets
		if n, err = nets.New(t.shape); err != nil {
			t.Close()
			return nil, err
		}
		t.acting = copied{n}
	}
	if cfg.Average > 0 {
		if t.published, err = nets.New(t.shape); err != nil {
			t.published = t.nets
			t.Close()
			return nil, err
		}
		if err := t.publish(); err != nil {
			t.Close()
			return nil, err
		}
	}
	if t.opd, err = t.newTeacher(); err == nil && t.opd != nil && !t.warm() {
		err = t.opd.follow(t.nets, 0)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	t.noise.Seed(opts.Seed, 1)
	t.order.Seed(opts.Seed, 2)
	t.mixing.Seed(opts.Seed, 3)
	rows, all := s.Rows, cfg.Steps*s.Rows
	t.after, t.action = make([]float32, shape.Act), make([]float32, shape.Act)
	t.mirror = make([]bool, all)
	t.values = make([]float32, rows)
	t.scratch = make([]float32, rows*max(shape.Policy, shape.Critic))
	t.length, t.earned = make([]int32, rows), make([]float64, rows)
	t.report.Metrics = make([]float64, len(s.Metrics))
	t.setRate()
	return t, nil
}

func (t *Trainer) mirrors(n *nets.Config) (err error) {
	for _, g := range []struct {
		at int
		m  *nets.Mirror
	}{{t.policy, &n.MirrorPolicy}, {t.critic, &n.MirrorCritic}} {
		if g.m.Index, g.m.Sign, err = go1.MirrorGroup(&t.spec, t.spec.Groups[g.at].Name, t.opts.Mirror); err != nil {
			return err
		}
	}
	n.MirrorAction.Index, n.MirrorAction.Sign, err = go1.MirrorAction(t.spec.Joints)
	return err
}

// setRate begins a phase with its own learning rate.
func (t *Trainer) setRate() {
	if t.warm() {
		t.nets.SetLearningRate(t.cfg.Warm.Rate)
	} else {
		t.nets.SetLearningRate(t.cfg.PPO.Rate)
	}
}

// warm says whether the present iteration clones.
func (t *Trainer) warm() bool { return t.iteration < int64(t.cfg.Warm.Rollouts) }

// Close frees the networks, the teacher's too.
func (t *Trainer) Close() {
	if t.opd != nil {
		t.opd.close()
	}
	if c, ok := t.acting.(copied); ok {
		c.Close()
	}
	if t.published != t.nets {
		t.published.Close()
	}
	t.nets.Close()
}

// Nets are the networks that learn, to be read between iterations.
func (t *Trainer) Nets() *nets.Nets { return t.nets }

// Published are the networks to evaluate and to write: those that learn, or their average over
// iterations (Config.Average).
func (t *Trainer) Published() *nets.Nets { return t.published }

// Actor is the published student without noise.
func (t *Trainer) Actor() *Actor { return &Actor{nets: t.published, group: t.policy} }

// publish moves the average on after an iteration: the plain mean of all since cloning, until that
// would keep more of itself than Average.
func (t *Trainer) publish() error {
	if t.published == t.nets {
		return nil
	}
	keep := float32(0)
	if n := t.learnt(); n > 1 {
		keep = min(t.cfg.Average, 1-1/float32(n))
	}
	return t.published.Blend(t.nets, keep)
}

// Run trains until ctx ends, Each returns rollout.ErrStop (both nil) or something fails. Rows
// begin new episodes, or go on where Restore took them over; what an earlier Run had collected
// and not learnt from is dropped.
func (t *Trainer) Run(ctx context.Context) (err error) {
	var env rollout.Env = t.env
	if t.from != nil {
		env = &restored{Env: t.env, state: t.from}
		t.from = nil
	} else {
		t.pending = nil
		clear(t.length)
		clear(t.earned)
	}
	// libtorch and MKL keep memory for every thread that calls them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t.ended = time.Now()
	begin := t.begin
	if t.cfg.Async {
		stop := t.startLearner()
		defer func() { err = errors.Join(err, stop()) }()
		if t.pending != nil {
			begin = t.overlap
		}
	}
	if err := begin(); err != nil {
		return err
	}
	return rollout.Run(ctx, []rollout.Env{env}, t, t)
}

// begin begins the collecting of an iteration, while nothing learns: by what the networks are now.
func (t *Trainer) begin() error {
	t.step = 0
	t.storage.begin()
	if err := t.acting.follow(t.nets); err != nil {
		return err
	}
	t.nets.Std(t.std)
	if t.warm() {
		for i := range t.std {
			t.std[i] = t.cfg.Warm.Std
		}
	}
	if t.opd != nil {
		t.labelStd = append(t.labelStd[:0], t.opd.std()...)
	}
	t.began = time.Now()
	return nil
}

// restored is an Env whose first Reset takes a saved state over instead.
type restored struct {
	rollout.Env
	state []byte
}

// Reset restores the state once.
func (r *restored) Reset(ctx context.Context, rows []int, out *rollout.Step) error {
	if r.state == nil {
		return r.Env.Reset(ctx, rows, out)
	}
	state := r.state
	r.state = nil
	return r.Env.(saver).RestoreState(state, out)
}

// saver is an Env whose rows can be saved.
type saver interface {
	AppendState(b []byte) ([]byte, error)
	RestoreState(b []byte, out *rollout.Step) error
}

// Reset forgets nothing: episodes are the Env's.
func (t *Trainer) Reset([]int) {}

// Act rounds what is seen to what is stored, lets actor and teacher say what they would do,
// one of them do it in each row, and stores all of that.
func (t *Trainer) Act(step *rollout.Step, out *rollout.Decision) error {
	begin := time.Now()
	b, n := t.buf, t.spec.Rows
	at := b.Index(t.step, 0)
	p, c, a := b.Policy, b.Critic, b.Act
	t.round(step.Obs[t.policy], b.PolicyObs[at*p:(at+n)*p])
	if t.critic != t.policy {
		t.round(step.Obs[t.critic], b.CriticObs[at*c:(at+n)*c])
	} else {
		copy(b.CriticObs[at*c:(at+n)*c], b.PolicyObs[at*p:(at+n)*p])
	}
	mean := b.Mean[at*a : (at+n)*a]
	if err := t.acting.Forward(b.PolicyObs[at*p:(at+n)*p], n, mean); err != nil {
		return err
	}
	random := rand.New(&t.noise)
	for i, m := range mean {
		x := m + t.std[i%a]*float32(random.NormFloat64())
		if x != x { // an Env would refuse it; the iteration is not learnt from
			x = 0
			t.sums.NaN++
		}
		out.Action[i] = x
	}
	if err := t.teach(step, out, at); err != nil {
		return err
	}
	t.round(out.Action, b.Action[at*a:(at+n)*a])
	for row := range n {
		b.LogProb[at+row] = nets.LogProb(out.Action[row*a:(row+1)*a], mean[row*a:(row+1)*a], t.std)
		out.LogProb[row] = b.LogProb[at+row]
	}
	t.acted = time.Now()
	t.sums.PolicyS += t.acted.Sub(begin).Seconds()
	return nil
}

// teach stores what the teacher, if there is one, would do in the transitions from at on, and
// puts it in place of the student's action where the teacher drives.
func (t *Trainer) teach(step *rollout.Step, out *rollout.Decision, at int) error {
	b, n, a := t.buf, t.spec.Rows, t.buf.Act
	who, share := t.opd, 0.0
	switch {
	case t.warm():
		who = t.gait
		if t.iteration < int64(t.cfg.Warm.Scripted) {
			share = 1
		}
	case who != nil:
		share = t.cfg.OPD.Mix.at(t.collecting() - int64(t.cfg.Warm.Rollouts))
	}
	// What is not finite is nothing to ask a teacher about.
	out.Labelled = who != nil && t.finite(step.Obs[who.group()])
	if out.Labelled {
		if err := who.label(step, out.Label); err != nil {
			return err
		}
		if r := buffer.Round(out.Label); r.NaN > 0 {
			return errors.New("algo: teacher: an action is not a number")
		}
		buffer.Encode(b.Label[at*a:(at+n)*a], out.Label)
	}
	random := rand.New(&t.mixing)
	for row := range n {
		// One number each step and row, whatever the share: runs that differ in it alone
		// stay comparable.
		drives := random.Float64() < share && out.Labelled
		b.Labelled[at+row], b.Teacher[at+row], b.Rho[at+row], out.Acted[row] = out.Labelled, false, 1, rollout.Student
		if drives { // deterministic: the student would have done it with density 0 against infinity
			b.Teacher[at+row], b.Rho[at+row], out.Acted[row] = true, 0, rollout.Teacher
			copy(out.Action[row*a:(row+1)*a], out.Label[row*a:(row+1)*a])
		}
	}
	return nil
}

// learnt counts the iterations that did not clone.
func (t *Trainer) learnt() int64 { return t.iteration - int64(t.cfg.Warm.Rollouts) }

// finite says whether x is, and counts where it is not.
func (t *Trainer) finite(x []float32) bool {
	bad := 0
	for _, v := range x {
		if v-v != 0 {
			bad++
		}
	}
	t.sums.NaN += int64(bad)
	return bad == 0
}

// Record stores what came of a step and, at the end of an iteration, learns or lets it be learnt from.
func (t *Trainer) Record(_ int, _ *rollout.Step, _ *rollout.Decision, after *rollout.Step) error {
	b, n, k, c := t.buf, t.spec.Rows, len(t.spec.Metrics), t.buf.Critic
	at := b.Index(t.step, 0)
	s := &t.sums
	s.PhysicsS += since(t.acted)
	copy(b.Reward[at:at+n], after.Reward)
	copy(b.Terminated[at:at+n], after.Terminated)
	copy(b.TimedOut[at:at+n], after.TimedOut)
	for row := range n {
		metrics := after.Metrics[row*k : (row+1)*k]
		valid := t.badAt < 0 || metrics[t.badAt] == 0
		b.Valid[at+row] = valid
		if valid {
			for i, x := range metrics {
				s.metrics[i] += float64(x)
			}
			s.MetricSteps++
		} else {
			s.BadRows++
		}
		s.Reward += float64(after.Reward[row])
		t.length[row]++
		t.earned[row] += float64(after.Reward[row])
		if after.Ended(row) {
			s.Episodes++
			s.Length += float64(t.length[row])
			s.Earned += t.earned[row]
			t.length[row], t.earned[row] = 0, 0
			if after.Terminated[row] && valid {
				s.Falls++
			}
		}
		if after.TimedOut[row] && !after.Terminated[row] {
			from := len(t.final)
			t.final = slices.Grow(t.final, c)[:from+c]
			t.round(after.Final[t.critic][row*c:(row+1)*c], t.final[from:])
			t.finalAt = append(t.finalAt, int32(at+row))
		}
	}
	if t.step++; t.step < t.cfg.Steps {
		return nil
	}
	// Rounded in a copy: Act rounds what it sees itself.
	copy(t.scratch, after.Obs[t.critic])
	t.round(t.scratch[:n*c], t.last)
	s.CollectS = since(t.began)
	// Cloning does not run ahead: what it learns in an iteration changes the actor most of all.
	if t.learner != nil && !t.warm() {
		return t.exchange()
	}
	if err := t.learn(t.storage); err != nil {
		return err
	}
	if err := t.conclude(t.storage); err != nil {
		return err
	}
	return t.begin()
}
