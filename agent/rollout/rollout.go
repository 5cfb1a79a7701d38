package rollout

import (
	"context"
	"errors"
	"fmt"
)

// Env is a batch of N robots, real or simulated, advanced one policy period per
// Step. A Go1 on the floor is an Env with N = 1 whose Step returns when the next
// period begins. An Env is driven by one goroutine at a time.
type Env interface {
	// Spec is fixed for the life of the Env.
	Spec() Spec
	// Reset begins new episodes in rows (nil: all) and fills out for them; the
	// other rows are not touched: out, the Step they were last shown in, goes on
	// showing of them what it showed, ends, reward and Final included. On hardware it waits until a person
	// has armed the robot and asked for the policy, or ctx ends.
	Reset(ctx context.Context, rows []int, out *Step) error
	// Step executes action, (N, ActDim) row-major in policy joint order, for
	// one policy period and fills out. A non-finite action is refused with
	// ErrAction before anything moves. Before the first Reset it is refused
	// with ErrNotReset.
	Step(ctx context.Context, action []float32, out *Step) error
	// Close releases the Env; on hardware it damps first. Calling it again is
	// harmless.
	Close() error
}

// Errors that every Env uses.
var (
	ErrAction   = errors.New("rollout: action refused")
	ErrNotReset = errors.New("rollout: Step before Reset")
	ErrClosed   = errors.New("rollout: Env is closed")
)

// CheckAction refuses an action of the wrong length or with a non-finite
// element; the error names row and joint and unwraps to ErrAction.
func CheckAction(action []float32, rows int, joints []string) error {
	if len(action) != rows*len(joints) {
		return fmt.Errorf("%w: %d numbers, want %d rows x %d joints", ErrAction, len(action), rows, len(joints))
	}
	for i, a := range action {
		if a-a != 0 {
			return fmt.Errorf("%w: row %d, joint %s is %v", ErrAction, i/len(joints), joints[i%len(joints)], a)
		}
	}
	return nil
}

// Step is what an Env shows after Reset or Step. It is owned and reused by the
// caller, so that stepping allocates nothing. All slices are row-major.
type Step struct {
	// FirstRow is the number of this Env's row 0 among all rows of a Run: a
	// policy that keeps state per row counts from here.
	FirstRow int
	// Obs holds one slice per group of Spec, (N, group size), after scale and clip.
	Obs [][]float32
	// Final holds the same groups; a row is valid where its episode ended: the
	// true last observation, with the old episode's history, that a value
	// function bootstraps from.
	Final [][]float32
	// Reward (N) is zero on hardware unless asked for.
	Reward []float32
	// Terminated and TimedOut (N): the row fell, or only the clock ended it.
	Terminated, TimedOut []bool
	// Executed (N, ActDim) is the action that reached the motors after safety.
	Executed []float32
	// Metrics (N, K) in the order of Spec.Metrics.
	Metrics []float32
}

// NewStep allocates a Step with the shapes of s.
func NewStep(s Spec) *Step {
	n, a := s.Rows, s.ActDim()
	st := &Step{
		Obs:        make([][]float32, len(s.Groups)),
		Final:      make([][]float32, len(s.Groups)),
		Reward:     make([]float32, n),
		Terminated: make([]bool, n),
		TimedOut:   make([]bool, n),
		Executed:   make([]float32, n*a),
		Metrics:    make([]float32, n*len(s.Metrics)),
	}
	for g := range s.Groups {
		st.Obs[g] = make([]float32, n*s.Groups[g].Size())
		st.Final[g] = make([]float32, n*s.Groups[g].Size())
	}
	return st
}

// Ended says whether row's episode ended in this Step.
func (s *Step) Ended(row int) bool { return s.Terminated[row] || s.TimedOut[row] }

// Policy acts on a batch. An OPD mixer is a Policy made of two Policies. A
// Policy that knows what it was trained on also has a method Spec() Spec, which
// Run compares with the Env's before the first step.
type Policy interface {
	// Reset makes the policy forget history, clock and recurrent state of rows,
	// counted over all Envs of a Run (nil: all).
	Reset(rows []int)
	// Act fills out for every row of step. A non-finite output is an error.
	Act(step *Step, out *Decision) error
}

// Decision is what a Policy decided for N rows; owned and reused by the caller.
type Decision struct {
	// Action (N, ActDim) is to be executed, in policy joint order, before scale.
	Action []float32
	// Label (N, ActDim) is the teacher's action; Labelled says whether it is set.
	Label    []float32
	Labelled bool
	// LogProb (N) is the student's log-probability of Action.
	LogProb []float32
	// Acted (N) says who drove each row.
	Acted []Actor
}

// Actor is who chose an executed action.
type Actor uint8

// Actors.
const (
	Student Actor = iota
	Teacher
)

// NewDecision allocates a Decision with the shapes of s.
func NewDecision(s Spec) *Decision {
	n, a := s.Rows, s.ActDim()
	return &Decision{
		Action:  make([]float32, n*a),
		Label:   make([]float32, n*a),
		LogProb: make([]float32, n),
		Acted:   make([]Actor, n),
	}
}
