package service

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// KeepAlive is the interval of comments that keep a stream's connection open.
const KeepAlive = 15 * time.Second

// followPoll bounds the delay of a follower whose wake-up was lost.
const followPoll = 2 * time.Second

// Entries returns the entries of a pipeline's log that a query selects. Those of an archived deployment are only found by a
// query that names it; the error is fault.Corrupt if its archive is missing or damaged.
func (s *Service) Entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error) {
	if OfKubernetes(q.Pipeline) {
		return s.promotionEntries(ctx, q)
	}
	if _, err := s.ReadHead(ctx, q.Pipeline); err != nil {
		return nil, err
	}
	return s.entries(ctx, q)
}

// Follow calls each for every matching entry after q.After, present and future, in order. It ends when ctx ends, with its
// cause, or with an error of each. q.Limit and q.Newest only apply to the entries that exist at the start.
func (s *Service) Follow(ctx context.Context, q journal.EntryQuery, each func(pipeline.Entry) error) error {
	if OfKubernetes(q.Pipeline) {
		return s.followRuns(ctx, q, each)
	}
	head, err := s.ReadHead(ctx, q.Pipeline)
	if err != nil {
		return err
	}
	waiter := s.Waiter()
	for {
		last, isArchived, err := s.EachEntry(ctx, q, each)
		if err != nil {
			return err
		}
		if isArchived { // nothing follows
			<-ctx.Done()
			return context.Cause(ctx)
		}
		if q.After = max(q.After, last); last == 0 {
			q.After = max(q.After, head.Seq) // skip the rows that the query does not select
		}
		q.Limit, q.Newest = 0, false
		if head, err = s.awaitGrowth(ctx, waiter, q.Pipeline, q.After); err != nil {
			return err
		}
	}
}

// How many entries are read at a time of a log that is read whole, which may have more than fits into memory. The database sorts all
// entries of a deployment or a target for each page.
const (
	EntriesPage = 1000
	sortedPage  = 20_000
)

// EachEntry calls each for the entries that a query selects, in order. It returns the seq of the last one, 0 if there was none, and
// whether they are of an archived deployment. Without Limit they are read in pages, so that few are in memory at a time, or as a
// stream from the archive.
func (s *Service) EachEntry(ctx context.Context, q journal.EntryQuery,
	each func(pipeline.Entry) error) (last int64, isArchived bool, err error) {
	if OfKubernetes(q.Pipeline) {
		last, err = eachPage(q, func(q journal.EntryQuery) ([]pipeline.Entry, error) { return s.promotionEntries(ctx, q) }, each)
		return last, false, err
	}
	if q.Limit > 0 {
		last, err = eachPage(q, func(q journal.EntryQuery) ([]pipeline.Entry, error) { return s.entries(ctx, q) }, each)
		return last, false, err
	}
	last, err = eachPage(q, func(q journal.EntryQuery) ([]pipeline.Entry, error) { return s.ledger.Entries(ctx, q) }, each)
	if err != nil {
		return last, false, err
	}
	d, isArchived, err := s.archiveOf(ctx, q)
	if err != nil || !isArchived {
		return last, false, err
	}
	q.After = max(q.After, last) // it may have been archived only now
	return last, true, s.eachArchived(ctx, d, q, func(e pipeline.Entry) error {
		last = e.Seq
		return each(e)
	})
}

// eachPage calls each for the entries that a query selects, in order, and returns the seq of the last one; 0: there was none.
// Without Limit they are read in pages.
func eachPage(q journal.EntryQuery, read func(journal.EntryQuery) ([]pipeline.Entry, error),
	each func(pipeline.Entry) error) (last int64, err error) {
	whole := q.Limit == 0
	if whole {
		q.Limit, q.Newest = EntriesPage, false
		if q.Deployment != 0 || q.Target != "" {
			q.Limit = sortedPage
		}
	}
	for {
		rows, err := read(q)
		if err != nil {
			return last, err
		}
		for _, row := range rows {
			if err := each(row); err != nil {
				return last, err
			}
			last = row.Seq
		}
		if !whole || len(rows) < q.Limit {
			return last, nil
		}
		q.After = last
	}
}

