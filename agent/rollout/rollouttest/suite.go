package rollouttest

import (
	"context"
	"math"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// Options are what the suite asks of an Env it opens.
type Options struct {
	Rows    int
	Seed    uint64
	History int // frames of every term of every group
	// EpisodeSteps is after how many Steps a row times out; 0: never.
	EpisodeSteps int
	Threads      int
}

// Harness says how to open the Env under test and what it can do.
type Harness struct {
	// New opens an Env, not yet reset. It fails t itself. The suite closes it.
	New func(t testing.TB, o Options) rollout.Env
	// Fall makes a row fall in the next Step. Nil: the Env cannot be made to.
	Fall func(env rollout.Env, row int)
	// Rows is how many rows to open; 0: 3.
	Rows int
	// EpisodeSteps is the length of the episodes that time out, long enough for a
	// history to fill (6 or more) and short enough that nothing falls by itself.
	// 0: the Env has no time-outs.
	EpisodeSteps int
	// SharedProcess says that what the Env drives, a fake robot say, allocates in
	// the test's process, where the suite cannot tell whose allocation it counts.
	// Prove elsewhere that stepping allocates nothing.
	SharedProcess bool
}

// check is one clause of the contract.
type check struct {
	name string
	run  func(t testing.TB, h Harness)
}

// checks are all clauses, in the order in which a newcomer should repair them.
func checks() []check {
	return []check{
		{"Spec", checkSpec},
		{"EverythingIsFilled", checkFilled},
		{"StepBeforeReset", checkBeforeReset},
		{"Determinism", checkDeterminism},
		{"PartialReset", checkPartialReset},
		{"History1", func(t testing.TB, h Harness) { checkHistory(t, h, 1) }},
		{"History5", func(t testing.TB, h Harness) { checkHistory(t, h, 5) }},
		{"HistoriesAgree", checkHistoriesAgree},
		{"Final", checkFinal},
		{"TimeOuts", checkTimeOuts},
		{"Falls", checkFalls},
		{"FallAtTheTimeOut", checkFallAtTimeOut},
		{"BadActions", checkBadActions},
		{"EndedContext", checkContext},
		{"NoAllocation", checkNoAllocation},
		{"Close", checkClose},
	}
}

// Run checks every clause of the contract in a subtest of its own. A clause that
// the Env cannot show (no time-outs, no falls, not deterministic, one row, a
// shared process) is skipped and says so.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) { c.run(t, h) })
	}
}

// seed is of every Env that is to do the same as another.
const seed = 7

// options are the usual ones: no time-outs, one frame, one thread.
func (h *Harness) options() Options {
	rows := h.Rows
	if rows == 0 {
		rows = 3
	}
	return Options{Rows: rows, Seed: seed, History: 1, Threads: 1}
}

// drive is an Env being driven by made-up actions.
type drive struct {
	t      testing.TB
	env    rollout.Env
	spec   rollout.Spec
	out    *rollout.Step
	action []float32
	steps  int
}

// open opens an Env and closes it when the check ends.
func (h *Harness) open(t testing.TB, o Options) *drive {
	t.Helper()
	env := h.New(t, o)
	t.Cleanup(func() { _ = env.Close() }) // Close has a check of its own
	s := env.Spec()
	return &drive{t: t, env: env, spec: s, out: rollout.NewStep(s), action: make([]float32, s.Rows*s.ActDim())}
}

// begin opens an Env and resets it.
func (h *Harness) begin(t testing.TB, o Options) *drive {
	t.Helper()
	d := h.open(t, o)
	d.reset(nil)
	return d
}

func (d *drive) reset(rows []int) {
	d.t.Helper()
	if err := d.env.Reset(context.Background(), rows, d.out); err != nil {
		d.t.Fatalf("Reset of rows %v: %v", rows, err)
	}
}

// prepare makes up the next action: small, different for each step and joint,
// the same for every drive.
func (d *drive) prepare() {
	for i := range d.action {
		d.action[i] = 0.3 * float32(math.Sin(float64(7*d.steps+3*i+1)))
	}
	d.steps++
}

// step executes the next action; an Env that holds after an end is reset first.
func (d *drive) step() {
	d.t.Helper()
	if !d.spec.AutoReset {
		if rows := d.ended(); rows != nil {
			d.reset(rows)
		}
	}
	d.prepare()
	if err := d.env.Step(context.Background(), d.action, d.out); err != nil {
		d.t.Fatalf("Step %d: %v", d.steps, err)
	}
}

// ended lists the rows whose episode ended in the last Step.
func (d *drive) ended() (rows []int) {
	for row := range d.spec.Rows {
		if d.out.Ended(row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// vector is row's observation of group g, in Obs or Final.
func (d *drive) vector(of [][]float32, g, row int) []float32 {
	n := d.spec.Groups[g].Size()
	return of[g][row*n : (row+1)*n]
}

// keep copies what the Env shows now.
func (d *drive) keep() *rollout.Step {
	k := rollout.NewStep(d.spec)
	for g := range k.Obs {
		copy(k.Obs[g], d.out.Obs[g])
		copy(k.Final[g], d.out.Final[g])
	}
	copy(k.Reward, d.out.Reward)
	copy(k.Terminated, d.out.Terminated)
	copy(k.TimedOut, d.out.TimedOut)
	copy(k.Executed, d.out.Executed)
	copy(k.Metrics, d.out.Metrics)
	return k
}

// sameRow says whether two Envs of the same Spec show the same bits in a row, and
// names the first thing that differs.
func sameRow(s *rollout.Spec, a, b *rollout.Step, row int) (difference string, same bool) {
	part := func(v []float32, n int) []float32 { return v[row*n : (row+1)*n] }
	for g := range s.Groups {
		n := s.Groups[g].Size()
		if !equal(part(a.Obs[g], n), part(b.Obs[g], n)) {
			return "Obs of group " + s.Groups[g].Name, false
		}
		if a.Ended(row) && b.Ended(row) && !equal(part(a.Final[g], n), part(b.Final[g], n)) {
			return "Final of group " + s.Groups[g].Name, false
		}
	}
	switch {
	case !equal(part(a.Reward, 1), part(b.Reward, 1)):
		return "Reward", false
	case a.Terminated[row] != b.Terminated[row]:
		return "Terminated", false
	case a.TimedOut[row] != b.TimedOut[row]:
		return "TimedOut", false
	case !equal(part(a.Executed, s.ActDim()), part(b.Executed, s.ActDim())):
		return "Executed", false
	case !equal(part(a.Metrics, len(s.Metrics)), part(b.Metrics, len(s.Metrics))):
		return "Metrics", false
	}
	return "", true
}

// wantSame fails unless two drives show the same bits in row.
func wantSame(t testing.TB, a, b *drive, row int, why string) {
	t.Helper()
	if what, same := sameRow(&a.spec, a.out, b.out, row); !same {
		t.Fatalf("step %d, row %d: %s differs: %s", a.steps, row, what, why)
	}
}

// equal compares bits, so that NaN equals itself and -0 differs from 0.
func equal(a, b []float32) bool {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}
