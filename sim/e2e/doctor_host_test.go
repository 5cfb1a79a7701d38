package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// plainDoctor runs `clawagent doctor --json` for an address, through a shell's words before it if there are any.
func plainDoctor(t *testing.T, prefix []string, robot string, args ...string) (d diagnosis) {
	t.Helper()
	words := slices.Concat(prefix, []string{filepath.Join(binDir, "clawagent"), "doctor", "--json", "--seconds", "0.3", "--robot", "udp://" + robot}, args)
	cmd := exec.Command(words[0], words[1:]...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%q: %v: %q\n%s", words, err, out, stderr.String())
	}
	d.code, d.stderr = cmd.ProcessState.ExitCode(), stderr.String()
	d.note()
	return d
}

// udpPeer is a socket that answers each datagram with one; nil answers with nothing.
func udpPeer(t *testing.T, at netip.Addr, answer []byte) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go reply(c, c, answer)
	return c
}

func reply(at, from *net.UDPConn, answer []byte) {
	buf := make([]byte, 2048)
	for {
		_, client, err := at.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if answer != nil {
			from.WriteToUDPAddrPort(answer, client)
		}
	}
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// nobody runs as a user without rights.
func nobody(t *testing.T) []string {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		lacks(t, "needs setpriv (Debian package util-linux) to drop root's rights")
	}
	if err := os.Chmod(binDir, 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"}
}

// lacks ends a test that this machine does not let be done: it is skipped, but not where every test is wanted and root could see to it.
func lacks(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getuid() == 0 && os.Getenv("OPENCLAW_ALL") == "1" {
		t.Fatalf("OPENCLAW_ALL=1 wants every test, and this is root: "+format, args...)
	}
	t.Skipf(format, args...)
}

// ownNetwork runs in a network, and with mounts, of its own, in which a shell has said something first.
func ownNetwork(t *testing.T, setUp string) []string {
	t.Helper()
	if os.Getuid() != 0 {
		lacks(t, "needs root for a network namespace")
	}
	for _, tool := range []string{"unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			lacks(t, "needs %s (Debian packages util-linux, iproute2)", tool)
		}
	}
	shell := []string{"unshare", "--net", "--mount", "--", "sh", "-ec", setUp + "\nexec \"$@\"", "sh"}
	if out, err := exec.Command(shell[0], append(shell[1:], "true")...).CombinedOutput(); err != nil {
		lacks(t, "needs network namespaces: %v: %s", err, out)
	}
	return shell
}

// ownRadio is one in which radio0, an interface that leads nowhere, looks like a wireless one: the kernel's tree has a folder more.
func ownRadio(t *testing.T, setUp string) []string {
	t.Helper()
	const at = "/sys/devices/virtual/net/radio0"
	return ownNetwork(t, "mount -t sysfs sysfs /sys; ip link set lo up; ip link add radio0 type veth peer name far0; ip link set far0 up; "+setUp+
		"; mount -t tmpfs tmpfs "+at+"; mkdir "+at+"/wireless")
}

