// Package web is Waybill's pages: what runs where, what waits and why, and buttons for readers with
// the scopes execute, operate and approve. The pages are HTML that the server renders, and they
// work without script. With a small script they follow the log live: the server renders the page's
// content again after a change and sends it as an event.
package web

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/server/ogc"
)

var _ ogc.Pages = (*Pages)(nil)

// Pages answers browsers, and shows the documents of the job API to them. A server.Server in front of it enforces the access
// rules.
type Pages struct {
	Documents
	site *Site
}

// New returns the pages of a service.
func New(s *server.Service) *Pages {
	site := NewSite(s, map[string]string{ColourSheet: Colours()})
	registerPipelines(site, s)
	registerDeployments(site, s)
	registerBuilds(site, s)
	registerActions(site, s)
	return &Pages{NewDocuments(site), site}
}

func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.site.ServeHTTP(w, r) }
