package session_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/session"
)

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
	if file.SHA256 != g.SHA256 || file.Source != contract.FromKnown {
		t.Fatalf("sha256 %s, contract from %s", file.SHA256, file.Source)
	}
	p, err := session.Open(file, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
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

	step, out := rollout.NewStep(p.Spec()), rollout.NewDecision(p.Spec())
	copy(step.Obs[0], g.Rows[3].Obs)
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Act(step, out); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Act allocates %v times, want 0", n)
	}
}
