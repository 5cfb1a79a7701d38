package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openclaw-rl/openclaw/agent/safety"
)

// TestDue: a first damping frame is due by a blow's time or by the robot's log, and one that came before is told apart.
func TestDue(t *testing.T) {
	const struck = 3. // s
	cut := strike{blow: blow{name: "estop cut", does: safety.Cut, dueMs: [2]float64{10, 34}}}
	twice := strike{blow: blow{name: "SIGTERM agent twice", does: safety.Damp, dueMs: [2]float64{0, 30}, again: true, ms: [2]int{50, 800}}, d: 100 * time.Millisecond}
	for _, c := range []struct {
		name    string
		strike  strike
		ms      float64 // of the frame behind the blow; 0: none comes
		logged  bool
		stallUs float64
		early   bool
		kinds   []string
	}{
		{"in time", cut, 20, false, 0, false, nil},
		{"by the log", cut, 20, true, 0, false, nil},
		{"long before", cut, -500, false, 0, true, nil},
		{"too soon", cut, 8, false, 0, true, nil},
		{"too soon, by the log", cut, 8, true, 0, true, nil},
		{"too late", cut, 40, false, 0, false, []string{"time"}},
		{"too late, by the log", cut, 40, true, 0, false, []string{"time"}},
		{"as late as the machine", cut, 40, false, 4e3, false, nil},
		{"later than the machine", cut, 46, false, 4e3, false, []string{"time"}},
		{"never", cut, 0, false, 0, false, []string{"time"}},
		{"by the first of two", twice, 90, false, 0, true, nil},
		{"by the second", twice, 110, false, 0, false, nil},
		{"behind the second", twice, 140, false, 0, false, []string{"time"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := goodScript()
			s.damping(1) // a stop that was before it walked
			s.does(stands)
			before := len(s.read(t).stops)
			if c.ms == 0 {
				s.torque(2000, 0.8)
			} else {
				s.torque(int((struck+c.ms/1e3-s.t)*1e3/tickMs)-1, 0.8)
				s.t = struck + c.ms/1e3 - tickMs/1e3
				s.damping(600)
			}
			at := moment{us: struck * 1e6, t: -1}
			if c.logged {
				at = moment{t: struck}
			}
			r := s.read(t)
			if early := r.due(&c.strike, before, &at, c.stallUs); early != c.early {
				t.Errorf("early: %v, want %v", early, c.early)
			}
			checkSaid(t, r.said, c.kinds)
		})
	}
}

// process is a program of which only its number matters.
func process(pid int) *program { return &program{cmd: &exec.Cmd{Process: &os.Process{Pid: pid}}} }

// TestStoppedBefore: a robot that was damped before the last blow, or told of a fault by then, is excused by a stall of the machine, or a
// blow that held something up, and by nothing else.
func TestStoppedBefore(t *testing.T) {
	const agent, guard, robot = 11, 12, 13
	last := strike{blow: blow{name: "kill -9 agent", does: safety.Damp, ends: damps, stops: true, dueMs: [2]float64{0, 34}}}
	for _, c := range []struct {
		name    string
		ms      float64 // of the damping frame
		fault   string  // at the look
		said    string  // at the end
		us      float64 // the machine's stall before the look
		laterUs float64 // and since
		held    heldUp
		excused string
		kinds   []string
	}{
		{"nothing was before", 5, "", "", 0, 0, nil, "", nil},
		{"damped by a mild blow, and by no stall", -500, "loop_late", "", 1e3, 0, heldUp{agent: 8e3}, "", []string{"early"}},
		{"by a stall", -500, "loop_late", "", 15e3, 0, nil, "loop_late", nil},
		{"by a stall that came later", -500, "loop_late", "", 1e3, 15e3, nil, "", []string{"early"}},
		{"by a mild blow and a stall", -500, "guard_tripped", "", 10e3, 0, heldUp{agent: 9e3}, "guard_tripped", nil},
		{"by a stall that is none of the fault's", -500, "tilt", "", 100e3, 0, nil, "", []string{"early"}},
		{"told of, and damped in time all the same", 5, "guard_lost", "", 1e3, 0, heldUp{guard: 60e3}, "", []string{"early"}},
		{"the guard was held up so long", 5, "guard_lost", "", 40e3, 0, heldUp{guard: 60e3}, "guard_lost", nil},
		{"states stayed away", -100, "state_stale", "", 24e3, 0, heldUp{robot: 12e3}, "state_stale", nil},
		{"between the look and the blow, by no stall", -20, "", "", 0, 1e3, nil, "", []string{"early"}},
		{"between the look and the blow, by a stall", -20, "", "", 0, 15e3, nil, "loop_late", nil},
		{"between the look and the blow, as it says", -20, "", "tilt", 0, 15e3, nil, "", []string{"early"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const struck = 3.
			s := goodScript()
			s.torque(int((struck+c.ms/1e3-s.t)*1e3/tickMs)-1, 0.8)
			s.t = struck + c.ms/1e3 - tickMs/1e3
			s.damping(600)
			st := &storm{bench: &bench{pair: &pair{t: t, agent: process(agent), robot: process(robot)}, guard: guard, ref: *s.read(t)}}
			at := moment{us: struck * 1e6, t: -1, fault: c.fault, machine: stalls{MaxUs: c.us}, held: c.held}
			if excused := st.stopped(&last, 0, &at, &stalls{MaxUs: c.laterUs}, c.said); excused != c.excused {
				t.Errorf("excused %q, want %q", excused, c.excused)
			}
			checkSaid(t, st.ref.said, c.kinds)
		})
	}
}

