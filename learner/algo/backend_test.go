//go:build torch

package algo

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sugarme/gotch/ts"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
	"github.com/openclaw-rl/openclaw/learner/nets"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/export"
	"github.com/openclaw-rl/openclaw/onnx/session"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// Other backends that a rollout could collect with. They are here to be measured and to show that
// none is wrong, and not in the Trainer since BenchmarkRolloutStep says that they are slower:
// TorchScript by what gotch does around each operation, ONNX Runtime by computing on one thread
// what ours computes on all, and by a session for each iteration, of which ONNX Runtime keeps some
// memory for ever (libraries.md).
type otherBackend interface {
	backend
	close()
}

// scripted is the actor as TorchScript whose weights are inputs, so that a new iteration needs no
// new module.
type scripted struct {
	module *ts.CModule
	inputs []*ts.Tensor // the observations, replaced by each Forward, then mean and std, weights and biases
	obs    []float32
	in     int
}

// newScripted compiles an actor of that many layers, whose module file is written here: gotch cannot
// trace.
func newScripted(layers int) (*scripted, error) {
	var args, body strings.Builder
	for i := range layers {
		fmt.Fprintf(&args, ", w%d: Tensor, b%d: Tensor", i, i)
		value := fmt.Sprintf("torch.linear(x%d, w%d, b%d)", i, i, i)
		if i < layers-1 {
			fmt.Fprintf(&body, "    x%d = torch.elu(%s)\n", i+1, value)
		} else {
			fmt.Fprintf(&body, "    return %s\n", value)
		}
	}
	code := "class Actor(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n" +
		"  def forward(self: __torch__.Actor, x: Tensor, mean: Tensor, std: Tensor" + args.String() + ") -> Tensor:\n" +
		"    x0 = torch.div(torch.sub(x, mean), std)\n" + body.String()
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	for _, part := range []struct{ name, data string }{
		// Pickles: an Actor whose training is False; an empty tuple.
		{"data.pkl", "\x80\x02c__torch__\nActor\n)\x81}(X\x08\x00\x00\x00training\x89ub."},
		{"constants.pkl", "\x80\x02)."},
		{"code/__torch__.py", code},
		{"version", "3\n"},
	} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: "actor/" + part.name, Method: zip.Store})
		if err == nil {
			_, err = w.Write([]byte(part.data))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	m, err := ts.ModuleLoadData(&file)
	if err != nil {
		return nil, err
	}
	m.SetEval()
	return &scripted{module: m}, nil
}

func (s *scripted) follow(n *nets.Nets) error {
	s.drop()
	layers, _ := n.Layers()
	mean, std := n.NormaliserStats()
	s.in = len(mean)
	s.inputs = append(s.inputs[:0], nil)
	add := func(data []float32, shape ...int64) error {
		flat, err := ts.OfSlice(data)
		if err != nil {
			return err
		}
		defer flat.MustDrop()
		t, err := flat.View(shape, false)
		s.inputs = append(s.inputs, t)
		return err
	}
	err := errors.Join(add(mean, int64(s.in)), add(std, int64(s.in)))
	for _, l := range layers {
		err = errors.Join(err, add(l.Weight, int64(l.Out), int64(l.In)), add(l.Bias, int64(l.Out)))
	}
	return err
}

func (s *scripted) drop() {
	for _, t := range s.inputs {
		if t != nil {
			t.MustDrop()
		}
	}
	s.inputs = nil
}

func (s *scripted) close() {
	s.drop()
	s.module.Drop()
}

func (s *scripted) Forward(policyObs []uint16, rows int, mean []float32) error {
	s.obs = append(s.obs[:0], make([]float32, len(policyObs))...)
	buffer.Decode(s.obs, policyObs)
	flat, err := ts.OfSlice(s.obs)
	if err != nil {
		return err
	}
	defer flat.MustDrop()
	if s.inputs[0], err = flat.View([]int64{int64(rows), int64(s.in)}, false); err != nil {
		return err
	}
	defer func() {
		s.inputs[0].MustDrop()
		s.inputs[0] = nil
	}()
	out, err := s.module.ForwardTs(s.inputs)
	if err != nil {
		return err
	}
	defer out.MustDrop()
	return out.CopyData(mean, uint(len(mean)))
}

// exported is the actor as the file that training writes, in ONNX Runtime. A new iteration needs
// a new session.
type exported struct {
	dir    string
	rows   int
	policy *session.Policy
	step   rollout.Step
	out    *rollout.Decision
}

func newExported(dir string, rows int) *exported {
	spec := *task.WalkSpec()
	spec.Rows = rows
	e := &exported{dir: dir, rows: rows, out: rollout.NewDecision(spec)}
	e.step.Obs = [][]float32{make([]float32, rows*spec.Group("policy").Size())}
	return e
}

func (e *exported) follow(n *nets.Nets) error {
	layers, _ := n.Layers()
	x := &export.Network{Activation: export.ELU}
	for _, l := range layers {
		x.Layers = append(x.Layers, export.Layer{Out: l.Out, In: l.In, Weight: l.Weight, Bias: l.Bias})
	}
	x.Normaliser = contract.Normaliser{InGraph: true}
	x.Normaliser.Mean, x.Normaliser.Std = n.NormaliserStats()
	random := rand.New(rand.NewPCG(1, 2))
	pairs := make([]contract.Pair, export.GoldenPairs)
	for i := range pairs {
		obs := make([]float32, layers[0].In)
		for k := range obs {
			obs[k] = x.Normaliser.Mean[k] + x.Normaliser.Std[k]*float32(random.NormFloat64())
		}
		buffer.Round(obs)
		half := make([]uint16, len(obs))
		buffer.Encode(half, obs)
		pairs[i] = contract.Pair{Obs: obs, Action: make([]float32, layers[len(layers)-1].Out)}
		if err := n.Forward(half, 1, pairs[i].Action); err != nil {
			return err
		}
	}
	c := &contract.Contract{Version: contract.Version, Name: "rollout", Spec: *task.WalkSpec(), License: "Apache-2.0", Source: "test"}
	data, err := export.Encode(x, c, pairs)
	if err != nil {
		return err
	}
	path := filepath.Join(e.dir, "rollout.onnx")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return err
	}
	file, err := contract.Load(path)
	if err != nil {
		return err
	}
	e.close()
	e.policy, err = session.Open(file, session.Options{Rows: e.rows})
	return err
}

