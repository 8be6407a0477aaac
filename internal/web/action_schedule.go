package web

import "net/http"

// schedules returns the page of the schedules.
func (p *actionPages) schedules(r *http.Request) (Content, error) {
	views, err := p.service.Schedules(r.Context())
	return Content{Title: "Schedules", Nav: "actions", Data: views}, err
}
