//go:build torch

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeClawsim is a program that notes its command line in the folder, does what a shell script says, and writes the video it is told to.
func fakeClawsim(t *testing.T, folder, script string) string {
	t.Helper()
	path := filepath.Join(folder, "clawsim")
	text := fmt.Sprintf("#!/bin/sh\ncd %s\n"+`echo "$@" >> calls
while [ "$1" != --policy ]; do shift; done
policy=$2
while [ "$1" != --video ]; do shift; done
%s
cat "$policy" > "$2"
`, folder, script)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// text is a file's, "" where there is none.
func text(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// appears waits for a file.
func appears(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); text(path) == ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not appear", path)
		}
	}
}

func write(t *testing.T, path, s string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Of the policies that wait for their turn the newest is rendered, and each as it was when it was asked for.
func TestClipsOfEach(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.onnx")
	var said bytes.Buffer
	s := newScreen(&said, &Config{})
	c := clipsBy(fakeClawsim(t, dir, "while [ ! -e go ]; do sleep 0.01; done"), dir)
	for i, content := range []string{"first", "second", "third"} {
		write(t, policy, content)
		c.best(s, policy, int64(i+1), true)
		if i == 0 {
			appears(t, filepath.Join(dir, "calls"))
		}
	}
	write(t, policy, "changed")
	write(t, filepath.Join(dir, "go"), "go")
	newest := c.finish(t.Context(), s, policy)
	if want := filepath.Join(dir, "clips", "iteration-000003.webm"); newest != want || text(newest) != "third" {
		t.Errorf("newest is %s with %q, want %s", newest, text(newest), want)
	}
	if text(filepath.Join(dir, "clips", "iteration-000001.webm")) != "first" || text(filepath.Join(dir, "clips", "iteration-000002.webm")) != "" {
		t.Error("the first is another policy's, or one was rendered that a newer one had overtaken")
	}
	calls := text(filepath.Join(dir, "calls"))
	if !strings.HasPrefix(calls, "play --policy ") || !strings.Contains(calls, "/iteration-1.onnx --world eval_v1 --physics lean --rows 4 --seconds 10 --threads 1 --video ") ||
		strings.Count(calls, "\n") != 2 {
		t.Errorf("it was told %q", calls)
	}
	for _, word := range strings.Fields(calls) {
		if strings.HasSuffix(word, ".onnx") && text(word) != "" {
			t.Errorf("%s is left", word)
		}
	}
	c.close()
	if said.String() != "" {
		t.Errorf("said %q", said.String())
	}
}

// With last there is one clip, of the policy at the end; a run without a new policy has none.
func TestClipOfTheLast(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.onnx")
	s := newScreen(&bytes.Buffer{}, &Config{})
	c := clipsBy(fakeClawsim(t, dir, ""), dir)
	c.best(s, policy, 1, false)
	write(t, policy, "last")
	c.best(s, policy, 2, false)
	if newest := c.finish(t.Context(), s, policy); newest != filepath.Join(dir, "clip.webm") || text(newest) != "last" || strings.Count(text(filepath.Join(dir, "calls")), "\n") != 1 {
		t.Errorf("%s has %q", newest, text(newest))
	}
	c.close()
	c = clipsBy(filepath.Join(dir, "clawsim"), dir)
	if newest := c.finish(t.Context(), s, policy); newest != "" {
		t.Errorf("nothing was asked for: %s", newest)
	}
	c = nil
	c.best(s, policy, 1, true)
	if newest := c.finish(t.Context(), s, policy); newest != "" {
		t.Errorf("none: %s", newest)
	}
	c.close()
}

// What goes wrong is said once, and nothing waits for it.
func TestClipsThatFail(t *testing.T) {
	for name, program := range map[string]func(dir string) string{
		"clawsim is not beside this program: stat": func(dir string) string { return filepath.Join(dir, "none") },
		"clawsim: video: no chromium on this machine": func(dir string) string {
			return fakeClawsim(t, dir, `echo "more" >&2; echo "clawsim: video: no chromium on this machine" >&2; exit 3`)
		},
		"clawsim: exit status 1": func(dir string) string { return fakeClawsim(t, dir, `exit 1`) },
	} {
		dir := t.TempDir()
		policy := filepath.Join(dir, "policy.onnx")
		write(t, policy, "policy")
		var said bytes.Buffer
		s := newScreen(&said, &Config{})
		c := clipsBy(program(dir), dir)
		for i := range int64(3) {
			c.best(s, policy, i, true)
		}
		if newest := c.finish(t.Context(), s, policy); newest != "" || strings.Count(said.String(), "no clip: ") != 1 || !strings.Contains(said.String(), name) {
			t.Errorf("%s: clip %q, said %q", name, newest, said.String())
		}
		c.close()
	}
}

// Where clawsim says that something is not on this machine, it is not started for each new best again.
func TestClipsUnavailable(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.onnx")
	write(t, policy, "policy")
	for code, want := range map[int]int{3: 1, 1: 2} {
		calls := filepath.Join(dir, "calls")
		write(t, calls, "")
		var said bytes.Buffer
		s := newScreen(&said, &Config{})
		c := clipsBy(fakeClawsim(t, dir, fmt.Sprintf("exit %d", code)), dir)
		c.best(s, policy, 1, true)
		for end := time.Now().Add(time.Minute); c.left.Load() > 0 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		c.best(s, policy, 2, true)
		if newest := c.finish(t.Context(), s, policy); newest != "" || strings.Count(text(calls), "\n") != want || strings.Count(said.String(), "no clip: ") != 1 {
			t.Errorf("exit code %d: clip %q, %d calls, want %d, said %q", code, newest, strings.Count(text(calls), "\n"), want, said.String())
		}
		c.close()
	}
}

// writer is a function that takes what is written.
type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// A person is told what the end of a run waits for, also when its rendering has begun, and only where there is something.
func TestClipIsAwaited(t *testing.T) {
	for name, test := range map[string]struct{ each, begun, over bool }{"last": {}, "under way": {each: true, begun: true}, "over": {each: true, over: true}} {
		dir := t.TempDir()
		policy, ready, proceed := filepath.Join(dir, "policy.onnx"), filepath.Join(dir, "ready"), filepath.Join(dir, "go")
		write(t, policy, "policy")
		said, want := "", "rendering the clip; Ctrl-C skips it\n"
		s := newScreen(writer(func(p []byte) { said += string(p); write(t, proceed, "go") }), &Config{})
		s.file = os.Stderr // a person watches
		c := clipsBy(fakeClawsim(t, dir, "echo ready > ready; while [ ! -e go ]; do sleep 0.01; done"), dir)
		if test.over {
			want = ""
			write(t, proceed, "go")
		}
		c.best(s, policy, 1, test.each)
		if test.begun {
			appears(t, ready)
		}
		for end := time.Now().Add(time.Minute); test.over && c.left.Load() > 0 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if newest := c.finish(ctx, s, policy); text(newest) != "policy" || said != want {
			t.Errorf("%s: clip %q, said %q, want %q", name, newest, said, want)
		}
		cancel()
		c.close()
	}
}

// The end of a run does not wait for ever.
func TestClipTakesTooLong(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.onnx")
	write(t, policy, "policy")
	var said bytes.Buffer
	s := newScreen(&said, &Config{})
	c := clipsBy(fakeClawsim(t, dir, "while :; do sleep 0.01; done"), dir)
	c.limit = 50 * time.Millisecond
	c.best(s, policy, 1, false)
	if newest := c.finish(t.Context(), s, policy); newest != "" || !strings.Contains(said.String(), "clawsim: not done within 50ms\n") {
		t.Errorf("clip %q, said %q", newest, said.String())
	}
	c.close()
}

// One that does not end when told to is killed with what it has started, and nothing of its video is left.
func TestClipKilled(t *testing.T) {
	dir := t.TempDir()
	policy, ready, held := filepath.Join(dir, "policy.onnx"), filepath.Join(dir, "ready"), filepath.Join(dir, "held")
	write(t, policy, "policy")
	// Its child holds a pipe, which is at its end when the child is gone.
	if err := syscall.Mkfifo(held, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(held, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	s := newScreen(&bytes.Buffer{}, &Config{})
	c := clipsBy(fakeClawsim(t, dir, `trap '' TERM
echo half > "$(dirname "$2")/.$(basename "$2").17.part"
(echo ready > ready; exec sleep 1000) > held`), dir)
	c.end = 50 * time.Millisecond
	c.best(s, policy, 1, true)
	appears(t, ready)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if newest := c.finish(ctx, s, policy); newest != "" {
		t.Errorf("clip %q", newest)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "clips")); err != nil || len(left) > 0 {
		t.Errorf("left %v: %v", left, err)
	}
	if err := pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := pipe.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("its child lives: %v", err)
	}
	c.close()
}

// A person who wants to go does not wait for the clip, and one who wanted to before it began gets none.
func TestClipSkipped(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.onnx")
	write(t, policy, "policy")
	var said bytes.Buffer
	s := newScreen(&said, &Config{})
	c := clipsBy(fakeClawsim(t, dir, `trap 'echo told > told; exit 1' TERM; echo ready > ready; while :; do sleep 0.01; done`), dir)
	c.best(s, policy, 1, false)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for end := time.Now().Add(time.Minute); text(filepath.Join(dir, "ready")) == "" && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if newest := c.finish(ctx, s, policy); newest != "" || text(filepath.Join(dir, "told")) == "" || said.String() != "" {
		t.Errorf("clip %q, said %q", newest, said.String())
	}
	c.close()
	c = clipsBy(filepath.Join(dir, "clawsim"), dir)
	c.best(s, policy, 1, false)
	if newest := c.finish(ctx, s, policy); newest != "" || strings.Count(text(filepath.Join(dir, "calls")), "\n") != 1 {
		t.Errorf("clip %q", newest)
	}
	c.close()
}
