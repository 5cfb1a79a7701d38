//go:build torch

package algo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
)

// cloneState copies what State gave.
func cloneState(s []Section) []Section {
	s = slices.Clone(s)
	for i := range s {
		s[i].Data = bytes.Clone(s[i].Data)
	}
	return s
}

// A run that is saved, thrown away and taken up by another process goes on bit for bit, and what
// it reports too: rows, episodes under way, noise, order, mixing, normaliser, optimiser, learning
// rate and teacher are all in the state (row 36 of the cases).
func TestResume(t *testing.T) {
	for name, cfg := range map[string]func() Config{
		"ppo": cartConfig,
		"normaliser": func() Config {
			c := cartConfig()
			c.Net.Normaliser = true
			return c
		},
		"file": func() Config { return taught(teacherFile) },
		"snapshot": func() Config {
			c := taught(teacherSnapshot)
			c.OPD.RefreshIterations = 3
			return c
		},
		"ema": func() Config { return taught(teacherEMA) },
		"async": func() Config {
			c := cartConfig()
			c.Async, c.Net.Normaliser = true, true
			return c
		},
		"async with a snapshot": func() Config {
			c := taught(teacherSnapshot)
			c.Async, c.OPD.RefreshIterations, c.OPD.Loss = true, 3, lossKL
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{}
			if cfg().OPD.Teacher == teacherFile {
				opts.Teacher = newSteady()
			}
			var saved []Section
			var want Report
			a := newTrainer(t, cfg(), newCarts(cartRows, cartEpisode, 1), opts)
			train(t, a, 7, func(r *Report) {
				if r.Iteration == 4 {
					saved = cloneState(must(a.State())(t))
				}
				want = *r
			})
			opts.Seed = 77 // the state brings its own
			b := newTrainer(t, cfg(), newCarts(cartRows, cartEpisode, 99), opts)
			if err := b.Restore(saved); err != nil {
				t.Fatal(err)
			}
			if again := must(stateWithoutRows(b, saved))(t); !slices.EqualFunc(again, saved, func(x, y Section) bool {
				return x.Name == y.Name && bytes.Equal(x.Data, y.Data)
			}) {
				t.Error("what was restored is not what was saved")
			}
			published := b.Published().Hash()
			var got Report
			train(t, b, 3, func(r *Report) { got = *r })
			if b.Nets().Hash() != a.Nets().Hash() {
				t.Error("other parameters three iterations later")
			}
			if b.Published().Hash() != a.Published().Hash() || b.Published().Hash() == published {
				t.Error("the average is another three iterations later, or the same")
			}
			for _, r := range []*Report{&want, &got} {
				r.CollectS, r.PolicyS, r.PhysicsS, r.LearnS, r.WallS = 0, 0, 0, 0, 0
			}
			if !slices.Equal(want.Metrics, got.Metrics) {
				t.Errorf("metrics %v, want %v", got.Metrics, want.Metrics)
			}
			want.Metrics, got.Metrics = nil, nil
			if x, y := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); x != y {
				t.Errorf("report\n%s, want\n%s", x, y)
			}
			// And they end in one state.
			if x, y := must(a.State())(t), must(b.State())(t); !slices.EqualFunc(x, y, func(x, y Section) bool { return bytes.Equal(timeless(x), timeless(y)) }) {
				t.Error("other states three iterations later")
			}
		})
	}
}

// timeless is a section without what clocks said: the last three numbers of what was collected ahead.
func timeless(s Section) []byte {
	if s.Name == aheadSection {
		return s.Data[:len(s.Data)-3*8]
	}
	return s.Data
}

// stateWithoutRows is tr's state, with the rows of another: tr's Env has not begun.
func stateWithoutRows(tr *Trainer, other []Section) ([]Section, error) {
	s, err := tr.State()
	for i := range s {
		if s[i].Name == "rows" {
			s[i] = other[i]
		}
	}
	return s, err
}

