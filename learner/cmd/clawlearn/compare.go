package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/learner/run"
)

// The criterion of walking, in eval_v1: passed this often in a row by evaluations that were due, the first time counts. Others, at a run's
// end and on Ctrl-C, do not: who ends a run more often would try more often.
const (
	walkingVelErr, walkingYawErr, walkingFalls = 0.25, 0.3, 0.05
	walkingPasses                              = 3
)

// walks says whether an evaluation meets the criterion.
func walks(velErr, yawErr, fallRate float64) bool {
	return velErr < walkingVelErr && yawErr < walkingYawErr && fallRate < walkingFalls
}

// passesTag is logged with every evaluation that was due: how many of them, this one the last, met the criterion in a row.
const passesTag = "Eval/passes"

// compareFlags are compare's flags as typed.
type compareFlags struct {
	svg, by          string
	asJSON, markdown bool
}

// newCompare is `clawlearn compare`.
func newCompare() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare FOLDER...",
		Short: "Compare training runs by their evaluations",
		Long: `compare reads run folders, also of runs that are under way, and prints how each did in eval_v1: when it walked (the first of three
evaluations in a row with errors below 0.25 m/s and 0.3 rad/s and fewer than 5 % of rows that fall, without those that only ended a run
or were made on Ctrl-C), its last evaluation, and how far the student was from its teacher's labels in the end.

Runs that differ in their seed alone are a group: a second table has the mean of each group, with the least and the greatest.

A teacher that was itself trained counts: its steps and its training time, read from its folder, come before the student's own.
Evaluations take none: training waits meanwhile. --svg draws the evaluations as curves, those of a group in one colour.`,
		Example: `clawlearn compare runs/plain-1 runs/warm-1
clawlearn compare runs/* --svg compared.svg --by steps
clawlearn compare runs/* --markdown`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			switch {
			case f.by != "minutes" && f.by != "steps":
				return cli.Usagef("--by %q: want minutes or steps", f.by)
			case f.asJSON && f.markdown:
				return cli.Usagef("--json and --markdown: not both")
			}
			c, err := compare(dirs)
			if err != nil {
				return err
			}
			if f.svg != "" {
				if err := run.WriteDiagrams(f.svg, c.diagrams(f.by)); err != nil {
					return err
				}
				c.SVG = f.svg
			}
			switch {
			case f.asJSON:
				return cli.PrintJSON(cmd.OutOrStdout(), c)
			case f.markdown:
				_, err := io.WriteString(cmd.OutOrStdout(), c.markdown())
				return err
			}
			return c.print(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.svg, "svg", "", "draw the curves into `FILE`")
	flags.StringVar(&f.by, "by", "minutes", "what curves are drawn over: minutes of training or steps of rows")
	flags.BoolVar(&f.markdown, "markdown", false, "print the table of groups in Markdown")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return cmd
}

// comparison is what compare prints.
type comparison struct {
	Runs   []*comparedRun   `json:"runs"`
	Groups []*comparedGroup `json:"groups"`
	SVG    string           `json:"svg,omitempty"`
}

// comparedRun is how one run did. Numbers that it has not are NaN.
type comparedRun struct {
	Run            string  `json:"run"` // folder
	Group          string  `json:"group"`
	Preset         string  `json:"preset"`
	Seed           uint64  `json:"seed"`
	Teacher        string  `json:"teacher"`         // its kind
	Iterations     int64   `json:"iterations"`      // of the student
	Steps          float64 `json:"steps"`           // of rows, the teacher's included
	Seconds        float64 `json:"seconds"`         // of training, the teacher's included
	TeacherSteps   float64 `json:"teacher_steps"`   // of those, the teacher's
	TeacherSeconds float64 `json:"teacher_seconds"` // of those, the teacher's
	Walked         bool    `json:"walked"`
	WalkedSteps    float64 `json:"walked_at_steps"`
	WalkedSeconds  float64 `json:"walked_at_seconds"`
	VelErr         float64 `json:"vel_err"` // m/s; this and the next two are of the last evaluation
	YawErr         float64 `json:"yaw_err"` // rad/s
	FallRate       float64 `json:"fall_rate"`
	LabelRMSE      float64 `json:"label_rmse"` // units of action, mean of the last ten iterations

	evaluations []evaluated
	distance    []run.Point // from the labels, over steps; X is turned into minutes where asked
	minutes     []float64   // of distance
}

