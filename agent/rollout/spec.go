package rollout

import (
	"fmt"
	"math"
)

// Spec says what an Env offers or what a policy was trained on: the same type
// on both sides. Its JSON form is the heart of the contract in a policy file.
// Slices per joint have the length and order of Joints.
type Spec struct {
	Robot  string    `json:"robot"`  // e.g. "unitree-go1"
	Joints []string  `json:"joints"` // names, in policy order
	Home   []float32 `json:"home"`   // rad; the pose of a zero action
	Action Action    `json:"action"`
	Kp     []float32 `json:"kp"` // N*m/rad
	Kd     []float32 `json:"kd"` // N*m*s/rad

	PolicyPeriodNs  int64 `json:"policy_period_ns"`  // one Step
	ControlPeriodNs int64 `json:"control_period_ns"` // one motor frame or control update

	Command Command `json:"command"`
	Clock   Clock   `json:"clock"`
	Groups  []Group `json:"groups"`

	// What only an Env has.
	Rows          int      `json:"-"`
	Metrics       []string `json:"-"`
	Deterministic bool     `json:"-"` // same seed and actions give the same bits
	AutoReset     bool     `json:"-"` // ended rows begin anew inside Step
}

// Action is the map from network output to joint targets:
// target = Home + Scale * clip(output).
type Action struct {
	Scale []float32   `json:"scale"`          // rad per unit of output, per joint
	Clip  *[2]float32 `json:"clip,omitempty"` // on the output, before Scale; nil: none
}

// Command is the range of velocity commands, in the body's frame.
type Command struct {
	Vx [2]float32 `json:"vx"` // m/s, forward
	Vy [2]float32 `json:"vy"` // m/s, to the left
	Wz [2]float32 `json:"wz"` // rad/s, counter-clockwise from above
}

// Clock is the gait clock that the term "clock" shows as sine and cosine. It
// starts at Start and advances while |vx|+|vy|+|wz| > MinCommand; at or below
// that the term shows 0, 0. Hz 0 means that there is no clock.
type Clock struct {
	Hz         float32 `json:"hz"`
	Start      float32 `json:"start"`       // cycles, 0..1
	MinCommand float32 `json:"min_command"` // m/s and rad/s, added
}

// Group is one observation vector: "policy" for the actor, "critic" for the
// critic, others asked for when an Env is opened.
type Group struct {
	Name   string `json:"name"`
	Layout Layout `json:"layout"`
	Terms  []Term `json:"terms"`
}

// Layout says how frames of history lie in a Group's vector.
type Layout string

// Layouts. With ByFrame all terms of a group have the same History.
const (
	ByTerm  Layout = "term"  // all frames of the first term, then of the second
	ByFrame Layout = "frame" // all terms of one frame, then of the next
)

// Term is one part of an observation: its value is multiplied by Scale, then
// clipped, History frames of it are shown.
type Term struct {
	Name    string       `json:"name"`
	Size    int          `json:"size"` // numbers in one frame
	Scale   float32      `json:"scale"`
	Clip    *[2]float32  `json:"clip,omitempty"` // after Scale; nil: none
	History int          `json:"history"`        // frames, at least 1
	Order   HistoryOrder `json:"order,omitempty"`
	Fill    HistoryFill  `json:"fill,omitempty"`
	Sensed  bool         `json:"sensed"` // the robot itself can measure it
}

// HistoryOrder is the order of frames.
type HistoryOrder string

// HistoryFill says what stands in history before enough frames have passed.
type HistoryFill string

// History orders and fills; the empty string means OldestFirst, FillFirst.
const (
	OldestFirst HistoryOrder = "oldest"
	NewestFirst HistoryOrder = "newest"
	FillFirst   HistoryFill  = "first" // the first frame, repeated
	FillZero    HistoryFill  = "zero"
)

// ActDim is the number of actuated joints.
func (s *Spec) ActDim() int { return len(s.Joints) }

// Size is the length of one row of the group, history included.
func (g *Group) Size() int {
	n := 0
	for i := range g.Terms {
		n += g.Terms[i].Size * g.Terms[i].History
	}
	return n
}

// Group finds a group by name; nil if there is none.
func (s *Spec) Group(name string) *Group {
	for i := range s.Groups {
		if s.Groups[i].Name == name {
			return &s.Groups[i]
		}
	}
	return nil
}

// GroupIndex is the place of a group in Step.Obs; -1 if there is none.
func (s *Spec) GroupIndex(name string) int {
	for i := range s.Groups {
		if s.Groups[i].Name == name {
			return i
		}
	}
	return -1
}

