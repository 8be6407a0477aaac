package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/cloudevent"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/trigger"
)

// Trigger returns one trigger of server.yaml, or fault.NotFound with the nearest name as the hint.
func (s *Service) Trigger(name string) (config.Trigger, error) {
	all := s.offers.Triggers()
	if t, ok := all[name]; ok {
		return t, nil
	}
	return config.Trigger{}, fault.New(fault.NotFound, "trigger %q not found", name).
		WithHint("triggers are described under triggers in server.yaml").
		WithNearest(name, slices.Sorted(maps.Keys(all)))
}

// Delivery is the outcome of one event.
type Delivery struct {
	ActionID action.ID // zero: the trigger's filter does not match
	Repeated bool      // it was received before
	Faulty   bool      // its action is FAILED from the start
}

// ReceiveEvents stores the actions that events request at a trigger, all or none, and returns the outcome of each, in their
// order. An event that was received before is answered with its first action, whatever the filter is now. fault.Unavailable when
// as many actions of the trigger live as its backlog has.
func (s *Service) ReceiveEvents(ctx context.Context, t config.Trigger, events []cloudevent.Event) ([]Delivery, error) {
	r := reception{service: s, trigger: t, outcomes: make(map[queue.EventID]Delivery, len(events)), ids: make([]queue.EventID, len(events))}
	r.plan(events)
	if err := r.store(ctx); err != nil {
		return nil, err
	}
	deliveries := make([]Delivery, len(events))
	for i, id := range r.ids {
		deliveries[i] = r.outcomes[id]
	}
	return deliveries, nil
}

// reception is one request with events.
type reception struct {
	service   *Service
	trigger   config.Trigger
	ids       []queue.EventID // ids in the order of the events
	fresh     []queue.Event   // those to be stored, each once
	unmatched bool            // the filter does not match some
	outcomes  map[queue.EventID]Delivery
}

// plan makes the actions of the events that match.
func (r *reception) plan(events []cloudevent.Event) {
	planned := map[queue.EventID]bool{}
	for i := range events {
		e := &events[i]
		id := queue.EventID{Trigger: r.trigger.Name, Source: e.Source, ID: e.ID}
		r.ids[i] = id
		if !r.trigger.Filter.Matches(e) {
			r.unmatched = true
			continue
		}
		if planned[id] {
			continue
		}
		planned[id] = true
		p := trigger.Plan(&r.trigger.Trigger, e)
		r.fresh = append(r.fresh, queue.Event{EventID: id, Action: queue.Successor{Action: p.Action, Code: p.Code, Fault: p.Fault}})
	}
}

// store stores the actions. It reads the inbox first only where that decides something which Receive does not: whether an event
// counts that does not match, whether the backlog refuses an event, and whether large parameters are stored again.
func (r *reception) store(ctx context.Context) error {
	if r.unmatched || slices.ContainsFunc(r.fresh, hasLarge) {
		if err := r.recall(ctx); err != nil {
			return err
		}
	}
	err := r.admit(ctx)
	if errors.Is(err, ErrBacklog) {
		if err := r.recall(ctx); err != nil {
			return err
		}
		err = r.admit(ctx)
	}
	if err != nil {
		return err
	}
	admitted := len(r.fresh)
	made, err := r.receive(ctx)
	for i, one := range made {
		r.outcomes[r.fresh[i].EventID] = Delivery{one.ID, !one.Created, one.Created && r.fresh[i].Action.Fault != ""}
		if one.Created && r.fresh[i].Action.Fault == "" {
			admitted--
		}
	}
	r.service.backlogs.of(r.trigger.Name).giveBack(admitted)
	return err
}

// hasLarge reports whether the parameters of an event's action need a blob.
func hasLarge(e queue.Event) bool { return len(e.Action.Action.Parameters) > blob.Inline }

// recall takes the events that were received before out of those to be stored. While the log is away, an event that does not match
// was not received.
func (r *reception) recall(ctx context.Context) error {
	received, err := r.service.ledger.Received(ctx, r.ids...)
	if err != nil && len(r.fresh) == 0 {
		return nil
	}
	for id, first := range received {
		r.outcomes[id] = Delivery{ActionID: first, Repeated: true}
	}
	r.fresh = slices.DeleteFunc(r.fresh, func(e queue.Event) bool {
		_, known := received[e.EventID]
		return known
	})
	return err
}

// admit reserves room in the backlog for the events to be stored.
func (r *reception) admit(ctx context.Context) error {
	if len(r.fresh) == 0 {
		return nil
	}
	return r.service.backlogs.of(r.trigger.Name).admit(ctx, r.service.ledger, r.trigger, len(r.fresh))
}

// receive stores the actions, and large parameters before them.
func (r *reception) receive(ctx context.Context) ([]queue.Enqueued, error) {
	trace := obs.Traceparent(ctx)
	for i := range r.fresh {
		a := &r.fresh[i].Action.Action
		if hasLarge(r.fresh[i]) {
			stored, err := r.service.offloadParameters(ctx, *a)
			if err != nil {
				return nil, err
			}
			*a = stored
		}
		a.Trace = trace
	}
	return r.service.ledger.Receive(ctx, r.fresh...)
}

// backlogs counts the live actions of triggers, by their names.
type backlogs struct {
	mu  sync.Mutex
	all map[string]*backlog
}

// backlog counts the live actions of a trigger: those of the last count, and those that were admitted since.
type backlog struct {
	mu        sync.Mutex // it is not held while the log counts
	live      int
	countedAt time.Time
	took      time.Duration // time of the last count
	counting  bool
}

// A count holds for backlogAge, and a count that refuses events for fullAge, but ten times as long as it took. Other instances may admit more meanwhile.
const (
	backlogAge = time.Second
	fullAge    = 50 * time.Millisecond
)

func (b *backlogs) of(trigger string) *backlog {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[trigger] == nil {
		b.all[trigger] = &backlog{}
	}
	return b.all[trigger]
}

// ErrBacklog is wrapped by the error of an event that a full backlog refuses.
var ErrBacklog = errors.New("the backlog is full")

// admit counts n more actions, or returns fault.Unavailable when the backlog is full already. A batch may exceed it, since otherwise one
// with more events than the backlog could never be stored. One caller at a time counts, while the rest go by the count before.
func (b *backlog) admit(ctx context.Context, l liveEvents, t config.Trigger, n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := time.Since(b.countedAt); !b.counting && (age > backlogAge || b.live >= t.Backlog && age > max(fullAge, 10*b.took)) {
		if err := b.count(ctx, l, t); err != nil {
			return err
		}
	}
	if b.live >= t.Backlog {
		return fault.New(fault.Unavailable, "%w: the trigger %s has %d live actions; its backlog is %d", ErrBacklog, t.Name, b.live, t.Backlog).
			WithHint("send the event again later")
	}
	b.live += n
	return nil
}

// count reads the number of live actions. The lock is held when it is called and when it returns.
func (b *backlog) count(ctx context.Context, l liveEvents, t config.Trigger) error {
	before := b.live
	b.counting = true
	begun := time.Now()
	b.mu.Unlock()
	live, err := l.LiveEvents(ctx, t.Name, t.Backlog)
	b.mu.Lock()
	b.counting = false
	if err == nil {
		b.live, b.countedAt, b.took = live+b.live-before, time.Now(), time.Since(begun) // with those that were admitted meanwhile
	}
	return err
}

// giveBack takes back actions that were admitted and are not live.
func (b *backlog) giveBack(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live = max(0, b.live-n)
}

// liveEvents counts in the log.
type liveEvents interface {
	LiveEvents(ctx context.Context, trigger string, most int) (int, error)
}
