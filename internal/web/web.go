// Package web serves Waybill's pages: releases on hosts, waiting steps with their reasons, and
// buttons for readers with the scopes execute, operate and approve. The pages are HTML that the
// server renders, and they work without script. With a small script they follow the log live: the
// server renders the page's content again after a change and sends it as an event.
package web

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/server/ogc"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/action"
	"github.com/waybill-dev/waybill/internal/web/build"
	"github.com/waybill-dev/waybill/internal/web/deployment"
	"github.com/waybill-dev/waybill/internal/web/document"
	"github.com/waybill-dev/waybill/internal/web/flow"
	"github.com/waybill-dev/waybill/internal/web/page"
	"github.com/waybill-dev/waybill/internal/web/pipeline"
)

var _ ogc.Pages = (*Pages)(nil)

// Pages answers browsers, and shows the documents of the job API to them. A server.Server in front
// of it enforces the access rules.
type Pages struct {
	document.Pages
	site *page.Site
}

// New returns the pages of a service.
func New(s *service.Service) *Pages {
	site := page.NewSite(s, map[string]string{build.ColourSheet: build.Colours()})
	pipeline.Register(site, s)
	deployment.Register(site, s)
	build.Register(site, s)
	action.Register(site, s)
	flow.Register(site, s)
	return &Pages{document.New(site), site}
}

func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.site.ServeHTTP(w, r) }
