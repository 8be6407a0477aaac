package web

import (
	"fmt"
	"net/http"

	"github.com/waybill-dev/waybill/internal/server"
)

// confirmCatchUp returns the page before a catch-up of a pipeline, stage, group or host.
func (p *Pages) confirmCatchUp(r *http.Request) (content, error) {
	name := r.PathValue("pipeline")
	page := confirmPage{Pipeline: name, Heading: "Catch up", Execute: true, Columns: []string{"Host", "Runs", "Gets"}}
	if err := p.choose(r, &page, pipelinePath(name)+"/catch-up"); err != nil {
		return content{}, err
	}
	preview, err := p.service.PreviewCatchUp(r.Context(), server.TargetRequest{Pipeline: name, Target: page.Target})
	if err := page.refuse(err); err != nil || page.Refused != "" {
		return confirmed("Catch up "+name, page), err
	}
	page.To, page.Button = page.Choice, "Catch up "+name
	if page.Target != "" {
		page.Button = "Catch up " + page.Target + " of " + name
	}
	page.Fields = []confirmField{{"target", page.Target}}
	page.Says = []string{plural(len(preview.Hosts), "host gets", "hosts get") + " " + preview.Revision + ", the current revision of the group. Nothing else changes.",
		"It waits for windows and approvals as every deployment does, and runs no gate and no bake."}
	for _, host := range preview.Hosts {
		runs := "nothing"
		if host.Runs != nil {
			runs = fmt.Sprintf("%s of #%d", host.Runs.Label, host.Runs.Deployment)
		}
		if host.Lost && host.Runs != nil {
			runs = "not " + runs + ", as the log says"
		}
		page.addRow(belowPipeline(host.Target), runs, preview.Revision)
	}
	return confirmed("Catch up "+name, page), nil
}

// catchUp makes a catch-up of a pipeline, or of a target of it, and leads to it.
func (p *Pages) catchUp(r *http.Request, by string) (next string, err error) {
	name := r.PathValue("pipeline")
	made, err := p.service.CatchUp(r.Context(), server.TargetRequest{Pipeline: name, Target: r.PostFormValue("target"), By: by})
	return deploymentPath(server.Ref{Pipeline: name, Number: made.Number}), err
}
