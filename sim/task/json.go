package task

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxJSON is the longest world or evaluation that is parsed, bytes.
const MaxJSON = 1 << 20

// DecodeWorld reads a world's JSON and checks it. A world states everything: a member
// that is missing or not known is an error, as is null.
func DecodeWorld(data []byte) (*World, error) {
	w := new(World)
	if err := decode(data, w); err != nil {
		return nil, fmt.Errorf("task: world: %w", err)
	}
	if err := w.Check(); err != nil {
		return nil, err
	}
	return w, nil
}

// Encode checks w and writes its JSON, which DecodeWorld reads back to the same
// numbers, bit for bit.
func (w *World) Encode() ([]byte, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(w, json.Deterministic(true), jsontext.WithIndent("\t"))
	if err != nil {
		return nil, fmt.Errorf("task: world: %w", err)
	}
	return append(data, '\n'), nil
}

// decode reads data into the struct that to points at, strictly.
func decode(data []byte, to any) error {
	if len(data) > MaxJSON {
		return fmt.Errorf("%d bytes, at most %d are read", len(data), MaxJSON)
	}
	if err := refuseNull(data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, to, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	return complete(reflect.TypeOf(to).Elem(), data, "")
}

// refuseNull: null would become a zero, which is a number somebody would train with.
func refuseNull(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if token.Kind() == 'n' {
			return fmt.Errorf("%s is null", d.StackPointer())
		}
	}
}

// complete refuses a member that is missing. data has been decoded into t once.
func complete(t reflect.Type, data jsontext.Value, path string) error {
	if t.Kind() != reflect.Struct {
		return nil
	}
	var have map[string]jsontext.Value
	if err := json.Unmarshal(data, &have); err != nil {
		return err
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("json")
		v, ok := have[name]
		if !ok {
			return fmt.Errorf("%s%s is missing", path, name)
		}
		if err := complete(f.Type, v, path+name+"."); err != nil {
			return err
		}
	}
	return nil
}
