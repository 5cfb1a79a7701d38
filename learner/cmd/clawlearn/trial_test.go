//go:build torch

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sugarme/gotch/ts"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/go1"
	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/learner/algo"
	"github.com/openclaw-rl/openclaw/learner/nets"
	"github.com/openclaw-rl/openclaw/learner/run"
	"github.com/openclaw-rl/openclaw/onnx/contract"
	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
	"github.com/openclaw-rl/openclaw/onnx/export"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// The first Ctrl-C saves, evaluates and prints the result, the second ends at once; both resume.
func TestInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	p := start(t, tiny(dir)...)
	until(t, p, "an iteration", func() bool { return len(logged(t, dir)) > 8 })
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err != nil {
		t.Fatalf("%v: %s", err, p.errs.String())
	}
	first := resultOf(t, p.out.Bytes())
	if first.Policy == "" || first.Parameters == "" || first.Iterations != int64(len(logged(t, dir))) || !strings.Contains(p.errs.String(), "interrupt") {
		t.Errorf("%+v: %s", first, p.errs.String())
	}

	// An evaluation without end keeps the first signal from ending it.
	long := filepath.Join(t.TempDir(), "long")
	p = start(t, tiny(long, "--set", "eval.seconds=90000", "--set", "eval.every_steps=100000000", "--set", "algo.warm.rollouts=1000000")...)
	until(t, p, "an iteration", func() bool { return len(logged(t, long)) > 5 })
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // two signals at one moment may be one
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var failure struct {
		OK    bool
		Error string
	}
	err := p.end()
	if jerr := json.Unmarshal(p.out.Bytes(), &failure); p.ProcessState.ExitCode() != cli.ExitFailed || jerr != nil ||
		!strings.Contains(failure.Error, "ended at once (second signal: terminated): go on") {
		t.Errorf("%v, %v: %+v", err, jerr, failure)
	}

	second := trained(t, "train", "--out", dir, "--resume", "--json", "--iterations", "5")
	if second.Iterations != first.Iterations || second.Parameters != first.Parameters {
		t.Errorf("nothing was left to do: %+v, then %+v", first, second)
	}
	f, err := run.Open(long, run.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if c, err := f.Latest(); err != nil || c.Iteration < 5 {
		t.Errorf("after the second signal: %v, %v", c, err)
	}
}

// A resumed run keeps its seed, preset and configuration: whatever contradicts them is refused by name, repeating them is not.
func TestResumeKeepsTheRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	first := trained(t, tiny(dir, "--preset", "plain", "--seed", "5", "--iterations", "4")...)
	resume := []string{"train", "--out", dir, "--resume", "--json"}
	for _, test := range []struct {
		want string
		args []string
	}{
		{"--seed 6: the run in " + dir + " has 5", []string{"--seed", "6"}},
		{"--preset ship: the run in " + dir + " began from plain", []string{"--preset", "ship"}},
		{"--deterministic true: the run", []string{"--deterministic"}},
		{"rows 9: the run in " + dir + " has 8", []string{"--set", "rows=9"}},
		{"algo.net.actor [9]: the run", []string{"--set", "algo.net.actor=[9]", "--iterations", "9"}},
		{"run.minutes is -1", []string{"--minutes", "-1"}},
	} {
		refused(t, test.want, append(resume, test.args...)...)
	}
	if code, _, errs := clawlearn("train", "--out", dir); code != cli.ExitFailed || !strings.Contains(errs, "holds a run already") {
		t.Errorf("a second run in the folder: exit %d, %s", code, errs)
	}
	if code, _, errs := clawlearn("train", "--out", filepath.Join(dir, "none"), "--resume"); code != cli.ExitFailed || !strings.Contains(errs, "holds no run") {
		t.Errorf("nothing to resume: exit %d, %s", code, errs)
	}
	again := trained(t, append(resume, "--seed", "5", "--preset", "plain", "--set", "rows=8")...)
	if again.Iterations != 4 || again.Parameters != first.Parameters || again.Seed != 5 || again.Preset != "plain" || !(again.EvalS > 0) || again.EvalS != first.EvalS {
		t.Errorf("the end is reached: %+v, was %+v", again, first)
	}
	more := trained(t, append(resume, "--iterations", "6")...)
	if more.Iterations != 6 || more.Samples != 6*64 || more.Parameters == first.Parameters {
		t.Errorf("another end: %+v", more)
	}
}

