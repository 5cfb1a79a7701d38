// Clawlearn trains policies for a Go1 in simulation.
//
//	clawlearn train   nothing ─► a student that walks, in a run folder
//	clawlearn eval    how well any policy with a contract walks in the frozen evaluation world
//	clawlearn compare runs side by side, by their evaluations
//	clawlearn bench   how fast training is, and its parts
//	clawlearn config  what a run can be told
//
//	train ─▶ trial.each, after every iteration of algo.Trainer
//	           ├─▶ run.Folder: metrics, curves, checkpoints
//	           └─▶ mujoco.Evaluate ─▶ better than before: export.Write ─▶ policy.onnx
//	                                                      └─▶ clips: clawsim play, in a process ─▶ clip.webm
//
// The clip of the best policy needs clawsim beside it and chromium: train waits for it at its end, and goes without where they are
// missing. keep.clip says which clips there are, or none.
//
// It needs libtorch for training: make build-torch. Built without build tag torch it still
// evaluates, and checks what training is told.
package main

import (
	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "clawlearn",
		Short: "Train policies for a Go1",
		Long:  "clawlearn trains policies for the Unitree Go1 in simulation, and says how well policies walk.",
	}
	root.AddCommand(newTrain()...)
	root.AddCommand(newEval(), newCompare(), newBench())
	return root
}
