// Package ogc is the job API: OGC API – Processes, part 1, version 1.0 (OGC 18-062r2), with the
// requirements classes core, ogc-process-description, json, html, oas30, job-list, callback and
// dismiss, and Waybill's payload cache beside it.
//
// Processes are described in the configuration, and a job is an action of kind job. The document at
// /api describes every operation and parameter; all others are refused.
package ogc

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/semaphore"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// Pages shows documents to people. It is declared here because package web imports this one.
type Pages interface {
	// Document writes a document as a page. name is the kind of the document, such as job; doc is the
	// value that JSON would encode.
	Document(w http.ResponseWriter, r *http.Request, name string, doc any)
	// Follow sends a document's page now and after each change, as server-sent events.
	Follow(w http.ResponseWriter, r *http.Request, load func(*http.Request) (name string, doc any, err error))
	// Fail writes an error as a page.
	Fail(w http.ResponseWriter, r *http.Request, err error)
	// ServeHTTP answers every request outside this API.
	http.Handler
}

// Config configures an API.
type Config struct {
	Service *service.Service
	Pages   Pages
	Version string        // version of the program
	Guard   webhook.Guard // guard of the links in inputs
}

// API answers requests of clients. A server.Server in front of it enforces the access rules.
type API struct {
	service *service.Service
	pages   Pages
	fetcher *webhook.Client
	mux     *http.ServeMux
	openAPI []byte               // the document at /api
	linked  *semaphore.Semaphore // bounds the requests whose links are followed at a time
	large   *semaphore.Semaphore // bounds the large bodies that are parsed at a time
}

// New returns the API.
func New(c Config) *API {
	a := &API{service: c.Service, pages: c.Pages, mux: http.NewServeMux(), openAPI: encodeJSON(describe(c.Version)),
		linked:  semaphore.New(linkedAtOnce, linkPatience, "the links of too many requests are being followed"),
		large:   semaphore.New(largeAtOnce, largePatience, "too many large requests are being read"),
		fetcher: webhook.NewClient(webhook.ClientConfig{Guard: c.Guard})}
	paths := map[string]bool{}
	for _, o := range operations() {
		a.mux.Handle(o.pattern, a.endpoint(o))
		paths[o.path()] = true
	}
	for path := range paths {
		a.mux.HandleFunc(path, a.wrongMethod)
	}
	a.mux.Handle("/", c.Pages)
	return a
}

// ServeHTTP answers requests of the API, and passes all others to the pages.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// endpoint returns the handler of one operation, which answers in the form that the client wants.
func (a *API) endpoint(o endpoint) http.Handler {
	query := o.queryNames()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		asked, err := formOf(r)
		if err != nil {
			a.writeError(w, r, err, jsonForm)
			return
		}
		follows := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/event-stream")
		switch {
		case o.pattern == "GET /{$}" && (asked == htmlForm || follows):
			a.pages.ServeHTTP(w, r) // Waybill's own first page
			return
		case follows:
			a.pages.Follow(w, r, func(r *http.Request) (string, any, error) {
				answer, err := a.callEndpoint(o, r, query)
				return answer.name, answer.doc, err
			})
			return
		}
		answer, err := a.callEndpoint(o, r, query)
		if err != nil {
			a.writeError(w, r, err, asked)
			return
		}
		a.writeReply(w, r, answer, asked)
	})
}

// callEndpoint returns the answer of an operation, after checking the request's scope and query
// parameters.
func (a *API) callEndpoint(o endpoint, r *http.Request, query []string) (reply, error) {
	if o.scope != "" {
		if _, err := service.Require(r.Context(), o.scope); err != nil {
			return reply{}, err
		}
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return reply{}, fault.New(fault.Invalid, "the query is not well-formed: %w", err)
	}
	if err := server.RefuseUnknown(given, query); err != nil {
		return reply{}, err
	}
	return o.serve(a, r)
}

// wrongMethod answers a request with a method that a known path does not have.
func (a *API) wrongMethod(w http.ResponseWriter, r *http.Request) {
	asked, _ := formOf(r) // on a bad form the answer is JSON
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := a.mux.Handler(probe); strings.HasPrefix(pattern, method+" ") {
			allowed = append(allowed, method)
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a.writeError(w, r, &operation.Problem{Type: "waybill:method_not_allowed", Title: http.StatusText(http.StatusMethodNotAllowed),
		Status: http.StatusMethodNotAllowed, Detail: r.Method + " is not possible at " + r.URL.Path,
		Hint: "possible: " + strings.Join(allowed, ", ")}, asked)
}
