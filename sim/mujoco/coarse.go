package mujoco

import "bytes"

// Coarse is the name of the built-in model with the solver settings of the
// simulation in which the table of shared/policies/README.md was measured: the
// bodies of Full, steps of 4 ms, one Newton iteration, a pyramidal friction cone.
const Coarse = "go1_coarse.xml"

// coarseOption is a second option section, which MuJoCo lays over the first.
const coarseOption = `<option timestep="0.004" iterations="1" ls_iterations="5" cone="pyramidal" impratio="1"/>`

// CoarseParams is what that simulation has besides its solver, Playground's
// figures: floor friction 0.6, friction in the joints 0.3 (hip, thigh) and
// 1.0 N*m (calf), motors whose torque does not fall with speed.
func CoarseParams() Params {
	p := DefaultParams()
	p.Friction, p.TorqueSpeedLine = 0.6, false
	for i := range p.MotorFriction {
		p.MotorFriction[i] = [3]float64{0.3, 0.3, 1}[i%3]
	}
	return p
}

// coarse makes the text of Coarse from that of Full.
func coarse(full []byte) []byte {
	end := []byte("</mujoco>")
	return bytes.Replace(full, end, append([]byte(coarseOption+"\n"), end...), 1)
}
