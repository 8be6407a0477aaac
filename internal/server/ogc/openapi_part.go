package ogc

// parameter returns an optional query parameter.
func parameter(name, description string, schema object) object {
	return object{"name": name, "in": "query", "description": description, "required": false, "schema": schema}
}

// many returns a query parameter that may be repeated.
func many(name, description string, items object) object {
	p := parameter(name, description+"; may be repeated, or hold commas", object{"type": "array", "items": items})
	p["style"], p["explode"], p["allowEmptyValue"] = "form", true, true
	return p
}

// header returns a response header.
func header(description string) object {
	return object{"description": description, "schema": object{"type": "string"}}
}

// answer returns a response in one media type.
func answer(description, kind string, schema object) object {
	return object{"description": description, "content": object{kind: object{"schema": schema}}}
}

// found returns the response with a document, which is also a page.
func found(schema string) object { return foundAs(typeJSON, ref(schema)) }

// foundAs returns the response with content of a media type, which is also a page unless the type
// may be any.
func foundAs(kind string, schema object) object {
	response := answer("OK", kind, schema)
	if kind != "*/*" {
		response["content"].(object)[typeHTML] = object{"schema": object{"type": "string"}}
	}
	return object{"200": response}
}

// structure returns the schema of an object with these properties only.
func structure(required []string, properties object) object {
	schema := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func list(items object) object { return object{"type": "array", "items": items} }

// byName returns the schema of an object with any properties.
func byName(values object) object {
	return object{"type": "object", "additionalProperties": values}
}

func uri() object { return object{"type": "string", "format": "uri"} }

// ref returns a reference to a schema.
func ref(schema string) object { return object{"$ref": "#/components/schemas/" + schema} }
