package pipeline

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// historyPage is the data of the page of a target's deployments.
type historyPage struct {
	Pipeline string
	Target   string // path below the pipeline; "": the pipeline
	Passages []journal.Passage
	Earlier  string // address of the page with earlier deployments; "": none
	Newest   string // address of the page with the newest deployments; "": this page
}

// history returns the page of the deployments that started at a target.
func (p *pages) history(r *http.Request) (page.Content, error) {
	target := strings.Trim(strings.TrimSpace(r.FormValue("target")), "/")
	data := historyPage{Pipeline: r.PathValue("pipeline"), Target: target}
	before, err := page.Number(r, "before")
	if err != nil {
		return page.Content{}, err
	}
	if before > 0 {
		data.Newest = page.WithQuery(r, "before", "")
	}
	data.Passages, err = p.service.History(r.Context(), journal.HistoryQuery{
		Pipeline: data.Pipeline, Target: target, Before: before, Limit: service.RecentLimit,
	})
	if n := len(data.Passages); n == service.RecentLimit {
		data.Earlier = page.WithQuery(r, "before", strconv.FormatInt(data.Passages[n-1].Seq, 10))
	}
	return page.Content{Title: "History of " + data.Pipeline, Nav: "pipelines", Data: data}, err
}

// outcomeOf returns the outcome of a passage.
func outcomeOf(p journal.Passage) string { return cmp.Or(p.Outcome, string(service.RunRunning)) }
