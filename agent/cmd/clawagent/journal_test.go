package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
)

// fullDisk takes so many bytes more.
type fullDisk struct {
	bytes.Buffer
	room int
}

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

// TestJournalBehindAFullDisk: a disk that was full costs the lines that found it so, and none behind them.
func TestJournalBehindAFullDisk(t *testing.T) {
	for _, part := range []int{0, 1, 20} { // bytes of a line that are taken still
		d := &fullDisk{room: 1000}
		log := slog.New(slog.NewJSONHandler(&lineWriter{f: d}, nil))
		log.Info("first")
		d.room = part
		log.Info("lost")
		log.Info("lost too")
		d.room = 1000
		log.Info("second")
		log.Info("third")
		var said []string
		for line := range bytes.Lines(d.Bytes()) {
			var l struct{ Msg string }
			if err := json.Unmarshal(line, &l); err == nil {
				said = append(said, l.Msg)
			} else if part == 0 || len(line) != part+1 {
				t.Errorf("%d bytes of room: a damaged line %q", part, line)
			}
		}
		if len(said) != 3 || said[1] != "second" || said[2] != "third" {
			t.Errorf("%d bytes of room: lines %q", part, said)
		}
	}
}
