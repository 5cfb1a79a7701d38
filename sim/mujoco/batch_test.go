package mujoco

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func newBatch(t testing.TB, rows, threads int) *Batch {
	t.Helper()
	b, err := NewBatch(loadFull(t), rows, threads)
	must(t, err)
	t.Cleanup(b.Close)
	return b
}

// script is what happens to one row: its parameters, start and the commands of each chunk.
type script struct {
	params Params
	pose   Pose
	cmds   []MotorCmd
	push   [3]float64 // at a third of the time
}

func scripts(rows, chunks int) []script {
	out := make([]script, rows)
	for r := range out {
		rng := rand.New(rand.NewPCG(99, uint64(r)))
		s := &out[r]
		s.params, s.pose = DefaultParams(), HomePose()
		if r%2 == 1 {
			s.params.Friction = 0.4 + 0.8*rng.Float64()
			s.params.TrunkMass = 2*rng.Float64() - 1
			s.params.TrunkCoM[0] = 0.03 * rng.NormFloat64()
			s.params.Strength[4] = 0.9
		}
		for i := range Joints {
			s.pose.Q[i] += 0.1 * rng.NormFloat64()
		}
		s.push = [3]float64{20 * rng.NormFloat64(), 20 * rng.NormFloat64(), 0}
		for range chunks {
			c := Servo(HomePose().Q, 35, 0.5)
			for i := range Joints {
				c.Q[i] += 0.2 * rng.NormFloat64()
			}
			s.cmds = append(s.cmds, c)
		}
	}
	return out
}

// play runs the scripts of some rows in one batch and returns their last states.
func play(t *testing.T, scripts []script, threads int) []State {
	t.Helper()
	b := newBatch(t, len(scripts), threads)
	chunks := len(scripts[0].cmds)
	cmds := make([]MotorCmd, len(scripts))
	for r, s := range scripts {
		must(t, b.SetParams(r, s.params))
		must(t, b.Reset([]int{r}, []Pose{s.pose}))
	}
	for k := range chunks {
		for r, s := range scripts {
			cmds[r] = s.cmds[k]
			if k == chunks/3 {
				must(t, b.Edit(r, func(sim *Sim) error { return sim.SetPush(s.push, [3]float64{}) }))
			}
		}
		must(t, b.Advance(cmds, 10))
	}
	return append([]State(nil), b.States()...)
}

func TestRowsDoNotDependOnThreadsOrCompany(t *testing.T) {
	all := scripts(64, 24)
	one := play(t, all, 1)
	for threads := 2; threads <= 3; threads++ {
		if many := play(t, all, threads); !equal(one, many) {
			t.Errorf("%d threads give other trajectories than 1", threads)
		}
	}
	for _, r := range []int{0, 17, 63} {
		if alone := play(t, all[r:r+1], 1); alone[0] != one[r] {
			t.Errorf("row %d alone ends elsewhere than among 64", r)
		}
		sim := newSim(t)
		must(t, sim.SetParams(all[r].params))
		must(t, sim.Reset(all[r].pose))
		for k := range all[r].cmds {
			if k == len(all[r].cmds)/3 {
				must(t, sim.SetPush(all[r].push, [3]float64{}))
			}
			must(t, sim.Advance(&all[r].cmds[k], 10))
		}
		if read(sim) != one[r] {
			t.Errorf("row %d as a Sim ends elsewhere than in a batch", r)
		}
	}
	if one[0] == one[2] {
		t.Error("two rows with different commands are equal")
	}
}

func equal(a, b []State) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestBatchSaveRestore(t *testing.T) {
	all := scripts(4, 30)
	b := newBatch(t, 4, 2)
	cmds := make([]MotorCmd, 4)
	var saved []float64
	for k := range 30 {
		for r := range cmds {
			cmds[r] = all[r].cmds[k]
		}
		if k == 13 {
			saved = b.GetState(2, saved)
		}
		must(t, b.Advance(cmds, 10))
	}
	want := b.States()[2]
	must(t, b.Edit(1, func(s *Sim) error { return s.SetState(saved) }))
	for k := 13; k < 30; k++ {
		cmds[1] = all[2].cmds[k]
		must(t, b.Advance(cmds, 10))
	}
	var got State
	if b.State(1, &got); got != want {
		t.Error("a row restored into another row ends elsewhere")
	}
}

