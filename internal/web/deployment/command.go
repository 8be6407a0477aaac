package deployment

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// command records the command of a button on a deployment.
func (p *pages) command(r *http.Request, by string) (next string, err error) {
	ref, err := refOf(r)
	if err != nil {
		return "", err
	}
	return page.DeploymentPath(ref), p.service.Command(r.Context(), ref, service.Command{
		Kind: r.PathValue("command"), Target: r.PostFormValue("target"), Event: r.PostFormValue("event"),
		Reason: r.PostFormValue("reason"), By: by,
	})
}

// acceptRevision accepts the rejected revision of a deployment.
func (p *pages) acceptRevision(r *http.Request, by string) (next string, err error) {
	ref, label, err := p.deploymentOf(r)
	if err != nil {
		return "", err
	}
	_, err = p.service.AcceptRevision(r.Context(), ref.Pipeline, label, by, r.PostFormValue("reason"))
	return page.DeploymentPath(ref), err
}

// approve returns the function of the button that approves a stage of a deployment, or rejects it.
func (p *pages) approve(reject bool) func(r *http.Request, by string) (next string, err error) {
	return func(r *http.Request, by string) (string, error) {
		ref, err := refOf(r)
		if err != nil {
			return "", err
		}
		_, err = p.service.Approve(r.Context(), service.Approval{
			Pipeline: ref.Pipeline, Deployment: ref.Number, Stage: r.PathValue("stage"), Reject: reject,
			Reason: r.PostFormValue("reason"), By: by,
		})
		return page.DeploymentPath(ref), err
	}
}
