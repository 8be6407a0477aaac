package web

import (
	"net/http"
	"strconv"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/schedule"
	"github.com/waybill-dev/waybill/internal/server"
)

// tailLength is how many of the last entries a deployment's page shows.
const tailLength = 12

// deploymentPage is one deployment with the end of its log.
type deploymentPage struct {
	server.DeploymentView
	Tail []schedule.Entry // newest first
}

// Ref is greeter#7.
func (d deploymentPage) Ref() server.Ref { return server.Ref{Pipeline: d.Pipeline, Number: d.Number} }

// CanHold, CanResume, CanRetry and CanCancel say which buttons make sense now; the server judges again.
func (d deploymentPage) CanHold() bool   { return d.Status == schedule.Active && d.State.Held == "" }
func (d deploymentPage) CanResume() bool { return d.State.Held != "" && d.Status == schedule.Active }
func (d deploymentPage) CanRetry() bool  { return len(d.Failures) > 0 && d.mayGoOn() }
func (d deploymentPage) CanCancel() bool { return d.mayGoOn() }

func (d deploymentPage) mayGoOn() bool {
	return d.Status == schedule.Active || d.Status == schedule.FailedRun
}

// deployment is the page of one deployment.
func (p *Pages) deployment(r *http.Request) (content, error) {
	ref, err := refOf(r)
	if err != nil {
		return content{}, err
	}
	view, err := p.service.Deployment(r.Context(), ref)
	if err != nil {
		return content{}, err
	}
	tail, err := p.service.Entries(r.Context(), ledger.EntryQuery{
		Pipeline: ref.Pipeline, Deployment: ref.Number, Limit: tailLength, Newest: true,
	})
	return content{
		Title: ref.String(), Template: "deployment", Nav: "pipelines", Data: deploymentPage{view, newestFirst(tail)},
	}, err
}

func refOf(r *http.Request) (server.Ref, error) {
	number, err := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if err != nil || number < 1 {
		return server.Ref{}, fault.New(fault.NotFound, "%q is not the number of a deployment", r.PathValue("number"))
	}
	return server.Ref{Pipeline: r.PathValue("pipeline"), Number: number}, nil
}

// command records what a button asks for and goes back to the deployment.
func (p *Pages) command(w http.ResponseWriter, r *http.Request) {
	me, err := server.Require(r.Context(), server.ScopeOperate)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	ref, err := refOf(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	err = p.service.Command(r.Context(), ref, server.Command{
		Kind: r.PathValue("command"), Target: r.PostFormValue("target"), Event: r.PostFormValue("event"),
		Reason: r.PostFormValue("reason"), By: me.Name,
	})
	if err != nil {
		p.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/deployments/"+ref.Pipeline+"/"+strconv.FormatInt(ref.Number, 10), http.StatusSeeOther)
}
