package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/wire"
)

// sent is how a sender that ran to its end says it went.
func sent(t *testing.T, out []byte) (hello senderReady, done senderDone) {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), out)
	}
	for i, into := range []any{&hello, &done} {
		if err := json.Unmarshal(lines[i], into); err != nil {
			t.Fatalf("%s: %v", lines[i], err)
		}
	}
	return hello, done
}

// Another program, from another address, is obeyed by the robot like the first one, and the robot's log tells them apart.
func TestSenderTakesARobot(t *testing.T) {
	log := filepath.Join(t.TempDir(), "robot.jsonl")
	robot, hello, rest := startedRobot(t, "--log", log, "--boot", "home")
	conn := dialRobot(t, hello.Low)
	askOnce(t, conn, dampingFrame(t))
	for _, tc := range []struct{ what, from, crc string }{{"pose", "127.0.0.2:0", "plain"}, {"damping", "", "encrypted"}} {
		args := []string{"sender", "--to", hello.Low, "--what", tc.what, "--rate", "100", "--seconds", "0.3", "--crc", tc.crc, "--json"}
		if tc.from != "" {
			args = append(args, "--from", tc.from)
		}
		out, err := program(t, args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		first, done := sent(t, out)
		if !first.Ready || first.What != tc.what || first.From != done.From || !strings.HasPrefix(done.From, "127.0.0.") {
			t.Errorf("%+v, %+v", first, done)
		}
		if done.Sent == 0 || done.Sent+done.Late != 30 || done.Failed != 0 || done.Answered == 0 {
			t.Errorf("%s: %+v", tc.what, done)
		}
	}
	if err := robot.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := rest.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	recs := readRecords(t, log, "command")
	var classes, hosts []string
	for _, r := range recs {
		from := netip.MustParseAddrPort(r.Text("sender"))
		classes, hosts = append(classes, r.Text("class")), append(hosts, from.Addr().String())
	}
	if fmt.Sprint(classes) != "[damping torque damping]" || fmt.Sprint(hosts) != "[127.0.0.1 127.0.0.2 127.0.0.1]" || recs[1].Number("kp") != 60 {
		t.Errorf("%v from %v", classes, hosts)
	}
}

// startSender starts one that sends an agent states, and reads its first line.
func startSender(t *testing.T, agent *net.UDPConn, args ...string) (cmd *exec.Cmd, rest *bufio.Reader, first string) {
	t.Helper()
	cmd = program(t, append([]string{"sender", "--to", agent.LocalAddr().String(), "--what", "states", "--json"}, args...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rest = bufio.NewReader(pipe)
	if first, err = rest.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd, rest, first
}

func TestSenderOfStates(t *testing.T) {
	agent, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	cmd, rest, first := startSender(t, agent)
	var buf [2048]byte
	var s wire.LowState
	last := int64(-1)
	for range 20 {
		agent.SetReadDeadline(time.Now().Add(patience))
		n, err := agent.Read(buf[:])
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.DecodeLowState(buf[:n], &s); err != nil || int64(s.Tick) <= last || s.IMU.Quaternion[0] != 1 {
			t.Fatalf("%v, tick %d after %d", err, s.Tick, last)
		}
		last = int64(s.Tick)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil { // without --seconds it goes on until then
		t.Fatal(err)
	}
	final, err := rest.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, done := sent(t, []byte(first+final)); done.Sent < 20 {
		t.Errorf("%+v", done)
	}
}

// A sender begins when it is told to and comes again; a signal ends it, also before it has begun.
func TestSenderComesLaterAndAgain(t *testing.T) {
	agent, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	for _, tc := range []struct {
		after string
		reads int // frames that are waited for before the signal
	}{{"0.1", 12}, {"1000", 0}} {
		cmd, rest, ready := startSender(t, agent, "--rate", "100", "--after", tc.after, "--seconds", "0.05", "--every", "0.2")
		var buf [2048]byte
		var s wire.LowState
		last := int64(-1)
		for range tc.reads {
			agent.SetReadDeadline(time.Now().Add(patience))
			n, err := agent.Read(buf[:])
			if err != nil {
				t.Fatal(err)
			}
			if err := wire.DecodeLowState(buf[:n], &s); err != nil || int64(s.Tick) <= last { // from one burst to the next too
				t.Fatalf("%v, tick %d after %d", err, s.Tick, last)
			}
			last = int64(s.Tick)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		final, err := rest.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		// Five frames a burst, unless this machine held the sender up.
		_, done := sent(t, []byte(ready+final))
		if bursts := (done.Sent + done.Late + 4) / 5; done.Bursts != bursts || done.Sent < uint64(tc.reads) || tc.reads == 0 && done != (senderDone{From: done.From}) {
			t.Errorf("after %s s: %+v, want %d bursts", tc.after, done, bursts)
		}
	}
}

// A sender in a network namespace of its own reaches a robot in another over a pair of interfaces. Namespaces of users let this be
// done without touching the machine's network and without root; a machine that has none of them skips.
func TestSenderInItsOwnNamespace(t *testing.T) {
	script := `set -e
mount -t tmpfs tmpfs /run
ip link set lo up
ip netns add other
ip link add v0 type veth peer name v1 netns other
ip addr add 10.77.0.1/24 dev v0
ip link set v0 up
ip -n other addr add 10.77.0.2/24 dev v1
ip -n other link set v1 up
[ $# = 0 ] && exit
"$1" robot --listen 10.77.0.1:8007 --seed 3 --json --log "$2" > /run/ready &
robot=$!
until [ -s /run/ready ]; do sleep 0.05; done
ip netns exec other "$1" sender --to 10.77.0.1:8007 --what damping --rate 100 --seconds 0.3 --json --to-hardware
kill $robot
wait $robot
`
	namespaces := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "unshare", append([]string{"-Urnmpf", "--kill-child", "sh", "-c", script, "sh"}, args...)...)
	}
	if out, err := namespaces().CombinedOutput(); err != nil {
		t.Skipf("no network namespaces here: %v %s", err, out)
	}
	log := filepath.Join(t.TempDir(), "robot.jsonl")
	cmd := namespaces(filepath.Join(programs(t), "clawsim"), log)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, done := sent(t, out)
	recs := readRecords(t, log, "command", "summary")
	if done.Sent == 0 || done.Answered == 0 || len(recs) != 2 || !strings.HasPrefix(recs[0].Text("sender"), "10.77.0.2:") {
		t.Errorf("%+v, %v", done, recs)
	}
}

func TestSenderRefuses(t *testing.T) {
	busy, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	to := []string{"sender", "--to", "127.0.0.1:8007"}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"sender"}, 2, "--to"},
		{[]string{"sender", "--to", "robot:8007"}, 2, "--to"},
		{[]string{"sender", "--to", "127.0.0.1:0"}, 2, "--to"},
		{[]string{"sender", "--to", "[::1]:8007"}, 2, "--to"},
		{append(to, "--from", "127.0.0.1"), 2, "--from"},
		{append(to, "--from", busy.LocalAddr().String()), 1, "--from"},
		{append(to, "--from", "192.0.2.7:0"), 1, "--from"},
		{append(to, "--what", "torque"), 2, "--what"},
		{append(to, "--rate", "0"), 2, "--rate"},
		{append(to, "--rate", "NaN"), 2, "--rate"},
		{append(to, "--seconds", "-1"), 2, "--seconds"},
		{append(to, "--after", "-1"), 2, "--after"},
		{append(to, "--after", "NaN"), 2, "--after"},
		{append(to, "--every", "-1"), 2, "--every"},
		{append(to, "--every", "5"), 2, "--every: 5 s from start to start, and --seconds 0"},
		{append(to, "--every", "5", "--seconds", "5"), 2, "--every"},
		{append(to, "--kp", "1e9"), 2, "--kp"},
		{append(to, "--kd", "-1"), 2, "--kd"},
		{append(to, "--crc", "odd"), 2, "--crc"},
		{append(to, "now"), 2, "now"},
		{[]string{"sender", "--to", "192.168.123.10:8007", "--what", "pose"}, 2, "192.168.123.10:8007 is not on this machine: a robot that stands there falls at the first command; if that is meant say --to-hardware"},
		{[]string{"sender", "--to", "192.168.123.10:8007"}, 2, "--to-hardware"},
		{[]string{"sender", "--to", "0.0.0.0:8007", "--what", "pose"}, 2, "--to-hardware"}, // an address of no machine in particular
		{[]string{"sender", "--to", "[::ffff:192.168.123.10]:8007", "--what", "pose"}, 2, "--to-hardware"},
		{[]string{"sender", "--from", "127.0.0.1:0", "--to", "192.0.2.7:9", "--what", "states", "--seconds", "0.01"}, 1, "no frame left"},
		{[]string{"sender", "--from", "127.0.0.1:0", "--to", "192.0.2.7:9", "--what", "pose", "--to-hardware", "--seconds", "0.01"}, 1, "no frame left"},
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
