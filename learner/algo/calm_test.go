//go:build torch

package algo

import (
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// Near is the same row's step before: not across episodes, not where anything was commanded in either, not behind bad physics.
func TestCalm(t *testing.T) {
	b, err := buffer.New(buffer.Shape{Steps: 4, Rows: 3, Policy: 1, Critic: 5, Act: 1})
	if err != nil {
		t.Fatal(err)
	}
	tr := Trainer{command: 1, near: make([]int32, 12)}
	for i := range 12 {
		b.Valid[i] = true
		copy(b.CriticObs[i*5:], []uint16{0x3c00, 0, 0x8000, 0, 0x3c00}) // 1, the command 0 -0 0, 1
	}
	command := func(step, row, axis int) { b.CriticObs[(step*3+row)*5+1+axis] = 1 } // the least there is
	command(1, 0, 2)
	b.TimedOut[1*3+1], b.Terminated[2*3+1] = true, true
	b.Valid[0*3+2] = false
	want := []int32{-1, -1, -1, -1, 1, -1, -1, -1, 5, 6, -1, 8}
	if got := tr.calm(b); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Where the command stands is read off the group's terms, and a group that hides it cannot be calmed.
func TestCommandIsFound(t *testing.T) {
	spec := task.WalkSpec()
	if at, err := commandAt(spec.Group("critic")); at != 42 || err != nil {
		t.Errorf("%d, %v", at, err)
	}
	long := *spec.Group("critic")
	long.Terms = slices.Clone(long.Terms)
	for i := range long.Terms {
		long.Terms[i].History = 2
	}
	cfg := cartConfig()
	cfg.PPO.Calm, cfg.PPO.CalmEnd = 1, 1
	_, none := New(cfg, newCarts(cartRows, cartEpisode, 1), Options{})
	_, twice := commandAt(&long)
	for says, err := range map[string]error{
		"ppo.calm: group critic does not show the command":                              none,
		"ppo.calm: term command of group critic has 2 frames of 3 numbers, want 1 of 3": twice,
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
	if _, err := commandAt(&rollout.Group{Name: "empty"}); err == nil {
		t.Error("an empty group shows a command")
	}
}
