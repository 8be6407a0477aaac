package action

import (
	"context"
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// actionLog answers the operations on actions and processes from its fields.
type actionLog struct {
	clitest.Log

	actions   []queue.ActionState
	action    service.ActionView
	events    []action.Event
	added     service.AddedAction
	replays   []queue.Replayed // one for each call
	limits    []queue.Limiter
	schedules []service.ScheduleView
	processes []service.ProcessOffering
}

// Call performs an operation with its method.
func (f *actionLog) Call(ctx context.Context, d operation.Description, in, out any) error {
	c := f.Served()
	operation.Serve(c, operation.ListActions, f.listActions)
	operation.Serve(c, operation.GetAction, f.getAction)
	operation.Serve(c, operation.AddAction, f.addAction)
	operation.Serve(c, operation.RetryAction, f.retryAction)
	operation.Serve(c, operation.CancelAction, f.cancelAction)
	operation.Serve(c, operation.SnoozeAction, f.snoozeAction)
	operation.Serve(c, operation.ReplayActions, f.replayActions)
	operation.Serve(c, operation.ListLimits, f.listLimits)
	operation.Serve(c, operation.ChangeLimit, f.changeLimit)
	operation.Serve(c, operation.ListSchedules, f.listSchedules)
	return c.Call(ctx, d, in, out)
}

func (f *actionLog) listActions(_ context.Context, q *operation.ActionsInput) ([]queue.ActionState, error) {
	return f.actions, f.Record("Actions", q.Pipeline, q.Deployment, q.Handler)
}

func (f *actionLog) getAction(_ context.Context, in *operation.ActionPath) (service.ActionView, error) {
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

func (f *actionLog) addAction(_ context.Context, o *operation.AddActionInput) (service.AddedAction, error) {
	return f.added, f.Record("AddAction", o.Body.Handler, string(o.Body.Parameters.RawMessage))
}

func (f *actionLog) retryAction(_ context.Context, in *operation.ActionPath) (service.AddedAction, error) {
	return f.added, f.Record("RetryAction", in.ID)
}

func (f *actionLog) cancelAction(_ context.Context, in *operation.ActionPath) (queue.ActionState, error) {
	return f.action.ActionState, f.Record("CancelAction", in.ID)
}

func (f *actionLog) snoozeAction(_ context.Context, in *operation.SnoozeInput) (queue.ActionState, error) {
	state := f.action.ActionState
	state.Thread.RunAt = in.Body.Until
	return state, f.Record("SnoozeAction", in.ID, in.Body.Until.UTC().Format(time.RFC3339))
}

func (f *actionLog) replayActions(_ context.Context, in *operation.ReplayInput) (queue.Replayed, error) {
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

func (f *actionLog) listLimits(context.Context, *operation.Nothing) ([]queue.Limiter, error) {
	return f.limits, f.Record("Limits")
}

func (f *actionLog) changeLimit(_ context.Context, in *operation.LaneInput) (queue.Limiter, error) {
	return queue.Limiter{}, f.Record("Limit", in.Lane, in.Body.Command, time.Duration(in.Body.For))
}

func (f *actionLog) listSchedules(context.Context, *operation.Nothing) ([]service.ScheduleView, error) {
	return f.schedules, f.Record("Schedules")
}

func (f *actionLog) ListProcesses(context.Context) ([]service.ProcessOffering, error) {
	return f.processes, f.Record("ListProcesses")
}

func (f *actionLog) ShowProcess(_ context.Context, id string) (service.ProcessOffering, error) {
	return f.processes[0], f.Record("ShowProcess", id)
}

func (f *actionLog) RunProcess(_ context.Context, id string, inputs json.RawMessage, by string) (service.AddedAction, error) {
	return f.added, f.Record("RunProcess", id, string(inputs), by)
}
