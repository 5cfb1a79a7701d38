//go:build torch

package nets

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	gpu = Available(CUDA) // before libtorch looks for its CUDA half
	os.Exit(m.Run())
}

var gpu error // why there is none; nil: there is one

// onDevices runs test on each device that libtorch's operations run on here.
func onDevices(t *testing.T, test func(t *testing.T, device string)) {
	for _, device := range []string{CPUATen, CUDA} {
		t.Run(device, func(t *testing.T) {
			if device == CUDA && gpu != nil {
				t.Skip(gpu)
			}
			test(t, device)
		})
	}
}

// pair are equal networks that learn by core.cpp and on a device.
func pair(t *testing.T, config Config, device string) (core, there *Nets) {
	t.Helper()
	core = newNets(t, config)
	config.Device = device
	return core, newNets(t, config)
}

// copyOf gives n all that other is.
func (n *Nets) copyOf(t *testing.T, other *Nets) {
	t.Helper()
	var state bytes.Buffer
	if err := errors.Join(other.Save(&state), n.Load(&state)); err != nil {
		t.Fatal(err)
	}
}

// off is how far b is from a, over the size of a.
func off(a, b []float32) float64 {
	squares, distance := 0.0, 0.0
	for i, x := range a {
		squares += float64(x) * float64(x)
		distance += float64(x-b[i]) * float64(x-b[i])
	}
	if distance == 0 {
		return 0
	}
	return math.Sqrt(distance / squares)
}

// sameStats checks that two backends say the same of a minibatch.
func sameStats(t *testing.T, want, got Stats) {
	t.Helper()
	if want.Samples != got.Samples || want.Students != got.Students || want.Labelled != got.Labelled {
		t.Errorf("counts: %+v, core's %+v", got, want)
	}
	for _, x := range []struct {
		name      string
		want, got float64
	}{
		{"Loss", want.Loss, got.Loss}, {"Surrogate", want.Surrogate, got.Surrogate}, {"Value", want.Value, got.Value},
		{"Entropy", want.Entropy, got.Entropy}, {"Distill", want.Distill, got.Distill}, {"KL", want.KL, got.KL},
		{"ClipFraction", want.ClipFraction, got.ClipFraction}, {"MaxRatioError", want.MaxRatioError, got.MaxRatioError},
		{"LabelRMSE", want.LabelRMSE, got.LabelRMSE}, {"Velocity", want.Velocity, got.Velocity}, {"Calm", want.Calm, got.Calm},
		{"ActorNorm", want.ActorNorm, got.ActorNorm}, {"CriticNorm", want.CriticNorm, got.CriticNorm}, {"GradNorm", want.GradNorm, got.GradNorm},
	} {
		if !(math.Abs(x.got-x.want) <= 1e-5*math.Max(0.1, math.Abs(x.want))) {
			t.Errorf("%s is %.9g, core's %.9g", x.name, x.got, x.want)
		}
	}
}

// deviceCases are all that a minibatch can be told.
var deviceCases = []struct {
	name  string
	nets  func() Config
	loss  Loss
	strip func(*Batch) // what the samples lack
}{
	{"all", smallNets, Loss{Clip: 0.2, ValueClip: 0.05, ValueWeight: 0.5, EntropyWeight: 0.01, DistillWeight: 0.1, CalmWeight: 2}, nil},
	{"ppo alone", smallNets, Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003},
		func(b *Batch) {
			b.Label, b.Labelled, b.Teacher, b.Mirror, b.Near, b.OldValue = nil, nil, nil, nil, nil, nil
		}},
	{"nll, std detached", smallNets, Loss{Clip: 0.1, ValueWeight: 1, DistillWeight: 0.5, StdDetached: true}, nil},
	{"mse", smallNets, Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 1, Distill: MSE}, nil},
	{"kl", smallNets, Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.3, Distill: KL}, nil},
	{"kl, std detached", smallNets, Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.3, Distill: KL, StdDetached: true}, nil},
	{"kl, the student's own std", smallNets, Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.3, Distill: KL}, func(b *Batch) { b.LabelStd = nil }},
	{"teacher alone", smallNets, Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.01, DistillWeight: 0.3}, func(b *Batch) {
		for i := range b.Teacher {
			b.Teacher[i] = true
		}
	}},
	{"history", historyNets, Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003, VelocityWeight: 0.7, CalmWeight: 3}, nil},
	{"history, no velocity", historyNets, Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.1}, nil},
	{"std at its bound", narrowNets, Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 1}, nil},
	{"wide", recipeNets, Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003}, func(b *Batch) { b.Mirror = nil }},
}

