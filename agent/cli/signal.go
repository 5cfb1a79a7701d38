package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// StopStages gives a program that moves a robot its two ways to end: the first Ctrl-C (SIGINT), SIGTERM or SIGHUP cancels sit, and
// the program should lie the robot down; the second cancels damp, and it should send damping and leave. The cause of each names the
// signal. SIGQUIT (Ctrl-\) is taken for both at once. Further ones are ignored, since ending before the damping frames are out would
// leave the robot on its last command; SIGKILL still ends the process. A SIGHUP ignored at start (nohup) stays ignored. SIGPIPE is ignored until release, so that a closed
// terminal or `| head` turns a print into an error instead of ending the loop. Cancelling parent cancels both.
//
// Call release when the program no longer moves anything: signals then act as usual again, and both contexts are cancelled.
func StopStages(parent context.Context) (sit, damp context.Context, release func()) {
	damp, cancelDamp := context.WithCancelCause(parent)
	sit, cancelSit := context.WithCancelCause(damp)
	watched := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) {
		watched = append(watched, syscall.SIGHUP)
	}
	pipeWasIgnored := signal.Ignored(syscall.SIGPIPE)
	signal.Ignore(syscall.SIGPIPE)
	arrived := make(chan os.Signal, 2)
	signal.Notify(arrived, watched...)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for stage := 0; ; stage++ {
			select {
			case <-done:
				return
			case s := <-arrived:
				switch {
				case s == syscall.SIGQUIT:
					cancelDamp(fmt.Errorf("signal: %v", s))
				case stage == 0:
					cancelSit(fmt.Errorf("signal: %v", s))
				default:
					cancelDamp(fmt.Errorf("second signal: %v", s))
				}
			}
		}
	}()
	released := false
	return sit, damp, func() {
		if released {
			return
		}
		released = true
		signal.Stop(arrived)
		if !pipeWasIgnored {
			signal.Reset(syscall.SIGPIPE)
		}
		close(done)
		<-ended
		cancelDamp(context.Canceled)
	}
}
