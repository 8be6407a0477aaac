package web

import "net/http"

// schedules returns the page of the schedules.
func (p *Pages) schedules(r *http.Request) (content, error) {
	views, err := p.service.Schedules(r.Context())
	return content{Title: "Schedules", Template: "schedules", Nav: "actions", Data: views}, err
}
