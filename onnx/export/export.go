package export

import (
	"fmt"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/internal/modelproto"
)

// What files of this package say of themselves.
const (
	Producer  = "openclaw" // producer_version is the contract's Training.Commit
	IRVersion = 8          // the one that came with opset 17
	Opset     = 17
)

// GoldenPairs is how many golden pairs a file holds.
const GoldenPairs = 24

// ELU is the one activation: x where x > 0, else exp(x) - 1.
const ELU = "elu"

// Network is an actor: observation in, mean action out.
type Network struct {
	Encoder    *Encoder // of an observation that is a history; nil: the layers read the observation
	Layers     []Layer  // at least one
	Activation string   // after each layer but the last: ELU

	// Normaliser is what training gathered of its observations, after scale and
	// clip. With InGraph the network computes on (obs - Mean) / Std, and Std is that
	// divisor itself: where the trainer adds an epsilon, it has been added. Without
	// InGraph both only go into the contract. An element that never changed in
	// training has a Std above 0 too, since the gate before torque divides by it.
	Normaliser contract.Normaliser
}

// Layer is y = Weight x + Bias. Its slices are not copied.
type Layer struct {
	Out, In int
	Weight  []float32 // (Out, In), row-major, as libtorch's Linear has it
	Bias    []float32 // (Out)
}

// Encode gives the bytes of the policy's file, without computing with it: Write
// is what a trainer calls. A pair is an observation and what n's weights make of
// it in the trainer. c is left as it is; in the file its normaliser gives way to
// n's, its golden pairs to GoldenPairs of the given ones, taken at even distances,
// and of its groups only "policy" stays: a robot need not offer what the critic
// saw. An error names the layer, number, pair or member of the contract that is
// wrong.
func Encode(n *Network, c *contract.Contract, pairs []contract.Pair) ([]byte, error) {
	if len(pairs) < GoldenPairs {
		return nil, fmt.Errorf("export: %d pairs, want %d or more", len(pairs), GoldenPairs)
	}
	golden := &contract.Golden{Pairs: make([]contract.Pair, GoldenPairs)}
	for i := range golden.Pairs {
		golden.Pairs[i] = pairs[i*(len(pairs)-1)/(GoldenPairs-1)]
	}
	full := *c
	full.Normaliser, full.Golden = &n.Normaliser, golden
	if g := c.Group("policy"); g != nil {
		full.Groups = []rollout.Group{*g}
	}
	if err := full.Check(); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if err := n.check(full.Group("policy").Size(), full.ActDim()); err != nil {
		return nil, err
	}
	metadata, err := mjlabMetadata(&full)
	if err != nil {
		return nil, err
	}
	m := n.graph()
	m.Metadata = metadata
	if full.Training != nil {
		m.ProducerVersion = full.Training.Commit
	}
	data, err := contract.Embed(m.Append(nil), &full)
	switch {
	case err != nil:
		return nil, fmt.Errorf("export: %w", err)
	case len(data) > contract.MaxFile:
		return nil, fmt.Errorf("export: %d bytes, a policy file has at most %d", len(data), contract.MaxFile)
	}
	return data, nil
}

// check refuses a network that does not map obs numbers to act numbers.
func (n *Network) check(obs, act int) error {
	if n.Activation != ELU {
		return fmt.Errorf("export: activation %q, want %q", n.Activation, ELU)
	}
	if len(n.Layers) == 0 {
		return fmt.Errorf("export: the network has no layers")
	}
	width, from := obs, "the observation has"
	if n.Encoder != nil {
		var err error
		if width, err = n.Encoder.check(obs); err != nil {
			return err
		}
		from = "the newest frame and the encoder have"
	}
	for i := range n.Layers {
		l, name := &n.Layers[i], fmt.Sprintf("layer %d", i)
		if err := l.check(name, width, from); err != nil {
			return err
		}
		width, from = l.Out, name+" gives"
	}
	if width != act {
		return fmt.Errorf("export: the last layer gives %d numbers, joints are %d", width, act)
	}
	return nil
}

