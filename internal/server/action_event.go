package server

import (
	"context"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// registerEvents registers the streams of actions.
func (a *api) registerEvents() {
	handleStream(a, operation.WatchEvents, nil, func(ctx context.Context, in *operation.AllEventsInput) (*huma.StreamResponse, error) {
		from, err := a.service.EventsFrom(ctx, in.LastEventID) // before the answer begins, so that an error has a status
		if err != nil {
			return nil, err
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
	view, err := byID(a.service.Action)(ctx, &in.ActionPath)
	return view.Events, err
}

func (a *api) events(ctx context.Context, in *operation.EventsInput) (*huma.StreamResponse, error) {
	view, err := byID(a.service.Action)(ctx, &in.ActionPath) // of a stream too, so that an error has a status
	if err != nil || !wantsStream(in.Accept) {
		return jsonResponse(view.Events, err)
	}
	after := -1
	if in.LastEventID != "" {
		if after, err = strconv.Atoi(in.LastEventID); err != nil {
			return nil, fault.New(fault.Invalid, "Last-Event-ID: want a seq, found %q", in.LastEventID)
		}
	}
	return eventResponse(func(ctx context.Context, w *EventStream) error {
		return a.service.FollowAction(ctx, view.ID, after, func(e action.Event) error {
			return w.JSON(strconv.Itoa(e.Seq), "event", e)
		}, func() error { return w.JSON("", "end", struct{}{}) })
	}), nil
}
