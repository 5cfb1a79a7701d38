//go:build torch

package nets

// #cgo CXXFLAGS: -std=c++17 -O3 -Wall
// #include <stdlib.h>
// #include "core.h"
// #include "device.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/nn"
	"github.com/sugarme/gotch/ts"
)

// Config fixes the shapes of the networks. Every field but the mirror maps,
// Encoder, Normaliser and Device is needed.
type Config struct {
	Policy, Critic, Act       int   // dimensions: what the actor reads, what the critic reads, actions
	ActorHidden, CriticHidden []int // widths of the hidden layers, each with ELU; at least one
	InitStd, MinStd, MaxStd   float32
	Normaliser                bool  // networks read (x - mean) / std of the observations seen so far
	Seed                      int64 // of the first weights
	Workers                   int   // threads; results are equal bit for bit only for equal numbers of them

	Device string // where minibatches are learnt from, as CheckDevice has it; everything else is this machine's threads'

	Encoder *Encoder // before the actor's layers, of an observation that is a history; nil: none

	// Left-right mirrors of what the actor reads, of what the critic reads and of
	// the action; all or none.
	MirrorPolicy, MirrorCritic, MirrorAction Mirror
}

// Mirror maps a vector to Sign[i] * x[Index[i]]; twice it is the vector again.
type Mirror struct {
	Index []int32
	Sign  []float32
}

// check tells whether m, called name, mirrors vectors of dim numbers.
func (m Mirror) check(name string, dim int) error {
	if len(m.Index) != dim || len(m.Sign) != dim {
		return fmt.Errorf("nets: %s: %d indices and %d signs, want %d of each", name, len(m.Index), len(m.Sign), dim)
	}
	for i, j := range m.Index {
		if j < 0 || int(j) >= dim {
			return fmt.Errorf("nets: %s: index %d is %d, want 0..%d", name, i, j, dim-1)
		}
	}
	for i, j := range m.Index {
		if s := m.Sign[i]; (s != 1 && s != -1) || m.Index[j] != int32(i) || m.Sign[j] != s {
			return fmt.Errorf("nets: %s: applied twice it does not give number %d back", name, i)
		}
	}
	return nil
}

func (c *Config) check() error {
	for name, n := range map[string]int{"Policy": c.Policy, "Critic": c.Critic, "Act": c.Act, "Workers": c.Workers} {
		if n < 1 {
			return fmt.Errorf("nets: %s is %d, want at least 1", name, n)
		}
	}
	if err := Available(c.Device); err != nil {
		return err
	}
	if c.Workers > 256 {
		return fmt.Errorf("nets: Workers is %d, want 256 at most", c.Workers)
	}
	for name, widths := range map[string][]int{"ActorHidden": c.ActorHidden, "CriticHidden": c.CriticHidden} {
		if len(widths) == 0 {
			return fmt.Errorf("nets: %s is empty, want at least one layer", name)
		}
		for _, w := range widths {
			if w < 1 {
				return fmt.Errorf("nets: %s has a layer of %d, want at least 1", name, w)
			}
		}
	}
	if !(c.MinStd > 0 && c.MinStd <= c.InitStd && c.InitStd <= c.MaxStd && !math.IsInf(float64(c.MaxStd), 0)) {
		return fmt.Errorf("nets: InitStd %g outside MinStd %g .. MaxStd %g, all of which must be above 0", c.InitStd, c.MinStd, c.MaxStd)
	}
	if c.Encoder != nil {
		if err := c.Encoder.check(c.Policy, c.Critic); err != nil {
			return err
		}
	}
	if !c.mirrors() {
		return nil
	}
	return errors.Join(c.MirrorPolicy.check("MirrorPolicy", c.Policy), c.MirrorCritic.check("MirrorCritic", c.Critic),
		c.MirrorAction.check("MirrorAction", c.Act))
}

// mirrors reports whether any mirror map is given.
func (c *Config) mirrors() bool {
	return len(c.MirrorPolicy.Index)+len(c.MirrorCritic.Index)+len(c.MirrorAction.Index) > 0
}

// Layer is one linear layer: y = Weight x + Bias.
type Layer struct {
	Out, In int
	Weight  []float32 // (Out, In)
	Bias    []float32 // (Out)
}

// parameter is a tensor of the VarStore, its memory, and its place in the flat
// arrays of gradients and moments.
type parameter struct {
	name   string
	tensor *ts.Tensor
	value  []float32
	offset int
}

