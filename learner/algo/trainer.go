//go:build torch

package algo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/nets"
)

// ErrDiverged is wrapped by the error of a run in which three minibatches in a row were
// not finite: parameters are as before the first of them, but go on from the last good
// checkpoint.
var ErrDiverged = errors.New("three minibatches in a row were not finite")

// badInARow is how many minibatches that are not finite end a run.
const badInARow = 3

// Options are a Trainer's besides Config.
type Options struct {
	Seed    uint64 // of the first weights, the noise of actions, the order of minibatches
	Workers int    // threads of the networks
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
	buf    *buffer.Buffer
	gait   *Gait // while it is cloned
	policy int   // groups
	critic int
	badAt  int // metric that marks broken physics; -1: none

	noise rand.PCG // of actions
	order rand.PCG // of minibatches and mirrors
	from  []byte   // the Env's state to go on from; nil: a new run

	step      int // of the iteration
	iteration int64
	samples   int64
	diverged  int // minibatches in a row that were not finite

	std        []float32
	mirrorMean []float32
	mirror     []bool
	label      rollout.Decision
	final      []uint16 // critic's last observations of rows that timed out
	finalAt    []int32  // their transitions
	values     []float32
	last       []uint16 // critic's observation after the last step
	scratch    []float32
	length     []int32 // steps of each row's episode so far
	earned     []float64
	report     Report
	collected  time.Time // when this iteration's collecting began
	sums       tally
}

// tally is what an iteration adds up.
type tally struct {
	metrics        []float64
	metricSteps    int
	episodes       int
	falls          int
	length, earned float64 // of episodes that ended
	reward         float64
	badRows        int
	saturated, nan int
}

// New makes a Trainer with new networks for env, which must offer the groups "policy" and
// "critic".
func New(cfg Config, env rollout.Env, opts Options) (*Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("algo: %w", err)
	}
	t := &Trainer{cfg: cfg, opts: opts, env: env, spec: env.Spec()}
	s := &t.spec
	t.policy, t.critic = s.GroupIndex("policy"), s.GroupIndex("critic")
	if t.policy < 0 || t.critic < 0 {
		return nil, errors.New("algo: the Env offers no groups policy and critic")
	}
	t.badAt = slices.Index(s.Metrics, "physics_bad")
	shape := buffer.Shape{Steps: cfg.Steps, Rows: s.Rows, Policy: s.Groups[t.policy].Size(), Critic: s.Groups[t.critic].Size(), Act: s.ActDim()}
	var err error
	if t.buf, err = buffer.New(shape); err != nil {
		return nil, err
	}
	n := nets.Config{Policy: shape.Policy, Critic: shape.Critic, Act: shape.Act, ActorHidden: cfg.Net.Actor, CriticHidden: cfg.Net.Critic,
		InitStd: cfg.Net.InitStd, MinStd: cfg.Net.MinStd, MaxStd: cfg.Net.MaxStd, Normaliser: cfg.Net.Normaliser,
		Seed: int64(opts.Seed), Workers: max(1, opts.Workers)}
	if cfg.PPO.Mirror {
		if err := t.mirrors(&n); err != nil {
			return nil, err
		}
	}
	if cfg.Warm.Rollouts > 0 {
		if t.gait, err = NewGait(s); err != nil {
			return nil, err
		}
	}
	if t.nets, err = nets.New(n); err != nil {
		return nil, err
	}
	t.noise.Seed(opts.Seed, 1)
	t.order.Seed(opts.Seed, 2)
	rows, all := s.Rows, cfg.Steps*s.Rows
	t.std = make([]float32, shape.Act)
	t.mirrorMean, t.mirror = make([]float32, all*shape.Act), make([]bool, all)
	t.label = *rollout.NewDecision(t.spec)
	t.last, t.values = make([]uint16, rows*shape.Critic), make([]float32, rows)
	t.scratch = make([]float32, rows*max(shape.Policy, shape.Critic))
	t.length, t.earned = make([]int32, rows), make([]float64, rows)
	t.sums.metrics = make([]float64, len(s.Metrics))
	t.report.Metrics = make([]float64, len(s.Metrics))
	t.setRate()
	return t, nil
}

