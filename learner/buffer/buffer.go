package buffer

import (
	"fmt"
	"math"
)

// Shape is the size of a Buffer. A step of a row is one transition; an observation or
// action has as many numbers as its dim here says.
type Shape struct {
	Steps  int // policy periods in one iteration (the horizon)
	Rows   int // robots stepped side by side
	Policy int // numbers in the policy's observation
	Critic int // numbers in the critic's observation
	Act    int // numbers in an action
}

// Buffer is what one iteration of collecting brought, and what learning reads. Every
// slice is row-major and indexed by [step, row]: transition i is Index(step, row), its
// vectors begin at i*dim. Whoever collects writes everything above Advantage, for every
// transition; Returns writes Advantage and Target. A Buffer is made once and used for
// every iteration; it is used by one goroutine at a time, but several may write different
// rows or read.
type Buffer struct {
	Shape

	// PolicyObs (Steps, Rows, Policy) and CriticObs (Steps, Rows, Critic) are what was
	// seen before acting, Action (Steps, Rows, Act) is what was executed, Label (Steps,
	// Rows, Act) what the teacher would have done: bits of IEEE 754 binary16, from Encode
	// of what Round had been applied to before it was acted on.
	PolicyObs, CriticObs, Action, Label []uint16

	// Mean (Steps, Rows, Act) is the mean of the policy that collected, for the exact
	// divergence of Gaussians.
	Mean []float32
	// LogProb (Steps, Rows) is the student's log-probability of Action, whoever acted.
	LogProb []float32
	// Value (Steps, Rows) is the critic's V(s_t). Reward (Steps, Rows) is r_t.
	Value, Reward []float32
	// FinalValue (Steps, Rows) is V of the true last observation of an episode; read
	// only where TimedOut.
	FinalValue []float32
	// LastValue (Rows) is V(s_T), of the observation after the last step.
	LastValue []float32
	// Rho (Steps, Rows) is min(1, pi_student / mu), mu the policy that drove the step: 1
	// for a student's own step, 0 for a deterministic teacher's.
	Rho []float32

	// Terminated and TimedOut (Steps, Rows): the step ended its episode by a fall, or
	// only because of the clock. Where both are set the fall wins.
	Terminated, TimedOut []bool
	// Valid (Steps, Rows) is false where physics went bad: the transition is not learnt
	// from, and nothing is carried back across it.
	Valid []bool
	// Labelled (Steps, Rows): Label is set. Teacher (Steps, Rows): the teacher acted.
	Labelled, Teacher []bool

	// Advantage (Steps, Rows) is A_t, Target (Steps, Rows) what V(s_t) is to become; both
	// are 0 where not Valid.
	Advantage, Target []float32

	carry []float64 // Rows: X_{t+1} while Returns walks back
	order []int32   // what Minibatches permutes
}

// New makes a Buffer of shape s, all zero: no transition is valid before it is written.
// A size below 1 is refused by name, and so are more transitions than an int32 counts.
func New(s Shape) (*Buffer, error) {
	for _, f := range []struct {
		name string
		size int
	}{{"steps", s.Steps}, {"rows", s.Rows}, {"policy", s.Policy}, {"critic", s.Critic}, {"act", s.Act}} {
		if f.size < 1 {
			return nil, fmt.Errorf("buffer: %s is %d, want at least 1", f.name, f.size)
		}
	}
	if s.Steps > math.MaxInt32/s.Rows {
		return nil, fmt.Errorf("buffer: %d steps x %d rows: want at most %d transitions", s.Steps, s.Rows, math.MaxInt32)
	}
	n := s.Steps * s.Rows
	return &Buffer{
		Shape:     s,
		PolicyObs: make([]uint16, n*s.Policy), CriticObs: make([]uint16, n*s.Critic),
		Action: make([]uint16, n*s.Act), Label: make([]uint16, n*s.Act),
		Mean:    make([]float32, n*s.Act),
		LogProb: make([]float32, n), Value: make([]float32, n), Reward: make([]float32, n),
		FinalValue: make([]float32, n), LastValue: make([]float32, s.Rows), Rho: make([]float32, n),
		Terminated: make([]bool, n), TimedOut: make([]bool, n), Valid: make([]bool, n),
		Labelled: make([]bool, n), Teacher: make([]bool, n),
		Advantage: make([]float32, n), Target: make([]float32, n),
		carry: make([]float64, s.Rows), order: make([]int32, 0, n),
	}, nil
}

// Index is the number of the transition of row at step.
func (b *Buffer) Index(step, row int) int { return step*b.Rows + row }
