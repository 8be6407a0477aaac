package operation

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// LogInput selects entries of a log, or a live stream of them.
type LogInput struct {
	PipelinePath
	After       int64  `query:"after" minimum:"0" doc:"only entries with a greater seq"`
	Deployment  int64  `query:"deployment" minimum:"0" doc:"the number in greeter#7; 0: all"`
	Target      string `query:"target" doc:"only this target and those below it"`
	Class       string `query:"class" enum:"fact,note,change"`
	Limit       int    `query:"limit" minimum:"0" maximum:"10000" doc:"0: all"`
	Newest      bool   `query:"newest" doc:"the newest entries, in ascending order"`
	Accept      string `header:"Accept" doc:"text/event-stream: live, id is the seq, event the class"`
	LastEventID string `header:"Last-Event-ID" doc:"resumes a stream behind this seq"`
}

func (in *LogInput) Query() (journal.EntryQuery, error) {
	q := journal.EntryQuery{
		Pipeline: in.Pipeline, After: in.After, Deployment: in.Deployment, Limit: in.Limit, Newest: in.Newest,
	}
	if in.Target != "" {
		q.Target = service.FullTarget(in.Pipeline, in.Target)
	}
	for _, class := range []pipeline.Class{pipeline.Fact, pipeline.Note, pipeline.Change} {
		if class.String() == in.Class {
			q.Class = class
		}
	}
	if in.LastEventID == "" {
		return q, nil
	}
	seq, err := strconv.ParseInt(in.LastEventID, 10, 64)
	if err != nil {
		return q, fault.New(fault.Invalid, "Last-Event-ID: want a seq, found %q", in.LastEventID)
	}
	q.After, q.Newest, q.Limit = seq, false, 0
	return q, nil
}

// LogInputOf returns the input of ReadLog that selects the entries of a query.
func LogInputOf(q journal.EntryQuery) LogInput {
	in := LogInput{PipelinePath: PipelinePath{Pipeline: q.Pipeline}, After: q.After, Deployment: q.Deployment, Target: q.Target,
		Limit: q.Limit, Newest: q.Newest}
	if q.Class != 0 {
		in.Class = q.Class.String()
	}
	return in
}

// Operations that read actions.
var (
	ListActions = Operation[ActionsInput, []queue.ActionState]{ID: "list-actions", Method: http.MethodGet,
		Path:    "/api/v1/actions",
		Summary: "Actions, newest first"}
	ReadExchange = Operation[ExchangeInput, json.RawMessage]{ID: "read-exchange", Method: http.MethodGet,
		Path:    "/api/v1/actions/{id}/exchanges/{attempt}",
		Summary: "What one attempt of an action saw: the request and its answer, or the output"}
	WatchEvents = Operation[AllEventsInput, Nothing]{ID: "watch-events", Method: http.MethodGet,
		Path:    "/api/v1/events",
		Summary: "The events of all actions, as a live stream: each event at least once, in the order in which they were recorded"}
	ReadEvents = Operation[EventsInput, []action.Event]{ID: "read-events", Method: http.MethodGet,
		Path:    "/api/v1/actions/{id}/events",
		Summary: "An action's history, or a live stream of it"}
	GetAction = Operation[ActionPath, service.ActionView]{ID: "get-action", Method: http.MethodGet,
		Path:    "/api/v1/actions/{id}",
		Summary: "One action with its events, its children and what its attempts saw"}
)

// ReadLog reads entries of a deployment log.
var ReadLog = Operation[LogInput, []pipeline.Entry]{ID: "read-log", Method: http.MethodGet,
	Path:    "/api/v1/pipelines/{pipeline}/log",
	Summary: "The deployment log, or a live stream of it"}

// ActionsInput selects actions.
type ActionsInput struct {
	Kind       string    `query:"kind" doc:"action, job, callback, step, build, …"`
	Name       string    `query:"name" doc:"of a job: its process"`
	Handler    string    `query:"handler"`
	Lane       string    `query:"lane"`
	Status     []string  `query:"status,explode" doc:"any of these; may be repeated" enum:"pending,queued,running,backoff,successful,failed,canceled,timed_out,invalid,retries_exhausted"`
	Parent     string    `query:"parent" doc:"only the children of this action"`
	RetryOf    string    `query:"retryOf" doc:"only retries of this action"`
	Since      time.Time `query:"since" doc:"created at this time or later"`
	Until      time.Time `query:"until" doc:"created before this time"`
	Pipeline   string    `query:"pipeline"`
	Deployment int64     `query:"deployment" minimum:"0"`
	Target     string    `query:"target"`
	Live       bool      `query:"live" doc:"only actions that have not ended"`
	After      string    `query:"after" doc:"keyset: only actions older than this id"`
	Limit      int       `query:"limit" minimum:"0" maximum:"1000" doc:"default 50"` // 0 in this process: all
}

// Resolve sets the default. huma calls it before the handler.
func (in *ActionsInput) Resolve(huma.Context) []error {
	in.Limit = cmp.Or(in.Limit, 50)
	return nil
}

// LedgerQuery returns the ledger's form of the query.
func (in *ActionsInput) LedgerQuery() (queue.ActionQuery, error) {
	q := queue.ActionQuery{Kind: in.Kind, Name: in.Name, Handler: in.Handler, Lane: in.Lane, Since: in.Since, Until: in.Until,
		Pipeline: in.Pipeline, Deployment: in.Deployment, Target: in.Target, LiveOnly: in.Live, Limit: in.Limit}
	for _, text := range in.Status {
		status, err := action.ParseStatus(text)
		if err != nil {
			return q, fault.Wrap(fault.Invalid, err)
		}
		q.Statuses = append(q.Statuses, status)
	}
	for text, into := range map[*string]*action.ID{&in.Parent: &q.Parent, &in.RetryOf: &q.RetryOf, &in.After: &q.After} {
		if *text == "" {
			continue
		}
		id, err := action.ParseID(*text)
		if err != nil {
			return q, fault.Wrap(fault.Invalid, err)
		}
		*into = id
	}
	return q, nil
}

// ActionPath names an action.
type ActionPath struct {
	ID string `path:"id" doc:"the action's id"`
}

func (in *ActionPath) ParseID() (action.ID, error) {
	id, err := action.ParseID(in.ID)
	if err != nil {
		return id, fault.Wrap(fault.Invalid, err)
	}
	return id, nil
}

// ExchangeInput holds the parameters of ReadExchange.
type ExchangeInput struct {
	ActionPath
	Attempt int `path:"attempt" minimum:"1" doc:"counts claims from 1"`
}

// AllEventsInput is the position from which a stream of all events starts.
type AllEventsInput struct {
	LastEventID string `header:"Last-Event-ID" doc:"the id of an event: the stream resumes behind it; without it the stream begins now"`
}

// EventsInput holds the parameters of ReadEvents.
type EventsInput struct {
	ActionPath
	Accept      string `header:"Accept" doc:"text/event-stream: live, id is the seq, event: end closes"`
	LastEventID string `header:"Last-Event-ID" doc:"resumes a stream behind this seq"`
}
