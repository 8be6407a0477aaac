package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// ErrNoPartition is wrapped by the error of a row whose time has no partition. Its code is fault.LedgerUnavailable: instances add partitions at
// their start and hourly, but none for times further back than those that they catch up with.
var ErrNoPartition = errors.New("no partition")

// Partitions is how the time ahead and the time past stand in a database that keeps them apart.
type Partitions struct {
	Ahead  int      `json:"ahead"` // that stand ready beyond the one of now
	Pinned []Pinned `json:"pinned,omitempty"`
}

// Pinned is a partition that is older than what is retained, and stays for a live action's sake.
type Pinned struct {
	Name   string    `json:"name"`   // such as action_2026w47
	Action action.ID `json:"action"` // one that lives
}

// Partitions is the state of a PostgreSQL ledger's partitions; on SQLite there are none. retention as in Retain.
func (l *Ledger) Partitions(ctx context.Context, retention time.Duration) (Partitions, error) {
	ctx, cancel := bounded(ctx, "read partitions")
	defer cancel()
	before, err := l.horizon(ctx, retention)
	if err != nil {
		return Partitions{}, err
	}
	found, err := l.driver.Partitions(ctx, before)
	return found, named(ctx, "read partitions", err)
}

// horizon is the moment before which nothing need be kept; zero: everything is.
func (l *Ledger) horizon(ctx context.Context, retention time.Duration) (time.Time, error) {
	if retention <= 0 {
		return time.Time{}, nil
	}
	now, err := l.Now(ctx)
	return now.Add(-retention), err
}

// Folders are what is stored for actions outside of the ledger; a blob.Store is one.
type Folders interface {
	// Folders lists the names right below a folder.
	Folders(ctx context.Context, folder string) ([]string, error)
	// Clear deletes everything below a folder.
	Clear(ctx context.Context, folder string) error
}

// archive is the folder below which each week's evidence has one of its own, such as action/2026w47.
const archive = "action"

// piece is how many rows of a small table one transaction deletes.
const piece = 500

// forgetRequests deletes the idempotency keys that no request is compared with any more.
func (l *Ledger) forgetRequests(ctx context.Context) error {
	for deleted := piece; deleted == piece; {
		err := l.write(ctx, "delete idempotency keys", func(t *txn) (err error) {
			deleted, err = t.ForgetRequests(t.Now().Add(-IdempotencyAge), piece)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Retain deletes idempotency keys that are too old and uploads that were never registered, whatever the retention, and actions
// older than retention with their histories and what the archive has of their weeks. 0: every action is kept. Live actions
// stay, on PostgreSQL with their whole partition. It is called hourly; what was interrupted is finished by the next call.
func (l *Ledger) Retain(ctx context.Context, retention time.Duration, stored Folders) error {
	if err := l.forgetRequests(ctx); err != nil {
		return err
	}
	return errors.Join(l.retainActions(ctx, retention, stored), l.sweepUploads(ctx, stored))
}

// retainActions deletes actions that are too old, and what is stored for them.
func (l *Ledger) retainActions(ctx context.Context, retention time.Duration, stored Folders) error {
	before, err := l.horizon(ctx, retention)
	if err != nil || before.IsZero() {
		return err
	}
	if err := l.driver.Retain(ctx, before); err != nil {
		return fmt.Errorf("delete actions of before %s: %w", before.Format(time.DateOnly), err)
	}
	weeks, err := stored.Folders(ctx, archive)
	if err != nil {
		return err
	}
	var faults []error
	for _, week := range weeks {
		if err := l.clear(ctx, week, before, stored); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// clear deletes a week's archive when it is old enough and nothing is left that it belongs to.
func (l *Ledger) clear(ctx context.Context, week string, before time.Time, stored Folders) error {
	from, ok := weekStart(week)
	to := from.AddDate(0, 0, 7)
	if !ok || to.After(before) {
		return nil
	}
	folder := archive + "/" + week
	var holds bool
	err := l.read(ctx, "look for actions of "+week, func(tx Tx) (err error) {
		holds, err = tx.HasActions(from, to, folder)
		return err
	})
	if err != nil || holds {
		return err
	}
	return stored.Clear(ctx, folder)
}

// weekStart is the Monday of a week such as 2026w47.
func weekStart(name string) (time.Time, bool) {
	var year, week int
	if n, err := fmt.Sscanf(name, "%4dw%2d", &year, &week); n != 2 || err != nil {
		return time.Time{}, false
	}
	fourth := time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC) // lies in week 1
	monday := fourth.AddDate(0, 0, 7*(week-1)-(int(fourth.Weekday())+6)%7)
	y, w := monday.ISOWeek()
	return monday, y == year && w == week && name == fmt.Sprintf("%04dw%02d", y, w)
}
