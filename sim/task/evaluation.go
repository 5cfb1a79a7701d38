package task

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"math"
)

//go:embed eval_v1.json
var evalV1 []byte

// Evaluation is how policies are compared: the physics model, how many rows for how
// long, from which seed, in which world.
type Evaluation struct {
	Name    string  `json:"name"`
	Model   string  `json:"model"` // of sim/mujoco
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
	Seed    uint64  `json:"seed"`
	// SettleSeconds after each new command, the first of an episode too, are left out
	// of the tracking errors.
	SettleSeconds float64 `json:"settle_seconds"`
	World         World   `json:"world"`
}

// EvalV1 is the frozen evaluation: the sampled commands, noise, latency, pushes and
// robots of Walk, no zero commands, a new command each 5 s, 128 rows for 20 s. hash
// (the first 12 digits of the file's sha256) is shown with every score; a test pins it.
func EvalV1() (e *Evaluation, hash string) {
	e, err := DecodeEvaluation(evalV1)
	if err != nil {
		panic(err) // embedded, and decoded by a test
	}
	sum := sha256.Sum256(evalV1)
	return e, hex.EncodeToString(sum[:])[:12]
}

// DecodeEvaluation reads an evaluation's JSON, as strictly as DecodeWorld.
func DecodeEvaluation(data []byte) (*Evaluation, error) {
	e := new(Evaluation)
	if err := decode(data, e); err != nil {
		return nil, fmt.Errorf("task: evaluation: %w", err)
	}
	if err := e.Check(); err != nil {
		return nil, err
	}
	return e, nil
}

// Check refuses an evaluation that cannot be run and names the member.
func (e *Evaluation) Check() error {
	switch {
	case e.Name == "":
		return fmt.Errorf("task: evaluation: name is empty")
	case e.Model == "":
		return fmt.Errorf("task: evaluation: model is empty")
	case e.Rows < 1 || e.Rows > 1<<20:
		return fmt.Errorf("task: evaluation: rows is %d, want 1..%d", e.Rows, 1<<20)
	case !(e.Seconds > 0 && e.Seconds <= 1e6):
		return fmt.Errorf("task: evaluation: seconds is %v, want more than 0, up to 1e6", e.Seconds)
	case !(e.SettleSeconds >= 0 && e.SettleSeconds < e.Seconds):
		return fmt.Errorf("task: evaluation: settle_seconds is %v, want 0 up to seconds (%v)", e.SettleSeconds, e.Seconds)
	}
	return e.World.Check()
}

// Score gathers what rows did into the numbers by which policies are compared.
type Score struct {
	settle float64 // s
	fell   []bool  // per row, ever

	velErr, yawErr    float64 // sums over settled steps
	settled           int
	power, actionRate float64 // sums over all steps that are not masked
	steps             int
}

// NewScore begins a score of rows rows. The settleSeconds after each new command are
// left out of the tracking errors.
func NewScore(rows int, settleSeconds float64) *Score {
	return &Score{settle: settleSeconds, fell: make([]bool, rows)}
}

// Record takes one step of one row: its metrics, whether it fell (Terminated), and the
// age (s) that the command had when the step began, Commander.Age then. A masked row
// counts as fallen and nothing else. It does not allocate.
func (s *Score) Record(row int, metrics []float32, fell bool, commandAge float64) {
	if fell {
		s.fell[row] = true
	}
	if metrics[Bad] != 0 {
		s.fell[row] = true
		return
	}
	s.power += float64(metrics[Power])
	s.actionRate += float64(metrics[ActionRate])
	s.steps++
	// A sum of steps may be a rounding short of a whole second.
	if commandAge < s.settle-1e-6 {
		return
	}
	s.velErr += float64(metrics[VelErr])
	s.yawErr += float64(metrics[YawErr])
	s.settled++
}

// Result are the numbers of a score; NaN where nothing was counted.
type Result struct {
	VelErr     float64 `json:"vel_err"`     // m/s, mean of |(vx, vy) - command|
	YawErr     float64 `json:"yaw_err"`     // rad/s, mean of |wz - command|
	FallRate   float64 `json:"fall_rate"`   // share of rows that ever fell, 0..1
	PowerW     float64 `json:"power_w"`     // W, mean of the motors' |torque * speed|
	ActionRate float64 `json:"action_rate"` // rad, mean of the targets' change a step
}

// Result is the score so far.
func (s *Score) Result() Result {
	mean := func(sum float64, n int) float64 {
		if n == 0 {
			return math.NaN()
		}
		return sum / float64(n)
	}
	fell := 0
	for _, f := range s.fell {
		if f {
			fell++
		}
	}
	return Result{
		VelErr: mean(s.velErr, s.settled), YawErr: mean(s.yawErr, s.settled),
		FallRate: mean(float64(fell), len(s.fell)),
		PowerW:   mean(s.power, s.steps), ActionRate: mean(s.actionRate, s.steps),
	}
}
