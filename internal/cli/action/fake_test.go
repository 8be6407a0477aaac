package action

import (
	"context"
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
)

// actionLog answers the operations on actions and processes from its fields.
type actionLog struct {
	clitest.Log

	actions   []queue.ActionState
	action    server.ActionView
	events    []action.Event
	added     server.AddedAction
	replays   []queue.Replayed // one for each call
	limits    []queue.Limiter
	schedules []server.ScheduleView
	processes []server.ProcessOffering
}

// Call performs an operation with its method.
func (f *actionLog) Call(ctx context.Context, d server.Description, in, out any) error {
	c := f.Served()
	server.Serve(c, server.ListActions, f.listActions)
	server.Serve(c, server.GetAction, f.getAction)
	server.Serve(c, server.AddAction, f.addAction)
	server.Serve(c, server.RetryAction, f.retryAction)
	server.Serve(c, server.CancelAction, f.cancelAction)
	server.Serve(c, server.SnoozeAction, f.snoozeAction)
	server.Serve(c, server.ReplayActions, f.replayActions)
	server.Serve(c, server.ListLimits, f.listLimits)
	server.Serve(c, server.ChangeLimit, f.changeLimit)
	server.Serve(c, server.ListSchedules, f.listSchedules)
	return c.Call(ctx, d, in, out)
}

func (f *actionLog) listActions(_ context.Context, q *server.ActionsInput) ([]queue.ActionState, error) {
	return f.actions, f.Record("Actions", q.Pipeline, q.Deployment, q.Handler)
}

func (f *actionLog) getAction(_ context.Context, in *server.ActionPath) (server.ActionView, error) {
	return f.action, f.Record("Action", in.ID)
}

func (f *actionLog) FollowAction(_ context.Context, id action.ID, after int, each func(action.Event) error, _ func() error) error {
	if err := f.Record("FollowAction", id, after); err != nil {
		return err
	}
	for _, e := range f.events {
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

func (f *actionLog) addAction(_ context.Context, o *server.AddActionInput) (server.AddedAction, error) {
	return f.added, f.Record("AddAction", o.Body.Handler, string(o.Body.Parameters.RawMessage))
}

func (f *actionLog) retryAction(_ context.Context, in *server.ActionPath) (server.AddedAction, error) {
	return f.added, f.Record("RetryAction", in.ID)
}

func (f *actionLog) cancelAction(_ context.Context, in *server.ActionPath) (queue.ActionState, error) {
	return f.action.ActionState, f.Record("CancelAction", in.ID)
}

func (f *actionLog) snoozeAction(_ context.Context, in *server.SnoozeInput) (queue.ActionState, error) {
	state := f.action.ActionState
	state.Thread.RunAt = in.Body.Until
	return state, f.Record("SnoozeAction", in.ID, in.Body.Until.UTC().Format(time.RFC3339))
}

func (f *actionLog) replayActions(_ context.Context, in *server.ReplayInput) (queue.Replayed, error) {
	if err := f.Record("ReplayActions", in.Body.ID, in.Body.After, in.Body.DryRun); err != nil {
		return queue.Replayed{}, err
	}
	if len(f.replays) == 0 {
		return queue.Replayed{}, fault.New(fault.LedgerUnavailable, "the ledger does not answer")
	}
	next := f.replays[0]
	f.replays = f.replays[1:]
	return next, nil
}

func (f *actionLog) listLimits(context.Context, *server.Nothing) ([]queue.Limiter, error) {
	return f.limits, f.Record("Limits")
}

func (f *actionLog) changeLimit(_ context.Context, in *server.LaneInput) (queue.Limiter, error) {
	return queue.Limiter{}, f.Record("Limit", in.Lane, in.Body.Command, time.Duration(in.Body.For))
}

func (f *actionLog) listSchedules(context.Context, *server.Nothing) ([]server.ScheduleView, error) {
	return f.schedules, f.Record("Schedules")
}

func (f *actionLog) ListProcesses(context.Context) ([]server.ProcessOffering, error) {
	return f.processes, f.Record("ListProcesses")
}

func (f *actionLog) ShowProcess(_ context.Context, id string) (server.ProcessOffering, error) {
	return f.processes[0], f.Record("ShowProcess", id)
}

func (f *actionLog) RunProcess(_ context.Context, id string, inputs json.RawMessage, by string) (server.AddedAction, error) {
	return f.added, f.Record("RunProcess", id, string(inputs), by)
}
