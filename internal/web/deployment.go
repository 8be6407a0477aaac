package web

import (
	"net/http"
	"strconv"

	"github.com/waybill-dev/waybill/internal/action"
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
	Tail  []pipeline.Entry // newest first
	NoLog string           // why the archive, and so Tail, cannot be read; "": it can
	Hosts *hostPage
	tries map[action.ID][]server.Try // the attempts at the first actions with more than one

	builds map[action.ID]*buildTail
}

// Ref returns the name of the deployment, such as greeter#7.
func (d deploymentPage) Ref() server.Ref { return server.Ref{Pipeline: d.Pipeline, Number: d.Number} }

// Path returns the address of the deployment's page.
func (d deploymentPage) Path() string { return deploymentPath(d.Ref()) }

// deployment returns the page of one deployment.
func (p *Pages) deployment(r *http.Request) (content, error) {
	ref, err := refOf(r)
	if err != nil {
		return content{}, err
	}
	hosts, err := hostPageOf(r)
	if err != nil {
		return content{}, err
	}
	view, err := p.service.Deployment(r.Context(), ref)
	if err != nil {
		return content{}, err
	}
	hosts.cutHosts(&view)
	hosts.close(r)
	tries, err := p.readTries(r, view)
	if err != nil {
		return content{}, err
	}
	builds, err := p.readBuilds(r.Context(), view)
	if err != nil {
		return content{}, err
	}
	tail, err := p.service.Entries(r.Context(), journal.EntryQuery{
		Pipeline: ref.Pipeline, Deployment: ref.Number, Limit: tailLength, Newest: true,
	})
	noLog := ""
	if view.Archive != "" && (fault.Is(err, fault.Corrupt) || fault.Is(err, fault.Unavailable)) { // the database has the rest of the page
		noLog, err = err.Error(), nil
	}
	return content{
		Title: ref.String(), Template: "deployment", Nav: "pipelines", Data: deploymentPage{view, newestFirst(tail), noLog, hosts, tries, builds},
	}, err
}

func refOf(r *http.Request) (server.Ref, error) {
	number, err := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if err != nil || number < 1 {
		return server.Ref{}, fault.New(fault.NotFound, "%q is not the number of a deployment", r.PathValue("number"))
	}
	return server.Ref{Pipeline: r.PathValue("pipeline"), Number: number}, nil
}

// cutHosts removes the hosts from a deployment that the page does not show.
func (h *hostPage) cutHosts(d *server.DeploymentView) {
	for s := range d.Stages {
		for g := range d.Stages[s].Groups {
			group := &d.Stages[s].Groups[g]
			shown := []server.HostRun{}
			for _, host := range group.Hosts {
				if h.Take(belowPipeline(host.Target)) {
					shown = append(shown, host)
				}
			}
			group.Hosts = shown
		}
	}
}

// stepWord returns the text of a step: what it does or did, or only its name if it has not begun.
func stepWord(s server.StepRun) string {
	switch s.State {
	case pipeline.StateWaiting, pipeline.StateRunnable:
		return s.Name
	case pipeline.StateFailed, pipeline.StateElided, pipeline.StateExcluded:
		return s.Name + " " + s.Word
	}
	return s.Word
}
