package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorTellsRobotsApart: robots without serial numbers, whose main boards are alike, are told apart by the high-level computer that
// answers now; in the second robot it says nothing, while the kernel still holds what answered in the first. Namespaces of users let this
// be done without touching the machine's network and without root; a machine that has none of them skips.
func TestDoctorTellsRobotsApart(t *testing.T) {
	t.Parallel()
	script := `set -e
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add net type bridge
ip addr add 192.168.123.162/24 dev net
ip link set net up
plug() { # namespace, hardware address, IP address
	ip netns add "$1"
	ip link add "to-$1" type veth peer name eth0 netns "$1"
	ip link set "to-$1" master net
	ip link set "to-$1" up
	ip -n "$1" link set eth0 address "$2"
	ip -n "$1" addr add "$3/24" dev eth0
	ip -n "$1" link set eth0 up
	ip -n "$1" link set lo up
}
plug board 00:80:e1:00:00:01 192.168.123.10
plug pi e4:5f:01:00:00:01 192.168.123.161
[ $# = 0 ] && exit
ip netns exec board "$1/clawsim" robot --listen 192.168.123.10:8007 --sn "[0, 0]" --boot hung --json > /run/ready &
robot=$!
until [ -s /run/ready ]; do sleep 0.05; done
doctor() {
	"$1/clawagent" doctor --robot udp://192.168.123.10:8007 --arm --seconds 0.2 --json --set first_contact.dir=/run/kept || true
}
doctor "$1"
ip -n pi link set eth0 down
doctor "$1"
ip -n pi link set eth0 address e4:5f:01:00:00:02
ip -n pi link set eth0 up
ip neigh flush dev net
doctor "$1"
kill $robot
wait $robot
`
	namespaces := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "unshare", append([]string{"-Urnmpf", "--kill-child", "sh", "-c", script, "sh"}, args...)...)
	}
	if out, err := namespaces().CombinedOutput(); err != nil {
		t.Skipf("no network namespaces here: %v %s", err, out)
	}
	bin, err := filepath.Abs(binDir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := namespaces(bin)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	want := []string{"no result of hw-0080e1000001-e45f01000001 in /run/kept",
		"its computer at 192.168.123.161 does not answer there (TCP port 9, open or closed), so it cannot be told from another robot",
		"no result of hw-0080e1000001-e45f01000002 in /run/kept"}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %s", len(lines), len(want), out)
	}
	for i, line := range lines {
		var d diagnosis
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if f := d.find("first_contact"); f == nil || !strings.Contains(f.Text, want[i]) || d.find("states") == nil {
			t.Errorf("want %q in\n%s", want[i], line)
		}
	}
}
