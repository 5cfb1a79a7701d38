package session_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/session"
)

var _ rollout.Policy = (*session.Policy)(nil)

// toy computes actions = (tilt, joint_pos[0] + 0.5) from Toy's observation.
func toy(batch int64) *contracttest.Model {
	return contracttest.Linear(batch, []float32{1, 0, 0, 1, 0, 0}, []float32{0, 0.5})
}

// load writes a model with a contract beside it and loads both.
func load(t testing.TB, model []byte, c *contract.Contract) *contract.File {
	t.Helper()
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "toy.onnx")
	if err := errors.Join(os.WriteFile(path, model, 0o600), os.WriteFile(path+contract.Suffix, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := contract.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func open(t testing.TB, f *contract.File, o session.Options) *session.Policy {
	t.Helper()
	p, err := session.Open(f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// golden is ../shared/policies/go1_policy.golden.json: what another ONNX Runtime
// (1.32.0, from Python) computed with the same file.
type golden struct {
	SHA256 string
	Rows   []struct{ Obs, Action []float32 }
}

func TestGo1PolicyAgreesWithPython(t *testing.T) {
	file, err := contract.Load(contracttest.Policy(t, "go1_policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(contracttest.Policy(t, "go1_policy.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if file.SHA256 != g.SHA256 {
		t.Fatalf("sha256 %s, golden pairs are of %s", file.SHA256, g.SHA256)
	}
	p := open(t, file, session.Options{})
	if pairs, diff := p.Golden(); pairs != 8 || diff > 1e-5 {
		t.Errorf("%d golden pairs of the contract, largest difference %v", pairs, diff)
	}
	worst := float32(0)
	action := make([]float32, 12)
	for _, r := range g.Rows {
		if err := p.Infer(r.Obs, action); err != nil {
			t.Fatal(err)
		}
		for k := range action {
			worst = max(worst, action[k]-r.Action[k], r.Action[k]-action[k])
		}
	}
	t.Logf("%d rows, largest difference %.2g", len(g.Rows), worst)
	if worst > 1e-5 {
		t.Errorf("largest difference %v, want at most 1e-5", worst)
	}
}

func TestActDoesNotAllocate(t *testing.T) {
	for _, batch := range []int64{1, contracttest.Free} {
		p := open(t, load(t, toy(batch).Bytes(), contracttest.Toy()), session.Options{Rows: 3})
		step, out := rollout.NewStep(p.Spec()), rollout.NewDecision(p.Spec())
		n := testing.AllocsPerRun(100, func() {
			if err := p.Act(step, out); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("batch %d: Act allocates %v times, want 0", batch, n)
		}
	}
}

// Rows come out in their places whatever the graph's batch, Options.Rows and the
// step's rows are.
func TestRows(t *testing.T) {
	for _, batch := range []int64{1, contracttest.Free} {
		f := load(t, toy(batch).Bytes(), contracttest.Toy())
		for _, rows := range []int{0, 1, 2, 7} {
			p := open(t, f, session.Options{Rows: rows})
			if got := p.Spec().Rows; got != max(rows, 1) {
				t.Errorf("Spec().Rows is %d", got)
			}
			for _, n := range []int{1, 2, 5, 7, 16} {
				spec := p.Spec()
				spec.Rows = n
				step, out := rollout.NewStep(spec), rollout.NewDecision(spec)
				want := make([]float32, 2*n)
				for i := range n {
					copy(step.Obs[0][3*i:], []float32{float32(i), float32(-i), 9})
					want[2*i], want[2*i+1] = float32(i), float32(-i)+0.5
				}
				out.Acted[0], out.LogProb[0], out.Labelled = rollout.Teacher, 1, true
				if err := p.Act(step, out); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(out.Action, want) || out.Acted[0] != rollout.Student || out.LogProb[0] != 0 || out.Labelled {
					t.Errorf("batch %d, Rows %d, %d rows: got %+v, want %v", batch, rows, n, out, want)
				}
			}
		}
	}
}

func TestActInAnEnv(t *testing.T) {
	f := load(t, toy(1).Bytes(), contracttest.Toy())
	env := f.Contract.Spec
	env.Groups = []rollout.Group{{Name: "critic", Layout: rollout.ByTerm, Terms: []rollout.Term{{Name: "truth", Size: 3, Scale: 1, History: 1}}}, env.Groups[0]}
	env.Rows = 1
	p := open(t, f, session.Options{Env: &env})
	step, out := rollout.NewStep(env), rollout.NewDecision(env)
	copy(step.Obs[0], []float32{7, 7, 7})
	copy(step.Obs[1], []float32{1, 2, 3})
	if err := p.Act(step, out); err != nil || out.Action[0] != 1 || out.Action[1] != 2.5 {
		t.Errorf("got %v, %v: want the group policy, not the one before it", out.Action, err)
	}
	env.PolicyPeriodNs = 10e6
	if _, err := session.Open(f, session.Options{Env: &env}); err == nil || !strings.Contains(err.Error(), "policy_period_ns") {
		t.Errorf("in an Env of another rate: %v", err)
	}
}

func TestActRefuses(t *testing.T) {
	p := open(t, load(t, toy(1).Bytes(), contracttest.Toy()), session.Options{Rows: 2})
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, test := range []struct {
		name string
		edit func(*rollout.Step, *rollout.Decision)
		want string
	}{
		{"NaN", func(s *rollout.Step, _ *rollout.Decision) { s.Obs[0][4] = nan }, "observation, row 1, joint_pos[0] left: NaN is not a finite number"},
		{"infinity", func(s *rollout.Step, _ *rollout.Decision) { s.Obs[0][0] = inf }, "observation, row 0, tilt[0]: -Inf is not a finite number"},
		{"no group", func(s *rollout.Step, _ *rollout.Decision) { s.Obs = nil }, "0 observation groups"},
		{"short observation", func(s *rollout.Step, _ *rollout.Decision) { s.Obs[0] = s.Obs[0][:5] }, "5 observation numbers"},
		{"short action", func(_ *rollout.Step, d *rollout.Decision) { d.Action = d.Action[:3] }, "3 action numbers"},
		{"one row missing", func(_ *rollout.Step, d *rollout.Decision) { d.Action = d.Action[:2] }, "6 observation numbers and 2 action numbers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			step, out := rollout.NewStep(p.Spec()), rollout.NewDecision(p.Spec())
			test.edit(step, out)
			if err := p.Act(step, out); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
	if err := p.Infer([]float32{nan, 0, 0}, make([]float32, 2)); !errors.Is(err, session.ErrNonFinite) {
		t.Errorf("Infer of NaN: %v", err)
	}
	if err := p.Infer(make([]float32, 4), make([]float32, 2)); err == nil {
		t.Error("Infer of 4 numbers, want 3")
	}
}

// A graph that divides by zero: 0/0 is NaN and 1/0 is infinite; neither leaves.
func TestNonFiniteOutput(t *testing.T) {
	m := toy(1)
	m.Nodes[0].Out[0] = "sum"
	m.Nodes = append(m.Nodes, contracttest.Node{Op: "Div", In: []string{"sum", "by"}, Out: []string{"actions"}})
	m.Weights = append(m.Weights, contracttest.Weight{Name: "by", Dims: []int64{2}, Data: []float32{1, 0}})
	p := open(t, load(t, m.Bytes(), contracttest.Toy()), session.Options{})
	action := make([]float32, 2)
	for _, test := range []struct {
		obs  []float32
		want string
	}{
		{[]float32{0, -0.5, 0}, "joint right: NaN is not a finite number"},
		{[]float32{0, 1, 0}, "joint right: +Inf is not a finite number"},
	} {
		if err := p.Infer(test.obs, action); !errors.Is(err, session.ErrNonFinite) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %q in it", test.obs, err, test.want)
		}
	}
}

func TestOpenReplaysGoldenPairs(t *testing.T) {
	c := contracttest.Toy()
	pairs := func(action ...float32) *contract.Golden {
		return &contract.Golden{Pairs: []contract.Pair{
			{Obs: []float32{0, 0, 0}, Action: []float32{0, 0.5}},
			{Obs: []float32{1, 2, 3}, Action: action},
		}}
	}
	c.Golden = pairs(1, 2.5)
	p := open(t, load(t, toy(1).Bytes(), c), session.Options{})
	if n, diff := p.Golden(); n != 2 || diff != 0 {
		t.Errorf("%d pairs, largest difference %v", n, diff)
	}
	for _, test := range []struct {
		golden *contract.Golden
		model  *contracttest.Model
		want   string // "": accepted
	}{
		{pairs(1, 2.50009), toy(1), ""},
		{pairs(1, 2.5002), toy(1), "golden pair 1: action[1] (right) differs by 0.0002, tolerance 0.0001"},
		{pairs(0.88, 2.5), toy(1), "golden pair 1: action[0] (left) differs by 0.12, tolerance 0.0001"},
		// The same pairs, but the weights are others: the normaliser forgotten, say.
		{pairs(1, 2.5), contracttest.Linear(1, []float32{2, 0, 0, 1, 0, 0}, []float32{0, 0.5}), "golden pair 1: action[0] (left) differs by 1"},
	} {
		c.Golden = test.golden
		p, err := session.Open(load(t, test.model.Bytes(), c), session.Options{})
		if test.want == "" {
			if err != nil {
				t.Error(err)
			} else {
				p.Close()
			}
			continue
		}
		if !errors.Is(err, session.ErrGolden) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "toy.onnx") {
			t.Errorf("got %v, want %q in it", err, test.want)
		}
	}
}

// A bit flipped in the weights of a file whose contract lies beside it: ONNX
// Runtime loads it gladly, the golden pairs do not come out.
func TestFlippedBitInTheWeights(t *testing.T) {
	good, err := contract.Load(contracttest.Policy(t, "go1_policy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	data := append([]byte{}, good.Bytes...)
	data[len(data)/4|3] ^= 0x40 // the exponent of one weight, if weights are aligned to 4
	data[len(data)/2|3] ^= 0x40
	for i := range 4 { // whatever their alignment
		data[3*len(data)/4+i] ^= 0x40
	}
	if _, err := session.Open(load(t, data, good.Contract), session.Options{}); !errors.Is(err, session.ErrGolden) && !errors.Is(err, session.ErrNonFinite) {
		t.Errorf("got %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	unknown := toy(1)
	unknown.Nodes[0].Op = "Walk"
	narrow := toy(1)
	narrow.Weights[0].Dims, narrow.Weights[0].Data = []int64{2, 2}, make([]float32, 4)
	for name, m := range map[string]*contracttest.Model{"an operator that does not exist": unknown, "weights of another width": narrow} {
		if _, err := session.Open(load(t, m.Bytes(), contracttest.Toy()), session.Options{}); err == nil || !strings.Contains(err.Error(), "toy.onnx") {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := load(t, toy(1).Bytes(), contracttest.Toy())
	for _, rows := range []int{-1, session.MaxRows + 1} {
		if _, err := session.Open(f, session.Options{Rows: rows}); err == nil || !strings.Contains(err.Error(), "Rows") {
			t.Errorf("Rows %d: %v", rows, err)
		}
	}
	f.Contract = nil
	if _, err := session.Open(f, session.Options{}); !errors.Is(err, contract.ErrNoContract) {
		t.Errorf("without a contract: %v", err)
	}
}

// Weights in a second file are read from beside the policy, not from the working
// folder; Open looks again, for a file that went away after Load.
func TestWeightsBeside(t *testing.T) {
	m := toy(1)
	m.Weights[0].File, m.Weights[0].Offset = "toy.data", 8
	dir := t.TempDir()
	embedded, err := contract.Embed(m.Bytes(), contracttest.Toy())
	if err != nil {
		t.Fatal(err)
	}
	path, data := filepath.Join(dir, "toy.onnx"), filepath.Join(dir, "toy.data")
	if err := errors.Join(os.WriteFile(path, embedded, 0o600),
		os.WriteFile(data, append(make([]byte, 8), contracttest.Float32s(m.Weights[0].Data)...), 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := contract.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	action := make([]float32, 2)
	if err := open(t, f, session.Options{}).Infer([]float32{1, 2, 3}, action); err != nil || action[0] != 1 || action[1] != 2.5 {
		t.Errorf("got %v, %v", action, err)
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Open(f, session.Options{}); !errors.Is(err, contract.ErrExternal) {
		t.Errorf("after the weights went away: %v", err)
	}
}

func TestClose(t *testing.T) {
	p := open(t, load(t, toy(1).Bytes(), contracttest.Toy()), session.Options{})
	for range 3 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Infer(make([]float32, 3), make([]float32, 2)); !errors.Is(err, session.ErrClosed) {
		t.Errorf("Infer after Close: %v", err)
	}
	if err := p.Act(rollout.NewStep(p.Spec()), rollout.NewDecision(p.Spec())); !errors.Is(err, session.ErrClosed) {
		t.Errorf("Act after Close: %v", err)
	}
}

func BenchmarkGo1Policy(b *testing.B) {
	file, err := contract.Load(contracttest.Policy(b, "go1_policy.onnx"))
	if err != nil {
		b.Fatal(err)
	}
	p := open(b, file, session.Options{})
	obs, action := file.Contract.Golden.Pairs[0].Obs, make([]float32, 12)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Infer(obs, action); err != nil {
			b.Fatal(err)
		}
	}
}
