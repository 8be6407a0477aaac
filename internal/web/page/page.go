package page

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/service"
)

// Content is a page's template, its data, and the data of the frame around it.
type Content struct {
	Title    string
	Nav      string             // current entry of the navigation
	Template *template.Template // set by Handle
	Data     any
	Styles   []string      // style sheets beside the common one
	Modules  []string      // scripts beside the common one
	Every    time.Duration // longest time between two renderings of a live page; 0: LookAgain
	Builds   bool          // changes of builds change the page
}

// Loader reads a page's content for a request.
type Loader func(r *http.Request) (Content, error)

// View is the data of every template.
type View struct {
	Content
	Me     service.Identity
	Assets string    // digest of the assets, a part of their addresses
	Path   string    // path of the page, with its query
	Now    time.Time // the process's time
	Live   bool      // the page is sent over a stream, and its script updates texts that depend on the clock
	// Unsafe reports that the configuration accepts approvals whose signatures do not cover them.
	Unsafe bool
	Flows  bool // the configuration names a cluster with flows
	Broker bool // the configuration has a service broker
}

// CanOperate reports whether the reader may use the buttons, except those that approve.
func (v View) CanOperate() bool { return v.Me.Has(service.ScopeOperate) }

// CanExecute reports whether the reader may deploy revisions.
func (v View) CanExecute() bool { return v.Me.Has(service.ScopeExecute) }

// CanApprove reports whether the reader may approve stages. The server checks which.
func (v View) CanApprove() bool { return v.Me.Has(service.ScopeApprove) }

func (s *Site) view(r *http.Request, shown Content) View {
	return View{
		Content: shown, Me: service.IdentityOf(r.Context()), Assets: s.assets.digest, Path: r.URL.RequestURI(),
		Now: time.Now(), Unsafe: s.service.BodylessHMAC(), Flows: s.service.HasFlows(), Broker: s.service.HasBroker(),
	}
}

// Write answers a request with a page.
func (s *Site) Write(w http.ResponseWriter, r *http.Request, shown Content) {
	s.write(w, http.StatusOK, s.view(r, shown))
}

// WriteError answers a request with a page that shows an error and its hint. The status is the
// API's for the error.
func (s *Site) WriteError(w http.ResponseWriter, r *http.Request, err error) {
	problem := server.ProblemOf(w, err)
	nav := ""
	if r.URL.Path == "/builds" || strings.HasPrefix(r.URL.Path, "/builds/") {
		nav = "builds"
	}
	s.write(w, problem.Status, s.view(r, Content{
		Title: problem.Title, Nav: nav, Template: s.frame.Lookup("error"),
		Data: struct{ Text, Hint string }{problem.Detail, problem.Hint},
	}))
}

func (s *Site) writeNotFound(w http.ResponseWriter, r *http.Request) {
	err := fault.New(fault.NotFound, "page %s not found", r.URL.Path)
	s.WriteError(w, r, err.WithHint("start from the list of pipelines"))
}

// write writes the frame with a page in it.
func (s *Site) write(w http.ResponseWriter, status int, v View) {
	var page bytes.Buffer
	body, err := Render(v.Template, v)
	if err == nil {
		err = s.frame.ExecuteTemplate(&page, "page", struct {
			View
			Body template.HTML
			Live bool
		}{v, body, v.Template.Name() != "error"})
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("render the page: %v", err), http.StatusInternalServerError)
		return
	}
	setHeaders(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // a browser that has gone needs no page
}

// Render returns a template with its data: a page without its frame, or a part of a page.
func Render(t *template.Template, data any) (template.HTML, error) {
	var body bytes.Buffer
	if err := t.Execute(&body, data); err != nil {
		return "", fmt.Errorf("render %s: %w", t.Name(), err)
	}
	return template.HTML(body.String()), nil // the template has escaped the values
}

// setHeaders restricts a page to content of this server, and keeps other sites from framing it.
func setHeaders(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("Cache-Control", "no-store")
}
