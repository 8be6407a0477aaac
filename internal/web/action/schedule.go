package action

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/web/page"
)

// schedules returns the page of the schedules.
func (p *pages) schedules(r *http.Request) (page.Content, error) {
	views, err := p.service.Schedules(r.Context())
	return page.Content{Title: "Schedules", Nav: "actions", Data: views}, err
}
