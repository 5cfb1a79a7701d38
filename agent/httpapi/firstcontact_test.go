package httpapi

import (
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/control"
)

// TestFirstContact: whether a first contact is asked for is shown with every state, and whoever lets a robot stand or drive of which none
// is asked is warned where nobody knows what it is, besides what else there is to be warned of.
func TestFirstContact(t *testing.T) {
	f := &fakeAgent{}
	before := testInfo
	t.Cleanup(func() { testInfo = before })
	var required bool
	var warning, loss string
	testInfo.LinkLoss = func(*control.Snapshot) (string, string) { return "unknown", loss }
	testInfo.FirstContact = func(s *control.Snapshot) (bool, string) {
		if s.State.Tick != 9 {
			t.Errorf("asked about the state of tick %d", s.State.Tick)
		}
		return required, warning
	}
	r := start(t, f)
	required, warning = true, "before any state"
	if a := r.do("GET", "/api/v1/state", ""); !strings.Contains(a.body, `"first_contact":{"required":false,"warning":""}`) {
		t.Errorf("before any state: %s", a.body)
	}
	f.set(func(s *control.Snapshot) { s.HaveState, s.State.Tick = true, 9 })
	for _, c := range []struct {
		required                      bool
		warning, loss                 string
		state                         string
		stands, drives, damps, itSits string // warnings of the replies
	}{
		{true, "", "", `{"required":true,"warning":""}`, "", "", "", ""},
		{false, "", "", `{"required":false,"warning":""}`, "", "", "", ""},
		{false, "a relay?", "", `{"required":false,"warning":"a relay?"}`, "a relay?", "a relay?", "", ""},
		{false, "", "it falls?", `{"required":false,"warning":""}`, "", "it falls?", "", ""},
		{false, "a relay?", "it falls?", `{"required":false,"warning":"a relay?"}`, "a relay?", "a relay?; it falls?", "", ""},
	} {
		required, warning, loss = c.required, c.warning, c.loss
		if a := r.do("GET", "/api/v1/state", ""); !strings.Contains(a.body, `"first_contact":`+c.state) {
			t.Errorf("%+v: %s", c, a.body)
		}
		for mode, want := range map[string]string{"stand": c.stands, "policy": c.drives, "damp": c.damps, "sit": c.itSits} {
			if want != "" {
				want = `"warning":"` + want + `"`
			}
			if a := r.do("POST", "/api/v1/mode", `{"mode":"`+mode+`"}`); a.status != 200 || !strings.Contains(a.body, want) || want == "" && strings.Contains(a.body, "warning") {
				t.Errorf("%+v, %s: %d %s", c, mode, a.status, a.body)
			}
		}
	}
}
