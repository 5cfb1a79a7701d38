package contract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// What can be wrong with the bytes of a model.
var (
	ErrNotONNX   = errors.New("not an ONNX model")
	ErrTruncated = errors.New("truncated")
	ErrDamaged   = errors.New("damaged")
)

// Model is what a policy file's ModelProto says, without its weights. Field
// numbers are those of onnx.proto (https://github.com/onnx/onnx).
type Model struct {
	IRVersion       int64
	Opset           int64 // of the default domain
	OtherOpsets     []Opset
	Producer        string
	ProducerVersion string
	Metadata        []Metadata
	Inputs, Outputs []Tensor
	External        []External // sorted by name
}

// Opset is the version of one operator domain.
type Opset struct {
	Domain  string
	Version int64
}

// Metadata is one entry of metadata_props.
type Metadata struct{ Key, Value string }

// Tensor is an input or output of the graph that is no weight.
type Tensor struct {
	Name string
	Type ElemType // 0: not a tensor, or not stated
	// Dims has -1 where the size is free. Nil: not stated.
	Dims []int64
}

// String is e.g. `obs float32 [1 48]`.
func (t Tensor) String() string {
	dims := make([]string, len(t.Dims))
	for i, d := range t.Dims {
		dims[i] = "?"
		if d >= 0 {
			dims[i] = fmt.Sprint(d)
		}
	}
	return fmt.Sprintf("%s %s [%s]", t.Name, t.Type, strings.Join(dims, " "))
}

// ElemType is onnx.TensorProto.DataType.
type ElemType int32

// Float32 is the element type of every policy's tensors.
const Float32 ElemType = 1

// elemTypes gives names and, where elements fill whole bytes, their size.
var elemTypes = map[ElemType]struct {
	name  string
	bytes int64
}{1: {"float32", 4}, 2: {"uint8", 1}, 3: {"int8", 1}, 4: {"uint16", 2}, 5: {"int16", 2}, 6: {"int32", 4}, 7: {"int64", 8},
	8: {"string", 0}, 9: {"bool", 1}, 10: {"float16", 2}, 11: {"float64", 8}, 12: {"uint32", 4}, 13: {"uint64", 8},
	14: {"complex64", 8}, 15: {"complex128", 16}, 16: {"bfloat16", 2}}

func (e ElemType) String() string {
	if t, ok := elemTypes[e]; ok {
		return t.name
	}
	if e == 0 {
		return "not a tensor"
	}
	return fmt.Sprintf("element type %d", int32(e))
}

// External is a second file that holds weights.
type External struct {
	Name  string // beside the policy file
	Bytes int64  // the least size that holds every weight
}

// Limits: a policy is far below each; a file above one is not worth its memory.
const (
	maxTensors  = 64      // inputs, and outputs
	maxDims     = 8       // of one of them
	maxMetadata = 1024    // entries
	maxWeights  = 1 << 16 // initializers
	maxExternal = 16      // files
	maxDepth    = 8       // graphs inside graphs
	maxName     = 4096    // bytes
)

