package ledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// EntryQuery selects entries of one pipeline.
type EntryQuery struct {
	Pipeline   string
	After      int64  // only rows with a greater seq
	Deployment int64  // 0: all
	Target     string // "": all; else the target and everything below it
	Class      pipeline.Class
	Limit      int  // 0: all
	Newest     bool // the last Limit rows, still in ascending order
}

// DeploymentQuery selects deployments, newest first.
type DeploymentQuery struct {
	Pipeline string // "": all
	Revision int64  // 0: all
	Number   int64  // 0: all; needs Pipeline
	Status   pipeline.Status
	Before   int64 // keyset: only numbers below; needs Pipeline
	Limit    int   // 0: all
}

// MaxNames is how many different names an ActionQuery may have.
const MaxNames = 20

// ActionQuery selects actions, newest first. What is left zero selects nothing.
type ActionQuery struct {
	Kind       string
	Name       string
	Names      []string      // any of them
	Phases     []Phase       // any of them
	Shortest   time.Duration // runs or ran at least that long; 0: any time, or none
	Longest    time.Duration // runs or ran at most that long
	Handler    string
	Lane       string
	CreatedBy  string
	Parent     action.ID
	RetryOf    action.ID
	Statuses   []action.Status // any of them
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

// checked returns the query with each status, phase and name once, since every one of them makes the statement longer. A
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

// From is the lowest id that an action created at Since or later can have; zero: none.
func (q ActionQuery) From() action.ID { return LowestID(q.Since) }

// To is the lowest id that an action created at Until or later can have; zero: none.
func (q ActionQuery) To() action.ID { return LowestID(q.Until) }

// LowestID is the smallest id of a moment; zero for none.
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

func those(some []action.Status, which func(action.Status) bool) []action.Status {
	return slices.DeleteFunc(slices.Clone(some), func(s action.Status) bool { return !which(s) })
}

// Heads lists every pipeline's head, by name.
func (l *Ledger) Heads(ctx context.Context) ([]Head, error) { return l.heads(ctx, nil) }

// Head is one of them; fault.NotFound when there is none.
func (l *Ledger) Head(ctx context.Context, name string) (Head, error) {
	heads, err := l.heads(ctx, []string{name})
	if err == nil && len(heads) == 0 {
		err = noPipeline(name)
	}
	if err != nil {
		return Head{}, err
	}
	return heads[0], nil
}

func (l *Ledger) heads(ctx context.Context, names []string) (heads []Head, err error) {
	err = l.read(ctx, "read pipelines", func(tx Tx) error {
		rows, err := tx.Heads(names)
		heads = make([]Head, len(rows))
		for i, r := range rows {
			heads[i] = r.Head
		}
		return err
	})
	return heads, err
}

// Version reads one definition version; 0: the one in force.
func (l *Ledger) Version(ctx context.Context, name string, version int) (v Version, err error) {
	err = l.read(ctx, "read definition of "+name, func(tx Tx) error {
		heads, err := tx.Heads([]string{name})
		if err != nil {
			return err
		}
		if len(heads) == 0 {
			return noPipeline(name)
		}
		if version == 0 {
			version = heads[0].Version
		}
		if version != 0 {
			some, err := tx.Versions(name, version)
			if err != nil {
				return err
			}
			if len(some) > 0 {
				v = some[0]
				return nil
			}
		}
		return fault.New(fault.NotFound, "pipeline %q has no definition %d", name, version)
	})
	return v, err
}

// Versions lists all versions, oldest first.
func (l *Ledger) Versions(ctx context.Context, name string) (some []Version, err error) {
	err = l.list(ctx, "read definitions of "+name, func(tx Tx) error {
		some, err = tx.Versions(name, 0)
		return err
	})
	return some, err
}

// Entries reads the log in the order of seq.
func (l *Ledger) Entries(ctx context.Context, q EntryQuery) (entries []pipeline.Entry, err error) {
	err = l.list(ctx, "read the log of "+q.Pipeline, func(tx Tx) error {
		entries, err = tx.Entries(q)
		return err
	})
	return entries, err
}

// Revision finds a revision by its label, or by its rev_seq when label is "".
func (l *Ledger) Revision(ctx context.Context, name, label string, seq int64) (r Revision, err error) {
	err = l.read(ctx, "read revision", func(tx Tx) error {
		r, err = oneRevision(tx, name, label, seq)
		return err
	})
	return r, err
}

// Revisions lists the newest first; limit 0: all.
func (l *Ledger) Revisions(ctx context.Context, name string, limit int) (some []Revision, err error) {
	err = l.list(ctx, "read revisions of "+name, func(tx Tx) error {
		some, err = tx.Revisions(name, "", 0, limit)
		return err
	})
	return some, err
}

// Deployments lists by query. Status active is what is in progress.
func (l *Ledger) Deployments(ctx context.Context, q DeploymentQuery) (some []Deployment, err error) {
	err = l.list(ctx, "read deployments", func(tx Tx) error {
		some, err = tx.Deployments(q)
		return err
	})
	return some, err
}

// Deployment reads one by number.
func (l *Ledger) Deployment(ctx context.Context, name string, number int64) (Deployment, error) {
	none := fault.New(fault.NotFound, "there is no deployment %s#%d", name, number)
	if number <= 0 {
		return Deployment{}, none
	}
	some, err := l.Deployments(ctx, DeploymentQuery{Pipeline: name, Number: number})
	if err != nil {
		return Deployment{}, err
	}
	if len(some) == 0 {
		return Deployment{}, none
	}
	return some[0], nil
}

// Action reads one; fault.NoSuchAction when there is none.
func (l *Ledger) Action(ctx context.Context, id action.ID) (state ActionState, err error) {
	err = l.read(ctx, "read action "+id.String(), func(tx Tx) error {
		state, err = actionState(tx, id)
		return err
	})
	return state, err
}

func actionState(tx Tx, id action.ID) (ActionState, error) {
	some, err := tx.ActionStates([]action.ID{id}, ActionQuery{})
	if err == nil && len(some) == 0 {
		err = fault.New(fault.NoSuchAction, "there is no action %s", id)
	}
	if err != nil {
		return ActionState{}, err
	}
	return some[0], nil
}

// Actions lists by query.
func (l *Ledger) Actions(ctx context.Context, q ActionQuery) (some []ActionState, err error) {
	if q, err = q.checked(); err != nil {
		return nil, err
	}
	err = l.list(ctx, "read actions", func(tx Tx) error {
		some, err = tx.ActionStates(nil, q)
		return err
	})
	return some, err
}

// Events is an action's history, seq 0 (PENDING when it was stored) first.
func (l *Ledger) Events(ctx context.Context, id action.ID) (events []action.Event, err error) {
	err = l.list(ctx, "read events of action "+id.String(), func(tx Tx) error {
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
