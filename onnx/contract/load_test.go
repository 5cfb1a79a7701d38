package contract_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

// write puts files into a new folder and gives its path.
func write(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func toyJSON(t *testing.T) []byte {
	t.Helper()
	text, err := contracttest.Toy().Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestLoadFindsTheContract(t *testing.T) {
	embedded, err := contract.Embed(toyModel().Bytes(), contracttest.Toy())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		files map[string][]byte
		want  contract.Source
	}{
		{"metadata", map[string][]byte{"p.onnx": embedded}, contract.FromMetadata},
		{"beside", map[string][]byte{"p.onnx": toyModel().Bytes(), "p.onnx.contract.json": toyJSON(t)}, contract.FromBeside},
		{"both", map[string][]byte{"p.onnx": embedded, "p.onnx.contract.json": []byte("not read")}, contract.FromMetadata},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := contract.Load(filepath.Join(write(t, test.files), "p.onnx"))
			if err != nil {
				t.Fatal(err)
			}
			if f.Source != test.want || f.Contract.Robot != "toy" || len(f.SHA256) != 64 || !bytes.Equal(f.Bytes, test.files["p.onnx"]) {
				t.Errorf("got %s, %s, %s", f.Source, f.Contract.Robot, f.SHA256)
			}
		})
	}
	t.Run("known", func(t *testing.T) {
		f, err := contract.Load(contracttest.Policy(t, "go1_policy.onnx"))
		if err != nil {
			t.Fatal(err)
		}
		if f.Source != contract.FromKnown || f.SHA256 != playground {
			t.Errorf("from %s, sha256 %s", f.Source, f.SHA256)
		}
	})
}

func TestLoadRefuses(t *testing.T) {
	model := toyModel().Bytes()
	type files = map[string][]byte
	beside := func(m *contracttest.Model) files {
		return files{"p.onnx": m.Bytes(), "p.onnx.contract.json": toyJSON(t)}
	}
	inMetadata := func(text string) files {
		m := toyModel()
		m.Metadata = []contract.Metadata{{Key: contract.Key, Value: text}}
		// The contract beside is right, and must not save the one in the file.
		return files{"p.onnx": m.Bytes(), "p.onnx.contract.json": toyJSON(t)}
	}
	tensor := func(edit func(m *contracttest.Model)) files {
		m := toyModel()
		edit(m)
		return beside(m)
	}
	for _, test := range []struct {
		name  string
		files files
		is    error
		want  []string
	}{
		{"missing", files{}, fs.ErrNotExist, []string{"p.onnx"}},
		{"empty", files{"p.onnx": nil}, contract.ErrNotONNX, []string{"p.onnx", "empty"}},
		{"not ONNX", files{"p.onnx": []byte("hello")}, contract.ErrNotONNX, []string{"p.onnx"}},
		{"truncated", files{"p.onnx": model[:len(model)-20]}, contract.ErrTruncated, []string{"p.onnx"}},
		{"no contract", files{"p.onnx": model}, contract.ErrNoContract, []string{"openclaw.contract", "p.onnx.contract.json", "sha256"}},
		{"metadata not JSON", inMetadata("yes"), nil, []string{"metadata openclaw.contract", "JSON"}},
		{"metadata of the wrong type", inMetadata("[1]"), nil, []string{"metadata openclaw.contract", "JSON"}},
		{"metadata empty", inMetadata(""), nil, []string{"metadata openclaw.contract", "JSON"}},
		{"beside not JSON", files{"p.onnx": model, "p.onnx.contract.json": []byte("{")}, nil, []string{"p.onnx.contract.json", "JSON"}},
		{"observation wider", beside(contracttest.Linear(1, make([]float32, 8), make([]float32, 2))), contract.ErrMismatch,
			[]string{"input obs is 4 wide, the observation has 3", "beside"}},
		{"fewer joints", beside(contracttest.Linear(1, make([]float32, 3), make([]float32, 1))), contract.ErrMismatch,
			[]string{"output actions is 1 wide, joints are 2"}},
		{"batch 4", beside(contracttest.Linear(4, make([]float32, 6), make([]float32, 2))), contract.ErrMismatch, []string{"batch 4, want 1 or free"}},
		{"float64", tensor(func(m *contracttest.Model) { m.Inputs[0].Type = 11 }), contract.ErrMismatch, []string{"input obs is float64, want float32"}},
		{"one dimension", tensor(func(m *contracttest.Model) { m.Outputs[0].Dims = []int64{2} }), contract.ErrMismatch, []string{"output actions", "1 dimensions"}},
		{"free width", tensor(func(m *contracttest.Model) { m.Inputs[0].Dims[1] = contracttest.Free }), contract.ErrMismatch, []string{"its width is free"}},
		{"recurrent", tensor(func(m *contracttest.Model) {
			m.Inputs = append(m.Inputs, contract.Tensor{Name: "h_in", Type: contract.Float32, Dims: []int64{1, 1, 8}})
		}), contract.ErrMismatch, []string{`["obs" "h_in"]`, "recurrent"}},
		{"weights missing", tensor(func(m *contracttest.Model) { m.Weights[0].File = "p.data" }), contract.ErrExternal, []string{"needs p.data, 24 bytes"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := contract.Load(filepath.Join(write(t, test.files), "p.onnx"))
			if err == nil {
				t.Fatalf("loaded %+v", f)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v is not %v", err, test.is)
			}
			for _, w := range test.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v: want %q in it", err, w)
				}
			}
		})
	}
}

