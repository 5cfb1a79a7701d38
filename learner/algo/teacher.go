//go:build torch

package algo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/nets"
)

// teacher says what the student should have done. It has no noise and no memory of rows.
type teacher interface {
	// label writes what it would do in every row of step, (rows, Act).
	label(step *rollout.Step, action []float32) error
	// group is what it reads of Step.Obs.
	group() int
	// std is the deviation of its own actions, (Act), where it has one.
	std() []float32
	// follow lets it move once an iteration is over, the i-th that did not clone; 0 is the
	// moment before the first.
	follow(student *nets.Nets, i int64) error
	// appendState and restore are what a checkpoint keeps of it.
	appendState(b []byte) ([]byte, error)
	restore(b []byte) error
	close()
}

// fixed is what teachers that never move have in common.
type fixed struct{ from int }

func (f fixed) group() int                         { return f.from }
func (fixed) std() []float32                       { return nil }
func (fixed) follow(*nets.Nets, int64) error       { return nil }
func (fixed) appendState(b []byte) ([]byte, error) { return b, nil }
func (fixed) close()                               {}
func (fixed) restore(b []byte) error {
	if len(b) > 0 {
		return fmt.Errorf("algo: state: section teacher has %d bytes, this teacher keeps none", len(b))
	}
	return nil
}

// policyTeacher is a teacher made of what writes actions alone: a Gait or a foreign policy.
type policyTeacher struct {
	fixed
	act func(step *rollout.Step, action []float32) error
}

func (p *policyTeacher) label(step *rollout.Step, action []float32) error { return p.act(step, action) }

func newGaitTeacher(spec *rollout.Spec) (*policyTeacher, error) {
	g, err := NewGait(spec)
	if err != nil {
		return nil, err
	}
	var d rollout.Decision
	return &policyTeacher{fixed{g.group}, func(step *rollout.Step, action []float32) error {
		d.Action = action
		return g.Act(step, &d)
	}}, nil
}

// netTeacher is an actor like the student's: the student of before, or another run's.
type netTeacher struct {
	nets *nets.Nets
	from int
	dim  int
	obs  []uint16
	dev  []float32
	// every is how often a snapshot is taken, in iterations; keep is what an average keeps
	// of itself. Neither: it does not move, and a checkpoint holds its hash alone.
	every int64
	keep  float32
}

func newNetTeacher(n *nets.Nets, spec *rollout.Spec, group int) *netTeacher {
	dim := spec.Groups[group].Size()
	return &netTeacher{nets: n, from: group, dim: dim, obs: make([]uint16, spec.Rows*dim), dev: make([]float32, spec.ActDim())}
}

func (t *netTeacher) group() int  { return t.from }
func (t *netTeacher) moves() bool { return t.every > 0 || t.keep > 0 }
func (t *netTeacher) close()      { t.nets.Close() }

func (t *netTeacher) label(step *rollout.Step, action []float32) error {
	seen := step.Obs[t.from]
	buffer.Encode(t.obs, seen)
	return t.nets.Forward(t.obs, len(seen)/t.dim, action)
}

func (t *netTeacher) std() []float32 {
	t.nets.Std(t.dev)
	return t.dev
}

func (t *netTeacher) follow(student *nets.Nets, i int64) error {
	switch {
	case i == 0 && t.moves(), t.every > 0 && i%t.every == 0:
		return t.nets.Blend(student, 0)
	case t.keep > 0:
		return t.nets.Blend(student, t.keep)
	}
	return nil
}

func (t *netTeacher) appendState(b []byte) ([]byte, error) {
	if !t.moves() {
		return append(b, t.nets.Hash()...), nil
	}
	var state bytes.Buffer
	err := t.nets.Save(&state)
	return append(b, state.Bytes()...), err
}

func (t *netTeacher) restore(b []byte) error {
	if t.moves() {
		return t.nets.Load(bytes.NewReader(b))
	}
	if hash := t.nets.Hash(); string(b) != hash {
		return fmt.Errorf("algo: state: its teacher had parameters of sha256 %.64s, this one has %s", b, hash)
	}
	return nil
}

// savedActor is a checkpoint's section "actor": what its networks are, and what the actor's
// numbers meant.
type savedActor struct {
	Spec   rollout.Spec `json:"spec"`
	Group  string       `json:"group"` // that the actor reads
	Critic int          `json:"critic"`
	Net    savedNet     `json:"net"`
}

type savedNet struct {
	Actor      []int   `json:"actor"`
	Critic     []int   `json:"critic"`
	Normaliser bool    `json:"normaliser"`
	InitStd    float32 `json:"init_std"`
	MinStd     float32 `json:"min_std"`
	MaxStd     float32 `json:"max_std"`

	Encoder *nets.Encoder `json:"encoder,omitempty"`
}

