package queue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// Backlog counts the live actions of one handler.
type Backlog struct {
	Handler  string                `json:"handler"`
	Counts   map[action.Status]int `json:"counts"`            // live actions by status; none: no key
	Ready    int                   `json:"ready"`             // actions that may be claimed now
	Oldest   time.Time             `json:"oldest,omitzero"`   // since when the one that waits longest is ready
	OldestID action.ID             `json:"oldestId,omitzero"` // id of the oldest; only in a Status
	// Free is Oldest without the lanes that are slowed, paused or disabled, whose actions wait on purpose; only in a Status.
	Free time.Time `json:"free,omitzero"`
}

// Live returns how many live actions the handler has.
func (b Backlog) Live() (n int) {
	for _, count := range b.Counts {
		n += count
	}
	return n
}

// Status counts all actions by handler and status, with the instances that work on them.
type Status struct {
	Now       time.Time
	Instances []InstanceRow
	Backlogs  []Backlog      // by handler
	NextDue   time.Time      // earliest time for which a delayed action waits; zero: none does
	Rescues   map[string]int // rescues of the last hour, by the code of their events
	Strain    store.Strain
}

// rescuesFor is the period for which Status counts rescues.
const rescuesFor = time.Hour

// Status counts all actions. It reads every live row once, and of the history only recent rescues. All is read in one state of the
// database, so the numbers agree with each other.
func (q *Queue) Status(ctx context.Context) (s Status, err error) {
	err = q.list(ctx, "read the status", func(tx rows) error {
		s = Status{Now: tx.Now()}
		if s.Instances, err = tx.Instances(); err != nil {
			return err
		}
		if s.Backlogs, err = backlogs(tx); err != nil {
			return err
		}
		if err = waitLongest(tx, s.Backlogs); err != nil {
			return err
		}
		if s.NextDue, err = tx.NextRun(); err != nil {
			return err
		}
		if s.Rescues, err = tx.Rescues(s.Now.Add(-rescuesFor)); err != nil {
			return err
		}
		s.Strain, err = tx.Strain()
		return err
	})
	return s, err
}

// waitLongest adds to backlogs which action waits longest, and since when one waits that its lane lets start.
func waitLongest(tx rows, all []Backlog) error {
	limits, err := limitsOf(tx, nil)
	if err != nil {
		return err
	}
	troubled := map[string][]string{}
	for _, l := range limits {
		if l.Troubled() {
			handler := action.HandlerOf(l.Key)
			troubled[handler] = append(troubled[handler], l.Key)
		}
	}
	for i := range all {
		b := &all[i]
		if b.Ready == 0 {
			continue
		}
		if b.OldestID, err = tx.ReadyAt(b.Handler, b.Oldest); err != nil {
			return err
		}
		switch lanes := troubled[b.Handler]; {
		case len(lanes) == 0:
			b.Free = b.Oldest
		case !slices.Contains(lanes, action.HandlerKey(b.Handler)):
			if b.Free, err = tx.ReadyOutside(b.Handler, lanes); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sample holds regular measurements of the queue, by one of the instances that share the database.
type Sample struct {
	Now        time.Time
	Backlogs   []Backlog
	Strain     store.Strain
	Partitions *Partitions // nil: the database has none, or they were not counted
}

// Sample measures the backlogs and the database's strain. It reads every live row once, and does not fill in Partitions.
func (q *Queue) Sample(ctx context.Context) (s Sample, err error) {
	err = q.read(ctx, "measure the queue", func(tx rows) error {
		s.Now = tx.Now()
		if s.Backlogs, err = backlogs(tx); err != nil {
			return err
		}
		s.Strain, err = tx.Strain()
		return err
	})
	return s, err
}

// BacklogRow counts the live rows of a handler that are alike.
type BacklogRow struct {
	Handler string
	Status  action.Status
	Ready   bool
	Count   int
	Oldest  time.Time // the earliest due time
}

// backlogs counts live rows by handler, in the order of names.
func backlogs(tx rows) ([]Backlog, error) {
	rows, err := tx.Backlogs()
	byHandler := map[string]*Backlog{}
	for _, r := range rows {
		b := byHandler[r.Handler]
		if b == nil {
			b = &Backlog{Handler: r.Handler, Counts: map[action.Status]int{}}
			byHandler[r.Handler] = b
		}
		b.Counts[r.Status] += r.Count
		if r.Ready {
			b.Ready += r.Count
			if b.Oldest.IsZero() || r.Oldest.Before(b.Oldest) {
				b.Oldest = r.Oldest
			}
		}
	}
	var all []Backlog
	for _, b := range byHandler {
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b Backlog) int { return cmp.Compare(a.Handler, b.Handler) })
	return all, err
}
