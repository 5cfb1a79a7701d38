package safety

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/openclaw-rl/openclaw/agent/mutant"
)

// The tests are tested: the judge is changed in one place at a time, and some
// test of this package must notice. Ten mutants drawn by seed run every time;
// OPENCLAW_SOAK=mutants go test ./agent/safety -run Mutants -timeout 0 runs them all.
func TestMutants(t *testing.T) {
	var all []mutant.Mutant
	for _, m := range mutants(t, "judge.go") {
		if why, ok := equivalent[m.Name]; ok {
			t.Logf("not run, the same program: %s (%s)", m.Name, why)
			continue
		}
		all = append(all, m)
	}
	mutant.Sample(t, all, 10)
}

// equivalent are mutants that cannot be told from the original, with the reason.
var equivalent = map[string]string{
	"CommandScale: <= -> < #1": "at the ramp's first moment the ramp itself says 1",
	"CommandScale: >= -> > #1": "at the ramp's last moment the ramp itself says 0",
	"State: - -> + #1":         "before the first state any other tick will do",
	"body: <= -> < #1":         "no float32 quaternion has exactly that length",
	"body: >= -> > #1":         "no float32 quaternion has exactly that length",
	"body: >= -> > #2":         "no float32 quaternion has exactly that tilt",
	"body: >= -> > #3":         "no float32 quaternion has exactly that tilt",
	"cap: <= -> < #1":          "at exactly the limit the target moves by nothing",
	"cap: <= -> < #2":          "at exactly the limit the rest is scaled by 1",
	"cap: > -> >= #1":          "a negative Kp was refused before, and with 0 the division's infinity is clamped and its torque is 0",
	"cap: > -> >= #2":          "at exactly the limit Kp is scaled by 1 and the rest has no room either way",
	"inForce: - -> + #1":       "a state a quarter of a second on its way has damped the robot before",
	"inForce: < -> <= #2":      "a frame sent in the very nanosecond in which the state was sensed",
	"keepTime: + -> - #1":      "differs by the slack of one period, 0.4 us",
	"keepTime: < -> <= #1":     "an equal tick returned before",
	"keepTime: < -> <= #2":     "equal offsets are the same offset",
	"motion: > -> >= #2":       "no float32 speed is exactly 0.8 of a limit",
	"sender: > -> >= #1":       "no float32 speed is exactly 0.3 of a motor's highest",
	"slow: < -> <= #1":         "no float32 speed is exactly 0.01",
}

// mutants makes every mutant of a file: each comparison and arithmetic operator
// replaced, each && and || exchanged, each condition turned round, and each
// call that acts, warns, counts or refuses left out.
func mutants(t *testing.T, file string) []mutant.Mutant {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	swaps := map[token.Token][]token.Token{
		token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
		token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
		token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
		token.LAND: {token.LOR}, token.LOR: {token.LAND},
		token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO},
	}
	seen := map[string]int{}
	var all []mutant.Mutant
	emit := func(fset *token.FileSet, f *ast.File, fn, what string) {
		seen[fn+what]++
		var b bytes.Buffer
		if err := format.Node(&b, fset, f); err != nil {
			t.Fatal(err)
		}
		all = append(all, mutant.Mutant{Name: fmt.Sprintf("%s: %s #%d", fn, what, seen[fn+what]), File: file, Source: b.Bytes()})
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				for _, op := range swaps[n.Op] {
					old := n.Op
					n.Op = op
					emit(fset, f, fn.Name.Name, fmt.Sprintf("%s -> %s", old, op))
					n.Op = old
				}
			case *ast.BlockStmt:
				for i, s := range n.List {
					if call := acting(s); call != "" {
						n.List[i] = &ast.EmptyStmt{}
						emit(fset, f, fn.Name.Name, "without "+call)
						n.List[i] = s
					}
				}
			case *ast.CaseClause:
				for i, s := range n.Body {
					if call := acting(s); call != "" {
						n.Body[i] = &ast.EmptyStmt{}
						emit(fset, f, fn.Name.Name, "without "+call)
						n.Body[i] = s
					}
				}
			}
			return true
		})
	}
	sort.SliceStable(all, func(i, k int) bool { return all[i].Name < all[k].Name })
	return all
}

// acting names a statement that only exists for its effect.
func acting(s ast.Stmt) string {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				return sel.Sel.Name
			}
		}
	case *ast.IncDecStmt:
		return strings.TrimSpace(s.Tok.String())
	}
	return ""
}