// ParseModel walks a ModelProto. It reads every byte at most once a level of
// nesting, keeps no reference to data, and loads nothing.
func ParseModel(data []byte) (*Model, error) {
	if err := looksLikeONNX(data); err != nil {
		return nil, err
	}
	p := &parser{need: make(map[string]int64), weights: make(map[string]bool)}
	m := &p.model
	graphs := 0
	err := walk(data, "model", func(f field) (err error) {
		switch f.number {
		case 1:
			m.IRVersion, err = f.int64("ir_version")
		case 2:
			m.Producer, err = f.text("producer_name")
		case 3:
			m.ProducerVersion, err = f.text("producer_version")
		case 7:
			graphs++
			err = p.message(f, "graph", 0, p.mainGraph)
		case 8:
			err = p.opset(f)
		case 14:
			err = p.metadata(f)
		case 25: // functions: their nodes can hold constants
			err = p.message(f, "function", 0, func(f field, depth int) error {
				if f.number == 7 {
					return p.message(f, "node", depth, p.node)
				}
				return nil
			})
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case graphs != 1:
		return nil, fmt.Errorf("%w: %d graphs, want 1", ErrDamaged, graphs)
	case m.IRVersion < 1:
		return nil, fmt.Errorf("%w: ir_version is %d", ErrDamaged, m.IRVersion)
	case m.Opset < 1:
		return nil, fmt.Errorf("%w: no opset_import for the default domain", ErrDamaged)
	}
	// Before IR version 4 weights are listed as inputs too.
	m.Inputs = slices.DeleteFunc(m.Inputs, func(t Tensor) bool { return p.weights[t.Name] })
	for name, n := range p.need {
		m.External = append(m.External, External{Name: name, Bytes: n})
	}
	slices.SortFunc(m.External, func(a, b External) int { return strings.Compare(a.Name, b.Name) })
	return m, nil
}

// looksLikeONNX tells files of other kinds by their first bytes, with the word
// that helps most.
func looksLikeONNX(data []byte) error {
	if len(data) == 0 {
		return fmt.Errorf("%w: the file is empty", ErrNotONNX)
	}
	for _, k := range []struct{ magic, says string }{
		{"version https://git-lfs", "it is a Git LFS pointer: fetch the file itself"},
		{"PK\x03\x04", "it is a zip archive, as TorchScript and checkpoints are"},
		{"\x80\x02", "it is a Python pickle"},
		{"\x1f\x8b", "it is compressed by gzip"},
	} {
		if bytes.HasPrefix(data, []byte(k.magic)) {
			return fmt.Errorf("%w: %s", ErrNotONNX, k.says)
		}
	}
	n, t, size := protowire.ConsumeTag(data)
	want, known := map[protowire.Number]protowire.Type{
		1: protowire.VarintType, 2: protowire.BytesType, 3: protowire.BytesType, 4: protowire.BytesType,
		5: protowire.VarintType, 6: protowire.BytesType, 7: protowire.BytesType, 8: protowire.BytesType,
		14: protowire.BytesType, 20: protowire.BytesType, 25: protowire.BytesType, 26: protowire.BytesType}[n]
	if size < 0 || !known || want != t {
		return ErrNotONNX
	}
	return nil
}

// parser gathers a Model.
type parser struct {
	model   Model
	need    map[string]int64 // bytes wanted of each external file
	weights map[string]bool  // names of the main graph's initializers
}

// field is one field of a message: a number of varint type, or bytes.
type field struct {
	number protowire.Number
	kind   protowire.Type
	u      uint64
	b      []byte
}

// walk calls f for each field of a message and refuses bytes that are none.
func walk(msg []byte, what string, f func(field) error) error {
	for len(msg) > 0 {
		n, t, size := protowire.ConsumeTag(msg)
		if size < 0 {
			return wireError(what, "a field's tag", size, len(msg))
		}
		msg = msg[size:]
		fl := field{number: n, kind: t}
		switch t {
		case protowire.VarintType:
			fl.u, size = protowire.ConsumeVarint(msg)
		case protowire.BytesType:
			fl.b, size = protowire.ConsumeBytes(msg)
		case protowire.Fixed32Type, protowire.Fixed64Type:
			size = protowire.ConsumeFieldValue(n, t, msg)
		default: // ONNX has no groups
			return fmt.Errorf("%w: %s: field %d has wire type %d", ErrDamaged, what, n, t)
		}
		if size < 0 {
			where := fmt.Sprintf("field %d", n)
			if what == "model" && n == 7 {
				where = "the graph"
			}
			return wireError(what, where, size, len(msg))
		}
		msg = msg[size:]
		if err := f(fl); err != nil {
			return err
		}
	}
	return nil
}

// wireError tells a message that ends early from one that makes no sense.
func wireError(what, where string, code, left int) error {
	if errors.Is(protowire.ParseError(code), io.ErrUnexpectedEOF) {
		if what == "model" {
			return fmt.Errorf("%w: %s goes on past the end of the file, %d bytes are left", ErrTruncated, where, left)
		}
		return fmt.Errorf("%w: %s: %s goes on past its end", ErrDamaged, what, where)
	}
	return fmt.Errorf("%w: %s: %s makes no sense", ErrDamaged, what, where)
}

func (f field) int64(what string) (int64, error) {
	if f.kind != protowire.VarintType {
		return 0, fmt.Errorf("%w: %s has wire type %d, want a number", ErrDamaged, what, f.kind)
	}
	return int64(f.u), nil
}

func (f field) bytes(what string) ([]byte, error) {
	if f.kind != protowire.BytesType {
		return nil, fmt.Errorf("%w: %s has wire type %d, want bytes", ErrDamaged, what, f.kind)
	}
	return f.b, nil
}

func (f field) text(what string) (string, error) {
	b, err := f.bytes(what)
	if err != nil {
		return "", err
	}
	if len(b) > maxName {
		return "", fmt.Errorf("%w: %s of %d bytes, at most %d are read", ErrDamaged, what, len(b), maxName)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), nil
}

// message walks a field that is a message.
func (p *parser) message(f field, what string, depth int, each func(field, int) error) error {
	b, err := f.bytes(what)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("%w: graphs are nested more than %d deep", ErrDamaged, maxDepth)
	}
	return walk(b, what, func(f field) error { return each(f, depth) })
}

// mainGraph reads a field of the model's GraphProto.
func (p *parser) mainGraph(f field, depth int) error {
	switch f.number {
	case 11:
		return p.tensor(f, "input", &p.model.Inputs)
	case 12:
		return p.tensor(f, "output", &p.model.Outputs)
	}
	return p.graph(f, depth)
}

// graph reads the fields of a GraphProto that can hold weights.
func (p *parser) graph(f field, depth int) error {
	switch f.number {
	case 1:
		return p.message(f, "node", depth, p.node)
	case 5:
		return p.weight(f, depth == 0)
	case 15:
		return p.message(f, "sparse initializer", depth, p.sparse)
	}
	return nil
}

// node reads a field of a NodeProto: attributes can hold tensors and graphs.
func (p *parser) node(f field, depth int) error {
	if f.number != 5 {
		return nil
	}
	return p.message(f, "attribute", depth, func(f field, depth int) error {
		switch f.number {
		case 5, 10:
			return p.weight(f, false)
		case 6, 11:
			return p.message(f, "graph in a node", depth+1, p.graph)
		case 22, 23:
			return p.message(f, "sparse tensor in a node", depth, p.sparse)
		}
		return nil
	})
}

// sparse reads a field of a SparseTensorProto.
func (p *parser) sparse(f field, _ int) error {
	if f.number == 1 || f.number == 2 {
		return p.weight(f, false)
	}
	return nil
}

// weight reads a TensorProto for where its data lies.
func (p *parser) weight(f field, initializer bool) error {
	var name, location string
	var elem, offset, length int64
	count, external, stated := int64(1), false, false
	dim := func(d uint64) {
		if d >= 1<<40 || count >= 1<<40 { // larger than any file that is read
			count = 1 << 40
			return
		}
		count *= int64(d)
	}
	err := p.message(f, "tensor", 0, func(f field, _ int) (err error) {
		switch f.number {
		case 1: // dims, packed or one by one
			if f.kind == protowire.VarintType {
				dim(f.u)
				return nil
			}
			for b := f.b; len(b) > 0; {
				d, n := protowire.ConsumeVarint(b)
				if n < 0 {
					return fmt.Errorf("%w: tensor: dims make no sense", ErrDamaged)
				}
				dim(d)
				b = b[n:]
			}
		case 2:
			elem, err = f.int64("tensor data_type")
		case 8:
			name, err = f.text("tensor name")
		case 13:
			var key, value string
			if key, value, err = p.entry(f, "external_data", maxName); err != nil {
				return err
			}
			switch key {
			case "location":
				location = value
			case "offset":
				offset, err = decimal(key, value)
			case "length":
				length, err = decimal(key, value)
				stated = true
			}
		case 14:
			external = f.u == 1
		}
		return err
	})
	if err != nil {
		return err
	}
	if initializer {
		if len(p.weights) >= maxWeights {
			return fmt.Errorf("%w: more than %d weights", ErrDamaged, maxWeights)
		}
		p.weights[name] = true
	}
	if !external {
		return nil
	}
	// A file from a stranger must not make us open files elsewhere.
	if location == "" || !filepath.IsLocal(location) || strings.ContainsAny(location, "\\\x00") {
		return fmt.Errorf("%w: weight %q lies in file %q: want a name beside the policy file", ErrDamaged, name, location)
	}
	if !stated {
		length = min(count, 1<<40) * elemTypes[ElemType(elem)].bytes
	}
	location = filepath.Clean(location)
	if _, ok := p.need[location]; !ok && len(p.need) >= maxExternal {
		return fmt.Errorf("%w: weights lie in more than %d files", ErrDamaged, maxExternal)
	}
	p.need[location] = max(p.need[location], offset+length)
	return nil
}

// decimal reads a size of an external_data entry.
func decimal(key, s string) (int64, error) {
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n >= 1<<44 {
			return 0, fmt.Errorf("%w: external_data %s is %q", ErrDamaged, key, s)
		}
		n = n*10 + int64(c-'0')
	}
	return n, nil
}

