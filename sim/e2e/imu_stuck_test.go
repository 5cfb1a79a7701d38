package e2e

import (
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/sim/virtual"
)

// TestIMUStuck: a robot whose IMU repeats itself is damped, ten states after the first that was repeated, in 20 ms.
func TestIMUStuck(t *testing.T) {
	t.Parallel()
	t.Run("walking", func(t *testing.T) {
		t.Parallel()
		testTrip(t, trip{faults: []string{"imu_stuck@walk+2"}, atMs: 20, cause: "imu_stuck"})
	})
	t.Run("standing", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, rigSetup{noHTTP: true, faults: []string{"imu_stuck@stand+1"}})
		r.stand()
		until(t, "the fault's act", func() bool { return r.snapshot().Verdict.Severity != safety.None })
		s, recs := r.snapshot(), r.records()
		since := began(t, recs, "imu_stuck")
		at, _, ok := damped(recs, since)
		if ms := (at - since) * 1e3; !ok || ms < 20-1e-6 || ms > 20+2*tickMs+1e-6 || s.Verdict.Fault != safety.IMUStuck {
			t.Errorf("damped %v, %.0f ms after, by %v; want 20..%.0f ms, by imu_stuck", ok, ms, s.Verdict.Fault, 20+2*tickMs)
		}
	})
}

// TestIMUWithoutNoise: a robot that is simulated without noise may stand as still as physics lets it, and it may walk: its IMU is no stuck
// one, not even for a tick.
func TestIMUWithoutNoise(t *testing.T) {
	t.Parallel()
	warned := 0
	r := newRig(t, rigSetup{noHTTP: true, still: true, feet: func(c *virtual.Config) {
		c.Noise = virtual.Noise{FootScale: c.Noise.FootScale, FootOffset: c.Noise.FootOffset}
	}, each: func(_ *rig, s *control.Snapshot) { warned += int(s.Verdict.Warnings >> safety.IMUStuck & 1) }})
	r.stand()
	r.runTo(r.robot.Status().T + 40)
	r.robot.Fault("remote_sticks,ly=0.8@now")
	r.must("policy", r.loop.SetMode(t.Context(), control.Policy))
	r.runTo(r.walkedAt() + 20)
	if s := r.snapshot(); s.Mode != control.Policy || s.Verdict.Severity != safety.None {
		t.Errorf("mode %v, latched %v by %v", s.Mode, s.Verdict.Severity, s.Verdict.Fault)
	}
	r.end() // the loop's thread counts no more
	if warned > 0 {
		t.Errorf("%d ticks warned of a stuck IMU", warned)
	}
}
