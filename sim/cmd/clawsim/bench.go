package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// Bounds and defaults of bench.
const (
	benchRows       = 4096
	benchMaxSeconds = 3600
	benchMaxSteps   = 1_000_000
)

// benchSweepRows are the numbers of rows that --sweep measures.
var benchSweepRows = []int{64, 256, 1024, 4096, 8192}

// benchFlags are bench's flags as typed.
type benchFlags struct {
	policy, physics, world string
	rows, threads, steps   int
	seconds                float64
	seed                   uint64
	sweep, asJSON          bool
}

// newBenchCommand is `clawsim bench`: how fast rows are stepped, and where the time goes.
func newBenchCommand() *cobra.Command {
	f := benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast Go1s are simulated, and where the time goes",
		Long: `bench steps rows of Go1s as training does and says how many control steps (20 ms each) a second that makes.

Only the environment's Step is timed: actions, physics, falls, rewards, metrics, variation, resets and all observations (the policy's
and the critic's). The policy's own time is shown apart. A warm-up comes first: 50 steps of every row, or, unless --steps is given,
what of them fits into 1 s. So --steps is the same work on every machine, whatever time it takes.

The times of a control step are of one row, in microseconds of a thread: with two threads the physics of a step that takes 30 us of a
thread takes 15 us by the clock. "around" is everything else the threads do (actions, rewards, observations, resets); "waiting" is
what is left of the threads' time: handing out work, and threads that wait for the last one.

--physics lean is what training uses, peer has the steps of Playground's Go1 (5 of 4 ms), full is the judge (10 of 2 ms, solved to
convergence). --world is a preset (` + strings.Join(task.WorldNames(), ", ") + `) or a file of JSON. How rows start, what a fall is, the floor's
friction and whether the motors' torque falls with speed come from the world, not from --physics; the friction in the joints is that of
--physics. The policy is "zero" (stand in the home pose), "random" (fall, mostly) or an ONNX file with a contract. Memory is this
process's: its peak, and now.`,
		Example: `clawsim bench
clawsim bench --rows 4096 --seconds 10 --json
clawsim bench --rows 256 --policy policy.onnx --steps 1000
clawsim bench --physics full --world nominal --rows 64
clawsim bench --sweep --seconds 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.bench(cmd) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.rows, "rows", benchRows, fmt.Sprintf("robots, 1..%d", playMaxRows))
	flags.Float64Var(&f.seconds, "seconds", 5, "time to measure, by the clock")
	flags.IntVar(&f.steps, "steps", 0, "control steps of each row to measure, instead of --seconds")
	flags.IntVar(&f.threads, "threads", runtime.NumCPU(), "physics threads; with --sweep the most of them")
	flags.StringVar(&f.physics, "physics", "lean", strings.Join(mujoco.Physics(), ", "))
	flags.StringVar(&f.world, "world", "walk", strings.Join(task.WorldNames(), ", ")+" or a JSON file")
	flags.StringVar(&f.policy, "policy", "zero", `ONNX file with a contract, "zero" or "random"`)
	flags.Uint64Var(&f.seed, "seed", 1, "of every random number")
	flags.BoolVar(&f.sweep, "sweep", false, "measure "+sweepText()+" rows, on 1, 2, ... --threads threads")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return cmd
}

// sweepText is "64, 256, ...".
func sweepText() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(benchSweepRows), " ", ", "), "[]")
}

// sweepThreads are the numbers of threads that --sweep measures: powers of two, and most.
func sweepThreads(most int) (threads []int) {
	for n := 1; n < most; n *= 2 {
		threads = append(threads, n)
	}
	return append(threads, most)
}

// check refuses flags that cannot be measured and names the flag.
func (f *benchFlags) check(changed func(flag string) bool) error {
	switch {
	case f.rows < 1 || f.rows > playMaxRows:
		return cli.Usagef("--rows %d: want 1..%d", f.rows, playMaxRows)
	case f.threads < 1 || f.threads > 1024:
		return cli.Usagef("--threads %d: want 1..1024", f.threads)
	case !(f.seconds > 0 && f.seconds <= benchMaxSeconds):
		return cli.Usagef("--seconds %v: want more than 0, at most %d", f.seconds, benchMaxSeconds)
	case changed("steps") && (f.steps < 1 || f.steps > benchMaxSteps):
		return cli.Usagef("--steps %d: want 1..%d", f.steps, benchMaxSteps)
	case changed("steps") && changed("seconds"):
		return cli.Usagef("--steps and --seconds: give one of them")
	case f.sweep && changed("rows"):
		return cli.Usagef("--sweep and --rows: a sweep has its own rows, %s", sweepText())
	case f.policy == "":
		return cli.Usagef("--policy: name an ONNX file, \"zero\" or \"random\"")
	}
	return nil
}

// loadWorld is the preset called name, or the world of the file there.
func loadWorld(name string) (*task.World, error) {
	if slices.Contains(task.WorldNames(), name) {
		return task.WorldByName(name)
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usagef("--world %q: want %s or a file of JSON", name, strings.Join(task.WorldNames(), ", "))
	}
	if err != nil {
		return nil, err
	}
	world, err := task.DecodeWorld(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return world, nil
}

// withCritic is a contract with the group that only training sees, as training adds it: the
// simulator has to fill it, so that it is timed.
func withCritic(spec *rollout.Spec) *rollout.Spec {
	s := *spec
	if s.GroupIndex("critic") >= 0 {
		return &s
	}
	walk := task.WalkSpec()
	critic := walk.Groups[walk.GroupIndex("critic")]
	if s.Clock.Hz == 0 {
		critic.Terms = slices.DeleteFunc(critic.Terms, func(t rollout.Term) bool { return t.Name == "clock" })
	}
	s.Groups = append(slices.Clone(s.Groups), critic)
	return &s
}

// benchSubject is what is the same for all measurements of one command.
type benchSubject struct {
	flags *benchFlags
	file  *contract.File // nil: zero or random
	cfg   mujoco.EnvConfig
}

// open reads what the flags name. The model is to be closed.
func (f *benchFlags) open() (*benchSubject, error) {
	s := &benchSubject{flags: f}
	name, params, err := mujoco.ByPhysics(f.physics)
	if err != nil {
		return nil, cli.Usagef("--%w", err)
	}
	world, err := loadWorld(f.world)
	if err != nil {
		return nil, err
	}
	spec := task.WalkSpec()
	if f.policy != "zero" && f.policy != "random" {
		if s.file, err = loadPolicy(f.policy); err != nil {
			return nil, err
		}
		spec = &s.file.Contract.Spec
	}
	s.cfg = mujoco.DefaultEnvConfig(withCritic(spec))
	s.cfg.World, s.cfg.Params, s.cfg.Seed = world, params, f.seed
	s.cfg.Model, err = mujoco.Load(name)
	return s, err
}

// newPolicy makes the policy for an Env.
func (s *benchSubject) newPolicy(spec *rollout.Spec) (p rollout.Policy, closeIt func(), err error) {
	switch {
	case s.file != nil:
		loaded, err := session.Open(s.file, session.Options{Rows: spec.Rows, Env: spec})
		if err != nil {
			if errors.Is(err, session.ErrNoLibrary) {
				err = cli.NotAvailable(err)
			}
			return nil, nil, err
		}
		return loaded, func() { _ = loaded.Close() }, nil
	case s.flags.policy == "random":
		return newRandomPolicy(s.cfg.Seed, spec.Rows), func() {}, nil
	}
	return zeroPolicy{}, func() {}, nil
}

func (f *benchFlags) bench(cmd *cobra.Command) error {
	if err := f.check(cmd.Flags().Changed); err != nil {
		return err
	}
	subject, err := f.open()
	if err != nil {
		return err
	}
	defer subject.cfg.Model.Close()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	rows, threads := []int{f.rows}, []int{f.threads}
	if f.sweep {
		rows, threads = benchSweepRows, sweepThreads(f.threads)
	}
	report := &benchReport{about: subject.about()}
	bar := newBenchBar(cmd.ErrOrStderr(), len(rows)*len(threads))
	for _, r := range rows {
		for _, t := range threads {
			figures, err := subject.measure(ctx, r, min(t, r), bar)
			if err != nil {
				bar.finish()
				return err
			}
			if figures != nil {
				report.figures = append(report.figures, *figures)
			}
		}
	}
	bar.finish()
	if len(report.figures) > 0 {
		err = report.print(cmd.OutOrStdout(), f.sweep, f.asJSON)
	}
	if ctx.Err() != nil {
		err = errors.Join(err, errors.New("bench: interrupted"))
	}
	return err
}
