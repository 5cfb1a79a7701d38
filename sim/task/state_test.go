package task

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/go1"
)

// A row that is saved at some step and restored elsewhere does what it would have done.
func TestStatesGoOn(t *testing.T) {
	world := Ship()
	world.Commands.EverySeconds = [2]float64{0.05, 0.2}
	world.Pushes.EverySeconds = [2]float64{0.05, 0.2}
	fault := Fault{LinVelNoise: 0.1, ObsDelay: 3, TargetDelay: 2, TargetLoss: 0.3}
	type parts struct {
		command Commander
		fault   *Row
		episode Episode
		rand    Rand
	}
	begin := func(seed uint64) *parts {
		p := &parts{command: NewCommander(world.Commands, seed, 1), fault: row(t, fault), rand: NewRand(seed, 1, StreamVary)}
		p.command.Reset()
		world.Vary.Draw(&p.rand, &p.episode)
		world.Pushes.Begin(&p.rand, &p.episode)
		return p
	}
	type seen struct {
		command [3]float32
		age     float64
		reading go1.Reading
		target  [go1.Joints]float32
		kick    [2]float64
		delay   float64
		lost    bool
		normal  float64
	}
	step := func(p *parts, n int) (s seen) {
		p.command.Advance(0.02)
		s.command, s.age = p.command.Now, p.command.Age
		s.reading, s.target = *moment(float32(n)), target(float32(n))
		s.reading.ClockOn, s.reading.Phase = n%2 == 0, 0.25
		world.Noise.Corrupt(&p.rand, &p.episode, &s.reading)
		p.fault.Sense(&s.reading)
		p.fault.Execute(&s.target)
		s.kick, _ = world.Pushes.Advance(&p.rand, &p.episode, 0.02)
		s.delay, s.lost, s.normal = world.Vary.Delay(&p.rand, &p.episode), world.Vary.Lost(&p.rand), p.rand.Norm()
		return s
	}
	for _, at := range []int{0, 1, 2, 3, 4, 17, 50} {
		a, b := begin(1), begin(2)
		for n := range 20 { // b has another past
			step(b, 7*n)
		}
		for n := range at {
			step(a, n)
		}
		state := a.command.AppendState([]byte("before"))
		state = a.fault.AppendState(state)
		state = a.episode.AppendState(state)
		state = append(a.rand.AppendState(state), "after"...)
		rest, err := b.command.RestoreState(state[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		if rest, err = b.fault.RestoreState(rest); err != nil {
			t.Fatal(err)
		}
		if rest, err = b.episode.RestoreState(rest); err != nil {
			t.Fatal(err)
		}
		if rest, err = b.rand.RestoreState(rest); err != nil || string(rest) != "after" {
			t.Fatalf("left over: %q, %v", rest, err)
		}
		for n := at; n < at+100; n++ {
			if x, y := step(a, n), step(b, n); x != y {
				t.Fatalf("saved at step %d, they differ at step %d:\n%+v\n%+v", at, n, x, y)
			}
		}
	}
}

// restorer is anything whose state can be saved.
type restorer interface {
	AppendState(b []byte) []byte
	RestoreState(b []byte) ([]byte, error)
}

// states are one of each, with something in it.
func states(t *testing.T) map[string]restorer {
	command := NewCommander(Walk().Commands, 1, 0)
	command.Reset()
	late := row(t, Fault{ObsDelay: 2, TargetDelay: 1})
	for range 3 {
		late.Sense(moment(1))
	}
	r := NewRand(1, 0, StreamVary)
	episode := new(Episode)
	Ship().Vary.Draw(&r, episode)
	return map[string]restorer{"command": &command, "fault": late, "episode": episode, "random": &r}
}

// unlike makes the state differ from any saved before.
func unlike(t *testing.T, x restorer) {
	switch x := x.(type) {
	case *Commander:
		x.Advance(1)
		x.Reset()
	case *Row:
		x.Sense(moment(9))
		q := target(9)
		x.Execute(&q)
	case *Episode:
		x.Kp++
	case *Rand:
		x.Uint64()
	default:
		t.Fatalf("%T", x)
	}
}

func TestStatesRefuse(t *testing.T) {
	for name, x := range states(t) {
		good := x.AppendState(nil)
		unlike(t, x)
		before := x.AppendState(nil)
		if bytes.Equal(before, good) {
			t.Fatalf("%s: its state does not change", name)
		}
		for n := range good {
			rest, err := x.RestoreState(good[:n])
			if err == nil || !strings.Contains(err.Error(), "task: state of") || !strings.Contains(err.Error(), name) {
				t.Fatalf("%s: %d of %d bytes: error %v", name, n, len(good), err)
			}
			if len(rest) != n || !bytes.Equal(x.AppendState(nil), before) {
				t.Fatalf("%s: %d of %d bytes were refused, but not left alone", name, n, len(good))
			}
		}
		if rest, err := x.RestoreState(good); err != nil || len(rest) != 0 || !bytes.Equal(x.AppendState(nil), good) {
			t.Errorf("%s: %d bytes left, %v", name, len(rest), err)
		}
	}
	all := states(t)
	overwrite := func(name string, at int, with ...byte) []byte {
		b := all[name].AppendState(nil)
		copy(b[at:], with)
		return b
	}
	nan32, inf64 := appendFloat32s(nil, []float32{float32(math.NaN())}), appendFloats(nil, math.Inf(1))
	for _, c := range []struct {
		says, name string
		bad        []byte
	}{
		{"random numbers: invalid PCG", "random", overwrite("random", 0, 'P')},
		{"a command: invalid PCG", "command", overwrite("command", 3*4+2*8, 'P')},
		{"a command: it holds NaN", "command", overwrite("command", 0, nan32...)},
		{"a command: it holds +Inf", "command", overwrite("command", 3*4, inf64...)},
		{"an episode: it holds +Inf", "episode", overwrite("episode", 8, inf64...)},
		{"ObsDelay 1 and TargetDelay 1, this one has 2 and 1", "fault", overwrite("fault", randState, 1)},
		{"ObsDelay 2 and TargetDelay 8, this one has 2 and 1", "fault", overwrite("fault", randState+1, 8)},
		{"3 late readings, at most 2", "fault", overwrite("fault", randState+2, 3)},
		{"a fault: it holds NaN", "fault", overwrite("fault", randState+3, nan32...)},
		{"it holds 2 where 0 or 1 belongs", "fault", overwrite("fault", randState+3+49*4, 2)},
	} {
		x := all[c.name]
		before := x.AppendState(nil)
		if _, err := x.RestoreState(c.bad); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want %q", err, c.says)
		}
		if !bytes.Equal(x.AppendState(nil), before) {
			t.Errorf("%s: a refused state changes it", c.says)
		}
	}
}

// Whatever is restored is written back as it was read.
func FuzzRestoreState(f *testing.F) {
	t := new(testing.T)
	for _, x := range states(t) {
		f.Add(x.AppendState(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, x := range states(t) {
			before := x.AppendState(nil)
			rest, err := x.RestoreState(data)
			want := data[:len(data)-len(rest)]
			if err != nil {
				want = before
			}
			if got := x.AppendState(nil); !bytes.Equal(got, want) {
				t.Fatalf("%s: %x, want %x (%v)", name, got, want, err)
			}
		}
	})
}

func TestStatesDoNotAllocate(t *testing.T) {
	b := make([]byte, 0, 4096)
	for name, x := range states(t) {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := x.RestoreState(x.AppendState(b)); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
