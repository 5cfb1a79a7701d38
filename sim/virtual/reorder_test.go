package virtual_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/virtual"
	"github.com/openclaw-rl/openclaw/sim/virtual/virtualtest"
)

// road is a robot under faults, and programs that take turns to command it.
type road struct {
	r        *virtualtest.Robot
	programs []*client
	sent     int
	got      []string
}

func newRoad(t *testing.T, programs int, faults ...string) *road {
	t.Helper()
	cfg := virtualtest.Config()
	cfg.LogEveryFrame = true
	for _, text := range faults {
		f, err := virtual.ParseFault(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	w := &road{r: virtualtest.Start(t, cfg)}
	for range programs {
		w.programs = append(w.programs, newClient(t, w.r.Addr()))
	}
	return w
}

// command lets a program send its next one, which has a number of its own for gain, and take n datagrams: the tick of each, -1 for an empty one.
func (w *road) command(t *testing.T, program, n int) {
	t.Helper()
	w.sent++
	for _, b := range w.programs[program].exchange(servo(0, float32(w.sent)), n) {
		w.got = append(w.got, fmt.Sprintf("%c%d", 'A'+program, tick(t, b)))
	}
}

// executed are the commands by number and sender, in the order in which the robot took them.
func (w *road) executed(t *testing.T) (all []string) {
	t.Helper()
	for _, c := range w.programs {
		if !c.nothing() {
			t.Error("more came than was expected")
		}
	}
	w.r.Stop()
	sender := ""
	for _, rec := range w.r.Records("command", "sender", "frame") {
		if rec.Text("event") != "frame" {
			sender = rec.Text("sender")
			continue
		}
		for i, c := range w.programs {
			if c.conn.LocalAddr().String() == sender {
				all = append(all, fmt.Sprintf("%c%v", 'A'+i, rec.Number("kd")))
			}
		}
	}
	return all
}

// Each program's states and commands change places with its own, also where two programs take turns.
func TestReorderedByProgram(t *testing.T) {
	for fault, want := range map[string]struct{ got, executed []string }{
		"reorder@0": {
			[]string{"A-1", "B-1", "A6", "A2", "B8", "B4", "A-1", "A12", "A10"}, []string{"A1", "B2", "A3", "B4", "A5", "A6"}},
		"reorder_command@0": {
			[]string{"A-1", "B-1", "A6", "A6", "B8", "B8", "A-1", "A12", "A12"}, []string{"A3", "A1", "B4", "B2", "A6", "A5"}},
	} {
		w := newRoad(t, 2, fault)
		w.command(t, 0, 1)
		w.command(t, 1, 1)
		w.command(t, 0, 2)
		w.command(t, 1, 2)
		w.command(t, 0, 1)
		w.command(t, 0, 2)
		if !reflect.DeepEqual(w.got, want.got) {
			t.Errorf("%s: programs got %v, want %v", fault, w.got, want.got)
		}
		if got := w.executed(t); !reflect.DeepEqual(got, want.executed) {
			t.Errorf("%s: executed were %v, want %v", fault, got, want.executed)
		}
		if s := w.r.Summary(); s.Lost != 0 || s.Frames != 6 {
			t.Errorf("%s: %d states are lost, %d commands taken", fault, s.Lost, s.Frames)
		}
	}
}

// What is held when the fault ends, by time, by count or by clear, goes on its way: no frame is lost, and none of another program gains by it.
func TestReorderEndsBetweenTwo(t *testing.T) {
	for _, tc := range []struct {
		faults        []string
		n             []int // datagrams for each command
		got, executed []string
	}{
		{[]string{"reorder@0.002+0.006"}, []int{1, 2, 1, 2, 1}, []string{"A-1", "A4", "A2", "A-1", "A8", "A6", "A10"}, nil},
		{[]string{"reorder@0.004", "clear@0.006"}, []int{1, 1, 2, 1}, []string{"A2", "A-1", "A6", "A4", "A8"}, nil},
		{[]string{"reorder,samples=1@0.004"}, []int{1, 1, 1}, []string{"A2", "A4", "A6"}, nil},
		{[]string{"reorder,samples=3@0.004"}, []int{1, 1, 2, 1, 1}, []string{"A2", "A-1", "A6", "A4", "A8", "A10"}, nil},
		{[]string{"reorder_command@0.002+0.002"}, []int{1, 1, 2, 1}, []string{"A2", "A-1", "A6", "A6", "A8"}, nil},
		{[]string{"reorder_command@0.002", "clear@0.004"}, []int{1, 1, 2, 1}, []string{"A2", "A-1", "A6", "A6", "A8"}, nil},
		{[]string{"reorder_command@0.002+0.002", "drop_command,samples=1@0.004"}, []int{1, 1, 1, 1}, []string{"A2", "A-1", "A-1", "A8"}, []string{"A1", "A2", "A4"}},
		{[]string{"reorder_command,samples=1@0.002"}, []int{1, 1, 1}, []string{"A2", "A4", "A6"}, nil},
		{[]string{"reorder_command,samples=3@0.002"}, []int{1, 1, 2, 1, 1}, []string{"A2", "A-1", "A6", "A6", "A8", "A10"}, []string{"A1", "A3", "A2", "A4", "A5"}},
	} {
		w := newRoad(t, 1, tc.faults...)
		for _, n := range tc.n {
			w.command(t, 0, n)
		}
		if tc.executed == nil {
			for i := range tc.n {
				tc.executed = append(tc.executed, fmt.Sprintf("A%d", i+1))
			}
		}
		if !reflect.DeepEqual(w.got, tc.got) {
			t.Errorf("%s: got %v, want %v", tc.faults, w.got, tc.got)
		}
		if got := w.executed(t); !reflect.DeepEqual(got, tc.executed) {
			t.Errorf("%s: executed were %v, want %v", tc.faults, got, tc.executed)
		}
	}
}

// A state that is lost holds up no pair, and the copies of a doubled one stay together.
func TestReorderOfWhatOthersLeave(t *testing.T) {
	w := newRoad(t, 1, "reorder@0", "drop_state,samples=1@0.002", "duplicate_state,samples=2@0.004")
	for _, n := range []int{1, 1, 4, 1, 2} {
		w.command(t, 0, n)
	}
	if want := []string{"A-1", "A-1", "A6", "A6", "A4", "A4", "A-1", "A10", "A8"}; !reflect.DeepEqual(w.got, want) {
		t.Errorf("got %v, want %v", w.got, want)
	}
	w.executed(t)
	if s := w.r.Summary(); s.Lost != 1 {
		t.Errorf("%d states are lost, want 1", s.Lost)
	}
}

// A late state of one program is no answer to another: in lockstep that one gets its own.
func TestLateStatesAnswerNobodyElse(t *testing.T) {
	w := newRoad(t, 2, "delay_state,ms=5@0+0.005")
	w.command(t, 0, 1)
	w.command(t, 1, 1)
	w.r.Fault("drop_state@now")
	for range 4 {
		w.command(t, 1, 1)
	}
	if want := []string{"A-1", "B-1", "B-1", "B-1", "B4", "B-1"}; !reflect.DeepEqual(w.got, want) {
		t.Errorf("got %v, want %v", w.got, want)
	}
	if got := tick(t, w.programs[0].receive()); got != 2 {
		t.Errorf("A's late state is of %d ms, want 2", got)
	}
	w.executed(t)
}

func TestReorder(t *testing.T) {
	cfg := virtualtest.Config()
	f, err := virtual.ParseFault("reorder,samples=4@0.01")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Faults = []virtual.Fault{f}
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	var got []int
	for i := range 10 {
		n := 1
		if i == 5 || i == 7 {
			n = 2
		}
		for _, b := range c.exchange(damping(), n) {
			got = append(got, tick(t, b))
		}
	}
	if want := []int{2, 4, 6, 8, -1, 12, 10, -1, 16, 14, 18, 20}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The second of a pair is executed first, and then the older one: it is what the motors follow.
func TestCommandsReordered(t *testing.T) {
	cfg := virtualtest.Config()
	cfg.LogEveryFrame = true
	r := virtualtest.Start(t, cfg)
	c := newClient(t, r.Addr())
	r.Fault("reorder_command,samples=4@now")
	var modes []int
	for i := range 6 {
		cmd := damping()
		cmd.Motor[0].Mode, cmd.Motor[1].Kd = byte(100+i), float32(1+i)
		n := 1
		if i == 1 || i == 3 {
			n = 2
		}
		var s wire.LowState
		for _, b := range c.exchange(cmd, n) {
			if len(b) == 0 {
				modes = append(modes, -1)
			} else if err := wire.DecodeLowState(b, &s); err != nil {
				t.Fatal(err)
			} else {
				modes = append(modes, int(s.Motor[0].Mode))
			}
		}
	}
	if want := []int{-1, 100, 100, -1, 102, 102, 104, 105}; !reflect.DeepEqual(modes, want) {
		t.Errorf("modes %v, want %v", modes, want)
	}
	r.Stop()
	var kd []int
	for _, f := range r.Records("frame") {
		kd = append(kd, int(f.Number("kd")))
	}
	if want := []int{3, 3, 4, 3, 5, 6}; !reflect.DeepEqual(kd, want) { // the largest of the twelve; the others have 3
		t.Errorf("kd in order of execution %v, want %v", kd, want)
	}
}
