package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

func (a *api) registerLog() {
	handleStream(a, operation.ReadLog, a.entries, func(ctx context.Context, in *operation.LogInput) (*huma.StreamResponse, error) {
		q, err := in.Query()
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
		return jsonResponse(service.NonNil(entries), err)
	})
}

func (a *api) entries(ctx context.Context, in *operation.LogInput) ([]pipeline.Entry, error) {
	q, err := in.Query()
	if err != nil {
		return nil, err
	}
	return a.service.Entries(ctx, q)
}

// wholeLog answers with all entries that a query selects, of which it has one page in memory at a time.
func (a *api) wholeLog(ctx context.Context, q journal.EntryQuery) (*huma.StreamResponse, error) {
	page := q
	page.Limit, page.Newest = service.EntriesPage, false
	if first, err := a.service.Entries(ctx, page); err != nil || len(first) < service.EntriesPage {
		return jsonResponse(service.NonNil(first), err)
	}
	return &huma.StreamResponse{Body: func(to huma.Context) {
		to.SetHeader("Content-Type", "application/json")
		list := bufio.NewWriterSize(to.BodyWriter(), 64<<10)
		_ = list.WriteByte('[')
		entries := json.NewEncoder(list)
		separator := ""
		_, _, err := a.service.EachEntry(ctx, q, func(e pipeline.Entry) error {
			_, err := list.WriteString(separator)
			separator = ","
			return errors.Join(err, entries.Encode(e))
		})
		if err == nil { // else the list stays open, so that no client takes it for complete
			_ = list.WriteByte(']')
			err = list.Flush()
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the status is sent: breaking the connection is the only way to report the error
		}
	}}, nil
}

func (a *api) followLog(ctx context.Context, q journal.EntryQuery) (*huma.StreamResponse, error) {
	if _, err := a.service.ReadHead(ctx, q.Pipeline); err != nil {
		return nil, problemOf(err)
	}
	return eventResponse(func(ctx context.Context, w *EventStream) error {
		return a.service.Follow(ctx, q, func(e pipeline.Entry) error {
			return w.JSON(strconv.FormatInt(e.Seq, 10), e.Class.String(), e)
		})
	}), nil
}

func (a *api) registerActions() {
	handle(a, operation.ListActions,
		func(ctx context.Context, in *operation.ActionsInput) ([]queue.ActionState, error) {
			q, err := in.LedgerQuery()
			if err != nil {
				return nil, err
			}
			actions, err := a.service.Actions(ctx, q)
			return service.NonNil(actions), err
		})
	handle(a, operation.GetAction,
		func(ctx context.Context, in *operation.ActionPath) (service.ActionView, error) {
			id, err := in.ParseID()
			if err != nil {
				return service.ActionView{}, err
			}
			return a.service.Action(ctx, id)
		})
	handle(a, operation.ReadExchange, func(ctx context.Context, in *operation.ExchangeInput) (json.RawMessage, error) {
		id, err := in.ParseID()
		if err != nil {
			return nil, err
		}
		return a.service.Exchange(ctx, id, in.Attempt)
	})
}

// registerEvents registers the streams of actions.
func (a *api) registerEvents() {
	handleStream(a, operation.WatchEvents, nil, func(ctx context.Context, in *operation.AllEventsInput) (*huma.StreamResponse, error) {
		from, err := a.service.EventsFrom(ctx, in.LastEventID) // before the answer begins, so that an error has a status
		if err != nil {
			return nil, problemOf(err)
		}
		return eventResponse(func(ctx context.Context, w *EventStream) error {
			return a.service.FollowEvents(ctx, from, service.EventSink{
				Event:   func(e queue.RecordedEvent) error { return w.JSON(e.Position.String(), "event", e.Event) },
				Comment: w.Comment,
			})
		}), nil
	})
	handleStream(a, operation.ReadEvents, a.eventsOf, a.events)
}

func (a *api) eventsOf(ctx context.Context, in *operation.EventsInput) ([]action.Event, error) {
	id, err := in.ParseID()
	if err != nil {
		return nil, err
	}
	view, err := a.service.Action(ctx, id)
	return view.Events, err
}

func (a *api) events(ctx context.Context, in *operation.EventsInput) (*huma.StreamResponse, error) {
	id, err := in.ParseID()
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
