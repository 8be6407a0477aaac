package web

import (
	"fmt"
	"net/http"

	"github.com/waybill-dev/waybill/internal/server"
)

// confirmCatchUp returns the page before a catch-up of a pipeline, stage, group or host.
func (p *pipelinePages) confirmCatchUp(r *http.Request) (Confirm, error) {
	name := r.PathValue("pipeline")
	confirm := Confirm{Title: "Catch up " + name, Pipeline: name, Heading: "Catch up", Execute: true, Columns: []string{"Host", "Runs", "Gets"}}
	if err := confirm.Choose(r, p.service, PipelinePath(name)+"/catch-up"); err != nil {
		return Confirm{}, err
	}
	preview, err := p.service.PreviewCatchUp(r.Context(), server.TargetRequest{Pipeline: name, Target: confirm.Target})
	if err := confirm.Refuse(err); err != nil || confirm.Refused != "" {
		return confirm, err
	}
	confirm.To, confirm.Button = confirm.Choice, "Catch up "+name
	if confirm.Target != "" {
		confirm.Button = "Catch up " + confirm.Target + " of " + name
	}
	confirm.Fields = []Field{{"target", confirm.Target}}
	confirm.Says = []string{Plural(len(preview.Hosts), "host gets", "hosts get") + " " + preview.Revision + ", the current revision of the group. Nothing else changes.",
		"It waits for windows and approvals as every deployment does, and runs no gate and no bake."}
	for _, host := range preview.Hosts {
		runs := "nothing"
		if host.Runs != nil {
			runs = fmt.Sprintf("%s of #%d", host.Runs.Label, host.Runs.Deployment)
		}
		if host.Lost && host.Runs != nil {
			runs = "not " + runs + ", as the log says"
		}
		confirm.AddRow(BelowPipeline(host.Target), runs, preview.Revision)
	}
	return confirm, nil
}

// catchUp makes a catch-up of a pipeline, or of a target of it, and leads to it.
func (p *pipelinePages) catchUp(r *http.Request, by string) (next string, err error) {
	name := r.PathValue("pipeline")
	made, err := p.service.CatchUp(r.Context(), server.TargetRequest{Pipeline: name, Target: r.PostFormValue("target"), By: by})
	return DeploymentPath(server.Ref{Pipeline: name, Number: made.Number}), err
}
