package virtual

import (
	"io"
	"math"
	"strconv"
	"sync"
	"time"
)

const (
	flushEvery = 50 * time.Millisecond
	// maxUnwritten is what is kept for a disk that does not take it, bytes; records beyond are counted and lost.
	maxUnwritten = 64 << 20
)

// logger collects records from the robot's thread and writes them from a goroutine of its own, so that a slow disk never holds up
// physics. All records of one robot come from one thread.
type logger struct {
	out io.Writer // nil: none

	mu   sync.Mutex
	full []byte // records not handed over yet
	lost int
	err  error // first error of out

	line []byte // record being made; the robot's thread only
	stop chan struct{}
	done chan struct{}
}

func newLogger(out io.Writer) *logger {
	l := &logger{out: out, stop: make(chan struct{}), done: make(chan struct{})}
	if out == nil {
		close(l.done)
		return l
	}
	go l.run()
	return l
}

func (l *logger) run() {
	defer close(l.done)
	var writing []byte
	flush := func() {
		l.mu.Lock()
		writing, l.full = l.full, writing[:0]
		l.mu.Unlock()
		if len(writing) == 0 {
			return
		}
		if _, err := l.out.Write(writing); err != nil {
			l.mu.Lock()
			if l.err == nil {
				l.err = err
			}
			l.mu.Unlock()
		}
	}
	every := time.NewTicker(flushEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			flush()
		case <-l.stop:
			flush()
			return
		}
	}
}

// close writes what is left and returns the first error there was. It may be called once.
func (l *logger) close() error {
	close(l.stop)
	<-l.done
	return l.err
}

// begin starts a record; end hands it over. Between them the fields, each by one call.
func (l *logger) begin(event string, t float64, tick uint32) *logger {
	l.line = append(l.line[:0], `{"t":`...)
	l.line = strconv.AppendFloat(l.line, t, 'f', 3, 64)
	l.line = append(l.line, `,"tick":`...)
	l.line = strconv.AppendUint(l.line, uint64(tick), 10)
	return l.text("event", event)
}

func (l *logger) end() {
	l.line = append(l.line, "}\n"...)
	if l.out == nil {
		return
	}
	l.mu.Lock()
	if len(l.full) < maxUnwritten {
		l.full = append(l.full, l.line...)
	} else {
		l.lost++
	}
	l.mu.Unlock()
}

func (l *logger) key(key string) {
	l.line = append(l.line, ',', '"')
	l.line = append(l.line, key...)
	l.line = append(l.line, '"', ':')
}

// text appends a string; control bytes and what JSON reserves are escaped.
func (l *logger) text(key, s string) *logger {
	l.key(key)
	l.line = append(l.line, '"')
	for _, r := range s { // ranging makes bytes that are no UTF-8 into U+FFFD
		switch {
		case r == '"' || r == '\\':
			l.line = append(l.line, '\\', byte(r))
		case r < 0x20:
			l.line = append(l.line, '\\', 'u', '0', '0', "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			l.line = append(l.line, string(r)...)
		}
	}
	l.line = append(l.line, '"')
	return l
}

func (l *logger) flag(key string, v bool) *logger {
	l.key(key)
	l.line = strconv.AppendBool(l.line, v)
	return l
}

func (l *logger) count(key string, v int64) *logger {
	l.key(key)
	l.line = strconv.AppendInt(l.line, v, 10)
	return l
}

func (l *logger) number(key string, v float64) *logger {
	l.key(key)
	l.value(v)
	return l
}

func (l *logger) list(key string, v ...float64) *logger {
	l.key(key)
	l.line = append(l.line, '[')
	for i, x := range v {
		if i > 0 {
			l.line = append(l.line, ',')
		}
		l.value(x)
	}
	l.line = append(l.line, ']')
	return l
}

// value appends a number with six digits; JSON has no NaN and no infinities, they become null.
func (l *logger) value(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		l.line = append(l.line, "null"...)
		return
	}
	l.line = strconv.AppendFloat(l.line, v, 'g', 6, 64)
}

// raw appends JSON made elsewhere.
func (l *logger) raw(key string, json []byte) *logger {
	l.key(key)
	l.line = append(l.line, json...)
	return l
}
