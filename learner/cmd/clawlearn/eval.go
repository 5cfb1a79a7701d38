package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// evalFlags are eval's flags as typed.
type evalFlags struct {
	policies                []string
	physics                 string
	rows, threads           int
	seconds                 float64
	seed                    uint64
	suite, asJSON, markdown bool
}

// evalResult is what eval prints of one policy.
type evalResult struct {
	Policy  string  `json:"policy"`
	Name    string  `json:"name"` // by its contract
	World   string  `json:"world"`
	Hash    string  `json:"world_hash"`
	Physics string  `json:"physics"`
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
	Seed    uint64  `json:"seed"`
	// Given are the terms of its observation that the simulator gives it and no Go1 senses: a score that nobody can repeat on a robot.
	Given []string `json:"given"`
	task.Result
	Suite *suiteResult `json:"suite,omitempty"`
}

// newEval is `clawlearn eval`.
func newEval() *cobra.Command {
	ev, hash := task.EvalV1()
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Say how well a policy walks in the frozen evaluation world",
		Long: `eval lets a policy, ours or anybody's that has a contract, walk in eval_v1: robots that differ in friction, mass, gains, latency and
joint zeros, noisy sensors, pushes of 0.3 m/s, and a new command every 5 s within 1 m/s, 0.5 m/s and 1 rad/s. That world never
changes; its hash stands beside each score. A policy that wants its velocity is given the true one. Errors are means of the instant
ones but in the first second after each command; falls are the rows that ever fell; power is the motors' |torque * speed|; the action
rate is the root mean square over joints of the targets' change in a policy period, its mean over time.

--suite asks more, each a change of that one world: the full model; friction 0.4; 1 kg more; 20 ms of delay; pushes of 0.5 m/s; the
command zero for the whole time without pushes (how fast joints turn, whether feet lift, how far it drifts); and each of the nine
commands vx -1, 0, 1 with wz -1, 0, 1 (vy 0) held for the whole time by a quarter of the rows. It ends with what is asked of a student
that ships, met or not. On two cores it takes about a minute with 128 rows.

--policy may be given several times. --markdown prints one table that compares them.`,
		Example: `clawlearn eval --policy student.onnx
clawlearn eval --policy student.onnx --rows 512 --suite --json
clawlearn eval --policy student.onnx --policy go1_policy.onnx --suite --markdown
clawlearn eval --policy student.onnx --physics full`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(ev); err != nil {
				return err
			}
			ev.Rows, ev.Seconds, ev.Seed, ev.Model = f.rows, f.seconds, f.seed, f.physics
			return f.eval(cmd, ev, hash)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.policies, "policy", nil, "ONNX `FILE` with a contract; may be repeated")
	flags.BoolVar(&f.suite, "suite", false, "standing still, nine commands, the full model and four harder worlds too")
	flags.StringVar(&f.physics, "physics", ev.Model, "lean (the frozen world's), full, peer or coarse")
	flags.IntVar(&f.rows, "rows", ev.Rows, "robots")
	flags.Float64Var(&f.seconds, "seconds", ev.Seconds, "simulated time")
	flags.Uint64Var(&f.seed, "seed", ev.Seed, "of every random number; the frozen one by default")
	flags.IntVar(&f.threads, "threads", runtime.NumCPU(), "physics threads; the result does not depend on them")
	flags.BoolVar(&f.markdown, "markdown", false, "print one table in Markdown, a column a policy")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return cmd
}

