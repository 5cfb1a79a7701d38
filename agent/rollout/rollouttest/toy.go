package rollouttest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// Toy is the smallest Env: each row is a cart on a line that an action pushes; it
// "falls" when it leaves -1..1. Read it to see the shape of an Env; pass it to
// code that wants any Env.
type Toy struct {
	spec    rollout.Spec
	rows    []toyRow
	all     []int // every row
	episode int   // steps until a row times out; 0: never
	ready   bool
	closed  bool
}

// toyRow is one cart.
type toyRow struct {
	random     *rand.Rand
	x, v, last float32
	steps      int
	history    []float32 // frames of x, v, last; oldest first
}

// toyFrame is the number of observed numbers at one moment.
const toyFrame = 3

// ToySpec is a contract of one joint whose observation keeps history frames.
func ToySpec(history int) rollout.Spec {
	term := func(name string) rollout.Term {
		return rollout.Term{Name: name, Size: 1, Scale: 1, History: history, Sensed: true}
	}
	return rollout.Spec{
		Robot: "toy", Joints: []string{"push"}, Home: []float32{0},
		Action: rollout.Action{Scale: []float32{0.1}}, Kp: []float32{1}, Kd: []float32{1},
		PolicyPeriodNs: 20e6, ControlPeriodNs: 2e6,
		Groups: []rollout.Group{{Name: "policy", Layout: rollout.ByFrame,
			Terms: []rollout.Term{term("x"), term("v"), term("actions")}}},
	}
}

// NewToy opens rows carts whose episodes last episode steps (0: until they fall).
func NewToy(rows, history, episode int, seed uint64) *Toy {
	e := &Toy{spec: ToySpec(history), rows: make([]toyRow, rows), all: make([]int, rows), episode: episode}
	e.spec.Rows, e.spec.Metrics = rows, []string{"x"}
	e.spec.Deterministic, e.spec.AutoReset = true, true
	for i := range e.rows {
		e.all[i] = i
		e.rows[i].random = rand.New(rand.NewPCG(seed, uint64(i)))
		e.rows[i].history = make([]float32, history*toyFrame)
	}
	return e
}

// Spec says what the carts show and take.
func (e *Toy) Spec() rollout.Spec { return e.spec }

// Reset begins new episodes.
func (e *Toy) Reset(ctx context.Context, rows []int, out *rollout.Step) error {
	if e.closed {
		return rollout.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, row := range rows {
		if row < 0 || row >= len(e.rows) {
			return fmt.Errorf("toy: row %d of %d", row, len(e.rows))
		}
	}
	if rows == nil {
		rows, e.ready = e.all, true
	}
	for _, i := range rows {
		e.begin(&e.rows[i])
		out.Terminated[i], out.TimedOut[i], out.Reward[i], out.Executed[i] = false, false, 0, 0
		e.show(i, out)
	}
	return nil
}

// Step pushes the carts.
func (e *Toy) Step(ctx context.Context, action []float32, out *rollout.Step) error {
	switch {
	case e.closed:
		return rollout.ErrClosed
	case !e.ready:
		return rollout.ErrNotReset
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := rollout.CheckAction(action, len(e.rows), e.spec.Joints); err != nil {
		return err
	}
	for i := range e.rows {
		r := &e.rows[i]
		r.v += 0.1 * action[i]
		r.x += 0.1 * r.v
		r.last = action[i]
		r.steps++
		out.Executed[i] = action[i]
		out.Terminated[i] = r.x < -1 || r.x > 1
		out.TimedOut[i] = !out.Terminated[i] && r.steps == e.episode // a fall wins
		out.Reward[i] = 1 - r.x*r.x
		r.observe()
		if out.Ended(i) {
			n := len(r.history)
			copy(out.Final[0][i*n:(i+1)*n], r.history) // the old episode's last
			e.begin(r)
		}
		e.show(i, out)
	}
	return nil
}

// begin starts an episode: the first frame fills the history.
func (e *Toy) begin(r *toyRow) {
	r.x, r.v, r.last, r.steps = 0.2*r.random.Float32()-0.1, 0, 0, 0
	for range len(r.history) / toyFrame {
		r.observe()
	}
}

// observe takes the newest frame into the history.
func (r *toyRow) observe() {
	copy(r.history, r.history[toyFrame:])
	copy(r.history[len(r.history)-toyFrame:], []float32{r.x, r.v, r.last})
}

// show writes what a row's observer sees now.
func (e *Toy) show(i int, out *rollout.Step) {
	r := &e.rows[i]
	copy(out.Obs[0][i*len(r.history):], r.history)
	out.Metrics[i] = r.x
}

// Fall makes a row fall in its next Step.
func (e *Toy) Fall(row int) { e.rows[row].x = 2 }

// Close releases the carts.
func (e *Toy) Close() error {
	e.closed = true
	return nil
}