// awaitGrowth waits until the log has a row after a position, and returns its head.
func (s *Service) awaitGrowth(ctx context.Context, waiter *Waiter, name string, after int64) (journal.Head, error) {
	for {
		head, err := s.ledger.Head(ctx, name)
		if err != nil || head.Seq > after {
			return head, err
		}
		if err := waiter.Wait(ctx, followPoll, store.TopicEntry); err != nil {
			return head, err
		}
	}
}

// Actions returns the actions that a query selects, newest first.
func (s *Service) Actions(ctx context.Context, q queue.ActionQuery) ([]queue.ActionState, error) {
	if err := refuseUnindexed(q); err != nil {
		return nil, err
	}
	return s.ledger.Actions(ctx, q)
}

// refuseUnindexed refuses a filter that no index serves: it would read the whole history.
func refuseUnindexed(q queue.ActionQuery) error {
	live := q.LiveOnly || len(q.Statuses) > 0 && len(q.Ended()) == 0
	switch {
	case q.Lane != "" && !live && q.Since.IsZero():
		return fault.New(fault.Invalid, "the filter lane alone would read every action: also want a live status or a time").
			WithHint("add live, a status such as pending, or since")
	case q.Pipeline == "" && (q.Deployment != 0 || q.Target != ""):
		return fault.New(fault.Invalid, "the filters deployment and target need a pipeline").WithHint("add pipeline")
	}
	return nil
}

// ActionView is one action with its events, children and exchanges.
type ActionView struct {
	queue.ActionState
	Events    []action.Event `json:"events"`
	Children  []Child        `json:"children,omitempty"`  // oldest first, at most childrenShown
	Exchanges []string       `json:"exchanges,omitempty"` // paths of what each attempt saw
	// Limit is the limiter that blocks or slows the lane of a waiting action.
	Limit *queue.Limiter `json:"limit,omitempty"`
}

// Child is an action whose parent is the action of the view.
type Child struct {
	ID      action.ID     `json:"id"`
	Kind    string        `json:"kind"`
	Name    string        `json:"name"`
	Handler string        `json:"handler"`
	Status  action.Status `json:"status"`
}

// childrenShown is the largest number of children in an action's view.
const childrenShown = 100

// Action returns one action with its events, and with its lane's limiter if that makes it wait.
func (s *Service) Action(ctx context.Context, id action.ID) (ActionView, error) {
	view, err := s.actionHistory(ctx, id)
	if err == nil && view.Thread.Status.Live() && view.Thread.ClaimedBy.IsZero() {
		var limits []queue.Limiter
		limits, err = s.ledger.Limits(ctx)
		view.Limit = queue.BlockingLimiter(limits, view.Lane)
	}
	return view, err
}

// actionHistory returns an action with its events, its children and the paths of its exchanges.
func (s *Service) actionHistory(ctx context.Context, id action.ID) (ActionView, error) {
	state, err := s.ledger.Action(ctx, id)
	if err != nil {
		return ActionView{}, err
	}
	view := ActionView{ActionState: state}
	if view.Events, err = s.ledger.Events(ctx, id); err != nil {
		return view, err
	}
	children, err := s.ledger.Actions(ctx, queue.ActionQuery{Parent: id, Oldest: true, Limit: childrenShown})
	for _, c := range children {
		view.Children = append(view.Children, Child{c.ID, c.Kind, c.Name, c.Handler, c.Thread.Status})
	}
	for _, e := range view.Events {
		if path := exchangePathOf(e); path != "" && !slices.Contains(view.Exchanges, path) {
			view.Exchanges = append(view.Exchanges, path)
		}
	}
	return view, err
}

// exchangePathOf returns the API's path of the evidence of an attempt; "" if its event refers to something else.
func exchangePathOf(e action.Event) string {
	if e.Ref == "" || e.Ref != evidence.Exchange(e.ActionID, e.Attempt) {
		return ""
	}
	return ExchangePath(e.ActionID, e.Attempt)
}

