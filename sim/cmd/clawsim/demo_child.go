package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/openclaw-rl/openclaw/agent/cli"
)

const (
	childReady = 30 * time.Second // to the first line: a policy is loaded and replayed meanwhile
	childEnd   = 15 * time.Second // from Ctrl-C to the end: sitting down takes 4
	childLine  = 1 << 20          // bytes of one line of output that are kept
	childTail  = 5                // lines of its errors that are shown
)

// child is a program that the demo runs. It has a process group of its own, so that a terminal's Ctrl-C reaches the demo alone,
// which stops its children in order; and it gets SIGTERM when the demo dies without having done so.
type child struct {
	name  string
	cmd   *exec.Cmd
	lines lines
	errs  string        // file of its standard error
	done  chan struct{} // closed when it has ended
	err   error         // how it ended; after done
	told  bool          // somebody has asked for that, by died
}

// startChild starts a program whose standard output is JSON lines. The caller is locked to its thread, which lives as long as the
// child: the death signal comes when the thread ends.
func startChild(name, errs, program string, args ...string) (*child, error) {
	file, err := os.Create(errs)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the child has its own
	c := &child{name: name, errs: errs, done: make(chan struct{}), lines: lines{first: make(chan []byte, 1)}}
	c.cmd = exec.Command(program, args...)
	c.cmd.Stdout, c.cmd.Stderr = &c.lines, file
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// ready waits for the first line and decodes it.
func (c *child) ready(ctx context.Context, out any) error {
	limit := time.NewTimer(childReady)
	defer limit.Stop()
	select {
	case line := <-c.lines.first:
		if err := json.Unmarshal(line, out); err != nil {
			return fmt.Errorf("%s: its first line: %w", c.name, err)
		}
		return nil
	case <-c.done:
		return c.died()
	case <-limit.C:
		return fmt.Errorf("%s: not ready within %v%s", c.name, childReady, c.tail())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// died tells how it ended, with its last words. Its own "not available" is the demo's.
func (c *child) died() error {
	c.told = true
	err := fmt.Errorf("%s ended: %v%s", c.name, c.cmd.ProcessState, c.tail())
	if c.cmd.ProcessState.ExitCode() == cli.ExitNotAvailable {
		return cli.NotAvailable(err)
	}
	return err
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// tail is the end of what it wrote to standard error, for an error's end.
func (c *child) tail() string {
	b, err := os.ReadFile(c.errs)
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return fmt.Sprintf("\n  the end of %s:\n    %s", c.errs, strings.Join(all[max(len(all)-childTail, 0):], "\n    "))
}

// stop interrupts it and waits; when again is done it is interrupted a second time. After childEnd it is killed. nil: it ended with 0,
// or how it ended was told before.
func (c *child) stop(again context.Context) error {
	if c.told {
		return nil
	}
	limit := time.NewTimer(childEnd)
	defer limit.Stop()
	if !c.ended() {
		_ = c.cmd.Process.Signal(os.Interrupt) // one that has just ended is seen below
	}
	second := again.Done()
	for {
		select {
		case <-c.done:
			if c.err != nil {
				return c.died()
			}
			return nil
		case <-second:
			second = nil
			_ = c.cmd.Process.Signal(os.Interrupt)
		case <-limit.C:
			c.kill()
			return fmt.Errorf("%s: did not end within %v and was killed%s", c.name, childEnd, c.tail())
		}
	}
}

// kill ends it in any case, and does nothing where it has ended.
func (c *child) kill() {
	if c.ended() {
		return
	}
	_ = c.cmd.Process.Kill()
	<-c.done
}

// lines keeps the first and the last line written to it.
type lines struct {
	first chan []byte // gets the first

	mu   sync.Mutex
	part []byte // without its end yet
	last []byte
	n    int
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, p...)
	for {
		line, rest, whole := bytes.Cut(l.part, []byte("\n"))
		if !whole {
			break
		}
		l.last = bytes.Clone(line)
		if l.n++; l.n == 1 {
			l.first <- l.last
		}
		l.part = rest
	}
	if len(l.part) > childLine {
		return 0, fmt.Errorf("a line longer than %d bytes", childLine)
	}
	return len(p), nil
}

// summary decodes the last line, once there were two: ready, and how it ended.
func (l *lines) summary(out any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n < 2 {
		return errors.New("it printed no summary")
	}
	return json.Unmarshal(l.last, out)
}

// logFile is where a child's log of a name goes.
func (c *demoConfig) logFile(name string) string { return filepath.Join(c.out, name) }
