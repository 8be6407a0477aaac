package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/server"
)

// Live pages look at least this often for what no wake-up tells, such as an attempt that began, and let
// changes that come together gather first.
const (
	lookAgain = 2 * time.Second
	gather    = 120 * time.Millisecond

	restPerLook = 4
)

// content is what a page shows: a template and its data.
type content struct {
	Title    string
	Template string
	Nav      string // which entry of the navigation is here
	Data     any
}

// loader reads a page's content for a request.
type loader func(r *http.Request) (content, error)

// view is what every template gets.
type view struct {
	content
	Me     server.Identity
	Assets string
	Path   string    // of this page, with its query
	Now    time.Time // of this process
	Live   bool      // sent over a stream: the script paints what changes with time
}

// CanOperate reports whether the reader may press buttons.
func (v view) CanOperate() bool { return v.Me.Has(server.ScopeOperate) }

// handlePage serves a page whole, or live to who accepts a stream.
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
	_, _ = w.Write(page.Bytes()) // a browser that went away needs no page
}

// serveLive sends the page's content now and whenever it has changed. The event's id is the content's digest, so that
// a browser that reconnects gets nothing it has.
func (p *Pages) serveLive(w http.ResponseWriter, r *http.Request, load loader) {
	if _, err := load(r); err != nil {
		server.WriteProblem(w, r, err) // no stream: a browser must not ask again and again
		return
	}
	server.ServeEvents(w, r, func(ctx context.Context, stream *server.EventStream) error {
		waiter, seen := p.service.Waiter(), r.Header.Get("Last-Event-ID")
		for {
			begun := time.Now()
			body, err := p.renderFragment(r.WithContext(ctx), load)
			if err != nil {
				return err
			}
			sum := sha256.Sum256([]byte(body))
			if id := hex.EncodeToString(sum[:8]); id != seen {
				if err := stream.Text(id, "content", body); err != nil {
					return err
				}
				seen = id
			}
			rest := max(gather, restPerLook*time.Since(begun)) // a big page takes at most a fifth of one core
			if err := waiter.Wait(ctx, lookAgain, ledger.TopicEntry, ledger.TopicAction); err != nil {
				return err
			}
			if err := pauseFor(ctx, rest); err != nil {
				return err
			}
		}
	})
}

func (p *Pages) renderFragment(r *http.Request, load loader) (string, error) {
	shown, err := load(r)
	if err != nil {
		return "", err
	}
	v := p.view(r, shown)
	v.Live = true
	body, err := p.renderContent(v)
	return string(body), err
}

// writeError shows an error: what went wrong, and what the reader can do. Its status is the one that programs get.
func (p *Pages) writeError(w http.ResponseWriter, r *http.Request, err error) {
	problem := server.ProblemOf(w, err)
	p.writePage(w, r, problem.Status, content{
		Title: problem.Title, Template: "error",
		Data: struct{ Text, Hint string }{problem.Detail, problem.Hint},
	})
}

func (p *Pages) writeNotFound(w http.ResponseWriter, r *http.Request) {
	p.writeError(w, r, fault.New(fault.NotFound, "page %s not found", r.URL.Path).WithHint("the list of pipelines is a good start"))
}

func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// setPageHeaders keeps a page from loading, and from being shown by, anything but itself.
func setPageHeaders(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("Cache-Control", "no-store")
}