func TestLoadOnlyReadsRegularFiles(t *testing.T) {
	dir := write(t, nil)
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	f, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(contract.MaxFile+1), f.Close()); err != nil { // sparse: takes no room
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "is a folder", fifo: "not a regular file", "/dev/null": "not a regular file", large: "at most"} {
		if _, err := contract.Load(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q in it", path, err, want)
		}
	}
}

// Weights in a second file: whole, cut short, and a folder of that name.
func TestLoadWeightsBeside(t *testing.T) {
	m := toyModel()
	m.Weights[0].File = "p.data"
	embedded, err := contract.Embed(m.Bytes(), contracttest.Toy())
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string][]byte{"p.onnx": embedded, "p.data": contracttest.Float32s(m.Weights[0].Data)})
	path, data := filepath.Join(dir, "p.onnx"), filepath.Join(dir, "p.data")
	if _, err := contract.Load(path); err != nil {
		t.Errorf("whole: %v", err)
	}
	if err := os.Truncate(data, 23); err != nil {
		t.Fatal(err)
	}
	if _, err := contract.Load(path); !errors.Is(err, contract.ErrExternal) || !strings.Contains(err.Error(), "needs p.data, 24 bytes: it has 23") {
		t.Errorf("cut short: %v", err)
	}
	if err := errors.Join(os.Remove(data), os.Mkdir(data, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := contract.Load(path); !errors.Is(err, contract.ErrExternal) || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// Row 6 of ../shared/cases.md: only policy.onnx was copied.
func TestWeightsLeftBehind(t *testing.T) {
	data, err := os.ReadFile(contracttest.Policy(t, "unitree_rl_mjlab_g1_velocity/policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := contract.Read(filepath.Join(write(t, map[string][]byte{"policy.onnx": data}), "policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckExternal(); !errors.Is(err, contract.ErrExternal) || !strings.Contains(err.Error(), "needs policy.onnx.data, 871168 bytes") {
		t.Error(err)
	}
	f, err = contract.Read(contracttest.Policy(t, "unitree_rl_mjlab_g1_velocity/policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckExternal(); err != nil {
		t.Error(err)
	}
}

// Another robot's policy whose output has the right width: refused for having no
// contract, and by its input width if somebody gives it the Go1's.
func TestWrongRobot(t *testing.T) {
	path := contracttest.Policy(t, "bh_policy.onnx")
	if _, err := contract.Load(path); !errors.Is(err, contract.ErrNoContract) {
		t.Error(err)
	}
	bh, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	go1, err := contract.Load(contracttest.Policy(t, "go1_policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := go1.Contract.Encode()
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string][]byte{"p.onnx": bh, "p.onnx.contract.json": text})
	_, err = contract.Load(filepath.Join(dir, "p.onnx"))
	if !errors.Is(err, contract.ErrMismatch) || !strings.Contains(err.Error(), "input obs is 52 wide, the observation has 48") {
		t.Error(err)
	}
}

// One flipped bit makes another file: the known contract is not used for it.
func TestFlippedBit(t *testing.T) {
	data, err := os.ReadFile(contracttest.Policy(t, "go1_policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	path := filepath.Join(write(t, map[string][]byte{"go1_policy.onnx": data}), "go1_policy.onnx")
	if _, err := contract.Load(path); !errors.Is(err, contract.ErrNoContract) {
		t.Error(err)
	}
}
