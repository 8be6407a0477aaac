package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/worker"
	"github.com/waybill-dev/waybill/internal/fault"
)

// world is a store and a provisioner.
type world struct {
	unknown, unstored, away error
	created                 provisionerv1.Created
	listed                  provisionerv1.WorkerList
	asked                   []int64
	assigned                []string
	deleted                 []string
}

func (w *world) WorkerRequest(_ context.Context, id int64) (provisionerv1.CreateWorker, error) {
	return provisionerv1.CreateWorker{BuildID: id}, w.unknown
}

func (w *world) AssignWorker(_ context.Context, _ int64, workerID string) error {
	w.assigned = append(w.assigned, workerID)
	return w.unstored
}

func (w *world) Create(_ context.Context, request provisionerv1.CreateWorker) (provisionerv1.Created, error) {
	w.asked = append(w.asked, request.BuildID)
	return w.created, w.away
}

func (w *world) List(context.Context, provisionerv1.Filter) (provisionerv1.WorkerList, error) {
	return w.listed, w.away
}

func (w *world) Delete(_ context.Context, workerID string, force bool) error {
	if force {
		workerID += " by force"
	}
	w.deleted = append(w.deleted, workerID)
	return w.away
}

func create(ctx context.Context, w *world) action.Outcome {
	return worker.Creator{Builds: w, Provisioner: w}.Do(ctx, conductor.Attempt{Action: worker.CreateAction(41)})
}

func remove(ctx context.Context, w *world, force bool) action.Outcome {
	return worker.Deleter{Provisioner: w}.Do(ctx, conductor.Attempt{Action: worker.DeleteAction(41, "w41", force)})
}

func TestAWorkerIsCreatedAndAssigned(t *testing.T) {
	t.Parallel()
	for isNew, want := range map[bool]string{true: "worker w41 was started", false: "worker w41 runs already"} {
		w := &world{created: provisionerv1.Created{Worker: provisionerv1.Worker{WorkerID: "w41"}, New: isNew}}
		o := create(t.Context(), w)
		if o.Kind != action.Done || !strings.Contains(string(o.Output), want) || len(w.asked) != 1 || w.asked[0] != 41 || len(w.assigned) != 1 || w.assigned[0] != "w41" {
			t.Errorf("%+v %s, %+v", o, o.Output, w)
		}
	}
}

// TestWhatMayPassSpendsNoAttempt has one case for each reason to wait.
func TestWhatMayPassSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	full := func(project string) provisionerv1.Created {
		return provisionerv1.Created{Waiting: &provisionerv1.Waiting{Running: 8, Limit: 8, Project: project}, Retry: 20 * time.Second}
	}
	for name, c := range map[string]struct {
		world world
		kind  action.OutcomeKind
		text  string
		after time.Duration
	}{
		"full":            {world{created: full("")}, action.RetryAfter, "queued: 8 workers run, and 8 may at a time", 20 * time.Second},
		"project is full": {world{created: full("shop")}, action.RetryAfter, "queued: 8 workers of project shop run, and 8 may at a time", 20 * time.Second},
		"away":            {world{away: fault.New(fault.Unavailable, "no route")}, action.Throttle, "no route", 10 * time.Second},
		"wrong token":     {world{away: fault.New(fault.Unauthorized, "who?")}, action.Throttle, "who?", 10 * time.Second},
		"no database":     {world{unstored: fault.New(fault.LedgerUnavailable, "the ledger is away")}, action.Throttle, "the ledger is away", time.Second},
		"no request":      {world{unknown: fault.New(fault.LedgerUnavailable, "the ledger is away")}, action.Throttle, "the ledger is away", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := create(t.Context(), &c.world)
				if o.Kind != c.kind || o.Error != c.text || !o.At.Equal(time.Now().Add(c.after)) {
					t.Errorf("%+v, want %s in %s", o, c.kind, c.after)
				}
			})
		})
	}
}

func TestWhatCannotPassIsFinal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		world world
		kind  action.OutcomeKind
	}{
		"another request":    {world{away: fault.New(fault.Conflict, "x")}, action.Fatal},
		"bad request":        {world{away: fault.New(fault.Invalid, "x")}, action.Fatal},
		"unknown build":      {world{unknown: fault.New(fault.NotFound, "x")}, action.Fatal},
		"canceled meanwhile": {world{unknown: fault.New(fault.Canceled, "x")}, action.Stopped},
		"a bug":              {world{away: errors.New("x")}, action.Retry},
	} {
		if o := create(t.Context(), &c.world); o.Kind != c.kind {
			t.Errorf("%s: %+v, want %s", name, o, c.kind)
		}
	}
	for _, parameters := range []string{"", "{}", `{"buildId": "x"}`} {
		a := conductor.Attempt{Action: action.Action{Parameters: json.RawMessage(parameters)}}
		for _, h := range []conductor.Handler{worker.Creator{}, worker.Deleter{}} {
			if o := h.Do(t.Context(), a); o.Kind != action.Fatal {
				t.Errorf("%s: %+v", parameters, o)
			}
		}
	}
}

func TestTheCauseOfTheEndDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]action.OutcomeKind{conductor.ErrCanceled: action.Stopped, conductor.ErrShutdown: action.GivenBack,
		conductor.ErrLeaseLost: action.GivenBack, conductor.ErrAttemptTimeout: action.Retry} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if o := create(ctx, &world{away: cause}); o.Kind != want {
			t.Errorf("%v: %+v", cause, o)
		}
	}
}

func TestAWorkerIsDeletedOnceItIsGone(t *testing.T) {
	t.Parallel()
	w := &world{listed: provisionerv1.WorkerList{Complete: true, Workers: []provisionerv1.Worker{{WorkerID: "w41", Status: "Running"}}}}
	if o := remove(t.Context(), w, false); o.Kind != action.RetryAfter || o.Error != "the worker has been asked to end, and is Running" {
		t.Errorf("%+v", o)
	}
	w.listed.Workers, w.listed.Complete = nil, false
	if o := remove(t.Context(), w, true); o.Kind != action.Throttle {
		t.Errorf("a list that is incomplete: %+v", o)
	}
	w.listed.Complete = true
	if o := remove(t.Context(), w, true); o.Kind != action.Done || strings.Join(w.deleted, ", ") != "w41, w41 by force, w41 by force" {
		t.Errorf("%+v, %v", o, w.deleted)
	}
	w.away = fault.New(fault.Unavailable, "no route")
	if o := remove(t.Context(), w, false); o.Kind != action.Throttle {
		t.Errorf("%+v", o)
	}
}

func TestABuildHasOneActionOfEachKind(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	for _, a := range []action.Action{worker.CreateAction(4), worker.CreateAction(4), worker.CreateAction(41), worker.DeleteAction(4, "w", false), worker.DeleteAction(4, "w", false), worker.DeleteAction(4, "w", true)} {
		keys[a.UniqueKey] = true
		if a.Handler != a.Kind || a.Delivery != action.AtLeastOnce || a.Policy.AttemptTimeout == 0 {
			t.Errorf("%+v", a)
		}
	}
	if len(keys) != 4 {
		t.Errorf("keys %v", keys)
	}
}
