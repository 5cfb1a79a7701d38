//go:build linux

package guard

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// asideRecords wait at most for who takes the log; those beyond are dropped, and counted.
	asideRecords = 256
	// asideTime is how long the last records may take.
	asideTime = time.Second
)

// aside is a log that holds nobody up: one goroutine hands its records on. Whoever reads the guard's log may stop (Ctrl-S on a terminal, a
// full pipe), and a guard that waited for that would see no agent end and answer no other.
type aside struct {
	records   chan asideRecord
	dropped   atomic.Uint64
	over, out chan struct{} // no more records come; all are written
}

type asideRecord struct {
	slog.Record
	to slog.Handler
}

func newAside() *aside {
	return &aside{records: make(chan asideRecord, asideRecords), over: make(chan struct{}), out: make(chan struct{})}
}

// run hands the records on until close.
func (a *aside) run() {
	defer close(a.out)
	for {
		select {
		case r := <-a.records:
			a.write(r)
			continue
		default:
		}
		select {
		case r := <-a.records:
			a.write(r)
		case <-a.over:
			if len(a.records) == 0 {
				return
			}
		}
	}
}

// write is not told of what fails: there is nobody to tell.
func (a *aside) write(r asideRecord) {
	_ = r.to.Handle(context.Background(), r.Record)
	if n := a.dropped.Swap(0); n > 0 {
		lost := slog.NewRecord(time.Now(), slog.LevelWarn, "records of this log were dropped: nobody took them", 0)
		lost.Add("dropped", n)
		_ = r.to.Handle(context.Background(), lost)
	}
}

// close waits a while until all is written. Nothing is logged any more.
func (a *aside) close() {
	close(a.over)
	select {
	case <-a.out:
	case <-time.After(asideTime):
	}
}

// asideHandler is a slog.Handler of an aside.
type asideHandler struct {
	to slog.Handler
	by *aside
}

func (h asideHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.to.Enabled(ctx, l) }

func (h asideHandler) Handle(_ context.Context, r slog.Record) error {
	select {
	case h.by.records <- asideRecord{r.Clone(), h.to}:
	default:
		h.by.dropped.Add(1)
	}
	return nil
}

func (h asideHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return asideHandler{h.to.WithAttrs(attrs), h.by}
}

func (h asideHandler) WithGroup(name string) slog.Handler {
	return asideHandler{h.to.WithGroup(name), h.by}
}