// States of other configurations and damaged ones are refused by name.
func TestRestoreRefuses(t *testing.T) {
	a := newTrainer(t, taught(teacherEMA), newCarts(cartRows, cartEpisode, 1), Options{})
	var saved []Section
	train(t, a, 1, func(*Report) { saved = cloneState(must(a.State())(t)) })
	without := func(name string) []Section {
		return slices.DeleteFunc(slices.Clone(saved), func(s Section) bool { return s.Name == name })
	}
	replace := func(name string, data []byte) []Section {
		s := slices.Clone(saved)
		for i := range s {
			if s[i].Name == name {
				s[i].Data = data
			}
		}
		return s
	}
	for says, state := range map[string][]Section{
		"no section trainer":          without("trainer"),
		"no section nets":             without("nets"),
		"no section rows":             without("rows"),
		"no section teacher":          without("teacher"),
		"section trainer has 3 bytes": replace("trainer", []byte("abc")),
		"nets: Load: ":                replace("nets", []byte("abc")),
		"its teacher is \"gait\"":     replace("teacher", []byte("gait\n")),
		"its teacher is \"\", opd":    replace("teacher", nil),
		"nets: Load: magic: EOF":      replace("teacher", []byte("ema\n")),
		"state: random numbers: ":     replace("trainer", make([]byte, len(saved[0].Data))),
	} {
		if err := a.Restore(state); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
	ahead := taught(teacherEMA)
	ahead.Async = true
	asynchronous := newTrainer(t, ahead, newCarts(cartRows, cartEpisode, 1), Options{})
	var behind []Section
	train(t, asynchronous, 1, func(*Report) { behind = cloneState(must(asynchronous.State())(t)) })
	if err := a.Restore(behind); !errors.Is(err, errAhead) {
		t.Errorf("collected ahead: %v", err)
	}
	last := &behind[len(behind)-1]
	whole := last.Data
	finals := 8 + 4*int(binary.LittleEndian.Uint32(whole)) // where the first transition of a last observation stands
	for says, data := range map[string][]byte{
		"section ahead: EOF":                        nil,
		"section ahead: unexpected EOF":             whole[:len(whole)-1],
		"1 too many: another number of rows":        append(bytes.Clone(whole), 0),
		"-1 deviations of a teacher and":            splice(whole, 0, 0xff, 0xff, 0xff, 0xff),
		"and -1 last observations, want 0 or 2 and": splice(whole, 4, 0xff, 0xff, 0xff, 0xff),
		"a last observation of transition 96, want": splice(whole, finals, 96, 0, 0, 0),
	} {
		last.Data = data
		if err := asynchronous.Restore(behind); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
	b := newTrainer(t, cartConfig(), newCarts(cartRows+1, cartEpisode, 1), Options{})
	if err := b.Restore(saved); err == nil || !strings.Contains(err.Error(), "another number of rows?") {
		t.Errorf("other rows: %v", err)
	}
	wide := cartConfig()
	wide.Net.Actor = []int{17}
	c := newTrainer(t, wide, newCarts(cartRows, cartEpisode, 1), Options{})
	if err := c.Restore(replace("teacher", []byte("none\n"))); err == nil || !strings.Contains(err.Error(), "ActorHidden") {
		t.Errorf("other networks: %v", err)
	}
}

// splice is a copy of data with other bytes from at on.
func splice(data []byte, at int, bytes ...byte) []byte {
	data = slices.Clone(data)
	copy(data[at:], bytes)
	return data
}

// A Run that was ended within an iteration leaves nothing behind for the next.
func TestRunAgain(t *testing.T) {
	env := newCarts(cartRows, cartEpisode, 1)
	tr := newTrainer(t, cartConfig(), env, Options{})
	ctx, end := context.WithCancel(context.Background())
	env.spoil = func(step int, _ *rollout.Step) {
		if step == 5 {
			end()
		}
	}
	if err := tr.Run(ctx); err != nil || tr.step == 0 {
		t.Fatalf("error %v, at step %d", err, tr.step)
	}
	train(t, tr, 1, func(r *Report) {
		if env.steps != 5+tr.cfg.Steps {
			t.Errorf("learnt after %d steps", env.steps)
		}
		if r.Episodes > 0 && r.EpisodeLength > float64(tr.cfg.Steps) {
			t.Errorf("episodes of %v steps", r.EpisodeLength)
		}
	})
}

// FuzzRestore: no section, however damaged, does more than be refused.
func FuzzRestore(f *testing.F) {
	moving := taught(teacherEMA)
	moving.Async = true
	a := newTrainer(f, moving, newCarts(2, cartEpisode, 1), Options{})
	var saved []Section
	train(f, a, 1, func(*Report) { saved = cloneState(must(a.State())(f)) })
	f.Add(saved[0].Data, saved[3].Data, saved[4].Data, saved[5].Data)
	f.Add([]byte{}, []byte("ema\n"), []byte("{}"), []byte{})
	cfg := taught(teacherPrivileged)
	cfg.OPD.Group = "late"
	f.Fuzz(func(t *testing.T, trainer, teacher, actor, ahead []byte) {
		state := cloneState(saved)
		state[0].Data, state[3].Data, state[4].Data, state[5].Data = trainer, teacher, actor, ahead
		_ = a.Restore(state)
		if tr, err := New(cfg, newCarts(2, cartEpisode, 1), Options{TeacherState: state}); err == nil {
			tr.Close()
		}
	})
}
