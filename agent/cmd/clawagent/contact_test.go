package main

import (
	"errors"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// contactOf is a result of the robot at an address, whose states carry no serial number.
func contactOf(low netip.AddrPort, passed bool) *contactFile {
	var s wire.LowState
	cfg := defaultConfig()
	cfg.Robot = "udp://" + low.String()
	id, err := cfg.identity(&s)
	if err != nil {
		panic(err)
	}
	c := &contactFile{Identity: id, Robot: low.String(), CRCForm: "plain", Passed: passed}
	if passed {
		c.Record = passedRecord()
	}
	c.stamp(time.Unix(1.7e9, 0))
	return c
}

// passedRecord is that of a virtual robot and a person who did as asked.
func passedRecord() (r firstcontact.Record) {
	text, err := os.ReadFile(filepath.Join("testdata", "passed_record.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		panic(err)
	}
	return r
}

// TestStandWantsFirstContact: a robot that has to have passed its first contact gets no torque before it has.
func TestStandWantsFirstContact(t *testing.T) {
	robot := lyingRobot(t)
	dir := t.TempDir()
	a := startAgent(t, robot.Addr(), "--lockstep", "--set", "first_contact.require=true", "--set", "first_contact.dir="+dir)
	a.post("/api/v1/arm", "{}")
	a.until("states come", func(s *state) bool { return s.Loop.States >= 10 })
	refused := func(says string) {
		t.Helper()
		status, answer := a.try("/api/v1/mode", `{"mode":"stand"}`)
		if status != http.StatusConflict || !strings.Contains(answer, `"code":"first_contact"`) || !strings.Contains(answer, says) ||
			!strings.Contains(answer, "clawagent doctor --first-contact --hung --robot udp://"+robot.Addr().String()) {
			t.Errorf("%d %s, want a refusal that says %q and the command", status, answer, says)
		}
	}
	refused("no result of host-")
	path := contactPath(dir, contactOf(robot.Addr(), true).Identity)
	for says, text := range map[string]string{
		"; with the robot hung and no agent running, run: clawagent doctor --first-contact --hung --robot udp://" + robot.Addr().String() + " --anew": "{",
		"cannot be read":      "{",
		"format 9, want 1":    `{"format":9}`,
		"is of another robot": `{"format":1,"identity":"sn-00000001-00000002","passed":true}`,
		"did not pass":        `{"format":1,"identity":"` + contactOf(robot.Addr(), true).Identity + `","passed":false}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		refused(says)
	}
	// What says that it passed, and does not show it.
	for says, change := range map[string]func(c *contactFile){
		"says that it passed, and its figures do not": func(c *contactFile) { c.Record = firstcontact.Record{} },
		"passed, and its figures do not": func(c *contactFile) {
			c.Record = firstcontact.Record{}
			for i := range c.Record.Results {
				c.Record.Results[i] = firstcontact.Passed
			}
		},
		"and its figures do not; with": func(c *contactFile) { c.Record.Results[firstcontact.FirstJoint+4] = firstcontact.Skipped },
		"its figures do not; with the": func(c *contactFile) { c.Record.Joints[4].Delta[4] *= -1 },
		"did not pass;":                func(c *contactFile) { c.Passed = false },
		"was made without the hand remote's sticks": func(c *contactFile) {
			c.Record.Remote.Sticks = [3][4]float64{}
			c.Record.Results[firstcontact.RemoteSticks] = firstcontact.NotAsked
		},
		"was made without the hand remote (": func(c *contactFile) {
			c.Record.Remote = firstcontact.RemoteFigures{}
			for s := firstcontact.RemoteStop; int(s) < firstcontact.StepCount; s++ {
				c.Record.Results[s] = firstcontact.NotAsked
			}
		},
	} {
		c := contactOf(robot.Addr(), true)
		change(c)
		if err := c.store(dir); err != nil {
			t.Fatal(err)
		}
		refused(says)
	}
	if n := robot.Count(linktest.Damping); n != robot.Count() {
		t.Errorf("%d of %d frames were no damping frames", robot.Count()-n, robot.Count())
	}
	if err := contactOf(robot.Addr(), true).store(dir); err != nil {
		t.Fatal(err)
	}
	a.post("/api/v1/mode", `{"mode":"stand"}`)
	a.until("it stands", func(s *state) bool { return s.Mode == "stand" && s.Phase == "ready" })
}

// TestHangTestWantsFirstContact: no torque for a robot of which a file only says that it passed.
func TestHangTestWantsFirstContact(t *testing.T) {
	robot := linktest.New(t, linktest.Config{FreeRunning: true})
	dir := t.TempDir()
	said := contactOf(robot.Addr(), true)
	said.Record = firstcontact.Record{}
	for says, c := range map[string]*contactFile{
		"no first contact in":                  nil,
		"(that of ":                            contactOf(robot.Addr(), false),
		"says that it passed, and its figures": said,
	} {
		if c != nil {
			if err := c.store(dir); err != nil {
				t.Fatal(err)
			}
		} else if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		d, r := doctor(t, robot.Addr(), "--hang-test", "--hung", "--set", "first_contact.dir="+dir)
		if f := d.find("first_contact"); f == nil || f.Level != levelError || !strings.Contains(f.Text, says) || r.code != 1 {
			t.Errorf("exit code %d: %+v, want %q", r.code, d.Findings, says)
		}
	}
	if n := robot.Count(linktest.Damping); n != robot.Count() || n == 0 {
		t.Errorf("%d of %d frames were no damping frames", robot.Count()-n, robot.Count())
	}
}

// TestHardwareAlwaysWantsFirstContact: a robot that is not on this machine is asked for it, whatever the configuration says.
func TestHardwareAlwaysWantsFirstContact(t *testing.T) {
	robot := linktest.New(t, linktest.Config{Addr: netip.AddrPortFrom(ownAddr(t), 0), FreeRunning: true})
	dir := t.TempDir()
	a := startAgent(t, robot.Addr(), "--sport-off", "--no-guard", "--set", "first_contact.dir="+dir)
	a.post("/api/v1/arm", "{}")
	a.until("states come", func(s *state) bool { return s.Loop.States >= 10 })
	if status, answer := a.try("/api/v1/mode", `{"mode":"stand"}`); status != http.StatusConflict || !strings.Contains(answer, `"code":"first_contact"`) {
		t.Errorf("%d %s", status, answer)
	}
	if s := a.get("/api/v1/state"); !strings.Contains(s, `"link_loss":{"behaviour":"unknown","warning":"link-loss behaviour unknown: `) {
		t.Error(s)
	}
	if n := robot.Count(linktest.Damping); n != robot.Count() {
		t.Errorf("%d of %d frames were no damping frames", robot.Count()-n, robot.Count())
	}
}

// TestContactFile: it comes back as it was kept; what cannot be one is refused by name; a folder that cannot be written leaves the old
// one.
func TestContactFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "for it")
	low := netip.MustParseAddrPort("127.0.0.1:8007")
	c := contactOf(low, true)
	c.LinkLoss = &linkLoss{Behaviour: firstcontact.Damps, Trials: []firstcontact.LossTrial{{AwayRad: 0.5}}}
	c.Steps = []contactStep{{"rest", firstcontact.Passed, c.Date}}
	if err := c.store(dir); err != nil {
		t.Fatal(err)
	}
	back, err := loadContact(dir, c.Identity)
	if err != nil || !back.Passed || back.Date != "2023-11-14T22:13:20Z" || back.LinkLoss.Behaviour != firstcontact.Damps || back.Steps[0].Result != firstcontact.Passed || back.Version == "" {
		t.Errorf("%+v %v", back, err)
	}
	if none, err := loadContact(dir, "sn-00000000-00000001"); none != nil || err != nil {
		t.Errorf("a robot without a result: %v %v", none, err)
	}
	path := contactPath(dir, c.Identity)
	for says, text := range map[string]string{
		"unexpected":    `{"format":1,`,
		"format 0":      `{}`,
		"result":        `{"format":1,"identity":"` + c.Identity + `","steps":[{"step":"rest","result":"fine"}]}`,
		"robot_version": `{"format":1,"identity":"` + c.Identity + `","robot_version":[1,-1]}`,
		"at most":       strings.Repeat(" ", maxContact+1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := loadContact(dir, c.Identity); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.40s: %v, want an error that says %q and names the file", text, err, says)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.store(dir); err == nil || !strings.Contains(err.Error(), "result not kept") {
		t.Errorf("a folder in the file's place: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".contact-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// FuzzContactFile: whatever lies in a result's place, it is a result or an error, and only one that says so lets a robot stand.
func FuzzContactFile(f *testing.F) {
	low := netip.MustParseAddrPort("127.0.0.1:8007")
	dir := f.TempDir()
	good := contactOf(low, true)
	if err := good.store(dir); err != nil {
		f.Fatal(err)
	}
	path := contactPath(dir, good.Identity)
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":1,"identity":"` + good.Identity + `","passed":true}`))
	f.Add([]byte(`{"format":1,"identity":"` + good.Identity + `","passed":1e400,"link_loss":{"trials":null}}`))
	f.Add([]byte(`{"format":1,"passed":true,"passed":false}`))
	f.Add([]byte(strings.Replace(string(text), `"robot_version": null`, `"robot_version": [1, 0]`, 1)))
	cfg := defaultConfig()
	cfg.Robot, cfg.FirstContact.Dir, cfg.FirstContact.Require = "udp://"+low.String(), dir, true
	cfg.Control.Lockstep = true // its clock tells nothing
	exam := cfg.exam()
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := loadContact(dir, good.Identity)
		if (c == nil) != (err != nil) {
			t.Fatalf("%+v %v", c, err)
		}
		known := contacts{cfg: &cfg}
		same := c != nil && (c.RobotVersion == nil || *c.RobotVersion == [2]uint32{}) && int32(c.TickMs) < restartMs
		if may := known.mayStand(new(wire.LowState)) == nil; may != (same && c.Passed && strings.Contains(string(text), "true") && c.Record.Pass(&exam)) {
			t.Errorf("may stand: %v with %q", may, text)
		}
		known.see(&control.Snapshot{HaveState: true}, time.Now())
	})
}

// TestLinkLossIsReadAnew: an agent that runs hears of a hang test without being started again.
func TestLinkLossIsReadAnew(t *testing.T) {
	cfg := defaultConfig()
	cfg.Robot, cfg.FirstContact.Dir, cfg.FirstContact.Require = "udp://127.0.0.1:8007", t.TempDir(), true
	cfg.Control.Lockstep = true // no clock tells that the robot was restarted
	known := contacts{cfg: &cfg}
	s := control.Snapshot{HaveState: true}
	if b, warning := known.tell(&s); b != "unknown" || !strings.Contains(warning, "--hang-test --hung --robot udp://127.0.0.1:8007") {
		t.Errorf("%s %s", b, warning)
	}
	c := contactOf(cfg.low(), true)
	held, now := lossTrials(), time.Now()
	for _, f := range []struct {
		loss linkLoss
		want string
	}{
		{linkLoss{Behaviour: firstcontact.Holds}, "unknown"}, // it only says so
		{linkLoss{Behaviour: firstcontact.Damps, Trials: held}, "unknown"},
		{linkLoss{Behaviour: firstcontact.Holds, Trials: held}, "hold"},
	} {
		c.LinkLoss = &f.loss
		if err := c.store(cfg.FirstContact.Dir); err != nil {
			t.Fatal(err)
		}
		now = now.Add(lossFresh + time.Second)
		known.see(&s, now)
		if b, warning := known.tell(&s); b != f.want || (warning == "") != (f.want == "hold") {
			t.Errorf("%+v: %s %s", f.loss, b, warning)
		}
	}
	c.LinkLoss = nil
	if err := c.store(cfg.FirstContact.Dir); err != nil {
		t.Fatal(err)
	}
	for _, look := range []struct {
		after time.Duration
		want  string
	}{{lossFresh, "hold"}, {lossFresh + 1, "unknown"}} { // one that is fresh is believed
		known.see(&s, now.Add(look.after))
		if b, _ := known.tell(&s); b != look.want {
			t.Errorf("%v behind the newest look: %s, want %s", look.after, b, look.want)
		}
	}
}

// lossTrials are those of a hang test whose motors held.
func lossTrials() []firstcontact.LossTrial {
	return slices.Repeat([]firstcontact.LossTrial{{AwayRad: 0.5, TauBefore: 1, TauAfter: 1, SilentMs: 202}}, firstcontact.LossTrials)
}

// TestResultsAreOfTheRobotAsItIs: neither a first contact nor a hang test holds for a robot whose own software is another now, or a hang
// test behind a first contact that has failed since. A file from before the software was kept goes on to hold.
func TestResultsAreOfTheRobotAsItIs(t *testing.T) {
	cfg := defaultConfig()
	cfg.Robot, cfg.FirstContact.Dir, cfg.FirstContact.Require = "udp://127.0.0.1:8007", t.TempDir(), true
	cfg.Control.Lockstep = true // no clock tells that the robot was restarted
	c := contactOf(cfg.low(), true)
	c.LinkLoss = &linkLoss{Behaviour: firstcontact.Holds, Trials: lossTrials()}
	for _, row := range []struct {
		name      string
		kept, now [2]uint32
		old       bool // without robot_version
		passed    bool
		may       string // "": it may stand
		loss      firstcontact.Behaviour
	}{
		{"as it was", [2]uint32{1, 2}, [2]uint32{1, 2}, false, true, "", firstcontact.Holds},
		{"a newer one", [2]uint32{1, 2}, [2]uint32{1, 3}, false, true, "its own software was version 1.2 then and is 1.3 now", firstcontact.Unknown},
		{"one that says nothing now", [2]uint32{1, 2}, [2]uint32{}, false, true, "was version 1.2 then and is 0.0 now", firstcontact.Unknown},
		{"one that said nothing then", [2]uint32{}, [2]uint32{1, 2}, false, true, "was version 0.0 then and is 1.2 now", firstcontact.Unknown},
		{"a file from before", [2]uint32{}, [2]uint32{1, 2}, true, true, "", firstcontact.Holds},
		{"a first contact that failed since", [2]uint32{1, 2}, [2]uint32{1, 2}, false, false, "did not pass", firstcontact.Unknown},
	} {
		c.Passed, c.RobotVersion = row.passed, &row.kept
		if row.old {
			c.RobotVersion = nil
		}
		if err := c.store(cfg.FirstContact.Dir); err != nil {
			t.Fatal(err)
		}
		if row.old { // not null: not there at all
			path := contactPath(cfg.FirstContact.Dir, c.Identity)
			text, err := os.ReadFile(path)
			before := strings.Replace(string(text), "  \"robot_version\": null,\n", "", 1)
			if err == nil && before != string(text) {
				err = os.WriteFile(path, []byte(before), 0o644)
			}
			if err != nil || before == string(text) {
				t.Fatalf("%v %s", err, text)
			}
		}
		known := contacts{cfg: &cfg}
		s := wire.LowState{}
		s.Version = row.now
		if err := known.mayStand(&s); (err == nil) != (row.may == "") || err != nil && (!strings.Contains(err.Error(), row.may) || !errors.Is(err, control.ErrNoFirstContact)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.may)
		}
		if b := known.linkLoss(&s); b != row.loss {
			t.Errorf("%s: %s, want %s", row.name, b, row.loss)
		}
		shown := contacts{cfg: &cfg}
		shown.see(&control.Snapshot{HaveState: true, State: s}, time.Now())
		if b := shown.linkLoss(&s); b != row.loss {
			t.Errorf("%s: shown as %s, want %s", row.name, b, row.loss)
		}
		// An agent that runs sees at once that the robot is another now.
		s.Version[0] += 7
		if b := known.linkLoss(&s); b != firstcontact.Unknown && !row.old {
			t.Errorf("%s: %s of another version", row.name, b)
		}
	}
}

// TestClocks: what two moments on this machine's clocks say.
func TestClocks(t *testing.T) {
	const s = int64(1e9)
	from := clockReading{wallNs: 1000 * s, monoNs: 50 * s, rawNs: 49 * s, synced: true, known: true}
	for _, c := range []struct {
		name string
		to   clockReading
		want string
	}{
		{"well", clockReading{1001 * s, 51 * s, 50 * s, 0, true, true}, "clock"},
		{"slewed by 400 ppm", clockReading{1001*s + 400e3, 51*s + 400e3, 50 * s, 0, true, true}, "clock"},
		{"nobody tells", clockReading{1001 * s, 51 * s, 50 * s, 0, false, false}, "clock"},
		{"not synchronised", clockReading{1001 * s, 51 * s, 50 * s, 0, false, true}, "clock_unsynchronised"},
		{"stepped forward", clockReading{1001*s + 20e6, 51 * s, 50 * s, 0, true, true}, "clock_steps"},
		{"stepped back", clockReading{1000 * s, 51 * s, 50 * s, 0, true, true}, "clock_steps"},
		{"stands still", clockReading{1001 * s, 50 * s, 50 * s, 0, true, true}, "clock_monotonic"},
		{"too slow", clockReading{1001 * s, 51*s - 5e6, 50 * s, 0, true, true}, "clock_monotonic"},
		{"held up while it read", clockReading{1001 * s, 51*s - 5e6, 50 * s, 6e6, true, true}, "clock"},
	} {
		d := &diagnosis{}
		d.clocks(from, c.to)
		found := d.find(c.want)
		if found == nil || (found.Level == levelOK) != (c.want == "clock") {
			t.Errorf("%s: %+v, want %s", c.name, d.Findings, c.want)
		}
	}
	if r := readClocks(); r.wallNs == 0 || r.monoNs == 0 || r.rawNs == 0 {
		t.Errorf("this machine's: %+v", r)
	}
}

// TestDiskOnce: journal and results in one folder are one finding.
func TestDiskOnce(t *testing.T) {
	cfg := defaultConfig()
	cfg.FirstContact.Dir = "/proc/self/no/such"
	cfg.Log = "/proc/self/no/such/journal"
	d := &diagnosis{}
	d.disk(&cfg)
	if len(d.Findings) != 1 || d.Findings[0].Level == levelOK {
		t.Errorf("%+v", d.Findings)
	}
	d.put(d.Findings...)
	if len(d.Findings) != 1 {
		t.Errorf("the same again: %+v", d.Findings)
	}
}

func TestWireless(t *testing.T) {
	sys := t.TempDir()
	for _, dir := range []string{"wlan0/wireless", "wlp3s0/phy80211", "eth0/queues", "eth1/queues",
		// A bridge of a kernel that links no ports, a bond, VLANs on each other, a macvlan; one whose way leads nowhere, and a ring.
		"br0/brif/eth1", "br1/brif/eth0", "br1/brif/wlan0", "bond0/lower_eth0", "bond0/lower_wlan0", "wlp3s0.7/lower_wlp3s0", "wlp3s0.7.8/lower_wlp3s0.7",
		"macvlan0/lower_eth0", "macvlan1/lower_wlan0", "far/lower_elsewhere", "ring0/lower_ring1", "ring1/lower_ring0", "eth0/upper_bond0"} {
		if err := os.MkdirAll(filepath.Join(sys, "class", "net", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"wlan0": "wlan0", "wlp3s0": "wlp3s0", "eth0": "", "lo": "", "": "", "../class": "", "br0": "", "br1": "wlan0",
		"bond0": "wlan0", "wlp3s0.7": "wlp3s0", "wlp3s0.7.8": "wlp3s0", "macvlan0": "", "macvlan1": "wlan0", "far": "", "ring0": ""} {
		if got := radio(sys, name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := interfaceOf(localhost); got != "lo" {
		t.Errorf("127.0.0.1 is of %s", got)
	}
}

// TestFirstContactForgetsWhatWasBefore: a robot that starts anew begins the first contact anew, and so does one that was restarted since
// the session before; what was measured before is not mixed with what comes after.
func TestFirstContactForgetsWhatWasBefore(t *testing.T) {
	robot := lyingRobot(t)
	dir := t.TempDir()
	args := []string{"doctor", "--first-contact", "--robot", "udp://" + robot.Addr().String(), "--timeout", "1", "--set", "control.lockstep=true", "--set", "first_contact.dir=" + dir,
		"--skip", "joints", "--skip", "feet", "--skip", "remote_stop", "--skip", "remote_buttons"}
	kept := contactOf(robot.Addr(), true)
	kept.Passed = false // the steps have, though not all is well
	for _, c := range []struct {
		tickMs  uint32
		forgets bool
	}{{0, false}, {1, false}, {1 << 30, true}} {
		kept.TickMs = c.tickMs
		if err := kept.store(dir); err != nil {
			t.Fatal(err)
		}
		r := clawagent(t, args...)
		if forgot := strings.Contains(r.stdout, "It has been restarted since 2023-11-14T22:13:20Z: what was kept is forgotten."); r.code != 1 || forgot != c.forgets ||
			strings.Contains(r.stdout, "remote_sticks   -> passed before") == c.forgets {
			t.Errorf("clock at %d ms in the session before: exit code %d\n%s", c.tickMs, r.code, r.stdout)
		}
		if f, err := loadContact(dir, kept.Identity); err != nil || f.TickMs == 0 || f.TickMs == c.tickMs {
			t.Errorf("%+v %v", f, err)
		}
	}
	// Its clock goes back by 1.5 s again and again, each time in the middle of the rest.
	robot.OnState(func(s *wire.LowState) { s.Tick = 5000 + s.Tick%1500 })
	kept.TickMs = 0
	if err := kept.store(dir); err != nil {
		t.Fatal(err)
	}
	r := clawagent(t, args...)
	if n := strings.Count(r.stdout, "the robot started anew: its clock went back from 6.5 s to 5.0 s; what was measured before is forgotten, and all steps begin anew\n"); n != restarts || r.code != 1 ||
		!strings.Contains(r.stdout, "error    robot_restarted: the robot started anew: its clock went back from 6.5 s to 5.0 s, once more after 3 times") {
		t.Errorf("exit code %d, %d restarts told\n%s", r.code, n, r.stdout)
	}
	// After the last of them nothing is left of what was measured before.
	if f, err := loadContact(dir, kept.Identity); err != nil || f.Record != newRecord() || f.Passed || f.TickMs != 5000 {
		t.Errorf("kept: %+v %v", f, err)
	}
	if n := robot.Count(linktest.Damping); n == 0 || n != robot.Count() {
		t.Errorf("%d of %d frames were damping frames, want all", n, robot.Count())
	}
}

// TestFirstContactForgetsTheHangTest: whoever begins a first contact anew may have mended the robot before: what its motors do without
// commands is not known any more, however that first contact ends. One that goes on where it was broken off has none to forget.
func TestFirstContactForgetsTheHangTest(t *testing.T) {
	robot := lyingRobot(t)
	version := [2]uint32{3, 1}
	robot.OnState(func(s *wire.LowState) { s.Version = version })
	dir := t.TempDir()
	args := []string{"doctor", "--first-contact", "--robot", "udp://" + robot.Addr().String(), "--timeout", "1", "--set", "control.lockstep=true", "--set", "first_contact.dir=" + dir,
		"--skip", "motions", "--skip", "joints", "--skip", "feet", "--skip", "remote_stop", "--skip", "remote_buttons"}
	for _, row := range []struct {
		name   string
		passed bool
		kept   [2]uint32 // its software's version
		anew   bool
		says   string
	}{
		{"over one that had passed", true, version, false, "It had passed on 2023-11-14T22:13:20Z: that is replaced, and its hang test forgotten, once you have done a step, or all are over.\n"},
		{"--anew", true, version, true, "Ctrl-C ends it; what has passed is kept.\n"},
		{"gone on", false, version, false, "remote_sticks   -> passed before\n"},
		{"the robot's software is another", false, [2]uint32{3, 0}, false, "Since 2023-11-14T22:13:20Z the robot has changed (its own software was version 3.0 then and is 3.1 now): what was kept is forgotten.\n"},
	} {
		kept := contactOf(robot.Addr(), true)
		kept.Passed, kept.RobotVersion = row.passed, &row.kept
		kept.LinkLoss = &linkLoss{Behaviour: firstcontact.Holds, Trials: lossTrials()}
		if err := kept.store(dir); err != nil {
			t.Fatal(err)
		}
		with := args
		if row.anew {
			with = append(slices.Clone(args), "--anew")
		}
		r := clawagent(t, with...)
		if r.code != 1 || !strings.Contains(r.stdout, row.says) || strings.Contains(r.stdout, "-> passed before") != (row.name == "gone on") {
			t.Errorf("%s: exit code %d, no %q in\n%s", row.name, r.code, row.says, r.stdout)
		}
		if f, err := loadContact(dir, kept.Identity); err != nil || f.LinkLoss != nil || f.RobotVersion == nil || *f.RobotVersion != version || f.Passed {
			t.Errorf("%s: kept %+v %v", row.name, f, err)
		}
	}
}

// newRecord is that of a session that has shown nothing yet.
func newRecord() firstcontact.Record {
	cfg := defaultConfig()
	return *firstcontact.New(cfg.exam(), nil).Record()
}

// TestForget: a robot that starts anew before a doctor has looked at what is kept of it has nothing left there either, but for what a
// restart leaves as it is: a first contact that it has passed, with its hang test.
func TestForget(t *testing.T) {
	cfg := defaultConfig()
	cfg.FirstContact.Dir = t.TempDir()
	low := netip.MustParseAddrPort("127.0.0.1:8007")
	cfg.Robot = "udp://" + low.String()
	x := &exam{cfg: &cfg, cfgE: cfg.exam(), b: &bench{tickMs: 700}}
	kept := contactOf(low, true)
	if err := x.forget(); err != nil {
		t.Fatal(err)
	}
	if f, err := loadContact(cfg.FirstContact.Dir, kept.Identity); err != nil || f != nil {
		t.Errorf("where nothing was kept: %+v %v", f, err)
	}
	for _, passed := range []bool{true, false} {
		kept.Passed, kept.TickMs = passed, 500
		kept.LinkLoss = &linkLoss{Behaviour: firstcontact.Damps}
		kept.Steps = []contactStep{{"rest", firstcontact.Passed, kept.Date}}
		if err := kept.store(cfg.FirstContact.Dir); err != nil {
			t.Fatal(err)
		}
		x.file = nil
		if err := x.forget(); err != nil {
			t.Fatal(err)
		}
		f, err := loadContact(cfg.FirstContact.Dir, kept.Identity)
		if err != nil || (f.LinkLoss != nil) != passed || f.Passed != passed {
			t.Fatalf("%+v %v", f, err)
		}
		left := 0
		for _, s := range f.Steps {
			if s.Result != firstcontact.Open || s.Date != "" {
				left++
			}
		}
		if forgotten := f.Record == newRecord() && left == 0 && f.TickMs == 700 && f.Date != kept.Date; forgotten == passed {
			t.Errorf("passed %v: forgotten %v: %+v", passed, forgotten, f)
		}
	}
	text := filepath.Join(cfg.FirstContact.Dir, "file")
	if err := os.WriteFile(text, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg.FirstContact.Dir = text // no folder: what is known by now cannot be kept
	if err := x.forget(); !errors.As(err, new(*storeError)) {
		t.Errorf("%v", err)
	}
}

// TestRestartedSince: that a robot was restarted while nobody looked shows when its clock has not gone as far as ours.
func TestRestartedSince(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Unix(1.8e9, 0)
	ms := func(d time.Duration) uint32 { return uint32(d.Milliseconds()) }
	for _, c := range []struct {
		name     string
		kept     time.Duration // its clock at that time
		ago      time.Duration // our clock since
		clock    time.Duration // its clock now
		lockstep bool
		says     string
	}{
		{"the same", 100 * time.Second, 10 * time.Second, 110 * time.Second, false, ""},
		{"at once", 100 * time.Second, 0, 100 * time.Second, false, ""},
		{"a slow clock", 100 * time.Second, 3600 * time.Second, 3640 * time.Second, false, ""},
		{"a fast clock", 100 * time.Second, 3600 * time.Second, 3760 * time.Second, false, ""},
		{"too slow", 100 * time.Second, 3600 * time.Second, 3640*time.Second - time.Millisecond, false, "our"},
		{"too fast", 100 * time.Second, 3600 * time.Second, 3760*time.Second + time.Millisecond, false, "our"},
		{"longer on than before", 100 * time.Second, 1000 * time.Second, 200 * time.Second, false, "our"},
		{"not as long on", 100 * time.Second, 1000 * time.Second, 90 * time.Second, false, "back"},
		{"quickly", 20 * time.Second, 15 * time.Second, 5 * time.Second, false, "back"},
		{"our clock was set back", 100 * time.Second, -time.Hour, 110 * time.Second, false, "our"},
		{"its clock ran over", 1<<32*time.Millisecond - 10*time.Second, 20 * time.Second, 10 * time.Second, false, ""},
		{"restarted about when it runs over", 1<<32*time.Millisecond - 10*time.Second, day, 10 * time.Second, false, "our"},
		{"on for 30 days", time.Hour, 30 * day, time.Hour + 30*day, false, ""},
		{"on for 60 days", time.Hour, 60 * day, time.Hour + 60*day, false, ""},
		{"restarted 30 days ago", time.Hour, 40 * day, 30 * day, false, "our"},
		{"in lockstep, slowly", 100 * time.Second, day, 101 * time.Second, true, ""},
		{"in lockstep, fast", 100 * time.Second, 0, day, true, ""},
		{"in lockstep, back", 100 * time.Second, day, 90 * time.Second, true, "back"},
	} {
		f := &contactFile{Date: now.Add(-c.ago).UTC().Format(time.RFC3339), TickMs: ms(c.kept)}
		want := map[string]string{"": "", "back": "It has been restarted since " + f.Date, "our": "Since " + f.Date + " its clock has not gone as far as this computer's: " +
			"it has been restarted (or this computer's clock was set)"}[c.says]
		if got := f.restarted(ms(c.clock), now, c.lockstep); got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
	if got := (&contactFile{Date: "then"}).restarted(0, now, false); !strings.HasPrefix(got, "Since then its clock") {
		t.Errorf("no date: %q", got)
	}
}

// TestFirstContactFileInTheWay: a result that is none, or another robot's, is named with the command that replaces it, and replaced by
// that; one that cannot be kept ends the session at its first step.
func TestFirstContactFileInTheWay(t *testing.T) {
	robot := lyingRobot(t)
	dir := t.TempDir()
	id := contactOf(robot.Addr(), true).Identity
	in := func(dir string) []string {
		return []string{"--first-contact", "--timeout", "1", "--set", "control.lockstep=true", "--set", "first_contact.dir=" + dir, "--skip", "motions", "--skip", "joints", "--skip", "feet", "--skip", "remote"}
	}
	for says, text := range map[string]string{
		"is of another robot": `{"format":1,"identity":"sn-00000001-00000002","passed":true}`,
		"unexpected":          `{"format":1,`,
	} {
		if err := os.WriteFile(contactPath(dir, id), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		d, r := doctor(t, robot.Addr(), in(dir)...)
		f := d.find("first_contact_file")
		if f == nil || f.Level != levelError || !strings.Contains(f.Text, says) || r.code != 1 ||
			!strings.Contains(f.Remedy, "clawagent doctor --first-contact --hung --robot udp://"+robot.Addr().String()+" --anew --set first_contact.dir="+dir) {
			t.Errorf("%s: exit code %d: %+v", says, r.code, d.Findings)
		}
		if left, err := os.ReadFile(contactPath(dir, id)); err != nil || string(left) != text {
			t.Errorf("it was written over: %s %v", left, err)
		}
		if d, _ := doctor(t, robot.Addr(), append(in(dir), "--anew")...); d.find("first_contact_file") != nil || d.find("first_contact") == nil {
			t.Errorf("--anew: %+v", d.Findings)
		}
		if f, err := loadContact(dir, id); err != nil || f.Record.Results[firstcontact.Rest] == firstcontact.Open {
			t.Errorf("--anew: %+v %v", f, err)
		}
	}
	d, r := doctor(t, robot.Addr(), in("/proc/self/no/such")...)
	file, contact := d.find("first_contact_file"), d.find("first_contact")
	if file == nil || !strings.Contains(file.Text, "result not kept") || contact == nil || !strings.Contains(contact.Text, "; not kept in /proc/self/no/such/"+id) || r.code != 1 {
		t.Errorf("exit code %d: %+v", r.code, d.Findings)
	}
	if n := strings.Count(r.stdout, `"event":"step"`); n != 1 {
		t.Errorf("%d steps, though the first could not be kept", n)
	}
}

// TestDoctorBrokenOff: a doctor that a person ends says so, and prints what it has.
func TestDoctorBrokenOff(t *testing.T) {
	robot := lyingRobot(t)
	for _, flags := range [][]string{{"--json"}, nil} {
		before := robot.Count()
		cmd := exec.Command(program, append([]string{"doctor", "--seconds", "60", "--robot", "udp://" + robot.Addr().String()}, flags...)...)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !robot.Await(before+10, patience) {
			t.Error("no frames")
		}
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 1 || stderr.String() != "clawagent: doctor: broken off (signal: interrupt)\n" {
			t.Errorf("exit code %d: %s", code, stderr.String())
		}
		if want := map[bool]string{true: `"interrupted":true`, false: "\nbroken off\n"}[flags != nil]; !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, stdout.String())
		}
	}
}

// TestWentBack: a state that was overtaken is no new start, and a clock that runs over is none.
func TestWentBack(t *testing.T) {
	for _, c := range []struct {
		from, to uint32
		want     bool
	}{{5000, 5002, false}, {5000, 5000, false}, {5000, 4001, false}, {5000, 4000, true}, {5000, 0, true}, {1<<32 - 2, 0, false}, {1<<32 - 2, 998, false}, {500, 1<<32 - 600, true}} {
		if got := wentBack(c.from, c.to); got != c.want {
			t.Errorf("from %d to %d ms: %v", c.from, c.to, got)
		}
	}
}

// TestFirstContactForPeople: what a person reads, who does nothing.
func TestFirstContactForPeople(t *testing.T) {
	robot := lyingRobot(t)
	args := []string{"doctor", "--first-contact", "--robot", "udp://" + robot.Addr().String(), "--timeout", "1", "--set", "control.lockstep=true", "--set", "first_contact.dir=" + t.TempDir()}
	r := clawagent(t, args...)
	for _, want := range []string{"first contact with host-", "damping frames only", " 2/24 rest", "let it hang still", " 3/24 nose_down       -> failed", "error    imu_stuck: ", "22/24 remote_stop     -> timed out: nothing_seen", "12/24 RR_hip_joint",
		"not ready"} {
		if r.code != 1 || !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s", r.code, want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "\r") {
		t.Error("a live line where nobody looks")
	}
	if n := robot.Count(linktest.Damping); n == 0 || n != robot.Count() {
		t.Errorf("%d of %d frames were damping frames, want all", n, robot.Count())
	}
}
