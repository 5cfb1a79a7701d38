package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

// benchResult is what bench prints.
type benchResult struct {
	What       string  `json:"what"`
	Samples    int64   `json:"samples"`        // steps of rows
	Seconds    float64 `json:"seconds"`        // that they took
	StepsPerS  float64 `json:"steps_per_s"`    // the quotient
	MedianS    float64 `json:"median_seconds"` // of an iteration
	Iterations int64   `json:"iterations"`
	Rows       int     `json:"rows"`
	Steps      int     `json:"steps"` // of a row in an iteration
	Threads    int     `json:"threads"`
	Device     string  `json:"device"` // that learns
	Actor      []int   `json:"actor"`  // widths of hidden layers
	Critic     []int   `json:"critic"`
	Epochs     int     `json:"epochs"`
	Batches    int     `json:"minibatches"` // of an epoch
	Observed   [2]int  `json:"observed"`    // numbers that actor and critic see
	Actions    int     `json:"actions"`
	RSSMB      float64 `json:"rss_mb"`  // this process's peak, MiB
	Library    string  `json:"library"` // that computes

	Settings benchSettings `json:"settings"`
	CPUS     float64       `json:"cpu_seconds,omitempty"`    // of all threads; where all that they do is measured
	Rates    []float64     `json:"learning_rates,omitempty"` // of --data's minibatches

	collect, learn, wall []float64 // s, by iteration; wall is less than the others together where they overlap
}

// benchSettings are algo.PPO's numbers that decide how much work an update is, and where it ends.
type benchSettings struct {
	Clip          float32 `json:"clip"`
	ValueClip     float32 `json:"value_clip"`
	ValueWeight   float32 `json:"value_weight"`
	EntropyWeight float32 `json:"entropy_weight"`
	MaxGradNorm   float32 `json:"max_grad_norm"`
	ClipApart     bool    `json:"clip_apart"` // actor's and critic's gradients have a norm each
	Rate          float64 `json:"rate"`
	MinRate       float64 `json:"min_rate"`
	MaxRate       float64 `json:"max_rate"`
	KLTarget      float64 `json:"kl_target"`
	Mirror        bool    `json:"mirror"`
	World         string  `json:"world,omitempty"`
	Physics       string  `json:"physics,omitempty"`
}

// benches are what can be measured.
var benches = []struct {
	name, doc string
	seconds   func(r *benchResult, iteration int) float64
}{
	{"collect", "the rollout: policy, physics, observations, rewards", func(r *benchResult, i int) float64 { return r.collect[i] }},
	{"update", "learning from it: returns, epochs of minibatches", func(r *benchResult, i int) float64 { return r.learn[i] }},
	{"train", "both, as training does them", func(r *benchResult, i int) float64 { return r.wall[i] }},
}

// newBench is `clawlearn bench`.
func newBench() *cobra.Command {
	root := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast training is, and its parts",
		Long: `bench trains for some iterations without a folder and says how many control steps (20 ms of a robot each) a second that makes, or one
part of it. Two iterations come first that do not count. It is always PPO that is measured: cloning is left out.`,
	}
	for i := range benches {
		cmd := newBenchOf(i)
		if benches[i].name == "update" {
			cmd.Long = updateHelp
		}
		root.AddCommand(cmd)
	}
	return root
}

const updateHelp = `Measure learning from what was collected: returns, epochs of minibatches.

With --data the samples and the networks' parameters are given, and there is no simulation: the epochs of minibatches alone are measured,
each iteration from the given parameters, and --result receives what they are after it. So an update can be compared with another
learner's (make bench-peers). It then does as rsl-rl does: the learning rate follows each minibatch's divergence before its step, not
after it, gradients of actor and critic are clipped apart, and every epoch takes the samples in the same order.

--data is a safetensors file: policy_obs, critic_obs, action (F16: samples x numbers), mean (F32: samples x numbers), std (F32: numbers),
log_prob, advantage, target, value (F32: samples), order (I32: a permutation of the samples); and the networks' parameters (F32):
actor.0.weight (outputs x inputs), actor.0.bias, ..., log_std, critic.0.weight, ..., as --set algo.net.actor and algo.net.critic have them.`

func newBenchOf(which int) *cobra.Command {
	b := &benches[which]
	preset, iterations, asJSON := presetFlag("plain"), int64(10), false
	data, result := "", ""
	loader := cli.NewLoader(func() Config { return preset.config() })
	cmd := &cobra.Command{
		Use:   b.name,
		Short: "Measure " + b.doc,
		Example: "clawlearn bench " + b.name + " --json\n" +
			"clawlearn bench " + b.name + " --rows 4096 --set algo.net.actor=[512,256,128] --set algo.net.critic=[512,256,128]",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if iterations < 1 || iterations > 1e6 {
				return cli.Usagef("--iterations %d: want 1..1e6", iterations)
			}
			cfg, err := loader.Load()
			if err != nil {
				return err
			}
			cfg.Algo.Warm.Rollouts, cfg.Algo.Warm.Scripted = 0, 0
			var r *benchResult
			switch {
			case data != "":
				r, err = measureUpdate(cmd.Context(), cmd.ErrOrStderr(), cfg, iterations, data, result)
			case result != "":
				return cli.Usagef("--result %s: there is none without --data", result)
			default:
				r, err = measure(cmd.Context(), cmd.ErrOrStderr(), cfg, iterations)
			}
			if err != nil {
				return err
			}
			r.What = b.name
			r.sum(b.seconds)
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	preset.add(flags)
	flags.Int64Var(&iterations, "iterations", iterations, "iterations to measure")
	if b.name == "update" {
		flags.StringVar(&data, "data", data, "safetensors file of samples and parameters to learn from")
		flags.StringVar(&result, "result", result, "safetensors file to write the parameters to that --data's become")
	}
	for _, name := range []string{"rows", "threads", "device"} {
		loader.AddKeyFlag(flags, name, name)
	}
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	loader.AddFlags(flags)
	return cmd
}

// sum adds up the iterations.
func (r *benchResult) sum(seconds func(*benchResult, int) float64) {
	each := make([]float64, len(r.collect))
	for i := range each {
		each[i] = seconds(r, i)
		r.Seconds += each[i]
	}
	r.MedianS = median(each)
	r.Iterations = int64(len(each))
	r.Samples = r.Iterations * int64(r.Rows*r.Steps)
	r.StepsPerS = float64(r.Samples) / r.Seconds
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

func (r *benchResult) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: %.0f steps/s: %d steps in %.2f s; iterations: %d of %d rows x %d steps, median %.3f s; %d threads, actor %v, critic %v, %d x %d minibatches\n",
		r.What, r.StepsPerS, r.Samples, r.Seconds, r.Iterations, r.Rows, r.Steps, r.MedianS, r.Threads, r.Actor, r.Critic, r.Epochs, r.Batches)
	return err
}
