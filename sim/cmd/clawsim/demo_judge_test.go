package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// demoLog is the log of a good demo of 6 s of walking, made by hand: 0.06 m, then 0.27, 0.8 m/s from 5 to 11 s, then 0.07.
func demoLog(change func(string) string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for i := 1; i <= 16*50; i++ {
		t := float64(i) / 50
		height, vx := 0.06, 0.
		switch {
		case t > 1 && t <= 4:
			height = 0.27
		case t > 4 && t <= 13:
			height = 0.27
			if t > 5 && t <= 11 {
				vx = 0.8 * min((t-5)/0.5, 1)
			}
		case t > 13:
			height = 0.07
		}
		line(`{"t":%.3f,"event":"state","height":%g,"tilt":0.01,"heading":[%g,0.01],"vel":[%g,0.01,0.002],"class":"torque"}`, t, height, vx, vx)
		switch i {
		case 50:
			line(`{"t":1,"event":"command","class":"torque","from":"damping","frame":10}`)
		case 200:
			line(`{"t":4,"event":"stood","height":0.27,"tilt":0.01}`)
		case 330:
			line(`{"t":6.6,"event":"walking","height":0.27,"tilt":0.01}`)
		case 14 * 50:
			line(`{"t":14,"event":"lying","height":0.07,"tilt":0.01}`)
		}
	}
	line(`{"t":16,"event":"summary","summary":{"seconds":16,"frames":7000,"falls":0,"posture":"lying","missed":2,"rx_max_us":4100,"stalls":0,"tilt_max":0.05}}`)
	if change != nil {
		return change(b.String())
	}
	return b.String()
}

