package buffer

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// moment is one transition of a hand-worked chain; rho is 1 where left out (own 0 is
// written none).
type moment struct {
	reward, value float32
	end           string  // "", "falls", "times out", "both", "bad" (physics)
	final         float32 // V of the true last observation
	rho           float32
}

const none = -1 // moment.rho of a deterministic teacher's step: 0

// chain is a hand-worked row: V = 4, 6, 8, 4 and then last, gamma = lambda = 1/2, so that
// the trace decays by 1/4 and every figure is exact.
type chain struct {
	name              string
	moments           []moment
	last              float32
	advantage, target []float32
}

func chains() []chain {
	nan := float32(math.NaN())
	return []chain{
		{"nothing ends: V(s_T) bootstraps, X after the horizon is 0",
			// delta: 1+3-4 = 0, 2+4-6 = 0, 6+2-8 = 0, 3+5-4 = 4; A: 4/64, 4/16, 4/4, 4
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6}, {reward: 6, value: 8}, {reward: 3, value: 4}}, 10,
			[]float32{0.0625, 0.25, 1, 4}, []float32{4.0625, 6.25, 9, 8}},
		{"falls in the middle: nothing after it counts",
			// delta_1: 2-6 = -4; A_0: 0-4/4 = -1; the new episode: 6+2-8+4/4 = 1
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6, end: "falls", final: 100}, {reward: 6, value: 8}, {reward: 3, value: 4}}, 10,
			[]float32{-1, -4, 1, 4}, []float32{3, 2, 9, 8}},
		{"times out in the middle: the value of the true last observation counts",
			// delta_1: 2+20/2-6 = 6; A_0: 0+6/4 = 1.5
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6, end: "times out", final: 20}, {reward: 6, value: 8}, {reward: 3, value: 4}}, 10,
			[]float32{1.5, 6, 1, 4}, []float32{5.5, 12, 9, 8}},
		{"falls, then times out",
			// A_0: 1-4 = -3; delta_2: 6+20/2-8 = 8; A_1: 2+4-6+8/4 = 2
			[]moment{{reward: 1, value: 4, end: "falls", final: 100}, {reward: 2, value: 6}, {reward: 6, value: 8, end: "times out", final: 20}, {reward: 3, value: 4}}, 10,
			[]float32{-3, 2, 8, 4}, []float32{1, 8, 16, 8}},
		{"times out, then falls",
			// A_0: 1+20/2-4 = 7; A_2: 6-8 = -2; A_1: 0-2/4
			[]moment{{reward: 1, value: 4, end: "times out", final: 20}, {reward: 2, value: 6}, {reward: 6, value: 8, end: "falls", final: 100}, {reward: 3, value: 4}}, 10,
			[]float32{7, -0.5, -2, 4}, []float32{11, 5.5, 6, 8}},
		{"falls at the horizon: V(s_T) is the next episode's",
			// A_3: 3-4 = -1, then -1/4, -1/16, -1/64
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6}, {reward: 6, value: 8}, {reward: 3, value: 4, end: "falls"}}, 10,
			[]float32{-0.015625, -0.0625, -0.25, -1}, []float32{3.984375, 5.9375, 7.75, 3}},
		{"times out at the horizon",
			// A_3: 3+20/2-4 = 9
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6}, {reward: 6, value: 8}, {reward: 3, value: 4, end: "times out", final: 20}}, 10,
			[]float32{0.140625, 0.5625, 2.25, 9}, []float32{4.140625, 6.5625, 10.25, 13}},
		{"falls as the clock ends: a fall wins",
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6, end: "both", final: 20}, {reward: 6, value: 8}, {reward: 3, value: 4}}, 10,
			[]float32{-1, -4, 1, 4}, []float32{3, 2, 9, 8}},
		{"physics goes bad: the step before bootstraps from V(s'), and that is all it sees",
			[]moment{{reward: 1, value: 4}, {reward: nan, value: 6, end: "bad", final: nan, rho: nan}, {reward: 6, value: 8}, {reward: 3, value: 4}}, 10,
			[]float32{0, 0, 1, 4}, []float32{4, 0, 9, 8}},
		{"physics goes bad at the horizon",
			// A_2: 6+2-8 = 0
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6}, {reward: 6, value: 8}, {reward: nan, value: 4, end: "bad"}}, nan,
			[]float32{0, 0, 0, 0}, []float32{4, 6, 8, 0}},
		{"physics goes bad right after a fall",
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6, end: "falls"}, {reward: 6, value: nan, end: "bad"}, {reward: 3, value: 4}}, 10,
			[]float32{-1, -4, 0, 4}, []float32{3, 2, 0, 8}},
		{"physics is bad throughout",
			[]moment{{value: nan, end: "bad"}, {value: nan, end: "bad"}, {value: nan, end: "bad"}, {value: nan, end: "bad"}}, nan,
			[]float32{0, 0, 0, 0}, []float32{0, 0, 0, 0}},
		{"a teacher's step: its own value stays, and nothing of it or after it reaches back",
			// A_1: 0+1/4, X_1 = 0; A_0: 0
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6, rho: none}, {reward: 6, value: 8}, {reward: 3, value: 4}}, 10,
			[]float32{0, 0.25, 1, 4}, []float32{4, 6, 9, 8}},
		{"half a step of the student's",
			// X_1 = 0.25/2; A_0: 0.125/4
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6, rho: 0.5}, {reward: 6, value: 8}, {reward: 3, value: 4}}, 10,
			[]float32{0.03125, 0.25, 1, 4}, []float32{4.03125, 6.125, 9, 8}},
		{"half a step of the student's, and it falls",
			// A_1 = -4, X_1 = -2; A_0: -2/4
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6, end: "falls", rho: 0.5}, {reward: 6, value: 8}, {reward: 3, value: 4}}, 10,
			[]float32{-0.5, -4, 1, 4}, []float32{3.5, 4, 9, 8}},
		{"half a step of the student's at the horizon",
			// A_3 = 4, X_3 = 2; then 2/4, 2/16, 2/64
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6}, {reward: 6, value: 8}, {reward: 3, value: 4, rho: 0.5}}, 10,
			[]float32{0.03125, 0.125, 0.5, 4}, []float32{4.03125, 6.125, 8.5, 6}},
		{"the teacher falls: the student is not blamed",
			[]moment{{reward: 1, value: 4}, {reward: 2, value: 6, end: "falls", rho: none}, {reward: 6, value: 8}, {reward: 3, value: 4}}, 10,
			[]float32{0, -4, 1, 4}, []float32{4, 6, 9, 8}},
	}
}

