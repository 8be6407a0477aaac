package ledger

import (
	"cmp"
	"context"
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// AddBuild stores a build without a deployment and the action that has it run, in one transaction. The action must have an id; its
// parameters are made here. The repeat of a request returns the first build.
func (l *Ledger) AddBuild(ctx context.Context, b builds.Build, p builds.Passwords, a action.Action,
	once *queue.Idempotency) (id builds.ID, created bool, err error) {
	var stored builds.Build // by Before, which may still run after the caller has left
	o := queue.EnqueueOptions{Idempotency: once, Before: func(tx *store.Tx, actions []action.Action) (err error) {
		b.ActionID = actions[0].ID
		if stored, err = l.Builds.CreateIn(tx, b); err != nil {
			return err
		}
		if err := l.Builds.AddPasswordsIn(tx, stored.ID, p); err != nil {
			return err
		}
		return builds.Describe(&actions[0], stored)
	}}
	made, err := l.EnqueueWith(ctx, o, a)
	if err != nil {
		return 0, false, err
	}
	if made[0].ID == a.ID {
		return stored.ID, true, nil
	}
	first, err := l.Action(ctx, made[0].ID)
	if err != nil {
		return 0, false, err
	}
	id, _ = builds.OfAction(&first.Action)
	return id, false, nil
}

// onEndOfBuild locks the builds whose actions may end, and returns the function that ends them; nil if there are none.
func (l *Ledger) onEndOfBuild(tx *store.Tx, actions []*action.Action) (record func([]action.EndedAction) error, err error) {
	var ids []builds.ID
	for _, a := range actions {
		if id, ok := builds.OfAction(a); ok {
			ids = append(ids, id)
		}
	}
	if ids == nil {
		return nil, nil
	}
	slices.Sort(ids) // every transaction locks them in this order
	open, err := l.Builds.LockIn(tx, ids)
	if err != nil {
		return nil, err
	}
	return func(ended []action.EndedAction) error {
		for _, e := range ended {
			id, _ := builds.OfAction(e.Action)
			if b, ok := open[id]; ok {
				if err := l.Builds.EndIn(tx, b, endOfBuild(e)); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// endOfBuild returns how a build ends that no worker has.
func endOfBuild(e action.EndedAction) builds.Event {
	end := builds.Event{Source: builds.Conductor, EventID: "action-ended", Status: build.Failed, Reason: "NotStarted"}
	switch e.Thread.Status {
	case action.Canceled:
		end.Status, end.Reason = build.Canceled, ""
	case action.TimedOut:
		end.Status, end.Reason = build.TimedOut, "DeadlineExceeded"
	}
	if e.Event != nil {
		end.Message, end.At = cmp.Or(e.Event.Error, e.Event.Code), e.Event.At
	}
	return end
}
