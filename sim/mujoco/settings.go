package mujoco

/*
#include "claw.h"
*/
import "C"

import "unsafe"

// Settings say how a model is simulated, read from the compiled model: what two figures measured with
// different models or programs have to be compared by.
type Settings struct {
	MuJoCo            string  `json:"mujoco"` // version
	Timestep          float64 `json:"timestep_s"`
	Solver            string  `json:"solver"`
	Iterations        int     `json:"iterations"`    // of the solver, at most
	SearchIterations  int     `json:"ls_iterations"` // of its line search, at most
	Cone              string  `json:"cone"`          // of friction
	Integrator        string  `json:"integrator"`
	ImplicitDamping   bool    `json:"implicit_damping"`    // of joints, in Euler's integrator
	CollidingGeoms    int     `json:"colliding_geoms"`     // that can meet the floor
	JointFrictionRows int     `json:"joint_friction_rows"` // constraints for friction in joints
	Sensors           int     `json:"sensors"`             // of the engine
}

// Settings returns how the model is simulated; nothing for one that is closed.
func (m *Model) Settings() Settings {
	if m.c == nil {
		return Settings{}
	}
	c := m.c.m
	o := &c.opt
	return Settings{
		MuJoCo:            Version(),
		Timestep:          float64(o.timestep),
		Solver:            nameOf(int(o.solver), "pgs", "cg", "newton"),
		Iterations:        int(o.iterations),
		SearchIterations:  int(o.ls_iterations),
		Cone:              nameOf(int(o.cone), "pyramidal", "elliptic"),
		Integrator:        nameOf(int(o.integrator), "euler", "rk4", "implicit", "implicitfast"),
		ImplicitDamping:   o.disableflags&C.mjDSBL_EULERDAMP == 0,
		CollidingGeoms:    m.collidingGeoms(),
		JointFrictionRows: count(unsafe.Slice((*float64)(c.dof_frictionloss), c.nv)),
		Sensors:           int(c.nsensor),
	}
}

// nameOf is the name of an enumerator; the names are in the order of mjmodel.h.
func nameOf(i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return "unknown"
	}
	return names[i]
}

// count counts the numbers above 0.
func count(values []float64) (n int) {
	for _, v := range values {
		if v > 0 {
			n++
		}
	}
	return n
}

// collidingGeoms counts the geoms that can touch the floor: by an explicit pair, or by their bits.
func (m *Model) collidingGeoms() int {
	c, floor := m.c.m, int(m.c.ids.floor)
	types, affinities := unsafe.Slice(c.geom_contype, c.ngeom), unsafe.Slice(c.geom_conaffinity, c.ngeom)
	touch := map[int]bool{}
	for g := range types {
		if types[g]&affinities[floor]|types[floor]&affinities[g] != 0 {
			touch[g] = true
		}
	}
	first, second := unsafe.Slice(c.pair_geom1, c.npair), unsafe.Slice(c.pair_geom2, c.npair)
	for p := range first {
		touch[int(first[p])], touch[int(second[p])] = true, true
	}
	delete(touch, floor)
	return len(touch)
}
