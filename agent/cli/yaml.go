package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"syscall"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxConfigBytes = 1 << 20 // a configuration is a page of text; more is the wrong file
	maxConfigDepth = 100     // see nestsTooDeep
)

// readConfigFile reads path without ever waiting: a named pipe or device is refused.
func readConfigFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe for reading would wait for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxConfigBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxConfigBytes)
	}
	return data, nil
}

// nestsTooDeep says whether data has more brackets inside brackets, or more list dashes before a line's first word, than any
// configuration: the parser recurses on both, and takes minutes for a long row of dashes.
func nestsTooDeep(data []byte) bool {
	brackets, dashes, inFront := 0, 0, true
	for _, b := range data {
		switch b {
		case '[', '{':
			brackets++
		case ']', '}':
			brackets = max(brackets-1, 0)
		case '-', '?':
			dashes++
		case '\n', '\r':
			dashes, inFront = 0, true
			continue
		}
		if b != '-' && b != '?' && b != ' ' {
			inFront = false
		}
		if brackets > maxConfigDepth || inFront && dashes > maxConfigDepth {
			return true
		}
	}
	return false
}

// yamlDocument is the one document in data, nil when there is none.
func yamlDocument(data []byte) (ast.Node, error) {
	if nestsTooDeep(data) {
		return nil, fmt.Errorf("nested more than %d deep", maxConfigDepth)
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		var said yaml.Error
		if !errors.As(err, &said) {
			return nil, fmt.Errorf("not YAML: %w", err)
		}
		return nil, fmt.Errorf("%s%s", at(said.GetToken()), said.GetMessage())
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return nil, nil
	case 1:
		return bodies[0], nil
	}
	return nil, fmt.Errorf("%sa second document: want one", at(bodies[1].GetToken()))
}

// at is "line 3: " for a token.
func at(t *token.Token) string {
	if t == nil || t.Position == nil {
		return ""
	}
	return fmt.Sprintf("line %d: ", t.Position.Line)
}

// schema is a configuration struct's keys, by dotted name.
type schema struct {
	fields []field
	byKey  map[string]field
}

func newSchema(t reflect.Type) schema {
	s := schema{fields: fieldsOf(t, "", nil), byKey: map[string]field{}}
	for _, f := range s.fields {
		if _, twice := s.byKey[f.key]; twice {
			panic(fmt.Sprintf("cli: configuration key %s: two fields have it", f.key))
		}
		s.byKey[f.key] = f
	}
	return s
}

// unknown is the error for a key that the struct lacks.
func (s schema) unknown(key string) error {
	var known []string
	for _, f := range s.fields {
		known = append(known, f.key)
		if !f.section && f.name() == key { // the bare name of a key inside a section is the likeliest slip
			return fmt.Errorf("%s: unknown key (did you mean %q?)", key, f.key)
		}
	}
	return fmt.Errorf("%s: unknown key%s", key, didYouMean(key, known))
}

// setMapping writes a YAML mapping into the section of config whose keys start with prefix.
func (s schema) setMapping(config reflect.Value, prefix string, node ast.Node) error {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		return fmt.Errorf("%s%swant a mapping of keys, got %s", at(node.GetToken()), prefixed(prefix), describe(node))
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		where := at(pair.Key.GetToken())
		text, ok := pair.Key.(*ast.StringNode)
		if !ok {
			return fmt.Errorf("%s%sa key must be a plain word, got %s", where, prefixed(prefix), describe(pair.Key))
		}
		key := prefix + text.Value
		f, ok := s.byKey[key]
		switch {
		case !ok || strings.Contains(text.Value, "."):
			return fmt.Errorf("%s%w", where, s.unknown(key))
		case seen[key]:
			return fmt.Errorf("%s%s: given twice", where, key)
		}
		seen[key] = true
		if f.section {
			if err := s.setMapping(config, key+".", pair.Value); err != nil {
				return err
			}
			continue
		}
		if err := setNode(config.FieldByIndex(f.index), pair.Value); err != nil {
			return fmt.Errorf("%s%s: %w", where, key, err)
		}
	}
	return nil
}

func prefixed(prefix string) string {
	if prefix == "" {
		return ""
	}
	return strings.TrimSuffix(prefix, ".") + ": "
}

// setText writes the text of --set key=text or of a flag into config.
func (s schema) setText(config reflect.Value, key, text string) error {
	f, ok := s.byKey[key]
	if !ok {
		return s.unknown(key)
	}
	if f.section {
		return fmt.Errorf("%s: is a section, set a key in it", key)
	}
	v := config.FieldByIndex(f.index)
	if !isList(f.kind) || isText(f.kind) {
		if err := setScalar(v, text); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	}
	node, err := yamlDocument([]byte(text))
	if err == nil && node == nil {
		err = errors.New("want a list such as [1, 2], got nothing")
	}
	if err == nil {
		err = setNode(v, node)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// setNode writes a YAML node into a leaf. A list replaces the old one whole.
func setNode(v reflect.Value, node ast.Node) error {
	t := v.Type()
	if isList(t) && !isText(t) {
		list, ok := node.(*ast.SequenceNode)
		if !ok {
			return fmt.Errorf("want a list such as [1, 2], got %s", describe(node))
		}
		n := len(list.Values)
		if t.Kind() == reflect.Array && n != t.Len() {
			return fmt.Errorf("%d values, want %d", n, t.Len())
		}
		fresh := reflect.New(t).Elem()
		if t.Kind() == reflect.Slice {
			fresh.Set(reflect.MakeSlice(t, n, n))
		}
		for i, item := range list.Values {
			if err := setNode(fresh.Index(i), item); err != nil {
				return fmt.Errorf("value %d: %w", i+1, err)
			}
		}
		v.Set(fresh)
		return nil
	}
	switch n := node.(type) {
	case *ast.StringNode:
		if !isText(t) && n.Token.Type != token.StringType { // "5" in quotes is text, not the number
			return fmt.Errorf("%q is text, want %s", n.Value, kindName(t))
		}
		return setScalar(v, n.Value)
	case *ast.LiteralNode:
		return setScalar(v, n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		text := node.GetToken().Value
		if isText(t) {
			return fmt.Errorf("want %s, got %s (put text in quotes)", kindName(t), text)
		}
		if _, special := node.(*ast.IntegerNode); !special && isNumber(t) && node.Type() != ast.FloatType {
			return fmt.Errorf("%s is not a finite number", text)
		}
		return setScalar(v, text)
	}
	return fmt.Errorf("want %s, got %s", kindName(t), describe(node))
}

func kindName(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a duration such as 250ms"
	case isText(t):
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

func describe(node ast.Node) string {
	switch node.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		return "an anchor, alias, merge or tag, which are not used here"
	}
	return strings.TrimSpace(node.String())
}
