//go:build torch

package algo

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/buffer"
)

// steady is a teacher with a contract: a controller that brings a cart back to the middle.
type steady struct{ echo }

func (s *steady) Act(step *rollout.Step, out *rollout.Decision) error {
	for row := range len(out.Action) / 2 {
		x, v := step.Obs[0][4*row], step.Obs[0][4*row+1]
		out.Action[2*row], out.Action[2*row+1] = -2*x-3*v, 0.25
	}
	return nil
}

func newSteady() *steady { return &steady{*newEcho()} }

// taught is cartConfig with a teacher.
func taught(kind string) Config {
	c := cartConfig()
	c.OPD.Teacher = kind
	if kind == teacherFile || kind == teacherPrivileged {
		c.OPD.File = "theirs"
	}
	return c
}

// With a teacher that neither drives nor weighs training is plain PPO, bit for bit.
func TestTeacherWithoutSayChangesNothing(t *testing.T) {
	run := func(cfg Config, opts Options) string {
		tr := newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), opts)
		train(t, tr, 6, nil)
		return tr.Nets().Hash()
	}
	want := run(cartConfig(), Options{})
	for _, kind := range []string{teacherFile, teacherSnapshot, teacherEMA} {
		for _, loss := range lossKinds {
			cfg := taught(kind)
			cfg.OPD.Mix, cfg.OPD.Weight, cfg.OPD.Loss, cfg.OPD.StdDetached = Schedule{}, Schedule{}, loss, false
			var opts Options
			if kind == teacherFile {
				opts.Teacher = newSteady()
			}
			if got := run(cfg, opts); got != want {
				t.Errorf("%s teacher, %s: parameters are not those of plain PPO", kind, loss)
			}
		}
	}
	cfg := taught(teacherSnapshot)
	cfg.OPD.Mix = Schedule{}
	if run(cfg, Options{}) == want {
		t.Error("a weight of 0.1 changes nothing")
	}
}

// What the teacher drives is stored as such, executed, and followed by the schedule; the
// student's noise is the same whoever drives.
func TestMix(t *testing.T) {
	for _, mix := range []float64{0, 0.3, 1} {
		cfg := taught(teacherFile)
		cfg.OPD.Mix = Schedule{mix, mix, 0}
		env := newCarts(100, cartEpisode, 1)
		tr := newTrainer(t, cfg, env, Options{Teacher: newSteady()})
		step := 0
		env.seen = func(action []float32) {
			b := tr.buf
			at := b.Index(step%cfg.Steps, 0)
			stored, label := make([]float32, 200), make([]float32, 200)
			buffer.Decode(stored, b.Action[2*at:2*at+200])
			buffer.Decode(label, b.Label[2*at:2*at+200])
			if !slices.Equal(stored, action) {
				t.Fatalf("step %d: executed is not what is stored", step)
			}
			for row := range 100 {
				i := at + row
				same := action[2*row] == label[2*row] && action[2*row+1] == label[2*row+1]
				if !b.Labelled[i] || b.Teacher[i] != same || b.Rho[i] != map[bool]float32{true: 0, false: 1}[b.Teacher[i]] {
					t.Fatalf("step %d, row %d: labelled %v, teacher %v, rho %v, same action %v", step, row, b.Labelled[i], b.Teacher[i], b.Rho[i], same)
				}
				if b.LogProb[i]-b.LogProb[i] != 0 {
					t.Fatalf("step %d, row %d: log-probability %v", step, row, b.LogProb[i])
				}
			}
			step++
		}
		share, n := 0.0, 0
		train(t, tr, 5, func(r *Report) {
			share += r.TeacherShare
			n++
			if r.Mix != mix || r.LabelRMSE == 0 || r.DistillWeight != cfg.OPD.Weight.at(r.Iteration-1) {
				t.Errorf("%+v", r)
			}
		})
		if share /= float64(n); math.Abs(share-mix) > 0.04 { // 3 deviations of 4000 draws are 0.022
			t.Errorf("the teacher drove %v of the steps, want %v", share, mix)
		}
	}
}

