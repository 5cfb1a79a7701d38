package contract_test

import (
	"bytes"
	"testing"

	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/importer/known"
)

// Junk never panics; a model that is accepted can take a contract and is then
// read as the same model.
func FuzzModel(f *testing.F) {
	external := toyModel()
	external.Weights[0].File = "w.bin"
	external.Metadata = []contract.Metadata{{Key: "run_path", Value: "x"}}
	embedded, err := contract.Embed(toyModel().Bytes(), contracttest.Toy())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(toyModel().Bytes())
	f.Add(external.Bytes())
	f.Add(embedded)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := contract.ParseModel(data)
		if err != nil {
			return
		}
		if m.Opset < 1 || m.IRVersion < 1 {
			t.Fatalf("%+v", m)
		}
		out, err := contract.Embed(data, contracttest.Toy())
		if err != nil {
			return
		}
		again, err := contract.ParseModel(out)
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Inputs) != len(m.Inputs) || len(again.External) != len(m.External) {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}

// Junk never panics; a contract that is accepted comes back bit for bit.
func FuzzContract(f *testing.F) {
	for _, c := range []*contract.Contract{contracttest.Toy(), full()} {
		text, err := c.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, h := range known.Hashes() {
		text, _ := known.Lookup(h)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := contract.Decode(data)
		if err != nil {
			return
		}
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := contract.Decode(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if b, err := again.Encode(); err != nil || !bytes.Equal(b, text) {
			t.Fatalf("%v\n%s\n%s", err, text, b)
		}
		c.Z(make([]float32, c.Group("policy").Size()))
	})
}
