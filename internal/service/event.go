package service

import (
	"context"
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
}

// ReceiveEvents stores the actions that events request at a trigger, all or none, and returns the outcome of each, in their
// order. An event that was received before is answered with its first action, whatever the filter is now. fault.Unavailable when
// as many actions of the trigger live as its backlog has.
func (s *Service) ReceiveEvents(ctx context.Context, t config.Trigger, events []cloudevent.Event) ([]Delivery, error) {
	received, err := s.received(ctx, t, events)
	if err != nil {
		return nil, err
	}
	var fresh []queue.Event
	for i := range events {
		e := &events[i]
		if _, known := received[eventID(t, e)]; known || !t.Filter.Matches(e) {
			continue
		}
		one, err := s.eventAction(ctx, t, e)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, one)
	}
	if err := s.backlogs.admit(ctx, s.ledger, t, len(fresh)); err != nil {
		return nil, err
	}
	made, err := s.ledger.Receive(ctx, fresh...)
	if err != nil {
		return nil, err
	}
	outcomes := make(map[queue.EventID]Delivery, len(events))
	for i, one := range made {
		if _, repeated := outcomes[fresh[i].EventID]; !repeated {
			outcomes[fresh[i].EventID] = Delivery{one.ID, !one.Created}
		}
	}
	for id, first := range received {
		outcomes[id] = Delivery{first, true}
	}
	deliveries := make([]Delivery, len(events))
	for i := range events {
		deliveries[i] = outcomes[eventID(t, &events[i])]
	}
	return deliveries, nil
}

func eventID(t config.Trigger, e *cloudevent.Event) queue.EventID {
	return queue.EventID{Trigger: t.Name, Source: e.Source, ID: e.ID}
}

// received returns the actions of events that were received before. It reads the log only where the answer decides something that
// Receive does not: whether an event counts that the filter does not match, whether the backlog refuses it, whether large parameters are
// stored again. While the log is away, an event that does not match was not received.
func (s *Service) received(ctx context.Context, t config.Trigger, events []cloudevent.Event) (map[queue.EventID]action.ID, error) {
	isAsked, matches := s.backlogs.isFull(t), false
	ids := make([]queue.EventID, len(events))
	for i := range events {
		e := &events[i]
		ids[i] = eventID(t, e)
		isMatch := t.Filter.Matches(e)
		isAsked, matches = isAsked || !isMatch || e.Size() > blob.Inline, matches || isMatch
	}
	if !isAsked {
		return nil, nil
	}
	received, err := s.ledger.Received(ctx, ids...)
	if err != nil && !matches {
		return nil, nil
	}
	return received, err
}

// eventAction returns an event with the action that it requests. Large parameters are stored as a blob first.
func (s *Service) eventAction(ctx context.Context, t config.Trigger, e *cloudevent.Event) (queue.Event, error) {
	planned := trigger.Plan(&t.Trigger, e)
	a := planned.Action
	if len(a.Parameters) > blob.Inline {
		var err error
		if a, err = s.offloadParameters(ctx, a); err != nil {
			return queue.Event{}, err
		}
	}
	a.Trace = obs.Traceparent(ctx)
	return queue.Event{EventID: eventID(t, e), Action: queue.Successor{Action: a, Code: planned.Code, Fault: planned.Fault}}, nil
}

// backlogs knows how many actions of each trigger live.
type backlogs struct {
	mu  sync.Mutex
	all map[string]*backlog
}

// backlog counts live actions of a trigger: those of the last count, and those that were admitted since.
type backlog struct {
	mu        sync.Mutex
	live      int
	countedAt time.Time
}

// backlogAge is the time for which a count holds. Other instances may admit more meanwhile.
const backlogAge = time.Second

func (b *backlogs) of(t config.Trigger) *backlog {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[t.Name] == nil {
		b.all[t.Name] = &backlog{}
	}
	return b.all[t.Name]
}

// isFull reports whether the trigger had no room for one more action when that was last known.
func (b *backlogs) isFull(t config.Trigger) bool {
	one := b.of(t)
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.live >= t.Backlog
}

// admit counts n more actions, or returns fault.Unavailable.
func (b *backlogs) admit(ctx context.Context, l liveEvents, t config.Trigger, n int) error {
	if n == 0 {
		return nil
	}
	one := b.of(t)
	one.mu.Lock()
	defer one.mu.Unlock()
	if time.Since(one.countedAt) > backlogAge {
		live, err := l.LiveEvents(ctx, t.Name, t.Backlog)
		if err != nil {
			return err
		}
		one.live, one.countedAt = live, time.Now()
	}
	if one.live+n > t.Backlog {
		return fault.New(fault.Unavailable, "the trigger %s has %d live actions; its backlog is %d", t.Name, one.live, t.Backlog).
			WithHint("send the event again later")
	}
	one.live += n
	return nil
}

// liveEvents counts in the log.
type liveEvents interface {
	LiveEvents(ctx context.Context, trigger string, most int) (int, error)
}