// doctorDisk is a file system of its own.
func doctorDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		lacks(t, "needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk writes to a file system until it takes no more.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "full"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, n := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// lively is a robot that hangs, in lockstep, for a plain doctor.
func lively(t *testing.T, args ...string) (robot string, all []string) {
	t.Helper()
	return hungRobot(t).Addr().String(), append([]string{"--set", "control.lockstep=true"}, args...)
}

func wellState(t *testing.T) []byte {
	t.Helper()
	var s wire.LowState
	s.Init()
	frame, err := wire.AppendLowState(nil, &s, wire.PlainCRC)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// doctorHostRow is something that no robot makes.
type doctorHostRow struct {
	names string // one of those with a |
	level string // "": any
	make  func(t *testing.T) diagnosis
}

// doctorHost are the names that no robot makes: this machine, its network, other programs, folders. The functions make each, or say what
// they lack.
var doctorHost = []doctorHostRow{
	{"states route|route_slow sport_mode_off disk", "", func(t *testing.T) diagnosis {
		robot, args := lively(t)
		return plainDoctor(t, nil, robot, args...)
	}},
	{"clock", "ok", func(t *testing.T) diagnosis {
		robot, args := lively(t)
		return plainDoctor(t, heldClock{synchronised: true}.words(t), robot, args...)
	}},
	{"clock_unsynchronised", "warning", func(t *testing.T) diagnosis {
		robot, args := lively(t)
		return plainDoctor(t, heldClock{}.words(t), robot, args...)
	}},
	{"clock_steps", "warning", func(t *testing.T) diagnosis {
		robot, args := lively(t)
		return plainDoctor(t, heldClock{synchronised: true, wallStep: 5 * time.Second}.words(t), robot, args...)
	}},
	{"clock_monotonic", "error", func(t *testing.T) diagnosis {
		robot, args := lively(t)
		return plainDoctor(t, heldClock{synchronised: true, rawStep: 5 * time.Second}.words(t), robot, args...)
	}},
	{"route_wireless", "warning", func(t *testing.T) diagnosis {
		return plainDoctor(t, ownRadio(t, "ip address add 10.77.0.1/24 dev radio0; ip link set radio0 up; ip neigh add 10.77.0.8 lladdr 02:00:00:00:00:08 dev radio0"), "10.77.0.9:8007", "--high", "10.77.0.8:8082", "--arm")
	}},
	{"route_wireless", "warning", func(t *testing.T) diagnosis { // behind a bridge
		shell := ownRadio(t, "ip link add bridge0 type bridge; ip link set radio0 master bridge0; ip link set radio0 up; ip address add 10.77.0.1/24 dev bridge0; ip link set bridge0 up; ip neigh add 10.77.0.8 lladdr 02:00:00:00:00:08 dev bridge0")
		d := plainDoctor(t, shell, "10.77.0.9:8007", "--high", "10.77.0.8:8082", "--arm")
		if f := d.find("route_wireless"); f != nil && !strings.Contains(f.Text, "bridge0, which leads to the robot, stands on radio0") {
			t.Errorf("%+v", f)
		}
		return d
	}},
	{"realtime", "warning", func(t *testing.T) diagnosis {
		robot, args := lively(t)
		return plainDoctor(t, nobody(t), robot, args...)
	}},
	{"disk_low", "warning", func(t *testing.T) diagnosis {
		robot, args := lively(t, "--set", "first_contact.dir="+doctorDisk(t, "size=50m"))
		return plainDoctor(t, nil, robot, args...)
	}},
	{"disk_low", "error", func(t *testing.T) diagnosis {
		robot, args := lively(t, "--set", "log="+filepath.Join(doctorDisk(t, "size=1m"), "journal"))
		return plainDoctor(t, nil, robot, args...)
	}},
	{"disk_unwritable", "warning", func(t *testing.T) diagnosis {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		robot, args := lively(t, "--set", "first_contact.dir="+filepath.Join(dir, "below", "it"))
		return plainDoctor(t, nobody(t), robot, args...)
	}},
	{"another_agent", "error", func(t *testing.T) diagnosis {
		robot, args := lively(t)
		l, err := net.Listen("unix", "@clawagent/"+robot)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return plainDoctor(t, nil, robot, args...)
	}},
	{"guard", "error", func(t *testing.T) diagnosis {
		robot, args := lively(t)
		socket := filepath.Join(t.TempDir(), "guard")
		other := launch(t, "clawagent", "guard", "--json", "--robot", "udp://127.0.0.1:9", "--socket", socket)
		defer other.end()
		return plainDoctor(t, nil, robot, append(args, "--set", "guard.socket="+socket)...)
	}},
	{"local_address", "error", func(t *testing.T) diagnosis {
		robot, args := lively(t)
		taken := udpPeer(t, loopback, nil)
		return plainDoctor(t, nil, robot, append(args, "--local", taken.LocalAddr().String())...)
	}},
	{"sport_mode_unknown", "error", func(t *testing.T) diagnosis {
		shell := ownNetwork(t, "ip link set lo up; ip address add 10.77.0.1/32 dev lo; ip route add 10.77.0.9/32 dev lo; ip route add 10.77.0.8/32 dev lo")
		// What is sent to the high level's address comes back to this machine, is not for it, and is dropped without a word.
		return plainDoctor(t, shell, "10.77.0.9:8007", "--high", "10.77.0.8:8082")
	}},
	{"high_level_unclear", "error", func(t *testing.T) diagnosis {
		robot, args := lively(t)
		return plainDoctor(t, nil, robot, append(args, "--high", udpPeer(t, loopback, make([]byte, 99)).LocalAddr().String())...)
	}},
	{"unreachable", "error", func(t *testing.T) diagnosis {
		return plainDoctor(t, ownNetwork(t, ":"), "10.77.0.9:8007", "--arm")
	}},
	{"send_errors", "error", func(t *testing.T) diagnosis {
		shell := ownNetwork(t, "ip link set lo up; ip address add 10.77.0.1/32 dev lo; ip route add prohibit 10.77.0.9/32; ip route add 10.77.0.8/32 dev lo")
		return plainDoctor(t, shell, "10.77.0.9:8007", "--high", "10.77.0.8:8082", "--local", "10.77.0.1:8090", "--arm")
	}},
	{"nothing_listens", "error", func(t *testing.T) diagnosis {
		closed := udpPeer(t, loopback, nil)
		at := closed.LocalAddr().String()
		closed.Close()
		return plainDoctor(t, nil, at, "--high", "127.0.0.1:1")
	}},
	{"bad_head not_lowstate", "error", func(t *testing.T) diagnosis {
		frame := wellState(t)
		frame[0] = 0
		return plainDoctor(t, nil, udpPeer(t, loopback, frame).LocalAddr().String(), "--high", "127.0.0.1:1")
	}},
	{"level_flag not_lowstate", "error", func(t *testing.T) diagnosis {
		var s wire.LowState
		s.Init()
		frame, err := wire.AppendLowState(nil, &s, wire.EncryptedCRC)
		if err != nil {
			t.Fatal(err)
		}
		return plainDoctor(t, nil, udpPeer(t, loopback, frame).LocalAddr().String(), "--high", "127.0.0.1:1")
	}},
	{"wrong_port", "error", func(t *testing.T) diagnosis {
		low, other := udpPeer(t, loopback, nil), udpPeer(t, loopback, nil)
		low.Close()
		at, err := net.ListenUDP("udp4", low.LocalAddr().(*net.UDPAddr))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { at.Close() })
		go reply(at, other, wellState(t))
		return plainDoctor(t, nil, low.LocalAddr().String(), "--high", "127.0.0.1:1")
	}},
	{"overflow", "warning", func(t *testing.T) diagnosis {
		// Somebody floods the doctor's port faster than it reads.
		robot, args := lively(t)
		at := udpPeer(t, loopback, nil)
		local := at.LocalAddr().(*net.UDPAddr).AddrPort()
		at.Close()
		flood := udpPeer(t, loopback, nil)
		stop := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			junk := make([]byte, 1400)
			for {
				select {
				case <-stop:
					return
				default:
					for range 100 {
						flood.WriteToUDPAddrPort(junk, local)
					}
				}
			}
		}()
		defer func() { close(stop); <-ended }()
		return plainDoctor(t, nil, robot, append(args, "--local", local.String(), "--seconds", "1")...)
	}},
	{"states_stopped", "error", func(t *testing.T) diagnosis {
		robot := hungRobotWith(t, func(c *virtual.Config) { c.Lockstep = false })
		done := make(chan struct{})
		go func() {
			defer close(done)
			for end := time.Now().Add(patience); robot.Status().Frames < 60 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			robot.Fault("drop_state@now")
		}()
		d := plainDoctor(t, nil, robot.Addr().String(), "--seconds", "1.5")
		<-done
		return d
	}},
	{"another_sender", "error", func(t *testing.T) diagnosis {
		robot := hungRobotWith(t, func(c *virtual.Config) { c.Lockstep, c.Boot = false, virtual.BootFolded }).Addr().String()
		// Of two that send every 2 ms the one that is always overtaken is never obeyed: this one begins anew at another phase, six times.
		other := launch(t, "clawsim", "sender", "--json", "--to", robot, "--from", "127.0.0.2:0", "--what", "pose", "--seconds", "0.2", "--every", "0.2507")
		defer other.end()
		return plainDoctor(t, nil, robot, "--seconds", "1.5") // of which a machine may stand still for some
	}},
	{"first_contact link_loss_unknown", "warning", func(t *testing.T) diagnosis {
		robot, args := lively(t, "--set", "first_contact.require=true", "--set", "first_contact.dir="+t.TempDir())
		return plainDoctor(t, nil, robot, args...)
	}},
	{"first_contact_file", "error", func(t *testing.T) diagnosis {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "sn-00000c1a-00000001.json"), []byte("{\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return runDoctor(t, does, hungRobot(t), contactArgs(dir, only()...)...)
	}},
	{"first_contact_file first_contact disk_low", "error", func(t *testing.T) diagnosis { // on a full disk
		dir := doctorDisk(t, "size=64k")
		robot := hungRobot(t)
		fillDisk(t, dir)
		d := runDoctor(t, does, robot, contactArgs(dir, only()...)...)
		if f := d.find("first_contact_file"); f != nil && !strings.Contains(f.Text, "no space left") {
			t.Errorf("%+v", f)
		}
		if f := d.find("first_contact"); f != nil && !strings.Contains(f.Text, "; not kept in "+dir) {
			t.Errorf("%+v", f)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*contact-*")); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
		return d
	}},
	{"first_contact_file", "error", func(t *testing.T) diagnosis { // on a disk that is full before a hang test
		dir := doctorDisk(t, "size=256k")
		record, err := os.ReadFile("../../agent/cmd/clawagent/testdata/passed_record.json")
		if err != nil {
			t.Fatal(err)
		}
		text := slices.Concat([]byte(`{"format":1,"identity":"sn-00000c1a-00000001","passed":true,"record":`), record, []byte("}\n"))
		passed := filepath.Join(dir, "sn-00000c1a-00000001.json")
		if err := os.WriteFile(passed, text, 0o644); err != nil {
			t.Fatal(err)
		}
		fillDisk(t, dir)
		robot := hungRobotWith(t, func(c *virtual.Config) { c.Lockstep = false })
		d := runDoctor(t, nil, robot, "--hang-test", "--hung", "--set", "first_contact.dir="+dir)
		if f := d.find("first_contact_file"); f != nil && !strings.Contains(f.Text, "no space left on device; no torque was sent") {
			t.Errorf("%+v", f)
		}
		noTorque(t, robot)
		if left, err := os.ReadFile(passed); err != nil || !slices.Equal(left, text) {
			t.Errorf("what was kept has changed: %v\n%s", err, left)
		}
		return d
	}},
	{"hang_aborted", "error", func(t *testing.T) diagnosis {
		robot := hungRobotWith(t, func(c *virtual.Config) { c.Lockstep = false })
		ended, done := make(chan struct{}), make(chan struct{})
		go func() { // whoever stands beside it has the last word
			defer close(done)
			for robot.Status().LastTorque <= 0 {
				select {
				case <-ended:
					return
				case <-time.After(time.Millisecond):
				}
			}
			robot.Fault("remote_buttons,buttons=L2+B@now")
		}()
		d := runDoctor(t, nil, robot, "--hang-test", "--hung", "--set", "first_contact.dir="+passedContact(t))
		close(ended)
		<-done
		robot.Stop()
		if d.late() {
			t.Skip("this machine stands still too often for a hang test")
		}
		if s := robot.Summary(); s.DampingTick < 0 || s.TorqueAfter != 0 || robot.Status().Class != virtual.ClassDamping {
			t.Errorf("broken off, but not damped: %+v", s)
		}
		if f := d.find("hang_aborted"); f != nil && !strings.Contains(f.Text, "remote_stop") {
			t.Errorf("%+v", f)
		}
		return d
	}},
}

// try makes this machine so.
func (row *doctorHostRow) try(t *testing.T) {
	d := row.make(t)
	for _, names := range strings.Fields(row.names) {
		found := false
		for _, n := range strings.Split(names, "|") {
			f := d.find(n)
			found = found || f != nil && (row.level == "" || f.Level == row.level || strings.HasPrefix(n, "not_"))
		}
		if !found {
			t.Errorf("not named: %s %s among %+v\n%s", row.level, names, d.Findings, d.stderr)
		}
	}
}

// TestDoctorInterrupted: Ctrl-C ends a first contact with what has passed kept, and a hang test with the robot damped.
func TestDoctorInterrupted(t *testing.T) {
	dir := t.TempDir()
	robot := hungRobot(t)
	interrupt := func(cmd *exec.Cmd) { _ = cmd.Process.Signal(os.Interrupt) }
	d := runDoctorWith(t, func(e *doctorEvent, cmd *exec.Cmd) []string {
		if e.Step == "RR_hip_joint" {
			interrupt(cmd)
			return nil
		}
		return does(e)
	}, robot, contactArgs(dir)...)
	if !d.Interrupted || d.OK || d.code != 1 || d.Contact.Passed || !strings.Contains(d.stderr, "broken off") {
		t.Fatalf("%+v\n%s", d, d.stderr)
	}
	first := ""
	d = runDoctor(t, func(e *doctorEvent) []string {
		if first == "" {
			first = e.Step
		}
		return does(e)
	}, robot, contactArgs(dir)...)
	if !d.OK || first != "RR_hip_joint" {
		t.Fatalf("gone on with %s: %+v", first, d.Findings)
	}
	noTorque(t, robot)

	for range tries {
		if interruptedHangTest(t, dir) {
			return
		}
	}
	t.Skip("this machine stands still too often for a hang test")
}

// interruptedHangTest reports false where the test had ended before it was interrupted.
func interruptedHangTest(t *testing.T, dir string) bool {
	robot := hungRobotWith(t, func(c *virtual.Config) { c.Lockstep = false })
	h := startHangTest(t, robot, "--set", "first_contact.dir="+dir)
	until(t, "torque", func() bool { return !h.running() || robot.Status().LastTorque > 0 })
	_ = h.cmd.Process.Signal(os.Interrupt)
	<-h.ended
	robot.Stop()
	d := new(diagnosis)
	if err := json.Unmarshal([]byte(h.out.String()), d); err != nil {
		t.Fatalf("%v: %q", err, h.out.String())
	}
	if d.late() { // broken off by this machine
		return false
	}
	if s := robot.Summary(); !d.Interrupted || h.cmd.ProcessState.ExitCode() != 1 || s.DampingTick < 0 || s.TorqueAfter != 0 || robot.Status().Class != virtual.ClassDamping {
		t.Errorf("exit code %d, %+v: %s", h.cmd.ProcessState.ExitCode(), s, h.out.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "sn-00000c1a-00000001.json"))
	if err != nil || !strings.Contains(string(text), `"link_loss": null`) {
		t.Errorf("%v: a test that was broken off has left a result:\n%s", err, text)
	}
	return true
}

// hangTest is one that runs.
type hangTest struct {
	cmd   *exec.Cmd
	out   strings.Builder
	ended chan struct{}
}

func startHangTest(t *testing.T, robot *virtualtest.Robot, args ...string) *hangTest {
	t.Helper()
	args = append([]string{"doctor", "--json", "--hang-test", "--hung", "--robot", "udp://" + robot.Addr().String()}, args...)
	h := &hangTest{cmd: exec.Command(filepath.Join(binDir, "clawagent"), args...), ended: make(chan struct{})}
	h.cmd.Stdout = &h.out
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(h.ended); _ = h.cmd.Wait() }()
	return h
}

