package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// evalResult is what eval prints.
type evalResult struct {
	Policy  string  `json:"policy"`
	World   string  `json:"world"`
	Hash    string  `json:"world_hash"`
	Physics string  `json:"physics"`
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
	Seed    uint64  `json:"seed"`
	task.Result
}

// newEval is `clawlearn eval`.
func newEval() *cobra.Command {
	ev, hash := task.EvalV1()
	r := evalResult{World: ev.Name, Hash: hash}
	var asJSON bool
	var threads int
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Say how well a policy walks in the frozen evaluation world",
		Long: `eval lets a policy, ours or anybody's that has a contract, walk in eval_v1: robots that differ in friction, mass, gains, latency and
joint zeros, noisy sensors, pushes of 0.3 m/s, and a new command every 5 s within 1 m/s, 0.5 m/s and 1 rad/s. That world never
changes; its hash stands beside each score. A policy that wants its velocity is given the true one. Errors are means of the instant
ones but in the first second after each command; falls are the rows that ever fell.`,
		Example: `clawlearn eval --policy student.onnx
clawlearn eval --policy student.onnx --rows 512 --json
clawlearn eval --policy student.onnx --physics full`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case r.Policy == "":
				return cli.Usagef("--policy: name an ONNX file")
			case r.Rows < 1 || r.Rows > 1<<16:
				return cli.Usagef("--rows %d: want 1..%d", r.Rows, 1<<16)
			case !(r.Seconds > ev.SettleSeconds && r.Seconds <= 1e5):
				return cli.Usagef("--seconds %v: want more than %v, at most 1e5", r.Seconds, ev.SettleSeconds)
			case threads < 1 || threads > 1024:
				return cli.Usagef("--threads %d: want 1..1024", threads)
			}
			if _, _, err := mujoco.ByPhysics(r.Physics); err != nil {
				return cli.Usagef("--%w", err)
			}
			ev.Rows, ev.Seconds, ev.Seed = r.Rows, r.Seconds, r.Seed
			if err := r.run(cmd, ev, threads); err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&r.Policy, "policy", "", "ONNX file with a contract")
	cmd.Flags().StringVar(&r.Physics, "physics", ev.Model, "lean (the frozen world's), full, peer or coarse")
	cmd.Flags().IntVar(&r.Rows, "rows", ev.Rows, "robots")
	cmd.Flags().Float64Var(&r.Seconds, "seconds", ev.Seconds, "simulated time")
	cmd.Flags().Uint64Var(&r.Seed, "seed", ev.Seed, "of every random number; the frozen one by default")
	cmd.Flags().IntVar(&threads, "threads", runtime.NumCPU(), "physics threads; the result does not depend on them")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// run evaluates.
func (r *evalResult) run(cmd *cobra.Command, ev *task.Evaluation, threads int) error {
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
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bar := newBar(cmd.ErrOrStderr(), "walking")
	spec := p.Spec()
	res, err := mujoco.Evaluate(ctx, ev, r.Physics, threads, &spec, p, bar.share)
	bar.finish()
	if err != nil {
		return err
	}
	r.Result = *res
	return nil
}

func (r *evalResult) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "policy\t%s\n", r.Policy)
	fmt.Fprintf(table, "world\t%s (%s), physics %s, %d rows for %v s\n", r.World, r.Hash, r.Physics, r.Rows, r.Seconds)
	fmt.Fprintf(table, "velocity error\t%.3f m/s\n", r.VelErr)
	fmt.Fprintf(table, "yaw rate error\t%.3f rad/s\n", r.YawErr)
	fmt.Fprintf(table, "falls\t%.1f %% of rows\n", 100*r.FallRate)
	fmt.Fprintf(table, "power\t%.0f W\n", r.PowerW)
	fmt.Fprintf(table, "action rate\t%.3f rad a step\n", r.ActionRate)
	return table.Flush()
}
