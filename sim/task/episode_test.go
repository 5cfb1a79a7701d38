package task

import (
	"math"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// Each number of an episode lies in its range and, over many, fills it.
func TestDraw(t *testing.T) {
	w := Ship()
	w.Vary.TrunkMass, w.Vary.Kp, w.Vary.Kd = [2]float64{-1, 3}, [2]float64{0.8, 1.1}, [2]float64{0.5, 1.5}
	v := &w.Vary
	r := NewRand(1, 0, StreamVary)
	numbers := []struct {
		name   string
		of     func(e *Episode) float64
		lo, hi float64
	}{
		{"friction", func(e *Episode) float64 { return e.Friction }, 0.4, 1.2},
		{"trunk mass", func(e *Episode) float64 { return e.TrunkMass }, -1, 3},
		{"com x", func(e *Episode) float64 { return e.TrunkCoM[0] }, -0.05, 0.05},
		{"com z", func(e *Episode) float64 { return e.TrunkCoM[2] }, -0.05, 0.05},
		{"kp", func(e *Episode) float64 { return e.Kp }, 0.8, 1.1},
		{"kd", func(e *Episode) float64 { return e.Kd }, 0.5, 1.5},
		{"strength", func(e *Episode) float64 { return e.Strength }, 0.9, 1.1},
		{"first joint zero", func(e *Episode) float64 { return float64(e.JointZero[0]) }, -0.02, 0.02},
		{"last joint zero", func(e *Episode) float64 { return float64(e.JointZero[11]) }, -0.02, 0.02},
		{"latency", func(e *Episode) float64 { return e.Latency }, 0, 0.03},
		{"gyro bias", func(e *Episode) float64 { return float64(e.GyroBias[1]) }, -0.05, 0.05},
	}
	const n = 20_000
	sum, least, most := make([]float64, len(numbers)), make([]float64, len(numbers)), make([]float64, len(numbers))
	late := map[int]int{}
	var axis [3]float64
	for range n {
		var e Episode
		v.Draw(&r, &e)
		for i, x := range numbers {
			got := x.of(&e)
			sum[i] += got / n
			least[i], most[i] = min(least[i], got-x.lo), max(most[i], got-x.lo)
		}
		steps := e.Latency / 0.005
		if math.Abs(steps-math.Round(steps)) > 1e-9 {
			t.Fatalf("latency %v is not a multiple of 5 ms", e.Latency)
		}
		late[int(math.Round(steps))]++
		for i, x := range checkRotation(t, &e.IMU, v.IMUTilt) {
			axis[i] += x / n
		}
	}
	for i, x := range numbers {
		span := x.hi - x.lo
		if least[i] < -1e-9 || most[i] > span+1e-9 || most[i] < 0.99*span || math.Abs(sum[i]-(x.lo+x.hi)/2) > 0.02*span {
			t.Errorf("%s: mean %v, within %v of %v, want %v..%v", x.name, sum[i], most[i], x.lo, x.lo, x.hi)
		}
	}
	if len(late) != 7 {
		t.Errorf("latencies of %v steps of 5 ms, want 0..6", late)
	}
	for steps, count := range late {
		if share := float64(count) / n; math.Abs(share-1.0/7) > 0.01 {
			t.Errorf("%v of the episodes are %d steps late, want a seventh", share, steps)
		}
	}
	if math.Hypot(math.Hypot(axis[0], axis[1]), axis[2]) > 0.0005 {
		t.Errorf("the IMU tilts about %v more than about others", axis)
	}
	v.LatencyStep = 0
	whole := 0
	for range 100 {
		var e Episode
		if v.Draw(&r, &e); e.Latency < 0 || e.Latency >= 0.03 {
			t.Fatalf("latency %v", e.Latency)
		} else if steps := e.Latency / 0.005; steps == math.Round(steps) {
			whole++
		}
	}
	if whole > 1 {
		t.Errorf("without a step %d of 100 latencies are multiples of 5 ms", whole)
	}
}

// checkRotation checks that m is a rotation of at most angle and returns its axis times
// the angle, rad.
func checkRotation(t *testing.T, m *[9]float32, angle float64) (axis [3]float64) {
	t.Helper()
	for i := range 3 {
		for j := range 3 {
			dot := 0.0
			for k := range 3 {
				dot += float64(m[3*i+k] * m[3*j+k])
			}
			if want := map[bool]float64{true: 1}[i == j]; math.Abs(dot-want) > 1e-6 {
				t.Fatalf("IMU %v is not a rotation", *m)
			}
		}
	}
	// The part of a rotation that is not symmetric is its axis times the sine.
	for i := range 3 {
		j, k := (i+1)%3, (i+2)%3
		axis[i] = float64(m[3*k+j]-m[3*j+k]) / 2
	}
	if sin := math.Hypot(math.Hypot(axis[0], axis[1]), axis[2]); sin > math.Sin(angle)+1e-6 || m[0] < 0 {
		t.Fatalf("IMU turned by %v rad, at most %v", math.Asin(sin), angle)
	}
	return axis
}

func TestRotation(t *testing.T) {
	m := rotation([3]float64{0, 0, 1}, math.Pi/2)
	if got := turned(&m, [3]float32{1, 0, 2}); math.Abs(float64(got[0])) > 1e-7 || got[1] != 1 || got[2] != 2 {
		t.Errorf("a quarter about z turns x to %v, want y", got)
	}
	m = rotation([3]float64{1, 0, 0}, math.Pi/6)
	if got := turned(&m, [3]float32{0, 1, 0}); math.Abs(float64(got[2])-0.5) > 1e-7 {
		t.Errorf("30 degrees about x turn y to %v", got)
	}
}

// An episode depends on the seed, the row and the episodes before; changing one range
// leaves the other numbers as they were.
func TestDrawIsRepeatable(t *testing.T) {
	draw := func(v *Vary, seed uint64, row int) (e [2]Episode) {
		r := NewRand(seed, row, StreamVary)
		v.Draw(&r, &e[0])
		v.Draw(&r, &e[1])
		return e
	}
	v := &Ship().Vary
	first := draw(v, 3, 4)
	switch {
	case draw(v, 3, 4) != first:
		t.Error("not repeatable")
	case draw(v, 3, 5)[0] == first[0] || draw(v, 4, 4)[0] == first[0] || first[1] == first[0]:
		t.Error("rows, seeds or episodes are alike")
	}
	narrow := *v
	narrow.TrunkMass, narrow.LatencyStep, narrow.IMUTilt = [2]float64{}, 0, 0
	got := draw(&narrow, 3, 4)
	for i := range got {
		got[i].TrunkMass, got[i].Latency, got[i].IMU = first[i].TrunkMass, first[i].Latency, first[i].IMU
	}
	if got != first {
		t.Errorf("other ranges for some numbers change the rest:\n%+v\n%+v", got, first)
	}
	var e Episode
	r := NewRand(1, 2, StreamVary)
	Nominal().Vary.Draw(&r, &e)
	if want := (Episode{Friction: 0.8, Kp: 1, Kd: 1, Strength: 1, IMU: [9]float32{0: 1, 4: 1, 8: 1}}); e != want {
		t.Errorf("a nominal episode is %+v", e)
	}
}

func TestCorruptOffsets(t *testing.T) {
	r := NewRand(1, 0, StreamNoise)
	e := Episode{GyroBias: [3]float32{0.1, 0.2, 0.3}, IMU: rotation([3]float64{0, 0, 1}, math.Pi/2)}
	for i := range e.JointZero {
		e.JointZero[i] = float32(i) / 100
	}
	seen := &go1.Reading{Gyro: [3]float32{1, 0, 5}, Gravity: [3]float32{0, -0.6, -0.8}, LinVel: [3]float32{1, 2, 3},
		Command: [3]float32{1, 2, 3}, Phase: 0.3, ClockOn: true}
	for i := range seen.Q {
		seen.Q[i], seen.Dq[i], seen.LastAction[i] = 1, 2, 3
	}
	want := *seen
	want.Gyro, want.Gravity = [3]float32{0.1, 1.2, 5.3}, [3]float32{0.6, 0, -0.8}
	for i := range want.Q {
		want.Q[i] += e.JointZero[i]
	}
	new(Noise).Corrupt(&r, &e, seen)
	for i := range 3 {
		if math.Abs(float64(seen.Gyro[i]-want.Gyro[i])) > 1e-6 || math.Abs(float64(seen.Gravity[i]-want.Gravity[i])) > 1e-6 {
			t.Errorf("gyro %v, gravity %v, want %v, %v", seen.Gyro, seen.Gravity, want.Gyro, want.Gravity)
		}
	}
	seen.Gyro, seen.Gravity = want.Gyro, want.Gravity
	if *seen != want {
		t.Errorf("%+v, want %+v", *seen, want)
	}
}

// Every sensor has its own noise, uniform, new each time, and nothing else has any.
func TestCorruptNoise(t *testing.T) {
	n := Noise{Gyro: 0.2, Gravity: 0.05, JointPos: 0.01, JointVel: 1.5, LinVel: 0.5}
	r := NewRand(1, 0, StreamNoise)
	var e Episode
	Nominal().Vary.Draw(&r, &e)
	sensors := []struct {
		name string
		by   float64
		of   func(r *go1.Reading) []float32
	}{
		{"gyro", 0.2, func(r *go1.Reading) []float32 { return r.Gyro[:] }},
		{"gravity", 0.05, func(r *go1.Reading) []float32 { return r.Gravity[:] }},
		{"joint pos", 0.01, func(r *go1.Reading) []float32 { return r.Q[:] }},
		{"joint vel", 1.5, func(r *go1.Reading) []float32 { return r.Dq[:] }},
		{"lin vel", 0.5, func(r *go1.Reading) []float32 { return r.LinVel[:] }},
	}
	const times = 20_000
	sum, squares, most := map[string]float64{}, map[string]float64{}, map[string]float64{}
	together := 0.0 // of the two numbers that come from one draw
	for range times {
		seen := go1.Reading{Command: [3]float32{1, 2, 3}, Phase: 0.25}
		n.Corrupt(&r, &e, &seen)
		together += float64(seen.Q[0]*seen.Q[1]) / times
		for _, s := range sensors {
			x := s.of(&seen)
			for i := range x {
				v := float64(x[i]) / s.by
				sum[s.name] += v / float64(times*len(x))
				squares[s.name] += v * v / float64(times*len(x))
				most[s.name] = max(most[s.name], math.Abs(v))
			}
		}
		if seen.Command != [3]float32{1, 2, 3} || seen.Phase != 0.25 || seen.ClockOn || seen.LastAction != [go1.Joints]float32{} {
			t.Fatalf("noise on what is no sensor: %+v", seen)
		}
	}
	for _, s := range sensors {
		if math.Abs(sum[s.name]) > 0.01 || math.Abs(squares[s.name]-1.0/3) > 0.01 || most[s.name] > 1 || most[s.name] < 0.999 {
			t.Errorf("%s: mean %v, mean square %v, most %v of its noise, want 0, 1/3, 1", s.name, sum[s.name], squares[s.name], most[s.name])
		}
	}
	if math.Abs(together) > 0.01*0.01*0.02 {
		t.Errorf("noises of two joints go together: %v", together)
	}
	clean := go1.Reading{Gyro: [3]float32{1, 2, 3}, Q: go1.Home}
	seen := clean
	if new(Noise).Corrupt(&r, &e, &seen); seen != clean {
		t.Errorf("without noise and offsets %+v became %+v", clean, seen)
	}
}

func TestDelayAndLost(t *testing.T) {
	r := NewRand(1, 0, StreamVary)
	v, e := Vary{LatencyJitter: 0.005, LostTargets: 0.02}, Episode{Latency: 0.003}
	const n = 50_000
	least, most, lost, none := 1.0, 0.0, 0, 0
	for range n {
		d := v.Delay(&r, &e)
		least, most = min(least, d), max(most, d)
		if d == 0 {
			none++
		}
		if v.Lost(&r) {
			lost++
		}
	}
	if least != 0 || most > 0.008 || most < 0.0079 || math.Abs(float64(none)/n-0.2) > 0.01 {
		t.Errorf("delays of %v..%v s, %v of them 0; want 0..0.008, a fifth", least, most, float64(none)/n)
	}
	if share := float64(lost) / n; math.Abs(share-0.02) > 0.003 {
		t.Errorf("%v of the targets are lost, want 0.02", share)
	}
	before := r
	v = Vary{}
	if v.Delay(&r, &e) != 0.003 || v.Lost(&r) || r != before {
		t.Error("without jitter and loss a target is not simply late")
	}
}

func TestPushes(t *testing.T) {
	const dt = 0.02
	p := Pushes{EverySeconds: [2]float64{0.1, 0.2}, Velocity: 0.3}
	r := NewRand(1, 0, StreamVary)
	var e Episode
	p.Begin(&r, &e)
	age, times, most := 0, 0, [2]float64{}
	for range 100_000 {
		age++
		kick, due := p.Advance(&r, &e, dt)
		if !due {
			if kick != [2]float64{} {
				t.Fatalf("a kick of %v that is not due", kick)
			}
			continue
		}
		if age < 5 || age > 10 {
			t.Fatalf("a push after %d steps, want 5..10", age)
		}
		for i, v := range kick {
			most[i] = max(most[i], math.Abs(v))
		}
		age, times = 0, times+1
	}
	if times < 12_000 || times > 15_000 || min(most[0], most[1]) < 0.29 || max(most[0], most[1]) > 0.3 {
		t.Errorf("%d pushes of at most %v m/s", times, most)
	}
	none := Pushes{Velocity: 0.3}
	none.Begin(&r, &e)
	for range 1000 {
		if _, due := none.Advance(&r, &e, dt); due {
			t.Fatal("pushed, though never")
		}
	}
}

func TestAnEpisodeDoesNotAllocate(t *testing.T) {
	w, r, seen := Ship(), NewRand(1, 0, StreamNoise), go1.Reading{}
	m, out := standing(), make([]float32, metrics)
	s := NewScore(1, 1)
	var e Episode
	if n := testing.AllocsPerRun(100, func() {
		w.Vary.Draw(&r, &e)
		w.Pushes.Begin(&r, &e)
		w.Pushes.Advance(&r, &e, 0.02)
		w.Vary.Delay(&r, &e)
		w.Vary.Lost(&r)
		w.Noise.Corrupt(&r, &e, &seen)
		Measure(m, out)
		w.Reward.Score(m, w.Falls.Fell(m), 0.02, out[Rewards:])
		s.Record(0, out, false, 2)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCorrupt(b *testing.B) {
	w, r, seen := Walk(), NewRand(1, 0, StreamNoise), go1.Reading{}
	var e Episode
	w.Vary.Draw(&r, &e)
	for b.Loop() {
		w.Noise.Corrupt(&r, &e, &seen)
	}
}

func BenchmarkDraw(b *testing.B) {
	w, r := Ship(), NewRand(1, 0, StreamVary)
	var e Episode
	for b.Loop() {
		w.Vary.Draw(&r, &e)
	}
}
