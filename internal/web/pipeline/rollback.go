package pipeline

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// confirmRollback returns the page before a rollback of a pipeline, stage, group or host.
func (p *pages) confirmRollback(r *http.Request) (page.Confirm, error) {
	name := r.PathValue("pipeline")
	confirm := page.Confirm{
		Title: "Roll back " + name, Pipeline: name, Heading: "Roll back", Columns: []string{"Host", "Runs", "Gets"},
	}
	if err := confirm.Choose(r, p.service, page.PipelinePath(name)+"/rollback"); err != nil {
		return page.Confirm{}, err
	}
	preview, err := p.service.PreviewRollback(r.Context(), service.TargetRequest{Pipeline: name, Target: confirm.Target})
	if err := confirm.Refuse(err); err != nil || confirm.Refused != "" {
		return confirm, err
	}
	confirm.To, confirm.Button = confirm.Choice, "Roll back "+name
	if confirm.Target != "" {
		confirm.Button = "Roll back " + confirm.Target + " of " + name
	}
	confirm.AddField("target", confirm.Target)
	confirm.AddField("undoes", strconv.FormatInt(preview.Undoes, 10))
	confirm.AddField("revision", preview.Revision)
	confirm.Says = rollbackSays(preview)
	for _, host := range preview.Hosts {
		runs := "nothing"
		if host.Runs != nil {
			runs = fmt.Sprintf("%s of #%d", host.Runs.Label, host.Runs.Deployment)
		}
		confirm.AddRow(page.BelowPipeline(host.Target), runs, preview.Revision)
	}
	return confirm, nil
}

// rollbackSays returns the effects of a rollback, in sentences.
func rollbackSays(preview service.RollbackPreview) []string {
	hosts := page.Plural(len(preview.Hosts), "host gets", "hosts get")
	says := []string{fmt.Sprintf("%s %s back. What is live there ends first.", hosts, preview.Revision)}
	if preview.Cancels {
		says = append(says, fmt.Sprintf("#%d is canceled.", preview.Undoes))
	}
	if preview.Rejects {
		says = append(says, fmt.Sprintf("The revision %s of #%d is rejected: nothing deploys it until somebody accepts it.",
			preview.Undone, preview.Undoes))
	}
	if len(preview.Holds) > 0 {
		says = append(says, numbersHeld(preview.Holds)+" where hosts are rolled back, until somebody resumes them.")
	}
	return append(says, "It waits for no window and no approval, only for the end of a freeze.")
}

// numbersHeld returns that deployments are held, with the numbers of at most five.
func numbersHeld(numbers []int64) string {
	var names []string
	for _, n := range numbers[:min(5, len(numbers))] {
		names = append(names, fmt.Sprintf("#%d", n))
	}
	text := strings.Join(names, ", ")
	if more := len(numbers) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(numbers) == 1 {
		return text + " is held"
	}
	return text + " are held"
}

// rollback rolls a pipeline or a target back and leads to the new deployment.
func (p *pages) rollback(r *http.Request, by string) (next string, err error) {
	name := r.PathValue("pipeline")
	want := service.TargetRequest{
		Pipeline: name, Target: r.PostFormValue("target"), Revision: r.PostFormValue("revision"),
		Reason: r.PostFormValue("reason"), By: by,
	}
	if text := r.PostFormValue("undoes"); text != "" { // the page that confirms has it
		if want.Undoes, err = strconv.ParseInt(text, 10, 64); err != nil {
			return "", fault.New(fault.Invalid, "undoes: want the number of a deployment, found %q", text)
		}
	}
	made, err := p.service.Rollback(r.Context(), want)
	return page.DeploymentPath(service.Ref{Pipeline: name, Number: made.Number}), err
}
