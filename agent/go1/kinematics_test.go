package go1

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Poses worked out by hand from the link lengths.
func TestFootKnownPoses(t *testing.T) {
	const l = ThighLen
	for _, c := range []struct {
		name             string
		hip, thigh, calf float64
		want             func(fx, s float64) [3]float64 // per leg signs
	}{
		{"straight down", 0, 0, 0, func(fx, s float64) [3]float64 {
			return [3]float64{HipX * fx, HipY*s + HipOffset*s, -2 * l}
		}},
		{"straight to the rear", 0, math.Pi / 2, 0, func(fx, s float64) [3]float64 {
			return [3]float64{HipX*fx - 2*l, HipY*s + HipOffset*s, 0}
		}},
		{"thigh back, calf down", 0, math.Pi / 2, -math.Pi / 2, func(fx, s float64) [3]float64 {
			return [3]float64{HipX*fx - l, HipY*s + HipOffset*s, -l}
		}},
		{"knee folded: the foot under the hip", 0, math.Pi / 3, -2 * math.Pi / 3, func(fx, s float64) [3]float64 {
			return [3]float64{HipX * fx, HipY*s + HipOffset*s, -l}
		}},
		{"hip turned a quarter about x", math.Pi / 2, 0, 0, func(fx, s float64) [3]float64 {
			return [3]float64{HipX * fx, HipY*s + 2*l, HipOffset * s}
		}},
	} {
		for leg := range Legs {
			var q [Joints]float64
			q[3*leg], q[3*leg+1], q[3*leg+2] = c.hip, c.thigh, c.calf
			fx, s := legSign(leg)
			got, want := Foot(leg, &q), c.want(fx, s)
			for k := range 3 {
				if math.Abs(got[k]-want[k]) > 1e-12 {
					t.Errorf("%s, %s: %v, want %v", c.name, LegNames[leg], got, want)
					break
				}
			}
		}
	}
}

// Left and right mirror each other.
func TestFootMirrors(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var right, left [Joints]float64
		for k := range JointsInLeg {
			right[k] = 2 * (r.Float64() - 0.5)
			left[JointsInLeg+k] = right[k]
		}
		left[JointsInLeg+Hip] = -right[Hip]
		a, b := Foot(FR, &right), Foot(FL, &left)
		if math.Abs(a[0]-b[0]) > 1e-12 || math.Abs(a[1]+b[1]) > 1e-12 || math.Abs(a[2]-b[2]) > 1e-12 {
			t.Fatalf("%v and %v", a, b)
		}
	}
}

func TestFootJacobianAgainstDifferences(t *testing.T) {
	const h = 1e-6
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var q [Joints]float64
		for i := range q {
			q[i] = 4 * (r.Float64() - 0.5)
		}
		for leg := range Legs {
			p, jac := FootJacobian(leg, &q)
			if p != Foot(leg, &q) {
				t.Fatal("FootJacobian and Foot disagree")
			}
			for k := range Joints {
				up, down := q, q
				up[k] += h
				down[k] -= h
				a, b := Foot(leg, &up), Foot(leg, &down)
				for axis := range 3 {
					want := (a[axis] - b[axis]) / (2 * h)
					got := 0.0
					if k/JointsInLeg == leg {
						got = jac[axis][k%JointsInLeg]
					}
					if math.Abs(got-want) > 1e-8 {
						t.Fatalf("%s: d%c/d%s is %v, differences give %v", LegNames[leg], 'x'+rune(axis), JointNames[k], got, want)
					}
				}
			}
		}
	}
}

// The home pose puts the feet where HomeHeight says the floor is, up to how deep
// Playground's start presses them in (16 mm).
func TestHomeStands(t *testing.T) {
	var q [Joints]float64
	for i, x := range Home {
		q[i] = float64(x)
	}
	for leg := range Legs {
		p := Foot(leg, &q)
		if under := HomeHeight + p[2] - FootRadius; under > 0 || under < -0.02 {
			t.Errorf("%s is %v m above the floor", LegNames[leg], under)
		}
	}
}

func axisAngle(x, y, z, angle float64) *[4]float32 {
	s, c := math.Sincos(angle / 2)
	return &[4]float32{float32(c), float32(x * s), float32(y * s), float32(z * s)}
}

