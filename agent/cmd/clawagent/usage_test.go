package main

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUsage: a wrong command line or configuration ends with 2 and a sentence that names the thing, before anything is sent.
func TestUsage(t *testing.T) {
	robot := lyingRobot(t)
	own := "udp://" + robot.Addr().String()
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"HTTP for everybody", []string{"run", "--robot", own, "--http", "0.0.0.0:8080"}, []string{"http: ", `"0.0.0.0:8080"`, "loopback"}},
		{"HTTP for the network", []string{"run", "--robot", own, "--http", "192.168.123.20:8080"}, []string{"http: ", "not loopback"}},
		{"HTTP of every interface", []string{"run", "--robot", own, "--http", ":8080"}, []string{"http: ", "every interface"}},
		{"serial", []string{"run", "--robot", "serial:///dev/ttyUSB0"}, []string{"robot: ", "serial:// is not available", "udp://"}},
		{"bridge", []string{"run", "--robot", "bridge:///dev/ttyACM0"}, []string{"robot: ", "bridge:// is not available"}},
		{"junk robot", []string{"run", "--robot", "junk"}, []string{`robot: `, `"junk"`, "no scheme"}},
		{"robot by name", []string{"run", "--robot", "udp://go1.local:8007"}, []string{"robot: ", `"go1.local"`, "names are not looked up"}},
		{"robot without port", []string{"run", "--robot", "udp://192.168.123.10"}, []string{"robot: ", "no port"}},
		{"doctor of junk", []string{"doctor", "--robot", "junk"}, []string{"robot: ", `"junk"`}},
		{"doctor of serial", []string{"doctor", "--robot", "serial:///dev/ttyUSB0"}, []string{"robot: ", "serial:// is not available"}},
		{"doctor for no time", []string{"doctor", "--robot", own, "--seconds", "0"}, []string{"--seconds: 0", "0.2..60"}},
		{"doctor for NaN", []string{"doctor", "--robot", own, "--seconds", "NaN"}, []string{"--seconds: NaN"}},
		{"doctor that skips nothing", []string{"doctor", "--robot", own, "--skip", "joints"}, []string{"--skip", "--first-contact"}},
		{"doctor that skips what is not", []string{"doctor", "--robot", own, "--first-contact", "--skip", "nose_up"}, []string{`--skip: firstcontact: no step "nose_up"`, "nose_down"}},
		{"doctor that skips the rest", []string{"doctor", "--robot", own, "--first-contact", "--skip", "rest"}, []string{"--skip: rest", "builds on it"}},
		{"doctor anew of nothing", []string{"doctor", "--robot", own, "--anew"}, []string{"--anew", "--first-contact"}},
		{"first contact in no time", []string{"doctor", "--robot", own, "--first-contact", "--timeout", "0.1"}, []string{"first_contact.exam.step_seconds: 0.1", "1..3600"}},
		{"first contact that never ends", []string{"doctor", "--robot", own, "--first-contact", "--timeout", ".nan"}, []string{"--timeout"}},
		{"first contact and hang test", []string{"doctor", "--robot", own, "--first-contact", "--hang-test"}, []string{"first-contact", "hang-test"}},
		{"hang test of a robot that lies", []string{"doctor", "--robot", own, "--hang-test"}, []string{"--hang-test: the legs get torque", "--hung"}},
		{"hung for nothing", []string{"doctor", "--robot", own, "--hung"}, []string{"--hung belongs to --first-contact and --hang-test", "--arm"}},
		{"first contact that listens", []string{"doctor", "--robot", own, "--first-contact", "--seconds", "2"}, []string{"[first-contact seconds]"}},
		{"hang test that listens", []string{"doctor", "--robot", own, "--hang-test", "--hung", "--seconds", "1"}, []string{"[hang-test seconds]"}},
		{"hang test in lockstep", []string{"doctor", "--robot", own, "--hang-test", "--hung", "--set", "control.lockstep=true"}, []string{"--hang-test: control.lockstep"}},
		{"results in a folder of here", []string{"run", "--robot", own, "--set", "first_contact.dir=results"}, []string{`first_contact.dir: "results"`, "absolute"}},
		{"eleven cells", []string{"run", "--robot", own, "--set", "first_contact.exam.cells=11"}, []string{"first_contact.exam.cells: 11", "0..10"}},
		{"high by name", []string{"doctor", "--robot", own, "--high", "go1:8082"}, []string{`high: "go1:8082"`}},
		{"high without port", []string{"doctor", "--robot", own, "--high", "127.0.0.1:0"}, []string{`high: "127.0.0.1:0"`}},
		{"high IPv6", []string{"run", "--robot", own, "--high", "[::1]:8082"}, []string{`high: "[::1]:8082"`, "IPv4"}},
		{"high is here, robot is not", []string{"run", "--robot", "udp://192.168.123.10:8007", "--high", "127.0.0.1:8082"},
			[]string{"high: 127.0.0.1:8082 is this machine", "192.168.123.10:8007"}},
		{"high is low", []string{"run", "--robot", own, "--high", robot.Addr().String()}, []string{"high: ", "low-level"}},
		{"no port above", []string{"run", "--robot", "udp://127.0.0.1:65500"}, []string{"high: ", "65500 + 75"}},
		{"local junk", []string{"run", "--robot", own, "--local", "8090"}, []string{`local: "8090"`}},
		{"lockstep with a real robot", []string{"run", "--robot", "udp://192.168.123.10:8007", "--lockstep"},
			[]string{"control.lockstep: ", "192.168.123.10:8007"}},
		{"unknown key", []string{"run", "--robot", own, "--set", "control.stand_pk=60"}, []string{"--set: ", "control.stand_pk: unknown key", `did you mean "control.stand_kp"`}},
		{"key out of range", []string{"run", "--robot", own, "--set", "control.stand_kp=900"}, []string{"control.stand_kp: 900", "20..120"}},
		{"safety key out of range", []string{"run", "--robot", own, "--set", "safety.tilt_damp_rad=9"}, []string{"safety.tilt_damp_rad"}},
		{"key that is no number", []string{"run", "--robot", own, "--set", "control.stand_kp=stiff"}, []string{"control.stand_kp", "stiff"}},
		{"file with an unknown key", []string{"run", "--robot", own, "--config", writeFile(t, "a.yaml", "robot: udp://127.0.0.1:8007\nhtp: x\n")},
			[]string{"a.yaml", "line 2", "htp: unknown key", `did you mean "http"`}},
		{"file with a wrong type", []string{"run", "--robot", own, "--config", writeFile(t, "b.yaml", "safety:\n  temp_warn_c: hot\n")},
			[]string{"b.yaml", "line 2", "safety.temp_warn_c"}},
		{"a person's word in a file", []string{"run", "--robot", own, "--config", writeFile(t, "w.yaml", "arm: true\n")}, []string{"w.yaml", "arm"}},
		{"file with a key twice", []string{"run", "--robot", own, "--config", writeFile(t, "c.yaml", "unproven: true\nunproven: false\n")}, []string{"c.yaml", "unproven"}},
		{"file that is no YAML", []string{"run", "--robot", own, "--config", writeFile(t, "d.yaml", "safety: [\n")}, []string{"d.yaml"}},
		{"no such file", []string{"run", "--robot", own, "--config", "/nowhere/e.yaml"}, []string{"/nowhere/e.yaml"}},
		{"check of a broken file", []string{"config", "--check", writeFile(t, "f.yaml", "control:\n  damp_seconds: 0.1\n")}, []string{"f.yaml", "control.damp_seconds: 0.1"}},
		{"guard at a relative path", []string{"run", "--robot", own, "--set", "guard.socket=guard.sock"}, []string{`guard.socket: "guard.sock"`, "absolute path or @NAME"}},
		{"guard without a name", []string{"guard", "--robot", own, "--socket", "@"}, []string{`guard.socket: "@"`}},
		{"guard at too long a path", []string{"guard", "--robot", own, "--socket", "/" + strings.Repeat("x", 107)}, []string{"guard.socket: 108 bytes, want at most 107"}},
		{"guard too quick", []string{"run", "--robot", own, "--set", "guard.stale_ms=9.9"}, []string{"guard.stale_ms: 9.9", "10..50"}},
		{"guard too patient", []string{"run", "--robot", own, "--set", "guard.stale_ms=50.1"}, []string{"guard.stale_ms: 50.1", "10..50"}},
		{"guard for NaN", []string{"run", "--robot", own, "--set", "guard.stale_ms=NaN"}, []string{"guard.stale_ms: "}},
		{"guard's priority too high", []string{"guard", "--robot", own, "--priority", "100"}, []string{"guard.priority: 100", "0..99"}},
		{"guard below the loop", []string{"guard", "--robot", own, "--priority", "80"}, []string{"guard.priority: 80", "more than control.priority, which is 80"}},
		{"guard of junk", []string{"guard", "--robot", "junk"}, []string{"robot: ", `"junk"`}},
		{"guard with an argument", []string{"guard", "now"}, []string{"guard: ", `"now"`}},
		{"guard that nobody started", []string{"guard", "--robot", own, "--inherited"}, []string{"--inherited: "}},
		{"argument too many", []string{"run", "now"}, []string{"run: ", `"now"`}},
		{"unknown flag", []string{"run", "--fast"}, []string{"run: ", "--fast"}},
		{"unknown command", []string{"doktor"}, []string{`"doktor"`, `did you mean "doctor"`}},
		{"no command", nil, []string{"name a command"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := clawagent(t, c.args...)
			if r.code != 2 || r.stdout != "" {
				t.Errorf("exit code %d, want 2; standard output %q, want none", r.code, r.stdout)
			}
			// What matters stands on the last line; the group's help may stand above it.
			lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "clawagent: ") {
				t.Errorf("%q does not begin with the program's name", last)
			}
			for _, w := range c.says {
				if !strings.Contains(last, w) {
					t.Errorf("%q does not say %q", last, w)
				}
			}
		})
	}
	if robot.Count() != 0 {
		t.Errorf("%d frames were sent", robot.Count())
	}
}

