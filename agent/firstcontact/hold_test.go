package firstcontact

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// reversedJoint turns the sign of what motor i says, reversedFoot of foot i.
func reversedJoint(i int) func(*wire.LowState) {
	return func(s *wire.LowState) { s.Motor[i].Q *= -1; s.Motor[i].Dq *= -1 }
}

func reversedFoot(i int) func(*wire.LowState) {
	return func(s *wire.LowState) { s.FootForce[i] *= -1 }
}

// step goes through one step, with the rest before it, as long as it takes.
func (h *hung) step(t *testing.T, e *Examiner, step Step, see func(st *Status)) *Record {
	t.Helper()
	var s wire.LowState
	h.state(&s)
	for _, of := range []Step{Rest, step} {
		if !e.Begin(of) {
			t.Fatalf("%s is not asked", of)
		}
		for st := (Status{}); st.Phase != Done; {
			h.state(&s)
			st = e.Add(h.nowNs, &s)
			if of != step {
				continue
			}
			if see != nil {
				see(&st)
			}
			if st.Phase == Asking && st.Changed {
				h.ask(step, st.Part, st.Tries)
			}
		}
	}
	return e.Record()
}

// TestHeldOut: what a person holds out until it is asked for once more, and only then lets go, comes back the other way. That is not
// taken for what was asked for, however long it is held, and however fast it comes back.
func TestHeldOut(t *testing.T) {
	cfg := testConfig()
	cfg.StepSeconds = 20
	for _, by := range []hand{{stayNs: 1.5e9}, {stayNs: 6e9}, {stayNs: 1.5e9, creepS: 4}, {creepS: 1}, {creepS: 4}, {creepS: 10}} {
		for _, step := range []Step{FirstJoint + 3, FirstJoint + 4, FirstJoint + 8, FirstFoot + 1} {
			h := newHung(21)
			wrong, code := reversedJoint(step.index()), "joint_reversed"
			if step.Group() == Feet {
				wrong, code = reversedFoot(step.index()), "foot_order"
			}
			h.wrong = wrong
			h.hand = func(Step) hand { return by }
			h.errs = func(s Step, try int) (Step, float64) {
				if try > 0 {
					return s, 0
				}
				return s, 1
			}
			r := h.step(t, New(cfg, nil), step, nil)
			if v := named(r, &cfg); r.Results[step] != Failed || len(v) != 1 || !strings.HasPrefix(v[0], code) {
				t.Errorf("%s, %+v: %s: %q", step, by, r.Results[step], v)
			}
			// And of one that reads as it should, the hand counts that moves it again.
			h = newHung(22)
			h.hand = func(Step) hand { return by }
			h.errs = func(s Step, try int) (Step, float64) {
				if try == 0 {
					return s, -1
				}
				return s, 1
			}
			if r = h.step(t, New(cfg, nil), step, nil); step.Group() == Joints && r.Results[step] != Passed {
				t.Errorf("%s, %+v: of a sound one, moved the wrong way first: %s: %q", step, by, r.Results[step], named(r, &cfg))
			}
		}
	}
}

// TestHeldBefore: a leg that is held out already when the step begins, and let go when it is asked for.
func TestHeldBefore(t *testing.T) {
	cfg := testConfig()
	cfg.StepSeconds = 20
	for _, by := range []hand{{stayNs: 5e9}, {stayNs: 5e9, creepS: 4}} {
		for wrong, want := range map[bool]Result{true: TimedOut, false: TimedOut} {
			const step = FirstJoint + 3
			h := newHung(23)
			if wrong {
				h.wrong = reversedJoint(3)
			}
			e := New(cfg, nil)
			e.Begin(Rest)
			var s wire.LowState
			for st := (Status{}); st.Phase != Done; {
				h.state(&s)
				st = e.Add(h.nowNs, &s)
			}
			h.acts = []act{{step: step, fromNs: h.nowNs - 600e6, size: 1, by: by}}
			e.Begin(step)
			var seen []Hint
			for st := (Status{}); st.Phase != Done; {
				h.state(&s)
				if st = e.Add(h.nowNs, &s); len(seen) == 0 || seen[len(seen)-1] != st.Hint {
					seen = append(seen, st.Hint)
				}
				if off := 0.35; st.Hint == HintPutBack && (st.Phase != Settling || st.Moved != 3 || st.Want != jointNear || st.Value > 0 != !wrong || math.Abs(st.Value) > off+0.01) {
					t.Fatalf("%+v", st)
				}
			}
			r := e.Record()
			if r.Results[step] != want {
				t.Errorf("%+v, wrong %v: %s, moved %+v", by, wrong, r.Results[step], r.Joints[3])
			}
			if !slices.Equal(seen, []Hint{HintPutBack, NoHint}) {
				t.Errorf("%+v, wrong %v: told to put it back: %v", by, wrong, seen)
			}
		}
	}
}

