//go:build torch

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// console prints what training says: lines, and where a person watches also a last line that changes. Errors of writing do not stop
// the work.
type console struct {
	w     io.Writer
	file  *os.File // nil: nobody watches
	drawn bool     // a last line stands
}

func newConsole(w io.Writer) *console { return &console{w: w, file: terminal(w)} }

// line prints a line, or several.
func (c *console) line(format string, args ...any) {
	c.clear()
	fmt.Fprintf(c.w, format+"\n", args...)
}

// last redraws the last line, which is cut to the terminal's width.
func (c *console) last(text string) {
	if c.file == nil {
		return
	}
	if size, err := unix.IoctlGetWinsize(int(c.file.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 1 && len(text) >= int(size.Col) {
		text = text[:size.Col-1]
	}
	fmt.Fprint(c.w, "\r\x1b[K", text)
	c.drawn = true
}

// clear removes the last line.
func (c *console) clear() {
	if c.drawn {
		fmt.Fprint(c.w, "\r\x1b[K")
		c.drawn = false
	}
}

// drawn is share, 0..1, as a bar, with the time left.
func drawn(share float64, left time.Duration) string {
	const width = 30
	n := int(min(max(share, 0), 1) * width)
	return fmt.Sprintf("[%s%s] %3.0f %%, %v left", strings.Repeat("#", n), strings.Repeat("-", width-n), 100*share, left.Round(time.Second))
}
