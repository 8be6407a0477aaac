package queue

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// A turn records the ends of many actions, so it does not wait for the plan of one whose documents are slow to arrive. The
// turn defers that end while its planning continues; a later turn with the same end finds the plan. Plans are kept in memory
// alone: a process that is killed loses them, the claim is rescued, and the action's next end is planned again.

const (
	planSilence   = 200 * time.Millisecond // a turn waits for plans until none has become ready for that long …
	planWait      = time.Second            // … and at most that long
	planKept      = time.Minute            // a plan that no turn has taken for that long is forgotten
	fetchesAtOnce = 32                     // plans that fetch documents at a time
)

// errPlanning is the reason why an end is deferred whose plan is still being made.
var errPlanning = fault.New(fault.Unavailable, "the documents of its callbacks have not arrived yet")

// pending is the planning of one end. planning.mu guards ready and made; the rest is not changed.
type pending struct {
	end    End
	began  time.Time          // by this process's clock
	cancel context.CancelFunc // ends the planning; its plan is then an error
	ready  bool               // made is the plan
	made   plan
}

// planning holds the plans being made for turns, and those that no turn has taken yet.
type planning struct {
	mu       sync.Mutex             // guards pending and closed; it is not held while anything is planned
	pending  map[action.ID]*pending // at most one for an action, that of its latest foreseen end
	fetching chan struct{}          // holds one for each plan that may be fetching documents
	closed   bool                   // nothing more is begun
	running  sync.WaitGroup         // the goroutines that plan
}

// newPlanning returns a planning of nothing.
func newPlanning() planning {
	return planning{pending: map[action.ID]*pending{}, fetching: make(chan struct{}, fetchesAtOnce)}
}

// planSoon plans ends outside of any transaction, and returns without those whose plans take long. Their reason is
// errPlanning, and calling it again with the same ends gives their plans once they are ready. It returns a plan or a reason
// for every end, within planWait, and earlier once no plan has arrived for planSilence: what is missing then waits for
// documents, and the turn does not.
func (c *core) planSoon(ctx context.Context, ends []End) plans {
	if len(ends) == 0 {
		return nil
	}
	ready := make(chan struct{}, len(ends))
	awaited := c.beginPlanning(ctx, ends, ready)
	silence, limit := time.NewTimer(planSilence), time.NewTimer(planWait)
	defer silence.Stop()
	defer limit.Stop()
	for waiting := true; waiting && awaited > 0; awaited-- {
		select {
		case <-ready:
			silence.Reset(planSilence)
		case <-silence.C:
			waiting = false
		case <-limit.C:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	return c.takePlans(ends)
}

// beginPlanning begins to plan the ends that are not being planned yet, and returns how many report to ready. While the
// documents of an earlier end do not arrive, ends that need documents are not waited for. ready has room for all ends, so that
// no planner blocks after its caller has stopped listening.
//
// Planning outlives the call and its context: a later turn takes the plan. It ends after store.CallTimeout, when the same
// action is about to end another way, or at Close. Plans that no turn takes, because the claim was lost, are dropped here.
func (c *core) beginPlanning(ctx context.Context, ends []End, ready chan<- struct{}) (awaited int) {
	p, now := &c.planning, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0
	}
	slow := false
	for id, known := range p.pending {
		switch {
		case !known.ready:
			slow = slow || now.Sub(known.began) >= planSilence
		case now.Sub(known.began) > planKept+store.CallTimeout:
			delete(p.pending, id)
		}
	}
	for _, end := range ends {
		if known := p.pending[end.Action.ID]; known != nil {
			if (plan{end: known.end}).fits(end) {
				continue
			}
			known.cancel()
		}
		within, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), store.CallTimeout, errSlowPlan)
		one := &pending{end: end, began: now, cancel: cancel}
		p.pending[end.Action.ID] = one
		fetches := end.OutputRef != "" || end.Action.ParametersRef != ""
		report := ready
		if fetches && slow {
			report = nil
		} else {
			awaited++
		}
		p.running.Go(func() {
			defer cancel()
			made := plan{end: end}
			made.follows, made.err = c.planEnd(within, end, fetches)
			p.mu.Lock()
			one.made, one.ready = made, true
			p.mu.Unlock()
			if report != nil {
				report <- struct{}{} // has room
			}
		})
	}
	return awaited
}

// planEnd plans one end. Few fetch documents at a time, since these may be large. Time that it waits for its place counts against
// the time that it has, so ends behind a slow store fail with errSlowPlan, and are planned again by a later turn.
func (c *core) planEnd(ctx context.Context, end End, fetches bool) ([]Successor, error) {
	if fetches {
		select {
		case c.planning.fetching <- struct{}{}:
			defer func() { <-c.planning.fetching }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return c.options.Successors.Plan(ctx, end)
}

// takePlans returns the known state of the plans of ends now. Those that are ready are taken out, errors included:
// the next turn that has such an end tries again.
func (c *core) takePlans(ends []End) plans {
	p := &c.planning
	p.mu.Lock()
	defer p.mu.Unlock()
	planned := make(plans, len(ends))
	for _, end := range ends {
		known := p.pending[end.Action.ID]
		if known == nil || !known.ready {
			planned[end.Action.ID] = plan{end: end, err: errPlanning}
			continue
		}
		delete(p.pending, end.Action.ID)
		planned[end.Action.ID] = known.made
	}
	return planned
}

// close ends what is being planned, and waits for it. The caller is closing the stores that planners read, so none may be at work
// after it.
func (p *planning) close() {
	p.mu.Lock()
	p.closed = true
	for _, one := range p.pending {
		one.cancel()
	}
	p.mu.Unlock()
	p.running.Wait()
}
