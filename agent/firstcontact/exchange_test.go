package firstcontact

import (
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// TestLegsExchangedByPeople: a sound robot whose person takes one side, or one end, for the other is not called mirrored alone: the first
// that is said of its legs is that all of them are exchanged, and no joint is called reversed. Once the person looks right, it passes.
func TestLegsExchangedByPeople(t *testing.T) {
	cfg := testConfig()
	for k := range exchanges {
		h := newHung(uint64(20 + k))
		h.errs = func(s Step, _ int) (Step, float64) {
			i := s.index()
			switch s.Group() {
			case Joints:
				return FirstJoint + Step(exchanges[k].legs[i/go1.JointsInLeg]*go1.JointsInLeg+i%go1.JointsInLeg), 1
			case Feet:
				return FirstFoot + Step(exchanges[k].legs[i]), 1
			}
			return s, 1
		}
		r := h.examine(New(cfg, nil))
		got := r.Verdicts(nil, &cfg)
		if len(got) == 0 || got[0].Code != LegsExchanged || !strings.Contains(got[0].Text(), exchanges[k].text) || r.Pass(&cfg) {
			t.Errorf("%s: %q", exchanges[k].text, named(r, &cfg))
		}
		for _, v := range got {
			if v.Code != LegsExchanged && v.Code != LegsSwapped && v.Code != FeetSwapped {
				t.Errorf("%s: %s", exchanges[k].text, v.Text())
			}
		}
		for s := range Step(StepCount) {
			if named := slices.ContainsFunc(got, func(v Verdict) bool { return v.Of(s) }); named != (r.Results[s] == Failed) {
				t.Errorf("%s: %s is %s, and named %v", exchanges[k].text, s, r.Results[s], named)
			}
		}
		h.errs = nil
		if r = h.examine(New(cfg, r)); !r.Pass(&cfg) {
			t.Errorf("%s, and then right: %q", exchanges[k].text, named(r, &cfg))
		}
	}
	// One pair of legs is the wires', and so are all legs whose feet are their own.
	for _, feet := range []bool{false, true} {
		h := newHung(30)
		h.wrong = swapMotors([2]int{0, 3}, [2]int{1, 4}, [2]int{2, 5})
		if feet {
			h.wrong = swapMotors([2]int{0, 3}, [2]int{1, 4}, [2]int{2, 5}, [2]int{6, 9}, [2]int{7, 10}, [2]int{8, 11})
		}
		r := h.examine(New(cfg, nil))
		if v := named(r, &cfg); slices.ContainsFunc(v, func(n string) bool { return !strings.HasPrefix(n, "legs_swapped ") }) || len(v) == 0 {
			t.Errorf("all legs %v: %q", feet, v)
		}
	}
}
