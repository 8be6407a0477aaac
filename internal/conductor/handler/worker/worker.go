// Package worker has the handlers that start and end the workers of builds: one attempt is one request to a provisioner, and another
// one when that has to wait. Doing either twice is harmless.
//
// A provisioner that cannot be reached, or whose limits leave no room, spends no attempt: the build waits.
package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Names of the handlers, which are the kinds of their actions too.
const (
	CreateName = "worker.create"
	DeleteName = "worker.delete"
)

// Times of the handlers.
const (
	attemptTimeout = 10 * time.Minute // a snapshot may have to be copied
	fullPause      = 15 * time.Second // until there may be room, unless the provisioner says otherwise
	awayPause      = 10 * time.Second
	endingPause    = 5 * time.Second // until a worker may have ended
	ledgerPause    = time.Second
	retries        = 20 // of what no pause explains
)

// Builds is what the handlers ask of the store.
type Builds interface {
	// WorkerRequest returns what the worker of a build is asked for, passwords included, and the same each time. A build that does not
	// exist is fault.NotFound; one that has ended or is to be canceled is fault.Canceled.
	WorkerRequest(ctx context.Context, buildID int64) (provisionerv1.CreateWorker, error)
	// AssignWorker stores which worker runs a build.
	AssignWorker(ctx context.Context, buildID int64, workerID string) error
}

// Provisioner starts and ends workers; provisionerv1.Client does.
type Provisioner interface {
	Create(ctx context.Context, request provisionerv1.CreateWorker) (provisionerv1.Created, error)
	List(ctx context.Context, filter provisionerv1.Filter) (provisionerv1.WorkerList, error)
	Delete(ctx context.Context, workerID string, force bool) error
}

var _ Provisioner = (*provisionerv1.Client)(nil)

// Parameters are those of both actions. WorkerID and Force are for worker.delete.
type Parameters struct {
	BuildID  int64  `json:"buildId"`
	WorkerID string `json:"workerId,omitempty"`
	Force    bool   `json:"force,omitempty"` // without waiting for its end
}

// CreateAction returns the action that starts the worker of a build, without an id.
func CreateAction(buildID int64) action.Action {
	return newAction(CreateName, fmt.Sprint(buildID), Parameters{BuildID: buildID})
}

// DeleteAction returns the action that ends a worker, without an id.
func DeleteAction(buildID int64, workerID string, force bool) action.Action {
	key := fmt.Sprint(buildID)
	if force { // it must not wait behind one without force
		key += "/force"
	}
	return newAction(DeleteName, key, Parameters{buildID, workerID, force})
}

func newAction(name, key string, p Parameters) action.Action {
	text, _ := json.Marshal(p) // numbers, strings and flags always marshal
	policy := action.DefaultPolicy()
	policy.AttemptTimeout, policy.Retries = action.Duration(attemptTimeout), retries
	return action.Action{Kind: name, Name: fmt.Sprintf("%s build %d", name, p.BuildID), Handler: name, Lane: name, UniqueKey: name + "/" + key,
		Parameters: text, Policy: policy, Delivery: action.AtLeastOnce}
}

// Creator is the handler of worker.create. Every field must be set.
type Creator struct {
	Builds      Builds
	Provisioner Provisioner
}

// Deleter is the handler of worker.delete. Provisioner must be set.
type Deleter struct{ Provisioner Provisioner }

var (
	_ conductor.Handler = Creator{}
	_ conductor.Handler = Deleter{}
)

// output is the document of an outcome.
type output struct {
	Text     string `json:"text"` // for people
	WorkerID string `json:"workerId"`
}

