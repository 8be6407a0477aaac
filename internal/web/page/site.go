// Package page has the parts that Waybill's pages share: the frame, live streams, forms, tones and
// times.
//
// The package of a noun adds its pages to a [Site] in its function Register. A page is a file
// templates/NAME.html that defines the template NAME, the template functions that only this page
// needs, and a [Loader] that reads its data. The template renders the whole page and each event of
// its live stream. A button is a form that a [Submit] executes; [Confirm] describes its effect first.
package page

import (
	"html/template"
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/service"
)

// Site answers browsers with pages, live streams of pages, and assets. A server.Server in front of
// it enforces the access rules.
type Site struct {
	service *service.Service
	mux     *http.ServeMux
	parts   *template.Template // templates that pages share; never executed, so that it can be cloned
	frame   *template.Template // a copy of parts that is executed
	assets  assets
}

// NewSite returns a site without pages. made has the text of each asset that the program makes, by
// its name, such as colours.css.
func NewSite(service *service.Service, made map[string]string) *Site {
	s := &Site{service: service, mux: http.NewServeMux(), parts: sharedTemplates(), assets: newAssets(made)}
	s.frame = template.Must(s.parts.Clone())
	s.mux.HandleFunc("GET /assets/{digest}/{file}", s.serveAsset)
	s.mux.HandleFunc("/", s.writeNotFound)
	return s
}

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w)
	s.mux.ServeHTTP(w, r)
}

// Handle serves a page, or a live stream of it to a client that accepts one.
func (s *Site) Handle(pattern string, t *template.Template, load Loader) {
	loadWhole := func(r *http.Request) (Content, error) {
		shown, err := load(r)
		shown.Template = t
		return shown, err
	}
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			s.Follow(w, r, loadWhole)
			return
		}
		shown, err := loadWhole(r)
		if err != nil {
			s.WriteError(w, r, err)
			return
		}
		s.Write(w, r, shown)
	})
}

// HandleFunc serves other answers than pages, such as a part of a page that a script requests.
func (s *Site) HandleFunc(pattern string, serve http.HandlerFunc) { s.mux.HandleFunc(pattern, serve) }
