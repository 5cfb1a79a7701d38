package mujoco

/*
#include "claw.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// The C core fills and reads these Go values in place; equal sizes are checked at compile time.
var (
	_ [unsafe.Sizeof(MotorCmd{})]byte = [C.sizeof_claw_cmd]byte{}
	_ [unsafe.Sizeof(Params{})]byte   = [C.sizeof_claw_params]byte{}
	_ [unsafe.Sizeof(State{})]byte    = [C.sizeof_claw_state]byte{}
	_ [unsafe.Sizeof(Hands{})]byte    = [C.sizeof_claw_grip]byte{}
)

// Sim is one simulated robot. It is not safe for concurrent use; different Sims are independent.
type Sim struct {
	model  *Model
	c      *C.claw_sim
	params Params

	// Arguments of C calls live here so that they do not escape to the heap on each call.
	pose  Pose
	v     [2][3]float64
	hands Hands
}

// NewSim returns a robot with DefaultParams in HomePose.
func (m *Model) NewSim() (*Sim, error) {
	if err := m.acquire(); err != nil {
		return nil, err
	}
	s := &Sim{model: m, params: DefaultParams()}
	text := make([]byte, C.CLAW_TEXT)
	s.c = C.claw_sim_new(m.c, (*C.claw_params)(unsafe.Pointer(&s.params)), (*C.char)(unsafe.Pointer(&text[0])))
	if s.c == nil {
		m.release()
		return nil, fmt.Errorf("mujoco: model %s: %s", m.name, cText(text))
	}
	if err := s.Reset(HomePose()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// errClosed is returned by a closed Sim or Batch.
var errClosed = errors.New("mujoco: closed")

// Close frees the robot. It may be called again. Afterwards methods that return an error return
// one, and Read leaves its argument alone.
func (s *Sim) Close() {
	if s.c != nil {
		C.claw_sim_free(s.c)
		s.c = nil
		s.model.release()
	}
}

// Model returns the model the robot was made from.
func (s *Sim) Model() *Model { return s.model }

// Reset puts the robot at rest into a pose, at time 0, without a push. Params stay.
func (s *Sim) Reset(pose Pose) error {
	if s.c == nil {
		return errClosed
	}
	if err := pose.check(); err != nil {
		return fmt.Errorf("mujoco: %w", err)
	}
	s.pose = pose
	return s.failed(C.claw_reset(s.c, (*C.double)(&s.pose.Position[0]), (*C.double)(&s.pose.Quat[0]),
		(*C.double)(&s.pose.Q[0])))
}

// Advance runs substeps physics steps under one command, in one C call and without allocating.
//
// A command with a number that is not finite is refused and named. When the physics goes bad the
// error wraps ErrPhysics. In both cases the state is as before the call.
func (s *Sim) Advance(cmd *MotorCmd, substeps int) error {
	if s.c == nil {
		return errClosed
	}
	if substeps < 1 {
		return fmt.Errorf("mujoco: %d substeps, want 1 or more", substeps)
	}
	if err := cmd.check(); err != nil {
		return fmt.Errorf("mujoco: %w", err)
	}
	return s.failed(C.claw_advance(s.c, (*C.claw_cmd)(unsafe.Pointer(cmd)),
		(*C.claw_params)(unsafe.Pointer(&s.params)), C.int(substeps)))
}

func (s *Sim) failed(status C.int) error {
	if status == C.CLAW_OK {
		return nil
	}
	return fmt.Errorf("mujoco: %w", physicsError(int(status), s.engineText()))
}

// engineText returns the engine's words about the last fatal error.
func (s *Sim) engineText() string { return C.GoString(&s.c.text[0]) }

// Read fills out with the robot's state. It does not allocate or change the simulation.
func (s *Sim) Read(out *State) {
	if s.c != nil {
		C.claw_read(s.c, (*C.claw_state)(unsafe.Pointer(out)))
	}
}

// SetPush applies a force (N) at the trunk's centre of mass and a torque (N m), both in the world
// frame, until changed or Reset. Not finite numbers are refused.
func (s *Sim) SetPush(force, torque [3]float64) error {
	if s.c == nil {
		return errClosed
	}
	if !finiteAll(force[:]...) || !finiteAll(torque[:]...) {
		return fmt.Errorf("mujoco: push of %v N, %v N m is not finite", force, torque)
	}
	s.v = [2][3]float64{force, torque}
	C.claw_push(s.c, (*C.double)(&s.v[0][0]), (*C.double)(&s.v[1][0]))
	return nil
}

// SetHands applies what hands on the robot do, until changed or Reset; it takes SetPush's place. Torques
// at joints and feet keep the directions of the present pose. Not finite numbers are refused.
func (s *Sim) SetHands(h *Hands) error {
	if s.c == nil {
		return errClosed
	}
	if err := h.check(); err != nil {
		return fmt.Errorf("mujoco: %w", err)
	}
	s.hands = *h
	C.claw_hands(s.c, (*C.claw_grip)(unsafe.Pointer(&s.hands)))
	return nil
}

// SetVelocity sets the trunk's velocity (m/s, world frame) and angular velocity (rad/s, trunk
// frame); joints keep theirs.
func (s *Sim) SetVelocity(linWorld, angBody [3]float64) error {
	if s.c == nil {
		return errClosed
	}
	if !finiteAll(linWorld[:]...) || !finiteAll(angBody[:]...) {
		return fmt.Errorf("mujoco: velocity %v m/s, %v rad/s is not finite", linWorld, angBody)
	}
	s.v = [2][3]float64{linWorld, angBody}
	C.claw_set_velocity(s.c, (*C.double)(&s.v[0][0]), (*C.double)(&s.v[1][0]))
	return nil
}

// AddVelocity kicks the whole robot by dv (m/s, world frame).
func (s *Sim) AddVelocity(dv [3]float64) error {
	if s.c == nil {
		return errClosed
	}
	if !finiteAll(dv[:]...) {
		return fmt.Errorf("mujoco: velocity kick %v m/s is not finite", dv)
	}
	s.v[0] = dv
	C.claw_add_velocity(s.c, (*C.double)(&s.v[0][0]))
	return nil
}

// Params returns the robot's parameters.
func (s *Sim) Params() Params { return s.params }

// SetParams changes the robot's parameters at once, keeping its state. When Params.Body differs
// from the model the robot gets its own copy of the model (about 0.1 MB). A parameter that cannot
// be simulated is refused and named.
func (s *Sim) SetParams(p Params) error {
	if s.c == nil {
		return errClosed
	}
	if err := p.check(); err != nil {
		return fmt.Errorf("mujoco: %w", err)
	}
	old := s.params
	s.params = p
	if err := s.failed(C.claw_apply(s.c, (*C.claw_body)(unsafe.Pointer(&s.params.Body)))); err != nil {
		s.params = old
		return err
	}
	return nil
}

// SetFriction sets the sliding friction with the floor, as SetParams does.
func (s *Sim) SetFriction(mu float64) error {
	p := s.params
	p.Body.Friction = mu
	return s.SetParams(p)
}

// SetTrunkMass adds kg to the nominal trunk, as SetParams does.
func (s *Sim) SetTrunkMass(added float64) error {
	p := s.params
	p.Body.TrunkMass = added
	return s.SetParams(p)
}

// GetState appends the whole integration state (mjSTATE_INTEGRATION, StateSize numbers) to
// dst[:0] and returns it (nil when closed). A robot with equal Params set to it continues bit for bit.
func (s *Sim) GetState(dst []float64) []float64 {
	if s.c == nil {
		return nil
	}
	n := s.model.nstate
	if cap(dst) < n {
		dst = make([]float64, n)
	}
	dst = dst[:n]
	C.claw_get_state(s.c, (*C.double)(&dst[0]))
	return dst
}

// SetState restores what GetState of a robot of the same model gave. A slice of another length or
// with a number that is not finite is refused.
func (s *Sim) SetState(src []float64) error {
	if s.c == nil {
		return errClosed
	}
	if len(src) != s.model.nstate {
		return fmt.Errorf("mujoco: state of %d numbers, want %d", len(src), s.model.nstate)
	}
	for i, v := range src {
		if !finite(v) {
			return fmt.Errorf("mujoco: state: number %d is %v", i, v)
		}
	}
	C.claw_set_state(s.c, (*C.double)(&src[0]))
	return nil
}
