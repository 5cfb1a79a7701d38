package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/agent/rollout/rollouttest"
)

// pusher pushes every cart a little, differently per row, and remembers how it
// was called.
type pusher struct {
	spec   *rollout.Spec
	resets [][]int
	firsts []int // FirstRow of each Act
	fail   error
}

func (p *pusher) Reset(rows []int) { p.resets = append(p.resets, slices.Clone(rows)) }

func (p *pusher) Act(step *rollout.Step, out *rollout.Decision) error {
	p.firsts = append(p.firsts, step.FirstRow)
	for i := range out.Action {
		out.Action[i] = 0.1 * float32(step.FirstRow+i+1)
	}
	return p.fail
}

// choosy is a pusher that knows what it was trained on.
type choosy struct{ pusher }

func (p *choosy) Spec() rollout.Spec { return *p.spec }

// line is one Record as text.
func line(env int, before, after *rollout.Step, d *rollout.Decision) string {
	return fmt.Sprint(env, before.FirstRow, after.FirstRow, before.Obs[0], d.Action, after.Obs[0], after.Reward, after.TimedOut)
}

func toys(n, episode int) (envs []rollout.Env) {
	for i := range n {
		envs = append(envs, rollouttest.NewToy(2+i, 1, episode, uint64(i)))
	}
	return envs
}

// With one Env and with three, each sees what it would have seen stepped by hand.
func TestRunStepsEachEnvAsByHand(t *testing.T) {
	const steps, episode = 20, 7
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " Envs"), func(t *testing.T) {
			want := make([][]string, n)
			first := 0
			for i, e := range toys(n, episode) {
				spec, p := e.Spec(), &pusher{}
				before, after, d := rollout.NewStep(spec), rollout.NewStep(spec), rollout.NewDecision(spec)
				before.FirstRow, after.FirstRow = first, first
				first += spec.Rows
				if err := e.Reset(t.Context(), nil, before); err != nil {
					t.Fatal(err)
				}
				for range steps {
					if err := p.Act(before, d); err != nil {
						t.Fatal(err)
					}
					if err := e.Step(t.Context(), d.Action, after); err != nil {
						t.Fatal(err)
					}
					want[i] = append(want[i], line(i, before, after, d))
					before, after = after, before
				}
			}
			got := make([][]string, n)
			var order []int
			err := rollout.Run(t.Context(), toys(n, episode), &pusher{}, rollout.SinkFunc(
				func(env int, before *rollout.Step, d *rollout.Decision, after *rollout.Step) error {
					got[env] = append(got[env], line(env, before, after, d))
					order = append(order, env)
					if env == n-1 && len(got[env]) == steps {
						return rollout.ErrStop
					}
					return nil
				}))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("Run: %v\nby hand: %v", got, want)
			}
			for i, env := range order {
				if env != i%n {
					t.Fatalf("the sink heard of Envs in the order %v", order)
				}
			}
		})
	}
}

