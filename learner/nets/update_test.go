//go:build torch

package nets

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// ppo is a loss with all but distillation.
func ppo() *Loss { return &Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003, MaxGradNorm: 1} }

// train takes minibatches of size samples of b in order.
func train(t testing.TB, n *Nets, b *Batch, l *Loss, size, minibatches int) {
	t.Helper()
	part := *b
	for k := range minibatches {
		from := k * size % (len(b.Index) - size + 1)
		part.Index = b.Index[from : from+size]
		if b.Mirror != nil {
			part.Mirror = b.Mirror[from : from+size]
		}
		if _, err := n.Minibatch(&part, l); err != nil {
			t.Fatal(err)
		}
	}
}

// What has been executed is scored again by another path: 256 rows at a time
// in the rollout, chunks of drawn samples in the update.
func TestRatioOfTheRolloutsPolicyIsOne(t *testing.T) {
	for name, config := range map[string]Config{"small": smallNets(), "recipe": recipeNets(), "peer": peerNets(), "history": historyNets()} {
		t.Run(name, func(t *testing.T) {
			config.Normaliser, config.InitStd = true, 0.1
			n := newNets(t, config)
			seen := randomBatch(t, n, 1000, 4)
			if err := n.UpdateNormaliser(seen.PolicyObs, seen.CriticObs); err != nil {
				t.Fatal(err)
			}
			// Some training, so that the means differ from 0.
			train(t, n, randomBatch(t, n, 2048, 5), &Loss{Clip: 0.2, ValueWeight: 1}, 1024, 20)
			const samples = 6144
			b := randomBatch(t, n, samples, 6)
			for from := 0; from < samples; from += 256 {
				obs, mean := b.PolicyObs[from*config.Policy:(from+256)*config.Policy], b.Mean[from*config.Act:(from+256)*config.Act]
				if err := n.Forward(obs, 256, mean); err != nil {
					t.Fatal(err)
				}
			}
			n.Std(b.OldStd)
			action := make([]float32, samples*config.Act)
			random := rand.New(rand.NewPCG(1, 1))
			for i := range action {
				action[i] = b.Mean[i] + b.OldStd[i%config.Act]*float32(random.NormFloat64())
			}
			b.Action = encoded(action)
			for i := range samples {
				row := i * config.Act
				b.OldLogProb[i] = LogProb(action[row:row+config.Act], b.Mean[row:row+config.Act], b.OldStd)
			}
			b.Index = b.Index[:samples/4]
			stats, err := n.Gradient(b, ppo())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("largest |ratio - 1| %.2g, KL %.2g", stats.MaxRatioError, stats.KL)
			if stats.MaxRatioError >= 1e-4 || stats.ClipFraction != 0 || math.Abs(stats.KL) > 1e-6 {
				t.Errorf("largest |ratio - 1| %g, clip fraction %g, KL %g", stats.MaxRatioError, stats.ClipFraction, stats.KL)
			}
		})
	}
}

func TestTrainingRepeatsBitForBit(t *testing.T) {
	for name, config := range map[string]Config{"small": smallNets(), "history": historyNets()} {
		t.Run(name, func(t *testing.T) { repeats(t, config) })
	}
}

func repeats(t *testing.T, config Config) {
	var parameters [][]float32
	for _, workers := range []int{1, 2, 3} {
		config.Workers = workers
		var hashes [2]string
		for run := range hashes {
			n := newNets(t, config)
			b := mixedBatch(t, n, 2000)
			train(t, n, b, &Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003, DistillWeight: 0.1, VelocityWeight: 1, MaxGradNorm: 1}, 500, 40)
			if hashes[run] = n.Hash(); run == 0 {
				parameters = append(parameters, append([]float32(nil), n.params[0].value...))
			}
		}
		if hashes[0] != hashes[1] {
			t.Errorf("%d workers: the second run ended in other parameters", workers)
		}
	}
	for w, p := range parameters {
		for i := range p {
			if off := math.Abs(float64(p[i] - parameters[0][i])); off > 1e-3 {
				t.Fatalf("%d workers: weight %d differs by %g from one worker's", w+1, i, off)
			}
		}
	}
}

