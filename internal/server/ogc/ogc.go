// Package ogc is the job API: OGC API – Processes, part 1, version 1.0 (OGC 18-062r2), with the requirements classes
// core, ogc-process-description, json, html, oas30, job-list, callback and dismiss, and Waybill's payload cache beside it.
//
// A process is one that the configuration describes, a job is an action of kind job. The document at /api
// says what there is; what it does not name is refused.
package ogc

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/semaphore"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// Pages show documents to people.
type Pages interface {
	// Document writes a document as a page. name says what it is, such as job; doc is what JSON would have been.
	Document(w http.ResponseWriter, r *http.Request, name string, doc any)
	// Follow sends a document's page anew whenever it has changed, as server-sent events.
	Follow(w http.ResponseWriter, r *http.Request, load func(*http.Request) (name string, doc any, err error))
	// Fail writes an error as a page.
	Fail(w http.ResponseWriter, r *http.Request, err error)
	// ServeHTTP answers everything that is not of this API.
	http.Handler
}

// Config is what the API is made of.
type Config struct {
	Service *server.Service
	Pages   Pages
	Version string        // of the program
	Guard   webhook.Guard // of inputs that are fetched by reference
}

// API answers requests of clients. Access rules and identities are server.Server's.
type API struct {
	service *server.Service
	pages   Pages
	fetcher *webhook.Client
	mux     *http.ServeMux
	openAPI []byte               // the document at /api
	linked  *semaphore.Semaphore // for requests whose links are followed
	large   *semaphore.Semaphore // for requests with large bodies
}

// New makes the API.
func New(c Config) *API {
	document := describe(c.Version)
	a := &API{service: c.Service, pages: c.Pages, mux: http.NewServeMux(), openAPI: document.encode(), linked: semaphore.New(linkedAtOnce, linkPatience, "the links of too many requests are being followed"),
		large:   semaphore.New(largeAtOnce, largePatience, "too many large requests are being read"),
		fetcher: webhook.NewClient(webhook.ClientConfig{Guard: c.Guard})}
	for _, e := range a.endpoints() {
		a.mux.Handle(e.pattern, a.endpoint(e, document.queryOf(e.pattern)))
	}
	for _, path := range document.paths() {
		a.mux.HandleFunc(path, a.wrongMethod)
	}
	a.mux.Handle("/", c.Pages)
	return a
}

// ServeHTTP answers a request, or has the pages do it.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// endpoint is one operation.
type endpoint struct {
	pattern string // as http.ServeMux takes it
	scope   server.Scope
	answer  func(*http.Request) (reply, error)
}

func (a *API) endpoints() []endpoint {
	return []endpoint{
		{"GET /{$}", "", a.landingPage},
		{"GET /conformance", "", a.conformance},
		{"GET /api", "", a.definition},
		{"GET /processes", "", a.processes},
		{"GET /processes/{processID}", "", a.process},
		{"GET /processes/{processID}/inputsschema", "", a.inputsSchema},
		{"GET /processes/{processID}/outputsschema", "", a.outputsSchema},
		{"POST /processes/{processID}/execution", server.ScopeExecute, a.execute},
		{"GET /jobs", "", a.jobs},
		{"GET /jobs/{jobID}", "", a.job},
		{"DELETE /jobs/{jobID}", server.ScopeOperate, a.dismiss},
		{"GET /jobs/{jobID}/results", "", a.results},
		{"GET /jobs/{jobID}/results/{outputID}", "", a.result},
		{"GET /jobs/{jobID}/inputs", "", a.inputs},
		{"GET /cache", "", a.cache},
		{"POST /cache", "", a.lookUp},
		{"GET /cache/{key}", "", a.cacheEntry},
		{"POST /cache/{key}/invalidate", server.ScopeOperate, a.invalidate},
	}
}

// endpoint serves one operation: its scope, its query parameters, then its answer in the form that was asked for.
func (a *API) endpoint(e endpoint, query []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		asked, err := formOf(r)
		if err != nil {
			a.writeError(w, r, err, jsonForm)
			return
		}
		follows := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
		switch {
		case e.pattern == "GET /{$}" && (asked == htmlForm || follows):
			a.pages.ServeHTTP(w, r) // Waybill's own first page
			return
		case follows:
			a.pages.Follow(w, r, func(r *http.Request) (string, any, error) {
				answer, err := a.callEndpoint(e, r, query)
				return answer.name, answer.doc, err
			})
			return
		}
		answer, err := a.callEndpoint(e, r, query)
		if err != nil {
			a.writeError(w, r, err, asked)
			return
		}
		a.writeReply(w, r, answer, asked)
	})
}

func (a *API) callEndpoint(e endpoint, r *http.Request, query []string) (reply, error) {
	if e.scope != "" {
		if _, err := server.Require(r.Context(), e.scope); err != nil {
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
	return e.answer(r)
}

// wrongMethod answers a known path with a method that it does not have.
func (a *API) wrongMethod(w http.ResponseWriter, r *http.Request) {
	asked, _ := formOf(r) // what is asked for wrongly gets JSON
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := a.mux.Handler(probe); strings.HasPrefix(pattern, method+" ") {
			allowed = append(allowed, method)
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a.writeError(w, r, &server.Problem{Type: "waybill:method_not_allowed", Title: http.StatusText(http.StatusMethodNotAllowed),
		Status: http.StatusMethodNotAllowed, Detail: r.Method + " is not possible at " + r.URL.Path, Hint: "possible: " + strings.Join(allowed, ", ")}, asked)
}
