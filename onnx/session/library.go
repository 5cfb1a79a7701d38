package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// ErrNoLibrary is what Open and Library answer when ONNX Runtime cannot be used.
var ErrNoLibrary = errors.New("ONNX Runtime is not available")

// PathVariable names the environment variable that holds the library's path.
const PathVariable = "OPENCLAW_ONNXRUNTIME"

const libraryName = "libonnxruntime.so"

// Runtime says which ONNX Runtime this process uses.
type Runtime struct {
	Path    string // of the shared library
	Version string // e.g. "1.28.0"
}

// Library loads ONNX Runtime, once a process. The error unwraps to ErrNoLibrary
// and says what to do.
func Library() (Runtime, error) { return library() }

var library = sync.OnceValues(func() (r Runtime, err error) {
	exe, _ := os.Executable() // "": not looked beside it
	cwd, _ := os.Getwd()
	if r.Path, err = findLibrary(os.Getenv(PathVariable), exe, cwd); err != nil {
		return r, err
	}
	onOrdinaryThread(func() {
		ort.SetSharedLibraryPath(r.Path)
		err = ort.InitializeEnvironment(ort.WithLogLevelError())
	})
	if err != nil {
		// The binding speaks API 24; an older library answers that it has none.
		return r, fmt.Errorf("session: %w: %s: %w (ONNX Runtime 1.24 or newer is wanted; run make deps)", ErrNoLibrary, r.Path, err)
	}
	r.Version = ort.GetVersion()
	return r, nil
})

// findLibrary gives the library's path. env is $OPENCLAW_ONNXRUNTIME, exe the
// program's path, cwd the working folder; each may be "".
func findLibrary(env, exe, cwd string) (string, error) {
	if env != "" {
		if info, err := os.Stat(env); err != nil || !info.Mode().IsRegular() {
			return "", fmt.Errorf("session: %w: %s is %q, which is not a file", ErrNoLibrary, PathVariable, env)
		}
		return env, nil
	}
	deps := filepath.Join(".deps", runtime.GOOS+"-"+runtime.GOARCH, "lib", libraryName)
	var places []string
	above := func(dir string) {
		for {
			places = append(places, filepath.Join(dir, deps))
			up := filepath.Dir(dir)
			if up == dir {
				return
			}
			dir = up
		}
	}
	if exe != "" {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		dir := filepath.Dir(exe)
		places = append(places, filepath.Join(dir, libraryName), filepath.Join(filepath.Dir(dir), "lib", libraryName))
	}
	if cwd != "" {
		above(cwd)
	}
	if exe != "" {
		above(filepath.Dir(exe))
	}
	for _, p := range places {
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p, nil
		}
	}
	return "", fmt.Errorf("session: %w: run make deps, or set %s; looked for %s", ErrNoLibrary, PathVariable, strings.Join(places, ", "))
}

// onOrdinaryThread runs f on a thread that no one has locked: new goroutines
// never run on a locked thread, and Go starts threads from one that it keeps
// unchanged. So f's threads are ordinary ones even if the caller's is real-time.
func onOrdinaryThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}
