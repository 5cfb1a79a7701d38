// Command toy is a program with every part of the frame, run by the tests of agent/cli.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

type config struct {
	Robot string `yaml:"robot" doc:"address of the robot"`
	Stand stand  `yaml:"stand" doc:"standing up"`
}

type stand struct {
	KP float32 `yaml:"kp" unit:"N·m/rad" doc:"position gain"`
}

func (c config) Validate() error {
	if c.Stand.KP <= 0 {
		return fmt.Errorf("stand.kp is %v, must be above 0", c.Stand.KP)
	}
	return nil
}

func main() {
	loader := cli.NewLoader(func() config { return config{"udp://127.0.0.1:8007", stand{60}} })
	root := &cobra.Command{Use: "toy", Short: "Shows the frame"}
	var asJSON bool
	run := &cobra.Command{Use: "run", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		c, err := loader.Load()
		if err != nil {
			return err
		}
		return cli.PrintJSON(cmd.OutOrStdout(), map[string]any{"robot": c.Robot, "kp": c.Stand.KP, "bad": math.NaN()})
	}}
	run.Flags().BoolVar(&asJSON, "json", false, "print one JSON object, as always")
	loader.AddFlags(run.Flags())
	loader.AddKeyFlag(run.Flags(), "robot", "robot")
	// ill prints its result and then fails, up prints that it is ready and then fails.
	reporting := func(use string, print func(io.Writer, any) error) *cobra.Command {
		cmd := &cobra.Command{Use: use, RunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(errors.New("two errors"), print(cmd.OutOrStdout(), map[string]any{"of": use}))
		}}
		cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object, as always")
		return cmd
	}
	wait := &cobra.Command{Use: "wait", RunE: func(cmd *cobra.Command, _ []string) error {
		sit, damp, release := cli.StopStages(context.Background())
		defer release()
		out := cmd.OutOrStdout()
		fmt.Fprintln(out, "ready")
		<-sit.Done()
		fmt.Fprintln(out, "sit:", context.Cause(sit))
		<-damp.Done()
		fmt.Fprintln(out, "damp:", context.Cause(damp))
		_, err := io.Copy(io.Discard, cmd.InOrStdin()) // damping takes its time
		return err
	}}
	ending := func(use string, err error) *cobra.Command {
		return &cobra.Command{Use: use, RunE: func(*cobra.Command, []string) error { return err }}
	}
	root.AddCommand(run, wait, reporting("ill", cli.PrintJSON), reporting("up", cli.PrintReady), loader.Command("toy"),
		ending("fail", errors.New("the robot did not answer")),
		ending("absent", cli.NotAvailable(errors.New("no policy found; pass --policy FILE"))),
		&cobra.Command{Use: "panic", Run: func(*cobra.Command, []string) { panic("a bug") }})
	cli.Main(root)
}
