package web

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/server"
)

// historyPage is the data of the page of what happened at a target.
type historyPage struct {
	Pipeline string
	Target   string // without the pipeline; "": the pipeline
	Passages []journal.Passage
	Earlier  string // address of the page with earlier deployments; "": none
	Newest   string // address of the page with the newest ones; "": this page
}

// history returns the page of the deployments that started at a target.
func (p *pipelinePages) history(r *http.Request) (Content, error) {
	page := historyPage{Pipeline: r.PathValue("pipeline"), Target: strings.Trim(strings.TrimSpace(r.FormValue("target")), "/")}
	before, err := Number(r, "before")
	if err != nil {
		return Content{}, err
	}
	if before > 0 {
		page.Newest = WithQuery(r, "before", "")
	}
	page.Passages, err = p.service.History(r.Context(), journal.HistoryQuery{Pipeline: page.Pipeline, Target: page.Target, Before: before, Limit: server.RecentLimit})
	if n := len(page.Passages); n == server.RecentLimit {
		page.Earlier = WithQuery(r, "before", strconv.FormatInt(page.Passages[n-1].Seq, 10))
	}
	return Content{Title: "History of " + page.Pipeline, Nav: "pipelines", Data: page}, err
}

// outcomeOf returns how a passage ended.
func outcomeOf(p journal.Passage) string { return cmp.Or(p.Outcome, string(server.RunRunning)) }
