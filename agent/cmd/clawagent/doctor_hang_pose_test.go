package main

import (
	"math"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// hanging is a state of a robot whose legs are where they hung in a first contact.
func hanging(rest *firstcontact.RestFigures) (s wire.LowState) {
	for j := range s.Motor[:go1.Joints] {
		s.Motor[j].Q = float32(rest.Q[j].Mean)
	}
	for leg := range s.FootForce {
		s.FootForce[leg] = int16(rest.Foot[leg].Mean)
	}
	return s
}

// TestHangTestKnowsThatItHangs: legs get torque only where they hung in the first contact, and have come to rest.
func TestHangTestKnowsThatItHangs(t *testing.T) {
	r := passedRecord()
	lying := r.Rest // of a first contact that was made of a robot on its belly, by turning it on the ground
	for j := range lying.Q {
		lying.Q[j].Mean = float64(go1.Folded[j])
	}
	const calf = 2*go1.JointsInLeg + go1.Calf // RR's
	nan := float32(math.NaN())
	for _, c := range []struct {
		name   string
		rest   *firstcontact.RestFigures
		change func(s *wire.LowState, second bool) // of the second half of what is seen
		moves  string
		lies   string
	}{
		{"as in the first contact", &r.Rest, nil, "", ""},
		{"a little off", &r.Rest, func(s *wire.LowState, _ bool) {
			s.Motor[calf].Q -= 0.29
			s.FootForce[1] += 60
			s.FootForce[2] += 60
		}, "", ""},
		{"a leg left out", &r.Rest, func(s *wire.LowState, _ bool) { s.Motor[calf].Q -= 0.31 }, "", "the RR_calf_joint is at -1.20 rad, and hung at -0.89 in the first contact"},
		{"on its belly, with dead feet", &r.Rest, func(s *wire.LowState, _ bool) { *s = hanging(&lying) }, "", "all legs are folded"},
		{"on its belly, as in its first contact", &lying, nil, "", "all legs are folded"},
		{"legs splayed on its belly", &lying, func(s *wire.LowState, _ bool) { s.Motor[go1.Hip].Q = 0.6 }, "", "all legs are folded"},
		{"one leg down", &lying, func(s *wire.LowState, _ bool) { s.Motor[calf].Q = -2.3 }, "", "the RR_calf_joint is at -2.30 rad"},
		{"two legs left bent", &r.Rest, func(s *wire.LowState, _ bool) { s.Motor[calf].Q -= 0.31; s.Motor[go1.Calf].Q -= 0.4 }, "",
			"the FR_calf_joint is at -1.29 rad, and hung at -0.89 in the first contact; the RR_calf_joint is at -1.20 rad, and hung at -0.89 in the first contact"},
		{"a foot whose zero has drifted", &r.Rest, func(s *wire.LowState, _ bool) { s.FootForce[2] += 62 }, "", ""},
		{"feet whose zeros have drifted down", &r.Rest, func(s *wire.LowState, _ bool) {
			for leg := range s.FootForce {
				s.FootForce[leg] -= 200
			}
		}, "", ""},
		{"one up, the others down", &r.Rest, func(s *wire.LowState, _ bool) {
			for leg := range s.FootForce {
				s.FootForce[leg] -= 200
			}
			s.FootForce[0] += 262
		}, "", ""},
		{"two loaded feet", &r.Rest, func(s *wire.LowState, _ bool) { s.FootForce[2] += 62; s.FootForce[3] += 62 }, "", "the RR foot reads "},
		{"feet that are loaded half the time", &r.Rest, func(s *wire.LowState, second bool) {
			if second {
				s.FootForce[2] += 130
				s.FootForce[1] += 130
			}
		}, "", "the FL foot reads "},
		{"a leg that creeps back", &r.Rest, func(s *wire.LowState, second bool) {
			if second {
				s.Motor[calf].Q += 0.008
			}
		}, "the RR_calf_joint still moves, by 0.03 rad/s", ""},
		{"a leg that hardly does", &r.Rest, func(s *wire.LowState, second bool) {
			if second {
				s.Motor[calf].Q -= 0.007
			}
		}, "", ""},
		{"a leg that swings", &r.Rest, func(s *wire.LowState, _ bool) { s.Motor[calf].Dq = -0.12 }, "the RR_calf_joint still moves, by 0.00 rad/s (-0.12 by its own word)", ""},
		{"no angle", &r.Rest, func(s *wire.LowState, _ bool) { s.Motor[calf].Q = nan }, "the RR_calf_joint still moves", "the RR_calf_joint is at NaN rad"},
		{"no speed", &r.Rest, func(s *wire.LowState, _ bool) { s.Motor[calf].Dq = nan }, "the RR_calf_joint still moves", ""},
	} {
		var w poseWindow
		if _, seen := w.pose(0.5); seen {
			t.Fatal("seen nothing, and it is a pose")
		}
		for half := range 2 {
			if _, seen := w.pose(0.5); seen {
				t.Fatal("seen half, and it is a pose")
			}
			for range 10 {
				s := hanging(c.rest)
				if c.change != nil {
					c.change(&s, half == 1)
				}
				w.add(half, &s)
			}
		}
		p, seen := w.pose(0.5)
		if got := list(p.moves()); !seen || (got == "") != (c.moves == "") || !strings.HasPrefix(got, c.moves) {
			t.Errorf("%s: it moves: %q, want %q", c.name, got, c.moves)
		}
		if got := list(p.notHung(c.rest)); (got == "") != (c.lies == "") || !strings.HasPrefix(got, c.lies) {
			t.Errorf("%s: it does not hang: %q, want %q", c.name, got, c.lies)
		}
	}
}

// TestHangTestEndsWhereLegsStray: a thigh comes back to its target and not against it or far beyond; hips and calves stay.
func TestHangTestEndsWhereLegsStray(t *testing.T) {
	r := passedRecord()
	var rest [go1.Joints]float64
	for j := range rest {
		rest[j] = r.Rest.Q[j].Mean
	}
	const leg = 1 * go1.JointsInLeg // FL
	for _, c := range []struct {
		joint int
		by    float64
		want  string
	}{
		{leg + go1.Thigh, 0, ""}, {leg + go1.Thigh, 0.6, ""}, {leg + go1.Thigh, 0.79, ""}, {leg + go1.Thigh, -0.09, ""},
		{leg + go1.Thigh, -0.11, "FL_thigh_joint has moved by -0.11 rad, against its target"},
		{leg + go1.Thigh, 0.81, "FL_thigh_joint has moved by +0.81 rad, beyond its target"},
		{leg + go1.Thigh, math.NaN(), "FL_thigh_joint has moved by +NaN rad"},
		{leg + go1.Hip, 0.19, ""}, {leg + go1.Hip, -0.19, ""},
		{leg + go1.Hip, 0.21, "FL_hip_joint has moved by +0.21 rad, though it is told to stay"},
		{leg + go1.Calf, -0.21, "FL_calf_joint has moved by -0.21 rad, though it is told to stay"},
		{leg + go1.Calf, math.NaN(), "FL_calf_joint has moved by +NaN rad"},
	} {
		s := hanging(&r.Rest)
		s.Motor[c.joint].Q += float32(c.by)
		if got := stray(&rest, &s); (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s by %.2f: %q, want %q", go1.JointNames[c.joint], c.by, got, c.want)
		}
	}
}
