package safety

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write FAULTS.md from the table")

func TestFaultsFile(t *testing.T) {
	want := FaultsMarkdown()
	if *update {
		if err := os.WriteFile("FAULTS.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("FAULTS.md")
	if err != nil || string(got) != want {
		t.Fatalf("FAULTS.md is not what the table says; run go test ./agent/safety -run FaultsFile -update (%v)", err)
	}
}

func TestFaultTable(t *testing.T) {
	seen := map[string]bool{}
	for i, f := range Faults {
		if int(f.Fault) != i || f.Name == "" || f.Title == "" || f.Act == "" || f.Means == "" || f.Remedy == "" {
			t.Errorf("row %d: %+v", i, f)
		}
		if seen[f.Name] || strings.ToLower(f.Name) != f.Name {
			t.Errorf("row %d: name %q", i, f.Name)
		}
		seen[f.Name] = true
		if f.Fault.String() != f.Name {
			t.Errorf("%d prints as %q", i, f.Fault)
		}
	}
	if got := Fault(200).String(); got != "fault_200" {
		t.Errorf("unknown fault prints as %q", got)
	}
}

// A verdict has a place for the warning of every fault that may come, of those beyond the first 32 too.
func TestWarningsHaveRoom(t *testing.T) {
	r := newRig(t)
	for f := Fault(1); f < 64; f++ {
		r.warns(f, false)
		r.j.Raise(r.now, Warn, f, -1)
		r.warns(f, true)
	}
	if len(Faults) > 64 {
		t.Errorf("%d faults, and a verdict has 64 places for warnings", len(Faults))
	}
}

func TestConfigValidate(t *testing.T) {
	for key, spoil := range map[string]func(*Config){
		"safety.state_hold_ms":       func(c *Config) { c.StateHoldMs = 50 },
		"safety.state_damp_ms":       func(c *Config) { c.StateDampMs = 500 },
		"safety.policy_hold_periods": func(c *Config) { c.PolicyHoldPeriods = 9 },
		"safety.tilt_hold_rad":       func(c *Config) { c.TiltHoldRad = 1.2 },
		"safety.power_w":             func(c *Config) { c.PowerW = 1e9 },
		"safety.temp_warn_c":         func(c *Config) { c.TempWarnC = 80 },
		"safety.battery_sit_percent": func(c *Config) { c.BatterySitPct = 0 },
		"safety.command_ramp_ms":     func(c *Config) { c.CommandRampMs = 700 },
		"safety.loop_warn_ms":        func(c *Config) { c.LoopWarnMs = 21 },
		"safety.loop_late_ms":        func(c *Config) { c.LoopLateMs = 51 },
		"safety.remote_seconds":      func(c *Config) { c.RemoteSeconds = 60 },
		"safety.imu_samples":         func(c *Config) { c.IMUSamples = 4 },
		"safety.sender_torque_nm":    func(c *Config) { c.SenderTorqueNm = 0 / zero },
	} {
		c := DefaultConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), key+":") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

var zero float64