// The policy forgets everything at the start and each ended row, counted over all
// Envs, when it ends.
func TestRunResetsThePolicy(t *testing.T) {
	p := &pusher{}
	n := 0
	err := rollout.Run(t.Context(), toys(2, 3), p, rollout.SinkFunc(
		func(int, *rollout.Step, *rollout.Decision, *rollout.Step) error {
			if n++; n == 10 {
				return rollout.ErrStop
			}
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	if want := [][]int{nil, {0, 1}, {2, 3, 4}}; !reflect.DeepEqual(p.resets[:3], want) {
		t.Errorf("policy's resets %v, want to begin with %v", p.resets, want)
	}
	if !slices.Equal(p.firsts[:4], []int{0, 2, 0, 2}) {
		t.Errorf("FirstRow of each Act: %v", p.firsts)
	}
}

// held is a Toy that does not begin anew by itself; it counts what Run does.
type held struct {
	*rollouttest.Toy
	resets [][]int
}

func (h *held) Spec() rollout.Spec {
	s := h.Toy.Spec()
	s.AutoReset = false
	return s
}

func (h *held) Reset(ctx context.Context, rows []int, out *rollout.Step) error {
	h.resets = append(h.resets, slices.Clone(rows))
	return h.Toy.Reset(ctx, rows, out)
}

// Rows that ended in an Env that holds are reset at once, after the sink saw the
// end, and no others.
func TestRunResetsRowsOfAnEnvThatHolds(t *testing.T) {
	e := &held{Toy: rollouttest.NewToy(2, 1, 0, 1)}
	n, ends := 0, 0
	err := rollout.Run(t.Context(), []rollout.Env{e}, &pusher{}, rollout.SinkFunc(
		func(_ int, before *rollout.Step, _ *rollout.Decision, after *rollout.Step) error {
			if before.Ended(0) || before.Ended(1) {
				t.Errorf("step %d begins with an end", n)
			}
			if after.Ended(1) {
				ends++
			}
			switch n++; n {
			case 4:
				e.Fall(1)
			case 8:
				return rollout.ErrStop
			}
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	if want := [][]int{nil, {1}}; !reflect.DeepEqual(e.resets, want) || ends != 1 {
		t.Errorf("resets %v, want %v; %d ends", e.resets, want, ends)
	}
}

func TestRunEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, n := range []int{1, 3} {
		for _, c := range []struct {
			name   string
			policy pusher
			sink   func(cancel func()) error
			want   error
		}{
			{"when the sink says stop", pusher{}, func(func()) error { return fmt.Errorf("enough: %w", rollout.ErrStop) }, nil},
			{"when the context ends", pusher{}, func(cancel func()) error { cancel(); return nil }, nil},
			{"when the sink fails", pusher{}, func(func()) error { return broken }, broken},
			{"when the policy fails", pusher{fail: broken}, func(func()) error { return nil }, broken},
		} {
			t.Run(fmt.Sprint(c.name, ", ", n, " Envs"), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				envs := toys(n, 0)
				err := rollout.Run(ctx, envs, &c.policy, rollout.SinkFunc(
					func(int, *rollout.Step, *rollout.Decision, *rollout.Step) error { return c.sink(cancel) }))
				if !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				for i, e := range envs { // no Env is left stepping: it can be used
					if err := e.Reset(t.Context(), nil, rollout.NewStep(e.Spec())); err != nil {
						t.Errorf("Env %d: %v", i, err)
					}
				}
			})
		}
	}
}

// sick fails in one of its calls.
type sick struct {
	*rollouttest.Toy
	reset, step error
}

func (s *sick) Reset(ctx context.Context, rows []int, out *rollout.Step) error {
	return errors.Join(s.reset, s.Toy.Reset(ctx, rows, out))
}

func (s *sick) Step(ctx context.Context, action []float32, out *rollout.Step) error {
	return errors.Join(s.step, s.Toy.Step(ctx, action, out))
}

func TestRunGivesAnEnvsError(t *testing.T) {
	broken := errors.New("broken")
	for _, n := range []int{1, 3} {
		for _, s := range []*sick{{reset: broken}, {step: broken}} {
			s.Toy = rollouttest.NewToy(2, 1, 0, 1)
			envs := append(toys(n-1, 0), s)
			if err := rollout.Run(t.Context(), envs, &pusher{}, nil); !errors.Is(err, broken) {
				t.Errorf("%d Envs: error %v", n, err)
			}
		}
	}
}

func TestRunRefuses(t *testing.T) {
	if err := rollout.Run(t.Context(), nil, &pusher{}, nil); err == nil || !strings.Contains(err.Error(), "without an Env") {
		t.Errorf("no Env: %v", err)
	}
	need := rollouttest.ToySpec(1)
	if err := runOnce(t, &choosy{pusher{spec: &need}}); err != nil {
		t.Errorf("a policy that fits: %v", err)
	}
	need.Kp = []float32{2}
	p := &choosy{pusher{spec: &need}}
	if err := runOnce(t, p); err == nil || !strings.Contains(err.Error(), "kp of push") {
		t.Errorf("a policy trained with another kp: %v", err)
	}
	if p.firsts != nil {
		t.Error("it was asked to act")
	}
}

func runOnce(t *testing.T, p rollout.Policy) error {
	return rollout.Run(t.Context(), toys(1, 0), p, rollout.SinkFunc(
		func(int, *rollout.Step, *rollout.Decision, *rollout.Step) error { return rollout.ErrStop }))
}

// An action that is not finite is the Env's to refuse, and Run's to pass on.
type poison struct{}

func (poison) Reset([]int) {}
func (poison) Act(_ *rollout.Step, out *rollout.Decision) error {
	out.Action[0] = float32(math.NaN())
	return nil
}

func TestRunStopsAtANaN(t *testing.T) {
	if err := rollout.Run(t.Context(), toys(1, 0), poison{}, nil); !errors.Is(err, rollout.ErrAction) {
		t.Errorf("error %v", err)
	}
}

// constant allocates nothing.
type constant struct{}

func (constant) Reset([]int) {}
func (constant) Act(_ *rollout.Step, out *rollout.Decision) error {
	clear(out.Action)
	return nil
}

// With one Env a step of Run allocates nothing: a long run allocates as much as a
// short one, ends of episodes included.
func TestRunDoesNotAllocate(t *testing.T) {
	allocs := func(steps int) float64 {
		envs := toys(1, 5)
		return testing.AllocsPerRun(5, func() {
			n := 0
			err := rollout.Run(context.Background(), envs, constant{}, rollout.SinkFunc(
				func(int, *rollout.Step, *rollout.Decision, *rollout.Step) error {
					if n++; n == steps {
						return rollout.ErrStop
					}
					return nil
				}))
			if err != nil {
				t.Error(err)
			}
		})
	}
	if short, long := allocs(10), allocs(1000); long > short {
		t.Errorf("10 steps allocate %v times, 1000 steps %v times", short, long)
	}
}
