package conductor_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

var _ conductor.Ledger = (*fake)(nil)

// fake is the queue in memory, with the fence, and with the faults that a test wants. It replaces the
// ledger where virtual time is needed; other tests use the real one.
type fake struct {
	mu      sync.Mutex
	rows    map[action.ID]*row
	lanes   map[string][]*row // claimable actions, in the order in which it became so
	later   map[*row]bool     // actions that wait for their time
	claimed map[*row]bool
	joined  []action.ID
	alive   map[action.ID]bool
	changed map[store.Topic]chan struct{}
	sizes   []int // completions of each turn

	poll time.Duration

	limits limiters

	pulse    queue.Pulse          // the answer to every heartbeat
	lost     []queue.Rescued      // the answer to every rescue
	began    func(action.ID) bool // the last argument of Rescue
	backlogs []queue.Backlog
	samples  int // calls of Sample

	unguarded  atomic.Bool
	deaf       bool          // heartbeats return an error
	ahead      time.Duration // its clock's lead over this machine's
	away       bool          // Now returns an error
	refuseTick func(schedule string, at time.Time) error

	refuse    func(c []queue.Completion) error // before a turn
	turning   func(c []queue.Completion)       // while a turn is in progress; set before the conductor runs
	reading   func(owner action.ID)            // while an instance reads its claims; set before the conductor runs
	loseTurns int                              // answers to lose after the commit
	holds     func(action.ID) bool             // completions to leave out
}

// row is one action with its thread.
type row struct {
	action action.Action
	action.Thread
	outcomes []action.Outcome
	cancel   bool
	ended    time.Time
}

func newFake() *fake {
	f := &fake{rows: map[action.ID]*row{}, lanes: map[string][]*row{}, later: map[*row]bool{}, claimed: map[*row]bool{},
		alive: map[action.ID]bool{}, changed: map[store.Topic]chan struct{}{}, poll: 5 * time.Second}
	for _, topic := range store.Topics() {
		f.changed[topic] = make(chan struct{})
	}
	return f
}

// add enqueues an action and returns its id.
func (f *fake) add(a action.Action) action.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.rows)
	a.ID = action.NewID(time.Now(), [10]byte{7: byte(n >> 16), 8: byte(n >> 8), 9: byte(n)})
	if a.Lane == "" {
		a.Lane = a.Handler
	}
	thread := action.Thread{Status: action.Pending, RunAt: a.RunAt}
	if a.Policy.Deadline > 0 {
		thread.Deadline = time.Now().Add(time.Duration(a.Policy.Deadline))
	}
	f.put(&row{action: a, Thread: thread})
	f.poke(store.TopicReady)
	return a.ID
}

func (f *fake) put(r *row) {
	f.rows[r.action.ID] = r
	f.line(r)
}

// line puts a row in its lane, or among those that wait for their time.
func (f *fake) line(r *row) {
	if r.RunAt.After(time.Now()) {
		f.later[r] = true
		return
	}
	f.lanes[r.action.Lane] = append(f.lanes[r.action.Lane], r)
}

// release ends a claim.
func (f *fake) release(r *row, s action.Status) {
	delete(f.claimed, r)
	r.ClaimedBy, r.Status = action.ID{}, s
}

// claims returns the claimed rows, oldest first.
func (f *fake) claims() []*row {
	return slices.SortedFunc(maps.Keys(f.claimed), func(a, b *row) int { return bytes.Compare(a.action.ID[:], b.action.ID[:]) })
}

// joinedIDs returns the ids under which the conductor has joined.
func (f *fake) joinedIDs() []action.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.joined)
}

func (f *fake) poke(topic store.Topic) {
	close(f.changed[topic])
	f.changed[topic] = make(chan struct{})
}

// get returns a copy of an action's row.
func (f *fake) get(id action.ID) row {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.rows[id]
}

// count returns how many actions have the status.
func (f *fake) count(s action.Status) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.rows {
		if r.Status == s {
			n++
		}
	}
	return n
}

func (f *fake) askCancel(id action.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows[id].cancel = true
	f.poke(store.TopicCancel)
}

// kill declares an instance dead and frees its claims.
func (f *fake) kill(id action.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.alive, id)
	for _, holds := range f.limits.holds {
		delete(holds, id)
	}
	for _, r := range f.claims() {
		if r.ClaimedBy == id {
			r.RunAt = time.Time{}
			f.release(r, action.Backoff)
			f.line(r)
		}
	}
	f.poke(store.TopicReady)
}

func (f *fake) CompleteAndClaim(_ context.Context, owner queue.Instance, completions []queue.Completion,
	wants []queue.Want) (queue.Turned, error) {
	if f.turning != nil {
		f.turning(completions)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(completions); err != nil {
			return queue.Turned{}, err
		}
	}
	f.sizes = append(f.sizes, len(completions))
	var turned queue.Turned
	for _, c := range completions {
		if f.holds != nil && f.holds(c.ID) {
			turned.Deferred.IDs = append(turned.Deferred.IDs, c.ID)
			continue
		}
		if r := f.rows[c.ID]; r.ClaimedBy == owner.ID && r.Attempt == c.Attempt {
			if c.HandOff && c.Outcome.Kind == action.Done {
				f.release(r, action.Queued)
				r.outcomes = append(r.outcomes, c.Outcome)
				continue
			}
			f.complete(r, c.Outcome)
		} else {
			turned.Late = append(turned.Late, c.ID)
		}
	}
	if f.alive[owner.ID] {
		for _, w := range wants {
			turned.Claimed = append(turned.Claimed, f.claim(owner.ID, w)...)
		}
	}
	if f.loseTurns > 0 {
		f.loseTurns--
		return queue.Turned{}, fault.New(fault.LedgerUnavailable, "connection lost at commit")
	}
	return turned, nil
}