func (h *hangTest) running() bool {
	select {
	case <-h.ended:
		return false
	default:
		return true
	}
}

// stopped says whether every thread of it stands still, or it has ended.
func (h *hangTest) stopped() bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", h.cmd.Process.Pid))
	if err != nil {
		return false
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(task)
		if _, rest, ok := strings.Cut(string(stat), ") "); err == nil && (!ok || rest[0] != 'T') {
			return false
		}
	}
	return true
}

// TestHangTestIsGuarded: a hang test that is killed, stopped or ended while the legs are held, or while the link is silent, leaves a robot
// that is damped, and no torque frame leaves when it goes on.
func TestHangTestIsGuarded(t *testing.T) {
	passed := passedContact(t)
	for _, row := range []hangEnd{
		{"killed", unix.SIGKILL, false, false}, {"killed in a silence", unix.SIGKILL, true, false},
		{"stopped", unix.SIGSTOP, false, false}, {"stopped in a silence", unix.SIGSTOP, true, false},
		{"stopped without a guard", unix.SIGSTOP, false, true}, {"Ctrl-Z", unix.SIGTSTP, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			for range 5 {
				if row.happens(t, passed) {
					return
				}
			}
			t.Skip("this machine stands still too often for a hang test")
		})
	}
}

// hangEnd is what a hang test that runs is done to.
type hangEnd struct {
	name   string
	how    unix.Signal
	silent bool // in a silence, else while the legs are held
	alone  bool // without a guard
}