func TestGravityAndTilt(t *testing.T) {
	s30, c30 := math.Sincos(math.Pi / 6)
	for _, c := range []struct {
		name    string
		quat    *[4]float32
		gravity [3]float64
		tilt    float64
	}{
		{"upright", &[4]float32{1, 0, 0, 0}, [3]float64{0, 0, -1}, 0},
		{"the same, negated", &[4]float32{-1, 0, 0, 0}, [3]float64{0, 0, -1}, 0},
		{"turned about z", axisAngle(0, 0, 1, 1.2), [3]float64{0, 0, -1}, 0},
		{"nose down by 30 degrees", axisAngle(0, 1, 0, math.Pi/6), [3]float64{s30, 0, -c30}, math.Pi / 6},
		{"rolled to the right by 30 degrees", axisAngle(1, 0, 0, math.Pi/6), [3]float64{0, -s30, -c30}, math.Pi / 6},
		{"on its left side", axisAngle(1, 0, 0, -math.Pi/2), [3]float64{0, 1, 0}, math.Pi / 2},
		{"on its back", axisAngle(1, 0, 0, math.Pi), [3]float64{0, 0, 1}, math.Pi},
		{"zeros", &[4]float32{}, [3]float64{0, 0, 0}, math.Pi / 2},
	} {
		g := Gravity(c.quat)
		for k := range 3 {
			if math.Abs(float64(g[k])-c.gravity[k]) > 1e-6 {
				t.Errorf("%s: gravity %v, want %v", c.name, g, c.gravity)
				break
			}
		}
		if got := float64(Tilt(c.quat)); math.Abs(got-c.tilt) > 1e-3 {
			t.Errorf("%s: tilt %v, want %v", c.name, got, c.tilt)
		}
	}
	nan := float32(math.NaN())
	if got := Tilt(&[4]float32{1, nan, 0, 0}); !math.IsNaN(float64(got)) {
		t.Errorf("tilt of NaN is %v", got)
	}
	long := float32(1 + 1e-4) // a sensor's quaternion is not exactly of length 1
	if got := Tilt(&[4]float32{long, 0, 0, 0}); got != 0 {
		t.Errorf("tilt of a quaternion a little too long is %v", got)
	}
}

// A rotation matrix built the long way agrees for any attitude.
func TestGravityAgainstAMatrix(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var v [4]float64
		n := 0.0
		for i := range v {
			v[i] = r.NormFloat64()
			n += v[i] * v[i]
		}
		n = math.Sqrt(n)
		w, x, y, z := v[0]/n, v[1]/n, v[2]/n, v[3]/n
		// Third row of the body-to-world matrix, negated: R^T (0, 0, -1).
		want := [3]float64{-2 * (x*z - w*y), -2 * (y*z + w*x), -(1 - 2*(x*x+y*y))}
		got := Gravity(&[4]float32{float32(w), float32(x), float32(y), float32(z)})
		for k := range 3 {
			if math.Abs(float64(got[k])-want[k]) > 1e-5 {
				t.Fatalf("%v, want %v", got, want)
			}
		}
	}
}

func TestFacts(t *testing.T) {
	for i, n := range JointNames {
		if JointIndex(n) != i {
			t.Errorf("JointIndex(%s) is %d", n, JointIndex(n))
		}
		if Home[i] < TargetLower[i] || Home[i] > TargetUpper[i] {
			t.Errorf("Home of %s is outside of its command limits", n)
		}
		if Folded[i] < StopLower[i] || Folded[i] > StopUpper[i] {
			t.Errorf("Folded of %s is beyond its stops", n)
		}
		if TargetLower[i] < StopLower[i] || TargetUpper[i] > StopUpper[i] {
			t.Errorf("%s may be commanded beyond its stops", n)
		}
	}
	if JointIndex("FR_foot") != -1 {
		t.Error("FR_foot is a joint")
	}
	// The calf's further reduction turns torque into speed.
	if r := TorqueMax[2] / TorqueMax[0]; math.Abs(float64(r)-1.5) > 1e-6 || math.Abs(float64(SpeedMax[0]/SpeedMax[2])-1.5) > 0.001 {
		t.Errorf("calf: torque ratio %v, speed ratio %v, want 1.5", r, SpeedMax[0]/SpeedMax[2])
	}
}