func (f *fake) complete(r *row, o action.Outcome) {
	r.outcomes = append(r.outcomes, o)
	r.ended = time.Now()
	switch o.Kind {
	case action.Done:
		f.release(r, action.Successful)
	case action.Stopped:
		f.release(r, action.Canceled)
	case action.Expired:
		f.release(r, action.TimedOut)
	case action.Fatal, action.BadInput:
		f.release(r, action.Failed)
	default:
		if r.RunAt = time.Now(); o.Kind != action.GivenBack {
			r.RunAt = r.RunAt.Add(time.Second)
		}
		f.release(r, action.Backoff)
		f.line(r)
	}
}

func (f *fake) claim(owner action.ID, w queue.Want) (claimed []queue.Claimed) {
	waiting := f.lanes[w.Lane]
	n := min(w.N, len(waiting))
	for _, r := range waiting[:n] {
		f.claimed[r] = true
		r.ClaimedBy = owner
		if !w.HandOff {
			r.Status = action.Running
		}
		r.Attempt++
		claimed = append(claimed, queue.Claimed{Action: r.action, Thread: r.Thread, Until: r.Deadline})
	}
	if f.lanes[w.Lane] = waiting[n:]; n == len(waiting) {
		delete(f.lanes, w.Lane)
	}
	return claimed
}

func (f *fake) Lanes(_ context.Context, handlers []string, after string, limit int) (lanes []string, next string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sorted := slices.DeleteFunc(slices.Sorted(maps.Keys(f.lanes)), func(lane string) bool {
		handler, _, _ := strings.Cut(lane, "/")
		return lane <= after || !slices.Contains(handlers, handler)
	})
	if len(sorted) > queue.LanesVisited {
		sorted = sorted[:queue.LanesVisited]
		next = sorted[len(sorted)-1]
	}
	lanes = slices.DeleteFunc(sorted, f.limits.blocked)
	if len(lanes) >= limit {
		lanes, next = lanes[:limit], lanes[limit-1]
	}
	return lanes, next, nil
}

func (f *fake) Claims(_ context.Context, owner action.ID) (claimed []queue.Claimed, err error) {
	if f.reading != nil {
		f.reading(owner)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.claims() {
		if r.ClaimedBy == owner {
			claimed = append(claimed, queue.Claimed{Action: r.action, Thread: r.Thread, Until: r.Deadline})
		}
	}
	return claimed, nil
}

func (f *fake) Due(context.Context) (next time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.later {
		if !r.RunAt.After(time.Now()) {
			delete(f.later, r)
			f.line(r)
			f.poke(store.TopicReady)
		} else if next.IsZero() || r.RunAt.Before(next) {
			next = r.RunAt
		}
	}
	return next, nil
}

func (f *fake) Join(_ context.Context, i queue.Instance) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alive[i.ID] = true
	f.joined = append(f.joined, i.ID)
	return nil
}

func (f *fake) Pulse(_ context.Context, i queue.Instance, _ bool) (queue.Pulse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deaf {
		return queue.Pulse{}, fault.New(fault.LedgerUnavailable, "no route to the database")
	}
	if !f.alive[i.ID] {
		return queue.Pulse{}, fault.New(fault.StaleClaim, "instance %s was declared dead", i.ID)
	}
	return f.pulse, nil
}

func (f *fake) Leave(_ context.Context, i queue.Instance) error {
	f.kill(i.ID)
	return nil
}

func (f *fake) Grant(_ context.Context, owner queue.Instance, asks []action.Ask) ([]action.Grant, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.limits.grant(owner.ID, asks, len(f.alive)), nil
}

func (f *fake) Rescue(_ context.Context, _ action.ID, began func(action.ID) bool) ([]queue.Rescued, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.began = began
	return f.lost, nil
}

func (f *fake) Sample(context.Context) (queue.Sample, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.samples++
	return queue.Sample{Now: time.Now(), Backlogs: f.backlogs}, nil
}

func (f *fake) Guarded() bool { return !f.unguarded.Load() }

func (f *fake) Maintain(context.Context) error { return nil }

func (f *fake) CancelAsked(_ context.Context, owner action.ID) (asked []action.ID, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := range f.claimed {
		if r.cancel && r.ClaimedBy == owner {
			asked = append(asked, r.action.ID)
		}
	}
	return asked, nil
}

func (f *fake) Stops(_ context.Context, _ queue.Instance, handlers []string) (stops []queue.Claimed, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rows {
		if r.cancel && r.Status == action.Queued && !r.RunAt.After(time.Now()) && slices.Contains(handlers, r.action.Handler) {
			r.RunAt = time.Now().Add(action.StopLease)
			stops = append(stops, queue.Claimed{Action: r.action, Thread: r.Thread, Until: r.Deadline})
		}
	}
	return stops, nil
}

func (f *fake) Stopped(_ context.Context, _ queue.Instance, id action.ID, o action.Outcome) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rows[id]
	r.outcomes = append(r.outcomes, o)
	r.RunAt = time.Now().Add(time.Second)
	if o.Kind == action.Done {
		r.Status = action.Canceled
	}
	return nil
}

// ReadyLanes knows no lanes: each signal is one to search.
func (f *fake) ReadyLanes() []string { return nil }

func (f *fake) Wait(ctx context.Context, topic store.Topic, deadline time.Time) error {
	f.mu.Lock()
	changed, limit := f.changed[topic], f.poll
	f.mu.Unlock()
	if !deadline.IsZero() {
		limit = min(limit, time.Until(deadline))
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
