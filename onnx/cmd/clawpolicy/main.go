// Clawpolicy looks after policy files.
//
//	policy.onnx ─▶ contract.Read ─▶ report ─▶ text or one JSON line
//	                    └─▶ session.Open ─▶ golden pairs replayed
//
// People run it before a policy goes anywhere near a robot.
package main

import (
	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	loader := cli.NewLoader(defaultConfig)
	root := &cobra.Command{
		Use:   "clawpolicy",
		Short: "Look into policy files",
		Long:  "clawpolicy shows what an ONNX policy file says about itself, and whether that is true.",
	}
	config := loader.Command("clawpolicy")
	config.Short = "Show what inspect asks of a policy, or check a file"
	root.AddCommand(newInspect(loader), config)
	return root
}
