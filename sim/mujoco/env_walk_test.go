package mujoco_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// playground is the policy that somebody else trained, and its contract.
func playground(t *testing.T) *session.Policy {
	t.Helper()
	file, err := contract.Load(contracttest.Policy(t, "go1_policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := session.Open(file, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// walked is what a batch did in a time: means over 2 s to the end of the rows
// that did not fall, and when the others fell first, s, ascending.
type walked struct {
	rows                     int
	vx, vy, wz, height, vErr float64 // m/s, m/s, rad/s, m, m/s; NaN: none stood
	falls                    []float64
}

// first and median are of the falls, s; NaN where none fell.
func (w *walked) first() float64 {
	if len(w.falls) == 0 {
		return math.NaN()
	}
	return w.falls[0]
}

func (w *walked) median() float64 {
	if len(w.falls) == 0 {
		return math.NaN()
	}
	return w.falls[len(w.falls)/2]
}

func (w *walked) String() string {
	return fmt.Sprintf("%d of %d fall, first %.2f s, median %.2f s; vx %.3f vy %.3f wz %.3f height %.4f velocity error %.3f",
		len(w.falls), w.rows, w.first(), w.median(), w.vx, w.vy, w.wz, w.height, w.vErr)
}

// walk drives cfg's Env for seconds.
func walk(t *testing.T, p rollout.Policy, spec rollout.Spec, cfg mujoco.EnvConfig, seconds float64) *walked {
	t.Helper()
	cfg.Spec = &spec
	e, err := mujoco.NewEnv(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	period := float64(spec.PolicyPeriodNs) / 1e9
	steps := int(math.Round(seconds / period))
	fell := make([]float64, cfg.Rows)
	sums := make([][5]float64, cfg.Rows)
	step, counted := 0, 0
	err = rollout.Run(context.Background(), []rollout.Env{e}, p, rollout.SinkFunc(
		func(_ int, _ *rollout.Step, _ *rollout.Decision, after *rollout.Step) error {
			step++
			k := len(after.Metrics) / cfg.Rows
			for row := range cfg.Rows {
				if after.Terminated[row] && fell[row] == 0 {
					fell[row] = float64(step) * period
				}
				m := after.Metrics[row*k:]
				for i, at := range [5]int{task.Vx, task.Vy, task.Wz, task.Height, task.VelErr} {
					if float64(step)*period > 2 {
						sums[row][i] += float64(m[at])
					}
				}
			}
			if float64(step)*period > 2 {
				counted++
			}
			if step == steps || !slices.Contains(fell, 0) {
				return rollout.ErrStop
			}
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	w := &walked{rows: cfg.Rows}
	var sum [5]float64
	for row := range cfg.Rows {
		if fell[row] > 0 {
			w.falls = append(w.falls, fell[row])
			continue
		}
		for i := range sum {
			sum[i] += sums[row][i]
		}
	}
	n := float64((cfg.Rows - len(w.falls)) * counted)
	w.vx, w.vy, w.wz, w.height, w.vErr = sum[0]/n, sum[1]/n, sum[2]/n, sum[3]/n, sum[4]/n
	slices.Sort(w.falls)
	return w
}

// alters is a policy that is shown other numbers than the Env gives: a mistake
// that a Fault would make had it been written wrongly. Columns are of go1_policy's
// observation (shared/policies/README.md): velocity 0, gyro 3, gravity 6, joint
// angles 9, joint velocities 21, previous action 33, command 45.
type alters struct {
	rollout.Policy
	obs  func(row []float32)
	seen rollout.Step
}

func (a *alters) Act(s *rollout.Step, d *rollout.Decision) error {
	a.seen = *s
	a.seen.Obs = [][]float32{slices.Clone(s.Obs[0])}
	for row := range slices.Chunk(a.seen.Obs[0], 48) {
		a.obs(row)
	}
	return a.Policy.Act(&a.seen, d)
}

// swapLegs shows the three joints of each leg in the place of another's, in the
// parts that begin at columns.
func swapLegs(to [4]int, columns ...int) func([]float32) {
	return func(row []float32) {
		for _, at := range columns {
			old := [12]float32(row[at : at+12])
			for leg, from := range to {
				copy(row[at+3*leg:at+3*leg+3], old[3*from:])
			}
		}
	}
}

func scale(by float32, from, to int) func([]float32) {
	return func(row []float32) {
		for i := range row[from:to] {
			row[from+i] *= by
		}
	}
}

// The table's remark on linvel-zero: "with command 0 it stands".
func TestWithoutVelocityItStandsAtCommandZero(t *testing.T) {
	p := playground(t)
	cfg := mujoco.DefaultEnvConfig(nil)
	cfg.Rows, cfg.Threads = 4, 2
	cfg.World.Start.Joint = 0.01
	var err error
	if cfg.Fault, err = task.FaultByName("linvel-zero"); err != nil {
		t.Fatal(err)
	}
	w := walk(t, p, p.Spec(), cfg, 10)
	for _, v := range (&shows{vx: about(0, 0.02), vErr: about(0, 0.05)}).violated(w) {
		t.Error(v)
	}
}
