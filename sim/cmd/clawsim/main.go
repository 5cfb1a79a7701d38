// Clawsim is the simulation of a Go1: a virtual robot behind the maker's protocol, and policies at play without one.
//
//	clawsim robot   ◄─ UDP ─►  clawagent, or any program of the maker's SDK
//	clawsim sender  somebody else who sends frames to that robot, or to its agent
//	clawsim play    policy ─► physics of many rows ─► figures, a 3D view in the browser, a video
//	clawsim bench   how fast those rows are, and where the time goes
//	clawsim demo    starts robot and agent, walks, judges by the robot's log
package main

import (
	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "clawsim",
		Short: "Simulated Go1s",
		Long:  "clawsim simulates the Unitree Go1 with MuJoCo.",
	}
	root.AddCommand(newRobot()...)
	root.AddCommand(newSenderCommand(), newPlayCommand(), newBenchCommand(), newDemoCommand())
	return root
}