// Who drives is drawn from a stream of its own: a row that no teacher has driven yet does what it
// does in a run without one.
func TestMixingLeavesTheNoiseAlone(t *testing.T) {
	actions := func(cfg Config, opts Options) (all [][]float32, driven []bool) {
		env := newCarts(cartRows, cartEpisode, 1)
		env.seen = func(action []float32) { all = append(all, slices.Clone(action)) }
		tr := newTrainer(t, cfg, env, opts)
		train(t, tr, 1, nil)
		return all, tr.buf.Teacher
	}
	cfg := taught(teacherFile)
	cfg.OPD.Mix = Schedule{0.2, 0.2, 0}
	plain, _ := actions(cartConfig(), Options{})
	mixed, driven := actions(cfg, Options{Teacher: newSteady()})
	same := 0
	for row := range cartRows {
		for step := 0; step < cfg.Steps && !driven[step*cartRows+row]; step++ {
			if !slices.Equal(plain[step][2*row:2*row+2], mixed[step][2*row:2*row+2]) {
				t.Fatalf("step %d, row %d: %v without a teacher, %v with one that has not driven it", step, row, plain[step], mixed[step])
			}
			same++
		}
	}
	if same < 2*cartRows || same == cfg.Steps*cartRows {
		t.Errorf("%d steps compared", same)
	}
}

// Where the teacher drives alone there is no surrogate, no divergence and no reason to change
// the learning rate, and nothing is known of what the student is worth: without weight for
// labels nothing moves.
func TestTeacherStepsGiveNoSurrogate(t *testing.T) {
	cfg := taught(teacherFile)
	cfg.OPD.Mix, cfg.OPD.Weight = Schedule{1, 1, 0}, Schedule{}
	tr := newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{Teacher: newSteady()})
	before := tr.Nets().Hash()
	train(t, tr, 3, func(r *Report) {
		if r.Surrogate != 0 || r.Entropy != 0 || r.KL != 0 || r.FirstRatioError != 0 || r.AdvantageStd != 0 || r.Value != 0 || r.GradNorm != 0 {
			t.Errorf("%+v", r)
		}
		if r.LearningRate != cfg.PPO.Rate {
			t.Errorf("learning rate %v", r.LearningRate)
		}
	})
	if tr.Nets().Hash() != before {
		t.Error("the networks moved")
	}
	// A teacher's step leaves its own value.
	b := tr.buf
	for i := range b.Target {
		if b.Target[i] != b.Value[i] || b.Advantage[i] != 0 {
			t.Fatalf("transition %d: target %v of value %v, advantage %v", i, b.Target[i], b.Value[i], b.Advantage[i])
		}
	}
}

// The student comes to do what the teacher says, by each loss (row 37 of the cases: elsewhere the loss
// stayed where it was).
func TestStudentLearnsLabels(t *testing.T) {
	for _, test := range []struct {
		loss   string
		weight float64
	}{{lossNLL, 1}, {lossMSE, 1}, {lossKL, 1}} {
		cfg := taught(teacherFile)
		cfg.OPD.Loss, cfg.OPD.Mix, cfg.OPD.Weight = test.loss, Schedule{0.4, 0, 10}, Schedule{test.weight, test.weight, 0}
		var first, last Report
		train(t, newTrainer(t, cfg, newCarts(64, 60, 1), Options{Teacher: newSteady()}), 60, func(r *Report) {
			if r.Iteration == 1 {
				first = *r
			}
			last = *r
		})
		t.Logf("%s: distance from the label %.3f at first, %.3f after 60 iterations; %d and %d falls", test.loss, first.LabelRMSE, last.LabelRMSE, first.Falls, last.Falls)
		if last.LabelRMSE > first.LabelRMSE/2 || last.TeacherShare != 0 || first.TeacherShare == 0 {
			t.Errorf("%s: %v, then %v", test.loss, first, last)
		}
	}
}

