package pipeline

import (
	"fmt"
	"net/http"

	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// confirmCatchUp returns the page before a catch-up of a pipeline, stage, group or host.
func (p *pages) confirmCatchUp(r *http.Request) (page.Confirm, error) {
	name := r.PathValue("pipeline")
	confirm := page.Confirm{
		Title: "Catch up " + name, Pipeline: name, Heading: "Catch up", Execute: true,
		Columns: []string{"Host", "Runs", "Gets"},
	}
	if err := confirm.Choose(r, p.service, page.PipelinePath(name)+"/catch-up"); err != nil {
		return page.Confirm{}, err
	}
	preview, err := p.service.PreviewCatchUp(r.Context(), service.TargetRequest{Pipeline: name, Target: confirm.Target})
	if err := confirm.Refuse(err); err != nil || confirm.Refused != "" {
		return confirm, err
	}
	confirm.To, confirm.Button = confirm.Choice, "Catch up "+name
	if confirm.Target != "" {
		confirm.Button = "Catch up " + confirm.Target + " of " + name
	}
	confirm.AddField("target", confirm.Target)
	hosts := page.Plural(len(preview.Hosts), "host gets", "hosts get")
	confirm.Says = []string{
		hosts + " " + preview.Revision + ", the current revision of the group. Nothing else changes.",
		"It waits for windows and approvals as every deployment does, and runs no gate and no bake.",
	}
	for _, host := range preview.Hosts {
		runs := "nothing"
		if host.Runs != nil {
			runs = fmt.Sprintf("%s of #%d", host.Runs.Label, host.Runs.Deployment)
		}
		if host.Lost && host.Runs != nil {
			runs = "not " + runs + ", which the log says"
		}
		confirm.AddRow(page.BelowPipeline(host.Target), runs, preview.Revision)
	}
	return confirm, nil
}

// catchUp makes a catch-up of a pipeline or a target and leads to it.
func (p *pages) catchUp(r *http.Request, by string) (next string, err error) {
	name := r.PathValue("pipeline")
	want := service.TargetRequest{Pipeline: name, Target: r.PostFormValue("target"), By: by}
	made, err := p.service.CatchUp(r.Context(), want)
	return page.DeploymentPath(service.Ref{Pipeline: name, Number: made.Number}), err
}
