package task

import "github.com/openclaw-rl/openclaw/agent/go1"

// Privileged are the observation terms that only a simulator can give, for critics and
// for teachers, beside go1.Terms.
var Privileged = []PrivilegedTerm{
	{Name: "base_height", Size: 1, Mirror: go1.Mirror{Sign: []float32{1}}, Unit: "m", Doc: "trunk's height above the floor minus 0.27",
		Fill: func(m *Moment, _ *Episode, out []float32) { out[0] = float32(m.Height - BaseHeight) }},
	{Name: "foot_contact", Size: go1.Legs, Mirror: go1.Mirror{Sign: []float32{1}, Legs: true}, Unit: "1", Doc: "1 where the foot presses on the floor, SDK order",
		Fill: func(m *Moment, _ *Episode, out []float32) {
			for i, c := range m.Contact {
				out[i] = 0
				if c {
					out[i] = 1
				}
			}
		}},
	{Name: "foot_height", Size: go1.Legs, Mirror: go1.Mirror{Sign: []float32{1}, Legs: true}, Unit: "m", Doc: "lowest point of the foot above the floor, SDK order",
		Fill: func(m *Moment, _ *Episode, out []float32) {
			for i, h := range m.FootHeight {
				out[i] = float32(h)
			}
		}},
	{Name: "friction", Size: 1, Mirror: go1.Mirror{Sign: []float32{1}}, Unit: "1", Doc: "friction of feet on the floor minus 0.7",
		Fill: func(_ *Moment, e *Episode, out []float32) { out[0] = float32(e.Friction - 0.7) }},
	{Name: "trunk_mass", Size: 1, Mirror: go1.Mirror{Sign: []float32{1}}, Unit: "kg", Doc: "mass added to the trunk",
		Fill: func(_ *Moment, e *Episode, out []float32) { out[0] = float32(e.TrunkMass) }},
	{Name: "motor_gain", Size: 1, Mirror: go1.Mirror{Sign: []float32{1}}, Unit: "1", Doc: "kp over the contract's, minus 1",
		Fill: func(_ *Moment, e *Episode, out []float32) { out[0] = float32(e.Kp - 1) }},
	{Name: "latency", Size: 1, Mirror: go1.Mirror{Sign: []float32{1}}, Unit: "s", Doc: "from an action to its target's arrival, without jitter",
		Fill: func(_ *Moment, e *Episode, out []float32) { out[0] = float32(e.Latency) }},
}

// PrivilegedTerm is what a privileged term means. Fill writes its Size numbers.
type PrivilegedTerm struct {
	Name string
	Size int
	Unit string
	Doc  string
	Fill func(m *Moment, e *Episode, out []float32)
	// Mirror is what becomes of it when left and right change places.
	Mirror go1.Mirror
}

// ExtraTerm finds a privileged term's function and size; look it up when an Env is
// opened, not each step.
func ExtraTerm(name string) (fill func(m *Moment, e *Episode, out []float32), size int, ok bool) {
	for i := range Privileged {
		if t := &Privileged[i]; t.Name == name {
			return t.Fill, t.Size, true
		}
	}
	return nil, 0, false
}

// ExtraMirror finds a privileged term's mirror; nil if there is no such term.
func ExtraMirror(name string) *go1.Mirror {
	for i := range Privileged {
		if t := &Privileged[i]; t.Name == name {
			return &t.Mirror
		}
	}
	return nil
}