// Do asks for the worker once. It is done when the provisioner has one.
func (c Creator) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	p, bad := parameters(a)
	if bad != nil {
		return *bad
	}
	request, err := c.Builds.WorkerRequest(ctx, p.BuildID)
	if err != nil {
		return failed(ctx, err)
	}
	created, err := c.Provisioner.Create(ctx, request)
	if err != nil {
		return failed(ctx, err)
	}
	if w := created.Waiting; w != nil {
		text := fmt.Sprintf("queued: %d workers run, and %d may at a time", w.Running, w.Limit)
		if w.Project != "" {
			text = fmt.Sprintf("queued: %d workers of project %s run, and %d may at a time", w.Running, w.Project, w.Limit)
		}
		return action.Outcome{Kind: action.RetryAfter, Code: "waiting", Error: text, At: time.Now().Add(cmp.Or(created.Retry, fullPause))}
	}
	if err := c.Builds.AssignWorker(ctx, p.BuildID, created.Worker.WorkerID); err != nil {
		return failed(ctx, err)
	}
	text := "worker " + created.Worker.WorkerID + " was started"
	if !created.New {
		text = "worker " + created.Worker.WorkerID + " runs already"
	}
	return done(text, created.Worker.WorkerID)
}

// Do asks for the worker's end once. It is done when the provisioner does not list the worker any more.
func (d Deleter) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	p, bad := parameters(a)
	if bad != nil {
		return *bad
	}
	if p.WorkerID == "" {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.InvalidParameters), Error: "the parameters name no worker"}
	}
	if err := d.Provisioner.Delete(ctx, p.WorkerID, p.Force); err != nil {
		return failed(ctx, err)
	}
	list, err := d.Provisioner.List(ctx, provisionerv1.Filter{BuildID: p.BuildID})
	if err != nil {
		return failed(ctx, err)
	}
	for _, w := range list.Workers {
		if w.WorkerID == p.WorkerID {
			return action.Outcome{Kind: action.RetryAfter, Code: "ending", Error: "the worker has been asked to end, and is " + w.Status, At: time.Now().Add(endingPause)}
		}
	}
	if !list.Complete {
		return action.Outcome{Kind: action.Throttle, Code: string(fault.Unavailable), Error: "the provisioner cannot list all workers", At: time.Now().Add(awayPause)}
	}
	return done("worker "+p.WorkerID+" is gone", p.WorkerID)
}

// parameters reads those of an action; bad is the outcome if they are wrong.
func parameters(a conductor.Attempt) (p Parameters, bad *action.Outcome) {
	if err := json.Unmarshal(a.Action.Parameters, &p); err != nil || p.BuildID < 1 {
		return p, &action.Outcome{Kind: action.Fatal, Code: string(fault.InvalidParameters), Error: fmt.Sprintf("the parameters name no build: %v", err)}
	}
	return p, nil
}

func done(text, workerID string) action.Outcome {
	out, _ := json.Marshal(output{text, workerID}) // strings always marshal
	return action.Outcome{Kind: action.Done, Output: out}
}

// failed converts an error to an outcome. The cause with which ctx ended counts more than an error that followed from it.
func failed(ctx context.Context, err error) action.Outcome {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, conductor.ErrCanceled):
		return action.Outcome{Kind: action.Stopped, Code: action.CodeCanceled, Error: "canceled"}
	case errors.Is(cause, conductor.ErrShutdown), errors.Is(cause, conductor.ErrLeaseLost):
		return action.Outcome{Kind: action.GivenBack, Error: cause.Error()}
	case errors.Is(cause, conductor.ErrAttemptTimeout):
		return action.Outcome{Kind: action.Retry, Code: action.CodeAttemptTimeout, Error: "the provisioner took too long"}
	}
	code := fault.CodeOf(err)
	o := action.Outcome{Kind: action.Retry, Code: string(code), Error: err.Error()}
	switch code {
	case fault.Unavailable, fault.Unauthorized, fault.Forbidden: // a token can be put right while builds wait
		o.Kind, o.At = action.Throttle, time.Now().Add(awayPause)
	case fault.LedgerUnavailable:
		o.Kind, o.At = action.Throttle, time.Now().Add(ledgerPause)
	case fault.Canceled:
		o.Kind = action.Stopped
	case fault.Conflict, fault.Refused, fault.NotFound, fault.Invalid, fault.TooLarge:
		o.Kind = action.Fatal
	}
	return o
}
