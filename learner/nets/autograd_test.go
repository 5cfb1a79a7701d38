//go:build torch

package nets

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/nn"
	"github.com/sugarme/gotch/ts"

	"github.com/openclaw-rl/openclaw/learner/buffer"
)

// rotation mirrors by swapping neighbours with alternating signs: a map that
// is its own inverse, on any number of entries.
func rotation(n int) Mirror {
	m := Mirror{}
	for i := range n {
		j, sign := i^1, float32(1-2*(i/2%2))
		if j >= n {
			j = i
		}
		m.Index, m.Sign = append(m.Index, int32(j)), append(m.Sign, sign)
	}
	return m
}

// smallNets are networks that autograd differentiates in no time, with
// everything on.
func smallNets() Config {
	return Config{Policy: 9, Critic: 13, Act: 4, ActorHidden: []int{32, 24}, CriticHidden: []int{40, 16}, InitStd: 0.7, MinStd: 0.1,
		MaxStd: 1.65, Normaliser: true, Seed: 3, Workers: 2,
		MirrorPolicy: rotation(9), MirrorCritic: rotation(13), MirrorAction: rotation(4)}
}

// mixedBatch is a randomBatch with teacher's steps, labels and mirrored
// samples, and networks that have moved since.
func mixedBatch(t testing.TB, n *Nets, samples int) *Batch {
	t.Helper()
	b := randomBatch(t, n, samples, 5)
	random := rand.New(rand.NewPCG(9, 9))
	b.Label = encoded(normals(random, samples*n.config.Act, 1))
	b.MirrorMean = make([]float32, samples*n.config.Act)
	if err := n.ForwardMirrored(b.PolicyObs, samples, b.MirrorMean); err != nil {
		t.Fatal(err)
	}
	for range samples {
		b.Teacher = append(b.Teacher, random.IntN(3) == 0)
		b.Labelled = append(b.Labelled, random.IntN(4) != 0)
	}
	for range b.Index {
		b.Mirror = append(b.Mirror, random.IntN(2) == 0)
	}
	for _, p := range n.params {
		for i, d := range normals(random, len(p.value), 0.02) {
			p.value[i] += d
		}
	}
	return b
}

// tape makes tensors and drops them all at its end, on one thread.
type tape struct {
	t   testing.TB
	all []*ts.Tensor
}

func newTape(t testing.TB) *tape {
	runtime.LockOSThread()
	a := &tape{t: t}
	t.Cleanup(func() {
		for _, x := range a.all {
			x.MustDrop()
		}
		runtime.UnlockOSThread()
	})
	return a
}

func (a *tape) keep(x *ts.Tensor) *ts.Tensor {
	a.all = append(a.all, x)
	return x
}

func (a *tape) of(data []float32, shape ...int64) *ts.Tensor {
	flat, err := ts.OfSlice(data)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.keep(a.keep(flat).MustView(shape, false))
}

func (a *tape) add(x, y *ts.Tensor) *ts.Tensor { return a.keep(x.MustAdd(y, false)) }
func (a *tape) sub(x, y *ts.Tensor) *ts.Tensor { return a.keep(x.MustSub(y, false)) }
func (a *tape) mul(x, y *ts.Tensor) *ts.Tensor { return a.keep(x.MustMul(y, false)) }
func (a *tape) div(x, y *ts.Tensor) *ts.Tensor { return a.keep(x.MustDiv(y, false)) }
func (a *tape) max(x, y *ts.Tensor) *ts.Tensor { return a.keep(x.MustMaximum(y, false)) }
func (a *tape) exp(x *ts.Tensor) *ts.Tensor    { return a.keep(x.MustExp(false)) }
func (a *tape) square(x *ts.Tensor) *ts.Tensor { return a.keep(x.MustSquare(false)) }
func (a *tape) sum(x *ts.Tensor) *ts.Tensor    { return a.keep(x.MustSum(gotch.Float, false)) }
func (a *tape) times(x *ts.Tensor, k float64) *ts.Tensor {
	s := ts.FloatScalar(k)
	defer s.MustDrop()
	return a.keep(x.MustMulScalar(s, false))
}
func (a *tape) plus(x *ts.Tensor, k float64) *ts.Tensor {
	s := ts.FloatScalar(k)
	defer s.MustDrop()
	return a.keep(x.MustAddScalar(s, false))
}
func (a *tape) clamp(x *ts.Tensor, low, high float64) *ts.Tensor {
	l, h := ts.FloatScalar(low), ts.FloatScalar(high)
	defer l.MustDrop()
	defer h.MustDrop()
	return a.keep(x.MustClamp(l, h, false))
}
func (a *tape) rows(x *ts.Tensor) *ts.Tensor {
	return a.keep(x.MustSumDimIntlist([]int64{1}, false, gotch.Float, false))
}