// KeptOutput returns the action and the attempt whose output was kept, by the detail of a step's fact; false if none was.
func KeptOutput(detail json.RawMessage) (id action.ID, attempt int, kept bool) {
	var d struct {
		Action  action.ID `json:"action"`
		Attempt int       `json:"attempt"`
		Kept    bool      `json:"kept"`
	}
	err := json.Unmarshal(detail, &d) // what does not fit has none
	return d.Action, d.Attempt, err == nil && d.Kept
}

// ExchangePath returns the API's path of the evidence of an attempt.
func ExchangePath(id action.ID, attempt int) string {
	return path.Join("/api/v1/actions", id.String(), "exchanges", strconv.Itoa(attempt))
}

// Exchange returns what one attempt of an action saw, or fault.NotFound if nothing was kept.
func (s *Service) Exchange(ctx context.Context, id action.ID, attempt int) (json.RawMessage, error) {
	if _, err := s.ledger.Action(ctx, id); err != nil {
		return nil, err
	}
	seen, err := blob.Load(ctx, s.blobs, nil, evidence.Exchange(id, attempt))
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.NotFound, "nothing was kept of attempt %d of action %s", attempt, id)
	}
	return seen, err
}

// eventsPage is the number of events that a stream reads at a time.
const eventsPage = 1000

// writerIsLong is the age from which a stream reports an open transaction that delays it.
const writerIsLong = 5 * time.Second

// EventsFrom returns the position from which a stream of all events starts: after the event of a cursor, or without one
// after all events so far.
func (s *Service) EventsFrom(ctx context.Context, cursor string) (queue.EventPosition, error) {
	if cursor == "" {
		return s.ledger.EventsEnd(ctx)
	}
	from, err := queue.ParseEventPosition(cursor)
	if err != nil {
		return from, fault.New(fault.Invalid, "Last-Event-ID: %q is %w", cursor, err).WithHint("send the id of an event of this stream, or none")
	}
	return from, nil
}

// EventSink receives the events and comments of a stream.
type EventSink struct {
	Event   func(queue.RecordedEvent) error
	Comment func(text string) error
}

// FollowEvents sends the events of all actions after a position, each at least once and in the recorded order, until ctx
// ends. While a long transaction delays them, it sends a comment about it from time to time.
func (s *Service) FollowEvents(ctx context.Context, after queue.EventPosition, to EventSink) error {
	waiter := s.Waiter()
	for commented := time.Now(); ; {
		events, err := s.ledger.EventsAfter(ctx, after, eventsPage)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := to.Event(e); err != nil {
				return err
			}
			after = e.Position
		}
		if len(events) == eventsPage {
			continue
		}
		if len(events) == 0 && time.Since(commented) >= KeepAlive {
			if err := s.commentDelay(ctx, to); err != nil {
				return err
			}
			commented = time.Now()
		}
		if err := waiter.Wait(ctx, followPoll, store.TopicAction); err != nil {
			return err
		}
	}
}

// commentDelay sends the age of the oldest open transaction that writes, if it is high.
func (s *Service) commentDelay(ctx context.Context, to EventSink) error {
	writer, err := s.ledger.OpenWriter(ctx)
	if err != nil || writer.Since.IsZero() {
		return err
	}
	now, err := s.ledger.Now(ctx)
	if age := now.Sub(writer.Since); err == nil && age >= writerIsLong {
		err = to.Comment(fmt.Sprintf("delayed: a transaction is open for %s (%s)", age.Round(time.Second), writer.By))
	}
	return err
}

// FollowAction calls each for every event after a seq, present and future, and calls end once the action has ended.
func (s *Service) FollowAction(ctx context.Context, id action.ID, after int, each func(action.Event) error, end func() error) error {
	waiter := s.Waiter()
	for {
		state, err := s.ledger.Action(ctx, id)
		if err != nil {
			return err
		}
		var events []action.Event
		if state.Thread.Seq > after { // most wake-ups are about other actions
			if events, err = s.ledger.Events(ctx, id); err != nil {
				return err
			}
		}
		for _, event := range events {
			if event.Seq <= after {
				continue
			}
			if err := each(event); err != nil {
				return err
			}
			after = event.Seq
		}
		if state.Thread.Status.Ended() {
			return end()
		}
		if err := waiter.Wait(ctx, followPoll, store.TopicAction); err != nil {
			return err
		}
	}
}
