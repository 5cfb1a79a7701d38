//go:build torch

package nets

import (
	"math"
	"math/rand/v2"
	"runtime"
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

// historyNets are smallNets whose actor reads eight frames by an encoder: kernels that overlap,
// that leave an oldest position out, and two layers of them.
func historyNets() Config {
	c := smallNets()
	const frames = 8
	c.Encoder = &Encoder{Frames: frames, Convs: []Conv{{Channels: 10, Kernel: 3, Stride: 2}, {Channels: 6, Kernel: 2, Stride: 1}}, Latent: 5, Velocity: 7}
	frame := rotation(c.Policy)
	c.MirrorPolicy = Mirror{}
	for k := range frames {
		for i, j := range frame.Index {
			c.MirrorPolicy.Index = append(c.MirrorPolicy.Index, int32(k*c.Policy)+j)
			c.MirrorPolicy.Sign = append(c.MirrorPolicy.Sign, frame.Sign[i])
		}
	}
	c.Policy *= frames
	return c
}

// mixedBatch is a randomBatch with teacher's steps, labels and mirrored
// samples, and networks that have moved since.
func mixedBatch(t testing.TB, n *Nets, samples int) *Batch {
	t.Helper()
	b := randomBatch(t, n, samples, 5)
	random := rand.New(rand.NewPCG(9, 9))
	b.Label = encoded(normals(random, samples*n.config.Act, 1))
	for range samples {
		b.Teacher = append(b.Teacher, random.IntN(3) == 0)
		b.Labelled = append(b.Labelled, random.IntN(4) != 0)
	}
	for range b.Index {
		b.Mirror = append(b.Mirror, random.IntN(2) == 0)
	}
	for range samples {
		b.Near = append(b.Near, int32(random.IntN(2*samples)-samples))
	}
	for i, near := range b.Near {
		b.Near[i] = max(near, -1)
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

// actor is the actor's means for observations x (count, Policy), and what an encoder
// estimates (nil without one).
func (a *tape) actor(n *Nets, x []float32, count int64) (mu, velocity *ts.Tensor) {
	c, e := &n.config, n.config.Encoder
	first := e.parameters()
	layers := n.params[first : first+2*len(c.ActorHidden)+2]
	obs := a.of(x, count, int64(c.Policy))
	if e == nil {
		return a.network(obs, layers), nil
	}
	frame, channels := int64(c.frame()), int64(c.frame())
	seen := a.keep(a.keep(obs.MustView([]int64{count, int64(e.Frames), frame}, false)).MustTranspose(1, 2, false))
	for i, v := range e.Convs {
		length := seen.MustSize()[2]
		skip := (length - int64(v.Kernel)) % int64(v.Stride)
		seen = a.keep(seen.MustNarrow(2, skip, length-skip, false))
		weight := a.keep(n.params[2*i].tensor.MustView([]int64{int64(v.Channels), int64(v.Kernel), channels}, false))
		weight = a.keep(weight.MustTranspose(1, 2, false)) // torch's: (out, channels, kernel)
		seen = a.keep(ts.MustConv1d(seen, weight, n.params[2*i+1].tensor, []int64{int64(v.Stride)}, []int64{0}, []int64{1}, 1))
		seen = a.keep(seen.MustElu(false))
		channels = int64(v.Channels)
	}
	features := a.keep(a.keep(seen.MustTranspose(1, 2, false)).MustReshape([]int64{count, -1}, false))
	heads := n.params[2*len(e.Convs) : first]
	latent := a.keep(a.keep(ts.MustLinear(features, heads[0].tensor, heads[1].tensor)).MustElu(false))
	velocity = a.keep(ts.MustLinear(features, heads[2].tensor, heads[3].tensor))
	newest := a.keep(obs.MustNarrow(1, int64(c.Policy)-frame, frame, false))
	trunk := a.keep(ts.MustCat([]*ts.Tensor{newest, latent, a.keep(velocity.MustDetach(false))}, 1))
	return a.network(trunk, layers), velocity
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
		mean := b.Mean[int(i)*c.Act : int(i+1)*c.Act]
		for j := range mean {
			if b.Mirror[k] {
				oldMean = append(oldMean, c.MirrorAction.Sign[j]*mean[c.MirrorAction.Index[j]])
			} else {
				oldMean = append(oldMean, mean[j])
			}
		}
		oldLogProb = append(oldLogProb, b.OldLogProb[i])
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
	layers := c.Encoder.parameters() + 2*len(c.ActorHidden) + 2
	logStd := n.params[layers].tensor
	mu, velocity := a.actor(n, normalised(gather(b, b.PolicyObs, c.Policy, c.MirrorPolicy), &n.running[actor]), count)
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
	loss = a.add(loss, a.times(distill, float64(l.DistillWeight)))
	var near, nearby []float32
	for k, i := range b.Index {
		at := max(b.Near[i], 0)
		for j := range c.Act {
			x := b.Mean[int(at)*c.Act+j]
			if b.Mirror[k] {
				x = c.MirrorAction.Sign[j] * b.Mean[int(at)*c.Act+int(c.MirrorAction.Index[j])]
			}
			near = append(near, x)
		}
		nearby = append(nearby, map[bool]float32{true: 1}[b.Near[i] >= 0])
	}
	moved := a.mul(a.rows(a.square(a.sub(mu, a.of(near, count, act)))), a.of(nearby, count))
	loss = a.add(loss, a.times(a.sum(moved), float64(l.CalmWeight)/float64(act*count)))
	if velocity != nil {
		loss = a.add(loss, a.times(a.velocityError(b, c, velocity), float64(l.VelocityWeight)))
	}
	return loss, kl
}

// velocityError is the mean squared error of an encoder's estimates to what the critic is shown.
func (a *tape) velocityError(b *Batch, c *Config, velocity *ts.Tensor) *ts.Tensor {
	shown, count := gather(b, b.CriticObs, c.Critic, c.MirrorCritic), len(b.Index)
	var truth []float32
	for ; len(shown) > 0; shown = shown[c.Critic:] {
		truth = append(truth, shown[c.Encoder.Velocity:][:VelocityDim]...)
	}
	return a.times(a.sum(a.square(a.sub(velocity, a.of(truth, int64(count), VelocityDim)))), 1/float64(count*VelocityDim))
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
	for name, test := range map[string]struct {
		nets Config
		loss Loss
	}{
		"ppo":                   {smallNets(), Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003}},
		"value clipped":         {smallNets(), Loss{Clip: 0.1, ValueClip: 0.05, ValueWeight: 0.5, EntropyWeight: 0.01}},
		"nll":                   {smallNets(), Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.1, Distill: NLL}},
		"nll, std detached":     {smallNets(), Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.1, Distill: NLL, StdDetached: true}},
		"mse":                   {smallNets(), Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 1, Distill: MSE}},
		"kl":                    {smallNets(), Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.3, Distill: KL}},
		"kl, std detached":      {smallNets(), Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.3, Distill: KL, StdDetached: true}},
		"distillation and more": {smallNets(), Loss{Clip: 0.3, ValueClip: 0.2, ValueWeight: 2, EntropyWeight: 0.02, DistillWeight: 0.5, Distill: NLL}},
		"history":               {historyNets(), Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003, VelocityWeight: 0.7, CalmWeight: 3}},
		"history, no velocity":  {historyNets(), Loss{Clip: 0.2, ValueWeight: 1, EntropyWeight: 0.003}},
		"history, nll":          {historyNets(), Loss{Clip: 0.2, ValueWeight: 1, DistillWeight: 0.1, Distill: NLL, VelocityWeight: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			a, l := newTape(t), test.loss
			n := newNets(t, test.nets)
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
	for name, config := range map[string]Config{"small": smallNets(), "recipe": recipeNets(), "history": historyNets()} {
		t.Run(name, func(t *testing.T) {
			a := newTape(t)
			n := newNets(t, config)
			const rows = 2500
			b := randomBatch(t, n, rows, 11)
			if err := n.UpdateNormaliser(b.PolicyObs[:50*config.Policy], b.CriticObs[:50*config.Critic]); err != nil {
				t.Fatal(err)
			}
			b = randomBatch(t, n, rows, 12)
			b.Mirror = make([]bool, rows)
			seen := [2][]float32{make([]float32, rows*config.Policy), make([]float32, rows*config.Critic)}
			for k, obs := range [][]uint16{b.PolicyObs, b.CriticObs} {
				buffer.Decode(seen[k], obs)
				if config.Normaliser {
					seen[k] = normalised(seen[k], &n.running[k])
				}
			}
			mu, velocity := a.actor(n, seen[actor], rows)
			_, last := n.Layers()
			value := a.network(a.of(seen[critic], rows, int64(config.Critic)), n.params[len(n.params)-2*len(last):])
			want, got := []*ts.Tensor{mu, value}, [][]float32{b.Mean, b.OldValue}
			if velocity != nil {
				estimated := make([]float32, rows*VelocityDim)
				if err := n.Estimate(b.PolicyObs, rows, estimated); err != nil {
					t.Fatal(err)
				}
				want, got = append(want, velocity), append(got, estimated)
			}
			for k, tensor := range want {
				for i, want := range tensor.Float64Values() {
					if off := math.Abs(float64(got[k][i]) - want); off > 1e-5 {
						t.Fatalf("network %d, number %d: %g, libtorch's %g", k, i, got[k][i], want)
					}
				}
			}
		})
	}
}
