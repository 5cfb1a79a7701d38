package firstcontact

import (
	"math"
	"strings"
	"testing"
)

const gravityNm = 0.75 // N·m/rad, of a thigh with its calf

// silence is one of a hanging thigh, its gravity and inertia those of the robot, with motors that do as they are told to.
func silence(away float64, motors func(q, dq float64) float64) (t LossTrial) {
	const inertia, dt = 0.045, 1e-4 // kg·m2, s
	q, dq := away, 0.0
	t = LossTrial{AwayRad: away, TauBefore: gravityNm * away, SilentMs: LossSeconds * 1e3}
	for range int(LossSeconds / dt) {
		t.TauAfter = motors(q, dq)
		dq += (t.TauAfter - gravityNm*q) / inertia * dt
		q += dq * dt
	}
	t.BackRad, t.BackRadS = away-q, -dq
	return t
}

// TestLoss: three kinds of motors, each told from the others.
func TestLoss(t *testing.T) {
	const away = 0.3
	hold := func(q, dq float64) float64 { return gravityNm*away + 5*(away-q) - dq }
	damp := func(_, dq float64) float64 { return -3 * dq }
	limp := func(_, _ float64) float64 { return 0 }
	for _, c := range []struct {
		name   string
		motors func(q, dq float64) float64
		want   Behaviour
		says   string
	}{{"hold", hold, Holds, "link_loss_hold"}, {"damp", damp, Damps, "link_loss_damp"}, {"limp", limp, Limp, "link_loss_limp"}} {
		var trials []LossTrial
		for range LossTrials {
			trials = append(trials, silence(away, c.motors))
		}
		b, v := JudgeLoss(trials)
		if b != c.want || b.String() != c.name || v.Code.String() != c.says || !strings.Contains(v.Text(), "%") {
			t.Errorf("%s: %s, %s (%+v)", c.name, b, v.Text(), trials[0])
		}
		// One silence that went wrong does not change it, two do.
		trials[2] = LossTrial{}
		if b, _ := JudgeLoss(trials); b != c.want {
			t.Errorf("%s, one lost: %s", c.name, b)
		}
		trials[3] = LossTrial{}
		if b, v := JudgeLoss(trials); b != Unknown || v.Code != LossUnclear {
			t.Errorf("%s, two lost: %s", c.name, b)
		}
		if b, _ := JudgeLoss(trials[:1]); b != Unknown {
			t.Errorf("%s, one silence alone: %s", c.name, b)
		}
	}
	held := func(silentMs float64) LossTrial {
		return LossTrial{AwayRad: 0.3, TauBefore: 1, TauAfter: 1, SilentMs: silentMs}
	}
	for name, c := range map[string]struct {
		trial LossTrial
		want  Behaviour
	}{
		"cut short":                 {held(189.9), Unknown},
		"as short as may be":        {held(190), Holds},
		"as long as may be":         {held(230), Holds},
		"this computer stood still": {held(230.1), Unknown},
		"nobody knows how long":     {held(math.NaN()), Unknown},
		"not away":                  {LossTrial{AwayRad: 0.05, TauBefore: 1, TauAfter: 1}, Unknown},
		"no figure":                 {LossTrial{AwayRad: math.NaN()}, Unknown},
		"it went further away":      {LossTrial{AwayRad: 0.3, BackRad: -0.05, TauBefore: 1, TauAfter: 1}, Unknown},
		"friction":                  {LossTrial{AwayRad: 0.3, BackRad: 0.001, TauBefore: 1, TauAfter: 0.1}, Unknown},
		"out of mode, at friction":  {LossTrial{AwayRad: 0.3, BackRad: 0.001, TauBefore: 1, TauAfter: 0.1, ModesAfter: 12}, Damps},
		"damped late":               {LossTrial{AwayRad: 0.52, BackRad: 0.008, BackRadS: 0.09, TauBefore: 0.4, TauAfter: 0.3}, Damps},
		"let go late":               {LossTrial{AwayRad: 0.52, BackRad: 0.04, BackRadS: 0.66, TauBefore: 0.4, TauAfter: 0.01, ModesAfter: 12}, Limp},
		"it crept all along":        {LossTrial{AwayRad: 0.3, DriftRad: 0.01, BackRad: 0.011, TauBefore: 1, TauAfter: 1}, Holds},
	} {
		if c.trial.SilentMs == 0 {
			c.trial.SilentMs = LossSeconds * 1e3
		}
		if got := c.trial.Behaviour(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestLossOfAnotherLength: limp legs in silences that were cut short would look damped, and damped ones in long silences limp; neither is
// judged, and the text says why.
func TestLossOfAnotherLength(t *testing.T) {
	limp := silence(0.3, func(_, _ float64) float64 { return 0 })
	trials := make([]LossTrial, LossTrials)
	for i := range trials {
		trials[i] = limp
	}
	trials[0].SilentMs = 120
	if b, v := JudgeLoss(trials); b != Limp || !strings.Contains(v.Text(), "1 of the silences did not last 190 to 230 ms") {
		t.Errorf("one: %s, %s", b, v.Text())
	}
	trials[4].SilentMs = 420
	if b, v := JudgeLoss(trials); b != Unknown || v.Code != LossUnclear || !strings.Contains(v.Text(), "in 228 ms") || !strings.Contains(v.Text(), "2 of the silences did not last 190 to 230 ms") {
		t.Errorf("two: %s, %s", b, v.Text())
	}
}

func TestNamesReadBack(t *testing.T) {
	for b := Unknown; b <= Limp; b++ {
		text, _ := b.MarshalText()
		var back Behaviour
		if err := back.UnmarshalText(text); err != nil || back != b {
			t.Errorf("%s: %v %v", text, back, err)
		}
	}
	for r := Open; r <= NotAsked; r++ {
		text, _ := r.MarshalText()
		var back Result
		if err := back.UnmarshalText(text); err != nil || back != r {
			t.Errorf("%s: %v %v", text, back, err)
		}
	}
	var r Result
	if err := r.UnmarshalText([]byte("fine")); err == nil || !strings.Contains(err.Error(), `result "fine"`) {
		t.Errorf("%v", err)
	}
	var b Behaviour
	if err := b.UnmarshalText([]byte("falls")); err == nil || !strings.Contains(err.Error(), `behaviour "falls"`) {
		t.Errorf("%v", err)
	}
}