// Nets are an actor, a critic and what trains them. Close frees them.
type Nets struct {
	config  Config
	store   *nn.VarStore
	params  []parameter // encoder's weights and biases, actor's, log std, critic's
	logStd  []float32   // of params
	first   []float32   // Adam's mean of the gradients, flat
	second  []float32   // Adam's mean of their squares, flat
	steps   [3]int64    // Adam's steps so far: actor, log std, critic
	rate    float64     // learning rate
	running [2]moments  // of the observations: policy, critic
	core    *C.claw_core
	device  *C.claw_device // what learns, and has the parameters while away; nil: core
	away    bool
	taken   Batch // whose samples it has
	waiting Stats // of the gradient that waits for Apply
	ready   bool  // one waits
	alike   *Nets // of the same shape, as Blend saw

	// What C reads and writes in a call, here because a local variable would be
	// allocated each time.
	loss  C.claw_loss
	stats C.claw_stats
	count [3]C.int64_t
}

const (
	actor  = C.CLAW_ACTOR
	critic = C.CLAW_CRITIC
)

// New makes the networks with their first weights: orthogonal with gain
// sqrt 2, the actor's last layer 0.01, the critic's and an encoder's velocity's 1;
// biases 0. The learning rate is 1e-3.
func New(config Config) (*Nets, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	n := &Nets{config: config, rate: 1e-3, store: nn.NewVarStore(gotch.CPU)}
	n.running = [2]moments{newMoments(config.Policy, config.frame()), newMoments(config.Critic, config.Critic)}
	widths := [2][]int{widths(config.trunk(), config.ActorHidden, config.Act), widths(config.Critic, config.CriticHidden, 1)}
	flat, err := n.allocate(widths)
	if err == nil {
		err = n.start(widths, flat)
	}
	if err != nil {
		n.Close()
		return nil, err
	}
	n.initialise()
	return n, nil
}

// widths of a network from its input to its output.
func widths(in int, hidden []int, out int) []int {
	return append(append([]int{in}, hidden...), out)
}

// allocate makes the tensors and returns the length of the flat arrays.
func (n *Nets) allocate(widths [2][]int) (flat int, err error) {
	root := n.store.Root()
	add := func(path *nn.Path, prefix, name string, dims ...int64) {
		if err != nil {
			return
		}
		var p parameter
		if p, err = newParameter(path, prefix, name, true, dims); err == nil {
			p.offset = flat
			flat += (len(p.value) + 15) / 16 * 16 // a cache line's start
			n.params = append(n.params, p)
		}
	}
	layer := func(name, layer string, out, in int) {
		path, prefix := root.Sub(name).Sub(layer), name+"."+layer+"."
		add(path, prefix, "weight", int64(out), int64(in))
		add(path, prefix, "bias", int64(out))
	}
	n.config.encoderLayers(func(name string, out, in int) { layer("encoder", name, out, in) })
	for k, name := range []string{"actor", "critic"} {
		for i := 1; i < len(widths[k]); i++ {
			layer(name, fmt.Sprint(i-1), widths[k][i], widths[k][i-1])
		}
		if k == actor {
			add(root, "", "log_std", int64(n.config.Act))
			if err == nil {
				n.logStd = n.params[len(n.params)-1].value
			}
		}
	}
	for name, dst := range map[string]*[]float32{"mean": &n.first, "square": &n.second} {
		if err == nil {
			var p parameter
			p, err = newParameter(root.Sub("adam"), "adam.", name, false, []int64{int64(flat)})
			*dst = p.value
		}
	}
	return flat, err
}

// newParameter is a tensor of zeros in the store.
func newParameter(path *nn.Path, prefix, name string, trainable bool, dims []int64) (parameter, error) {
	var t *ts.Tensor
	var err error
	if trainable {
		t, err = path.Zeros(name, dims)
	} else {
		t, err = path.ZerosNoTrain(name, dims)
	}
	if err != nil {
		return parameter{}, fmt.Errorf("nets: %s%s %v: %w", prefix, name, dims, err)
	}
	data, err := t.DataPtr()
	if err != nil {
		return parameter{}, fmt.Errorf("nets: %s%s: %w", prefix, name, err)
	}
	size := 1
	for _, d := range dims {
		size *= int(d)
	}
	return parameter{name: prefix + name, tensor: t, value: unsafe.Slice((*float32)(data), size)}, nil
}