// TestChaosStorms: equal seeds draw equal storms, each blow comes up in them, what acts is due, and nothing else.
func TestChaosStorms(t *testing.T) {
	drawn := map[string]int{}
	for seed := uint64(1); seed <= 200; seed++ {
		strikes := newStorm(seed)
		if again := newStorm(seed); fmt.Sprint(strikes) != fmt.Sprint(again) {
			t.Fatalf("seed %d: %v, and once more: %v", seed, strikes, again)
		}
		t.Logf("seed %d: %v", seed, strikes)
		for i := range strikes {
			drawn[strikes[i].kind()]++
			if strikes[i].does > safety.None && i < len(strikes)-1 {
				t.Errorf("seed %d: %v: an act that is not the last", seed, strikes)
			}
		}
	}
	for i := range blows {
		b := &blows[i]
		if drawn[b.kind()] == 0 {
			t.Errorf("%s is in none of 200 storms", b.kind())
		}
		if b.does > safety.None != (b.dueMs[1] > 0) || b.dueMs[0] > b.dueMs[1] {
			t.Errorf("%s: does %v, due %v ms", b.kind(), b.does, b.dueMs)
		}
	}
}

// TestEffects: a blow without an effect is told from one that had it.
func TestEffects(t *testing.T) {
	const d = time.Second
	for _, c := range []struct {
		name string
		did  error
		says string // "": it had
	}{
		{"busy", (&used{cpu: 400 * time.Millisecond}).spun(d), ""},
		{"idle", (&used{cpu: 90 * time.Millisecond, most: eatBytes}).spun(d), "had a processor for 90ms of 1s"},
		{"ate", (&used{most: eatBytes}).ate(d), ""},
		{"ate nothing", (&used{cpu: d, most: eatBytes / 2}).ate(d), "bytes"},
	} {
		if (c.did == nil) != (c.says == "") || c.did != nil && !strings.Contains(c.did.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, c.did, c.says)
		}
	}
	for text, want := range map[string]int{
		"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n": 3, "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n": 1,
		"oom_kill_disable 0\nunder_oom 0\noom_kill 0\n": 0, "oom_kill_disable 0\nunder_oom 0\n": -1, "oom_kill x\n": -1,
	} {
		g := memoryGroup{events: filepath.Join(t.TempDir(), "events")}
		if err := os.WriteFile(g.events, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := g.ended(); (err != nil) != (want < 0) || err == nil && n != want {
			t.Errorf("%q: %d, %v; want %d", text, n, err, want)
		}
	}
	u, err := usedBy(os.Getpid())
	if err != nil || u.most <= 0 || u.cpu < 0 {
		t.Errorf("this test itself: %+v, %v", u, err)
	}
	if stopped(os.Getpid()) {
		t.Error("this test itself is stopped")
	}
	s := storm{bench: &bench{pair: &pair{t: t}}}
	for offset, ok := range map[int64]bool{0: true, 3600: false, -3600: false} { // a server whose clock nobody moved
		server := httptest.NewServer(http.NotFoundHandler())
		s.http = server.URL + "/"
		if err := s.dated(offset); (err == nil) != ok {
			t.Errorf("a clock moved by %d s: %v", offset, err)
		}
		server.Close()
	}
}
