package queue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// MaxNames bounds the different names of an ActionQuery.
const MaxNames = 20

// ActionQuery selects actions, newest first. A field that is zero leaves no action out, and an action is listed when it fits
// all that are set. The order is that of ids, and so of the times in them, which may be older than the enqueue.
type ActionQuery struct {
	Kind       string
	Name       string
	Names      []string      // any of these
	Phases     []Phase       // any of these
	Shortest   time.Duration // runs or ran at least that long; 0: any time, or none
	Longest    time.Duration // runs or ran at most that long
	Handler    string
	Lane       string
	CreatedBy  string
	Parent     action.ID
	RetryOf    action.ID
	Statuses   []action.Status // any of these
	Since      time.Time       // created then or later
	Until      time.Time       // created before
	Pipeline   string
	Deployment int64
	Target     string
	LiveOnly   bool
	After      action.ID // keyset: only older ids; with Oldest only newer ones
	Oldest     bool      // the oldest first
	Limit      int       // 0: all
}

// checked returns the query with each status, phase and name once, since each makes the statement longer. A
// status or a phase that is not known and more than MaxNames names are fault.Invalid.
func (q ActionQuery) checked() (ActionQuery, error) {
	q.Statuses, q.Phases, q.Names = once(q.Statuses), once(q.Phases), once(q.Names)
	for _, s := range q.Statuses {
		if !s.Live() && !s.Ended() {
			return q, fault.New(fault.Invalid, "read actions: status %d is not known", s)
		}
	}
	for _, p := range q.Phases {
		if !slices.Contains(Phases(), p) {
			return q, fault.New(fault.Invalid, "read actions: phase %q is not known", p)
		}
	}
	if len(q.Names) > MaxNames {
		return q, fault.New(fault.Invalid, "read actions: %d names, more than the %d that one query may have", len(q.Names), MaxNames)
	}
	return q, nil
}

// once returns each of the values once, in order.
func once[T cmp.Ordered](some []T) []T { return slices.Compact(slices.Sorted(slices.Values(some))) }

// From returns the lowest id that an action created at Since or later can have; zero: none.
func (q ActionQuery) From() action.ID { return LowestID(q.Since) }

// To returns the lowest id that an action created at Until or later can have, which is the first that does not fit; zero: none.
func (q ActionQuery) To() action.ID { return LowestID(q.Until) }

// LowestID returns the lowest id of a moment, to the millisecond; zero for the zero time. With ids as bounds instead
// of times a database can follow its primary key.
func LowestID(at time.Time) action.ID {
	if at.IsZero() {
		return action.ID{}
	}
	return action.NewID(at, [10]byte{})
}

// Live lists the statuses wanted of actions that have not ended.
func (q ActionQuery) Live() []action.Status { return those(q.Statuses, action.Status.Live) }

// Ended lists the statuses wanted of actions that have ended.
func (q ActionQuery) Ended() []action.Status { return those(q.Statuses, action.Status.Ended) }

// those returns the statuses for which the argument reports true. The query's own slice stays as it is.
func those(some []action.Status, which func(action.Status) bool) []action.Status {
	return slices.DeleteFunc(slices.Clone(some), func(s action.Status) bool { return !which(s) })
}

// Action reads one, live or ended; fault.NoSuchAction when it does not exist or is not retained any more.
func (q *Queue) Action(ctx context.Context, id action.ID) (state ActionState, err error) {
	err = q.read(ctx, "read action "+id.String(), func(tx rows) error {
		state, err = actionState(tx, id)
		return err
	})
	return state, err
}

// actionState reads one action in a transaction, with the errors of Action.
func actionState(tx rows, id action.ID) (ActionState, error) {
	some, err := tx.ActionStates([]action.ID{id}, ActionQuery{})
	if err == nil && len(some) == 0 {
		err = fault.New(fault.NoSuchAction, "action %s not found", id)
	}
	if err != nil {
		return ActionState{}, err
	}
	return some[0], nil
}

// Actions lists by query. Errors: fault.Invalid for a query with an unknown status or phase, or more names than MaxNames;
// fault.Unavailable for readers when too many lists are being read.
func (q *Queue) Actions(ctx context.Context, query ActionQuery) (some []ActionState, err error) {
	if query, err = query.checked(); err != nil {
		return nil, err
	}
	err = q.list(ctx, "read actions", func(tx rows) error {
		some, err = tx.ActionStates(nil, query)
		return err
	})
	return some, err
}

// Events returns an action's history, seq 0 (PENDING when it was stored) first. That event has no row of its own: it is
// computed from the action. fault.NoSuchAction as of Action.
func (q *Queue) Events(ctx context.Context, id action.ID) (events []action.Event, err error) {
	err = q.list(ctx, "read events of action "+id.String(), func(tx rows) error {
		state, err := actionState(tx, id)
		if err != nil {
			return err
		}
		rest, err := tx.Events(id)
		first := action.Event{ActionID: id, Status: action.Pending, At: state.EnqueuedAt, Source: state.CreatedBy}
		events = append([]action.Event{first}, rest...)
		return err
	})
	return events, err
}
