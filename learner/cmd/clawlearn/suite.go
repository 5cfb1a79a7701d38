package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/openclaw-rl/openclaw/agent/rollout"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// suiteResult is what a policy did in task.Suite.
type suiteResult struct {
	Cases    []caseResult  `json:"cases"` // nominal first, then what task.Suite calls walking
	Standing standResult   `json:"standing"`
	Corners  cornersResult `json:"corners"`
	Fit      []requirement `json:"fit"` // what is asked of a student that ships
}

// caseResult is one case's.
type caseResult struct {
	Name    string  `json:"name"`
	Doc     string  `json:"doc"`
	Physics string  `json:"physics"`
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
	task.Result
}

// standResult is that of the command zero.
type standResult struct {
	caseResult
	task.StandResult
}

// cornersResult is that of the nine commands; means are over the nine.
type cornersResult struct {
	Commands []cornerResult `json:"commands"`
	VelMean  float64        `json:"vel_err_mean"` // m/s
	VelWorst float64        `json:"vel_err_worst"`
	YawMean  float64        `json:"yaw_err_mean"` // rad/s
	YawWorst float64        `json:"yaw_err_worst"`
	FallRate float64        `json:"fall_rate"` // mean
	VelRatio float64        `json:"vel_err_worst_over_mean"`
	YawRatio float64        `json:"yaw_err_worst_over_mean"`
}

// cornerResult is one command's.
type cornerResult struct {
	Command [3]float32 `json:"command"` // vx, vy (m/s), wz (rad/s)
	caseResult
}

// requirement is one number that a student which ships must reach.
type requirement struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	OK    bool    `json:"ok"` // Value is at most Limit
}

// runSuite lets a policy through task.Suite.
func runSuite(ctx context.Context, ev *task.Evaluation, threads int, spec *rollout.Spec, policy rollout.Policy, share func(float64)) (*suiteResult, error) {
	cases := task.Suite(ev)
	// How much of the work each is: the full model takes several times as long a step (mujoco.Lean).
	work := make([]float64, len(cases))
	var all, done float64
	for i := range cases {
		work[i] = float64(cases[i].Rows)
		if cases[i].Model == "full" {
			work[i] *= 7
		}
		all += work[i]
	}
	r := &suiteResult{}
	for i := range cases {
		c := &cases[i]
		progress := func(s float64) { share((done + s*work[i]) / all) }
		got := caseResult{Name: c.Name, Doc: c.Doc, Physics: c.Model, Rows: c.Rows, Seconds: c.Seconds}
		score, still, err := mujoco.EvaluateStanding(ctx, &c.Evaluation, threads, spec, policy, progress)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		got.Result = *score
		switch c.Kind {
		case task.Walking:
			r.Cases = append(r.Cases, got)
		case task.Standing:
			r.Standing = standResult{got, *still}
		case task.Corner:
			r.Corners.Commands = append(r.Corners.Commands, cornerResult{c.World.Commands.Min, got})
		}
		done += work[i]
	}
	r.Corners.sum()
	r.Fit = r.require()
	return r, nil
}

// sum fills in means and worst of the commands. A NaN, of a command under which no row lasted, stays one.
func (c *cornersResult) sum() {
	n := float64(len(c.Commands))
	for i := range c.Commands {
		k := &c.Commands[i]
		c.VelMean += k.VelErr / n
		c.YawMean += k.YawErr / n
		c.FallRate += k.FallRate / n
		c.VelWorst, c.YawWorst = math.Max(c.VelWorst, k.VelErr), math.Max(c.YawWorst, k.YawErr)
	}
	c.VelRatio, c.YawRatio = c.VelWorst/c.VelMean, c.YawWorst/c.YawMean
}

// named finds a case.
func (r *suiteResult) named(name string) *caseResult {
	for i := range r.Cases {
		if r.Cases[i].Name == name {
			return &r.Cases[i]
		}
	}
	panic("suite: no case " + name) // task.Suite has it
}

// require compares with what is asked of a student that ships: errors, falls, action rate and power in the frozen world and, a fifth
// more, in the full model; no restlessness at the command zero; no command that is much worse than the others.
func (r *suiteResult) require() []requirement {
	var all []requirement
	add := func(name string, value, limit float64) {
		all = append(all, requirement{name, value, limit, value <= limit})
	}
	lean, full := r.named("nominal"), r.named("full model")
	add("velocity error, m/s", lean.VelErr, 0.10)
	add("yaw rate error, rad/s", lean.YawErr, 0.10)
	add("falls, share of rows", lean.FallRate, 0.005)
	add("action rate, rad", lean.ActionRate, 0.08)
	add("power, W", lean.PowerW, 65)
	add("standing: joint speed rms, rad/s", r.Standing.JointSpeed, 0.1)
	add("standing: feet lifted", float64(r.Standing.Lifts), 0)
	add("standing: falls, share of rows", r.Standing.FallRate, 0.005)
	add("standing: drift of the worst row, m", r.Standing.DriftMax, 0.05)
	add("nine commands: worst velocity error over their mean", r.Corners.VelRatio, 2)
	add("nine commands: worst yaw rate error over their mean", r.Corners.YawRatio, 2)
	add("nine commands: worst velocity error over nominal", r.Corners.VelWorst/lean.VelErr, 2)
	add("nine commands: worst yaw rate error over nominal", r.Corners.YawWorst/lean.YawErr, 2)
	add("full model over lean: velocity error", full.VelErr/lean.VelErr, 1.2)
	add("full model over lean: yaw rate error", full.YawErr/lean.YawErr, 1.2)
	add("full model over lean: action rate", full.ActionRate/lean.ActionRate, 1.2)
	add("full model over lean: power", full.PowerW/lean.PowerW, 1.2)
	add("full model: falls, share of rows", full.FallRate, 0.006)
	return all
}

