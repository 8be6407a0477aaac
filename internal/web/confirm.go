package web

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/server"
)

// confirmPage is the data of a page that says what a button does before it is used. What it says
// comes from the server at that moment, and the page is live.
type confirmPage struct {
	Heading  string
	Pipeline string
	Ref      server.Ref     // of the deployment that the page is about; no number: of none
	Says     []string       // the consequences, in sentences
	Columns  []string       // of Rows
	Rows     [][]string     // what is changed, at most hostsPerPage rows
	More     int            // rows that are left out
	Refused  string         // why it cannot be done now; "": it can
	Hint     string         // what to do instead
	Choice   string         // address of the form that chooses a target; "": there is nothing to choose
	Targets  []string       // that may be chosen
	Target   string         // that is chosen, without the pipeline
	To       string         // address of the form
	Fields   []confirmField // that the form repeats
	Button   string
	Execute  bool // it needs the scope execute and not operate
	Explain  bool // a reason is required
}

// confirmField is a field of a form that its reader does not see.
type confirmField struct{ Name, Value string }

// refuse shows why the server would refuse. It returns the errors that are not about what was
// asked.
func (c *confirmPage) refuse(err error) error {
	if err != nil && !fault.Is(err, fault.Refused) && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil {
		c.Refused, c.Hint = err.Error(), fault.HintOf(err)
	}
	return nil
}

// addRow adds a row, of which only the first ones are shown.
func (c *confirmPage) addRow(cells ...string) {
	if len(c.Rows) < hostsPerPage {
		c.Rows = append(c.Rows, cells)
	} else {
		c.More++
	}
}

// confirmed returns the content of a page that says what a button does.
func confirmed(title string, page confirmPage) content {
	return content{Title: title, Template: "confirm", Nav: "pipelines", Data: page}
}

// confirmRollback returns the page before a rollback of a pipeline, stage, group or host.
func (p *Pages) confirmRollback(r *http.Request) (content, error) {
	name := r.PathValue("pipeline")
	page := confirmPage{Pipeline: name, Heading: "Roll back", Columns: []string{"Host", "Runs", "Gets"}}
	if err := p.choose(r, &page, pipelinePath(name)+"/rollback"); err != nil {
		return content{}, err
	}
	preview, err := p.service.PreviewRollback(r.Context(), server.TargetRequest{Pipeline: name, Target: page.Target})
	if err := page.refuse(err); err != nil || page.Refused != "" {
		return confirmed("Roll back "+name, page), err
	}
	page.To, page.Button = page.Choice, "Roll back "+name
	if page.Target != "" {
		page.Button = "Roll back " + page.Target + " of " + name
	}
	page.Fields = []confirmField{{"target", page.Target}, {"undoes", strconv.FormatInt(preview.Undoes, 10)}, {"revision", preview.Revision}}
	page.Says = rollbackSays(preview)
	for _, host := range preview.Hosts {
		runs := "nothing"
		if host.Runs != nil {
			runs = fmt.Sprintf("%s of #%d", host.Runs.Label, host.Runs.Deployment)
		}
		page.addRow(belowPipeline(host.Target), runs, preview.Revision)
	}
	return confirmed("Roll back "+name, page), nil
}

// choose fills in the target that a request names, and the stages and groups of hosts that the form
// at an address proposes.
func (p *Pages) choose(r *http.Request, page *confirmPage, address string) error {
	version, err := p.service.Version(r.Context(), page.Pipeline, 0)
	if err != nil {
		return err
	}
	page.Choice, page.Target = address, strings.Trim(strings.TrimSpace(r.FormValue("target")), "/")
	for _, stage := range version.Definition.Stages {
		if len(stage.Groups) > 0 {
			page.Targets = append(page.Targets, stage.Name)
		}
		for _, group := range stage.Groups {
			if len(stage.Groups) > 1 {
				page.Targets = append(page.Targets, stage.Name+"/"+group.Name)
			}
		}
	}
	return nil
}

