package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// errSilent: the robot has stopped answering. It may be starting anew, and then stand under its own controller, so nothing more is sent.
var errSilent = errors.New("no state came for 2 s; nothing more is sent")

const silentNs = int64(2e9)

// restartMs is how far a robot's clock has to go back to be that of a new start, as for the judge: less is a state that was overtaken.
const restartMs = 1000

// wentBack says that the robot has started anew between two of its states.
func wentBack(fromMs, toMs uint32) bool { return int32(toMs-fromMs) <= -restartMs }

// restartedError: the robot has started anew while it was looked at.
type restartedError struct{ fromMs, toMs uint32 }

func (e *restartedError) Error() string {
	return fmt.Sprintf("the robot started anew: its clock went back from %.1f s to %.1f s", float64(e.fromMs)/1e3, float64(e.toMs)/1e3)
}

// bench is the doctor's link to a robot that hangs or lies: a frame every 2 ms, and every state that comes.
type bench struct {
	udp     *link.UDP
	clock   control.SystemClock
	waitNs  int64 // lockstep's longest wait for an answer; 0: time is real
	nowNs   int64 // of the newest turn; virtual in lockstep
	dueNs   int64
	lateNs  int64  // of the newest turn
	heardNs int64  // newest state, 0 for none
	tickMs  uint32 // of the newest state
	senders senders
	rx      wire.LowState
	version [2]uint32 // LowState.Version of the first state
	varies  bool      // a later one said another: whatever that is then, it is no software's version
	// send is called each turn at its time with the frame that is due, or nil; an error ends the turn.
	send func(frame []byte) error
}

func newBench(udp *link.UDP, cfg *config) *bench {
	b := &bench{udp: udp, senders: senders{joints: cfg.Safety.SenderJoints}}
	b.send = func(frame []byte) error {
		if frame != nil {
			_ = udp.Send(frame) // refusals are counted, and named at the end
		}
		return nil
	}
	if cfg.Control.Lockstep {
		b.waitNs, b.nowNs = int64(cfg.Control.LockWaitMs*1e6), control.PeriodNs
		return b
	}
	b.restart()
	return b
}

// restart makes the next turn due a period from now.
func (b *bench) restart() {
	b.nowNs = link.Now()
	b.dueNs = b.nowNs + control.PeriodNs
}

// turn is one period: it waits for its beginning, sends the frame (nil: nothing), and hands on what has come by now, oldest first. Of a
// robot that has started anew it hands on nothing.
func (b *bench) turn(ctx context.Context, frame []byte, take func(arrivedNs int64, s *wire.LowState)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.waitNs == 0 {
		b.clock.SleepUntil(b.dueNs)
		b.nowNs = link.Now()
		b.lateNs = b.nowNs - b.dueNs
		b.dueNs = max(b.dueNs+control.PeriodNs, b.nowNs) // periods that have passed are not made up for
	} else {
		b.nowNs += control.PeriodNs
	}
	if err := b.send(frame); err != nil {
		return err
	}
	if b.waitNs != 0 {
		b.udp.Wait(b.waitNs)
	}
	for {
		arrivedNs, ok := b.udp.Receive(&b.rx, b.nowNs)
		if !ok {
			break
		}
		if from, to := b.tickMs, b.rx.Tick; b.heardNs != 0 && wentBack(from, to) {
			b.tickMs = to
			return &restartedError{from, to}
		}
		if b.heardNs == 0 {
			b.version = b.rx.Version
		}
		b.varies = b.varies || b.rx.Version != b.version
		b.heardNs, b.tickMs = b.nowNs, b.rx.Tick
		b.senders.add(arrivedNs, &b.rx)
		take(arrivedNs, &b.rx)
	}
	if b.heardNs != 0 && b.nowNs-b.heardNs > silentNs {
		return errSilent
	}
	return nil
}

// dampingFrame is what moves nothing by itself.
func dampingFrame(form wire.CRCForm) ([]byte, error) {
	var cmd wire.LowCmd
	cmd.Init()
	safety.Damping(&cmd, new(wire.LowState))
	return wire.AppendLowCmd(nil, &cmd, form)
}

// senders looks for another program's frames: while ours damp, a motor's torque is its speed times the damping's gain and nothing else.
type senders struct {
	joints  int // that must be off at once
	firstNs int64
	n, off  int
	worst   float64 // N*m
	paused  bool    // our own frames have torque
}

// senderNm is how much a torque may be off. It is less than the judge allows: what damps has no torque at rest.
const senderNm = 3

// sendersSettle is how long the motors may still follow what was sent before ours came.
const sendersSettle = int64(100e6)

func (x *senders) add(nowNs int64, s *wire.LowState) {
	if x.firstNs == 0 {
		x.firstNs = nowNs
	}
	if x.paused || nowNs-x.firstNs < sendersSettle {
		return
	}
	x.n++
	off := 0
	for i := range go1.Joints {
		m := &s.Motor[i]
		d := math.Abs(float64(m.TauEst) + safety.DampingKd*float64(m.Dq))
		if d > senderNm && math.Abs(float64(m.Dq)) < 0.3*float64(go1.SpeedMax[i]) {
			off++
			x.worst = max(x.worst, d)
		}
	}
	if off >= x.joints {
		x.off++
	}
}

// found says that frames of another program are among ours.
func (x *senders) found() bool { return x.off >= 5 && x.off*20 > x.n }