func TestBatchRefusesAndFlags(t *testing.T) {
	b := newBatch(t, 5, 2)
	cmds := make([]MotorCmd, 5)
	for r := range cmds {
		cmds[r] = Servo(HomePose().Q, 60, 5)
	}
	before := append([]State(nil), b.States()...)
	cmds[3].Kp[4] = math.NaN()
	err := b.Advance(cmds, 10)
	if err == nil || !strings.Contains(err.Error(), "row 3") || !strings.Contains(err.Error(), "Kp of FL_thigh") {
		t.Errorf("error %v, want row 3 and Kp of FL_thigh", err)
	}
	if !equal(before, b.States()) {
		t.Error("a refused command moved a row")
	}
	cmds[3].Kp[4] = 60
	for want, f := range map[string]func() error{
		"4 commands for 5 rows": func() error { return b.Advance(cmds[:4], 10) },
		"0 substeps":            func() error { return b.Advance(cmds, 0) },
		"row 5 of 5":            func() error { return b.Reset([]int{5}, []Pose{HomePose()}) },
		"2 rows, 1 poses":       func() error { return b.Reset([]int{1, 2}, []Pose{HomePose()}) },
		"row 1":                 func() error { return b.SetParams(1, Params{}) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, n := range [][2]int{{0, 1}, {1, 0}} {
		if _, err := NewBatch(b.Model(), n[0], n[1]); err == nil {
			t.Errorf("a batch of %d rows on %d threads was made", n[0], n[1])
		}
	}

	must(t, b.Edit(2, func(s *Sim) error { return s.SetVelocity([3]float64{0, 1e11, 0}, [3]float64{}) }))
	good := b.States()[1].Time
	must(t, b.Advance(cmds, 10))
	must(t, b.Advance(cmds, 10))
	if err := b.Bad(2); !errors.Is(err, ErrPhysics) || !strings.Contains(err.Error(), "row 2") {
		t.Errorf("row 2: %v, want ErrPhysics", err)
	}
	if b.BadRows() != 1 || b.Bad(1) != nil || !near(b.States()[1].Time, good+0.04, 1e-9) || b.States()[2].Time != 0 {
		t.Errorf("%d bad rows, row 1 at %v s, row 2 at %v s", b.BadRows(), b.States()[1].Time, b.States()[2].Time)
	}
	must(t, b.Reset([]int{2}, []Pose{HomePose()}))
	must(t, b.Advance(cmds, 10))
	if b.Bad(2) != nil || !near(b.States()[2].Time, 0.02, 1e-9) {
		t.Errorf("after its reset row 2 is at %v s, %v", b.States()[2].Time, b.Bad(2))
	}
}

func TestBatchDoesNotAllocate(t *testing.T) {
	b := newBatch(t, 8, 2)
	cmds := make([]MotorCmd, 8)
	for r := range cmds {
		cmds[r] = Servo(HomePose().Q, 60, 5)
	}
	var st State
	saved := b.GetState(3, nil)
	if n := testing.AllocsPerRun(100, func() {
		if b.Advance(cmds, 5) != nil {
			t.Fatal("advance failed")
		}
		b.State(3, &st)
		saved = b.GetState(3, saved)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestBatchCloseIsIdempotent(t *testing.T) {
	b, err := NewBatch(loadFull(t), 3, 8)
	must(t, err)
	if b.Threads() != 3 || b.Rows() != 3 {
		t.Errorf("%d rows on %d threads, want 3 on 3", b.Rows(), b.Threads())
	}
	b.Close()
	b.Close()
	if err := b.Advance(make([]MotorCmd, 3), 1); !errors.Is(err, errClosed) {
		t.Errorf("advancing a closed batch: %v", err)
	}
	if err := b.Reset([]int{0}, []Pose{HomePose()}); !errors.Is(err, errClosed) {
		t.Errorf("resetting a row of a closed batch: %v", err)
	}
}

func BenchmarkBatch(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			const rows = 256
			x := newBatch(b, rows, threads)
			cmds := make([]MotorCmd, rows)
			for r := range cmds {
				cmds[r] = Servo(HomePose().Q, 35, 0.5)
			}
			for b.Loop() {
				if err := x.Advance(cmds, 10); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "control_steps/s")
		})
	}
}
