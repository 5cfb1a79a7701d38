package contract

import (
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// Version is the version of the JSON that this package reads and writes.
const Version = 1

// Key is the key of the contract in an ONNX file's metadata_props.
const Key = "openclaw.contract"

// DefaultTolerance is the largest difference, in units of network output, between
// a golden action and what the runtime computes, where a contract states none.
const DefaultTolerance = 1e-4

// MaxTolerance bounds what a contract may state: a wider one would prove nothing.
const MaxTolerance = 1e-2

// MaxZ is the gate before torque: an observation further than this many standard
// deviations from the mean was not built as in training.
const MaxZ = 6

// Contract is what a policy was trained on and where it came from. Its Spec's
// members stand in the JSON beside the others.
type Contract struct {
	Version int    `json:"version"` // of this format
	Name    string `json:"name"`    // for people, e.g. "playground-go1-joystick"
	rollout.Spec

	// Normaliser is nil when nobody knows it; then nothing proves that an
	// observation is built as in training.
	Normaliser *Normaliser `json:"normaliser,omitzero"`
	Golden     *Golden     `json:"golden,omitzero"`
	Training   *Training   `json:"training,omitzero"`
	Evaluation *Evaluation `json:"evaluation,omitzero"`

	License string   `json:"license,omitzero"` // SPDX
	Source  string   `json:"source,omitzero"`  // who made it, where it lies
	Notes   []string `json:"notes,omitempty"`  // what the other members cannot say

	elements []string // names of the policy group's numbers, made by Check
}

// Normaliser holds the mean and std of the group "policy" in training, one number
// per element of its observation, after scale and clip. Both are stated also when
// the network has no normaliser of its own.
type Normaliser struct {
	Mean    []float32 `json:"mean"`
	Std     []float32 `json:"std"`      // each more than 0
	InGraph bool      `json:"in_graph"` // the graph itself subtracts and divides
}

// Golden holds observations with the network's outputs.
type Golden struct {
	Tolerance float32 `json:"tolerance,omitzero"` // units of output; 0: DefaultTolerance
	Pairs     []Pair  `json:"pairs"`
}

// Pair is one row: an observation of the group "policy" (after scale and clip)
// and the raw output of the network (before Action.Clip and Action.Scale).
type Pair struct {
	Obs    []float32 `json:"obs"`
	Action []float32 `json:"action"`
}

// Training says where the weights came from.
type Training struct {
	Run       string  `json:"run"`                // the training run's id
	Iteration int64   `json:"iteration,omitzero"` // of that run
	Steps     int64   `json:"steps,omitzero"`     // policy periods that robots had lived in that run by then, all rows together
	Seconds   float64 `json:"seconds,omitzero"`   // of training by then
	Command   string  `json:"command,omitzero"`   // the command line that began the run, quoted for a shell
	Commit    string  `json:"commit,omitzero"`    // of the code
	World     string  `json:"world,omitzero"`     // sha256 of the simulated world's description
	Parent    string  `json:"parent,omitzero"`    // sha256 of the policy file it was distilled or fine-tuned from
	// Curve is how the run's policy walked in Evaluation.Suite on the way, at most MaxCurve points with Steps rising.
	Curve []Point `json:"curve,omitempty"`
}

// MaxCurve bounds Training.Curve: it is for people, and rides in every copy of the policy.
const MaxCurve = 64

// Point is one evaluation on the way.
type Point struct {
	Steps    int64   `json:"steps"`     // as Training.Steps
	VelErr   float64 `json:"vel_err"`   // m/s, mean error of vx and vy
	YawErr   float64 `json:"yaw_err"`   // rad/s
	FallRate float64 `json:"fall_rate"` // 0..1 of rows
}

// Evaluation is what `clawlearn eval` measured before the file was written.
type Evaluation struct {
	Suite      string  `json:"suite"`       // e.g. "eval_v1"
	Rows       int     `json:"rows"`        // robots simulated
	Seconds    float64 `json:"seconds"`     // each
	VelErr     float64 `json:"vel_err"`     // m/s, mean error of vx and vy
	YawErr     float64 `json:"yaw_err"`     // rad/s
	FallRate   float64 `json:"fall_rate"`   // 0..1 of rows
	PowerW     float64 `json:"power_w"`     // W, mean
	ActionRate float64 `json:"action_rate"` // mean |change of action| per step
}

// Check refuses a contract that contradicts itself and names the member. A
// Contract made in code must pass it before use.
func (c *Contract) Check() error {
	if c.Version != Version {
		return fmt.Errorf("contract: version: %d, this program reads %d", c.Version, Version)
	}
	if c.Robot == "" {
		return fmt.Errorf("contract: robot: not named")
	}
	if err := c.Spec.Check(); err != nil {
		return fmt.Errorf("contract: %w", err)
	}
	for i := range c.Groups {
		for _, t := range c.Groups[i].Terms {
			if t.Scale == 0 {
				return fmt.Errorf("contract: group %s, term %s: scale is 0: the policy would never see it", c.Groups[i].Name, t.Name)
			}
		}
	}
	c.elements = elementNames(&c.Spec, c.Group("policy"))
	if n := c.Normaliser; n != nil {
		if err := checkVector("normaliser.mean", n.Mean, c.elements); err != nil {
			return err
		}
		if err := checkVector("normaliser.std", n.Std, c.elements); err != nil {
			return err
		}
		for i, s := range n.Std {
			if s <= 0 {
				return fmt.Errorf("contract: normaliser.std: %s is %v, want more than 0", c.elements[i], s)
			}
		}
	}
	if g := c.Golden; g != nil {
		if !(g.Tolerance >= 0 && g.Tolerance <= MaxTolerance) {
			return fmt.Errorf("contract: golden.tolerance: %v, want 0..%v", g.Tolerance, MaxTolerance)
		}
		if len(g.Pairs) == 0 {
			return fmt.Errorf("contract: golden.pairs: none")
		}
		for i, p := range g.Pairs {
			if err := checkVector(fmt.Sprintf("golden.pairs[%d].obs", i), p.Obs, c.elements); err != nil {
				return err
			}
			if err := checkVector(fmt.Sprintf("golden.pairs[%d].action", i), p.Action, c.Joints); err != nil {
				return err
			}
		}
	}
	return c.checkOrigin()
}

// checkOrigin looks at what only people and reports read.
func (c *Contract) checkOrigin() error {
	if t := c.Training; t != nil {
		for _, f := range []struct{ name, v string }{{"parent", t.Parent}, {"world", t.World}} {
			if f.v != "" && !isSHA256(f.v) {
				return fmt.Errorf("contract: training.%s: %q is not a sha256 (64 hex digits, lower case)", f.name, f.v)
			}
		}
		if err := t.checkRun(); err != nil {
			return err
		}
	}
	if e := c.Evaluation; e != nil {
		for _, f := range []struct {
			name string
			v    float64
		}{{"seconds", e.Seconds}, {"vel_err", e.VelErr}, {"yaw_err", e.YawErr}, {"fall_rate", e.FallRate},
			{"power_w", e.PowerW}, {"action_rate", e.ActionRate}} {
			if math.IsNaN(f.v) || math.IsInf(f.v, 0) {
				return fmt.Errorf("contract: evaluation.%s is %v", f.name, f.v)
			}
		}
	}
	return nil
}

// checkRun looks at how long the run was and how it went.
func (t *Training) checkRun() error {
	switch {
	case t.Steps < 0:
		return fmt.Errorf("contract: training.steps is %d, want 0 or more", t.Steps)
	case !(t.Seconds >= 0 && !math.IsInf(t.Seconds, 1)):
		return fmt.Errorf("contract: training.seconds is %v, want 0 or more", t.Seconds)
	case len(t.Curve) > MaxCurve:
		return fmt.Errorf("contract: training.curve has %d points, want at most %d", len(t.Curve), MaxCurve)
	}
	before := int64(-1)
	for i, p := range t.Curve {
		if p.Steps <= before {
			return fmt.Errorf("contract: training.curve[%d].steps is %d, want more than %d", i, p.Steps, before)
		}
		before = p.Steps
		for _, f := range []struct {
			name  string
			v, mx float64
		}{{"vel_err", p.VelErr, math.MaxFloat64}, {"yaw_err", p.YawErr, math.MaxFloat64}, {"fall_rate", p.FallRate, 1}} {
			if !(f.v >= 0 && f.v <= f.mx) {
				return fmt.Errorf("contract: training.curve[%d].%s is %v, want 0..%v", i, f.name, f.v, f.mx)
			}
		}
	}
	return nil
}

// Tolerance is the largest difference allowed when golden pairs are replayed, in
// units of network output.
func (c *Contract) Tolerance() float32 {
	if c.Golden == nil || c.Golden.Tolerance == 0 {
		return DefaultTolerance
	}
	return c.Golden.Tolerance
}

// Proven says whether Z can prove anything: whether mean and std are known.
func (c *Contract) Proven() bool { return c.Normaliser != nil }

// NotProven is the term that Z answers when the contract has no mean and std.
const NotProven = "not proven: the contract has no mean and std"

// Z is the worst |(obs - mean) / std| of one row of the group "policy" and the
// name of that element, e.g. "projected_gravity[2]". The gate before torque wants
// at most MaxZ. Where Z cannot tell (no mean and std: NotProven; a wrong length; a
// number that is not finite) it answers +Inf and why, so that a gate stays shut.
// It does not allocate when the answer is finite.
func (c *Contract) Z(obs []float32) (maxAbs float64, term string) {
	n := c.Normaliser
	if n == nil {
		return math.Inf(1), NotProven
	}
	if len(obs) != len(n.Mean) {
		return math.Inf(1), fmt.Sprintf("observation of %d numbers, want %d", len(obs), len(n.Mean))
	}
	worst := 0
	for i, x := range obs {
		z := math.Abs((float64(x) - float64(n.Mean[i])) / float64(n.Std[i]))
		if math.IsNaN(z) || math.IsInf(z, 0) {
			return math.Inf(1), fmt.Sprintf("%s is %v", c.Element(i), x)
		}
		if z > maxAbs {
			maxAbs, worst = z, i
		}
	}
	return maxAbs, c.Element(worst)
}

// Element names number i of the group "policy", e.g. "joint_vel[3]
// FL_hip_joint" or, with history, "base_ang_vel[0] frame 4".
func (c *Contract) Element(i int) string {
	names := c.elements
	if names == nil {
		names = elementNames(&c.Spec, c.Group("policy"))
	}
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("element %d", i)
	}
	return names[i]
}

