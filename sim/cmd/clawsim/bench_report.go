package main

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
	"github.com/openclaw-rl/openclaw/sim/task"
)

// benchFigures are one measurement. Times are of one control step of one row, in microseconds of a
// thread.
type benchFigures struct {
	Rows          int     `json:"rows"`
	Threads       int     `json:"threads"`
	Steps         int     `json:"steps"`       // control steps of each row
	Seconds       float64 `json:"seconds"`     // by the clock, in the Env's Step
	StepsPerS     float64 `json:"steps_per_s"` // rows x control steps
	PhysicsUs     float64 `json:"physics_us_per_step"`
	AroundUs      float64 `json:"around_us_per_step"` // actions, rewards, observations, resets
	WaitingUs     float64 `json:"waiting_us_per_step"`
	CPUUs         float64 `json:"cpu_us_per_step"`    // used in Step, by all threads: other programs do not count
	PolicyUs      float64 `json:"policy_us_per_step"` // not within seconds
	AllocsPerStep float64 `json:"allocs_per_step"`    // of all rows together, policy included; the runtime's few are among them
	PeakMB        float64 `json:"rss_mb"`             // MiB, peak of this process
	NowMB         float64 `json:"rss_now_mb"`
	Contacts      float64 `json:"contacts"` // feet on the floor, mean
	Ended         int     `json:"ended"`    // episodes, fell and timed out
	Fell          int     `json:"fell"`     // with those whose physics went bad
	TimedOut      int     `json:"timed_out"`
	PhysicsBad    int64   `json:"physics_bad"`
}

// benchAbout is what was measured: the same for all measurements of a command.
type benchAbout struct {
	Policy    string        `json:"policy"`
	Physics   string        `json:"physics"`
	WorldName string        `json:"world_name"`
	Seed      uint64        `json:"seed"`
	Settings  benchSettings `json:"settings"`
	World     *task.World   `json:"world"`
}

// benchSettings are how it was simulated.
type benchSettings struct {
	mujoco.Settings
	Substeps     int     `json:"substeps"`     // physics steps of a control step
	Kp           float64 `json:"kp"`           // N*m/rad, of the first joint
	Kd           float64 `json:"kd"`           // N*m*s/rad
	Observations int     `json:"observations"` // numbers a row shows, all groups
	PolicySHA256 string  `json:"policy_sha256,omitzero"`
}

// about describes the subject.
func (s *benchSubject) about() benchAbout {
	spec, f := s.cfg.Spec, s.flags
	a := benchAbout{Policy: f.policy, Physics: f.physics, WorldName: f.world, Seed: f.seed, World: s.cfg.World,
		Settings: benchSettings{Settings: s.cfg.Model.Settings(), Kp: float64(spec.Kp[0]), Kd: float64(spec.Kd[0])}}
	a.Settings.Substeps = int(float64(spec.PolicyPeriodNs)/1e9/a.Settings.Timestep + 0.5)
	for g := range spec.Groups {
		a.Settings.Observations += spec.Groups[g].Size()
	}
	if s.file != nil {
		a.Policy, a.Settings.PolicySHA256 = filepath.Base(f.policy), s.file.SHA256
	}
	return a
}

// benchReport is what bench prints.
type benchReport struct {
	about   benchAbout
	figures []benchFigures
}

func (r *benchReport) print(w io.Writer, sweep, asJSON bool) error {
	switch {
	case sweep && asJSON:
		return cli.PrintJSON(w, struct {
			benchAbout
			Sweep []benchFigures `json:"sweep"`
		}{r.about, r.figures})
	case asJSON:
		return cli.PrintJSON(w, struct {
			benchFigures
			benchAbout
		}{r.figures[0], r.about})
	case sweep:
		return r.printSweep(w)
	}
	return r.printOne(w)
}

func (r *benchReport) printSettings(w io.Writer) {
	s := &r.about.Settings
	fmt.Fprintf(w, "physics\t%s: %d x %v ms, %s, at most %d iterations (line search %d), %s cone, %s, %d geoms meet the floor\n",
		r.about.Physics, s.Substeps, s.Timestep*1e3, s.Solver, s.Iterations, s.SearchIterations, s.Cone, s.Integrator, s.CollidingGeoms)
	fmt.Fprintf(w, "world\t%s, seed %d; policy %s; %d numbers observed\n", r.about.WorldName, r.about.Seed, r.about.Policy, s.Observations)
}

// per1000 is episodes for each 1000 control steps of a row.
func (f *benchFigures) per1000(episodes int) float64 {
	return 1000 * float64(episodes) / float64(f.Rows*f.Steps)
}

func (r *benchReport) printOne(w io.Writer) error {
	f := &r.figures[0]
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "speed\t%.0f control steps/s\n", f.StepsPerS)
	fmt.Fprintf(table, "rows\t%d on %d threads, %d control steps each in %.2f s\n", f.Rows, f.Threads, f.Steps, f.Seconds)
	r.printSettings(table)
	fmt.Fprintf(table, "memory\t%.0f MiB at most, %.0f MiB at the end\n", f.PeakMB, f.NowMB)
	fmt.Fprintf(table, "allocations\t%.2f a step of all rows, the Go runtime's own among them\n", f.AllocsPerStep)
	fmt.Fprintf(table, "feet down\t%.2f of 4\n", f.Contacts)
	fmt.Fprintf(table, "episodes\t%.2f ended in 1000 control steps of a row: %.2f fell, %.2f timed out; physics went bad in %d\n",
		f.per1000(f.Ended), f.per1000(f.Fell), f.per1000(f.TimedOut), f.PhysicsBad)
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	total := f.PhysicsUs + f.AroundUs + f.WaitingUs
	for _, part := range []struct {
		name, what string
		us         float64
	}{
		{"physics", "", f.PhysicsUs}, {"around", "actions, rewards, observations, resets", f.AroundUs}, {"waiting", "", f.WaitingUs},
	} {
		fmt.Fprintf(table, "%s\t%.2f us\t%.1f %%\t%s\n", part.name, part.us, 100*part.us/total, part.what)
	}
	fmt.Fprintf(table, "processors\t%.2f us\t\tused for the above\n", f.CPUUs)
	fmt.Fprintf(table, "policy\t%.2f us\t\tnot counted above\n", f.PolicyUs)
	return table.Flush()
}

func (r *benchReport) printSweep(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	r.printSettings(table)
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	table = tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ROWS\tTHREADS\tSTEPS/S\tPHYSICS us\tAROUND us\tWAITING us\tPOLICY us\tMiB\tALLOCS\t")
	for i := range r.figures {
		f := &r.figures[i]
		fmt.Fprintf(table, "%d\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.2f\t\n",
			f.Rows, f.Threads, f.StepsPerS, f.PhysicsUs, f.AroundUs, f.WaitingUs, f.PolicyUs, f.PeakMB, f.AllocsPerStep)
	}
	return table.Flush()
}
