package mujoco

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The lumped table of shared/go1/figures.md: mass, centre of mass, xx yy zz xy xz yz, with the
// factors fx (front +1) and s (left +1) of each entry.
func lumped(part string, fx, s float64) BodyInfo {
	switch part {
	case "trunk":
		return BodyInfo{part, 5.560, [3]float64{0.0208722, 0.0018719, -0.0004680},
			[6]float64{0.01803970, 0.06789157, 0.07731604, -0.0002445379, -0.0002908141, -4.153989e-5}}
	case "hip":
		return BodyInfo{part, 0.680, [3]float64{-0.0049166 * fx, -0.00762615 * s, -8.865e-5},
			[6]float64{3.993798e-4, 7.334194e-4, 4.684221e-4, -1.459011e-5 * fx * s, 1.246099e-6 * fx, 1.575326e-6 * s}}
	case "thigh":
		return BodyInfo{part, 1.009, [3]float64{-0.00304722, -0.019315 * s, -0.0305004},
			[6]float64{4.598796e-3, 4.689224e-3, 8.174479e-4, 6.137391e-5 * s, -2.275291e-4, 6.108083e-4 * s}}
	default:
		return BodyInfo{part, 0.195862, [3]float64{0.00429862, 0.00097668, -0.1461969},
			[6]float64{1.484484e-3, 1.497635e-3, 3.606827e-5, -6.188266e-7, -1.772092e-5, -3.566262e-6}}
	}
}

func TestMassAndInertia(t *testing.T) {
	bodies := loadFull(t).Bodies()
	if len(bodies) != 13 {
		t.Fatalf("%d bodies, want 13", len(bodies))
	}
	total := 0.0
	for _, b := range bodies {
		total += b.Mass
		part, fx, s := "trunk", 1.0, 1.0
		if b.Name != "trunk" {
			part = b.Name[3:]
			fx, s = pick(b.Name[0] == 'F', 1, -1), pick(b.Name[1] == 'L', 1, -1)
		}
		want := lumped(part, fx, s)
		ok := near(b.Mass, want.Mass, 1e-9)
		for k := range 3 {
			ok = ok && near(b.CoM[k], want.CoM[k], 1e-9)
		}
		for k := range 6 {
			ok = ok && near(b.Inertia[k], want.Inertia[k], 1e-10)
		}
		if !ok {
			t.Errorf("%s is\n%+v, want\n%+v", b.Name, b, want)
		}
	}
	if !near(total, 13.099, 0.001) {
		t.Errorf("total mass %.4f kg, want 13.099", total)
	}
}

// Feet by the model against the closed form of the leg.
func TestFootPositions(t *testing.T) {
	s := newSim(t)
	for _, q := range [][3]float64{{0, 0, -1}, {0.1, 0.9, -1.8}, {-0.5, 1.36, -2.65}, {0.8, -0.4, -0.9}} {
		pose := Pose{Position: [3]float64{0.3, -0.2, 1}, Quat: [4]float64{1, 0, 0, 0}}
		for leg := range Legs {
			copy(pose.Q[3*leg:], q[:])
		}
		must(t, s.Reset(pose))
		st := read(s)
		for leg := range Legs {
			fx, side := pick(leg < 2, 1, -1), pick(leg%2 == 1, 1, -1)
			x := -0.213*math.Sin(q[1]) - 0.213*math.Sin(q[1]+q[2])
			down := -0.213*math.Cos(q[1]) - 0.213*math.Cos(q[1]+q[2])
			y, z := 0.08*side*math.Cos(q[0])-down*math.Sin(q[0]), 0.08*side*math.Sin(q[0])+down*math.Cos(q[0])
			want := add(pose.Position, [3]float64{0.1881*fx + x, 0.04675*side + y, z})
			for k := range 3 {
				if !near(st.FootPos[leg][k], want[k], 1e-12) {
					t.Errorf("q %v: foot %d at %.6f, want %.6f", q, leg, st.FootPos[leg], want)
					break
				}
			}
			knee := 1 + 0.08*side*math.Sin(q[0]) - 0.213*math.Cos(q[1])*math.Cos(q[0])
			if !near(st.KneeHeight[leg], knee, 1e-12) {
				t.Errorf("q %v: knee %d at %.6f m, want %.6f", q, leg, st.KneeHeight[leg], knee)
			}
		}
	}
}

