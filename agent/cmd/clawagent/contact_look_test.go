package main

import (
	"net/netip"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/firstcontact"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// knownRobot is one without a serial number, whose first contact and hang test are kept.
func knownRobot(t *testing.T) (cfg config, table func(...string), asked *[]netip.Addr, answer *bool) {
	t.Helper()
	table, asked, answer = testNeighbours(t)
	table(arpBoard, arpPi)
	*answer = true
	cfg = defaultConfig()
	cfg.FirstContact.Dir = t.TempDir()
	c := contactOf(netip.MustParseAddrPort("127.0.0.1:8007"), true)
	c.Identity = "hw-0080e1000001-e45f01000001"
	c.LinkLoss = &linkLoss{Behaviour: firstcontact.Holds, Trials: lossTrials()}
	if err := c.store(cfg.FirstContact.Dir); err != nil {
		t.Fatal(err)
	}
	return cfg, table, asked, answer
}

// TestTellingWaitsForNobody: while a computer is asked whether it is there, the page and the journal are told what is known by now, and
// whoever would stand finds out for himself; the slow look does not write over that.
func TestTellingWaitsForNobody(t *testing.T) {
	cfg, _, _, _ := knownRobot(t)
	asking, release := make(chan bool), make(chan bool)
	slow := func(netip.Addr) bool {
		asking <- true
		return <-release
	}
	quick := func(netip.Addr) bool { return true }
	answers = slow
	known := contacts{cfg: &cfg}
	s := control.Snapshot{HaveState: true}
	looked, told := make(chan bool), make(chan string)
	go func() { known.see(&s, time.Now()); close(looked) }()
	<-asking
	go func() { b, _ := known.tell(&s); told <- b }()
	select {
	case b := <-told:
		if b != "unknown" {
			t.Errorf("told %s before anybody knew", b)
		}
	case <-time.After(patience):
		t.Error("told nothing while a computer was asked")
	}
	answers = quick
	if err := known.mayStand(&s.State); err != nil {
		t.Error(err)
	}
	release <- false
	<-looked
	if b, _ := known.tell(&s); b != "hold" {
		t.Errorf("%s behind a look that began before it was known", b)
	}
}

// TestKnownRobotIsNotAskedAgain: a robot that was known stays so while its states come, though its second computer says nothing for a
// while; behind a silence, or a new start, it could be another, and is asked for anew.
func TestKnownRobotIsNotAskedAgain(t *testing.T) {
	cfg, _, asked, answer := knownRobot(t)
	known := contacts{cfg: &cfg}
	now := time.Now()
	at := func(tick uint32, ageNs int64) *control.Snapshot {
		now = now.Add(lossFresh + time.Second)
		s := &control.Snapshot{HaveState: true, StateAgeNs: ageNs, State: wire.LowState{Tick: tick}}
		known.see(s, now)
		return s
	}
	if err := known.mayStand(&wire.LowState{Tick: 5000}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name    string
		tick    uint32
		ageNs   int64
		answers bool
		asked   int
		told    firstcontact.Behaviour
	}{
		{"states come", 8000, 2e6, true, 0, firstcontact.Holds},
		{"the second computer says nothing", 11000, 2e6, false, 0, firstcontact.Holds},
		{"a state was overtaken", 10900, 2e6, false, 0, firstcontact.Holds},
		{"no state for a second", 10900, 1e9, false, 0, firstcontact.Holds},
		{"nor for longer", 10900, 1e9 + 1, false, 0, firstcontact.Holds}, // of the robot that is gone
		{"states, and nobody knows whose", 14000, 2e6, false, 1, firstcontact.Unknown},
		{"nor later", 17000, 2e6, false, 1, firstcontact.Unknown},
		{"it is the same", 20000, 2e6, true, 1, firstcontact.Holds},
		{"and stays so", 23000, 2e6, false, 0, firstcontact.Holds},
		{"another start", 500, 2e6, false, 1, firstcontact.Unknown},
		{"of the same", 3500, 2e6, true, 1, firstcontact.Holds},
	} {
		*asked, *answer = nil, row.answers
		s := at(row.tick, row.ageNs)
		if b := known.linkLoss(&s.State); b != row.told || len(*asked) != row.asked {
			t.Errorf("%s: %v, asked %d times; want %v, %d", row.name, b, len(*asked), row.told, row.asked)
		}
	}
	// A look that is fresh asks nobody: of a robot that is not known, too.
	*asked, *answer = nil, false
	s := at(100, 2e6)
	known.see(s, now.Add(lossFresh))
	if len(*asked) != 1 {
		t.Errorf("asked %d times within %v", len(*asked), lossFresh)
	}
	if s.State.SN[0] = 7; known.linkLoss(&s.State) != firstcontact.Unknown {
		t.Error("told of another robot")
	}
	before := len(*asked)
	if known.see(&control.Snapshot{}, now.Add(time.Hour)); len(*asked) != before {
		t.Error("asked for a robot that has said nothing")
	}
}

// TestLinkLossIsShown: an agent shows what is known of its robot before anybody would stand.
func TestLinkLossIsShown(t *testing.T) {
	robot := lyingRobot(t)
	dir := t.TempDir()
	c := contactOf(robot.Addr(), true)
	c.LinkLoss = &linkLoss{Behaviour: firstcontact.Holds, Trials: lossTrials()}
	if err := c.store(dir); err != nil {
		t.Fatal(err)
	}
	a := startAgent(t, robot.Addr(), "--lockstep", "--set", "first_contact.dir="+dir)
	a.post("/api/v1/arm", "{}")
	a.until("it is shown", func(s *state) bool { return s.LinkLoss.Behaviour == "hold" })
	if n := robot.Count(linktest.Damping); n != robot.Count() {
		t.Errorf("%d of %d frames were no damping frames", robot.Count()-n, robot.Count())
	}
}
