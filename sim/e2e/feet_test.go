package e2e

import (
	"math"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/sim/virtual"
)

// TestFeet is row 24 of the cases: the same policy walks 0.8 m/s for 30 s whatever the foot sensors say, and the estimated
// velocity, without which it falls, stays near physics'.
func TestFeet(t *testing.T) {
	const seconds = 30
	for _, c := range []struct {
		name   string
		feet   func(*virtual.Config)
		faults []string
	}{
		{"nominal", nil, nil},
		{"all zero", nil, []string{"foot_force_zero@0"}},
		{"offsets 20 to 80, drift 1 a second", func(cfg *virtual.Config) {
			cfg.Noise.FootOffset, cfg.Noise.FootDrift = [4]float64{20, 40, 60, 80}, [4]float64{1, 1, 1, 1}
		}, nil},
		{"one stuck", nil, []string{"foot_force_stuck@0"}},
		{"180, 190, 20 and 15 with nothing behind them", nil, []string{"foot_force_stuck,foot=FR,value=180@0", "foot_force_stuck,foot=FL,value=190@0",
			"foot_force_stuck,foot=RR,value=20@0", "foot_force_stuck,foot=RL,value=15@0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var sum [2]float64
			n, worst, from := 0, 0., -1.
			r := newRig(t, rigSetup{faults: c.faults, feet: c.feet, each: func(r *rig, s *control.Snapshot) {
				// The snapshot is of the tick that took the state of s.State.Tick; the robot has gone one step further since.
				truth := r.truth
				st := r.robot.Status()
				r.truth = st
				if s.Mode != control.Policy || from < 0 && !st.Walking || truth.Tick != s.State.Tick {
					return
				}
				if from < 0 {
					from = st.T
				}
				if st.T > from+seconds {
					return
				}
				n++
				for i := range sum {
					e := float64(s.Velocity[i]) - truth.VelIMU[i]
					sum[i] += e * e
					worst = max(worst, math.Abs(e))
				}
			}})
			r.walk()
			w := r.walkedAt()
			r.runTo(w + 2 + seconds)
			st := getState(t, r.http)
			recs := r.records()
			v := walkedOn(t, recs, w+2, w+2+seconds, 0.8)
			if st.Mode != "policy" || st.fault() != "" {
				t.Errorf("state says mode %s, fault %q", st.Mode, st.fault())
			}
			vx, vy := math.Sqrt(sum[0]/float64(n)), math.Sqrt(sum[1]/float64(n))
			if n < 490*seconds || vx > 0.05 || vy > 0.05 {
				t.Errorf("the estimate is off by RMS %.3f m/s forward, %.3f sideways in %d states, want 0.05 in %d", vx, vy, n, 500*seconds)
			}
			t.Logf("walked at %.3f m/s; estimate against physics: RMSE vx %.4f, vy %.4f, worst %.3f m/s", v, vx, vy, worst)
		})
	}
}
