package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/onnx/contract/contracttest"
)

const module = "github.com/openclaw-rl/openclaw/"

// pkg is one package of the repository. Imports are those of all its files, whatever their build tags.
type pkg struct {
	path    string            // without the module's
	imports map[string]string // path of an import, within the module without its name: a file that has it
	tests   map[string]string // the same of its test files, inside and outside of the package
	docs    []string          // files with a package comment
	doc     string
	files   int    // that are no tests
	cgo     string // a file that imports C
	main    bool   // it is a program
}

// repository reads every package that `go list ./...` knows, from the sources.
func repository(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=Dir,ImportPath", "./...")
	cmd.Dir = contracttest.Root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var listed struct{ Dir, ImportPath string }
		if err := dec.Decode(&listed); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, read(t, listed.Dir, strings.TrimPrefix(listed.ImportPath, module)))
	}
	if len(pkgs) < 15 {
		t.Fatalf("only %d packages: this test looks at the wrong thing", len(pkgs))
	}
	return pkgs
}

func read(t *testing.T, dir, name string) pkg {
	t.Helper()
	p := pkg{path: name, imports: map[string]string{}, tests: map[string]string{}}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range names {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		into, base := p.imports, filepath.Base(file)
		if strings.HasSuffix(base, "_test.go") {
			into = p.tests
		} else {
			p.files++
		}
		for _, i := range f.Imports {
			which, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			into[strings.TrimPrefix(which, module)] = base
			if which == "C" {
				p.cgo = base
			}
		}
		p.main = p.main || f.Name.Name == "main"
		if hasText(f.Doc) {
			p.docs, p.doc = append(p.docs, base), f.Doc.Text()
		}
	}
	return p
}

func hasText(c *ast.CommentGroup) bool { return c != nil && strings.TrimSpace(c.Text()) != "" }

// arrow forbids imports; see design.md section 2.
type arrow struct {
	from   []string // packages, with what lies below
	except []string // of those
	never  []string // imports, with what lies below
	only   []string // if never is nil: of this module from may import no more than these
	tests  bool     // tests are bound too
	why    string
}

var arrows = []arrow{
	{from: []string{"agent"}, never: []string{"sim", "learner", "github.com/sugarme/gotch"}, tests: true,
		why: "the robot's programs know no simulator and no trainer"},
	{from: []string{"agent"}, except: []string{"agent/control", "agent/httpapi", "agent/cmd"}, never: []string{"onnx"}, tests: true,
		why: "policy files are the business of control, httpapi and the programs"},
	{from: []string{"onnx"}, never: []string{"agent/control", "agent/link", "sim", "learner"}, tests: true,
		why: "a policy file is read in the same way on a robot, in a simulator and on a desk"},
	{from: []string{"sim"}, never: []string{"learner"}, tests: true, why: "a simulator does not know who learns in it"},
	{from: []string{"sim"}, except: []string{"sim/e2e"}, never: []string{"agent/control", "agent/safety", "agent/estimate", "agent/httpapi"},
		why: "the virtual robot shares no judgement with the agent that it is there to catch"},
	{from: []string{"learner"}, never: []string{"agent/control", "agent/link", "agent/httpapi"}, tests: true, why: "a trainer drives no robot"},

	// The arrows point at rollout and go1. Tests of these packages may use fake robots and suites beside them.
	{from: []string{"agent/rollout"}, except: []string{"agent/rollout/rollouttest"}, only: []string{}, why: "the contract stands alone"},
	{from: []string{"agent/rollout/rollouttest"}, only: []string{"agent/rollout"}, tests: true, why: "whoever has an Env can run the suite"},
	{from: []string{"agent/wire"}, only: []string{}, tests: true, why: "bytes only"},
	{from: []string{"agent/go1"}, only: []string{"agent/rollout"}, why: "simulators and robot share it"},
	{from: []string{"agent/safety"}, only: []string{"agent/wire", "agent/go1"}, why: "a pure judge"},
	{from: []string{"agent/estimate"}, only: []string{"agent/go1"}, why: "a filter of numbers"},
	{from: []string{"agent/firstcontact"}, only: []string{"agent/wire", "agent/go1"}, why: "a pure judge"},
	{from: []string{"agent/latency"}, only: []string{}, why: "it counts"},
	{from: []string{"agent/guard"}, only: []string{"agent/link", "agent/wire", "agent/safety", "agent/latency"}, why: "it damps, and knows no mode"},
	{from: []string{"agent/link"}, except: []string{"agent/link/linktest"}, only: []string{"agent/wire"}, why: "it moves bytes and judges none"},
	{from: []string{"agent/httpapi"}, never: []string{"agent/link", "agent/wire"}, why: "a request reaches the robot through the loop alone; tests may play the robot"},
	{from: []string{"agent/control"}, never: []string{"agent/httpapi", "agent/cli"}, tests: true, why: "the loop does not know who asks"},
	{from: []string{"onnx/contract"}, except: []string{"onnx/contract/contracttest"}, never: []string{"onnx/session"},
		why: "a contract is read without the native library"},
}