// network is the output of the layers whose tensors are given.
func (a *tape) network(x *ts.Tensor, params []parameter) *ts.Tensor {
	for i := 0; i < len(params); i += 2 {
		x = a.keep(ts.MustLinear(x, params[i].tensor, params[i+1].tensor))
		if i+2 < len(params) {
			x = a.keep(x.MustElu(false))
		}
	}
	return x
}

// gather is the batch's samples of array (.., dim) fp16 in Index's order,
// mirrored where the batch says so.
func gather(b *Batch, array []uint16, dim int, mirror Mirror) []float32 {
	out, row := make([]float32, 0, len(b.Index)*dim), make([]float32, dim)
	for k, i := range b.Index {
		buffer.Decode(row, array[int(i)*dim:int(i+1)*dim])
		for j := range row {
			if b.Mirror[k] {
				out = append(out, mirror.Sign[j]*row[mirror.Index[j]])
			} else {
				out = append(out, row[j])
			}
		}
	}
	return out
}

// normalised is (x - mean) / std of moments m, row by row.
func normalised(x []float32, m *moments) []float32 {
	mean, std := m.stats()
	for i := range x {
		x[i] = (x[i] - mean[i%len(mean)]) / std[i%len(mean)]
	}
	return x
}

// divergence is KL(p || q) of normal distributions by their logarithms of std
// and squared distances of mean (rows, dim), summed over dimensions.
func (a *tape) divergence(p, q, distance *ts.Tensor) *ts.Tensor {
	spread := a.add(a.exp(a.times(p, 2)), distance)
	return a.rows(a.plus(a.sub(a.add(a.div(spread, a.times(a.exp(a.times(q, 2)), 2)), q), p), -0.5))
}

