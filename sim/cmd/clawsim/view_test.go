package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// fakeEnv is rows of numbers that remember what was asked of them.
type fakeEnv struct {
	states  []mujoco.State
	command [][3]float32
	steered map[int]int // how often
	pushed  [][3]float64
	err     error // of the next calls
}

func newFakeEnv(rows int) *fakeEnv {
	e := &fakeEnv{states: make([]mujoco.State, rows), command: make([][3]float32, rows), steered: map[int]int{}, pushed: make([][3]float64, rows)}
	for i := range e.states {
		e.states[i].Quat[0] = 1
	}
	return e
}

func (e *fakeEnv) State(row int) *mujoco.State { return &e.states[row] }
func (e *fakeEnv) Command(row int) [3]float32  { return e.command[row] }
func (e *fakeEnv) BadRows() int64              { return 3 }

func (e *fakeEnv) Steer(row int, c *[3]float32) error {
	e.steered[row]++
	if c == nil {
		e.command[row] = [3]float32{}
	} else {
		e.command[row] = *c
	}
	return e.err
}

func (e *fakeEnv) Push(row int, dv [3]float64) error {
	e.pushed[row] = dv
	return e.err
}

// fakeSpec is what a stage needs of a Spec.
func fakeSpec(rows int) *rollout.Spec {
	return &rollout.Spec{Rows: rows, PolicyPeriodNs: 20e6, Metrics: []string{"height", "reward/alive"}}
}