// happens reports false where this machine stood still, and the test had been broken off before.
func (row *hangEnd) happens(t *testing.T, passed string) bool {
	how := row.how
	robot := hungRobotWith(t, func(c *virtual.Config) { c.Lockstep = false })
	h := startHangTest(t, robot, "--set", "first_contact.dir="+passed, "--set", "guard.stale_ms=50", "--set", fmt.Sprintf("guard.without=%v", row.alone))
	cmd, ended, running := h.cmd, h.ended, h.running
	seconds := func() float64 { return float64(monotonicUs()) / 1e6 }
	frames, since, ahead := uint64(0), time.Now(), math.Inf(-1) // ahead: of the robot's clock, when it is not behind
	until(t, "the moment", func() bool {
		at := seconds()
		s := robot.Status()
		ahead = max(ahead, s.T-at)
		if s.Frames != frames {
			frames, since = s.Frames, time.Now()
		}
		return !running() || s.LastTorque > 0 && (!row.silent || time.Since(since) > 60*time.Millisecond)
	})
	_ = cmd.Process.Signal(how)
	damped := func() bool { return robot.Status().Class == virtual.ClassDamping }
	last := int64(-1)
	if row.alone {
		until(t, "a program that stands still", h.stopped)
		stood := seconds() + ahead + 5*tickMs/1e3 // by then the robot has what was on its way
		time.Sleep(100 * time.Millisecond)        // what is late then must not leave
		until(t, "the robot's steps", func() bool { return robot.Status().T >= stood })
		last = robot.Status().LastTorque
	} else {
		until(t, "damping", damped)
	}
	if how == unix.SIGSTOP {
		_ = cmd.Process.Signal(unix.SIGCONT)
	}
	<-ended // also that of Ctrl-Z: it is not stopped, but ends
	if d := new(diagnosis); how != unix.SIGKILL && json.Unmarshal([]byte(h.out.String()), d) == nil {
		if how == unix.SIGTSTP && !d.Interrupted || how == unix.SIGSTOP && (d.find("hang_aborted") == nil || d.OK) {
			if d.late() {
				return false
			}
			t.Errorf("%s", h.out.String())
		}
	}
	if how == unix.SIGKILL {
		if cmd.ProcessState.ExitCode() != -1 {
			return false // it had ended before
		}
		n := robot.Status().Frames
		until(t, "damping that goes on", func() bool { return robot.Status().Frames > n+100 })
		// The next doctor takes the robot over from the guard.
		if d := plainDoctor(t, nil, robot.Addr().String()); d.find("guard") != nil || d.find("states") == nil {
			t.Errorf("%+v", d.Findings)
		}
	}
	robot.Stop()
	if s := robot.Summary(); s.DampingTick < 0 || s.TorqueAfter != 0 || !damped() || last >= 0 && s.TorqueTick != last {
		t.Errorf("newest torque frame at %d before it went on: %+v", last, s)
	}
	return true
}