// --rows auto keeps an iteration's samples, says what it chose, and the run keeps it.
func TestRowsAuto(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	args := tiny(dir, "--preset", "plain", "--iterations", "2", "--rows", "auto", "--async", "--set", "rows=64", "--set", "algo.steps=3")
	code, out, errs := clawlearn(args...)
	if code != 0 || !strings.Contains(errs, "rows auto: steps/s by rows 64: ") || !strings.Contains(errs, ", 192: ") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	first := resultOf(t, []byte(out))
	if first.Rows != 64 && first.Rows != 192 || first.Rows*first.Steps != 192 || first.Samples != 2*192 ||
		!strings.Contains(errs, fmt.Sprintf("taking %d rows x %d steps", first.Rows, first.Steps)) {
		t.Errorf("%+v: %s", first, errs)
	}
	f, err := run.Open(dir, run.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	var cfg Config
	if err := errors.Join(f.Config(&cfg), f.Close()); err != nil {
		t.Fatal(err)
	}
	if cfg.Rows != first.Rows || cfg.Algo.Steps != first.Steps || cfg.RowsAuto || !cfg.Algo.Async {
		t.Errorf("what the run keeps: %d rows x %d steps, auto %v, async %v", cfg.Rows, cfg.Algo.Steps, cfg.RowsAuto, cfg.Algo.Async)
	}
	code, out, errs = clawlearn("train", "--out", dir, "--resume", "--rows", "auto", "--iterations", "4", "--json")
	if code != 0 || strings.Count(errs, "rows auto") != 1 || !strings.Contains(errs, fmt.Sprintf("rows auto: the run keeps its %d rows\n", first.Rows)) {
		t.Fatalf("resumed: exit %d: %s", code, errs)
	}
	if again := resultOf(t, []byte(out)); again.Rows != first.Rows || again.Steps != first.Steps || again.Samples != 4*192 {
		t.Errorf("resumed: %+v", again)
	}
}

// The last --rows holds: a number after auto is that number.
func TestRowsAfterAuto(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	code, out, errs := clawlearn(tiny(dir, "--iterations", "1", "--rows", "auto", "--rows", "16")...)
	if code != 0 || strings.Contains(errs, "rows auto") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if r := resultOf(t, []byte(out)); r.Rows != 16 || r.Steps != 8 {
		t.Errorf("%+v", r)
	}
}

// Evaluations that are due are logged with the passes in a row, the one at the end of a run only if it was due: by these --until-walking and
// compare judge. Here they are due each ten iterations of 64 steps.
func TestWhichEvaluationsCount(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	trained(t, tiny(dir, "--preset", "plain", "--iterations", "15", "--set", "algo.warm.rollouts=0", "--set", "eval.every_seconds=0")...)
	trained(t, "train", "--out", dir, "--resume", "--json", "--iterations", "21")
	var evaluated, due []int
	for i, m := range logged(t, dir) {
		if _, ok := m["Eval/fall_rate"]; ok {
			evaluated = append(evaluated, i+1)
		}
		if _, ok := m[passesTag]; ok {
			due = append(due, i+1)
		}
	}
	if !slices.Equal(evaluated, []int{1, 11, 15, 21}) || !slices.Equal(due, []int{1, 11, 21}) {
		t.Errorf("evaluated at iterations %v, due %v", evaluated, due)
	}
}

// The first of three passes in a row is when it walked; what comes later changes nothing.
func TestJudge(t *testing.T) {
	tr := trial{cfg: tinyConfig(0)}
	var passes []int
	for i, e := range "ggbgggbg" {
		s := &task.Result{VelErr: 0.2, YawErr: 0.2, FallRate: 0.01}
		if e == 'b' {
			s.FallRate = walkingFalls
		}
		tr.result.Seconds = float64(i + 1)
		tr.judge(int64(10*(i+1)), s)
		passes = append(passes, tr.passes)
		if r := &tr.result; r.Walked != (i >= 5) || r.Walked && (r.WalkedAt != 40 || r.WalkedS != 4) || i == 2 && r.WalkedAt != 0 {
			t.Errorf("evaluation %d: %+v", i+1, r)
		}
	}
	if !slices.Equal(passes, []int{1, 2, 0, 1, 2, 3, 0, 1}) || len(tr.curve) != len(passes) {
		t.Errorf("passes %v, %d points", passes, len(tr.curve))
	}
}

// What steps in a worker process is named and not available; no folder is made for it.
func TestEnvNotAvailable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	for _, args := range [][]string{tiny(dir, "--env", "isaacgym"), tiny(dir, "--env", "mujoco-warp", "--rows", "auto"), {"bench", "collect", "--set", "env=isaacgym"}} {
		code, _, errs := clawlearn(args...)
		if code != cli.ExitNotAvailable || !strings.Contains(errs, ": not available: this clawlearn has no client for its worker, only mujoco") {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder was made for a run that cannot begin")
	}
}

// A run says where its time went.
func TestWhereTheTimeGoes(t *testing.T) {
	for _, async := range []string{"--async=false", "--async"} {
		dir := filepath.Join(t.TempDir(), "run")
		r := trained(t, tiny(dir, async, "--iterations", "30")...)
		rest := r.CollectS - r.PhysicsS - r.PolicyS
		if !(r.PhysicsS > 0 && r.PolicyS > 0 && rest > 0 && r.LearnS > 0 && r.EvalS > 0 && r.FilesS > 0) {
			t.Errorf("%s: %+v", async, r)
		}
		if sum := r.CollectS + r.LearnS; async == "--async=false" && !(sum <= r.Seconds) {
			t.Errorf("%.3f s collecting and learning in %.3f s", sum, r.Seconds)
		}
		var b strings.Builder
		if err := r.print(&b); err != nil || !strings.Contains(b.String(), "\ntime: collecting ") || strings.Contains(b.String(), " of them at once") != r.Async {
			t.Errorf("%v: %s", err, b.String())
		}
	}
}

// poisoned rows show the critic numbers that are none, from one step to another.
type poisoned struct {
	*mujoco.Env
	step, from, until int
}

func (p *poisoned) Step(ctx context.Context, action []float32, out *rollout.Step) error {
	err := p.Env.Step(ctx, action, out)
	if p.step++; p.step > p.from && p.step <= p.until {
		spec := p.Spec()
		out.Obs[spec.GroupIndex("critic")][0] = float32(math.NaN())
	}
	return err
}

// newTrial is a run in the new folder dir with its rows open, but for the trainer; it lasts as long as the test.
func newTrial(t *testing.T, dir string, said io.Writer, cfg Config) *trial {
	t.Helper()
	folder, err := run.Create(dir, &cfg, run.Describe("test", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	tr := &trial{cfg: cfg, folder: folder, screen: newScreen(said, &cfg), wentBack: -1, asked: context.Background(), now: context.Background()}
	if err := tr.openEnv(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.closeEnv() })
	return tr
}

// Three minibatches in a row that are not finite take the checkpoint back, once; a second time from there ends the run (row 31 of the
// cases).
func TestDiverged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cfg := tinyConfig(24)
	var said bytes.Buffer
	tr := newTrial(t, dir, &said, cfg)
	rows := &poisoned{Env: tr.env, from: 8 * 10, until: 8 * 14}
	if err := tr.openTrainer(rows); err != nil {
		t.Fatal(err)
	}
	defer tr.trainer.Close()
	if err := tr.run(); err != nil {
		t.Fatal(err)
	}
	if r := &tr.result; r.Restored != 1 || r.Skipped == 0 || r.Iterations != 24 || strings.Count(said.String(), "with what the checkpoint of iteration 8 knew") != 1 {
		t.Errorf("%+v: %s", r, said.String())
	}
	tr.cfg.Run.Iterations = 40
	rows.until = math.MaxInt
	if err := tr.run(); !errors.Is(err, algo.ErrDiverged) || !strings.Contains(err.Error(), "for the second time since the checkpoint of iteration 24") || tr.result.Restored != 2 {
		t.Errorf("for ever: %v, %+v", err, tr.result)
	}
	if c, err := tr.folder.Latest(); err != nil || c.Iteration != 24 {
		t.Errorf("the checkpoint that is left: %v, %v", c, err)
	}
}

// A run that diverges before its first checkpoint has nothing to go back to.
func TestDivergedAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cfg := tinyConfig(0)
	tr := newTrial(t, dir, io.Discard, cfg)
	if err := tr.openTrainer(&poisoned{Env: tr.env, until: math.MaxInt}); err != nil {
		t.Fatal(err)
	}
	defer tr.trainer.Close()
	if err := tr.run(); !errors.Is(err, algo.ErrDiverged) || !errors.Is(err, run.ErrNoCheckpoint) {
		t.Error(err)
	}
}

