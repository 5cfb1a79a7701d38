package contract_test

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

// toyModel computes with Toy's contract: 3 numbers in, 2 out.
func toyModel() *contracttest.Model {
	return contracttest.Linear(1, []float32{1, 0, 0, 1, 0, 0}, []float32{0, 0.5})
}

// The files of other systems, against what the onnx package read from them
// (../shared/policies/README.md).
func TestParseModelOfOthers(t *testing.T) {
	for _, test := range []struct {
		file           string
		ir, opset      int64
		producer       string
		input, output  string
		external       []contract.External
		metadataLength int
	}{
		{file: "go1_policy.onnx", ir: 6, opset: 11, producer: "tf2onnx 1.16.1 15c810", input: "obs float32 [1 48]", output: "continuous_actions float32 [1 12]"},
		{file: "bh_policy.onnx", ir: 6, opset: 11, producer: "tf2onnx 1.16.1 15c810", input: "obs float32 [1 52]", output: "continuous_actions float32 [1 12]"},
		{file: "unitree_rl_lab_g1_velocity/policy.onnx", ir: 6, opset: 11, producer: "pytorch 2.5.1", input: "obs float32 [1 480]", output: "actions float32 [1 29]"},
		{file: "unitree_rl_mjlab_g1_velocity/policy.onnx", ir: 10, opset: 18, producer: "pytorch 2.9.1+cu128", input: "obs float32 [1 96]", output: "actions float32 [1 29]",
			external: []contract.External{{Name: "policy.onnx.data", Bytes: 871168}}},
	} {
		t.Run(test.file, func(t *testing.T) {
			data, err := os.ReadFile(contracttest.Policy(t, test.file))
			if err != nil {
				t.Fatal(err)
			}
			m, err := contract.ParseModel(data)
			if err != nil {
				t.Fatal(err)
			}
			if m.IRVersion != test.ir || m.Opset != test.opset || m.Producer+" "+m.ProducerVersion != test.producer || len(m.Metadata) != 0 {
				t.Errorf("got %+v", m)
			}
			if len(m.Inputs) != 1 || m.Inputs[0].String() != test.input || len(m.Outputs) != 1 || m.Outputs[0].String() != test.output {
				t.Errorf("inputs %v, outputs %v", m.Inputs, m.Outputs)
			}
			if !reflect.DeepEqual(m.External, test.external) {
				t.Errorf("external %v, want %v", m.External, test.external)
			}
			if m.Batched() {
				t.Error("the batch is fixed at 1")
			}
		})
	}
}

