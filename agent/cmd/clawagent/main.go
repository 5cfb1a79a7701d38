// Clawagent drives a Go1: it runs the 500 Hz loop beside the robot, lets an ONNX
// policy walk it, and is steered and watched over HTTP.
//
//	             ┌ control thread: link ⇄ judge, 500 Hz
//	clawagent run┼ policy thread:  rollout.Run at the policy's rate
//	             ├ HTTP, loopback: state, command, mode, arm, estop
//	             └ journal:        what changed, for people and for tests
//	clawagent guard:  damps the robot when run dies or stands still; run starts it
//	clawagent drive:  a velocity from the command line, over that HTTP
//	clawagent doctor: why does no state arrive, is this the robot in the documents,
//	                  what do its motors do without commands, and what to do
package main

import (
	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	loader := cli.NewLoader(defaultConfig)
	root := &cobra.Command{
		Use:   "clawagent",
		Short: "Drive a Unitree Go1 with a learned policy",
		Long: "clawagent drives a Unitree Go1 over its low-level protocol at 500 Hz, lets an ONNX\n" +
			"policy walk it, and is steered and watched over HTTP on this machine.",
	}
	root.AddCommand(newRun(loader), newGuard(loader), newDrive(), newDoctor(loader), loader.Command("clawagent"))
	return root
}
