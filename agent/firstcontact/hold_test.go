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
	// Not for ever: where it hangs is not known then, and that is said.
	cfg.StepSeconds = 1
	h = newHung(26)
	h.acts = []act{{step: FirstJoint + 5, fromNs: h.nowNs - 1e9, size: 1, by: hand{creepS: 8}}}
	before := h.nowNs
	e = New(cfg, nil)
	h.do(e, Rest)
	if r, v := e.Record(), named(e.Record(), &cfg); r.Results[Rest] != Failed || len(v) != 1 || v[0] != "never_still It never hung still: FL_calf_joint crept" ||
		float64(h.nowNs-before)/1e9 > cfg.StepSeconds+cfg.RestSeconds+0.1 {
		t.Errorf("%s after %d ms: %q", e.Record().Results[Rest], (h.nowNs-before)/1e6, v)
	}
}

// TestGapInAMove: what a joint's speed said while no state came nobody knows; at most it is asked for once more.
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

// TestFrictionHolds: a leg that stays where it was let go is told of, and asked for all the same, from there.
func TestFrictionHolds(t *testing.T) {
	cfg := testConfig()
	cfg.StepSeconds = 10
	const step = FirstJoint + 4
	h := newHung(29)
	e := New(cfg, nil)
	h.step(t, e, Rest, nil)
	h.acts = []act{{step: step, fromNs: h.nowNs - 1e9, size: 0.6, by: hand{stayNs: 1e12}}}
	e.Begin(step)
	var s wire.LowState
	began, waited := h.nowNs, int64(0)
	for st := (Status{}); st.Phase != Done; {
		h.state(&s)
		if st = e.Add(h.nowNs, &s); st.Hint == HintPutBack {
			waited = h.nowNs - began
		}
		if st.Phase == Asking && st.Changed {
			h.ask(step, st.Part, st.Tries)
		}
	}
	f := &e.Record().Joints[4]
	if e.Record().Results[step] != Passed || f.Tries != 1 || waited < staysNs || waited > staysNs+1e9 || math.Abs(f.Delta[4]-0.35) > 0.02 {
		t.Errorf("%s after %d ms of waiting: %+v", e.Record().Results[step], waited/1e6, f)
	}
}

// TestThroughHomeAndBack: a joint that friction has left on the other side of home, is swung a little past it and put back, was not moved the
// other way; swung further, it passes.
func TestThroughHomeAndBack(t *testing.T) {
	cfg := testConfig()
	cfg.StepSeconds = 10
	for swing, want := range map[float64]Result{1: TimedOut, 1.6: Passed} {
		const step = FirstJoint + 4
		h := newHung(34)
		h.errs = func(s Step, _ int) (Step, float64) { return s, swing }
		e := New(cfg, nil)
		h.step(t, e, Rest, nil)
		h.acts = []act{{step: step, fromNs: h.nowNs - 1e9, size: -0.6, by: hand{stayNs: 1e12}}}
		h.do(e, step)
		if r := e.Record(); r.Results[step] != want || want == Passed && r.Joints[4].Tries != 1 {
			t.Errorf("swung by %.2f rad: %s, %+v", 0.35*swing, r.Results[step], r.Joints[4])
		}
	}
}

// TestLetGoAfterAll: what was held out when it was asked for, and let go then, is asked for again from home, once it has stayed there.
func TestLetGoAfterAll(t *testing.T) {
	cfg := testConfig()
	cfg.StepSeconds = 20
	for _, c := range []struct {
		step  Step
		wrong func(*wire.LowState)
		want  Result
	}{
		{FirstJoint + 3, nil, Passed}, {FirstJoint + 3, reversedJoint(3), Failed}, {FirstFoot + 1, nil, Passed}, {FirstFoot + 1, reversedFoot(1), Failed},
	} {
		h := newHung(35)
		h.wrong = c.wrong
		e := New(cfg, nil)
		h.do(e, Rest)
		asked := 0
		h.errs = func(s Step, _ int) (Step, float64) {
			if asked++; asked == 1 {
				return s, 0
			}
			return s, 1
		}
		h.acts = []act{{step: c.step, fromNs: h.nowNs - 600e6, size: 1, by: hand{stayNs: 5e9}}}
		h.do(e, c.step)
		if r := e.Record(); r.Results[c.step] != c.want || asked < 2 {
			t.Errorf("%s, asked for %d times: %s, want %s", c.step, asked, r.Results[c.step], c.want)
		}
	}
}

// do goes through a step alone.
func (h *hung) do(e *Examiner, step Step) {
	e.Begin(step)
	var s wire.LowState
	h.state(&s) // the first has no speeds
	for st := (Status{}); st.Phase != Done; {
		h.state(&s)
		if st = e.Add(h.nowNs, &s); st.Phase == Asking && st.Changed && step.Group() != Automatic {
			h.ask(step, st.Part, st.Tries)
		}
	}
}

