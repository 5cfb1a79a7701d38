package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/learner/run"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// trainFlags are train's flags as typed, but for those that are keys of the configuration.
type trainFlags struct {
	out            string
	preset         presetFlag
	resume, asJSON bool

	loader *cli.Loader[Config]
	begin  *Config // what the loader begins from: a resumed run's own; nil: the preset's
}

// newTrain is `clawlearn train`, and the command that shows its configuration.
func newTrain() []*cobra.Command {
	f := trainFlags{preset: "walk"}
	f.loader = cli.NewLoader(func() Config {
		if f.begin != nil {
			return *f.begin
		}
		return f.preset.config()
	})
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Train a policy that walks, from nothing",
		Long: `train lets many simulated Go1s walk, learns from them, and writes what it learned into a run folder: policy.onnx (the best so far, an
ONNX file that describes itself and that ONNX Runtime was seen to compute as the trainer does), checkpoints, the resolved configuration, and
curves for people (curves.svg), TensorBoard and scripts (metrics.jsonl). The policy sees only what a Go1 senses.

It ends after --minutes of training, after --iterations, or with --until-walking when three evaluations in a row in eval_v1 have
errors below 0.25 m/s and 0.3 rad/s and fewer than 5 % of rows that fall; the first of the three counts. The first Ctrl-C ends after the
iteration: it saves, evaluates and prints the result; the second ends at once. Time spent evaluating is not training time.

--resume goes on from the newest whole checkpoint, with the run's own configuration, seed and end; another end may be given. Whatever else
differs from the run is refused. A run that was killed, by power or signal 9, resumes too.

--deterministic lets no clock decide anything: then a run depends on its configuration alone (of which the number of threads, this machine's
unless given, is a part), bit for bit, however often it is killed and resumed.

Minibatches that are not finite are skipped and counted; after three in a row training goes on with what the newest checkpoint knew, and a
second time from the same one ends the run.

--async lets rows walk by the policy of one update before while the next learns (decoupled PPO). Where cores stand idle it is faster; each
step teaches less. With --deterministic too a run is repeated bit for bit.

--device cuda, or cuda:N, lets a GPU learn from what this machine's threads collect; parameters, optimiser and samples go there once an
iteration. What it needs is in README.md. --device cpu:aten computes on the CPU what the GPU would, more slowly than cpu, to check it by:
the two agree but for rounding. That a run is repeated bit for bit (--deterministic) is known of the CPU.

--rows auto tries numbers of rows from 64 to 1024 for some seconds, with as many steps each that an iteration keeps its samples, and takes
the fastest on this machine; the run keeps that choice. Fewer steps an iteration are not always as good to learn from.

A teacher beside PPO is a part of the configuration (opd.teacher and what follows it): its file may be a policy with a contract, which
is shown the simulator's true numbers where they are not among those that the student sees, or the folder of another run.

At its end a run has clawsim, the program beside this one, render 10 s of its best policy by chromium, clip.webm, and waits for that: Ctrl-C
skips it, and where clawsim or chromium is missing the run says so and ends without it. --set keep.clip=none renders nothing, and
keep.clip=each every new best while training goes on, in the run's folder clips.

Presets, to begin from:
` + strings.TrimRight(presetHelp(), "\n"),
		Example: `clawlearn train --out runs/first --until-walking
clawlearn train --out runs/ship --preset ship --minutes 10 --seed 1
clawlearn train --out runs/try --set algo.ppo.gamma=0.97 --iterations 100
clawlearn train --out runs/first --resume --minutes 5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "run `FOLDER`")
	f.preset.add(flags)
	for _, name := range []string{"seed", "minutes", "iterations", "until-walking", "deterministic"} {
		f.loader.AddKeyFlag(flags, name, "run."+strings.ReplaceAll(name, "-", "_"))
	}
	f.loader.AddKeyFlag(flags, "env", "env")
	f.loader.AddKeyFlag(flags, "device", "device")
	f.loader.AddKeyFlag(flags, "async", "algo.async")
	flags.Var(&rowsFlag{set: flags.Set}, "rows", "robots side by side: a `NUMBER`, or auto for the fastest")
	flags.BoolVar(&f.resume, "resume", false, "go on with the run in the folder")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object at the end")
	f.loader.AddFlags(flags)
	config := f.loader.Command("clawlearn")
	f.preset.add(config.Flags())
	return []*cobra.Command{cmd, config}
}

// run opens the run's folder and trains there.
func (f *trainFlags) run(cmd *cobra.Command) (err error) {
	if f.out == "" {
		return cli.Usagef("--out: name a folder")
	}
	build := cli.ReadBuild("clawlearn")
	meta := run.Describe("clawlearn", build.Version, build.Commit)
	meta.Versions["mujoco"] = mujoco.Version()
	var folder *run.Folder
	defer func() {
		if folder != nil {
			err = errors.Join(err, folder.Close())
		}
	}()
	var cfg Config
	if f.resume {
		if err := ready(&meta); err != nil {
			return err
		}
		if folder, err = run.Open(f.out, meta); err != nil {
			return err
		}
		if cfg, err = f.resumed(cmd, folder); err != nil {
			return err
		}
		meta.Seeds["run"] = int64(cfg.Run.Seed) // the folder holds the same map
	} else {
		if cfg, err = f.loader.Load(); err != nil {
			return err
		}
		if cfg.Run.Preset != string(f.preset) {
			return cli.Usagef("run.preset is %q in the configuration: begin from it by --preset %s", cfg.Run.Preset, cfg.Run.Preset)
		}
		if err := cfg.settle(); err != nil {
			return err
		}
		if err := ready(&meta); err != nil {
			return err
		}
		meta.Seeds["run"] = int64(cfg.Run.Seed)
	}
	result, err := train(cmd.Context(), cmd.ErrOrStderr(), cfg, func(chosen *Config) (*run.Folder, error) {
		if folder == nil {
			folder, err = run.Create(f.out, chosen, meta)
		}
		return folder, err
	})
	if err != nil {
		return err
	}
	result.Out = f.out
	if f.asJSON {
		return cli.PrintJSON(cmd.OutOrStdout(), result)
	}
	return result.print(cmd.OutOrStdout())
}

// resumed is the configuration of the run in the folder, with an end that the command line may give. Whatever else contradicts the run is
// refused by name.
func (f *trainFlags) resumed(cmd *cobra.Command, folder *run.Folder) (Config, error) {
	var stored Config
	if err := folder.Config(&stored); err != nil {
		return stored, err
	}
	given := cmd.Flags().Changed
	if given("preset") && string(f.preset) != stored.Run.Preset {
		return stored, cli.Usagef("--preset %s: the run in %s began from %s, and a resumed run keeps its configuration", f.preset, f.out, stored.Run.Preset)
	}
	begin := stored
	if given("minutes") || given("iterations") || given("until-walking") {
		begin.Run.endless()
	}
	f.begin = &begin
	cfg, err := f.loader.Load()
	if err != nil {
		return cfg, err
	}
	auto := cfg.RowsAuto
	cfg.RowsAuto = false // the run has chosen
	if key, asked, has := differs(cfg, stored); key != "" {
		if name, ok := strings.CutPrefix(key, "run."); ok {
			key = "--" + strings.ReplaceAll(name, "_", "-")
		}
		return cfg, cli.Usagef("%s %v: the run in %s has %v, and a resumed run keeps its configuration", key, asked, f.out, has)
	}
	if auto {
		fmt.Fprintf(cmd.ErrOrStderr(), "rows auto: the run keeps its %d rows\n", cfg.Rows)
	}
	return cfg, nil
}

// rowsFlag is --rows, short for --set rows_auto=true or, of a number, for --set rows=NUMBER --set rows_auto=false: the last of several holds.
type rowsFlag struct{ set func(flag, text string) error }

func (f *rowsFlag) String() string { return "" }
func (f *rowsFlag) Type() string   { return "NUMBER" }
func (f *rowsFlag) Set(text string) error {
	if text == "auto" {
		return f.set("set", "rows_auto=true")
	}
	if _, err := strconv.Atoi(text); err != nil {
		return fmt.Errorf("%q is neither a whole number nor auto", text)
	}
	if err := f.set("set", "rows="+text); err != nil {
		return err
	}
	return f.set("set", "rows_auto=false")
}

// trainResult is what train prints.
type trainResult struct {
	Out        string       `json:"out"`
	Policy     string       `json:"policy,omitempty"` // the file, once there is one
	Preset     string       `json:"preset"`
	Seed       uint64       `json:"seed"`
	Iterations int64        `json:"iterations"`
	Samples    int64        `json:"samples"` // steps of rows
	Rows       int          `json:"rows"`
	Steps      int          `json:"steps"`         // of a row in an iteration
	Seconds    float64      `json:"seconds"`       // of training
	EvalS      float64      `json:"eval_seconds"`  // beside it, as is the next
	FilesS     float64      `json:"files_seconds"` // policies, checkpoints, metrics, curves
	CollectS   float64      `json:"collect_seconds"`
	PhysicsS   float64      `json:"physics_seconds"` // of collecting: the rows, with observations and rewards
	PolicyS    float64      `json:"policy_seconds"`  // of collecting: actor, teacher, noise, rounding
	LearnS     float64      `json:"learn_seconds"`
	StepsPerS  float64      `json:"steps_per_s"` // of training
	Async      bool         `json:"async"`       // it collected while it learnt
	Walked     bool         `json:"walked"`      // met the criterion of --until-walking
	WalkedAt   int64        `json:"walked_at_samples"`
	WalkedS    float64      `json:"walked_at_seconds"`
	Skipped    int          `json:"skipped"`        // minibatches that were not finite
	Restored   int          `json:"restored"`       // times that they took a checkpoint back
	Best       *task.Result `json:"best"`           // by eval_v1
	WorldHash  string       `json:"world_hash"`     // of eval_v1
	Parameters string       `json:"parameters"`     // sha256 of the networks' at the end
	Clip       string       `json:"clip,omitempty"` // the newest video, if one was rendered
}

func (r *trainResult) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d iterations, %.2f M steps in %.1f s (%.0f steps/s)\n", r.Out, r.Iterations, float64(r.Samples)/1e6, r.Seconds, r.StepsPerS)
	fmt.Fprintf(&b, "time: collecting %.1f s (physics %.1f, policy %.1f, rest %.1f), learning %.1f s", r.CollectS, r.PhysicsS, r.PolicyS,
		r.CollectS-r.PhysicsS-r.PolicyS, r.LearnS)
	if r.Async {
		fmt.Fprintf(&b, ", %.1f s of them at once", max(0, r.CollectS+r.LearnS-r.Seconds))
	}
	fmt.Fprintf(&b, "; beside that evaluating %.1f s, files %.1f s\n", r.EvalS, r.FilesS)
	if r.Best != nil {
		fmt.Fprintf(&b, "best in eval_v1 (%s): error %.3f m/s %.3f rad/s, falls %.1f %%: %s\n", r.WorldHash, r.Best.VelErr, r.Best.YawErr, 100*r.Best.FallRate, r.Policy)
	}
	if r.Clip != "" {
		fmt.Fprintf(&b, "how it walks: %s\n", r.Clip)
	}
	if r.Walked {
		fmt.Fprintf(&b, "walked first after %.2f M steps, %.1f s\n", float64(r.WalkedAt)/1e6, r.WalkedS)
	}
	if r.Skipped+r.Restored > 0 {
		fmt.Fprintf(&b, "%d minibatches were not finite; %d times a checkpoint was taken back\n", r.Skipped, r.Restored)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
