package web

import (
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/server"
)

// confirmSkip returns the page before a skip of a stage, group, host or step.
func (p *deploymentPages) confirmSkip(r *http.Request) (Confirm, error) {
	ref, err := refOf(r)
	if err != nil {
		return Confirm{}, err
	}
	target, event := strings.TrimSpace(r.FormValue("target")), strings.TrimSpace(r.FormValue("event"))
	confirm := Confirm{Pipeline: ref.Pipeline, Ref: ref, Heading: "Skip " + BelowPipeline(target), Explain: true, Columns: []string{"Target", "Step", "State"}}
	if event != "" {
		confirm.Heading += " " + event
	}
	confirm.Title = confirm.Heading + " of " + ref.String()
	preview, err := p.service.PreviewCommand(r.Context(), ref, server.Command{Kind: "skip", Target: target, Event: event})
	if err := confirm.Refuse(err); err != nil || confirm.Refused != "" {
		return confirm, err
	}
	confirm.To, confirm.Button = DeploymentPath(ref)+"/skip", confirm.Heading
	confirm.Fields = []Field{{"target", target}, {"event", event}}
	says := Plural(len(preview.Steps), "step is", "steps are") + " left out of " + ref.String()
	if preview.Hosts > 0 {
		says = Plural(len(preview.Steps), "step", "steps") + " of " + Plural(preview.Hosts, "host is", "hosts are") + " left out of " + ref.String()
	}
	confirm.Says = []string{says + " and never run in it. This cannot be taken back.", "What comes after them proceeds as if they were done."}
	for _, step := range preview.Steps {
		confirm.AddRow(BelowPipeline(step.Target), server.StepName(step.Event), string(step.State))
	}
	return confirm, nil
}
