// Package document serves the documents of the job API as pages.
package document

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server/ogc"
	"github.com/waybill-dev/waybill/internal/web/page"
)

//go:embed templates/*.html
var templateFiles embed.FS

// titles has the title of each document's page by the document's name. Jobs and processes have
// titles of their own.
var titles = map[string]string{ //nolint:gochecknoglobals // a constant table
	"conformance": "Conformance", "definition": "The job API", "processes": "Processes", "process": "Process",
	"schema": "Schema", "jobs": "Jobs", "job": "Job", "inputs": "Inputs", "results": "Results", "result": "Result",
	"cache": "Payload cache", "cache-entry": "Payload",
}

// Pages shows the documents of the job API as pages.
type Pages struct {
	site      *page.Site
	templates map[string]*template.Template
}

// New returns the documents' pages with the frame of a site.
func New(site *page.Site) Pages {
	functions := template.FuncMap{
		"compact": compactJSON, "phases": queue.Phases, "linkOf": linkOf, "href": func(l ogc.Link) string { return l.Href },
	}
	d := Pages{site, map[string]*template.Template{}}
	for name := range titles {
		d.templates[name] = site.Template(templateFiles, functions, name, "links", "values")
	}
	return d
}

// Document writes a document as a page.
func (d Pages) Document(w http.ResponseWriter, r *http.Request, name string, doc any) {
	d.site.Write(w, r, d.content(r, name, doc))
}

// Fail writes an error as a page.
func (d Pages) Fail(w http.ResponseWriter, r *http.Request, err error) {
	d.site.WriteError(w, r, err)
}

// Follow sends a document's page now and after each change.
func (d Pages) Follow(
	w http.ResponseWriter, r *http.Request, load func(*http.Request) (name string, doc any, err error),
) {
	d.site.Follow(w, r, func(r *http.Request) (page.Content, error) {
		name, doc, err := load(r)
		if err != nil {
			return page.Content{}, err
		}
		return d.content(r, name, doc), nil
	})
}

// content returns the content of a document's page. Its data also has the filters in the address.
func (d Pages) content(r *http.Request, name string, doc any) page.Content {
	nav, title := "jobs", titles[name]
	switch of := doc.(type) {
	case ogc.Process:
		nav, title = "processes", of.Title
	case ogc.StatusInfo:
		title = of.ProcessID
	case ogc.ProcessList:
		nav = "processes"
	case []byte:
		doc = rawPage(name, r.URL.Path, of)
	case ogc.Results:
		doc = resultsPage(r.URL.Path, of)
	case map[string]any:
		nav, doc = "processes", rawPage(name, r.URL.Path, mustJSON(of))
	}
	query := r.URL.Query()
	return page.Content{
		Title: title, Nav: nav, Template: d.templates[name], Data: shownDocument{Doc: doc, Query: query.Get},
	}
}

// shownDocument is the data of a document's template.
type shownDocument struct {
	Doc   any
	Query func(key string) string
}

// raw is a document without links.
type raw struct {
	Up      string // address of the resource above
	Text    string
	Methods []method // operations, if the document is the API's definition
}

// method is an operation in the API's definition.
type method struct{ Method, Path, Summary, Scope string }

// rawPage returns the data of the page of a raw document.
func rawPage(name, path string, content []byte) raw {
	data := raw{Up: path[:max(strings.LastIndex(path, "/"), 1)], Text: page.PrettyJSON(content)}
	if name == "definition" {
		data.Up, data.Methods = "/", apiOperations(content)
	}
	return data
}

// resultsPage returns the data of the page of a job's results, with a link to each.
func resultsPage(path string, results ogc.Results) any {
	type output struct{ Name, Path, Text string }
	data := struct {
		Up      string
		Outputs []output
	}{Up: strings.TrimSuffix(path, "/results")}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		data.Outputs = append(data.Outputs, output{name, path, page.PrettyJSON(results[name])})
	}
	return data
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

// linkOf returns the address of the first link with a relation; "" without one.
func linkOf(links []ogc.Link, rel string) string {
	for _, l := range links {
		if l.Rel == rel {
			return l.Href
		}
	}
	return ""
}

// compactJSON returns a value as JSON in one line.
func compactJSON(value any) string { return strings.TrimSpace(string(mustJSON(value))) }

// mustJSON returns a value as JSON, which must have been decoded from JSON.
func mustJSON(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Append(nil, err)
	}
	return b.Bytes()
}
