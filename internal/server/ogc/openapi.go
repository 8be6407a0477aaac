package ogc

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/server"
)

// object is a JSON object in the making.
type object = map[string]any

// definition is the OpenAPI 3.0 document of the API: what clients read, and by what requests are checked.
type definition struct{ root object }

// describe makes the document.
func describe(version string) definition {
	paths := object{}
	for _, o := range operations() {
		method, path, _ := strings.Cut(o.pattern, " ")
		path = strings.TrimSuffix(path, "{$}")
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(method)] = o.describe()
	}
	return definition{object{
		"openapi": "3.0.3",
		"info": object{"title": "Waybill: processes and jobs", "version": version,
			"description": "OGC API – Processes, part 1, version 1.0, and Waybill's payload cache.",
			"license":     object{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"}},
		"servers": []any{object{"url": "/"}},
		"paths":   paths,
		"components": object{
			"schemas": schemas(),
			"responses": object{"Problem": object{"description": "Why it was not done (RFC 7807).",
				"content": object{typeProblem: object{"schema": ref("exception")}, typeHTML: object{"schema": object{"type": "string"}}}}},
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
				"description": "A token of this server. On the machine's own address only changes need one."}},
		},
	}}
}

func (d definition) encode() []byte { return encodeJSON(d.root) }

// queryOf lists the query parameters of an operation.
func (d definition) queryOf(pattern string) []string {
	method, path, _ := strings.Cut(pattern, " ")
	item, _ := d.root["paths"].(object)[strings.TrimSuffix(path, "{$}")].(object)
	described, _ := item[strings.ToLower(method)].(object)
	parameters, _ := described["parameters"].([]any)
	var names []string
	for _, p := range parameters {
		if p := p.(object); p["in"] == "query" {
			names = append(names, p["name"].(string))
		}
	}
	return names
}

// paths lists the paths as http.ServeMux takes them.
func (d definition) paths() []string {
	var all []string
	for _, path := range slices.Sorted(maps.Keys(d.root["paths"].(object))) {
		if path == "/" {
			path = "/{$}"
		}
		all = append(all, path)
	}
	return all
}

// operation is one line of the document.
type operation struct {
	pattern, id, summary string
	scope                server.Scope
	query                []any
	headers              []any
	body                 string // schema of the request; "": none
	optional             bool   // the body may be left out
	answers              object // by status
	errors               []int  // besides those that every operation has
}