func (e *exported) close() {
	if e.policy != nil {
		e.policy.Close()
		e.policy = nil
	}
}

func (e *exported) Forward(policyObs []uint16, rows int, mean []float32) error {
	buffer.Decode(e.step.Obs[0], policyObs)
	if err := e.policy.Act(&e.step, e.out); err != nil {
		return err
	}
	copy(mean, e.out.Action)
	return nil
}

// ours is the C++ path by way of a copy, as Config.Async has it.
type ours struct{ copied }

func (o ours) close() { o.Close() }

// backends makes every one, for the networks of shape and that many rows.
func backends(t testing.TB, shape nets.Config, rows int) map[string]otherBackend {
	t.Helper()
	if _, err := session.Library(); err != nil {
		t.Skip(err)
	}
	n, err := nets.New(shape)
	if err != nil {
		t.Fatal(err)
	}
	script, err := newScripted(len(shape.ActorHidden) + 1)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]otherBackend{"cpp": ours{copied{n}}, "torchscript": script, "onnx": newExported(t.TempDir(), rows)}
	t.Cleanup(func() {
		for _, b := range all {
			b.close()
		}
	})
	return all
}

// Whatever computes the actions, the update's own forward pass scores them as they were: |ratio - 1|
// < 1e-4 on every sample of the first minibatch, in fp16, with the normaliser, without mirror.
func TestFirstRatioOfBackends(t *testing.T) {
	runtime.LockOSThread() // libtorch's errors belong to the thread
	defer runtime.UnlockOSThread()
	cfg := Default()
	cfg.Net.Normaliser, cfg.PPO.Mirror = true, false
	cfg.Warm.Rollouts, cfg.Warm.Scripted = 0, 0
	shape := newTrainer(t, cfg, newGo1s(t), Options{}).shape
	for name, b := range backends(t, shape, 32) {
		tr := newTrainer(t, cfg, newGo1s(t), Options{})
		tr.acting = b
		worst := 0.0
		train(t, tr, 4, func(r *Report) {
			worst = max(worst, r.FirstRatioError)
			if r.KL == 0 || r.Skipped != 0 {
				t.Errorf("%s: %+v", name, r)
			}
		})
		t.Logf("%s: largest |ratio - 1| of 4 first minibatches is %.2g", name, worst)
		if !(worst > 0 && worst < 1e-4) {
			t.Errorf("%s: largest |ratio - 1| is %v", name, worst)
		}
	}
}

// A backend that collects with other weights shows: what the test above would see of one that is wrong.
func TestFirstRatioSeesAnother(t *testing.T) {
	cfg := cartConfig()
	tr := newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{})
	other, err := nets.New(tr.shape)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tr.acting = same{other} // which does not follow
	worst := 0.0
	train(t, tr, 3, func(r *Report) { worst = max(worst, r.FirstRatioError) })
	if worst < 1e-3 || math.IsNaN(worst) {
		t.Errorf("largest |ratio - 1| is %v", worst)
	}
}

// cpuSeconds is the processor time of this process: on a busy machine it tells more than the clock.
func cpuSeconds(t testing.TB) float64 {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// BenchmarkRolloutStep is the actor's part of a step of 256 rows, from fp16 observations to means,
// and what an iteration costs besides: taking over the weights.
func BenchmarkRolloutStep(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const rows = 256
	for size, hidden := range map[string][]int{"128-128": {128, 128}, "512-256-128": {512, 256, 128}} {
		for _, workers := range []int{1, runtime.NumCPU()} {
			shape := nets.Config{Policy: task.WalkSpec().Group("policy").Size(), Critic: 63, Act: 12, ActorHidden: hidden, CriticHidden: []int{128},
				InitStd: 0.7, MinStd: 0.1, MaxStd: 1.65, Normaliser: true, Seed: 1, Workers: workers}
			n, err := nets.New(shape)
			if err != nil {
				b.Fatal(err)
			}
			obs, mean := make([]uint16, rows*shape.Policy), make([]float32, rows*shape.Act)
			for name, back := range backends(b, shape, rows) {
				if workers != 1 && name != "cpp" {
					continue // libtorch's own threads are set by OMP_NUM_THREADS, the session has one
				}
				if err := back.follow(n); err != nil {
					b.Fatal(err)
				}
				b.Run(fmt.Sprintf("%s/%s-%d", size, name, workers), func(b *testing.B) {
					b.ReportAllocs()
					used := cpuSeconds(b)
					for range b.N {
						if err := back.Forward(obs, rows, mean); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(1e6*(cpuSeconds(b)-used)/float64(b.N), "cpu-us/op")
				})
				b.Run(fmt.Sprintf("%s/%s-%d-follow", size, name, workers), func(b *testing.B) {
					for range b.N {
						if err := back.follow(n); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			n.Close()
		}
	}
}
