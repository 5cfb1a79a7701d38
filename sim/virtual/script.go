package virtual

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxScript is the longest script, bytes.
const maxScript = 256 << 10

// ReadScript reads a YAML list of faults, each in text form or as a mapping with the keys of Fault:
//
//   - drop_state,p=0.02@0
//   - kind: joint_speed
//     params: {joint: FR_calf, value: 20}
//     from: walk
//     at: 2
//     samples: 5
//
// kind, params (a mapping), from, at, for, every and samples are all the keys; times are seconds, or have ms behind them.
//
// name is the script's, for errors, which name the fault by its line and number too. Unknown and repeated keys are refused.
func ReadScript(name string, r io.Reader) ([]Fault, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxScript+1))
	if err == nil {
		var faults []Fault
		if faults, err = readScript(data); err == nil {
			return faults, nil
		}
	}
	return nil, fmt.Errorf("virtual: script %s: %s", name, strings.TrimPrefix(err.Error(), "virtual: "))
}

func readScript(data []byte) ([]Fault, error) {
	if len(data) > maxScript {
		return nil, fmt.Errorf("longer than %d bytes", maxScript)
	}
	tokens := lexer.Tokenize(string(data))
	if err := flat(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		var said yaml.Error
		if errors.As(err, &said) && said.GetToken() != nil && said.GetToken().Position != nil {
			return nil, fmt.Errorf("line %d: %s", said.GetToken().Position.Line, said.GetMessage())
		}
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	var list *ast.SequenceNode
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		seq, ok := doc.Body.(*ast.SequenceNode)
		if !ok || list != nil {
			return nil, errors.New("want one list of faults")
		}
		list = seq
	}
	if list == nil {
		return nil, nil
	}
	faults := make([]Fault, len(list.Values))
	for i, item := range list.Values {
		if faults[i], err = readItem(item); err != nil {
			return nil, fmt.Errorf("line %d, fault %d: %s", item.GetToken().Position.Line, i+1, strings.TrimPrefix(err.Error(), "virtual: "))
		}
	}
	return faults, nil
}

// maxNested is how deep a script nests: the list, a fault, its params.
const maxNested = 3

// flat refuses what nests deeper than a script, because the parser recurses on it and takes minutes for a long row of dashes.
func flat(tokens token.Tokens) error {
	braces, marks, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, marks = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			braces++
		case token.SequenceEndType, token.MappingEndType:
			braces = max(braces-1, 0)
		case token.SequenceEntryType, token.MappingKeyType: // further lines nest by what they are indented
			marks++
		}
		if braces > maxNested || marks > maxNested {
			return fmt.Errorf("line %d: nested too deep", line)
		}
	}
	return nil
}

func readItem(item ast.Node) (f Fault, err error) {
	if text, ok := scalar(item); ok {
		return ParseFault(text)
	}
	given := map[string]bool{}
	err = eachKey(item, func(key string, value ast.Node) error {
		if key == "params" {
			f.Params = map[string]string{}
			if _, ok := scalar(value); ok {
				return errors.New("params: want a mapping")
			}
			return eachKey(value, func(name string, value ast.Node) error {
				text, ok := scalar(value)
				if !ok {
					return fmt.Errorf("params.%s: want one value", name)
				}
				f.Params[name] = text
				return nil
			})
		}
		text, ok := scalar(value)
		if !ok {
			return fmt.Errorf("%s: want one value", key)
		}
		given[key] = true
		switch key {
		case "kind":
			f.Kind = text
		case "from":
			f.From = text
		case "at":
			f.At, err = parseSeconds(text)
		case "for":
			f.For, err = parseSeconds(text)
		case "every":
			f.Every, err = parseSeconds(text)
		case "samples":
			if f.Samples, err = strconv.Atoi(text); err != nil {
				err = fmt.Errorf("%q is not a whole number from 1", text)
			}
		default:
			return fmt.Errorf("unknown key %q (kind, params, from, at, for, samples, every)", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return f, err
	}
	return f, f.validate(func(key string) bool { return given[key] })
}

// eachKey calls do for each key of a mapping, in order.
func eachKey(node ast.Node, do func(key string, value ast.Node) error) error {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		return errors.New("want a mapping, or a text")
	}
	seen := map[string]bool{}
	for _, p := range pairs {
		key, ok := scalar(p.Key)
		if !ok {
			return errors.New("a key is no plain word")
		}
		if seen[key] {
			return fmt.Errorf("key %s is given twice", key)
		}
		seen[key] = true
		if err := do(key, p.Value); err != nil {
			return err
		}
	}
	return nil
}

// scalar is a node's text, where it is a plain or quoted text or a number.
func scalar(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, true
	}
	return "", false
}
