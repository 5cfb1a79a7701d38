//go:build torch

package main

import (
	"fmt"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

// available says whether the configuration's Env is one that this program can make.
func (c *Config) available() error {
	if c.Env != envMuJoCo {
		return cli.NotAvailable(fmt.Errorf("env %s: not available: this clawlearn has no client for its worker, only %s", c.Env, envMuJoCo))
	}
	return nil
}