func (t *Trainer) mirrors(n *nets.Config) (err error) {
	for group, m := range map[string]*nets.Mirror{"policy": &n.MirrorPolicy, "critic": &n.MirrorCritic} {
		if m.Index, m.Sign, err = go1.MirrorGroup(&t.spec, group, t.opts.Mirror); err != nil {
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

// Close frees the networks.
func (t *Trainer) Close() { t.nets.Close() }

// Nets are the networks, to be read between iterations.
func (t *Trainer) Nets() *nets.Nets { return t.nets }

// Run trains until ctx ends, Each returns rollout.ErrStop (both nil) or something fails.
func (t *Trainer) Run(ctx context.Context) error {
	var env rollout.Env = t.env
	if t.from != nil {
		env = &restored{Env: t.env, state: t.from}
		t.from = nil
	}
	t.collected = time.Now()
	return rollout.Run(ctx, []rollout.Env{env}, t, t)
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

// Act rounds what is seen to what is stored, lets the actor (or, while its trot is cloned,
// the script) choose, and stores both.
func (t *Trainer) Act(step *rollout.Step, out *rollout.Decision) error {
	b, n := t.buf, t.spec.Rows
	at := b.Index(t.step, 0)
	p, c, a := b.Policy, b.Critic, b.Act
	t.round(step.Obs[t.policy], b.PolicyObs[at*p:(at+n)*p])
	t.round(step.Obs[t.critic], b.CriticObs[at*c:(at+n)*c])
	mean := b.Mean[at*a : (at+n)*a]
	if err := t.nets.Forward(b.PolicyObs[at*p:(at+n)*p], n, mean); err != nil {
		return err
	}
	if t.step == 0 {
		t.nets.Std(t.std)
		if t.warm() {
			for i := range t.std {
				t.std[i] = t.cfg.Warm.Std
			}
		}
	}
	random := rand.New(&t.noise)
	for i, m := range mean {
		out.Action[i] = m + t.std[i%a]*float32(random.NormFloat64())
	}
	labels := b.Labelled[at : at+n]
	if t.warm() {
		if err := t.gait.Act(step, &t.label); err != nil {
			return err
		}
		buffer.Round(t.label.Action)
		buffer.Encode(b.Label[at*a:(at+n)*a], t.label.Action)
		if t.iteration < int64(t.cfg.Warm.Scripted) {
			copy(out.Action, t.label.Action)
		}
	}
	for i := range labels {
		labels[i] = t.warm()
	}
	t.round(out.Action, b.Action[at*a:(at+n)*a])
	for row := range n {
		b.LogProb[at+row] = nets.LogProb(out.Action[row*a:(row+1)*a], mean[row*a:(row+1)*a], t.std)
		b.Rho[at+row], b.Teacher[at+row] = 1, false
		out.LogProb[row], out.Acted[row] = b.LogProb[at+row], rollout.Student
	}
	return nil
}

// round rounds x in place to what fp16 holds and stores it.
func (t *Trainer) round(x []float32, dst []uint16) {
	r := buffer.Round(x)
	t.sums.saturated += r.Saturated
	t.sums.nan += r.NaN
	buffer.Encode(dst, x)
}

// Record stores what came of a step and, at the end of an iteration, learns.
func (t *Trainer) Record(_ int, _ *rollout.Step, _ *rollout.Decision, after *rollout.Step) error {
	b, n, k, c := t.buf, t.spec.Rows, len(t.spec.Metrics), t.buf.Critic
	at := b.Index(t.step, 0)
	copy(b.Reward[at:at+n], after.Reward)
	copy(b.Terminated[at:at+n], after.Terminated)
	copy(b.TimedOut[at:at+n], after.TimedOut)
	s := &t.sums
	for row := range n {
		metrics := after.Metrics[row*k : (row+1)*k]
		valid := t.badAt < 0 || metrics[t.badAt] == 0
		b.Valid[at+row] = valid
		if valid {
			for i, x := range metrics {
				s.metrics[i] += float64(x)
			}
			s.metricSteps++
		} else {
			s.badRows++
		}
		s.reward += float64(after.Reward[row])
		t.length[row]++
		t.earned[row] += float64(after.Reward[row])
		if after.Ended(row) {
			s.episodes++
			s.length += float64(t.length[row])
			s.earned += t.earned[row]
			t.length[row], t.earned[row] = 0, 0
			if after.Terminated[row] {
				s.falls++
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
	return t.learn()
}

// learn ends an iteration.
func (t *Trainer) learn() error {
	begin := time.Now()
	r := &t.report
	*r = Report{Iteration: t.iteration + 1, Metrics: r.Metrics, Warm: t.warm(), CollectS: begin.Sub(t.collected).Seconds()}
	b := t.buf
	err := t.nets.UpdateNormaliser(b.PolicyObs, b.CriticObs)
	switch {
	case errors.Is(err, nets.ErrNonFinite): // seen, counted, not learnt from
		r.Skipped++
		t.diverged++
	case err != nil:
		return err
	case t.warm():
		err = t.clone(r)
	default:
		err = t.improve(r)
	}
	if err != nil && !errors.Is(err, nets.ErrNonFinite) {
		return err
	}
	t.iteration++
	t.samples += int64(b.Steps * b.Rows)
	t.step, t.final, t.finalAt = 0, t.final[:0], t.finalAt[:0]
	if t.iteration == int64(t.cfg.Warm.Rollouts) {
		t.nets.ResetAdam()
		t.setRate()
	}
	t.tell(r, time.Since(begin).Seconds())
	if t.diverged >= badInARow {
		return fmt.Errorf("algo: iteration %d: %w", t.iteration, ErrDiverged)
	}
	if t.opts.Each != nil {
		if err := t.opts.Each(r); err != nil {
			return err
		}
	}
	t.collected = time.Now()
	return nil
}

// clone fits the actor to the script on the iteration's steps.
func (t *Trainer) clone(r *Report) error {
	b := t.buf
	random := rand.New(&t.order)
	count := max(1, (b.Steps*b.Rows+t.cfg.Warm.Batch-1)/t.cfg.Warm.Batch)
	batches := 0
	for index := range b.Minibatches(random, t.cfg.Warm.Epochs, count) {
		mse, err := t.nets.Regress(b.PolicyObs, b.Label, index, t.draw(random, len(index)))
		if err != nil {
			if !errors.Is(err, nets.ErrNonFinite) {
				return err
			}
			r.Skipped++
			if t.diverged++; t.diverged >= badInARow {
				return err
			}
			continue
		}
		t.diverged = 0
		r.LabelRMSE += math.Sqrt(mse)
		batches++
	}
	r.LabelRMSE /= float64(max(1, batches))
	return nil
}

// draw says which drawn samples are mirrored; nil: none are.
func (t *Trainer) draw(random *rand.Rand, n int) []bool {
	if !t.cfg.PPO.Mirror {
		return nil
	}
	for i := range n {
		t.mirror[i] = random.Uint64()>>63 == 1
	}
	return t.mirror[:n]
}

// improve is PPO on the iteration's steps.
func (t *Trainer) improve(r *Report) error {
	b := t.buf
	all := b.Steps * b.Rows
	if err := t.value(all); err != nil {
		return err
	}
	if err := b.Returns(t.cfg.PPO.Gamma, t.cfg.PPO.Lambda); err != nil {
		if errors.Is(err, buffer.ErrNonFinite) {
			r.Skipped++
			t.diverged++
			return fmt.Errorf("%w: %w", nets.ErrNonFinite, err)
		}
		return err
	}
	_, r.AdvantageStd, _ = b.Normalise()
	batch := nets.Batch{PolicyObs: b.PolicyObs, CriticObs: b.CriticObs, Action: b.Action, Mean: b.Mean, OldStd: t.std, OldLogProb: b.LogProb,
		Advantage: b.Advantage, Target: b.Target, OldValue: b.Value}
	if t.cfg.PPO.Mirror {
		if err := t.nets.ForwardMirrored(b.PolicyObs, all, t.mirrorMean); err != nil {
			return err
		}
		batch.MirrorMean = t.mirrorMean
	}
	share := 0.0
	if t.opts.Progress != nil {
		share = min(max(t.opts.Progress(), 0), 1)
	}
	target := t.cfg.PPO.klTarget(share)
	loss := nets.Loss{Clip: t.cfg.PPO.Clip, ValueClip: t.cfg.PPO.ValueClip, ValueWeight: t.cfg.PPO.ValueWeight,
		EntropyWeight: t.cfg.PPO.entropy(share), MaxGradNorm: t.cfg.PPO.MaxGradNorm}
	random := rand.New(&t.order)
	batches := 0
	for index := range b.Minibatches(random, t.cfg.PPO.Epochs, t.cfg.PPO.Minibatches) {
		batch.Index, batch.Mirror = index, t.draw(random, len(index))
		s, err := t.nets.Minibatch(&batch, &loss)
		if err != nil {
			if !errors.Is(err, nets.ErrNonFinite) {
				return err
			}
			r.Skipped++
			if t.diverged++; t.diverged >= badInARow {
				return err
			}
			continue
		}
		t.diverged = 0
		if batches == 0 {
			r.FirstRatioError = s.MaxRatioError
		}
		batches++
		r.add(&s)
		t.nets.SetLearningRate(t.cfg.PPO.steer(t.nets.LearningRate(), s.KL, target))
	}
	r.divide(batches)
	return nil
}

// value fills Value, LastValue and FinalValue.
func (t *Trainer) value(all int) error {
	b := t.buf
	if err := t.nets.Values(b.CriticObs, all, b.Value); err != nil {
		return err
	}
	if err := t.nets.Values(t.last, b.Rows, b.LastValue); err != nil {
		return err
	}
	if n := len(t.finalAt); n > 0 {
		t.values = slices.Grow(t.values[:0], n)[:n]
		if err := t.nets.Values(t.final, n, t.values); err != nil {
			return err
		}
		for i, at := range t.finalAt {
			b.FinalValue[at] = t.values[i]
		}
	}
	return nil
}