// rollbackSays returns what a rollback does, in sentences.
func rollbackSays(preview server.RollbackPreview) []string {
	says := []string{fmt.Sprintf("%s %s back. What is live there ends first.", plural(len(preview.Hosts), "host gets", "hosts get"), preview.Revision)}
	if preview.Cancels {
		says = append(says, fmt.Sprintf("#%d is canceled.", preview.Undoes))
	}
	if preview.Rejects {
		says = append(says, fmt.Sprintf("The revision %s of #%d is rejected: nothing deploys it until somebody accepts it.", preview.Undone, preview.Undoes))
	}
	if len(preview.Holds) > 0 {
		says = append(says, fmt.Sprintf("%s where hosts are rolled back, until somebody resumes them.", numbersHeld(preview.Holds)))
	}
	return append(says, "It waits for no window and no approval, only for the end of a freeze.")
}

// numbersHeld returns that deployments are held, of which it names at most five.
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

// confirmAgain returns the page before a revision is deployed once more.
func (p *Pages) confirmAgain(r *http.Request) (content, error) {
	ref, label, err := p.deploymentOf(r)
	if err != nil {
		return content{}, err
	}
	title := "Deploy the revision of " + ref.String() + " again"
	page := confirmPage{Pipeline: ref.Pipeline, Ref: ref, Heading: "Deploy again", Execute: true, Columns: []string{"Stage", "Has", "Gets"}}
	if err := p.choose(r, &page, deploymentPath(ref)+"/again"); err != nil {
		return content{}, err
	}
	preview, err := p.service.PreviewDeploy(r.Context(), server.NewDeployment{Pipeline: ref.Pipeline, Revision: label, Target: page.Target})
	if err := page.refuse(err); err != nil || page.Refused != "" {
		return confirmed(title, page), err
	}
	page.To, page.Button = page.Choice, "Deploy "+label+" again"
	key, err := p.onceKey(r.Context(), ref.Pipeline, label, page.Target)
	if err != nil {
		return content{}, err
	}
	page.Fields = []confirmField{{"target", page.Target}, {"key", key}}
	where := fmt.Sprintf("through every stage of definition %d", preview.Version)
	if page.Target != "" {
		where = "to " + page.Target + " and nowhere else"
	}
	page.Says = []string{fmt.Sprintf("A new deployment takes %s %s. It takes every step there again, and its turn comes after the deployments before it.", label, where)}
	for _, stage := range preview.Stages {
		has, gets := "nothing", label
		if stage.Current != nil {
			has = fmt.Sprintf("%s of #%d", stage.Current.Label, stage.Current.Deployment)
		}
		if stage.Newer {
			gets += ", which is older"
		}
		if stage.Waits {
			page.Says = append(page.Says, stage.Stage+" waits for its window or its approval, as in every deployment.")
		}
		page.addRow(stage.Stage, has, gets)
	}
	return confirmed(title, page), nil
}

// deploymentOf returns the deployment that a request names, with the label of its revision.
func (p *Pages) deploymentOf(r *http.Request) (ref server.Ref, label string, err error) {
	if ref, err = refOf(r); err != nil {
		return ref, "", err
	}
	outline, err := p.service.Outline(r.Context(), ref)
	return ref, outline.Label, err
}

// onceKey returns the key of a form that deploys once more: a button that is pressed twice makes one deployment. The key is another
// one after the next deployment of the pipeline, and the same each time that the page is drawn before.
func (p *Pages) onceKey(ctx context.Context, name, label, target string) (string, error) {
	newest, err := p.service.Deployments(ctx, journal.DeploymentQuery{Pipeline: name, Limit: 1})
	if err != nil || len(newest) == 0 {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", newest[0].Number, label, target))), nil
}

// deployAgain makes a new deployment of the revision of a deployment and leads to it.
func (p *Pages) deployAgain(r *http.Request, by string) (next string, err error) {
	ref, label, err := p.deploymentOf(r)
	if err != nil {
		return "", err
	}
	made, err := p.service.Deploy(r.Context(), server.NewDeployment{Pipeline: ref.Pipeline, Revision: label, Target: r.PostFormValue("target"), By: by, Key: r.PostFormValue("key")})
	return deploymentPath(server.Ref{Pipeline: ref.Pipeline, Number: made.Number}), err
}