// start makes the C++ half.
func (n *Nets) start(widths [2][]int, flat int) error {
	// What config points to must be C's: claw_new copies it.
	params := (*C.claw_param)(C.calloc(C.size_t(len(n.params)), C.size_t(unsafe.Sizeof(C.claw_param{}))))
	defer C.free(unsafe.Pointer(params))
	for i, p := range n.params {
		unsafe.Slice(params, len(n.params))[i] = C.claw_param{value: floats(p.value), size: C.int64_t(len(p.value)), offset: C.int64_t(p.offset)}
	}
	encoder, freeEncoder := n.config.forC()
	defer freeEncoder()
	config := C.claw_config{workers: C.int(n.config.Workers), act: C.int(n.config.Act), param: params, flat: C.int64_t(flat),
		m: floats(n.first), v: floats(n.second),
		encoder: encoder, min_log_std: C.float(math.Log(float64(n.config.MinStd))), max_log_std: C.float(math.Log(float64(n.config.MaxStd)))}
	for k, w := range widths {
		numbers := (*C.int)(C.calloc(C.size_t(len(w)), C.size_t(unsafe.Sizeof(C.int(0)))))
		defer C.free(unsafe.Pointer(numbers))
		for i, x := range w {
			unsafe.Slice(numbers, len(w))[i] = C.int(x)
		}
		config.width[k], config.layers[k] = numbers, C.int(len(w)-1)
	}
	if n.core = C.claw_new(&config); n.core == nil {
		return fmt.Errorf("nets: no memory or threads for %d workers, or a processor without F16C", n.config.Workers)
	}
	if c := &n.config; c.mirrors() {
		C.claw_mirror(n.core, actor, indices(c.MirrorPolicy.Index), floats(c.MirrorPolicy.Sign))
		C.claw_mirror(n.core, critic, indices(c.MirrorCritic.Index), floats(c.MirrorCritic.Sign))
		C.claw_mirror_action(n.core, indices(c.MirrorAction.Index), floats(c.MirrorAction.Sign))
	}
	return n.startDevice(&config)
}

// Close frees the networks; nothing of theirs may be used after it.
func (n *Nets) Close() {
	if n.store != nil {
		C.claw_device_free(n.device)
		C.claw_free(n.core)
		n.store.Destroy()
		n.device, n.core, n.store = nil, nil, nil
	}
}

// Forward writes the actor's means (rows, Act) for policyObs (rows, Policy),
// fp16. It allocates nothing.
func (n *Nets) Forward(policyObs []uint16, rows int, mean []float32) error {
	return n.forward(actor, policyObs, rows, mean)
}

// Values writes the critic's values (rows) of criticObs (rows, Critic), fp16.
// It allocates nothing.
func (n *Nets) Values(criticObs []uint16, rows int, value []float32) error {
	return n.forward(critic, criticObs, rows, value)
}

func (n *Nets) forward(network C.int, obs []uint16, rows int, out []float32) error {
	in, width := n.config.Policy, n.config.Act
	if network == critic {
		in, width = n.config.Critic, 1
	}
	if rows < 0 || len(obs) < rows*in || len(out) < rows*width {
		return fmt.Errorf("nets: %d rows: %d numbers of observation and %d of result, want %d and %d",
			rows, len(obs), len(out), rows*in, rows*width)
	}
	if rows > 0 {
		C.claw_forward(n.core, network, C.int64_t(rows), halves(obs), floats(out))
	}
	return nil
}

// Std writes the spread of each action into dst (Act).
func (n *Nets) Std(dst []float32) {
	for i, l := range n.logStd {
		dst[i] = float32(math.Exp(float64(l)))
	}
}

// LogStd is a copy of the logarithm of the spread of each action, (Act).
func (n *Nets) LogStd() []float32 { return append([]float32(nil), n.logStd...) }

// Layers are copies of the actor's and critic's layers, from input to output;
// ELU stands between any two. After an Encoder the actor's first reads the newest
// frame, the latent and the velocity, in this order.
func (n *Nets) Layers() (actorLayers, criticLayers []Layer) {
	first, hidden := n.config.Encoder.parameters(), len(n.config.ActorHidden)
	return n.layers(first, hidden+1), n.layers(first+2*hidden+3, len(n.config.CriticHidden)+1)
}

// layers copies count layers whose parameters begin at params[from].
func (n *Nets) layers(from, count int) []Layer {
	layers := make([]Layer, count)
	for i := range layers {
		weight, bias := n.params[from+2*i].value, n.params[from+2*i+1].value
		layers[i] = Layer{Out: len(bias), In: len(weight) / len(bias),
			Weight: append([]float32(nil), weight...), Bias: append([]float32(nil), bias...)}
	}
	return layers
}

// Pointers for C to the first element; nil of an empty slice.

func floats(s []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(s))) }

func halves(s []uint16) *C.uint16_t { return (*C.uint16_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func indices(s []int32) *C.int32_t { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func bools(s []bool) *C.bool { return (*C.bool)(unsafe.Pointer(unsafe.SliceData(s))) }