func testHub(t *testing.T, rows int) *hub {
	t.Helper()
	h, err := newHub(&hello{Version: protoVersion, Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func testStage(t *testing.T, rows int) (*stage, *fakeEnv, *rollout.Step) {
	t.Helper()
	env, spec := newFakeEnv(rows), fakeSpec(rows)
	step := &rollout.Step{Reward: make([]float32, rows), Terminated: make([]bool, rows), TimedOut: make([]bool, rows),
		Metrics: make([]float32, 2*rows)}
	return newStage(env, spec, testHub(t, min(rows, maxShown))), env, step
}

// Every number is where the table in view_proto.go says.
func TestFrameLayout(t *testing.T) {
	st, env, step := testStage(t, 2)
	s := &env.states[1]
	s.Pos, s.Quat = [3]float64{1, 2, 3}, [4]float64{0.5, 0.5, 0.5, -0.5}
	for i := range s.Q {
		s.Q[i] = float64(i) / 10
	}
	s.FootForce, s.Contacts = [4]float64{10, 0, 30, 0}, [4]bool{true, false, true, false}
	s.LinVelIMU, s.AngVelBody, s.Power = [3]float64{0.7, 0.1, 9}, [3]float64{9, 9, 0.2}, 77
	step.Reward[1], step.Terminated[1], step.TimedOut[0] = 0.25, true, true
	copy(step.Metrics, []float32{0.3, 0.5, 0.31, 0.51})
	st.take(step)
	if err := st.follow(&request{Do: "command", Row: new(1), Command: &[3]float32{0.8, -0.1, 0.4}}); err != nil {
		t.Fatal(err)
	}
	st.paused, st.speed = true, 0.25
	st.hub.refused.Add(7)
	b := st.frame(flagLast)
	const row = frameHead + 4*(rowWords+2)
	le := binary.LittleEndian
	if len(b) != row+4*(rowWords+2) {
		t.Fatalf("%d bytes", len(b))
	}
	head := fmt.Sprint(b[0], b[1], le.Uint16(b[2:]), le.Uint16(b[4:]), le.Uint16(b[6:]), le.Uint32(b[8:]),
		math.Float32frombits(le.Uint32(b[12:])), math.Float64frombits(le.Uint64(b[16:])), le.Uint32(b[24:]), le.Uint32(b[28:]))
	if head != "1 3 2 2 0 1 0.25 0.02 3 7" {
		t.Errorf("head is %s", head)
	}
	var got []float32
	for i := range rowWords + 2 {
		got = append(got, math.Float32frombits(le.Uint32(b[row+4*i:])))
	}
	want := []float32{1, 2, 3, 0.5, 0.5, 0.5, -0.5, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 10, 0, 30, 0,
		0.7, 0.1, 0.2, 0.8, -0.1, 0.4, 0.25, 77, math.Float32frombits(0b10101), math.Float32frombits(1), math.Float32frombits(1), 0.31, 0.51}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("word %d of row 1 is %v, want %v", i, got[i], want[i])
		}
	}
	if falls, episodes := le.Uint32(b[frameHead+4*32:]), le.Uint32(b[frameHead+4*33:]); falls != 0 || episodes != 1 {
		t.Errorf("row 0 timed out: %d falls, %d episodes", falls, episodes)
	}
}

func TestStageFollows(t *testing.T) {
	st, env, _ := testStage(t, 20) // 16 of them shown
	ask := func(r *request) {
		t.Helper()
		if err := st.follow(r); err != nil {
			t.Fatal(err)
		}
	}
	// A push goes along the heading: this row looks to the left, +y.
	env.states[2].Quat = [4]float64{math.Sqrt2 / 2, 0, 0, math.Sqrt2 / 2}
	ask(&request{Do: "push", Row: new(2), Kick: &[2]float64{0.5, 0.1}})
	if p := env.pushed[2]; math.Abs(p[0]+0.1) > 1e-12 || math.Abs(p[1]-0.5) > 1e-12 || p[2] != 0 {
		t.Errorf("pushed by %v", p)
	}
	ask(&request{Do: "command", Row: new(-1), Command: &[3]float32{0.3, 0, 0}})
	if env.command[15][0] != 0.3 || env.command[16][0] != 0 || !st.rows[15].steered {
		t.Errorf("all shown rows are meant: %v", env.command)
	}
	ask(&request{Do: "script", Row: new(15)})
	if env.command[15][0] != 0 || st.rows[15].steered || !st.rows[14].steered {
		t.Error("row 15 alone goes back to the script")
	}
	ask(&request{Do: "step"})
	if !st.paused || !st.single {
		t.Error("a step pauses after it")
	}
	ask(&request{Do: "resume"})
	ask(&request{Do: "speed", Speed: new(2.0)})
	if st.paused || st.speed != 2 {
		t.Errorf("paused %v, speed %v", st.paused, st.speed)
	}
	env.err = errors.New("the robot is gone")
	for _, r := range []*request{
		{Do: "push", Row: new(0), Kick: &[2]float64{}}, {Do: "command", Row: new(0), Command: &[3]float32{}}, {Do: "script", Row: new(-1)},
	} {
		if err := st.follow(r); !errors.Is(err, env.err) {
			t.Errorf("%s: %v", r.Do, err)
		}
	}
}

// A stage keeps time by its clock, and does not hurry after being held up.
func TestStageRests(t *testing.T) {
	st, _, _ := testStage(t, 1)
	now := time.Now()
	if r := st.rest(now); r != 20*time.Millisecond {
		t.Errorf("the first step waits %v", r)
	}
	if r := st.rest(now.Add(23 * time.Millisecond)); r != -3*time.Millisecond {
		t.Errorf("3 ms late: %v", r)
	}
	if r := st.rest(now.Add(23 * time.Millisecond)); r != 17*time.Millisecond {
		t.Errorf("the next one is due on time: %v", r)
	}
	if r := st.rest(now.Add(time.Second)); r != 20*time.Millisecond {
		t.Errorf("after a second's pause: %v", r)
	}
	st.speed, st.due = 0.25, time.Time{}
	if r := st.rest(now); r != 80*time.Millisecond {
		t.Errorf("a quarter of the speed: %v", r)
	}
}

// patience is how long something that comes by itself is waited for: only a test that fails takes as long.
const patience = 5 * time.Minute

// eventually waits for what other goroutines do.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// joined is a page of h that is not behind a network.
func joined(t *testing.T, h *hub) *viewer {
	t.Helper()
	v := &viewer{frames: make(chan []byte, frameQueue), notes: make(chan []byte, 1)}
	if !h.join(v) {
		t.Fatal("not let in")
	}
	return v
}

// Time stands still until somebody looks, and while they pause.
func TestStageHolds(t *testing.T) {
	st, _, step := testStage(t, 1)
	st.period = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var steps atomic.Int64
	ended := make(chan error, 1)
	go func() {
		err := st.show(ctx, step, false)
		for ; err == nil; err = st.show(ctx, step, false) {
			steps.Add(1)
		}
		ended <- err
	}()
	quiet := func(why string, want int64) {
		t.Helper()
		time.Sleep(50 * time.Millisecond)
		if n := steps.Load(); n != want {
			t.Fatalf("%d steps %s, want %d", n, why, want)
		}
	}
	quiet("before anybody looks", 0)
	v := joined(t, st.hub)
	eventually(t, "steps while somebody looks", func() bool { return steps.Load() > 3 })
	st.hub.requests <- &request{Do: "pause"}
	for paused := false; !paused; { // steps that were under way
		b := <-v.frames
		paused = b[1]&flagPaused != 0
	}
	before := steps.Load()
	quiet("while paused", before)
	st.hub.requests <- &request{Do: "step"}
	eventually(t, "a single step", func() bool { return steps.Load() > before })
	quiet("after a single one", before+1)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended by %v", err)
	}
	if err := st.show(t.Context(), step, true); err != nil { // paused, but there is no next step to wait for
		t.Error(err)
	}
}