// native are the packages with cgo of ours: one for MuJoCo, one for libtorch.
var native = []string{"sim/mujoco", "learner/nets"}

// alone names what only some packages, with what lies below, may import, and why. Their tests are bound too.
var alone = []struct {
	what string
	by   []string
	why  string
}{
	{"github.com/yalue/onnxruntime_go", []string{"onnx/session"}, "each native library lives behind one package"},
	{"github.com/sugarme/gotch", []string{"learner/nets"}, "each native library lives behind one package"},
	{"C", native, "each native library lives behind one package"},
	{"agent/cli", []string{"agent/cli", "agent/cmd", "sim/cmd", "onnx/cmd", "learner/cmd", "sim/e2e"}, "programs, and the tests of them, have flags and exit codes, packages have errors"},
	{"github.com/spf13/cobra", []string{"agent/cli", "agent/cmd", "sim/cmd", "onnx/cmd", "learner/cmd"}, "the same"},
	{"github.com/gin-gonic/gin", []string{"agent/httpapi", "sim/cmd"}, "one package speaks HTTP to operators; a simulator shows its own page"},
	{"net/http/pprof", nil, "it opens profiles to whoever reaches the default mux"},
}

func TestArrows(t *testing.T) {
	pkgs := repository(t)
	for _, v := range violations(pkgs) {
		t.Error(v)
	}
	for _, a := range arrows {
		bound := slices.ContainsFunc(pkgs, func(p pkg) bool { return a.binds(p.path) })
		if !bound {
			t.Errorf("no package is bound by the arrow from %v: it is misspelt", a.from)
		}
	}
}

func anyOf(p string, paths []string) bool {
	return slices.ContainsFunc(paths, func(q string) bool { return below(p, q) })
}

func (a *arrow) binds(p string) bool { return anyOf(p, a.from) && !anyOf(p, a.except) }

func (a *arrow) forbids(p, what string) bool {
	if a.never != nil {
		return anyOf(what, a.never)
	}
	ours := anyOf(what, []string{"agent", "sim", "learner", "onnx"})
	return ours && what != p && !anyOf(what, a.only) // a package's outside tests import itself
}

func violations(pkgs []pkg) (said []string) {
	for _, p := range pkgs {
		for _, a := range arrows {
			if !a.binds(p.path) {
				continue
			}
			sets := []map[string]string{p.imports}
			if a.tests {
				sets = append(sets, p.tests)
			}
			for _, imports := range sets {
				for what, file := range imports {
					if a.forbids(p.path, what) {
						said = append(said, fmt.Sprintf("%s imports %s (%s): %s", p.path, what, file, a.why))
					}
				}
			}
		}
		for _, a := range alone {
			for _, imports := range []map[string]string{p.imports, p.tests} {
				if file := imports[a.what]; file != "" && !anyOf(p.path, a.by) {
					said = append(said, fmt.Sprintf("%s imports %s (%s), which is for %v: %s", p.path, a.what, file, a.by, a.why))
				}
			}
		}
	}
	slices.Sort(said)
	return said
}