func without(event string) func(string) string {
	return func(log string) string {
		var kept []string
		for line := range strings.Lines(log) {
			if !strings.Contains(line, `"event":"`+event+`"`) {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
}

func replaced(pairs ...string) func(string) string { return strings.NewReplacer(pairs...).Replace }

func TestDemoJudge(t *testing.T) {
	walk := &demoConfig{policy: "p.onnx", command: [3]float64{0.8, 0, 0}}
	for _, c := range []struct {
		name   string
		cfg    *demoConfig
		change func(string) string
		sent   uint64
		want   []string // one in each failure, in this order
	}{
		{"good", walk, nil, 7000, nil},
		{"seven frames lost", walk, nil, 7007, nil},
		{"eight frames lost", walk, nil, 7008, []string{"sent 7008 frames and the robot took 7000"}},
		{"frames from nowhere", walk, nil, 6992, []string{"sent 6992"}},
		{"no frames", walk, replaced(`"frames":7000`, `"frames":0`), 0, []string{"sent 0"}},
		{"a fall", walk, func(log string) string {
			return strings.Replace(replaced(`"falls":0`, `"falls":1`)(log), `{"t":14,"event":"lying"`, `{"t":12.5,"event":"fall","cause":"trunk"}`+"\n"+`{"t":14,"event":"lying"`, 1)
		}, 7000, []string{"fell 1 times, first at 12.50 s (trunk)"}},
		{"never stood", walk, without("stood"), 7000, []string{`lacks "stood"`}},
		{"never walked", walk, without("walking"), 7000, []string{`lacks "walking"`}},
		{"never lay", walk, without("lying"), 7000, []string{`lacks "lying"`}},
		{"lay before it walked", walk, replaced(`"t":14,"event":"lying"`, `"t":6,"event":"lying"`), 7000, []string{`lacks "lying"`}},
		{"stands at the start", walk, replaced(`"height":0.06,`, `"height":0.27,`), 7000, []string{"did not lie at the start"}},
		{"stands at the end", walk, replaced(`"posture":"lying"`, `"posture":"standing"`), 7000, []string{"standing at the end"}},
		{"too slow", walk, replaced(`"heading":[0.8,`, `"heading":[0.64,`), 7000, []string{"mean vx is 0.640 m/s"}},
		{"slow", walk, replaced(`"heading":[0.8,`, `"heading":[0.66,`), 7000, nil},
		{"too fast", walk, replaced(`"heading":[0.8,`, `"heading":[0.96,`), 7000, []string{"mean vx is 0.960"}},
		{"sideways", walk, replaced(`,0.01],"vel"`, `,-0.2],"vel"`), 7000, []string{"mean vy is -0.200"}},
		{"turning", walk, replaced(`,0.002],"class"`, `,0.4],"class"`), 7000, []string{"mean wz is 0.400 rad/s"}},
		{"physics", walk, replaced(`"stalls":0`, `"physics_errors":3`), 7000, []string{"physics failed on 3 steps"}},
		{"records lost", walk, replaced(`"stalls":0`, `"log_lost":3`), 7000, []string{"lacks 3 records"}},
		{"no torque", walk, without("command"), 7000, []string{"did not lie", `lacks "stood"`}},
		{"stands, as asked", &demoConfig{}, without("walking"), 7000, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "robot.jsonl")
			if err := os.WriteFile(name, []byte(demoLog(c.change)), 0o644); err != nil {
				t.Fatal(err)
			}
			l, err := readRobotLog(name)
			if err != nil {
				t.Fatal(err)
			}
			r := judge(c.cfg, l, &agentSummary{Frames: c.sent, LoopP99Us: 12}, 5, 11)
			if len(r.Failures) != len(c.want) {
				t.Fatalf("failures %q, want %q", r.Failures, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(r.Failures[i], want) {
					t.Errorf("failures %q, want %q", r.Failures, c.want)
				}
			}
			if c.name == "good" && (r.VxMean != 0.8 || r.VxStd != 0 || r.LyingM != 0.06 || r.StandingM != 0.27 || r.LyingAgainM != 0.07 || r.StandSeconds != 3 ||
				r.DurationS != 6 || r.Missed != 2 || r.LoopP99Us != 12 || r.TiltMax != 0.05) {
				t.Errorf("%+v", r)
			}
			if c.cfg.policy == "" && !(math.IsNaN(r.VxMean) && r.VxCmd == 0) {
				t.Errorf("without a policy: %+v", r)
			}
		})
	}
}

func TestRobotLogMean(t *testing.T) {
	l := &robotLog{}
	for i := range 100 {
		l.states = append(l.states, robotState{t: float64(i), vx: float64(i)})
	}
	if mean, std := l.mean(9, 11, func(s *robotState) float64 { return s.vx }); mean != 10.5 || std != 0.5 {
		t.Errorf("mean %v, standard deviation %v, want 10.5 and 0.5", mean, std)
	}
	if mean, _ := l.mean(9.1, 9.9, (*robotState).heightM); !math.IsNaN(mean) {
		t.Errorf("the mean of nothing is %v", mean)
	}
}

func TestReadRobotLogRefuses(t *testing.T) {
	good := demoLog(nil)
	for name, c := range map[string]struct{ log, want string }{
		"empty":      {"", "no summary"},
		"cut":        {good[:len(good)/2], "robot.jsonl:"},
		"no summary": {without("summary")(good), "no summary"},
		"no JSON":    {"hello\n" + good, "robot.jsonl:1:"},
		"wrong type": {good + `{"t":"x"}`, "robot.jsonl:806:"},
		"long line":  {strings.Repeat(" ", 2*demoMaxRecord), "too long"},
	} {
		file := filepath.Join(t.TempDir(), "robot.jsonl")
		if err := os.WriteFile(file, []byte(c.log), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readRobotLog(file); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := readRobotLog(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: %v", err)
	}
}

// It starts over once where the agent acted on time and the robot was held up too, and twice, stall or not, without real-time rights.
func TestDemoAgain(t *testing.T) {
	for _, c := range []struct {
		failed bool
		fault  string
		stall  float64
		ahead  int // attempts with real-time rights
		low    int // and without
	}{
		{true, "loop_late", 20, 2, 3}, {true, "state_stale", 15.1, 2, 3}, {true, "policy_stale", 300, 2, 3}, {true, "guard_tripped", 20, 2, 3}, {true, "guard_lost", 100, 2, 3},
		{true, "loop_late", 15, 1, 3}, {true, "state_stale", 0, 1, 3}, {true, "tilt", 100, 1, 1}, {true, "", 100, 1, 3}, {true, "", 15, 1, 1}, {false, "loop_late", 100, 1, 1},
	} {
		r := &demoResult{Fault: c.fault, StallMaxMs: c.stall}
		if c.failed {
			r.Failures = []string{"it fell"}
		}
		for _, r.Ahead = range []bool{true, false} {
			r.Falls = 1
			if r.byTiming() && c.fault == "" {
				t.Errorf("%+v: a fall without a fault is laid to the machine", c)
			}
			r.Falls = 0
			want := c.ahead
			if !r.Ahead {
				want = c.low
			}
			r.Timing = r.byTiming()
			for r.Attempts = 1; r.again(); r.Attempts++ {
				if !strings.Contains(r.timing(), c.fault) || strings.Contains(r.timing(), "stood still") != (c.stall > demoStallMs) {
					t.Errorf("%+v: %s", c, r.timing())
				}
			}
			if r.Attempts != want {
				t.Errorf("%+v, real-time rights %v: %d attempts, want %d", c, r.Ahead, r.Attempts, want)
			}
		}
	}
}

func TestKeepLogs(t *testing.T) {
	out := t.TempDir()
	for _, name := range demoFiles {
		if err := os.WriteFile(filepath.Join(out, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := keepLogs(out, "attempt-1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range demoFiles {
		if b, err := os.ReadFile(filepath.Join(out, "attempt-1", name)); err != nil || string(b) != name {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if err := keepLogs(out, "attempt-1"); err == nil {
		t.Error("logs that are not there were kept")
	}
}

func TestLines(t *testing.T) {
	l := lines{first: make(chan []byte, 1)}
	for _, part := range []string{"{\"rea", "dy\":true}\n", "{\"a\":1}\n{\"a\"", ":2}\n", "{\"a\":3"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if first := string(<-l.first); first != `{"ready":true}` {
		t.Errorf("first line %q", first)
	}
	var m map[string]int
	if err := l.summary(&m); err != nil || m["a"] != 2 {
		t.Errorf("summary %v, %v", m, err)
	}
	if _, err := l.Write(make([]byte, childLine+1)); err == nil {
		t.Error("a line without end is kept")
	}
}
