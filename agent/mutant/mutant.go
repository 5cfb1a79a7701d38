// Package mutant tests tests: a program is changed in one place, and some test must notice.
//
//	all := []mutant.Mutant{
//		mutant.Edit(t, "the latch is not looked at", "../control/guard.go", "look = l.guard.Look()", "look = guard.Free"),
//	}
//	mutant.Sample(t, all, 3)     // 3 of them drawn by seed, all with OPENCLAW_SOAK=mutants
//
// `make soak PROMISE=mutants` runs all of every package. Only tests import this package.
package mutant

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// env is set in the tests of a mutant.
const env = "OPENCLAW_MUTANT"

// Running says that this very test runs against a mutant: it then makes none of its own, and tests that take long may be left out.
func Running() bool { return os.Getenv(env) != "" }

// Mutant is one file of a program, changed.
type Mutant struct {
	Name   string // what was changed
	File   string // as seen from the tests' folder
	Source []byte // all of the file
}

// Edit makes a mutant by replacing text in a file, in pairs of old and new; each old stands there once.
func Edit(t testing.TB, name, file string, pairs ...string) Mutant {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(src)
	for i := 0; i < len(pairs); i += 2 {
		if n := strings.Count(text, pairs[i]); n != 1 {
			t.Fatalf("mutant %q: %s has %q %d times, want once", name, file, pairs[i], n)
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return Mutant{Name: name, File: file, Source: []byte(text)}
}

// Run runs the tests of this folder against the mutant; killed says that they failed. One that does not compile is noticed without.
func (m *Mutant) Run(t testing.TB) (out string, compiled, killed bool) {
	t.Helper()
	dir := t.TempDir()
	real, err := filepath.Abs(m.File)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(dir, filepath.Base(m.File))
	overlay := filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {real: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{changed: m.Source, overlay: list} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-count=1", "-failfast", "-timeout=60s", "-overlay="+overlay, ".")
	cmd.Env = append(os.Environ(), env+"=1")
	b, err := cmd.CombinedOutput()
	if bytes.Contains(b, []byte("[setup failed]")) {
		t.Fatalf("mutant %s: %s", m.Name, b)
	}
	return string(b), !bytes.Contains(b, []byte("[build failed]")), err != nil
}

// seed draws the sample.
const seed = 1

// Sample runs want of them, drawn by seed, or all with OPENCLAW_SOAK=mutants, and fails t for each that no test notices.
func Sample(t *testing.T, all []Mutant, want int) {
	t.Helper()
	if Running() {
		t.Skip("this is a mutant")
	}
	if os.Getenv("OPENCLAW_SOAK") == "mutants" {
		want = len(all)
	} else {
		rnd := rand.New(rand.NewPCG(seed, 0))
		rnd.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	}
	ran, survivors := 0, 0
	for _, m := range all {
		if ran == want {
			break
		}
		out, compiled, killed := m.Run(t)
		if !compiled { // the compiler noticed
			t.Logf("no program: %s", m.Name)
			continue
		}
		ran++
		if !killed {
			survivors++
			t.Errorf("no test noticed: %s\n%s", m.Name, out)
		}
	}
	t.Logf("seed %d: %d of %d mutants run, %d survived", seed, ran, len(all), survivors)
}