// narrowNets are smallNets whose spread soon comes to its bound.
func narrowNets() Config {
	c := smallNets()
	c.MaxStd = 1.01 * c.InitStd
	return c
}

// deviceBatch are samples for both of a pair, whose networks have moved since and whose normaliser has seen others.
func deviceBatch(t *testing.T, core, there *Nets, samples int) *Batch {
	t.Helper()
	seen := randomBatch(t, core, 500, 2)
	if err := core.UpdateNormaliser(seen.PolicyObs, seen.CriticObs); err != nil {
		t.Fatal(err)
	}
	b := mixedBatch(t, core, samples)
	for range core.config.Act {
		b.LabelStd = append(b.LabelStd, 0.3+0.3*float32(len(b.LabelStd)%4))
	}
	there.copyOf(t, core)
	return b
}

// The loss, its gradient and what Stats tell are core.cpp's.
func TestDeviceGradientIsCores(t *testing.T) {
	onDevices(t, func(t *testing.T, device string) {
		for _, test := range deviceCases {
			t.Run(test.name, func(t *testing.T) {
				core, there := pair(t, test.nets(), device)
				b := deviceBatch(t, core, there, 3000)
				if test.strip != nil {
					test.strip(b)
				}
				want, err := core.Gradient(b, &test.loss)
				if err != nil {
					t.Fatal(err)
				}
				if err := there.Update(b, func() error {
					got, err := there.Gradient(b, &test.loss)
					sameStats(t, want, got)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				worst, a, d := 0.0, core.flatGradient(), there.flatGradient()
				for _, p := range core.params {
					off := off(a[p.offset:][:len(p.value)], d[p.offset:][:len(p.value)])
					if worst = max(worst, off); !(off <= 1e-5) {
						t.Errorf("gradient of %s is off by %.2g of its norm", p.name, off)
					}
				}
				t.Logf("a parameter's gradient is off by %.2g of its norm at most", worst)
			})
		}
	})
}

// Whole updates, one after the other, end in core.cpp's parameters and moments. Between two of them the normaliser moves, before the last
// one Adam forgets.
func TestDeviceUpdateIsCores(t *testing.T) {
	onDevices(t, func(t *testing.T, device string) {
		for _, test := range deviceCases {
			t.Run(test.name, func(t *testing.T) {
				core, there := pair(t, test.nets(), device)
				const samples, epochs, minibatches = 2000, 4, 4
				b := deviceBatch(t, core, there, samples)
				if test.strip != nil {
					test.strip(b)
				}
				test.loss.MaxGradNorm = 1
				for update := range 3 {
					for _, n := range []*Nets{core, there} {
						if update == 2 {
							n.ResetAdam()
						}
						if err := n.UpdateNormaliser(b.PolicyObs, b.CriticObs); err != nil {
							t.Fatal(err)
						}
					}
					before := core.Parameters()
					for name, p := range before {
						before[name] = append([]float32(nil), p...)
					}
					for _, n := range []*Nets{core, there} {
						if err := n.Update(b, func() error {
							train(t, n, b, &test.loss, samples/minibatches, epochs*minibatches)
							return nil
						}); err != nil {
							t.Fatal(err)
						}
					}
					worst, share := 0.0, 0.0
					for i, p := range core.params {
						off := off(p.value, there.params[i].value)
						worst = max(worst, off)
						moved, now := 0.0, 0.0
						for k, x := range p.value {
							moved += math.Pow(float64(x-before[p.name][k]), 2)
							now += math.Pow(float64(x-there.params[i].value[k]), 2)
						}
						if now > 0 {
							share = max(share, math.Sqrt(now/moved))
						}
						if !(off <= 1e-5) {
							t.Errorf("update %d: %s is off by %.2g", update, p.name, off)
						}
					}
					first, second := off(core.first, there.first), off(core.second, there.second)
					t.Logf("update %d: a parameter is off by %.2g at most, %.2g of how far it moved; moments by %.2g and %.2g", update, worst, share, first, second)
					if !(first <= 1e-4 && second <= 1e-4) {
						t.Errorf("update %d: moments are off by %.2g and %.2g", update, first, second)
					}
					if core.steps != there.steps {
						t.Errorf("steps %v, core's %v", there.steps, core.steps)
					}
				}
			})
		}
	})
}

func TestDeviceRegressIsCores(t *testing.T) {
	onDevices(t, func(t *testing.T, device string) {
		for name, config := range map[string]Config{"small": smallNets(), "history": historyNets()} {
			t.Run(name, func(t *testing.T) {
				core, there := pair(t, config, device)
				b := deviceBatch(t, core, there, 2000)
				clone := Batch{PolicyObs: b.PolicyObs, CriticObs: b.CriticObs, Label: b.Label}
				for _, n := range []*Nets{core, there} {
					n.SetLearningRate(1e-3)
				}
				if err := there.Update(&clone, func() error {
					for k := range 12 {
						clone.Index, clone.Mirror = b.Index[k%4*500:][:500], b.Mirror[k%4*500:][:500]
						want, err := core.Regress(&clone, 0.6)
						if err != nil {
							return err
						}
						got, err := there.Regress(&clone, 0.6)
						if err != nil {
							return err
						}
						sameStats(t, want, got)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				for i, p := range core.params {
					if off := off(p.value, there.params[i].value); !(off <= 1e-5) {
						t.Errorf("%s is off by %.2g", p.name, off)
					}
				}
				if core.steps != there.steps {
					t.Errorf("steps %v, core's %v", there.steps, core.steps)
				}
			})
		}
	})
}

// The first ratios of what core.cpp's forward pass collected are 1 on a device too.
func TestDeviceRatioIsOne(t *testing.T) {
	onDevices(t, func(t *testing.T, device string) {
		for name, config := range map[string]Config{"recipe": recipeNets(), "history": historyNets()} {
			config.Device = device
			n := newNets(t, config)
			b := randomBatch(t, n, 2000, 6)
			if err := n.Update(b, func() error {
				stats, err := n.Gradient(b, ppo())
				if stats.MaxRatioError >= 1e-4 || stats.ClipFraction != 0 || math.Abs(stats.KL) > 1e-6 {
					t.Errorf("%s: largest |ratio - 1| %g, clip fraction %g, KL %g", name, stats.MaxRatioError, stats.ClipFraction, stats.KL)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		}
	})
}

// What is not to be looked at may be anything: a teacher's step that the student would hardly have taken, a label that is none.
func TestDeviceLooksAtNothingElse(t *testing.T) {
	onDevices(t, func(t *testing.T, device string) {
		config := smallNets()
		config.Device = device
		nan := float32(math.NaN())
		l := &Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.01, DistillWeight: 0.1, CalmWeight: 1}
		var hashes [2]string
		for k, harm := range []bool{false, true} {
			n := newNets(t, config)
			b := mixedBatch(t, n, 600)
			for i := range b.Teacher {
				if b.Teacher[i] && harm {
					b.Action[i*config.Act], b.OldLogProb[i], b.Advantage[i] = 0x7e00, -1e6, nan
				}
				if !b.Labelled[i] && harm {
					b.Label[i*config.Act] = 0x7e00
				}
			}
			if err := n.Update(b, func() error {
				train(t, n, b, l, 200, 6)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			hashes[k] = n.Hash()
		}
		if hashes[0] != hashes[1] {
			t.Error("what was not to be looked at changed the parameters")
		}
	})
}

func TestDeviceNotFiniteChangesNothing(t *testing.T) {
	onDevices(t, func(t *testing.T, device string) {
		for name, harm := range map[string]func(*Batch){
			"advantage NaN":       func(b *Batch) { b.Advantage[17] = float32(math.NaN()) },
			"target beyond float": func(b *Batch) { b.Target[3] = 3e38 },
			"observation NaN":     func(b *Batch) { b.PolicyObs[5] = 0x7e00 },
			"observation inf":     func(b *Batch) { b.CriticObs[5] = 0x7c00 },
			"log-probability":     func(b *Batch) { b.OldLogProb[8] = float32(math.Inf(-1)) },
		} {
			config := smallNets()
			config.Device = device
			n, twin := newNets(t, config), newNets(t, config)
			good, bad := randomBatch(t, n, 300, 1), randomBatch(t, n, 300, 2)
			harm(bad)
			for _, n := range []*Nets{n, twin} {
				for _, b := range []*Batch{good, bad, good} {
					if err := n.Update(b, func() error {
						if b == good {
							train(t, n, b, ppo(), 300, 3)
							return nil
						}
						if n == twin {
							return nil
						}
						if _, err := n.Minibatch(b, ppo()); !errors.Is(err, ErrNonFinite) {
							t.Errorf("%s: error %v, want one that wraps ErrNonFinite", name, err)
						}
						if err := n.Apply(ppo()); err == nil {
							t.Errorf("%s: its gradient can be applied", name)
						}
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if n.Hash() != twin.Hash() {
				t.Errorf("%s: training went on otherwise than without the bad minibatch", name)
			}
		}
	})
}

func TestDeviceMemoryStaysFlat(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	onDevices(t, func(t *testing.T, device string) {
		config := historyNets()
		config.Device = device
		n := newNets(t, config)
		b := mixedBatch(t, n, 512)
		l := &Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.1, VelocityWeight: 1, MaxGradNorm: 1}
		updates := func(count int) {
			for range count {
				if err := n.Update(b, func() error {
					train(t, n, b, l, 128, 4)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		updates(50)
		before := residentBytes(t)
		updates(250)
		if grown := residentBytes(t) - before; grown > before/50 {
			t.Errorf("250 updates added %d kB to %d kB", grown>>10, before>>10)
		}
	})
}

// Minibatches are of the samples that the device was given.
func TestDeviceRefuses(t *testing.T) {
	config := smallNets()
	config.Device = CPUATen
	n := newNets(t, config)
	b := mixedBatch(t, n, 100)
	const want = "device cpu:aten was not given these samples"
	check := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", what, err, want)
		}
	}
	minibatch := func(b *Batch) error { _, err := n.Minibatch(b, ppo()); return err }
	regress := func(b *Batch) error { _, err := n.Regress(b, 0); return err }
	check("outside", errors.Join(minibatch(b)))
	check("outside", errors.Join(regress(b)))
	before := n.Hash()
	if err := n.Update(b, func() error {
		other := *b
		other.Advantage = append([]float32(nil), b.Advantage...)
		check("other advantages", minibatch(&other))
		other = *b
		other.Label = append([]uint16(nil), b.Label...)
		check("other labels", regress(&other))
		return nil
	}); err != nil || n.Hash() != before {
		t.Errorf("error %v; parameters moved: %v", err, n.Hash() != before)
	}
	check("afterwards", minibatch(b))
	cause := errors.New("cause")
	if err := n.Update(b, func() error { return cause }); !errors.Is(err, cause) {
		t.Errorf("error %v, want learn's", err)
	}
	b.Target = b.Target[1:]
	err := n.Update(b, func() error { t.Error("learn was called"); return nil })
	if want := "Update: Target has 99 numbers, want 100 for 100 samples"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// A GPU that is not there is refused by what is missing, and so is what names no device.
func TestDevicesThatAreNotHere(t *testing.T) {
	config := smallNets()
	for device, want := range map[string][]string{
		"cuda:127": map[bool][]string{true: {"device cuda:127: GPUs here: "}, false: {"device cuda:127: no "}}[gpu == nil],
		"gpu":      {`nets: device is "gpu", want cpu, cuda`},
	} {
		config.Device = device
		n, err := New(config)
		if err == nil {
			n.Close()
		}
		if err == nil || err.Error() != Available(device).Error() {
			t.Errorf("%s: New says %v, Available %v", device, err, Available(device))
		}
		for _, want := range want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", device, err, want)
			}
		}
	}
	if Available("") != nil || Available(CPU) != nil || Available(CPUATen) != nil {
		t.Error("the CPU is not there")
	}
	if text := Available(CUDA); text != nil {
		t.Log(text)
	}
}
