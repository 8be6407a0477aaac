package osb

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// mostSchema bounds a schema's JSON in bytes, as platforms do.
const mostSchema = 64 << 10

// Schema is a JSON Schema of parameters.
type Schema struct {
	text     Canonical
	compiled *jsonschema.Schema
}

// newSchema compiles a schema. It must name its dialect and refer to nothing outside of itself.
func newSchema(document map[string]any) (*Schema, error) {
	if dialect, _ := document["$schema"].(string); dialect == "" {
		return nil, errors.New(`a schema needs "$schema", such as https://json-schema.org/draft/2020-12/schema`)
	}
	if reference := external(document); reference != "" {
		return nil, fmt.Errorf("the reference %q leaves the schema", reference)
	}
	text, err := canonical(document)
	if err != nil {
		return nil, err
	}
	if len(text) > mostSchema {
		return nil, fmt.Errorf("the schema has %d bytes, more than %d", len(text), mostSchema)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.AssertFormat()
	const address = "parameters:"
	if err := compiler.AddResource(address, document); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(address)
	if err != nil {
		return nil, fmt.Errorf("the schema is not valid: %w", err)
	}
	return &Schema{text: text, compiled: compiled}, nil
}

// noLoader keeps schemas from reading files and the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside of the schema", url)
}

// external returns a reference in a schema to another document; "" if there is none.
func external(value any) string {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if found := external(item); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			if reference, ok := v[keyword].(string); ok && !strings.HasPrefix(reference, "#") {
				return reference
			}
		}
		for _, below := range v {
			if found := external(below); found != "" {
				return found
			}
		}
	}
	return ""
}

// check refuses parameters that break the schema; a nil schema accepts any.
func (s *Schema) check(parameters Canonical) *Error {
	if s == nil {
		return nil
	}
	err := s.compiled.Validate(parameters.values())
	if broken, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return invalid("%s", strings.Join(faults(broken), "; "))
	}
	if err != nil {
		return invalid("parameters: %s", err)
	}
	return nil
}

// faults lists the innermost faults of a validation with their places, in a stable order.
func faults(e *jsonschema.ValidationError) []string {
	if len(e.Causes) == 0 {
		return []string{strings.Join(append([]string{"parameters"}, e.InstanceLocation...), "/") + ": " + words(e.ErrorKind)}
	}
	var all []string
	for _, cause := range e.Causes {
		all = append(all, faults(cause)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// words describes a fault without the value, which may be a secret.
func words(fault jsonschema.ErrorKind) string {
	switch fault.(type) {
	case *kind.Type, *kind.Required, *kind.AdditionalProperties, *kind.Enum, *kind.MinLength, *kind.MaxLength,
		*kind.MinItems, *kind.MaxItems, *kind.MinProperties, *kind.MaxProperties:
		return fault.LocalizedString(message.NewPrinter(language.English))
	case *kind.FalseSchema:
		return "is not allowed"
	}
	return fmt.Sprintf("breaks %q of the plan's schema", strings.Join(fault.KeywordPath(), "/"))
}

// body returns the schema as the catalog has it; nil for a nil schema.
func (s *Schema) body() *schemaBody {
	if s == nil {
		return nil
	}
	return &schemaBody{Parameters: json.RawMessage(s.text)}
}

// lacks reports whether the schema knows all parameters, and a name is not among them.
func (s *Schema) lacks(name string) bool {
	if s == nil || s.compiled.AdditionalProperties != false {
		return false
	}
	return s.compiled.Properties[name] == nil && len(s.compiled.PatternProperties) == 0
}
