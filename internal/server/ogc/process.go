package ogc

import (
	"net/http"
	"strconv"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
)

// Bounds of a list's length.
const (
	defaultLimit = 10
	mostListed   = 10_000
)

// limitOf returns the limit of a request, at most mostListed.
func limitOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return defaultLimit, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 {
		return 0, fault.New(fault.Invalid, "limit=%s: want a whole number from 1 to %d", text, mostListed)
	}
	return min(limit, mostListed), nil
}

// processes lists the processes in the order of their ids. after= is the last process of the
// previous page.
func (a *API) processes(r *http.Request) (reply, error) {
	limit, err := limitOf(r)
	if err != nil {
		return reply{}, err
	}
	all, err := a.service.Processes(r.Context())
	if err != nil {
		return reply{}, err
	}
	list := ProcessList{Processes: []Process{}, Links: selfLinks(r)}
	query := r.URL.Query()
	for _, w := range all {
		if after := query.Get("after"); after != "" && w.Name <= after {
			continue
		}
		if len(list.Processes) == limit {
			query.Set("after", list.Processes[limit-1].ID)
			list.Links = append(list.Links, Link{Href: absoluteURL(r, "/processes", query), Rel: "next", Type: typeJSON, Title: "more processes"})
			break
		}
		list.Processes = append(list.Processes, summary(r, w))
	}
	return reply{name: "processes", doc: list}, nil
}

// summary returns the description of a process in a list.
func summary(r *http.Request, w config.Process) Process {
	at := pathOf("processes", w.Name)
	return Process{ID: w.Name, Title: w.Title, Description: w.Description, Version: strconv.Itoa(w.Version),
		JobControlOptions: service.ControlsOf(w), OutputTransmission: []string{"value", "reference"},
		Links: addLink(nil, r, at, "self", typeJSON, "the description of "+w.Name)}
}

// process describes one process with its inputs and outputs.
func (a *API) process(r *http.Request) (reply, error) {
	w, err := a.service.Process(r.Context(), r.PathValue("processID"))
	if err != nil {
		return reply{}, err
	}
	at := pathOf("processes", w.Name)
	p := summary(r, w)
	p.Inputs, p.Outputs = map[string]Input{}, map[string]Output{}
	for _, v := range w.Inputs() {
		in := Input{Title: schemaText(v.Schema, "title"), Description: schemaText(v.Schema, "description"),
			Schema: simplifySchema(v.Schema, w.Input.Document)}
		if v.Required {
			in.MinOccurs = 1
		}
		p.Inputs[v.Name] = in
	}
	for _, v := range w.Output.Values() {
		p.Outputs[v.Name] = Output{Title: schemaText(v.Schema, "title"), Description: schemaText(v.Schema, "description"),
			Schema: simplifySchema(v.Schema, w.Output.Document)}
	}
	p.Links = selfLinks(r)
	p.Links = addLink(p.Links, r, at+"/execution", relExecute, typeJSON, "execute it")
	p.Links = addLink(p.Links, r, at+"/inputsschema", "describedby", typeSchema, "the schema of its inputs")
	p.Links = addLink(p.Links, r, at+"/outputsschema", "describedby", typeSchema, "the schema of its outputs")
	p.Links = append(p.Links, Link{Href: absoluteURL(r, "/jobs", map[string][]string{"processID": {w.Name}}),
		Rel: relJobs, Type: typeJSON, Title: "its jobs"})
	return reply{name: "process", doc: p}, nil
}

// schemaText returns the value of a schema's keyword; "" if it is not a string.
func schemaText(schema map[string]any, keyword string) string {
	value, _ := schema[keyword].(string)
	return value
}

func (a *API) inputsSchema(r *http.Request) (reply, error) {
	return a.schema(r, func(w config.Process) (map[string]any, []config.Value) { return w.Input.Document, w.Inputs() })
}

func (a *API) outputsSchema(r *http.Request) (reply, error) {
	return a.schema(r, func(w config.Process) (map[string]any, []config.Value) {
		return w.Output.Document, w.Output.Values()
	})
}

// schema answers with a JSON Schema (2020-12) of a process: the configured one, or a schema of the
// known values.
func (a *API) schema(r *http.Request, of func(config.Process) (map[string]any, []config.Value)) (reply, error) {
	w, err := a.service.Process(r.Context(), r.PathValue("processID"))
	if err != nil {
		return reply{}, err
	}
	document, values := of(w)
	full := map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
	if document == nil && len(values) > 0 {
		properties, required := map[string]any{}, []string{}
		for _, v := range values {
			properties[v.Name] = v.Schema
			if v.Required {
				required = append(required, v.Name)
			}
		}
		full["properties"], full["required"], full["additionalProperties"] = properties, required, false
	}
	for keyword, value := range document {
		full[keyword] = value
	}
	return reply{name: "schema", doc: full, kind: typeSchema}, nil
}
