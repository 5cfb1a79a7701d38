package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"
)

// terminal is the file of w where a person watches it, else nil.
func terminal(w io.Writer) *os.File {
	file, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return file
}

// bar is a progress bar where a person watches; nil shows nothing.
type bar struct {
	*progressbar.ProgressBar
	shown int
}

// barSteps is how finely a bar is drawn.
const barSteps = 1000

func newBar(w io.Writer, what string) *bar {
	if terminal(w) == nil {
		return nil
	}
	return &bar{ProgressBar: progressbar.NewOptions(barSteps, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())}
}

// share says how much is done, 0..1. A broken terminal does not stop the work.
func (b *bar) share(x float64) {
	if n := int(x * barSteps); b != nil && n > b.shown {
		b.shown = n
		_ = b.Set(n)
	}
}

func (b *bar) finish() {
	if b != nil {
		_ = b.Finish()
	}
}
