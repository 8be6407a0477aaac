package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/waybill-dev/waybill/internal/fault"
)

const (
	fullGroup  = 200 // actions that one transaction of several callers stores at most; a call with as many goes alone
	groupsOnce = 2   // such transactions at a time; the embedded log has one writer
)

// gathering lets callers of Enqueue, EnqueueWith and Receive share transactions. A caller that arrives while the maximum is running joins the next
// group. An idle queue stores at once: no call waits for others to join it.
type gathering struct {
	mu      sync.Mutex     // guards what follows but ended; it is not held while a group is stored
	waiting []*enqueueCall // in the order of arrival
	running int            // goroutines that store groups
	closed  bool           // calls go alone, and are refused
	ended   sync.WaitGroup // those goroutines
}

// enqueueCall is one call, and then its answer.
type enqueueCall struct {
	part
	ctx  context.Context // context of the caller, without its end
	made []Enqueued
	err  error
	done chan struct{}
}

// gather stores the part of one caller in a transaction with those of others. The transaction does not end with the caller's
// context, since it is not the caller's alone. A context that has ended before is refused, so that nothing is stored for it.
func (q *Queue) gather(ctx context.Context, p part) ([]Enqueued, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	if p.size() >= fullGroup {
		return q.storeAlone(ctx, nil, p)
	}
	o := &enqueueCall{part: p, ctx: context.WithoutCancel(ctx), done: make(chan struct{})}
	g := &q.calls
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return q.storeAlone(ctx, nil, p)
	}
	g.waiting = append(g.waiting, o)
	if g.running == 0 || g.running < groupsOnce && !q.db.Embedded() {
		g.running++
		g.ended.Go(q.runGroups)
	}
	g.mu.Unlock()
	select {
	case <-o.done:
		return o.made, o.err
	case <-ctx.Done(): // it may be stored all the same, as when a commit is not answered
		return nil, fmt.Errorf("enqueue: %w", context.Cause(ctx))
	}
}

// runGroups stores the calls that wait until none does. Whether it ends is decided under the lock by take, so a call that
// arrives at that moment either is taken or begins another runGroups.
func (q *Queue) runGroups() {
	for {
		some := q.calls.take()
		if len(some) == 0 {
			return
		}
		q.storeGroup(some)
	}
}

// close waits for work in progress.
func (g *gathering) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.ended.Wait()
}

// take returns the next group, at most fullGroup actions but one call at least; none: no call waits, and its caller counts as
// running no more.
func (g *gathering) take() []*enqueueCall {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, rows := 0, 0
	for ; n < len(g.waiting) && (n == 0 || rows+g.waiting[n].size() <= fullGroup); n++ {
		rows += g.waiting[n].size()
	}
	some := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; n == 0 {
		g.waiting = nil
		g.running--
	}
	return some
}

// storeGroup stores the parts of a group of calls, and answers each. When one is at fault, each is stored alone, so that
// the rest are not refused with it. Closing done publishes the answer: made and err are not written after it.
func (q *Queue) storeGroup(group []*enqueueCall) {
	parts := make([]part, len(group))
	for i, o := range group {
		parts[i] = o.part
	}
	made, err := q.store(group[0].ctx, nil, parts...)
	if err != nil && len(group) > 1 && !ofTheDatabase(err) {
		for _, o := range group {
			q.storeGroup([]*enqueueCall{o})
		}
		return
	}
	for i, o := range group {
		if o.err = err; err == nil {
			o.made = made[i]
		}
		close(o.done)
	}
}

// ofTheDatabase reports whether an error would meet every call of a group alike: the database is away. A missing partition
// concerns only the call whose time it is, and what else a Before finds unavailable only its caller.
func ofTheDatabase(err error) bool {
	_, own := errors.AsType[beforeError](err)
	return (fault.Is(err, fault.LedgerUnavailable) || fault.Is(err, fault.Unavailable) && !own) && !errors.Is(err, ErrNoPartition)
}
