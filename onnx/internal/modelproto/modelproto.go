// Package modelproto writes ONNX models: the ModelProto of onnx.proto
// (https://github.com/onnx/onnx), as far as a policy has need of it.
//
//	nodes, weights, tensors, metadata ─▶ Model.Append ─▶ the bytes of a .onnx file
//
// onnx/contract reads such files; onnx/export writes the learner's policies with
// this package, and onnx/contract/contracttest the small models of tests.
package modelproto

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/openclaw-rl/openclaw/onnx/contract"
)

// Model is a model to be written. Field numbers below are those of onnx.proto.
type Model struct {
	IRVersion       int64
	Opset           int64 // of the default domain
	Producer        string
	ProducerVersion string // "": not stated
	Graph           string // its name; ONNX wants one
	Inputs, Outputs []contract.Tensor
	Nodes           []Node // each after those whose outputs it takes
	Weights         []Weight
	Metadata        []contract.Metadata
}

// Node is one operator. Attributes that are not listed have their default value.
type Node struct {
	Op      string
	In, Out []string
	Ints    []IntAttribute
	Lists   []ListAttribute
}

// IntAttribute is an attribute of type INT.
type IntAttribute struct {
	Name  string
	Value int64
}

// ListAttribute is an attribute of type INTS.
type ListAttribute struct {
	Name   string
	Values []int64
}

// Weight is a float32 initializer. With a File its numbers lie there, at Offset.
type Weight struct {
	Name   string
	Dims   []int64
	Data   []float32 // row-major
	File   string
	Offset int64 // bytes
}

// Append appends the model's bytes to b. It checks nothing.
func (m *Model) Append(b []byte) []byte {
	b = number(b, 1, uint64(m.IRVersion))
	b = text(b, 2, m.Producer)
	if m.ProducerVersion != "" {
		b = text(b, 3, m.ProducerVersion)
	}
	b = message(b, 7, m.graph())
	b = message(b, 8, number(nil, 2, uint64(m.Opset)))
	for _, e := range m.Metadata {
		b = message(b, 14, text(text(nil, 1, e.Key), 2, e.Value))
	}
	return b
}

// graph is the GraphProto.
func (m *Model) graph() (b []byte) {
	for i := range m.Nodes {
		b = message(b, 1, m.Nodes[i].bytes())
	}
	b = text(b, 2, m.Graph)
	for i := range m.Weights {
		b = message(b, 5, m.Weights[i].bytes())
	}
	for _, t := range m.Inputs {
		b = message(b, 11, valueInfo(t))
	}
	for _, t := range m.Outputs {
		b = message(b, 12, valueInfo(t))
	}
	return b
}

// bytes is the NodeProto.
func (n *Node) bytes() (b []byte) {
	for _, s := range n.In {
		b = text(b, 1, s)
	}
	for _, s := range n.Out {
		b = text(b, 2, s)
	}
	b = text(b, 4, n.Op)
	for _, a := range n.Ints {
		const typeInt = 2
		b = message(b, 5, number(number(text(nil, 1, a.Name), 3, uint64(a.Value)), 20, typeInt))
	}
	for _, a := range n.Lists {
		const typeInts = 7
		list := text(nil, 1, a.Name)
		for _, v := range a.Values {
			list = number(list, 8, uint64(v))
		}
		b = message(b, 5, number(list, 20, typeInts))
	}
	return b
}

// bytes is the TensorProto.
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

// valueInfo is the ValueInfoProto of a tensor. A dimension below 0 gets a name,
// which says that its size is free; the same place always gets the same name, so
// that input and output are known to have the same number of rows.
func valueInfo(t contract.Tensor) []byte {
	var shape []byte
	for i, d := range t.Dims {
		dim := number(nil, 1, uint64(d))
		switch {
		case d < 0 && i == 0:
			dim = text(nil, 2, "batch")
		case d < 0:
			dim = text(nil, 2, fmt.Sprintf("d%d", i))
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
