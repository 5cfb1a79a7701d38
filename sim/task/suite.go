package task

import (
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// CaseKind says what a Case asks of a policy, and so how its result is read.
type CaseKind string

const (
	// Walking is the base itself or one change of its world or physics: errors, falls and power beside the base's.
	Walking CaseKind = "walking"
	// Standing is the command zero and no pushes: the robot is to stand still (StandResult).
	Standing CaseKind = "standing"
	// Corner is one of the nine commands of a grid, held for the whole time.
	Corner CaseKind = "corner"
)

// Case is one evaluation of a Suite.
type Case struct {
	Kind CaseKind
	Name string // a short one, e.g. "friction 0.4"
	Doc  string // what differs from the base
	Evaluation
}

// Suite is base and what else a policy is asked before it may leave for robots, each case a copy of base with few members changed:
//
//	walking    nominal: base as it is; the full model; friction 0.4; +1 kg; 20 ms delay; pushes of 0.5 m/s (recipe.md's table)
//	standing   command zero, no pushes
//	corner     the nine commands vx, wz = lowest, 0, highest of base's range (-1, 0, 1 in eval_v1), vy 0
//
// A corner has a quarter of base's rows: all its rows walk under one command, in base they share a great many.
func Suite(base *Evaluation) []Case {
	var all []Case
	add := func(kind CaseKind, name, doc string, change func(e *Evaluation)) {
		c := Case{Kind: kind, Name: name, Doc: doc, Evaluation: *base}
		c.Evaluation.Name = base.Name + ", " + name
		change(&c.Evaluation)
		all = append(all, c)
	}
	add(Walking, "nominal", "the frozen world as it is", func(e *Evaluation) { e.Name = base.Name })
	add(Walking, "full model", "every part of the Go1 meets the floor, physics solved to convergence", func(e *Evaluation) { e.Model = "full" })
	add(Walking, "friction 0.4", "every floor as slippery as the worst", func(e *Evaluation) { e.World.Vary.Friction = [2]float64{0.4, 0.4} })
	add(Walking, "+1 kg", "every trunk 1 kg heavier", func(e *Evaluation) { e.World.Vary.TrunkMass = [2]float64{1, 1} })
	add(Walking, "20 ms delay", "every target arrives 20 ms late", func(e *Evaluation) { e.World.Vary.Latency = [2]float64{0.02, 0.02} })
	add(Walking, "pushes 0.5 m/s", "kicks of up to 0.5 m/s in x and y each, as often", func(e *Evaluation) { e.World.Pushes.Velocity = 0.5 })
	add(Standing, "zero command", "command 0, 0, 0, no pushes", func(e *Evaluation) { e.World.Commands, e.World.Pushes = Fixed(0, 0, 0), Pushes{} })
	c := &base.World.Commands
	for _, vx := range [3]float32{c.Min[0], 0, c.Max[0]} {
		for _, wz := range [3]float32{c.Min[2], 0, c.Max[2]} {
			add(Corner, fmt.Sprintf("vx %v, wz %v", vx, wz), "one command all the time", func(e *Evaluation) {
				e.World.Commands, e.Rows = Fixed(vx, 0, wz), max(1, base.Rows/4)
			})
		}
	}
	return all
}

// liftedHeight is how far a foot's lowest point must be above the floor, m, for the foot to count as lifted: a foot that stands is
// pressed into the floor, and steps are several centimetres high.
const liftedHeight = 0.005

// StandScore gathers how still rows stand.
type StandScore struct {
	settle float64 // s
	rows   []standRow
	speed2 float64 // (rad/s)^2, sum over joints and settled steps
	steps  int     // settled
	lifts  int
}

// standRow is what is known of a row until it falls.
type standRow struct {
	fell, begun, lifted bool
	up                  [go1.Legs]bool
	from, at            [2]float64 // m
}

// NewStandScore begins a score of rows rows. The first settleSeconds are left out but of the drift.
func NewStandScore(rows int, settleSeconds float64) *StandScore {
	return &StandScore{settle: settleSeconds, rows: make([]standRow, rows)}
}

// Record takes one step of one row: whether it fell in it, which ends the row's part in this score, and else its age t (s) when the step
// began, where its trunk is (m, world), how fast its joints turn (rad/s) and how far the lowest point of each foot is above the floor (m).
// It does not allocate.
func (s *StandScore) Record(row int, fell bool, t float64, trunk [2]float64, speeds *[go1.Joints]float64, feet *[go1.Legs]float64) {
	r := &s.rows[row]
	if r.fell = r.fell || fell; r.fell {
		return
	}
	if !r.begun {
		r.begun, r.from = true, trunk
	}
	r.at = trunk
	// A sum of steps may be a rounding short of a whole second.
	if t < s.settle-1e-6 {
		return
	}
	for _, v := range speeds {
		s.speed2 += v * v
	}
	s.steps++
	for leg, h := range feet {
		up := h > liftedHeight
		if up && !r.up[leg] {
			s.lifts++
			r.lifted = true
		}
		r.up[leg] = up
	}
}

// StandResult says how still rows stood that did not fall; NaN where there is nothing to say.
type StandResult struct {
	JointSpeed float64 `json:"joint_speed_rms"` // rad/s, over joints, rows and time after the first second
	Lifts      int     `json:"feet_lifted"`     // times that a foot left the floor by more than 5 mm after the first second, all rows
	LiftShare  float64 `json:"lift_share"`      // share of the rows that did so, 0..1
	Drift      float64 `json:"drift_m"`         // m from begin to end, mean over rows
	DriftMax   float64 `json:"drift_max_m"`     // m, the row that went furthest
}

// Result is the score so far.
func (s *StandScore) Result() StandResult {
	var r StandResult
	stood, lifted := 0, 0
	for i := range s.rows {
		row := &s.rows[i]
		if row.lifted {
			lifted++
		}
		if row.fell || !row.begun {
			continue
		}
		stood++
		d := math.Hypot(row.at[0]-row.from[0], row.at[1]-row.from[1])
		r.Drift += d
		r.DriftMax = max(r.DriftMax, d)
	}
	// 0/0 is the NaN that is promised.
	r.JointSpeed = math.Sqrt(s.speed2 / float64(s.steps*go1.Joints))
	r.Lifts, r.LiftShare = s.lifts, float64(lifted)/float64(len(s.rows))
	if r.Drift /= float64(stood); stood == 0 {
		r.DriftMax = math.NaN()
	}
	return r
}
