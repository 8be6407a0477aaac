package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/schedule"
	"github.com/waybill-dev/waybill/internal/server"
)

// How many rows a page shows.
const (
	logLength     = 200
	actionsLength = 100
)

// logPage is a part of a pipeline's log.
type logPage struct {
	Pipeline   string
	Class      string
	Deployment int64
	Target     string
	Entries    []schedule.Entry // newest first
	Earlier    string           // address of the part before; "": there is none
	Newest     string           // address of the newest part; "": this is it
}

// log is the page of a pipeline's log.
func (p *Pages) log(r *http.Request) (content, error) {
	page := logPage{Pipeline: r.PathValue("pipeline"), Class: r.FormValue("class"), Target: r.FormValue("target")}
	q := ledger.EntryQuery{Pipeline: page.Pipeline, Limit: logLength, Newest: true}
	q.Class = classOf(page.Class)
	if page.Target != "" {
		q.Target = schedule.Path(page.Pipeline, page.Target)
	}
	var err error
	if page.Deployment, err = number(r, "deployment"); err != nil {
		return content{}, err
	}
	q.Deployment = page.Deployment
	before, err := number(r, "before")
	if err != nil {
		return content{}, err
	}
	if before > 0 {
		q.After, q.Newest = max(0, before-logLength-1), false
		page.Newest = withQuery(r, "before", "")
	}
	entries, err := p.service.Entries(r.Context(), q)
	if before > 0 {
		entries = slices.DeleteFunc(entries, func(e schedule.Entry) bool { return e.Seq >= before })
	}
	page.Entries = newestFirst(entries)
	if first := earliest(page.Entries, q.After); first > 1 {
		page.Earlier = withQuery(r, "before", strconv.FormatInt(first, 10))
	}
	return content{Title: "Log of " + page.Pipeline, Template: "log", Nav: "pipelines", Data: page}, err
}

// earliest is the seq before which the part before ends.
func earliest(entries []schedule.Entry, after int64) int64 {
	if len(entries) < logLength && after > 0 {
		return after + 1
	}
	if len(entries) < logLength {
		return 0
	}
	return entries[len(entries)-1].Seq
}

func classOf(name string) schedule.Class {
	for _, class := range []schedule.Class{schedule.Fact, schedule.Note, schedule.Change} {
		if class.String() == name {
			return class
		}
	}
	return 0
}

// actionsPage is a list of actions.
type actionsPage struct {
	Status   string
	Pipeline string
	Handler  string
	Live     bool
	Statuses []action.Status // to choose from
	Actions  []ledger.ActionState
	Older    string           // address of the next part; "": there is none
	Troubled []ledger.Limiter // lanes that are slowed, paused or disabled
}

// troubled are the lanes that do not run as they should.
func (p *Pages) troubled(ctx context.Context) ([]ledger.Limiter, error) {
	limits, err := p.service.Limits(ctx)
	return slices.DeleteFunc(limits, func(l ledger.Limiter) bool { return !l.Troubled() }), err
}

// actions is the page of all actions.
func (p *Pages) actions(r *http.Request) (content, error) {
	page := actionsPage{Status: r.FormValue("status"), Pipeline: r.FormValue("pipeline"), Handler: r.FormValue("handler"), Live: r.FormValue("live") != ""}
	for s := action.Pending; s <= action.RetriesExhausted; s++ {
		page.Statuses = append(page.Statuses, s)
	}
	q := ledger.ActionQuery{Pipeline: page.Pipeline, Handler: page.Handler, LiveOnly: page.Live, Limit: actionsLength + 1}
	var err error
	if page.Status != "" {
		status, err := action.ParseStatus(page.Status)
		if err != nil {
			return content{}, fault.Wrap(fault.Invalid, err)
		}
		q.Statuses = []action.Status{status}
	}
	if after := r.FormValue("after"); after != "" {
		if q.After, err = action.ParseID(after); err != nil {
			return content{}, fault.Wrap(fault.Invalid, err)
		}
	}
	if page.Troubled, err = p.troubled(r.Context()); err != nil {
		return content{}, err
	}
	page.Actions, err = p.service.Actions(r.Context(), q)
	if len(page.Actions) > actionsLength {
		page.Actions = page.Actions[:actionsLength]
		page.Older = withQuery(r, "after", page.Actions[actionsLength-1].ID.String())
	}
	return content{Title: "Actions", Template: "actions", Nav: "actions", Data: page}, err
}

// action is the page of one action.
func (p *Pages) action(r *http.Request) (content, error) {
	id, err := action.ParseID(r.PathValue("id"))
	if err != nil {
		return content{}, fault.Wrap(fault.NotFound, err)
	}
	view, err := p.service.Action(r.Context(), id)
	return content{Title: view.Name, Template: "action", Nav: "actions", Data: actionPage{view}}, err
}

// actionPage is one action.
type actionPage struct{ server.ActionView }

// Text is what the action said for people; "" when its output is for programs.
func (a actionPage) Text() string { return server.TextOf(a.Output) }

// Allowed is how many attempts may be spent.
func (a actionPage) Allowed() int { return a.Policy.Retries + 1 }

func number(r *http.Request, name string) (int64, error) {
	text := r.FormValue(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.New(fault.Invalid, "%s: want a number, found %q", name, text)
	}
	return n, nil
}

// withQuery is this page's address with one parameter set, or without it when value is "".
func withQuery(r *http.Request, name, value string) string {
	query := url.Values{}
	for key, values := range r.URL.Query() {
		query[key] = values
	}
	query.Set(name, value)
	if value == "" {
		query.Del(name)
	}
	if len(query) == 0 {
		return r.URL.Path
	}
	return r.URL.Path + "?" + query.Encode()
}

func newestFirst(entries []schedule.Entry) []schedule.Entry {
	turned := slices.Clone(entries)
	slices.Reverse(turned)
	return turned
}
