//go:build !torch

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

// newTrain is what stands in for training in a program without libtorch.
func newTrain() []*cobra.Command {
	return []*cobra.Command{{
		Use:                "train",
		Short:              "Train a policy (not in this build)",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return cli.NotAvailable(errors.New("this clawlearn was built without libtorch: run make build-torch"))
		},
	}}
}