// TestRunFails: the command line is right and the work cannot be done: 1, and why.
func TestRunFails(t *testing.T) {
	robot := lyingRobot(t)
	own := "udp://" + robot.Addr().String()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	udp := udpSocket(t, netip.AddrPortFrom(localhost, 0))
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"no policy file", []string{"--policy", "/nowhere/walk.onnx"}, []string{"/nowhere/walk.onnx", "no such file"}},
		{"policy of junk", []string{"--policy", writeFile(t, "junk.onnx", "not a model")}, []string{"junk.onnx"}},
		{"policy that is empty", []string{"--policy", writeFile(t, "empty.onnx", "")}, []string{"empty.onnx"}},
		{"port in use", []string{"--http", taken.Addr().String()}, []string{"http: ", taken.Addr().String(), "in use"}},
		{"local address in use", []string{"--local", addrOf(udp).String()}, []string{addrOf(udp).String(), "in use"}},
		{"log in no folder", []string{"--log", "/nowhere/agent.log"}, []string{"log: ", "/nowhere/agent.log"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := clawagent(t, append([]string{"run", "--robot", own, "--http", "127.0.0.1:0", "--arm"}, c.args...)...)
			if r.code != 1 {
				t.Errorf("exit code %d, want 1", r.code)
			}
			for _, w := range c.says {
				if !strings.Contains(r.stderr, w) {
					t.Errorf("%q does not say %q", r.stderr, w)
				}
			}
		})
	}
	if robot.Count() != 0 {
		t.Errorf("%d frames were sent", robot.Count())
	}
}

