// Package action serves the pages of the queue: actions, lanes and schedules, and the status of the
// processes that serve them.
package action

import (
	"embed"
	"html/template"
	"maps"
	"net/http"
	"path"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages serves the pages of the queue.
type pages struct{ service *service.Service }

// Register adds the pages and forms of actions, lanes and schedules to a site, and the status of
// the processes that serve them.
func Register(site *page.Site, waybill *service.Service) {
	p := &pages{waybill}
	parse := func(own template.FuncMap, names ...string) *template.Template {
		return site.Template(templateFiles, own, names...)
	}
	site.Handle("GET /actions", parse(actionFunctions(), "actions", "lanes"), p.actions)
	site.Handle("GET /actions/{id}", parse(actionFunctions(), "action"), p.action)
	site.Handle("GET /actions/replay", parse(nil, "replay"), p.replay)
	site.Handle("GET /lanes", parse(laneFunctions(), "lanes"), p.lanes)
	site.Handle("GET /schedules", parse(template.FuncMap{"lower": page.LowerWords}, "schedules"), p.schedules)
	site.Handle("GET /status", parse(queueFunctions(), "status", "lanes"), p.status)
	site.HandleForm("POST /actions/{id}/retry", service.ScopeOperate, p.retry)
	site.HandleForm("POST /actions/{id}/cancel", service.ScopeOperate, p.cancel)
	site.HandleForm("POST /actions/{id}/snooze", service.ScopeOperate, p.snooze)
	site.HandleForm("POST /actions/replay", service.ScopeOperate, p.replayActions)
	site.HandleForm("POST /lanes/{command}", service.ScopeOperate, p.commandLane)
}

// actionsLength is the number of actions on a page.
const actionsLength = 100

// actionsPage is the data of a page of actions.
type actionsPage struct {
	Status   string
	Pipeline string
	Handler  string
	Live     bool
	Statuses []action.Status // choices of the filter
	Actions  []queue.ActionState
	Older    string          // address of the page with older actions; "": none
	Troubled []queue.Limiter // lanes that are slowed, paused or disabled
}

// actions returns a page of actions.
func (p *pages) actions(r *http.Request) (page.Content, error) {
	data := actionsPage{
		Status: r.FormValue("status"), Pipeline: r.FormValue("pipeline"), Handler: r.FormValue("handler"),
		Live: r.FormValue("live") != "",
	}
	for s := action.Pending; s <= action.RetriesExhausted; s++ {
		data.Statuses = append(data.Statuses, s)
	}
	q := queue.ActionQuery{Pipeline: data.Pipeline, Handler: data.Handler, LiveOnly: data.Live, Limit: actionsLength + 1}
	var err error
	if data.Status != "" {
		status, err := action.ParseStatus(data.Status)
		if err != nil {
			return page.Content{}, fault.Wrap(fault.Invalid, err)
		}
		q.Statuses = []action.Status{status}
	}
	if after := r.FormValue("after"); after != "" {
		if q.After, err = action.ParseID(after); err != nil {
			return page.Content{}, fault.Wrap(fault.Invalid, err)
		}
	}
	if data.Troubled, err = p.troubledLanes(r.Context()); err != nil {
		return page.Content{}, err
	}
	data.Actions, err = p.service.Actions(r.Context(), q)
	if len(data.Actions) > actionsLength {
		data.Actions = data.Actions[:actionsLength]
		data.Older = page.WithQuery(r, "after", data.Actions[actionsLength-1].ID.String())
	}
	return page.Content{Title: "Actions", Nav: "actions", Data: data}, err
}

// action returns the page of one action.
func (p *pages) action(r *http.Request) (page.Content, error) {
	id, err := actionOf(r)
	if err != nil {
		return page.Content{}, err
	}
	view, err := p.service.Action(r.Context(), id)
	return page.Content{Title: view.Name, Nav: "actions", Data: actionPage{view}}, err
}

// actionPage is the data of the page of one action.
type actionPage struct{ service.ActionView }

// Text returns the text for people in the action's output; "" if the output is for programs.
func (a actionPage) Text() string { return service.TextOf(a.Output) }

// Allowed returns how many attempts the policy allows.
func (a actionPage) Allowed() int { return a.Policy.Retries + 1 }

// Ended, CanCancel and CanSnooze report which buttons make sense now. The ledger checks again.
func (a actionPage) Ended() bool     { return a.Thread.Status.Ended() }
func (a actionPage) CanCancel() bool { return a.Thread.Status.Live() }
func (a actionPage) CanSnooze() bool { return a.CanCancel() && a.Thread.Status != action.Running }

// eventRow is an event on an action's page.
type eventRow struct {
	action.Event
	// SameAs is the seq of an earlier event with the same error; -1: the action has it, at the top of
	// the page; 0: the error is new.
	SameAs int
}

// Rows returns the events, with each error once.
func (a actionPage) Rows() (rows []eventRow) {
	seen := map[string]int{a.Error: -1}
	for _, e := range a.Events {
		row := eventRow{Event: e}
		if e.Error != "" {
			row.SameAs = seen[e.Error]
			if row.SameAs == 0 {
				seen[e.Error] = e.Seq
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// attemptOf returns the attempt of an exchange, from the number at the end of its path.
func attemptOf(exchange string) string { return "attempt " + path.Base(exchange) }

// short returns the random end of an action's id, since actions of the same time begin alike.
func short(id action.ID) string { return "…" + id.String()[24:] }

// actionFunctions returns the template functions of the pages of actions.
func actionFunctions() template.FuncMap {
	functions := laneFunctions()
	maps.Copy(functions, template.FuncMap{
		"lower": page.LowerWords, "stepName": service.StepName, "pretty": page.PrettyJSON, "short": short,
		"attemptOf": attemptOf,
	})
	return functions
}
