//go:build torch

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"github.com/openclaw-rl/openclaw/learner/algo"
	"github.com/openclaw-rl/openclaw/learner/run"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// progressSection is the name of a checkpoint's section with a progressState; the others are the Trainer's.
const progressSection = "progress"

// progressState is what a checkpoint holds beside networks and rows.
type progressState struct {
	Samples                     int64
	Seconds, EvalS, FilesS      float64
	CollectS, PhysicsS, PolicyS float64
	LearnS                      float64
	Skipped, Restored           int
	Walked                      bool
	WalkedAt                    int64
	WalkedS                     float64
	NextEval                    float64
	Passes                      int
	Best                        *task.Result
	Curve                       []point
	Parameters                  string // sha256 of the networks': the run's record of what two machines are compared by
}

// checkpoint is the state after an iteration.
func (t *trial) checkpoint(iteration int64) (*run.Checkpoint, error) {
	sections, err := t.trainer.State()
	if err != nil {
		return nil, err
	}
	r := &t.result
	text, err := json.Marshal(progressState{Samples: r.Samples, Seconds: r.Seconds, EvalS: r.EvalS, FilesS: r.FilesS,
		CollectS: r.CollectS, PhysicsS: r.PhysicsS, PolicyS: r.PolicyS, LearnS: r.LearnS,
		Skipped: r.Skipped, Restored: r.Restored, Walked: r.Walked, WalkedAt: r.WalkedAt, WalkedS: r.WalkedS,
		NextEval: t.nextEval, Passes: t.passes, Best: r.Best, Curve: t.curve,
		Parameters: t.trainer.Nets().Hash()})
	if err != nil {
		return nil, err
	}
	c := &run.Checkpoint{Iteration: iteration, Sections: []run.Section{{Name: progressSection, Data: text}}}
	for _, s := range sections {
		c.Sections = append(c.Sections, run.Section{Name: s.Name, Data: s.Data})
	}
	return c, nil
}

// save writes a checkpoint to go on from.
func (t *trial) save(iteration int64) error {
	c, err := t.checkpoint(iteration)
	if err != nil {
		return err
	}
	t.saved = iteration
	return t.folder.Save(c)
}

// take makes the Trainer go on from a checkpoint and gives what else is in it.
func (t *trial) take(c *run.Checkpoint) (p progressState, err error) {
	text, err := c.Section(progressSection)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("%s: checkpoint of iteration %d: progress: %w", t.folder.Dir, c.Iteration, err)
	}
	if err := t.trainer.Restore(sections(c)); err != nil {
		return p, fmt.Errorf("%s: checkpoint of iteration %d: %w", t.folder.Dir, c.Iteration, err)
	}
	return p, nil
}

// sections are a checkpoint's, for a Trainer.
func sections(c *run.Checkpoint) (all []algo.Section) {
	for _, s := range c.Sections {
		all = append(all, algo.Section{Name: s.Name, Data: s.Data})
	}
	return all
}

// restore goes on from the folder's newest whole checkpoint; a run that has none, new or killed before its first, begins.
func (t *trial) restore() error {
	for _, s := range t.folder.Skipped {
		t.screen.line("skipped %s: %v", filepath.Base(s.Path), s.Why)
	}
	c, err := t.folder.Latest()
	if errors.Is(err, run.ErrNoCheckpoint) {
		return nil
	}
	if err != nil {
		return err
	}
	p, err := t.take(c)
	if err != nil {
		return err
	}
	r := &t.result
	t.saved, t.before = c.Iteration, p.Seconds
	r.Iterations, r.Samples, r.Seconds, r.EvalS, r.FilesS = c.Iteration, p.Samples, p.Seconds, p.EvalS, p.FilesS
	r.CollectS, r.PhysicsS, r.PolicyS, r.LearnS = p.CollectS, p.PhysicsS, p.PolicyS, p.LearnS
	r.Skipped, r.Restored, r.Walked, r.WalkedAt, r.WalkedS, r.Best = p.Skipped, p.Restored, p.Walked, p.WalkedAt, p.WalkedS, p.Best
	r.StepsPerS = float64(p.Samples) / p.Seconds
	if path := t.folder.Path(policyFile); exists(path) {
		r.Policy = path
	}
	t.nextEval, t.passes, t.curve = p.NextEval, p.Passes, p.Curve
	t.screen.line("going on from iteration %d, after %.1f s of training", c.Iteration, p.Seconds)
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