// newSavedTeacher is the actor of another run's checkpoint, reading group of env.
func newSavedTeacher(env *rollout.Spec, group string, sections []Section, workers int) (*netTeacher, error) {
	text, err := section(sections, "actor")
	if err != nil {
		return nil, err
	}
	networks, err := section(sections, averageSection) // what was evaluated
	if err != nil {
		networks, err = section(sections, "nets")
	}
	if err != nil {
		return nil, err
	}
	var a savedActor
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, fmt.Errorf("algo: teacher: section actor: %w", err)
	}
	if err := a.Spec.Check(); err != nil {
		return nil, fmt.Errorf("algo: teacher: section actor: %w", err)
	}
	if err := sameMeaning(env, group, &a.Spec, a.Group); err != nil {
		return nil, err
	}
	if err := errors.Join(checkWidths("net.actor", a.Net.Actor), checkWidths("net.critic", a.Net.Critic), checkWidths("critic", []int{a.Critic})); err != nil {
		return nil, fmt.Errorf("algo: teacher: section actor: %w", err)
	}
	if e := a.Net.Encoder; e != nil {
		sizes := []int{e.Latent}
		for _, c := range e.Convs {
			sizes = append(sizes, c.Channels)
		}
		if err := checkWidths("net.encoder", sizes); err != nil {
			return nil, fmt.Errorf("algo: teacher: section actor: %w", err)
		}
	}
	at := env.GroupIndex(group)
	shape := nets.Config{Policy: env.Groups[at].Size(), Critic: a.Critic, Act: env.ActDim(), ActorHidden: a.Net.Actor, CriticHidden: a.Net.Critic,
		InitStd: a.Net.InitStd, MinStd: a.Net.MinStd, MaxStd: a.Net.MaxStd, Normaliser: a.Net.Normaliser, Encoder: a.Net.Encoder, Workers: workers}
	// Nothing is made that is larger than what there is to fill it with.
	parameters, err := shape.Parameters()
	if err != nil {
		return nil, fmt.Errorf("algo: teacher: section actor: %w", err)
	}
	if parameters > len(networks)/4 {
		return nil, fmt.Errorf("algo: teacher: section nets has %d bytes, want %d parameters of 4 bytes", len(networks), parameters)
	}
	n, err := nets.New(shape)
	if err != nil {
		return nil, fmt.Errorf("algo: teacher: %w", err)
	}
	if err := n.Load(bytes.NewReader(networks)); err != nil {
		n.Close()
		return nil, fmt.Errorf("algo: teacher: %w", err)
	}
	return newNetTeacher(n, env, at), nil
}

// newTeacher makes the teacher of the configuration; nil: none.
func (t *Trainer) newTeacher() (teacher, error) {
	o, spec := &t.cfg.OPD, &t.spec
	opened := o.Teacher == teacherFile || o.Teacher == teacherPrivileged
	switch {
	case !opened && (t.opts.Teacher != nil || t.opts.TeacherState != nil):
		return nil, fmt.Errorf("algo: Options name a teacher, but opd.teacher is %s", o.Teacher)
	case o.Teacher == teacherFile && (t.opts.Teacher == nil || t.opts.TeacherState != nil):
		return nil, errors.New("algo: opd.teacher is file: want its policy in Options.Teacher alone")
	case o.Teacher == teacherPrivileged && (t.opts.Teacher == nil) == (t.opts.TeacherState == nil):
		return nil, errors.New("algo: opd.teacher is privileged: want one of Options.Teacher and Options.TeacherState")
	}
	switch {
	case t.opts.Teacher != nil:
		f, err := newForeign(spec, o.group(), t.opts.Teacher)
		if err != nil {
			return nil, err
		}
		return &policyTeacher{fixed{f.from}, f.label}, nil
	case t.opts.TeacherState != nil:
		return orNil(newSavedTeacher(spec, o.group(), t.opts.TeacherState, max(1, t.opts.Workers)))
	case o.Teacher == teacherGait:
		return orNil(newGaitTeacher(spec))
	case o.Teacher == teacherNone:
		return nil, nil
	}
	n, err := nets.New(t.shape)
	if err != nil {
		return nil, err
	}
	self := newNetTeacher(n, spec, t.policy)
	if o.Teacher == teacherSnapshot {
		self.every = int64(o.RefreshIterations)
	} else {
		self.keep = float32(o.EMADecay)
	}
	return self, nil
}

// orNil keeps a nil pointer from becoming a teacher.
func orNil[T teacher](t T, err error) (teacher, error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}
