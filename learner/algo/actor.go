//go:build torch

package algo

import (
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/nets"
)

// Actor is the networks' policy without noise, to be evaluated while training waits. It
// sees what training sees, rounded to fp16.
type Actor struct {
	nets  *nets.Nets
	group int // of Obs
	obs   []uint16
}

// NewActor is the policy of n for Envs that offer spec.
func NewActor(n *nets.Nets, spec *rollout.Spec) *Actor {
	return &Actor{nets: n, group: spec.GroupIndex("policy")}
}

// Reset forgets nothing: history is the Env's.
func (a *Actor) Reset([]int) {}

// Act writes the actor's means.
func (a *Actor) Act(step *rollout.Step, out *rollout.Decision) error {
	seen := step.Obs[a.group]
	if len(a.obs) < len(seen) {
		a.obs = make([]uint16, len(seen))
	}
	buffer.Encode(a.obs, seen)
	return a.nets.Forward(a.obs[:len(seen)], len(out.LogProb), out.Action)
}
