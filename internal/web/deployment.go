package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// tailLength is the number of newest entries on a deployment's page.
const tailLength = 12

// deploymentPage is the data of the page of one deployment, with the end of its log.
type deploymentPage struct {
	server.DeploymentView
	Tail []pipeline.Entry // newest first
}

// Ref returns the name of the deployment, such as greeter#7.
func (d deploymentPage) Ref() server.Ref { return server.Ref{Pipeline: d.Pipeline, Number: d.Number} }

// Path returns the address of the deployment's page.
func (d deploymentPage) Path() string { return deploymentPath(d.Ref()) }

// cause is an error with the steps that failed by it.
type cause struct {
	server.Failure
	Where []server.Failure
}

// Causes groups the failures by their text, so that the page shows each text once.
func (d deploymentPage) Causes() (causes []*cause) {
	by := map[[2]string]*cause{}
	for _, f := range d.Failures {
		key := [2]string{f.Why, f.Todo}
		if by[key] == nil {
			by[key] = &cause{Failure: f}
			causes = append(causes, by[key])
		}
		by[key].Where = append(by[key].Where, f)
	}
	return causes
}

// Brief returns an entry's detail without the errors that the page shows above it.
func (d deploymentPage) Brief(raw json.RawMessage) string {
	return detailWith(raw, func(text string) string {
		for _, f := range d.Failures {
			if before, found := strings.CutSuffix(": "+text, ": "+f.Why); found && f.Why != "" {
				return strings.TrimPrefix(before+": see above", ": ")
			}
		}
		return text
	})
}

// CanHold, CanResume, CanRetry and CanCancel report which buttons make sense now. The server checks again.
func (d deploymentPage) CanHold() bool {
	return d.Status == pipeline.StatusActive && d.State.Held == ""
}
func (d deploymentPage) CanResume() bool {
	return d.State.Held != "" && d.Status == pipeline.StatusActive
}
func (d deploymentPage) CanRetry() bool  { return len(d.Failures) > 0 && d.mayContinue() }
func (d deploymentPage) CanCancel() bool { return d.mayContinue() }

func (d deploymentPage) mayContinue() bool {
	return d.Status == pipeline.StatusActive || d.Status == pipeline.StatusFailed
}

// deployment returns the page of one deployment.
func (p *Pages) deployment(r *http.Request) (content, error) {
	ref, err := refOf(r)
	if err != nil {
		return content{}, err
	}
	view, err := p.service.Deployment(r.Context(), ref)
	if err != nil {
		return content{}, err
	}
	tail, err := p.service.Entries(r.Context(), journal.EntryQuery{
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

// deploymentPath returns the address of a deployment's page.
func deploymentPath(ref server.Ref) string {
	return "/deployments/" + url.PathEscape(ref.Pipeline) + "/" + strconv.FormatInt(ref.Number, 10)
}