// TestArrowsSee gives the table imports that cross it, and some that do not.
func TestArrowsSee(t *testing.T) {
	for _, c := range []struct {
		from, to string
		test     bool
		want     int // violations
	}{
		{"agent/control", "sim/task", false, 1},
		{"agent/control", "sim/virtual/virtualtest", true, 1},
		{"agent/cmd/clawagent", "learner/fleet", false, 1},
		{"agent/go1", "onnx/contract", false, 2}, // no policy file, and go1 imports only rollout
		{"agent/control", "onnx/contract", false, 0},
		{"agent/cmd/clawagent", "onnx/session", false, 0},
		{"onnx/session", "agent/link", false, 1},
		{"onnx/session", "agent/rollout", false, 0},
		{"agent/rollout", "agent/wire", false, 1},
		{"agent/rollout", "agent/rollout/rollouttest", true, 0},
		{"agent/wire", "agent/wire", true, 0},
		{"agent/wire", "agent/go1", true, 1},
		{"agent/go1", "agent/rollout", false, 0},
		{"agent/safety", "agent/link", false, 1},
		{"agent/link", "agent/link/linktest", false, 1},
		{"agent/link", "agent/link/linktest", true, 0},
		{"sim/virtual", "agent/safety", false, 1},
		{"sim/virtual", "agent/link", false, 0},
		{"agent/control", "agent/cli", false, 2},
		{"sim/cmd/clawsim", "agent/cli", false, 0},
		{"sim/task", "C", false, 1},
		{"sim/mujoco", "C", false, 0},
		{"learner/nets", "C", false, 0},
		{"learner/algo", "github.com/sugarme/gotch", false, 1},
		{"onnx/contract", "github.com/yalue/onnxruntime_go", false, 1},
		{"agent/linkage", "sim/task", false, 1},
		{"simulator", "learner", false, 0}, // not below sim
	} {
		p := pkg{path: c.from, imports: map[string]string{c.to: "x.go"}}
		if c.test {
			p.imports, p.tests = nil, p.imports
		}
		if got := violations([]pkg{p}); len(got) != c.want {
			t.Errorf("%s imports %s: %q, want %d violations", c.from, c.to, got, c.want)
		}
	}
}

// TestNativeSourcesStayBehindTheirPackage: C beside Go is compiled into every program that imports the package.
func TestNativeSourcesStayBehindTheirPackage(t *testing.T) {
	root := contracttest.Root(t)
	for _, p := range repository(t) {
		if slices.Contains(native, p.path) {
			if p.cgo == "" {
				t.Errorf("%s has no cgo: this test looks at the wrong thing", p.path)
			}
			continue
		}
		for _, pattern := range []string{"*.c", "*.cc", "*.cpp", "*.h", "*.hpp", "*.S", "*.s", "*.syso", "*.a", "*.so"} {
			if found, _ := filepath.Glob(filepath.Join(root, p.path, pattern)); len(found) > 0 {
				t.Errorf("%s: native sources belong to %v", found[0], native)
			}
		}
	}
}

// TestPackagesHaveNamesAndComments: a name says what is inside, and one comment says it at length.
func TestPackagesHaveNamesAndComments(t *testing.T) {
	rooms := []string{"agent", "sim", "learner", "onnx", "firmware"}
	nameless := []string{"util", "utils", "common", "pkg", "helper", "helpers", "misc", "lib", "base", "shared"}
	for _, p := range repository(t) {
		parts := strings.Split(p.path, "/")
		if !slices.Contains(rooms, parts[0]) {
			t.Errorf("%s is in none of the rooms %v", p.path, rooms)
		}
		for _, part := range parts {
			if slices.Contains(nameless, part) {
				t.Errorf("%s: %q says nothing of what is inside", p.path, part)
			}
		}
		if len(p.docs) != 1 {
			t.Errorf("%s has package comments in %v, want one", p.path, p.docs)
			continue
		}
		name := path.Base(p.path)
		want := "Package " + name + " "
		switch {
		case len(parts) > 1 && parts[len(parts)-2] == "cmd":
			want = strings.ToUpper(name[:1]) + name[1:] + " "
		case p.main: // a tool of another package's
			want = "Command " + name + " "
		case p.files == 0:
			want = "Package " // of tests only
		}
		if !strings.HasPrefix(p.doc, want) {
			t.Errorf("%s: the comment begins %.40q, want %q", p.path, p.doc, want)
		}
	}
}
