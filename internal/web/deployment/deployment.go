// Package deployment serves the pages of deployments.
package deployment

import (
	"embed"
	"html/template"
	"net/http"
	"strconv"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/build"
	"github.com/waybill-dev/waybill/internal/web/page"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages serves the pages of deployments.
type pages struct {
	service *service.Service
	builds  build.Tails
}

// Register adds the pages and forms of deployments to a site.
func Register(site *page.Site, waybill *service.Service) {
	p := &pages{waybill, build.NewTails(site, waybill)}
	shown := site.Template(templateFiles, functions(), "deployment")
	site.Handle("GET /deployments/{pipeline}/{number}", shown, p.deployment)
	site.HandleConfirm("GET /deployments/{pipeline}/{number}/skip", p.confirmSkip)
	site.HandleConfirm("GET /deployments/{pipeline}/{number}/again", p.confirmAgain)
	site.HandleForm("POST /deployments/{pipeline}/{number}/{command}", service.ScopeOperate, p.command)
	site.HandleForm("POST /deployments/{pipeline}/{number}/accept", service.ScopeOperate, p.acceptRevision)
	site.HandleForm("POST /deployments/{pipeline}/{number}/again", service.ScopeExecute, p.deployAgain)
	site.HandleForm("POST /deployments/{pipeline}/{number}/stages/{stage}/approve", service.ScopeApprove, p.approve(false))
	site.HandleForm("POST /deployments/{pipeline}/{number}/stages/{stage}/reject", service.ScopeApprove, p.approve(true))
}

// functions returns the functions of the page of a deployment.
func functions() template.FuncMap {
	return template.FuncMap{
		"join": page.Join, "words": page.StatusWords, "size": service.Size, "digest": page.ShortDigest,
		"duration": service.Took, "stepWord": stepWord,
	}
}

// tailLength is the number of newest entries on a deployment's page.
const tailLength = 12

// deploymentPage is the data of the page of one deployment, with the end of its log.
type deploymentPage struct {
	service.DeploymentView
	Tail  page.Entries
	NoLog string // error of the archive, which has the entries; "": none
	Hosts *page.Hosts
	tries map[action.ID][]service.Try // attempts at the first actions with more than one

	builds map[action.ID]template.HTML
}

// Ref returns the name of the deployment, such as greeter#7.
func (d deploymentPage) Ref() service.Ref { return service.Ref{Pipeline: d.Pipeline, Number: d.Number} }

// Path returns the address of the deployment's page.
func (d deploymentPage) Path() string { return page.DeploymentPath(d.Ref()) }

// Build returns the newest build of an action; "" if its results are not on this machine.
func (d deploymentPage) Build(id action.ID) template.HTML { return d.builds[id] }

// deployment returns the page of one deployment.
func (p *pages) deployment(r *http.Request) (page.Content, error) {
	ref, err := refOf(r)
	if err != nil {
		return page.Content{}, err
	}
	hosts, err := page.HostsOf(r)
	if err != nil {
		return page.Content{}, err
	}
	view, err := p.service.Deployment(r.Context(), ref)
	if err != nil {
		return page.Content{}, err
	}
	cutHosts(&view, hosts)
	hosts.Close(r)
	tries, err := p.readTries(r, view)
	if err != nil {
		return page.Content{}, err
	}
	builds, err := p.builds.Read(r.Context(), view)
	if err != nil {
		return page.Content{}, err
	}
	tail, err := p.service.Entries(r.Context(), journal.EntryQuery{
		Pipeline: ref.Pipeline, Deployment: ref.Number, Limit: tailLength, Newest: true,
	})
	noLog := ""
	if view.Archive != "" && (fault.Is(err, fault.Corrupt) || fault.Is(err, fault.Unavailable)) {
		noLog, err = err.Error(), nil // the rest of the page is in the database
	}
	data := deploymentPage{DeploymentView: view, NoLog: noLog, Hosts: hosts, tries: tries, builds: builds}
	data.Tail = page.EntriesOf(tail, true, data.Brief)
	return page.Content{Title: ref.String(), Nav: "pipelines", Data: data, Styles: []string{build.ColourSheet}}, err
}

func refOf(r *http.Request) (service.Ref, error) {
	number, err := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if err != nil || number < 1 {
		return service.Ref{}, fault.New(fault.NotFound, "%q is not the number of a deployment", r.PathValue("number"))
	}
	return service.Ref{Pipeline: r.PathValue("pipeline"), Number: number}, nil
}

// cutHosts keeps the hosts of a deployment that the page shows.
func cutHosts(d *service.DeploymentView, shown *page.Hosts) {
	for s := range d.Stages {
		for g := range d.Stages[s].Groups {
			group := &d.Stages[s].Groups[g]
			kept := []service.HostRun{}
			for _, host := range group.Hosts {
				if shown.Take(page.BelowPipeline(host.Target)) {
					kept = append(kept, host)
				}
			}
			group.Hosts = kept
		}
	}
}

// stepWord returns the text of a step: its name before it begins, then its progress or its end.
func stepWord(s service.StepRun) string {
	switch s.State {
	case pipeline.StateWaiting, pipeline.StateRunnable:
		return s.Name
	case pipeline.StateFailed, pipeline.StateElided, pipeline.StateExcluded:
		return s.Name + " " + s.Word
	}
	return s.Word
}
