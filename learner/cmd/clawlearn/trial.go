//go:build torch

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/algo"
	"github.com/openclaw-rl/openclaw/learner/run"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// libtorchVersion is the one that make deps-torch unpacks.
const libtorchVersion = "2.1.0"

// ready says whether this machine can train: a policy is checked by ONNX Runtime before it is written.
func ready(meta *run.Meta) error {
	lib, err := session.Library()
	if err != nil {
		return cli.NotAvailable(err)
	}
	meta.Versions["libtorch"], meta.Versions["onnxruntime"] = libtorchVersion, lib.Version
	return nil
}

// trial is one training run under way.
type trial struct {
	cfg     Config
	folder  *run.Folder
	teacher teacher
	env     *mujoco.Env
	trainer *algo.Trainer
	spec    rollout.Spec
	ev      *task.Evaluation
	screen  *screen
	result  trainResult
	clips   *clips // nil: none are rendered

	asked context.Context // ends when the run should
	now   context.Context // ends when it must, at once

	begin      time.Time // of this process's training, moved on by what is not training
	before     float64   // s of training before this process
	nextEval   float64   // s of training or steps
	nextCurves time.Time
	passes     int // of the criterion, in a row, by evaluations that were due
	curve      []point
	saved      int64 // iteration of the newest checkpoint, 0: none
	wentBack   int64 // iteration of the checkpoint that was last taken back; -1: none
}

// point is one evaluation that measured something, for the policy file's notes.
type point struct {
	Samples                  int64
	VelErr, YawErr, FallRate float64
}

// train trains in the folder that open opens once everything else is ready, rows chosen. It may hold a run to go on with. ctx ends it as
// Ctrl-C does.
func train(ctx context.Context, w io.Writer, cfg Config, open func(*Config) (*run.Folder, error)) (_ *trainResult, err error) {
	t := &trial{cfg: cfg, screen: newScreen(w, &cfg), wentBack: -1}
	var release func()
	t.asked, t.now, release = cli.StopStages(ctx)
	defer release()
	if cfg.RowsAuto {
		if err := chooseRows(t.asked, t.screen, &cfg); err != nil {
			return nil, err
		}
		t.cfg = cfg
	}
	if err := t.openEnv(); err != nil {
		return nil, err
	}
	defer t.closeEnv()
	if err := t.openTrainer(t.env); err != nil {
		return nil, err
	}
	defer t.trainer.Close()
	if t.folder, err = open(&cfg); err != nil {
		return nil, err
	}
	if err := t.restore(); err != nil {
		return nil, err
	}
	if clip := t.cfg.Keep.Clip; clip == "last" || clip == "each" {
		if t.clips, err = newClips(t.folder.Dir); err != nil {
			return nil, err
		}
		defer t.clips.close()
	}
	if err := t.run(); err != nil {
		return nil, err
	}
	t.result.Parameters = t.trainer.Nets().Hash()
	t.result.Clip = t.clips.finish(t.asked, t.screen, t.result.Policy)
	return &t.result, nil
}

// openEnv makes the rows, and opens the teacher that looks at them.
func (t *trial) openEnv() error {
	if err := t.cfg.available(); err != nil {
		return err
	}
	name, params, err := mujoco.ByPhysics(t.cfg.Physics)
	if err != nil {
		return err
	}
	world, err := task.WorldByName(t.cfg.World)
	if err != nil {
		return err
	}
	spec := task.WalkHistorySpec(t.cfg.Algo.Net.History())
	if t.teacher, err = openTeacher(&t.cfg, spec); err != nil {
		return errors.Join(err, t.teacher.close())
	}
	ec := mujoco.DefaultEnvConfig(spec)
	ec.Rows, ec.Threads, ec.Seed, ec.World, ec.Params = t.cfg.Rows, t.cfg.threads(), t.cfg.Run.Seed, world, params
	if ec.Model, err = mujoco.Load(name); err == nil {
		t.env, err = mujoco.NewEnv(ec)
		ec.Model.Close() // the Env holds on to it
	}
	if err != nil {
		return errors.Join(err, t.teacher.close())
	}
	return nil
}

// closeEnv closes what openEnv opened.
func (t *trial) closeEnv() error { return errors.Join(t.env.Close(), t.teacher.close()) }