// check refuses flags that cannot be meant. ev is the frozen evaluation.
func (f *evalFlags) check(ev *task.Evaluation) error {
	switch {
	case len(f.policies) == 0:
		return cli.Usagef("--policy: name an ONNX file")
	case f.rows < 1 || f.rows > 1<<16:
		return cli.Usagef("--rows %d: want 1..%d", f.rows, 1<<16)
	case !(f.seconds > ev.SettleSeconds && f.seconds <= 1e5):
		return cli.Usagef("--seconds %v: want more than %v, at most 1e5", f.seconds, ev.SettleSeconds)
	case f.threads < 1 || f.threads > 1024:
		return cli.Usagef("--threads %d: want 1..1024", f.threads)
	case f.asJSON && f.markdown:
		return cli.Usagef("--json and --markdown: not both")
	case f.suite && f.physics != ev.Model:
		return cli.Usagef("--suite --physics %s: the suite has its own, %s and full", f.physics, ev.Model)
	}
	seen := map[string]bool{}
	for _, p := range f.policies {
		if p == "" {
			return cli.Usagef("--policy: name an ONNX file")
		}
		if seen[p] {
			return cli.Usagef("--policy %s: given twice", p)
		}
		seen[p] = true
	}
	if _, _, err := mujoco.ByPhysics(f.physics); err != nil {
		return cli.Usagef("--%w", err)
	}
	return nil
}

// eval evaluates all policies and prints what they did.
func (f *evalFlags) eval(cmd *cobra.Command, ev *task.Evaluation, hash string) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bar := newBar(cmd.ErrOrStderr(), "walking")
	defer bar.finish()
	var results []*evalResult
	for i, path := range f.policies {
		r := &evalResult{Policy: path, World: ev.Name, Hash: hash, Physics: ev.Model, Rows: ev.Rows, Seconds: ev.Seconds, Seed: ev.Seed}
		err := r.run(ctx, ev, f, func(share float64) { bar.share((float64(i) + share) / float64(len(f.policies))) })
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	bar.finish()
	switch {
	case f.markdown:
		_, err := io.WriteString(cmd.OutOrStdout(), markdown(results))
		return err
	case f.asJSON && len(results) == 1:
		return cli.PrintJSON(cmd.OutOrStdout(), results[0])
	case f.asJSON:
		return cli.PrintJSON(cmd.OutOrStdout(), map[string][]*evalResult{"policies": results})
	}
	for i, r := range results {
		if i > 0 {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := r.print(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	return nil
}

// run evaluates one policy.
func (r *evalResult) run(ctx context.Context, ev *task.Evaluation, f *evalFlags, share func(float64)) error {
	file, err := contract.Load(r.Policy)
	if err != nil {
		return err
	}
	p, err := session.Open(file, session.Options{})
	if err != nil {
		if errors.Is(err, session.ErrNoLibrary) {
			err = cli.NotAvailable(err)
		}
		return err
	}
	defer p.Close()
	spec := p.Spec()
	r.Name, r.Given = file.Contract.Name, givenTerms(&spec)
	if f.suite {
		if r.Suite, err = runSuite(ctx, ev, f.threads, &spec, p, share); err == nil {
			r.Result = r.Suite.Cases[0].Result // nominal
		}
	} else {
		var res *task.Result
		if res, err = mujoco.Evaluate(ctx, ev, "", f.threads, &spec, p, share); err == nil {
			r.Result = *res
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Policy, err)
	}
	return nil
}

// givenTerms are the terms that a policy reads and no Go1 senses.
func givenTerms(spec *rollout.Spec) []string {
	names := []string{}
	for _, t := range spec.Group("policy").Terms {
		if !t.Sensed {
			names = append(names, t.Name)
		}
	}
	return names
}

func (r *evalResult) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "policy\t%s\n", r.Policy)
	if len(r.Given) > 0 {
		fmt.Fprintf(table, "given\ttrue %s, which no Go1 senses\n", strings.Join(r.Given, ", "))
	}
	fmt.Fprintf(table, "world\t%s (%s), physics %s, %d rows for %v s\n", r.World, r.Hash, r.Physics, r.Rows, r.Seconds)
	fmt.Fprintf(table, "velocity error\t%.3f m/s\n", r.VelErr)
	fmt.Fprintf(table, "yaw rate error\t%.3f rad/s\n", r.YawErr)
	fmt.Fprintf(table, "falls\t%.1f %% of rows\n", 100*r.FallRate)
	fmt.Fprintf(table, "power\t%.0f W\n", r.PowerW)
	fmt.Fprintf(table, "action rate\t%.3f rad a step\n", r.ActionRate)
	if err := table.Flush(); err != nil || r.Suite == nil {
		return err
	}
	return r.Suite.print(w)
}
