package web

import (
	"net/http"
	"strings"

	"github.com/waybill-dev/waybill/internal/server"
)

// confirmSkip returns the page before a skip of a stage, group, host or step.
func (p *Pages) confirmSkip(r *http.Request) (content, error) {
	ref, err := refOf(r)
	if err != nil {
		return content{}, err
	}
	target, event := strings.TrimSpace(r.FormValue("target")), strings.TrimSpace(r.FormValue("event"))
	page := confirmPage{Pipeline: ref.Pipeline, Ref: ref, Heading: "Skip " + belowPipeline(target), Explain: true, Columns: []string{"Target", "Step", "State"}}
	if event != "" {
		page.Heading += " " + event
	}
	title := page.Heading + " of " + ref.String()
	preview, err := p.service.PreviewCommand(r.Context(), ref, server.Command{Kind: "skip", Target: target, Event: event})
	if err := page.refuse(err); err != nil || page.Refused != "" {
		return confirmed(title, page), err
	}
	page.To, page.Button = deploymentPath(ref)+"/skip", page.Heading
	page.Fields = []confirmField{{"target", target}, {"event", event}}
	says := plural(len(preview.Steps), "step is", "steps are") + " left out of " + ref.String()
	if preview.Hosts > 0 {
		says = plural(len(preview.Steps), "step", "steps") + " of " + plural(preview.Hosts, "host is", "hosts are") + " left out of " + ref.String()
	}
	page.Says = []string{says + " and never run in it. This cannot be taken back.", "What comes after them proceeds as if they were done."}
	for _, step := range preview.Steps {
		page.addRow(belowPipeline(step.Target), server.StepName(step.Event), string(step.State))
	}
	return confirmed(title, page), nil
}
