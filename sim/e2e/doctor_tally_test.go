package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/link"
)

// doctorSaid are the names that the doctor has given in this run of the tests.
var doctorSaid struct {
	sync.Mutex
	names []string
}

// note keeps the names of a diagnosis.
func (d *diagnosis) note() {
	doctorSaid.Lock()
	defer doctorSaid.Unlock()
	for _, f := range d.Findings {
		if !slices.Contains(doctorSaid.names, f.Code) {
			doctorSaid.names = append(doctorSaid.names, f.Code)
		}
	}
}

// doctorTally counts the rows of TestDoctorNames.
type doctorTally struct {
	mu      sync.Mutex
	ended   int               // skipped ones too
	lacking []string          // names that this machine does not let be made
	refused map[string][]byte // results of robots that did not pass, by their row
}

// run is one row, beside others.
func (y *doctorTally) run(t *testing.T, name, makes string, try func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		defer func() {
			y.mu.Lock()
			defer y.mu.Unlock()
			y.ended++
			if t.Skipped() {
				y.lacking = append(y.lacking, strings.FieldsFunc(makes, func(c rune) bool { return c == ' ' || c == '|' })...)
			}
		}()
		try(t)
	})
}

// failed keeps the result of a robot that did not pass.
func (y *doctorTally) failed(row string, result []byte) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.refused == nil {
		y.refused = map[string][]byte{}
	}
	y.refused[row] = result
}

// check: every name of doctor's own table was given in this run, but for what this machine does not let be made.
func (y *doctorTally) check(t *testing.T) {
	t.Helper()
	if y.ended < len(doctorRows)+len(doctorHost) { // some were not asked for
		return
	}
	out, err := exec.Command(filepath.Join(binDir, "clawagent"), "doctor", "--codes", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Codes []struct{ Code, By, Title string }
	}
	if err := json.Unmarshal(out, &table); err != nil {
		t.Fatal(err)
	}
	doctorSaid.Lock()
	defer doctorSaid.Unlock()
	known := map[string]bool{}
	for _, c := range table.Codes {
		if known[c.Code] || c.Title == "" {
			t.Errorf("%+v", c)
		}
		known[c.Code] = true
		switch {
		case slices.Contains(doctorSaid.names, c.Code):
		case slices.Contains(y.lacking, c.Code):
			t.Logf("%s (%s) was not given: this machine does not let it be made", c.Code, c.Title)
		default:
			t.Errorf("%s (%s) was given in no test", c.Code, c.Title)
		}
	}
	for _, n := range doctorSaid.names {
		if !known[n] {
			t.Errorf("%s is no name of doctor's", n)
		}
	}
	if len(known) < 80 || !known[link.HintCodes[0]] {
		t.Errorf("only %d names", len(known))
	}
}