// openTrainer makes the Trainer for env, t.env or what wraps it.
func (t *trial) openTrainer(env rollout.Env) (err error) {
	t.spec = env.Spec()
	var hash string
	t.ev, hash = task.EvalV1()
	t.ev.Rows, t.ev.Seconds = t.cfg.Eval.Rows, t.cfg.Eval.Seconds
	t.result = trainResult{Preset: t.cfg.Run.Preset, Seed: t.cfg.Run.Seed, Rows: t.cfg.Rows, Steps: t.cfg.Algo.Steps, Async: t.cfg.Algo.Async,
		WorldHash: hash}
	t.trainer, err = t.newTrainer(env, t.each)
	return err
}

func (t *trial) newTrainer(env rollout.Env, each func(*algo.Report) error) (*algo.Trainer, error) {
	o := algo.Options{Seed: t.cfg.Run.Seed, Workers: t.cfg.threads(), Device: t.cfg.Device, Mirror: task.ExtraMirror, Progress: t.progress, Each: each, TeacherState: t.teacher.state}
	if t.teacher.policy != nil { // a nil pointer would be a policy
		o.Teacher = t.teacher.policy
	}
	return algo.New(t.cfg.Algo, env, o)
}

// run trains until the end, and once more from a checkpoint where training diverged.
func (t *trial) run() error {
	if t.over() {
		t.screen.line("nothing is left to do: give more by --minutes or --iterations")
		return nil
	}
	t.begin = time.Now()
	defer t.screen.clear()
	for {
		err := t.trainer.Run(t.now)
		switch {
		case errors.Is(err, algo.ErrDiverged):
			if err := t.goBack(err); err != nil {
				return err
			}
		case t.now.Err() != nil:
			return fmt.Errorf("ended at once (%w): go on from the newest checkpoint by --resume", context.Cause(t.now))
		default:
			return err
		}
	}
}

// goBack takes what the newest checkpoint knew back after training diverged. Iterations and time go on.
func (t *trial) goBack(why error) error {
	c, err := t.folder.Latest()
	if err != nil {
		return fmt.Errorf("%w; %w", why, err)
	}
	if c.Iteration == t.wentBack {
		return fmt.Errorf("%w, for the second time since the checkpoint of iteration %d", why, c.Iteration)
	}
	if err := t.trainer.Recover(sections(c)); err != nil {
		return fmt.Errorf("%s: checkpoint of iteration %d: %w", t.folder.Dir, c.Iteration, err)
	}
	t.wentBack = c.Iteration
	t.result.Restored++
	t.screen.line("%v: going on with what the checkpoint of iteration %d knew", why, c.Iteration)
	return nil
}

// trained is the training time so far, s.
func (t *trial) trained() float64 { return t.before + time.Since(t.begin).Seconds() }

// progress is the share of the run that is over, 0 where its length is not known. It must not know the time where a run is deterministic:
// learning is steered by it.
func (t *trial) progress() (share float64) {
	r := &t.cfg.Run
	if r.Iterations > 0 {
		share = float64(t.result.Iterations) / float64(r.Iterations)
	}
	if r.Minutes > 0 {
		share = max(share, t.trained()/(60*r.Minutes))
	}
	return share
}

// over says whether the run's end is reached.
func (t *trial) over() bool {
	r, res := &t.cfg.Run, &t.result
	return r.Iterations > 0 && res.Iterations >= r.Iterations || r.Minutes > 0 && res.Seconds >= 60*r.Minutes || r.UntilWalking && res.Walked
}