func TestParseModel(t *testing.T) {
	m := toyModel()
	m.Metadata = []contract.Metadata{{Key: "joint_names", Value: "left,right"}}
	m.Weights[0].File, m.Weights[0].Offset = "w.bin", 128
	m.Weights[1].File = "w.bin"
	// As before IR version 4: a weight is listed among the inputs.
	m.Inputs = append(m.Inputs, contract.Tensor{Name: "bias", Type: contract.Float32, Dims: []int64{2}})
	got, err := contract.ParseModel(m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	want := &contract.Model{
		IRVersion: 8, Opset: 13, Producer: "contracttest", Metadata: m.Metadata,
		Inputs: m.Inputs[:1], Outputs: m.Outputs, External: []contract.External{{Name: "w.bin", Bytes: 128 + 4*6}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	free, err := contract.ParseModel(contracttest.Linear(contracttest.Free, make([]float32, 6), make([]float32, 2)).Bytes())
	if err != nil || !free.Batched() || free.Inputs[0].String() != "obs float32 [? 3]" {
		t.Errorf("free batch: %+v, %v", free, err)
	}
}

// Weights that an exporter hid in a node, in a graph inside a node or in a
// function are found too, and so is a size that only the shape tells.
func TestParseModelFindsHiddenWeights(t *testing.T) {
	tag := func(b []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	num := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	tensor := tag(nil, 1, []byte{3, 5}) // dims packed: 3 x 5
	tensor = num(tensor, 2, 1)
	tensor = tag(tensor, 13, tag(tag(nil, 1, []byte("location")), 2, []byte("hidden")))
	tensor = num(tensor, 14, 1)
	attribute := func(n protowire.Number, v []byte) []byte { return tag(nil, 1, tag(nil, 5, tag(nil, n, v))) } // node in a graph
	for name, extra := range map[string][]byte{
		"constant":       tag(nil, 7, attribute(5, tensor)),
		"subgraph":       tag(nil, 7, attribute(6, tag(nil, 5, tensor))),
		"sparse":         tag(nil, 7, tag(nil, 15, tag(nil, 1, tensor))),
		"function":       tag(nil, 25, tag(nil, 7, tag(nil, 5, tag(nil, 5, tensor)))),
		"sparse in node": tag(nil, 7, attribute(22, tag(nil, 2, tensor))),
	} {
		b := num(nil, 1, 8)
		b = append(b, extra...)
		if name == "function" {
			b = tag(b, 7, nil)
		}
		b = tag(b, 8, num(nil, 2, 13))
		m, err := contract.ParseModel(b)
		if err != nil || !reflect.DeepEqual(m.External, []contract.External{{Name: "hidden", Bytes: 60}}) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	deep := tag(nil, 5, tensor)
	for range 20 {
		deep = attribute(6, deep)
	}
	b := tag(tag(num(nil, 1, 8), 7, deep), 8, num(nil, 2, 13))
	if _, err := contract.ParseModel(b); !errors.Is(err, contract.ErrDamaged) || !strings.Contains(err.Error(), "nested") {
		t.Errorf("20 graphs deep: %v", err)
	}
}

func TestParseModelRefuses(t *testing.T) {
	good := toyModel().Bytes()
	external := func(location string) []byte {
		m := toyModel()
		m.Weights[0].File = location
		return m.Bytes()
	}
	twice := toyModel()
	twice.Metadata = []contract.Metadata{{Key: "k", Value: "1"}, {Key: "k", Value: "2"}}
	for _, test := range []struct {
		name string
		data []byte
		is   error
		want string
	}{
		{"empty", nil, contract.ErrNotONNX, "empty"},
		{"text", []byte("hello, world"), contract.ErrNotONNX, "not an ONNX model"},
		{"HTML", []byte("<!DOCTYPE html>"), contract.ErrNotONNX, ""},
		{"JSON", []byte(`{"version": 1}`), contract.ErrNotONNX, ""},
		{"zip", []byte("PK\x03\x04......"), contract.ErrNotONNX, "TorchScript"},
		{"pickle", []byte("\x80\x02}q"), contract.ErrNotONNX, "pickle"},
		{"gzip", []byte("\x1f\x8b\x08\x00"), contract.ErrNotONNX, "gzip"},
		{"LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\n"), contract.ErrNotONNX, "LFS"},
		{"zeros", make([]byte, 100), contract.ErrNotONNX, ""},
		{"half", good[:len(good)/2], contract.ErrTruncated, "the graph goes on past the end"},
		{"graph alone", good[:2], contract.ErrDamaged, "0 graphs"},
		{"two graphs", append(bytes.Clone(good), 7<<3|2, 0), contract.ErrDamaged, "2 graphs"},
		{"no opset", []byte{1 << 3, 8, 7<<3 | 2, 0}, contract.ErrDamaged, "no opset_import"},
		{"no version", append([]byte{1 << 3, 0}, good[2:]...), contract.ErrDamaged, "ir_version is 0"},
		{"metadata is a number", append(bytes.Clone(good), 14<<3, 5), contract.ErrDamaged, "metadata_props has wire type 0"},
		{"metadata twice", twice.Bytes(), contract.ErrDamaged, `"k" twice`},
		{"weights elsewhere", external("../../etc/passwd"), contract.ErrDamaged, "beside the policy"},
		{"weights at the root", external("/etc/passwd"), contract.ErrDamaged, "beside the policy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := contract.ParseModel(test.data)
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v, %v, want %q in it", m, err, test.want)
			}
		})
	}
}

// Wherever the file ends, it is refused and nothing panics.
func TestParseModelCutAnywhere(t *testing.T) {
	good := toyModel().Bytes()
	for n := range good {
		m, err := contract.ParseModel(good[:n])
		if err == nil {
			t.Fatalf("%d of %d bytes: accepted as %+v", n, len(good), m)
		}
	}
}

func TestEmbed(t *testing.T) {
	m := toyModel()
	m.Metadata = []contract.Metadata{{Key: "joint_names", Value: "left,right"}, {Key: contract.Key, Value: "an old one"}}
	once, err := contract.Embed(m.Bytes(), contracttest.Toy())
	if err != nil {
		t.Fatal(err)
	}
	twice, err := contract.Embed(once, contracttest.Toy())
	if err != nil || !bytes.Equal(once, twice) {
		t.Errorf("embedded again it differs (%v)", err)
	}
	got, err := contract.ParseModel(once)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Metadata) != 2 || got.Metadata[0] != m.Metadata[0] || got.Metadata[1].Key != contract.Key {
		t.Errorf("metadata %+v", got.Metadata)
	}
	c, err := contract.Decode([]byte(got.Metadata[1].Value))
	if err != nil || !reflect.DeepEqual(c.Spec, contracttest.Toy().Spec) {
		t.Errorf("%+v, %v", c, err)
	}
	m.Metadata = m.Metadata[:1]
	if !bytes.HasPrefix(once, m.Bytes()) {
		t.Error("the other fields changed")
	}
	wide := contracttest.Linear(1, make([]float32, 8), make([]float32, 2))
	if _, err := contract.Embed(wide.Bytes(), contracttest.Toy()); !errors.Is(err, contract.ErrMismatch) {
		t.Errorf("into a wider graph: %v", err)
	}
	if _, err := contract.Embed([]byte("no model"), contracttest.Toy()); !errors.Is(err, contract.ErrNotONNX) {
		t.Errorf("into no model: %v", err)
	}
	bad := contracttest.Toy()
	bad.Kp = nil
	if _, err := contract.Embed(m.Bytes(), bad); err == nil {
		t.Error("a bad contract was embedded")
	}
}