func (c *chain) put(b *Buffer, row int) {
	for t, m := range c.moments {
		i := b.Index(t, row)
		b.Reward[i], b.Value[i], b.FinalValue[i] = m.reward, m.value, m.final
		b.Terminated[i] = m.end == "falls" || m.end == "both" || m.end == "bad"
		b.TimedOut[i] = m.end == "times out" || m.end == "both"
		b.Valid[i] = m.end != "bad"
		switch m.rho {
		case 0:
			b.Rho[i] = 1
		case none:
			b.Rho[i], b.Teacher[i] = 0, true
		default:
			b.Rho[i] = m.rho
		}
	}
	b.LastValue[row] = c.last
}

func (c *chain) check(t *testing.T, b *Buffer, row int) {
	t.Helper()
	for s := range c.moments {
		i := b.Index(s, row)
		if b.Advantage[i] != c.advantage[s] || b.Target[i] != c.target[s] {
			t.Errorf("step %d: advantage %v, target %v, want %v and %v", s, b.Advantage[i], b.Target[i], c.advantage[s], c.target[s])
		}
	}
}

func TestReturnsByHand(t *testing.T) {
	all := chains()
	together := newBuffer(t, 4, len(all))
	for row := range all {
		all[row].put(together, row)
	}
	if err := together.Returns(0.5, 0.5); err != nil {
		t.Fatal(err)
	}
	for row, c := range all {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, together, row)
			alone := newBuffer(t, 4, 1)
			for range 2 { // what is left of another iteration does not matter
				c.put(alone, 0)
				for s := range c.moments {
					alone.Advantage[s], alone.Target[s] = 77, 77
				}
				if err := alone.Returns(0.5, 0.5); err != nil {
					t.Fatal(err)
				}
				c.check(t, alone, 0)
			}
		})
	}
}

