package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// ErrNoPartition is wrapped by the error of a row whose time has no partition. Its code is fault.LedgerUnavailable: instances
// add partitions at their start and hourly, but none for times further back than those that they catch up with.
var ErrNoPartition = errors.New("no partition")

// Partitions is the state of a database's partitions by time.
type Partitions struct {
	Ahead  int      `json:"ahead"` // partitions that are ready beyond the current one
	Pinned []Pinned `json:"pinned,omitempty"`
}

// Pinned is a partition that is older than what is retained, and stays for a live action's sake.
type Pinned struct {
	Name   string    `json:"name"`   // such as action_2026w47
	Action action.ID `json:"action"` // one that lives
}

// Partitions returns the state of a PostgreSQL database's partitions; on SQLite there are none. retention as in Retain.
func (q *Queue) Partitions(ctx context.Context, retention time.Duration) (found Partitions, err error) {
	before, err := q.horizon(ctx, retention)
	if err != nil {
		return Partitions{}, err
	}
	err = store.Call(ctx, "read partitions", func(ctx context.Context) error {
		found, err = q.driver.Partitions(ctx, before)
		return err
	})
	return found, err
}

// horizon returns the moment before which nothing need be kept, by the database's clock; zero: everything is.
func (q *Queue) horizon(ctx context.Context, retention time.Duration) (time.Time, error) {
	if retention <= 0 {
		return time.Time{}, nil
	}
	now, err := store.Now(ctx, q.db)
	return now.Add(-retention), err
}

// archive is the folder below which each week's evidence has one of its own, such as action/2026w47.
const archive = "action"

// piece is the number of rows of a small table that one transaction deletes.
const piece = 500

// forget deletes the idempotency keys and the events that nothing is compared with any more.
func (q *Queue) forget(ctx context.Context) error {
	err := q.deletePieces(ctx, "delete idempotency keys", func(t *txn) (int, error) {
		return t.ForgetRequests(t.Now().Add(-IdempotencyAge), piece)
	})
	if err != nil {
		return err
	}
	return q.deletePieces(ctx, "delete events from the inbox", func(t *txn) (int, error) {
		return t.ForgetInbox(t.Now().Add(-EventAge), piece)
	})
}

// deletePieces deletes a piece at a time, each in a transaction, until one is not full.
func (q *Queue) deletePieces(ctx context.Context, what string, delete func(*txn) (int, error)) error {
	for deleted := piece; deleted == piece; {
		err := q.write(ctx, what, func(t *txn) (err error) {
			deleted, err = delete(t)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Retain deletes idempotency keys and received events that are too old, whatever the retention, and actions older than retention with their
// histories and what the archive has of their weeks. 0: every action is kept. Live actions stay, on PostgreSQL with their
// whole partition. It is called hourly; what was interrupted is finished by the next call. It may take minutes, in many
// transactions, so store.CallTimeout does not bound it.
func (q *Queue) Retain(ctx context.Context, retention time.Duration, stored store.Folders) error {
	if err := q.forget(ctx); err != nil {
		return err
	}
	return q.retainActions(ctx, retention, stored)
}

// retainActions deletes actions that are too old, and what is stored for them. Rows go first: while an action exists, people
// can open what it refers to. One week that cannot be cleared does not keep the rest; their errors are joined.
func (q *Queue) retainActions(ctx context.Context, retention time.Duration, stored store.Folders) error {
	before, err := q.horizon(ctx, retention)
	if err != nil || before.IsZero() {
		return err
	}
	if err := q.driver.Retain(ctx, before); err != nil {
		return fmt.Errorf("delete actions of before %s: %w", before.Format(time.DateOnly), err)
	}
	weeks, err := stored.Folders(ctx, archive)
	if err != nil {
		return err
	}
	var faults []error
	for _, week := range weeks {
		if err := q.clear(ctx, week, before, stored); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// clear deletes a week's archive when it is old enough and nothing is left that it belongs to. Names that are not weeks are left
// alone. An action of a later week may refer to it, too: a retry has the parameters of the action that it repeats.
func (q *Queue) clear(ctx context.Context, week string, before time.Time, stored store.Folders) error {
	from, ok := weekStart(week)
	to := from.AddDate(0, 0, 7)
	if !ok || to.After(before) {
		return nil
	}
	folder := archive + "/" + week
	var holds bool
	err := q.read(ctx, "look for actions of "+week, func(tx rows) (err error) {
		holds, err = tx.HasActions(from, to, folder)
		return err
	})
	if err != nil || holds {
		return err
	}
	return stored.Clear(ctx, folder)
}

// weekStart returns the Monday of an ISO 8601 week such as 2026w47, and false for any other name: Sscanf accepts more than
// the form that is written.
func weekStart(name string) (time.Time, bool) {
	var year, week int
	if n, err := fmt.Sscanf(name, "%4dw%2d", &year, &week); n != 2 || err != nil {
		return time.Time{}, false
	}
	fourth := time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC) // is in week 1
	monday := fourth.AddDate(0, 0, 7*(week-1)-(int(fourth.Weekday())+6)%7)
	y, w := monday.ISOWeek()
	return monday, y == year && w == week && name == fmt.Sprintf("%04dw%02d", y, w)
}
