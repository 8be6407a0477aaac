package web

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/server/ogc"
)

var _ ogc.Pages = (*Pages)(nil)

// titles are the titles of the documents' pages. A job or a process has its own name as the title.
var titles = map[string]string{ //nolint:gochecknoglobals // a constant table
	"conformance": "Conformance", "definition": "The job API", "processes": "Processes", "process": "Process", "schema": "Schema",
	"jobs": "Jobs", "job": "Job", "inputs": "Inputs", "results": "Results", "result": "Result", "cache": "Payload cache", "cache-entry": "Payload",
}

// Document writes a document of the job API as a page.
func (p *Pages) Document(w http.ResponseWriter, r *http.Request, name string, doc any) {
	setPageHeaders(w)
	p.writePage(w, r, http.StatusOK, documentPage(r, name, doc))
}

// Fail writes an error as a page.
func (p *Pages) Fail(w http.ResponseWriter, r *http.Request, err error) {
	setPageHeaders(w)
	p.writeError(w, r, err)
}

// Follow sends a document's page again whenever it has changed.
func (p *Pages) Follow(w http.ResponseWriter, r *http.Request, load func(*http.Request) (name string, doc any, err error)) {
	p.serveLive(w, r, func(r *http.Request) (content, error) {
		name, doc, err := load(r)
		if err != nil {
			return content{}, err
		}
		return documentPage(r, name, doc), nil
	})
}

// documentPage returns the content of a document's page. Its data also has the filters in the address.
func documentPage(r *http.Request, name string, doc any) content {
	nav, title := "jobs", titles[name]
	switch d := doc.(type) {
	case ogc.Process:
		nav, title = "processes", d.Title
	case ogc.StatusInfo:
		title = d.ProcessID
	case ogc.ProcessList:
		nav = "processes"
	case []byte:
		doc = rawPage(name, r.URL.Path, d)
	case ogc.Results:
		doc = resultsPage(r.URL.Path, d)
	case map[string]any:
		nav, doc = "processes", rawPage(name, r.URL.Path, mustJSON(d))
	}
	query := r.URL.Query()
	return content{Title: title, Template: "ogc-" + name, Nav: nav, Data: shownDocument{Doc: doc, Query: func(key string) string { return query.Get(key) }}}
}

// shownDocument is the data of a document's template.
type shownDocument struct {
	Doc   any
	Query func(key string) string
}

// raw is a document without links.
type raw struct {
	Up      string // address of the resource that it belongs to
	Text    string
	Methods []method // of the API's definition
}

// method is one operation of the API's definition.
type method struct{ Method, Path, Summary, Scope string }

// rawPage returns the data of the page of a raw document.
func rawPage(name, path string, content []byte) raw {
	page := raw{Up: path[:max(strings.LastIndex(path, "/"), 1)], Text: prettyJSON(content)}
	if name == "definition" {
		page.Up, page.Methods = "/", apiOperations(content)
	}
	return page
}

// resultsPage returns the data of the page of a job's results, with a link to each.
func resultsPage(path string, results ogc.Results) any {
	type output struct{ Name, Path, Text string }
	page := struct {
		Up      string
		Outputs []output
	}{Up: strings.TrimSuffix(path, "/results")}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		page.Outputs = append(page.Outputs, output{name, path, prettyJSON(results[name])})
	}
	return page
}

// apiOperations returns the operations in the API's definition.
func apiOperations(openAPI []byte) []method {
	var document struct {
		Paths map[string]map[string]struct{ Summary, Description string }
	}
	if json.Unmarshal(openAPI, &document) != nil {
		return nil // the page still shows the text
	}
	var all []method
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, name := range slices.Sorted(maps.Keys(document.Paths[path])) {
			o := document.Paths[path][name]
			all = append(all, method{strings.ToUpper(name), path, o.Summary, o.Description})
		}
	}
	return all
}

// linkOf returns the address of a document's link with a relation; "" without one.
func linkOf(links []ogc.Link, rel string) string {
	for _, l := range links {
		if l.Rel == rel {
			return l.Href
		}
	}
	return ""
}