// Row 33 of the cases that went wrong elsewhere: A and B follow each other, A gives 1 and
// B nothing, so V(A) = 1/(1-0.81) = 5.263 and V(B) = 4.737. A time-out while in A must leave
// both as they are; bootstrapping from the observation that was acted on would give 5.737.
func TestTimeOutBootstrapsFromTheNextObservation(t *testing.T) {
	const gamma = 0.9
	va, vb := float32(1/(1-gamma*gamma)), float32(gamma/(1-gamma*gamma))
	b := newBuffer(t, 3, 1) // A, B, A and the clock ends; a new episode begins in B
	copy(b.Reward, []float32{1, 0, 1})
	copy(b.Value, []float32{va, vb, va})
	b.TimedOut[2], b.FinalValue[2], b.LastValue[0] = true, vb, -1000
	for _, lambda := range []float64{0, 0.95, 1} {
		if err := b.Returns(gamma, lambda); err != nil {
			t.Fatal(err)
		}
		for s, want := range []float64{5.263, 4.737, 5.263} {
			if !near(float64(b.Target[s]), want, 5e-4) || !near(float64(b.Advantage[s]), 0, 1e-6) {
				t.Errorf("lambda %v, step %d: target %v, advantage %v; want %v and 0", lambda, s, b.Target[s], b.Advantage[s], want)
			}
		}
	}
}

// The figures of the package comment: what the text this project grew from makes of a
// fall, beside what is right.
func TestFiguresOfThePackageComment(t *testing.T) {
	const gamma, lambda = 0.9, 0.95
	b := newBuffer(t, 4, 1)
	reward := []float32{1, 1, 1, 3}
	done := []bool{false, true, false, false}
	for s := range 4 {
		b.Value[s], b.FinalValue[s] = 10, 10
	}
	b.LastValue[0] = 10
	copy(b.Reward, reward)
	check := func(name string, got []float32, want ...float64) {
		t.Helper()
		for s := range want {
			if !near(float64(got[s]), want[s], 1e-5) {
				t.Errorf("%s: %v, want %v", name, got, want)
				return
			}
		}
	}
	returns := func() []float32 {
		t.Helper()
		if err := b.Returns(gamma, lambda); err != nil {
			t.Fatal(err)
		}
		return b.Advantage
	}

	copy(b.Terminated, done)
	check("a fall", returns(), -7.695, -9, 1.71, 2)
	b.Reward[1] += gamma * 10
	check("a value added to a fall's reward", returns(), 0, 0, 1.71, 2)
	copy(b.Reward, reward)
	copy(b.Terminated, []bool{false, false, false, false})
	copy(b.TimedOut, done)
	check("a time-out", returns(), 0, 0, 1.71, 2)

	late := make([]float32, 4) // the last one is never filled
	for s := 2; s >= 0; s-- {
		on := float32(1)
		if done[s+1] {
			on = 0
		}
		late[s] = reward[s] + gamma*on*10 - 10 + gamma*lambda*on*late[s+1]
	}
	check("dones read one step late", late, -9, 0, 0, 0)
}

// rollout draws a Buffer of random numbers and flags. With student set, rho is 1.
func rollout(t *rapid.T, student bool) *Buffer {
	steps, rows := rapid.IntRange(1, 12).Draw(t, "steps"), rapid.IntRange(1, 4).Draw(t, "rows")
	b, err := New(Shape{Steps: steps, Rows: rows, Policy: 1, Critic: 1, Act: 1})
	if err != nil {
		t.Fatal(err)
	}
	number := rapid.Float32Range(-10, 10)
	for row := range b.LastValue {
		b.LastValue[row] = number.Draw(t, "last value")
	}
	for i := range b.Valid {
		b.Reward[i], b.Value[i], b.FinalValue[i] = number.Draw(t, "reward"), number.Draw(t, "value"), number.Draw(t, "final value")
		b.Rho[i] = 1
		if !student {
			b.Rho[i] = rapid.SampledFrom([]float32{0, 0.3, 0.9, 1}).Draw(t, "rho")
		}
		kind := rapid.IntRange(0, 9).Draw(t, "end")
		b.Terminated[i], b.TimedOut[i], b.Valid[i] = kind == 1 || kind == 3, kind == 2 || kind == 3, kind != 4
	}
	return b
}