// A snapshot is the student of the last refresh, an average trails it.
func TestStudentAsItsOwnTeacher(t *testing.T) {
	cfg := taught(teacherSnapshot)
	cfg.OPD.RefreshIterations = 3
	tr := newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{})
	start := tr.Nets().Hash()
	last := start
	train(t, tr, 7, func(r *Report) {
		if r.Iteration%3 == 0 {
			last = tr.Nets().Hash()
		}
		if got := tr.opd.(*netTeacher).nets.Hash(); got != last {
			t.Errorf("iteration %d: the snapshot is another", r.Iteration)
		}
	})
	cfg = taught(teacherEMA)
	cfg.OPD.EMADecay = 0.75
	cfg.Net.Normaliser = true
	tr = newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{})
	average, _ := tr.Nets().Layers()
	train(t, tr, 5, func(r *Report) {
		layers, _ := tr.Nets().Layers()
		got, _ := tr.opd.(*netTeacher).nets.Layers()
		for i := range layers {
			for k, w := range layers[i].Weight {
				average[i].Weight[k] = 0.75*average[i].Weight[k] + 0.25*w
				if math.Abs(float64(average[i].Weight[k]-got[i].Weight[k])) > 1e-6 {
					t.Fatalf("iteration %d: weight %d of layer %d is %v, want %v", r.Iteration, k, i, got[i].Weight[k], average[i].Weight[k])
				}
			}
		}
	})
}

// What is evaluated and written is the mean of all iterations' weights, then a moving one; training does not know of it,
// and a run that teaches another does so by it.
func TestAverageIsPublished(t *testing.T) {
	cfg := cartConfig()
	cfg.Net.Group, cfg.Net.Normaliser, cfg.Average = "critic", true, 0.6
	tr := newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{})
	cfg.Average = 0
	plain := newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{})
	first, _ := tr.Nets().Layers()
	want := make([]float32, len(first[1].Weight))
	var state []Section
	train(t, tr, 6, func(r *Report) {
		layers, _ := tr.Nets().Layers()
		got, _ := tr.Published().Layers()
		keep := min(0.6, 1-1/float32(r.Iteration))
		for k, w := range layers[1].Weight {
			want[k] = keep*want[k] + (1-keep)*w
			if math.Abs(float64(got[1].Weight[k]-want[k])) > 1e-6 {
				t.Fatalf("iteration %d: weight %d is %v, want %v", r.Iteration, k, got[1].Weight[k], want[k])
			}
		}
		state = must(tr.State())(t)
	})
	train(t, plain, 6, nil)
	if tr.Nets().Hash() != plain.Nets().Hash() {
		t.Error("the average changes what is learnt")
	}
	if plain.Published() != plain.Nets() || tr.Published().Hash() == tr.Nets().Hash() {
		t.Error("published are the wrong networks")
	}
	pupil := newTrainer(t, taught(teacherPrivileged), newCarts(cartRows, cartEpisode, 2), Options{TeacherState: state})
	if got := pupil.opd.(*netTeacher).nets.Hash(); got != tr.Published().Hash() {
		t.Error("another run's teacher is not what that run published")
	}
}

// An actor that reads the critic's group teaches one that does not, by way of a checkpoint, and
// says its means, without the noise that it was trained with (row 37 of the cases).
func TestPrivilegedTeacher(t *testing.T) {
	cfg := cartConfig()
	cfg.Net.Group, cfg.Net.Normaliser = "critic", true
	cfg.Net.Actor = []int{24, 8}
	wise := newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{})
	var state []Section
	train(t, wise, 3, func(*Report) { state = must(wise.State())(t) })

	cfg = taught(teacherPrivileged)
	env := newCarts(cartRows, cartEpisode, 2)
	tr := newTrainer(t, cfg, env, Options{TeacherState: state})
	// It says what the other run's actor would.
	step, d, want := rollout.NewStep(env.spec), rollout.NewDecision(env.spec), rollout.NewDecision(env.spec)
	if err := env.Reset(context.Background(), nil, step); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tr.opd.label(step, d.Action), wise.Actor().Act(step, want)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Action, want.Action) {
		t.Errorf("it says %v, the other run's actor %v", d.Action, want.Action)
	}
	hash := tr.opd.(*netTeacher).nets.Hash()
	train(t, tr, 3, func(r *Report) {
		if r.LabelRMSE == 0 || r.TeacherShare == 0 {
			t.Errorf("%+v", r)
		}
	})
	if hash != wise.Published().Hash() || hash != tr.opd.(*netTeacher).nets.Hash() {
		t.Error("the teacher moved")
	}
	// Its place in a state is its hash: another one is refused.
	saved := must(tr.State())(t)
	train(t, wise, 1, nil)
	other := newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 2), Options{TeacherState: must(wise.State())(t)})
	if err := other.Restore(saved); err == nil || !strings.Contains(err.Error(), "its teacher had parameters of sha256") {
		t.Errorf("resumed with another teacher: %v", err)
	}
}