// evaluated is one evaluation on the way.
type evaluated struct {
	steps, seconds           float64 // the teacher's included
	velErr, yawErr, fallRate float64
	due                      bool // it was logged as one that counts for walking
}

// walk finds the first of the evaluations by which the run walked. Of a run from before passesTag was logged every evaluation counts.
func (r *comparedRun) walk() {
	tagged := slices.ContainsFunc(r.evaluations, func(e evaluated) bool { return e.due })
	var passed []*evaluated // in a row
	for i := range r.evaluations {
		e := &r.evaluations[i]
		switch {
		case tagged && !e.due:
		case !walks(e.velErr, e.yawErr, e.fallRate):
			passed = passed[:0]
		default:
			if passed = append(passed, e); len(passed) == walkingPasses {
				r.Walked, r.WalkedSteps, r.WalkedSeconds = true, passed[0].steps, passed[0].seconds
				return
			}
		}
	}
}

// lastDistances is how many iterations the distance from the labels is a mean of.
const lastDistances = 10

// compare reads the runs and groups them.
func compare(dirs []string) (*comparison, error) {
	c := &comparison{}
	groups := map[string]*comparedGroup{}
	for i, dir := range dirs {
		if slices.ContainsFunc(dirs[:i], func(d string) bool { return filepath.Clean(d) == filepath.Clean(dir) }) {
			return nil, cli.Usagef("%s: named twice", dir)
		}
		record, err := run.Read(dir)
		if err != nil {
			return nil, err
		}
		r, key, err := newComparedRun(record)
		if err != nil {
			return nil, err
		}
		c.Runs = append(c.Runs, r)
		if groups[key] == nil {
			groups[key] = &comparedGroup{}
			c.Groups = append(c.Groups, groups[key])
		}
		groups[key].runs = append(groups[key].runs, r)
	}
	c.nameGroups()
	for _, g := range c.Groups {
		g.sum()
	}
	return c, nil
}

// newComparedRun takes from a run's record what compare shows; key is the same for runs that differ in their seeds alone.
func newComparedRun(record *run.Record) (r *comparedRun, key string, err error) {
	nan := math.NaN()
	r = &comparedRun{Run: record.Dir, WalkedSteps: nan, WalkedSeconds: nan, LabelRMSE: nan}
	if key, err = fingerprint(record, 0); err != nil {
		return nil, "", err
	}
	r.Preset, _ = setting(record.Config, "run", "preset").(string)
	r.Teacher, _ = setting(record.Config, "algo", "opd", "teacher").(string)
	r.Seed = uint64(record.Meta.Seeds["run"])
	if r.TeacherSteps, r.TeacherSeconds, err = teaching(record, 0); err != nil {
		return nil, "", err
	}
	taught := r.Teacher != "" && r.Teacher != "none"
	for i := range record.Lines {
		l := &record.Lines[i]
		at := func(tag string) float64 {
			if x, ok := l.Values[tag]; ok {
				return x
			}
			return nan
		}
		r.Iterations = l.Iteration
		r.Steps, r.Seconds = r.TeacherSteps+at("Perf/samples"), r.TeacherSeconds+at("Perf/train_seconds")
		if _, ok := l.Values["Eval/fall_rate"]; ok {
			_, due := l.Values[passesTag]
			r.evaluations = append(r.evaluations, evaluated{r.Steps, r.Seconds, at("Eval/vel_err"), at("Eval/yaw_err"), at("Eval/fall_rate"), due})
		}
		if distance, ok := l.Values["Loss/behavior"]; ok && taught {
			r.distance = append(r.distance, run.Point{X: r.Steps, Y: distance})
			r.minutes = append(r.minutes, r.Seconds/60)
		}
	}
	if len(r.evaluations) == 0 {
		return nil, "", fmt.Errorf("%s: no evaluation yet: nothing to compare", record.Dir)
	}
	last := &r.evaluations[len(r.evaluations)-1]
	r.VelErr, r.YawErr, r.FallRate = last.velErr, last.yawErr, last.fallRate
	r.walk()
	if n := min(len(r.distance), lastDistances); n > 0 {
		sum := 0.0
		for _, p := range r.distance[len(r.distance)-n:] {
			sum += p.Y
		}
		r.LabelRMSE = sum / float64(n)
	}
	return r, key, nil
}