// delta is r + gamma V(s') - V(s) at step t of row, and whether the chain goes on.
func delta(b *Buffer, t, row int, gamma float64) (d float64, on bool) {
	i := b.Index(t, row)
	d = float64(b.Reward[i]) - float64(b.Value[i])
	switch {
	case b.Terminated[i]:
		return d, false
	case b.TimedOut[i]:
		return d + gamma*float64(b.FinalValue[i]), false
	case t == b.Steps-1:
		return d + gamma*float64(b.LastValue[row]), false
	default:
		return d + gamma*float64(b.Value[i+b.Rows]), b.Valid[i+b.Rows]
	}
}

// With rho = 1 the advantage is generalised advantage estimation: the sum over l of
// (gamma lambda)^l delta_{t+l}, here added up forwards.
func TestReturnsAreGAE(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rollout(t, true)
		gamma, lambda := rapid.Float64Range(0, 1).Draw(t, "gamma"), rapid.Float64Range(0, 1).Draw(t, "lambda")
		if err := b.Returns(gamma, lambda); err != nil {
			t.Fatal(err)
		}
		for row := range b.Rows {
			for s := range b.Steps {
				i := b.Index(s, row)
				want, decay := 0.0, 1.0
				for l, on := s, b.Valid[i]; on; l++ {
					var d float64
					d, on = delta(b, l, row, gamma)
					want += decay * d
					decay *= gamma * lambda
				}
				target := want + float64(b.Value[i])
				if !b.Valid[i] {
					target = 0
				}
				if !near(float64(b.Advantage[i]), want, 1e-4) || !near(float64(b.Target[i]), target, 1e-4) {
					t.Fatalf("step %d, row %d: advantage %v, target %v, want %v and %v", s, row, b.Advantage[i], b.Target[i], want, target)
				}
			}
		}
	})
}

// The target is V-trace's v_s = V(s) + sum over t of gamma^(t-s) (c_s ... c_{t-1}) rho_t
// delta_t with c = lambda rho, and the advantage r + gamma v' - V(s) where v' is the next
// state's: with lambda < 1 it is mixed with V(s') as the trace is.
func TestReturnsAreVTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rollout(t, false)
		gamma, lambda := rapid.Float64Range(0, 1).Draw(t, "gamma"), rapid.Float64Range(0, 1).Draw(t, "lambda")
		if err := b.Returns(gamma, lambda); err != nil {
			t.Fatal(err)
		}
		target := func(s, row int) float64 {
			i := b.Index(s, row)
			v, weight := float64(b.Value[i]), 1.0
			for l, on := s, true; on; l++ {
				var d float64
				d, on = delta(b, l, row, gamma)
				rho := float64(b.Rho[b.Index(l, row)])
				v += weight * rho * d
				weight *= gamma * lambda * rho
			}
			return v
		}
		for row := range b.Rows {
			for s := range b.Steps {
				i := b.Index(s, row)
				if !b.Valid[i] {
					continue
				}
				advantage, on := delta(b, s, row, gamma)
				if on {
					advantage += gamma * lambda * (target(s+1, row) - float64(b.Value[i+b.Rows]))
				}
				if want := target(s, row); !near(float64(b.Target[i]), want, 1e-4) || !near(float64(b.Advantage[i]), advantage, 1e-4) {
					t.Fatalf("step %d, row %d: advantage %v, target %v, want %v and %v", s, row, b.Advantage[i], b.Target[i], advantage, want)
				}
			}
		}
	})
}

