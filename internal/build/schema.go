package build

import (
	"encoding/json"
	"fmt"

	"github.com/waybill-dev/waybill/internal/document"
)

// SchemaFileName is the file beside a build file in which editors find its JSON Schema.
const SchemaFileName = ".wharf-ci.schema.json"

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
	stage := document.Schema(stageTable())
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
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                FileName,
		"type":                 "object",
		"properties":           map[string]any{keyEnvironments: environments, keyInputs: map[string]any{"type": "array", "items": map[string]any{"anyOf": inputs}}},
		"patternProperties":    document.SharedSchema(),
		"additionalProperties": stage,
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema of %s: %w", FileName, err)
	}
	return append(text, '\n'), nil
}