// Check refuses a Spec that contradicts itself; the error names the field.
// Whether it suits a robot is that robot's package's business.
func (s *Spec) Check() error {
	n := len(s.Joints)
	if n == 0 {
		return fmt.Errorf("rollout: joints: none named")
	}
	seen := make(map[string]bool, n)
	for _, j := range s.Joints {
		if seen[j] {
			return fmt.Errorf("rollout: joints: %s named twice", j)
		}
		seen[j] = true
	}
	for _, f := range []struct {
		name string
		v    []float32
	}{{"home", s.Home}, {"action.scale", s.Action.Scale}, {"kp", s.Kp}, {"kd", s.Kd}} {
		if len(f.v) != n {
			return fmt.Errorf("rollout: %s: %d numbers for %d joints", f.name, len(f.v), n)
		}
		for i, x := range f.v {
			if !finite(x) {
				return fmt.Errorf("rollout: %s: %s is %v", f.name, s.Joints[i], x)
			}
		}
	}
	if err := checkRange("action.clip", s.Action.Clip); err != nil {
		return err
	}
	switch {
	case s.ControlPeriodNs <= 0:
		return fmt.Errorf("rollout: control_period_ns: %d, want more than 0", s.ControlPeriodNs)
	case s.PolicyPeriodNs <= 0 || s.PolicyPeriodNs%s.ControlPeriodNs != 0:
		return fmt.Errorf("rollout: policy_period_ns: %d is not a whole number of control periods of %d", s.PolicyPeriodNs, s.ControlPeriodNs)
	}
	for _, f := range []struct {
		name string
		r    [2]float32
	}{{"vx", s.Command.Vx}, {"vy", s.Command.Vy}, {"wz", s.Command.Wz}} {
		if err := checkRange("command."+f.name, &f.r); err != nil {
			return err
		}
		if f.r[0] > 0 || f.r[1] < 0 {
			return fmt.Errorf("rollout: command.%s: %v does not hold 0", f.name, f.r)
		}
	}
	c := s.Clock
	if !(c.Hz >= 0 && c.Hz <= 10) || !(c.Start >= 0 && c.Start < 1) || !(c.MinCommand >= 0) || !finite(c.MinCommand) {
		return fmt.Errorf("rollout: clock: hz %v (0..10), start %v (0..1), min_command %v (0 or more)", c.Hz, c.Start, c.MinCommand)
	}
	if s.Group("policy") == nil {
		return fmt.Errorf("rollout: groups: none is named \"policy\"")
	}
	for i := range s.Groups {
		if s.GroupIndex(s.Groups[i].Name) != i {
			return fmt.Errorf("rollout: groups: %q named twice", s.Groups[i].Name)
		}
		if err := s.Groups[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) check() error {
	if len(g.Terms) == 0 {
		return fmt.Errorf("rollout: group %s: no terms", g.Name)
	}
	if g.Layout != ByTerm && g.Layout != ByFrame {
		return fmt.Errorf("rollout: group %s: layout %q, want %q or %q", g.Name, g.Layout, ByTerm, ByFrame)
	}
	seen := make(map[string]bool, len(g.Terms))
	for i := range g.Terms {
		t := &g.Terms[i]
		at := fmt.Sprintf("rollout: group %s, term %s", g.Name, t.Name)
		switch {
		case seen[t.Name]:
			return fmt.Errorf("%s: named twice", at)
		case t.Size <= 0 || t.Size > 4096:
			return fmt.Errorf("%s: size %d, want 1..4096", at, t.Size)
		case t.History <= 0 || t.History > 256:
			return fmt.Errorf("%s: history %d, want 1..256", at, t.History)
		case !finite(t.Scale):
			return fmt.Errorf("%s: scale is %v", at, t.Scale)
		case t.Order != "" && t.Order != OldestFirst && t.Order != NewestFirst:
			return fmt.Errorf("%s: order %q, want %q or %q", at, t.Order, OldestFirst, NewestFirst)
		case t.Fill != "" && t.Fill != FillFirst && t.Fill != FillZero:
			return fmt.Errorf("%s: fill %q, want %q or %q", at, t.Fill, FillFirst, FillZero)
		case g.Layout == ByFrame && t.History != g.Terms[0].History:
			return fmt.Errorf("%s: history %d, but a group laid out by frame has one history (%d)", at, t.History, g.Terms[0].History)
		case g.Layout == ByFrame && t.order() != g.Terms[0].order():
			return fmt.Errorf("%s: order %q, but a group laid out by frame has one order (%q)", at, t.order(), g.Terms[0].order())
		}
		if err := checkRange(at+": clip", t.Clip); err != nil {
			return err
		}
		seen[t.Name] = true
	}
	return nil
}

func (t *Term) order() HistoryOrder {
	if t.Order == "" {
		return OldestFirst
	}
	return t.Order
}

func (t *Term) fill() HistoryFill {
	if t.Fill == "" {
		return FillFirst
	}
	return t.Fill
}

// Fits compares what s offers with what a policy needs and names the first
// difference; nil means that every number the policy will see and every number
// it says will mean the same here as where it was trained. The offer may hold
// more groups than the policy needs.
func (s *Spec) Fits(need *Spec) error {
	if s.Robot != need.Robot {
		return fmt.Errorf("rollout: robot: this is %q, the policy was trained on %q", s.Robot, need.Robot)
	}
	if len(s.Joints) != len(need.Joints) {
		return fmt.Errorf("rollout: joints: %d here, %d in the policy", len(s.Joints), len(need.Joints))
	}
	for i := range s.Joints {
		if s.Joints[i] != need.Joints[i] {
			return fmt.Errorf("rollout: joint %d: %s here, %s in the policy", i, s.Joints[i], need.Joints[i])
		}
	}
	for _, f := range []struct {
		name       string
		have, want []float32
	}{{"home", s.Home, need.Home}, {"action.scale", s.Action.Scale, need.Action.Scale}, {"kp", s.Kp, need.Kp}, {"kd", s.Kd, need.Kd}} {
		if len(f.have) != len(f.want) {
			return fmt.Errorf("rollout: %s: %d numbers here, %d in the policy", f.name, len(f.have), len(f.want))
		}
		for i := range f.have {
			if f.have[i] != f.want[i] {
				return fmt.Errorf("rollout: %s of %s: %v here, %v in the policy", f.name, s.Joints[i], f.have[i], f.want[i])
			}
		}
	}
	if !sameRange(s.Action.Clip, need.Action.Clip) {
		return fmt.Errorf("rollout: action.clip: %s here, %s in the policy", showRange(s.Action.Clip), showRange(need.Action.Clip))
	}
	if s.PolicyPeriodNs != need.PolicyPeriodNs {
		return fmt.Errorf("rollout: policy_period_ns: %d here, %d in the policy", s.PolicyPeriodNs, need.PolicyPeriodNs)
	}
	if s.Clock != need.Clock {
		return fmt.Errorf("rollout: clock: %+v here, %+v in the policy", s.Clock, need.Clock)
	}
	for i := range need.Groups {
		want := &need.Groups[i]
		have := s.Group(want.Name)
		if have == nil {
			return fmt.Errorf("rollout: group %s: not offered here", want.Name)
		}
		if err := have.fits(want); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) fits(want *Group) error {
	if g.Layout != want.Layout {
		return fmt.Errorf("rollout: group %s: layout %q here, %q in the policy", g.Name, g.Layout, want.Layout)
	}
	for i := range want.Terms {
		if i >= len(g.Terms) {
			return fmt.Errorf("rollout: group %s: term %s is not offered here", g.Name, want.Terms[i].Name)
		}
		h, w := &g.Terms[i], &want.Terms[i]
		at := fmt.Sprintf("rollout: group %s, term %d", g.Name, i)
		switch {
		case h.Name != w.Name:
			return fmt.Errorf("%s: %s here, %s in the policy", at, h.Name, w.Name)
		case h.Size != w.Size:
			return fmt.Errorf("%s (%s): size %d here, %d in the policy", at, h.Name, h.Size, w.Size)
		case h.Scale != w.Scale:
			return fmt.Errorf("%s (%s): scale %v here, %v in the policy", at, h.Name, h.Scale, w.Scale)
		case !sameRange(h.Clip, w.Clip):
			return fmt.Errorf("%s (%s): clip %s here, %s in the policy", at, h.Name, showRange(h.Clip), showRange(w.Clip))
		case h.History != w.History:
			return fmt.Errorf("%s (%s): history %d here, %d in the policy", at, h.Name, h.History, w.History)
		case h.order() != w.order():
			return fmt.Errorf("%s (%s): order %q here, %q in the policy", at, h.Name, h.order(), w.order())
		case h.fill() != w.fill():
			return fmt.Errorf("%s (%s): fill %q here, %q in the policy", at, h.Name, h.fill(), w.fill())
		}
	}
	if len(g.Terms) > len(want.Terms) {
		return fmt.Errorf("rollout: group %s: term %s is not in the policy", g.Name, g.Terms[len(want.Terms)].Name)
	}
	return nil
}

func checkRange(name string, r *[2]float32) error {
	if r == nil {
		return nil
	}
	if !finite(r[0]) || !finite(r[1]) || r[0] > r[1] {
		return fmt.Errorf("rollout: %s: %v is not a range", name, *r)
	}
	return nil
}

func sameRange(a, b *[2]float32) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func showRange(r *[2]float32) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprint(*r)
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }
