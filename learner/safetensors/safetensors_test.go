package safetensors

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// some has an array of each type, a single number and an empty one.
func some() map[string]Tensor {
	return map[string]Tensor{
		"weight": {Shape: []int{2, 3}, F32: []float32{1, -2, 0.5, float32(math.Inf(1)), 0, 3e-40}},
		"bits":   {Shape: []int{3}, F16: []uint16{0, 0x3c00, 0xffff}},
		"order":  {Shape: []int{2, 1, 2}, I32: []int32{-1, 0, 1, math.MaxInt32}},
		"one":    {Shape: []int{}, F32: []float32{7}},
		"none":   {Shape: []int{0, 4}, F16: []uint16{}},
	}
}

func TestDecodeOfEncode(t *testing.T) {
	file, err := Encode(some())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(some(), got); diff != "" {
		t.Error(diff)
	}
	if begin := 8 + binary.LittleEndian.Uint64(file); begin%8 != 0 {
		t.Errorf("arrays begin at byte %d", begin)
	}
}

// written is a file of this header and these bytes of arrays.
func written(header, data string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+data...)
}

// What Python's library writes: notes, spaces at the header's end, any order.
func TestDecodeForeign(t *testing.T) {
	got, err := Decode(written(`{"__metadata__":{"format":"np"},"b":{"dtype":"I32","shape":[1],"data_offsets":[2,6]},`+
		`"a":{"dtype":"F16","shape":[1,1],"data_offsets":[0,2]}}   `, "\x00\x3c\x02\x01\x00\x00"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Tensor{"a": {Shape: []int{1, 1}, F16: []uint16{0x3c00}}, "b": {Shape: []int{1}, I32: []int32{258}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRefuses(t *testing.T) {
	a := func(kind, shape, offsets string) string {
		return `{"a":{"dtype":"` + kind + `","shape":` + shape + `,"data_offsets":` + offsets + `}}`
	}
	for _, test := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "0 bytes, want 8"},
		{"header longer than the file", binary.LittleEndian.AppendUint64(nil, 100), "header of 100 bytes in a file of 8"},
		{"header of 16 EB", binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "header of 18446744073709551615 bytes"},
		{"no JSON", written("words", ""), "header: "},
		{"two of a name", written(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, ""), "header: "},
		{"unknown member", written(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"x":1}}`, ""), `a: `},
		{"type", written(a("F64", "[1]", "[0,8]"), "12345678"), `a: type "F64", want F32, F16 or I32`},
		{"shape", written(a("F32", "[3]", "[0,8]"), "12345678"), "a: 8 bytes for F32 of shape [3]"},
		{"negative", written(a("F32", "[-2,-1]", "[0,8]"), "12345678"), "a: 8 bytes for F32 of shape [-2 -1]"},
		{"overflow", written(a("F32", "[2147483647,2147483647,2147483647,2147483647]", "[0,8]"), "12345678"), "a: 8 bytes for F32"},
		{"dimensions", written(a("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "1234"), "a: 4 bytes for F32"},
		{"offset behind the end", written(a("F32", "[2]", "[0,8]"), "1234"), "a lies at [0 8] of 4 bytes"},
		{"backwards", written(a("F32", "[0]", "[0,-4]"), ""), "a lies at [0 -4]"},
		{"gap", written(a("F32", "[1]", "[4,8]"), "12345678"), "a lies at [4 8] of 8 bytes, want it to begin at 0"},
		{"bytes left", written(a("F32", "[1]", "[0,4]"), "12345678"), "8 bytes of arrays, want 4"},
	} {
		if got, err := Decode(test.file); err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "safetensors: ") {
			t.Errorf("%s: %v, %v, want %q", test.name, got, err, test.want)
		}
	}
	for name, tensors := range map[string]map[string]Tensor{
		"shape":    {"a": {Shape: []int{2}, F32: []float32{1}}},
		"metadata": {"__metadata__": {Shape: []int{1}, F32: []float32{1}}},
		"name":     {"\xff": {Shape: []int{1}, F32: []float32{1}}},
	} {
		if _, err := Encode(tensors); err == nil {
			t.Errorf("Encode: %s: no error", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	file, err := Encode(some())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add(written(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "1234"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tensors, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Encode(tensors)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		third, err := Encode(back)
		if err != nil || !bytes.Equal(again, third) {
			t.Errorf("%v: read and written again it is another file", err)
		}
	})
}
