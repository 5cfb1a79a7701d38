package cli

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// field is one key of a configuration struct: a leaf (a number, text, list) or a section (a nested struct).
type field struct {
	key     string // dotted: "control.stand_kp"
	index   []int  // for reflect.Value.FieldByIndex
	doc     string // tag doc: what it means and trades, one sentence
	unit    string // tag unit: "N·m/rad"; "" for what has none or says it in doc
	kind    reflect.Type
	section bool
}

func (f field) name() string { return f.key[strings.LastIndexByte(f.key, '.')+1:] }
func (f field) depth() int   { return strings.Count(f.key, ".") }

// meaning is doc and unit: "position gain, N·m/rad".
func (f field) meaning() string {
	if f.unit == "" {
		return f.doc
	}
	return strings.TrimPrefix(f.doc+", "+f.unit, ", ")
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// isText says whether values of t are written as text: strings, durations ("250ms") and types that read and write themselves as text.
func isText(t reflect.Type) bool {
	return t == durationType || t.Kind() == reflect.String || reflect.PointerTo(t).Implements(textType)
}

// fieldsOf lists the keys of a configuration struct in order, sections before what they hold. Names are those of the yaml tag, else
// the Go name in lower case; a tag of "-" and unexported fields are left out; ",inline" lifts a struct's keys into the one around it.
// A field of a kind that no key can have panics: that is a mistake in the program, seen by its first test.
func fieldsOf(t reflect.Type, prefix string, index []int) []field {
	var all []field
	for i := range t.NumField() {
		member := t.Field(i)
		name, option, _ := strings.Cut(member.Tag.Get("yaml"), ",")
		if !member.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = strings.ToLower(member.Name)
		}
		f := field{
			key:   prefix + name,
			index: append(index[:len(index):len(index)], i),
			doc:   member.Tag.Get("doc"),
			unit:  member.Tag.Get("unit"),
			kind:  member.Type,
		}
		switch {
		case isText(f.kind) || isNumber(f.kind) || f.kind.Kind() == reflect.Bool:
			all = append(all, f)
		case f.kind.Kind() == reflect.Struct && option == "inline":
			all = append(all, fieldsOf(f.kind, prefix, f.index)...)
		case f.kind.Kind() == reflect.Struct:
			f.section = true
			all = append(all, f)
			all = append(all, fieldsOf(f.kind, f.key+".", f.index)...)
		case isList(f.kind):
			all = append(all, f)
		default:
			panic(fmt.Sprintf("cli: configuration key %s: %v cannot be configured", f.key, f.kind))
		}
	}
	return all
}

// isList says whether t is an array or slice of values that stand alone.
func isList(t reflect.Type) bool {
	if t.Kind() != reflect.Array && t.Kind() != reflect.Slice {
		return false
	}
	e := t.Elem()
	return isText(e) || isNumber(e) || e.Kind() == reflect.Bool
}

func isNumber(t reflect.Type) bool {
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64 && t.Kind() != reflect.Uintptr
}

// setScalar reads text into v. Numbers are decimal and finite, true and false are the only booleans.
func setScalar(v reflect.Value, text string) error {
	t := v.Type()
	if t == durationType {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 250ms", text)
		}
		v.SetInt(int64(d))
		return nil
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch k := t.Kind(); k {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(text == "true")
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(text, t.Bits())
		switch {
		case math.IsNaN(x) || err == nil && math.IsInf(x, 0):
			return fmt.Errorf("%s is not a finite number", text)
		case err != nil && math.IsInf(x, 0):
			return fmt.Errorf("%s is too large for %v", text, t.Kind())
		case err != nil || strings.ContainsAny(text, "xX_"):
			return fmt.Errorf("%q is not a number", text)
		}
		v.SetFloat(x)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		x, err := strconv.ParseInt(text, 10, t.Bits())
		if err != nil {
			return notWhole(text, err, -1<<(t.Bits()-1), 1<<(t.Bits()-1)-1)
		}
		v.SetInt(x)
	default: // unsigned: fieldsOf let nothing else through
		x, err := strconv.ParseUint(text, 10, t.Bits())
		if err != nil {
			return notWhole(text, err, 0, math.MaxUint64>>(64-t.Bits()))
		}
		v.SetUint(x)
	}
	return nil
}

func notWhole(text string, err error, low int64, high uint64) error {
	if _, inFloat := strconv.ParseFloat(text, 64); inFloat == nil || err.(*strconv.NumError).Err == strconv.ErrRange {
		return fmt.Errorf("%s is not a whole number from %d to %d", text, low, high)
	}
	return fmt.Errorf("%q is not a whole number", text)
}

// yamlValue writes v so that reading it back gives the same value: lists in brackets, text in quotes.
func yamlValue(v reflect.Value) string {
	t := v.Type()
	switch {
	case t == durationType:
		return time.Duration(v.Int()).String()
	case reflect.PointerTo(t).Implements(textType):
		if m, ok := v.Interface().(encoding.TextMarshaler); ok {
			if text, err := m.MarshalText(); err == nil {
				return strconv.Quote(string(text))
			}
		}
		return strconv.Quote(fmt.Sprint(v))
	}
	switch t.Kind() {
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, t.Bits())
	case reflect.Array, reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = yamlValue(v.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v)
}
