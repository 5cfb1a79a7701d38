//go:build torch

package algo

import (
	"errors"
	"fmt"

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

// encoder is the one that n describes, for an actor that reads group policy of spec and a
// critic that reads group critic; nil: none. A group that shows another history, or none,
// and a critic that is not shown the velocity are refused.
func (n *Net) encoder(spec *rollout.Spec, policy, critic int) (*nets.Encoder, error) {
	if n.Encoder == encoderNone {
		return nil, nil
	}
	g := &spec.Groups[policy]
	for _, t := range g.Terms {
		if g.Layout != rollout.ByFrame || t.History != n.Frames || t.Order == rollout.NewestFirst {
			return nil, fmt.Errorf("algo: net.encoder is %s, but the group %s shows %d frames of %s (layout %s, order %q): want %d, frame by frame, the newest last",
				n.Encoder, g.Name, t.History, t.Name, g.Layout, t.Order, n.Frames)
		}
	}
	e := &nets.Encoder{Frames: n.Frames, Latent: n.Latent, Velocity: -1}
	for i, channels := range n.Channels {
		e.Convs = append(e.Convs, nets.Conv{Channels: channels, Kernel: n.Kernels[i], Stride: n.Strides[i]})
	}
	shown := &spec.Groups[critic]
	for i, t := range shown.Terms {
		if t.Name == "base_lin_vel" && t.Size == nets.VelocityDim {
			e.Velocity = newestStart(shown, i)
		}
	}
	if e.Velocity < 0 {
		return nil, errors.New("algo: net.encoder estimates the velocity, but the group critic does not show the term base_lin_vel")
	}
	return e, nil
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
