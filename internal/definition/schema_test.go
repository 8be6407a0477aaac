package definition

import (
	"encoding/json"
	"maps"

	"github.com/waybill-dev/waybill/internal/document"
)

// object is a piece of JSON Schema.
type object = map[string]any

// Schema returns the JSON Schema (2020-12) of waybill.yaml, which is stored in api. It is generated
// from the field tables by which the file is read. Keys that are not yet supported are not in it.
func Schema() ([]byte, error) {
	schema := mapping(file)
	maps.Copy(schema, object{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "waybill.yaml",
		"patternProperties": document.SharedSchema(),
		"description":       "A pipeline: the stages through which a revision goes, and the hosts on which it runs."})
	text, err := json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

func mapping(keys []document.Key) object {
	properties, required := object{}, []string{}
	for _, k := range keys {
		if k.Later {
			continue
		}
		properties[k.Name] = property(k)
		if k.Required {
			required = append(required, k.Name)
		}
	}
	schema := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func property(k document.Key) object {
	p := valueOf(k)
	p["description"] = k.Help
	if k.Default != "" {
		p["description"] = k.Help + " Default: " + k.Default + "."
	}
	if k.Values != nil {
		values := []any{}
		for _, v := range k.Values {
			if v == "false" {
				values = append(values, false)
			}
			values = append(values, v)
		}
		p["enum"] = values
		delete(p, "anyOf")
	}
	return p
}

// valueOf returns the schema of a key's value. Lists whose items have two forms are written out
// here, as the reader has code for them.
func valueOf(k document.Key) object {
	switch k.Name {
	case "steps":
		return object{"type": "array", "items": anyOf(object{"enum": builtIn}, mapping(step))}
	case "hosts":
		return object{"type": "array", "items": anyOf(object{"type": "string"}, mapping(host))}
	case "secrets":
		secret := object{"type": "object", "additionalProperties": false, "required": []string{"file"},
			"properties": object{"file": object{"type": "string"}}}
		return object{"type": "object", "additionalProperties": secret}
	}
	var forms []object
	for shape := document.Text; shape <= document.Anything; shape <<= 1 {
		if k.Shape&shape != 0 {
			forms = append(forms, form(shape, k.Keys))
		}
	}
	return anyOf(forms...)
}

func anyOf(forms ...object) object {
	if len(forms) == 1 {
		return forms[0]
	}
	return object{"anyOf": forms}
}

var scalar = []string{"string", "number", "boolean"}

func form(shape document.Shape, keys []document.Key) object {
	switch shape {
	case document.Text, document.Duration:
		return object{"type": "string"}
	case document.Flag:
		return object{"type": "boolean"}
	case document.Number:
		return object{"type": "number"}
	case document.Scalar:
		return object{"type": scalar}
	case document.Texts:
		return object{"type": "array", "items": object{"type": "string"}}
	case document.Scalars:
		return object{"type": "array", "items": object{"type": scalar}}
	case document.Object:
		return mapping(keys)
	case document.Objects:
		return object{"type": "array", "items": mapping(keys)}
	case document.TextMap:
		return object{"type": "object", "additionalProperties": object{"type": "string"}}
	case document.ScalarMap:
		return object{"type": "object", "additionalProperties": object{"type": scalar}}
	}
	return object{}
}
