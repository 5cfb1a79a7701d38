package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// argsVariable holds the arguments of a clawsim that runs inside this test binary, separated by new lines.
const argsVariable = "OPENCLAW_TEST_CLAWSIM"

// TestProgram is no test: with the variable set, this process is clawsim.
func TestProgram(*testing.T) {
	if args, ok := os.LookupEnv(argsVariable); ok {
		os.Exit(cli.Run(newRoot(), strings.Split(args, "\n"), os.Stdout, os.Stderr))
	}
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProgram$")
	cmd.Env = append(os.Environ(), argsVariable+"="+strings.Join(args, "\n"))
	return cmd
}

// startedRobot runs `clawsim robot --json` and returns once it is ready.
func startedRobot(t *testing.T, args ...string) (cmd *exec.Cmd, hello ready, rest *bufio.Reader) {
	t.Helper()
	cmd = program(t, append([]string{"robot", "--listen", "127.0.0.1:0", "--json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // has ended in most tests
		_ = cmd.Wait()
	})
	rest = bufio.NewReader(out)
	line, err := rest.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(line), &hello); err != nil || !hello.Ready {
		t.Fatalf("%s: %v", line, err)
	}
	return cmd, hello, rest
}

func dialRobot(t *testing.T, to string) *net.UDPConn {
	t.Helper()
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func dampingFrame(t *testing.T) []byte {
	t.Helper()
	var c wire.LowCmd
	c.Init()
	for i := range wire.Joints {
		c.Motor[i] = wire.MotorCmd{Mode: wire.ModeServo, Kd: 3}
	}
	b, err := wire.AppendLowCmd(nil, &c, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// askOnce sends a frame and waits for an answer.
func askOnce(t *testing.T, conn *net.UDPConn, frame []byte) {
	t.Helper()
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	var buf [2048]byte
	conn.SetReadDeadline(time.Now().Add(patience))
	if n, err := conn.Read(buf[:]); err != nil || n != wire.LowStateSize {
		t.Fatalf("answer of %d bytes, %v", n, err)
	}
}

func readRecords(t *testing.T, path string, events ...string) []virtualtest.Record {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	recs, err := virtualtest.ParseLog(b, events...)
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func TestRobotEndsWithItsSummary(t *testing.T) {
	log := filepath.Join(t.TempDir(), "robot.jsonl")
	cmd, hello, rest := startedRobot(t, "--log", log, "--boot", "sport", "--control", "127.0.0.1:0", "--seed", "7")
	if hello.High == "" || hello.Control == "" || hello.Boot != "sport" || hello.Seed != 7 {
		t.Errorf("%+v", hello)
	}
	conn := dialRobot(t, hello.Low)
	for range 20 {
		askOnce(t, conn, dampingFrame(t))
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	line, err := rest.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Frames, Answered uint64
		Posture          string
	}
	if err := json.Unmarshal([]byte(line), &s); err != nil || s.Frames != 20 || s.Answered != 20 {
		t.Errorf("%s: %v", line, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if recs := readRecords(t, log, "start", "limp", "summary"); len(recs) != 3 || recs[0].Number("seed") != 7 {
		t.Errorf("log: %v", recs)
	}
}

// A killed robot leaves what it had logged, up to the last tenth of a second.
func TestKilledRobotLeavesItsLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "robot.jsonl")
	cmd, hello, _ := startedRobot(t, "--log", log, "--log-every-frame")
	conn := dialRobot(t, hello.Low)
	for range 10 {
		askOnce(t, conn, dampingFrame(t))
	}
	eventually(t, "10 frames are in the log", func() bool { return len(readRecords(t, log, "frame")) >= 10 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as wanted
	if recs := readRecords(t, log, "start", "command", "frame"); len(recs) != 12 {
		t.Errorf("%d records: %v", len(recs), recs)
	}
}

// A robot that was held up says for how long, so that a machine's stall is not taken for the agent's.
func TestStallIsLogged(t *testing.T) {
	log := filepath.Join(t.TempDir(), "robot.jsonl")
	cmd, hello, rest := startedRobot(t, "--log", log)
	askOnce(t, dialRobot(t, hello.Low), dampingFrame(t)) // it runs
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a stall of 250 ms with 150 ms of physics dropped is in the log", func() bool {
		return slices.ContainsFunc(readRecords(t, log, "stall"), func(r virtualtest.Record) bool {
			return r.Number("stall_ms") >= 250 && r.Number("dropped_ms") >= 150
		})
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := rest.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestRobotRefuses(t *testing.T) {
	busy, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	script := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(script, []byte("- drop_state@0\n- earthquake@1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"robot", "--listen", busy.LocalAddr().String()}, 1, "in use"},
		{[]string{"robot", "--fault", "drop_state,p=2@1"}, 2, `p is "2", want 0..1`},
		{[]string{"robot", "--fault", "drop_state"}, 2, "no @START"},
		{[]string{"robot", "--script", script}, 2, "fault 2: "},
		{[]string{"robot", "--script", script + ".not"}, 2, "no such file"},
		{[]string{"robot", "--boot", "handstand"}, 2, "handstand"},
		{[]string{"robot", "--fault", "turn@1"}, 2, "boot hung"},
		{[]string{"robot", "--boot", "hung", "--fault", "turn,axis=z@1"}, 2, "axis"},
		{[]string{"robot", "--on-silence", "damp"}, 2, "damp:TIME"},
		{[]string{"robot", "--on-silence", "limp:soon"}, 2, "on_silence"},
		{[]string{"robot", "--crc", "odd"}, 2, "crc"},
		{[]string{"robot", "--sn", "[1, 2, 3]"}, 2, "identity.sn"},
		{[]string{"robot", "--sn", "7"}, 2, "identity.sn"},
		{[]string{"robot", "--listen", "somewhere"}, 2, "listen"},
		{[]string{"robot", "--control", "0.0.0.0:80"}, 2, "loopback"},
		{[]string{"robot", "--foot-force", "odd"}, 2, "--foot-force"},
		{[]string{"robot", "--remote", "odd"}, 2, "--remote"},
		{[]string{"robot", "--soc", "101"}, 2, "soc_percent"},
		{[]string{"robot", "--set", "noise.nose=1"}, 2, "noise.nose"},
		{[]string{"robot", "--log", filepath.Join(t.TempDir(), "no", "where")}, 1, "--log"},
		{[]string{"robot", "away"}, 2, "away"},
	} {
		out, err := program(t, tc.args...).CombinedOutput()
		code := 0
		if e, ok := err.(*exec.ExitError); ok {
			code = e.ExitCode()
		}
		if code != tc.code || !strings.Contains(string(out), tc.want) {
			t.Errorf("%v: exit code %d, want %d with %q\n%s", tc.args, code, tc.code, tc.want, out)
		}
	}
}

// What the help shows is taken as it stands there: the script, each fault of a flag and each request.
func TestRobotExamplesAreTaken(t *testing.T) {
	_, script, found := strings.Cut(robotExample, "<<END\n")
	script, _, ended := strings.Cut(script, "END\n")
	faults, err := virtual.ReadScript("example", strings.NewReader(script))
	if !found || !ended || err != nil || len(faults) != 4 || strings.Count(script, "\n") != 8 {
		t.Errorf("%v, %v of\n%s", faults, err, script)
	}
	if text := faults[2].String(); !strings.Contains(script, "# "+text+"\n") {
		t.Errorf("the script says that its mapping is another fault than %s", text)
	}
	_, hello, _ := startedRobot(t, "--control", "127.0.0.1:0", "--boot", "hung")
	texts := 0
	for line := range strings.Lines(robotExample) {
		parts := strings.Split(line, "'")
		for i := 1; i < len(parts); i += 2 {
			body := parts[i]
			if strings.HasSuffix(parts[i-1], "--fault ") {
				body = `{"fault":"` + body + `"}`
			} else if !strings.HasSuffix(parts[i-1], "curl -d ") {
				t.Fatalf("what is %s?", parts[i])
			}
			texts++
			resp, err := http.Post("http://"+hello.Control+"/fault", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", body, said)
			}
		}
	}
	if texts != 7 {
		t.Errorf("%d faults in the examples, want 7", texts)
	}
}

func TestRobotTells(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"robot", "--help"}, "--log-every-frame"},
		{[]string{"robot", "--faults"}, "imu_tilt"},
		{[]string{"robot", "--faults"}, "commands are lost on their way to the robot [samples: commands]\n"},
		{[]string{"robot", "--faults"}, "the state of charge reads soc\n  soc              %, a whole number 0..255 (default 8)\n"},
		{[]string{"robot", "--faults"}, "kick, restart and clear happen at once"},
		{[]string{"robot", "--faults"}, "a person turns the robot"},
		{[]string{"config", "--explain"}, "on_silence"},
		{[]string{"config", "--explain"}, "noise.gyro_bias"},
		{[]string{"--version", "--json"}, `"name":"clawsim"`},
	} {
		out, err := program(t, tc.args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), tc.want) {
			t.Errorf("%v: %v\n%s", tc.args, err, out)
		}
	}
}
