package build

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/waybill-dev/waybill/internal/document"
)

// SchemaFileName is the file beside a build file in which editors find its JSON Schema.
const SchemaFileName = ".wharf-ci.schema.json"

// withVariable matches a text that variables decide, as the parser takes it before they have values.
func withVariable() map[string]any {
	return map[string]any{"type": "string", "pattern": `\$\{`}
}

// letVariables changes a schema so that a text with a variable may be instead of a number, a flag or one of some
// words, and lets conditions be written with capitals as the parser does.
func letVariables(schema map[string]any) {
	for _, word := range []string{"properties", "items", "additionalProperties"} {
		switch inside := schema[word].(type) {
		case map[string]any:
			if word != "properties" {
				letVariables(inside)
				continue
			}
			for _, property := range inside {
				letVariables(property.(map[string]any))
			}
		}
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		some, _ := schema[word].([]map[string]any)
		for _, one := range some {
			letVariables(one)
		}
	}
	own := map[string]any{}
	for _, word := range []string{"type", "enum", "minLength"} {
		if value, is := schema[word]; is {
			own[word] = value
		}
	}
	choices, _ := own["enum"].([]string)
	if own["type"] != "boolean" && own["type"] != "number" && choices == nil {
		return
	}
	maps.DeleteFunc(schema, func(word string, _ any) bool { return own[word] != nil })
	anyOf := []map[string]any{own, withVariable()}
	if slices.Equal(choices, conditions()) {
		anyOf = append(anyOf, map[string]any{"type": "string", "pattern": anyCase(choices)})
	}
	schema["anyOf"] = anyOf
}

// anyCase returns a pattern that matches words in any case.
func anyCase(words []string) string {
	var b strings.Builder
	for i, word := range words {
		if b.WriteString("|^"); i == 0 {
			b.Reset()
			b.WriteByte('^')
		}
		for _, r := range word {
			fmt.Fprintf(&b, "[%c%c]", unicode.ToUpper(r), r)
		}
		b.WriteByte('$')
	}
	return b.String()
}

// Schema returns the JSON Schema of the format (draft 2020-12), for editors. It is
// made from the field tables; a value that variables decide is a string anywhere.
func Schema() ([]byte, error) {
	var types []map[string]any
	for _, key := range stepTypes() {
		types = append(types, map[string]any{"required": []string{key.Name}})
	}
	step := document.Schema(append(stepTypes(), stepTable()...))
	step["oneOf"] = types
	properties := step["properties"].(map[string]any)
	testSchema(properties["test-results"].(map[string]any))
	dockerSchema(properties["docker"].(map[string]any))
	kubectlSchema(properties["kubectl"].(map[string]any))
	letVariables(step)
	stage := document.Schema(stageTable())
	letVariables(stage)
	stage["minProperties"] = 1
	stage["additionalProperties"] = step
	for _, key := range []string{"run-if", "fail-fast"} { // a mapping makes them steps
		properties := stage["properties"].(map[string]any)
		properties[key] = map[string]any{"anyOf": []any{properties[key], step}}
	}
	environments := map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []string{"object", "null"},
		"additionalProperties": map[string]any{"type": []string{"string", "number", "boolean", "null"}}}}
	var inputs []map[string]any
	for _, t := range inputTypes() {
		inputs = append(inputs, document.Schema(inputTable(InputType(t))))
	}
	root := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   FileName,
		"type":    "object",
		"properties": map[string]any{keyEnvironments: environments,
			keyInputs: map[string]any{"type": "array", "items": map[string]any{"anyOf": inputs}}},
		"patternProperties":    document.SharedSchema(),
		"additionalProperties": stage,
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema of %s: %w", FileName, err)
	}
	return append(text, '\n'), nil
}
