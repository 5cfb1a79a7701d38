package estimate

import (
	"math"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

func TestConfigNamesField(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	fields := reflect.TypeOf(Config{})
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
			c := DefaultConfig()
			reflect.ValueOf(&c).Elem().Field(i).SetFloat(bad)
			if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name+":") {
				t.Errorf("%s = %v: error %v does not name it", name, bad, err)
			}
		}
	}
}

// The weight of a leg in its joints, against the derivatives of where its masses
// are.
func TestGravityTorque(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for range 200 {
		var q [go1.Joints]float64
		for i := range q {
			lo, hi := float64(go1.TargetLower[i]), float64(go1.TargetUpper[i])
			q[i] = lo + rng.Float64()*(hi-lo)
		}
		acc := vec3{rng.NormFloat64() * 3, rng.NormFloat64() * 3, gravity}
		for i := range go1.Legs {
			want := legTorque(i, &q, vec3{}, vec3{}, acc)
			got := gravityTorque(i, &q, acc)
			// The closed form leaves out mass centres' few millimetres.
			if d := got.sub(want).norm(); d > 0.1 {
				t.Fatalf("%s: %v, want %v", go1.LegNames[i], got, want)
			}
		}
	}
}

// A foot that stands says how the body moves, turning, with rolling feet: against
// numeric differences of the point where a ball touches the floor.
func TestLegVelocity(t *testing.T) {
	g := gait{vx: 0.7, vy: -0.2, wz: 0.6, seconds: 4}
	for k, f := range g.run() {
		if k < 100 {
			continue
		}
		var s Sample
		for c := range 4 {
			s.Quat[c] = float32(f.quat[c])
		}
		up, ok := check(&s)
		if !ok {
			t.Fatal("bad quaternion")
		}
		for i := range go1.Legs {
			if f.load[i] == 0 {
				continue
			}
			var l leg
			var jac mat3
			l.solve(i, &f.q, &f.dq, &jac, f.gyro, up, 0, 1)
			if e := l.vel.sub(f.vel).norm(); e > 1e-4 {
				t.Fatalf("tick %d %s: %v, want %v", k, go1.LegNames[i], l.vel, f.vel)
			}
		}
	}
}

func TestObserverFindsLoad(t *testing.T) {
	g := gait{vx: 0.8, seconds: 4}
	var obs [go1.Legs]observer
	var sum, n [2]float64
	for k, f := range g.run() {
		for i := range go1.Legs {
			var l leg
			var jac mat3
			up := vec3{2 * (f.quat[1]*f.quat[3] - f.quat[0]*f.quat[2]), 2 * (f.quat[2]*f.quat[3] + f.quat[0]*f.quat[1]), 0}
			up[2] = math.Sqrt(1 - up[0]*up[0] - up[1]*up[1])
			l.solve(i, &f.q, &f.dq, &jac, f.gyro, up, 0, 0)
			ext := obs[i].update(i, &f.q, &f.dq, vec3{f.tau[3*i], f.tau[3*i+1], f.tau[3*i+2]}, f.acc, 0.008, tick)
			load, ok := normalLoad(&jac, up, ext)
			if !ok {
				t.Fatalf("tick %d %s: no load", k, go1.LegNames[i])
			}
			if k < 500 && math.Abs(load-f.load[i]) > 1.5 {
				t.Fatalf("tick %d %s: %.1f N standing, want %.1f", k, go1.LegNames[i], load, f.load[i])
			}
			if k > 1000 {
				which := 0
				if f.load[i] > 0 {
					which = 1
				}
				sum[which] += sq(load - f.load[i])
				n[which]++
			}
		}
	}
	t.Logf("rms error: %.1f N in the air, %.1f N on the ground", math.Sqrt(sum[0]/n[0]), math.Sqrt(sum[1]/n[1]))
	for w := range sum {
		if e := math.Sqrt(sum[w] / n[w]); e > 20 {
			t.Errorf("rms error %.1f N", e)
		}
	}
}

func TestNoise(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for _, sigma := range []float64{0.005, 0.05, 0.8} {
		var n noise
		n.reset(0.02)
		var got float64
		for k := range 3000 {
			var x [go1.Joints]float64
			for i := range x {
				x[i] = 5*math.Sin(float64(k)*tick*2*math.Pi*2+float64(i)) + sigma*rng.NormFloat64()
			}
			got = math.Sqrt(n.update(x[:], 0.02, tick))
		}
		want := math.Max(sigma, 0.02)
		if got < 0.9*want || got > 1.15*want {
			t.Errorf("sigma %v measured as %.4f", sigma, got)
		}
	}
}

func TestMatrices(t *testing.T) {
	m := mat3{{2, 1, 0}, {-1, 3, 0.5}, {0.2, 0, 1}}
	inv, det := m.inverse(1e-9)
	one := m.mul(&inv)
	for i := range 3 {
		for j := range 3 {
			want := 0.0
			if i == j {
				want = 1
			}
			if math.Abs(one[i][j]-want) > 1e-12 {
				t.Fatalf("m times its inverse: %v (det %v)", one, det)
			}
		}
	}
	if z, _ := (&mat3{{1, 2, 3}, {2, 4, 6}, {0, 0, 1}}).inverse(1e-9); z != (mat3{}) {
		t.Errorf("inverse of a singular matrix: %v", z)
	}
	for _, a := range []float64{1e-5, 1e-3, 1.1e-3, 1, 3} {
		r := rotation(vec3{0, 0, a})
		if math.Abs(r[0][0]-math.Cos(a)) > 1e-12 || math.Abs(r[1][0]-math.Sin(a)) > 1e-12 {
			t.Errorf("rotation by %v: %v", a, r)
		}
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		ContactUnknown.String(): "unknown", ContactAir.String(): "air", ContactGround.String(): "ground",
		SensorUncalibrated.String(): "uncalibrated", SensorOK.String(): "ok", SensorUnknown.String(): "unknown", SensorStuck.String(): "stuck",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
