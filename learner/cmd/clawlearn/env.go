//go:build torch

package main

import (
	"fmt"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/learner/nets"
)

// available says whether the configuration's Env is one that this program can make, and its device here.
func (c *Config) available() error {
	if c.Env != envMuJoCo {
		return cli.NotAvailable(fmt.Errorf("env %s: not available: this clawlearn has no client for its worker, only %s", c.Env, envMuJoCo))
	}
	return cli.NotAvailable(nets.Available(c.Device))
}
