package firstcontact

import (
	"math"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// TestFeetNobodyPressed: feet that live and that nobody was seen to press may be each other's, also where they say the same as long as
// nobody does.
func TestFeetNobodyPressed(t *testing.T) {
	cfg := testConfig()
	quiet := func(s *wire.LowState) {
		for i, f := range s.FootForce {
			if s.FootForce[i] = 0; f > 30 {
				s.FootForce[i] = f
			}
		}
	}
	swapped := func(s *wire.LowState) { s.FootForce[0], s.FootForce[1] = s.FootForce[1], s.FootForce[0] }
	nobody := func(s Step, _ int) (Step, float64) {
		if s.Group() == Feet {
			return s, 0
		}
		return s, 1
	}
	for name, c := range map[string]struct {
		wrong func(*wire.LowState)
		errs  func(Step, int) (Step, float64)
		pass  bool
		codes string
		feet  [go1.Legs]Result
	}{
		"nobody presses":             {nil, nobody, false, "nothing_seen nothing_seen nothing_seen nothing_seen", [4]Result{TimedOut, TimedOut, TimedOut, TimedOut}},
		"quiet ones":                 {quiet, nil, true, "", [4]Result{Passed, Passed, Passed, Passed}},
		"quiet ones, swapped":        {func(s *wire.LowState) { quiet(s); swapped(s) }, nil, false, "feet_swapped", [4]Result{Failed, Failed, Passed, Passed}},
		"quiet ones, the first dead": {func(s *wire.LowState) { quiet(s); s.FootForce[0] = 0 }, nil, true, "foot_stuck", [4]Result{TimedOut, Passed, Passed, Passed}},
		"one flickers":               {func(s *wire.LowState) { s.FootForce[2] = 7 + int16(s.Tick/2%2) }, nil, true, "foot_stuck", [4]Result{Passed, Passed, TimedOut, Passed}},
		"one flickers, and two are swapped": {func(s *wire.LowState) { swapped(s); s.FootForce[2] = 7 + int16(s.Tick/2%2) }, nil, false, "feet_swapped nothing_seen",
			[4]Result{Failed, Failed, TimedOut, Passed}},
		"none":                      {func(s *wire.LowState) { s.FootForce = [4]int16{7, 0, 0, 9} }, nil, true, "foot_force_zero", [4]Result{TimedOut, TimedOut, NotAsked, NotAsked}},
		"one lives, and is not its": {func(s *wire.LowState) { swapped(s); s.FootForce[2], s.FootForce[3], s.FootForce[0] = 0, 0, 0 }, nil, false, "foot_order foot_stuck foot_stuck nothing_seen", [4]Result{Failed, TimedOut, TimedOut, TimedOut}},
	} {
		h := newHung(17)
		h.wrong, h.errs = c.wrong, c.errs
		r := h.examine(New(cfg, nil))
		var codes []string
		for _, v := range r.Verdicts(nil, &cfg) {
			codes = append(codes, v.Code.String())
		}
		if got := [go1.Legs]Result(r.Results[FirstFoot:RemoteStop]); r.Pass(&cfg) != c.pass || strings.Join(codes, " ") != c.codes || got != c.feet {
			t.Errorf("%s: passes %v, %q, %v", name, r.Pass(&cfg), codes, got)
		}
	}
}

// TestPressedAsTheSensorsAre: a foot sensor feels what it is squeezed by; a hand from below alone would lift a hanging leg.
func TestPressedAsTheSensorsAre(t *testing.T) {
	for leg := range go1.Legs {
		if asked := (FirstFoot + Step(leg)).Ask(0); !strings.Contains(asked, legText[leg]+" foot between both hands") {
			t.Errorf("%q", asked)
		}
	}
}

// TestFootZeroDrifts: a foot sensor's zero may be another one when its foot is asked for than it was at rest. One that drifted is known; one
// that jumped may be asked for in vain, but neither makes a sound sensor a wrong one, nor the other way round.
func TestFootZeroDrifts(t *testing.T) {
	cfg := testConfig()
	cfg.StepSeconds = 20
	const leg, waitNs = 1, int64(240e9)
	const step = FirstFoot + leg
	for _, by := range []float64{60, -60, 40, -40} {
		for _, reversed := range []bool{false, true} {
			for _, jumps := range []bool{false, true} {
				h := newHung(33)
				restNs := int64(math.MaxInt64)
				h.wrong = func(s *wire.LowState) {
					if reversed {
						s.FootForce[leg] *= -1
					}
					drift := min(max(float64(h.nowNs-restNs)/float64(waitNs), 0), 1)
					if jumps {
						drift = math.Floor(drift)
					}
					s.FootForce[leg] += int16(by * drift)
				}
				h.errs = func(s Step, _ int) (Step, float64) { return s, 0.8 }
				e := New(cfg, nil)
				h.do(e, Rest)
				restNs = h.nowNs
				e.Begin(NoseDown) // which nobody does yet
				for s := (wire.LowState{}); h.nowNs < restNs+waitNs; {
					h.nowNs += 48e6
					h.state(&s)
					if e.Add(h.nowNs, &s).Phase == Done {
						e.Begin(NoseDown)
					}
				}
				told := false
				var s wire.LowState
				e.Begin(step)
				for st := (Status{}); st.Phase != Done; {
					h.state(&s)
					if st = e.Add(h.nowNs, &s); st.Phase == Asking && st.Changed {
						h.ask(step, st.Part, st.Tries)
					}
					told = told || st.Hint == HintPutBack && st.Tries == 0
				}
				r := e.Record()
				res, f := r.Results[step], &r.Feet[leg]
				switch {
				case !jumps && (res != map[bool]Result{false: Passed, true: Failed}[reversed] || told || !reversed && f.Tries != 1),
					jumps && reversed && res == Passed, jumps && !reversed && res == Failed:
					t.Errorf("by %v counts, at once %v, reversed %v: %s, told to let go %v: %+v", by, jumps, reversed, res, told, f)
				}
			}
		}
	}
}