// diagrams are the runs' curves.
func (c *comparison) diagrams(by string) []run.Diagram {
	x, scale := "minutes of training", func(e *evaluated) float64 { return e.seconds / 60 }
	if by == "steps" {
		x, scale = "steps of rows", func(e *evaluated) float64 { return e.steps }
	}
	all := []run.Diagram{
		{Title: "velocity error in eval_v1", X: x, Y: "m/s"},
		{Title: "yaw rate error in eval_v1", X: x, Y: "rad/s"},
		{Title: "rows that fall in eval_v1", X: x, Y: "share"},
		{Title: "distance from the teacher's labels", X: x, Y: "RMSE, units of action"},
	}
	for _, g := range c.Groups { // the legend's order is the table's
		for _, r := range g.runs {
			curves := make([][]run.Point, len(all))
			for i := range r.evaluations {
				e := &r.evaluations[i]
				for k, y := range []float64{e.velErr, e.yawErr, e.fallRate} {
					if !math.IsNaN(y) && !math.IsNaN(scale(e)) {
						curves[k] = append(curves[k], run.Point{X: scale(e), Y: y})
					}
				}
			}
			for i, p := range r.distance {
				if by != "steps" {
					p.X = r.minutes[i]
				}
				curves[3] = append(curves[3], p)
			}
			for k := range all {
				all[k].Curves = append(all[k].Curves, run.Curve{Name: g.Name, Points: curves[k]})
			}
		}
	}
	return all
}

// print is for people: a table of runs, and one of groups where any has several.
func (c *comparison) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "run\tteacher\twalking at\tM steps\ts\tof these its teacher\tm/s\trad/s\tfalls\tto label")
	for _, r := range c.Runs {
		walked := "-"
		if r.Walked {
			walked = fmt.Sprintf("%.2f M, %.0f s", r.WalkedSteps/1e6, r.WalkedSeconds)
		}
		taught := "-"
		if r.TeacherSteps > 0 {
			taught = fmt.Sprintf("%.2f M, %.0f s", r.TeacherSteps/1e6, r.TeacherSeconds)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.2f\t%.0f\t%s\t%s\t%s\t%s\t%s\n", r.Run, r.Teacher, walked, r.Steps/1e6, r.Seconds, taught,
			figure(r.VelErr, "%.3f"), figure(r.YawErr, "%.3f"), figure(100*r.FallRate, "%.1f %%"), figure(r.LabelRMSE, "%.3f"))
	}
	if len(c.Groups) < len(c.Runs) {
		fmt.Fprintln(table)
		for _, cells := range c.rows() {
			fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
	}
	return table.Flush()
}

// markdown is the table of groups.
func (c *comparison) markdown() string {
	var b strings.Builder
	for i, cells := range c.rows() {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("| --- ", len(cells)) + "|\n")
		}
	}
	return b.String()
}

// rows are the table of groups, its head first.
func (c *comparison) rows() [][]string {
	all := [][]string{{"runs", "walked", "at M steps", "at s", "of s", "velocity error, m/s", "yaw rate error, rad/s", "falls, %", "RMSE to label"}}
	for _, g := range c.Groups {
		all = append(all, []string{g.Name, fmt.Sprintf("%d of %d", g.Walked, len(g.Runs)), g.WalkedSteps.text("%.2f", 1e-6), g.WalkedSeconds.text("%.0f", 1),
			g.Seconds.text("%.0f", 1), g.VelErr.text("%.3f", 1), g.YawErr.text("%.3f", 1), g.FallRate.text("%.1f", 100), g.LabelRMSE.text("%.3f", 1)})
	}
	return all
}

// figure is x, or "-" where there is none.
func figure(x float64, format string) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf(format, x)
}