// each is called after every iteration.
func (t *trial) each(r *algo.Report) error {
	res := &t.result
	res.Iterations, res.Samples, res.Seconds = r.Iteration, r.Samples, t.trained()
	res.CollectS += r.CollectS
	res.PhysicsS += r.PhysicsS
	res.PolicyS += r.PolicyS
	res.LearnS += r.LearnS
	res.StepsPerS = float64(res.Samples) / res.Seconds
	res.Skipped += r.Skipped
	share := t.progress() // before the clock stands still
	paused := time.Now()
	values := values(&t.cfg, t.spec.Metrics, r, res.Seconds)
	due := !r.Warm && (t.cfg.Eval.EverySeconds > 0 && res.Seconds >= t.nextEval ||
		t.cfg.Eval.EverySeconds == 0 && float64(r.Samples) >= t.nextEval)
	over := t.over()
	if t.asked.Err() != nil && !over {
		over = true
		t.screen.line("%v: saving, then evaluating; once more ends at once", context.Cause(t.asked))
		if err := t.save(r.Iteration); err != nil {
			return err
		}
	}
	best, evaluating := false, 0.0
	if due || over {
		begin := time.Now()
		score, pairs, err := t.evaluate()
		if err != nil {
			return err
		}
		evaluating = time.Since(begin).Seconds()
		res.EvalS += evaluating // before a checkpoint is written that says so
		t.screen.evaluated(res, score)
		values = append(values, evalValues(score)...)
		if due {
			t.judge(r.Samples, score)
			values = append(values, run.Value{Tag: passesTag, Value: float64(t.passes)})
			over = over || t.over()
		}
		best = worth(score) < worth(res.Best)
		if best || over && res.Policy == "" { // rather one that falls at once than none
			if err := t.keep(score, pairs, best); err != nil {
				return err
			}
		}
	}
	if err := t.folder.Log(r.Iteration, values); err != nil {
		return err
	}
	// What training may have to go back to is not saved from among minibatches that were not finite.
	if over || r.Skipped == 0 && (best || r.Iteration-t.saved >= int64(t.cfg.Keep.EveryIterations)) {
		if err := t.save(r.Iteration); err != nil {
			return err
		}
	}
	if due || over {
		if err := t.draw(over); err != nil {
			return err
		}
	}
	t.screen.iteration(res, r, t.spec.Metrics, share)
	beside := time.Since(paused)
	res.FilesS += beside.Seconds() - evaluating
	t.begin = t.begin.Add(beside)
	if over {
		return rollout.ErrStop
	}
	return nil
}

// curvesShare is the share of the time that may go into drawing curves on the way: it takes longer the longer the run is.
const curvesShare = 0.02

// draw draws the curves, if it was not just done.
func (t *trial) draw(always bool) error {
	begin := time.Now()
	if !always && begin.Before(t.nextCurves) {
		return nil
	}
	err := t.folder.WriteCurves("Perf/samples", panels)
	t.nextCurves = time.Now().Add(time.Duration(float64(time.Since(begin)) / curvesShare))
	return err
}

// evaluate lets the actor walk in eval_v1. pairs are what it saw there with what it did.
func (t *trial) evaluate() (score *task.Result, pairs []contract.Pair, err error) {
	spec := t.spec
	w := newWitness(t.trainer.Actor(), &spec, t.cfg.Algo.Net.Group, t.ev, evalPairs)
	score, err = mujoco.Evaluate(t.now, t.ev, "", t.cfg.threads(), &spec, w, nil)
	return score, w.pairs, err
}

// judge takes an evaluation that was due into account: whether the criterion of walking is met.
func (t *trial) judge(samples int64, s *task.Result) {
	if t.cfg.Eval.EverySeconds > 0 {
		t.nextEval = t.result.Seconds + t.cfg.Eval.EverySeconds
	} else {
		t.nextEval = float64(samples + t.cfg.Eval.EverySteps)
	}
	if !math.IsInf(worth(s), 1) {
		t.curve = append(t.curve, point{samples, s.VelErr, s.YawErr, s.FallRate})
	}
	if t.passes++; !walks(s.VelErr, s.YawErr, s.FallRate) {
		t.passes = 0
	}
	res := &t.result
	if res.Walked {
		return
	}
	switch t.passes {
	case 0:
		res.WalkedAt, res.WalkedS = 0, 0
	case 1:
		res.WalkedAt, res.WalkedS = samples, res.Seconds
	}
	res.Walked = t.passes >= walkingPasses
}

// worth is one number to compare evaluations by, less is better: errors over the criterion's, falls twice as dear. It is infinite where there
// is none, or every row fell before it could be judged.
func worth(s *task.Result) float64 {
	if s == nil || math.IsNaN(s.VelErr+s.YawErr) {
		return math.Inf(1)
	}
	return s.VelErr/walkingVelErr + s.YawErr/walkingYawErr + 2*s.FallRate/walkingFalls
}

// keep makes the present actor the run's policy. The file comes first: were it stopped between the two, a resumed run would take it for
// worse than it is, and no file for one that is not there.
func (t *trial) keep(s *task.Result, pairs []contract.Pair, best bool) error {
	if err := t.export(s, pairs); err != nil {
		return err
	}
	if best {
		copied := *s
		t.result.Best = &copied
		t.clips.best(t.screen, t.result.Policy, t.result.Iterations, t.cfg.Keep.Clip == "each")
	}
	c, err := t.checkpoint(t.result.Iterations)
	if err != nil {
		return err
	}
	return t.folder.SaveBest(c)
}
