// Package safetensors reads and writes files of named arrays in the format of Hugging Face's
// library of that name, which Python's frameworks share:
//
//	length of header (uint64) | header (JSON) | the arrays' bytes, without a gap
//	{"actor.0.weight": {"dtype": "F32", "shape": [128, 47], "data_offsets": [0, 24064]}, ...}
//
// Numbers are little-endian, arrays row-major. Of the format's types those that learning here
// has: F32, F16 (as bits) and I32. clawlearn bench takes weights and samples so, and gives
// weights back: learner/peers compares them with another learner's.
package safetensors

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Tensor is an array. One of the slices holds it, and so tells its type: F32, F16 or I32.
type Tensor struct {
	Shape []int // row-major
	F32   []float32
	F16   []uint16 // bits
	I32   []int32
}

// entry is what the header says of an array.
type entry struct {
	Type    string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"` // begin and end in the bytes after the header
}

const (
	metadata  = "__metadata__" // the header's notes, which are no array
	maxHeader = 1 << 20        // bytes
	maxDims   = 8
)

// Encode is a file of the arrays, in the order of their names.
func Encode(tensors map[string]Tensor) ([]byte, error) {
	header, data := map[string]entry{}, []byte{}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		begin := int64(len(data))
		var kind string
		var size int
		switch {
		case t.F32 != nil:
			kind, size = "F32", len(t.F32)
			data, _ = binary.Append(data, binary.LittleEndian, t.F32)
		case t.F16 != nil:
			kind, size = "F16", len(t.F16)
			data, _ = binary.Append(data, binary.LittleEndian, t.F16)
		default:
			kind, size = "I32", len(t.I32)
			data, _ = binary.Append(data, binary.LittleEndian, t.I32)
		}
		if n, ok := count(t.Shape); !ok || n != int64(size) || name == metadata {
			return nil, fmt.Errorf("safetensors: %s of shape %v: %d numbers", name, t.Shape, size)
		}
		header[name] = entry{kind, append([]int{}, t.Shape...), [2]int64{begin, int64(len(data))}}
	}
	text, err := json.Marshal(header, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	for len(text)%8 != 0 { // the arrays begin where numbers may
		text = append(text, ' ')
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(file, text...), data...), nil
}

// Decode reads a file. It refuses what is damaged, shortened or of a type that it does not know,
// naming it, and makes no more than twice the file's size of it.
func Decode(file []byte) (map[string]Tensor, error) {
	if len(file) < 8 {
		return nil, fmt.Errorf("safetensors: %d bytes, want 8 at least", len(file))
	}
	length := binary.LittleEndian.Uint64(file)
	if length > min(maxHeader, uint64(len(file)-8)) {
		return nil, fmt.Errorf("safetensors: header of %d bytes in a file of %d, want %d at most", length, len(file), maxHeader)
	}
	var raw map[string]jsontext.Value
	if err := json.Unmarshal(file[8:8+length], &raw); err != nil {
		return nil, fmt.Errorf("safetensors: header: %w", err)
	}
	delete(raw, metadata)
	entries := make(map[string]entry, len(raw))
	for name, text := range raw {
		var e entry
		if err := json.Unmarshal(text, &e, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("safetensors: header: %s: %w", name, err)
		}
		entries[name] = e
	}
	data := file[8+length:]
	names := slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		x, y := entries[a].Offsets, entries[b].Offsets
		return slices.Compare(x[:], y[:])
	})
	tensors, end := make(map[string]Tensor, len(names)), int64(0)
	for _, name := range names {
		e := entries[name]
		if e.Offsets[0] != end || e.Offsets[1] < end || e.Offsets[1] > int64(len(data)) {
			return nil, fmt.Errorf("safetensors: %s lies at %v of %d bytes, want it to begin at %d", name, e.Offsets, len(data), end)
		}
		t, err := e.read(data[end:e.Offsets[1]])
		if err != nil {
			return nil, fmt.Errorf("safetensors: %s: %w", name, err)
		}
		tensors[name], end = t, e.Offsets[1]
	}
	if end != int64(len(data)) {
		return nil, fmt.Errorf("safetensors: %d bytes of arrays, want %d", len(data), end)
	}
	return tensors, nil
}

// read is the array that lies in data.
func (e *entry) read(data []byte) (t Tensor, err error) {
	size, known := map[string]int64{"F32": 4, "F16": 2, "I32": 4}[e.Type]
	if !known {
		return t, fmt.Errorf("type %q, want F32, F16 or I32", e.Type)
	}
	n, ok := count(e.Shape)
	if !ok || n > math.MaxInt64/size || n*size != int64(len(data)) {
		return t, fmt.Errorf("%d bytes for %s of shape %v", len(data), e.Type, e.Shape)
	}
	t.Shape = e.Shape
	var into any
	switch e.Type {
	case "F32":
		t.F32 = make([]float32, n)
		into = t.F32
	case "F16":
		t.F16 = make([]uint16, n)
		into = t.F16
	case "I32":
		t.I32 = make([]int32, n)
		into = t.I32
	}
	_, err = binary.Decode(data, binary.LittleEndian, into)
	return t, err
}

// count is how many numbers an array of this shape has; false for a shape that cannot be.
func count(shape []int) (n int64, ok bool) {
	if len(shape) > maxDims {
		return 0, false
	}
	n = 1
	for _, d := range shape {
		if d < 0 || d > math.MaxInt32 || n > math.MaxInt32 {
			return 0, false
		}
		n *= int64(d)
	}
	return n, true
}
