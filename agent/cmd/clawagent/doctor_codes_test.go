package main

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/safety"
)

// TestDoctorCodesOfTheSource: what the source names is in the table, with a remedy of its own or of the table's.
func TestDoctorCodesOfTheSource(t *testing.T) {
	table := map[string]codeInfo{}
	for _, c := range codes() {
		table[c.Code] = c
	}
	calls := 0
	for name, f := range programFiles(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			if receiver, ok := method.X.(*ast.Ident); !ok || receiver.Name != "d" {
				if inner, ok := method.X.(*ast.SelectorExpr); !ok || inner.Sel.Name != "d" {
					return true
				}
			}
			switch method.Sel.Name {
			case "add":
				code, ok := call.Args[1].(*ast.BasicLit)
				if !ok {
					return true // of another table, checked below
				}
				calls++
				text, _ := strconv.Unquote(code.Value)
				c, known := table[text]
				level, _ := call.Args[0].(*ast.Ident)
				remedy, isText := call.Args[2].(*ast.BasicLit)
				if !known || level == nil || level.Name != "levelOK" && c.Remedy == "" && isText && remedy.Value == `""` {
					t.Errorf("%s: %s is not in the table, or has no remedy", name, text)
				}
			case "fault":
				fault, ok := call.Args[1].(*ast.SelectorExpr)
				if !ok {
					return true // list, whose callers are seen
				}
				calls++
				found := false
				for _, f := range fromFaults {
					found = found || strings.ReplaceAll(strings.ToLower(fault.Sel.Name), "_", "") == strings.ReplaceAll(f.String(), "_", "")
				}
				if !found {
					t.Errorf("%s: safety.%s is not in the table", name, fault.Sel.Name)
				}
			}
			return true
		})
	}
	if calls < 30 {
		t.Errorf("only %d calls: this test looks at the wrong thing", calls)
	}
	for _, h := range link.HintCodes {
		if _, ok := table[h]; !ok && h != "nothing_sent" {
			t.Errorf("the link's %s is not in the table", h)
		}
	}
	for i := range firstcontact.Codes {
		if _, ok := table[firstcontact.Codes[i].Name]; !ok {
			t.Errorf("%s is not in the table", firstcontact.Codes[i].Name)
		}
	}
	for _, f := range []safety.Fault{safety.StateNotFinite, safety.MotorModeDropped} {
		if table[f.String()].Remedy != safety.Faults[f].Remedy {
			t.Errorf("%s: two remedies", f)
		}
	}
}

var update = flag.Bool("update", false, "write DOCTOR.md from the table of codes")

// TestDoctorFile: DOCTOR.md is what the table says.
func TestDoctorFile(t *testing.T) {
	var b strings.Builder
	b.WriteString("# What `clawagent doctor` names\n\nMade from the table in `doctor_codes.go` (`go test ./agent/cmd/clawagent -run DoctorFile -update`). Codes do not change. " +
		"With `--json` each finding has `code`, `level` (error, warning, ok), `text` and `remedy`; an error keeps the robot from being ready.\n")
	for _, by := range kindsOfCodes {
		b.WriteString("\n## " + by.title + "\n\n")
		if by.by == "hang-test" {
			b.WriteString("Whatever ends it, the robot is damped: by the program itself (also at Ctrl-C and Ctrl-Z), or, where that is killed or stands still, by its guard " +
				"(`clawagent guard`), which damps on until the next agent or doctor takes over. What stays: with the cable out or the computer dead, nothing comes to the robot any " +
				"more, and its legs keep what the motors make of silence, Kp 5 at most, until its own switch. `guard.without` gives the guard up, and is warned of.\n\n" +
				fmt.Sprintf("Each of the %d silences is to last %.0f ms. It is judged if by the sender's own clock %d to %d ms lie between its last frame before and the newest frame "+
					"that had left when the first state behind came (`silent_ms`); otherwise what the motors did is not what the limits are for.\n\n",
					firstcontact.LossTrials, firstcontact.LossSeconds*1e3, firstcontact.LossShortestMs, firstcontact.LossLongestMs))
		}
		b.WriteString("| code | what it means | what to do |\n|---|---|---|\n")
		for _, c := range codes() {
			if c.By == by.by {
				remedy := c.Remedy
				switch c.Code {
				case "clock", "disk", "sport_mode_off", "route", "states", "link_loss_damp":
					remedy = "nothing: that is well"
				}
				if remedy == "" {
					remedy = "as the finding says"
				}
				if c.Hung != "" {
					remedy += " In a first contact: " + c.Hung
				}
				b.WriteString("| `" + c.Code + "` | " + c.Title + " | " + remedy + " |\n")
			}
		}
	}
	if *update {
		if err := os.WriteFile("DOCTOR.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("DOCTOR.md")
	if err != nil || string(got) != b.String() {
		t.Fatalf("DOCTOR.md is not what the table says; run go test ./agent/cmd/clawagent -run DoctorFile -update (%v)", err)
	}
}

// TestDoctorCodesForPeople: the table is printed for people, too.
func TestDoctorCodesForPeople(t *testing.T) {
	r := clawagent(t, "doctor", "--codes")
	for _, want := range []string{"What its states say (state)", "imu_mirror_x", "(first-contact)", "The IMU is mirrored: its x axis points backwards", "link_loss_hold",
		"-> Do not stand it up. The IMU or its driver", "-> Set it on its belly, then damp and stand again.\n", "-> hung: Hang it level, feet free and down"} {
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s", r.code, want, r.stdout)
		}
	}
}
