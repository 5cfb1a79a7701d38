package e2e

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// TestSoakHourOfWalking walks under pushes from all sides; nothing may trip. OPENCLAW_SOAK=hour walks the whole hour.
func TestSoakHourOfWalking(t *testing.T) {
	t.Parallel()
	const seed = 20
	seconds := 120.
	if os.Getenv("OPENCLAW_SOAK") == "hour" {
		seconds = 3600
	}
	// Every four seconds a push of 60 N for 100 ms, half a metre a second for a robot of 12 kg, and between two of them a kick;
	// directions and times repeat each minute, the legs' phase at them does not.
	const pushes, space = 15, 4.1 // s
	draw := rand.New(rand.NewPCG(seed, 1))
	var faults []string
	for i := range pushes {
		at := 3 + space*float64(i)
		faults = append(faults, fmt.Sprintf("push,n=60,ms=100,dir=%.0f@walk+%.2f/%.2f", draw.Float64()*360-180, at, pushes*space))
		if i%3 == 0 {
			angle := draw.Float64() * 2 * math.Pi
			faults = append(faults, fmt.Sprintf("kick,vx=%.2f,vy=%.2f@walk+%.2f/%.2f", 0.3*math.Cos(angle), 0.3*math.Sin(angle), at+space/2, pushes*space))
		}
	}
	p := start(t, setup{seed: seed, faults: faults})
	p.walk()
	w := p.walkedAt()
	for t0 := w; t0 < w+seconds; t0 += 10 {
		p.runTo(min(t0+10, w+seconds))
		if st := p.state(); st.fault() != "" || st.Mode != "policy" {
			t.Errorf("after %.0f s: mode %s, fault %q", t0+10-w, st.Mode, st.fault())
			break
		}
	}
	st := p.state()
	recs := p.records()
	v := walkedOn(t, recs, w+2, w+seconds, 0.8)
	pushed := 0
	for _, r := range recs {
		if r.Text("event") == "fault" && r["on"] == true {
			pushed++
		}
	}
	s := p.end()
	t.Logf("%.0f s at %.3f m/s, %d pushes and kicks, %d falls, largest tilt %.2f rad, clamped %d, capped %d",
		seconds, v, pushed, s.Falls, s.Tilt, st.Limited.Clamped, st.Limited.Capped)
}