// reference is the loss by libtorch's own operations, written without regard
// to core.cpp: a graph that autograd can differentiate; and the new policy's
// KL divergence from the old.
func (a *tape) reference(n *Nets, b *Batch, l *Loss) (loss, kl *ts.Tensor) {
	c, count := &n.config, int64(len(b.Index))
	act := int64(c.Act)
	var oldMean, oldLogProb, advantage, target, oldValue, student, labelled []float32
	students, labels := 0.0, 0.0
	for k, i := range b.Index {
		mean := b.Mean
		if b.Mirror[k] {
			mean = b.MirrorMean
		}
		oldMean, oldLogProb = append(oldMean, mean[int(i)*c.Act:int(i+1)*c.Act]...), append(oldLogProb, b.OldLogProb[i])
		advantage, target, oldValue = append(advantage, b.Advantage[i]), append(target, b.Target[i]), append(oldValue, b.OldValue[i])
		student, labelled = append(student, 1), append(labelled, 0)
		if b.Teacher[i] {
			student[k] = 0
		} else {
			students++
		}
		if b.Labelled[i] {
			labelled[k] = 1
			labels++
		}
	}
	action := gather(b, b.Action, c.Act, c.MirrorAction)
	layers := 2*len(c.ActorHidden) + 2
	logStd := n.params[layers].tensor
	mu := a.network(a.of(normalised(gather(b, b.PolicyObs, c.Policy, c.MirrorPolicy), &n.running[actor]), count, int64(c.Policy)), n.params[:layers])
	value := a.network(a.of(normalised(gather(b, b.CriticObs, c.Critic, c.MirrorCritic), &n.running[critic]), count, int64(c.Critic)), n.params[layers+1:])
	value = a.keep(value.MustView([]int64{count}, false))

	const half = 0.5 * 1.8378770664093453
	logDensity := func(x []float32, logStd *ts.Tensor) *ts.Tensor {
		z := a.div(a.sub(a.of(x, count, act), mu), a.exp(logStd))
		return a.rows(a.plus(a.sub(a.times(a.square(z), -0.5), logStd), -half))
	}
	ratio := a.exp(a.sub(logDensity(action, logStd), a.of(oldLogProb, count)))
	negative := a.times(a.of(advantage, count), -1)
	bounded := a.mul(negative, a.clamp(ratio, 1-float64(l.Clip), 1+float64(l.Clip)))
	surrogate := a.times(a.sum(a.mul(a.max(a.mul(negative, ratio), bounded), a.of(student, count))), 1/students)

	off := a.sub(value, a.of(target, count))
	squares := a.square(off)
	if l.ValueClip > 0 {
		old := a.of(oldValue, count)
		moved := a.clamp(a.sub(value, old), -float64(l.ValueClip), float64(l.ValueClip))
		squares = a.max(squares, a.square(a.sub(a.add(old, moved), a.of(target, count))))
	}
	valueLoss := a.times(a.sum(squares), 1/float64(count))
	entropy := a.sum(a.plus(logStd, 0.5+half))

	held := logStd
	if l.StdDetached {
		held = a.keep(logStd.MustDetach(false))
	}
	label := gather(b, b.Label, c.Act, c.MirrorAction)
	var distill *ts.Tensor
	switch distance := a.square(a.sub(a.of(label, count, act), mu)); l.Distill {
	case NLL:
		distill = a.times(logDensity(label, held), -1)
	case MSE:
		distill = a.times(a.rows(distance), 1/float64(act))
	case KL:
		logTeacher := make([]float32, act)
		for j := range logTeacher {
			logTeacher[j] = float32(math.Log(float64(b.LabelStd[j])))
		}
		distill = a.divergence(a.of(logTeacher, act), held, distance)
	}
	distill = a.times(a.sum(a.mul(distill, a.of(labelled, count))), 1/labels)

	logOld := make([]float32, act)
	for j, s := range b.OldStd {
		logOld[j] = float32(math.Log(float64(s)))
	}
	kl = a.divergence(a.of(logOld, act), logStd, a.square(a.sub(a.of(oldMean, count, act), mu)))
	kl = a.times(a.sum(a.mul(kl, a.of(student, count))), 1/students)

	loss = a.add(surrogate, a.times(valueLoss, float64(l.ValueWeight)))
	loss = a.sub(loss, a.times(entropy, float64(l.EntropyWeight)))
	return a.add(loss, a.times(distill, float64(l.DistillWeight))), kl
}

// gradientOf is a tensor's gradient after backward, in its own memory.
func (a *tape) gradientOf(p parameter) []float32 {
	data, err := a.keep(p.tensor.MustGrad(false)).DataPtr()
	if err != nil {
		a.t.Fatal(err)
	}
	return unsafe.Slice((*float32)(data), len(p.value))
}

// clip scales gradients to a common norm of most; gotch's own ClipGradNorm
// waits for a lock that it holds.
func (a *tape) clip(params []parameter, most float64) {
	squares := 0.0
	for _, p := range params {
		for _, g := range a.gradientOf(p) {
			squares += float64(g) * float64(g)
		}
	}
	for _, p := range params {
		gradient := a.gradientOf(p)
		for i, g := range gradient {
			gradient[i] = float32(float64(g) * most / math.Sqrt(squares))
		}
	}
}

