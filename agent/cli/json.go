package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// PrintJSON writes v as one JSON object on one line, the form scripts read from a command's last line of standard output. A
// number that JSON lacks (NaN, infinities) becomes null, so that one bad figure does not lose the others; map keys are sorted.
// A v that is not an object is a programming error and is returned as such.
//
// It is a command's result: a command that fails after it, as doctor does, has said so in it. One that fails without is given a line
// by Run.
func PrintJSON(w io.Writer, v any) error {
	if err := printLine(w, v); err != nil {
		return err
	}
	if out, ok := w.(*results); ok {
		out.told = true
	}
	return nil
}

// PrintReady is PrintJSON for the first line of a program that goes on: it says where the program is to be reached, and is no result.
func PrintReady(w io.Writer, v any) error { return printLine(w, v) }

// results is standard output, which knows whether a command's result in JSON was the last thing on it.
type results struct {
	w    io.Writer
	told bool
}

// Write implements io.Writer.
func (r *results) Write(p []byte) (int, error) {
	r.told = false
	return r.w.Write(p)
}

// Unwrap is what lies below, for who asks whether that is a terminal.
func (r *results) Unwrap() io.Writer { return r.w }

// failure is the JSON line of a command that ended without a result.
type failure struct {
	OK       bool   `json:"ok"` // false
	Error    string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

func printLine(w io.Writer, v any) error {
	line, err := json.Marshal(v, json.Deterministic(true), json.WithMarshalers(json.MarshalToFunc(nonFiniteAsNull)))
	if err != nil {
		return fmt.Errorf("cli: JSON of %T: %w", v, err)
	}
	if !bytes.HasPrefix(line, []byte("{")) {
		return fmt.Errorf("cli: JSON of %T is not an object: %.40s", v, line)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

func nonFiniteAsNull(enc *jsontext.Encoder, v any) error {
	f := reflect.ValueOf(v)
	if f.Kind() == reflect.Pointer && !f.IsNil() {
		f = f.Elem()
	}
	if f.Kind() != reflect.Float64 && f.Kind() != reflect.Float32 {
		return errors.ErrUnsupported
	}
	if x := f.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
		return enc.WriteToken(jsontext.Null)
	}
	return errors.ErrUnsupported
}