// elementNames names every number of g in the order of its layout.
func elementNames(s *rollout.Spec, g *rollout.Group) []string {
	if g == nil {
		return nil
	}
	names := make([]string, 0, g.Size())
	add := func(t *rollout.Term, frame int) {
		for k := range t.Size {
			name := fmt.Sprintf("%s[%d]", t.Name, k)
			if t.Size == len(s.Joints) {
				name += " " + s.Joints[k]
			}
			if t.History > 1 {
				name += fmt.Sprintf(" frame %d", frame)
			}
			names = append(names, name)
		}
	}
	if g.Layout == rollout.ByFrame {
		for f := range g.Terms[0].History {
			for i := range g.Terms {
				add(&g.Terms[i], f)
			}
		}
		return names
	}
	for i := range g.Terms {
		for f := range g.Terms[i].History {
			add(&g.Terms[i], f)
		}
	}
	return names
}

// checkVector wants one finite number per name.
func checkVector(what string, v []float32, names []string) error {
	if len(v) != len(names) {
		return fmt.Errorf("contract: %s: %d numbers, want %d", what, len(v), len(names))
	}
	for i, x := range v {
		if x-x != 0 {
			return fmt.Errorf("contract: %s: %s is %v", what, names[i], x)
		}
	}
	return nil
}

func isSHA256(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
