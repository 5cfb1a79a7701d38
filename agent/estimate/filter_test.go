package estimate

import (
	"math"
	"math/rand"
	"reflect"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

func forward() *gait { return &gait{vx: 0.8, seconds: 10} }

// score is the error of a run after its first two seconds.
type score struct {
	rmse  vec3    // m/s
	worst float64 // m/s, any axis
	wrong float64 // share of contacts that were not the truth
	nees  float64 // mean squared error over the filter's own variance, all axes
}

func (s *score) add(f *Filter, fr *frame, n *float64) {
	v, g := f.Velocity(), f.Sigma()
	*n++
	for k := range 3 {
		e := float64(v[k]) - fr.vel[k]
		s.rmse[k] += e * e
		s.nees += e * e / float64(g[k]*g[k]) / 3
		s.worst = math.Max(s.worst, math.Abs(e))
	}
	for i, c := range f.Contacts() {
		if (c.State == ContactGround) != (fr.load[i] > 0) {
			s.wrong += 1. / go1.Legs
		}
	}
}

func (s *score) done(n float64) {
	for k := range 3 {
		s.rmse[k] = math.Sqrt(s.rmse[k] / n)
	}
	s.wrong /= n
	s.nees /= n
}

// walk runs a filter over a motion.
func walk(f *Filter, frames []frame, l noiseLevel, bias float64, foot footSensor) (s score) {
	rng := rand.New(rand.NewSource(7))
	var n float64
	for k := range frames {
		t := float64(k) * tick
		in := frames[k].sense(rng, l, bias, foot, t)
		f.Update(&in, tick)
		if t > 2 {
			s.add(f, &frames[k], &n)
		}
	}
	s.done(n)
	return s
}

func TestWalks(t *testing.T) {
	ok, stuck, unknown := SensorOK, SensorStuck, SensorUnknown
	all := func(h SensorHealth) [4]SensorHealth { return [4]SensorHealth{h, h, h, h} }
	stuckAt := func(leg int, raw, from float64) footSensor {
		return func(rng *rand.Rand, i int, load, t float64) float64 {
			if v := goodSensor(rng, i, load, t); i != leg || t < from {
				return v
			}
			return raw
		}
	}
	slip := forward()
	slip.slip = func(t float64) vec3 {
		if t > 4 && t < 8 {
			return vec3{-0.5, 0, 0}
		}
		return vec3{}
	}
	for _, tc := range []struct {
		name   string
		gait   *gait
		foot   footSensor
		bias   float64
		health [4]SensorHealth
		limit  float64 // m/s, realistic noise; rough noise may have twice as much
	}{
		{"forward", forward(), goodSensor, 0, all(ok), 0.03},
		{"fast", &gait{vx: 1.5, seconds: 10}, goodSensor, 0, all(ok), 0.04},
		{"backward", &gait{vx: -0.8, seconds: 10}, goodSensor, 0, all(ok), 0.03},
		{"sideways", &gait{vy: 0.5, seconds: 10}, goodSensor, 0, all(ok), 0.03},
		{"turning", &gait{vx: 0.3, wz: 1, seconds: 10}, goodSensor, 0, all(ok), 0.03},
		{"uphill", &gait{vx: 0.8, slope: 0.17, seconds: 10}, goodSensor, 0, all(ok), 0.04},
		{"no foot sensors", forward(), noSensor, 0, all(unknown), 0.03},
		{"accelerometer bias", forward(), goodSensor, 0.2, all(ok), 0.04},
		{"one foot slips", slip, goodSensor, 0, all(ok), 0.08},
		{"sensors drift", forward(), func(rng *rand.Rand, i int, load, t float64) float64 {
			return 80 - 20*float64(i) + t + 2*load + 2*rng.NormFloat64()
		}, 0, all(ok), 0.03},
		{"sensors drift down, weak", forward(), func(rng *rand.Rand, i int, load, t float64) float64 {
			return 80 - 20*float64(i) - t + 0.5*load + 2*rng.NormFloat64()
		}, 0, all(ok), 0.03},
		{"FR stuck high", forward(), stuckAt(0, 220, 0), 0, [4]SensorHealth{stuck, ok, ok, ok}, 0.03},
		{"FL stuck high", forward(), stuckAt(1, 220, 0), 0, [4]SensorHealth{ok, stuck, ok, ok}, 0.03},
		{"RR stuck low", forward(), stuckAt(2, 12, 0), 0, [4]SensorHealth{ok, ok, stuck, ok}, 0.03},
		{"RL stuck low", forward(), stuckAt(3, 0, 0), 0, [4]SensorHealth{ok, ok, ok, stuck}, 0.03},
		{"FR sticks low later", forward(), stuckAt(0, 20, 5), 0, [4]SensorHealth{stuck, ok, ok, ok}, 0.03},
		{"FL sticks high later", forward(), stuckAt(1, 180, 5), 0, [4]SensorHealth{ok, stuck, ok, ok}, 0.03},
		{"RR sticks high later", forward(), stuckAt(2, 220, 5), 0, [4]SensorHealth{ok, ok, stuck, ok}, 0.03},
		{"RL sticks low later", forward(), stuckAt(3, 60, 5), 0, [4]SensorHealth{ok, ok, ok, stuck}, 0.03},
	} {
		frames := tc.gait.run()
		for _, l := range []struct {
			name  string
			noise noiseLevel
			limit float64
		}{{"realistic", realistic, tc.limit}, {"rough", rough, 2 * tc.limit}} {
			t.Run(tc.name+"/"+l.name, func(t *testing.T) {
				f := New(DefaultConfig())
				s := walk(f, frames, l.noise, tc.bias, tc.foot)
				t.Logf("rmse %.3f m/s, worst %.3f, contacts wrong %.1f %%, nees %.1f, bias %.2f, %+v", s.rmse, s.worst, 100*s.wrong, s.nees, f.AccBias(), f.Counters())
				for k, e := range s.rmse {
					if !(e < l.limit) {
						t.Errorf("axis %d: RMSE %.3f m/s, want below %.3f", k, e, l.limit)
					}
				}
				if s.wrong > 0.1 {
					t.Errorf("%.1f %% of contacts are wrong", 100*s.wrong)
				}
				if !f.Healthy() {
					t.Error("not healthy")
				}
				if h := f.FootForceHealth(); h != tc.health {
					t.Errorf("foot sensors %v, want %v", h, tc.health)
				}
			})
		}
	}
}

// standing is the first second of a motion, for as long as wanted.
func standing() *frame {
	g := gait{seconds: 0.1}
	f := g.run()[20]
	return &f
}

func feed(f *Filter, fr *frame, seconds float64, foot footSensor, rng *rand.Rand) {
	for k := range int(seconds / tick) {
		s := fr.sense(rng, realistic, 0, foot, float64(k)*tick)
		f.Update(&s, tick)
	}
}

func TestStandsWithoutCalibration(t *testing.T) {
	f, rng := New(DefaultConfig()), rand.New(rand.NewSource(1))
	feed(f, standing(), 5, goodSensor, rng)
	for i, c := range f.Contacts() {
		if c.State != ContactGround || c.Source&SourceTorque == 0 || c.Source&SourceForce != 0 {
			t.Errorf("%s: %v by %b", go1.LegNames[i], c.State, c.Source)
		}
		if h := f.FootForceHealth()[i]; h != SensorUncalibrated {
			t.Errorf("%s: sensor %v: a foot never lifted tells nothing", go1.LegNames[i], h)
		}
	}
	if v := wide(f.Velocity()).norm(); v > 0.02 {
		t.Errorf("%.3f m/s while standing", v)
	}
}

// Drift over a long stand must not turn into a wrong level: 1 raw/s for 100 s is
// more than the whole swing of the sensor.
func TestSensorDriftsWhileStanding(t *testing.T) {
	f, rng := New(DefaultConfig()), rand.New(rand.NewSource(1))
	drift := 0.
	foot := func(rng *rand.Rand, i int, load, _ float64) float64 {
		drift += tick / go1.Legs
		return 30 + drift + 0.8*load + 2*rng.NormFloat64()
	}
	g := forward()
	frames := g.run()
	walk(f, frames, realistic, 0, foot)
	feed(f, standing(), 100, foot, rng)
	if h := f.FootForceHealth(); h != [4]SensorHealth{SensorOK, SensorOK, SensorOK, SensorOK} {
		t.Fatalf("sensors %v after the stand", h)
	}
	for i := range f.sensors {
		if z := f.sensors[i].zero - 30 - drift; math.Abs(z) > 8 {
			t.Errorf("%s: zero is off by %.1f raw", go1.LegNames[i], z)
		}
		if c := f.Contacts()[i]; c.State != ContactGround || c.Source&SourceForce == 0 {
			t.Errorf("%s: %v by %b after the stand", go1.LegNames[i], c.State, c.Source)
		}
	}
	s := walk(f, frames, realistic, 0, foot)
	if s.wrong > 0.05 {
		t.Errorf("%.1f %% of contacts wrong when it walks again", 100*s.wrong)
	}
}

func TestStuckSensorComesBack(t *testing.T) {
	f := New(DefaultConfig())
	g := gait{vx: 0.5, seconds: 16}
	walk(f, g.run(), realistic, 0, func(rng *rand.Rand, i int, load, t float64) float64 {
		if i == 0 && t > 4 && t < 9 {
			return 150
		}
		return goodSensor(rng, i, load, t)
	})
	if h := f.FootForceHealth()[0]; h != SensorOK {
		t.Errorf("sensor is %v 7 s after it came back", h)
	}
}

// lying is on its belly, legs folded, motors limp; upside is on its back.
func lying() *frame {
	f := frame{quat: [4]float64{1, 0, 0, 0}, acc: vec3{0, 0, gravity}}
	for i, q := range go1.Folded {
		f.q[i] = float64(q)
	}
	return &f
}

func upsideDown() *frame {
	f := frame{quat: [4]float64{0, 1, 0, 0}, acc: vec3{0, 0, -gravity}}
	for i, q := range go1.Home {
		f.q[i] = float64(q)
	}
	for i := range go1.Legs {
		tau := legTorque(i, &f.q, vec3{}, vec3{}, f.acc)
		copy(f.tau[3*i:], tau[:])
	}
	return &f
}

func TestAtRestWithoutFeet(t *testing.T) {
	limp, held := lying(), lying()
	for i := range go1.Legs {
		tau := legTorque(i, &held.q, vec3{}, vec3{}, held.acc)
		copy(held.tau[3*i:], tau[:])
	}
	for _, tc := range []struct {
		name string
		fr   *frame
	}{{"lying limp", limp}, {"lying with held legs", held}, {"upside down", upsideDown()}} {
		t.Run(tc.name, func(t *testing.T) {
			f, rng := New(DefaultConfig()), rand.New(rand.NewSource(1))
			g := forward()
			frames := g.run()
			walk(f, frames[:2000], realistic, 0, noSensor)
			feed(f, tc.fr, 2, noSensor, rng)
			if v := wide(f.Velocity()).norm(); v > 0.03 {
				t.Errorf("%.3f m/s two seconds after it came to rest", v)
			}
			feed(f, tc.fr, 60, noSensor, rng)
			if v := wide(f.Velocity()).norm(); v > 0.03 {
				t.Errorf("%.3f m/s after a minute at rest", v)
			}
			if !f.Healthy() {
				t.Error("not healthy at rest")
			}
			if tc.name != "lying limp" {
				for i, c := range f.Contacts() {
					if c.State != ContactAir {
						t.Errorf("%s: %v", go1.LegNames[i], c.State)
					}
				}
			}
			walk(f, frames[:500], realistic, 0, noSensor) // it stands
			s := walk(f, frames, realistic, 0, noSensor)
			if s.rmse.norm() > 0.08 {
				t.Errorf("RMSE %.3f m/s when it walks again", s.rmse)
			}
		})
	}
}

// Whatever is done to the robot, the estimate stays finite and within what a Go1
// can do, its covariance stays a covariance, and it recovers.
func TestThrownAround(t *testing.T) {
	f, rng := New(DefaultConfig()), rand.New(rand.NewSource(3))
	var attitude vec3
	for k := range 20000 {
		var s Sample
		for c := range 3 {
			attitude[c] += rng.NormFloat64() * 0.3
			s.Gyro[c] = float32(rng.NormFloat64() * 15)
			s.Acc[c] = float32(rng.NormFloat64() * 80)
		}
		m := rotation(attitude)
		q := quaternion(&m)
		n := float32(math.Sqrt(q[0]*q[0] + q[1]*q[1] + q[2]*q[2] + q[3]*q[3]))
		for c := range q {
			s.Quat[c] = float32(q[c]) / n
		}
		for i := range s.Q {
			s.Q[i] = go1.StopLower[i] + rng.Float32()*(go1.StopUpper[i]-go1.StopLower[i])
			s.Dq[i] = float32(rng.NormFloat64() * 20)
			s.Tau[i] = float32(rng.NormFloat64() * 20)
		}
		for i := range s.FootForce {
			s.FootForce[i] = int16(rng.Intn(65536) - 32768)
		}
		f.Update(&s, rng.Float64()*0.01)
		v, g := wide(f.Velocity()), f.Sigma()
		if !(v.norm() <= f.c.VelocityMax+1e-3) || !(g[0] > 0 && g[1] > 0 && g[2] > 0 && g[0] < 100) {
			t.Fatalf("tick %d: velocity %v, sigma %v", k, v, g)
		}
	}
	g := forward()
	frames := g.run()
	if s := walk(f, frames, realistic, 0, goodSensor); s.rmse.norm() > 0.08 || !f.Healthy() {
		t.Errorf("RMSE %.3f m/s walking after it", s.rmse)
	}
}

// Any bits at all, mixed with a real walk, leave a finite estimate behind.
func TestAnyBits(t *testing.T) {
	f, rng := New(DefaultConfig()), rand.New(rand.NewSource(5))
	g := gait{vx: 0.8, seconds: 3}
	frames := g.run()
	for k := range 40000 {
		s := frames[k%len(frames)].sense(rng, realistic, 0, goodSensor, 0)
		for range rng.Intn(4) {
			x := math.Float32frombits(rng.Uint32())
			switch j := rng.Intn(5); j {
			case 0:
				s.Quat[rng.Intn(4)] = x
			case 1:
				s.Gyro[rng.Intn(3)] = x
			case 2:
				s.Acc[rng.Intn(3)] = x
			case 3:
				s.Dq[rng.Intn(12)] = x
			default:
				s.Tau[rng.Intn(12)] = x
			}
			s.Q[rng.Intn(12)] += float32(rng.NormFloat64())
			s.FootForce[rng.Intn(4)] = int16(rng.Uint32())
		}
		dt := tick
		if rng.Intn(50) == 0 {
			dt = math.Float64frombits(rng.Uint64())
		}
		f.Update(&s, dt)
		v, sigma := wide(f.Velocity()), wide(f.Sigma())
		if !(v.norm() <= f.c.VelocityMax+1e-3) || !(sigma.norm() < 200) {
			t.Fatalf("tick %d: velocity %v, sigma %v after %+v, dt %v", k, v, sigma, s, dt)
		}
		for i, c := range f.Contacts() {
			if !(c.Probability >= 0 && c.Probability <= 1) {
				t.Fatalf("tick %d: %s on the ground with probability %v", k, go1.LegNames[i], c.Probability)
			}
		}
	}
	if c := f.Counters(); c.Samples == 0 || c.BadSamples == 0 || c.BadTimes == 0 || c.Gaps == 0 {
		t.Errorf("counters %+v: not all paths were taken", c)
	}
	long := gait{vx: 0.8, seconds: 6}
	if s := walk(f, long.run(), realistic, 0, goodSensor); s.rmse.norm() > 0.08 {
		t.Errorf("RMSE %.3f m/s walking after it", s.rmse)
	}
}

// An estimate that is wrong from the start is overruled by its feet.
func TestRecovers(t *testing.T) {
	f := New(DefaultConfig())
	g := forward()
	frames := g.run()
	walk(f, frames[:2500], realistic, 0, noSensor)
	f.vel = vec3{-3, 2, 1} // sure of it: the covariance stays small
	s := walk(f, frames[2500:4000], realistic, 0, noSensor)
	if f.Counters().Recovered == 0 {
		t.Error("the feet were never believed")
	}
	if s.rmse.norm() > 0.08 {
		t.Errorf("RMSE %.3f m/s from 2 s after", s.rmse)
	}
}

func TestBadSamplesKeepState(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	g := forward()
	frames := g.run()
	for _, tc := range []struct {
		name string
		harm func(s *Sample)
	}{
		{"quat NaN", func(s *Sample) { s.Quat[2] = nan }},
		{"quat zero", func(s *Sample) { s.Quat = [4]float32{} }},
		{"quat long", func(s *Sample) { s.Quat[0] = 3 }},
		{"gyro NaN", func(s *Sample) { s.Gyro[1] = nan }},
		{"acc Inf", func(s *Sample) { s.Acc[0] = -inf }},
		{"acc huge", func(s *Sample) { s.Acc[0] = 1e30 }},
		{"q NaN", func(s *Sample) { s.Q[11] = nan }},
		{"dq huge", func(s *Sample) { s.Dq[3] = 3e38 }},
		{"dq Inf", func(s *Sample) { s.Dq[3] = inf }},
		{"tau NaN", func(s *Sample) { s.Tau[7] = nan }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, rng := New(DefaultConfig()), rand.New(rand.NewSource(1))
			walk(f, frames[:2000], realistic, 0, goodSensor)
			before, vel, contact := f.Counters(), f.Velocity(), f.Contacts()
			s := frames[2000].sense(rng, realistic, 0, goodSensor, 4)
			tc.harm(&s)
			f.Update(&s, tick)
			if f.Velocity() != vel || f.Contacts() != contact {
				t.Error("the state moved")
			}
			after := f.Counters()
			if after.BadSamples != before.BadSamples+1 || after.Samples != before.Samples {
				t.Errorf("counters %+v, before %+v", after, before)
			}
			s = frames[2001].sense(rng, realistic, 0, goodSensor, 4)
			f.Update(&s, tick)
			v := f.Velocity()
			for k := range 3 {
				if e := math.Abs(float64(v[k]) - frames[2001].vel[k]); !(e < 0.1) {
					t.Errorf("axis %d is off by %.3f m/s on the next tick", k, e)
				}
			}
		})
	}
}

