package go1

import (
	"fmt"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// Mirror says what a term's numbers become when left and right change places: the
// robot is the same robot then, and a policy may learn from both. Mirroring twice
// gives the term back.
type Mirror struct {
	// Sign of each number of the term.
	Sign []float32
	// Joints and Legs: numbers change places with those of the opposite leg, and Sign
	// is that of a leg's joints (3 numbers) or of a leg (1).
	Joints, Legs bool
}

// What mirrors like this is shared by several terms. Across the plane y = 0 polar
// vectors keep x and z, axial ones keep y.
var (
	polar    = Mirror{Sign: []float32{1, -1, 1}}
	axial    = Mirror{Sign: []float32{-1, 1, -1}}
	byJoint  = Mirror{Sign: []float32{-1, 1, 1}, Joints: true} // hips turn about x
	planar   = Mirror{Sign: []float32{1, -1, -1}}              // vx, vy, wz
	opposite = Mirror{Sign: []float32{-1, -1}}                 // half a cycle later
)

// OtherSide is the SDK index of the same joint of the leg opposite: FR with FL, RR
// with RL.
func OtherSide(joint int) int {
	leg := joint / JointsInLeg
	return (leg^1)*JointsInLeg + joint%JointsInLeg
}

// fill writes the map of one frame of a term: number i becomes sign[i] times number
// index[i].
func (m *Mirror) fill(motor *[Joints]int, index []int32, sign []float32) error {
	switch {
	case m.Joints && len(index) == Joints && len(m.Sign) == JointsInLeg:
		var policy [Joints]int // policy index of each SDK joint
		for i, k := range motor {
			policy[k] = i
		}
		for i, k := range motor {
			index[i], sign[i] = int32(policy[OtherSide(k)]), m.Sign[k%JointsInLeg]
		}
	case m.Legs && len(index) == Legs && len(m.Sign) == 1:
		for leg := range Legs {
			index[leg], sign[leg] = int32(leg^1), m.Sign[0]
		}
	case !m.Joints && !m.Legs && len(index) == len(m.Sign):
		for i, s := range m.Sign {
			index[i], sign[i] = int32(i), s
		}
	default:
		return fmt.Errorf("its mirror does not suit %d numbers", len(index))
	}
	return nil
}

// MirrorGroup is the mirror of an observation: number i of the mirrored one is sign[i]
// times number index[i]. extra gives the mirrors of terms that TermByName lacks; a term
// without one is an error that names it.
func MirrorGroup(spec *rollout.Spec, group string, extra func(term string) *Mirror) (index []int32, sign []float32, err error) {
	g := spec.Group(group)
	if g == nil {
		return nil, nil, fmt.Errorf("go1: group %s: not in the spec", group)
	}
	motor, err := MotorOrder(spec.Joints)
	if err != nil {
		return nil, nil, err
	}
	index, sign = make([]int32, g.Size()), make([]float32, g.Size())
	frame, at := 0, 0
	for i := range g.Terms {
		frame += g.Terms[i].Size
	}
	inFrame := 0
	for _, t := range g.Terms {
		var m *Mirror
		if def := TermByName(t.Name); def != nil {
			m = &def.Mirror
		} else if extra != nil {
			m = extra(t.Name)
		}
		if m == nil {
			return nil, nil, fmt.Errorf("go1: group %s, term %s: no mirror is known", group, t.Name)
		}
		one, oneSign := make([]int32, t.Size), make([]float32, t.Size)
		if err := m.fill(&motor, one, oneSign); err != nil {
			return nil, nil, fmt.Errorf("go1: group %s, term %s: %w", group, t.Name, err)
		}
		for k := range t.History { // each frame within itself
			begin := at + k*t.Size
			if g.Layout == rollout.ByFrame {
				begin = k*frame + inFrame
			}
			for j := range one {
				index[begin+j], sign[begin+j] = int32(begin)+one[j], oneSign[j]
			}
		}
		at += t.Size * t.History
		inFrame += t.Size
	}
	return index, sign, nil
}

// MirrorAction is the mirror of an action in the policy's joint order.
func MirrorAction(joints []string) (index []int32, sign []float32, err error) {
	motor, err := MotorOrder(joints)
	if err != nil {
		return nil, nil, err
	}
	index, sign = make([]int32, Joints), make([]float32, Joints)
	return index, sign, byJoint.fill(&motor, index, sign)
}