func TestNotFiniteChangesNothing(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, harm := range map[string]func(*Batch){
		"advantage NaN":       func(b *Batch) { b.Advantage[17] = nan },
		"advantage infinite":  func(b *Batch) { b.Advantage[17] = inf },
		"target infinite":     func(b *Batch) { b.Target[3] = -inf },
		"target beyond float": func(b *Batch) { b.Target[3] = 3e38 },
		"observation NaN":     func(b *Batch) { b.PolicyObs[5] = 0x7e00 },
		"observation inf":     func(b *Batch) { b.CriticObs[5] = 0x7c00 },
		"action NaN":          func(b *Batch) { b.Action[9] = 0x7e00 },
		"log-probability":     func(b *Batch) { b.OldLogProb[8] = -inf },
	} {
		t.Run(name, func(t *testing.T) {
			n, twin := newNets(t, smallNets()), newNets(t, smallNets())
			good := randomBatch(t, n, 300, 1)
			train(t, n, good, ppo(), 300, 3)
			train(t, twin, good, ppo(), 300, 3)
			bad := randomBatch(t, twin, 300, 2)
			harm(bad)
			_, err := n.Minibatch(bad, ppo())
			if !errors.Is(err, ErrNonFinite) {
				t.Fatalf("error %v, want one that wraps ErrNonFinite", err)
			}
			if err := n.Apply(ppo()); err == nil {
				t.Error("its gradient can be applied")
			}
			train(t, n, good, ppo(), 300, 3)
			train(t, twin, good, ppo(), 300, 3)
			if n.Hash() != twin.Hash() {
				t.Error("training went on otherwise than without the bad minibatch")
			}
		})
	}
}

func TestTeachersStepsMoveTheCriticOnly(t *testing.T) {
	n := newNets(t, smallNets())
	b := randomBatch(t, n, 200, 1)
	b.Teacher = make([]bool, 200)
	for i := range b.Teacher {
		b.Teacher[i] = true
	}
	actorBefore, criticBefore := n.Layers()
	std := n.LogStd()
	train(t, n, b, ppo(), 200, 5)
	actorAfter, criticAfter := n.Layers()
	for i := range actorBefore {
		if !equal(actorBefore[i].Weight, actorAfter[i].Weight) || !equal(actorBefore[i].Bias, actorAfter[i].Bias) {
			t.Errorf("actor's layer %d moved", i)
		}
		if equal(criticBefore[i].Weight, criticAfter[i].Weight) {
			t.Errorf("critic's layer %d did not move", i)
		}
	}
	if !equal(std, n.LogStd()) {
		t.Error("the spread moved")
	}
}

// An estimate of the velocity and standing still are learnt from the teacher's steps too, and move no spread.
func TestTeachersStepsTeachBesides(t *testing.T) {
	for name, c := range map[string]struct {
		nets Config
		loss Loss
	}{
		"velocity": {historyNets(), Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.01, VelocityWeight: 1}},
		"calm":     {smallNets(), Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.01, CalmWeight: 1}},
	} {
		n := newNets(t, c.nets)
		b := randomBatch(t, n, 200, 1)
		b.Teacher, b.Near = make([]bool, 200), make([]int32, 200)
		for i := range b.Teacher {
			b.Teacher[i], b.Near[i] = true, int32(199-i)
		}
		std, loss := n.LogStd(), make([]float64, 2)
		for i := range loss {
			s, err := n.Minibatch(b, &c.loss)
			if err != nil {
				t.Fatal(err)
			}
			if loss[i] = s.Velocity; name == "calm" {
				loss[i] = s.Calm
			}
		}
		if !(loss[1] < loss[0]) || !equal(std, n.LogStd()) {
			t.Errorf("%s: its loss went from %v to %v; the spread moved: %v", name, loss[0], loss[1], !equal(std, n.LogStd()))
		}
	}
}

func equal(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// mix = 0 and w = 0: labels that weigh nothing and a teacher who never acts
// leave plain PPO.
func TestNoWeightIsPlainPPO(t *testing.T) {
	plain, opd := newNets(t, smallNets()), newNets(t, smallNets())
	b := randomBatch(t, plain, 600, 1)
	train(t, plain, b, ppo(), 200, 12)
	with := *b
	with.Label, with.Labelled, with.Teacher = b.Action, make([]bool, 600), make([]bool, 600)
	for i := range with.Labelled {
		with.Labelled[i] = i%2 == 0
	}
	train(t, opd, &with, ppo(), 200, 12)
	if plain.Hash() != opd.Hash() {
		t.Error("parameters differ")
	}
}

func TestStdStaysInItsRange(t *testing.T) {
	for weight, want := range map[float32]float64{100: 1.65, -100: 0.1} {
		n := newNets(t, smallNets())
		n.SetLearningRate(0.05)
		b := randomBatch(t, n, 200, 1)
		train(t, n, b, &Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: weight}, 200, 100)
		for i, l := range n.LogStd() {
			if math.Abs(math.Exp(float64(l))-want) > 1e-6 {
				t.Errorf("entropy weight %g: std %d is %g, want %g", weight, i, math.Exp(float64(l)), want)
			}
		}
	}
}