// TestLetGo: legs that are let go creep back for many seconds, by damping, while the next ones are asked for of a person who is slow. It
// passes at the first try of each.
func TestLetGo(t *testing.T) {
	cfg := testConfig()
	cfg.StepSeconds = 30
	for _, wayNs := range []int64{4e8, 2e9} {
		for _, reaction := range []int64{5e7, 3e9} {
			h := newHung(24)
			h.hand = func(s Step) hand {
				by := hand{wayNs: wayNs}
				if s.Group() == Joints {
					by.creepS = []float64{4, 4, 10}[s.index()%go1.JointsInLeg]
				}
				return by
			}
			h.slow = reaction
			r := h.examine(New(cfg, nil), Remote)
			for s := NoseDown; s < RemoteStop; s++ {
				if r.Results[s] != Passed {
					t.Errorf("%s: %s", s, r.Results[s])
				}
			}
			for i := range r.Joints {
				if r.Joints[i].Tries != 1 {
					t.Errorf("joint %d: %d tries", i, r.Joints[i].Tries)
				}
			}
			if v := named(r, &cfg); len(v) != 0 {
				t.Errorf("%q", v)
			}
		}
	}
}

// TestRestWaitsForLegs: where a leg hangs is measured once it has come back, and a person is told of which joint that is waited for.
func TestRestWaitsForLegs(t *testing.T) {
	cfg := testConfig()
	cfg.StepSeconds = 60
	h := newHung(25)
	h.acts = []act{{step: FirstJoint + 5, fromNs: h.nowNs - 1e9, size: 1, by: hand{creepS: 8}}}
	e := New(cfg, nil)
	e.Begin(Rest)
	var s wire.LowState
	told := false
	for st := (Status{}); st.Phase != Done; {
		h.state(&s)
		st = e.Add(h.nowNs, &s)
		told = told || st.Hint == HintCreeps && st.Moved == 5
		if st.Moved >= 0 && st.Moved != 5 {
			t.Fatalf("joint %d is said to creep", st.Moved)
		}
	}
	if off := e.Record().Rest.Q[5].Mean - -0.9; off > 0.1 || off < -0.1 || !told {
		t.Errorf("measured %.3f rad off, told %v", off, told)
	}
	// Not for ever.
	cfg.StepSeconds = 1
	h = newHung(26)
	h.acts = []act{{step: FirstJoint + 5, fromNs: h.nowNs - 1e9, size: 1, by: hand{creepS: 30}}}
	before := h.nowNs
	e = New(cfg, nil)
	if h.step(t, e, Rest, nil); e.Record().Results[Rest] != Passed || float64(h.nowNs-before)/1e9 > 2*(cfg.StepSeconds+cfg.RestSeconds)+0.1 {
		t.Errorf("%s after %d ms", e.Record().Results[Rest], (h.nowNs-before)/1e6)
	}
}

// TestGapInAMove: what a joint's speed said while no state came is not asked of it.
func TestGapInAMove(t *testing.T) {
	cfg := testConfig()
	const step, gap = FirstJoint + 4, int64(300e6)
	for at := int64(0); at < actNs; at += 50e6 {
		h := newHung(27)
		e := New(cfg, nil)
		var s wire.LowState
		h.state(&s)
		askedNs := int64(math.MaxInt64 / 2)
		for _, of := range []Step{Rest, step} {
			e.Begin(of)
			for st := (Status{}); st.Phase != Done; {
				if h.state(&s); h.nowNs > askedNs+at && h.nowNs <= askedNs+at+gap {
					continue
				}
				if st = e.Add(h.nowNs, &s); of == step && st.Phase == Asking && st.Changed {
					if st.Tries == 0 {
						askedNs = h.nowNs
					}
					h.ask(step, st.Part, st.Tries)
				}
			}
		}
		if r := e.Record(); r.Results[step] != Passed {
			t.Errorf("gap from %d ms on: %s, %+v", at/1e6, r.Results[step], r.Joints[4])
		}
	}
}

// TestSpeedNeverMeasured: of a robot that an older program has let pass, the joints' speeds are not known: it is asked for them.
func TestSpeedNeverMeasured(t *testing.T) {
	cfg := testConfig()
	old := *newHung(28).examine(New(cfg, nil))
	if e := New(cfg, &old); !old.Pass(&cfg) || !e.Kept(FirstJoint+7) {
		t.Fatalf("%q, %v", named(&old, &cfg), old.Results)
	}
	f := &old.Joints[7]
	f.Turned, f.BySpeed, f.WayS = 0, 0, 0
	if e := New(cfg, &old); old.Pass(&cfg) || e.Kept(FirstJoint+7) || !e.Kept(FirstJoint+6) {
		t.Errorf("passes %v, kept %v and %v", old.Pass(&cfg), e.Kept(FirstJoint+7), e.Kept(FirstJoint+6))
	}
}
