package cli

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

type testConfig struct {
	Name    string        `yaml:"name" doc:"what it is called"`
	Timeout time.Duration `yaml:"timeout" doc:"how long to wait"`
	Shared  sharedKeys    `yaml:",inline"`
	Loop    loopConfig    `yaml:"loop" doc:"the loop: every tick"`
	Skipped chan int      `yaml:"-"`
}

type sharedKeys struct {
	Verbose bool `yaml:"verbose"`
}

type loopConfig struct {
	PeriodUs int            `yaml:"period_us" unit:"us" doc:"time between frames"`
	Depth    uint8          `yaml:"depth"`
	Gain     float32        `yaml:"gain" unit:"N·m/rad" doc:"position gain"`
	Home     [3]float64     `yaml:"home" unit:"rad" doc:"joint angles"`
	Names    []string       `yaml:"names"`
	Listen   netip.AddrPort `yaml:"listen" doc:"address"`
	Deep     struct {
		On bool `yaml:"on"`
	} `yaml:"deep"`
}

func (c *testConfig) Validate() error {
	if c.Loop.PeriodUs <= 0 || int64(c.Loop.PeriodUs) > c.Timeout.Microseconds() {
		return fmt.Errorf("loop.period_us is %d, must lie above 0 and not above timeout (%v)", c.Loop.PeriodUs, c.Timeout)
	}
	return nil
}

func testDefaults() testConfig {
	c := testConfig{Name: `say "#1": ü`, Timeout: 250 * time.Millisecond}
	c.Loop = loopConfig{PeriodUs: 2000, Depth: 3, Gain: 0.1, Home: [3]float64{1e-7, -2.5, 1e21}, Names: []string{"a, b", "no"},
		Listen: netip.MustParseAddrPort("127.0.0.1:80")}
	return c
}

var compare = cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })

func loaded(t *testing.T, text string) (testConfig, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return NewLoader(testDefaults).LoadFile(path)
}

func TestDefaultsLoadToDefaults(t *testing.T) {
	var out bytes.Buffer
	if err := NewLoader(testDefaults).WriteDefaults(&out); err != nil {
		t.Fatal(err)
	}
	got, err := loaded(t, out.String())
	if err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if diff := cmp.Diff(testDefaults(), got, compare); diff != "" {
		t.Errorf("%s from\n%s", diff, out.String())
	}
	if !strings.Contains(out.String(), "\n# the loop: every tick\nloop:\n  period_us: 2000  # time between frames, us\n") {
		t.Errorf("no comments in\n%s", out.String())
	}
}

