package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Parameters are the permitted and required parameters of a handler's actions, by name. The zero value allows none.
type Parameters []Parameter

// Parameter is one declared parameter.
type Parameter struct {
	Name     string
	Default  any  // default value when Optional
	Optional bool // false: it must be given
	document map[string]any
	schema   *jsonschema.Schema
}

// Names lists the parameters in the order of the file.
func (ps Parameters) Names() []string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.Name
	}
	return names
}

// Fill reads an action's parameters and puts in the defaults; numbers are json.Number. The problems
// are every fault with its path: names that are not known, ones that are missing, values that break
// their schema.
func (ps Parameters) Fill(raw json.RawMessage) (map[string]any, fault.Problems) {
	given, err := object("parameters", raw)
	if err != nil {
		return nil, fault.Problems{{Code: "parameters", Text: err.Error()}}
	}
	return ps.fill("parameter", given)
}

// fill is like Fill, of decoded parameters; word is the name that errors use for a parameter.
func (ps Parameters) fill(word string, given map[string]any) (map[string]any, fault.Problems) {
	var problems fault.Problems
	known := ps.Names()
	for name := range given {
		if !slices.Contains(known, name) {
			problems = append(problems, fault.Problem{Code: word + "-unknown", Text: fmt.Sprintf("unknown %s %q", word, name),
				Suggestion: fault.Nearest(name, known)})
		}
	}
	filled := make(map[string]any, len(ps))
	for _, p := range ps {
		value, ok := given[p.Name]
		switch {
		case ok:
			problems = append(problems, p.check(value)...)
			filled[p.Name] = value
		case p.Optional:
			filled[p.Name] = p.Default
		default:
			problems = append(problems, fault.Problem{Code: word + "-missing", Text: fmt.Sprintf("the %s %q is missing", word, p.Name)})
		}
	}
	problems.Sort()
	return filled, problems
}

// object reads a JSON object, which an error calls by a word such as parameters; nothing is an
// empty one.
func object(word string, raw json.RawMessage) (map[string]any, error) {
	if len(bytes.TrimSpace(raw)) == 0 || string(raw) == "null" {
		return map[string]any{}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("the %s are not valid JSON: %w", word, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the %s are not valid JSON: unexpected text after the object", word)
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the %s are not a JSON object", word)
	}
	return fields, nil
}

// check reports where a value breaks the parameter's schema.
func (p Parameter) check(value any) fault.Problems {
	if p.schema == nil {
		return nil
	}
	return broken(p.Name, p.schema.Validate(value))
}

// broken returns every fault that a validation has found; root names the value in their paths.
func broken(root string, err error) fault.Problems {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil
	}
	var problems fault.Problems
	for _, leaf := range leaves(invalid) {
		problems = append(problems, fault.Problem{Code: "parameter-invalid",
			Scope: strings.Join(append([]string{root}, leaf.InstanceLocation...), "/"),
			Text:  words(leaf)})
	}
	return problems
}

// leaves returns the innermost faults.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// words returns a fault in English.
func words(e *jsonschema.ValidationError) string {
	return e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

// compile makes a schema of its JSON form. The error may be a *jsonschema.SchemaValidationError,
// which knows the place.
func compile(name string, schema any) (*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.AssertFormat()
	address := "parameter:" + name
	if err := compiler.AddResource(address, chooseByMediaType(schema, schema)); err != nil {
		return nil, err
	}
	return compiler.Compile(address)
}

// noLoader keeps schemas from reading files and the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside of the schema", url)
}
