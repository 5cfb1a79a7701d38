//go:build torch

package algo

import (
	"fmt"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
)

// commandSize is that of the observation term "command".
const commandSize = 3

// commandAt is where group shows the newest command, which must be alone: without history.
func commandAt(group *rollout.Group) (int, error) {
	for i, term := range group.Terms {
		if term.Name == "command" {
			if term.History != 1 || term.Size != commandSize {
				return 0, fmt.Errorf("algo: ppo.calm: term command of group %s has %d frames of %d numbers, want 1 of %d", group.Name, term.History, term.Size, commandSize)
			}
			return newestStart(group, i), nil
		}
	}
	return 0, fmt.Errorf("algo: ppo.calm: group %s does not show the command", group.Name)
}

// calm says for each transition which one before it the actor's mean is to be near: that of the
// same row a step ago, where both were commanded nothing and belong to one episode; -1: none. What
// a robot that stands sees is noise but for pushes, and a reward for standing still would mostly
// judge the noise of its actions.
func (t *Trainer) calm(b *buffer.Buffer) []int32 {
	still := func(i int) bool {
		for _, half := range b.CriticObs[i*b.Critic+t.command:][:commandSize] {
			if half&0x7fff != 0 { // 0 and -0
				return false
			}
		}
		return true
	}
	for i := range t.near {
		before := i - b.Rows
		t.near[i] = -1
		if before >= 0 && !b.Terminated[before] && !b.TimedOut[before] && b.Valid[before] && still(i) && still(before) {
			t.near[i] = int32(before)
		}
	}
	return t.near
}
