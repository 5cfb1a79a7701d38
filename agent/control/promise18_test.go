package control

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/link/linktest"
)

// Promise 18: a panic in what looks for sport mode, beside the loop, damps the motors and ends the program in order.
func TestPromise18KnockPanics(t *testing.T) {
	var looks atomic.Int64
	r := newRig(t, linktest.Config{}, func(c *Config, p *Parts) {
		c.Lockstep = false
		p.Clock = SystemClock{SpinNs: 120e3}
		p.SportOff = func(context.Context) error {
			if looks.Add(1) > 1 {
				panic("a mistake")
			}
			return nil
		}
	})
	r.robot.Mute(true) // a silent robot is asked for sport mode again
	done := make(chan error, 1)
	go func() { done <- r.l.Run(context.Background()) }()
	r.must(r.l.Arm(context.Background()))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "panic while looking for sport mode: a mistake") {
		t.Errorf("the loop ended with %v", err)
	}
	if f, ok := r.robot.LastFrame(); !ok || f.Class != linktest.Damping || r.robot.Count(linktest.Torque) != 0 {
		t.Errorf("last frame %v, %d with torque", f.Class, r.robot.Count(linktest.Torque))
	}
}
