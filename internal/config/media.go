package config

import (
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Keywords of JSON Schema, by the content below them.
var (
	schemaKeywords = []string{"items", "additionalProperties", "contains", "not", "if", "then", "else",
		"propertyNames", "unevaluatedItems", "unevaluatedProperties"}
	schemaListKeywords = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemaMapKeywords  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// chooseByMediaType returns a schema in which a oneOf whose alternatives differ in contentMediaType
// is an anyOf. JSON Schema only notes a media type, so that one value may fit several alternatives:
// oneOf would refuse every text.
func chooseByMediaType(schema, root any) any {
	in, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	out := maps.Clone(in)
	for _, keyword := range schemaKeywords {
		if below, ok := in[keyword]; ok {
			out[keyword] = chooseByMediaType(below, root)
		}
	}
	for _, keyword := range schemaListKeywords {
		if list, ok := in[keyword].([]any); ok {
			all := make([]any, len(list))
			for i, item := range list {
				all[i] = chooseByMediaType(item, root)
			}
			out[keyword] = all
		}
	}
	for _, keyword := range schemaMapKeywords {
		if below, ok := in[keyword].(map[string]any); ok {
			all := make(map[string]any, len(below))
			for name, item := range below {
				all[name] = chooseByMediaType(item, root)
			}
			out[keyword] = all
		}
	}
	if len(alternatives(in, root)) > 0 {
		out["anyOf"] = out["oneOf"]
		delete(out, "oneOf")
	}
	return out
}

// alternatives lists the schemas of a oneOf that differ in contentMediaType; none where it is
// another oneOf, or beside an anyOf, whose place it cannot take.
func alternatives(schema map[string]any, root any) []map[string]any {
	if schema["anyOf"] != nil {
		return nil
	}
	list, _ := schema["oneOf"].([]any)
	var all []map[string]any
	var kinds []string
	for _, item := range list {
		one := resolve(item, root)
		kind, _ := one["contentMediaType"].(string)
		if kind == "" || slices.Contains(kinds, essence(kind)) {
			return nil
		}
		all, kinds = append(all, one), append(kinds, essence(kind))
	}
	return all
}

// essence returns a media type without its parameters.
func essence(kind string) string {
	name, _, err := mime.ParseMediaType(kind)
	if err != nil {
		return strings.ToLower(kind)
	}
	return name
}

// mostRefs bounds how many references lead from one schema to another.
const mostRefs = 32

// resolve follows references inside the document.
func resolve(schema, root any) map[string]any {
	for range mostRefs {
		at, _ := schema.(map[string]any)
		pointer, ok := at["$ref"].(string)
		if !ok || !strings.HasPrefix(pointer, "#/") {
			return at
		}
		schema = root
		unescape := strings.NewReplacer("~1", "/", "~0", "~")
		for part := range strings.SplitSeq(pointer[len("#/"):], "/") {
			object, _ := schema.(map[string]any)
			schema = object[unescape.Replace(part)]
		}
	}
	return nil
}

// Item describes the elements of a value that is a list.
func (v Value) Item() Value {
	schema := resolve(v.Schema, v.root)
	items, _ := schema["items"].(map[string]any)
	return Value{Name: v.Name, Schema: items, root: v.root, compiled: itemsOf(dereferenced(v.compiled))}
}

func itemsOf(compiled *jsonschema.Schema) *jsonschema.Schema {
	if compiled == nil {
		return nil
	}
	if items, ok := compiled.Items.(*jsonschema.Schema); ok {
		return items // items of drafts before 2020-12
	}
	return compiled.Items2020
}

// dereferenced follows the references of a compiled schema that is nothing but one.
func dereferenced(compiled *jsonschema.Schema) *jsonschema.Schema {
	for i := 0; i < mostRefs && compiled != nil && compiled.Ref != nil && compiled.AnyOf == nil; i++ {
		compiled = compiled.Ref
	}
	return compiled
}

// Alternatives lists the types of a value by its media type; none where the schema leaves no choice of it.
func (v Value) Alternatives() []Value {
	schema := resolve(v.Schema, v.root)
	var all []Value
	for i, one := range alternatives(schema, v.root) {
		alternative := Value{Name: v.Name, Schema: one, root: v.root}
		if compiled := dereferenced(v.compiled); compiled != nil && i < len(compiled.AnyOf) {
			alternative.compiled = compiled.AnyOf[i]
		}
		all = append(all, alternative)
	}
	return all
}

// Choose returns the alternative of a media type, and v itself where there is nothing to choose.
func (v Value) Choose(mediaType string) (Value, error) {
	all := v.Alternatives()
	if len(all) == 0 || mediaType == "" {
		return v, nil
	}
	var known []string
	for _, one := range all {
		kind, _ := one.Schema["contentMediaType"].(string)
		if essence(kind) == essence(mediaType) {
			return one, nil
		}
		known = append(known, kind)
	}
	return v, fmt.Errorf("mediaType %s: want %s", mediaType, strings.Join(known, " or "))
}

// Check reports where a value breaks its schema; numbers are json.Number.
func (v Value) Check(value any) fault.Problems {
	if v.compiled == nil {
		return nil
	}
	return broken(v.Name, v.compiled.Validate(value))
}

// Binary reports whether a value must be bytes, which JSON holds as base64.
func (v Value) Binary() bool {
	all := v.Alternatives()
	for _, one := range all {
		if !binary(one.Schema) {
			return false
		}
	}
	return len(all) > 0 || binary(resolve(v.Schema, v.root))
}

// binary reports whether a schema describes bytes. The standard's examples write binary where JSON Schema has base64.
func binary(schema map[string]any) bool {
	encoding, _ := schema["contentEncoding"].(string)
	return encoding == "base64" || encoding == "binary" || schema["format"] == "byte"
}
