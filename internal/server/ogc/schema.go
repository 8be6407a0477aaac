package ogc

import (
	"encoding/json"
	"slices"
	"strings"
)

// plainKeywords have the same meaning in JSON Schema 2020-12 and in the standard's schema.yaml,
// which is OpenAPI 3.0's.
var plainKeywords = []string{"title", "multipleOf", "maximum", "minimum", "maxLength", "minLength", "pattern", "maxItems", "minItems",
	"uniqueItems", "maxProperties", "minProperties", "enum", "description", "format", "default", "readOnly", "writeOnly", "deprecated",
	"contentMediaType", "contentEncoding"}

// simplifySchema returns a JSON Schema (2020-12) in the form of OpenAPI 3.0, without keywords that
// OpenAPI cannot express. root is the document of its references.
func simplifySchema(schema, root map[string]any) map[string]any {
	return simplifier{root: root}.schema(schema)
}

// simplifier replaces each reference by its schema. A reference inside its own schema becomes a
// schema that allows everything.
type simplifier struct {
	root map[string]any
	open []string // references that are being replaced
}

func (s simplifier) schema(in map[string]any) map[string]any {
	if ref, ok := in["$ref"].(string); ok {
		if slices.Contains(s.open, ref) {
			return map[string]any{}
		}
		inside := simplifier{s.root, append(slices.Clip(s.open), ref)}
		return inside.schema(s.resolve(ref))
	}
	out := map[string]any{}
	for _, keyword := range plainKeywords {
		if value, ok := in[keyword]; ok {
			out[keyword] = value
		}
	}
	s.types(in, out)
	if values, ok := out["enum"].([]any); ok && out["nullable"] == true {
		out["enum"] = slices.DeleteFunc(slices.Clone(values), func(v any) bool { return v == nil })
	}
	if value, ok := in["const"]; ok {
		out["enum"] = []any{value}
	}
	if examples, ok := in["examples"].([]any); ok && len(examples) > 0 {
		out["example"] = examples[0]
	}
	if required, ok := in["required"].([]any); ok && len(required) > 0 {
		out["required"] = required
	}
	bound(in, out, "exclusiveMinimum", "minimum")
	bound(in, out, "exclusiveMaximum", "maximum")
	s.nested(in, out)
	return out
}

// types converts type, which may be a list and may contain null.
func (s simplifier) types(in, out map[string]any) {
	var names []string
	switch t := in["type"].(type) {
	case string:
		names = []string{t}
	case []any:
		for _, item := range t {
			name, _ := item.(string)
			names = append(names, name)
		}
	}
	if slices.Contains(names, "null") {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "null" })
		out["nullable"] = true
	}
	switch len(names) {
	case 0:
	case 1:
		out["type"] = names[0]
	default:
		var some []any
		for _, name := range names {
			some = append(some, map[string]any{"type": name})
		}
		out["anyOf"] = some
	}
}

// bound converts an exclusive bound to the form of OpenAPI 3.0: an inclusive bound with a flag.
func bound(in, out map[string]any, exclusive, inclusive string) {
	value, ok := in[exclusive].(json.Number)
	if !ok {
		return
	}
	if other, ok := in[inclusive].(json.Number); ok && tighter(other, value, inclusive == "minimum") {
		return
	}
	out[inclusive], out[exclusive] = value, true
}

// tighter reports whether the inclusive bound allows fewer values than the exclusive one.
func tighter(inclusive, exclusive json.Number, least bool) bool {
	a, _ := inclusive.Float64()
	b, _ := exclusive.Float64()
	if least {
		return a > b
	}
	return a < b
}

// nested simplifies the schemas inside a schema.
func (s simplifier) nested(in, out map[string]any) {
	inner := func(value any) map[string]any {
		below, _ := value.(map[string]any) // not an object: true, which allows everything
		return s.schema(below)
	}
	if properties, ok := in["properties"].(map[string]any); ok {
		some := map[string]any{}
		for name, value := range properties {
			some[name] = inner(value)
		}
		out["properties"] = some
	}
	if value, ok := in["items"].(map[string]any); ok {
		out["items"] = inner(value)
	}
	switch value := in["additionalProperties"].(type) {
	case bool:
		out["additionalProperties"] = value
	case map[string]any:
		if in["patternProperties"] == nil {
			out["additionalProperties"] = inner(value)
		}
	}
	if in["patternProperties"] != nil {
		delete(out, "additionalProperties") // it would refuse properties that the patterns allow
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		list, ok := in[keyword].([]any)
		if !ok || out[keyword] != nil {
			continue
		}
		var some []any
		for _, item := range list {
			some = append(some, inner(item))
		}
		out[keyword] = some
	}
}

// resolve returns the schema of a reference inside the document; nil, which allows everything, for
// any other reference.
func (s simplifier) resolve(ref string) map[string]any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	var at any = s.root
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		object, _ := at.(map[string]any)
		at = object[unescape.Replace(part)]
	}
	found, _ := at.(map[string]any)
	return found
}
