package ogc

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/service"
)

// endpoint is one operation of the API: its handler and its entry in the document.
type endpoint struct {
	pattern, id, summary string
	scope                service.Scope
	serve                func(*API, *http.Request) (reply, error)
	query                []object // query parameters besides f of every operation
	headers              []object
	body                 string // schema of the request; "": none
	optional             bool   // the body may be left out
	answers              object // keys are statuses
	errors               []int  // statuses besides those of every operation
}

// parameters returns the parameters of an operation in the path, the query and headers.
func (o endpoint) parameters() []object {
	all := []object{}
	for part := range strings.SplitSeq(o.pattern, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok && name != "$}" {
			all = append(all, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	all = append(all, o.query...)
	all = append(all, parameter("f", "json or html; overrides Accept", object{"type": "string", "enum": []any{"json", "html"}}))
	return append(all, o.headers...)
}

// queryNames returns the names of an operation's query parameters.
func (o endpoint) queryNames() (names []string) {
	for _, p := range o.parameters() {
		if p["in"] == "query" {
			names = append(names, p["name"].(string))
		}
	}
	return names
}

// path returns the path of an operation in the form of http.ServeMux.
func (o endpoint) path() string {
	_, path, _ := strings.Cut(o.pattern, " ")
	return path
}

// describe returns the entry of an operation in the document.
func (o endpoint) describe() object {
	responses := maps.Clone(o.answers)
	known := []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError,
		http.StatusServiceUnavailable}
	if o.body != "" {
		known = append(known, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	for _, status := range append(known, o.errors...) {
		responses[strconv.Itoa(status)] = object{"$ref": "#/components/responses/Problem"}
	}
	described := object{"operationId": o.id, "summary": o.summary, "parameters": o.parameters(), "responses": responses}
	if o.body != "" {
		described["requestBody"] = object{"required": !o.optional, "content": object{typeJSON: object{"schema": ref(o.body)}}}
	}
	if o.scope != "" {
		described["security"] = []any{object{"token": []any{}}}
		described["description"] = "Needs a token with the scope " + string(o.scope) + "."
	}
	return described
}

// operations returns the operations of the API, in the order of the standard.
func operations() []endpoint {
	missing := []int{http.StatusNotFound}
	limit := parameter("limit", "largest number of entries; a number above "+strconv.Itoa(mostListed)+" means that",
		object{"type": "integer", "minimum": 1, "default": defaultLimit})
	after := parameter("after", "the last entry of the previous page", object{"type": "string"})
	return []endpoint{
		{pattern: "GET /{$}", id: "getLandingPage", serve: (*API).landingPage, summary: "The landing page", answers: found("landingPage")},
		{pattern: "GET /conformance", id: "getConformanceClasses", serve: (*API).conformance,
			summary: "What the API conforms to", answers: found("confClasses")},
		{pattern: "GET /api", id: "getApi", serve: (*API).definition, summary: "This document",
			answers: foundAs(typeOpenAPI, object{"type": "object"})},
		{pattern: "GET /processes", id: "getProcesses", serve: (*API).processes, summary: "The processes",
			query: []object{limit, after}, answers: found("processList")},
		{pattern: "GET /processes/{processID}", id: "getProcessDescription", serve: (*API).process,
			summary: "A process, with its inputs and outputs", answers: found("process"), errors: missing},
		{pattern: "GET /processes/{processID}/inputsschema", id: "getInputsSchema", serve: (*API).inputsSchema,
			summary: "The JSON Schema of its inputs", answers: foundAs(typeSchema, object{"type": "object"}), errors: missing},
		{pattern: "GET /processes/{processID}/outputsschema", id: "getOutputsSchema", serve: (*API).outputsSchema,
			summary: "The JSON Schema of its outputs", answers: foundAs(typeSchema, object{"type": "object"}), errors: missing},
		execution(),
		{pattern: "GET /jobs", id: "getJobs", serve: (*API).jobs, summary: "The jobs, newest first",
			query: append([]object{limit}, jobFilters()...), answers: found("jobList")},
		{pattern: "GET /jobs/{jobID}", id: "getStatus", serve: (*API).job, summary: "The state of a job",
			answers: found("statusInfo"), errors: missing},
		{pattern: "DELETE /jobs/{jobID}", id: "dismiss", serve: (*API).dismiss,
			summary: "Cancel a job, or delete the results of one that has ended", scope: service.ScopeOperate,
			answers: object{"200": answer("The job is dismissed.", typeJSON, ref("statusInfo"))}, errors: missing},
		{pattern: "GET /jobs/{jobID}/results", id: "getResult", serve: (*API).results, summary: "The outputs of a job", query: []object{
			many("outputs", "only these outputs, by value; default: those that the job's request wants", object{"type": "string"}),
			parameter("response", "raw or document; default: what the job's request wants",
				object{"type": "string", "enum": []any{asRaw, asDocument}})},
			answers: resultsAnswers(), errors: failures()},
		{pattern: "GET /jobs/{jobID}/results/{outputID}", id: "getOutput", serve: (*API).result,
			summary: "One output, in its own media type", answers: foundAs("*/*", object{}), errors: failures()},
		{pattern: "GET /jobs/{jobID}/inputs", id: "getInputs", serve: (*API).inputs, summary: "The inputs of a job",
			answers: foundAs(typeJSON, object{"type": "object"}), errors: missing},
		{pattern: "GET /cache", id: "getCache", serve: (*API).cache, summary: "Which jobs answer for which payloads",
			query: []object{limit, after, parameter("processID", "of this process", object{"type": "string"})}, answers: found("cacheList")},
		{pattern: "POST /cache", id: "lookUpCache", serve: (*API).lookUp, summary: "The entry that answers for inputs", body: "cacheQuestion",
			answers: object{"200": answer("The entry.", typeJSON, ref("cacheEntry"))}, errors: missing},
		{pattern: "GET /cache/{key}", id: "getCacheEntry", serve: (*API).cacheEntry,
			summary: "Which job answers for a payload", answers: found("cacheEntry"), errors: missing},
		{pattern: "POST /cache/{key}/invalidate", id: "invalidateCacheEntry", serve: (*API).invalidate,
			summary: "Make an entry stop answering, from now or from another time on", scope: service.ScopeOperate,
			body: "cacheEnd", optional: true, answers: object{"200": answer("The entry.", typeJSON, ref("cacheEntry"))}, errors: missing},
	}
}

// execution returns the operation that creates jobs.
func execution() endpoint {
	location := object{"Location": header("the job")}
	started := answer("A job was created, and has not ended.", typeJSON, ref("statusInfo"))
	started["headers"] = location
	there := answer("A job for the same payload existed.", typeJSON, ref("statusInfo"))
	there["headers"] = location
	done := resultsAnswers()
	for _, response := range done {
		response.(object)["headers"] = object{"Link": header("the job, as rel=monitor; outputs by reference, as rel=item")}
	}
	return endpoint{pattern: "POST /processes/{processID}/execution", id: "execute", serve: (*API).execute,
		summary: "Execute a process", scope: service.ScopeExecute, body: "execute",
		headers: []object{
			{"name": "Prefer", "in": "header", "schema": object{"type": "string"}, "description": "respond-async, or wait=SECONDS (RFC 7240)"},
			{"name": "Idempotency-Key", "in": "header", "schema": object{"type": "string", "maxLength": 255},
				"description": "repeating the same request with this key within 24 hours returns the same job"},
		},
		answers: object{"200": done["200"], "204": done["204"], "201": started, "303": there},
		errors:  append(failures(), http.StatusUnprocessableEntity)}
}

// resultsAnswers returns the responses with a job's outputs.
func resultsAnswers() object {
	return object{
		"200": object{"description": "The outputs of the job: as a document, or raw: one as it is, several as " +
			"multipart/related.", "content": object{
			typeJSON:            object{"schema": object{"anyOf": []any{ref("results"), object{}}}},
			"multipart/related": object{"schema": object{"type": "string"}},
			"*/*":               object{"schema": object{}}}},
		"204": object{"description": "Every output is wanted by reference, or the job has no outputs.",
			"headers": object{"Link": header("an output, as rel=item")}},
	}
}

// failures returns the statuses of answers with the results of a failed job.
func failures() []int {
	all := []int{http.StatusNotFound, http.StatusGone}
	for status := http.StatusBadRequest; status < 600; status++ {
		if http.StatusText(status) != "" && status != http.StatusMethodNotAllowed && !slices.Contains(all, status) {
			all = append(all, status)
		}
	}
	return all
}

// jobFilters returns the query parameters of the list of jobs.
func jobFilters() []object {
	id := object{"type": "string", "format": "uuid"}
	return []object{
		many("processID", "of these processes", object{"type": "string"}),
		many("type", "of these types", object{"type": "string", "enum": []any{"process"}}),
		many("status", "in these states", ref("statusCode")),
		many("waybillStatus", "in these of Waybill's own states", object{"type": "string"}),
		parameter("datetime", "created at this time, or within this interval; .. is an open end", object{"type": "string"}),
		parameter("minDuration", "shortest running time in seconds", object{"type": "integer", "minimum": 0}),
		parameter("maxDuration", "longest running time in seconds", object{"type": "integer", "minimum": 0}),
		parameter("after", "the last job of the previous page", id),
		parameter("before", "the first job of the next page", id),
	}
}
