package build

import (
	"cmp"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service/buildview"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// buildsPage is the data of the list of builds.
type buildsPage struct {
	buildview.List
	Query    buildview.Query
	Statuses []build.Status
	Older    string // address of the next page; "": none
	Newest   string // address of the first page; "": this page
	Filtered bool
	Form     form
	More     bool   // a filter among the folded ones is used
	Since    string // days, as in the address
	Until    string
}

// builds returns the list of builds.
func (p *pages) builds(r *http.Request) (page.Content, error) {
	q, err := buildQuery(r)
	if err != nil {
		return page.Content{}, err
	}
	none := buildview.Query{After: q.After}
	plain := none
	plain.Status, plain.Pipeline, plain.Text, plain.Deployment = q.Status, q.Pipeline, q.Text, q.Deployment
	data := buildsPage{
		Query: q, Filtered: q != none, More: q != plain, Since: r.FormValue("since"), Until: r.FormValue("until"),
		Statuses: []build.Status{build.Running, build.Completed, build.Failed, build.Canceled, build.TimedOut, build.Lost},
	}
	if data.List, err = p.service.Builds(r.Context(), q); err != nil {
		return page.Content{}, err
	}
	data.Form.Projects, data.Form.Engines = p.service.Projects(), p.service.Engines()
	if data.Form.Newest, err = p.newestBuild(r); err != nil {
		return page.Content{}, err
	}
	if data.Next != "" {
		data.Older = page.WithQuery(r, "after", data.Next)
	}
	if q.After != "" {
		data.Newest = page.WithQuery(r, "after", "")
	}
	return page.Content{Title: "Builds", Nav: "builds", Data: data}, nil
}

// buildQuery reads the filter of the list of builds.
func buildQuery(r *http.Request) (q buildview.Query, err error) {
	q = buildview.Query{
		Status: build.Status(r.FormValue("status")), Pipeline: cmp.Or(r.FormValue("project"), r.FormValue("pipeline")),
		Branch: r.FormValue("branch"), Commit: r.FormValue("commit"), Environment: r.FormValue("environment"),
		Stage: r.FormValue("stage"), Input: r.FormValue("input"), Artifact: r.FormValue("artifact"),
		Test: r.FormValue("test"), Text: r.FormValue("q"), After: r.FormValue("after"),
	}
	if q.Deployment, err = page.Number(r, "deployment"); err != nil {
		return q, err
	}
	for name, into := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		if *into, err = time.Parse(time.DateOnly, text); err != nil {
			return q, fault.New(fault.Invalid, "%s: want a day such as 2026-01-02", name)
		}
	}
	if !q.Until.IsZero() {
		q.Until = q.Until.AddDate(0, 0, 1) // the last day is included
	}
	return q, nil
}
