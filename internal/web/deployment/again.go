package deployment

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// confirmAgain returns the page before a revision is deployed once more.
func (p *pages) confirmAgain(r *http.Request) (page.Confirm, error) {
	ref, label, err := p.deploymentOf(r)
	if err != nil {
		return page.Confirm{}, err
	}
	confirm := page.Confirm{
		Title: "Deploy the revision of " + ref.String() + " again", Pipeline: ref.Pipeline, Ref: ref,
		Heading: "Deploy again", Execute: true, Columns: []string{"Stage", "Has", "Gets"},
	}
	if err := confirm.Choose(r, p.service, page.DeploymentPath(ref)+"/again"); err != nil {
		return page.Confirm{}, err
	}
	want := service.NewDeployment{Pipeline: ref.Pipeline, Revision: label, Target: confirm.Target}
	preview, err := p.service.PreviewDeploy(r.Context(), want)
	if err := confirm.Refuse(err); err != nil || confirm.Refused != "" {
		return confirm, err
	}
	confirm.To, confirm.Button = confirm.Choice, "Deploy "+label+" again"
	key, err := p.onceKey(r.Context(), ref.Pipeline, label, confirm.Target)
	if err != nil {
		return page.Confirm{}, err
	}
	confirm.AddField("target", confirm.Target)
	confirm.AddField("key", key)
	where := fmt.Sprintf("through every stage of definition %d", preview.Version)
	if confirm.Target != "" {
		where = "to " + confirm.Target + " and nowhere else"
	}
	confirm.Says = []string{"A new deployment takes " + label + " " + where +
		". It takes every step there again, and its turn comes after the deployments before it."}
	for _, stage := range preview.Stages {
		has, gets := "nothing", label
		if stage.Current != nil {
			has = fmt.Sprintf("%s of #%d", stage.Current.Label, stage.Current.Deployment)
		}
		if stage.Newer {
			gets += ", which is older"
		}
		if stage.Waits {
			confirm.Says = append(confirm.Says, stage.Stage+" waits for its window or its approval, as in every deployment.")
		}
		confirm.AddRow(stage.Stage, has, gets)
	}
	return confirm, nil
}

// deploymentOf returns the deployment in a request's path, with the label of its revision.
func (p *pages) deploymentOf(r *http.Request) (ref service.Ref, label string, err error) {
	if ref, err = refOf(r); err != nil {
		return ref, "", err
	}
	outline, err := p.service.Outline(r.Context(), ref)
	return ref, outline.Label, err
}

// onceKey returns the key of a form that deploys once more: a button that is pressed twice makes
// one deployment. The key changes with the next deployment of the pipeline, and not before.
func (p *pages) onceKey(ctx context.Context, name, label, target string) (string, error) {
	newest, err := p.service.Deployments(ctx, journal.DeploymentQuery{Pipeline: name, Limit: 1})
	if err != nil || len(newest) == 0 {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", newest[0].Number, label, target))), nil
}

// deployAgain makes a new deployment of the revision of a deployment and leads to it.
func (p *pages) deployAgain(r *http.Request, by string) (next string, err error) {
	ref, label, err := p.deploymentOf(r)
	if err != nil {
		return "", err
	}
	made, err := p.service.Deploy(r.Context(), service.NewDeployment{
		Pipeline: ref.Pipeline, Revision: label, Target: r.PostFormValue("target"), By: by, Key: r.PostFormValue("key"),
	})
	return page.DeploymentPath(service.Ref{Pipeline: ref.Pipeline, Number: made.Number}), err
}
