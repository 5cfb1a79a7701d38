package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// What the hang test takes for legs that hang, and for legs that do as they are told.
const (
	hangPose    = 0.3  // rad off where a joint hung at rest in the first contact; also off the folded pose
	hangCreep   = 0.03 // rad/s: slower stands still; a damped leg creeps at some 0.25/s of its way
	hangSpeed   = 0.1  // rad/s, the same by the motor's own word, which is noisier
	hangFoot    = 60   // counts above what a foot sensor read at rest in the first contact: loaded, or its zero has drifted
	hangFeet    = 2    // feet that read so: drift is one sensor's, and a robot that stands has several on the ground
	hangAgainst = 0.1  // rad that a thigh may go against its target
	hangBeyond  = 0.2  // rad that it may go beyond the farthest
	hangAside   = 0.2  // rad that a joint may move that is told to stay
	hangStray   = 5    // states in a row, so that no single reading ends the test
)

// poseWindow is what is seen of a robot while damping frames alone are sent.
type poseWindow struct {
	n    [2]int // states in its two halves
	q    [2][go1.Joints]float64
	dq   [go1.Joints]float64
	foot [go1.Legs]float64
}

// add takes a state; half is 0 or 1.
func (w *poseWindow) add(half int, s *wire.LowState) {
	w.n[half]++
	for j := range go1.Joints {
		w.q[half][j] += float64(s.Motor[j].Q)
		w.dq[j] += float64(s.Motor[j].Dq)
	}
	for leg, f := range s.FootForce {
		w.foot[leg] += float64(f)
	}
}

// pose is how a robot hangs, or lies.
type pose struct {
	q     [go1.Joints]float64 // rad, newest half of the window
	creep [go1.Joints]float64 // rad/s, from the one half to the other
	dq    [go1.Joints]float64 // rad/s, mean
	foot  [go1.Legs]float64   // counts, mean
}

// pose is the window's mean, over seconds; false if it saw nothing in one of its halves.
func (w *poseWindow) pose(seconds float64) (p pose, ok bool) {
	if w.n[0] == 0 || w.n[1] == 0 {
		return p, false
	}
	all := float64(w.n[0] + w.n[1])
	for j := range go1.Joints {
		p.q[j] = w.q[1][j] / float64(w.n[1])
		p.creep[j] = (p.q[j] - w.q[0][j]/float64(w.n[0])) / (seconds / 2)
		p.dq[j] = w.dq[j] / all
	}
	for leg := range p.foot {
		p.foot[leg] = w.foot[leg] / all
	}
	return p, true
}

// hindrance is what keeps legs from getting torque.
type hindrance struct {
	of   int // joint, or joints' number and leg for a foot, or ofAll and on
	text string
}

// Hindrances of no one joint or foot.
const (
	ofAll    = go1.Joints + go1.Legs + iota // legs folded
	ofBody                                  // tilted
	ofStates                                // too few
)

// list is what hindrances say.
func list(all []hindrance) string {
	var texts []string
	for _, h := range all {
		texts = append(texts, h.text)
	}
	return strings.Join(texts, "; ")
}

// moves are the joints that do not stand still. A leg that comes back slowly under damping is not yet where it hangs.
func (p *pose) moves() (all []hindrance) {
	for j := range go1.Joints {
		if !(math.Abs(p.creep[j]) < hangCreep) || !(math.Abs(p.dq[j]) < hangSpeed) {
			all = append(all, hindrance{j, fmt.Sprintf("the %s still moves, by %.2f rad/s (%.2f by its own word)", go1.JointNames[j], p.creep[j], p.dq[j])})
		}
	}
	return all
}

// notHung is why these legs are not free, by what they were at rest in a first contact. Dead foot sensors say nothing, so the legs' own
// angles have to: on its belly a robot's legs are folded, and nowhere near where they hang. Those of a robot that hangs stay where a hand
// left them, as far as their gears rub: whoever is told of them puts them back.
func (p *pose) notHung(rest *firstcontact.RestFigures) (all []hindrance) {
	folded := true
	for j := range go1.Joints {
		if j%go1.JointsInLeg != go1.Hip && !(math.Abs(p.q[j]-float64(go1.Folded[j])) < hangPose) {
			folded = false
		}
	}
	if folded { // to name each joint would not help
		return []hindrance{{ofAll, "all legs are folded, as those of a robot that lies on its belly"}}
	}
	for j := range go1.Joints {
		if at := rest.Q[j].Mean; !(math.Abs(p.q[j]-at) < hangPose) {
			all = append(all, hindrance{j, fmt.Sprintf("the %s is at %.2f rad, and hung at %.2f in the first contact", go1.JointNames[j], p.q[j], at)})
		}
	}
	if feet := p.pressed(rest); len(feet) >= hangFeet {
		all = append(all, feet...)
	}
	return all
}

// pressed are the feet that read more than they did at rest in a first contact.
func (p *pose) pressed(rest *firstcontact.RestFigures) (all []hindrance) {
	for leg := range p.foot {
		if at := rest.Foot[leg].Mean; !(p.foot[leg]-at <= hangFoot) {
			all = append(all, hindrance{go1.Joints + leg, fmt.Sprintf("the %s foot reads %.0f, and %.0f when it hung in the first contact", go1.LegNames[leg], p.foot[leg], at)})
		}
	}
	return all
}

// stray says which joint does not do as it is told while the thighs are drawn back from rest, and "" if all do: a thigh that goes the
// other way or runs away, a hip or calf that moves though nothing asks it to. A motor of wrong sign, one that is wired to another's
// place, a hand, a leg on the ground: whatever it is, the motors get no more torque.
func stray(rest *[go1.Joints]float64, s *wire.LowState) string {
	for j := range go1.Joints {
		by := float64(s.Motor[j].Q) - rest[j]
		switch {
		case j%go1.JointsInLeg != go1.Thigh && !(math.Abs(by) <= hangAside):
			return fmt.Sprintf("%s has moved by %+.2f rad, though it is told to stay", go1.JointNames[j], by)
		case j%go1.JointsInLeg == go1.Thigh && !(by >= -hangAgainst):
			return fmt.Sprintf("%s has moved by %+.2f rad, against its target", go1.JointNames[j], by)
		case j%go1.JointsInLeg == go1.Thigh && !(by <= hangAway+hangBeyond):
			return fmt.Sprintf("%s has moved by %+.2f rad, beyond its target", go1.JointNames[j], by)
		}
	}
	return ""
}