func TestJointStops(t *testing.T) {
	s := newSim(t)
	must(t, s.Reset(inAir()))
	for _, sign := range []float64{-1, 1} {
		c := MotorCmd{}
		for i := range Joints {
			c.Mode[i], c.Q[i], c.Dq[i], c.Tau[i] = ModeServo, PosStop, VelStop, 2*sign
		}
		must(t, s.Reset(inAir()))
		must(t, s.Advance(&c, 350))
		for i, q := range read(s).Q {
			stop := [3][2]float64{{-0.863, 0.863}, {-0.686, 4.501}, {-2.818, -0.888}}[i%3][int(1+sign)/2]
			if !near(q, stop, 0.03) {
				t.Errorf("%s pushed to its stop is at %.3f, want %.3f", JointNames[i], q, stop)
			}
		}
	}
}

func TestModelAgreesWithDefaultParams(t *testing.T) {
	// A robot with DefaultParams runs on the shared model, so its numbers are the file's.
	xml, err := assets.ReadFile("assets/" + Full)
	must(t, err)
	p := DefaultParams()
	for want, text := range map[float64]string{
		p.Armature[0]: `axis="1 0 0" range="-0.863 0.863" armature="0.004481"`,
		p.Armature[2]: `range="-2.818 -0.888" armature="0.010083"`,
		p.Friction:    `friction="0.8 `,
	} {
		if !strings.Contains(string(xml), text) {
			t.Errorf("%s lacks %s (DefaultParams say %v)", Full, text, want)
		}
	}
	if !near(p.Armature[0], 0.000111842*6.33*6.33, 1e-6) || !near(p.Armature[2], 0.000111842*9.495*9.495, 1e-6) {
		t.Error("armature is not the rotor's inertia times the gear ratio squared")
	}
}

func TestBadModelsNameTheFile(t *testing.T) {
	full, err := assets.ReadFile("assets/" + Full)
	must(t, err)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, tc := range []struct{ path, want string }{
		{write("broken.xml", "<mujoco><nonsense/></mujoco>"), "nonsense"},
		{write("cut.xml", string(full[:len(full)/2])), "XML"},
		{write("empty.xml", ""), ""},
		{write("legless.xml", strings.ReplaceAll(string(full), `"RR_foot"`, `"RR_paw"`)), `no geom named "RR_foot"`},
		{write("light.xml", strings.Replace(string(full), `mass="0.680"`, `mass="-1"`, 1)), "mass"},
		{filepath.Join(dir, "absent.xml"), "no such file"},
	} {
		_, err := Load(tc.path)
		if err == nil || !strings.Contains(err.Error(), tc.path) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want it to name the file and %q", filepath.Base(tc.path), err, tc.want)
		}
	}
}

// A fatal error of the engine comes back as an error, and the robot goes on after a reset. Memory
// for four feet on the floor is too little for a robot that lies down.
func TestEngineErrorsAreCaught(t *testing.T) {
	full, err := assets.ReadFile("assets/" + Full)
	must(t, err)
	small := strings.Replace(string(full), "<option", `<size memory="20K"/><option`, 1)
	m, err := LoadXML("small.xml", []byte(small))
	must(t, err)
	defer m.Close()
	s, err := m.NewSim()
	must(t, err)
	defer s.Close()
	c := unpowered()
	var before State
	for range 500 {
		before = read(s)
		if err = s.Advance(&c, 10); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrPhysics) || !strings.Contains(err.Error(), "memory") {
		t.Fatalf("lying down in 20 kB: error %v, want ErrPhysics and its cause", err)
	}
	if read(s) != before {
		t.Error("the state is not as before the call")
	}
	must(t, s.Reset(inAir()))
	must(t, s.Advance(&c, 100))

	tiny := strings.Replace(small, "20K", "16K", 1)
	if m, err = LoadXML("tiny.xml", []byte(tiny)); err == nil {
		defer m.Close()
		_, err = m.NewSim()
	}
	if !errors.Is(err, ErrPhysics) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("standing in 16 kB: error %v, want ErrPhysics and its cause", err)
	}
}

func TestVersion(t *testing.T) {
	if Version() != "4.0.1" {
		t.Errorf("MuJoCo %s, want 4.0.1: states and trajectories hold for one version only", Version())
	}
}
