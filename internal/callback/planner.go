package callback

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Book knows the callbacks of every process; a configuration is one.
type Book interface {
	// Callbacks returns the callbacks of the process that an action is a job of.
	Callbacks(a action.Action) []Callback
	// SubscriberRequest prepares the request to a subscriber.
	SubscriberRequest(parameters json.RawMessage) (action.Action, error)
	// Results returns the results document of a job that made this output.
	Results(job action.Action, output json.RawMessage) map[string]json.RawMessage
}

// Jobs reads the parents of a job, which show how long its chain is. ledger.Ledger implements it.
type Jobs interface {
	Action(ctx context.Context, id action.ID) (queue.ActionState, error)
}

// Planner plans the successors of ended actions for the ledger. Safe for concurrent use.
type Planner struct {
	Book  func() Book // in force now
	Blobs blob.Store
	Jobs  Jobs
}

var _ queue.Successors = Planner{}

// Asks reports whether some callback, or a subscriber, waits for such an end.
func (p Planner) Asks(a action.Action, end action.Status) bool {
	return len(wanted(p.Book().Callbacks(a), end)) > 0 || subscribed(a.Subscriber, end) != ""
}

// Begins plans the calls by which subscribers learn that the job runs.
func (p Planner) Begins(a action.Action, at time.Time, added []queue.Subscriber) (follows []queue.Successor) {
	job := Job{Action: a, Status: action.Running, StartedAt: at}
	for _, s := range subscribers(a, added) {
		if s.InProgressURI != "" {
			follows = append(follows, follow(job.notify(p.Book(), "in-progress", s.ID, s.InProgressURI)))
		}
	}
	return follows
}

// Plan fetches the documents, plans, and puts big parameters into the blob store.
func (p Planner) Plan(ctx context.Context, e queue.End) ([]queue.Successor, error) {
	book := p.Book()
	var callbacks []Callback
	if !e.Past {
		callbacks = wanted(book.Callbacks(e.Action), e.Thread.Status)
	}
	job := Job{Action: e.Action, Status: e.Thread.Status, Error: e.Error, Code: e.Code, StartedAt: e.Thread.StartedAt, FinishedAt: e.At}
	var err error
	if job.Input, err = p.document(ctx, e.Action.Parameters, e.Action.ParametersRef, &job); err != nil {
		return nil, err
	}
	if job.Output = e.Output; len(e.Output) == 0 {
		if job.Output, err = p.document(ctx, nil, e.OutputRef, &job); err != nil {
			return nil, err
		}
	}
	if job.Depth, err = p.depth(ctx, e.Action, callbacks); err != nil {
		return nil, err
	}
	planned := Plan(job, callbacks)
	for _, s := range subscribers(e.Action, e.Subscribers) {
		if uri := subscribed(&s.Subscriber, e.Thread.Status); uri != "" {
			planned = append(planned, job.notify(book, "end", s.ID, uri))
		}
	}
	follows := make([]queue.Successor, len(planned))
	for i, one := range planned {
		if follows[i], err = p.offload(ctx, one); err != nil {
			return nil, err
		}
	}
	return follows, nil
}

// document fetches one. One that is lost is the fault of the callbacks; one that cannot be had now
// is an error.
func (p Planner) document(ctx context.Context, inline json.RawMessage, ref string, job *Job) (json.RawMessage, error) {
	raw, err := blob.Load(ctx, p.Blobs, inline, ref)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		job.Lost = err
		return nil, nil
	}
	return raw, err
}

// depth returns how many jobs precede an action in its chain, at most maxDepth. It returns 0
// without a query when no callback chains a process.
func (p Planner) depth(ctx context.Context, a action.Action, callbacks []Callback) (depth int, err error) {
	chains := false
	for _, c := range callbacks {
		chains = chains || c.Target.Process != ""
	}
	for parent := a.ParentID; chains && !parent.IsZero() && depth < maxDepth; depth++ {
		above, err := p.Jobs.Action(ctx, parent)
		if fault.Is(err, fault.NoSuchAction) {
			break // no longer retained
		}
		if err != nil {
			return 0, fmt.Errorf("look how long the chain of action %s is: %w", a.ID, err)
		}
		parent = above.ParentID
	}
	return depth, nil
}

// offload stores large parameters of a planned action as a blob, and returns the action as a
// successor.
func (p Planner) offload(ctx context.Context, one Planned) (queue.Successor, error) {
	a := &one.Action
	var err error
	a.Parameters, a.ParametersRef, err = blob.Offload(ctx, p.Blobs, blob.ActionKey(a.ID, "parameters.json"), a.Parameters)
	return follow(one), err
}

// follow returns a planned action as the ledger's successor.
func follow(one Planned) queue.Successor {
	f := queue.Successor{Action: one.Action, Code: one.Code, Fault: one.Fault}
	if one.Link != "" {
		link := one.Action
		link.Kind, link.Name, link.CacheKey, link.Width, link.Parameters, link.ParametersRef = Kind, one.Link, action.ID{}, 0, nil, ""
		f.Link = &link
	}
	return f
}