// print writes tables for people.
func (r *suiteResult) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	line := func(name string, c *task.Result, more string) {
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.1f\t%.0f\t%.3f\t%s\n", name, c.VelErr, c.YawErr, 100*c.FallRate, c.PowerW, c.ActionRate, more)
	}
	fmt.Fprintln(t, "\nCASE\tM/S\tRAD/S\tFALLS %\tW\tRAD A STEP\tWHAT DIFFERS")
	for i := range r.Cases {
		line(r.Cases[i].Name, &r.Cases[i].Result, r.Cases[i].Doc)
	}
	line(r.Standing.Name, &r.Standing.Result, r.Standing.Doc)
	for i := range r.Corners.Commands {
		c := &r.Corners.Commands[i]
		line(c.Name, &c.Result, fmt.Sprintf("%s, %d rows", c.Doc, c.Rows))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	s, c := &r.Standing.StandResult, &r.Corners
	fmt.Fprintf(t, "\nstanding\tjoint speed %.3f rad/s rms; feet lifted %d times, in %.1f %% of rows; drift in %v s %.1f cm, worst row %.1f cm\n",
		s.JointSpeed, s.Lifts, 100*s.LiftShare, r.Standing.Seconds, 100*s.Drift, 100*s.DriftMax)
	fmt.Fprintf(t, "nine commands\tworst %.3f m/s, %.2f times their mean; worst %.3f rad/s, %.2f times their mean; falls %.1f %%\n",
		c.VelWorst, c.VelRatio, c.YawWorst, c.YawRatio, 100*c.FallRate)
	fmt.Fprintln(t, "\nASKED OF A STUDENT THAT SHIPS\tIS\tAT MOST\tVERDICT")
	for _, q := range r.Fit {
		verdict := "ok"
		if !q.OK {
			verdict = "not met"
		}
		fmt.Fprintf(t, "%s\t%.3f\t%v\t%s\n", q.Name, q.Value, q.Limit, verdict)
	}
	return t.Flush()
}

// markdown is a table that compares policies: a column each, a row for what all of them were asked.
func markdown(all []*evalResult) string {
	var b strings.Builder
	row := func(name string, cell func(r *evalResult) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, r := range all {
			fmt.Fprintf(&b, " %s |", cell(r))
		}
		b.WriteString("\n")
	}
	walked := func(c *task.Result) string {
		return fmt.Sprintf("%.3f m/s, %.3f rad/s, %.1f %%", c.VelErr, c.YawErr, 100*c.FallRate)
	}
	first := all[0]
	row(fmt.Sprintf("%s (%s), %d rows x %v s: velocity error, yaw rate error, rows that fall", first.World, first.Hash, first.Rows, first.Seconds),
		func(r *evalResult) string {
			name := "`" + filepath.Base(r.Policy) + "`"
			if len(r.Given) > 0 {
				name += ", given true " + strings.Join(r.Given, ", ")
			}
			return name
		})
	b.WriteString(strings.Repeat("| --- ", len(all)+1) + "|\n")
	nominal := "nominal"
	if first.Physics != "lean" {
		nominal = "physics " + first.Physics
	}
	row(nominal, func(r *evalResult) string { return walked(&r.Result) })
	if first.Suite != nil {
		for i := 1; i < len(first.Suite.Cases); i++ {
			row(first.Suite.Cases[i].Name, func(r *evalResult) string { return walked(&r.Suite.Cases[i].Result) })
		}
	}
	row("power; action rate", func(r *evalResult) string { return fmt.Sprintf("%.0f W; %.3f rad", r.PowerW, r.ActionRate) })
	if first.Suite == nil {
		return b.String()
	}
	row("nine commands, worst (over their mean)", func(r *evalResult) string {
		c := &r.Suite.Corners
		return fmt.Sprintf("%.3f m/s (%.1fx), %.3f rad/s (%.1fx), %.1f %%", c.VelWorst, c.VelRatio, c.YawWorst, c.YawRatio, 100*c.FallRate)
	})
	row(fmt.Sprintf("command zero for %v s: joint speed; rows that lift a foot; drift, mean and worst", first.Seconds), func(r *evalResult) string {
		s := &r.Suite.Standing.StandResult
		return fmt.Sprintf("%.3f rad/s; %.1f %%; %.1f and %.1f cm", s.JointSpeed, 100*s.LiftShare, 100*s.Drift, 100*s.DriftMax)
	})
	return b.String()
}
