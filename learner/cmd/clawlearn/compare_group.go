package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"

	"github.com/go-json-experiment/json"

	"github.com/openclaw-rl/openclaw/learner/run"
)

// comparedGroup are runs that differ in their seeds alone.
type comparedGroup struct {
	Name          string   `json:"group"`
	Runs          []string `json:"runs"`
	Seeds         []uint64 `json:"seeds"`
	Walked        int      `json:"walked"` // how many of them
	WalkedSteps   spread   `json:"walked_at_steps"`
	WalkedSeconds spread   `json:"walked_at_seconds"`
	Steps         spread   `json:"steps"`
	Seconds       spread   `json:"seconds"`
	VelErr        spread   `json:"vel_err"`
	YawErr        spread   `json:"yaw_err"`
	FallRate      spread   `json:"fall_rate"`
	LabelRMSE     spread   `json:"label_rmse"`

	runs []*comparedRun
}

// spread is what a group's runs have of a number: of those that have it.
type spread struct {
	Runs  int     `json:"runs"` // that have it
	Mean  float64 `json:"mean"` // NaN without
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// spreadOf leaves out what is NaN.
func spreadOf(all []float64) spread {
	s := spread{Mean: math.NaN(), Least: math.NaN(), Most: math.NaN()}
	sum := 0.0
	for _, x := range all {
		if math.IsNaN(x) {
			continue
		}
		if s.Runs++; s.Runs == 1 {
			s.Least, s.Most = x, x
		}
		sum += x
		s.Least, s.Most = min(s.Least, x), max(s.Most, x)
	}
	if s.Runs > 0 {
		s.Mean = sum / float64(s.Runs)
	}
	return s
}

// text is the mean, and of several the least and the greatest, each times scale.
func (s *spread) text(format string, scale float64) string {
	switch s.Runs {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf(format, scale*s.Mean)
	}
	return fmt.Sprintf(format+" ("+format+".."+format+")", scale*s.Mean, scale*s.Least, scale*s.Most)
}

// sum fills what the group's runs make.
func (g *comparedGroup) sum() {
	of := func(number func(r *comparedRun) float64) spread {
		var all []float64
		for _, r := range g.runs {
			all = append(all, number(r))
		}
		return spreadOf(all)
	}
	for _, r := range g.runs {
		r.Group = g.Name
		g.Runs, g.Seeds = append(g.Runs, r.Run), append(g.Seeds, r.Seed)
		if r.Walked {
			g.Walked++
		}
	}
	g.WalkedSteps = of(func(r *comparedRun) float64 { return r.WalkedSteps })
	g.WalkedSeconds = of(func(r *comparedRun) float64 { return r.WalkedSeconds })
	g.Steps = of(func(r *comparedRun) float64 { return r.Steps })
	g.Seconds = of(func(r *comparedRun) float64 { return r.Seconds })
	g.VelErr = of(func(r *comparedRun) float64 { return r.VelErr })
	g.YawErr = of(func(r *comparedRun) float64 { return r.YawErr })
	g.FallRate = of(func(r *comparedRun) float64 { return r.FallRate })
	g.LabelRMSE = of(func(r *comparedRun) float64 { return r.LabelRMSE })
}

// seedAtEnd is how a folder's name ends that tells its seed: "walk-1", "walk-seed12", "walk.s3".
var seedAtEnd = regexp.MustCompile(`[-_.](seed|s)?[-_.]?[0-9]+$`)

// nameGroups calls each group by its folders' names without their seeds, and by a whole folder where they disagree or another group is called
// so.
func (c *comparison) nameGroups() {
	taken := map[string]int{}
	for _, g := range c.Groups {
		for i, r := range g.runs {
			name := filepath.Base(r.Run)
			if len(g.runs) > 1 {
				name = seedAtEnd.ReplaceAllString(name, "")
			}
			if i > 0 && name != g.Name {
				g.Name = ""
				break
			}
			g.Name = name
		}
		taken[g.Name]++
	}
	for _, g := range c.Groups {
		if g.Name == "" || taken[g.Name] > 1 {
			g.Name = g.runs[0].Run
			if n := len(g.runs) - 1; n > 0 {
				g.Name += fmt.Sprintf(" and %d more", n)
			}
		}
	}
}

// setting is what a configuration says under the keys; nil if it has no such.
func setting(config map[string]any, keys ...string) any {
	var at any = config
	for _, key := range keys {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[key]
	}
	return at
}

// maxTeachers bounds how many teachers, each of the next, are followed: folders may name each other in a ring.
const maxTeachers = 16

// teacherOf is the run that taught this one; nil: it had no teacher, or one that is no run of ours.
func teacherOf(record *run.Record, depth int) (*run.Record, error) {
	file, _ := setting(record.Config, "algo", "opd", "file").(string)
	if file == "" {
		return nil, nil
	}
	if depth == maxTeachers {
		return nil, fmt.Errorf("%s: more than %d teachers, each of the next: do they name each other?", record.Dir, maxTeachers)
	}
	dir := file
	if info, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("%s: its teacher's time is not to be told: %w", record.Dir, err)
	} else if !info.IsDir() {
		dir = filepath.Dir(file)
	}
	teacher, err := run.Read(dir)
	if errors.Is(err, run.ErrNoRun) && dir != file { // a policy that others trained
		return nil, nil
	}
	return teacher, err
}

// teaching is what training the teachers took, in steps of rows and in s.
func teaching(record *run.Record, depth int) (steps, seconds float64, err error) {
	teacher, err := teacherOf(record, depth)
	if err != nil || teacher == nil {
		return 0, 0, err
	}
	if steps, seconds, err = teaching(teacher, depth+1); err != nil {
		return 0, 0, err
	}
	if n := len(teacher.Lines); n > 0 {
		steps += teacher.Lines[n-1].Values["Perf/samples"]
		seconds += teacher.Lines[n-1].Values["Perf/train_seconds"]
	}
	return steps, seconds, nil
}

// fingerprint is the same for runs whose configurations differ in their seeds alone, and whose teachers' do.
func fingerprint(record *run.Record, depth int) (string, error) {
	config := maps.Clone(record.Config)
	if section, ok := config["run"].(map[string]any); ok {
		section = maps.Clone(section)
		delete(section, "seed")
		config["run"] = section
	}
	teacher, err := teacherOf(record, depth)
	if err != nil {
		return "", err
	}
	if teacher != nil {
		its, err := fingerprint(teacher, depth+1)
		if err != nil {
			return "", err
		}
		algo := maps.Clone(config["algo"].(map[string]any)) // teacherOf found the file there
		opd := maps.Clone(algo["opd"].(map[string]any))
		opd["file"], algo["opd"], config["algo"] = its, opd, algo
	}
	text, err := json.Marshal(config, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("%s: configuration: %w", record.Dir, err)
	}
	return string(text), nil
}
