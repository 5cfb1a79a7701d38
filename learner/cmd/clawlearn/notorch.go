//go:build !torch

package main

import (
	"context"
	"errors"
	"io"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/learner/run"
)

// errNoTorch is what everything that trains says in a program without libtorch.
var errNoTorch = cli.NotAvailable(errors.New("this clawlearn was built without libtorch, which training needs: run make build-torch"))

func ready(*run.Meta) error { return errNoTorch }

func train(context.Context, io.Writer, Config, func(*Config) (*run.Folder, error)) (*trainResult, error) {
	return nil, errNoTorch
}

func measure(context.Context, io.Writer, Config, int64) (*benchResult, error) { return nil, errNoTorch }

func measureUpdate(context.Context, io.Writer, Config, int64, string, string) (*benchResult, error) {
	return nil, errNoTorch
}
