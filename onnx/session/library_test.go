package session

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestFindLibrary(t *testing.T) {
	root := t.TempDir()
	deps := filepath.Join(".deps", runtime.GOOS+"-"+runtime.GOARCH, "lib", libraryName)
	for _, p := range []string{filepath.Join("repo", deps), filepath.Join("shipped", libraryName), filepath.Join("installed/lib", libraryName),
		"elsewhere/ort.so", "installed/bin/prog", "shipped/prog", "repo/bin/prog", "empty/prog"} {
		p = filepath.Join(root, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, nil, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "repo/onnx/session"), 0o700),
		os.Symlink(filepath.Join(root, "installed/bin/prog"), filepath.Join(root, "empty/link"))); err != nil {
		t.Fatal(err)
	}
	at := func(s string) string {
		if s == "" {
			return ""
		}
		return filepath.Join(root, s)
	}
	for _, test := range []struct {
		name, env, exe, cwd, want string // want "": an error
	}{
		{"beside the program", "", "shipped/prog", "", "shipped/" + libraryName},
		{"in ../lib", "", "installed/bin/prog", "", "installed/lib/" + libraryName},
		{"through a link", "", "empty/link", "", "installed/lib/" + libraryName},
		{"source tree above the working folder", "", "", "repo/onnx/session", "repo/" + deps},
		{"source tree above the program", "", "repo/bin/prog", "empty", "repo/" + deps},
		{"the program's own before the source tree's", "", "shipped/prog", "repo", "shipped/" + libraryName},
		{"the variable before all", "elsewhere/ort.so", "shipped/prog", "repo", "elsewhere/ort.so"},
		{"the variable alone", "elsewhere/none.so", "shipped/prog", "repo", ""},
		{"the variable names a folder", "shipped", "shipped/prog", "repo", ""},
		{"nowhere", "", "empty/prog", "empty", ""},
	} {
		got, err := findLibrary(at(test.env), at(test.exe), at(test.cwd))
		if got != at(test.want) || (err != nil) != (test.want == "") {
			t.Errorf("%s: %q, %v, want %q", test.name, got, err, test.want)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrNoLibrary) {
			t.Errorf("%s: %v is not ErrNoLibrary", test.name, err)
		}
		want := []string{PathVariable, at(test.env)}
		if test.env == "" {
			want = []string{"run make deps", at("empty/" + libraryName), at(filepath.Join("empty", deps)), "/" + deps}
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v: want %q in it", test.name, err, w)
			}
		}
	}
}

func TestLibrary(t *testing.T) {
	r, err := Library()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.Version, "1.") || !filepath.IsAbs(r.Path) {
		t.Errorf("got %+v", r)
	}
}