func TestBadTimes(t *testing.T) {
	f, rng := New(DefaultConfig()), rand.New(rand.NewSource(1))
	fr := standing()
	feed(f, fr, 1, goodSensor, rng)
	p, vel := f.p, f.vel
	s := fr.sense(rng, realistic, 0, goodSensor, 0)
	for _, dt := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		f.Update(&s, dt)
	}
	if f.Counters().BadTimes != 5 || f.vel != vel || !reflect.DeepEqual(f.p, p) {
		t.Errorf("counters %+v", f.Counters())
	}
}

// A 50 ms gap is bridged, one of more than MaxGap starts anew; both count from
// the last good sample, however the ticks between were lost.
func TestGaps(t *testing.T) {
	g := gait{vx: 1, seconds: 8}
	frames := g.run()
	for _, tc := range []struct {
		name   string
		ticks  int
		bad    bool // samples come but are not finite
		gaps   uint64
		at     float64 // m/s, worst error at the first sample after
		within float64 // m/s, worst error from a quarter second after on
	}{
		{"50 ms of silence", 25, false, 0, 0.15, 0.1},
		{"50 ms of NaN", 25, true, 0, 0.15, 0.1},
		{"98 ms of silence", 48, false, 0, 0.4, 0.15},
		{"150 ms of silence", 75, false, 1, 2, 0.12},
		{"150 ms of NaN", 75, true, 1, 2, 0.12},
		{"5 s of NaN", 2500, true, 1, 2, 0.12},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, rng := New(DefaultConfig()), rand.New(rand.NewSource(1))
			first, at, within := 1400, 0., 0.
			for k := range frames {
				s := frames[k].sense(rng, realistic, 0, goodSensor, float64(k)*tick)
				dt := tick
				switch {
				case k >= first && k < first+tc.ticks:
					if tc.bad {
						s.Acc[0] = float32(math.NaN())
						f.Update(&s, tick)
					}
					continue
				case k == first+tc.ticks && !tc.bad:
					dt = float64(tc.ticks+1) * tick
				}
				f.Update(&s, dt)
				v := wide(f.Velocity())
				e := v.sub(frames[k].vel).norm()
				if k == first+tc.ticks {
					at = e
				}
				if k > first+tc.ticks+125 {
					within = math.Max(within, e)
				}
			}
			t.Logf("%.3f m/s at once, %.3f later", at, within)
			if at > tc.at || within > tc.within || f.Counters().Gaps != tc.gaps {
				t.Errorf("error %.3f m/s at once (want %.2f), %.3f later (want %.2f), %d gaps (want %d)", at, tc.at, within, tc.within, f.Counters().Gaps, tc.gaps)
			}
		})
	}
}

