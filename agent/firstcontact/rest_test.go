package firstcontact

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// TestNeverStill: a body that sways until the time is over has not shown where it hangs, which all signs are counted from: it does not pass.
func TestNeverStill(t *testing.T) {
	cfg := testConfig()
	for _, by := range []struct {
		step Step
		size float64
		want Result
	}{{RollLeft, 0.3, Failed}, {NoseDown, 0.3, Failed}, {RollLeft, 0.05, Passed}} { // by 0.135 and 0.0225 rad
		h := newHung(50)
		for k := range int64(12) {
			h.acts = append(h.acts, act{step: by.step, fromNs: h.nowNs + k*actNs, size: by.size})
		}
		began := h.nowNs
		e := New(cfg, nil)
		h.do(e, Rest)
		r := e.Record()
		v := named(r, &cfg)
		if r.Results[Rest] != by.want || (len(v) == 0) != (by.want == Passed) || len(v) > 0 && !slices.Equal(v, []string{"never_still It never hung still: the body swayed"}) {
			t.Errorf("%+v: %s, %q", by, r.Results[Rest], v)
		}
		if s := float64(h.nowNs-began) / 1e9; by.want == Failed && (s < cfg.StepSeconds || s > cfg.StepSeconds+cfg.RestSeconds+0.1) {
			t.Errorf("%+v: after %.1f s", by, s)
		}
		// And once it hangs still, it passes.
		h.acts = nil
		h.do(e, Rest)
		if r.Results[Rest] != Passed || len(named(r, &cfg)) != 0 {
			t.Errorf("%+v, then still: %s, %q", by, r.Results[Rest], named(r, &cfg))
		}
	}
}

// folds is a robot that was hoisted as it lay: its knees are folded, and stay as they are left; none goes beyond its stop.
func (h *hung) folds(knees ...int) {
	for _, leg := range knees {
		calf := leg*go1.JointsInLeg + go1.Calf
		h.acts = append(h.acts, act{step: FirstJoint + Step(calf), fromNs: h.nowNs - 1e9, size: (2.6 - 0.9) / 0.35, by: hand{stayNs: 1e15}})
	}
	h.wrong = func(s *wire.LowState) {
		for i := range go1.Joints {
			s.Motor[i].Q = max(s.Motor[i].Q, go1.StopLower[i])
		}
	}
}

// TestFoldedKnees: a sound robot that was hoisted with its knees folded has no way left to bend them. A person is told, at rest, which to
// stretch, each in its time, and then it passes; who does not is told why it has not.
func TestFoldedKnees(t *testing.T) {
	cfg := testConfig()
	knees := []int{go1.FR, go1.FL, go1.RL}
	h := newHung(51)
	h.folds(knees...)
	e := New(cfg, nil)
	e.Begin(Rest)
	var s wire.LowState
	h.state(&s)
	var told []string
	left := knees
	for st := (Status{}); st.Phase != Done; {
		h.state(&s)
		if st = e.Add(h.nowNs, &s); st.Hint != HintStretch {
			continue
		}
		text := st.Hint.Text(Rest, &st)
		if len(told) > 0 && told[len(told)-1] == text {
			continue
		}
		told = append(told, text)
		if len(left) > 0 { // one after the other, as late as may be
			calf := left[0]*go1.JointsInLeg + go1.Calf
			h.acts = append(h.acts, act{step: FirstJoint + Step(calf), fromNs: h.nowNs + 3e9, size: -1.1 / 0.35, by: hand{stayNs: 1e15}})
			left = left[1:]
		}
	}
	if want := []string{
		"first stretch the knees that are folded, and leave them so: front right, front left, rear left",
		"first stretch the knees that are folded, and leave them so: front left, rear left",
		"first stretch the knees that are folded, and leave them so: rear left",
	}; !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
	for s := FirstJoint; s < FirstFoot; s++ {
		h.do(e, s)
	}
	r := e.Record()
	for i := range r.Joints {
		if s := FirstJoint + Step(i); r.Results[Rest] != Passed || r.Results[s] != Passed || r.Joints[i].Tries != 1 {
			t.Errorf("%s: %s in %d tries: %q", s, r.Results[s], r.Joints[i].Tries, named(r, &cfg))
		}
	}

	h = newHung(52)
	h.folds(go1.RR)
	e = New(cfg, nil)
	began := h.nowNs
	h.do(e, Rest)
	r = e.Record()
	if v := named(r, &cfg); r.Results[Rest] != Failed || len(v) != 1 || !strings.HasPrefix(v[0], "knee_folded ") || !strings.HasSuffix(v[0], ": RR_calf_joint -2.60 rad") {
		t.Errorf("%s: %q", r.Results[Rest], v)
	}
	if s := float64(h.nowNs-began) / 1e9; s > 2*(cfg.StepSeconds+cfg.RestSeconds) {
		t.Errorf("after %.1f s", s)
	}
	// One that a person then could not bend, and stretched, seems reversed: what it lacked is named beside.
	const calf = 8
	r.Joints[calf] = MoveFigures{Moved: calf}
	r.Joints[calf].Delta[calf] = 0.8
	if v := named(r, &cfg); len(v) != 2 || !strings.HasPrefix(v[0], "knee_folded ") || !strings.HasPrefix(v[1], "joint_reversed ") {
		t.Errorf("%q", v)
	}
}

// TestFolded: how near to its stop a knee may hang.
func TestFolded(t *testing.T) {
	for _, c := range []struct {
		joint int
		q     float64
		want  bool
	}{
		{2, -2.65, true}, {2, -2.82, true}, {2, -2.33, true}, {2, -2.31, false}, {2, -1, false}, {2, -3, false}, // beyond its stop: joint_range
		{5, -2.5, true}, {8, -2.5, true}, {11, -2.5, true}, {1, 4.4, false}, {0, -0.8, false}, {3, 0.8, false}, {1, -2.65, false},
		{2, math.Inf(1), false},
	} {
		if got := isFolded(c.joint, c.q); got != c.want {
			t.Errorf("%s at %.2f rad: %v", go1.JointNames[c.joint], c.q, got)
		}
	}
	// The legs of a body that is tilted hang otherwise, and that is said.
	cfg := testConfig()
	h := newHung(53)
	h.folds(go1.FL)
	h.acts = append(h.acts, act{step: RollLeft, fromNs: h.nowNs - 1e9, size: 2, by: hand{stayNs: 1e15}})
	e := New(cfg, nil)
	h.do(e, Rest)
	if v := named(e.Record(), &cfg); len(v) != 1 || !strings.HasPrefix(v[0], "tilt ") {
		t.Errorf("%q", v)
	}
}