func TestExplain(t *testing.T) {
	var out bytes.Buffer
	if err := NewLoader(testDefaults).Explain(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"loop.gain ", " 0.1 ", " position gain, N·m/rad\n", "verbose ", "loop.deep.on "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestFileOverDefaults(t *testing.T) {
	got, err := loaded(t, "# mine\nverbose: true\ntimeout: 1s\nloop: {depth: 255, home: [1, 2, 3.5], names: [], listen: '[::1]:9', deep: {on: true}}\nname: |\n  two\n  lines\n")
	if err != nil {
		t.Fatal(err)
	}
	want := testDefaults()
	want.Shared.Verbose, want.Timeout, want.Name = true, time.Second, "two\nlines\n"
	want.Loop.Depth, want.Loop.Home, want.Loop.Names = 255, [3]float64{1, 2, 3.5}, []string{}
	want.Loop.Listen, want.Loop.Deep.On = netip.MustParseAddrPort("[::1]:9"), true
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Error(diff)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n", "{}\n"} {
		if got, err := loaded(t, empty); err != nil || got.Loop.Depth != 3 {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"nmae: x", `line 1: nmae: unknown key (did you mean "name"?)`},
		{"gain: 1", `gain: unknown key (did you mean "loop.gain"?)`},
		{"loop.gain: 1", "loop.gain: unknown key"},
		{"verbose: true\nloop:\n  gian: 1", `line 3: loop.gian: unknown key (did you mean "loop.gain"?)`},
		{"name: a\nname: b", "line 2: "},
		{"loop: {gain: 1, gain: 2}", `"gain" already defined`},
		{"loop: {gain: .nan}", "loop.gain: .nan is not a finite number"},
		{"loop: {gain: -.inf}", "loop.gain: -.inf is not a finite number"},
		{"loop: {gain: 1e39}", "loop.gain: 1e39 is too large for float32"},
		{"loop: {gain: '5'}", `loop.gain: "5" is text, want a number`},
		{"loop: {gain: nan}", "loop.gain: nan is not a finite number"},
		{"loop: {gain: 0x10}", `loop.gain: "0x10" is not a number`},
		{"loop: {gain: }", "loop.gain: want a number, got nothing"},
		{"loop: {gain: true}", "loop.gain: "},
		{"loop: {gain: [1]}", "loop.gain: want a number, got a list"},
		{"loop: {gain: {a: 1}}", "loop.gain: want a number, got a mapping"},
		{"loop: {period_us: 2.5}", "loop.period_us: 2.5 is not a whole number from"},
		{"loop: {period_us: 010x}", `loop.period_us: "010x" is not a whole number`},
		{"loop: {depth: 256}", "loop.depth: 256 is not a whole number from 0 to 255"},
		{"loop: {depth: -1}", "loop.depth: -1 is not a whole number from 0 to 255"},
		{"loop: {home: [1, 2]}", "loop.home: 2 values, want 3"},
		{"loop: {home: [1, 2, x]}", `loop.home: value 3: "x" is not a number`},
		{"loop: {home: 1}", "loop.home: want a list such as [1, 2], got 1"},
		{"loop: {names: [1]}", "loop.names: value 1: want text, got 1 (put text in quotes)"},
		{"loop: {listen: here}", "loop.listen: "},
		{"loop: 5", "loop: want a mapping of keys, got 5"},
		{"loop:", "loop: want a mapping of keys, got nothing"},
		{"timeout: 5", "timeout: want a duration such as 250ms, got 5"},
		{"timeout: soon", `timeout: "soon" is not a duration`},
		{"verbose: yes", `verbose: "yes" is neither true nor false`},
		{"verbose: 1", `verbose: "1" is neither true nor false`},
		{"name: ~", "name: want text, got nothing"},
		{"name: 12", "name: want text, got 12 (put text in quotes)"},
		{"name: &x a", "name: want text, got an anchor"},
		{"loop: &x {gain: 1}", "loop: want a mapping of keys, got an anchor"},
		{"<<: {name: a}", "a key must be a plain word"},
		{"5: a", "a key must be a plain word, got 5"},
		{"- a", "want a mapping of keys, got a list"},
		{"just text", "want a mapping of keys, got just text"},
		{"name: a\n---\nname: b", "a second document"},
		{"loop: {period_us: 1000000}", "loop.period_us is 1000000, must lie above 0 and not above timeout (250ms)"},
		{"name: [", "line 1: "},
		{"\tname: a", "line 1: "},
		{"name: " + strings.Repeat("[", 1000), "nested more than 100 deep"},
		{strings.Repeat("- ", 300000), "nested more than 100 deep"},
		{"name: a\n# " + strings.Repeat("x", 1<<20), "larger than 1048576 bytes"},
	} {
		c, err := loaded(t, test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "c.yaml: ") {
			t.Errorf("%.60q: error %v, want %q", test.text, err, test.want)
			continue
		}
		if ExitCode(err) != ExitUsage {
			t.Errorf("%.60q: exit code %d", test.text, ExitCode(err))
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: error of several lines: %v", test.text, err)
		}
		if diff := cmp.Diff(testConfig{}, c, compare); diff != "" {
			t.Errorf("%.60q: a configuration beside the error: %s", test.text, diff)
		}
	}
}

func TestFilesThatAreNone(t *testing.T) {
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, pipe, "/dev/zero"} {
		_, err := NewLoader(testDefaults).LoadFile(path)
		if err == nil || !strings.Contains(err.Error(), path+": not a regular file") || ExitCode(err) != ExitUsage {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("name: of the file\nloop: {depth: 4, gain: 2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	parse := func(args ...string) (testConfig, error) {
		l := NewLoader(testDefaults)
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		l.AddFlags(flags)
		l.AddKeyFlag(flags, "name", "name")
		l.AddKeyFlag(flags, "verbose", "verbose")
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		return l.Load()
	}
	got, err := parse("--set", "loop.depth=5", "--config", path, "--verbose", "--name", "12: #x", "--set", "loop.home=[3, 2, 1]", "--set", "loop.depth=6")
	if err != nil {
		t.Fatal(err)
	}
	want := testDefaults()
	want.Name, want.Shared.Verbose, want.Loop.Gain, want.Loop.Depth, want.Loop.Home = "12: #x", true, 2, 6, [3]float64{3, 2, 1}
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Error(diff)
	}
	for _, test := range []struct{ flag, want string }{
		{"--set=loop.gian=1", `--set: loop.gian: unknown key (did you mean "loop.gain"?)`},
		{"--set=loop=1", "--set: loop: is a section"},
		{"--set=loop.gain=NaN", "--set: loop.gain: NaN is not a finite number"},
		{"--set=loop.gain=+Inf", "--set: loop.gain: +Inf is not a finite number"},
		{"--set=loop.gain=", `--set: loop.gain: "" is not a number`},
		{"--set=loop.home=", "--set: loop.home: want a list such as [1, 2], got nothing"},
		{"--set=loop.home=[1, .inf, 2]", "--set: loop.home: value 2: .inf is not a finite number"},
		{"--set=loop.home=[", "--set: loop.home: line 1: "},
		{"--set=loop.period_us=0", "loop.period_us is 0, must lie above 0"},
		{"--verbose=1", `--verbose: verbose: "1" is neither true nor false`},
	} {
		if _, err := parse(test.flag); err == nil || !strings.Contains(err.Error(), test.want) || ExitCode(err) != ExitUsage {
			t.Errorf("%s: error %v, want %q", test.flag, err, test.want)
		}
	}
}

func TestStructsThatCannotBeConfigured(t *testing.T) {
	for name, make := range map[string]func(){
		"map": func() { newSchema(reflect.TypeFor[struct{ M map[string]int }]()) },
		"same key": func() {
			newSchema(reflect.TypeFor[struct {
				A, B int `yaml:"a"`
			}]())
		},
		"flag": func() { NewLoader(testDefaults).AddKeyFlag(pflag.NewFlagSet("", 0), "x", "loop") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			make()
		}()
	}
}

func FuzzConfigFile(f *testing.F) {
	l := NewLoader(testDefaults)
	var defaults bytes.Buffer
	if err := l.WriteDefaults(&defaults); err != nil {
		f.Fatal(err)
	}
	f.Add(defaults.Bytes())
	for _, text := range []string{"", "a: &x [*x]", "? a\n: b", "loop:\n- a", "name: !!binary aa", "name: >-\n  x", "loop: {home: [1,2,3,]}", "%YAML 1.2\n---\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := testDefaults()
		if err := l.read(reflect.ValueOf(&c).Elem(), data); err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Error("an error without words")
		}
		if c.Loop.Gain != c.Loop.Gain {
			t.Error("a gain that is not a number")
		}
	})
}
