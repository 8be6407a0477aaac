package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
)

// content is what a page shows: a template and its data.
type content struct {
	Title    string
	Template string
	Nav      string // the current entry of the navigation
	Data     any
	Every    time.Duration // longest time between two looks of a live page; 0: lookAgain
	Builds   bool          // what is stored of builds changes the page
}

// loader reads a page's content for a request.
type loader func(r *http.Request) (content, error)

// view is the data of every template.
type view struct {
	content
	Me     server.Identity
	Assets string
	Path   string    // path of this page, with its query
	Now    time.Time // of this process
	Live   bool      // sent over a stream: the script updates what depends on the clock
}

// CanOperate reports whether the reader may use the buttons, except those that approve.
func (v view) CanOperate() bool { return v.Me.Has(server.ScopeOperate) }

// CanExecute reports whether the reader may deploy revisions.
func (v view) CanExecute() bool { return v.Me.Has(server.ScopeExecute) }

// CanApprove reports whether the reader may approve stages. The server checks which.
func (v view) CanApprove() bool { return v.Me.Has(server.ScopeApprove) }

// handlePage serves a page, or a live stream of it to a client that accepts one.
func (p *Pages) handlePage(pattern string, load loader) {
	p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			p.serveLive(w, r, load)
			return
		}
		shown, err := load(r)
		if err != nil {
			p.writeError(w, r, err)
			return
		}
		p.writePage(w, r, http.StatusOK, shown)
	})
}

func (p *Pages) view(r *http.Request, shown content) view {
	return view{
		content: shown, Me: server.IdentityOf(r.Context()), Assets: p.assets, Path: r.URL.RequestURI(), Now: time.Now(),
	}
}

func (p *Pages) writePage(w http.ResponseWriter, r *http.Request, status int, shown content) {
	var page bytes.Buffer
	v := p.view(r, shown)
	body, err := p.renderContent(v)
	if err == nil {
		err = p.templates.ExecuteTemplate(&page, "page", struct {
			view
			Body any
		}{v, body})
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("render the page: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // a browser that has gone needs no page
}

// writeError shows an error and its hint as a page, with the status that the API has for the error.
func (p *Pages) writeError(w http.ResponseWriter, r *http.Request, err error) {
	problem := server.ProblemOf(w, err)
	nav := ""
	if r.URL.Path == "/builds" || strings.HasPrefix(r.URL.Path, "/builds/") {
		nav = "builds"
	}
	p.writePage(w, r, problem.Status, content{
		Title: problem.Title, Nav: nav, Template: "error",
		Data: struct{ Text, Hint string }{problem.Detail, problem.Hint},
	})
}

func (p *Pages) writeNotFound(w http.ResponseWriter, r *http.Request) {
	p.writeError(w, r, fault.New(fault.NotFound, "page %s not found", r.URL.Path).WithHint("start from the list of pipelines"))
}

// setPageHeaders restricts a page to content of this server, and keeps other sites from framing it.
func setPageHeaders(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("Cache-Control", "no-store")
}
