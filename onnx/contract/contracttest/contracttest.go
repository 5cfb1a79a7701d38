// Package contracttest helps tests that need policies: it finds the third-party
// policies that lie beside the repository and builds small ONNX models in memory.
//
//	REPO/../shared/policies/NAME ─▶ Policy(t, NAME)   skips where they are not
//	nodes and weights            ─▶ Model.Bytes()     a model of a few nodes
//
// Tests of onnx, sim and agent call it; no program does.
package contracttest

import (
	"os"
	"path/filepath"
	"testing"
)

// Policy is the path of a file of ../shared/policies, seen from the repository's
// root. Those files are others' work and are not committed: where the folder
// ../shared does not exist the test skips and names it; where it exists but the
// file does not, OPENCLAW_ALL=1 makes that a failure.
func Policy(t testing.TB, name string) string {
	t.Helper()
	shared := filepath.Join(filepath.Dir(Root(t)), "shared")
	path := filepath.Join(shared, "policies", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	_, err := os.Stat(shared)
	if err == nil && os.Getenv("OPENCLAW_ALL") == "1" {
		t.Fatalf("%s: not there, and OPENCLAW_ALL=1 wants every test", path)
	}
	t.Skipf("needs %s in %s", name, filepath.Dir(path))
	return ""
}

// Root is the repository's root: the nearest folder above that has a go.mod.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod in any folder above")
		}
		dir = up
	}
}
