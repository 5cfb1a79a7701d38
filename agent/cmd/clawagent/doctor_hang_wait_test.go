package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/link/linktest"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// TestHangTestWaitsForLegsPutBack: legs that a hand left bent, as behind a first contact, are told all at once, and waited for; once they
// are put back the test goes on. One foot that reads more than it did then is warned of.
func TestHangTestWaitsForLegsPutBack(t *testing.T) {
	rest := passedRecord().Rest
	var bent atomic.Bool
	bent.Store(true)
	robot := linktest.New(t, linktest.Config{FreeRunning: true})
	sn := [2]uint32{go1.VirtualSN, 9}
	robot.OnState(func(s *wire.LowState) {
		s.SN = sn
		for j := range go1.Joints {
			q := rest.Q[j].Mean
			if bent.Load() && j%go1.JointsInLeg == go1.Calf && j < 2*go1.JointsInLeg {
				q -= 0.8
			}
			s.Motor[j].Q, s.Motor[j].Dq, s.Motor[j].TauEst = float32(q), 0, 0
		}
		for leg := range s.FootForce {
			s.FootForce[leg] = int16(rest.Foot[leg].Mean)
		}
		s.FootForce[go1.RL] += 90
	})
	dir := t.TempDir()
	kept := contactOf(robot.Addr(), true)
	kept.Identity = "sn-00000c1a-00000009"
	if err := kept.store(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "doctor", "--hang-test", "--hung", "--robot", "udp://"+robot.Addr().String(), "--set", "first_contact.dir="+dir, "--set", "guard.without=true")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text := lines.Text()
		all.WriteString(text + "\n")
		switch {
		case strings.HasPrefix(text, "wait: ") && bent.Load():
			if !strings.Contains(text, "the FR_calf_joint is at ") || !strings.Contains(text, "; the FL_calf_joint is at ") || robot.Count(linktest.Torque) != 0 {
				t.Errorf("%q, %d torque frames", text, robot.Count(linktest.Torque))
			}
			bent.Store(false)
		case strings.HasPrefix(text, "hang test of "):
			if bent.Load() {
				t.Error("it did not wait")
			}
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	_ = cmd.Wait()
	for _, want := range []string{"wait: the F", "hang test of " + kept.Identity, "warning  not_hung: the RL foot reads ", "; alone it was not waited for\n", "broken off\n"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q in\n%s", want, all.String())
		}
	}
}

// TestHangTestLiveLine: a terminal shows how far what is waited for has come.
func TestHangTestLiveLine(t *testing.T) {
	var b bytes.Buffer
	tell := teller{people: &b, live: true}
	two := []hindrance{{2, "the FR_calf_joint is at -2.50 rad"}, {5, "the FL_calf_joint is at -2.40 rad"}}
	tell.waiting(two, 12)
	tell.waiting(two[1:], 11.5)
	if want := "\r        wait for 2 things; the FR_calf_joint is at -2.50 rad  (12 s left)\r        wait: the FL_calf_joint is at -2.40 rad  (12 s left)             "; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	quiet := teller{people: &b}
	n := b.Len()
	if quiet.waiting(two, 3); b.Len() != n {
		t.Error("a live line where nobody looks")
	}
}