// The policy's file says where it came from and how it walks, computes what libtorch does with the weights of the best checkpoint, fits the
// robot, and can be evaluated.
func TestPolicyFile(t *testing.T) {
	for _, normaliser := range []string{"false", "true"} {
		t.Run("normaliser "+normaliser, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			r := trained(t, tiny(dir, "--preset", "ship", "--iterations", "30", "--set", "algo.net.actor=[32,16]", "--set", "algo.net.normaliser="+normaliser)...)
			f, err := contract.Load(r.Policy)
			if err != nil {
				t.Fatal(err)
			}
			c := f.Contract
			_, hash := task.EvalV1()
			if c.License != "Apache-2.0" || c.Training.Run != "run" || c.Training.Iteration < 4 || len(c.Training.World) != 64 || c.Name != "go1-ship-run" ||
				c.Normaliser.InGraph != (normaliser == "true") || len(c.Golden.Pairs) != export.GoldenPairs || len(c.Notes) != 1 ||
				c.Training.Steps != 64*c.Training.Iteration || !(c.Training.Seconds > 0) || c.Training.Command != shellLine(os.Args) {
				t.Errorf("%+v", c)
			}
			if e := c.Evaluation; r.Best != nil && (e == nil || e.Suite != "eval_v1 "+hash || e.Rows != 6 || e.Seconds != 1.2 || e.VelErr != r.Best.VelErr || e.FallRate != r.Best.FallRate) {
				t.Errorf("evaluation %+v, best %+v", e, r.Best)
			}
			if err := go1.Fit(&c.Spec, go1.Sensing{}); err != nil {
				t.Error(err)
			}
			if diff, err := export.Verify(r.Policy, libtorchPairs(t, dir, c)); err != nil {
				t.Error(err)
			} else {
				t.Logf("off by %.3g at most", diff)
			}
			code, out, errs := clawlearn("eval", "--policy", r.Policy, "--rows", "2", "--seconds", "2", "--json")
			var score evalResult
			if err := json.Unmarshal([]byte(out), &score); code != 0 || err != nil || score.Hash != hash {
				t.Errorf("exit %d, %v: %s", code, err, errs)
			}
			for _, name := range []string{"config.yaml", "meta.json", "metrics.jsonl", "curves.svg", "checkpoints/best"} {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A command line comes back from a shell, byte for byte where JSON can hold it.
func TestShellLine(t *testing.T) {
	args := []string{"printf", "%s|", "--out=a/b", "", "two words", "it's", "a=[1,2]", "$HOME", "ü"}
	out, err := exec.Command("sh", "-c", shellLine(args)).Output()
	if want := strings.Join(args[2:], "|") + "|"; err != nil || string(out) != want {
		t.Errorf("%s: %q, want %q (%v)", shellLine(args), out, want, err)
	}
	if got := shellLine([]string{"a\xffb"}); got != "'a?b'" {
		t.Errorf("not UTF-8: %q", got)
	}
}

// A long run's curve is thinned, and ends with its last evaluation.
func TestCurveOf(t *testing.T) {
	if c := curveOf(nil); c != nil {
		t.Errorf("no evaluation: %v", c)
	}
	for _, n := range []int{1, maxCurve, maxCurve + 1, 10 * maxCurve} {
		all := make([]point, n)
		for i := range all {
			all[i] = point{Samples: int64(i), VelErr: float64(i)}
		}
		c := curveOf(all)
		if len(c) != min(n, maxCurve) || c[len(c)-1].Steps != int64(n-1) || c[0].VelErr != float64(c[0].Steps) ||
			!slices.IsSortedFunc(c, func(a, b contract.Point) int { return cmp.Compare(a.Steps, b.Steps) }) {
			t.Errorf("%d evaluations: %v", n, c)
		}
	}
}

// libtorchPairs are observations as the run met them with what libtorch makes of them with the best checkpoint's weights.
func libtorchPairs(t *testing.T, dir string, c *contract.Contract) []contract.Pair {
	t.Helper()
	runtime.LockOSThread() // libtorch's errors belong to the thread
	defer runtime.UnlockOSThread()
	f, err := run.Open(dir, run.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	best, err := f.Best()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{}
	if err := f.Config(&cfg); err != nil {
		t.Fatal(err)
	}
	spec := task.WalkSpec()
	n, err := nets.New(nets.Config{Policy: spec.Group("policy").Size(), Critic: spec.Group("critic").Size(), Act: spec.ActDim(), Workers: 1,
		ActorHidden: cfg.Algo.Net.Actor, CriticHidden: cfg.Algo.Net.Critic, Normaliser: cfg.Algo.Net.Normaliser, InitStd: 1, MinStd: 1, MaxStd: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	weights, err := best.Section("average")
	if err == nil {
		err = n.Load(bytes.NewReader(weights))
	}
	if err != nil {
		t.Fatal(err)
	}
	var tensors []*ts.Tensor
	keep := func(x *ts.Tensor) *ts.Tensor {
		tensors = append(tensors, x)
		return x
	}
	defer func() {
		for _, x := range tensors {
			x.MustDrop()
		}
	}()
	of := func(x []float32, shape ...int64) *ts.Tensor {
		flat, err := ts.OfSlice(x)
		if err != nil {
			t.Fatal(err)
		}
		return keep(keep(flat).MustView(shape, false))
	}
	const rows = export.ParityRows
	dim, z, random := int64(len(c.Normaliser.Mean)), c.Normaliser, rand.New(rand.NewPCG(1, 2))
	obs := make([]float32, rows*dim)
	for i := range obs {
		k := i % int(dim)
		obs[i] = z.Mean[k] + z.Std[k]*float32(random.NormFloat64())
	}
	x := of(obs, rows, dim)
	if z.InGraph {
		x = keep(keep(x.MustSub(of(z.Mean, dim), false)).MustDiv(of(z.Std, dim), false))
	}
	layers, _ := n.Layers()
	for i, l := range layers {
		product := keep(x.MustMatmul(keep(of(l.Weight, int64(l.Out), int64(l.In)).MustT(false)), false))
		if x = keep(product.MustAdd(of(l.Bias, int64(l.Out)), false)); i < len(layers)-1 {
			x = keep(x.MustElu(false))
		}
	}
	action := x.Float64Values()
	pairs := make([]contract.Pair, rows)
	for i := range pairs {
		p := contract.Pair{Obs: obs[i*int(dim) : (i+1)*int(dim)], Action: make([]float32, spec.ActDim())}
		for k := range p.Action {
			p.Action[k] = float32(action[i*len(p.Action)+k])
		}
		pairs[i] = p
	}
	return pairs
}

// A run's actor, or its policy's file, teaches another one, and so does a policy that others trained.
func TestTeachers(t *testing.T) {
	dir, others := t.TempDir(), contracttest.Policy(t, "go1_policy.onnx")
	privileged := trained(t, tiny(filepath.Join(dir, "teacher"), "--iterations", "5", "--set", "algo.net.group=critic")...)
	file, err := contract.Load(privileged.Policy)
	if err != nil {
		t.Fatal(err)
	}
	c := file.Contract
	if len(c.Groups) != 1 || c.Groups[0].Size() != 63 || !strings.Contains(c.Notes[1], "group critic") {
		t.Errorf("the teacher's contract: groups %+v, notes %q", c.Groups, c.Notes)
	}
	if err := go1.Fit(&c.Spec, go1.Sensing{LinVel: true}); err == nil {
		t.Error("a policy that sees what no Go1 senses fits one")
	}
	var score evalResult
	code, out, errs := clawlearn("eval", "--policy", privileged.Policy, "--rows", "2", "--seconds", "2", "--json")
	if err := json.Unmarshal([]byte(out), &score); code != 0 || err != nil || !slices.Contains(score.Given, "friction") || !slices.Contains(score.Given, "base_lin_vel") {
		t.Errorf("the teacher evaluated: exit %d, %v: %s%s", code, err, out, errs)
	}
	t.Chdir(dir) // files are named from here, and found from elsewhere
	for _, test := range []struct{ name, kind, file, parent string }{
		{"folder", "privileged", "teacher", file.SHA256},
		{"file", "privileged", "teacher/policy.onnx", file.SHA256},
		{"others", "file", others, ""},
	} {
		out := filepath.Join(dir, test.name)
		t.Chdir(dir)
		first := trained(t, tiny(out, "--iterations", "5", "--set", "algo.opd.teacher="+test.kind, "--set", "algo.opd.file="+test.file)...)
		student, err := contract.Load(first.Policy)
		if err != nil {
			t.Fatal(err)
		}
		if s := student.Contract; s.Groups[0].Size() != 47 || len(s.Training.Parent) != 64 || test.parent != "" && s.Training.Parent != test.parent {
			t.Errorf("%s: groups %+v, training %+v", test.name, s.Groups, s.Training)
		}
		if m := logged(t, out)[3]; m["Policy/teacher_share"] == 0.0 || m["Loss/behavior"] == 0.0 {
			t.Errorf("%s: nobody taught: %v", test.name, m)
		}
		t.Chdir(t.TempDir())
		if again := trained(t, "train", "--out", out, "--resume", "--iterations", "7", "--json"); again.Iterations != 7 {
			t.Errorf("%s: resumed: %+v", test.name, again)
		}
	}
	code, _, errs = clawlearn(tiny(filepath.Join(dir, "none"), "--set", "algo.opd.teacher=file", "--set", "algo.opd.file=none.onnx")...)
	if code == 0 || !strings.Contains(errs, "opd.file: ") || !strings.Contains(errs, "none.onnx") {
		t.Errorf("a teacher that is not there: exit %d, %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder was made for a run that could not begin")
	}
}

func TestBench(t *testing.T) {
	for _, b := range benches {
		code, out, errs := clawlearn("bench", b.name, "--json", "--iterations", "2", "--rows", "8", "--threads", "1", "--set", "algo.steps=8", "--set", "algo.net.actor=[8]")
		var r benchResult
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Fatalf("%s: exit %d, %v: %s", b.name, code, err, errs)
		}
		if r.What != b.name || r.Samples != 2*64 || !(r.Seconds > 0) || r.StepsPerS != float64(r.Samples)/r.Seconds || r.Rows != 8 || r.Threads != 1 {
			t.Errorf("%s: %+v", b.name, r)
		}
	}
}

// tinyConfig is the configuration of tiny.
func tinyConfig(iterations int64) Config {
	c := walk()
	c.Run.Preset, c.Run.Iterations = "walk", iterations
	c.Threads, c.Rows, c.Algo.Steps = 1, 8, 8
	c.Algo.Net.Actor, c.Algo.Net.Critic = []int{8}, []int{8}
	c.Algo.Warm.Rollouts, c.Algo.Warm.Batch = 3, 16
	c.Eval = EvalConfig{EverySteps: 640, Rows: 6, Seconds: 1.2}
	c.Keep.EveryIterations = 4
	return c
}
