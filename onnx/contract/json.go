package contract

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxJSON is the longest contract that is parsed, bytes.
const MaxJSON = 4 << 20

// Decode reads a contract's JSON and checks it.
func Decode(data []byte) (*Contract, error) {
	if len(data) > MaxJSON {
		return nil, fmt.Errorf("contract: JSON of %d bytes, at most %d are read", len(data), MaxJSON)
	}
	// The version first: members that a later version adds are no typing errors.
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("contract: JSON: %w", err)
	}
	if head.Version == nil {
		return nil, fmt.Errorf("contract: JSON: version: missing")
	}
	if *head.Version != Version {
		return nil, fmt.Errorf("contract: version: %d, this program reads %d", *head.Version, Version)
	}
	var c Contract
	if err := json.Unmarshal(data, &c, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("contract: JSON: %w", err)
	}
	if err := complete(reflect.TypeOf(c), data, ""); err != nil {
		return nil, fmt.Errorf("contract: JSON: %w", err)
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	return &c, nil
}

// Encode checks c and writes its JSON. Decode gives back the same float32s, bit
// for bit; the same contract always gives the same bytes.
func (c *Contract) Encode() ([]byte, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("contract: JSON: %w", err)
	}
	v := jsontext.Value(data)
	if err := v.Indent(jsontext.Multiline(true), jsontext.WithIndent(" "), jsontext.SpaceAfterComma(false)); err != nil {
		return nil, fmt.Errorf("contract: JSON: %w", err)
	}
	if len(v) > MaxJSON {
		return nil, fmt.Errorf("contract: JSON of %d bytes, at most %d are read", len(v), MaxJSON)
	}
	return v, nil
}

// complete refuses a member that is missing or null: the zero that Go would put
// in its place (a scale, a period) is a number somebody would walk with. Members
// tagged omitempty or omitzero may be missing. data has been decoded into t once.
func complete(t reflect.Type, data jsontext.Value, path string) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		var have map[string]jsontext.Value
		if err := json.Unmarshal(data, &have); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return completeMembers(t, have, path)
	case reflect.Slice, reflect.Array:
		var have []jsontext.Value
		if err := json.Unmarshal(data, &have); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i, v := range have {
			at := fmt.Sprintf("%s[%d]", path, i)
			if v.Kind() == 'n' {
				return fmt.Errorf("%s: null", at)
			}
			if err := complete(t.Elem(), v, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func completeMembers(t reflect.Type, have map[string]jsontext.Value, path string) error {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			if err := completeMembers(f.Type, have, path); err != nil {
				return err
			}
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		v, ok := have[name]
		switch {
		case !ok && strings.HasPrefix(options, "omit"):
			continue
		case !ok:
			return fmt.Errorf("%s: missing", at)
		case v.Kind() == 'n':
			return fmt.Errorf("%s: null", at)
		}
		if err := complete(f.Type, v, at); err != nil {
			return err
		}
	}
	return nil
}
