// Package flow serves the pages of EventFlows and of the broker's service instances. Text of the cluster and of platforms is shown as
// it is, and never as HTML.
package flow

import (
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/flowview"
	"github.com/waybill-dev/waybill/internal/web/page"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages serves the pages of flows and service instances.
type pages struct{ service *service.Service }

// Register adds the pages of flows and service instances to a site.
func Register(site *page.Site, waybill *service.Service) {
	p := &pages{waybill}
	parse := func(names ...string) *template.Template { return site.Template(templateFiles, functions(), names...) }
	site.Handle("GET /flows", parse("flows", "combined"), p.flows)
	site.Handle("GET /flows/{namespace}/{name}", parse("flow", "combined"), p.flow)
	site.Handle("GET /service-instances", parse("service-instances", "combined"), p.serviceInstances)
	site.Handle("GET /service-instances/{id}", parse("service-instance", "combined"), p.serviceInstance)
}

func functions() template.FuncMap {
	return template.FuncMap{"lower": page.LowerWords, "pretty": page.PrettyJSON, "conditionTone": conditionTone, "stateTone": stateTone,
		"combinedTone": combinedTone, "flowPath": flowPath, "splitFlow": splitFlow}
}

// every is the longest time between two renderings of a page: the cluster is read as often.
const every = 2 * time.Second

// flowsLength is the number of flows on a page.
const flowsLength = 100

// flowsPage is the data of a page of flows.
type flowsPage struct {
	Namespace string
	Status    string
	Statuses  []string // choices of the filter
	Flows     []flowview.Flow
	More      string // address of the next page; "": none
	Missing   *missing
}

// missing is the error of a process that reads no flows.
type missing struct{ Text, Hint string }

// flows returns a page of flows.
func (p *pages) flows(r *http.Request) (page.Content, error) {
	data := flowsPage{Namespace: r.FormValue("namespace"), Status: r.FormValue("status"), Statuses: flowview.Statuses()}
	shown := page.Content{Title: "Flows", Nav: "flows", Every: every}
	found, err := p.service.Flows(r.Context(), service.FlowQuery{Namespace: data.Namespace, Status: data.Status, After: r.FormValue("after"),
		Limit: flowsLength + 1})
	if fault.Is(err, fault.NotFound) {
		data.Missing = &missing{err.Error(), fault.HintOf(err)}
		shown.Data = data
		return shown, nil
	}
	if len(found) > flowsLength {
		found = found[:flowsLength]
		last := found[flowsLength-1]
		data.More = page.WithQuery(r, "after", last.Namespace+"/"+last.Name)
	}
	data.Flows = found
	shown.Data = data
	return shown, err
}

// flow returns the page of one flow.
func (p *pages) flow(r *http.Request) (page.Content, error) {
	view, err := p.service.Flow(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
	return page.Content{Title: view.Namespace + "/" + view.Name, Nav: "flows", Data: view, Every: every}, err
}

// flowPath returns the address of the page of a flow.
func flowPath(namespace, name string) string {
	return "/flows/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}
