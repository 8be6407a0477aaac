package server

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/schedule"
)

// followPoll bounds how late a follower sees a row whose wake-up was lost.
const followPoll = 2 * time.Second

// Entries reads a pipeline's log.
func (s *Service) Entries(ctx context.Context, q ledger.EntryQuery) ([]schedule.Entry, error) {
	if _, err := s.head(ctx, q.Pipeline); err != nil {
		return nil, err
	}
	return s.ledger.Entries(ctx, q)
}

// Follow hands every matching entry after q.After to each, in order, those that are there and those to come,
// until ctx ends (its cause is returned) or each returns an error (which is returned). q.Limit and q.Newest count for
// the first reading.
func (s *Service) Follow(ctx context.Context, q ledger.EntryQuery, each func(schedule.Entry) error) error {
	head, err := s.head(ctx, q.Pipeline)
	if err != nil {
		return err
	}
	waiter := s.Waiter()
	for {
		rows, err := s.ledger.Entries(ctx, q)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := each(row); err != nil {
				return err
			}
			q.After = row.Seq
		}
		if len(rows) == 0 {
			q.After = max(q.After, head.Seq) // rows that the query does not want need not be read again
		}
		q.Limit, q.Newest = 0, false
		if head, err = s.grown(ctx, waiter, q.Pipeline, q.After); err != nil {
			return err
		}
	}
}

// grown waits until the log has a row after the position.
func (s *Service) grown(ctx context.Context, waiter *Waiter, pipeline string, after int64) (ledger.Head, error) {
	for {
		head, err := s.ledger.Head(ctx, pipeline)
		if err != nil || head.Seq > after {
			return head, err
		}
		if err := waiter.Wait(ctx, followPoll, ledger.TopicEntry); err != nil {
			return head, err
		}
	}
}

// Actions lists by query, newest first.
func (s *Service) Actions(ctx context.Context, q ledger.ActionQuery) ([]ledger.ActionState, error) {
	return s.ledger.Actions(ctx, q)
}

// ActionView is everything about one action.
type ActionView struct {
	ledger.ActionState
	Events []action.Event `json:"events"`
	// Limit is what keeps the lane of an action that waits from running freely.
	Limit *ledger.Limiter `json:"limit,omitempty"`
}

// Action is one of them with its events, and with why it waits where that is its lane's doing.
func (s *Service) Action(ctx context.Context, id action.ID) (ActionView, error) {
	view, err := s.history(ctx, id)
	if err == nil && view.Thread.Status.Live() && view.Thread.ClaimedBy.IsZero() {
		view.Limit, err = s.ledger.Trouble(ctx, view.Lane)
	}
	return view, err
}

// history is an action with its events.
func (s *Service) history(ctx context.Context, id action.ID) (ActionView, error) {
	state, err := s.ledger.Action(ctx, id)
	if err != nil {
		return ActionView{}, err
	}
	events, err := s.ledger.Events(ctx, id)
	return ActionView{ActionState: state, Events: events}, err
}

// FollowAction hands every event after seq to each, those that are there and those to come, and calls end
// once the action has ended.
func (s *Service) FollowAction(ctx context.Context, id action.ID, after int, each func(action.Event) error, end func() error) error {
	waiter := s.Waiter()
	for {
		view, err := s.history(ctx, id)
		if err != nil {
			return err
		}
		for _, event := range view.Events {
			if event.Seq <= after {
				continue
			}
			if err := each(event); err != nil {
				return err
			}
			after = event.Seq
		}
		if view.Thread.Status.Ended() {
			return end()
		}
		if err := waiter.Wait(ctx, followPoll, ledger.TopicAction); err != nil {
			return err
		}
	}
}