// TestSpeedAgrees: by how much speed and angle may differ, and what noise makes of it.
func TestSpeedAgrees(t *testing.T) {
	for _, c := range []struct {
		turned, bySpeed, sd, way float64
		want                     bool
	}{
		{0.3, 0.3, 0.05, 0.5, true}, {-0.3, -0.3, 0.05, 0.5, true}, {0.3, -0.3, 0.05, 0.5, false}, {-0.3, 0.3, 0.05, 0.5, false},
		{0.3, 0.2, 0, 0.5, false}, {0.3, 0.22, 0, 0.5, true}, {0.3, 0.41, 0, 0.5, true}, {0.3, 0.43, 0, 0.5, false},
		{0.3, 0.1, 1, 0.5, true}, {0.3, 0.05, 1, 0.5, false}, {0.3, 0.53, 1, 0.5, true}, {0.3, 0.6, 1, 0.5, false}, // 0.126 rad of noise
		{0.3, 0.1, 1, 0.1, false}, // less in a shorter time
		{0.3, -0.1, 100, 0.5, true}, {0.3, -0.3, 100, 0.5, false}, {0.3, 0.9, 100, 0.5, false},
		{0, 0, 0.05, 0.5, false}, {0.04, 0.04, 0.05, 0.5, false}, {0.06, 0.06, 0.05, 0.5, true},
	} {
		r := newRecord()
		r.Rest.Dq[7].SD, r.Joints[7].Turned, r.Joints[7].BySpeed, r.Joints[7].WayS = c.sd, c.turned, c.bySpeed, c.way
		if got := r.speedAgrees(7); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestNoiseIsNoCreep: what an angle jumps from state to state is not waited for.
func TestNoiseIsNoCreep(t *testing.T) {
	cfg := testConfig()
	cfg.RestSeconds = 0.5
	for seed := range uint64(8) {
		h := newHung(40 + seed)
		h.wrong = func(s *wire.LowState) {
			for i := range s.Motor {
				s.Motor[i].Q += float32(0.02 * h.draw.NormFloat64())
			}
		}
		e := New(cfg, nil)
		e.Begin(Rest)
		var s wire.LowState
		began := h.nowNs
		for st := (Status{}); st.Phase != Done; {
			h.state(&s)
			st = e.Add(h.nowNs, &s)
		}
		if ms := (h.nowNs - began) / 1e6; ms > 510 {
			t.Errorf("seed %d: at rest for %d ms", seed, ms)
		}
	}
}

// TestSpeedAloneIsNoMove: noise and a constant in the speed of a joint that nobody moves do not pass for a move that its angle missed.
func TestSpeedAloneIsNoMove(t *testing.T) {
	cfg := testConfig()
	cfg.StepSeconds = 20
	const step = FirstJoint + 7
	for _, c := range []struct{ noise, constant float64 }{{4, 0}, {0, 0.05}} {
		h := newHung(30)
		h.errs = func(s Step, _ int) (Step, float64) { return s, 0 }
		h.wrong = func(s *wire.LowState) { s.Motor[7].Dq += float32(c.noise*h.draw.NormFloat64() + c.constant) }
		r := h.step(t, New(cfg, nil), step, nil)
		if v := named(r, &cfg); r.Results[step] != TimedOut || r.Joints[7].Stuck || !strings.HasPrefix(v[len(v)-1], "nothing_seen") {
			t.Errorf("%+v: %s: %q", c, r.Results[step], v)
		}
	}
	// And a joint whose speed is wrong is asked for once more, and has failed then.
	h := newHung(31)
	h.wrong = scaledSpeed(7, -1)
	if r := h.step(t, New(cfg, nil), step, nil); r.Results[step] != Failed || r.Joints[7].Tries != 2 {
		t.Errorf("%s: %+v", r.Results[step], r.Joints[7])
	}
}

// TestPutBackIsToldOnce: at its edge noise does not tell it again and again; of a foot it is told, too; and nobody is told of a robot that
// was not seen at rest.
func TestPutBackIsToldOnce(t *testing.T) {
	cfg := testConfig()
	for _, c := range []struct {
		step   Step
		size   float64
		rested bool
		want   []Hint
	}{
		{FirstJoint + 4, 0.1 / 0.35, true, []Hint{HintPutBack, NoHint}},
		{FirstFoot + 2, 0.6, true, []Hint{HintPutBack, NoHint}},
		{FirstFoot + 2, 0.2, true, []Hint{NoHint}},
		{FirstJoint + 4, 1, false, []Hint{NoHint}},
	} {
		h := newHung(32)
		e := New(cfg, nil)
		if c.rested {
			h.step(t, e, Rest, nil)
		}
		h.acts = []act{{step: c.step, fromNs: h.nowNs - 1e9, size: c.size, by: hand{stayNs: 2e9, creepS: 1}}}
		h.wrong = func(s *wire.LowState) { s.Motor[4].Q += float32(0.01 * h.draw.NormFloat64()) }
		e.Begin(c.step)
		var s wire.LowState
		var seen []Hint
		for st := (Status{}); st.Phase != Asking; {
			h.state(&s)
			if st = e.Add(h.nowNs, &s); len(seen) == 0 || seen[len(seen)-1] != st.Hint {
				seen = append(seen, st.Hint)
			}
			if st.Phase == Done {
				t.Fatalf("%+v: never asked", c)
			}
		}
		if !slices.Equal(seen, c.want) {
			t.Errorf("%+v: %v", c, seen)
		}
	}
}
