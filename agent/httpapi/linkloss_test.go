package httpapi

import (
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
)

// TestLinkLoss: what the motors do without commands is shown with every state, and whoever lets the policy drive is warned while
// nobody knows it.
func TestLinkLoss(t *testing.T) {
	f := &fakeAgent{}
	before := testInfo
	t.Cleanup(func() { testInfo = before })
	var behaviour, warning string
	testInfo.LinkLoss = func(s *control.Snapshot) (string, string) {
		if s.State.Tick != 9 {
			t.Errorf("asked about the state of tick %d", s.State.Tick)
		}
		return behaviour, warning
	}
	r := start(t, f)
	behaviour, warning = "hold", ""
	if a := r.do("GET", "/api/v1/state", ""); !strings.Contains(a.body, `"link_loss":{"behaviour":"unknown","warning":""}`) {
		t.Errorf("before any state: %s", a.body)
	}
	f.set(func(s *control.Snapshot) { s.HaveState, s.State.Tick = true, 9 })
	if a := r.do("GET", "/api/v1/state", ""); !strings.Contains(a.body, `"link_loss":{"behaviour":"hold","warning":""}`) {
		t.Errorf("%s", a.body)
	}
	if a := r.do("POST", "/api/v1/mode", `{"mode":"policy"}`); a.status != 200 || strings.Contains(a.body, "warning") {
		t.Errorf("%d %s", a.status, a.body)
	}
	behaviour, warning = "unknown", "link-loss behaviour unknown: run it"
	if a := r.do("GET", "/api/v1/state", ""); !strings.Contains(a.body, `"link_loss":{"behaviour":"unknown","warning":"link-loss behaviour unknown: run it"}`) {
		t.Errorf("%s", a.body)
	}
	if a := r.do("POST", "/api/v1/mode", `{"mode":"policy"}`); a.status != 200 || !strings.Contains(a.body, `"warning":"link-loss behaviour unknown: run it"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.do("POST", "/api/v1/mode", `{"mode":"stand"}`); a.status != 200 || strings.Contains(a.body, "warning") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
