//go:build torch

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/algo"
	"github.com/openclaw-rl/openclaw/learner/run"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// The criterion of --until-walking, in eval_v1: passed this often in a row, the first time counts.
const (
	walkingVelErr, walkingYawErr, walkingFalls = 0.25, 0.3, 0.05
	walkingPasses                              = 3
)

// trainFlags are train's flags as typed.
type trainFlags struct {
	out, preset   string
	seed          uint64
	minutes       float64
	iterations    int64
	untilWalking  bool
	resume        bool
	deterministic bool
	asJSON        bool
}

// newTrain is `clawlearn train` and the configuration's command.
func newTrain() []*cobra.Command {
	f := trainFlags{preset: "walk"}
	loader := cli.NewLoader(func() Config {
		make, err := presetNamed(f.preset)
		if err != nil {
			return walk() // refused before anything is loaded
		}
		return make()
	})
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Train a policy that walks, from nothing",
		Long: `train lets many simulated Go1s walk, learns from them, and writes what it learned into a run folder: an ONNX file with a contract
(policy.onnx, the best so far), checkpoints, curves (curves.svg, TensorBoard's files, metrics.jsonl) and the resolved
configuration. The policy sees only what a Go1 senses.

It ends with the first Ctrl-C after saving (the second ends at once), after --minutes of training, after --iterations, or with
--until-walking when three evaluations in a row in eval_v1 have errors below 0.25 m/s and 0.3 rad/s and fewer than 5 % of
rows that fall; the first of the three counts. Time spent evaluating is not training time.

--preset walk clones a scripted trot for seconds and then learns by PPO; plain is PPO alone; ship trains ten minutes in a wider world.
--deterministic evaluates by steps, not by time: then a run depends on its seed and the number of threads alone, also across --resume.`,
		Example: `clawlearn train --out runs/first --until-walking
clawlearn train --out runs/ship --preset ship --minutes 10 --seed 1
clawlearn train --out runs/try --set algo.ppo.gamma=0.97 --iterations 100
clawlearn train --out runs/first --resume --minutes 5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := presetNamed(f.preset); err != nil {
				return cli.Usagef("--%w", err)
			}
			cfg, err := loader.Load()
			if err != nil {
				return err
			}
			return f.train(cmd, cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "run `FOLDER`")
	flags.StringVar(&f.preset, "preset", f.preset, "configuration to begin from: walk, plain or ship")
	flags.Uint64Var(&f.seed, "seed", 1, "of every random number")
	flags.Float64Var(&f.minutes, "minutes", 0, "training time; 0: without end")
	flags.Int64Var(&f.iterations, "iterations", 0, "iterations in all; 0: without end")
	flags.BoolVar(&f.untilWalking, "until-walking", false, "end when it walks")
	flags.BoolVar(&f.resume, "resume", false, "go on from the folder's newest checkpoint, with its configuration")
	flags.BoolVar(&f.deterministic, "deterministic", false, "evaluate by steps, not by time")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object at the end")
	loader.AddFlags(flags)
	config := loader.Command("clawlearn")
	config.Flags().StringVar(&f.preset, "preset", f.preset, "configuration to begin from: walk, plain or ship")
	return []*cobra.Command{cmd, config}
}

// trainResult is what train prints.
type trainResult struct {
	Out        string       `json:"out"`
	Preset     string       `json:"preset"`
	Seed       uint64       `json:"seed"`
	Iterations int64        `json:"iterations"`
	Samples    int64        `json:"samples"` // steps of rows
	Seconds    float64      `json:"seconds"` // of training
	EvalS      float64      `json:"eval_seconds"`
	CollectS   float64      `json:"collect_seconds"`
	LearnS     float64      `json:"learn_seconds"`
	StepsPerS  float64      `json:"steps_per_s"` // of training
	Walked     bool         `json:"walked"`      // met the criterion of --until-walking
	WalkedAt   int64        `json:"walked_at_samples"`
	WalkedS    float64      `json:"walked_at_seconds"`
	Best       *task.Result `json:"best"`       // by eval_v1
	WorldHash  string       `json:"world_hash"` // of eval_v1
	Parameters string       `json:"parameters"` // sha256 of the networks' at the end
}

// trial is one training run under way.
type trial struct {
	f       *trainFlags
	cfg     Config
	folder  *run.Folder
	trainer *algo.Trainer
	env     *mujoco.Env
	spec    rollout.Spec
	ev      *task.Evaluation
	tags    []string
	out     io.Writer
	bar     *bar
	result  trainResult
	begin   time.Time // of this process's training, moved on by what is not training
	before  float64   // s of training before this process
	asked   context.Context
	passes  int
	nextEval,
	nextSave float64
	score float64 // of the best
}

func (f *trainFlags) train(cmd *cobra.Command, cfg Config) (err error) {
	switch {
	case f.out == "":
		return cli.Usagef("--out: name a folder")
	case !(f.minutes >= 0 && f.minutes < 1e6):
		return cli.Usagef("--minutes %v: want 0 or more", f.minutes)
	case f.iterations < 0:
		return cli.Usagef("--iterations %d: want 0 or more", f.iterations)
	}
	if f.deterministic {
		cfg.Eval.EverySeconds = 0
	}
	t := &trial{f: f, cfg: cfg, out: cmd.ErrOrStderr(), score: math.Inf(1)}
	build := cli.ReadBuild("clawlearn")
	meta := run.Describe("clawlearn", build.Version, build.Commit)
	meta.Seeds["run"] = int64(f.seed)
	meta.Versions["mujoco"], meta.Versions["libtorch"] = mujoco.Version(), "2.1.0"
	if f.resume {
		if t.folder, err = run.Open(f.out, meta); err == nil {
			err = t.folder.Config(&t.cfg)
		}
	} else {
		t.folder, err = run.Create(f.out, &t.cfg, meta)
	}
	if err != nil {
		if t.folder != nil {
			err = errors.Join(err, t.folder.Close())
		}
		return err
	}
	defer func() { err = errors.Join(err, t.folder.Close()) }()
	if err := t.open(); err != nil {
		return err
	}
	defer t.env.Close()
	defer t.trainer.Close()
	if f.resume {
		if err := t.restore(); err != nil {
			return err
		}
	}
	// The first signal ends after the iteration, the second at once.
	stop, end := context.WithCancel(cmd.Context())
	defer end()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	asked, ask := context.WithCancel(context.Background())
	defer ask()
	go func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
				if n > 0 {
					end()
				}
				ask()
			case <-stop.Done():
				return
			}
		}
	}()
	t.asked = asked
	t.bar = newBar(t.out, "training")
	t.begin = time.Now()
	err = t.trainer.Run(stop)
	t.bar.finish()
	if err != nil {
		return err
	}
	if stop.Err() != nil {
		return errors.New("ended at once: go on from the newest checkpoint by --resume")
	}
	t.result.Parameters = t.trainer.Nets().Hash()
	if f.asJSON {
		return cli.PrintJSON(cmd.OutOrStdout(), t.result)
	}
	return t.result.print(cmd.OutOrStdout())
}

// open makes Env and Trainer.
func (t *trial) open() (err error) {
	name, params, err := mujoco.ByPhysics(t.cfg.Physics)
	if err != nil {
		return err
	}
	world, err := task.WorldByName(t.cfg.World)
	if err != nil {
		return err
	}
	ec := mujoco.DefaultEnvConfig(task.WalkSpec())
	ec.Rows, ec.Threads, ec.Seed, ec.World, ec.Params = t.cfg.Rows, t.cfg.threads(), t.f.seed, world, params
	if ec.Model, err = mujoco.Load(name); err != nil {
		return err
	}
	defer ec.Model.Close() // the Env holds on to it
	if t.env, err = mujoco.NewEnv(ec); err != nil {
		return err
	}
	t.spec = t.env.Spec()
	var hash string
	t.ev, hash = task.EvalV1()
	t.result = trainResult{Out: t.f.out, Preset: t.f.preset, Seed: t.f.seed, WorldHash: hash}
	t.trainer, err = algo.New(t.cfg.Algo, t.env, algo.Options{Seed: t.f.seed, Workers: t.cfg.threads(), Mirror: task.ExtraMirror,
		Progress: t.progress, Each: t.each})
	if err != nil {
		t.env.Close()
	}
	return err
}

// trained is the training time so far, s.
func (t *trial) trained() float64 { return t.before + time.Since(t.begin).Seconds() }

// progress is the share of the run that is over, where its length is known.
func (t *trial) progress() float64 {
	switch {
	case t.f.iterations > 0:
		return float64(t.result.Iterations) / float64(t.f.iterations)
	case t.f.minutes > 0:
		return t.trained() / (60 * t.f.minutes)
	}
	return 0
}

// each is called after every iteration.
func (t *trial) each(r *algo.Report) error {
	res := &t.result
	res.Iterations, res.Samples, res.Seconds = r.Iteration, r.Samples, t.trained()
	res.CollectS += r.CollectS
	res.LearnS += r.LearnS
	res.StepsPerS = float64(res.Samples) / res.Seconds
	over := t.f.iterations > 0 && r.Iteration >= t.f.iterations || t.f.minutes > 0 && res.Seconds >= 60*t.f.minutes ||
		t.asked.Err() != nil
	paused := time.Now()
	values := t.values(r)
	due := t.cfg.Eval.EverySeconds > 0 && res.Seconds >= t.nextEval ||
		t.cfg.Eval.EverySeconds == 0 && float64(r.Samples) >= t.nextEval
	var walked bool
	if (due || over) && !r.Warm {
		score, err := t.evaluate(r)
		if err != nil {
			return err
		}
		walked = t.judge(r, score)
		values = append(values, evalValues(score)...)
		over = over || walked && t.f.untilWalking
	}
	if err := t.folder.Log(r.Iteration, values); err != nil {
		return err
	}
	if over || r.Iteration%int64(t.cfg.Keep.EveryIterations) == 0 {
		if err := t.save(r, over); err != nil {
			return err
		}
	}
	res.EvalS += time.Since(paused).Seconds()
	t.begin = t.begin.Add(time.Since(paused))
	t.bar.share(t.progress())
	if over {
		return rollout.ErrStop
	}
	return nil
}

// evaluate lets the actor walk in eval_v1.
func (t *trial) evaluate(r *algo.Report) (*task.Result, error) {
	if t.cfg.Eval.EverySeconds > 0 {
		t.nextEval = t.result.Seconds + t.cfg.Eval.EverySeconds
	} else {
		t.nextEval = float64(r.Samples + t.cfg.Eval.EverySteps)
	}
	spec := t.spec
	res, err := mujoco.Evaluate(context.Background(), t.ev, "", t.cfg.threads(), &spec, algo.NewActor(t.trainer.Nets(), &spec), nil)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(t.out, "%7.2f M steps %6.1f s: error %.3f m/s %.3f rad/s, falls %4.1f %%, %3.0f W, action rate %.3f, %.0f steps/s\n",
		float64(r.Samples)/1e6, t.result.Seconds, res.VelErr, res.YawErr, 100*res.FallRate, res.PowerW, res.ActionRate, t.result.StepsPerS)
	return res, nil
}

// judge keeps the best policy and says whether the criterion of walking is met.
func (t *trial) judge(r *algo.Report, s *task.Result) (walked bool) {
	if s.VelErr < walkingVelErr && s.YawErr < walkingYawErr && s.FallRate < walkingFalls {
		if t.passes++; t.passes == 1 {
			t.result.WalkedAt, t.result.WalkedS = r.Samples, t.result.Seconds
		}
	} else {
		t.passes = 0
	}
	t.result.Walked = t.result.Walked || t.passes >= walkingPasses
	if !t.result.Walked && t.passes == 0 {
		t.result.WalkedAt, t.result.WalkedS = 0, 0
	}
	// One number to compare by: errors over the criterion's, and falls twice as dear.
	if score := s.VelErr/walkingVelErr + s.YawErr/walkingYawErr + 2*s.FallRate/walkingFalls; score < t.score {
		t.score = score
		best := *s
		t.result.Best = &best
	}
	return t.result.Walked
}

// values are an iteration's numbers under rsl_rl's and Isaac Lab's tags.
func (t *trial) values(r *algo.Report) []run.Value {
	v := []run.Value{
		{Tag: "Loss/value", Value: r.Value}, {Tag: "Loss/surrogate", Value: r.Surrogate}, {Tag: "Loss/entropy", Value: r.Entropy},
		{Tag: "Loss/learning_rate", Value: r.LearningRate}, {Tag: "Loss/kl", Value: r.KL}, {Tag: "Loss/clip_fraction", Value: r.ClipFraction},
		{Tag: "Loss/behavior", Value: r.LabelRMSE}, {Tag: "Loss/skipped", Value: float64(r.Skipped)},
		{Tag: "Policy/mean_std", Value: r.Std},
		{Tag: "Perf/total_fps", Value: float64(t.cfg.Rows*t.cfg.Algo.Steps) / (r.CollectS + r.LearnS)},
		{Tag: "Perf/collection_time", Value: r.CollectS}, {Tag: "Perf/learning_time", Value: r.LearnS},
		{Tag: "Perf/samples", Value: float64(r.Samples)}, {Tag: "Perf/train_seconds", Value: t.result.Seconds},
		{Tag: "Perf/physics_bad", Value: float64(r.BadRows)}, {Tag: "Perf/saturated", Value: float64(r.Saturated)},
	}
	if r.Episodes > 0 {
		v = append(v, run.Value{Tag: "Train/mean_reward", Value: r.EpisodeReward}, run.Value{Tag: "Train/mean_episode_length", Value: r.EpisodeLength},
			run.Value{Tag: "Episode_Termination/fall", Value: float64(r.Falls) / float64(r.Episodes)})
	}
	for i, name := range t.spec.Metrics {
		tag := "Metrics/base_velocity/" + name
		if term, ok := bytes.CutPrefix([]byte(name), []byte("reward/")); ok {
			tag = "Episode_Reward/" + string(term)
		}
		v = append(v, run.Value{Tag: tag, Value: r.Metrics[i]})
	}
	return v
}

func evalValues(s *task.Result) []run.Value {
	return []run.Value{{Tag: "Eval/vel_err", Value: s.VelErr}, {Tag: "Eval/yaw_err", Value: s.YawErr}, {Tag: "Eval/fall_rate", Value: s.FallRate},
		{Tag: "Eval/power_w", Value: s.PowerW}, {Tag: "Eval/action_rate", Value: s.ActionRate}}
}

// panels of curves.svg.
var panels = []run.Panel{
	{Title: "tracking error in eval_v1", Unit: "m/s, rad/s", Tags: []string{"Eval/vel_err", "Eval/yaw_err"}},
	{Title: "rows that fall in eval_v1", Unit: "share", Tags: []string{"Eval/fall_rate"}},
	{Title: "reward by term", Unit: "a step", Tags: []string{"Episode_Reward/tracking_lin_vel", "Episode_Reward/tracking_ang_vel", "Episode_Reward/gait_contact",
		"Episode_Reward/swing_height", "Episode_Reward/base_height", "Episode_Reward/orientation", "Episode_Reward/action_rate"}},
	{Title: "episode length", Unit: "steps", Tags: []string{"Train/mean_episode_length"}},
	{Title: "divergence and learning rate", Unit: "", Tags: []string{"Loss/kl", "Loss/learning_rate"}, Log: true},
	{Title: "speed", Unit: "steps/s", Tags: []string{"Perf/total_fps"}},
}

// progressState is what a checkpoint holds beside networks and rows.
type progressState struct {
	Seconds, EvalS, CollectS, LearnS float64
	Walked                           bool
	WalkedAt                         int64
	WalkedS, NextEval                float64
	Passes                           int
	Score                            float64
	Best                             *task.Result
}

// save writes a checkpoint, and curves.
func (t *trial) save(r *algo.Report, last bool) error {
	sections, err := t.trainer.State()
	if err != nil {
		return err
	}
	res := &t.result
	score := t.score
	if math.IsInf(score, 1) {
		score = math.MaxFloat64 // JSON knows no infinity
	}
	text, err := json.Marshal(progressState{Seconds: res.Seconds, EvalS: res.EvalS, CollectS: res.CollectS, LearnS: res.LearnS, Walked: res.Walked,
		WalkedAt: res.WalkedAt, WalkedS: res.WalkedS, NextEval: t.nextEval, Passes: t.passes, Score: score, Best: res.Best})
	if err != nil {
		return err
	}
	c := &run.Checkpoint{Iteration: r.Iteration, Sections: []run.Section{{Name: "progress", Data: text}}}
	for _, s := range sections {
		c.Sections = append(c.Sections, run.Section{Name: s.Name, Data: s.Data})
	}
	if err := t.folder.Save(c); err != nil {
		return err
	}
	if last {
		return t.folder.WriteCurves("Perf/samples", panels)
	}
	return nil
}

// restore goes on from the newest whole checkpoint.
func (t *trial) restore() error {
	c, err := t.folder.Latest()
	if err != nil {
		return err
	}
	text, err := c.Section("progress")
	if err != nil {
		return err
	}
	var p progressState
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("%s: checkpoint %d: progress: %w", t.folder.Dir, c.Iteration, err)
	}
	var sections []algo.Section
	for _, s := range c.Sections {
		sections = append(sections, algo.Section{Name: s.Name, Data: s.Data})
	}
	if err := t.trainer.Restore(sections); err != nil {
		return fmt.Errorf("%s: checkpoint %d: %w", t.folder.Dir, c.Iteration, err)
	}
	res := &t.result
	t.before = p.Seconds
	res.EvalS, res.CollectS, res.LearnS, res.Walked, res.WalkedAt, res.WalkedS = p.EvalS, p.CollectS, p.LearnS, p.Walked, p.WalkedAt, p.WalkedS
	res.Iterations, res.Best = c.Iteration, p.Best
	t.nextEval, t.passes, t.score = p.NextEval, p.Passes, p.Score
	for _, s := range t.folder.Skipped {
		fmt.Fprintf(t.out, "skipped %s: %v\n", filepath.Base(s.Path), s.Why)
	}
	fmt.Fprintf(t.out, "going on from iteration %d, %.1f s of training\n", c.Iteration, p.Seconds)
	return nil
}

func (r *trainResult) print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d iterations, %.2f M steps in %.1f s (%.0f steps/s; %.0f s collecting, %.0f s learning), %.0f s evaluating beside\n",
		r.Out, r.Iterations, float64(r.Samples)/1e6, r.Seconds, r.StepsPerS, r.CollectS, r.LearnS, r.EvalS)
	if r.Best != nil {
		fmt.Fprintf(w, "best in eval_v1 (%s): error %.3f m/s %.3f rad/s, falls %.1f %%\n", r.WorldHash, r.Best.VelErr, r.Best.YawErr, 100*r.Best.FallRate)
	}
	if r.Walked {
		fmt.Fprintf(w, "walked first after %.2f M steps, %.1f s\n", float64(r.WalkedAt)/1e6, r.WalkedS)
	}
	return nil
}