// Teachers that do not suit are refused before anything is learnt (row 37 of the cases).
func TestTeacherRefused(t *testing.T) {
	cfg := cartConfig()
	cfg.Average = 0
	wise := newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{})
	var state []Section
	train(t, wise, 1, func(*Report) { state = must(wise.State())(t) })
	replace := func(name, data string) []Section {
		s := slices.Clone(state)
		for i := range s {
			if s[i].Name == name {
				s[i].Data = []byte(data)
			}
		}
		return s
	}
	narrow := newSteady()
	narrow.spec.Groups[0].Terms = narrow.spec.Groups[0].Terms[:2]
	for says, test := range map[string]struct {
		kind, group string
		opts        Options
	}{
		"want its policy in Options.Teacher alone":                   {kind: teacherFile},
		"want one of Options.Teacher and Options.TeacherState":       {kind: teacherPrivileged},
		"Options name a teacher, but opd.teacher is ema":             {kind: teacherEMA, opts: Options{Teacher: newSteady()}},
		"group policy: term actions is not in the policy":            {kind: teacherFile, opts: Options{Teacher: narrow}},
		"group critic: term strength is not in the policy":           {kind: teacherPrivileged, opts: Options{TeacherState: state}},
		`opd.group is "lidar", this Env offers policy, critic, late`: {kind: teacherPrivileged, group: "lidar", opts: Options{TeacherState: state}},
		"gait teacher: the contract has no gait clock":               {kind: teacherGait},
		"no section actor":                                         {kind: teacherPrivileged, group: "late", opts: Options{TeacherState: state[:3]}},
		"section actor: invalid character":                         {kind: teacherPrivileged, group: "late", opts: Options{TeacherState: replace("actor", "?")}},
		"section actor: rollout: joints: none named":               {kind: teacherPrivileged, group: "late", opts: Options{TeacherState: replace("actor", "{}")}},
		"section nets has 4 bytes, want 499 parameters of 4 bytes": {kind: teacherPrivileged, group: "late", opts: Options{TeacherState: replace("nets", "abcd")}},
	} {
		cfg := taught(test.kind)
		cfg.OPD.Group = test.group
		if tr, err := New(cfg, newCarts(cartRows, cartEpisode, 1), test.opts); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
			if err == nil {
				tr.Close()
			}
		}
	}
	// The same actor, where a group means the same under another name.
	cfg = taught(teacherPrivileged)
	cfg.OPD.Group = "late"
	newTrainer(t, cfg, newCarts(cartRows, cartEpisode, 1), Options{TeacherState: state})
}

// Of a step in which the teacher's group is not finite there is no label, and nobody but the
// student drives; the iteration is not learnt from.
func TestTeacherIsNotAskedAboutNaN(t *testing.T) {
	cfg := taught(teacherFile)
	cfg.OPD.Group, cfg.OPD.Mix = "late", Schedule{1, 1, 0}
	env := newCarts(cartRows, cartEpisode, 1)
	env.spoil = func(step int, out *rollout.Step) {
		if step == 2 {
			out.Obs[2][9] = float32(math.NaN())
		}
	}
	tr := newTrainer(t, cfg, env, Options{Teacher: newSteady()})
	train(t, tr, 2, func(r *Report) {
		for i, labelled := range tr.buf.Labelled {
			if want := r.Iteration == 2 || i/cartRows != 2; labelled != want || tr.buf.Teacher[i] != want {
				t.Fatalf("iteration %d, transition %d: labelled %v, teacher %v", r.Iteration, i, labelled, tr.buf.Teacher[i])
			}
		}
		if want := int(2 - r.Iteration); r.Skipped != want || r.NaN != want {
			t.Errorf("iteration %d: %d skipped, %d numbers", r.Iteration, r.Skipped, r.NaN)
		}
	})
}
