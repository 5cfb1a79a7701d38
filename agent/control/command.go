package control

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// Errors of Command.
var (
	ErrExpired    = errors.New("control: the command has expired")
	ErrTooDistant = errors.New("control: the command's end time is too far ahead")
	ErrOlder      = errors.New("control: a command with a later or equal end time was taken already") // never for a stop
)

// CommandError is a velocity command outside what the policy was trained for.
type CommandError struct {
	Field         string // vx, vy, wz
	Value, Lo, Hi float32
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("control: %s is %v, want %v..%v", e.Field, e.Value, e.Lo, e.Hi)
}

// command is one accepted velocity command; immutable once stored.
type command struct {
	v         [3]float32
	arrivedNs int64
	expiresNs int64
	endsNs    int64 // the latest end of all commands so far
}

// commands takes velocity commands from any goroutine; the loop reads the newest
// by one atomic load.
type commands struct {
	mu     sync.Mutex // of senders; the loop does not know it
	newest atomic.Pointer[command]
}

// Command asks for a velocity, vx, vy in m/s and wz in rad/s, body frame, until
// expiresNs on the loop's clock. It is taken whole or not at all. While the
// robot is not walking it is refused. Commands are taken in the order of their
// end times, but zero, a stop, always.
func (l *Loop) Command(v [3]float32, expiresNs int64) error {
	if !l.hasPolicy {
		return &Refusal{Reason: NoPolicy, Joint: -1}
	}
	for i, r := range [3][2]float32{l.ranges.Vx, l.ranges.Vy, l.ranges.Wz} {
		if !(v[i] >= r[0] && v[i] <= r[1]) {
			return &CommandError{Field: [3]string{"vx", "vy", "wz"}[i], Value: v[i], Lo: r[0], Hi: r[1]}
		}
	}
	l.commands.mu.Lock()
	defer l.commands.mu.Unlock()
	now := l.nowNs.Load()
	last := l.commands.newest.Load()
	switch {
	case expiresNs <= now:
		return fmt.Errorf("%w %.3f s ago", ErrExpired, float64(now-expiresNs)/1e9)
	case expiresNs > now+int64(l.cfg.CommandAheadS*1e9):
		return fmt.Errorf("%w: %.3f s, at most %.3f", ErrTooDistant, float64(expiresNs-now)/1e9, l.cfg.CommandAheadS)
	case last != nil && expiresNs <= last.endsNs && v != [3]float32{}:
		return ErrOlder
	case Mode(l.modeNow.Load()) != Policy:
		return &Refusal{Reason: NotWalking, Joint: -1}
	}
	c := &command{v: v, arrivedNs: now, expiresNs: expiresNs, endsNs: expiresNs}
	if last != nil {
		c.endsNs = max(c.endsNs, last.endsNs)
	}
	l.commands.newest.Store(c)
	return nil
}

// Ranges of velocity commands that are taken.
func (l *Loop) Ranges() rollout.Command { return l.ranges }
