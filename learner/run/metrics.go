package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Value is one number of an iteration.
type Value struct {
	Tag   string // TensorBoard's and the key in metrics.jsonl: "Loss/value"
	Value float64
}

// Keys of a line of metrics.jsonl besides the tags.
const (
	iterationKey = "iteration"
	timeKey      = "time" // s since 1970
)

// Log writes an iteration's numbers, TensorBoard's step being the iteration. Each iteration is logged at most once, in rising order; tags may
// differ between iterations, and order is kept. A number that is not finite is written as null, and as itself for TensorBoard.
func (f *Folder) Log(iteration int64, values []Value) error {
	if err := f.log(iteration, values, time.Now()); err != nil {
		return fmt.Errorf("run: %s: log of iteration %d: %w", f.Dir, iteration, err)
	}
	return nil
}

func (f *Folder) log(iteration int64, values []Value, now time.Time) error {
	for i, v := range values {
		if v.Tag == "" || v.Tag == iterationKey || v.Tag == timeKey || !utf8.ValidString(v.Tag) {
			return fmt.Errorf("tag %q: empty, reserved or not UTF-8", v.Tag)
		}
		if slices.ContainsFunc(values[:i], func(w Value) bool { return w.Tag == v.Tag }) {
			return fmt.Errorf("tag %q: twice", v.Tag)
		}
	}
	if err := f.goOn(iteration, iteration-1); err != nil {
		return err
	}
	if iteration <= f.logged {
		return fmt.Errorf("logged already, the last was %d", f.logged)
	}
	line, err := appendLine(f.line[:0], iteration, values, now)
	if err != nil {
		return err
	}
	f.line = line
	if f.metrics == nil {
		if f.metrics, err = os.OpenFile(f.Path(metricsFile), os.O_WRONLY|os.O_CREATE, 0o644); err != nil {
			return err
		}
	}
	if f.events == nil {
		if f.events, err = newEvents(f.Dir, now, iteration); err != nil {
			return err
		}
	}
	if err := appendWhole(f.metrics, line); err != nil {
		return err
	}
	f.last, f.logged = iteration, iteration // the line stands, whatever comes of the event
	return f.events.write(now, iteration, values)
}

// appendLine appends a line of metrics.jsonl.
func appendLine(b []byte, iteration int64, values []Value, now time.Time) ([]byte, error) {
	b = append(b, `{"`+iterationKey+`":`...)
	b = strconv.AppendInt(b, iteration, 10)
	b = append(b, `,"`+timeKey+`":`...)
	b = strconv.AppendFloat(b, float64(now.UnixMilli())/1e3, 'f', 3, 64)
	for _, v := range values {
		var err error
		if b, err = jsontext.AppendQuote(append(b, ','), v.Tag); err != nil {
			return nil, err
		}
		b = append(b, ':')
		if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, v.Value, 'g', -1, 64)
		}
	}
	return append(b, '}', '\n'), nil
}

// closeLogs closes the files of Log, which opens them again.
func (f *Folder) closeLogs() error {
	var errs []error
	if f.metrics != nil {
		errs = append(errs, f.metrics.Close())
		f.metrics = nil
	}
	if f.events != nil {
		errs = append(errs, f.events.file.Close())
		f.events = nil
	}
	return errors.Join(errs...)
}

// readLine reads a line of metrics.jsonl; numbers that are null are left out.
func readLine(line []byte) (iteration int64, values map[string]float64, err error) {
	var raw map[string]*float64
	if err := json.Unmarshal(line, &raw); err != nil {
		return 0, nil, err
	}
	at := raw[iterationKey]
	if at == nil || *at != math.Trunc(*at) || *at < 0 || *at >= 1<<53 {
		return 0, nil, fmt.Errorf("no whole %q", iterationKey)
	}
	values = make(map[string]float64, len(raw))
	for tag, v := range raw {
		if v != nil {
			values[tag] = *v
		}
	}
	return int64(*at), values, nil
}

// cutMetrics takes back the lines of iterations after the given one, and what a killed process wrote in part.
func cutMetrics(path string, iteration int64) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	kept := make([]byte, 0, len(data))
	for line := range bytes.Lines(data) {
		n, _, err := readLine(line)
		if err == nil && n <= iteration && bytes.HasSuffix(line, []byte("\n")) {
			kept = append(kept, line...)
		}
	}
	if len(kept) == len(data) {
		return nil
	}
	return writeAtomic(path, kept)
}
