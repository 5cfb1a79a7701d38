package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

const linked = "github.com/openclaw-rl/openclaw/agent/cli"

var toyFolder string // of the built toy, removed by TestMain

// toyPath builds testdata/toy, once, with a version linked in as the Makefile does.
var toyPath = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "toy")
	if err != nil {
		return "", err
	}
	toyFolder = folder
	path := filepath.Join(folder, "toy")
	flags := fmt.Sprintf("-X %s.version=1.2.3 -X %s.commit=abc-dirty", linked, linked)
	out, err := exec.Command("go", "build", "-ldflags", flags, "-o", path, "./testdata/toy").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building toy: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(toyFolder) // "" removes nothing
	os.Exit(code)
}

func buildToy(t *testing.T) string {
	t.Helper()
	path, err := toyPath()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgram(t *testing.T) {
	toy := buildToy(t)
	missing := filepath.Join(t.TempDir(), "none.yaml")
	type result struct {
		code           int
		stdout, stderr string // parts that must be there; "" means the stream is empty
	}
	for _, test := range []struct {
		args string
		want result
	}{
		{"", result{2, "", "toy: name a command\n"}},
		{"--help", result{0, "Exit codes:", ""}},
		{"help run", result{0, "toy run [flags]", ""}},
		{"help nothing", result{2, "", `toy: help: unknown command "nothing"`}},
		{"rum", result{2, "", `toy: unknown command "rum" (did you mean "run"?) (see toy --help)`}},
		{"completion bash", result{0, "bash completion", ""}},
		{"completion nosuch", result{2, "", `toy: completion: unknown command "nosuch"`}},
		{"run --bogus", result{2, "", "toy: run: unknown flag: --bogus (see toy run --help)"}},
		{"run extra", result{2, "", "toy: run: unknown command \"extra\" for \"toy run\""}},
		{"run", result{0, `{"bad":null,"kp":60,"robot":"udp://127.0.0.1:8007"}` + "\n", ""}},
		{"run --robot udp://10.0.0.1:1 --set stand.kp=50", result{0, `{"bad":null,"kp":50,"robot":"udp://10.0.0.1:1"}`, ""}},
		{"run --set stand.kp=0", result{2, "", "toy: configuration: stand.kp is 0, must be above 0"}},
		{"run --set stand.kd=0", result{2, "", `toy: --set: stand.kd: unknown key (did you mean "stand.kp"?)`}},
		{"run --set kp", result{2, "", `invalid argument "kp" for "--set" flag: want KEY=VALUE`}},
		{"run --config " + missing, result{2, "", "toy: configuration: open " + missing + ": no such file"}},
		{"fail", result{1, "", "toy: the robot did not answer\n"}},
		{"absent", result{3, "", "toy: no policy found; pass --policy FILE\n"}},
		{"panic", result{1, "", "toy: panic: a bug"}},
		{"config", result{2, "", "at least one of the flags"}},
		{"config --defaults --explain", result{2, "", "none of the others can be"}},
		{"config --check=", result{2, "", "want a file name"}},
		{"config --check " + missing, result{2, "", missing}},
		{"config --explain", result{0, "stand.kp", ""}},
		{"--version", result{0, "toy 1.2.3 (abc-dirty) " + runtime.Version(), ""}},
		{"--version extra", result{2, "", "unknown command"}},
		{"--json", result{2, `{"ok":false,"error":"name a command","exit_code":2}` + "\n", "name a command"}},
		{"run --json", result{0, `{"bad":null,"kp":60,"robot":"udp://127.0.0.1:8007"}` + "\n", ""}},
		{"run --json --set stand.kp=0", result{2, `{"ok":false,"error":"configuration: stand.kp is 0, must be above 0","exit_code":2}` + "\n", "stand.kp is 0"}},
		{"run --json=false --set stand.kp=0", result{2, "", "stand.kp is 0"}},
		{"run --json --bogus", result{2, `{"ok":false,"error":"run: unknown flag: --bogus (see toy run --help)","exit_code":2}` + "\n", "--bogus"}},
		{"ill --json", result{1, `{"of":"ill"}` + "\n", "toy: two errors\n"}},
		{"up --json", result{1, `{"of":"up"}` + "\n" + `{"ok":false,"error":"two errors","exit_code":1}` + "\n", "toy: two errors\n"}},
		{"up", result{1, `{"of":"up"}` + "\n", "toy: two errors\n"}},
	} {
		t.Run(test.args, func(t *testing.T) {
			cmd := exec.Command(toy, strings.Fields(test.args)...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != test.want.code {
				t.Errorf("exit code %d, want %d", got, test.want.code)
			}
			for _, stream := range []struct{ name, got, want string }{
				{"stdout", stdout.String(), test.want.stdout}, {"stderr", stderr.String(), test.want.stderr}} {
				whole := stream.want == "" || stream.name == "stdout" && strings.HasSuffix(stream.want, "}\n")
				if !strings.Contains(stream.got, stream.want) || whole && stream.got != stream.want {
					t.Errorf("%s is %q, want %q in it", stream.name, stream.got, stream.want)
				}
			}
		})
	}
}

func TestVersionJSON(t *testing.T) {
	out, err := exec.Command(buildToy(t), "--version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got Build
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	want := Build{"toy", "1.2.3", "abc-dirty", runtime.Version(), runtime.GOOS, runtime.GOARCH}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if b := ReadBuild("test"); b.Version == "" || b.Go == "" {
		t.Errorf("a build without linked variables: %+v", b)
	}
}

func TestStopStages(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps []any // a line to read, a signal to send, or nil: close the reading end
	}{
		{"hangup then two terminations", []any{"ready", syscall.SIGHUP, "sit: signal: hangup", syscall.SIGTERM, "damp: second signal: terminated", syscall.SIGTERM}},
		{"two interrupts", []any{"ready", syscall.SIGINT, "sit: signal: interrupt", syscall.SIGINT, "damp: second signal: interrupt"}},
		{"quit", []any{"ready", syscall.SIGQUIT, "sit: signal: quit", "damp: signal: quit"}},
		{"nobody reads", []any{"ready", nil, syscall.SIGTERM, syscall.SIGINT}}, // each print fails, the program goes on
	} {
		t.Run(test.name, func(t *testing.T) {
			if slices.Contains(test.steps, any(syscall.SIGHUP)) && signal.Ignored(syscall.SIGHUP) {
				t.Skip("SIGHUP is ignored here (nohup), and so by every program started from here")
			}
			toy := exec.Command(buildToy(t), "wait")
			stdin, err := toy.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := toy.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := toy.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			for _, step := range test.steps {
				switch step := step.(type) {
				case string:
					if !lines.Scan() || lines.Text() != step {
						t.Errorf("printed %q, want %q", lines.Text(), step)
					}
				case syscall.Signal:
					if err := toy.Process.Signal(step); err != nil {
						t.Error(err)
					}
				default:
					stdout.Close()
				}
			}
			stdin.Close()
			if err := toy.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStopStagesRelease(t *testing.T) {
	sit, damp, release := StopStages(t.Context())
	release()
	release()
	if sit.Err() == nil || damp.Err() == nil {
		t.Error("release left a context alive")
	}
}

func TestExitCode(t *testing.T) {
	plain := errors.New("plain")
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{plain, ExitFailed},
		{Usage(plain), ExitUsage},
		{Usage(nil), ExitOK},
		{NotAvailable(nil), ExitOK},
		{fmt.Errorf("doctor: %w", NotAvailable(plain)), ExitNotAvailable},
		{Usage(NotAvailable(plain)), ExitUsage},
		{Usagef("file: %w", plain), ExitUsage},
	} {
		if got := ExitCode(test.err); got != test.want {
			t.Errorf("ExitCode(%v) = %d, want %d", test.err, got, test.want)
		}
	}
	if !errors.Is(Usage(plain), plain) {
		t.Error("Usage hides its cause")
	}
}

func TestPrintJSON(t *testing.T) {
	type speed float32
	for _, test := range []struct {
		name string
		v    any
		want string // "" is an error
	}{
		{"numbers", map[string]any{"b": math.Inf(-1), "a": 1.5, "c": float32(math.NaN())}, `{"a":1.5,"b":null,"c":null}`},
		{"struct", struct {
			Speed speed     `json:"speed"`
			List  []float64 `json:"list"`
			Far   *float64  `json:"far"`
			Text  string    `json:"text"`
		}{speed(math.Inf(1)), []float64{1, math.NaN()}, new(math.NaN()), "a<b\n"}, `{"speed":null,"list":[1,null],"far":null,"text":"a<b\n"}`},
		{"list", []int{1}, ""},
		{"nothing", nil, ""},
		{"channel", map[string]any{"c": make(chan int)}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			err := PrintJSON(&out, test.v)
			if test.want == "" {
				if err == nil || out.Len() != 0 {
					t.Errorf("printed %q, error %v; want an error and nothing printed", out.String(), err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != test.want+"\n" {
				t.Errorf("got %s want %s", got, test.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	root := &cobra.Command{Use: "prog", Short: "Does things", Long: "Does things well."}
	root.PersistentFlags().Bool("quiet", false, "say less")
	root.AddCommand(&cobra.Command{
		Use: "go PLACE", Short: "Goes", Aliases: []string{"walk"},
		Example: "\n\t\tprog go home\n\n\t\t  # and back\n\t\tprog go back\n\t",
		RunE:    func(*cobra.Command, []string) error { return nil },
	})
	var out, errs bytes.Buffer
	if code := Run(root, []string{"go", "--help"}, &out, &errs); code != ExitOK {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	want := "Goes\n\nUsage:\n  prog go PLACE [flags]\n\nAlso called: walk\n\nExamples:\n  prog go home\n\n    # and back\n  prog go back\n\n" +
		"Flags:\n  -h, --help   help for go\n\nFlags of every command:\n      --quiet   say less\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