func (o operation) describe() object {
	parameters := []any{}
	for part := range strings.SplitSeq(o.pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok && name != "$}" {
			parameters = append(parameters, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	parameters = append(parameters, o.query...)
	parameters = append(parameters, parameter("f", "json or html, whatever Accept says", object{"type": "string", "enum": []any{"json", "html"}}))
	parameters = append(parameters, o.headers...)
	responses := maps.Clone(o.answers)
	known := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError, http.StatusServiceUnavailable}
	if o.body != "" {
		known = append(known, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	for _, status := range append(known, o.errors...) {
		responses[number(status)] = object{"$ref": "#/components/responses/Problem"}
	}
	described := object{"operationId": o.id, "summary": o.summary, "parameters": parameters, "responses": responses}
	if o.body != "" {
		described["requestBody"] = object{"required": !o.optional, "content": object{typeJSON: object{"schema": ref(o.body)}}}
	}
	if o.scope != "" {
		described["security"] = []any{object{"token": []any{}}}
		described["description"] = "Needs a token with the scope " + string(o.scope) + "."
	}
	return described
}

// operations are all of them, in the order of the standard.
func operations() []operation {
	missing := []int{http.StatusNotFound}
	limit := parameter("limit", "at most so many; a number above "+number(mostListed)+" is taken for that", object{"type": "integer", "minimum": 1, "default": defaultLimit})
	after := parameter("after", "the last one of the page before", object{"type": "string"})
	return []operation{
		{pattern: "GET /{$}", id: "getLandingPage", summary: "The landing page", answers: found("landingPage")},
		{pattern: "GET /conformance", id: "getConformanceClasses", summary: "What the API conforms to", answers: found("confClasses")},
		{pattern: "GET /api", id: "getApi", summary: "This document", answers: foundAs(typeOpenAPI, object{"type": "object"})},
		{pattern: "GET /processes", id: "getProcesses", summary: "The processes", query: []any{limit, after}, answers: found("processList")},
		{pattern: "GET /processes/{processID}", id: "getProcessDescription", summary: "A process, with its inputs and outputs", answers: found("process"), errors: missing},
		{pattern: "GET /processes/{processID}/inputsschema", id: "getInputsSchema", summary: "The JSON Schema of its inputs", answers: foundAs(typeSchema, object{"type": "object"}), errors: missing},
		{pattern: "GET /processes/{processID}/outputsschema", id: "getOutputsSchema", summary: "The JSON Schema of its outputs", answers: foundAs(typeSchema, object{"type": "object"}), errors: missing},
		execution(),
		{pattern: "GET /jobs", id: "getJobs", summary: "The jobs, newest first", query: append([]any{limit}, jobFilters()...), answers: found("jobList")},
		{pattern: "GET /jobs/{jobID}", id: "getStatus", summary: "Where a job stands", answers: found("statusInfo"), errors: missing},
		{pattern: "DELETE /jobs/{jobID}", id: "dismiss", summary: "Cancel a job, or delete the results of one that has ended", scope: server.ScopeOperate,
			answers: object{"200": answer("It is dismissed.", typeJSON, ref("statusInfo"))}, errors: missing},
		{pattern: "GET /jobs/{jobID}/results", id: "getResult", summary: "What a job has made", query: []any{many("outputs", "only these outputs, by value; default: as the job's request says", object{"type": "string"}),
			parameter("response", "raw or document; default: as the job's request says", object{"type": "string", "enum": []any{asRaw, asDocument}})},
			answers: resultsAnswers(), errors: failures()},
		{pattern: "GET /jobs/{jobID}/results/{outputID}", id: "getOutput", summary: "One output alone, in its own media type", answers: foundAs("*/*", object{}), errors: failures()},
		{pattern: "GET /jobs/{jobID}/inputs", id: "getInputs", summary: "What a job was given", answers: foundAs(typeJSON, object{"type": "object"}), errors: missing},
		{pattern: "GET /cache", id: "getCache", summary: "Which jobs answer for which payloads", query: []any{limit, after, parameter("processID", "of this process", object{"type": "string"})}, answers: found("cacheList")},
		{pattern: "POST /cache", id: "lookUpCache", summary: "The entry that answers for inputs", body: "cacheQuestion",
			answers: object{"200": answer("The entry.", typeJSON, ref("cacheEntry"))}, errors: missing},
		{pattern: "GET /cache/{key}", id: "getCacheEntry", summary: "Which job answers for a payload", answers: found("cacheEntry"), errors: missing},
		{pattern: "POST /cache/{key}/invalidate", id: "invalidateCacheEntry", summary: "Have an entry answer for nothing, from now on or from a time", scope: server.ScopeOperate,
			body: "cacheEnd", optional: true, answers: object{"200": answer("The entry.", typeJSON, ref("cacheEntry"))}, errors: missing},
	}
}

// execution is the operation that makes jobs.
func execution() operation {
	location := object{"Location": header("the job")}
	started := answer("A job was made, and goes on.", typeJSON, ref("statusInfo"))
	started["headers"] = location
	there := answer("A job that answers for the same payload was there.", typeJSON, ref("statusInfo"))
	there["headers"] = location
	done := resultsAnswers()
	for _, response := range done {
		response.(object)["headers"] = object{"Link": header("the job, as rel=monitor; outputs by reference, as rel=item")}
	}
	return operation{pattern: "POST /processes/{processID}/execution", id: "execute", summary: "Execute a process", scope: server.ScopeExecute, body: "execute",
		headers: []any{
			object{"name": "Prefer", "in": "header", "schema": object{"type": "string"}, "description": "respond-async, or wait=SECONDS (RFC 7240)"},
			object{"name": "Idempotency-Key", "in": "header", "schema": object{"type": "string", "maxLength": 255}, "description": "who sends the same request again within 24 hours gets the same job"},
		},
		answers: object{"200": done["200"], "204": done["204"], "201": started, "303": there},
		errors:  append(failures(), http.StatusUnprocessableEntity)}
}

// resultsAnswers are the ways in which a job's outputs are sent.
func resultsAnswers() object {
	return object{
		"200": object{"description": "What the job has made: as a document, else one output as it is, and several as multipart/related.", "content": object{
			typeJSON: object{"schema": object{"anyOf": []any{ref("results"), object{}}}}, "multipart/related": object{"schema": object{"type": "string"}},
			"*/*": object{"schema": object{}}}},
		"204": object{"description": "Every output is wanted by reference, or there is none.", "headers": object{"Link": header("an output, as rel=item")}},
	}
}

// failures are what a job's results may be besides results: the failure's own status.
func failures() []int {
	all := []int{http.StatusNotFound, http.StatusGone}
	for status := http.StatusBadRequest; status < 600; status++ {
		if http.StatusText(status) != "" && status != http.StatusMethodNotAllowed && !slices.Contains(all, status) {
			all = append(all, status)
		}
	}
	return all
}

// jobFilters are the query parameters of the list of jobs.
func jobFilters() []any {
	id := object{"type": "string", "format": "uuid"}
	return []any{
		many("processID", "of these processes", object{"type": "string"}),
		many("type", "of these types", object{"type": "string", "enum": []any{"process"}}),
		many("status", "in these states", ref("statusCode")),
		many("waybillStatus", "in these of Waybill's own states", object{"type": "string"}),
		parameter("datetime", "created at this time, or within this interval; .. is an open end", object{"type": "string"}),
		parameter("minDuration", "at work for at least so many seconds", object{"type": "integer", "minimum": 0}),
		parameter("maxDuration", "at work for at most so many seconds", object{"type": "integer", "minimum": 0}),
		parameter("after", "the last job of the page before", id),
		parameter("before", "the first job of the page behind", id),
	}
}

func parameter(name, description string, schema object) object {
	return object{"name": name, "in": "query", "description": description, "required": false, "schema": schema}
}

// many is a query parameter that may be repeated.
func many(name, description string, items object) object {
	p := parameter(name, description+"; may be repeated, or hold commas", object{"type": "array", "items": items})
	p["style"], p["explode"], p["allowEmptyValue"] = "form", true, true
	return p
}

func header(description string) object {
	return object{"description": description, "schema": object{"type": "string"}}
}

func ref(schema string) object { return object{"$ref": "#/components/schemas/" + schema} }

// answer is a response in one media type.
func answer(description, kind string, schema object) object {
	return object{"description": description, "content": object{kind: object{"schema": schema}}}
}

// found is a document that is a page too.
func found(schema string) object { return foundAs(typeJSON, ref(schema)) }

func foundAs(kind string, schema object) object {
	response := answer("It is there.", kind, schema)
	if kind != "*/*" {
		response["content"].(object)[typeHTML] = object{"schema": object{"type": "string"}}
	}
	return object{"200": response}
}