// check refuses a layer, called name, that does not take width numbers, which from says who
// gives.
func (l *Layer) check(name string, width int, from string) error {
	switch {
	case l.In != width:
		return fmt.Errorf("export: %s takes %d numbers, %s %d", name, l.In, from, width)
	case l.Out <= 0:
		return fmt.Errorf("export: %s gives %d numbers", name, l.Out)
	case len(l.Weight)%l.Out != 0 || len(l.Weight)/l.Out != l.In:
		return fmt.Errorf("export: %s: %d weights, want %d x %d", name, len(l.Weight), l.Out, l.In)
	case len(l.Bias) != l.Out:
		return fmt.Errorf("export: %s: %d biases, want %d", name, len(l.Bias), l.Out)
	}
	for k, x := range l.Weight {
		if x-x != 0 {
			return fmt.Errorf("export: %s: weight[%d, %d] is %v", name, k/l.In, k%l.In, x)
		}
	}
	for k, x := range l.Bias {
		if x-x != 0 {
			return fmt.Errorf("export: %s: bias[%d] is %v", name, k, x)
		}
	}
	return nil
}

// graph is the model without metadata. Weights have the names that the learner's
// checkpoints give them, of layers and activations counted together.
func (n *Network) graph() *modelproto.Model {
	b := builder{&modelproto.Model{IRVersion: IRVersion, Opset: Opset, Producer: Producer, Graph: "actor"}}
	at := "obs" // the tensor that the next node takes
	if z := n.Normaliser; z.InGraph {
		at = b.node("Sub", "centred", at, b.weight("normaliser.mean", z.Mean, int64(len(z.Mean))))
		at = b.node("Div", "normalised", at, b.weight("normaliser.std", z.Std, int64(len(z.Std))))
	}
	obs := n.Layers[0].In
	if n.Encoder != nil {
		obs = n.Encoder.Frames * n.Encoder.frame()
		at = n.Encoder.nodes(&b, at)
	}
	last := len(n.Layers) - 1
	for i := range n.Layers {
		out := fmt.Sprintf("linear_%d", i)
		if i == last {
			out = "actions"
		}
		at = b.gemm(fmt.Sprintf("actor.%d", 2*i), out, at, &n.Layers[i])
		if i < last {
			at = b.node("Elu", fmt.Sprintf("elu_%d", i), at)
		}
	}
	b.Inputs = []contract.Tensor{{Name: "obs", Type: contract.Float32, Dims: []int64{-1, int64(obs)}}}
	b.Outputs = []contract.Tensor{{Name: "actions", Type: contract.Float32, Dims: []int64{-1, int64(n.Layers[last].Out)}}}
	return b.Model
}

// builder adds to a model. Its methods give the name of what they added.
type builder struct{ *modelproto.Model }

// node adds an operator of one output.
func (b *builder) node(op, out string, in ...string) string {
	b.Nodes = append(b.Nodes, modelproto.Node{Op: op, In: in, Out: []string{out}})
	return out
}

// last is the operator that was added last, to be given attributes.
func (b *builder) last() *modelproto.Node { return &b.Nodes[len(b.Nodes)-1] }

func (b *builder) weight(name string, data []float32, dims ...int64) string {
	b.Weights = append(b.Weights, modelproto.Weight{Name: name, Data: data, Dims: dims})
	return name
}

// ints adds a constant of whole numbers.
func (b *builder) ints(name string, values ...int64) string {
	b.node("Constant", name)
	b.last().Lists = []modelproto.ListAttribute{{Name: "value_ints", Values: values}}
	return name
}

// gemm adds a layer whose weights are called name.
func (b *builder) gemm(name, out, in string, l *Layer) string {
	b.node("Gemm", out, in, b.weight(name+".weight", l.Weight, int64(l.Out), int64(l.In)), b.weight(name+".bias", l.Bias, int64(l.Out)))
	b.last().Ints = []modelproto.IntAttribute{{Name: "transB", Value: 1}}
	return out
}