// One state, two actions: the student's gives 0, the teacher's 1, and each drives half of
// the steps. The value learnt from the targets must be what the student alone is worth.
func TestTeacherDoesNotMoveTheValue(t *testing.T) {
	const gamma, lambda, mix = 0.9, 0.95, 0.5
	// learn follows the targets from start; each step gives reward 1 or 0 with rho.
	learn := func(t *testing.T, start float64, draw func(*rand.Rand) (reward, rho float32)) float64 {
		t.Helper()
		b := newBuffer(t, 24, 64)
		rng := rand.New(rand.NewPCG(1, 2))
		v, tail, count := start, 0.0, 0
		for iteration := range 1500 {
			for i := range b.Reward {
				b.Reward[i], b.Rho[i] = draw(rng)
				b.Value[i] = float32(v)
			}
			for row := range b.LastValue {
				b.LastValue[row] = float32(v)
			}
			if err := b.Returns(gamma, lambda); err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i, target := range b.Target {
				sum += float64(target) - float64(b.Value[i])
			}
			v += 0.2 * sum / float64(len(b.Target))
			if iteration >= 1000 {
				tail += v
				count++
			}
		}
		return tail / float64(count)
	}
	teacher := func(rho float32) func(*rand.Rand) (float32, float32) {
		return func(rng *rand.Rand) (float32, float32) {
			if rng.Float64() < mix {
				return 1, rho
			}
			return 0, 1
		}
	}
	for _, c := range []struct {
		name        string
		start, want float64
		draw        func(*rand.Rand) (reward, rho float32)
	}{
		{"a deterministic teacher, from above", 7, 0, teacher(0)},
		{"a deterministic teacher, from below", -7, 0, teacher(0)},
		{"without rho it is the mixture's 0.5/(1-gamma)", 0, 5, teacher(1)},
		// Student (3/4, 1/4), teacher (1/4, 3/4): the steps weigh 0.5 (3/4 + 1/4) and
		// 0.5 (1/4 + 1/4), so the fixed point is that of 1/3, between the student's 1/4
		// and the mixture's 1/2, as the package comment says.
		{"a stochastic teacher's density leaves V-trace's bias", 0, 10. / 3, func(rng *rand.Rand) (float32, float32) {
			one := 0.25
			if rng.Float64() < mix {
				if rng.Float64() < 0.75 {
					return 1, 0.25 / 0.75
				}
				return 0, 1
			}
			if rng.Float64() < one {
				return 1, 1
			}
			return 0, 1
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tolerance := 0.05
			if c.want == 0 {
				tolerance = 1e-5
			}
			if got := learn(t, c.start, c.draw); !near(got, c.want, tolerance) {
				t.Errorf("value %v, want %v", got, c.want)
			}
		})
	}
}

func TestReturnsRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	ok := func(*Buffer) {}
	for _, c := range []struct {
		name          string
		gamma, lambda float64
		spoil         func(*Buffer)
		want          string // "" accepted
		nonFinite     bool
	}{
		{"gamma above 1", 1.01, 0.5, ok, "gamma is 1.01, want 0..1", false},
		{"gamma below 0", -0.1, 0.5, ok, "gamma is -0.1", false},
		{"gamma NaN", math.NaN(), 0.5, ok, "gamma is NaN", false},
		{"lambda above 1", 0.5, 2, ok, "lambda is 2, want 0..1", false},
		{"lambda below 0", 0.5, -1, ok, "lambda is -1", false},
		{"lambda NaN", 0.5, math.NaN(), ok, "lambda is NaN", false},
		{"both at their ends", 1, 0, ok, "", false},
		{"rho above 1", 0.5, 0.5, func(b *Buffer) { b.Rho[3] = 1.5 }, "step 1, row 1: rho is 1.5, want 0..1", false},
		{"rho below 0", 0.5, 0.5, func(b *Buffer) { b.Rho[0] = -0.5 }, "step 0, row 0: rho is -0.5", false},
		{"rho NaN", 0.5, 0.5, func(b *Buffer) { b.Rho[4] = nan }, "step 2, row 0: rho is NaN", false},
		{"reward NaN", 0.5, 0.5, func(b *Buffer) { b.Reward[2] = nan }, "step 1, row 0: advantage NaN and target NaN of reward NaN", true},
		{"reward infinite", 0.5, 0.5, func(b *Buffer) { b.Reward[5] = inf }, "step 2, row 1", true},
		{"reward infinite in a teacher's step", 0.5, 0.5, func(b *Buffer) { b.Reward[5], b.Rho[5] = inf, 0 }, "step 2, row 1", true},
		{"a spike is a number", 0.5, 0.5, func(b *Buffer) { b.Reward[5] = -1e6 }, "", false},
		{"a sum that float32 does not hold", 0.5, 0.5, func(b *Buffer) { b.Reward[5], b.Value[5] = 3e38, -3e38 }, "step 2, row 1: advantage +Inf", true},
		{"a target that float32 does not hold", 0.5, 0.5, func(b *Buffer) { b.Reward[5], b.Value[5], b.LastValue[1] = 3e38, 2e38, 3e38 }, "step 2, row 1: advantage 2.5e+38 and target +Inf", true},
		{"value NaN", 0.5, 0.5, func(b *Buffer) { b.Value[1] = nan }, "step 0, row 1", true},
		{"value of the next step NaN", 0.5, 0.5, func(b *Buffer) { b.Valid[3], b.Value[3] = false, nan }, "step 0, row 1: advantage NaN and target NaN of reward 0, value 0, next value NaN", true},
		{"last value NaN", 0.5, 0.5, func(b *Buffer) { b.LastValue[1] = nan }, "step 2, row 1", true},
		{"last value NaN after a fall", 0.5, 0.5, func(b *Buffer) { b.LastValue[1], b.Terminated[5] = nan, true }, "", false},
		{"final value NaN of a time-out", 0.5, 0.5, func(b *Buffer) { b.FinalValue[2], b.TimedOut[2] = nan, true }, "step 1, row 0", true},
		{"final value NaN of a fall", 0.5, 0.5, func(b *Buffer) { b.FinalValue[2], b.Terminated[2] = nan, true }, "", false},
		{"final value NaN where nothing ended", 0.5, 0.5, func(b *Buffer) { b.FinalValue[2] = nan }, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuffer(t, 3, 2)
			c.spoil(b)
			err := b.Returns(c.gamma, c.lambda)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q in it", err, c.want)
			case errors.Is(err, ErrNonFinite) != c.nonFinite:
				t.Errorf("error %v: non-finite %v, want %v", err, !c.nonFinite, c.nonFinite)
			}
		})
	}
}

func TestNormalise(t *testing.T) {
	const student, teacher, bad = 0, 1, 2
	half := float32(math.Sqrt(0.5))
	for _, c := range []struct {
		name      string
		advantage []float32
		who       []int
		want      []float32
		mean, std float64
		count     int
	}{
		{"two of the student's", []float32{1, 3}, []int{student, student}, []float32{-half, half}, 2, math.Sqrt2, 2},
		{"teacher and bad steps are left out and become 0", []float32{100, 1, -50, 3}, []int{teacher, student, bad, student}, []float32{0, -half, 0, half}, 2, math.Sqrt2, 2},
		{"all equal", []float32{5, 5, 5}, []int{student, student, student}, []float32{0, 0, 0}, 5, 0, 3},
		{"one", []float32{7, 9}, []int{student, teacher}, []float32{0, 0}, 7, 0, 1},
		{"none", []float32{7, 9}, []int{bad, teacher}, []float32{0, 0}, 0, 0, 0},
		{"three", []float32{-1, 0, 4}, []int{student, student, student}, []float32{-0.755929, -0.377964, 1.133893}, 1, math.Sqrt(7), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuffer(t, len(c.who), 1)
			for i, who := range c.who {
				b.Advantage[i], b.Teacher[i], b.Valid[i] = c.advantage[i], who == teacher, who != bad
			}
			mean, std, count := b.Normalise()
			if !near(mean, c.mean, 1e-12) || !near(std, c.std, 1e-12) || count != c.count {
				t.Errorf("mean %v, std %v, count %d; want %v, %v, %d", mean, std, count, c.mean, c.std, c.count)
			}
			for i, want := range c.want {
				if !near(float64(b.Advantage[i]), float64(want), 1e-6) {
					t.Errorf("advantages %v, want %v", b.Advantage, c.want)
					break
				}
			}
		})
	}
}

func BenchmarkReturns(b *testing.B) {
	x := newBuffer(b, 24, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if err := x.Returns(0.98, 0.95); err != nil {
			b.Fatal(err)
		}
		x.Normalise()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(24*4096), "ns/transition")
}
