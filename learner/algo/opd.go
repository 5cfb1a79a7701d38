package algo

import (
	"fmt"
	"slices"
	"strings"
)

// OPD is on-policy distillation: a teacher says at every step what the student should have
// done, and may do it itself.
type OPD struct {
	Teacher string `yaml:"teacher" doc:"who teaches: none, gait (the scripted trot), privileged (an actor that sees more), snapshot or ema (the student of before), file (any policy with a contract)"`
	File    string `yaml:"file" doc:"run folder or ONNX file of a privileged teacher, ONNX file of a file one"`
	Group   string `yaml:"group" doc:"observation group that a privileged teacher or a file reads; empty: critic for the one, policy for the other"`

	Mix    Schedule `yaml:"mix" doc:"share of steps that the teacher drives"`
	Weight Schedule `yaml:"weight" doc:"weight of the distillation's loss"`

	Loss        string `yaml:"loss" doc:"distillation by nll (minus the log-probability of the teacher's action), mse (squared error of the mean) or kl (divergence from the teacher)"`
	StdDetached bool   `yaml:"std_detached" doc:"distillation moves means only: a smaller deviation would lower its loss too"`

	RefreshIterations int     `yaml:"refresh_iterations" doc:"iterations between two copies of the student by the snapshot teacher"`
	EMADecay          float64 `yaml:"ema_decay" doc:"what the ema teacher keeps of itself an iteration"`
}

// Schedule goes straight from Start to End, then stays. Iterations are counted from the first
// that does not clone.
type Schedule struct {
	Start      float64 `yaml:"start" doc:"at the first iteration"`
	End        float64 `yaml:"end" doc:"in the end"`
	Iterations int     `yaml:"iterations" doc:"iterations from one to the other; 0: the end at once"`
}

// at is the schedule's value in iteration i, from 0.
func (s *Schedule) at(i int64) float64 {
	if i >= int64(s.Iterations) {
		return s.End
	}
	return s.Start + (s.End-s.Start)*float64(max(0, i))/float64(s.Iterations)
}

// Kinds of teachers and of distillation's losses.
const (
	teacherNone       = "none"
	teacherGait       = "gait"
	teacherPrivileged = "privileged"
	teacherSnapshot   = "snapshot"
	teacherEMA        = "ema"
	teacherFile       = "file"

	lossNLL = "nll"
	lossMSE = "mse"
	lossKL  = "kl"
)

var (
	teacherKinds = []string{teacherNone, teacherGait, teacherPrivileged, teacherSnapshot, teacherEMA, teacherFile}
	lossKinds    = []string{lossNLL, lossMSE, lossKL}
)

// defaultOPD has no teacher; what it says of one is for those who name one.
func defaultOPD() OPD {
	return OPD{Teacher: teacherNone, Mix: Schedule{Start: 0.4, Iterations: 60}, Weight: Schedule{Start: 0.1, Iterations: 100},
		Loss: lossNLL, StdDetached: true, RefreshIterations: 50, EMADecay: 0.99}
}

// validate names the first field that cannot be.
func (o *OPD) validate() error {
	if !slices.Contains(teacherKinds, o.Teacher) {
		return fmt.Errorf("opd.teacher is %q, want one of %s", o.Teacher, strings.Join(teacherKinds, ", "))
	}
	if !slices.Contains(lossKinds, o.Loss) {
		return fmt.Errorf("opd.loss is %q, want one of %s", o.Loss, strings.Join(lossKinds, ", "))
	}
	reads := o.Teacher == teacherPrivileged || o.Teacher == teacherFile
	switch {
	case reads && o.File == "":
		return fmt.Errorf("opd.file is empty, but opd.teacher is %s: name its file", o.Teacher)
	case !reads && o.File != "":
		return fmt.Errorf("opd.file is %q, but opd.teacher %s reads none", o.File, o.Teacher)
	case !reads && o.Group != "":
		return fmt.Errorf("opd.group is %q, but opd.teacher %s has its own", o.Group, o.Teacher)
	case o.RefreshIterations < 1 || o.RefreshIterations > 1e9:
		return fmt.Errorf("opd.refresh_iterations is %d, want 1..1e9", o.RefreshIterations)
	case !(o.EMADecay > 0 && o.EMADecay < 1):
		return fmt.Errorf("opd.ema_decay is %v, want above 0 and below 1", o.EMADecay)
	}
	for _, s := range []struct {
		name string
		s    *Schedule
		max  float64
	}{{"mix", &o.Mix, 1}, {"weight", &o.Weight, 1e6}} {
		switch {
		case !(s.s.Start >= 0 && s.s.Start <= s.max):
			return fmt.Errorf("opd.%s.start is %v, want 0..%v", s.name, s.s.Start, s.max)
		case !(s.s.End >= 0 && s.s.End <= s.max):
			return fmt.Errorf("opd.%s.end is %v, want 0..%v", s.name, s.s.End, s.max)
		case s.s.Iterations < 0 || s.s.Iterations > 1e9:
			return fmt.Errorf("opd.%s.iterations is %d, want 0..1e9", s.name, s.s.Iterations)
		}
	}
	return nil
}
