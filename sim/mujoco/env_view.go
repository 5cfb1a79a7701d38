package mujoco

import (
	"fmt"

	"github.com/openclaw-rl/openclaw/sim/task"
)

// What somebody who watches an Env may ask and do between Steps, on the goroutine that
// steps it.

// State is a row's physics after the last Step or Reset. It belongs to the Env.
func (e *Env) State(row int) *State { return &e.batch.out[row] }

// Command is what a row is told to do: vx, vy (m/s), wz (rad/s).
func (e *Env) Command(row int) [3]float32 { return *e.rows[row].now() }

// CommandAge is the time, s, that a row has had its command; a new episode begins it anew.
func (e *Env) CommandAge(row int) float64 {
	if r := &e.rows[row]; r.steer.on {
		return r.steer.age
	}
	return e.rows[row].command.Age
}

// Clock is a row's gait clock: its phase in cycles, and whether it runs.
func (e *Env) Clock(row int) (phase float32, on bool) {
	return e.rows[row].clock.Phase, e.rows[row].clock.On
}

// Episode is what varies in a row's present episode. It belongs to the Env.
func (e *Env) Episode(row int) *task.Episode { return &e.rows[row].episode }

// Steer gives a row a command that stays until the next Steer, whatever becomes of its
// episode; nil gives the row back to the world's commands, which have gone on meanwhile. The
// next observation shows it.
func (e *Env) Steer(row int, command *[3]float32) error {
	if row < 0 || row >= len(e.rows) {
		return fmt.Errorf("mujoco: env: steer row %d of %d", row, len(e.rows))
	}
	if command == nil {
		e.rows[row].steer = steer{}
		return nil
	}
	for i, x := range command {
		if x-x != 0 {
			return fmt.Errorf("mujoco: env: steer row %d: %s is %v", row, [3]string{"vx", "vy", "wz"}[i], x)
		}
	}
	e.rows[row].steer = steer{on: true, command: *command}
	return nil
}

// maxPush bounds Push, m/s: beyond it a row is not a robot any more.
const maxPush = 100

// Push changes a row's velocity at once, by dv m/s in the world's frame.
func (e *Env) Push(row int, dv [3]float64) error {
	if e.closed {
		return errClosed
	}
	if row < 0 || row >= len(e.rows) {
		return fmt.Errorf("mujoco: env: push of row %d of %d", row, len(e.rows))
	}
	for _, x := range dv {
		if !(x >= -maxPush && x <= maxPush) {
			return fmt.Errorf("mujoco: env: push of row %d by %v m/s, want -%d..%d each", row, dv, maxPush, maxPush)
		}
	}
	return e.batch.kick(e.batch.threads[0].sim, row, &dv)
}