// A simulation that is slower than real time is late at every step; people are heard between steps all the same.
func TestStageHeedsWhenLate(t *testing.T) {
	st, env, step := testStage(t, 1)
	st.period = time.Hour
	v := joined(t, st.hub)
	st.due = time.Now().Add(-2 * st.period)
	if err := st.show(t.Context(), step, false); err != nil { // does not wait
		t.Fatal(err)
	}
	st.hub.requests <- &request{Do: "push", Row: new(0), Kick: &[2]float64{0.5, 0}}
	st.hub.requests <- &request{Do: "command", Row: new(0), Command: &[3]float32{0.8, 0, 0}}
	st.hub.requests <- &request{Do: "drawn", Step: new(uint32(1)), from: v}
	if err := st.show(t.Context(), step, false); err != nil {
		t.Fatal(err)
	}
	if env.pushed[0][0] != 0.5 || env.command[0][0] != 0.8 || len(v.notes) != 1 {
		t.Errorf("pushed by %v, told to do %v, %d requests refused", env.pushed[0], env.command[0], len(v.notes))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	st.due = time.Now().Add(-2 * st.period)
	st.hub.requests <- &request{Do: "pause"}
	ended := make(chan error, 1)
	go func() { ended <- st.show(ctx, step, false) }()
	for paused := false; !paused; {
		select {
		case b := <-v.frames:
			paused = b[1]&flagPaused != 0
		case err := <-ended:
			t.Fatalf("the next step begins (%v) in spite of a pause", err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("paused, and ended by %v", err)
	}
}

// A slow page misses the oldest frames and holds nobody up.
func TestHubDropsTheOldest(t *testing.T) {
	h := testHub(t, 1)
	v := joined(t, h)
	for i := range byte(10) {
		h.publish([]byte{i})
	}
	for i := byte(10 - frameQueue); i < 10; i++ {
		if b := <-v.frames; b[0] != i {
			t.Errorf("frame %d, want %d", b[0], i)
		}
	}
	if n := h.dropped.Load(); n != 10-frameQueue {
		t.Errorf("%d dropped", n)
	}
	for range 3 {
		h.refuse(v, errors.New("no")) // a page that does not read notes either
	}
	if n := h.refused.Load(); n != 3 {
		t.Errorf("%d refused", n)
	}
}

func TestDecodeRequest(t *testing.T) {
	for _, good := range []string{
		`{"do":"pause"}`, `{"do":"resume"}`, `{"do":"step"}`, `{"do":"speed","speed":0.25}`, `{"do":"command","row":3,"command":[0.8,0,-1]}`,
		`{"do":"script","row":-1}`, `{"do":"push","row":0,"kick":[0.5,0]}`, `{"do":"ready","codec":"vp9"}`, `{"do":"drawn","step":7}`,
		`{"do":"saved"}`, `{"do":"failed","error":"why"}`,
	} {
		if _, err := decodeRequest([]byte(good), 4); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []struct{ text, says string }{
		{``, "EOF"}, {`null`, "do is"}, {`[]`, "array"}, {`{`, "EOF"}, {"{\"do\":\"\xff\"}", "UTF-8"}, {`{"do":"pause"} {}`, "after"},
		{`{}`, `do is ""`}, {`{"do":"fly"}`, "fly"}, {`{"DO":"pause"}`, "DO"}, {`{"do":"pause","do":"step"}`, "duplicate"},
		{`{"do":"pause","row":1}`, "members [row]"}, {`{"do":"pause","who":1}`, "who"},
		{`{"do":"speed"}`, "want [speed]"}, {`{"do":"speed","speed":0}`, "speed is 0"}, {`{"do":"speed","speed":99}`, "speed is 99"},
		{`{"do":"speed","speed":"fast"}`, "speed"}, {`{"do":"speed","speed":null}`, "want [speed]"},
		{`{"do":"command","command":[1,0,0]}`, "want [row command]"}, {`{"do":"command","row":4,"command":[1,0,0]}`, "row is 4"},
		{`{"do":"command","row":-2,"command":[1,0,0]}`, "row is -2"}, {`{"do":"command","row":0,"command":[1,0]}`, "command"},
		{`{"do":"command","row":0,"command":[1,0,0,0]}`, "command"}, {`{"do":"command","row":0,"command":[1,6,0]}`, "vy is 6"},
		{`{"do":"command","row":0,"command":[1e39,0,0]}`, "command"}, {`{"do":"command","row":0.5,"command":[1,0,0]}`, "row"},
		{`{"do":"push","row":0,"kick":[2.5,2.5]}`, "kick"}, {`{"do":"push","row":0,"kick":[1e400,0]}`, "kick"},
		{`{"do":"drawn","step":-1}`, "step"}, {`{"do":"failed"}`, "want [error]"},
	} {
		if r, err := decodeRequest([]byte(bad.text), 4); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: %v, %v: want an error that says %q", bad.text, r, err, bad.says)
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{`{"do":"pause"}`, `{"do":"command","row":3,"command":[0.8,0,-1]}`, `{"do":"push","row":-1,"kick":[0.5,0]}`,
		`{"do":"speed","speed":1e-9}`, `{"do":"failed","error":"é"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRequest(b, 4)
		if err != nil {
			if r != nil || len(err.Error()) > 400 {
				t.Errorf("%v with %v", r, err)
			}
			return
		}
		// What is let through can be followed.
		env := newFakeEnv(4)
		h, err := newHub(&hello{Rows: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := newStage(env, fakeSpec(4), h).follow(r); (err != nil) != r.rendering() {
			t.Errorf("%s: %v", b, err)
		}
		for _, p := range env.pushed {
			if !(math.Hypot(p[0], p[1]) <= maxKick*1.000001) {
				t.Errorf("%s pushes by %v", b, p)
			}
		}
	})
}

func TestDecodeChunk(t *testing.T) {
	chunk := func(at uint64, data string) []byte { return append(binary.LittleEndian.AppendUint64(nil, at), data...) }
	if at, data, err := decodeChunk(chunk(1<<33, "abc")); at != 1<<33 || string(data) != "abc" || err != nil {
		t.Error(at, data, err)
	}
	for _, bad := range [][]byte{nil, make([]byte, 8), chunk(maxVideoBytes, "a"), chunk(math.MaxUint64, "a"), chunk(1<<63, "a")} {
		if _, _, err := decodeChunk(bad); err == nil {
			t.Errorf("% x is accepted", bad)
		}
	}
}

func FuzzDecodeChunk(f *testing.F) {
	f.Add(make([]byte, 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		if at, data, err := decodeChunk(b); err == nil && (at < 0 || len(data) == 0 || at+int64(len(data)) > maxVideoBytes) {
			t.Errorf("%d bytes at %d", len(data), at)
		}
	})
}

// play --view says where it is, serves, and ends with its figures.
func TestPlayView(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	root := &cobra.Command{Use: "clawsim"}
	root.SetContext(ctx) // a page that got lost would leave time standing still
	root.AddCommand(newPlayCommand())
	out, in := io.Pipe()
	var errs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(root, []string{"play", "--policy", "random", "--rows", "20", "--seconds", "0.4", "--view", ":0", "--json"}, in, &errs)
		_ = in.Close()
	}()
	lines := json.NewDecoder(out)
	var ready struct{ View string }
	if err := lines.Decode(&ready); err != nil {
		t.Fatal(err, errs.String())
	}
	c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(ready.View, "http")+"ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(1 << 20)
	go func() {
		for err := error(nil); err == nil; {
			_, _, err = c.Read(ctx)
		}
	}()
	var result map[string]any
	if err := lines.Decode(&result); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != 0 || result["seconds"] != 0.4 || result["rows"] != 20.0 || !strings.HasPrefix(ready.View, "http://127.0.0.1:") {
		t.Errorf("exit %d, view %q, result %v", got, ready.View, result)
	}
	if !strings.Contains(errs.String(), "view: "+ready.View) || strings.Contains(errs.String(), "warning") {
		t.Errorf("stderr %q", errs.String())
	}
}

func TestPlayShowRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"view without port", []string{"--view", "localhost"}, cli.ExitUsage, "HOST:PORT"},
		{"view's port is a word", []string{"--view", "localhost:http"}, cli.ExitUsage, `port "http"`},
		{"view elsewhere", []string{"--view", "192.0.2.1:8090"}, cli.ExitUsage, "192.0.2.1"},
		{"view and video", []string{"--view", ":0", "--video", "a.webm"}, cli.ExitUsage, "not both"},
		{"video of another kind", []string{"--video", "a.avi"}, cli.ExitUsage, ".webm or .mp4"},
		{"shot of another kind", []string{"--shot", "a.jpg"}, cli.ExitUsage, ".png"},
		{"video into nowhere", []string{"--video", "/nowhere/a.webm"}, cli.ExitFailed, "/nowhere/a.webm: no such file"},
		{"pictures too many", []string{"--video", "a.webm", "--fps", "60"}, cli.ExitUsage, "--fps 60"},
		{"pictures NaN", []string{"--video", "a.webm", "--fps", "NaN"}, cli.ExitUsage, "--fps NaN"},
		{"pictures uneven", []string{"--video", "a.webm", "--fps", "30"}, cli.ExitUsage, "50 times a second"},
		{"pictures of no video", []string{"--fps", "25"}, cli.ExitUsage, "--fps 25 is of --video"},
		{"pictures of a shot", []string{"--shot", "a.png", "--fps", "50"}, cli.ExitUsage, "--fps 50 is of --video"},
		{"no such world", []string{"--world", "moon"}, cli.ExitUsage, "eval_v1"},
		{"world is no world", []string{"--world", "play.go"}, cli.ExitFailed, "play.go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := play(append([]string{"--policy", "zero", "--rows", "1", "--seconds", "0.1"}, c.args...)...)
			if code != c.code || !strings.Contains(errs, c.says) || out != "" {
				t.Errorf("exit %d, want %d; stderr %q should say %q; stdout %q", code, c.code, errs, c.says, out)
			}
		})
	}
}

// A world has its own commands; one on the command line replaces them.
func TestPlayWorld(t *testing.T) {
	args := []string{"--policy", "zero", "--rows", "2", "--seconds", "0.2", "--world", "ship", "--physics", "lean"}
	m := playJSON(t, args...)
	if m["world"] != "ship" || m["physics"] != "lean" || m["command"] != nil {
		t.Errorf("play says %v", m)
	}
	for _, figure := range []string{"vel_err", "yaw_err", "fall_rate", "power_w", "action_rate"} {
		if _, ok := m[figure].(float64); !ok {
			t.Errorf("%s is %v", figure, m[figure])
		}
	}
	m = playJSON(t, append(args, "--command", "0.5,0,0")...)
	if fmt.Sprint(m["command"]) != "[0.5 0 0]" {
		t.Errorf("command is %v", m["command"])
	}
}
