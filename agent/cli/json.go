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
func PrintJSON(w io.Writer, v any) error {
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
