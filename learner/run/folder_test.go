package run

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// config is a resolved configuration such as clawlearn has.
type config struct {
	Preset string        `yaml:"preset"`
	Rows   int           `yaml:"rows"`
	Every  time.Duration `yaml:"every"`
	Algo   algo          `yaml:"algo"`
	Hidden []int         `yaml:"hidden"`
	Names  []string      `yaml:"names"`
}

type algo struct {
	Gamma  float64 `yaml:"gamma"`
	Clip   float32 `yaml:"clip"`
	Tiny   float64 `yaml:"tiny"`
	Huge   float64 `yaml:"huge"`
	Whole  float64 `yaml:"whole"`
	Mirror bool    `yaml:"mirror"`
}

func someConfig() config {
	return config{"walk: #1", 256, 90 * time.Second, algo{0.97, 0.2, 1e-7, 1e22, 3, true}, []int{128, 128}, []string{"no", "1e3", "", "null", " x", "ü\n\"'"}}
}

func mustCreate(t *testing.T) *Folder {
	t.Helper()
	f, err := Create(filepath.Join(t.TempDir(), "run"), someConfig(), Describe("clawlearn", "1.2.3", "0123abcd-dirty"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func reopen(t *testing.T, f *Folder) *Folder {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(f.Dir, Describe("clawlearn", "1.2.4", "4567ef"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestCreateAndOpen(t *testing.T) {
	f := mustCreate(t)
	if _, err := f.Latest(); !errors.Is(err, ErrNoCheckpoint) {
		t.Errorf("a new run: %v", err)
	}
	f.Meta.Seeds["rows"] = 1
	f = reopen(t, f)
	var got config
	if err := f.Config(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(someConfig(), got); diff != "" {
		t.Errorf("configuration: %s", diff)
	}
	m := f.Meta
	if m.Program != "clawlearn" || m.Version != "1.2.3" || m.Commit != "0123abcd" || !m.Dirty || !slices.Equal(m.Command, os.Args) ||
		m.Started.IsZero() || m.Machine.Cores == 0 || m.Machine.Host == "" || m.Machine.OS == "" || m.Versions["go"] == "" || m.Resumed != nil {
		t.Errorf("meta: %+v", m)
	}
	if m.Seeds["rows"] != 0 {
		t.Error("a seed that was not there at Create")
	}
	// Nothing is resumed until training goes on.
	f = reopen(t, f)
	if f.Meta.Resumed != nil {
		t.Errorf("resumed by looking: %+v", f.Meta.Resumed)
	}
	for i := range int64(4) {
		if err := f.Log(i, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Save(&Checkpoint{Iteration: 3}); err != nil {
		t.Fatal(err)
	}
	f = reopen(t, f)
	if err := f.Save(&Checkpoint{Iteration: 3}); err != nil { // stopped before it did anything
		t.Fatal(err)
	}
	f = reopen(t, f)
	if err := f.Log(4, nil); err != nil {
		t.Fatal(err)
	}
	f = reopen(t, f)
	var from []int64
	for _, r := range f.Meta.Resumed {
		if r.Version != "1.2.4" || r.Dirty || r.Resumed != nil {
			t.Errorf("resumed: %+v", r)
		}
		from = append(from, r.From)
	}
	if diff := cmp.Diff([]int64{0, 3, 3}, from); diff != "" {
		t.Errorf("resumed from: %s", diff)
	}
	if got := logged(t, f); !slices.Equal(got, []int64{0, 1, 2, 3, 4}) {
		t.Errorf("logged %v", got)
	}
}

func TestCreateRefuses(t *testing.T) {
	type files map[string]string
	for _, test := range []struct {
		name   string
		there  files
		config any
		want   string // "": created
	}{
		{"new", nil, someConfig(), ""},
		{"map", nil, map[string]any{"a": 1}, ""},
		{"run", files{"meta.json": "{}"}, someConfig(), "holds a run already"},
		{"foreign", files{"thesis.tex": ""}, someConfig(), "it holds thesis.tex"},
		{"checkpoints", files{"checkpoints/000001": ""}, someConfig(), "checkpoints is there already, and not empty"},
		{"left by a killed Create", files{"lock": "process 1", "config.yaml": "x: 1", ".new-meta.json-1": "{", "checkpoints/": ""}, someConfig(), ""},
		{"no keys", nil, []int{1}, "[]int is no set of keys and values"},
		{"nothing", nil, nil, "no set of keys and values"},
		{"channel", nil, map[string]any{"c": make(chan int)}, "configuration: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			for name, text := range test.there {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(name, "/") {
					os.Mkdir(path, 0o755)
				} else if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, dir)
			f, err := Create(dir, test.config, Describe("clawlearn", "", ""))
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if got, want := tree(t, dir), []string{"checkpoints/", "config.yaml", "lock", "meta.json"}; !slices.Equal(got, want) {
					t.Errorf("the folder has %q, want %q", got, want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "run: "+dir) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if after := tree(t, dir); !slices.Equal(before, after) {
				t.Errorf("refused, and made %q of %q", after, before)
			}
		})
	}
}

// tree names what lies in dir, folders with a slash; nil if dir is not there.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		if d.IsDir() {
			name += "/"
		}
		names = append(names, name)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, Meta{}); !errors.Is(err, ErrNoRun) || !strings.Contains(err.Error(), dir) {
		t.Errorf("an empty folder: %v", err)
	}
	if got := tree(t, dir); got != nil {
		t.Errorf("looking left %q", got)
	}
	if _, err := Open(filepath.Join(dir, "none"), Meta{}); !errors.Is(err, ErrNoRun) {
		t.Errorf("no folder: %v", err)
	}
	f := mustCreate(t)
	f.Close()
	if err := os.WriteFile(f.Path("meta.json"), []byte(`{"program":`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(f.Dir, Meta{}); err == nil || !strings.Contains(err.Error(), "meta.json") {
		t.Errorf("broken meta.json: %v", err)
	}
	if err := os.WriteFile(f.Path("meta.json"), []byte(`{}`), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(f.Dir, Meta{}) // the lock is free after a refusal
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, test := range []struct{ text, want string }{{"prest: walk", "prest"}, {"a: [", "config.yaml"}} {
		if err := os.WriteFile(f.Path("config.yaml"), []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := f.Config(new(config)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("configuration %q: %v", test.text, err)
		}
	}
}

func TestLock(t *testing.T) {
	f := mustCreate(t)
	for name, try := range map[string]func() (*Folder, error){
		"Open":   func() (*Folder, error) { return Open(f.Dir, Meta{}) },
		"Create": func() (*Folder, error) { return Create(f.Dir, someConfig(), Meta{}) },
	} {
		if _, err := try(); err == nil || name == "Open" && (!errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "process ")) {
			t.Errorf("%s beside a trainer: %v", name, err)
		}
	}
	// Another process: the lock is the system's.
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "RUN_TEST_OPEN="+f.Dir)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), ErrLocked.Error()) {
		t.Errorf("a second process: %v, %q", err, out)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("env", "RUN_TEST_OPEN="+f.Dir, os.Args[0], "-test.run=^$").CombinedOutput(); err != nil {
		t.Errorf("after Close: %v, %q", err, out)
	}
}

func TestClosed(t *testing.T) {
	f := mustCreate(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Close": f.Close(), "Log": f.Log(1, nil), "Save": f.Save(&Checkpoint{}), "SaveBest": f.SaveBest(&Checkpoint{}), "Rewind": f.Rewind(0),
	} {
		if closed := errors.Is(err, fs.ErrClosed); closed != (name != "Close") {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}
