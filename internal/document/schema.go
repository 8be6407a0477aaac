package document

// Schema returns the JSON Schema (draft 2020-12) of a mapping with these keys, as a tree for encoding/json. Keys that
// are not yet supported are left out, so that the schema refuses the same as the reader.
func Schema(keys []Key) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, key := range keys {
		if key.Later {
			continue
		}
		properties[key.Name] = key.schema()
		if key.Required {
			required = append(required, key.Name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		schema["required"] = required
	}
	return schema
}

// SharedSchema returns the patternProperties of a file whose keys x-NAME hold the shared nodes of its aliases.
func SharedSchema() map[string]any {
	return map[string]any{"^" + sharedPrefix: map[string]any{"description": "What aliases of the file share; it means nothing itself."}}
}

// schema returns the JSON Schema of one value.
func (k Key) schema() map[string]any {
	var shapes []map[string]any
	for i := range numShapes {
		if one := Shape(1) << i; k.Shape&one != 0 {
			shapes = append(shapes, k.shape(one))
		}
	}
	schema := map[string]any{"anyOf": shapes}
	if len(shapes) == 1 {
		schema = shapes[0]
	}
	if k.Help != "" {
		schema["description"] = k.Help
	}
	if k.Default != "" {
		schema["$comment"] = "default: " + k.Default
	}
	return schema
}

// shape returns the schema of one shape.
func (k Key) shape(s Shape) map[string]any {
	switch s {
	case Text, Duration:
		return k.text()
	case Flag:
		return map[string]any{"type": "boolean"}
	case Number:
		return map[string]any{"type": "number"}
	case Scalar:
		return map[string]any{"type": []string{"string", "number", "boolean"}}
	case Object:
		if k.Keys != nil {
			return Schema(k.Keys)
		}
		return map[string]any{"type": "object"}
	case Texts, Scalars, Objects, Entries:
		items := Key{Shape: s.element(), Keys: k.Keys, Values: k.Values}
		schema := map[string]any{"type": "array", "items": items.schema()}
		if k.Required {
			schema["minItems"] = 1
		}
		return schema
	case TextMap, ScalarMap:
		return map[string]any{"type": "object", "additionalProperties": Key{Shape: s.element()}.schema()}
	}
	return map[string]any{}
}

func (k Key) text() map[string]any {
	schema := map[string]any{"type": "string"}
	if k.Values != nil {
		schema["enum"] = k.Values
	}
	if k.Required {
		schema["minLength"] = 1
	}
	return schema
}
