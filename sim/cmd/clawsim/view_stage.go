package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// viewed is what a stage needs of the Env; mujoco.Env has it. Every call comes from the goroutine that steps, between steps.
type viewed interface {
	State(row int) *mujoco.State
	Command(row int) [3]float32
	Steer(row int, command *[3]float32) error // nil: back to the script
	Push(row int, dv [3]float64) error        // m/s, world frame
	BadRows() int64
}

var _ viewed = (*mujoco.Env)(nil)

// stage shows one Env's first rows and does what people ask of them.
//
//	rollout.Run ── Record ─► stage ── frame ─► hub ─► pages
//	                           ▲                │
//	                           └─── requests ◄──┘
//
// It belongs to the goroutine that steps; only the hub meets others.
type stage struct {
	env    viewed
	hub    *hub
	rows   []frameRow // shown
	period time.Duration

	step   uint32
	top    frameTop
	paused bool
	single bool // one more step, then pause again
	speed  float64
	due    time.Time // when the next step may begin
}

// newStage shows the first rows of env, whose Spec is spec.
func newStage(env viewed, spec *rollout.Spec, h *hub) *stage {
	s := &stage{env: env, hub: h, rows: make([]frameRow, min(spec.Rows, maxShown)),
		period: time.Duration(spec.PolicyPeriodNs), speed: 1}
	for i := range s.rows {
		s.rows[i].metrics = make([]float32, len(spec.Metrics))
	}
	return s
}

// take notes what a Step did, for the next frame.
func (s *stage) take(after *rollout.Step) {
	s.step++
	s.top.time = float64(s.step) * s.period.Seconds()
	k := len(s.rows[0].metrics)
	for row := range s.rows {
		r := &s.rows[row]
		copy(r.metrics, after.Metrics[row*k:(row+1)*k])
		r.reward = after.Reward[row]
		if after.Terminated[row] {
			r.falls++
		}
		if after.Ended(row) {
			r.episodes++
		}
	}
}

// frame is the newest state of play.
func (s *stage) frame(flags int) []byte {
	if s.paused {
		flags |= flagPaused
	}
	t := &s.top
	t.flags, t.step, t.speed = flags, s.step, float32(s.speed)
	t.viewers, t.bad, t.refused = s.hub.watching(), uint32(s.env.BadRows()), uint32(s.hub.refused.Load())
	k := len(s.rows[0].metrics)
	b := appendFrameTop(make([]byte, 0, frameHead+4*len(s.rows)*(rowWords+k)), t, len(s.rows), k)
	for row := range s.rows {
		s.rows[row].command = s.env.Command(row)
		b = appendFrameRow(b, s.env.State(row), &s.rows[row])
	}
	return b
}

// show takes one Step, shows it, does what people asked for, and returns when the next one may begin: when its time has come and
// somebody looks who did not pause; after the last one at once. An ended ctx is returned as its error.
func (s *stage) show(ctx context.Context, after *rollout.Step, last bool) error {
	s.take(after)
	s.single = false
	s.hub.publish(s.frame(0))
	if last {
		return nil
	}
	wake := time.NewTimer(time.Hour)
	defer wake.Stop()
	for {
		s.heed() // first: a step that is late already waits for nothing else
		held := s.hub.watching() == 0 || (s.paused && !s.single)
		if held {
			s.due = time.Time{}
			wake.Reset(time.Hour)
		} else {
			rest := s.rest(time.Now())
			if rest <= 0 {
				return ctx.Err()
			}
			wake.Reset(rest)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-s.hub.requests:
			s.do(r)
			s.hub.publish(s.frame(0))
		case <-s.hub.changed:
			s.hub.publish(s.frame(0))
		case <-wake.C:
		}
	}
}

// heed does what was asked for until now, without waiting for more.
func (s *stage) heed() {
	waiting := len(s.hub.requests) // nobody else takes them; those that come meanwhile are for the next time
	if waiting == 0 {
		return
	}
	for range waiting {
		s.do(<-s.hub.requests)
	}
	s.hub.publish(s.frame(0))
}

// do follows a request or tells its page why not.
func (s *stage) do(r *request) {
	if err := s.follow(r); err != nil {
		s.hub.refuse(r.from, err)
	}
}

// rest is how long the next step has to wait at now. A stage that is late by more than a few steps lets them go instead of
// hurrying after them.
func (s *stage) rest(now time.Time) time.Duration {
	period := time.Duration(float64(s.period) / s.speed)
	if s.due.IsZero() || now.Sub(s.due) > 5*period {
		s.due = now.Add(period)
	}
	rest := s.due.Sub(now)
	if rest <= 0 {
		s.due = s.due.Add(period)
	}
	return rest
}

// follow does what a page asks for.
func (s *stage) follow(r *request) error {
	switch r.Do {
	case "pause":
		s.paused = true
	case "resume":
		s.paused = false
	case "step":
		s.paused, s.single = true, true
	case "speed":
		s.speed, s.due = *r.Speed, time.Time{}
	case "command":
		return s.each(*r.Row, func(row int) error {
			s.rows[row].steered = true
			return s.env.Steer(row, r.Command)
		})
	case "script":
		return s.each(*r.Row, func(row int) error {
			s.rows[row].steered = false
			return s.env.Steer(row, nil)
		})
	case "push":
		return s.each(*r.Row, func(row int) error {
			yaw := heading(&s.env.State(row).Quat)
			sin, cos := math.Sincos(yaw)
			return s.env.Push(row, [3]float64{cos*r.Kick[0] - sin*r.Kick[1], sin*r.Kick[0] + cos*r.Kick[1], 0})
		})
	default:
		return fmt.Errorf("message: %q is only for a page that renders", r.Do)
	}
	return nil
}

// each calls do for row, or for every row shown if it is -1.
func (s *stage) each(row int, do func(row int) error) error {
	if row >= 0 {
		return do(row)
	}
	for row := range s.rows {
		if err := do(row); err != nil {
			return err
		}
	}
	return nil
}

// heading is the yaw of an attitude w x y z, rad.
func heading(q *[4]float64) float64 {
	w, x, y, z := q[0], q[1], q[2], q[3]
	return math.Atan2(2*(w*z+x*y), 1-2*(y*y+z*z))
}
