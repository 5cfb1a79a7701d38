package mujoco

/*
#include "claw.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/openclaw-rl/openclaw/sim/task"
)

// Names of the built-in models. All are the Go1 of assets/go1_full.xml; they differ in what touches
// the floor and in how the equations are solved.
const (
	// Full is the judge: every part of the Go1 meets the floor, steps of 2 ms, solved to convergence,
	// an elliptic friction cone.
	Full = "go1_full.xml"
	// Lean is for training: only the feet meet the floor (falls are judged by height, tilt and
	// knees), 4 steps of 5 ms a policy period, one Newton iteration with 5 of its line search, a
	// pyramidal cone. On one core it does in a second what Full does in seven.
	Lean = "go1_lean.xml"
	// Peer is Lean in the steps of Playground's Go1, 5 of 4 ms: what others' simulators run.
	Peer = "go1_peer.xml"
	// Coarse has the parts of Full and the solver of Peer: the simulation in which the table of
	// shared/policies/README.md was measured.
	Coarse = "go1_coarse.xml"
)

// physics is how a built-in model differs from its file. Its layout is that of claw_physics.
type physics struct {
	timestep         float64 // s
	iterations       int32   // of Newton's method
	searchIterations int32   // of its line search
	feetOnly         bool
}

var _ [unsafe.Sizeof(physics{})]byte = [C.sizeof_claw_physics]byte{}

// variants of the full model, by name.
var variants = map[string]physics{
	Lean:   {timestep: 0.005, iterations: 1, searchIterations: 5, feetOnly: true},
	Peer:   {timestep: 0.004, iterations: 1, searchIterations: 5, feetOnly: true},
	Coarse: {timestep: 0.004, iterations: 1, searchIterations: 5},
}

// Physics are the short names by which programs offer the built-in models.
func Physics() []string { return []string{"full", "lean", "peer", "coarse"} }

// ByPhysics gives the name of a built-in model and the parameters that belong to it. Coarse and
// peer come with what the simulation of others has besides its solver: floor friction 0.6, friction
// in the joints 0.3 (hip, thigh) and 1.0 N*m (calf), motors whose torque does not fall with speed.
func ByPhysics(short string) (model string, p Params, err error) {
	if !slices.Contains(Physics(), short) {
		return "", p, fmt.Errorf("physics %q: want one of %s", short, strings.Join(Physics(), ", "))
	}
	p = DefaultParams()
	if short == "coarse" || short == "peer" {
		p = CoarseParams()
	}
	return "go1_" + short + ".xml", p, nil
}

// Nominal is task.Nominal on the floor and with the motors of p.
func (p *Params) Nominal() *task.World {
	w := task.Nominal()
	w.Vary.Friction = [2]float64{p.Friction, p.Friction}
	w.Vary.TorqueSpeedLine = p.TorqueSpeedLine
	return w
}

// CoarseParams are the parameters that belong to Coarse.
func CoarseParams() Params {
	p := DefaultParams()
	p.Friction, p.TorqueSpeedLine = 0.6, false
	for i := range p.MotorFriction {
		p.MotorFriction[i] = [3]float64{0.3, 0.3, 1}[i%3]
	}
	return p
}