// TestRunRefusesAnotherRobotsPolicy: a policy whose contract is not known, or not a Go1's, never gets near the motors.
func TestRunRefusesAnotherRobotsPolicy(t *testing.T) {
	robot := lyingRobot(t)
	r := clawagent(t, "run", "--robot", "udp://"+robot.Addr().String(), "--http", "127.0.0.1:0", "--arm",
		"--policy", contracttest.Policy(t, "bh_policy.onnx"))
	if r.code != 1 || !strings.Contains(r.stderr, "bh_policy.onnx") || robot.Count() != 0 {
		t.Errorf("exit code %d, %d frames: %s", r.code, robot.Count(), r.stderr)
	}
	t.Log(r.stderr)
}

func TestVersion(t *testing.T) {
	r := clawagent(t, "--version", "--json")
	var b struct{ Name, Version, Go, OS, Arch string }
	r.lastJSON(t, &b)
	if r.code != 0 || b.Name != "clawagent" || b.Version == "" || !strings.HasPrefix(b.Go, "go") || b.OS != "linux" || b.Arch == "" {
		t.Errorf("exit code %d: %s", r.code, r.stdout)
	}
}

// TestConfigDefaultsLoadBack: what --defaults prints is a file that --check and run accept.
func TestConfigDefaultsLoadBack(t *testing.T) {
	r := clawagent(t, "config", "--defaults")
	for _, key := range []string{"robot: ", "control:", "  stand_kp: 60", "safety:", "  tilt_damp_rad: 1"} {
		if r.code != 0 || !strings.Contains(r.stdout, key) {
			t.Fatalf("exit code %d, no %q in\n%s", r.code, key, r.stdout)
		}
	}
	path := writeFile(t, "defaults.yaml", r.stdout)
	if r := clawagent(t, "config", "--check", path); r.code != 0 || r.stdout != path+": ok\n" {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	robot := lyingRobot(t)
	a := startAgent(t, robot.Addr(), "--config", path)
	a.signal(os.Interrupt)
	if r := a.wait(); r.code != 0 {
		t.Errorf("exit code %d", r.code)
	}
}

func TestConfigExplain(t *testing.T) {
	r := clawagent(t, "config", "--explain")
	for _, key := range []string{"KEY", "robot", "unproven", "control.spin_us", "safety.without_remote", "stiffness while standing, N*m/rad"} {
		if r.code != 0 || !strings.Contains(r.stdout, key) {
			t.Errorf("exit code %d, no %q in\n%s", r.code, key, r.stdout)
		}
	}
}