// entry reads a StringStringEntryProto whose value has at most limit bytes.
func (p *parser) entry(f field, what string, limit int) (key, value string, err error) {
	err = p.message(f, what, 0, func(f field, _ int) (err error) {
		switch f.number {
		case 1:
			key, err = f.text(what + " key")
		case 2:
			var b []byte
			if b, err = f.bytes(what + " value"); err == nil && len(b) > limit {
				err = fmt.Errorf("%w: %s %q: value of %d bytes, at most %d are read", ErrDamaged, what, key, len(b), limit)
			}
			value = string(b)
		}
		return err
	})
	return key, value, err
}

func (p *parser) metadata(f field) error {
	key, value, err := p.entry(f, "metadata_props", MaxJSON)
	if err != nil {
		return err
	}
	if len(p.model.Metadata) >= maxMetadata {
		return fmt.Errorf("%w: more than %d metadata_props", ErrDamaged, maxMetadata)
	}
	for _, m := range p.model.Metadata {
		if m.Key == key {
			return fmt.Errorf("%w: metadata_props: %q twice", ErrDamaged, key)
		}
	}
	p.model.Metadata = append(p.model.Metadata, Metadata{key, value})
	return nil
}

func (p *parser) opset(f field) error {
	var o Opset
	err := p.message(f, "opset_import", 0, func(f field, _ int) (err error) {
		switch f.number {
		case 1:
			o.Domain, err = f.text("opset domain")
		case 2:
			o.Version, err = f.int64("opset version")
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case o.Domain == "" || o.Domain == "ai.onnx":
		p.model.Opset = o.Version
	case len(p.model.OtherOpsets) >= maxTensors:
		return fmt.Errorf("%w: more than %d operator domains", ErrDamaged, maxTensors)
	default:
		p.model.OtherOpsets = append(p.model.OtherOpsets, o)
	}
	return nil
}

// tensor reads a ValueInfoProto.
func (p *parser) tensor(f field, what string, into *[]Tensor) error {
	var t Tensor
	err := p.message(f, what, 0, func(f field, _ int) (err error) {
		switch f.number {
		case 1:
			t.Name, err = f.text(what + " name")
		case 2:
			err = p.message(f, what+" type", 0, func(f field, _ int) error {
				if f.number != 1 { // a sequence, map, sparse or optional: Type stays 0
					return nil
				}
				return p.message(f, what+" tensor_type", 0, func(f field, _ int) (err error) {
					switch f.number {
					case 1:
						var e int64
						e, err = f.int64(what + " elem_type")
						t.Type = ElemType(e)
					case 2:
						t.Dims = []int64{}
						err = p.message(f, what+" shape", 0, func(f field, _ int) error { return p.dim(f, what, &t) })
					}
					return err
				})
			})
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(*into) >= maxTensors+maxWeights {
		return fmt.Errorf("%w: more than %d %ss", ErrDamaged, maxTensors, what)
	}
	*into = append(*into, t)
	return nil
}

// dim reads one dimension of a TensorShapeProto.
func (p *parser) dim(f field, what string, t *Tensor) error {
	if f.number != 1 {
		return nil
	}
	if len(t.Dims) >= maxDims {
		return fmt.Errorf("%w: %s %s has more than %d dimensions", ErrDamaged, what, t.Name, maxDims)
	}
	d := int64(-1)
	err := p.message(f, what+" dimension", 0, func(f field, _ int) (err error) {
		if f.number == 1 {
			if d, err = f.int64(what + " dim_value"); err == nil && d < 0 {
				d = -1
			}
		}
		return err
	})
	t.Dims = append(t.Dims, d)
	return err
}
