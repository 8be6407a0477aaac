package ogc

import "github.com/waybill-dev/waybill/internal/queue"

// schemas returns the schemas of the documents, by the standard's names if it has them. They are
// written by hand, since the structs do not have what clients need most: enumerations, formats, and
// optional keys of requests.
func schemas() object {
	text, flag := object{"type": "string"}, object{"type": "boolean"}
	moment := object{"type": "string", "format": "date-time"}
	links := list(ref("link"))
	phases := []any{}
	for _, phase := range queue.Phases() {
		phases = append(phases, string(phase))
	}
	summary := object{"id": text, "title": text, "description": text, "version": text, "links": links,
		"jobControlOptions":  list(object{"type": "string", "enum": []any{"sync-execute", "async-execute", "dismiss"}}),
		"outputTransmission": list(object{"type": "string", "enum": []any{"value", "reference"}})}
	described := object{"title": text, "description": text, "schema": object{"type": "object"}}
	input := object{"minOccurs": object{"type": "integer"}}
	process := object{"inputs": byName(ref("inputDescription")), "outputs": byName(ref("outputDescription"))}
	for name, schema := range described {
		input[name] = schema
	}
	for name, schema := range summary {
		process[name] = schema
	}
	return object{
		"link":              structure([]string{"href"}, object{"href": text, "rel": text, "type": text, "hreflang": text, "title": text}),
		"landingPage":       structure([]string{"links"}, object{"title": text, "description": text, "links": links}),
		"confClasses":       structure([]string{"conformsTo"}, object{"conformsTo": list(text), "links": links}),
		"processSummary":    structure([]string{"id", "version"}, summary),
		"process":           structure([]string{"id", "version"}, process),
		"processList":       structure([]string{"processes", "links"}, object{"processes": list(ref("processSummary")), "links": links}),
		"inputDescription":  structure([]string{"schema"}, input),
		"outputDescription": structure([]string{"schema"}, described),
		"statusCode":        object{"type": "string", "enum": phases},
		"statusInfo":        statusInfoSchema(text, moment, links),
		"jobList":           structure([]string{"jobs", "links"}, object{"jobs": list(ref("statusInfo")), "links": links}),
		"results":           byName(object{}),
		"format":            structure(nil, object{"mediaType": text, "encoding": text, "schema": object{}}),
		"output": structure(nil,
			object{"transmissionMode": object{"type": "string", "enum": []any{"value", "reference"}}, "format": ref("format")}),
		"subscriber": structure(nil, object{"successUri": uri(), "inProgressUri": uri(), "failedUri": uri()}),
		"execute": structure(nil, object{"inputs": byName(object{}), "outputs": byName(ref("output")),
			"response": object{"type": "string", "enum": []any{"raw", "document"}, "default": "raw"}, "subscriber": ref("subscriber")}),
		"cacheEntry":    cacheSchema(text, moment, links),
		"cacheList":     structure([]string{"entries", "links"}, object{"entries": list(ref("cacheEntry")), "links": links}),
		"cacheQuestion": structure([]string{"processID"}, object{"processID": text, "inputs": byName(object{})}),
		"cacheEnd":      structure(nil, object{"at": moment}),
		"exception":     exceptionSchema(text, flag),
	}
}

// statusInfoSchema returns statusInfo.yaml with the status of the action.
func statusInfoSchema(text, moment, links object) object {
	return structure([]string{"processID", "type", "jobID", "status", "waybillStatus", "created", "updated", "links"}, object{
		"processID": text, "type": object{"type": "string", "enum": []any{"process"}}, "jobID": object{"type": "string", "format": "uuid"},
		"status": ref("statusCode"), "waybillStatus": text, "message": text, "created": moment, "started": moment, "finished": moment,
		"updated": moment, "progress": object{"type": "integer", "minimum": 0, "maximum": 100}, "links": links})
}

// cacheSchema returns the schema of an entry of the payload cache.
func cacheSchema(text, moment, links object) object {
	never := object{"type": "string", "format": "date-time", "nullable": true, "description": "null: it answers forever"}
	return structure([]string{"key", "processID", "version", "jobID", "created", "invalidAfter", "links"}, object{
		"key": object{"type": "string", "format": "uuid"}, "processID": text, "version": text,
		"jobID":   object{"type": "string", "format": "uuid"},
		"created": moment, "invalidAfter": never, "links": links})
}

// exceptionSchema returns exception.yaml with the properties that Waybill adds.
func exceptionSchema(text, flag object) object {
	problem := structure([]string{"code", "text"}, object{"code": text, "scope": text, "text": text, "suggestion": text, "warning": flag,
		"pointer": text, "file": text, "line": object{"type": "integer"}, "column": object{"type": "integer"},
		"more": object{"type": "integer"}})
	return structure([]string{"type", "title", "status", "detail", "instance"}, object{"type": text, "title": text,
		"status": object{"type": "integer"},
		"detail": text, "instance": text, "hint": text, "problems": list(problem)})
}
