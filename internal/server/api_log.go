package server

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
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

func (in *LogInput) query() (journal.EntryQuery, error) {
	q := journal.EntryQuery{
		Pipeline: in.Pipeline, After: in.After, Deployment: in.Deployment, Limit: in.Limit, Newest: in.Newest,
	}
	if in.Target != "" {
		q.Target = fullTarget(in.Pipeline, in.Target)
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
	GetAction = Operation[ActionPath, ActionView]{ID: "get-action", Method: http.MethodGet,
		Path:    "/api/v1/actions/{id}",
		Summary: "One action with its events, its children and what its attempts saw"}
)

// ReadLog reads entries of a deployment log.
var ReadLog = Operation[LogInput, []pipeline.Entry]{ID: "read-log", Method: http.MethodGet,
	Path:    "/api/v1/pipelines/{pipeline}/log",
	Summary: "The deployment log, or a live stream of it"}

func (a *api) registerLog() {
	handleStream(a, ReadLog, a.entries, func(ctx context.Context, in *LogInput) (*huma.StreamResponse, error) {
		q, err := in.query()
		if err != nil {
			return nil, problemOf(err)
		}
		if wantsStream(in.Accept) {
			return a.followLog(ctx, q)
		}
		if q.Limit == 0 {
			return a.wholeLog(ctx, q)
		}
		entries, err := a.service.Entries(ctx, q)
		return jsonResponse(nonNil(entries), err)
	})
}

func (a *api) entries(ctx context.Context, in *LogInput) ([]pipeline.Entry, error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	return a.service.Entries(ctx, q)
}

// wholeLog answers with all entries that a query selects, of which it has one page in memory at a time.
func (a *api) wholeLog(ctx context.Context, q journal.EntryQuery) (*huma.StreamResponse, error) {
	page := q
	page.Limit, page.Newest = EntriesPage, false
	if first, err := a.service.Entries(ctx, page); err != nil || len(first) < EntriesPage {
		return jsonResponse(nonNil(first), err)
	}
	return &huma.StreamResponse{Body: func(to huma.Context) {
		to.SetHeader("Content-Type", "application/json")
		list := bufio.NewWriterSize(to.BodyWriter(), 64<<10)
		_ = list.WriteByte('[')
		entries := json.NewEncoder(list)
		separator := ""
		_, _, err := a.service.eachEntry(ctx, q, func(e pipeline.Entry) error {
			_, err := list.WriteString(separator)
			separator = ","
			return errors.Join(err, entries.Encode(e))
		})
		if err == nil { // else the list stays open, so that nobody takes it for whole
			_ = list.WriteByte(']')
			err = list.Flush()
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the status is sent: breaking the connection is the only way to report the error
		}
	}}, nil
}

func (a *api) followLog(ctx context.Context, q journal.EntryQuery) (*huma.StreamResponse, error) {
	if _, err := a.service.readHead(ctx, q.Pipeline); err != nil {
		return nil, problemOf(err)
	}
	return eventResponse(func(ctx context.Context, w *EventStream) error {
		return a.service.Follow(ctx, q, func(e pipeline.Entry) error {
			return w.JSON(strconv.FormatInt(e.Seq, 10), e.Class.String(), e)
		})
	}), nil
}

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

// ledgerQuery returns the ledger's form of the query.
func (in *ActionsInput) ledgerQuery() (queue.ActionQuery, error) {
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

func (in *ActionPath) id() (action.ID, error) {
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

func (a *api) registerActions() {
	handle(a, ListActions,
		func(ctx context.Context, in *ActionsInput) ([]queue.ActionState, error) {
			q, err := in.ledgerQuery()
			if err != nil {
				return nil, err
			}
			actions, err := a.service.Actions(ctx, q)
			return nonNil(actions), err
		})
	handle(a, GetAction,
		func(ctx context.Context, in *ActionPath) (ActionView, error) {
			id, err := in.id()
			if err != nil {
				return ActionView{}, err
			}
			return a.service.Action(ctx, id)
		})
	handle(a, ReadExchange, func(ctx context.Context, in *ExchangeInput) (json.RawMessage, error) {
		id, err := in.id()
		if err != nil {
			return nil, err
		}
		return a.service.Exchange(ctx, id, in.Attempt)
	})
}

// registerEvents registers the streams of actions.
func (a *api) registerEvents() {
	handleStream(a, WatchEvents, nil, func(ctx context.Context, in *AllEventsInput) (*huma.StreamResponse, error) {
		from, err := a.service.eventsFrom(ctx, in.LastEventID) // before the answer begins, so that an error has a status
		if err != nil {
			return nil, problemOf(err)
		}
		return eventResponse(func(ctx context.Context, w *EventStream) error {
			return a.service.followEvents(ctx, from, eventSink{
				event:   func(e queue.RecordedEvent) error { return w.JSON(e.Position.String(), "event", e.Event) },
				comment: w.Comment,
			})
		}), nil
	})
	handleStream(a, ReadEvents, a.eventsOf, a.events)
}

func (a *api) eventsOf(ctx context.Context, in *EventsInput) ([]action.Event, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	view, err := a.service.Action(ctx, id)
	return view.Events, err
}

func (a *api) events(ctx context.Context, in *EventsInput) (*huma.StreamResponse, error) {
	id, err := in.id()
	if err != nil {
		return nil, problemOf(err)
	}
	view, err := a.service.Action(ctx, id)
	if err != nil {
		return nil, problemOf(err)
	}
	if !wantsStream(in.Accept) {
		return jsonResponse(view.Events, nil)
	}
	after := -1
	if in.LastEventID != "" {
		if after, err = strconv.Atoi(in.LastEventID); err != nil {
			return nil, problemOf(fault.New(fault.Invalid, "Last-Event-ID: want a seq, found %q", in.LastEventID))
		}
	}
	return eventResponse(func(ctx context.Context, w *EventStream) error {
		return a.service.FollowAction(ctx, id, after, func(e action.Event) error {
			return w.JSON(strconv.Itoa(e.Seq), "event", e)
		}, func() error { return w.JSON("", "end", struct{}{}) })
	}), nil
}

func wantsStream(accept string) bool { return strings.Contains(accept, "text/event-stream") }

// jsonResponse returns a response that writes value as JSON, or the Problem of err.
func jsonResponse(value any, err error) (*huma.StreamResponse, error) {
	if err != nil {
		return nil, problemOf(err)
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", "application/json")
		_ = json.NewEncoder(ctx.BodyWriter()).Encode(value) // a client that has gone needs no answer
	}}, nil
}

// eventResponse returns a response that writes server-sent events until send ends.
func eventResponse(send func(context.Context, *EventStream) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		request, writer := humago.Unwrap(ctx)
		ServeEvents(writer, request, send)
	}}
}