func TestRegressIsAutogradsAndLearns(t *testing.T) {
	for name, config := range map[string]Config{"small": smallNets(), "history": historyNets()} {
		t.Run(name, func(t *testing.T) { regresses(t, config) })
	}
}

func regresses(t *testing.T, config Config) {
	a := newTape(t)
	n := newNets(t, config)
	c, b := &n.config, mixedBatch(t, n, 2500)
	_, criticBefore := n.Layers()
	count := int64(len(b.Index))
	mu, velocity := a.actor(n, gather(b, b.PolicyObs, c.Policy, c.MirrorPolicy), count)
	off := a.square(a.sub(mu, a.of(gather(b, b.Label, c.Act, c.MirrorAction), count, int64(c.Act))))
	loss := a.times(a.sum(off), 1/float64(len(b.Index)*c.Act))
	const weight = 0.6
	if velocity != nil {
		loss = a.add(loss, a.times(a.velocityError(b, c, velocity), weight))
	}
	loss.MustBackward()
	stats, err := n.Regress(b, weight)
	if err != nil {
		t.Fatal(err)
	}
	first := stats.Distill
	if want := loss.Float64Values()[0]; math.Abs(stats.Loss-want) > 1e-5 {
		t.Errorf("error %g, libtorch's %g", stats.Loss, want)
	}
	got := n.flatGradient()
	for _, p := range n.params[:c.Encoder.parameters()+2*len(c.ActorHidden)+2] {
		for i, want := range a.gradientOf(p) {
			if math.Abs(float64(got[p.offset+i]-want)) > 1e-5 {
				t.Fatalf("gradient of %s, number %d: %g, autograd's %g", p.name, i, got[p.offset+i], want)
			}
		}
	}
	n.SetLearningRate(0.01)
	b.Index, b.Mirror = b.Index[:256], nil
	for range 300 {
		if stats, err = n.Regress(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	if stats.Distill > first/2 {
		t.Errorf("error %g after 300 steps on 256 samples, %g at first", stats.Distill, first)
	}
	if _, criticAfter := n.Layers(); !equal(criticBefore[0].Weight, criticAfter[0].Weight) || n.steps[2] != 0 {
		t.Error("the critic moved")
	}
	b.Label[0], b.Index = 0x7e00, []int32{0, 1}
	before := n.Hash()
	if _, err := n.Regress(b, 0); !errors.Is(err, ErrNonFinite) || n.Hash() != before {
		t.Errorf("a target that is not a number: error %v", err)
	}
}

// residentBytes is this process's memory.
func residentBytes(t *testing.T) int {
	runtime.GC()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func TestMemoryStaysFlat(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n := newNets(t, smallNets())
	b := mixedBatch(t, n, 512)
	l := &Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.1, MaxGradNorm: 1}
	var checkpoint bytes.Buffer
	iteration := func(minibatches int) {
		train(t, n, b, l, 128, minibatches)
		if err := errors.Join(n.Forward(b.PolicyObs, 512, b.Mean), n.Values(b.CriticObs, 512, b.OldValue)); err != nil {
			t.Fatal(err)
		}
		checkpoint.Reset()
		if err := n.Save(&checkpoint); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		iteration(4)
	}
	before := residentBytes(t)
	for range 2000 {
		iteration(4)
	}
	if grown := residentBytes(t) - before; grown > before/50 {
		t.Errorf("2000 iterations added %d kB to %d kB", grown>>10, before>>10)
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	n := newNets(t, smallNets())
	b, l := randomBatch(t, n, 512, 1), ppo()
	for name, f := range map[string]func(){
		"Forward":   func() { _ = n.Forward(b.PolicyObs, 512, b.Mean) },
		"Values":    func() { _ = n.Values(b.CriticObs, 512, b.OldValue) },
		"Minibatch": func() { _, _ = n.Minibatch(b, l) },
		"Std":       func() { n.Std(b.OldStd) },
	} {
		if count := testing.AllocsPerRun(50, f); count != 0 {
			t.Errorf("%s: %g allocations", name, count)
		}
	}
}

func TestBadBatchesAreNamed(t *testing.T) {
	n := newNets(t, smallNets())
	for want, harm := range map[string]func(*Batch, *Loss){
		"Index is empty":                      func(b *Batch, _ *Loss) { b.Index = nil },
		"index 3 is 100, want 0..99":          func(b *Batch, _ *Loss) { b.Index[3] = 100 },
		"index 0 is -1":                       func(b *Batch, _ *Loss) { b.Index[0] = -1 },
		"PolicyObs has 899 numbers, want 900": func(b *Batch, _ *Loss) { b.PolicyObs = b.PolicyObs[1:] },
		"CriticObs has 1299":                  func(b *Batch, _ *Loss) { b.CriticObs = b.CriticObs[1:] },
		"Action has 0 numbers":                func(b *Batch, _ *Loss) { b.Action = nil },
		"Mean has 0 numbers":                  func(b *Batch, _ *Loss) { b.Mean = nil },
		"OldStd has 3 numbers, want 4":        func(b *Batch, _ *Loss) { b.OldStd = b.OldStd[1:] },
		"OldLogProb has 99":                   func(b *Batch, _ *Loss) { b.OldLogProb = b.OldLogProb[1:] },
		"Target has 99":                       func(b *Batch, _ *Loss) { b.Target = b.Target[1:] },
		"OldValue has 0 numbers, want 100":    func(b *Batch, l *Loss) { b.OldValue, l.ValueClip = nil, 0.2 },
		"Label has 0 numbers, want 400":       func(b *Batch, _ *Loss) { b.Labelled = make([]bool, 100) },
		"Labelled has 0 numbers, want 100":    func(b *Batch, _ *Loss) { b.Label = b.Action },
		"Teacher has 1 numbers, want 100":     func(b *Batch, _ *Loss) { b.Teacher = make([]bool, 1) },
		"Mirror has 5 numbers, want 100":      func(b *Batch, _ *Loss) { b.Mirror = make([]bool, 5) },
		"Near has 1 numbers, want 100":        func(b *Batch, _ *Loss) { b.Near = make([]int32, 1) },
		"Near of sample 7 is 100":             func(b *Batch, _ *Loss) { b.Near = make([]int32, 100); b.Near[7] = 100 },
		"Near of sample 0 is -2":              func(b *Batch, _ *Loss) { b.Near = make([]int32, 100); b.Near[0] = -2 },
		"LabelStd has 1 numbers, want 4":      func(b *Batch, _ *Loss) { b.LabelStd = make([]float32, 1) },
		"Distill is 7, want NLL, MSE or KL":   func(_ *Batch, l *Loss) { l.Distill = 7 },
	} {
		b, l := randomBatch(t, n, 100, 1), ppo()
		harm(b, l)
		if _, err := n.Minibatch(b, l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	plain := smallNets()
	plain.MirrorPolicy, plain.MirrorCritic, plain.MirrorAction = Mirror{}, Mirror{}, Mirror{}
	without := newNets(t, plain)
	b := randomBatch(t, without, 100, 1)
	b.Mirror = make([]bool, 100)
	_, err := without.Minibatch(b, ppo())
	regress := func(harm func(*Batch)) error {
		c := Batch{PolicyObs: b.PolicyObs, Label: b.Action, Index: b.Index}
		harm(&c)
		_, err := n.Regress(&c, 0)
		return err
	}
	for what, err := range map[string]error{
		"without mirror maps":     err,
		"want 9 and 4":            n.Forward(b.PolicyObs[:8], 1, b.Mean),
		"want 13 and 1":           n.Values(b.CriticObs, 1, nil),
		"Regress: Index is empty": regress(func(c *Batch) { c.Index = nil }),
		"equally many":            regress(func(c *Batch) { c.Label = b.Action[1:] }),
		"2 mirrors for 100":       regress(func(c *Batch) { c.Mirror = make([]bool, 2) }),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want one with %q", err, what)
		}
	}
}
