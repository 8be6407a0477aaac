// Package pipeline serves the pages of pipelines and of the services on their hosts.
package pipeline

import (
	"embed"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages serves the pages of pipelines.
type pages struct {
	service  *service.Service
	verified verified
}

// Register adds the pages and forms of pipelines, and of the services on their hosts, to a site.
func Register(site *page.Site, waybill *service.Service) {
	p := &pages{service: waybill}
	p.registerPages(site)
	p.registerPromotion(site)
	site.HandleConfirm("GET /pipelines/{pipeline}/rollback", p.confirmRollback)
	site.HandleConfirm("GET /pipelines/{pipeline}/catch-up", p.confirmCatchUp)
	site.HandleForm("POST "+serviceAddress+"/restart", service.ScopeOperate, p.restartService)
	site.HandleForm("POST "+serviceAddress+"/verify", service.ScopeOperate, p.verifyService)
	site.HandleForm("POST /pipelines/{pipeline}/rollback", service.ScopeOperate, p.rollback)
	site.HandleForm("POST /pipelines/{pipeline}/catch-up", service.ScopeExecute, p.catchUp)
	site.HandleForm("POST /pipelines/{pipeline}/freeze", service.ScopeOperate, p.freeze)
	site.HandleForm("POST /pipelines/{pipeline}/thaw", service.ScopeOperate, p.thaw)
}

func (p *pages) registerPages(site *page.Site) {
	parse := func(own template.FuncMap, names ...string) *template.Template {
		return site.Template(templateFiles, own, names...)
	}
	graph := template.FuncMap{
		"track": trackOf, "conditionTone": conditionTone, "insideTone": insideTone, "words": page.StatusWords,
	}
	shown := template.FuncMap{"shownSource": shownSource}
	maps.Copy(shown, graph)
	site.Handle("GET /{$}", parse(graph, "pipelines", "track", "standing"), p.pipelines)
	site.Handle("GET /pipelines/{pipeline}", parse(shown, "pipeline", "promotion", "track", "standing"), p.pipeline)
	site.Handle("GET /pipelines/{pipeline}/log", parse(nil, "log"), p.log)
	site.Handle("GET "+serviceAddress,
		parse(template.FuncMap{"serviceTone": serviceTone}, "service", "standing"), p.hostService)
	site.Handle("GET /pipelines/{pipeline}/history", parse(template.FuncMap{"outcomeOf": outcomeOf}, "history"), p.history)
	site.Handle("GET /pipelines/{pipeline}/metrics",
		parse(template.FuncMap{"date": date, "length": length}, "metrics"), p.metrics)
	site.Handle("GET /pipelines/{pipeline}/plan",
		parse(template.FuncMap{"duration": service.Took, "stepName": service.StepName}, "plan"), p.plan)
}

// pipelines returns the page of all pipelines.
func (p *pages) pipelines(r *http.Request) (page.Content, error) {
	all, err := p.service.Pipelines(r.Context())
	return page.Content{Title: "Pipelines", Nav: "pipelines", Data: all}, err
}

// Bounds of a pipeline's page. The log and the commands show the rest.
const (
	matrixWidth   = 6        // deployments side by side
	driftsShown   = 50       // hosts that drift; services that are left running
	versionsShown = 10       // definitions, the newest
	sourceShown   = 32 << 10 // bytes of a definition's file
)

// pipelinePage is the data of the page of one pipeline.
type pipelinePage struct {
	service.PipelineView
	Columns   []column
	Waits     map[int64]string // first reason why an active deployment waits, by its number; "": it works
	Rows      []row
	Shown     *page.Hosts           // the hosts in Rows
	MoreDrift int                   // number of further hosts that drift
	Running   []service.LeftService // services of Left that run or may run
	MoreLeft  int                   // number of further services that run or may run
	Versions  []journal.Version     // newest first, at most versionsShown
	Kube      *promotionPage        // set for a pipeline of Kubernetes, instead of all else
}

// column is a deployment in the table of hosts.
type column struct {
	Number int64
	Label  string
	Status pipeline.Status
}

// row is a host with the progress of each deployment on it.
type row struct {
	Stage, Group, Host, URL string
	First                   bool   // first host of its group on the page
	Runs                    string // label of the release on the host; "": none yet
	RunsBy                  int64
	Had                     string         // name of the host when it was deployed, such as beta/all/oak; "": as today
	Found                   *service.Found // the host's report, if the log differs
	Doubt                   string         // reason not to trust the release
	Service                 *service.Services
	Unknown                 bool // the host has not answered: Runs comes from the log
	Cells                   []service.HostRun
}

// pipeline returns the page of one pipeline.
func (p *pages) pipeline(r *http.Request) (page.Content, error) {
	name := r.PathValue("pipeline")
	view, err := p.service.Pipeline(r.Context(), name)
	if err != nil {
		return page.Content{}, err
	}
	if view.Promotion != nil {
		data, err := p.promotionOf(r, view)
		return page.Content{Title: name, Nav: "pipelines", Data: pipelinePage{PipelineView: view, Kube: data}}, err
	}
	data := pipelinePage{PipelineView: view, Waits: map[int64]string{}}
	if data.Shown, err = page.HostsOf(r); err != nil {
		return page.Content{}, err
	}
	if err := p.matrix(r, &data); err != nil {
		return page.Content{}, err
	}
	data.MoreDrift = max(0, len(data.Drift)-driftsShown)
	data.Drift = data.Drift[:len(data.Drift)-data.MoreDrift]
	data.Running = slices.DeleteFunc(slices.Clone(data.Left), service.LeftService.Ended)
	data.MoreLeft = max(0, len(data.Running)-driftsShown)
	data.Running = data.Running[:len(data.Running)-data.MoreLeft]
	data.Versions, err = p.service.Versions(r.Context(), name)
	slices.Reverse(data.Versions)
	data.Versions = data.Versions[:min(versionsShown, len(data.Versions))]
	return page.Content{Title: name, Nav: "pipelines", Data: data}, err
}

// matrix fills the table of hosts and newest deployments.
func (p *pages) matrix(r *http.Request, data *pipelinePage) error {
	byTarget := map[string][]service.HostRun{}
	shown := data.Deployments[:min(matrixWidth, len(data.Deployments))]
	for i, d := range shown {
		data.Columns = append(data.Columns, column{d.Number, d.Label, d.Status})
		run, err := p.service.Outline(r.Context(), service.Ref{Pipeline: data.Name, Number: d.Number})
		if err != nil {
			return err
		}
		data.Columns[i].Status = run.Status
		data.Waits[d.Number] = waitsFor(run)
		for _, stage := range run.Stages {
			for _, group := range stage.Groups {
				for _, host := range group.Hosts {
					now := data.Definition.NameNow(host.Target)
					if byTarget[now] == nil {
						byTarget[now] = make([]service.HostRun, len(shown))
					}
					byTarget[now][i] = host
				}
			}
		}
	}
	data.Rows = rows(data, byTarget)
	data.Shown.Close(r)
	return nil
}

// shownSource returns the beginning of a definition's file.
func shownSource(source string) string {
	if len(source) <= sourceShown {
		return source
	}
	return strings.ToValidUTF8(source[:sourceShown], "") + "…"
}

// waitsFor returns the first reason why a stage or a host of a deployment waits.
func waitsFor(d service.DeploymentView) string {
	for _, stage := range d.Stages {
		if stage.State == service.RunWaiting && stage.Reason != "" {
			return stage.Name + ": " + stage.Reason
		}
		for _, group := range stage.Groups {
			for _, host := range group.Hosts {
				if stage.State == service.RunRunning && host.State != service.RunFinished && host.Reason != "" {
					return page.BelowPipeline(host.Target) + ": " + host.Reason
				}
			}
		}
	}
	return ""
}

// rows returns the hosts of the definition in force that the page shows, with the release on each.
func rows(data *pipelinePage, cells map[string][]service.HostRun) []row {
	if data.Definition == nil {
		return nil
	}
	views := map[string]service.HostView{}
	for _, view := range data.Hosts {
		views[view.Target] = view
	}
	var all []row
	for at := range data.Definition.EachHost() {
		if !data.Shown.Take(page.BelowPipeline(at.Target)) {
			continue
		}
		view := views[at.Target]
		each := row{Stage: at.Stage.Name, Group: at.Group.Name, Host: at.Host.Name, URL: at.Host.URL, First: true,
			Cells: cells[at.Target], Service: view.Service, Found: view.Found, Unknown: view.Unknown()}
		if runs := view.Runs; runs != nil {
			each.RunsBy, each.Runs, each.Doubt, each.Had = runs.Deployment, runs.Label, runs.Doubt, runs.BelowPipeline()
		}
		if n := len(all); n > 0 {
			each.First = all[n-1].Stage != each.Stage || all[n-1].Group != each.Group
		}
		all = append(all, each)
	}
	return all
}
