package linktest

import (
	"net/netip"
	"time"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// Class is what a received command asks of the motors.
type Class uint8

const (
	// Other: no LowCmd the robot would obey (Frame.Err says why), or one that asks for some damping here and nothing there.
	Other Class = iota
	// Zero: no torque whatever the joints do, in all twelve: mode 0x00, or Kp, Kd and tau 0.
	Zero
	// Damping: every one of the twelve brakes and does nothing else: mode 0x0A, Kp 0, tau 0, Kd above 0, dq 0.
	Damping
	// Torque: at least one joint is driven: mode 0x0A and Kp, tau, or Kd with a dq, not 0.
	Torque

	numClasses = iota
)

// String names the class: other, zero, damping, torque.
func (c Class) String() string {
	if c < numClasses {
		return [numClasses]string{"other", "zero", "damping", "torque"}[c]
	}
	return "unknown"
}

// classify is the class of a valid command.
func classify(cmd *wire.LowCmd) Class {
	damped, limp := 0, 0
	for i := range wire.Joints {
		m := &cmd.Motor[i]
		switch {
		case m.Mode != wire.ModeServo, m.Kp == 0 && m.Tau == 0 && m.Kd == 0:
			limp++
		case m.Kp == 0 && m.Tau == 0 && m.Kd > 0 && m.Dq == 0:
			damped++
		default:
			return Torque
		}
	}
	switch {
	case damped == wire.Joints:
		return Damping
	case limp == wire.Joints:
		return Zero
	}
	return Other
}

// Frame is one datagram that came to the low-level port.
type Frame struct {
	Number   uint64 // from 1
	AtNs     int64  // when it was read, link.Now
	From     netip.AddrPort
	Class    Class
	Err      error // why it is no LowCmd for this robot; nil when it is
	Answered bool  // its answer was sent, or waits out SetDelay
	Raw      []byte
}

// Cmd decodes the command; all zero when Err says that it is none.
func (f *Frame) Cmd() (cmd wire.LowCmd) {
	if f.Err == nil {
		wire.DecodeLowCmd(f.Raw, &cmd)
	}
	return cmd
}

// record is the newest frames, and counts of all.
type record struct {
	limit   int
	total   uint64
	byClass [numClasses]uint64
	newest  []Frame
}

func (k *record) add(f Frame) {
	k.total++
	k.byClass[f.Class]++
	if len(k.newest) == 2*k.limit { // drop the older half at once rather than shift each time
		k.newest = append(k.newest[:0], k.newest[k.limit:]...)
	}
	k.newest = append(k.newest, f)
}

func (k *record) kept() []Frame {
	if len(k.newest) > k.limit {
		return k.newest[len(k.newest)-k.limit:]
	}
	return k.newest
}

// Frames is a copy of the frames kept, oldest first. Their Raw bytes are shared: read them only.
func (r *Robot) Frames() []Frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Frame(nil), r.frames.kept()...)
}

// LastFrame is the newest frame; false before the first.
func (r *Robot) LastFrame() (f Frame, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.frames.newest); n > 0 {
		return r.frames.newest[n-1], true
	}
	return f, false
}

// Count is how many frames of these classes have come, of all classes when none is named.
func (r *Robot) Count(classes ...Class) (n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(classes) == 0 {
		return r.frames.total
	}
	for _, c := range classes {
		n += r.frames.byClass[c]
	}
	return n
}

// Await waits until n frames have come since the start; false when timeout passes or the robot is closed first.
func (r *Robot) Await(n uint64, timeout time.Duration) bool {
	return r.await(timeout, func() bool { return r.frames.total >= n })
}

// AwaitFrame is the oldest kept frame that match says yes to; when there is none yet it waits for one, and is false when
// timeout passes or the robot is closed first. match must call no method of Robot.
func (r *Robot) AwaitFrame(timeout time.Duration, match func(*Frame) bool) (found Frame, ok bool) {
	asked := uint64(0) // frames match has seen
	ok = r.await(timeout, func() bool {
		kept := r.frames.kept()
		fresh := min(r.frames.total-asked, uint64(len(kept)))
		asked = r.frames.total
		for _, f := range kept[uint64(len(kept))-fresh:] {
			if match(&f) {
				found = f
				return true
			}
		}
		return false
	})
	return found, ok
}

// await waits until done, which is asked under the lock now and after each frame.
func (r *Robot) await(timeout time.Duration, done func() bool) bool {
	expired := false
	timer := time.AfterFunc(timeout, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		expired = true
		r.arrived.Broadcast()
	})
	defer timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !done() {
		if expired || r.closed {
			return false
		}
		r.arrived.Wait()
	}
	return true
}