func TestHealthy(t *testing.T) {
	f, rng := New(DefaultConfig()), rand.New(rand.NewSource(1))
	if f.Healthy() {
		t.Error("healthy before the first sample")
	}
	fr := standing()
	feed(f, fr, 1, goodSensor, rng)
	if !f.Healthy() {
		t.Error("not healthy after a second's stand")
	}
	bad := Sample{}
	for range int(0.6 / tick) {
		f.Update(&bad, tick)
	}
	if f.Healthy() {
		t.Error("healthy after 0.6 s without a good sample")
	}
	f.Reset()
	if f.Healthy() || f.Velocity() != [3]float32{} {
		t.Error("healthy after Reset")
	}
}

func TestNoAlloc(t *testing.T) {
	f, rng := New(DefaultConfig()), rand.New(rand.NewSource(1))
	g := gait{vx: 0.8, seconds: 4}
	frames := g.run()
	in := make([]Sample, len(frames))
	for k := range in {
		in[k] = frames[k].sense(rng, realistic, 0, goodSensor, 0)
	}
	in[7].Acc[1] = float32(math.NaN())
	k := 0
	if n := testing.AllocsPerRun(len(in)-1, func() {
		f.Update(&in[k], tick)
		k++
		_, _, _, _, _ = f.Velocity(), f.Sigma(), f.Contacts(), f.FootForceHealth(), f.Healthy()
	}); n != 0 {
		t.Errorf("%v allocations a tick", n)
	}
}

func BenchmarkUpdate(b *testing.B) {
	f, rng := New(DefaultConfig()), rand.New(rand.NewSource(1))
	g := gait{vx: 0.8, seconds: 4}
	frames := g.run()
	in := make([]Sample, len(frames))
	for k := range in {
		in[k] = frames[k].sense(rng, realistic, 0, goodSensor, 0)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for k := range b.N {
		f.Update(&in[k%len(in)], tick)
	}
}
