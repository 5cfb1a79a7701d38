package algo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// contracted is a policy that knows what it was trained on.
type contracted interface {
	rollout.Policy
	Spec() rollout.Spec
}

// foreign is a policy that somebody else trained, as a teacher: it sees one group of our
// Env's observations as the group "policy" of its own contract, and its actions come in
// ours. Where its action map is another (rad per unit, clip) both actions and the term that
// shows the last action are translated by way of the joint targets they stand for.
type foreign struct {
	policy   contracted
	from     int // group of the Env's Obs
	view     rollout.Step
	decision *rollout.Decision
	in       int // group of its own

	actions    int // numbers of an action
	dim        int // of an observation
	obs        []float32
	shown      []int   // where each frame of the term "actions" begins; nil: nothing to translate
	scale      float32 // of that term
	termClip   *[2]float32
	toTeacher  []float32 // its units per one of ours
	ours, its  *[2]float32
	translates bool
}

// newForeign checks p's contract against what env shows in group, by name.
func newForeign(env *rollout.Spec, group string, p rollout.Policy) (*foreign, error) {
	known, ok := p.(contracted)
	if !ok {
		return nil, errors.New("algo: teacher: it has no contract to be checked by")
	}
	trained := known.Spec()
	if trained.GroupIndex("policy") < 0 {
		return nil, errors.New("algo: teacher: its contract has no group policy")
	}
	// Its action map may differ: what it means in radians can be said in ours.
	sameMap := trained
	sameMap.Action = env.Action
	if err := sameMeaning(env, group, &sameMap, "policy"); err != nil {
		return nil, err
	}
	rows := env.Rows
	f := &foreign{policy: known, from: env.GroupIndex(group), in: trained.GroupIndex("policy"), actions: env.ActDim(),
		decision: rollout.NewDecision(*env), ours: env.Action.Clip, its: trained.Action.Clip}
	g := &env.Groups[f.from]
	f.dim = g.Size()
	f.view.Obs = make([][]float32, len(trained.Groups))
	f.translates = !slices.Equal(env.Action.Scale, trained.Action.Scale) || !sameClip(f.ours, f.its)
	if !f.translates {
		return f, nil
	}
	for i, s := range trained.Action.Scale {
		if s == 0 || env.Action.Scale[i] == 0 {
			return nil, fmt.Errorf("algo: teacher: action.scale of %s is %v here, %v in the policy: want neither 0", env.Joints[i], env.Action.Scale[i], s)
		}
		f.toTeacher = append(f.toTeacher, env.Action.Scale[i]/s)
	}
	for i, t := range g.Terms {
		if t.Name == "actions" && t.Scale != 0 && t.Size == f.actions {
			for frame := range t.History {
				f.shown = append(f.shown, frameStart(g, i, frame))
			}
			f.scale, f.termClip = t.Scale, t.Clip
			f.obs = make([]float32, rows*f.dim)
		}
	}
	return f, nil
}

// sameMeaning compares what env shows in group with what a policy trained on spec read in the
// group named its, term by term, and what actions mean on both sides; the error names the
// first difference. The gait clock matters only to those who see it.
func sameMeaning(env *rollout.Spec, group string, spec *rollout.Spec, its string) error {
	shown, read := env.Group(group), spec.Group(its)
	if shown == nil {
		var names []string
		for i := range env.Groups {
			names = append(names, env.Groups[i].Name)
		}
		return fmt.Errorf("algo: teacher: opd.group is %q, this Env offers %s", group, strings.Join(names, ", "))
	}
	if read == nil {
		return fmt.Errorf("algo: teacher: it was trained on no group %s", its)
	}
	have, want := *env, *spec
	theirs := *read
	theirs.Name = group
	have.Groups, want.Groups = []rollout.Group{*shown}, []rollout.Group{theirs}
	if !slices.ContainsFunc(read.Terms, func(t rollout.Term) bool { return t.Name == "clock" }) {
		want.Clock = have.Clock
	}
	if err := have.Fits(&want); err != nil {
		return fmt.Errorf("algo: teacher: %w", err)
	}
	return nil
}

func sameClip(a, b *[2]float32) bool { return a == b || a != nil && b != nil && *a == *b }

func clip(x float32, to *[2]float32) float32 {
	if to == nil {
		return x
	}
	return min(max(x, to[0]), to[1])
}

// frameStart is where a frame of a term begins in a row of g, frames counted as they lie.
func frameStart(g *rollout.Group, term, frame int) int {
	before, all := 0, 0
	for i := range g.Terms {
		size := g.Terms[i].Size
		if g.Layout == rollout.ByTerm {
			size *= g.Terms[i].History
		}
		if i < term {
			before += size
		}
		all += size
	}
	if g.Layout == rollout.ByTerm {
		return before + frame*g.Terms[term].Size
	}
	return frame*all + before
}

// newestStart is where the newest frame of a term begins.
func newestStart(g *rollout.Group, term int) int {
	newest := g.Terms[term].History - 1
	if g.Terms[term].Order == rollout.NewestFirst {
		newest = 0
	}
	return frameStart(g, term, newest)
}

// label asks the policy.
func (f *foreign) label(step *rollout.Step, action []float32) error {
	obs := step.Obs[f.from]
	if f.translates && f.shown != nil {
		copy(f.obs, obs)
		obs = f.obs[:len(obs)]
		for row := range len(obs) / f.dim {
			for _, at := range f.shown {
				last := obs[row*f.dim+at:][:f.actions]
				for i, x := range last {
					meant := clip(clip(x/f.scale, f.ours)*f.toTeacher[i], f.its)
					last[i] = clip(meant*f.scale, f.termClip)
				}
			}
		}
	}
	f.view.Obs[f.in], f.view.FirstRow = obs, step.FirstRow
	if err := f.policy.Act(&f.view, f.decision); err != nil {
		return fmt.Errorf("algo: teacher: %w", err)
	}
	copy(action, f.decision.Action)
	if f.translates {
		for i, x := range action {
			action[i] = clip(clip(x, f.its)/f.toTeacher[i%f.actions], f.ours)
		}
	}
	return nil
}
