package mujoco

import (
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	for name, want := range map[string]Settings{
		Full: {Timestep: 0.002, Solver: "newton", Iterations: 50, SearchIterations: 50, Cone: "elliptic", Integrator: "euler",
			ImplicitDamping: true},
		Lean: {Timestep: 0.005, Solver: "newton", Iterations: 1, SearchIterations: 5, Cone: "pyramidal", Integrator: "euler",
			CollidingGeoms: Legs},
		Peer: {Timestep: 0.004, Solver: "newton", Iterations: 1, SearchIterations: 5, Cone: "pyramidal", Integrator: "euler",
			CollidingGeoms: Legs},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			got := m.Settings()
			if got.CollidingGeoms < Legs {
				t.Errorf("%d geoms meet the floor, want the feet at least", got.CollidingGeoms)
			}
			if want.CollidingGeoms == 0 { // as many parts as the Go1 has
				got.CollidingGeoms = 0
			}
			if got.MuJoCo != Version() || !strings.Contains(got.MuJoCo, ".") {
				t.Errorf("version %q, want %q", got.MuJoCo, Version())
			}
			got.MuJoCo = ""
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			m.Close()
			if closed := m.Settings(); closed != (Settings{}) {
				t.Errorf("a closed model has settings: %+v", closed)
			}
		})
	}
}
