//go:build torch

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/algo"
	"github.com/openclaw-rl/openclaw/learner/run"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/session"
)

// teacherGroup is the group of observations that the rows show to a teacher whose contract wants others than they have.
const teacherGroup = "teacher"

// teacher is what a configuration that names a teacher's file needs: the policy, or the best checkpoint of its run. The zero one is none.
type teacher struct {
	policy *session.Policy
	state  []algo.Section
	sha256 string // of the policy's file, if there is one
}

func (t *teacher) close() error {
	if t.policy == nil {
		return nil
	}
	return t.policy.Close()
}

// openTeacher reads the teacher that cfg names. Where spec does not show what it reads, a group is added to spec and named in cfg: of true
// numbers, without noise.
func openTeacher(cfg *Config, spec *rollout.Spec) (t teacher, err error) {
	o := &cfg.Algo.OPD
	if o.File == "" {
		return t, nil
	}
	info, err := os.Stat(o.File)
	if err != nil {
		return t, fmt.Errorf("opd.file: %w", err)
	}
	if info.IsDir() {
		if file, err := contract.Load(filepath.Join(o.File, policyFile)); err == nil {
			t.sha256 = file.SHA256
		}
		t.state, err = bestOf(o.File)
		return t, err
	}
	file, err := contract.Load(o.File)
	if err != nil {
		return t, fmt.Errorf("opd.file: %w", err)
	}
	if t.policy, err = session.Open(file, session.Options{Rows: cfg.Rows}); err != nil {
		return t, fmt.Errorf("opd.file: %w", err)
	}
	t.sha256 = file.SHA256
	if o.Group != "" {
		return t, nil
	}
	wants := *file.Contract.Group("policy")
	for _, g := range spec.Groups {
		if g.Layout == wants.Layout && reflect.DeepEqual(g.Terms, wants.Terms) {
			o.Group = g.Name
			return t, nil
		}
	}
	wants.Name, wants.Terms = teacherGroup, slices.Clone(wants.Terms)
	spec.Groups = append(spec.Groups, wants)
	o.Group = teacherGroup
	return t, nil
}

// bestOf is the best checkpoint of another run.
func bestOf(dir string) (all []algo.Section, err error) {
	f, err := run.Open(dir, run.Meta{})
	if err != nil {
		return nil, fmt.Errorf("opd.file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	c, err := f.Best()
	if err != nil {
		return nil, fmt.Errorf("opd.file: %w", err)
	}
	return sections(c), nil
}
