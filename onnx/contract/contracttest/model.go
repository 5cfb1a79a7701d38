package contracttest

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
)

// Model is a small ONNX model to be written.
type Model struct {
	Inputs, Outputs []contract.Tensor
	Nodes           []Node
	Weights         []Weight
	Metadata        []contract.Metadata
}

// Node is one operator with its default attributes.
type Node struct {
	Op      string
	In, Out []string
}

// Weight is a float32 initializer. With a File its numbers lie there, at Offset.
type Weight struct {
	Name   string
	Dims   []int64
	Data   []float32
	File   string
	Offset int64
}

// Free is a dimension whose size is not fixed.
const Free = -1

// Linear is actions = obs * w + bias, for batch rows (Free: any). w is (obs,
// actions), row-major; len(bias) is the number of actions.
func Linear(batch int64, w, bias []float32) *Model {
	acts := int64(len(bias))
	obs := int64(len(w)) / acts
	return &Model{
		Inputs:  []contract.Tensor{{Name: "obs", Type: contract.Float32, Dims: []int64{batch, obs}}},
		Outputs: []contract.Tensor{{Name: "actions", Type: contract.Float32, Dims: []int64{batch, acts}}},
		Nodes:   []Node{{Op: "Gemm", In: []string{"obs", "w", "bias"}, Out: []string{"actions"}}},
		Weights: []Weight{{Name: "w", Dims: []int64{obs, acts}, Data: w}, {Name: "bias", Dims: []int64{acts}, Data: bias}},
	}
}

// Toy is a contract for a robot of two joints whose observation has 3 numbers:
// "tilt" (1) and "joint_pos" (2). It has mean and std and no golden pairs.
func Toy() *contract.Contract {
	return &contract.Contract{
		Version: contract.Version,
		Name:    "toy",
		Spec: rollout.Spec{
			Robot: "toy", Joints: []string{"left", "right"}, Home: []float32{0.1, -0.1},
			Action: rollout.Action{Scale: []float32{0.5, 0.25}}, Kp: []float32{20, 20}, Kd: []float32{0.5, 0.5},
			PolicyPeriodNs: 20e6, ControlPeriodNs: 2e6,
			Command: rollout.Command{Vx: [2]float32{-1, 1}},
			Groups: []rollout.Group{{Name: "policy", Layout: rollout.ByTerm, Terms: []rollout.Term{
				{Name: "tilt", Size: 1, Scale: 1, History: 1, Sensed: true},
				{Name: "joint_pos", Size: 2, Scale: 1, History: 1, Sensed: true},
			}}},
		},
		Normaliser: &contract.Normaliser{Mean: []float32{0, 1, 2}, Std: []float32{1, 0.5, 0.1}},
	}
}

// Bytes writes the model: IR version 8, opset 13.
func (m *Model) Bytes() []byte {
	var graph []byte
	for _, n := range m.Nodes {
		var b []byte
		for _, s := range n.In {
			b = text(b, 1, s)
		}
		for _, s := range n.Out {
			b = text(b, 2, s)
		}
		graph = message(graph, 1, text(b, 4, n.Op))
	}
	graph = text(graph, 2, "toy")
	for _, w := range m.Weights {
		graph = message(graph, 5, w.bytes())
	}
	for _, t := range m.Inputs {
		graph = message(graph, 11, valueInfo(t))
	}
	for _, t := range m.Outputs {
		graph = message(graph, 12, valueInfo(t))
	}
	b := number(nil, 1, 8)
	b = text(b, 2, "contracttest")
	b = message(b, 7, graph)
	b = message(b, 8, number(nil, 2, 13))
	for _, e := range m.Metadata {
		b = message(b, 14, text(text(nil, 1, e.Key), 2, e.Value))
	}
	return b
}

func (w *Weight) bytes() (b []byte) {
	for _, d := range w.Dims {
		b = number(b, 1, uint64(d))
	}
	b = number(b, 2, uint64(contract.Float32))
	b = text(b, 8, w.Name)
	if w.File == "" {
		return message(b, 9, Float32s(w.Data))
	}
	for _, e := range [][2]string{{"location", w.File}, {"offset", fmt.Sprint(w.Offset)}, {"length", fmt.Sprint(4 * len(w.Data))}} {
		b = message(b, 13, text(text(nil, 1, e[0]), 2, e[1]))
	}
	return number(b, 14, 1)
}

// Float32s is how ONNX stores numbers, in the model or in a file beside it.
func Float32s(v []float32) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func valueInfo(t contract.Tensor) []byte {
	var shape []byte
	for i, d := range t.Dims {
		dim := text(nil, 2, fmt.Sprintf("d%d", i)) // a name: the size is free
		if d != Free {
			dim = number(nil, 1, uint64(d))
		}
		shape = message(shape, 1, dim)
	}
	tensor := message(number(nil, 1, uint64(t.Type)), 2, shape)
	return message(text(nil, 1, t.Name), 2, message(nil, 1, tensor))
}

func number(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func text(b []byte, n protowire.Number, s string) []byte { return message(b, n, []byte(s)) }

func message(b []byte, n protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), m)
}
