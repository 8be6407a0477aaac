package deployment

import (
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// confirmSkip returns the page before a skip of a stage, group, host or step.
func (p *pages) confirmSkip(r *http.Request) (page.Confirm, error) {
	ref, err := refOf(r)
	if err != nil {
		return page.Confirm{}, err
	}
	target, event := strings.TrimSpace(r.FormValue("target")), strings.TrimSpace(r.FormValue("event"))
	confirm := page.Confirm{
		Pipeline: ref.Pipeline, Ref: ref, Heading: "Skip " + page.BelowPipeline(target), Explain: true,
		Columns: []string{"Target", "Step", "State"},
	}
	if event != "" {
		confirm.Heading += " " + event
	}
	confirm.Title = confirm.Heading + " of " + ref.String()
	preview, err := p.service.PreviewCommand(r.Context(), ref, service.Command{Kind: "skip", Target: target, Event: event})
	if err := confirm.Refuse(err); err != nil || confirm.Refused != "" {
		return confirm, err
	}
	confirm.To, confirm.Button = page.DeploymentPath(ref)+"/skip", confirm.Heading
	confirm.AddField("target", target)
	confirm.AddField("event", event)
	left := page.Plural(len(preview.Steps), "step is", "steps are")
	if preview.Hosts > 0 {
		left = page.Plural(len(preview.Steps), "step", "steps") + " of " + page.Plural(preview.Hosts, "host is", "hosts are")
	}
	confirm.Says = []string{
		left + " left out of " + ref.String() + " and never run in it. This cannot be taken back.",
		"What comes after them proceeds as if they were done.",
	}
	for _, step := range preview.Steps {
		confirm.AddRow(page.BelowPipeline(step.Target), service.StepName(step.Event), string(step.State))
	}
	return confirm, nil
}
