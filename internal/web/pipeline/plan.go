package pipeline

import (
	"net/http"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// planPage is the data of the page of a plan: the steps of one more deployment of a pipeline.
type planPage struct {
	Pipeline             string
	Fail, From, Revision string // texts of the form
	Plan                 service.PlanView
	Several              bool // other deployments are active
	Unmeasured           int  // steps without a known duration
	Rows                 []planRow
	More                 int // number of further rows
}

// planRow is a step with its bar, in a drawing that is planWidth wide.
type planRow struct {
	pipeline.PlanStep
	X, Width int64
}

// Bounds of the page.
const (
	planWidth    = 1000
	mostPlanRows = 500
)

// plan returns the page of the plan of a pipeline. Failures and the begin are written as for the
// command.
func (p *pages) plan(r *http.Request) (page.Content, error) {
	data := planPage{Pipeline: r.PathValue("pipeline"), Fail: strings.TrimSpace(r.FormValue("fail")),
		From: strings.TrimSpace(r.FormValue("from")), Revision: strings.TrimSpace(r.FormValue("revision"))}
	q := service.PlanQuery{Pipeline: data.Pipeline, From: data.From, Revision: data.Revision}
	if data.Fail != "" {
		q.Fail = strings.Fields(data.Fail)
	}
	var err error
	if data.Plan, err = p.service.Plan(r.Context(), q); err != nil {
		return page.Content{}, err
	}
	data.Several = len(data.Plan.Ends) > 1
	data.rows()
	return page.Content{Title: "Plan of " + data.Pipeline, Nav: "pipelines", Data: data}, nil
}

// rows keeps work, waiting steps and consequences of failures.
func (p *planPage) rows() {
	last := time.Duration(1)
	for _, step := range p.Plan.Steps {
		last = max(last, step.End)
		if step.Unmeasured {
			p.Unmeasured++
		}
	}
	for _, step := range p.Plan.Steps {
		if !step.Work && step.Reason == "" {
			continue
		}
		if len(p.Rows) == mostPlanRows {
			p.More++
			continue
		}
		from := max(0, step.Start)
		scale := float64(planWidth) / float64(last) // integers would overflow for a year in nanoseconds
		p.Rows = append(p.Rows, planRow{step, int64(float64(from) * scale), max(2, int64(float64(step.End-from)*scale))})
	}
}

// Tone returns the tone of a row's bar.
func (r planRow) Tone() page.Tone {
	if r.Failed {
		return page.Failed
	}
	return page.Finished
}
