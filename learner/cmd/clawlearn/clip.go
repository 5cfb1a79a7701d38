//go:build torch

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

// A clip is clipSeconds of clipRows robots in eval_v1. Rendering it takes about half a minute of one core, most of it the browser's.
const (
	clipSeconds, clipRows = "10", "4"
	clipLimit             = 10 * time.Minute // for one: training leaves it little of a small machine
	clipEnd               = 30 * time.Second // from being told to end: clawsim gives its browser 5 s, and both run at the lowest priority
)

// clips renders videos of a run's best policies by clawsim, the program beside this one: one at a time, at the lowest priority, while
// training goes on. A policy that waits its turn is dropped for a newer one. What goes wrong is said once, and no reason to stop.
//
//	trial.keep ── want ─► job ─► worker: nice clawsim play --video ─► clips/iteration-N.webm, or clip.webm at the run's end
//
// A nil *clips renders nothing. Its methods are called on the goroutine that trains.
type clips struct {
	folder, program string
	fresh           bool // the run has a policy that was never asked for here
	said            bool
	jobs            chan clipJob
	left            atomic.Int32  // jobs asked for and not over, the one under way too
	limit, end      time.Duration // clipLimit and clipEnd
	trouble         chan error    // of the worker
	idle            chan struct{} // closed when the worker has ended
	newest          string        // video; after idle
	kill            func()
}

// clipJob is one video to render.
type clipJob struct{ policy, video string }

// newClips starts the worker.
func newClips(folder string) (*clips, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return clipsBy(filepath.Join(filepath.Dir(self), "clawsim"), folder), nil
}

func clipsBy(program, folder string) *clips {
	ctx, kill := context.WithCancel(context.Background())
	c := &clips{folder: folder, program: program, jobs: make(chan clipJob, 1), limit: clipLimit, end: clipEnd,
		trouble: make(chan error, 1), idle: make(chan struct{}), kill: kill}
	go c.work(ctx)
	return c
}

// work renders until jobs is closed. Once clawsim has said that something is not on this machine, it is not asked again.
func (c *clips) work(ctx context.Context) {
	// A child is told to end when the thread that started it ends: it must not before the child, and ends with this goroutine.
	runtime.LockOSThread()
	defer close(c.idle)
	unavailable := false
	for j := range c.jobs {
		if ctx.Err() == nil && !unavailable {
			if err := c.render(ctx, j); err == nil {
				c.newest = j.video
			} else if ctx.Err() == nil {
				unavailable = cli.ExitCode(err) == cli.ExitNotAvailable
				select {
				case c.trouble <- err:
				default: // one is enough
				}
			}
		}
		c.drop(j)
	}
}

// drop forgets a job that is over.
func (c *clips) drop(j clipJob) {
	_ = os.RemoveAll(filepath.Dir(j.policy))
	c.left.Add(-1)
}

// render runs clawsim. The error is marked as not available where clawsim's is.
func (c *clips) render(ctx context.Context, j clipJob) error {
	folder, name := filepath.Dir(j.video), filepath.Base(j.video)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, c.limit)
	defer stop()
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", c.program, "play", "--policy", j.policy, "--world", "eval_v1", "--physics", "lean",
		"--rows", clipRows, "--seconds", clipSeconds, "--threads", "1", "--video", j.video, "--json")
	// A terminal's Ctrl-C is this program's to answer.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = c.end
	var errs strings.Builder
	cmd.Stderr = &errs
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if cmd.Process != nil {
		// One that did not end in time, or crashed, leaves its browser, which is of its group, and the video so far.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		parts, _ := fs.Glob(os.DirFS(folder), "."+name+".*.part")
		for _, part := range parts {
			_ = os.Remove(filepath.Join(folder, part))
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: not done within %v", c.program, c.limit)
	}
	if last := strings.TrimSpace(errs.String()); last != "" {
		err = errors.New(last[strings.LastIndex(last, "\n")+1:])
	} else {
		err = fmt.Errorf("%s: %w", c.program, err)
	}
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == cli.ExitNotAvailable {
		err = cli.NotAvailable(err)
	}
	return err
}

// want asks for a clip of the policy in the file, which may change from now on.
func (c *clips) want(policy, name, video string) error {
	if _, err := os.Stat(c.program); err != nil {
		return fmt.Errorf("clawsim is not beside this program: %w", err)
	}
	dir, err := os.MkdirTemp("", "clawlearn-clip-")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(policy)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	select {
	case old := <-c.jobs:
		c.drop(old)
	default:
	}
	c.left.Add(1)
	c.jobs <- clipJob{filepath.Join(dir, name), filepath.Join(c.folder, video)} // there is room: nobody else sends
	return nil
}

// best says that the run has a new best policy; with each it is wanted at once.
func (c *clips) best(s *screen, policy string, iteration int64, each bool) {
	if c == nil {
		return
	}
	if c.fresh = !each; each {
		c.say(s, c.want(policy, fmt.Sprintf("iteration-%d.onnx", iteration), fmt.Sprintf("clips/iteration-%06d.webm", iteration)))
	}
	c.hear(s)
}

// finish waits for what is under way and wanted, and gives the newest video. When ctx ends, at once or later, it waits for nothing more.
func (c *clips) finish(ctx context.Context, s *screen, policy string) (video string) {
	if c == nil {
		return ""
	}
	if c.fresh && ctx.Err() == nil {
		c.say(s, c.want(policy, filepath.Base(policy), "clip.webm"))
	}
	close(c.jobs)
	if c.left.Load() > 0 && s.file != nil {
		s.line("rendering the clip; Ctrl-C skips it")
	}
	select {
	case <-c.idle:
	case <-ctx.Done():
		c.kill()
		<-c.idle
	}
	c.jobs = nil
	c.hear(s)
	return c.newest
}

// close ends what a run that failed has left.
func (c *clips) close() {
	if c == nil {
		return
	}
	c.kill()
	if c.jobs != nil {
		close(c.jobs)
	}
	<-c.idle
}

func (c *clips) hear(s *screen) {
	select {
	case err := <-c.trouble:
		c.say(s, err)
	default:
	}
}

// say tells of the first trouble.
func (c *clips) say(s *screen, err error) {
	if err != nil && !c.said {
		c.said = true
		s.line("no clip: %v", err)
	}
}