func TestGradientIsAutograds(t *testing.T) {
	for name, l := range map[string]Loss{
		"ppo":                   {Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003},
		"value clipped":         {Clip: 0.1, ValueClip: 0.05, ValueWeight: 0.5, EntropyWeight: 0.01},
		"nll":                   {Clip: 0.2, ValueWeight: 1, DistillWeight: 0.1, Distill: NLL},
		"nll, std detached":     {Clip: 0.2, ValueWeight: 1, DistillWeight: 0.1, Distill: NLL, StdDetached: true},
		"mse":                   {Clip: 0.2, ValueWeight: 1, DistillWeight: 1, Distill: MSE},
		"kl":                    {Clip: 0.2, ValueWeight: 1, DistillWeight: 0.3, Distill: KL},
		"kl, std detached":      {Clip: 0.2, ValueWeight: 1, DistillWeight: 0.3, Distill: KL, StdDetached: true},
		"distillation and more": {Clip: 0.3, ValueClip: 0.2, ValueWeight: 2, EntropyWeight: 0.02, DistillWeight: 0.5, Distill: NLL},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTape(t)
			n := newNets(t, smallNets())
			const samples = 3000 // several chunks a worker
			seen := randomBatch(t, n, 500, 2)
			if err := n.UpdateNormaliser(seen.PolicyObs, seen.CriticObs); err != nil {
				t.Fatal(err)
			}
			b := mixedBatch(t, n, samples)
			b.LabelStd = []float32{0.3, 0.5, 0.8, 1.2}
			stats, err := n.Gradient(b, &l)
			if err != nil {
				t.Fatal(err)
			}
			loss, kl := a.reference(n, b, &l)
			if want := kl.Float64Values()[0]; math.Abs(stats.KL-want) > 1e-5 {
				t.Errorf("KL %.7g, libtorch's %.7g", stats.KL, want)
			}
			if want := loss.Float64Values()[0]; math.Abs(stats.Loss-want) > 1e-5*math.Max(1, math.Abs(want)) {
				t.Errorf("loss %.7g, autograd's %.7g", stats.Loss, want)
			}
			loss.MustBackward()
			got, worst := n.flatGradient(), 0.0
			for _, p := range n.params {
				for i, want := range a.gradientOf(p) {
					off := math.Abs(float64(got[p.offset+i] - want))
					worst = max(worst, off)
					if off > 1e-5 {
						t.Fatalf("gradient of %s, number %d: %g, autograd's %g", p.name, i, got[p.offset+i], want)
					}
				}
			}
			t.Logf("clip fraction %.2f, gradient norm %.3g, largest difference %.2g", stats.ClipFraction, stats.GradNorm, worst)
		})
	}
}

func TestStepIsTorchsAdam(t *testing.T) {
	a := newTape(t)
	ours, theirs := newNets(t, smallNets()), newNets(t, smallNets())
	b := mixedBatch(t, ours, 600)
	for i, p := range theirs.params {
		copy(p.value, ours.params[i].value)
	}
	l := Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003, DistillWeight: 0.1, MaxGradNorm: 0.1}
	const rate = 3e-3
	ours.SetLearningRate(rate)
	adam, err := nn.DefaultAdamConfig().Build(theirs.store, rate)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		stats, err := ours.Minibatch(b, &l)
		if err != nil {
			t.Fatal(err)
		}
		if stats.GradNorm < float64(l.MaxGradNorm) {
			t.Fatalf("gradient norm %g: nothing is clipped", stats.GradNorm)
		}
		adam.MustZeroGrad()
		loss, _ := a.reference(theirs, b, &l)
		loss.MustBackward()
		a.clip(theirs.params, float64(l.MaxGradNorm))
		if err := adam.Step(); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range theirs.params {
		for k, want := range p.value {
			if off := math.Abs(float64(ours.params[i].value[k] - want)); off > 2e-5 {
				t.Fatalf("%s, number %d: %g after 20 steps, torch's %g", p.name, k, ours.params[i].value[k], want)
			}
		}
	}
}

func TestForwardIsLibtorchs(t *testing.T) {
	for _, config := range []Config{smallNets(), recipeNets()} {
		t.Run(strings.Trim(fmt.Sprint(config.ActorHidden), "[]"), func(t *testing.T) {
			a := newTape(t)
			n := newNets(t, config)
			const rows = 2500
			b := randomBatch(t, n, rows, 11)
			if err := n.UpdateNormaliser(b.PolicyObs[:50*config.Policy], b.CriticObs[:50*config.Critic]); err != nil {
				t.Fatal(err)
			}
			b = randomBatch(t, n, rows, 12)
			b.Mirror = make([]bool, rows)
			layers := 2*len(config.ActorHidden) + 2
			for k, got := range [][]float32{b.Mean, b.OldValue} {
				obs, dim, params := b.PolicyObs, config.Policy, n.params[:layers]
				if k == critic {
					obs, dim, params = b.CriticObs, config.Critic, n.params[layers+1:]
				}
				x := make([]float32, rows*dim)
				buffer.Decode(x, obs)
				if config.Normaliser {
					x = normalised(x, &n.running[k])
				}
				for i, want := range a.network(a.of(x, rows, int64(dim)), params).Float64Values() {
					if off := math.Abs(float64(got[i]) - want); off > 1e-5 {
						t.Fatalf("network %d, number %d: %g, libtorch's %g", k, i, got[i], want)
					}
				}
			}
		})
	}
}
